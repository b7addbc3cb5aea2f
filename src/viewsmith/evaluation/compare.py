"""The honest comparison: a representation beside raw features, PCA, the untrained encoder and, on request, UMAP."""

from __future__ import annotations

import math
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.evaluation import baselines
from viewsmith.evaluation.label_free import label_free
from viewsmith.evaluation.protocol import PROTOCOLS, check_protocols, evaluate_embedding

WIDTH = 120
LABEL_FREE_ROWS = 2000

Pair = tuple[np.ndarray, np.ndarray]


class Model(Protocol):
    """What `compare` asks of a fitted model.

    A model may also have ``outputs``, a dict from the name of a further table row to the value of
    ``transform(x, output=...)`` that makes it.
    """

    def raw_features(self, X: Any) -> dict[str, np.ndarray]:
        """What a user would take without a model, (n, d) by name."""

    @property
    def transform(self) -> Callable[..., np.ndarray]:
        """Called with rows, and ``output=`` for further outputs: representations, (n, k)."""

    def untrained(self, X: Any) -> Model:
        """The model with its initial weights."""


class LabeledSplit(Protocol):
    """What `compare` asks of a data set; see `viewsmith.data.Dataset`."""

    @property
    def x_train(self) -> Any: ...
    @property
    def x_test(self) -> Any: ...
    @property
    def y_train(self) -> Any: ...
    @property
    def y_test(self) -> Any: ...


def compare(
    model: Model, dataset: LabeledSplit, *, umap: bool = False, protocols: Sequence[str] | None = None
) -> dict[str, Any]:
    """Score a model and its baselines on the same rows with the same protocol.

    Parameters
    ----------
    model : Model
        A fitted estimator.
    dataset : LabeledSplit
        Train and test rows with their labels. Everything is fitted on train and scored on test.
    umap : bool
        Add a row for UMAP (extra ``viz``).
    protocols : sequence of str, optional
        Names from `PROTOCOLS`; default: all.

    Returns
    -------
    dict
        Plain values only: ``embeddings`` (scores by row: raw, pca, untrained, representation, the model's further
        outputs, umap), ``raw`` (the name of the raw features that a split of train prefers), ``protocols`` (name to
        description), ``rows`` (numbers of train and test rows and of
        classes), ``label_free`` (by row, on up to 2,000 test rows, the same for all), ``seconds`` (by row: ``embed``
        and ``score``).

    Raises
    ------
    InputError
        No labels, no test rows, unknown protocols, or an embedding that is not finite, which is named.
    """
    wanted = check_protocols(protocols)
    _check_split(dataset)
    x_train, x_test, y_train, y_test = dataset.x_train, dataset.x_test, dataset.y_train, dataset.y_test

    scores: dict[str, dict[str, float]] = {}
    spread: dict[str, dict[str, float]] = {}
    seconds: dict[str, dict[str, float]] = {}
    raw = _preferred(model, x_train, y_train)
    sample = np.random.default_rng(0).permutation(len(x_test))[:LABEL_FREE_ROWS]
    for name, embed in _embeddings(model, raw, x_train, x_test, umap):
        started = time.perf_counter()
        train, test = embed()
        embedded = time.perf_counter()
        scores[name] = evaluate_embedding(train, y_train, test, y_test, protocols=wanted, name=name)
        seconds[name] = {"embed": embedded - started, "score": time.perf_counter() - embedded}
        if len(sample) > 1:
            spread[name] = label_free(test[sample])
    return {
        "embeddings": scores,
        "raw": raw,
        "protocols": {name: PROTOCOLS[name] for name in wanted},
        "rows": {
            "train": len(x_train),
            "test": len(x_test),
            "classes": len(np.union1d(np.asarray(y_train), np.asarray(y_test))),
        },
        "label_free": spread,
        "seconds": seconds,
    }


