"""Several methods on one data set, with the same seeds, splits, rows and protocol."""

import errno
import hashlib
import json
import math
import os
import re
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, StoppedEarly, TrainingError, error_text, join_names, quoted, say
from viewsmith.core.files import locked_folder, read_json, write_json_atomic, write_text_atomic
from viewsmith.core.progress import TOLD, html_table
from viewsmith.core.registry import entries, names
from viewsmith.data import Dataset
from viewsmith.data.dataset import SCORED_ROWS, check_split
from viewsmith.data.write import write_npz
from viewsmith.estimator.base import ViewsmithEstimator
from viewsmith.estimator.inputs import labels_used
from viewsmith.evaluation.baselines import is_available, is_constant, pca
from viewsmith.evaluation.compare import compare, compare_unlabeled, from_baselines
from viewsmith.evaluation.differences import Repeats, TestRows
from viewsmith.evaluation.label_free import MEASURES
from viewsmith.evaluation.leaderboard import Results, as_csv, leaderboard, score_columns, spread_words
from viewsmith.evaluation.protocol import REPEATED, check_protocols, scored_rows
from viewsmith.modalities import modality_of
from viewsmith.modalities.base import works_in
from viewsmith.reports.comparison import render_comparison
from viewsmith.reports.figure import sample_of_rows
from viewsmith.training.run import RunFolder
from viewsmith.workflows import runs

BOARD, TABLE, PAGE, MAPS = "leaderboard.json", "leaderboard.csv", "report.html", "maps.json"
TEST_ROWS = "test_rows.npz"  # what each test row contributes to the scores in evaluation.json
MAP_ROWS = 500

#: `methods="auto"` compares the default method alone with more rows, or with less than a minute for each training.
AUTO_ROWS = 50_000
Make = Callable[[str, int, str], ViewsmithEstimator]
Load = Callable[[int], Dataset]
Scores = dict[str, dict[str, float]]


@dataclass
class Cell:
    """A method with a seed, on a split: what became of it."""

    method: str
    seed: int
    split: int
    status: str = "left out"  # or finished, time limit, failed
    seconds: float | None = None  # of the training
    why: str = ""  # of a training that failed
    before: str = "untrained"  # what the row of the weights before training is called
    scores: Scores = field(default_factory=dict)
    costs: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    test_rows: dict[str, dict[str, TestRows]] = field(default_factory=dict)  # by table row and protocol
    labeled_rows: dict[str, int] = field(default_factory=dict)  # by protocol

    def record(self) -> dict[str, Any]:
        """The plain values that ``leaderboard.json`` has."""
        plain = ("method", "seed", "split", "status", "seconds", "why")
        return {name: getattr(self, name) for name in plain}


@dataclass(frozen=True)
class Shared:
    """What all cells of a comparison share."""

    load: Load
    make: Make
    out: Path
    baselines: Sequence[str]
    protocols: Sequence[str]
    trained: Path | None  # the folder of trainings to score, instead of new ones
    warned: set[str]  # warnings that were shown
    seen: dict[str, Any] = field(default_factory=dict)  # scores of features that several cells have

    def folder(self, cell: Cell) -> Path:
        """The run folder of a cell."""
        return self.out / f"{cell.method}-{cell.seed}"


def suggested_methods(modality: str, n_rows: int, trainings: int, budget: float | None) -> list[str]:
    """The methods of ``methods="auto"``: those with the tag ``compared`` for this kind of data, the cheapest first."""
    found = [e.name for e in entries("method", modality) if modality in e.tag("compared", ())] or ["contrastive"]
    few = n_rows > AUTO_ROWS or (budget is not None and budget < len(found) * trainings)
    return found[:1] if few else found


