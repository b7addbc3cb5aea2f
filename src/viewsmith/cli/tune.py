"""The command tune."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    assignments,
    make_estimator,
    names,
    read_with,
    roles,
    set_threads,
)
from viewsmith.core.errors import InputError, duplicates

if TYPE_CHECKING:
    from viewsmith.estimator.base import ViewsmithEstimator


def tune(
    data: Data,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for tune.json and best.toml; resumes.")],
    method: Annotated[str | None, typer.Option(help="[method] (contrastive is the default)")] = None,
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
    seed: Annotated[int, typer.Option(min=0, help="Of validation rows, trainings and search.")] = 0,
    config: Annotated[Path | None, typer.Option(metavar="FILE.toml", help="Options from a file.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set an option of all trainings.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    label: Label = None,
    labels: Labels = None,
    target: Target = None,
    groups: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Groups of the rows: whole groups are validation rows.")
    ] = None,
    split_groups: Annotated[bool, typer.Option("--split-groups", help="Whole groups are test rows.")] = False,
    layer: Annotated[str | None, typer.Option(metavar="NAME", help="Layer of an h5ad file instead of X.")] = None,
    use_rep: Annotated[str | None, typer.Option(metavar="KEY", help="obsm key of an h5ad file instead of X.")] = None,
    normalization: Annotated[str | None, typer.Option(help="auto, log or none: raw counts of cells")] = None,
    image_size: ImageSize = None,
    modality: Annotated[str | None, typer.Option(help="[modality] (default: from the data)")] = None,
    drop: Annotated[str, typer.Option(metavar="COLS", help="Columns to leave out, comma-separated.")] = "",
    one_hot: Annotated[str, typer.Option(metavar="COLS", help="Text columns to one-hot encode.")] = "",
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
    """Search options of a method, scored on validation rows, a fifth of the labeled train rows of DATA."""
    from viewsmith.data import load_dataset
    from viewsmith.workflows.tune import BEST, FILE, RESERVED, check_optuna, default_space, format_search, settings
    from viewsmith.workflows.tune import tune as tune_options

    check_optuna()
    if budget is not None and not 0 < budget < float("inf"):
        raise InputError(f"--budget is {budget}, expected a number of minutes above 0")
    fixed = assignments(set_ or [])
    for name in fixed.keys() & RESERVED.keys():
        raise InputError(f"--set {name} has no effect on a search: use {RESERVED[name]}")
    flags: dict[str, Any] = {
        "impute": impute,
        "columns": roles(columns),
        "layer": layer,
        "use_rep": use_rep,
        "normalization": normalization,
    }
    given = {name: value for name, value in flags.items() if value is not None}
    given["random_state"] = seed
    model = make_estimator(method, None, config, set_ or [], given)
    ranges = assignments(search or [], "--search", "KEY=LOW..HIGH or KEY=A,B")
    set_threads(threads)
    dataset = load_dataset(
        data,
        label=label,
        **read_with(model, modality),
        drop=names(drop),
        one_hot=names(one_hot),
        labels=labels,
        target=target,
        image_size=image_size,
        groups=groups,
        split_by_groups=split_groups,
        few_labels=model.supervision != "none",
    )
    if not ranges:
        default = default_space(model.name, dataset.modality)
        ranges = {name: text for name, text in default.items() if name not in settings(model).keys() | fixed.keys()}
    if twice := duplicates([pair.partition("=")[0] for pair in search or []]):
        raise InputError(f"--search has {twice[0]} twice: leave one out")

    def make(values: Mapping[str, Any]) -> ViewsmithEstimator:
        # Only the first training shows its progress, and says what it reads.
        return make_estimator(
            model.name, None, config, set_ or [], given | {"verbose": not values} | dict(values), dataset.modality
        )

    with writing(out):
        result = tune_options(dataset, out, make, ranges, trials=trials, budget=budget, metric=metric, seed=seed)
    if json_:
        typer.echo((out / FILE).read_text(encoding="utf-8").rstrip())
        return
    typer.echo(format_search(result))
    if result["best"] is not None:
        of_data = {
            "--label": label,
            "--labels": labels,
            "--target": target,
            "--groups": groups,
            "--image-size": image_size,
            "--modality": modality,
            "--drop": drop,
            "--one-hot": one_hot,
        }
        words = [str(word) for option, value in of_data.items() if value for word in (option, value)]
        words += ["--split-groups"] * split_groups + ["--seed", str(seed)] * (seed != 0)
        best, labels_of = str(out / "best"), ["--labels", str(labels)] if labels else []
        typer.echo("Train with the best settings on all train rows, and score test rows:")
        typer.echo(f"  viewsmith fit {shlex.join([data, *words, '--config', str(out / BEST), '--out', best])}")
        typer.echo(f"  viewsmith evaluate {shlex.join([best, data, *labels_of])}")
