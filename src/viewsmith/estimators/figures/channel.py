"""Figures of an augmentation channel: P(T|x), and the similarity of projections of different samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch

from viewsmith.core.samples import Rows
from viewsmith.domains import Domain
from viewsmith.estimators.build.plan import Resolved
from viewsmith.estimators.figures import Figures
from viewsmith.estimators.figures.boxes import box_gallery
from viewsmith.methods.crl_tac import CRLTACMethod
from viewsmith.reports import FeatureProfile, SortedSimilarities, TransformProbabilities
from viewsmith.reports.view_shapes import match_sample_shape
from viewsmith.views.learned.transforms import Crops, Masks

PAIRS = 400  # samples whose pairs are compared, and over which P(T|x) is averaged
BARS = 4  # of these samples have separate bars
MOST = 3  # most probable views beside each of them


class ChannelModel(Protocol):
    """Interface of a model with an augmentation channel."""

    resolved_: Resolved
    scaler_: Any

    @property
    def method_(self) -> CRLTACMethod: ...
    @property
    def domain_(self) -> Domain: ...
    @property
    def views_like_samples(self) -> bool: ...
    @property
    def transform(self) -> Callable[..., np.ndarray]: ...
    def distribution(self, X: Any) -> np.ndarray: ...
    def locate(self, X: Any, n: int = 1) -> np.ndarray: ...
    def checked_rows(self, X: Any) -> np.ndarray: ...
    def samples(self, X: Any) -> Rows: ...
    def untrained(self, X: Any) -> ChannelModel: ...


def channel_figures(model: ChannelModel, x: np.ndarray, samples: np.ndarray) -> Figures:
    """Boxes and heat maps (crops of images) or bars of P(T|x), the features that masks keep, similarities of pairs."""
    family, some = model.method_.channel.family, x[:PAIRS]
    found = Figures(sorted_similarities=[_sorted(model, some)])
    if isinstance(family, Crops):
        found.galleries.append(box_gallery(model, some, len(samples)))
        return found
    p = model.distribution(some)
    found.transform_probabilities.append(_transform_probabilities(model, p, samples[:BARS]))
    if isinstance(family, Masks):
        found.profiles.append(_kept(model, family, p))
    return found


def _transform_probabilities(model: ChannelModel, p: np.ndarray, samples: np.ndarray) -> TransformProbabilities:
    """Bars of P(T|x), (n, M): of the first rows, beside their images if the rows are images, and the mean of all."""
    family = model.method_.channel.family
    names = family.names or [f"transformation {number}" for number in range(family.size)]
    each, all_rows = (float(np.exp(-(q * np.log(np.maximum(q, 1e-30))).sum(-1)).mean()) for q in (p, p.mean(axis=0)))
    caption = (
        f"P(T|x) of {len(p)} rows and of {len(samples)} of them; a row draws from {each:.3g} of {family.size} "
        f"transformations (mean effective number), all rows together from {all_rows:.3g}"
    )
    images = model.domain_.picture == "pixels" and model.views_like_samples
    views = match_sample_shape(_most_probable(model, p[: len(samples)], samples), samples) if images else None
    return TransformProbabilities(
        "What the channel chooses",
        caption,
        names,
        p[: len(samples)],
        p.mean(axis=0),
        samples if images else None,
        views,
    )


@torch.no_grad()
def _most_probable(model: ChannelModel, p: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """The most probable views of images, the most probable first: uint8 (n, k, ...)."""
    x = model.samples(samples)[:]
    most = np.argsort(-p, axis=1, kind="stable")[:, :MOST].copy()
    views = model.method_.channel.family.take(x, torch.from_numpy(most).to(x.device))
    made = model.scaler_.inverse(views.flatten(0, 1)).cpu().numpy()
    return made.reshape(*most.shape, *made.shape[1:3], *samples.shape[3:])


def _kept(model: ChannelModel, family: Masks, p: np.ndarray) -> FeatureProfile:
    """Probability that the channel keeps a feature, less that of uniformly drawn masks."""
    masks = family.masks.cpu().numpy()
    more = p.mean(axis=0) @ masks - masks.mean(axis=0)
    unit = "probability above that of uniformly drawn masks"
    caption = f"Probability that a view keeps the feature, mean over {len(p)} rows, less its fraction of all masks"
    return FeatureProfile("Features that the channel keeps", more, model.resolved_.feature_names or None, caption, unit)


def _sorted(model: ChannelModel, x: np.ndarray) -> SortedSimilarities:
    found = {"trained": _pairs(model.transform(x, output="projection"))}
    found["before training"] = _pairs(model.untrained(x).transform(x, output="projection"))
    caption = f"Absolute inner products of the projections of {len(x)} rows, all pairs"
    return SortedSimilarities("Similarity of different samples", found, caption)


def _pairs(h: np.ndarray) -> np.ndarray:
    h = h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), 1e-12)
    return np.abs(h @ h.T)[np.triu_indices(len(h), 1)].clip(0, 1)
