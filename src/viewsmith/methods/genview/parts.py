"""Parts of GenView: generation of a view cache in blocks, the networks for foreground and quality, and the quality of
pairs of views from a frozen network or a copy of the encoder (GenView: Li et al. 2024, section 3.4)."""

import contextlib
import copy
import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import OutOfTime, broadcast_module, broadcast_tensors, time_limit
from viewsmith.core.errors import InputError, StoppedEarly, pluralize
from viewsmith.core.progress import with_progress
from viewsmith.core.rows import RowSource
from viewsmith.core.samples import Rows, Samples, apply_in_blocks, evenly_spaced, take_rows
from viewsmith.core.tensors import HostNumbers, constant, stream
from viewsmith.data.view_cache import ViewCacheFolder
from viewsmith.estimator.model import AnyContext, make_generator, modality_in
from viewsmith.estimator.options import MODULE, check_given_again
from viewsmith.estimator.plan import Facts
from viewsmith.losses.quality import Pools, attention_pools, foreground_map, map_pools, pair_quality
from viewsmith.methods.genview.clip import load_clip
from viewsmith.modalities import modality_of
from viewsmith.modalities.images.operations import crop
from viewsmith.modalities.images.pixels import Pixels
from viewsmith.networks.features import FeatureMap, FrozenMaps
from viewsmith.views.base import CropBoxes
from viewsmith.views.generated import noise_level
from viewsmith.views.generated.diffusion_views import GeneratedViews, take
from viewsmith.views.generated.noise_level import MAX_ROWS, fit_foreground

BLOCK = 64
WIDTH = 8  # number of axes of cached maps
Source = Literal["views", "encoder", "cached"]

#: Feature maps of the forward passes of an encoder, and of its momentum copy if there is one.
Passes = list[list[Tensor]]


