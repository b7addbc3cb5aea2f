"""The commands that use locations found by a run of crl-tac: locate, crop."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from viewsmith.cli.errors import writing
from viewsmith.cli.options import Cache, Data, Debug, Label, Labels, Run, Stream, Threads, check_out, load_run_and_data

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
    """Write the locations that a run of crl-tac finds in DATA: boxes in images, windows of sequences, features.

    One row for each location, train rows first. Samples without a location have no row.
    """
    from viewsmith.workflows.locate import locate_to

    check_out(out, data)
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
    """Write crops of images or windows of sequences at the locations that a run of crl-tac finds, as new data."""
    from viewsmith.workflows.locate import crop_to

    check_out(out, data)
    model, dataset = load_run_and_data(run, data, label, labels, threads, stream=stream, cache=cache)
    with writing(out):
        crop_to(out, model, dataset, n)
    typer.echo(str(out))
