"""Features: fixed functions of a sample, fitted in seconds without labels or a contrast; functions of users; and
feature maps of images, from a layer of the encoder or from a separate network, to find the foreground.

Dictionaries of patches: whitened patches are clustered, and the responses to the centers are features. After Coates,
Lee and Ng (2011), An analysis of single-layer networks in unsupervised feature learning. The patches are those of
images, of spectrograms, or windows of sequences. Only the fit depends on the data; it takes seconds.
"""

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.errors import InputError, error_text
from viewsmith.core.registry import Declared
from viewsmith.networks.base import PartContext, Reference

SAMPLED = 40_000  # patches that the centers are fitted to
ROUNDS = 15  # of k-means
#: Of more channels, such as the bands of a spectrometer, patches see as many principal ones: neighbors are alike, and
#: the cost of the dictionary grows with the third power of the numbers in a patch.
CHANNELS = 24
#: Responses that are computed at once, on a CPU and on a GPU. On a CPU they stay in the cache: a block 16 times as
#: large takes half as long again.
VALUES, VALUES_ON_GPU = 2**20, 2**27


def channel_axes(pixels: Tensor) -> Tensor:
    """The `CHANNELS` leading principal axes of the channels of pixels (m, C), (C, CHANNELS)."""
    _, axes = torch.linalg.eigh(torch.cov(pixels.T.double()))
    return axes.flip(1)[:, :CHANNELS].float().contiguous()


def fit_dictionary(patches: Tensor, start: Tensor, rounds: int = ROUNDS) -> tuple[Tensor, Tensor]:
    """Filters and offset that give the similarity of patches with the centers of a dictionary."""
    mean = patches.mean(0)
    variance, axes = torch.linalg.eigh(torch.cov((patches - mean).T.double()))
    scale = (variance.clamp(min=0) + 0.01 * variance[-1].clamp(min=1e-8)).rsqrt()
    whitening = ((axes * scale) @ axes.T).float()
    filters = _centers((patches - mean) @ whitening, start, rounds) @ whitening
    return filters, filters @ mean