def compare_methods(
    load: Load,
    out: Path,
    make: Make,
    *,
    methods: Sequence[str] | str,
    baselines: Sequence[str] = ("majority", "raw", "features", "pca", "untrained"),
    seeds: int = 3,
    splits: int | None = None,
    budget: float | None = None,
    protocols: Sequence[str] | None = None,
    further: Mapping[str, Load] = MappingProxyType({}),
    trained: Path | None = None,
) -> "Comparison":
    """Train every method in repeats i (seed i, split ``i % splits``), score all with one protocol, and write a
    leaderboard and a report; run folders ``METHOD-i`` resume, those `trained` before are taken, labels `further` are
    scored, too, in ``label-NAME``, and what fails is left out, with the reason."""
    load, warned = lru_cache(maxsize=1)(load), set[str]()
    with runs.warnings_once(warned):
        dataset = load(0)
    if methods == "auto":
        methods = suggested_methods(dataset.modality, len(dataset.x), max(seeds, splits or 1), budget)
    elif methods == "all":
        methods = [entry.name for entry in entries("method") if works_in(entry, dataset.modality)]
    selected = _selected(dataset, protocols)
    for other in further.values():
        with runs.warnings_once(warned):
            _selected(other(0), protocols)
    for kind, given in (("method", methods), ("baseline", baselines)):
        if unknown := [name for name in given if name not in names(kind)]:  # type: ignore[arg-type]
            raise InputError(f"unknown {kind} {unknown[0]!r}, expected {join_names(names(kind))}")  # type: ignore[arg-type]
    if not methods:
        raise InputError("no method is given, expected at least one")
    modality, labeled = modality_of(dataset.modality), dataset.y is not None
    baselines = [name for name in baselines if is_available(name, modality) and (labeled or not is_constant(name))]
    repeats = _repeats(dataset, seeds, splits)
    cells = [Cell(m, i, split) for i, split in enumerate(repeats.splits) for m in dict.fromkeys(methods)]
    for cell in cells:
        model = make(cell.method, cell.seed, dataset.modality)  # bad settings are refused before any training
        if further and model.reads_labels():
            raise InputError(f"{cell.method} trains with labels, of which it knows one column: give one label column")
    shared = Shared(load, make, out, baselines, selected, trained, warned)
    _check_free(out)
    with locked_folder(out):
        try:
            _train_all(cells, shared, budget)
        except (StoppedEarly, KeyboardInterrupt) as error:
            if any(cell.scores for cell in cells):
                _write(out, _result(dataset, cells, repeats, methods, shared))
            raise StoppedEarly(str(error) or "interrupted: the same command resumes") from error
        _raise_if_none_works(cells)
        result = _result(dataset, cells, repeats, methods, shared)
        _write(out, result)
    if further:
        again: Any = {"methods": methods, "baselines": baselines, "seeds": seeds, "splits": splits}
        again |= {"protocols": protocols, "trained": out}
        scored = {
            name: compare_methods(other, out / label_folder(name), make, **again) for name, other in further.items()
        }
        write_json_atomic(out / BOARD, result := result | {"labels_scored": scored})
    return Comparison(result)


class Comparison(dict[str, Any]):
    """The result of `compare_methods`, a dict; a notebook shows it as a table."""

    def _repr_html_(self) -> str:
        header, *rows = zip(["", *self["rows"]], *score_columns(self), strict=True)
        return html_table("Comparison", rows, header, f"{spread_words(self)}. {self['next']}")


def label_folder(name: str) -> str:
    """The folder of the scores of a further label column, whose name may have characters that lead elsewhere."""
    safe = re.sub(r'[/\\:%*?"<>|]|[^ -~\w]', lambda found: f"%{ord(found[0]):02X}", f"label-{name}")
    if len(safe.encode()) <= 120:
        return safe
    return f"{safe.encode()[:100].decode(errors='ignore')}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def _check_free(out: Path) -> None:
    """Raise InputError if the files of the comparison would replace others."""
    found = [name for name in (BOARD, TABLE, PAGE) if os.path.lexists(out / name)]
    try:
        ours = not found or "cells" in read_json(out / BOARD)
    except (OSError, ValueError, TypeError):
        ours = False
    if not ours:
        raise InputError(
            f"--out is {str(out)!r}, where {found[0]} is not of a comparison and would be lost: choose a new folder"
        )


def _selected(dataset: Dataset, protocols: Sequence[str] | None) -> list[str]:
    """The scores for the labels of the data; raises InputError if these cannot be compared with."""
    if dataset.y is None and protocols is not None:
        raise InputError("the data have no labels, which --protocols need: give --label COLUMN, or leave them out")
    if dataset.y is None:
        return list(MEASURES)
    check_split(dataset)
    y = np.asarray(dataset.y_train)[scored_rows(dataset, None).train]
    if len(np.unique(y)) < 2:
        raise InputError(
            f"{dataset.source}: all {len(y)} labeled train rows have the label {y[0]}, so that there is nothing to "
            "compare: expected at least two classes, or numbers that differ"
        )
    if protocols is None:
        return [name for name in check_protocols(None, dataset.target) if name not in REPEATED]
    return check_protocols(None if list(protocols) == ["all"] else protocols, dataset.target)


