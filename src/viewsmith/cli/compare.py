"""The command compare."""

import dataclasses
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viewsmith.cli import early, options
from viewsmith.cli.errors import echo, writing
from viewsmith.core.errors import InputError, lines_once, say

if TYPE_CHECKING:
    from viewsmith.data import Dataset


@options.with_flags(
    *("labels", "target", "groups", "split_by_groups", "image_size", "modality", *options.OF_RECORDINGS),
    *("columns", "impute", "threads", "debug"),
)
def compare(
    data: options.Data,
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
    baselines: Annotated[
        str, typer.Option(help="[baseline] (comma-separated)")
    ] = "majority,raw,features,pca,untrained",
    seeds: Annotated[int, typer.Option(min=1, help="Trainings of each method, with the seeds 0, 1, ...")] = 3,
    splits: Annotated[
        int | None,
        typer.Option(
            min=1, help="Random splits of data that have none: training i is on split i (default: as many as seeds)."
        ),
    ] = None,
    budget: Annotated[float | None, typer.Option(metavar="MINUTES", help="Time of all trainings together.")] = None,
    protocols: Annotated[
        str | None,
        typer.Option(help="Comma-separated, or all; default: all but the SVM and k-means of rows of length 1."),
    ] = None,
    label: options.LabelColumns = None,
    set_: options.Settings = None,
    json_: options.Json = False,
) -> None:
    """Train several METHODS on DATA with several seeds, and compare them with baselines on test rows."""
    options.check_budget(budget)
    early.check_names("method", options.names(methods), also=["auto", "all"])
    early.check_names("baseline", options.names(baselines))
    scores = None if protocols is None else options.names(protocols)
    early.check_listed(early.PROTOCOLS, "protocol", [] if scores == ["all"] else scores or [])
    early.check_paths(data=data, read=read)
    options.check_out(out, data)
    given = {name: value for name, value in read.items() if name in options.OF_MODEL}
    chosen = methods if methods in ("auto", "all") else options.names(methods)
    pairs = set_ or []
    asked: list[tuple[str | None, list[str]]] = [(name, pairs) for name in chosen]
    if isinstance(chosen, str):  # how the data are read is an option of all methods
        asked = [(None, [pair for pair in pairs if options.of_data([pair])])]
    models = [options.declared_estimator(name, None, None, theirs, given) for name, theirs in asked]
    model = next(iter(models), None)
    columns: list[str | None] = [*dict.fromkeys(label or ())] or [None]
    load = partial(_load, data, read, model, columns)
    with writing(out), lines_once():
        read_first = load(columns[0], 0)  # before the imports, which take seconds
        for name in () if isinstance(chosen, str) else chosen:
            options.declared_estimator(name, None, None, pairs, given, read_first.modality)
        from viewsmith.evaluation.leaderboard import format_comparison
        from viewsmith.workflows.compare import BOARD, compare_methods

        result = compare_methods(
            lambda split: read_first if split == 0 else load(columns[0], split),
            out,
            lambda method, seed, kind: options.make_estimator(
                method, None, None, pairs, given | {"random_state": seed}, kind
            ),
            methods=chosen,
            baselines=options.names(baselines),
            seeds=seeds,
            splits=splits,
            budget=budget,
            protocols=scores,
            further={str(column): partial(load, column) for column in columns[1:]},
        )
    if methods == "auto":
        compared = dict.fromkeys(cell["method"] for cell in result["cells"])
        say(f"compared for {result['modality']}: {', '.join(compared)}; --methods all, or names, for others")
    if json_:
        echo((out / BOARD).read_text(encoding="utf-8").rstrip())
        return
    scored = {columns[0]: result} | result.get("labels_scored", {})
    headings = {column: f"{column}\n\n" if len(columns) > 1 else "" for column in scored}
    echo("\n\n".join(headings[column] + format_comparison(found) for column, found in scored.items()))


def _load(
    data: str, read: dict[str, Any], model: Any, columns: Sequence[str | None], column: str | None, split: int
) -> "Dataset":
    """The data with one of the label columns; all have the same rows and splits, those of the first one."""
    from viewsmith.data.formats import is_table
    from viewsmith.data.sources import read_dataset

    others = [other for other in columns if other != column] if is_table(data) else ()
    given = options.data_options(read, model, label=column, drop=others, split_seed=split)
    try:
        dataset = read_dataset(data, given, split=column == columns[0])
    except InputError as error:  # the other label columns are left out as features
        raise InputError(str(error).replace("given as drop", "given as label")) from error
    if column != columns[0]:
        found: Any = {"y": dataset.y, "label_name": column, "partly_labeled": dataset.partly_labeled}
        return dataclasses.replace(_load(data, read, model, columns, columns[0], split), **found)
    return dataset.in_memory()