class ViewQuality(nn.Module):
    """Quality q of pairs of views, from feature maps for images, and from representations for vectors and DNA.

    Parameters
    ----------
    encoder : nn.Module
        It is copied; the copy does not change until `copy_encoder`. Not used if `maps` are given.
    x : Tensor, shape (B, ...)
        One or more scaled samples, which determine the modality and the feature map.
    source : {"views", "encoder", "cached"}
        Source of the feature maps of images. ``views``: the copy is applied to every view (`forward`). ``encoder``: the
        maps of the encoder's own forward passes in training are used (`record_passes`, `from_passes`). ``cached``: the
        copy is applied to every image once (`cache_maps`), and the region that a view shows is cropped from its map
        (`from_cached_maps`); color changes have no effect. Vectors and DNA always use ``views``.
    maps : FrozenMaps, optional
        A feature extractor, such as CLIP, instead of the copy; it is not saved.
    diversity : bool
        For vectors and DNA: subtract the cosine of the views from the cosine of their representations, as that of the
        backgrounds is subtracted for images. Then q is largest for different views with similar representations.
        Otherwise q is the cosine of the representations.

    Raises
    ------
    InputError
        The encoder has no feature map, or `maps` are given with the source "encoder".

    Attributes
    ----------
    numbers : HostNumbers
        ``ready``: 1 after the first `copy_encoder`.
    axis : Tensor, shape (D,)
        First principal component of the patches, pointing to the foreground; D is 0 for vectors and DNA.
    cached_maps : list of Tensor, each (n, c, 2 h, 2 w)
        Feature maps of all rows on c axes, float16, for each source of views; never saved.
    """

    def __init__(
        self,
        encoder: nn.Module,
        x: Tensor,
        *,
        source: Source = "views",
        maps: FrozenMaps | None = None,
        diversity: bool = False,
    ) -> None:
        super().__init__()
        if maps is not None and source == "encoder":
            raise InputError(
                f"quality_features is 'encoder', which cannot use the features of {maps.name}: give 'views' or 'cached'"
            )
        self.diversity = diversity
        self.encoder: nn.Module | None = None
        self.maps: FeatureMap | FrozenMaps | None = maps
        if maps is None:
            self.encoder = copy.deepcopy(encoder).requires_grad_(False).eval()
            self.maps = FeatureMap(self.encoder, x) if x.ndim == 4 else None
        self.source: Source = "views" if self.maps is None else source
        self.cached_maps: list[Tensor] = []
        self.numbers = HostNumbers(ready=0)
        self.axis = nn.Buffer(torch.zeros(0 if self.maps is None else self.maps.shape[2]))

    @property
    def ready(self) -> bool:
        """Whether qualities can be computed."""
        return bool(self.numbers["ready"])

    @property
    def needs_trained_encoder(self) -> bool:
        """Whether qualities are useful only after the encoder has been trained (no feature extractor is given)."""
        return self.encoder is not None

    @torch.no_grad()
    def copy_encoder(self, encoder: nn.Module, rows: Rows) -> None:
        """Copy the weights of the encoder, and fit the axis of the foreground to scaled training rows.

        All processes get the weights and BatchNorm statistics of the first one. Later calls, during the training of the
        encoder, do not flip the sign of the axis (`viewsmith.views.generated.noise_level.fit_foreground`).
        """
        if self.encoder is not None:
            self.encoder.load_state_dict(encoder.state_dict())
            broadcast_module(self.encoder)
        self.cached_maps = []
        if self.maps is not None:
            maps, device = self.maps, rows.device
            sample = evenly_spaced(len(rows), MAX_ROWS)
            fitted = fit_foreground(
                lambda: (maps(rows[part.to(device)]).float() for part in sample.split(BLOCK)),
                previous=self.axis if self.ready else None,
            )
            self.axis.copy_(fitted.axis)
        self.numbers["ready"] = 1
        broadcast_tensors(self.axis)

    @torch.no_grad()
    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """q of each pair of views, (B,), without gradient."""
        return pair_quality(*(self._pools(view) for view in (first, second)))

    @contextlib.contextmanager
    def record_passes(self, framework: nn.Module) -> Iterator[Passes]:
        """Record the feature maps of a framework's ``encoder`` and ``encoder_copy`` inside a ``with`` block."""
        assert isinstance(self.maps, FeatureMap)
        encoders = [getattr(framework, name) for name in ("encoder", "encoder_copy") if hasattr(framework, name)]
        passes: Passes = [[] for _ in encoders]
        hooks = [self.maps.record(*each) for each in zip(encoders, passes, strict=True)]
        try:
            yield passes
        finally:
            for hook in hooks:
                hook.remove()

    @torch.no_grad()
    def from_passes(self, passes: Passes, n: int) -> Tensor:
        """q (n,) of view pairs from the maps of the framework's own passes: both views in the first, one each in two,
        or in the encoder's and its copy's."""
        maps = [of_encoder[0] for of_encoder in passes if of_encoder]
        if maps and len(maps[0]) == n and len(passes[0]) > 1:
            maps = [torch.cat(passes[0][:2])]
        both = maps[0] if maps and len(maps[0]) >= 2 * n else torch.cat([of_encoder[:n] for of_encoder in maps])
        if len(both) < 2 * n:
            raise InputError(
                f"a forward pass of the encoder has {len(both)} views, expected both views of {n} pairs: "
                "give quality_features='views' with this framework"
            )
        z_f, z_b = map_pools(both[: 2 * n].float(), self.axis)
        return pair_quality((z_f[:n], z_b[:n]), (z_f[n:], z_b[n:]))

    @torch.no_grad()
    def cache_maps(self, sources: Sequence[Rows]) -> None:
        """Compute and store the maps of all rows of the samples and their views, of enlarged quarters of images,
        projected onto `WIDTH` axes: the foreground's and principal ones."""
        assert self.maps is not None
        maps, rows = self.maps, sources[0]
        moments: Tensor | float = 0.0
        for part in evenly_spaced(len(rows), MAX_ROWS).to(rows.device).split(BLOCK):
            patches = maps(rows[part]).float().flatten(0, 2)
            patches = patches - (patches @ self.axis)[:, None] * self.axis
            moments = moments + (patches.T @ patches).double()
        assert isinstance(moments, Tensor)
        others = torch.linalg.eigh(moments).eigenvectors.flip(1)[:, : min(WIDTH, len(moments)) - 1].to(self.axis)
        axes = torch.cat([self.axis[:, None], others], dim=1)

        def joined_maps(x: Tensor) -> Tensor:
            quarters = crop(x, _quarters(x))
            projected = (maps(quarters).float() @ axes).unflatten(0, (len(x), 2, 2))
            return projected.permute(0, 5, 1, 3, 2, 4).flatten(4, 5).flatten(2, 3).half()

        self.cached_maps = [apply_in_blocks(joined_maps, each, BLOCK) for each in sources]

    @torch.no_grad()
    def from_cached_maps(
        self, index: Tensor, sources: tuple[Tensor, Tensor], crops: tuple[CropBoxes, CropBoxes]
    ) -> Tensor:
        """q of pairs of views, (B,), of the rows `index`: number of each view's source, (B,), and its region."""
        return pair_quality(*(self._cropped_pools(index, *view) for view in zip(sources, crops, strict=True)))

    def _cropped_pools(self, index: Tensor, source: Tensor, crops: CropBoxes) -> Pools:
        maps = take(self.cached_maps, index, source)
        assert self.maps is not None
        height, width, _ = self.maps.shape
        boxes = crops.boxes.float() * constant([*maps.shape[2:]] * 2, crops.boxes)
        features = crop(maps.float(), boxes, (height, width), crops.flip).flatten(2).mT
        # The axis of the foreground is the first axis of cached maps.
        axis = torch.eye(1, features.shape[2], dtype=features.dtype, device=features.device)[0]
        return attention_pools(features, foreground_map(features, axis))

    def release(self) -> None:
        """Free the cached maps."""
        self.cached_maps = []

    def _pools(self, view: Tensor) -> Pools:
        if self.maps is not None:
            return map_pools(self.maps(view).float(), self.axis)
        assert self.encoder is not None
        h = self.encoder(view).float()
        return h, view.float().flatten(1) if self.diversity else torch.zeros_like(h)

    def train(self, mode: bool = True) -> "ViewQuality":
        """Set the mode; the copied encoder stays in evaluation mode."""
        super().train(mode)
        if self.encoder is not None:
            self.encoder.eval()
        return self


