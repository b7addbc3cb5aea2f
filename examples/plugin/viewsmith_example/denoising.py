"""A method: two noise levels are two views, and a decoder reconstructs the sample from the representation."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from viewsmith.core.registry import register
from viewsmith.core.schedule import Batch, Phase, Update
from viewsmith.data import Dataset
from viewsmith.estimator.arguments import Rate
from viewsmith.estimator.base import ViewsmithEstimator
from viewsmith.estimator.model import channels_in, make_model, make_optimizer
from viewsmith.estimator.plan import BuildContext, Resolved
from viewsmith.methods.contrastive.training import ContrastiveMethod
from viewsmith.reports import Figure, draw_profile


class DenoisingMethod(ContrastiveMethod):
    """Two alternating updates: the encoder on the framework's loss and the decoder's error, then the decoder only."""

    def __init__(self, *parts: nn.Module, decoder: nn.Module, levels: tuple[float, float], weight: float, **schedule):
        super().__init__(*parts, **schedule)  # framework and views; epochs and optimizer
        self.decoder, self.levels, self.weight = decoder, levels, weight

    def phases(self) -> list[Phase]:
        updates = [
            Update("encoder", self.encoder_step, trains=(self.framework,), optimizer=self.optimizer),
            Update("decoder", self.decoder_step, trains=(self.decoder,), optimizer=self.optimizer),
        ]
        return [Phase("train", self.epochs, updates)]

    def encoder_step(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of each sample, (B,), with the decoder's error on its noisier view, and values to log."""
        pair = self.views.for_batch(batch, self.framework)
        pair.first = self.noisy(pair.first, 0, batch.generator)
        pair.second = self.noisy(pair.second, 1, batch.generator)
        contrast, error = self.framework(pair, batch.progress), self.error(pair.second, batch.x)
        return contrast + self.weight * error, {"contrast": contrast.mean(), "error": error.mean()}

    def decoder_step(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The decoder's error, (B,); the encoder is frozen, because this update does not train it."""
        return self.error(self.noisy(batch.x, 1, batch.generator), batch.x), {}

    def noisy(self, x: Tensor, level: int, generator: torch.Generator | None) -> Tensor:
        return x + self.levels[level] * torch.randn(x.shape, device=x.device, dtype=x.dtype, generator=generator)

    def error(self, view: Tensor, x: Tensor) -> Tensor:
        return (self.decoder(self.framework.encoder(view)) - x).square().mean(dim=1)

    def view(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Views for the report and for `views`: the noisier view."""
        return self.noisy(super().view(x, index=index, generator=generator), 1, generator)


@register(
    "method",
    "denoising",
    help="learns from two noise levels, with a decoder",
    modalities="vectors",
    search={"vectors": {"learning_rate": "0.0005..0.02", "weight": "0.1..10.0"}},
)
@dataclass(kw_only=True, eq=False, repr=False)
class Denoising(ViewsmithEstimator):
    """Representations of vectors in which two noise levels of a sample agree."""

    name = "denoising"

    levels: tuple[Rate, Rate] = (0.25, 1.0)
    """Standard deviations of the noise on the two views, in scaled units."""
    weight: Rate = 0.1
    """Weight of the decoder's error in the loss of the encoder."""
    view_maker: str | nn.Module = "identity"

    def figures(self, dataset: Dataset) -> list[Figure]:
        """Figures of all methods, and how well the decoder restores each feature from the noisier view."""
        found = super().figures(dataset)
        rows = torch.from_numpy(dataset.x_train)
        with torch.no_grad():
            x = self.scaler_(rows)
            generator = torch.Generator().manual_seed(0)
            error = (
                (self.method_.decoder(self.method_.framework.encoder(self.method_.noisy(x, 1, generator))) - x)
                .square()
                .mean(0)
            )
        caption = "mean squared error of the decoder, in scaled units: 1 is no better than the mean"
        found.append(draw_profile("Restored features", error.numpy(), caption=caption))
        return found

    def _build(self, plan: BuildContext["Denoising", Resolved]) -> DenoisingMethod:
        framework, views = make_model(plan)
        return DenoisingMethod(
            framework,
            views,
            decoder=nn.Linear(plan.resolved.n_components, channels_in(plan)),
            levels=plan.options.levels,
            weight=plan.options.weight,
            epochs=plan.resolved.epochs,
            optimizer=make_optimizer(plan),
        )
