"""The command fit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from viewsmith.cli.errors import writing
from viewsmith.cli.options import (
    Cache,
    Data,
    Debug,
    Features,
    ImageSize,
    Label,
    Labels,
    ListingCommand,
    Stream,
    Target,
    Threads,
    label_column,
    make_estimator,
    names,
    read_with,
    roles,
    set_threads,
    storage,
)
from viewsmith.cli.use import write_run_report
from viewsmith.core.errors import InputError

ARGUMENTS = "viewsmith.arguments"  # of the context: those given, and those of the run that is resumed


class FitCommand(ListingCommand):
    """`fit --out RUN --resume` alone takes the other arguments from the run."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[ARGUMENTS] = list(args)
        try:
            return super().parse_args(ctx, list(args))
        except typer.TyperException as error:
            if getattr(getattr(error, "param", None), "name", None) != "data" or "--resume" not in args:
                raise
            saved = _saved_arguments(ctx.params.get("out"))
        ctx.meta[ARGUMENTS] = [*saved, *args]
        return super().parse_args(ctx, [*saved, *args])


def _saved_arguments(run: Path | None) -> list[str]:
    """The arguments of the command that started a run."""
    from viewsmith.training.run import RunFolder

    saved = RunFolder(run).read_config().get("command") if run is not None else None
    if not isinstance(saved, list):
        raise InputError(f"the run {run} does not say with which arguments it was started: give DATA and the options")
    return [str(each) for each in saved]