def _quarters(x: Tensor) -> Tensor:
    """Boxes of the four quarters of each of B images, (4 B, 4)."""
    height, width = x.shape[2] / 2, x.shape[3] / 2
    boxes = [[top, left, height, width] for top in (0.0, height) for left in (0.0, width)]
    return x.new_tensor(boxes).repeat(len(x), 1)


#: Noise tolerance and quality that were not computed.
NOT_COMPUTED = float("nan")

#: Samples in the units of the data, (n, ...), in memory or on disk.
AnySamples = Tensor | RowSource

#: Maps all rows (n, ...), an index (B,) of rows, their candidates (B, C, ...) and K to the numbers of the candidates to
#: keep, (B, K); -1 for the sample itself.
Choose = Callable[[AnySamples, Tensor, Tensor, int], Tensor]


class ViewGenerator(Protocol):
    """The interface of generators: they make views of samples, in the units of the data.

    Attributes
    ----------
    device : torch.device
        The device of its random streams.
    """

    @property
    def device(self) -> torch.device: ...

    def describe(self) -> dict[str, Any]:
        """Describe the generator in plain JSON values, as part of the record of a view cache.

        ``name`` and ``version`` are required. With ``features``, noise tolerance and quality are computed for every
        kind of noise.
        """
        ...

    def noise_tolerance(self, rows: AnySamples, min_max: bool) -> tuple[Tensor, Tensor]:
        """Noise tolerance of all rows, float64 (n,), 0 to 1, and the foreground axis it was computed from, (D,).

        D is 0 if the features have no patches. `min_max`: see `viewsmith.views.generated.noise_level.Foreground`.
        """
        ...

    def quality(self, rows: Tensor, views: Tensor, axis: Tensor) -> Tensor:
        """Quality q of one view of each of some rows, (B,), by the features that gave the noise tolerance."""
        ...

    def generate(
        self, rows: Tensor, index: Tensor, view: int, level: Tensor, streams: Sequence[torch.Generator]
    ) -> Tensor:
        """View number `view` of some rows, (B, ...), from their row numbers, noise levels and random streams."""
        ...


