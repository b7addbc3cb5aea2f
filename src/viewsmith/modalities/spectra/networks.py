"""Networks for spectra (B, 1, T): an encoder that reads each point at its place, and latents of a diffusion model."""

from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from viewsmith.core.registry import Bounds, register
from viewsmith.core.samples import Rows, mapped
from viewsmith.modalities.spectra.features import Derivatives
from viewsmith.modalities.vectors.networks import VectorLatents
from viewsmith.networks.base import MLP, EncoderContext, Latents, Reference
from viewsmith.networks.scaling import Axes, PrincipalAxes, SkipCoordinates, WithSkip, learned_columns, some_of

AXES, POINTS = 64, 256  # that the encoder reads: a training draws many views
#: Columns of the input that the contrast keeps beside what it learns, by default.
DEFAULT_SKIP = 64
#: Most latents, and the least deviation along an axis, as part of the largest.
LATENTS, LEAST = 32, 1e-4


class SpectralAxes(PrincipalAxes):
    """Leading principal coordinates of spectra and their slopes, without level and amplitude: (B, 1, T) to (B, k)."""

    def __init__(self, features: Derivatives, n_components: int) -> None:
        super().__init__(features.n_features, min(n_components, features.n_features))
        self.features = features

    @torch.no_grad()
    def fit(self, x: Rows, *, weighted: bool = True, more: int = 0) -> Axes:
        """Fit the axes to spectra, (n, 1, T), at most 10,000."""
        return super().fit(some_of(x, self.features.of_block).to(self.axes), weighted=weighted)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.features.of_block(x))


@register(
    "encoder",
    "derivatives",
    help="fully connected layers on principal axes of spectra and their slopes",
    modalities="spectra",
    default_width=256,
    default_skip=DEFAULT_SKIP,
    keeps_input=True,
)
def _spectral_encoder(
    context: EncoderContext,
    *,
    hidden: tuple[int, ...] = (256,),
    norm: Literal["batch", "none"] = "batch",
    axes: Annotated[int, Bounds(ge=1)] = AXES,
    appended_pca: Annotated[int, Bounds(ge=0)] = 0,
    appended_length: Annotated[float, Bounds(gt=0)] = 6.0,
) -> nn.Module:
    """Build the encoder; `appended_pca` columns are principal coordinates of what it reads."""
    features = Derivatives(context, points=POINTS)
    skipped = min(appended_pca, features.n_features)
    width = learned_columns(context.n_components, skipped, appended_pca)
    last: Literal["activated", "linear"] = "activated" if norm == "batch" else "linear"
    read = SpectralAxes(features, axes)
    network = MLP(read.axes.shape[1], [*hidden, width], norm=norm, last=last, bias=context.bias)
    learned = nn.Sequential(read, network)
    if not skipped:
        return learned
    skip = SkipCoordinates(features.n_features, skipped, length=appended_length, features=features.of_block)
    return WithSkip(learned, skip)


class SpectralLatents(Latents):
    """Latents (B, m) of spectra (B, 1, T): coordinates on the leading principal axes of the training spectra.

    Each has variance 1, because scattering fills the first ones, and what substances differ by those after them.
    """

    def __init__(self, points: int) -> None:
        super().__init__()
        # Only a way to the axes, of which the latents have a copy.
        self.axes = Reference(PrincipalAxes(points, min(LATENTS, points)))
        self.rows = VectorLatents(points, self.axes.module)
        self.n_latents = self.rows.n_latents

    @torch.no_grad()
    def fit(self, rows: Rows) -> None:
        """Fit axes to at most 10,000 scaled spectra (n, 1, T), decoder and range to all."""
        flat = mapped(rows, lambda block: block.flatten(1))
        some = some_of(rows, nn.Flatten())
        axes = self.axes.module.to(some)
        found = axes.fit(some, weighted=False)
        deviation = found.deviation.to(axes.axes)
        varies = deviation > LEAST * deviation.max().clamp_min(1e-12)
        axes.axes[:, : len(deviation)] = found.axes * torch.where(varies, 1 / deviation, 0.0)
        self.rows.fit(flat)

    def encode(self, x: Tensor) -> Tensor:
        return self.rows.encode(x.flatten(1))

    def decode(self, u: Tensor, x: Tensor) -> Tensor:
        return self.rows.decode(u, x)[:, None]

    def clip(self, u: Tensor) -> Tensor:
        return self.rows.clip(u)