def _repeats(dataset: Dataset, seeds: int, splits: int | None) -> Repeats:
    """The split of each repeat."""
    drawn = dataset.split != "given"
    if splits is not None and splits > 1 and not drawn:
        say(f"--splits {splits}: data with a split of their own keep it; the trainings differ by their seeds")
    repeats = max(seeds, splits or 1) if drawn else seeds
    count = (splits or repeats) if drawn else 1
    train, test = _sizes(dataset)
    overlap = test / train if count > 1 else 0.0
    return Repeats(tuple(i % count for i in range(repeats)), overlap)


def _sizes(dataset: Dataset) -> tuple[int, int]:
    """Numbers of train and test rows that are scored."""
    dataset = dataset.in_memory(SCORED_ROWS)
    if dataset.y is None:
        return len(dataset.x_train), len(dataset.x_test)
    rows = scored_rows(dataset, None)
    return int(rows.train.sum()), int(rows.test.sum())


def _train_all(cells: Sequence[Cell], shared: Shared, budget: float | None) -> None:
    """Train and score the cells, in their order, as long as there is time."""
    started, taken = time.monotonic(), dict[str, float]()  # seconds of the last new cell of a method
    for number, cell in enumerate(cells):
        begun = time.monotonic()
        spent = (begun - started) / 60
        if budget is not None and spent >= budget and any(done.scores for done in cells[:number]):
            continue
        minutes = None if budget is None else max(1e-3, (budget - spent) / (len(cells) - number))
        first = not any(done.scores for done in cells[:number] if done.split == cell.split)
        rows = [name for name in shared.baselines if first or name == "untrained"]
        if new := not RunFolder(shared.folder(cell)).evaluation.exists():
            left = seconds_left(taken, [each.method for each in cells[number:]])
            told = f"; about {math.ceil(left / 60)} min left" if budget is None and left > TOLD else ""
            say(f"{cell.method}, seed {cell.seed} ({number + 1} of {len(cells)}{told})")
        with runs.warnings_once(shared.warned):
            _train(cell, shared, minutes, rows)
        if new:
            taken[cell.method] = time.monotonic() - begun


def seconds_left(taken: Mapping[str, float], methods: Sequence[str]) -> float:
    """Seconds of further cells of `methods`, each as long as the last one of its method, or as those of others in the
    mean; 0 if none was `taken`."""
    mean = sum(taken.values()) / max(len(taken), 1)
    return sum(taken.get(method, mean) for method in methods)


def _train(cell: Cell, shared: Shared, minutes: float | None, baselines: Sequence[str]) -> None:
    """Train and score a cell, with some baselines."""
    dataset, place = shared.load(cell.split), shared.folder(cell)
    model = shared.make(cell.method, cell.seed, dataset.modality)
    given = None if shared.trained is None else shared.trained / place.name
    if given is not None and not RunFolder(given).evaluation.exists():
        cell.status, cell.why = "failed", "it has no training: see the comparison by the first label column"
        return
    trained = _finished(model, dataset, place) if given is None else runs.load_run(given)
    try:
        model = trained or _trained(model, dataset, place, minutes)
        _score(cell, shared, model, dataset, [*baselines, "representation", *model.outputs])
    except StoppedEarly:
        raise
    except Exception as error:  # of a plug-in, too: the other methods stand
        if isinstance(error, OSError) and _cannot_write(error, shared.out):
            raise
        cell.status, cell.scores = "failed", {}
        known = isinstance(error, InputError | TrainingError)
        cell.why = str(error) if known else error_text(error)
        hint = "" if known else f"; `viewsmith fit DATA --method {cell.method} --seed {cell.seed} --debug` shows where"
        say(f"{cell.method} failed with seed {cell.seed}: {cell.why}{hint}")
        return
    cell.status, cell.seconds = model.status_, model.summary_["seconds"]["training"]


def _cannot_write(error: OSError, out: Path) -> bool:
    """Whether an error is of the disk, or of a file of the comparison, so that other methods would meet it, too."""
    file = error.filename if isinstance(error.filename, str) else ""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS) or Path(file).is_relative_to(out)


def _finished(model: ViewsmithEstimator, dataset: Dataset, run: Path) -> ViewsmithEstimator | None:
    """The model of the run of a cell that is trained; raises InputError if it is a run of something else."""
    record, given, folder = runs.data_record(dataset), runs.given_digest(model, dataset), RunFolder(run)
    if runs.already_finished(model, run, record, given, resume=True):
        return runs.load_run(run)
    if folder.evaluation.exists():  # its time was over
        folder.open_for(model.configuration(record["data"]) | {"fitted": {"given": given}}, resume=True)
        return runs.load_run(run)
    return None