def generate(
    cache: ViewCacheFolder,
    rows: AnySamples,
    generator: ViewGenerator,
    *,
    shard: tuple[int, int] = (1, 1),
    choose: Choose | None = None,
    progress: bool = False,
    seconds: float | None = None,
) -> None:
    """Generate the blocks that are missing in a view cache.

    Any number of processes may do this in one folder at the same time: they share the blocks among them, and each
    returns when all blocks (of its shard) exist.

    Parameters
    ----------
    cache : ViewCacheFolder
        Opened for these rows and this generator.
    rows : Tensor or RowSource, shape (n, ...)
        Samples in the units of the data.
    generator : ViewGenerator
    shard : (int, int)
        (i, n): every n-th block, starting with the i-th, counted from 1.
    choose : callable, optional
        Selects views if the record of the cache has several candidates for each view.
    progress : bool
        Show a progress bar on stderr if it is a terminal.
    seconds : float, optional
        Stop after the block in which this time ends.

    Raises
    ------
    StoppedEarly
        The time ended before the last block. The same call makes the others.
    """
    record, end = cache.read_record(), math.inf if seconds is None else time.monotonic() + seconds
    with cache.claims.hold("levels", wait=True), time_limit(seconds):
        if cache.read_levels() is None:
            try:
                cache.write_levels(*find_levels(record, rows, generator))
            except OutOfTime as error:
                raise StoppedEarly(
                    "the time limit ended while the noise levels of all samples were computed: give more minutes "
                    "(--minutes), or another noise (--noise)"
                ) from error
    known, axis = cache.read_levels(), cache.read_axis()
    assert known is not None
    (part, parts), compared = shard, _needs_features(record)
    own = [number for number in cache.numbers() if number % parts == part - 1]
    todo = [number for number in own if not cache.block(number).exists()]
    with contextlib.closing(cache.claims.each(todo, lambda number: cache.block(number).exists())) as claimed:
        bar = with_progress(claimed, "generate", len(todo), "blocks", after=0) if progress else claimed
        for number in bar:
            index, count = cache.rows_of(number), record["candidates"]
            block, seed = take_rows(rows, index), torch.tensor(cache.seeds(index))
            level = known[1][index].repeat(1, count)
            made = []
            for view in range(seed.shape[1]):
                streams = [torch.Generator(generator.device).manual_seed(each) for each in seed[:, view].tolist()]
                made.append(generator.generate(block, index, view, level[:, view], streams))
            views = torch.stack(made, dim=1)
            if count > 1:
                assert choose is not None
                chosen = choose(rows, index, views, record["views_per_sample"])
                views, seed, level = _take(chosen, block, views), _take(chosen, -1, seed), _take(chosen, -1, level)
            quality = torch.full(seed.shape, NOT_COMPUTED)
            if compared:
                columns = [generator.quality(block, view, axis).float().cpu() for view in views.unbind(1)]
                quality = torch.stack(columns, dim=1)
            cache.write_block(number, views, seed=seed, level=level, quality=quality)
            if time.monotonic() > end and (left := sum(not cache.block(each).exists() for each in todo)):
                done = f"{len(own) - left:,} of {pluralize(len(own), 'block')} of views"
                raise StoppedEarly(f"the time limit ended after {done}: the same command makes the others")
    if not cache.missing():
        cache.finish()
        cache.claims.clear()


def _take(chosen: Tensor, default: Tensor | int, values: Tensor) -> Tensor:
    """Values (B, K, ...) of the candidates with the numbers `chosen`, (B, K), from (B, C, ...); -1: the default."""
    rest = values.new_full((len(values), 1), default) if isinstance(default, int) else default[:, None]
    return torch.cat([rest, values], dim=1)[torch.arange(len(chosen))[:, None], chosen + 1]


