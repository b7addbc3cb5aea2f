"""Features: fixed functions of a sample, fitted in seconds without labels or a contrast; functions of users; and
feature maps of images, from a layer of the encoder or from a separate network, to find the foreground."""

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError, error_text
from viewsmith.networks.base import Reference


class Features(nn.Module):
    """Fixed features of scaled samples, (B, C, ...) to (B, n_features): the samples that view makers also get.

    Features are registered by ``@register("features", "my-features", help=..., modalities=...)`` on a class or a
    function of a `PartContext`, whose keyword-only arguments are their options.

    A subclass knows `n_features` and the shapes of its buffers when it is constructed, from its options and the shape
    of a sample, so that fitted buffers can be loaded into a new module.

    Attributes
    ----------
    n_features : int
        Number of features.
    """

    n_features: int

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
        found: Tensor = self.network(x)
        return found.float()


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
