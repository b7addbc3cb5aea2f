"""The commands that score: evaluate, compare, tune."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from viewsmith.cli import early, options
from viewsmith.cli.errors import echo, writing
from viewsmith.core.errors import InputError, duplicates, join_names, lines_once, say, warn
from viewsmith.core.registry import find, parse_range
from viewsmith.estimator.options import OF_TRAINING

if TYPE_CHECKING:
    from viewsmith.data import Dataset
    from viewsmith.estimator.base import ViewsmithEstimator


@options.with_flags("labels", "masks", "target", "stream", "cache", "threads", "debug")
def evaluate(
    run: options.Run,
    data: options.Data,
    read: dict[str, Any],
    json_: options.Json = False,
    umap: Annotated[bool, Option("--umap", help="Also compare with UMAP (extra viz).")] = False,
    protocols: Annotated[str | None, Option(help="Comma-separated; default: all.")] = None,
    label: options.LabelColumns = None,
) -> None:
    """Compare the representation with raw and fixed features, PCA and the untrained encoder; refresh the report."""
    early.check_paths(run=run, data=data, read=read)
    scores = options.names(protocols) if protocols else None
    early.check_listed(early.PROTOCOLS, "protocol", scores or ())
    results: dict[str | None, dict[str, Any]] = {}
    shown: tuple[Any, Any] | None = None
    for column in label or (None,):
        model, dataset = early.model_and_data(run, data, {**read, "label": column}, labeled=True)
        from viewsmith.data.dataset import SCORED_ROWS
        from viewsmith.estimator.inputs import labels_used
        from viewsmith.evaluation.compare import compare

        sample = dataset.in_memory(SCORED_ROWS)
        result = compare(model, sample, umap=umap, protocols=scores, label_used=labels_used(model))
        if len(sample.x) < len(dataset.x):
            result["rows"]["sampled_from"] = len(dataset.x)
        results[column], shown = result, shown or (model, sample)
    from viewsmith.core.files import json_text, write_json_atomic
    from viewsmith.evaluation.compare import format_table
    from viewsmith.reports.verdict import caveat, verdict
    from viewsmith.training.run import RunFolder
    from viewsmith.workflows.runs import write_run_report

    first, *others = results.values()
    if others:  # the report shows the first label
        first = first | {"labels_scored": results}
    try:
        with writing(RunFolder(run).evaluation):
            write_json_atomic(RunFolder(run).evaluation, first)
        with writing(RunFolder(run).report):
            write_run_report(run, figures=_figures(*shown) if shown else ())
    except PermissionError as error:  # of somebody else: the scores are shown
        warn(f"{error.filename} is not written ({error.strerror}): copy the run to keep its scores")
    if json_:
        echo(json_text(first))
        return
    for column, scored in results.items():
        heading = f"{column}\n\n" if others else ""
        limits = caveat(None if scored.get("target") == "number" else scored["rows"]["test"])
        echo(f"{heading}{format_table(scored)}\n\n{verdict(scored)}\n{limits}")


def _figures(model: Any, dataset: Any) -> list[Any]:
    """Maps and galleries of a report, or none, with a warning, if these data have none."""
    try:
        return model.figures(dataset)
    except InputError as error:
        warn(f"no maps and galleries in the report: {error}")
        return []


@options.with_flags(
    *("labels", "target", "groups", "split_by_groups", "image_size", "modality", *options.OF_RECORDINGS),
    *("columns", "impute", "threads", "debug"),
)
def compare(
    data: options.Data,
    read: dict[str, Any],
    out: Annotated[
        Path,
        Option(metavar="DIR", help="Folder for the runs, leaderboard.csv, leaderboard.json and report.html; resumes."),
    ],
    methods: Annotated[
        str, Option(help="[method] (comma-separated), auto: a few for the data and --budget, or all that work")
    ] = "auto",
    baselines: Annotated[str, Option(help="[baseline] (comma-separated)")] = "majority,raw,features,pca,untrained",
    seeds: Annotated[int, Option(min=1, help="Trainings of each method, with the seeds 0, 1, ...")] = 3,
    splits: Annotated[
        int | None,
        Option(
            min=1, help="Random splits of data that have none: training i is on split i (default: as many as seeds)."
        ),
    ] = None,
    budget: Annotated[float | None, Option(metavar="MINUTES", help="Time of all trainings together.")] = None,
    protocols: Annotated[
        str | None, Option(help="Comma-separated, or all; default: all but the SVM and k-means of rows of length 1.")
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
    options.check_out(out, data, read)
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
                method, None, None, _settings_of(method, chosen, pairs), given | {"random_state": seed}, kind
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


def _settings_of(method: str, chosen: Sequence[str] | str, pairs: list[str]) -> list[str]:
    """The settings, without those of a training for a method that has none, if it is compared with others."""
    build: Any = find("method", method).build
    if list(chosen) == [method] or build.trains:
        return pairs
    left_out = [pair for pair in pairs if pair.partition("=")[0].strip() in OF_TRAINING]
    if left_out:
        names = join_names([pair.partition("=")[0].strip() for pair in left_out], "and")
        say(f"{method} trains no network, and is compared without {names}")
    return [pair for pair in pairs if pair not in left_out]


def _load(
    data: str, read: dict[str, Any], model: Any, columns: Sequence[str | None], column: str | None, split: int
) -> Dataset:
    """The data with one of the label columns; all have the same rows and splits, those of the first one."""
    from viewsmith.data.reading import is_table
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


@options.with_flags(
    *("labels", "target", "groups", "split_by_groups", "layer", "use_rep", "normalization", "image_size"),
    *options.OF_RECORDINGS,
    *("modality", "drop", "one_hot", "columns", "impute", "threads", "debug"),
)
def tune(
    data: options.Data,
    read: dict[str, Any],
    out: Annotated[Path, Option(metavar="DIR", help="Folder for tune.json and best.toml; resumes.")],
    method: options.MethodName = None,
    search: Annotated[
        list[str] | None,
        Option(
            "--search", metavar="KEY=RANGE", help="Search an option, LOW..HIGH or A,B,C; default: those of the method."
        ),
    ] = None,
    trials: Annotated[int, Option(min=2, help="Trainings, one with the default settings included.")] = 20,
    budget: Annotated[float | None, Option(metavar="MINUTES", help="Time of all trainings together.")] = None,
    metric: Annotated[
        str | None, Option(help="Score of the validation rows: knn (default), linear, nmi; knn_r2, r2, mae.")
    ] = None,
    label: options.LabelColumns = None,
    seed: options.Seed = 0,
    config: options.Config = None,
    set_: options.Settings = None,
    json_: options.Json = False,
) -> None:
    """Search options of a method, scored on validation rows, a fifth of the labeled train rows of DATA.

    With --groups, whole groups are validation rows.
    """
    options.check_budget(budget)
    options.assignments(set_ or [])
    ranges = options.assignments(search or [], "--search", "KEY=LOW..HIGH or KEY=A,B")
    for name, text in ranges.items():
        parse_range(name, text)
    if config is not None:
        options.config_file(config)
    early.check_names("method", [method])
    early.check_paths(data=data, read=read)
    if label and len(label) > 1:
        raise InputError(
            f"{len(label)} label columns are given, but a search has one score: give one --label, and score the best "
            "settings with others by `evaluate`"
        )
    read = ({} if label is None else {"label": label[0]}) | read
    given = {name: value for name, value in read.items() if name in options.OF_MODEL} | {"random_state": seed}
    asked = (method, None, config, set_ or [])
    declared = options.declared_estimator(*asked, given)
    if not ranges.keys() & {"framework", "encoder", "view_maker", "features"}:  # parts with other options
        for name, text in ranges.items():
            options.declared_estimator(*asked, given | {name: parse_range(name, text)[0]})
    from viewsmith.data.sources import read_dataset

    few = declared.supervision != "none"
    dataset = read_dataset(data, options.data_options(read, declared, few_labels=few))
    from viewsmith.workflows.tune import BEST, FILE, RESERVED, check_optuna, default_space, format_search, settings
    from viewsmith.workflows.tune import tune as tune_options

    check_optuna()
    fixed = options.option_names(options.assignments(set_ or []))
    for name in fixed & RESERVED.keys():
        raise InputError(f"--set {name} has no effect on a search: use {RESERVED[name]}")
    # The method that `fit` would take, unless an option of a training is searched.
    trained = not ranges.keys().isdisjoint({*OF_TRAINING, "framework", "encoder"})
    model = options.make_estimator(*asked, given, *(() if trained else (dataset.modality, dataset.x.shape[1:])))
    if not ranges:
        default = default_space(model.name, dataset.modality)
        ranges = {name: text for name, text in default.items() if name not in settings(model).keys() | fixed}
    if twice := duplicates([pair.partition("=")[0] for pair in search or []]):
        raise InputError(f"--search has {twice[0]} twice: leave one out")

    def make(values: Mapping[str, Any]) -> ViewsmithEstimator:
        # Only the first training shows its progress, and says what it reads.
        values = given | {"verbose": not values} | dict(values)
        return options.make_estimator(model.name, None, config, set_ or [], values, dataset.modality)

    with writing(out):
        result = tune_options(dataset, out, make, ranges, trials=trials, budget=budget, metric=metric, seed=seed)
    if json_:
        echo((out / FILE).read_text(encoding="utf-8").rstrip())
        return
    echo(format_search(result))
    if result["best"] is not None:
        _say_what_is_next(data, read, out, BEST, seed)


def _say_what_is_next(data: str, read: Mapping[str, Any], out: Path, settings: str, seed: int) -> None:
    words = options.as_arguments({name: value for name, value in read.items() if name not in options.OF_MODEL})
    words += ["--seed", str(seed)] * (seed != 0)
    best, labels = str(out / "best"), options.as_arguments({name: read[name] for name in read.keys() & {"labels"}})
    echo("Train with the best settings on all train rows, and score test rows:")
    echo(f"  viewsmith fit {shlex.join([data, *words, '--config', str(out / settings), '--out', best])}")
    echo(f"  viewsmith evaluate {shlex.join([best, data, *labels])}")