def find_levels(record: dict[str, Any], rows: AnySamples, generator: ViewGenerator) -> tuple[Tensor, Tensor, Tensor]:
    """Noise tolerances, float64 (n,), noise levels, int64 (n, K), by the noise in a cache's record, and foreground
    axis, (D,); tolerances that are not needed or without features are NaN, D is 0."""
    n, k, noise = len(rows), record["views_per_sample"], record["noise"]
    tolerance, axis = torch.full((n,), NOT_COMPUTED, dtype=torch.float64), torch.zeros(0)
    if _needs_features(record):
        both = generator.noise_tolerance(rows, record.get("foreground") == "min-max")
        tolerance, axis = (found.cpu() for found in both)
    if noise == "adaptive":
        return tolerance, noise_level.adaptive_levels(tolerance)[:, None].repeat(1, k), axis
    if noise == "random":
        return tolerance, noise_level.random_levels(n * k, stream(record["seed"], "levels")).view(n, k), axis
    return tolerance, torch.full((n, k), -1 if noise == "none" else int(noise.partition(":")[2])), axis


def _needs_features(record: dict[str, Any]) -> bool:
    """Whether noise tolerance and quality are computed, which needs features."""
    return record["noise"] == "adaptive" or "features" in record["generator"]


ENCODER, CLIP = "encoder", "clip:"
FeaturesOption = str | nn.Module


def check_foreground(foreground: str, modality: str, noise: str) -> None:
    """Raise InputError for a foreground map that has no effect."""
    if foreground == "projection" or (noise == "adaptive" and modality_of(modality).is_image):
        return
    line = f"foreground is {foreground!r}, which is of images with adaptive noise"
    raise InputError(f"{line}, but the data are {modality} and the noise is {noise}: leave it out")


def uses_extractor(features: FeaturesOption, modality: str) -> bool:
    """Whether features come from a separate network instead of the encoder."""
    text = features_text(features)
    if text == ENCODER:
        return False
    if text == CLIP.rstrip(":") or text == CLIP:
        raise InputError(
            f"features is {text!r}, which needs weights: give clip:FOLDER, or clip:OWNER/NAME to download a model "
            "from the hub"
        )
    if not text.startswith((CLIP, MODULE)):
        raise InputError(
            f"features is {features!r}, expected encoder, clip:FOLDER or clip:OWNER/NAME, or in Python a "
            "torch.nn.Module that returns feature maps of images"
        )
    if not modality_of(modality).is_image:
        raise InputError(f"features is {text!r}, which needs images, but the data are {modality}: leave features out")
    return True


def features_text(features: FeaturesOption) -> str:
    """The text for `features` in a configuration."""
    return f"{MODULE}{type(features).__name__}" if isinstance(features, nn.Module) else features


def feature_maps(
    features: FeaturesOption,
    center: Tensor,
    scale: Tensor,
    *,
    x: Tensor | None = None,
    shape: tuple[int, int, int] | None = None,
    weights: str | None = None,
) -> FrozenMaps:
    """The feature maps of a separate network."""
    find = partial(_network, features, center, scale, weights)
    return FrozenMaps(find, features_text(features).removeprefix(MODULE), x=x, shape=shape)


def _network(features: FeaturesOption, center: Tensor, scale: Tensor, weights: str | None) -> nn.Module:
    network = _load(features, center, scale)
    if weights is not None and digest(network.state_dict()) != weights:
        raise InputError(
            f"features is {features_text(features)!r}, but its weights differ from those in fit: give the same network"
        )
    return network


def _load(features: FeaturesOption, center: Tensor, scale: Tensor) -> nn.Module:
    if isinstance(features, nn.Module):
        return copy.deepcopy(features)
    check_given_again("features", features, "features")
    return load_clip(features.removeprefix(CLIP), center, scale)


