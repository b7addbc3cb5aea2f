"""PiNDA: learned noise, alone or on top of fixed views."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import nn

from viewsmith.core.errors import InputError, check, join_names
from viewsmith.core.registry import Entry, Positive, entries, find, names, register
from viewsmith.core.samples import apply_in_blocks, block_size
from viewsmith.core.schedule import Method
from viewsmith.core.tensors import stream
from viewsmith.data import Dataset
from viewsmith.estimator.arguments import NEIGHBORS_RANGES, RATE_RANGES
from viewsmith.estimator.base import ViewsmithEstimator
from viewsmith.estimator.figures import gallery_samples
from viewsmith.estimator.model import channels_in, make_model, make_optimizer
from viewsmith.estimator.plan import BuildContext, Facts, TrainingData, check_least, extent, text_of
from viewsmith.estimator.resolve import packages_of, part_options
from viewsmith.methods.contrastive.estimator import PRESETS as SIMCLR
from viewsmith.methods.pinda.training import Noise, PiNDAMethod
from viewsmith.methods.pinda.views import PiNoise
from viewsmith.modalities.images.channels import composites, is_photograph, to_pixels
from viewsmith.networks.base import NoiseContext
from viewsmith.reports import Figure, draw_gallery, draw_profile

_NOISE: dict[str, Any] = {"level": "free", "algorithm": 1, "two_sided": False, "strength": 0.5}

PRESETS: dict[str, dict[str, Any]] = {
    # Section 4.2, Algorithm 1 and appendix B; a penalty is published for images only.
    "paper": {
        **SIMCLR["paper"],
        **_NOISE,
        "view_maker": "identity",
        "temperature": 0.1,
        "penalty": "none",
        "generator_hidden": (1024, 1024),
    },
    # Table 3, appendix B: on top of SimCLR, with a second ResNet-18.
    "paper-images": {
        **SIMCLR["paper-images"],
        **_NOISE,
        "penalty": "inverse_norm",
        "penalty_weight": 1.0,
        "generator": "resnet18",
    },
}

_STRENGTH = {"strength": "0.05..1.0"}


def noise_profile(mean: np.ndarray, scale: np.ndarray, names: list[str] | None) -> Figure:
    """Mean deviation of the noise for each feature, (d,), in standard deviations of the data."""
    return draw_profile(
        "Learned noise",
        mean / scale,
        names,
        "mean standard deviation of the noise over the training rows",
        "standard deviations of the data",
    )


def noise_gallery(samples: np.ndarray, made: Mapping[str, np.ndarray]) -> Figure:
    """Images beside the noise made for them (`PiNDA.noise_parts`)."""
    sigma = made["sigma"]
    # White is the largest sigma; gray is a mean or noise of 0.
    view = made["view"]
    if not is_photograph(samples.shape[1:], samples.dtype):
        both = composites(np.concatenate([samples, view]))
        samples, view = both[: len(samples)], both[len(samples) :]
        # Of all channels their mean, in gray.
        made = {name: np.repeat(part.mean(1, keepdims=True), 3, 1) for name, part in made.items() if name != "view"}
        sigma = made["sigma"]
    parts = [sigma / max(sigma.max(), 1e-12)]
    parts += [(1 + made[name] / max(abs(made[name]).max(), 1e-12)) / 2 for name in ("mean", "noise") if name in made]
    tiles = [np.moveaxis(to_pixels(tile), 1, 3).reshape(samples.shape) for tile in parts]
    mean = f"its mean (gray 0, white {abs(made['mean']).max():.2g}); " if "mean" in made else ""
    caption = (
        f"Image; standard deviation of its noise (white {sigma.max():.2f}, in standard deviations of the data); {mean}"
        "a draw of the noise; the image with it"
    )
    return draw_gallery("Learned noise", samples, np.stack([*tiles, view], axis=1), "pixels", caption)


@register(
    "method",
    "pinda",
    help="learns the standard deviation of noise for every feature, pixel or base of every sample",
    source="PiNDA: Zhang et al. 2024, Data augmentation of contrastive learning is estimating positive-incentive noise "
    "(arXiv 2408.09929)",
    part="noise generator",
    compared=("vectors", "dna"),
    search={"vectors": {**NEIGHBORS_RANGES, **_STRENGTH}, "*": {**RATE_RANGES, **_STRENGTH}},
)
@dataclass(kw_only=True, eq=False, repr=False, init=False)
class PiNDA(Noise, ViewsmithEstimator):
    """Representations learned together with the noise that augments samples (pi-noise), alone or on fixed views.

    A generator predicts the standard deviation of Gaussian (or uniform) noise for every feature, pixel or base of every
    sample and is trained with the encoder on the contrastive loss. The defaults keep the noise level at `strength`, and
    a log barrier keeps noise on all features. ``PiNDA(**PiNDA.presets["paper"])`` has the published settings for
    vectors, ``presets["paper-images"]`` those for images.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from viewsmith import PiNDA
    >>> model = PiNDA(epochs=2, random_state=0).fit(load_digits().data)
    >>> model.views(load_digits().data[:3], n_views=4).shape
    (3, 4, 64)
    """

    name = "pinda"
    strength_option = "strength"
    presets = PRESETS
    streams_views = False

    # "auto" is for the strength of the learned noise only.
    noise_strength: Positive = 1.0

    def _resolve(self, given: "PiNDA", options: "PiNDA", data: TrainingData) -> tuple["PiNDA", dict[str, Any], None]:
        if options.two_sided and options.algorithm == 2:
            raise InputError("two_sided is True, which algorithm 2 decides for each view: leave it out")
        entry = _find_generator(options, data)
        options = dataclasses.replace(options, generator=entry.name)
        return options, {"packages": packages_of([entry])}, None

    def _build(self, plan: BuildContext[Facts]) -> Method:
        options, (framework, views) = plan.options, make_model(plan)
        return PiNDAMethod(
            framework,
            views,
            make_noise(plan, framework.encoder),
            options=Noise.of(options),
            epochs=options.epochs,
            optimizer=make_optimizer(plan),
        )

    def noise_profile(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation, over the samples of `X`, of the learned noise of each feature.

        Returns
        -------
        mean, spread : ndarray, shape of a scaled sample: (d,), (C, H, W) or (4, L)
            Of sigma(x), in the units of each feature (images: pixels / 255).
        """
        check_is_fitted(self)
        noise = self.method_.noise
        with torch.no_grad():
            sigma = apply_in_blocks(lambda x: noise.noise_parameters(x)[0], self.samples(X), 256)
        sigma = self.modality_.in_data_units(sigma, self.scaler_)
        return sigma.mean(0).cpu().numpy(), sigma.std(0, correction=0).cpu().numpy()

    def noise_parts(self, X: Any, *, random_state: int | None = None) -> dict[str, np.ndarray]:
        """Predicted standard deviation, a draw of the noise, and the sample with this noise, for each sample.

        Returns
        -------
        dict
            ``sigma``, with `learn_mean` ``mean``, and ``noise`` in scaled units, float32 of the shape of a scaled
            sample; ``view`` in the units and dtype of the data, the first view of `views`.
        """
        check_is_fitted(self)
        x = self.samples(X)
        seed = self.facts_.seed if random_state is None else random_state
        generator, size = stream(seed, "views", 0, device=x.device), block_size(x[:1])
        made: dict[str, list[np.ndarray]] = {}
        with torch.no_grad():
            for start in range(0, len(x), size):
                parts = self.method_.noise_parts(x[start : start + size], generator)
                parts["view"] = self.scaler_.inverse(parts["view"])
                for name, part in parts.items():
                    made.setdefault(name, []).append(part.cpu().numpy())
        joined = {name: np.concatenate(part) for name, part in made.items()}
        joined["view"] = self.modality_.in_input_format(joined["view"][:, None], extent(X, self.facts_))[:, 0]
        return joined

    def described_views(
        self, X: Any, n_views: int | None = None, *, random_state: int | None = None, pool: Any = None
    ) -> dict[str, np.ndarray]:
        """``views`` of samples (default: 4 of each), and ``sigma`` and ``noise`` of each sample."""
        found = super().described_views(X, n_views, random_state=random_state, pool=pool)
        noise = self.noise_parts(X, random_state=random_state)
        return found | {"sigma": noise["sigma"], "noise": noise["noise"]}

    def figures(self, dataset: Dataset) -> list[Figure]:
        """Figures of all methods, and of the learned noise."""
        found = super().figures(dataset)
        if self.modality_.named_features:
            mean, _ = self.noise_profile(dataset.x_train)
            scale, names = self.scaler_.scale.cpu().numpy(), self.facts_.feature_names or None
            found.append(noise_profile(mean, scale, names))
        elif self.modality_.is_image:
            samples = gallery_samples(dataset)
            found.append(noise_gallery(samples, self.noise_parts(samples)))
        return found


