"""Several methods on one data set, with the same seeds, rows and protocol."""

from __future__ import annotations

import math
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, StoppedEarly
from viewsmith.core.files import write_json_atomic
from viewsmith.core.messages import join_names
from viewsmith.core.registry import names
from viewsmith.data import Dataset
from viewsmith.estimators.base import ViewsmithEstimator
from viewsmith.estimators.given.labels import labels_used
from viewsmith.evaluation.compare import check_split, compare
from viewsmith.evaluation.level import TIES, level_rows
from viewsmith.evaluation.protocol import check_protocols
from viewsmith.evaluation.scored_rows import scored_rows
from viewsmith.evaluation.text_table import WIDTH, aligned, in_blocks, marked
from viewsmith.training.run import RunFolder
from viewsmith.workflows.runs import (
    already_finished,
    data_record,
    given_digest,
    load_run,
    removed_on_error,
    warnings_once,
)

Scores = dict[str, dict[str, float]]
#: Protocols that decide which rows are level with the best ones everywhere: few labels, many, neighbors and clusters.
MAIN = ("linear_1pct", "linear", "knn", "kmeans_accuracy")


def compare_methods(
    dataset: Dataset,
    out: Path,
    make: Callable[[str, int], ViewsmithEstimator],
    *,
    methods: Sequence[str],
    baselines: Sequence[str] = ("raw", "pca", "untrained"),
    seeds: int = 3,
    budget: float | None = None,
    protocols: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Train every method with every seed, score all with one protocol, and write ``compare.json``.

    Training uses the train rows. A cell, a method with a seed, is a run folder ``METHOD-SEED`` in `out`. Cells with an
    evaluation are not repeated, so that the same call resumes.

    Parameters
    ----------
    dataset : Dataset
        With labels and test rows.
    out : Path
    make : callable
        From the name of a method and a seed to an estimator that is not fitted.
    methods : sequence of str
    baselines : sequence of str
        Names of registered baselines. "untrained" is a row for each method; the others have no seed and are computed
        once, from the inputs of the first method.
    seeds : int
        The seeds are 0 to ``seeds - 1``.
    budget : float, optional
        Minutes of all trainings; what is left is divided equally among the cells that are left. Default: no limit.
    protocols : sequence of str, optional
        See `viewsmith.evaluation.PROTOCOLS`; default: all.

    Returns
    -------
    dict
        Plain values: ``rows`` (by table row and protocol: ``mean``, ``deviation`` (of seeds, None with one), and
        ``values`` by seed), ``differences`` (of each method and baseline, paired by seed: ``mean``, ``deviation``, and
        ``p`` of a paired t-test, None where it is not defined), ``cells`` (method, seed, status and seconds of
        training), ``level`` (by protocol, the rows that are level with the best one, see `viewsmith.evaluation.level`;
        cheapest first: baselines, then methods by their time of training), ``level_everywhere`` (those that are at all
        protocols of `MAIN`), ``protocols``, ``seeds``, ``test_rows``, ``data``.

    Raises
    ------
    InputError
        Unknown names, a folder with runs of other settings or data, data without labels or test rows.
    StoppedEarly
        A signal has stopped a training; the same call resumes.
    """
    selected = check_protocols(protocols)
    check_split(dataset)
    for kind, given in (("method", methods), ("baseline", baselines)):
        if unknown := [name for name in given if name not in names(kind)]:  # type: ignore[arg-type]
            raise InputError(f"unknown {kind} {unknown[0]!r}, expected {join_names(names(kind))}")  # type: ignore[arg-type]
    if not methods:
        raise InputError("no method is given, expected at least one")
    pairs = [(method, seed) for seed in range(seeds) for method in dict.fromkeys(methods)]
    found: dict[str, list[dict[str, float]]] = {}
    cells, started, warned = [], time.monotonic(), set[str]()
    for number, (method, seed) in enumerate(pairs):
        spent = (time.monotonic() - started) / 60
        minutes = None if budget is None else max(1e-3, (budget - spent) / (len(pairs) - number))
        with warnings_once(warned):
            model = _trained(make(method, seed), dataset, out / f"{method}-{seed}", minutes)
        own = ["representation", *model.outputs]
        rows = [*(name for name in baselines if number == 0 or name == "untrained"), *own]
        with warnings_once(warned):
            scores = _scores(model, dataset, out / f"{method}-{seed}", rows, selected)
        for name in rows:
            row = name if name not in ("untrained", *own) else method if name == own[0] else f"{method} {name}"
            found.setdefault(row, []).append(scores[name])
        seconds = model.summary_["seconds"]["training"]
        cells.append({"method": method, "seed": seed, "status": model.status_, "seconds": seconds})
    ordered = [name for name in baselines if name in found]
    ordered += [row for method in dict.fromkeys(methods) for row in found if row.split(" ")[0] == method]
    level = _level(found, _cheapest_first(found, baselines, cells), selected)
    main = [name for name in selected if name in MAIN and level[name]] or selected
    result = {
        "data": dataset.source,
        "seeds": seeds,
        "test_rows": int(scored_rows(dataset, None).test.sum()),
        "protocols": selected,
        "rows": {row: {p: _summary([s[p] for s in found[row]]) for p in selected} for row in ordered},
        "differences": _differences(found, methods, baselines, selected),
        "level": level,
        "level_everywhere": [row for row in level[main[0]] if all(row in level[name] for name in main)],
        "cells": cells,
    }
    write_json_atomic(out / "compare.json", result)
    return result


def _trained(model: ViewsmithEstimator, dataset: Dataset, run: Path, minutes: float | None) -> ViewsmithEstimator:
    """The model of a cell: that of its run if it was evaluated, else trained, or trained on."""
    record, given, folder = data_record(dataset), given_digest(model, dataset), RunFolder(run)
    if already_finished(model, run, record, given, resume=True):
        return load_run(run)
    if folder.evaluation.exists():  # its time was over
        folder.open_for(model.configuration(record["data"]) | {"fitted": {"given": given}}, resume=True)
        return load_run(run)
    model.set_params(minutes=minutes)
    y = dataset.fit_labels(False) if model.reads_labels() else None
    with removed_on_error(run):
        model.fit(dataset.fit_rows(False), y, run=run, resume=True, context=record)
    if model.status_ == "interrupted":
        raise StoppedEarly(f"interrupted in {run}: the same command resumes")
    return model


def _scores(model: Any, dataset: Dataset, run: Path, rows: Sequence[str], protocols: Sequence[str]) -> Scores:
    """Scores by table row; those that the run has been evaluated with are not computed again."""
    known = RunFolder(run).read_evaluation() or {}
    saved: Scores = known.get("embeddings", {})
    if all(name in saved and set(protocols) <= saved[name].keys() for name in rows):
        return saved
    result = compare(model, dataset, protocols=protocols, rows=rows, label_used=labels_used(model))
    write_json_atomic(RunFolder(run).evaluation, result)
    scores: Scores = result["embeddings"]
    return scores


def _summary(values: Sequence[float]) -> dict[str, Any]:
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {"mean": float(np.mean(values)), "deviation": spread, "values": list(values)}


def _differences(
    found: Mapping[str, list[dict[str, float]]],
    methods: Sequence[str],
    baselines: Sequence[str],
    protocols: Sequence[str],
) -> list[dict[str, Any]]:
    """Each method minus each baseline, paired by seed."""
    from scipy.stats import ttest_1samp

    rows = []
    for method in dict.fromkeys(methods):
        for baseline in baselines:
            others = found[f"{method} untrained" if baseline == "untrained" else baseline]
            others = others if len(others) > 1 else others * len(found[method])
            for protocol in protocols:
                values = [a[protocol] - b[protocol] for a, b in zip(found[method], others, strict=True)]
                summary = _summary(values)
                p = float(ttest_1samp(values, 0.0).pvalue) if summary["deviation"] else None
                del summary["values"]
                rows.append({"method": method, "baseline": baseline, "protocol": protocol, **summary, "p": p})
    return rows


def _cheapest_first(
    found: Mapping[str, Any], baselines: Sequence[str], cells: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Baselines, untrained encoders, then methods by their mean time of training; no further outputs of methods."""
    times: dict[str, list[float]] = {}
    for cell in cells:
        times.setdefault(cell["method"], []).append(cell["seconds"])
    methods = sorted(times, key=lambda method: float(np.mean(times[method])))
    untrained = [f"{method} untrained" for method in methods]
    return [row for row in (*baselines, *untrained, *methods) if row in found]


def _level(
    found: Mapping[str, list[dict[str, float]]], ordered: Sequence[str], protocols: Sequence[str]
) -> dict[str, list[str]]:
    """By protocol, the rows that are level with the best one."""
    return {
        name: level_rows({row: [scores[name] for scores in found[row]] for row in ordered}, TIES[name])
        for name in protocols
    }


def _answer(result: Mapping[str, Any], width: int) -> str:
    """Which rows are level with the best one, and the cheapest that is everywhere."""
    level = {name: rows for name, rows in result["level"].items() if name in MAIN} or result["level"]
    longest = max(map(len, level))
    ties = ", ".join(f"{name} {TIES[name]}" for name in level)
    lines = [textwrap.fill(f"Level with the best, cheapest first (a tie is {ties}):", width)]
    for name, rows in level.items():
        indent = " " * (longest + 4)
        lines.append(
            textwrap.fill(
                ", ".join(rows) or "-", width, initial_indent=f"  {name:{longest}}  ", subsequent_indent=indent
            )
        )
    everywhere = result["level_everywhere"]
    if everywhere:
        lines.append(f"The cheapest that is level with the best everywhere: {everywhere[0]}.")
    else:
        lines.append("None is level with the best everywhere: choose by what the representation is for.")
    error = 0.5 / math.sqrt(result["test_rows"])
    if error > TIES["linear"]:
        lines.append(f"The standard error of an accuracy on {result['test_rows']:,} test rows is up to {error:.2g}.")
    return "\n".join(lines)


def format_comparison(result: Mapping[str, Any], width: int = WIDTH) -> str:
    """The rows of `compare_methods` as plain text: mean and standard deviation over the seeds, the best mean marked.

    Below the table, the rows that are level with the best one.
    """
    columns = []
    for protocol in result["protocols"]:
        scores = [row[protocol] for row in result["rows"].values()]
        spreads = ["" if s["deviation"] is None else f" ± {s['deviation']:.3f}" for s in scores]
        texts = [f"{mean}{spread:8}" for mean, spread in zip(marked([s["mean"] for s in scores]), spreads, strict=True)]
        columns.append(aligned([protocol, *texts]))
    tables = in_blocks(list(result["rows"]), columns, width)
    seeds = "one seed" if result["seeds"] == 1 else f"mean and standard deviation of {result['seeds']} seeds"
    early = sum(cell["status"] != "finished" for cell in result["cells"])
    note = f"{seeds}; * best of the column; differences paired by seed, with p values, are in compare.json"
    if early:
        note += f"; {early} of {len(result['cells'])} trainings ended at the limit of their time"
    return "\n\n".join([*tables, note, _answer(result, width)])
