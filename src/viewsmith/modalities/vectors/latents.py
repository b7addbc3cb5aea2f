"""Latents of vectors, the input of a diffusion model."""

from collections.abc import Iterator

import torch
from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.core.samples import Rows
from viewsmith.networks.base import Latents
from viewsmith.networks.scaling import PrincipalAxes
from viewsmith.networks.wrappers import Reference

# Values of the training rows processed at a time.
BLOCK = 1 << 22


class VectorLatents(Latents):
    """Latents of vectors (B, d): centered and divided by one scale, so that they have mean 0 and root mean square 1.

    The ratios of the features' scales do not change. If the encoder starts with principal axes, the latents are the
    coordinates on these axes, so that the diffusion model generates 50 values instead of thousands. They are decoded by
    the linear regression of the rows on their latents, which has the smallest squared error of all linear decoders;
    ``encode(decode(u))`` is u.

    Parameters
    ----------
    n_features : int
        d.
    axes : PrincipalAxes, optional
        The axes of the encoder; copied by `fit`.

    Attributes
    ----------
    n_latents : int
        Width m of the latents: d, or the number of axes.
    mean : Tensor, shape (d,)
    scale : Tensor, shape ()
    low, high : Tensor, shape (m,)
        Smallest and largest latent of the training rows.
    axes, back : Tensor, shapes (d, m) and (m, d); (0, 0) without axes
        Linear maps of encoding and decoding.
    """

    mean: Tensor
    scale: Tensor
    low: Tensor
    high: Tensor
    axes: Tensor
    back: Tensor

    def __init__(self, n_features: int, axes: PrincipalAxes | None = None) -> None:
        super().__init__()
        # The axes belong to the encoder, which saves them.
        self.source = None if axes is None else Reference(axes)
        self.n_latents = n_features if axes is None else axes.axes.shape[1]
        projection = (0, 0) if axes is None else (n_features, self.n_latents)
        self.register_buffer("mean", torch.zeros(n_features))
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("low", torch.full((self.n_latents,), -torch.inf))
        self.register_buffer("high", torch.full((self.n_latents,), torch.inf))
        self.register_buffer("axes", torch.zeros(projection))
        self.register_buffer("back", torch.zeros(projection[::-1]))

    @torch.no_grad()
    def fit(self, rows: Rows) -> None:
        """Fit center, scale, range and decoder to scaled training rows (n, d), block by block."""
        shape = tuple(rows[:1].shape)
        if shape != (1, len(self.mean)):
            raise InputError(
                f"the latents of vectors were given {len(rows)} rows of shape {shape[1:]}, expected at least one of "
                f"({len(self.mean)},)"
            )
        total = torch.zeros_like(self.mean, dtype=torch.float64)
        for block in _blocks(rows):
            total += block.sum(0)  # within a block float32, ten times faster on a CPU; over blocks float64
        self.mean.copy_(total / len(rows))
        if self.source is not None:
            self.axes.copy_(self.source.module.axes)
        self.scale.fill_(1)
        m = self.n_latents
        power = torch.zeros((m, m) if self._projects else (), dtype=torch.float64, device=self.mean.device)
        cross = torch.zeros(self.back.shape, dtype=torch.float64, device=self.mean.device)
        low, high = torch.full_like(self.low, torch.inf), torch.full_like(self.high, -torch.inf)
        for block in _blocks(rows):
            latents = self.encode(block)
            low, high = torch.minimum(low, latents.amin(0)), torch.maximum(high, latents.amax(0))
            if self._projects:
                power += latents.T @ latents
                cross += latents.T @ (block - self.mean)
            else:
                power += torch.linalg.vector_norm(latents).square()
        if self._projects:
            self.back.copy_(torch.linalg.pinv(power, hermitian=True) @ cross)
            power = power.trace()
        self.scale.copy_((power / (m * len(rows))).sqrt())
        if self.scale == 0:  # all rows are equal
            self.scale.fill_(1)
        self.low.copy_(low / self.scale)
        self.high.copy_(high / self.scale)

    @property
    def _projects(self) -> bool:
        return self.axes.numel() > 0

    def encode(self, x: Tensor) -> Tensor:
        """Latents (B, m) of scaled rows (B, d)."""
        if not self._projects:
            return (x - self.mean) / self.scale
        # (x - mean) @ axes without a centered copy of wide rows.
        return torch.addmm(-(self.mean @ self.axes), x, self.axes) / self.scale

    def decode(self, u: Tensor, x: Tensor) -> Tensor:
        """Scaled rows (B, d) from latents (B, m), in the dtype of `x`; constant features get their constant."""
        u = self.scale * u
        return (torch.addmm(self.mean, u, self.back) if self._projects else u + self.mean).to(x.dtype)

    def clip(self, u: Tensor) -> Tensor:
        """Latents clipped to the range of the training rows' latents."""
        return u.clamp(self.low, self.high)


def _blocks(rows: Rows) -> Iterator[Tensor]:
    """Rows (n, d) in blocks of about `BLOCK` values."""
    size = max(1, BLOCK // rows[:1].numel())
    return (rows[start : start + size] for start in range(0, len(rows), size))