def _centers(white: Tensor, start: Tensor, rounds: int) -> Tensor:
    """Unit-length centers of whitened patches by k-means on similarities."""
    centers = F.normalize(white[start], dim=1)
    for _ in range(rounds):
        total = torch.zeros_like(centers)
        for some in white.split(VALUES // (4 * len(centers))):
            highest, best = (some @ centers.T).max(1)
            total.index_add_(0, best, some * highest[:, None])
        empty = total.norm(dim=1) < 1e-6
        centers = torch.where(empty[:, None], centers, F.normalize(total, dim=1))
    return centers


def patches_at(x: Tensor, top: Tensor, left: Tensor, height: int, width: int) -> Tensor:
    """Patches of images (b, C, H, W) with given corners (b, m), flattened: (b * m, C * height * width)."""
    b, each = top.shape
    rows = (top[..., None] + torch.arange(height))[..., :, None]
    columns = (left[..., None] + torch.arange(width))[..., None, :]
    image = torch.arange(b)[:, None, None, None]
    return x.permute(0, 2, 3, 1)[image, rows, columns].permute(0, 1, 4, 2, 3).reshape(b * each, -1)


class PatchResponses(nn.Module):
    """Responses to a dictionary of patches, averaged over regions: (B, C, H, W) to (B, n_features).

    The response of a place to a center is relu(similarity - mean - deviation / 2), where mean and deviation are those
    of the place's similarities with all centers (the soft threshold of Coates, Lee and Ng 2011, by place).

    Parameters
    ----------
    channels : int
        C.
    size : (int, int)
        H and W of the samples. Later ones may have other sizes; those smaller than a patch are padded by zeros.
    patch : (int, int)
        Height and width of a patch; smaller if the samples are.
    centers : int
        Number of centers.
    stride : int
        Steps between places.
    regions : (int, int)
        Rows and columns of regions, at most the number of places.
    contrast : float or None
        Patches are centered and divided by their standard deviation plus this number, before whitening; None: they are
        not.
    root : bool
        Take the square root of all features (power normalization: Perronnin, Sanchez and Mensink 2010, section 3.2).
    maxima : sequence of int
        For each number, the largest responses of as many rows and columns of regions are features, too.

    Attributes
    ----------
    n_features : int
        Centers times regions, those of maxima included. The responses of one region are neighbors.
    """

    def __init__(
        self,
        channels: int,
        size: tuple[int, int],
        *,
        patch: tuple[int, int],
        centers: int,
        stride: int,
        regions: tuple[int, int],
        contrast: float | None = None,
        root: bool = False,
        maxima: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.patch = height, width = min(patch[0], size[0]), min(patch[1], size[1])
        self.stride, self.contrast, self.root = stride, contrast, root
        self.places = (size[0] - height) // stride + 1, (size[1] - width) // stride + 1
        self.regions = min(regions[0], self.places[0]), min(regions[1], self.places[1])
        self.maxima = [(min(number, self.places[0]), min(number, self.places[1])) for number in maxima]
        self.n_features = centers * sum(rows * columns for rows, columns in (self.regions, *self.maxima))
        self.filters = nn.Buffer(torch.zeros(centers, channels, height, width))
        self.offset = nn.Buffer(torch.zeros(centers))

    def block_size(self, x: Tensor) -> int:
        """Number of samples whose responses are computed at once."""
        height, width = ((side - patch) // self.stride + 1 for side, patch in zip(x.shape[2:], self.patch, strict=True))
        values = VALUES_ON_GPU if x.is_cuda else VALUES
        return max(1, values // (len(self.filters) * max(1, height) * max(1, width)))

    @torch.no_grad()
    def fit(self, x: Tensor, generator: torch.Generator) -> None:
        """Fit the dictionary to random patches of samples (n, C, H, W), on the CPU."""
        n, (height, width) = len(x), self.patch
        each = -(-SAMPLED // n)
        top = torch.randint(x.shape[2] - height + 1, (n, each), generator=generator)
        left = torch.randint(x.shape[3] - width + 1, (n, each), generator=generator)
        self.fit_to(patches_at(x.float().cpu(), top, left, height, width), generator)

    @torch.no_grad()
    def fit_to(self, patches: Tensor, generator: torch.Generator) -> None:
        """Fit the dictionary to patches (m, C * height * width) on the CPU, more of them than centers."""
        if self.contrast is not None:
            patches = patches - patches.mean(1, keepdim=True)
            patches = patches / (patches.square().mean(1, keepdim=True).sqrt() + self.contrast)
        start = torch.randperm(len(patches), generator=generator)[: len(self.filters)]
        filters, offset = fit_dictionary(patches, start)
        if self.contrast is not None:
            # Filters of centered patches sum to 0 up to rounding; exactly, they ignore the mean of raw patches.
            filters = filters - filters.mean(1, keepdim=True)
        # The mean over the centers is taken from the filters, once, instead of from each place's similarities.
        self.filters.copy_((filters - filters.mean(0)).view_as(self.filters))
        self.offset.copy_(offset - offset.mean())

    def forward(self, x: Tensor) -> Tensor:
        maps = self.maps(x)
        pooled = [F.adaptive_avg_pool2d(maps, self.regions)]
        pooled += [F.adaptive_max_pool2d(maps, number) for number in self.maxima]
        found = torch.cat([each.permute(0, 2, 3, 1).flatten(1) for each in pooled], 1)
        return (found + 1e-12).sqrt() if self.root else found

    def maps(self, x: Tensor) -> Tensor:
        """Responses at all places, (B, centers, h, w)."""
        filters = self.filters.contiguous(memory_format=torch.channels_last)
        missing = [max(0, patch - side) for patch, side in zip(self.patch, x.shape[2:], strict=True)]
        x = F.pad(x, (0, missing[1], 0, missing[0])) if any(missing) else x
        x = x.contiguous(memory_format=torch.channels_last)
        if self.contrast is None:
            similarity = F.conv2d(x, filters, -self.offset, self.stride)
        else:
            similarity = self._normalized(x, filters)
        b, centers, height, width = similarity.shape
        # In rows of centers, which are contiguous: statistics over them are several times as fast.
        rows = similarity.permute(0, 2, 3, 1).reshape(-1, centers)
        half = torch.linalg.vector_norm(rows, dim=1, keepdim=True) * (0.5 / centers**0.5)
        rows = (rows - half if rows.requires_grad else rows.sub_(half)).relu_()
        return rows.view(b, height, width, centers).permute(0, 3, 1, 2)

    def _normalized(self, x: Tensor, filters: Tensor) -> Tensor:
        """Similarities with patches of mean 0 and deviation about 1: those of the raw patches, rescaled by place."""
        mean = F.avg_pool2d(x.mean(1, keepdim=True), self.patch, self.stride)
        square = F.avg_pool2d(x.square().mean(1, keepdim=True), self.patch, self.stride)
        spread = (square - mean.square()).clamp_min(1e-12).sqrt() + (self.contrast or 0)
        return F.conv2d(x, filters, None, self.stride) / spread - self.offset.view(-1, 1, 1)


class Features(Declared, nn.Module):
    """Fixed features of scaled samples, (B, C, ...) to (B, n_features): the samples that view makers also get.

    Features are registered by ``@register("features", "my-features", help=..., modalities=...)`` on a class or a
    function of a `PartContext`. Their options are the keyword-only arguments, or attributes of the class with a type
    and a default, as of a view maker, of which `set_up` makes the features.

    A subclass knows `n_features` and the shapes of its buffers when it is constructed, from its options and the shape
    of a sample, so that fitted buffers can be loaded into a new module.

    Attributes
    ----------
    n_features : int
        Number of features.
    """

    n_features: int

    def __init__(self, context: PartContext | None = None, **options: Any) -> None:
        super().__init__()
        self.take(**options)
        if context is not None:
            self.set_up(context)

    def set_up(self, context: PartContext) -> None:
        """Make buffers and `n_features` from the options and the shape of a sample."""

    def fit(self, x: Tensor, generator: torch.Generator) -> None:
        """Fill the buffers from scaled samples (n, C, ...), at most some thousand. The default does nothing.

        `generator` is one of the CPU. On every device, the same samples and the same state of the generator give the
        same buffers, up to rounding.
        """

    def forward(self, x: Tensor) -> Tensor:
        """Features, float32 (B, n_features), of scaled samples (B, C, ...), in blocks of them.

        No state changes; gradients with respect to the samples are possible.
        """
        if len(x) == 0:  # which some operations refuse, such as transforms of Fourier
            return x.new_zeros(0, self.n_features, dtype=torch.float32)
        blocks = x.float().split(self.block_size(x))
        return torch.cat([self.of_block(block) for block in blocks])

    def of_block(self, x: Tensor) -> Tensor:
        """Features of a block of samples, float32; a subclass overrides this, or `forward`."""
        raise NotImplementedError

    def block_size(self, x: Tensor) -> int:
        """Number of samples in a block."""
        return 256


class NetworkFeatures(Features):
    """The output of a network, (B, ...) to (B, n_features), in evaluation mode and without gradients."""

    def __init__(self, network: nn.Module, n_features: int) -> None:
        super().__init__()
        self.network, self.n_features = network.requires_grad_(False), n_features
        self.train()

    def train(self, mode: bool = True) -> Self:
        """Stay in evaluation mode, whatever the mode of the model."""
        return super().train(False)

    @torch.no_grad()
    def of_block(self, x: Tensor) -> Tensor:
        return self.network(x).float()


class FunctionFeatures(Features):
    """What a function of samples returns, in the form and units of the data, to (B, n_features); it is not copied, and
    also gets views, which are not in the data."""

    def __init__(self, function: Callable[[np.ndarray], Any], n_features: int, layer: nn.Module) -> None:
        super().__init__()
        self.function, self.n_features, self.layer = function, n_features, Reference(layer)

    @torch.no_grad()
    def of_block(self, x: Tensor) -> Tensor:
        found = features_of_function(self.function, self.layer.module, x)
        if found.shape[1] != self.n_features:
            raise InputError(
                f"the features {name_of(self.function)} return {found.shape[1]} columns, but the model was fitted with "
                f"{self.n_features}: give the same function"
            )
        return found


def features_of_function(function: Callable[[np.ndarray], Any], layer: Any, x: Tensor) -> Tensor:
    """Checked features of a user's function for scaled samples, float32 (B, d)."""
    rows, name = layer.inverse(x).cpu().numpy(), name_of(function)
    try:
        made = function(rows)
        found = torch.as_tensor(made if isinstance(made, Tensor) else np.asarray(made, np.float32))
    except Exception as error:
        raise InputError(
            f"the features {name} fail on samples, {rows.dtype} of shape {rows.shape}: {error_text(error)}"
        ) from error
    if found.ndim != 2 or len(found) != len(rows) or not found.shape[1]:
        raise InputError(
            f"the features {name} return the shape {tuple(found.shape)} for {len(rows)} samples, expected one row of "
            "numbers for each"
        )
    if not bool(found.isfinite().all()):
        raise InputError(f"the features {name} return NaN or infinite values: return finite ones")
    return found.detach().to(x.device, torch.float32)


def name_of(function: Any) -> str:
    """Name of a function, or the class of an object."""
    return str(getattr(function, "__name__", type(function).__name__))


PREFERRED_PATCHES = 7  # patches per side, as for the published network and images of 224 pixels
MIN_PATCHES = 3
IN_FRONT = 5  # rows of a transformer in front of its patches, at most: a class token and four registers
BLOCK = 64  # images per forward pass of a separate network


class _StopForward(Exception):
    """Ends a forward pass after the layer whose output is needed."""


class FeatureMap(nn.Module):
    """Images (B, C, H, W) to feature maps (B, h, w, D) of a layer of an encoder, without gradient.

    The layer is the deepest (last computed) one whose map has at least `patches` x `patches` patches. A map is an
    output (B, D, h, w), (B, h, w, D), or (B, h w, D) with at most five additional rows in front (the patches, class
    token and registers of a transformer); attention, a row for each patch, is none. If all maps are smaller, the layer
    is the deepest one with the largest map.

    The encoder is neither copied nor changed, and runs in evaluation mode; `x` are scaled images with which the layer
    is found, of which only the first is needed; `hint` ends the message if no layer gives a map of 3 x 3 patches.
    """

    def __init__(
        self,
        encoder: nn.Module,
        x: Tensor,
        *,
        patches: int = PREFERRED_PATCHES,
        layer: str | None = None,
        hint: str = ", or (genview) quality=False and noise='constant:200'",
    ) -> None:
        super().__init__()
        self.encoder = Reference(encoder)
        outputs: list[tuple[str, Tensor]] = []

        def append_as(name: str) -> Any:
            def hook(module: nn.Module, inputs: Any, output: Any) -> None:
                if isinstance(output, Tensor):
                    outputs.append((name, output))

            return hook

        self._run(x[:1], [module.register_forward_hook(append_as(name)) for name, module in encoder.named_modules()])
        tokens = {output.shape[1] for _, output in outputs if output.ndim == 3}
        likely = [(name, output) for name, output in outputs if output.ndim != 4 or output.shape[2] not in tokens]
        maps = [(name, map_) for name, output in likely if (map_ := _as_map(output)) is not None]
        if layer is not None:
            known = list(dict.fromkeys(name for name, _ in maps if name.count(".") <= 1 and name))
            maps = [entry for entry in maps if entry[0] == layer]
            if not maps:
                raise InputError(f"the network has no layer {layer!r} that gives maps: choose {', '.join(known)}")
        if not maps:
            raise InputError(
                f"the encoder {type(encoder).__name__} has no feature map of at least {MIN_PATCHES} x {MIN_PATCHES} "
                f"patches for images of {x.shape[2]} x {x.shape[3]} pixels: use another encoder or larger images{hint}"
            )
        sides = [min(map_.shape[1:3]) for _, map_ in maps]
        least = min(patches, max(sides))
        self.layer, map_ = next(entry for entry, side in zip(maps[::-1], sides[::-1], strict=True) if side >= least)
        self.shape: tuple[int, int, int] = (map_.shape[1], map_.shape[2], map_.shape[3])
        self.pixels = x.shape[2] / map_.shape[1], x.shape[3] / map_.shape[2]  # of a patch

    def forward(self, x: Tensor) -> Tensor:
        maps: list[Tensor] = []
        sides = [round(side / pixels) for side, pixels in zip(x.shape[2:], self.pixels, strict=True)]

        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            map_ = _as_map(output, sides)
            assert map_ is not None
            maps.append(map_)
            raise _StopForward  # deeper layers are not needed

        self._run(x, [self.encoder.module.get_submodule(self.layer).register_forward_hook(hook)])
        return maps[-1]

    def record(self, encoder: nn.Module, maps: list[Tensor]) -> Any:
        """Append the maps of all forward passes of an encoder like this one; ``handle.remove()`` ends it."""

        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            if (map_ := _as_map(output, self.shape[:2])) is not None:
                maps.append(map_.detach())

        return encoder.get_submodule(self.layer).register_forward_hook(hook)

    @torch.no_grad()
    def _run(self, x: Tensor, hooks: list[Any]) -> None:
        encoder = self.encoder.module
        training = encoder.training
        try:
            with contextlib.suppress(_StopForward):
                encoder.eval()(x)
        finally:
            encoder.train(training)
            for hook in hooks:
                hook.remove()


class FrozenMaps(nn.Module):
    """Images (B, C, H, W) to feature maps (B, h, w, D) of a separate, frozen network (a feature extractor).

    The network stays in evaluation mode and gets no gradient. It is not a submodule: it is neither saved nor copied
    with the module that holds this one.

    `load` returns the network when it is first needed; with images `x` it is tested at once, otherwise `shape`, (h, w,
    D), is known.
    """

    def __init__(
        self,
        load: Callable[[], nn.Module],
        name: str,
        *,
        x: Tensor | None = None,
        shape: tuple[int, int, int] | None = None,
    ) -> None:
        super().__init__()
        self.load, self.name = load, name
        self._loaded: Reference[nn.Module] | None = None
        if x is not None:
            map_ = self._test(x[:1])
            shape = (map_.shape[1], map_.shape[2], map_.shape[3])
        assert shape is not None
        self.shape = shape

    def network(self) -> nn.Module:
        """The network, in evaluation mode."""
        if self._loaded is None:
            self._loaded = Reference(self.load().requires_grad_(False).eval())
        return self._loaded.module

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        network = self.network().to(x.device)
        maps = [network(part) for part in x.split(BLOCK)]
        for map_, part in zip(maps, x.split(BLOCK), strict=True):
            if (
                not isinstance(map_, Tensor)
                or map_.ndim != 4
                or len(map_) != len(part)
                or min(map_.shape[2:]) < MIN_PATCHES
            ):
                given = tuple(map_.shape) if isinstance(map_, Tensor) else type(map_).__name__
                raise InputError(
                    f"the feature extractor {self.name} returned {given} for images {tuple(part.shape)}, expected maps "
                    f"({len(part)}, features, h, w) with h and w at least {MIN_PATCHES}"
                )
        return torch.cat(maps).movedim(1, 3)

    def _test(self, x: Tensor) -> Tensor:
        """The maps of images; exceptions of the network are raised as InputError."""
        self.network()
        try:
            maps: Tensor = self(x)
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"the feature extractor {self.name} failed for images {tuple(x.shape)}: {error_text(error)}"
            ) from error
        return maps

    def __deepcopy__(self, memo: dict[int, Any]) -> "FrozenMaps":
        return self  # it never changes


def _as_map(output: Any, sides: Sequence[int] | None = None) -> Tensor | None:
    """The output of a layer as (B, h, w, D); None if it is not a map. If features may come last, as in transformers,
    h and w are `sides`, by default equal ones."""
    if not isinstance(output, Tensor):
        return None
    if output.ndim == 4:
        height, width = sides or output.shape[1:3]
        last = height == output.shape[1] and width == output.shape[2] and (sides is not None or height == width)
        first = output.shape[2] == output.shape[3] if sides is None else tuple(output.shape[2:]) == (height, width)
        map_ = output if last and not first else output.movedim(1, 3)
    elif output.ndim == 3:
        # Patches of a transformer, possibly after a class token and registers.
        rows = output.shape[1]
        height, width = sides or [math.isqrt(rows)] * 2
        if not 0 <= rows - height * width <= IN_FRONT:
            return None
        map_ = output[:, rows - height * width :].unflatten(1, (height, width))
    else:
        return None
    return map_ if min(map_.shape[1:3]) >= MIN_PATCHES else None
