"""The command report, and the report of a run, which fit and evaluate write, too."""

from pathlib import Path
from typing import Annotated, Any

import typer

from viewsmith.cli import early, options
from viewsmith.cli.errors import echo
from viewsmith.data.places import config_of


@options.with_flags("label", "labels", "threads", "debug")
def report(
    run: options.Run,
    read: dict[str, Any],
    data: Annotated[str | None, typer.Option(metavar="DATA", help="Default: the data of the run.")] = None,
) -> None:
    """Write RUN/report.html with curves, diagnostics, comparison and maps."""
    early.check_paths(run=run, data=data, read=read)
    given = data or (config_of(run).get("data", {}).get("source") if read else None)
    dataset = None if given is None else early.data_of_run(run, given, read)
    echo(str(write_run_report(run, data=data, dataset=dataset, pictures=True, **read)))


def write_run_report(run: Path, **of_data: Any) -> Path:
    """Write the report of a run, in the first process only; `of_data` are arguments of `report_content`."""
    from viewsmith.core import distributed
    from viewsmith.reports import write_report
    from viewsmith.training.run import RunFolder
    from viewsmith.workflows.report import report_content

    folder = RunFolder(run)
    folder.check_exists()
    if distributed.rank() == 0:
        write_report(folder.report, report_content(folder, **of_data))
    return folder.report
