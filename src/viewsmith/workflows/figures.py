"""What a report shows of a model and its data: maps, views beside their samples, learned noise, generated samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from viewsmith.core.errors import InputError
from viewsmith.core.random import stream
from viewsmith.core.samples import in_blocks
from viewsmith.data import Dataset
from viewsmith.data.view_cache import ViewCacheFolder
from viewsmith.estimators.base import ViewsmithEstimator
from viewsmith.estimators.crl_tac import CRLTAC
from viewsmith.estimators.diffaug import DiffAug
from viewsmith.estimators.genview import GenView
from viewsmith.estimators.metaug import MetAug
from viewsmith.estimators.pinda import PiNDA
from viewsmith.estimators.rows import fingerprint
from viewsmith.losses.nt_xent import unit
from viewsmith.methods.genview import GenViewMethod
from viewsmith.reports import (
    EmbeddingMap,
    FeatureProfile,
    FeatureViolins,
    Gallery,
    SimilarityHistogram,
    two_dimensional_map,
)
from viewsmith.reports.placement import like_sample
from viewsmith.views import Corruption, DNAViews, Mixup, Neighbors, image_recipe
from viewsmith.views.base import ViewMaker
from viewsmith.views.fixed import dna
from viewsmith.workflows.channel_figures import channel_pictures

COMPARED = 400  # samples whose views are compared


def pictures(model: ViewsmithEstimator, dataset: Dataset) -> dict[str, Any]:
    """Maps, galleries, profiles, violins and histograms, made from the test rows where there are some."""
    held = dataset.test_index is not None
    x, y = (dataset.x_test, dataset.y_test) if held else (dataset.x_train, dataset.y_train)
    assert x is not None
    side, kind = "test" if held else "training", dataset.domain
    samples = x[: 8 if kind == "images" else 4]
    shown: dict[str, Any] = {"maps": _maps(model, x, y, side), "galleries": []}
    if not isinstance(model, CRLTAC) or model.views_like_samples:
        # Of MetAug those that are embedded: augmented features cannot be drawn.
        draw = model.input_views if isinstance(model, MetAug) else model.views
        views = like_sample(draw(samples, 6, pool=dataset.x_train), samples)
        caption = f"{len(samples)} {side} rows and six views of each"
        shown["galleries"].append(Gallery("Views", caption, samples, views, kind))
    if isinstance(model, PiNDA) and kind == "vectors":
        shown["profiles"] = [_noise_profile(model, dataset)]
    elif isinstance(model, PiNDA) and kind == "images":
        shown["galleries"].append(_noise_gallery(model, samples))
    if isinstance(model, GenView) and model.options_.bank is not None:
        gallery = _cache_gallery(model, dataset)
        shown["galleries"] += [] if gallery is None else [gallery]
    if isinstance(model, DiffAug) and model.generates:
        if kind == "vectors":
            shown["violins"] = [_violins(model, dataset, x)]
        shown["histograms"] = [_similarities(model, dataset, x)]
    if isinstance(model, CRLTAC):
        for name, items in channel_pictures(model, x, samples).items():
            shown[name] = shown.get(name, []) + items
    if isinstance(model, MetAug) and model.options_.meta != "none":
        shown["histograms"] = [_feature_similarities(model, dataset, x)]
    return shown


def _cache_gallery(model: GenView, dataset: Dataset) -> Gallery | None:
    """Training rows of every noise level beside their views in the bank; None where the bank is gone."""
    kind, names = dataset.domain, ("noise level", "share", "quality")
    rows = dataset.fit_rows(bool(model.context_.get("data", {}).get("transductive")))
    try:
        bank = ViewCacheFolder(str(model.options_.bank))
        if bank.read_record()["data"]["fingerprint"] != fingerprint(rows):
            return None
        known, views = bank.read_levels(), bank.read_views()
    except InputError:
        return None
    assert known is not None
    share, level = known[0], known[1][:, 0]
    each = [(level == value).nonzero()[:, 0] for value in level.unique()]
    index = torch.cat([found[: max(1, 8 // len(each))] for found in each])
    shown = views[index].numpy()
    method = model.method_
    q = torch.full((len(index),), float("nan"))
    if isinstance(method, GenViewMethod) and method.quality is not None and method.quality.ready:
        q = method.quality(model._samples(rows[index])[:], model._samples(shown[:, 0])[:])
    lines = (
        f"row {row}: " + ", ".join(f"{name} {value:.3g}" for name, value in zip(names, found, strict=True))
        for row, *found in zip(index.tolist(), level[index].tolist(), share[index].tolist(), q.tolist(), strict=True)
    )
    return Gallery(
        "Generated views",
        "Training rows and their views in the bank; " + "; ".join(lines),
        rows[index],
        shown.reshape(*shown.shape[:2], *rows.shape[1:]),
        kind,
    )


def _maps(model: ViewsmithEstimator, x: np.ndarray, y: np.ndarray | None, side: str) -> list[EmbeddingMap]:
    raw = list(model.raw_features(x).values())[-1]
    maps = []
    for name, h in (("raw", raw), ("representation", model.transform(x))):
        xy, index = two_dimensional_map(h)
        maps.append(EmbeddingMap(name, xy, None if y is None else y[index], f"t-SNE of {len(index)} {side} rows"))
    if isinstance(model, DiffAug) and model.options_.map_components == 2:
        xy = model.transform(x[index], output="map")
        caption = f"The model's own map of the same {len(index)} {side} rows"
        maps.append(EmbeddingMap("map", xy, None if y is None else y[index], caption))
    return maps


def _noise_profile(model: PiNDA, dataset: Dataset) -> FeatureProfile:
    mean, _ = model.noise_profile(dataset.x_train)
    return FeatureProfile(
        "Learned noise",
        mean / model.scaler_.scale.cpu().numpy(),
        dataset.feature_names,
        "mean standard deviation of the noise over the training rows",
        "standard deviations of the data",
    )


def _noise_gallery(model: PiNDA, samples: np.ndarray) -> Gallery:
    """Images beside the noise made for them."""
    made = model.noise_parts(samples)
    sigma, noise = made["sigma"], made["noise"]
    # White is the largest sigma shown; of the noise, gray is none.
    bright = 255 * sigma / max(sigma.max(), 1e-12)
    gray = 127.5 + 127.5 * noise / max(abs(noise).max(), 1e-12)
    tiles = [np.moveaxis(tile.round().astype(np.uint8), 1, 3).reshape(samples.shape) for tile in (bright, gray)]
    caption = (
        f"Image; standard deviation of its noise (white {sigma.max():.2f}, in standard deviations of the data); "
        "a draw of the noise; the image with it"
    )
    return Gallery("Learned noise", caption, samples, np.stack([*tiles, made["view"]], axis=1), "images")


def _violins(model: DiffAug, dataset: Dataset, x: np.ndarray) -> FeatureViolins:
    samples = np.asarray(x[:COMPARED], dtype=np.float32)
    caption = f"{len(samples)} rows and one generated view of each"
    return FeatureViolins("Generated features", samples, model.views(samples, 1)[:, 0], dataset.feature_names, caption)


def _similarities(model: DiffAug, dataset: Dataset, x: np.ndarray) -> SimilarityHistogram:
    """Samples against their views in the representation, generated and by the usual augmentations (figure 5)."""
    samples = model._samples(x[:COMPARED])
    pool, scaled = model._samples(dataset.x_train), samples[:]
    generator = stream(model.fitted_["seed"], "similarities", device=scaled.device)

    def represented(rows: torch.Tensor) -> torch.Tensor:
        return unit(in_blocks(lambda block: model.method_.represent(block).float(), rows, 64))

    found = {}
    with torch.no_grad():
        h = represented(scaled)
        views = in_blocks(lambda block: model.method_.view(block, generator=generator), scaled, 64)
        found["generated"] = (h * represented(views)).sum(1).cpu().numpy()
        for name, maker in _defaults(model).items():
            if maker.needs_pool:
                maker.prepare(pool)
            found[name] = (h * represented(maker(scaled, generator=generator))).sum(1).cpu().numpy()
    caption = "Cosine similarity of a sample and its view in the representation"
    return SimilarityHistogram("Similarity of samples and views", found, caption)


def _feature_similarities(model: MetAug, dataset: Dataset, x: np.ndarray) -> SimilarityHistogram:
    """Features of two views of the same sample and of different ones, original and augmented (MetAug: figure 2)."""
    made = model.feature_views(x[:COMPARED], 1, pool=dataset.x_train)
    views = int(model.fitted_["n_views"])
    z, a = (part[:, 0].reshape(len(part), views, -1) for part in (made["features"], made["augmented"]))
    apart = ~np.eye(len(z), dtype=bool)
    found = {}
    for kind, first in (("augmented", a), ("original", z)):
        cosines = first[:, 0] @ z[:, 1].T  # the first view's features with the second's originals
        found[f"same sample, {kind}"] = np.diagonal(cosines)
        if len(z) > 1:
            found[f"others, {kind}"] = cosines[apart]
    caption = f"Features of two views of {len(z)} rows: of the same row, and of different ones"
    return SimilarityHistogram("Similarity of features", found, caption, of="features")


def _defaults(model: DiffAug) -> dict[str, ViewMaker]:
    """The augmentations that a domain's users would take instead."""
    if model.fitted_["domain"] == "vectors":
        return {"mixup": Mixup(0.5), "corruption": Corruption(0.2), "neighbors": Neighbors(5)}
    if model.fitted_["domain"] == "images":
        height, width = model.fitted_["row_shape"][:2]
        pixels = {"mean": model.fitted_["pixel_mean"], "std": model.fitted_["pixel_scale"]}
        return {"mixup": Mixup(0.5), "crops": image_recipe("simclr", size=(height, width), strength=0.0, **pixels)}
    return {"mixup": dna.DNAMixup(0.5), "edits": DNAViews([dna.Deletion(), dna.Insertion(), dna.Mutation(0.05)])}
