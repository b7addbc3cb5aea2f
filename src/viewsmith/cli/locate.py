"""The command locate, and what it shares with discover."""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from viewsmith.cli import early
from viewsmith.cli.errors import echo, writing
from viewsmith.cli.options import Data, Run, check_out, flag_of, listed, with_flags
from viewsmith.core.errors import InputError
from viewsmith.data.places import check_crops_path, check_locations_path, check_parts_path, config_of
from viewsmith.methods.discovery.options import DiscoveryOptions, as_flags


@with_flags("label", "labels", "tile", "overlap", "stream", "cache", "threads", "debug")
def locate(
    run: Run,
    data: Data,
    read: dict[str, Any],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help=".csv; for sequences also .bed. With --crops: a new folder of images; or .npz; for sequences .fasta",
        ),
    ],
    crops: Annotated[
        bool, typer.Option("--crops", help="Write what is there: crops of images, windows of sequences.")
    ] = False,
    n: Annotated[
        int | None, typer.Option("--n", min=1, help="Largest number of locations in a sample; default: 1, pieces: all.")
    ] = None,
    max_q: Annotated[
        float | None,
        typer.Option(help="A run of discover: largest q-value of a part, above 0 and at most 1. Default: as fitted."),
    ] = None,
    unjudged: Annotated[bool, flag_of(DiscoveryOptions, "unjudged").__metadata__[0]] = False,
) -> None:
    """Write the locations that a run of crl-tac, or discover, finds in DATA: boxes, windows of sequences, features; or
    what is there.

    One row for each location, train rows first. Samples without a location have no row.
    """
    early.check_paths(run=run, data=data, read=read, file=out)
    check_out(out, data)
    early.check_values(max_q=max_q)
    config = config_of(run)
    if config.get("method") == "discovery":
        modality = str(config.get("modality"))
        check_parts_path(out, modality, crops=crops)
        from viewsmith.data.any_size import read_samples

        with writing(out), flags_of_discovery():
            tiled = {name: read[name] for name in ("tile", "overlap") if name in read}
            samples = read_samples(data, modality, fitted=True, as_before=config.get("read", {}), **tiled)
            from viewsmith.workflows.discover import crop_again, locate_again

            (crop_again if crops else locate_again)(out, run, samples, n, max_q, unjudged)
    elif unjudged:
        raise InputError(f"--unjudged is for a run of discover, and {run} is none: leave it out")
    elif max_q is not None:
        raise InputError(f"--max-q is {max_q}, but {run} is no run of discover, so its locations have none")
    else:
        kind = config.get("fitted", {}).get("modality")
        if kind in listed("modality").split(", "):
            (check_crops_path if crops else check_locations_path)(out, kind)
        model, dataset = early.model_and_data(run, data, read, early.data_of_run(run, data, read))
        from viewsmith.workflows.locate import crop_to, locate_to

        with writing(out):
            (crop_to if crops else locate_to)(out, model, dataset, n or 1)
    echo(str(out))


@contextlib.contextmanager
def flags_of_discovery() -> Iterator[None]:
    """Within the context, messages of discovery name its options as flags."""
    shown = warnings.showwarning

    def show(message: Any, *rest: Any, **further: Any) -> None:
        shown(as_flags(str(message)), *rest, **further)

    warnings.showwarning = show
    try:
        yield
    except InputError as error:
        raise InputError(as_flags(str(error))) from error
    finally:
        warnings.showwarning = shown
