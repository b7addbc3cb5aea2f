"""GenView: generated views with noise that each sample can bear, and pairs weighted by their quality."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.method import Method
from viewsmith.core.samples import Rows, Samples
from viewsmith.data.view_cache import ViewCacheFolder
from viewsmith.estimators.arguments import Auto, Count, Positive, Rate, Share
from viewsmith.estimators.base import ViewsmithEstimator
from viewsmith.estimators.build import diffaug as generators
from viewsmith.estimators.build import model as parts
from viewsmith.estimators.build.feature_extractor import ENCODER, are_own, digest, feature_maps
from viewsmith.estimators.rows import fingerprint
from viewsmith.methods.genview import GenViewMethod
from viewsmith.networks.feature_maps import FrozenMaps
from viewsmith.training.generation import check_noise
from viewsmith.views.generated.diffusion import ConditionalDiffusion
from viewsmith.views.generated.diffusion_views import GeneratedViews
from viewsmith.views.generated.noise_level import AdaptiveStrength, level_of
from viewsmith.views.generated.quality import ViewQuality

GENERATOR = ("generator_epochs", "generator_learning_rate", "predicts", "noise_schedule", "sampler", "sampler_steps")


@dataclass(kw_only=True, eq=False, repr=False)
class GenView(ViewsmithEstimator):
    """Representations from pairs of a sample and a generated view of it, each pair weighted by its quality.

    Views come from a bank that `viewsmith generate` made (by Stable unCLIP, by the library's own diffusion model, or
    views at hand). Without a bank a generator is trained in between: the encoder learns from fixed views for a share of
    the epochs, a diffusion model learns to make samples from its representation, and the encoder goes on. Each sample
    gets the noise it can bear. Any framework and any domain.

    Parameters
    ----------
    bank : str or None
        Folder of a bank of the rows that fit is given.
    alpha : float
        Probability that one of the two sources of a pair is generated; 0: the framework alone.
    quality : bool
        Weigh pairs by their quality: the foregrounds of the two views should agree and their backgrounds differ, seen
        by a copy of the encoder from after `first_fraction` of the epochs. Vectors and DNA have no background: there
        quality is the similarity of the two views.
    quality_features : {"views", "encoder", "cached"}
        What quality is seen in. "views": a frozen copy of the encoder looks at every view, as published. "encoder":
        the maps that the encoder makes of the views anyway as it trains. "cached": the copy looks at every image once,
        and what a view shows is cut from its map, blind to the view's colors. What each costs and how well they agree:
        docs, GenView. Vectors and DNA: always views.
    features : str or torch.nn.Module
        Of images: the network that sees foreground and quality. "encoder": a copy of the encoder, from after
        `first_fraction` of the epochs. Or a network of its own, frozen and never saved: CLIP's of images through
        transformers (extra `unclip`), "clip:FOLDER" or "clip:OWNER/NAME" on the hub, which is fetched; or a module of
        yours from scaled images (B, C, H, W) to maps (B, D, h, w). With it pairs are weighed from the first step on.
    gamma : float
        Of the weights, ``n softmax(gamma q)`` over the batch; 0 makes them 1.
    noise : str
        Without a bank: adaptive, random or constant:L with L from 0 to 400, as of `viewsmith generate`.
    first_fraction : float
        Share of the epochs before the encoder is copied, for quality and, without a bank, for the generator.
    cached_views : int
        Without a bank: views of each sample.
    generator_epochs : int or "auto"
        Without a bank; "auto": a share of the encoder's, by domain.
    generator_learning_rate : float or "auto"
    sampler_steps : int or "auto"
    [shared]

    Attributes
    ----------
    metrics_ : list of dict
        Loss, quality and label-free diagnostics through training.
    [attributes]

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from viewsmith import GenView
    >>> images = (load_digits().images * 15).astype("uint8")
    >>> model = GenView(epochs=2, random_state=0).fit(images)
    >>> model.transform(images).shape, model.views(images[:3], n_views=2).shape
    ((1797, 256), (3, 2, 8, 8))
    """

    name = "genview"
    strength_option = "noise_strength"
    trial_options: ClassVar[dict[str, Any]] = {"alpha": 0.0, "quality": False, "features": ENCODER}
    resolved_options = GENERATOR
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # Appendix A, CIFAR-10 (table 5): MoCo v2 on views of Stable unCLIP; give the bank.
        "paper-images": {
            "framework": "moco",
            "view_maker": "moco",
            "encoder": "resnet18",
            "projection": (512, 128),
            "temperature": 0.2,
            "momentum": 0.99,
            "queue_size": 4096,
            "crop_minimum": 0.2,
            "alpha": 1.0,
            "quality": True,
            "gamma": 1.0,
            "batch_size": 512,
            "optimizer": "sgd",
            "learning_rate": 0.5,
            "weight_decay": 5e-4,
            "warmup": 0.02,
            "epochs": 500,
        },
    }

    bank: str | None = None
    alpha: Share = 1.0
    quality: bool = True
    quality_features: Literal["views", "encoder", "cached"] = "views"
    features: str | nn.Module = ENCODER
    gamma: Rate = 1.0
    noise: str = "adaptive"
    first_fraction: Share = 0.5
    cached_views: Count = 1
    generator_epochs: Count | Auto = "auto"
    generator_learning_rate: Positive | Auto = "auto"
    sampler_steps: Count | Auto = "auto"

    @property
    def generates(self) -> bool:
        """Whether `views` are generated: a generator was trained and did not diverge."""
        check_is_fitted(self)
        assert isinstance(self.method_, GenViewMethod)
        return self.method_.generates

    def generated_views(
        self, X: Any, n_views: int | None = None, *, random_state: int | None = None
    ) -> dict[str, np.ndarray] | None:
        """Generated views, each with the noise its sample can bear, and their quality.

        Parameters
        ----------
        X : array-like, n samples
        n_views : int, optional
            Of a bank as many as it has, else 4.
        random_state : int, optional
            Default: the seed of the fit.

        Returns
        -------
        dict or None
            ``views`` (n, n_views, ...) in the units of the data; ``level``, int (n, n_views), from 0 to 400, -1:
            unknown; ``quality`` (n, n_views), q of sample and view, seen by the copy of the encoder (NaN: there is
            none). None: there is no generator, and no bank of these rows.

        Raises
        ------
        InputError
            The bank has fewer views; levels of a single row are asked for.
        """
        check_is_fitted(self)
        x = self._samples(X)
        seed = self.fitted_["seed"] if random_state is None else random_state
        if self.options_.bank is not None:
            bank = ViewCacheFolder(self.options_.bank)
            if not bank.exists() or bank.read_record()["data"]["fingerprint"] != fingerprint(self._known_rows(X)):
                return None
            views, level = bank.read_first(n_views)
            views = views.reshape(*views.shape[:2], *self._known_rows(X).shape[1:])
        elif self.generates:
            views, level = self._made(X, x, n_views or 4, seed)
        else:
            return None
        return {"views": views, "level": level, "quality": self._quality_of(x, views)}

    def _made(self, X: Any, x: Rows, n_views: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Views of scaled rows by the generator, and their levels, (n, n_views) both."""
        if len(x) < 2:
            raise InputError("one row has no others to tell by what noise it can bear: expected at least two")
        generated: Any = self.method_.generated
        strength = generated.strengths(generated.encoder, x, seed).to(x.device)
        views = self._drawn(X, x, lambda part, rng: generated.make(x[part], None, rng, strength[part]), n_views, seed)
        return views, np.repeat(level_of(strength).cpu().numpy()[:, None], n_views, axis=1)

    def _quality_of(self, x: Rows, views: np.ndarray) -> np.ndarray:
        """q of scaled rows and their views, (n, K, ...) in the units of the data; float32 (n, K)."""
        seen: Any = self.method_.quality
        q = np.full(views.shape[:2], np.nan, dtype=np.float32)
        if seen is None or not seen.ready:
            return q
        for number in range(views.shape[1]):
            shown = self._samples(views[:, number])
            blocks = (slice(start, start + 256) for start in range(0, len(x), 256))
            q[:, number] = torch.cat([seen(x[block], shown[block]).cpu() for block in blocks]).numpy()
        return q

    def _resolve(self, options: SimpleNamespace, resolved: dict[str, Any], x: Rows) -> dict[str, Any]:
        check_noise(options.noise)
        found = generators.default_settings(options, resolved, GENERATOR)
        if are_own(options.features, resolved["domain"]):
            self._maps = feature_maps(options.features, *_scaling(resolved), x=x[:1])
            found["feature_shape"] = list(self._maps.shape)
            found["feature_weights"] = digest(self._maps.network().state_dict())
        return found

    def _rows(self, X: Any, domain: str, row_shape: list[int] | None) -> Any:
        rows = super()._rows(X, domain, row_shape)
        if row_shape is None:
            self._fingerprint, self._n_rows = fingerprint(rows), len(rows)
        return rows

    def _fresh(self, x: Rows) -> Method:
        views = None if self.options_.bank is None else self._bank_views(self.options_.bank)
        method = super()._fresh(x)
        assert isinstance(method, GenViewMethod)
        if views is not None:
            scaled = self.fitted_["domain"] == "vectors"
            each = (views[:, number].contiguous() for number in range(views.shape[1]))
            method.bank = [self.scaler_(one) if scaled else Samples(one, self.scaler_) for one in each]
        return method

    def _bank_views(self, path: str) -> Tensor:
        """The views of a bank of these rows, (n, K, ...).

        Raises
        ------
        InputError
            There is no bank, it is not complete, or of other rows.
        """
        bank = ViewCacheFolder(path)
        record = bank.read_record()
        if record["rows"] != self._n_rows:
            raise InputError(
                f"the bank {path} has views of {record['rows']} rows, and {self._n_rows} are given: fit the rows it "
                "was made of, or generate a bank of these"
            )
        if record["data"]["fingerprint"] != self._fingerprint:
            raise InputError(
                f"the bank {path} is of other rows, or of these in another order: fit the rows it was made of, or "
                "generate a bank of these"
            )
        return bank.read_views()

    def _build(self, settings: SimpleNamespace) -> Method:
        framework, views = parts.make_model(settings)
        maps = self._own_maps(settings)
        generated = None
        if settings.bank is None and settings.alpha > 0:
            generated = _generated(settings, framework.encoder, maps)
        return GenViewMethod(
            framework,
            views,
            generated,
            _quality(settings, framework.encoder, maps) if settings.quality and settings.gamma else None,
            alpha=settings.alpha,
            gamma=settings.gamma,
            on_top=settings.domain != "vectors",
            first_fraction=settings.first_fraction,
            epochs=settings.epochs,
            generator_epochs=settings.generator_epochs,
            optimizer=parts.make_optimizer(settings),
            generator_optimizer=generators.make_generator_optimizer(settings),
        )

    def _own_maps(self, settings: SimpleNamespace) -> FrozenMaps | None:
        """Of a network of their own; in a model that is loaded it is found when somebody looks."""
        if not are_own(settings.features, settings.domain):
            return None
        if settings.fresh:
            return self._maps
        height, width, n = settings.feature_shape
        known = {"shape": (height, width, n), "weights": settings.feature_weights}
        return feature_maps(settings.features, *_scaling(vars(settings)), **known)