def _trained(model: ViewsmithEstimator, dataset: Dataset, run: Path, minutes: float | None) -> ViewsmithEstimator:
    if minutes is not None:  # of a budget; otherwise those that the user has given the method
        model.set_params(minutes=minutes)
    with runs.removed_on_error(run):
        runs.fit_dataset(model, dataset, run=run, resume=True, context=runs.data_record(dataset))
    if model.status_ == "interrupted":
        raise StoppedEarly(f"interrupted in {run}: the same command resumes")
    return model


def _score(cell: Cell, shared: Shared, model: Any, dataset: Dataset, rows: Sequence[str]) -> None:
    """Fill in the scores of a cell by table row; those that its folder has are not computed again."""
    place, protocols = shared.folder(cell), shared.protocols
    folder, drawn = RunFolder(place), cell.seed == 0  # the report has maps of the first repeat
    known: dict[str, Any] = folder.read_evaluation() or {}
    saved: Scores = known.get("embeddings", {})
    test_rows = {} if dataset.y is None else _read_test_rows(place)
    whole = {name for name, of in saved.items() if set(protocols) <= of.keys()}
    whole = whole if dataset.y is None else whole & test_rows.keys()
    missing = [name for name in rows if name not in whole]
    if missing:
        dataset = dataset.in_memory(SCORED_ROWS)
        maps: dict[str, Any] = _read_maps(place)
        options: Any = {"rows": missing, "failures": cell.failures}
        options["on_row"] = partial(_add_map, maps) if drawn else None
        if dataset.y is None:
            result = compare_unlabeled(model, dataset, **options)
        else:
            result = compare(
                model, dataset, protocols=protocols, label_used=labels_used(model), seen=shared.seen, **options
            )
            index = np.arange(len(dataset.x)) if dataset.test_index is None else np.asarray(dataset.test_index)
            for name, values in result.values_by_row.items():
                test_rows[name] = {p: TestRows(each, index[result.scored]) for p, each in values.items()}
        for part in ("embeddings", "seconds", "label_free", "groups"):
            if part in known:
                result[part] = known[part] | result.get(part, {})
        place.mkdir(parents=True, exist_ok=True)
        if dataset.y is not None:
            of_rows = {name: {p: each.values for p, each in of.items()} for name, of in test_rows.items()}
            result["differences"] = from_baselines(result["embeddings"], of_rows, model.outputs)
            _write_test_rows(place, test_rows)
        if drawn:
            write_json_atomic(place / MAPS, maps)
        write_json_atomic(folder.evaluation, result)
        known = result
    cell.before = known.get("names", {}).get("untrained", cell.before)
    cell.scores = {name: known["embeddings"][name] for name in rows if name in known["embeddings"]}
    cell.costs = {name: known["seconds"][name]["embed"] for name in cell.scores if name in known.get("seconds", {})}
    cell.test_rows, cell.labeled_rows = test_rows, known.get("labeled_rows", {})


def _write_test_rows(run: Path, test_rows: Mapping[str, Mapping[str, TestRows]]) -> None:
    """Write what test rows contribute to scores; a table row without any has its name alone."""
    arrays: dict[str, Any] = {f"{name}/": np.zeros(0) for name in test_rows}
    for name, of_row in test_rows.items():
        for protocol, each in of_row.items():
            arrays |= {f"{name}/{protocol}": each.values, f"{name}/{protocol}/rows": each.index}
    write_npz(run / TEST_ROWS, arrays, compressed=True)


def _read_test_rows(run: Path) -> dict[str, dict[str, TestRows]]:
    """What `_write_test_rows` wrote; nothing if it is missing or damaged, so that it is computed again."""
    try:
        with np.load(run / TEST_ROWS, allow_pickle=False) as found:
            arrays = dict(found)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return {}
    made: dict[str, dict[str, TestRows]] = {name[:-1]: {} for name in arrays if name.endswith("/")}
    for key, values in arrays.items():
        name, _, protocol = key.partition("/")
        if protocol and "/" not in protocol and name in made:
            made[name][protocol] = TestRows(values, arrays[f"{key}/rows"])
    return made


def _add_map(maps: dict[str, Any], name: str, test: np.ndarray, y_test: np.ndarray | None) -> None:
    """Add the first two principal components of the features of test rows, or their two features, by table row."""
    index = sample_of_rows(len(test), MAP_ROWS)
    xy = test[index] if test.shape[1] <= 2 else pca(test[index], test[index], 2)[0]
    xy = np.pad(xy, ((0, 0), (0, 2 - xy.shape[1])))
    scale = float(np.abs(xy).max()) or 1.0
    maps[name] = {"xy": np.round(xy / scale, 4).tolist(), "labels": None if y_test is None else y_test[index].tolist()}


