"""What the strength of views does to samples: the tests of symmetries at several values of an option."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.data import Dataset
from viewsmith.estimators import Contrastive
from viewsmith.evaluation.symmetries import SAMPLES, Symmetry, symmetries


def strength_curve(
    dataset: Dataset, option: str, values: Sequence[float], views: str = "auto", *, seed: int = 0
) -> list[Symmetry]:
    """Distance ratio and "told apart" of views at values of an option, such as ``noise_strength``.

    Nothing is trained but one step of `contrastive` for each value, which has the views that a training would have.

    Parameters
    ----------
    dataset : Dataset
        At most 3,000 of its train rows are read.
    option : str
        An option of the views.
    values : sequence of float
    views : str
        The view maker; "auto": that of the modality.
    seed : int

    Raises
    ------
    InputError
        The views do not have the option, or not this value; fewer than 50 different samples.
    """
    if option not in Contrastive().get_params():
        raise InputError(
            f"option is {option!r}, expected an option of views, such as noise_strength: viewsmith methods"
        )
    rows = np.sort(np.random.default_rng(seed).permutation(dataset.train_index)[:SAMPLES])
    x = np.asarray(dataset.x[rows])
    found = []
    for value in values:
        given: dict[str, Any] = {option: value, "view_maker": views, "domain": dataset.domain}
        model = Contrastive(**given, epochs=1, batch_size=64, max_rows=64, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about a training that is none
            model.fit(x)
        drawn = {f"{option} {value:g}": lambda part, model=model: model.views(part, 1)[:, 0]}
        found += symmetries(x, dataset.domain, drawn, seed=seed)
    return found
