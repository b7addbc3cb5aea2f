"""A modality: point clouds (n, points, 3), with its encoder, its views, its noise generator and how it is drawn."""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.registry import Bounds, Fraction, Weight, register
from viewsmith.modalities import Modality
from viewsmith.modalities.checks import check_finite, check_numbers
from viewsmith.networks import EncoderContext, NoiseContext
from viewsmith.views import ViewMaker

SIDE = 48  # pixels of a drawn cloud


class CloudScaler(nn.Module):
    """Clouds (n, P, 3) to (n, 3, P), centered and divided by one scale, so that their shapes remain; and back."""

    center: Tensor
    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("center", torch.zeros(3))
        self.register_buffer("scale", torch.ones(()))

    def fit(self, rows: Tensor, scaling: str) -> str:
        """Compute center and scale from training clouds; return the name of the scaling that is used."""
        self.center.copy_(rows.mean((0, 1)))
        self.scale.copy_((rows - self.center).square().mean().sqrt().clamp_min(1e-12))
        return "global"

    def forward(self, rows: Tensor) -> Tensor:
        return ((rows.float() - self.center) / self.scale).mT.contiguous()

    def inverse(self, x: Tensor) -> Tensor:
        """Scaled clouds (n, 3, P) in the units of the data, (n, P, 3)."""
        return x.mT * self.scale + self.center


class Points(Modality):
    """Point clouds, numbers (n, points, 3): points in any order, the third coordinate points up."""

    name, help = "points", "point clouds, number arrays (n, points, 3)"
    default_views, default_encoder = "cloud", "pointnet"
    default_encoder_on_gpu = default_encoder
    picture = "pixels"

    def recognizes(self, X: Any) -> bool:
        return isinstance(X, np.ndarray) and X.dtype.kind == "f" and X.ndim == 3 and X.shape[2] == 3

    def check(self, x: np.ndarray, source_name: str = "the data") -> None:
        check_numbers(x, source_name)
        if x.ndim != 3 or x.shape[2] != 3 or 0 in x.shape:
            raise InputError(f"{source_name}: shape {x.shape}; point clouds are numbers (n, points, 3)")

    def read(
        self, X: Any, *, row_shape: Sequence[int] | None = None, impute: Any = "none", estimator: Any = None
    ) -> np.ndarray:
        rows = self.from_file(np.asarray(X), None, impute, "the point clouds")
        if row_shape is not None and rows.shape[1:] != tuple(row_shape):
            raise InputError(f"the clouds have shape {rows.shape[1:]}, but the model was fitted on {tuple(row_shape)}")
        return rows

    def from_file(self, x: np.ndarray, names: list[str] | None, impute: Any, source_name: str) -> np.ndarray:
        self.check(x, source_name)
        check_finite(x.reshape(-1, 3), ["x", "y", "z"], "none", source_name)
        return np.ascontiguousarray(x, dtype=np.float32)

    def input_layer(self, row_shape: Sequence[int]) -> CloudScaler:
        return CloudScaler()

    def channels(self, row_shape: Sequence[int]) -> int:
        return 3

    def blank(self, row_shape: Sequence[int]) -> Tensor:
        return torch.zeros(1, 3, row_shape[0])

    def onnx_example(self, row_shape: Sequence[int], layer: nn.Module) -> tuple[Tensor, nn.Module | None]:
        return torch.zeros(2, *row_shape), layer

    def raw_features(self, rows: np.ndarray, layer: Any) -> dict[str, np.ndarray]:
        """Extent along each axis, and quantiles of the distances from the center: neither knows the order of points."""
        centered = rows - rows.mean(1, keepdims=True)
        distances = np.quantile(np.linalg.norm(centered, axis=2), np.linspace(0, 1, 9), axis=1).T
        return {"extents and distances": np.concatenate([centered.std(1), distances], axis=1).astype(np.float32)}

    def transformations(self, row_shape: Sequence[int]) -> dict[str, Any]:
        return {"turn": lambda x: x[..., [1, 0, 2]] * [-1, 1, 1], "upside-down": lambda x: x * [1, 1, -1]}

    def compared_features(self, samples: np.ndarray, transformed: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Quantiles of each coordinate, which do not know the order of points."""
        quantiles = [np.quantile(x, np.linspace(0, 1, 9), axis=1).swapaxes(0, 1) for x in (samples, transformed)]
        return super().compared_features(*quantiles)

    def drawn(self, samples: np.ndarray) -> np.ndarray:
        """Each cloud from the side, as gray images of their density, uint8 (n, SIDE, SIDE)."""
        reach = np.abs(samples).max() or 1.0
        images = np.zeros((len(samples), SIDE, SIDE))
        place = np.clip(((samples / reach + 1) / 2 * SIDE).astype(int), 0, SIDE - 1)
        for image, cloud in zip(images, place, strict=True):
            np.add.at(image, (SIDE - 1 - cloud[:, 2], cloud[:, 0]), 1)
        return (255 * np.sqrt(images / images.max(initial=1.0))).astype(np.uint8)


POINTS = Points()


@register("modality", Points.name, help=Points.help)
def _points() -> Modality:
    return POINTS


class PointNet(nn.Module):
    """A network for each point, then the largest value over the points (Qi et al. 2017): (B, 3, P) to (B, n)."""

    def __init__(self, n_components: int, width: int = 64) -> None:
        super().__init__()
        self.n_components = n_components
        self.each = nn.Sequential(
            nn.Conv1d(3, width, 1),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Conv1d(width, 2 * width, 1),
            nn.BatchNorm1d(2 * width),
            nn.ReLU(),
            nn.Conv1d(2 * width, n_components, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.each(x).amax(2)


@register(
    "encoder",
    "pointnet",
    help="a network for each point, then the largest value over points",
    modalities="points",
    source="Qi et al. 2017",
    default_width=128,
)
def _pointnet(context: EncoderContext, *, point_width: Annotated[int, Field(ge=4)] = 64) -> PointNet:
    return PointNet(context.n_components, point_width)


@register(
    "view maker", "cloud", help="turned around the vertical axis, with noise and lost points", modalities="points"
)
class CloudViews(ViewMaker):
    """A turn around the third axis, Gaussian noise on every point, and points replaced by other points of the cloud."""

    cloud_turn: Annotated[float, Bounds(ge=0, le=180)] = 180.0
    """Largest angle, in degrees, in both directions."""
    cloud_noise: Weight = 0.02
    """Standard deviation of the noise, in scaled units."""
    cloud_lost: Fraction = 0.25
    """Probability with which a point is replaced, 0 to 1."""

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        n, _, points = x.shape
        options: dict[str, Any] = {"device": x.device, "generator": generator}
        angle = torch.deg2rad((2 * torch.rand(n, **options) - 1) * self.cloud_turn).to(x.dtype)
        cos, sin = angle.cos()[:, None], angle.sin()[:, None]
        turned = torch.stack([cos * x[:, 0] - sin * x[:, 1], sin * x[:, 0] + cos * x[:, 1], x[:, 2]], dim=1)
        lost = torch.rand(n, points, **options) < self.cloud_lost
        kept = torch.where(lost, torch.randint(points, (n, points), **options), torch.arange(points, device=x.device))
        turned = turned.gather(2, kept[:, None].expand(-1, 3, -1))
        return turned + self.cloud_noise * torch.randn(x.shape, dtype=x.dtype, **options)


@register("noise generator", "points", help="a network for each point", modalities="points", default=True)
def _noise(context: NoiseContext) -> nn.Module:
    return nn.Sequential(nn.Conv1d(3, 64, 1), nn.ReLU(), nn.Conv1d(64, context.outputs, 1))
