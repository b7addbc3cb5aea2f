"""Locations that the channel of CRL-TAC finds in samples, crops at them, and figures of P(T|x) and projections."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from viewsmith.core.errors import InputError
from viewsmith.data import Dataset
from viewsmith.estimator.figures import figure_rows, gallery_samples
from viewsmith.methods.crl_tac.locations import crop_boxes, largest_effective, locate_boxes, locate_features
from viewsmith.methods.crl_tac.training import KEPT
from viewsmith.methods.crl_tac.transforms import Crops, Masks, Windows
from viewsmith.modalities.images.channels import pictures, to_pixels
from viewsmith.reports import Figure, Picture, color_by, draw_bars, draw_gallery, draw_profile, new_axes
from viewsmith.reports.charts import OTHER_KINDS, image_tiles, match_sample_shape
from viewsmith.reports.figure import MUTED, PALETTE, RULE, VERMILION, shorten, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLOCK = 256  # samples whose P(T|x) is in memory at a time
BOX = np.dtype([("sample", "i8"), *((side, "f8") for side in ("top", "left", "height", "width", "probability"))])
WINDOW = np.dtype([("sample", "i8"), ("start", "i8"), ("end", "i8"), ("probability", "f8")])
FEATURE = np.dtype([("sample", "i8"), ("feature", "i8"), ("probability", "f8")])


#: A fitted `CRLTAC`, whose module imports this one.
Fitted = Any


def locate(model: Fitted, X: Any, n: int) -> np.ndarray:
    """Find locations; see `CRLTAC.locate`."""
    if not isinstance(n, numbers.Integral) or isinstance(n, bool) or n < 1:
        raise InputError(f"n is {n!r}, expected a whole number of at least 1")
    family = model.method_.channel.family
    limit = largest_effective(family.size, float(model.method_.chosen))
    if isinstance(family, Masks):
        p = torch.from_numpy(model.distribution(X))
        features, probability, found = locate_features(p, family.masks.cpu(), int(n), limit)
        return _entries(FEATURE, 0, found, features, probability)
    rows = model.checked_rows(X)
    blocks = [_locations(model, rows, start, int(n), limit) for start in range(0, len(rows), BLOCK)]
    return np.concatenate(blocks)


@torch.no_grad()
def _locations(model: Fitted, rows: np.ndarray, start: int, n: int, limit: float) -> np.ndarray:
    """Locations in a block of rows."""
    block = rows[start : start + BLOCK]
    boxes = model.method_.channel.family.boxes(model.samples(block)[:].cpu())
    if boxes is None:
        raise InputError(
            "the transformations of the model have no location in a sample, so that nothing can be located: "
            "distribution(X) has their probabilities"
        )
    located, probability, found = locate_boxes(torch.from_numpy(model.distribution(block)), boxes, n, limit)
    if isinstance(model.method_.channel.family, Windows):
        first, length = located[..., 1], located[..., 3]
        return _entries(WINDOW, start, found, first.round(), (first + length).round(), probability)
    return _entries(BOX, start, found, *located.unbind(2), probability)


def _entries(dtype: np.dtype, start: int, found: torch.Tensor, *columns: torch.Tensor) -> np.ndarray:
    """Columns (B, n) as a structured array of the entries with `found` (B, n), sample by sample."""
    made = np.empty(int(found.sum()), dtype)
    sample = start + torch.arange(len(found))[:, None].expand(found.shape)
    for name, column in zip(dtype.names or (), (sample, *columns), strict=True):
        made[name] = column[found].numpy()
    return made


def cut(model: Fitted, X: Any, found: np.ndarray) -> np.ndarray:
    """Cut crops out of images, (k, side, side[, C]), or windows out of sequences, with zeros after their end."""
    if found.dtype == FEATURE:
        raise InputError("features of vectors cannot be cut out: views(X) has samples with only some of the features")
    rows = model.checked_rows(X)
    if found.dtype == WINDOW:
        lengths = found["end"] - found["start"]
        windows = np.zeros((len(found), *rows.shape[1:-1], int(lengths.max(initial=1))), rows.dtype)
        for crop, length, window in zip(windows, lengths, found, strict=True):
            crop[..., :length] = rows[window["sample"], ..., window["start"] : window["end"]]
        return windows
    family = model.method_.channel.family
    side = family.crop if isinstance(family, Crops) else int(found["height"].round().max(initial=1))
    boxes = np.stack([found[name] for name in ("top", "left", "height", "width")], axis=1)
    crops = np.empty((len(found), side, side, *rows.shape[3:]), rows.dtype)
    for start in range(0, len(found), BLOCK):
        part = slice(start, start + BLOCK)
        images = rows[found["sample"][part]]
        in_color = torch.from_numpy(images if images.ndim == 4 else images[..., None])
        crops[part] = crop_boxes(in_color, torch.from_numpy(boxes[part]), side).numpy().reshape(crops[part].shape)
    return crops


COLOR = to_pixels((1, 0.376, 0))
TILE = 96  # pixels of a tile, on which the outline of a box is one pixel wide


def box_gallery(model: Fitted, x: np.ndarray, count: int) -> Figure:
    """Some images with boxes and heat maps, in the order of the probability of their boxes, the smallest first."""
    family = model.method_.channel.family
    if not isinstance(family, Crops):
        raise InputError("boxes are of crops of images")
    found = model.locate(x)
    probability = np.zeros(len(x))
    probability[found["sample"]] = found["probability"]
    ranks = np.linspace(0, len(x) - 1, min(count, len(x))).round().astype(int)
    selected = np.argsort(probability, kind="stable")[ranks]
    images = pictures(x[selected])
    boxed = images.copy()
    for image, row in zip(boxed, selected, strict=True):
        for box in found[found["sample"] == row]:
            draw_box(image, *(box[side] for side in ("top", "left", "height", "width")))
    boxes = family.boxes(torch.zeros(1, 1, *x.shape[1:3]))[0].numpy()
    heat = cover(model.distribution(x[selected]), boxes, images.shape[1:3])
    white = to_pixels(heat / np.maximum(heat.max(axis=(1, 2), keepdims=True), 1e-12))
    without = int((probability == 0).sum())
    caption = (
        f"{len(selected)} of {len(x)} images, hardest first: the probability of the box rises from "
        f"{probability[selected[0]]:.2f} to {probability[selected[-1]]:.2f}; no location is found in {without}. "
        "Image; box; probability that a pixel is in a view (white: the largest)"
    )
    kept = model.metrics_[-1].get("at_places", 0.0) if model.metrics_ else 0.0
    if kept >= KEPT:
        caption += (
            f". The channel keeps to the places that discovery found ({kept:.0%} of its probability is there): if only "
            "places matter, `viewsmith discover` alone gives them, with boxes of their own size"
        )
    views = np.stack([boxed, pictures(white)], axis=1)
    return draw_gallery("Where the channel looks", images, views, "pixels", caption)


def cover(p: np.ndarray, boxes: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Probability that a pixel is in a view, (n, H, W), from P(T|x), (n, M), and the boxes of the views, (M, 4)."""
    made = np.zeros((len(p), *shape))
    ends = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1).round().astype(int)
    for weights, (top, left, bottom, right) in zip(p.T, ends, strict=True):
        made[:, top:bottom, left:right] += weights[:, None, None]
    return made


