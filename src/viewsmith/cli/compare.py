"""The command compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from viewsmith.cli.errors import writing
from viewsmith.cli.options import (
    OF_MODEL,
    Data,
    Json,
    Settings,
    check_budget,
    data_options,
    make_estimator,
    names,
    with_flags,
)


@with_flags("label", "labels", "target", "image_size", "modality", "columns", "impute", "threads", "debug")
def compare(
    data: Data,
    read: dict[str, Any],
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
    set_: Settings = None,
    json_: Json = False,
) -> None:
    """Train several METHODS on DATA with several seeds, and compare them with baselines on test rows."""
    from viewsmith.core.errors import lines_once, say
    from viewsmith.data.sources import read_dataset
    from viewsmith.evaluation.leaderboard import format_comparison
    from viewsmith.workflows.compare import BOARD, compare_methods

    check_budget(budget)
    given = {name: value for name, value in read.items() if name in OF_MODEL}
    chosen = methods if methods in ("auto", "all") else names(methods)
    # How the data are read is an option of all methods.
    first = None if isinstance(chosen, str) else next(iter(chosen), None)
    model = make_estimator(first, None, None, set_ or [], given)
    with writing(out), lines_once():
        result = compare_methods(
            lambda split: read_dataset(data, data_options(read, model, split_seed=split)).in_memory(),
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
