"""Dense features of images without labels or pretrained weights: learned patches (Coates, Lee and Ng 2011).

Patches of the images themselves are whitened and clustered; the response of a pixel is its similarity with each center,
less the mean over the centers and half a deviation, and negative values are 0. Responses are averaged over cells of
`CELL` x `CELL` pixels and reduced to their principal components.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from viewsmith.modalities.images.channels import channel_ranges
from viewsmith.networks.dictionary import CHANNELS, channel_axes, fit_dictionary, patches_at

CELL = 4  # pixels of a side of a cell
PATCH = 6  # pixels of a side of a patch
SAMPLED = 40_000  # patches that the centers are fitted to
CENTERS, ROUNDS = 256, 15
STRIDE = 2  # pixels between patches: four times as fast as every pixel, with the same result on cells
COMPONENTS = 64  # principal components that are kept of a cell
VALUES = 2**21  # responses that are computed at once on a CPU

#: What discovery needs of any dense features: images (b, H, W, C) -> maps float32 (b, d, h, w).
DenseFeatures = Callable[[np.ndarray], Tensor]


@dataclass(frozen=True)
class Patches:
    """Patch features with their fitted parts; called with images (b, H, W, C), it gives maps (b, d, h, w)."""

    filters: Tensor  # centers times whitening, for pixels in 0 to 1: (CENTERS, C, PATCH, PATCH)
    offset: Tensor  # their response to the mean patch
    mean: Tensor  # response of a cell
    axes: Tensor  # its principal axes, (COMPONENTS, CENTERS)
    # Images are reduced by this factor before, 1 or 2, so that patches are larger.
    reduction: Tensor = field(default_factory=lambda: torch.tensor(1))
    unit: Tensor | None = None  # of images of instruments, in place of 255: see `unit_of`

    def to(self, device: torch.device) -> "Patches":
        """On a device, where maps are computed then."""
        return Patches(**{name: tensor.to(device) for name, tensor in vars(self).items() if tensor is not None})

    def state(self) -> dict[str, Tensor]:
        """The tensors by name, on the CPU."""
        return {name: tensor.cpu() for name, tensor in vars(self).items() if tensor is not None}

    @torch.no_grad()
    def __call__(self, images: np.ndarray) -> Tensor:
        responses = cells(images, self.filters, self.offset, int(self.reduction), self.unit)
        return projected(responses, self.mean, self.axes)


def cells(
    images: np.ndarray, filters: Tensor, offset: Tensor, reduction: int = 1, unit: Tensor | None = None
) -> Tensor:
    """Responses averaged over cells, (b, centers, h, w); the border that a patch does not cover repeats its edge."""
    x = F.pad(as_pixels(images, reduction, filters.device, unit), (2, 2, 2, 2), mode="replicate").contiguous(
        memory_format=torch.channels_last
    )
    filters = filters.contiguous(memory_format=torch.channels_last)
    # Responses of a few images stay in the cache of a CPU.
    some = max(1, x.shape[0] if x.is_cuda else VALUES * STRIDE**2 // (len(filters) * x.shape[2] * x.shape[3]))
    return torch.cat([_pooled(each, filters, offset, CELL // STRIDE // reduction) for each in x.split(some)])


def _pooled(x: Tensor, filters: Tensor, offset: Tensor, side: int) -> Tensor:
    """Responses to images (b, C, H, W), averaged over squares."""
    # In rows of centers, which are contiguous: statistics over them are several times as fast.
    similarity = F.conv2d(x, filters, -offset, stride=STRIDE)
    b, centers, h, w = similarity.shape
    response = similarity.permute(0, 2, 3, 1).reshape(b * h * w, centers)
    mean = response.mean(1, keepdim=True)
    deviation = (torch.linalg.vector_norm(response, dim=1, keepdim=True).square() / centers - mean**2).clamp(min=0)
    response = response.sub_(mean + deviation.sqrt() / 2).relu_()
    return F.avg_pool2d(response.reshape(b, h, w, centers).permute(0, 3, 1, 2), side)


def as_pixels(
    images: np.ndarray, reduction: int = 1, device: torch.device | None = None, unit: Tensor | None = None
) -> Tensor:
    """Pixels of images (b, H, W) or (b, H, W, C) as float32 (b, C, H, W), reduced: over 255, or the `unit` of their
    channels."""
    x = torch.from_numpy(np.ascontiguousarray(images)).to(device)
    x = (x if x.ndim == 4 else x[..., None]).permute(0, 3, 1, 2).float()
    if unit is not None and unit.ndim == 2:
        x = torch.einsum("bchw,ck->bkhw", x, unit.to(x.device))
    else:
        x = x / 255 if unit is None else x / unit.to(x.device)[:, None, None]
    return x if reduction == 1 else F.interpolate(x, scale_factor=1 / reduction, mode="bilinear", antialias=True)


def fit_patches(
    batches: Iterable[np.ndarray],
    some: Iterable[np.ndarray],
    n: int,
    seed: int,
    device: torch.device,
    reduction: int = 1,
    unit: Tensor | None = None,
) -> Patches:
    """Fit patch features to n images that come in batches of one size each, centers on the CPU, and axes to some of
    them, on a device."""
    rng = np.random.default_rng(seed)
    each = -(-SAMPLED // n)
    sampled = torch.cat([_patches(as_pixels(images, reduction, None, unit), each, rng) for images in batches])
    start = torch.from_numpy(rng.permutation(len(sampled))[:CENTERS])
    filters, offset = fit_dictionary(sampled, start, ROUNDS)
    filters, offset = filters.reshape(len(filters), -1, PATCH, PATCH).to(device), offset.to(device)
    moments = principal_axes(lambda images: cells(images, filters, offset, reduction, unit), some)
    return Patches(filters, offset, *moments, torch.tensor(reduction), unit)


def unit_of(batches: Iterable[np.ndarray]) -> Tensor:
    """The range of each channel, (C,), of images (b, H, W, C) of some batches. Of one or three channels all have the
    largest one: what is found then is the same for the same pixels at any depth, because only ratios matter. Of many
    channels, their principal axes (C, k) in these ranges."""
    some = np.concatenate([images.reshape(-1, images.shape[3])[:: max(1, len(images))] for images in batches])
    low, high = channel_ranges(some)
    span = np.where(high > low, high - low, 1)
    if len(span) > CHANNELS:
        return channel_axes(torch.from_numpy(some / span)) / torch.from_numpy(span)[:, None]
    return torch.from_numpy(np.full_like(span, span.max()) if len(span) in (1, 3) else span)


def _patches(x: Tensor, each: int, rng: np.random.Generator) -> Tensor:
    """`each` random patches of every image, (b * each, C * PATCH * PATCH)."""
    b, _, height, width = x.shape
    top = torch.from_numpy(rng.integers(0, height - PATCH + 1, (b, each)))
    left = torch.from_numpy(rng.integers(0, width - PATCH + 1, (b, each)))
    return patches_at(x, top, left, PATCH, PATCH)


@torch.no_grad()
def principal_axes(dense: DenseFeatures, batches: Iterable[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Mean (d,) and first principal axes (COMPONENTS, d) of the cells of images that come in batches."""
    count, total, products = 0, *torch.zeros(2, dtype=torch.float64)  # without a size: on any device
    for images in batches:
        # Added up batch by batch: all rows at once would take most of the memory of a search.
        x = dense(images).movedim(1, -1).flatten(0, -2).double()
        count, total, products = count + len(x), total + x.sum(0), products + x.T @ x
    mean = total / count
    _, axes = torch.linalg.eigh(products / count - torch.outer(mean, mean))
    return mean.float(), axes.flip(1)[:, :COMPONENTS].T.float().contiguous()


def projected(maps: Tensor, mean: Tensor, axes: Tensor) -> Tensor:
    """Maps (b, d, h, w) on principal axes, (b, COMPONENTS, h, w)."""
    return F.linear(maps.movedim(1, -1) - mean, axes).movedim(-1, 1)  # in rows of features, as they lie in memory


def sizes_fitting(shapes: Sequence[tuple[int, int]], longest: int, stride: int = CELL) -> list[tuple[int, int]]:
    """Sizes (height, width) of images in whole cells, aspect ratio kept, of at most `longest` pixels in cells of
    `CELL`; for a larger `stride`, as many cells."""
    found = []
    for height, width in shapes:
        scale = min(1.0, longest / max(height, width))
        found.append(tuple(max(1, round(side * scale / CELL)) * stride for side in (height, width)))
    return found  # type: ignore[return-value]