def _find_generator(options: PiNDA, data: TrainingData) -> Entry:
    """The network of the noise generator."""
    encoder = text_of(options.encoder)
    modality, generator, custom = data.modality.name, options.generator, isinstance(options.encoder, nn.Module)
    known = names("noise generator", modality)
    if not known:
        raise InputError(f"there is no noise generator for {modality}: use another method")
    if generator == "auto":
        suited = (entry.name for entry in entries("noise generator", modality) if entry.tag("default"))
        generator = next(suited, known[0])
    check(generator in known, "generator", repr(generator), f"{join_names(['auto', *known])} for {modality}")
    entry = find("noise generator", generator, modality)
    encoders = [name for name in names("encoder", modality) if find("encoder", name, modality).tag("first_stage")]
    if entry.tag("needs_first_stage") and (custom or not find("encoder", encoder, modality).tag("first_stage")):
        raise InputError(
            f"generator {generator!r} uses the encoder's first stage, which {encoder} does not have: use the encoder "
            f"{' or '.join(encoders)}, or the generator {' or '.join(name for name in known if name != generator)}"
        )
    check_least("generator", generator, entry, data)
    for other in entries("noise generator"):
        for name in sorted(set(other.options) - set(entry.options)):
            if hasattr(PiNDA, name) and getattr(options, name) != getattr(PiNDA, name):
                raise InputError(
                    f"{name} is an option of the generator {other.name}, without effect on {entry.name}: leave it out"
                )
    return entry


def make_noise(plan: BuildContext[Facts], encoder: nn.Module) -> PiNoise:
    """The noise generator with its network."""
    options, facts, channels = plan.options, plan.facts, channels_in(plan)
    outputs = channels * (2 if options.learn_mean else 1)
    context = NoiseContext(facts.row_shape, channels, outputs, encoder)
    entry = find("noise generator", options.generator, facts.modality)
    return PiNoise(
        entry.build(context, **part_options(options, [entry], None, "generator_options", PiNDA)),
        adversarial=options.objective == "adversarial",
        distribution=options.distribution,
        learn_mean=options.learn_mean,
        strength=options.strength,
        level=options.level,
        random_fraction=options.random_fraction,
    )
