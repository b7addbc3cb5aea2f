"""A probe of the representation during the training, by labels that the loss never sees."""

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from viewsmith.core.distributed import rank
from viewsmith.core.errors import InputError
from viewsmith.core.random import stream
from viewsmith.data.labels import numbers_of, partial_labels, without_label
from viewsmith.evaluation.protocol import evaluate_embedding
from viewsmith.training.engine import Callback, Trainer


class OnlineProbe(Callback):
    """Adds scores of the representation to the metrics, by labels of the training rows: probe/linear, probe/knn.

    On a fixed sample of the labeled rows: a classifier is fitted on one half and scored on the other; of numbers,
    probe/r2 and probe/knn_r2 (`viewsmith.evaluation.PROTOCOLS`). The training does not change: weights are the same
    bit for bit with and without the probe. A training that is chosen by these scores has used the labels.

    Parameters
    ----------
    y : array-like (n,)
        Labels of the rows of `fit`; missing ones are -1, NaN, None or empty.
    points : int
        Number of times in a training.
    rows : int
        Labeled rows that are used, at most.
    """

    def __init__(self, y: ArrayLike, *, points: int = 12, rows: int = 1000) -> None:
        self.y, self.points, self.rows = y, points, rows

    def start(self, trainer: Trainer) -> None:
        y = np.asarray(self.y)
        if y.shape != (len(trainer.x),):
            raise InputError(
                f"the labels of the probe have shape {y.shape}, but the training is on {len(trainer.x)} rows: give one "
                "label for each"
            )
        numbers = numbers_of(y, "the labels of the probe")
        labels = partial_labels(y, len(y), "the labels of the probe") if numbers is None else numbers
        known = np.flatnonzero(~without_label(labels))
        self._labels, self._protocols = labels, ("linear", "knn") if numbers is None else ("r2", "knn_r2")
        order = torch.randperm(len(known), generator=stream(trainer.seed, "probe")).numpy()
        self._index = known[order[: self.rows]]
        if len(np.unique(labels[self._index[: len(self._index) // 2]])) < 2:
            raise InputError(
                f"the probe has {len(known)} labels, {len(np.unique(labels[known]))} of them different: expected more "
                "labels, of at least two classes"
            )

    def epoch(self, trainer: Trainer, row: dict[str, Any]) -> None:
        number = trainer.epochs_done + 1
        if rank() != 0 or (number % max(1, trainer.epochs // self.points) and number != trainer.epochs):
            return
        trainer.method.eval()
        with torch.no_grad():
            rows = trainer.x[torch.from_numpy(self._index).to(trainer.device)]
            h = trainer.method.represent(rows).float().cpu().numpy()
        trainer.method.train()
        y, cut = self._labels[self._index], len(h) // 2
        scores = evaluate_embedding(
            h[:cut], y[:cut], h[cut:], y[cut:], protocols=self._protocols, name="the representation"
        )
        row.update({f"probe/{name}": score for name, score in scores.items()})