def draw_box(image: np.ndarray, top: float, left: float, height: float, width: float) -> None:
    """Draw the outline of a box into an image, (H, W, 3), inside the box."""
    wide = -(-max(image.shape[:2]) // TILE)
    rows, columns = slice(round(top), round(top + height)), slice(round(left), round(left + width))
    inside = image[rows, columns].copy()
    image[rows, columns] = COLOR
    if min(inside.shape[:2]) > 2 * wide:
        image[rows, columns][wide:-wide, wide:-wide] = inside[wide:-wide, wide:-wide]


PAIRS = 400  # samples whose pairs are compared, and over which P(T|x) is averaged
BARS = 4  # of these samples have separate bars
MOST = 3  # most probable views beside each of them


def channel_figures(model: Fitted, dataset: Dataset) -> list[Figure]:
    """Boxes and heat maps (crops of images) or bars of P(T|x), the features that masks keep, projections of rows."""
    x, labels, _ = figure_rows(dataset)
    family, some, samples = model.method_.channel.family, x[:PAIRS], gallery_samples(dataset)
    # Evenly spread over the rows, because these are often sorted by class.
    spread = np.unique(np.linspace(0, len(x) - 1, PAIRS).astype(np.int64))
    models = {"trained": model, "before training": model.untrained(x[spread])}
    found = projection_figures(models, x[spread], None if labels is None else labels[spread])
    if isinstance(family, Crops):
        return [box_gallery(model, some, len(samples)), *found]
    p = model.distribution(some)
    kept = [_kept(model, family, p)] if isinstance(family, Masks) else []
    return [_chosen(model, p, samples[:BARS]), *kept, *found]


def projection_figures(models: Mapping[str, Any], X: Any, labels: np.ndarray | None = None) -> list[Figure]:
    """Projections of rows by several models, and similarities of all pairs (Koyama et al. 2021, figs. 6-8)."""
    given = {name: model.transform(X, output="projection") for name, model in models.items()}
    found = {name: z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-12) for name, z in given.items()}
    n, (first, *others) = len(next(iter(found.values()))), found
    beside = f": {first}, and {' and '.join(others)} for comparison" if others else ""
    pairs = {name: np.abs(z @ z.T)[np.triu_indices(n, 1)].clip(0, 1) for name, z in found.items()}
    return [
        draw_projections(found, labels, f"Projections of {n} rows, at length one{beside}"),
        draw_sorted(pairs, f"Absolute inner products of the projections of {n} rows, all pairs"),
    ]


