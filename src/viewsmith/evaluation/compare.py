"""Comparison of a representation with raw features, PCA, the untrained encoder and, optionally, UMAP."""

import hashlib
import textwrap
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import torch

from viewsmith.core.errors import InputError, error_text, name_list, pluralize, warn
from viewsmith.core.progress import html_table
from viewsmith.core.registry import entries
from viewsmith.data.dataset import check_split
from viewsmith.data.labels import Target, numbers_of
from viewsmith.evaluation import baselines, protocol
from viewsmith.evaluation.differences import LOWER_IS_BETTER, TIES, Repeats, TestRows, all_pairs
from viewsmith.evaluation.label_free import MEASURED_ROWS, label_free, measures
from viewsmith.evaluation.leaderboard import WIDTH, aligned, in_blocks, marked
from viewsmith.evaluation.neighbors import GROUP_SCORES, group_scores
from viewsmith.losses.diagnostics import alignment

T = TypeVar("T")
LABEL_FREE_ROWS = 2000
ALIGNED_ROWS = 512


def compare(
    model: Any,
    dataset: Any,
    *,
    umap: bool = False,
    protocols: Sequence[str] | None = None,
    label_used: Callable[[Any], np.ndarray] | None = None,
    rows: Sequence[str] | None = None,
    on_row: Callable[[str, np.ndarray, np.ndarray], None] | None = None,
    failures: dict[str, str] | None = None,
    seen: dict[str, Any] | None = None,
) -> "Scores":
    """Score a model and its baselines on the same rows with the same protocol.

    Parameters
    ----------
    model : ViewsmithEstimator
        Fitted; or another object with `raw_features`, `transform` and `untrained`.
    dataset : Dataset
        Or another object with `x_train`, `x_test`, `y_train` and `y_test`. Everything is fitted on train and scored on
        test; rows without a label and, after a training with labels, test rows whose labels were used, are not scored.
    umap : bool
        Add a row for UMAP (needs the extra ``viz``).
    protocols : sequence of str, optional
        Names from `PROTOCOLS` or `OPTIONAL`, of numbers from `NUMBER_PROTOCOLS`; default: all but the optional ones.
    label_used : callable, optional
        For a model that was trained with some labels: maps rows to bool (n,), whether their labels were used.
    rows : sequence of str, optional
        Names of the table rows to compute; default: all but baselines that are computed on request.
    on_row : callable, optional
        Called with the name of each table row, and features and labels of the test rows that are scored.
    failures : dict, optional
        Takes, by name, why a baseline could not be computed; without it the error is raised.
    seen : dict, optional
        Keeps the scores of equal features for further calls.

    Returns
    -------
    Scores
        A dict of plain values: ``embeddings`` (scores by table row: majority, raw, features, if the kind of data has
        some, pca, untrained, representation, the model's additional outputs, umap), ``raw`` (name of the raw features,
        selected on a split of the train rows),
        ``protocols`` (name to description), ``labeled_rows`` (by protocol, the number of labels that its classifier is
        fitted on), ``differences`` (of the representation from each baseline, with standard error, 95 % interval and p
        value, over test rows and draws of few labels), ``rows`` (numbers of train rows, test rows and classes; for
        numbers without classes, with ``target``: "number"), ``label_free``
        (diagnostics by table row, on the same up to 2,000 test rows; alignment, of the representation with that of
        views, on 512 of them), ``seconds`` (by table row: ``embed`` and ``score``); if the encoder started from given
        weights, ``names`` (the row untrained is shown as given encoder); with labels used in training, or missing,
        ``labels`` (what was used and left out); with two or more groups of test rows, ``groups`` (scores by table row,
        see `viewsmith.evaluation.neighbors.group_scores`). Its attribute ``values_by_row`` has what each scored test
        row contributes to each score, and ``scored`` which test rows are scored, bool (m,).

    Raises
    ------
    InputError
        No labels, no test rows, unknown protocols, or an embedding that is not finite (the message names it).
    """
    check_split(dataset)
    target = target_of(dataset)
    selected = protocol.check_protocols(protocols, target)
    chosen = protocol.scored_rows(dataset, label_used)
    x_train, x_test = dataset.x_train, dataset.x_test[chosen.test]
    y_train, y_test = np.asarray(dataset.y_train)[chosen.train], np.asarray(dataset.y_test)[chosen.test]
    groups_train, groups = _groups(dataset, chosen)
    if target == "class":
        _warn_classes(y_train, y_test, selected)

    seen, maps = {} if seen is None else seen, getattr(model, "outputs", {})
    raw = _select_raw_features(model, x_train[chosen.train], y_train, target, seen)
    sample = np.random.default_rng(0).permutation(len(x_test))[:LABEL_FREE_ROWS]

    def score(name: str, train: np.ndarray, test: np.ndarray) -> protocol.Scored:
        arrays, predict = (train[chosen.train], y_train, test, y_test), baselines.predictor_of(name)
        metric = "euclidean" if name in maps else "cosine"
        options: Any = {"protocols": selected, "name": name, "metric": metric, "groups": groups_train}
        options |= {"target": target, "predict": predict, "everywhere": baselines.is_constant(name)}
        options |= {"progress": bool(getattr(model, "verbose", False))}
        same = f"{selected} {metric} {predict and name}"
        return _once(seen, (*arrays, groups_train), same, partial(protocol.score_embedding, *arrays, **options))

    result: dict[str, Any] = {
        "embeddings": {},
        "raw": raw,
        "protocols": {
            name: (protocol.PROTOCOLS | protocol.OPTIONAL | protocol.NUMBER_PROTOCOLS)[name] for name in selected
        },
        "labeled_rows": {name: protocol.labels_used(name, y_train, target) for name in selected},
        "differences": [],
        "rows": {"train": len(y_train), "test": len(x_test)},
        "label_free": {},
        "seconds": {},
    } | _labels_record(model, target, chosen, label_used is not None)
    if target == "class":
        result["rows"]["classes"] = len(np.union1d(y_train, y_test))
    requested = {*(rows or ()), *(("umap",) if umap else ())}
    embeddings = _embeddings(model, raw, maps, x_train, x_test, requested)
    values: dict[str, Mapping[str, protocol.Values]] = {}
    for name, test, scores in _computed(embeddings, rows, score, result["seconds"], failures):
        result["embeddings"][name], values[name] = scores.scores, scores.rows
        if baselines.predictor_of(name) is not None:
            continue
        if on_row is not None:
            on_row(name, test, y_test)
        if len(sample) < 2:
            continue
        found = _once(seen, (test, sample), "label-free", partial(label_free, test[sample]))
        if name == "representation":
            found = found | _alignment(model, test, x_train, x_test, sample[:ALIGNED_ROWS])
        result["label_free"][name] = found
        if target == "class" and groups is not None and len(np.unique(groups)) > 1:
            result.setdefault("groups", {})[name] = group_scores(test[sample], groups[sample], y_test[sample])
    result["differences"] = from_baselines(result["embeddings"], values, outputs=maps)
    return Scores(result, values, chosen.test)


