"""The report of a run: from its folder, and from its data where pictures are asked for."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from torch import nn

from viewsmith.core.errors import InputError
from viewsmith.data import Dataset
from viewsmith.domains import check_labels
from viewsmith.estimators.base import ViewsmithEstimator
from viewsmith.estimators.build.custom_transforms import FamilyOption
from viewsmith.reports import ReportContent, write_report
from viewsmith.training.run import RunFolder
from viewsmith.workflows.runs import custom_part, load_for, load_run, rebuilding


def report_content(
    folder: RunFolder,
    *,
    data: Any = None,
    y: Any = None,
    label: str | None = None,
    labels: Path | None = None,
    pictures: bool = False,
    own: Mapping[str, Any] = MappingProxyType({}),
) -> ReportContent:
    """Everything a report shows of a run; maps, profiles and galleries need its data and are made on request.

    See `report`; `own` are the parts of the model that no text describes, by argument of `viewsmith.load`.
    """
    with rebuilding(folder.path):
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
        }
    if pictures and not folder.model.exists():
        warnings.warn("no maps and galleries: the training has not ended yet", UserWarning, stacklevel=2)
    elif pictures and not own and (missing := custom_part(config)):
        line = (
            f"no maps and galleries: the {missing[0]} is {missing[1]} of the user's own; in Python, "
            f"viewsmith.report({str(folder.path)!r}, X, {missing[0]}={missing[1].split()[-1]}) draws them"
        )
        warnings.warn(line, UserWarning, stacklevel=2)
    elif pictures:
        model = load_run(folder.path, own)
        try:
            if data is None and source is None:
                raise InputError("the run names no data; give --data")
            given = data is not None and not isinstance(data, str | Path)
            rows = _arrays(model, data, y) if given else load_for(model, str(data or source), label, labels)
            content |= model.figures(rows).by_kind()
        except InputError as error:
            warnings.warn(f"no maps and galleries: {error}", UserWarning, stacklevel=2)
    return ReportContent(**content)


def report(
    run: str | os.PathLike[str],
    data: Any = None,
    y: Any = None,
    *,
    label: str | None = None,
    labels: Path | None = None,
    encoder: nn.Module | None = None,
    framework: nn.Module | None = None,
    view_maker: nn.Module | None = None,
    family: FamilyOption | None = None,
    features: nn.Module | None = None,
) -> Path:
    """Write ``report.html`` of a run, as the command does, also of models with parts that commands cannot make.

    Parameters
    ----------
    run : path
    data : str, path or array-like, optional
        What maps and views are drawn from; default: the data that the run names.
    y : array-like, optional
        Labels of an array, the colors of maps.
    label, labels : str, path, optional
        Of a file, see `viewsmith.data.load_dataset`.
    encoder, framework, view_maker, family, features : optional
        As in `viewsmith.load`.

    Returns
    -------
    Path
        Of the report.

    Raises
    ------
    InputError
        There is no run, or it is damaged, or not of such parts.
    """
    given = {
        "encoder": encoder,
        "framework": framework,
        "view_maker": view_maker,
        "family": family,
        "features": features,
    }
    own = {name: part for name, part in given.items() if part is not None}
    folder = RunFolder(run)
    folder.require()
    content = report_content(folder, data=data, y=y, label=label, labels=labels, pictures=True, own=own)
    write_report(folder.report, content)
    return folder.report


def _arrays(model: ViewsmithEstimator, X: Any, y: Any) -> Dataset:
    """Samples as a data set without a split."""
    x = model.known_rows(X)
    labels = None if y is None else check_labels(np.asarray(y), len(x), "y")
    rows = np.arange(len(x))
    domain, names = model.resolved_.domain, model.resolved_.feature_names or None
    return Dataset(x, labels, rows, None, "none", domain, "arrays", names, {}, None)
