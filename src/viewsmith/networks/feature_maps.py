"""Feature maps of images, from inside an encoder or by a network of their own: what shows foreground."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError

PATCHES = 7  # a side of the map, as of the published network on 224 pixels
FEWEST = 3
BLOCK = 64  # images that a network of its own looks at in one go


class _Caught(Exception):
    """The map is there."""


class FeatureMap(nn.Module):
    """Images (B, C, H, W) to maps of patch features (B, h, w, D) from inside an encoder; no gradient.

    Looked at is the deepest layer whose map has at least 7 x 7 patches: the last to be computed that gives
    (B, D, h, w), or (B, h w, D) with at most one further row in front (a transformer's patches and class token). With
    smaller maps alone, that of the largest.

    Parameters
    ----------
    encoder : nn.Module
        Any encoder of images. It is used, not copied, and always in evaluation mode.
    x : Tensor, shape (B, C, H, W)
        Scaled images to find the layer with; one is enough.

    Attributes
    ----------
    layer : str
        Name of the layer in the encoder.
    shape : (int, int, int)
        h, w, D for images of the size of `x`.

    Raises
    ------
    InputError
        No layer gives a map of 3 x 3 patches or more.
    """

    def __init__(self, encoder: nn.Module, x: Tensor) -> None:
        super().__init__()
        # In a list, for the encoder belongs to somebody else and must not be saved here a second time.
        self.encoder = [encoder]
        found: list[tuple[str, Tensor]] = []

        def look(name: str) -> Any:
            def hook(module: nn.Module, given: Any, output: Any) -> None:
                if (map_ := _as_map(output)) is not None:
                    found.append((name, map_))

            return hook

        self._run(x[:1], [module.register_forward_hook(look(name)) for name, module in encoder.named_modules()])
        if not found:
            raise InputError(
                f"the encoder {type(encoder).__name__} has no feature map of {FEWEST} x {FEWEST} patches or more for "
                f"images of {x.shape[2]} x {x.shape[3]} pixels: take another encoder, larger images, or (genview) "
                "quality=False and noise='constant:200'"
            )
        sides = [min(map_.shape[1:3]) for _, map_ in found]
        wanted = min(PATCHES, max(sides))
        self.layer, map_ = next(entry for entry, side in zip(found[::-1], sides[::-1], strict=True) if side >= wanted)
        self.shape: tuple[int, int, int] = (map_.shape[1], map_.shape[2], map_.shape[3])

    def forward(self, x: Tensor) -> Tensor:
        caught: list[Tensor] = []

        def catch(module: nn.Module, given: Any, output: Any) -> None:
            map_ = _as_map(output)
            assert map_ is not None
            caught.append(map_)
            raise _Caught  # what lies deeper is not wanted

        self._run(x, [self.encoder[0].get_submodule(self.layer).register_forward_hook(catch)])
        return caught[-1]

    def listen(self, encoder: nn.Module, found: list[Tensor]) -> Any:
        """Add the maps, without gradient, of all passes of an encoder built like this one to a list.

        Returns
        -------
        handle
            Its ``remove()`` ends that.
        """

        def hear(module: nn.Module, given: Any, output: Any) -> None:
            if (map_ := _as_map(output)) is not None:
                found.append(map_.detach())

        return encoder.get_submodule(self.layer).register_forward_hook(hear)

    @torch.no_grad()
    def _run(self, x: Tensor, hooks: list[Any]) -> None:
        encoder = self.encoder[0]
        training = encoder.training
        try:
            with contextlib.suppress(_Caught):
                encoder.eval()(x)
        finally:
            encoder.train(training)
            for hook in hooks:
                hook.remove()


class FrozenMaps(nn.Module):
    """Images (B, C, H, W) to maps of patch features (B, h, w, D) by a network that gives maps; no gradient.

    The network does not learn, stays in evaluation mode, and is no part of what holds it: it is neither saved nor
    copied with it.

    Parameters
    ----------
    find : callable
        Gives the network, from scaled images to (B, D, h, w), when it is first needed.
    name : str
        Of the network, in messages.
    x : Tensor, shape (B, C, H, W), optional
        Scaled images to try it with at once.
    shape : (int, int, int), optional
        h, w, D where they are known already.

    Raises
    ------
    InputError
        It cannot be found, fails, or gives something else than maps of 3 x 3 patches or more.
    """

    def __init__(
        self,
        find: Callable[[], nn.Module],
        name: str,
        *,
        x: Tensor | None = None,
        shape: tuple[int, int, int] | None = None,
    ) -> None:
        super().__init__()
        self.find, self.name = find, name
        self.found: list[nn.Module] = []  # in a list, for it is no part of this one
        if x is not None:
            map_ = self._tried(x[:1])
            shape = (map_.shape[1], map_.shape[2], map_.shape[3])
        assert shape is not None
        self.shape = shape

    def network(self) -> nn.Module:
        """The network, in evaluation mode."""
        if not self.found:
            self.found.append(self.find().requires_grad_(False).eval())
        return self.found[0]

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        network = self.network().to(x.device)
        maps = [network(part) for part in x.split(BLOCK)]
        for map_, part in zip(maps, x.split(BLOCK), strict=True):
            if not isinstance(map_, Tensor) or map_.ndim != 4 or len(map_) != len(part) or min(map_.shape[2:]) < FEWEST:
                given = tuple(map_.shape) if isinstance(map_, Tensor) else type(map_).__name__
                raise InputError(
                    f"the network {self.name} that gives features makes {given} of images {tuple(part.shape)}, "
                    f"expected maps ({len(part)}, features, h, w) with h and w at least {FEWEST}"
                )
        return torch.cat(maps).movedim(1, 3)

    def _tried(self, x: Tensor) -> Tensor:
        """The maps of images that the network has not seen the like of yet."""
        self.network()
        try:
            maps: Tensor = self(x)
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"the network {self.name} that gives features fails on images {tuple(x.shape)}: "
                f"{type(error).__name__}: {' '.join(str(error).split())}"
            ) from error
        return maps

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenMaps:
        return self  # nothing in it changes


def _as_map(output: Any) -> Tensor | None:
    """(B, h, w, D) from what a layer gives; None where that is no map."""
    if not isinstance(output, Tensor):
        return None
    if output.ndim == 4:
        map_ = output.movedim(1, 3)
    elif output.ndim == 3:
        # Patches of a transformer; a class token stands before them.
        rows = output.shape[1]
        side = math.isqrt(rows)
        if rows not in (side * side, side * side + 1):
            return None
        map_ = output[:, rows - side * side :].unflatten(1, (side, side))
    else:
        return None
    return map_ if min(map_.shape[1:3]) >= FEWEST else None
