"""Views as arrays for the command ``viewsmith views``, and what their strength does to samples."""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, check
from viewsmith.core.rows import RowSource
from viewsmith.data import Dataset, load_dataset
from viewsmith.data.view_cache import ViewCacheFolder
from viewsmith.data.write import RowStream
from viewsmith.estimator.base import ViewsmithEstimator
from viewsmith.estimator.plan import fingerprint
from viewsmith.evaluation.symmetries import SAMPLES, Symmetries, symmetries
from viewsmith.methods.contrastive.estimator import Contrastive
from viewsmith.workflows.runs import OF_CELLS, split_rows

DEFAULT_VIEWS = 4


def views_of_model(
    model: ViewsmithEstimator, dataset: Dataset, n: int | None, *, split: str = "train", seed: int | None = None
) -> dict[str, Any]:
    """Views of the training or test rows of a data set by a fitted model."""
    rows, index = split_rows(dataset, split)
    pool = None if split == "train" else dataset.x_train
    if isinstance(rows, RowSource) and model.streams_views:
        made = model.view_blocks(rows, n or DEFAULT_VIEWS, random_state=seed, pool=pool)
        return {"index": index, "views": (RowStream(made, len(rows)), len(rows))}
    if isinstance(rows, RowSource):
        rows = np.asarray(rows)
    return {"index": index} | model.described_views(rows, n, random_state=seed, pool=pool)


def views_of_cache(cache: ViewCacheFolder, data: str, n: int | None, **options: Any) -> dict[str, Any]:
    """Samples and their views in a view cache."""
    record = cache.read_record()["data"]
    of_cells = {name: record[name] for name in OF_CELLS if name in record}
    dataset = load_dataset(data, modality=record["modality"], **of_cells, **options)
    rows = dataset.fit_rows(record["transductive"])
    if fingerprint(rows) != record["fingerprint"]:
        raise InputError(
            f"the view cache {cache.path} is of other rows than those of {data}: give the data it was made from"
        )
    sources = cache.sources(n)
    index = np.arange(len(rows)) if record["transductive"] else split_rows(dataset, "train")[1]
    known = {name: cache.read(name)[:, : len(sources)].numpy() for name in ("level", "quality")}
    views = RowStream(_together(sources), len(rows)), len(rows)
    samples = (RowStream(rows.blocks(), len(rows)), len(rows)) if isinstance(rows, RowSource) else rows
    return {"samples": samples, "views": views, "index": index, **known, "tolerance": cache.read("tolerance").numpy()}


def _together(sources: Sequence[RowSource]) -> Iterator[np.ndarray]:
    """Block by block, the rows of several sources beside each other: (b, K, ...)."""
    for parts in zip(*(source.blocks() for source in sources), strict=True):
        yield np.stack(parts, axis=1)


def strength_curve(
    dataset: Dataset, option: str, values: Sequence[float], views: str = "auto", *, seed: int = 0
) -> Symmetries:
    """Distance ratio and "told apart" of views at values of an option, after one step of `contrastive` each."""
    expected = "an option of views, such as noise_strength: viewsmith methods"
    check(option in Contrastive().get_params(), "option", repr(option), expected)
    rows = np.sort(np.random.default_rng(seed).permutation(dataset.train_index)[:SAMPLES])
    x = np.asarray(dataset.x[rows])
    found = Symmetries()
    for value in values:
        given: dict[str, Any] = {option: value, "view_maker": views, "modality": dataset.modality}
        model = Contrastive(**given, epochs=1, batch_size=64, max_rows=64, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about a training that is none
            model.fit(x)
        drawn = {f"{option} {value:g}": lambda part, model=model: model.views(part, 1)[:, 0]}
        found += symmetries(x, dataset.modality, drawn, seed=seed)
    return found