class FeatureExtractor:
    """Foreground fractions and quality of the images of a view cache, for any generator of views."""

    def __init__(self, features: FeaturesOption, scaler: Pixels, rows: Tensor, device: torch.device) -> None:
        self.scaler, self.device = scaler.to(device), device
        self.name = features_text(features)
        self.maps = feature_maps(features, scaler.center, scaler.scale, x=self._scaled(rows[:1]))

    def describe(self) -> dict[str, str]:
        return {"name": self.name, "weights": digest(self.maps.network().state_dict())}

    def noise_tolerance(self, rows: Tensor | RowSource, min_max: bool) -> tuple[Tensor, Tensor]:
        samples = Samples(rows, self.scaler).to(self.device)
        return noise_level.noise_tolerance(nn.Identity(), samples, self.maps, min_max=min_max)

    def quality(self, rows: Tensor, views: Tensor, axis: Tensor) -> Tensor:
        return pair_quality(*(map_pools(self.maps(self._scaled(each)).float(), axis) for each in (rows, views)))

    @torch.no_grad()
    def _scaled(self, rows: Tensor) -> Tensor:
        return self.scaler(rows.to(self.device))


def describe_extractor(extractor: FeatureExtractor | None) -> dict[str, Any]:
    """The entry of a feature extractor in the record of a view cache; empty without an extractor."""
    return {} if extractor is None else {"features": extractor.describe()}


def digest(weights: Mapping[str, Any]) -> str:
    """Short digest of weights."""
    found = hashlib.sha256()
    for name, value in sorted(weights.items()):
        found.update(name.encode() + value.cpu().numpy().tobytes())
    return found.hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class GenViewFacts(Facts):
    """Facts, with settings of the generator that are no options, and sizes of what a loaded model has."""

    predicts: Literal["eps", "v", "x0"]
    noise_schedule: Literal["linear", "cosine"]
    sampler: Literal["ddim", "ddpm", "dpm"]
    # shape and digest of a separate feature extractor, if there is one
    feature_shape: tuple[int, int, int] | None = None
    feature_weights: str | None = None
    # number of training rows with which the density of a row is compared to find its noise level
    level_references: int = 0


@dataclass(frozen=True)
class GenViewInputs:
    """The separate feature extractor, and the scaled views of a view cache: a list entry has one view of every row."""

    maps: FrozenMaps | None
    views: list[Rows]


def make_extractor(plan: AnyContext) -> FrozenMaps | None:
    """The separate network for foreground and quality, or None; a loaded model finds it when it is first used."""
    options, facts = plan.options, plan.facts
    if not uses_extractor(options.features, facts.modality):
        return None
    if plan.inputs is not None:
        return plan.inputs.maps
    return feature_maps(
        options.features, *scaling_of(facts.statistics), shape=facts.feature_shape, weights=facts.feature_weights
    )


def scaling_of(statistics: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Scaling of images: the offset subtracted from pixels and the divisor, both (C,)."""
    return torch.tensor(statistics["pixel_mean"]), torch.tensor(statistics["pixel_scale"])


def make_generated(plan: AnyContext, encoder: nn.Module, maps: FrozenMaps | None) -> GeneratedViews:
    """The diffusion model of the modality, with a strength adapted to each row."""
    options, n = plan.options, plan.options.n_components
    # This strength is for samples without a noise level.
    generator = make_generator(plan, encoder, plan.facts, condition=n, strength=0.5)
    return GeneratedViews(
        generator,
        encoder,
        nn.Identity(),
        n_components=n,
        n_views=options.cached_views,
        candidates=options.candidates,
        strengths=noise_level.AdaptiveStrength(options.noise, _tolerance(plan, encoder, maps)),
    )


def _tolerance(plan: AnyContext, encoder: nn.Module, maps: FrozenMaps | None) -> noise_level.NoiseTolerance:
    """The noise tolerance that adaptive noise is fitted to, with buffers of the sizes that are saved."""
    facts = plan.facts
    if plan.options.noise != "adaptive":
        return noise_level.NoiseTolerance()
    if modality_in(plan).is_image:
        blank = modality_in(plan).blank(facts.row_shape)
        width = (maps or FeatureMap(encoder, blank)).shape[2]
        return noise_level.NoiseTolerance(maps, width=width, min_max=plan.options.foreground == "min-max")
    return noise_level.NoiseTolerance(references=(facts.level_references, plan.options.n_components))
