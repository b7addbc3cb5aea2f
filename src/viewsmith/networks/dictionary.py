"""Dictionaries of patches: whitened patches are clustered, and the responses to the centers are features.

After Coates, Lee and Ng (2011), An analysis of single-layer networks in unsupervised feature learning. The patches are
those of images, of spectrograms, or windows of sequences. Only the fit depends on the data; it takes seconds.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

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

    filters: Tensor
    offset: Tensor

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
        self.register_buffer("filters", torch.zeros(centers, channels, height, width))
        self.register_buffer("offset", torch.zeros(centers))

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
