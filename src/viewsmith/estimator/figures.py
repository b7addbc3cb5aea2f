"""Figures of a model and its data for a report; methods add further figures."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import nn

from viewsmith.core.errors import InputError
from viewsmith.core.registry import get
from viewsmith.core.samples import apply_in_blocks
from viewsmith.core.tensors import stream
from viewsmith.data import Dataset
from viewsmith.data.labels import missing_labels
from viewsmith.data.view_cache import ViewCacheFolder
from viewsmith.estimator.plan import fingerprint
from viewsmith.evaluation.symmetries import OFF_THE_DATA, with_interval
from viewsmith.losses.nt_xent import unit
from viewsmith.modalities import check_labels, modality_of
from viewsmith.modalities.base import Picture
from viewsmith.reports import Figure, draw_gallery, draw_map, draw_similarities, draw_violins, two_dimensional_map
from viewsmith.reports.charts import match_sample_shape
from viewsmith.reports.figure import sample_of_rows
from viewsmith.views.base import ViewContext, ViewMaker

COMPARED = 400  # samples whose views are compared


def as_dataset(model: Any, X: Any, y: Any = None, most: int | None = None) -> Dataset:
    """Samples as a data set without a split; of more than `most`, so many evenly spread ones."""
    x = model.checked_rows(X)
    labels = None if y is None else check_labels(np.asarray(y), len(x), "y")
    if most is not None and len(x) > most:
        index = np.linspace(0, len(x) - 1, most).astype(np.int64)
        x, labels = x[index], None if labels is None else labels[index]
    modality, names = model.facts_.modality, model.facts_.feature_names or None
    return Dataset(x, labels, np.arange(len(x)), None, "none", modality, "arrays", names, {}, None)


def figure_rows(dataset: Dataset) -> tuple[np.ndarray, np.ndarray | None, str]:
    """Rows for figures (test rows, if there are any), their labels, and the name of their split."""
    tests = dataset.x_test is not None
    y = dataset.y_test if tests else dataset.y_train
    if y is not None and dataset.partly_labeled:
        y = np.where(missing_labels(y), "no label", y.astype(str))
    return (dataset.x_test, y, "test") if tests else (dataset.x_train, y, "training")


def gallery_samples(dataset: Dataset) -> np.ndarray:
    """Rows for a gallery, increasing: the first of each class in turn; without labels, evenly spaced rows."""
    x, y, _ = figure_rows(dataset)
    count = min(modality_of(dataset.modality).gallery, len(x))
    if y is None:
        return x[np.linspace(0, len(x) - 1, count).astype(int)]
    _, codes = np.unique(y, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    turn = np.empty(len(x), int)  # of a row: how many rows of its class are before it
    turn[order] = np.arange(len(x)) - np.searchsorted(codes[order], codes[order])
    return x[np.sort(np.lexsort((codes, turn))[:count])]


def shared_figures(model: Any, draw: Callable[..., np.ndarray] | None, dataset: Dataset) -> list[Figure]:
    """Maps of raw features and representation, and views beside their samples."""
    x, y, split = figure_rows(dataset)
    found = []
    for name, h in (("raw", list(model.raw_features(x).values())[-1]), ("representation", model.transform(x))):
        xy, index = two_dimensional_map(h)
        caption = f"t-SNE of {len(index)} {split} rows"
        found.append(draw_map(name, xy, None if y is None else y[index], caption))
    if draw is not None:
        samples = gallery_samples(dataset)
        views = match_sample_shape(draw(samples, 6, pool=dataset.x_train), samples)
        caption = f"{len(samples)} {split} rows and six views of each"
        found.append(gallery("Views", caption, samples, views, dataset.modality, model.facts_.statistics))
    if (channels := channel_strip(model, dataset)) is not None:
        found.append(channels)
    if tested := transformed(model.facts_.symmetries, dataset):
        found.append(tested)
    return found


def channel_strip(model: Any, dataset: Dataset) -> Figure | None:
    """Composites of samples beside each of their channels, with names and colors; None where they show all."""
    samples, kind = gallery_samples(dataset), modality_of(dataset.modality)
    found = kind.channels_of(samples, model.facts_.statistics)
    if found is None:
        return None
    names, pictures = found
    left = samples.shape[-1] - len(names)
    rest = f" and {left} more" if left else ""
    caption = f"Composites, and their channels from left to right, each in its range: {', '.join(names)}{rest}"
    shown, scale = kind.with_scale(kind.drawn(samples), model.facts_.statistics)
    drawn = draw_gallery("Channels", shown, pictures, kind.picture, f"{caption}. {scale}" if scale else caption)
    return dataclasses.replace(drawn, note="")


def transformed(tests: Mapping[str, Mapping[str, Any]], dataset: Dataset) -> Figure | None:
    """Samples beside what transformations make of them, and what tests have shown, if there are enough samples for
    them; None if the user has said what to use."""
    samples = gallery_samples(dataset)
    known = modality_of(dataset.modality).transformations_of(samples) if tests else {}
    tests = {name: test for name, test in tests.items() if name in known}
    if not tests:
        return None
    views = np.stack([known[name](samples) for name in tests], axis=1)
    caption = f"Samples and transformed samples. From a distance ratio of {OFF_THE_DATA} a transformation is off."
    keys = ("told_apart", "distance_ratio")
    table = [["transformation", "rate", "told apart (95 %)", "distance ratio (95 %)"]]
    for name, test in tests.items():
        numbers = [
            with_interval(test[key], test.get(f"{key}_interval", ())) if key in test else "not tested" for key in keys
        ]
        table.append([name, f"{test['rate']:g}", *numbers])
    return gallery("Symmetries", caption, samples, views, dataset.modality, tables={"": table})


def gallery(
    title: str,
    caption: str,
    samples: np.ndarray,
    views: np.ndarray,
    modality: str,
    statistics: Mapping[str, Any] = MappingProxyType({}),
    tables: Any = None,
) -> Figure:
    """Samples (n, ...) beside their views (n, K, ...), drawn as their modality says, with a scale if it is known."""
    kind = modality_of(modality)
    n, k = views.shape[:2]
    # Together, so that both are drawn in one range.
    drawn = kind.drawn(np.concatenate([samples, views.reshape(n * k, *views.shape[2:])]))
    beside = drawn[n:].reshape(n, k, *drawn.shape[1:])
    shown, scale = kind.with_scale(drawn[:n], statistics)
    caption = f"{caption}. {scale}" if scale else caption
    return draw_gallery(title, shown, beside, kind.picture, caption, tables, kind.drawn_along(statistics))


#: Common augmentations, for comparison with generated views, and their options; used in modalities that have them.
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "mixup": ("mixup", {"mixup_minimum": 0.5}),
    "corruption": ("corruption", {"corruption_rate": 0.2}),
    "neighbors": ("neighbors", {}),
    "crops": ("simclr", {"color_strength": 0.0}),
    "edits": ("dna", {}),
}


def learned_map(transform: Callable[..., np.ndarray], x: np.ndarray, y: np.ndarray | None, split: str) -> Figure:
    """The two-dimensional map that the model learned, of the rows that are in the other maps."""
    index = sample_of_rows(len(x))
    caption = f"The learned map of the same {len(index)} {split} rows"
    return draw_map("map", transform(x[index], output="map"), None if y is None else y[index], caption)


def generated_figures(model: Any, dataset: Dataset, x: np.ndarray) -> list[Figure]:
    """Distributions of features of samples and generated views, and the similarity of views to their samples."""
    similarities = _similarities(model, dataset, x)
    if not model.modality_.named_features:
        return [similarities]
    samples, names = np.asarray(x[:COMPARED], dtype=np.float32), model.facts_.feature_names or None
    caption = f"{len(samples)} rows and one generated view of each"
    return [draw_violins("Generated features", samples, model.views(samples, 1)[:, 0], names, caption), similarities]


def _similarities(model: Any, dataset: Dataset, x: np.ndarray) -> Figure:
    """Similarity of samples and views in the representation, for generated and common views (DiffAug: figure 5)."""
    samples = model.samples(x[:COMPARED])
    pool, scaled = model.samples(dataset.x_train), samples[:]
    generator = stream(model.facts_.seed, "similarities", device=scaled.device)

    def represented(rows: torch.Tensor) -> torch.Tensor:
        return unit(apply_in_blocks(lambda block: model.method_.represent(block).float(), rows, 64))

    found = {}
    with torch.no_grad():
        h = represented(scaled)
        views = apply_in_blocks(lambda block: model.method_.view(block, generator=generator), scaled, 64)
        found["generated"] = (h * represented(views)).sum(1).cpu().numpy()
        for name, maker in _others(model).items():
            if maker.needs_pool:
                maker.prepare(pool)
            found[name] = (h * represented(maker(scaled, generator=generator))).sum(1).cpu().numpy()
    caption = "Cosine similarity of a sample and its view in the representation"
    return draw_similarities("Similarity of samples and views", found, caption)


def _others(model: Any) -> dict[str, ViewMaker]:
    """Common augmentations of the modality, by label."""
    facts, found = model.facts_, {}
    for label, (name, options) in OTHERS.items():
        entry = get("view maker", name, facts.modality)
        if entry is not None:
            shape, modality = facts.row_shape, model.modality_
            context = ViewContext(shape, modality.channels(shape), modality, nn.Identity(), facts.statistics)
            found[label] = entry.made(context, **options)
    return found


def cache_gallery(
    path: str,
    rows: np.ndarray,
    quality: Callable[[np.ndarray, np.ndarray], np.ndarray],
    picture: Picture,
    along: tuple[Sequence[float] | None, str],
) -> Figure | None:
    """Training rows of every noise level beside their views in a view cache; None if it is gone or of other rows."""
    try:
        cache = ViewCacheFolder(path)
        if cache.read_record()["data"]["fingerprint"] != fingerprint(rows):
            return None
        known, sources = cache.read_levels(), cache.sources()
    except InputError:
        return None
    assert known is not None
    fraction, level = known[0], known[1][:, 0]
    each = [(level == value).nonzero()[:, 0] for value in level.unique()]
    index = torch.cat([found[: max(1, 8 // len(each))] for found in each])
    selected = np.stack([source[index.numpy()] for source in sources], axis=1)
    q = quality(rows[index], selected[:, 0])
    names = ("noise level", "fraction", "quality")
    numbers = zip(index.tolist(), level[index].tolist(), fraction[index].tolist(), q.tolist(), strict=True)
    lines = (
        f"row {row}: " + ", ".join(f"{name} {value:.3g}" for name, value in zip(names, found, strict=True))
        for row, *found in numbers
    )
    caption = "Training rows and their views in the view cache; " + "; ".join(lines)
    views = selected.reshape(*selected.shape[:2], *rows.shape[1:])
    return draw_gallery("Generated views", rows[index], views, picture, caption, along=along)
