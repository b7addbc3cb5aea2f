"""The commands that ask a run of crl-tac where to look: locate, crop."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from viewsmith.cli.errors import writing
from viewsmith.cli.options import Data, Debug, Label, Labels, Run, Threads, load_run_and_data

N = Annotated[int, typer.Option("--n", min=1, help="Places of each sample, at most.")]


def locate(
    run: Run,
    data: Data,
    out: Annotated[Path, typer.Option(metavar="FILE", help=".csv, or .bed of sequences")],
    n: N = 1,
    label: Label = None,
    labels: Labels = None,
    threads: Threads = None,
    debug: Debug = False,
) -> None:
    """Write where a run of crl-tac finds something in DATA: boxes of images, windows of sequences, features.

    A row for each place, train rows first. Samples in which nothing is singled out have none.
    """
    from viewsmith.workflows.locate import locate_to

    model, dataset = load_run_and_data(run, data, label, labels, threads)
    with writing(out):
        locate_to(out, model, dataset, n)
    typer.echo(str(out))


def crop(
    run: Run,
    data: Data,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="A new folder of images; or .npz, or .fasta of DNA")],
    n: N = 1,
    label: Label = None,
    labels: Labels = None,
    threads: Threads = None,
    debug: Debug = False,
) -> None:
    """Write what a run of crl-tac finds in DATA, crops of images or windows of sequences, as data for other methods."""
    from viewsmith.workflows.locate import crop_to

    model, dataset = load_run_and_data(run, data, label, labels, threads)
    with writing(out):
        crop_to(out, model, dataset, n)
    typer.echo(str(out))