def fit(
    context: typer.Context,
    data: Data,
    out: Annotated[Path, typer.Option(metavar="RUN", help="Folder for the run.")],
    method: Annotated[str | None, typer.Option(help="[method] (contrastive is the default)")] = None,
    view_cache: Annotated[
        str | None, typer.Option(metavar="CACHE", help="Views that `viewsmith generate` made (genview).")
    ] = None,
    features: Features = None,
    framework: Annotated[str | None, typer.Option(help="[framework] (simclr is the default)")] = None,
    encoder: Annotated[str | None, typer.Option(help="[encoder]")] = None,
    views: Annotated[str | None, typer.Option(help="[view maker] (joined by +)")] = None,
    epochs: Annotated[str | None, typer.Option(metavar="N", help="Passes over the rows, or auto.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Stop after this many minutes of training.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows per step.")] = None,
    preset: Annotated[str | None, typer.Option(help="paper: the published settings.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Same seed, same result; default: 0.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda")] = None,
    precision: Annotated[str | None, typer.Option(help="32 or bf16")] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE.toml", help="Options from a file.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set an option of the method or its parts.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in the folder.")] = False,
    neighbors: Annotated[
        str | None, typer.Option(metavar="KEY", help="Neighbor graph in obsp of an h5ad file, in place of a search.")
    ] = None,
    label: Label = None,
    labels: Labels = None,
    target: Target = None,
    supervise: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Train with the labels or numbers in this column; gaps: -1, NaN, empty."),
    ] = None,
    groups: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Groups of the rows: batches, subjects, plates.")
    ] = None,
    split_groups: Annotated[bool, typer.Option("--split-groups", help="Whole groups are test rows.")] = False,
    layer: Annotated[str | None, typer.Option(metavar="NAME", help="Layer of an h5ad file instead of X.")] = None,
    use_rep: Annotated[str | None, typer.Option(metavar="KEY", help="obsm key of an h5ad file instead of X.")] = None,
    normalization: Annotated[
        str | None, typer.Option(help="auto, log or none: raw counts of cells are log-normalized (auto)")
    ] = None,
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
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse a table with columns that are not numbers, or missing values.")
    ] = False,
    impute: Annotated[str | None, typer.Option(help="none or median: what to do with missing values")] = None,
    transductive: Annotated[bool, typer.Option("--transductive", help="Train on all rows.")] = False,
    checkpoint_every: Annotated[float | None, typer.Option(metavar="SECONDS", help="Time between checkpoints.")] = None,
    log: Annotated[
        str | None,
        typer.Option(help="tensorboard, mlflow or wandb (extra track), several joined by commas.", metavar="NAME"),
    ] = None,
    probe: Annotated[
        bool, typer.Option("--probe", help="Score the labels during training; the training does not use them.")
    ] = False,
    processes: Annotated[
        int, typer.Option(min=1, metavar="N", help="Processes of this machine, which share memory; default: 1.")
    ] = 1,
    stream: Stream = False,
    cache: Cache = None,
    threads: Threads = None,
    debug: Debug = False,
) -> None:
    """Train on DATA without labels, and save the run in a folder; --out RUN --resume alone resumes a run."""
    from viewsmith.core import distributed
    from viewsmith.core.distributed import fork_processes
    from viewsmith.data import load_dataset
    from viewsmith.evaluation import OnlineProbe
    from viewsmith.training.run import RunFolder
    from viewsmith.workflows.runs import (
        already_finished,
        data_record,
        given_digest,
        groups_to_fit,
        process_group,
        removed_on_error,
    )

    if processes > 1:
        fork_processes(processes)
    flags = {
        "view_cache": view_cache,
        "features": features,
        "framework": framework,
        "encoder": encoder,
        "view_maker": views,
        "epochs": epochs,
        "minutes": minutes,
        "batch_size": batch_size,
        "random_state": seed,
        "impute": impute,
        "columns": roles(columns),
        "strict": strict or None,
        "layer": layer,
        "use_rep": use_rep,
        "normalization": normalization,
        "device": device,
        "precision": precision,
        "checkpoint_every": checkpoint_every,
        "callbacks": None if log is None else names(log),
        "supervision": None if supervise is None else "labels",
    }
    given = {key: value for key, value in flags.items() if value is not None}
    model = make_estimator(method, preset, config, set_ or [], given)
    with writing(out):
        RunFolder(out).check_free()  # before the data are read
    set_threads(threads)
    dataset = load_dataset(
        data,
        label=label_column(label, supervise),
        **read_with(model, modality),
        drop=names(drop),
        one_hot=names(one_hot),
        labels=labels,
        target=target,
        image_size=image_size,
        neighbors=neighbors,
        **storage(out, stream, cache),
        groups=groups,
        split_by_groups=split_groups,
        few_labels=model.supervision != "none",
    )
    if supervise is not None and dataset.target == "number":
        given["supervision"] = "numbers"
    model = make_estimator(method, preset, config, set_ or [], given, dataset.modality)
    if probe:
        labels_of_training = None if transductive else dataset.y_train
        if labels_of_training is None:
            raise InputError("--probe needs labels of the training rows, and no --transductive: leave it out")
        model.callbacks = [OnlineProbe(labels_of_training), *(model.callbacks or [])]
    record = data_record(dataset, transductive) | {"command": context.meta[ARGUMENTS]}
    if already_finished(model, out, record, given_digest(model, dataset, transductive), resume=resume):
        typer.echo(str(out))
        return
    with process_group(model.device), removed_on_error(out), writing(out):
        y = dataset.fit_labels(transductive, numbers=model.supervision == "numbers") if model.reads_labels() else None
        rows, graph = dataset.fit_rows(transductive), dataset.fit_neighbors(transductive)
        of_rows = {"neighbors": graph, "groups": groups_to_fit(model, dataset, transductive)}
        model.fit(rows, y, **of_rows, run=out, resume=resume, context=record)
        write_run_report(out)
        is_first = distributed.rank() == 0
    if model.status_ != "finished" and is_first:
        typer.echo(f"{model.status_}: resume with `viewsmith fit --out {out} --resume`", err=True)
    elif is_first:
        scored = f"`viewsmith evaluate {out} {data}`, " if dataset.y is not None else ""
        typer.echo(f"next: open {out / 'report.html'}, {scored}`viewsmith embed {out} {data} --out h.npz`", err=True)
    if is_first:
        typer.echo(str(out))
    if model.status_ == "interrupted":
        raise typer.Exit(130)
