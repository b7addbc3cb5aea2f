"""A method: noise that a decoder can undo. Its view maker learns how much noise each feature gets."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from viewsmith.core.registry import Weight, register
from viewsmith.core.schedule import Batch, Phase, Update
from viewsmith.data import Dataset
from viewsmith.estimator.base import ViewsmithEstimator
from viewsmith.estimator.model import channels_in, make_model, make_optimizer
from viewsmith.estimator.options import Part
from viewsmith.estimator.plan import BuildContext, Facts
from viewsmith.methods.contrastive.training import ContrastiveMethod
from viewsmith.reports import Figure, draw_profile
from viewsmith.views import ViewMaker


class FeatureNoise(ViewMaker):
    """x + level * s * e: e is Gaussian, and s, one learned number per feature, has the geometric mean 1."""

    def __init__(self, features: int, level: float) -> None:
        super().__init__()
        self.level = level
        self.log_scale = nn.Parameter(torch.zeros(features))

    @property
    def scale(self) -> Tensor:
        """s, shape (d,)."""
        return (self.log_scale - self.log_scale.mean()).exp()

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        noise = torch.randn(x.shape, device=x.device, dtype=x.dtype, generator=generator)
        return x + self.level * self.scale * noise


@dataclass(kw_only=True, eq=False, repr=False, init=False)
class DecodedNoise(Part):
    """The noise that is learned, and the decoder that has to undo it."""

    slot = "noise"

    levels: tuple[Weight, Weight] = (0.25, 1.0)
    """Levels of the noise on the two views: geometric means of the deviations of features, in scaled units."""
    weight: Weight = 0.1
    """Weight of the decoder's error in the loss of the encoder."""


class DenoisingMethod(ContrastiveMethod):
    """Two alternating updates: the encoder on its objective, then noise and decoder on the decoder's error."""

    def __init__(self, *parts: nn.Module, noise: nn.ModuleList, decoder: nn.Module, options: DecodedNoise, **schedule):
        super().__init__(*parts, **schedule)  # framework and views; epochs and optimizer
        self.noise, self.decoder, self.options = noise, decoder, options

    def phases(self) -> list[Phase]:
        updates = [
            Update("encoder", self.encoder_step, trains=(self.framework,), optimizer=self.optimizer),
            Update("noise", self.noise_step, trains=(self.noise, self.decoder), optimizer=self.optimizer),
        ]
        return [Phase("train", self.epochs, updates)]

    def encoder_step(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The framework's loss of each sample, (B,), plus the decoder's error on its noisier view; values to log."""
        pair = self.views.for_batch(batch, self.framework)
        pair.first = self.noise[0](pair.first, generator=batch.generator)
        pair.second = self.noise[1](pair.second, generator=batch.generator)
        contrast, error = self.framework(pair, batch.progress), self.error(pair.second, batch.x).mean(dim=1)
        return contrast + self.options.weight * error, {"contrast": contrast.mean(), "error": error.mean()}

    def noise_step(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The decoder's error, (B,): noise moves to features that the others restore. The encoder is frozen here."""
        errors = [self.error(noise(batch.x, generator=batch.generator), batch.x) for noise in self.noise]
        return torch.stack(errors).mean(dim=(0, 2)), {}

    def error(self, view: Tensor, x: Tensor) -> Tensor:
        """Squared errors of the decoder, (B, d)."""
        return (self.decoder(self.framework.encoder(view)) - x).square()

    def view(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Views for the report and for `views`: the noisier view."""
        return self.noise[1](super().view(x, index=index, generator=generator), generator=generator)


@register(
    "method",
    "denoising",
    help="learns noise that a decoder can undo",
    modalities="vectors",
    search={"vectors": {"learning_rate": "0.0005..0.02", "weight": "0.1..10.0"}},
)
@dataclass(kw_only=True, eq=False, repr=False, init=False)
class Denoising(DecodedNoise, ViewsmithEstimator):
    """Representations of vectors in which two views with learned noise agree."""

    name = "denoising"

    view_maker: str | nn.Module = "identity"

    def figures(self, dataset: Dataset) -> list[Figure]:
        """Figures of all methods, and the learned noise of each feature."""
        scale, names = self.method_.noise[1].scale.detach().cpu().numpy(), self.facts_.feature_names
        caption = "deviations of the learned noise relative to their geometric mean"
        return [*super().figures(dataset), draw_profile("Learned noise", scale, names or None, caption)]

    def _build(self, plan: BuildContext[Facts]) -> DenoisingMethod:
        framework, views = make_model(plan)
        features = channels_in(plan)
        return DenoisingMethod(
            framework,
            views,
            noise=nn.ModuleList(FeatureNoise(features, level) for level in plan.options.levels),
            decoder=nn.Linear(plan.options.n_components, features),
            options=DecodedNoise.of(plan.options),
            epochs=plan.options.epochs,
            optimizer=make_optimizer(plan),
        )
