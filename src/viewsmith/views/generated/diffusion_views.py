"""Views of samples made by a diffusion model that knows an encoder's representation of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from viewsmith.core.method import Batch
from viewsmith.core.random import derive_seed, stream
from viewsmith.core.samples import Rows, apply_in_blocks
from viewsmith.losses.nt_xent import unit
from viewsmith.views.base import Generators, randn
from viewsmith.views.generated.cache import Make, ViewCache
from viewsmith.views.generated.diffusion import ConditionalDiffusion
from viewsmith.views.neighbors import outliers

Condition = Literal["representation", "map", "labels", "random"]

PROBE = 512


class GeneratedViews(nn.Module):
    """A conditional generator with the encoder that it was trained with, and the bank of its views of training rows.

    Parameters
    ----------
    generator : ConditionalDiffusion
    encoder : nn.Module
        Copied: what the generator is conditioned on must not follow the encoder that goes on training.
    chart : nn.Module
        From representations to the map; copied for the condition "map".
    n_components : int
        Width of the representation.
    condition : {"representation", "map", "labels", "random"}
        What the generator is told of a sample: its representation y; the map; the mean y of its class; noise.
    labels : Tensor of int64, shape (n,), optional
        Classes 0, 1, ... of the training rows, for the condition "labels".
    n_classes : int
    n_views : int
        Views of each sample in the bank.
    keep_outliers : bool
        Take generated views that have left their sample's neighborhood, too.
    strengths : callable, optional
        From the copied encoder, the scaled training rows and a seed to the generator's strength for each row, (n,), in
        place of its own.

    Attributes
    ----------
    trained : Tensor
        1 once the generator's denoising loss is finite and not above its start, else 0.
    drift, similarity : Tensor
        Of the bank: share of the views that have left their sample's neighborhood (`outliers`), and mean cosine
        similarity of samples and views, both in the copied encoder's representation.
    """

    rounds: Tensor
    trained: Tensor
    start_loss: Tensor
    drift: Tensor
    similarity: Tensor
    classes: Tensor

    def __init__(
        self,
        generator: ConditionalDiffusion,
        encoder: nn.Module,
        chart: nn.Module,
        *,
        n_components: int,
        condition: Condition = "representation",
        labels: Tensor | None = None,
        n_classes: int = 0,
        n_views: int = 2,
        keep_outliers: bool = True,
        strengths: Callable[[nn.Module, Rows, int], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.generator = generator
        self.encoder = copy.deepcopy(encoder).requires_grad_(False)
        self.chart = copy.deepcopy(chart).requires_grad_(False) if condition == "map" else None
        self.condition: Condition = condition
        self.n_views, self.keep_outliers = n_views, keep_outliers
        self.labels, self.strengths = labels, strengths
        for name in ("rounds", "trained"):
            self.register_buffer(name, torch.tensor(0))
        for name in ("start_loss", "drift", "similarity"):
            self.register_buffer(name, torch.tensor(0.0))
        self.register_buffer("classes", torch.zeros(n_classes, n_components))
        self.rows: Rows | None = None
        self.seed = 0
        self._y: Tensor | None = None
        self._cache: ViewCache | None = None
        self._cache_number = -1
        self._outliers: Tensor | None = None

    # ---- the training of the generator ----------------------------------------------------------------------------

    def copy_encoder(self, encoder: nn.Module, chart: nn.Module) -> None:
        """Copy the weights of the encoder, and of the map, as they are now."""
        self.encoder.load_state_dict(encoder.state_dict())
        if self.chart is not None:
            self.chart.load_state_dict(chart.state_dict())
        self.rounds += 1
        self._y = None
        self.clear_cache()

    @torch.no_grad()
    def fit_scales(self, seed: int) -> None:
        """Fit the generator's scales to the training rows and their conditions, before it trains."""
        y = self._representations()
        if self.condition == "labels":
            assert self.labels is not None
            labels = self.labels.to(y.device)
            sums = torch.zeros_like(self.classes).index_add_(0, labels, y)
            self.classes.copy_(sums / torch.bincount(labels, minlength=len(sums))[:, None].clamp_min(1))
        everyone = torch.arange(len(y), device=y.device)
        rng = stream(seed, "conditions", device=y.device)
        self.generator.fit(self._prepared(), self._condition(y, everyone, rng))
        self.generator.restart_average()
        if not self.start_loss:
            self.start_loss.fill_(self._probe_loss())

    def loss(self, batch: Batch) -> Tensor:
        """Denoising loss of training rows, (B,)."""
        condition = self._condition(self._representations()[batch.index], batch.index, batch.generator)
        return self.generator.loss(batch.x, condition, batch.generator)

    def check_learning(self) -> None:
        """Find out whether the generator has learned anything."""
        # NaN compares as False.
        self.trained.fill_(int(self._probe_loss() <= float(self.start_loss)))

    def diagnose(self) -> dict[str, float]:
        """Of the bank: the share of views that have left their sample's neighborhood, the similarity to samples."""
        if not self.drift and not self.similarity:
            return {}
        return {"drift": float(self.drift), "generated_similarity": float(self.similarity)}

    def warnings(self) -> list[str]:
        """What a user should know of a training that is over."""
        if not self.start_loss or self.trained:
            return []
        return [
            "the generator diverged (its denoising loss is not finite, or above its start): training went on with "
            "fixed views; lower generator_learning_rate"
        ]

    @torch.no_grad()
    def _probe_loss(self) -> float:
        """Denoising loss of the averaged generator on fixed rows, times and noise."""
        rows = self._prepared()
        index = _spread(len(rows), PROBE, rows.device)
        rng = stream(self.seed, "probe", device=index.device)
        condition = self._condition(self._representations()[index], index, rng)
        parts = zip(index.split(128), condition.split(128), strict=True)
        return float(torch.cat([self.generator.loss(rows[i], c, rng, averaged=True) for i, c in parts]).mean())

    # ---- views ----------------------------------------------------------------------------------------------------

    def for_batch(self, batch: Batch, share: float, *, refresh: int, fresh: bool) -> tuple[Tensor, Tensor] | None:
        """Generated views of training rows, (B, ...), and which of them to take, bool (B,); None: there are none yet.

        Parameters
        ----------
        batch : Batch
        share : float
            Probability of each to be taken.
        refresh : int
            Epochs after which the bank is made anew; 0: never.
        fresh : bool
            Generate views for this batch instead of drawing from the bank.
        """
        if not self.trained or not share:
            return None
        taken = torch.rand(len(batch.x), generator=batch.generator, device=batch.x.device) < share
        if fresh:
            here = taken.nonzero()[:, 0]
            made = batch.x.clone()
            if len(here):
                made[here] = self.make(batch.x[here], batch.index[here], batch.generator)
            return made, taken
        bank = self._filled(batch.epoch // refresh if refresh else 0)
        number = torch.randint(self.n_views, (len(batch.x),), generator=batch.generator, device=batch.x.device)
        if self._outliers is not None:
            taken &= ~self._outliers[batch.index, number]
        return bank.take(batch.index, number), taken

    def cached(self) -> list[Rows]:
        """The views of all training rows, `n_views` of each, scaled; none while there is no generator."""
        return self._filled(0).kept if self.trained else []

    def view(self, x: Tensor, index: Tensor | None, generator: torch.Generator | None) -> Tensor:
        """A generated view of each sample; of training rows, the first in the bank where there is one."""
        if self._cache is not None and index is not None:
            return self._cache.take(index, torch.zeros_like(index))
        return self.make(x, None, generator)

    @torch.no_grad()
    def make(
        self,
        x: Tensor,
        index: Tensor | None,
        generator: Generators | None,
        strength: Tensor | None = None,
    ) -> Tensor:
        """Generate a view of each sample.

        `index`: which training rows they are; `generator`: of all, or of each its own; `strength`: of each, (B,), as
        in `ConditionalDiffusion.sample`.
        """
        y = self.encoder(x).float() if index is None else self._representations()[index]
        return self.generator.sample(x, self._condition(y, index, generator), generator, strength=strength)

    def _condition(self, y: Tensor, index: Tensor | None, generator: Generators | None) -> Tensor:
        """What the generator is told, (B, c), of samples whose representations are y."""
        if self.condition == "map":
            assert self.chart is not None
            with torch.no_grad():
                z: Tensor = self.chart(y)
            return z
        if self.condition == "random":
            return randn(y, generator)
        if self.condition == "labels":
            if index is not None and self.labels is not None:
                return self.classes[self.labels.to(y.device)[index]]
            return self.classes[torch.cdist(y, self.classes).argmin(dim=1)]
        return y

    def _representations(self) -> Tensor:
        """y of all training rows, (n, m)."""
        if self._y is None:
            with torch.no_grad():
                self._y = apply_in_blocks(lambda x: self.encoder(x).float(), self._prepared(), 256)
        return self._y

    def _filled(self, number: int) -> ViewCache:
        """The bank of this refresh, filled when it is first asked for, in a resumed run too."""
        if self._cache is None or self._cache_number != number:
            seed = derive_seed(self.seed, "generated", int(self.rounds), number)
            self._cache = ViewCache(self._prepared(), self._maker(), n_views=self.n_views, seed=seed)
            self._cache_number = number
            self._watch(self._cache)
        return self._cache

    def _maker(self) -> Make:
        if self.strengths is None:
            return self.make
        strength = self.strengths(self.encoder, self._prepared(), self.seed)
        return lambda x, index, generator: self.make(x, index, generator, strength.to(x.device)[index])

    @torch.no_grad()
    def _watch(self, bank: ViewCache) -> None:
        """How far the views of the bank have gone from their samples; without `keep_outliers`, which of all have."""
        pool = self._representations()
        index = torch.arange(len(pool), device=pool.device)
        if self.keep_outliers:
            index = _spread(len(pool), PROBE, pool.device)
        away, alike = [], []
        for number in range(bank.n_views):
            parts = [(part, bank.take(part, torch.full_like(part, number))) for part in index.split(256)]
            y = torch.cat([self.encoder(x).float() for _, x in parts])
            away.append(outliers(y, index, pool))
            alike.append((unit(y) * unit(pool[index])).sum(1))
        found = torch.stack(away, dim=1)
        self.drift.fill_(found.float().mean())
        self.similarity.fill_(torch.stack(alike).mean())
        self._outliers = None if self.keep_outliers else found

    # ---- what is made anew from the weights when it is needed, and never saved --------------------------------------

    def prepare(self, rows: Rows, seed: int) -> None:
        """Look at the scaled training rows."""
        self.rows, self.seed, self._y = rows, seed, None
        self.clear_cache()

    def release(self) -> None:
        """Let go of the training rows."""
        self.rows = self.labels = self._y = None
        self.clear_cache()

    def clear_cache(self) -> None:
        """Let the next batch make a bank anew."""
        self._cache, self._cache_number, self._outliers = None, -1, None

    def _prepared(self) -> Rows:
        if self.rows is None:
            raise RuntimeError("generated views need the training rows: call prepare(rows, seed) first")
        return self.rows

    def train(self, mode: bool = True) -> GeneratedViews:
        """Training mode of the generator; the copied encoder stays as it is."""
        super().train(mode)
        self.encoder.eval()
        if self.chart is not None:
            self.chart.eval()
        return self


def _spread(n: int, most: int, device: torch.device) -> Tensor:
    """At most `most` of n row numbers, evenly spread."""
    return torch.linspace(0, n - 1, min(n, most), device=device, dtype=torch.float64).long()
