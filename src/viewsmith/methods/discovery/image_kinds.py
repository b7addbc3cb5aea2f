"""Kinds of parts in images that one box does not find: small ones that only some have, and one that fills the images.

With one box in an image (`image_parts`) neither is found: a platelet is smaller than any window there and missing in
half of the smears, and one of a dozen red blood cells holds little of the posterior.

    1. Small: windows of one to three cells, whose densities are fitted to the best windows of half of the images (as
       in MEME's model of zero or one site, Bailey and Elkan 1994). It recurs if its scores, held out, are higher than
       the best ones in images with random phases, in which the kinds before are filled with the mean of the rest.
    2. Filling: windows apart from each other, up to `COUNT` in an image, are chosen; then, in rounds, cells inside and
       outside are contrasted, and the squares with the largest sums of 2 p - 1 are chosen. All have one size. A random
       field with the same spectrum has regions of any size, so that its posterior agrees less with such squares, or
       windows that are less alike. If several parts in an image are asked for, the first kind may be one of these.
"""

import dataclasses
from typing import Any

import numpy as np

from viewsmith.methods.discovery.acceptance import Evidence
from viewsmith.methods.discovery.contrast import Contrast, Moments, choose_windows, folds
from viewsmith.methods.discovery.image_parts import (
    BOX_ROUNDS,
    CONSISTENT,
    OUTSIDE,
    Cells,
    Part,
    agreement,
    cell_posteriors,
    shares_below,
    whole_components,
    window_means,
    windows_apart,
)

COUNT = 16  # places in an image of a kind that fills it

# By so much the agreement with squares has to exceed that in images with random phases, or by this factor the score of
# the chosen windows. Ten sets of textures of five spectra: at most .05 and 1.13. Red cells in blood smears: .12 to .16
# and 1.16 to 1.19. Nuclei of cells, four kinds of images: .07 to .28 and 1.7 to 5.6.
FILLING_ABOVE, FILLING_TIMES = 0.12, 1.4
SMALL = (1, 2, 3)  # sides of windows of small kinds, in cells
BORDER = 0.5  # cells around a small window that its features see, because patches are larger than cells
PRESENT = 0.5  # of the images, to whose best windows a small kind is fitted


def filling(maps: np.ndarray, free: np.ndarray, side: int, seed: int) -> Part:
    """The kind that squares of one side lead to, up to `COUNT` in an image."""
    cells = Cells.of(maps, free, folds(len(maps), seed))
    whitening, z, whole = whole_components(maps, free, side)
    rows = z.reshape(len(z), -1, z.shape[-1])
    score, _ = choose_windows(rows, whole.reshape(len(z), -1), cells.fold, count=min(COUNT, rows.shape[1]))
    chosen = _chosen(score.reshape(whole.shape), side)
    of_chosen = score.reshape(whole.shape)[chosen]
    for _ in range(BOX_ROUNDS):
        posterior, of_cells = cell_posteriors(cells, _covered(chosen, side))
        values = window_means(np.where(free, 2 * posterior - 1, OUTSIDE)[..., None].astype(np.float32), side)[..., 0]
        chosen = _chosen(values, side)
    held = np.where(free, posterior, 0)
    return Part(
        window=side,
        windows=(whitening, Contrast.of(Moments.of(z, chosen), Moments.of(z, whole))),
        cells=(cells.whitening, of_cells),
        posterior=float(held.sum() / free.sum()),
        consistency=float(agreement(held, _covered(chosen, side)).mean()),
        objective=float(of_chosen.mean()) if len(of_chosen) else 0.0,
        size=np.array([side, side], float),
        count=COUNT,
    )


def fills(part: Part, nothing: Part) -> bool:
    """Whether a kind fills the images more clearly than one that was fitted to images with random phases."""
    agrees = part.consistency >= nothing.consistency + FILLING_ABOVE
    return part.consistency >= CONSISTENT and (agrees or part.objective >= FILLING_TIMES * nothing.objective)


def _chosen(values: np.ndarray, side: int) -> np.ndarray:
    """The best windows with positive values, apart from each other, bool like the values."""
    chosen = np.zeros(values.shape, bool)
    for boxes, value in windows_apart(values, side, COUNT):
        chosen[np.arange(len(values)), boxes[:, 0], boxes[:, 1]] |= value > 0
    return chosen


def _covered(chosen: np.ndarray, side: int) -> np.ndarray:
    """Cells in any of the chosen windows, bool (n, h, w)."""
    padded = np.pad(chosen, [(0, 0), (side - 1, side - 1), (side - 1, side - 1)])
    return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, (side, side), (1, 2)).any((-2, -1)))


def small(
    maps: np.ndarray, free: np.ndarray, side: int, seed: int, nothing: np.ndarray, count: int = 1
) -> tuple[Part, np.ndarray]:
    """The kind that windows of a few cells lead to, and the scores (m, count) of the best ones in `nothing`, maps of
    images with random phases; its consistency is the probability that the best window of an image has a higher score
    than one of those."""
    fold = folds(len(maps), seed)
    whitening, z, whole = whole_components(maps, free, side)
    score, contrast = choose_windows(
        z.reshape(len(z), -1, z.shape[-1]), whole.reshape(len(maps), -1), fold, count=1, present=PRESENT
    )
    pair = whitening, contrast
    plain: dict[str, Any] = {"posterior": 0.0, "consistency": 0.0, "objective": 0.0, "boxed": False}
    part = Part(window=side, windows=pair, cells=pair, border=BORDER, **plain)
    null = np.stack([own for _, own in windows_apart(part.window_scores(nothing), side, count, BORDER)], 1)
    best = score.max(1)
    shares = shares_below(best, null[:, 0])
    evidence = Evidence.of_places(shares, shares_below(null[:, 0], null[:, 0]))
    objective = float(best[np.isfinite(best)].mean())
    return dataclasses.replace(part, consistency=float(shares.mean()), objective=objective, evidence=evidence), null