def _read_maps(run: Path) -> dict[str, Any]:
    path = run / MAPS
    try:
        return read_json(path) if path.exists() else {}
    except ValueError as error:
        raise InputError(f"{path} is damaged ({error}): delete it and {RunFolder(run).evaluation}") from error


def _raise_if_none_works(cells: Sequence[Cell]) -> None:
    if any(cell.scores for cell in cells):
        return
    reasons = dict[str, dict[str, None]]()
    for cell in cells:
        reasons.setdefault(cell.why, {})[cell.method] = None
    said = [f"{', '.join(methods)}: {why}" for why, methods in reasons.items()]
    raise InputError(f"no method works with these data: {'; '.join(said[:3])}")


def _result(
    dataset: Dataset, cells: Sequence[Cell], repeats: Repeats, methods: Sequence[str], shared: Shared
) -> dict[str, Any]:
    """The leaderboard of all cells."""
    found, baselines = Results(len(repeats.splits), list(shared.protocols)), shared.baselines
    order = list(dict.fromkeys(methods))
    once = _equal_before(cells)
    for cell in cells:
        before = cell.before if once else f"{cell.method} {cell.before}"
        for name, scores in cell.scores.items():
            row = cell.method if name == "representation" else name if name in baselines else f"{cell.method} {name}"
            row = before if name == "untrained" else row
            kinds = {"representation": "method", "untrained": "untrained"}
            kind = kinds.get(name, "baseline" if name in baselines else "output")
            # On one split, a baseline is the same for all repeats.
            same = [i for i, split in enumerate(repeats.splits) if split == cell.split]
            for seed in same if name in baselines and name != "untrained" else (cell.seed,):
                found.add(row, kind, seed, scores, cell.test_rows.get(name))
            found.cost(row, cell.seed, cell.costs.get(name), cell.seconds if name == "representation" else None)
        for name, why in cell.failures.items():
            found.failed[before if name == "untrained" else name] = why
        if cell.status == "failed":
            found.failed.setdefault(cell.method, cell.why)
        for protocol, count in cell.labeled_rows.items():
            found.labeled_rows[protocol] = min(count, found.labeled_rows.get(protocol, count))
    found.sort([*baselines, *order])
    train, test = _sizes(dataset)
    classes = 0
    if dataset.y is not None and dataset.target == "class":
        scored = dataset.in_memory(SCORED_ROWS)
        classes = len(np.unique(np.asarray(scored.y_test)[scored_rows(scored, None).test]))
    about = {
        "data": dataset.source,
        "modality": dataset.modality,
        "sizes": {"train": train, "test": test, "classes": classes},
        "split": {"kind": dataset.split, "splits": len(set(repeats.splits))},
        "seeds": len(repeats.splits),
        "test_rows": test,
    }
    return about | leaderboard(found, repeats, [cell.record() for cell in cells], quoted(shared.out))


def _equal_before(cells: Sequence[Cell]) -> bool:
    """Whether several methods have equal scores before training, which are one row of the table."""
    found = [cell for cell in cells if "untrained" in cell.scores]
    # As text, NaN is equal to NaN.
    texts = [(cell.seed, cell.before, json.dumps(cell.scores["untrained"], sort_keys=True)) for cell in found]
    return len({cell.method for cell in found}) > 1 and len(set(texts)) == len({text[:2] for text in texts})


def _write(out: Path, result: dict[str, Any]) -> None:
    """Write the leaderboard as JSON and CSV, and the report."""
    write_json_atomic(out / BOARD, result)
    write_text_atomic(out / TABLE, as_csv(result))
    write_text_atomic(out / PAGE, render_comparison(result, _maps(out, result)))


def _maps(out: Path, result: Mapping[str, Any]) -> dict[str, Any]:
    """Maps by name of the table row, in the order of the table, from the runs of the first repeat."""
    maps: dict[str, Any] = {}
    for method in dict.fromkeys(cell["method"] for cell in result["cells"]):
        for name, drawn in _read_maps(out / f"{method}-0").items():
            row = method if name == "representation" else f"{method} {name}"
            maps.setdefault(name if name in result["rows"] else row, drawn)
    return {row: maps[row] for row in result["rows"] if row in maps}
