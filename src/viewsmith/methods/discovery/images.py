"""Discovery in images: contrast of windows, then of cells, and the choice among several starts without labels.

1. Windows: the mean features of every k x k cells, reduced to whitened principal components.
2. Start: the windows farthest from the mean window of their own image.
3. Rounds: the best three windows of each image are chosen; their score is log p_P(z) / p_U(z), fitted on the chosen
   windows of the other folds of images (`viewsmith.methods.discovery.contrast`).
4. Boxes: cells inside the chosen boxes against cells outside; the new box is the rectangle in which 2 p - 1 sums to the
   most, where p is the posterior of a cell (`viewsmith.methods.discovery.boxes`).
5. Choice: of several k, solutions whose part would fill most of the image are background; of the others, the one whose
   posterior lies most completely in its boxes is taken, if the same search finds less in images with random phases.
   If none is left, nothing recurs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from scipy.special import expit

from viewsmith.methods.discovery.boxes import best_boxes
from viewsmith.methods.discovery.contrast import Contrast, Whitening, choose_windows, folds, moments_by_fold

WINDOWS = (4, 5, 7, 9)  # sides of windows that are tried, in cells
BOX_ROUNDS = 2
OUTSIDE = -1e6  # of a cell that no box may contain
BACKGROUND = 0.4  # mean posterior above which a solution is background
# Least consistency of a part that recurs. Blood smears: .73 to .74 at four sides of windows; discs in noise, two in an
# image: .41 to .45. Textures of five spectra and overlapping discs, none of which have a part: at most .32.
CONSISTENT = 0.38
# By so much it has to exceed that of the same images with random phases. Blood smears: .45, discs: .3 to .5; textures
# of five spectra: at most .08.
ABOVE = 0.15


@dataclass(frozen=True, kw_only=True)
class Part:
    """What recurs in images, fitted: it scores the windows and the cells of any image.

    Attributes
    ----------
    window : int
        Side of the windows, in cells.
    windows, cells : (Whitening, Contrast)
        Of windows, and of cells.
    posterior, consistency : float
        Mean posterior of all cells, and the posterior inside the boxes over their area plus the posterior outside, from
        held-out folds: by these the part is chosen.
    objective : float
        E log p_P(z) / p_U(z) of the best window of each image, held out, in nats.
    nothing : float
        The consistency that the same windows have in images with random phases; NaN if it was not needed.
    """

    window: int
    windows: tuple[Whitening, Contrast]
    cells: tuple[Whitening, Contrast]
    posterior: float
    consistency: float
    objective: float
    nothing: float = float("nan")

    def window_scores(self, maps: np.ndarray) -> np.ndarray:
        """log p_P(z) / p_U(z) of every window, (n, h - k + 1, w - k + 1), for maps (n, h, w, d)."""
        whitening, contrast = self.windows
        z = whitening(window_means(maps, self.window))
        return contrast(z.reshape(-1, z.shape[-1])).reshape(z.shape[:3])

    def posteriors(self, maps: np.ndarray) -> np.ndarray:
        """Probability of every cell to lie in the part, (n, h, w)."""
        whitening, contrast = self.cells
        z = whitening(maps)
        return np.asarray(expit(contrast(z.reshape(-1, z.shape[-1])).reshape(z.shape[:3])))


def window_means(maps: np.ndarray, side: int) -> np.ndarray:
    """The mean features of every window of side x side cells, (n, h - side + 1, w - side + 1, d)."""
    x = torch.from_numpy(np.ascontiguousarray(maps.transpose(0, 3, 1, 2)))
    return F.avg_pool2d(x, side, stride=1).permute(0, 2, 3, 1).contiguous().numpy()


def discover(maps: np.ndarray, valid: np.ndarray, *, windows: Sequence[int] = WINDOWS, seed: int = 0) -> list[Part]:
    """Find what recurs in dense features: a solution for each side of windows, see `likely`.

    Parameters
    ----------
    maps : ndarray of float32, shape (n, h, w, d)
    valid : ndarray of bool, shape (n, h, w)
        Cells that belong to an image; others are padding, or parts that were found before.
    windows : sequence of int
        Sides of windows, in cells.
    seed : int
        For the folds of images.
    """
    fold = folds(len(maps), seed)
    return [_solution(maps, valid, side, fold) for side in windows]


def likely(tried: Sequence[Part]) -> list[Part]:
    """Solutions that are no background, those first whose posterior lies most completely in their boxes."""
    found = [part for part in tried if part.posterior <= BACKGROUND and part.consistency >= CONSISTENT]
    return sorted(found, key=lambda part: -part.consistency)


def random_phases(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """An image uint8 (h, w, C) with the same spectrum and random phases, the same ones in all channels.

    What recurs in such images is due to their spectra, as extremes of smooth noise are (Theiler et al. 1992).
    """
    phases = np.fft.fft2(rng.normal(size=image.shape[:2]))
    phases /= np.maximum(abs(phases), 1e-12)
    phases[0, 0] = 1
    drawn = np.fft.ifft2(np.fft.fft2(image.astype(np.float64), axes=(0, 1)) * phases[..., None], axes=(0, 1)).real
    return np.clip(np.round(drawn), 0, 255).astype(np.uint8)


def whole_windows(valid: np.ndarray, side: int) -> np.ndarray:
    """Windows all of whose cells are valid, bool (n, h - side + 1, w - side + 1)."""
    return np.asarray(window_means(valid[..., None].astype(np.float32), side)[..., 0] > 1 - 0.5 / side**2)


def _solution(maps: np.ndarray, valid: np.ndarray, side: int, fold: np.ndarray) -> Part:
    """The part that windows of one side lead to (steps 1 to 4)."""
    means, whole = window_means(maps, side), whole_windows(valid, side)
    n, _, columns, _ = means.shape
    whitening = Whitening.of(means[whole])
    z, whole = whitening(means).reshape(n, -1, len(whitening.axes.T)), whole.reshape(n, -1)
    score, contrast = choose_windows(z, whole, fold)
    top, left = np.divmod(score.argmax(1), columns)
    boxes = np.stack([top, left, top + side, left + side], 1)
    cell_whitening = Whitening.of(maps[valid])
    cells = cell_whitening(maps)
    for _ in range(BOX_ROUNDS):
        posterior, of_cells = _cell_posteriors(cells, valid, boxes, fold)
        boxes, _ = best_boxes(np.where(valid, 2 * posterior - 1, OUTSIDE))
    inside = inside_boxes(boxes, valid.shape[1:])
    held = np.where(valid, posterior, 0)
    consistency = (held * inside).sum((1, 2)) / (inside.sum((1, 2)) + (held * ~inside).sum((1, 2)))
    return Part(
        window=side,
        windows=(whitening, contrast),
        cells=(cell_whitening, of_cells),
        posterior=float(held.sum() / valid.sum()),
        consistency=float(consistency.mean()),
        objective=float(score.max(1).mean()),
    )


def inside_boxes(boxes: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Whether each cell lies in the box of its image, bool (n, h, w)."""
    row, column = np.arange(shape[0])[:, None], np.arange(shape[1])
    top, left, bottom, right = boxes.T[:, :, None, None]
    return (row >= top) & (row < bottom) & (column >= left) & (column < right)


def _cell_posteriors(
    cells: np.ndarray, valid: np.ndarray, boxes: np.ndarray, fold: np.ndarray
) -> tuple[np.ndarray, Contrast]:
    """Held-out posteriors (n, h, w) of cells to lie in a box, and the contrast fitted on all folds."""
    inside, d = inside_boxes(boxes, valid.shape[1:]), cells.shape[-1]
    ins, outs = moments_by_fold(cells, inside & valid, fold), moments_by_fold(cells, ~inside & valid, fold)
    total_in, total_out = sum(ins[1:], ins[0]), sum(outs[1:], outs[0])
    posterior = np.empty(valid.shape)
    for f, (own_in, own_out) in enumerate(zip(ins, outs, strict=True)):
        contrast = Contrast.of(total_in - own_in, total_out - own_out)
        posterior[fold == f] = expit(contrast(cells[fold == f].reshape(-1, d)).reshape(-1, *valid.shape[1:]))
    return posterior, Contrast.of(total_in, total_out)
