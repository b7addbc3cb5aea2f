"""The command report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from viewsmith.cli.options import Debug, Label, Labels, Run, Threads, set_threads


def report(
    run: Run,
    data: Annotated[str | None, typer.Option(metavar="DATA", help="Default: the data of the run.")] = None,
    label: Label = None,
    labels: Labels = None,
    threads: Threads = None,
    debug: Debug = False,
) -> None:
    """Write RUN/report.html with curves, diagnostics, comparison and maps."""
    set_threads(threads)
    typer.echo(str(write_run_report(run, data=data, label=label, labels=labels, pictures=True)))


def write_run_report(
    run: Path,
    *,
    data: str | None = None,
    label: str | None = None,
    labels: Path | None = None,
    pictures: bool = False,
) -> Path:
    """Write the report of a run, in the first process only; returns its path."""
    from viewsmith.core import distributed
    from viewsmith.reports import write_report
    from viewsmith.training.run import RunFolder
    from viewsmith.workflows.report import report_content

    folder = RunFolder(run)
    folder.check_exists()
    if distributed.rank() == 0:
        write_report(folder.report, report_content(folder, data=data, label=label, labels=labels, pictures=pictures))
    return folder.report