def format_table(result: Mapping[str, Any]) -> str:
    """The scores of `compare` as plain text, at most 120 columns wide, the best of each column marked with ``*``.

    Scores equal to three decimals share the mark. Columns that do not fit go into a further block of rows; the
    protocol follows underneath.
    """
    rows: Mapping[str, Mapping[str, float]] = result["embeddings"]
    first = ["", *rows]
    blocks: list[list[list[str]]] = []
    room = 0
    for protocol in result["protocols"]:
        column = _column(protocol, [scores[protocol] for scores in rows.values()])
        if len(column[0]) + 2 > room:
            blocks.append([_align(first, str.ljust)])
            room = WIDTH - len(blocks[-1][0][0])
        blocks[-1].append(column)
        room -= len(column[0]) + 2
    tables = ["\n".join("  ".join(line).rstrip() for line in zip(*block, strict=True)) for block in blocks]

    count = result["rows"]
    size = f"Fitted on {count['train']} train rows, scored on {count['test']} test rows, {count['classes']} classes."
    notes = [
        size,
        f"raw: {result['raw']}",
        "* best of the column",
        *(f"{name}: {text}" for name, text in result["protocols"].items()),
    ]
    wrapped = [textwrap.fill(note, WIDTH, subsequent_indent="    ") for note in notes]
    return "\n\n".join([*tables, "\n".join(wrapped)])


def _preferred(model: Model, x_train: Any, y_train: Any) -> str:
    """Which raw features to compare with: those with the better linear probe on a fifth of the train rows."""
    names = list(model.raw_features(x_train[:2]))
    if len(names) == 1:
        return names[0]
    y = np.asarray(y_train)
    held = np.zeros(len(y), dtype=bool)
    for label in np.unique(y):
        members = np.random.default_rng(0).permutation(np.flatnonzero(y == label))
        held[members[: len(members) // 5]] = True
    if not held.any():
        return names[0]
    features = model.raw_features(x_train)
    scores = {
        name: evaluate_embedding(rows[~held], y[~held], rows[held], y[held], protocols=["linear"], name=name)["linear"]
        for name, rows in features.items()
    }
    return max(names, key=lambda name: scores[name])


def _embeddings(model: Model, raw: str, x_train: Any, x_test: Any, umap: bool) -> list[tuple[str, Callable[[], Pair]]]:
    """Name and maker of each row of the table, in order; made one at a time to hold one wide copy in memory."""

    def plain() -> Pair:
        return model.raw_features(x_train)[raw], model.raw_features(x_test)[raw]

    def transformed(**options: str) -> Pair:
        return model.transform(x_train, **options), model.transform(x_test, **options)

    def untrained() -> Pair:
        initial = model.untrained(x_train)
        return initial.transform(x_train), initial.transform(x_test)

    makers: list[tuple[str, Callable[[], Pair]]] = [
        ("raw", plain),
        ("pca", lambda: baselines.pca(*plain())),
        ("untrained", untrained),
        ("representation", transformed),
    ]
    makers += [(name, partial(transformed, output=output)) for name, output in getattr(model, "outputs", {}).items()]
    if umap:
        makers.append(("umap", lambda: baselines.umap(*plain())))
    return makers


def _check_split(dataset: LabeledSplit) -> None:
    if dataset.y_train is None:
        raise InputError(
            "the data have no labels, which evaluation needs to score; give --label COLUMN (a table, obs), "
            "--labels FILE (FASTA), or y_train, y_test"
        )
    if dataset.x_test is None or len(dataset.x_test) == 0:
        raise InputError(
            "the data have no test rows, which evaluation scores; give --label COLUMN for a split of 80/20 "
            "or X_train and X_test"
        )
    if dataset.y_test is None:
        raise InputError("the test rows have no labels, which evaluation needs to score; give --label COLUMN or y_test")


def _column(protocol: str, values: list[float]) -> list[str]:
    shown = [f"{value:.3f}" for value in values]
    finite = [text for text, value in zip(shown, values, strict=True) if math.isfinite(value)]
    best = max(finite, key=float, default=None)
    return _align([protocol + " ", *(text + ("*" if text == best else " ") for text in shown)], str.rjust)


def _align(cells: list[str], pad: Callable[[str, int], str]) -> list[str]:
    width = max(map(len, cells))
    return [pad(cell, width) for cell in cells]
