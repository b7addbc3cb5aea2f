"""What does learned noise (PiNDA) bring where test rows come from other subjects or batches, and what does it learn?

All rows train about `STEPS` steps on the train rows of some subjects or batches and are scored on the rows of others:

raw             scaled rows
neighbors       the neighbor recipe
noise           and Gaussian noise of the same strength on every feature of the first view; strength searched
noise, both     noise of that strength on both views, as in the study of vectors
noise, same     noise of PiNDA's strength, on the first view
pinda           learned noise on the first view; strength searched
learning        PiNDA with a weaker barrier, so that its noise differs between features and samples
profile         noise on the first view with the mean profile of "learning" over features, equal for all samples

Every search has the same four strengths and `SHORT` steps each, on 80 % of the train rows; whole subjects or batches
are held out, and scored with labels (mean of kNN and linear). "learning" has PiNDA's strength and the barrier's weight
whose spread over features (`noise_spread`) is nearest to `SPREAD` in as many steps, of those whose spread over samples
is at least `SAMPLES`, if there are any.

Splits: wisdm_har has its own test subjects; "wisdm_har, fifths" fits on four fifths of all subjects and scores on the
last (the seed is the fifth); gas_drift is fitted on batches 1 to 5 and scored on 6, 8 and 9. A cell is one split and
one seed. Its results are named after metric and row: ``"knn pinda"``; `features` describes each feature.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.decisive.learned_noise [minutes] [set ...]
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from benchmarks.common.runner import RESULTS, Cell
from benchmarks.quality.suite import command, rounded
from benchmarks.quality.vectors.study_labels import Grouped, epochs, grouped
from viewsmith import Contrastive, PiNDA
from viewsmith.data.dataset import split_groups
from viewsmith.evaluation.protocol import evaluate_embedding
from viewsmith.modalities.vectors.views import Neighbors
from viewsmith.views.base import PositivePair, randn

SEEDS = (0, 1, 2, 3, 4)
SPLITS = {"wisdm_har": SEEDS, "wisdm_har, fifths": SEEDS, "gas_drift": SEEDS[:3]}
ROWS = ("raw", "neighbors", "noise, both", "noise", "noise, same", "pinda", "learning", "profile")
METRICS = ("linear", "knn", "kmeans_accuracy", "nmi", "linear_1pct")
STEPS, SHORT = 1000, 200
STRENGTHS = (0.25, 0.5, 1.0, 2.0)
WEIGHTS = (0.3, 0.1, 0.03)
SPREAD, SAMPLES = 0.8, 0.1
PATH = RESULTS / "learned_noise.jsonl"


class OneNoisyView(Neighbors):
    """The first view is the sample with noise, of deviation `sigma` (d,) in scaled units; the second is a neighbor."""

    def __init__(self, sigma: Tensor) -> None:
        super().__init__()
        self.register_buffer("sigma", sigma)

    def pair(self, pair: PositivePair, *, generator: torch.Generator | None = None) -> PositivePair:
        pair = super().pair(pair, generator=generator)
        return replace(pair, first=pair.first + self.sigma * randn(pair.first, generator))


def noise(strength: float, features: int) -> Contrastive:
    """Noise of the same strength on every feature of the first view."""
    return Contrastive(view_maker=OneNoisyView(torch.full((features,), strength)))


def learned(strength: float, features: int, weight: float = 1.0) -> PiNDA:
    """PiNDA with a weight of the barrier."""
    return PiNDA(strength=strength, penalty_weight=weight)


def split(name: str, seed: int) -> Grouped:
    """Rows of some groups for the fit, and of others for the scores."""
    dataset, _, fifths = name.partition(", ")
    data = grouped(dataset)
    if not fifths:
        return data
    x, y, groups = (
        np.concatenate([getattr(data, part), getattr(data, f"{part}_test")]) for part in ("x", "y", "groups")
    )
    names = np.random.default_rng(0).permutation(np.unique(groups))
    test = np.isin(groups, names[seed :: len(SEEDS)])
    return Grouped(x[~test], y[~test], groups[~test], x[test], y[test], groups[test])


def fitted(model: Any, x: np.ndarray, steps: int, seed: int) -> Any:
    """A model after at least so many steps."""
    return model.set_params(epochs=epochs(len(x), steps), random_state=seed).fit(x)


def search(make: Any, data: Grouped, seed: int, steps: int) -> float:
    """The strength whose short training has the best mean of kNN and linear accuracy on held-out groups."""
    fit, rest = split_groups(data.groups, seed)
    found = {}
    for strength in STRENGTHS:
        model = fitted(make(strength, data.x.shape[1]), data.x[fit], steps, seed)
        h, h_rest = (model.transform(data.x[rows]) for rows in (fit, rest))
        scores = evaluate_embedding(h, data.y[fit], h_rest, data.y[rest], protocols=["linear", "knn"])
        found[strength] = sum(scores.values())
    return max(found, key=found.__getitem__)


def spreads(model: PiNDA, x: np.ndarray) -> tuple[float, float]:
    """Spread of sigma over features and over samples: standard deviation divided by mean."""
    with torch.no_grad():
        sigma = model.method_.noise.noise_parameters(model.samples(x))[0]  # type: ignore[union-attr, operator]
    profile = sigma.mean(0)
    over_samples = (sigma.std(0, correction=0) / profile).mean()
    return float(profile.std(correction=0) / profile.mean()), float(over_samples)


def barrier(strength: float, data: Grouped, seed: int, steps: int) -> float:
    """The weight of the barrier that is nearest to the target spread."""
    found = {}
    for weight in WEIGHTS:
        model = fitted(learned(strength, data.x.shape[1], weight), data.x, steps, seed)
        found[weight] = spreads(model, data.x)
    varied = {weight: pair for weight, pair in found.items() if pair[1] >= SAMPLES} or found
    return min(varied, key=lambda weight: abs(varied[weight][0] - SPREAD))


def between(x: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Fraction of each feature's variance that lies between the means of groups, (d,)."""
    means = np.zeros_like(x)
    for group in np.unique(groups):
        means[groups == group] = x[groups == group].mean(0)
    variance = x.var(0)
    return np.divide(means.var(0), variance, out=np.zeros_like(variance), where=variance > 0)