def _alignment(model: Any, h: np.ndarray, x_train: Any, x_test: Any, index: np.ndarray) -> dict[str, float]:
    """Alignment of representations with those of views of the test rows `index`, if the model has views."""
    if (represented := getattr(model, "represented_views", None)) is None:
        return {}
    views = torch.from_numpy(represented(x_test[index], pool=x_train))
    return {"alignment": float(alignment(torch.from_numpy(h[index]), views))}


def from_baselines(
    embeddings: Mapping[str, Mapping[str, float]],
    values: Mapping[str, Mapping[str, Any]],
    outputs: Collection[str] = (),
) -> list[dict[str, Any]]:
    """The differences of the representation from the other rows but further `outputs`, tested over test rows and draws
    of labels."""
    tested = {row: of for row, of in embeddings.items() if row not in outputs}
    single = {row: {p: [float(score)] for p, score in of.items()} for row, of in tested.items()}
    rows = {
        row: {p: {0: TestRows(each, np.arange(each.shape[1]))} for p, each in of.items()} for row, of in values.items()
    }
    protocols = [name for name in embeddings.get("representation", {}) if name in TIES]
    return all_pairs(single, protocols, Repeats((0,)), rows, subject="representation")


def _labels_record(model: Any, target: Target, chosen: protocol.ScoredRows, trained_with: bool) -> dict[str, Any]:
    """What labels are and how they were used, and names of rows, where that is not the default."""
    record: dict[str, Any] = {"target": target} if target == "number" else {}
    if trained_with or chosen.unlabeled:
        left_out = {"unlabeled": chosen.unlabeled, "used_in_training": chosen.used}
        record["labels"] = {"trained_with": trained_with, "test_rows_left_out": left_out}
    if getattr(model, "given_weights", False):
        record["names"] = {"untrained": "given encoder"}
    return record


