"""The command fit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from viewsmith.cli import early, options
from viewsmith.cli.errors import echo, writing
from viewsmith.core.errors import InputError, quoted
from viewsmith.data.options import GeneratorOptions
from viewsmith.data.places import BUILTIN, file_of

if TYPE_CHECKING:
    from viewsmith.data import Dataset
    from viewsmith.estimator.base import ViewsmithEstimator

ARGUMENTS = "viewsmith.arguments"  # of the context: those given, and those of the run that is resumed


class FitCommand(options.ListingCommand):
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
        left = super().parse_args(ctx, [*saved, *args])
        data = file_of(Path(ctx.params["data"]))[0]
        if not (data.is_absolute() or data.exists() or ctx.params["data"] in BUILTIN or "://" in ctx.params["data"]):
            raise InputError(
                f"{data}, the data of the run {ctx.params['out']}, is not here: resume in the folder in which the run "
                f"was started, or give the path: viewsmith fit PATH --out {quoted(ctx.params['out'])} --resume, with "
                "the options of its start"
            )
        return left


def _saved_arguments(run: Path | None) -> list[str]:
    """The arguments of the command that started a run."""
    from viewsmith.training.run import RunFolder

    saved = RunFolder(run).read_config().get("command") if run is not None else None
    if not isinstance(saved, list):
        raise InputError(f"the run {run} does not say with which arguments it was started: give DATA and the options")
    return [str(each) for each in saved]


@options.with_flags(
    *("label", "labels", "target", "groups", "split_by_groups", "neighbors", "layer", "use_rep", "normalization"),
    *("image_size", "modality", *options.OF_RECORDINGS, "drop", "one_hot", "columns", "strict", "impute"),
    *("stream", "cache", "debug"),
    view_cache=Annotated[str | None, Option(metavar="CACHE", help="Views that `viewsmith generate` made (genview).")],
    features=options.flag_of(GeneratorOptions, "features"),
    framework=Annotated[str | None, Option(help="[framework] (simclr is the default)")],
    encoder=Annotated[str | None, Option(help="[encoder]")],
    view_maker=Annotated[str | None, Option("--views", help="[view maker] (joined by +)")],
    epochs=Annotated[str | None, Option(metavar="N", help="Passes over the rows, or auto.")],
    minutes=Annotated[float | None, Option(help="Stop after this many minutes, preparation included.")],
    batch_size=Annotated[int | None, Option(help="Rows per step.")],
    random_state=Annotated[int | None, Option("--seed", min=0, help="Same seed, same result; default: 0.")],
    device=Annotated[str | None, Option(help="auto, cpu or cuda")],
    precision=Annotated[str | None, Option(help="32 or bf16")],
    checkpoint_every=Annotated[float | None, Option(metavar="SECONDS", help="Time between checkpoints.")],
)
def fit(
    context: typer.Context,
    data: options.Data,
    read: dict[str, Any],
    given: dict[str, Any],
    out: Annotated[Path, Option(metavar="RUN", help="Folder for the run.")],
    method: options.MethodName = None,
    preset: Annotated[str | None, Option(help="paper: the published settings.")] = None,
    config: options.Config = None,
    set_: options.Settings = None,
    resume: Annotated[bool, Option("--resume", help="Resume the run in the folder.")] = False,
    supervise: Annotated[
        str | None,
        Option(metavar="COLUMN", help="Train with the labels or numbers in this column; gaps: -1, NaN, empty."),
    ] = None,
    transductive: Annotated[bool, Option("--transductive", help="Train on all rows.")] = False,
    log: Annotated[
        str | None, Option(help="tensorboard, mlflow or wandb (extra track), several joined by commas.", metavar="NAME")
    ] = None,
    probe: Annotated[
        bool, Option("--probe", help="Score the labels during training; the training does not use them.")
    ] = False,
    processes: Annotated[
        int, Option(min=1, metavar="N", help="Processes of this machine, which share memory; default: 1.")
    ] = 1,
    threads: options.Threads = None,
) -> None:
    """Train on DATA without labels, and save the run in a folder; --out RUN --resume alone resumes a run."""
    # Refused before torch is imported, and before the data are read.
    early.check_names("method", [method])
    early.check_names("framework", [given.get("framework")])
    early.check_names("encoder", [given.get("encoder")], also=["auto"])
    early.check_names("view maker", str(given.get("view_maker", "auto")).split("+"), also=["auto"])
    early.check_values(**given)
    early.check_listed(early.PRESETS, "preset", [] if preset is None else [preset], number="")
    early.check_listed(early.TRACKERS, "logger (--log)", [] if log is None else options.names(log))
    options.label_column(read.get("label"), supervise)
    options.assignments(set_ or [])
    if config is not None:
        options.config_file(config)
        if read.get("label") is None and supervise is None:
            options.warn_of_label(config)
    with writing(out):
        early.check_paths(data=data, read=read, new_run=out)
    if processes > 1:
        from viewsmith.core.distributed import fork_processes

        fork_processes(processes)
    given |= {name: value for name, value in read.items() if name in options.OF_MODEL}
    given |= {} if log is None else {"callbacks": options.names(log)}
    given |= {} if supervise is None else {"supervision": "labels"}
    asked = (method, preset, config, set_ or [], given)
    model = options.declared_estimator(*asked)
    from viewsmith.data.sources import read_dataset

    options.set_threads(threads)
    read["label"] = options.label_column(read.get("label"), supervise)
    few = model.supervision != "none"
    dataset = read_dataset(data, options.data_options(read, model, out, few_labels=few))
    if supervise is not None and dataset.target == "number":
        given["supervision"] = "numbers"
    told = dataset.modality, dataset.x.shape[1:]
    options.declared_estimator(*asked, *told)
    from viewsmith.workflows.runs import already_finished, data_record, given_digest

    model = options.make_estimator(*asked, *told)
    if probe:
        from viewsmith.evaluation import OnlineProbe

        if transductive or dataset.y_train is None:
            raise InputError("--probe needs labels of the training rows, and no --transductive: leave it out")
        model.callbacks = [OnlineProbe(dataset.y_train), *(model.callbacks or [])]
    record = data_record(dataset, transductive) | {"command": context.meta[ARGUMENTS]}
    if not already_finished(model, out, record, given_digest(model, dataset, transductive), resume=resume):
        first = _train(model, dataset, out, transductive, resume=resume, context=record)
        _say_what_is_next(model, out, data, dataset, first, read)
    else:
        echo(str(out))


def _train(model: ViewsmithEstimator, dataset: Dataset, out: Path, transductive: bool, **of_run: Any) -> bool:
    """Fit the model in all processes, and write the run and its report; whether this is the first process."""
    from viewsmith.core import distributed
    from viewsmith.estimator.figures import transformed
    from viewsmith.workflows.runs import fit_dataset, process_group, removed_on_error, write_run_report

    with process_group(model.device), removed_on_error(out), writing(out):
        fit_dataset(model, dataset, transductive, run=out, **of_run)
        # The other figures take longer: `viewsmith report` makes them.
        tested = transformed(model.facts_.symmetries, dataset)
        write_run_report(out, figures=() if tested is None else (tested,))
        return distributed.rank() == 0


def _say_what_is_next(
    model: ViewsmithEstimator, out: Path, data: str, dataset: Dataset, first: bool, read: dict[str, Any]
) -> None:
    if first:
        run, masks = quoted(out), "" if read.get("masks") is None else f" --masks {quoted(read['masks'])}"
        given = "" if read.get("labels") is None else f" --labels {quoted(read['labels'])}"
        scored = f"`viewsmith evaluate {run} {quoted(data)}{given}{masks}`, " if dataset.y is not None else ""
        embedded = f"`viewsmith embed {run} {quoted(data)}{masks} --out h.npz`"
        line = f"next: open {out / 'report.html'}, {scored}{embedded}"
        if model.status_ != "finished":
            # The minutes include those before: with as many, a resumed training would end at once.
            more = f" --minutes {2 * model.minutes:g}" if model.status_ == "time limit" and model.minutes else ""
            line = f"{model.status_}: resume with `viewsmith fit --out {run} --resume{more}`"
        echo(line, err=True)
        echo(str(out))
    if model.status_ == "interrupted":
        raise typer.Exit(130)