def _quality(settings: SimpleNamespace, encoder: nn.Module, maps: FrozenMaps | None) -> ViewQuality:
    return ViewQuality(encoder, _one(settings), source=settings.quality_features, maps=maps)


def _scaling(fitted: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """How images are scaled: what is taken from pixels, and what they are divided by, (C,) both."""
    return torch.tensor(fitted["pixel_mean"]), torch.tensor(fitted["pixel_scale"])


def _one(settings: SimpleNamespace) -> Tensor:
    """A scaled sample of zeros."""
    if settings.domain != "images":
        return torch.zeros(1, 4, 32) if settings.domain == "dna" else torch.zeros(1, settings.row_shape[0])
    return torch.zeros(1, parts.channels_of(settings), *settings.row_shape[:2])


def _generated(settings: SimpleNamespace, encoder: nn.Module, maps: FrozenMaps | None) -> GeneratedViews:
    """The domain's diffusion model, with the strength that each row can bear."""
    settings = copy.copy(settings)
    settings.denoiser = "fast"
    codes, denoiser = generators.codes_and_denoiser(settings, encoder, settings.n_components)
    generator = ConditionalDiffusion(
        denoiser,
        codes,
        condition=settings.n_components,
        schedule=settings.noise_schedule,
        prediction=settings.predicts,
        sampler=settings.sampler,
        steps=settings.sampler_steps,
        strength=0.5,  # of samples whose level nobody asked for
    )
    return GeneratedViews(
        generator,
        encoder,
        nn.Identity(),
        n_components=settings.n_components,
        n_views=settings.cached_views,
        strengths=AdaptiveStrength(settings.noise, maps),
    )
