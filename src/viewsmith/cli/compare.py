"""The command compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from viewsmith.cli.errors import writing
from viewsmith.cli.options import (
    Data,
    Debug,
    ImageSize,
    Label,
    Labels,
    Target,
    Threads,
    make_estimator,
    names,
    read_with,
    roles,
    set_threads,
)


def compare(
    data: Data,
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="Folder for the runs, leaderboard.csv, leaderboard.json and report.html; resumes."
        ),
    ],
    methods: Annotated[
        str, typer.Option(help="[method] (comma-separated), auto: a few for the data and --budget, or all that work")
    ] = "auto",
    baselines: Annotated[str, typer.Option(help="[baseline] (comma-separated)")] = "raw,pca,untrained",
    seeds: Annotated[int, typer.Option(min=1, help="Trainings of each method, with the seeds 0, 1, ...")] = 3,
    splits: Annotated[
        int | None,
        typer.Option(
            min=1, help="Random splits of data that have none: training i is on split i (default: as many as seeds)."
        ),
    ] = None,
    budget: Annotated[float | None, typer.Option(metavar="MINUTES", help="Time of all trainings together.")] = None,
    protocols: Annotated[str | None, typer.Option(help="Comma-separated; default: all.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set an option of all methods.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    label: Label = None,
    labels: Labels = None,
    target: Target = None,
    image_size: ImageSize = None,
    modality: Annotated[str | None, typer.Option(help="[modality] (default: from the data)")] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=ROLE,...", help="Roles of columns of a table: numeric, category, text, date or drop."
        ),
    ] = None,
    impute: Annotated[str | None, typer.Option(help="none or median: what to do with missing values")] = None,
    threads: Threads = None,
    debug: Debug = False,
) -> None:
    """Train several METHODS on DATA with several seeds, and compare them with baselines on test rows."""
    from viewsmith.core.errors import InputError, lines_once, say
    from viewsmith.data import load_dataset
    from viewsmith.evaluation.leaderboard import format_comparison
    from viewsmith.workflows.compare import BOARD, compare_methods

    if budget is not None and not 0 < budget < float("inf"):
        raise InputError(f"--budget is {budget}, expected a number of minutes above 0")
    set_threads(threads)
    common = {"impute": impute, "columns": roles(columns)}
    given = {name: value for name, value in common.items() if value is not None}
    chosen = methods if methods in ("auto", "all") else names(methods)
    # How the data are read is an option of all methods.
    first = None if isinstance(chosen, str) else next(iter(chosen), None)
    model = make_estimator(first, None, None, set_ or [], given)
    read: dict[str, Any] = {"label": label, "labels": labels, "target": target, "image_size": image_size}
    read |= read_with(model, modality)
    with writing(out), lines_once():
        result = compare_methods(
            lambda split: load_dataset(data, split_seed=split, **read).in_memory(),
            out,
            lambda method, seed, kind: make_estimator(
                method, None, None, set_ or [], given | {"random_state": seed}, kind
            ),
            methods=chosen,
            baselines=names(baselines),
            seeds=seeds,
            splits=splits,
            budget=budget,
            protocols=names(protocols) if protocols else None,
        )
    if methods == "auto":
        compared = dict.fromkeys(cell["method"] for cell in result["cells"])
        say(f"compared for {result['modality']}: {', '.join(compared)}; --methods all, or names, for others")
    typer.echo((out / BOARD).read_text(encoding="utf-8").rstrip() if json_ else format_comparison(result))
