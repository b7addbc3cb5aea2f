"""The report of a run, from its folder and, for figures of data, from its data."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from viewsmith.core import distributed
from viewsmith.core.errors import InputError, warn
from viewsmith.data.dataset import Dataset
from viewsmith.estimator.figures import as_dataset
from viewsmith.reports import Figure, ReportContent, write_report
from viewsmith.training.run import RunFolder
from viewsmith.workflows.runs import custom_part, load_for, load_run, reading_run


def report_content(
    folder: RunFolder,
    *,
    data: Any = None,
    dataset: Dataset | None = None,
    y: Any = None,
    label: str | None = None,
    labels: Path | None = None,
    pictures: bool = False,
    figures: Sequence[Figure] = (),
    custom: Mapping[str, Any] = MappingProxyType({}),
) -> ReportContent:
    """Content of the report of a run (see `report`); figures of its data are given, or made if `pictures`; `custom` are
    parts by argument of `load`, `dataset` are data that were read before the model."""
    with reading_run(folder.path):
        config, summary = folder.read_config(), folder.read_summary()
        source = config.get("data", {}).get("source")
        content: dict[str, Any] = {
            "title": f"{config.get('method', 'run')} on {Path(source or 'arrays').name}",
            "method": str(config.get("method")),
            "config": config,
            "summary": summary,
            "metrics": folder.read_metrics(),
            "warnings": list(summary.get("warnings", [])),
            "evaluation": folder.read_evaluation(),
            "figures": figures,
        }
    if pictures and not folder.model.exists():
        warn("no maps and galleries: the training has not finished")
    elif pictures and not custom and (missing := custom_part(config)):
        line = (
            f"no maps and galleries: the {missing[0]} is custom, which commands cannot load; use Python, "
            f"viewsmith.report({str(folder.path)!r}, X, {missing[0]}={missing[1]})"
        )
        warn(line)
    elif pictures:
        model, rows = load_run(folder.path, custom), None
        try:
            if data is None and source is None:
                raise InputError("the run has no path of its data; give --data")
            is_array = data is not None and not isinstance(data, str | Path)
            of_file: dict[str, Any] = {"label": label, "labels": labels, "dataset": dataset}
            rows = as_dataset(model, data, y) if is_array else load_for(model, data or str(source), **of_file)
            content["figures"] = model.figures(rows.in_memory())
        except InputError as error:
            if rows is None and (data, label, labels) != (None, None, None):  # what was asked for cannot be read
                raise
            warn(f"no maps and galleries: {error}")
    return ReportContent(**content)


def report(
    run: str | os.PathLike[str],
    data: Any = None,
    y: Any = None,
    *,
    label: str | None = None,
    labels: Path | None = None,
    **custom: Any,
) -> Path:
    """Write ``report.html`` of a run, as the command does, also for models with custom parts.

    Parameters
    ----------
    run : path
    data : str, path or array-like, optional
        Data for maps and views; default: the data of the run.
    y : array-like, optional
        Labels of an array, for the colors of maps.
    label, labels : str, path, optional
        Labels of a file, see `viewsmith.data.load_dataset`.
    **custom
        ``encoder``, ``framework``, ``view_maker``, ``family`` or ``features`` as in `viewsmith.load`.

    Returns
    -------
    Path
        Path of the report.

    Raises
    ------
    InputError
        There is no run, it is damaged, or the custom parts are not those of the run; `data` cannot be read.
    """
    return write_run_report(run, data=data, y=y, label=label, labels=labels, pictures=True, custom=custom)


def write_run_report(run: str | os.PathLike[str], **of_data: Any) -> Path:
    """Write the report of a run, in the first process only; `of_data` are arguments of `report_content`."""
    folder = RunFolder(run)
    folder.check_exists()
    if distributed.rank() == 0:
        write_report(folder.report, report_content(folder, **of_data))
    return folder.report
