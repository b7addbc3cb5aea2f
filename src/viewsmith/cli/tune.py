"""The command tune."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viewsmith.cli import early, options
from viewsmith.cli.errors import echo, writing
from viewsmith.core.errors import InputError, duplicates
from viewsmith.core.options import parse_range

if TYPE_CHECKING:
    from viewsmith.estimator.base import ViewsmithEstimator


@options.with_flags(
    *("labels", "target", "groups", "split_by_groups", "layer", "use_rep", "normalization", "image_size"),
    *options.OF_RECORDINGS,
    *("modality", "drop", "one_hot", "columns", "impute", "threads", "debug"),
)
def tune(
    data: options.Data,
    read: dict[str, Any],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for tune.json and best.toml; resumes.")],
    method: options.MethodName = None,
    search: Annotated[
        list[str] | None,
        typer.Option(
            "--search", metavar="KEY=RANGE", help="Search an option, LOW..HIGH or A,B,C; default: those of the method."
        ),
    ] = None,
    trials: Annotated[int, typer.Option(min=2, help="Trainings, one with the default settings included.")] = 20,
    budget: Annotated[float | None, typer.Option(metavar="MINUTES", help="Time of all trainings together.")] = None,
    metric: Annotated[
        str | None, typer.Option(help="Score of the validation rows: knn (default), linear, nmi; knn_r2, r2, mae.")
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
    model = options.make_estimator(*asked, given)
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