def _computed(
    embeddings: Sequence[tuple[str, Callable[[], baselines.TrainTest]]],
    rows: Sequence[str] | None,
    score: Callable[[str, np.ndarray, np.ndarray], T],
    seconds: dict[str, dict[str, float]],
    failures: dict[str, str] | None,
) -> Iterator[tuple[str, np.ndarray, T]]:
    """Name, features of the test rows and scores of each of `rows`; of a baseline that fails, `failures` takes why."""
    for name, embed in embeddings:
        if rows is not None and name not in rows:
            continue
        started = time.perf_counter()
        try:
            train, test = embed()
            embedded = time.perf_counter()
            found = score(name, train, test)
        except baselines.NotForTheseData as error:
            warn(f"no row {name}: {error}")
            continue
        except Exception as error:  # also of other packages: the other rows stand
            if failures is None or name == "representation":
                raise
            failures[name] = str(error) if isinstance(error, InputError) else error_text(error)
            continue
        seconds[name] = {"embed": embedded - started, "score": time.perf_counter() - embedded}
        yield name, test, found


class Scores(dict[str, Any]):
    """The result of `compare`, a dict; a notebook shows it as a table."""

    def __init__(
        self,
        found: Mapping[str, Any],
        values: Mapping[str, Mapping[str, protocol.Values]] = MappingProxyType({}),
        scored: np.ndarray | None = None,
    ) -> None:
        super().__init__(found)
        self.values_by_row, self.scored = values, scored

    def _repr_html_(self) -> str:
        columns = [
            marked([scores[name] for scores in self["embeddings"].values()], lower=name in LOWER_IS_BETTER)
            for name in self["protocols"]
        ]
        names = [self.get("names", {}).get(name, name) for name in self["embeddings"]]
        rows, count = zip(names, *columns, strict=True), self["rows"]
        note = f"Fitted on {count['train']:,} train rows, scored on {count['test']:,} test rows. * best of the column"
        return html_table("Scores", rows, ["", *self["protocols"]], note)


def compare_unlabeled(
    model: Any,
    dataset: Any,
    *,
    rows: Sequence[str],
    on_row: Callable[[str, np.ndarray, None], None] | None = None,
    failures: dict[str, str],
) -> dict[str, Any]:
    """The rows of `compare` for data without labels: `MEASURES` of up to 400 test rows; see `compare`."""
    x, x_test = dataset.x_train, dataset.x_test
    few = np.random.default_rng(1).permutation(len(x_test))[:MEASURED_ROWS]
    raw = list(model.raw_features(x[:2]))[-1]
    features = model.raw_features(x)[raw], model.raw_features(x_test[few])[raw]
    found: dict[str, Any] = {"embeddings": {}, "seconds": {}}

    def score(name: str, train: np.ndarray, test: np.ndarray) -> dict[str, float]:
        views = {"model": model, "x": x, "x_test": x_test[few]} if name == "representation" else {}
        return measures(train, test[few], features, **views)

    def embedded(name: str, embed: Callable[[], baselines.TrainTest]) -> baselines.TrainTest:
        if baselines.predictor_of(name) is not None:
            raise InputError("it predicts labels, and the data have none")
        return embed()

    listed = _embeddings(model, raw, getattr(model, "outputs", {}), x, x_test, rows)
    embeddings = [(name, partial(embedded, name, embed)) for name, embed in listed]
    for name, test, scores in _computed(embeddings, rows, score, found["seconds"], failures):
        found["embeddings"][name] = scores
        if on_row is not None:
            on_row(name, test, None)
    return found


