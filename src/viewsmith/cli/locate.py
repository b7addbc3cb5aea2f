"""The commands that use locations found by a run of crl-tac or by discover: locate, crop."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from viewsmith.cli.errors import writing
from viewsmith.cli.options import (
    Cache,
    Data,
    Debug,
    Label,
    Labels,
    Run,
    Stream,
    Threads,
    check_out,
    load_run_and_data,
    set_threads,
)

N = Annotated[int, typer.Option("--n", min=1, help="Largest number of locations in a sample.")]


def locate(
    run: Run,
    data: Data,
    out: Annotated[Path, typer.Option(metavar="FILE", help=".csv; for sequences also .bed")],
    n: N = 1,
    label: Label = None,
    labels: Labels = None,
    stream: Stream = False,
    cache: Cache = None,
    threads: Threads = None,
    debug: Debug = False,
) -> None:
    """Write the locations that a run of crl-tac, or discover, finds in DATA: boxes, windows of sequences, features.

    One row for each location, train rows first. Samples without a location have no row.
    """
    from viewsmith.workflows.locate import locate_to
    from viewsmith.workflows.runs import is_discovery

    check_out(out, data)
    if is_discovery(run):
        from viewsmith.workflows.discover import locate_again

        set_threads(threads)
        with writing(out):
            locate_again(out, run, data, n)
        typer.echo(str(out))
        return
    model, dataset = load_run_and_data(run, data, label, labels, threads, stream=stream, cache=cache)
    with writing(out):
        locate_to(out, model, dataset, n)
    typer.echo(str(out))


def crop(
    run: Run,
    data: Data,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="A new folder of images; or .npz; for DNA .fasta")],
    n: N = 1,
    label: Label = None,
    labels: Labels = None,
    stream: Stream = False,
    cache: Cache = None,
    threads: Threads = None,
    debug: Debug = False,
) -> None:
    """Write crops of images or windows of sequences at the locations that a run of crl-tac, or discover, finds."""
    from viewsmith.workflows.locate import crop_to
    from viewsmith.workflows.runs import is_discovery

    check_out(out, data)
    if is_discovery(run):
        from viewsmith.workflows.discover import crop_again

        set_threads(threads)
        with writing(out):
            crop_again(out, run, data, n)
        typer.echo(str(out))
        return
    model, dataset = load_run_and_data(run, data, label, labels, threads, stream=stream, cache=cache)
    with writing(out):
        crop_to(out, model, dataset, n)
    typer.echo(str(out))