CURVES = 200  # rows that are drawn as curves, as in the paper


def draw_projections(projections: Mapping[str, np.ndarray], labels: np.ndarray | None, caption: str) -> Figure:
    """Draw the projections of the same rows by each model, (n, d), in a panel of its own, with common axes."""
    from matplotlib.figure import Figure as Drawing

    n = len(next(iter(projections.values())))
    coloring = color_by(labels, n)
    colors = np.resize(np.array(PALETTE, dtype=object), n) if labels is None else coloring.colors
    flat = all(z.shape[1] == 2 for z in projections.values())
    with style():
        drawing = Drawing(figsize=(8.6, 3.9 if flat else 2.6), layout="constrained")
        panels = drawing.subplots(1, len(projections), squeeze=False)[0]
        for axes, (kind, z) in zip(panels, projections.items(), strict=True):
            draw_panel(axes, z, colors)
            axes.set_title(shorten(kind, 40), fontsize=9)
    spreads = "; ".join(f"{shorten(kind)} {spread(z):.2f}" for kind, z in projections.items())
    drawn = "Each point is a row" if flat else f"Each curve is a row ({-(-n // -(-n // CURVES))} of {n})"
    return Figure(
        "Projections",
        caption,
        [Picture(f"Projections of {n} rows; standard deviation over rows, by kind: {spreads}.", drawing)],
        f"{drawn}. All alike: the projections have collapsed. Standard deviation over rows: {spreads}.",
        legend=coloring.legend,
        data={"projections": projections, "labels": labels},
    )