def relative_profile(model: PiNDA, x: np.ndarray, strength: float) -> np.ndarray:
    """Mean sigma of each feature, divided by the strength."""
    with torch.no_grad():
        sigma: Tensor = model.method_.noise.noise_parameters(model.samples(x))[0]  # type: ignore[union-attr, operator]
    return np.asarray(sigma.mean(0) / strength)


def measure(name: str, seed: int, *, quick: bool = False) -> dict[str, Any]:
    """Scores of all rows on the rows of other groups, and what was searched and learned."""
    torch.set_num_threads(1)
    data = split(name, seed)
    steps, short = (1, 1) if quick else (STEPS, SHORT)
    features = data.x.shape[1]
    scaler = StandardScaler().fit(data.x)
    pairs = {"raw": (scaler.transform(data.x), scaler.transform(data.x_test))}

    def train(row: str, model: Any) -> Any:
        fitted(model, data.x, steps, seed)
        pairs[row] = (model.transform(data.x), model.transform(data.x_test))
        return model

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = {row: search(make, data, seed, short) for row, make in (("noise", noise), ("pinda", learned))}
        strength = chosen["pinda"]
        train("neighbors", Contrastive())
        train("noise", noise(chosen["noise"], features))
        train("noise, both", Contrastive(view_maker="neighbors+noise", noise_strength=chosen["noise"]))
        train("noise, same", noise(strength, features))
        default = train("pinda", learned(strength, features))
        weight = barrier(strength, data, seed, short)
        learning = train("learning", learned(strength, features, weight))
        profile = relative_profile(learning, data.x, strength)
        # The same power: the root mean square over the features is the strength.
        sigma = strength * profile / np.sqrt(np.mean(profile**2))
        train("profile", Contrastive(view_maker=OneNoisyView(torch.from_numpy(sigma.astype(np.float32)))))
    found: dict[str, Any] = {}
    for row, (h, h_test) in pairs.items():
        scores = evaluate_embedding(h, data.y, h_test, data.y_test, protocols=list(METRICS))
        found |= {f"{metric} {row}": value for metric, value in scores.items()}
    for row, model in (("pinda", default), ("learning", learning)):
        found |= zip((f"features {row}", f"samples {row}"), spreads(model, data.x), strict=True)
    found |= {f"strength {row}": value for row, value in chosen.items()} | {"weight": weight}
    x = pairs["raw"][0]
    described = {
        "pinda": relative_profile(default, data.x, strength),
        "learning": profile,
        "between groups": between(x, data.groups),
        "between classes": between(x, data.y),
    }
    return dict(rounded(found)) | {"features": {key: listed(value) for key, value in described.items()}}


def listed(numbers: np.ndarray) -> list[float]:
    """Numbers with three digits after the point."""
    return [round(float(number), 3) for number in numbers]


def cells(quick: bool = False) -> list[Cell]:
    """A cell for each split and seed."""
    keys = [(name, seed) for seed in SEEDS for name, seeds in SPLITS.items() if seed in seeds]
    return [
        Cell(name, "learned noise", seed, partial(measure, name, seed, quick=quick))
        for name, seed in (keys[:1] if quick else keys)
    ]


if __name__ == "__main__":
    command(__doc__, PATH, cells)