def format_table(result: Mapping[str, Any]) -> str:
    """The scores of `compare` as plain text, at most 120 characters wide, the best of each column marked with ``*``.

    Scores that are equal to three decimals are all marked. Columns that do not fit are in a second block of rows.

    Parameters
    ----------
    result : mapping
        Result of `compare`.
    """
    rows: Mapping[str, Mapping[str, float]] = result["embeddings"]
    columns = [_column(name, [scores[name] for scores in rows.values()]) for name in result["protocols"]]
    names = result.get("names", {})
    tables = in_blocks([names.get(name, name) for name in rows], columns)
    count = result["rows"]
    labels = f"{count['classes']} classes" if "classes" in count else "labels are numbers"
    size = f"Fitted on {count['train']:,} train rows, scored on {count['test']:,} test rows, {labels}."
    if "sampled_from" in count:
        size += f" A random sample of {count['sampled_from']:,} rows."
    if result.get("groups"):
        tables.append("\n".join(_group_lines(result["groups"])))
    left_out = [_label_note(result["labels"])] if result.get("labels") else []
    notes = [
        size,
        *left_out,
        f"raw: {result['raw']}",
        '* best of the column; docs/evaluation.md and result["protocols"], in evaluation.json, describe the columns',
    ]
    wrapped = [textwrap.fill(note, WIDTH, subsequent_indent="    ") for note in notes]
    return "\n\n".join([*tables, "\n".join(wrapped)])


def _once(seen: dict[str, Any], arrays: Sequence[Any], purpose: str, compute: Callable[[], T]) -> T:
    """What is computed from arrays, which is kept in `seen` by their digest."""
    digest = hashlib.blake2b(purpose.encode())
    for part in map(np.asarray, arrays):
        values = np.ascontiguousarray(part.astype(str) if part.dtype == object else part)
        digest.update(f"{values.dtype} {values.shape}".encode() + values.tobytes())
    return seen[key] if (key := digest.hexdigest()) in seen else seen.setdefault(key, compute())


def _groups(dataset: Any, chosen: protocol.ScoredRows) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Groups of the train and test rows that are scored; None without groups."""
    train, test = getattr(dataset, "groups_train", None), getattr(dataset, "groups_test", None)
    if train is None or test is None:
        return None, None
    return np.asarray(train)[chosen.train], np.asarray(test)[chosen.test]


def _warn_classes(y_train: np.ndarray, y_test: np.ndarray, selected: Collection[str]) -> None:
    """Warn of classes that only test rows have, and of those of one row, which no test row has; raise InputError for
    classifiers if no test row has a class of the train rows."""
    classes, counts = np.unique(y_train, return_counts=True)
    single = np.setdiff1d(classes[counts == 1], y_test)
    if len(single):
        few = pluralize(len(single), "class", "classes")
        warn(f"{few} of one row, which is for training, and is not scored: {name_list([str(c) for c in single])}")
    new = np.setdiff1d(y_test, y_train)
    if np.isin(y_test, new).all() and any(not name.startswith(protocol.MEASURES) for name in selected):
        names = [name_list([str(each) for each in np.unique(y)], 4) for y in (y_test, y_train)]
        raise InputError(
            f"no test row has a class of the train rows (test: {names[0]}; train: {names[1]}), so no classifier can be "
            "right: take groups that do not each have one class, another split, or --protocols kmeans_accuracy"
        )
    if len(new):
        warn(
            f"{pluralize(int(np.isin(y_test, new).sum()), 'test row')} have classes that no train row has, which a "
            f"classifier can never predict: {name_list([str(each) for each in new])}"
        )


def _label_note(labels: Mapping[str, Any]) -> str:
    out = labels["test_rows_left_out"]
    if not labels["trained_with"]:
        return f"Test rows left out: {out['unlabeled']} without a label."
    return (
        f"The model was trained with labels. Test rows left out: {out['unlabeled']} without a label, "
        f"{out['used_in_training']} whose labels were used."
    )


def _group_lines(groups: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The scores of groups as a table, and what they are."""
    columns = [_column(score, [scores[score] for scores in groups.values()]) for score in GROUP_SCORES]
    texts = (textwrap.fill(f"{name}: {text}", WIDTH) for name, text in GROUP_SCORES.items())
    return [*in_blocks(list(groups), columns), *texts]