def draw_panel(axes: Axes, z: np.ndarray, colors: np.ndarray) -> None:
    """Draw unit vectors (n, d) with a color for each: points and the unit circle if d is 2, otherwise curves."""
    if z.shape[1] == 2:
        from matplotlib.patches import Circle

        axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor=RULE, linewidth=1))
        axes.scatter(z[:, 0], z[:, 1], c=list(colors), s=9, alpha=0.7, linewidths=0)
        axes.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), aspect="equal")
        return
    interval = -(-len(z) // CURVES)
    for row, color in zip(z[::interval], colors[::interval], strict=True):
        axes.plot(row, color=color, linewidth=0.5, alpha=0.6, rasterized=True)
    axes.set(xlim=(0, z.shape[1] - 1), ylim=(-1, 1), xlabel="coordinate of the projection")


def spread(z: np.ndarray) -> float:
    """Root mean squared distance of rows (n, d) from their mean: 0 for equal rows, near 1 for a covered sphere."""
    return float(np.sqrt(((z - z.mean(axis=0)) ** 2).sum(axis=1).mean()))


def draw_sorted(similarities: Mapping[str, np.ndarray], caption: str) -> Figure:
    """Draw absolute cosines of pairs, by kind, as curves over the fraction of pairs (Koyama et al. 2021, figure 8)."""
    medians = []
    with new_axes(4.8, 2.6) as (drawing, axes):
        for i, (kind, values) in enumerate(similarities.items()):
            fraction = np.linspace(0, 1, min(len(values), 200))
            heights = np.quantile(values, 1 - fraction)
            axes.plot(fraction, heights, color=OTHER_KINDS if i else VERMILION, label=shorten(kind, 24), linewidth=1.4)
            medians.append(f"{shorten(kind)} {np.median(values):.2f} (95% {np.quantile(values, 0.95):.2f})")
        axes.set(xlabel="fraction of pairs, the most similar first", ylabel="absolute cosine")
        axes.set(xlim=(0, 1), ylim=(0, 1.02))
        if len(similarities) > 1:
            axes.legend(frameon=False)
    return Figure(
        "Similarity of different samples",
        caption,
        [Picture(f"Absolute cosine of pairs of different samples, median by kind: {'; '.join(medians)}.", drawing)],
        "Near zero for most pairs: the projections cover the sphere. High for all pairs: they have collapsed.",
        data={"similarities": similarities},
    )


def _chosen(model: Fitted, p: np.ndarray, samples: np.ndarray) -> Figure:
    """Bars of P(T|x), (n, M): of the first rows, beside their images if the rows are images, and the mean of all."""
    family = model.method_.channel.family
    names = family.names or [f"transformation {number}" for number in range(family.size)]
    each, all_rows = (float(np.exp(-(q * np.log(np.maximum(q, 1e-30))).sum(-1)).mean()) for q in (p, p.mean(axis=0)))
    caption = (
        f"P(T|x) of {len(p)} rows and of {len(samples)} of them; a row draws from {each:.3g} of {family.size} "
        f"transformations (mean effective number), all rows together from {all_rows:.3g}"
    )
    views = None
    if model.modality_.is_image and model.views_like_samples:
        views = match_sample_shape(_most_probable(model, p[: len(samples)], samples), samples)
    return draw_probabilities(names, np.concatenate([p.mean(axis=0)[None], p[: len(samples)]]), caption, samples, views)


#: Up to this number of transformations, each has a bar; with more, only the MOST_SHOWN most probable have one.
ALL_SHOWN = 16
MOST_SHOWN = 12


def draw_probabilities(
    names: Sequence[str], p: np.ndarray, caption: str, samples: np.ndarray, views: np.ndarray | None = None
) -> Figure:
    """Draw probabilities (1 + n, M), the mean and those of n samples, beside their likeliest `views`, (n, k, ...)."""
    m = p.shape[1]
    note = f"Dotted line: equal probabilities, {1 / m:.2g}."
    if m > ALL_SHOWN:
        note += f" Shown: the {MOST_SHOWN} most probable of {m} transformations."
    tiles = [None] * len(p) if views is None else [None, *image_tiles(samples, views)]
    if views is not None:
        note += f" Images: the sample, then its {views.shape[1]} most probable views, the most probable first."
    titles = ["Mean of the rows", *(f"Sample {i}" for i in range(1, len(p)))]
    pictures = [_bars(title, names, row, own) for title, row, own in zip(titles, p, tiles, strict=True)]
    return Figure("What the channel chooses", caption, pictures, note, data={"names": names, "p": p, "views": views})


def _bars(title: str, names: Sequence[str], p: np.ndarray, tiles: np.ndarray | None) -> Picture:
    from matplotlib.figure import Figure as Drawing

    p, images = np.asarray(p, dtype=np.float64), 0 if tiles is None else len(tiles)
    ranked = [int(k) for k in np.argsort(-p, kind="stable")]
    selected = list(range(len(p))) if len(p) <= ALL_SHOWN else ranked[:MOST_SHOWN]
    height = 0.5 + 0.19 * len(selected)
    with style():
        drawing = Drawing(figsize=(8.6, max(height, 1.7)) if images else (4.6, height), layout="constrained")
        axes, *panels = drawing.subplots(1, 1 + images, squeeze=False, width_ratios=[3.2, *[1] * images])[0]
        draw_bars(axes, p[selected], [names[k] for k in selected])
        axes.axvline(1 / len(p), color=MUTED, linestyle=":", linewidth=1)
        axes.set_xlim(0, 1.05 * max(p.max(), 1 / len(p)))
        others = len(p) - len(selected)
        rest = f"; sum of the {others} others {1 - p[selected].sum():.2f}" if others else ""
        axes.set_xlabel(f"{title}: probability{rest}")
        for j, panel in enumerate(panels):
            assert tiles is not None
            panel.imshow(tiles[j], interpolation="none")
            panel.set_axis_off()
            panel.set_title("sample" if j == 0 else shorten(names[ranked[j - 1]], 14), fontsize=7)
    largest = ", ".join(f"{shorten(names[k])} {p[k]:.2f}" for k in ranked[:3])
    effective = np.exp(-(p * np.log(np.maximum(p, 1e-300))).sum())
    alt = f"{title}: effectively {effective:.3g} of {len(p)} transformations; most probable {largest}."
    return Picture(alt, drawing)


@torch.no_grad()
def _most_probable(model: Fitted, p: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """The most probable views of images, the most probable first: uint8 (n, k, ...)."""
    x = model.samples(samples)[:]
    most = np.argsort(-p, axis=1, kind="stable")[:, :MOST].copy()
    views = model.method_.channel.family.take(x, torch.from_numpy(most).to(x.device))
    made = model.scaler_.inverse(views.flatten(0, 1)).cpu().numpy()
    return made.reshape(*most.shape, *made.shape[1:3], *samples.shape[3:])


def _kept(model: Fitted, family: Masks, p: np.ndarray) -> Figure:
    """Probability that the channel keeps a feature, less that of uniformly drawn masks."""
    masks = family.masks.cpu().numpy()
    more = p.mean(axis=0) @ masks - masks.mean(axis=0)
    unit = "probability above that of uniformly drawn masks"
    caption = f"Probability that a view keeps the feature, mean over {len(p)} rows, less its fraction of all masks"
    return draw_profile("Features that the channel keeps", more, model.facts_.feature_names or None, caption, unit)
