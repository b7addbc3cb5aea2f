"""The command symmetries: which transformations keep samples among the samples of the data."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from viewsmith.cli.options import Data, Debug, ImageSize, Label, Labels, Threads, set_threads


def symmetries(
    data: Data,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    label: Label = None,
    labels: Labels = None,
    image_size: ImageSize = None,
    domain: Annotated[str | None, typer.Option(help="[domain] (default: from the data)")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the rows and of the folds.")] = 0,
    threads: Threads = None,
    debug: Debug = False,
) -> None:
    """Test without labels which transformations of DATA are safe as views: mirror, turns, reverse complement.

    A transformation is off the data if transformed samples are far from all other samples, and a classifier tells them
    apart from the samples. Only train rows are read; labels are not.
    """
    from viewsmith.data import load_dataset
    from viewsmith.evaluation.symmetries import symmetries as tested

    set_threads(threads)
    path = None if labels is None else Path(labels)
    dataset = load_dataset(data, label=label, labels=path, image_size=image_size, domain=domain)
    found = tested(dataset.x_train, dataset.domain, seed=seed)
    if json_:
        typer.echo(json.dumps([asdict(test) | {"on_the_data": test.on_the_data} for test in found], indent=2))
        return
    for test in found:
        typer.echo(test.describe())