def target_of(dataset: Any) -> Target:
    """What the labels of a data set are; of one that does not say it, by the labels of its train rows."""
    given: Target | None = getattr(dataset, "target", None)
    return given or ("class" if numbers_of(np.asarray(dataset.y_train), "y_train") is None else "number")


def _select_raw_features(model: Any, x_train: Any, y_train: Any, target: Target, seen: dict[str, Any]) -> str:
    """Name of the raw features with the best linear probe on held-out train rows (a fifth of each class, or of all)."""
    names = list(model.raw_features(x_train[:2]))
    if len(names) == 1:
        return names[0]
    y = np.asarray(y_train)
    held_out = np.zeros(len(y), dtype=bool)
    if target == "number":
        held_out[protocol.few_number_rows(len(y), 0.2, 0)] = True
    for label in np.unique(y) if target == "class" else ():
        members = np.random.default_rng(0).permutation(np.flatnonzero(y == label))
        held_out[members[: len(members) // 5]] = True
    if not held_out.any():
        return names[0]

    def best() -> str:
        features = model.raw_features(x_train)

        def linear_probe(name: str) -> float:
            rows = features[name]
            train, y_fit, test, y_score = rows[~held_out], y[~held_out], rows[held_out], y[held_out]
            score = "linear" if target == "class" else "r2"
            options: Any = {"protocols": [score], "name": name, "target": target}
            return protocol.evaluate_embedding(train, y_fit, test, y_score, **options)[score]

        return max(names, key=linear_probe)

    return _once(seen, (x_train, y), "raw", best)


def _embeddings(
    model: Any, raw: str, maps: Mapping[str, str], x_train: Any, x_test: Any, requested: Collection[str]
) -> list[tuple[str, Callable[[], baselines.TrainTest]]]:
    """Name of each table row and a function that computes it, so that only one embedding is in memory at a time."""
    context = baselines.BaselineContext(model, raw, x_train, x_test)

    def transformed(**options: str) -> baselines.TrainTest:
        return model.transform(x_train, **options), model.transform(x_test, **options)

    found = entries("baseline")
    rows: list[tuple[str, Callable[[], baselines.TrainTest]]] = [
        (entry.name, partial(entry.build, context))
        for entry in found
        if not entry.tag("on_request") and baselines.is_available(entry.name, model)
    ]
    rows.append(("representation", context.representations))
    rows += [(name, partial(transformed, output=output)) for name, output in maps.items()]
    kind = getattr(getattr(model, "modality_", None), "name", "")
    further = (e for e in found if e.tag("on_request") and (e.name in requested or baselines.suits_by_itself(e, kind)))
    return rows + [(entry.name, partial(entry.build, context)) for entry in further]


def _column(title: str, values: Sequence[float]) -> list[str]:
    return aligned([f"{title} ", *marked(values, lower=title in LOWER_IS_BETTER)], str.rjust)
