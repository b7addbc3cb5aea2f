"""Dense features of images: of a layer of a network by name, or the deepest with cells of up to 8 pixels; in a file."""

import contextlib
import dataclasses
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError, error_text
from viewsmith.core.rows import check_size, memory_limit
from viewsmith.methods.discovery.image_parts import BLOCK
from viewsmith.modalities.images.features import CELL, as_pixels, principal_axes, projected
from viewsmith.networks.features import FeatureMap

PROBED = 224  # pixels of a side of the image with which the layer is found
LEAST_MAP = 28  # cells of a side of its map, if any layer has as many
#: Memory of a forward pass, in times of the largest input and output of a module together: 0.9 to 1.5 times were
#: measured (EfficientNet-Lite0, ResNet-50, DenseNet-121, ConvNeXt, ViT, Swin).
PASS = 1.5
AT_ONCE = 3 * 2**29  # bytes of passes of several images: 16 images of 512 x 512 pixels of EfficientNet-Lite0


@dataclass(frozen=True)
class NetworkMaps:
    """Maps of a layer; called with images uint8 (b, H, W, C), it gives maps (b, d, h, w)."""

    maps: FeatureMap
    center: Tensor  # (C,): pixels in 0 to 1, less `center`, over `scale`, are the input of the network
    scale: Tensor
    stride: int  # pixels of a side of a cell
    mean: Tensor  # features of a cell, (c,), and principal axes, (d, c); empty before `fitted`
    axes: Tensor
    bytes_per_pixel: float  # of a forward pass up to the layer

    def most(self, size: tuple[int, int], wanted: int) -> int:
        """How many of the `wanted` images of a size fit into the memory for one pass, at least one."""
        memory = AT_ONCE * max(1, wanted // BLOCK)  # more are wanted on a GPU
        return max(1, min(wanted, int(memory / (self.bytes_per_pixel * size[0] * size[1]))))

    def check(self, size: tuple[int, int], image_size: int) -> None:
        """Raise InputError if a pass of one image of a size, reduced to `image_size`, exceeds the memory."""
        needed, cells = self.bytes_per_pixel * size[0] * size[1], max(size) // self.stride
        smaller = CELL * int(cells * ((memory_limit() or needed) / needed) ** 0.5)
        check_size(
            int(needed),
            f"the network of the features has cells of {self.stride} pixels in the layer {self.maps.layer}: it sees "
            f"images of {size[0]:,} x {size[1]:,} pixels with image_size={image_size} ({CELL} pixels a cell). One",
            f"give a smaller image_size (--image-size {smaller}), or a layer with smaller cells (--feature-layer)",
        )

    def to(self, device: torch.device) -> "NetworkMaps":
        """On a device, where maps are computed then; the network itself is moved."""
        moved = {name: getattr(self, name).to(device) for name in ("center", "scale", "mean", "axes")}
        self.maps.encoder.module.to(device)
        return dataclasses.replace(self, **moved)

    def features(self, images: np.ndarray) -> Tensor:
        """All features of the layer, (b, c, h, w)."""
        x = (as_pixels(images, device=self.center.device) - self.center[:, None, None]) / self.scale[:, None, None]
        with _in_words(self.maps.encoder.module, x):
            return self.maps(x).permute(0, 3, 1, 2)

    @torch.no_grad()
    def __call__(self, images: np.ndarray) -> Tensor:
        return projected(self.features(images), self.mean, self.axes)

    def fitted(self, batches: Iterable[np.ndarray]) -> "NetworkMaps":
        """With the principal axes of images that come in batches of one size each."""
        mean, axes = principal_axes(self.features, batches)
        return dataclasses.replace(self, mean=mean, axes=axes)

    def weights(self) -> dict[str, Tensor]:
        """Weights of the network."""
        return {name: value.detach().cpu().clone() for name, value in self.maps.encoder.module.state_dict().items()}

    def state(self) -> dict[str, Tensor]:
        """What was fitted."""
        return {"mean": self.mean.cpu(), "axes": self.axes.cpu()}


def network_maps(network: nn.Module, center: Tensor, scale: Tensor, layer: str | None = None) -> NetworkMaps:
    """Dense features from a network that takes images float32 (b, C, H, W) of any size."""
    blank = torch.zeros(1, len(center), PROBED, PROBED)
    with _in_words(network, blank):
        maps = FeatureMap(network, blank, patches=LEAST_MAP, layer=layer, hint="")
        largest = _largest(maps, blank)
    empty = torch.zeros(0)
    return NetworkMaps(maps, center, scale, PROBED // maps.shape[0], empty, empty, PASS * 4 * largest / PROBED**2)


def _largest(maps: FeatureMap, x: Tensor) -> int:
    """Numbers in the inputs and the output of the module, without modules of its own, that has most."""
    found = [x.numel()]

    def hook(module: nn.Module, inputs: Any, output: Any) -> None:
        found.append(sum(each.numel() for each in (*inputs, output) if isinstance(each, Tensor)))

    leaves = [each for each in maps.encoder.module.modules() if next(each.children(), None) is None]
    hooks = [each.register_forward_hook(hook) for each in leaves]
    try:
        maps(x)
    finally:
        for each in hooks:
            each.remove()
    return max(found)


@contextlib.contextmanager
def _in_words(network: nn.Module, x: Tensor) -> Iterator[None]:
    """Raise an error of a network for images x (b, C, H, W) as InputError."""
    try:
        yield
    except (RuntimeError, AssertionError, TypeError) as error:
        raise InputError(
            f"the network {type(network).__name__} of the features fails on images of {x.shape[2]} x {x.shape[3]} "
            f"pixels with {x.shape[1]} channels: {error_text(error)}"
        ) from error


DIGEST = 16  # bytes


def _digest(row: int, values: np.ndarray) -> bytes:
    """A digest of a map and of the number of its image, so that maps that have changed places are noticed."""
    return hashlib.blake2b(values.data, digest_size=DIGEST, key=row.to_bytes(8, "little")).digest()


@dataclass
class MapCache:
    """Maps of n images, float32, in `KEY.maps`, each with a digest behind it; without one where it is not there yet."""

    folder: Path
    key: str  # names the images and the features, see `key_of`
    n: int
    size: tuple[int, int]  # height and width of the largest map

    def read(self, rows: np.ndarray, height: int, width: int) -> np.ndarray | None:
        """Maps (b, height, width, d) of these images, or None unless all are there and none is damaged."""
        try:
            kept = np.memmap(self._file, np.ubyte, "r").reshape(self.n, -1)
            if not kept[rows, -DIGEST:].any(1).all():
                return None
            maps, known = np.split(kept[rows], [-DIGEST], axis=1)
            if any(own.tobytes() != _digest(int(row), x) for row, own, x in zip(rows, known, maps, strict=True)):
                return None
            return maps.view(np.float32).reshape(len(rows), *self.size, -1)[:, :height, :width]
        except (OSError, ValueError):
            return None

    def write(self, rows: np.ndarray, maps: np.ndarray) -> None:
        """Add maps (b, height, width, d) of these images."""
        _, height, width, d = maps.shape
        padded = np.zeros((*self.size, d), np.float32)
        whole = self.n * (padded.nbytes + DIGEST)
        if self._file.is_symlink() or not self._file.is_file() or self._file.stat().st_size != whole:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._file.unlink(missing_ok=True)
            with self._file.open("xb") as new:
                new.truncate(whole)
        # Written as a file: a full disk is an error here, and would end the process through a memory map.
        with self._file.open("r+b") as data:
            for row, own in zip(rows, maps, strict=True):
                padded[:height, :width] = own
                data.seek(int(row) * (padded.nbytes + DIGEST))
                data.write(padded.data)
                data.write(_digest(int(row), padded))

    @property
    def _file(self) -> Path:
        return self.folder / f"{self.key}.maps"


def key_of(parts: Iterable[bytes]) -> str:
    """A name for what has these contents, 16 letters."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:16]
