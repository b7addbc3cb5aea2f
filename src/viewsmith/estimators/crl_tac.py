"""CRL-TAC: a trainable augmentation channel."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from sklearn.utils.validation import check_is_fitted
from torch import nn

from viewsmith.core.errors import InputError
from viewsmith.core.method import Method, Optimizer
from viewsmith.core.samples import Rows, in_blocks
from viewsmith.estimators.arguments import Auto, Count, Positive, Rate, Widths
from viewsmith.estimators.base import ViewsmithEstimator
from viewsmith.estimators.build import channels
from viewsmith.estimators.build import model as parts
from viewsmith.estimators.build.custom_transforms import FamilyOption, family_text, inspect_family, is_own, like_samples
from viewsmith.estimators.build.resolve import check_crops, crop_of, default_epochs, probe
from viewsmith.estimators.fitting import find_device
from viewsmith.methods.crl_tac import CRLTACMethod
from viewsmith.networks.cnn import CropCNN
from viewsmith.networks.mlp import MLP
from viewsmith.views.learned.augmentation_channel import AugmentationChannel, Counts

Draws = Annotated[int, Field(ge=2)]
Part = Annotated[float, Field(gt=0, lt=1)]
Effective = Annotated[float, Field(ge=1, allow_inf_nan=False)]
#: Options of the families of "auto", by domain.
FAMILY_OPTIONS = {
    "images": ("crop_size", "crop_stride", "crop_scales", "crop_flips"),
    "vectors": ("masks", "mask_fraction"),
    "dna": ("windows", "window_fraction"),
}
FAMILIES = {"images": "crops of images", "vectors": "masks of vectors", "dna": "windows of DNA"}
#: Of the encoder "crl-cnn" on a CPU, where "auto" asks for epochs: ten minutes on two cores (docs, CRL-TAC).
STEPS = 2800
Scales = tuple[Annotated[float, Field(gt=0, le=4)], ...]


@dataclass(kw_only=True, eq=False, repr=False)
class CRLTAC(ViewsmithEstimator):
    """Representations learned together with a distribution P(T|x) over transformations of each sample.

    The transformations are a finite family: crops on a grid of images, subsets of the features of vectors, windows of
    sequences. A channel learns which of them say most about each sample, and the representation is the expectation
    over it of what the encoder makes of them. The defaults are measured (docs, CRL-TAC): on a CPU "auto" epochs of
    "crl-cnn" are about 2,800 steps. ``CRLTAC(**CRLTAC.presets["paper-images"])`` has the published settings.

    Parameters
    ----------
    framework : {"info-max"}
        The objective is CRL-TAC's own; see `viewsmith.losses.info_max`.
    view_maker : {"auto"}
        Views are drawn from the channel.
    family : {"auto"}, Family or list of callable
        The transformations. "auto": crops, feature subsets or windows, by the settings below. In Python also your own:
        at least two functions of scaled samples (B, ...), each giving a view of each of them, all of one shape; or a
        `viewsmith.views.Family`. It is copied, and `viewsmith.load` takes it again.
    channel : {"learned", "uniform"}
        uniform: P(T|x) stays uniform (SimCLR with such views, for comparison).
    crop_size, crop_stride : int or "auto"
        Side of the crops of images and distance of their corners, in pixels. "auto": 20 and 4, as published; for
        sides of less than 24 pixels five sevenths and an eighth of the shorter one.
    crop_scales : tuple of float
        Sizes at which images are cut: 0.5 for half of the height and width.
    crop_flips : bool
        Cut mirror images, too.
    masks : int
        Number of feature subsets of vectors.
    mask_fraction : float
        Share of the features in each, more than 0 and less than 1.
    windows : int
        Number of windows of sequences.
    window_fraction : float
        Length of each, as a share of its sequence, more than 0 and less than 1.
    beta, channel_beta : float
        Concentration of P(Z|T(x)), one over a temperature, in the encoder's step and in the channel's. Published: 0.5
        in both; the encoder's default is larger for the sake of the head (docs, CRL-TAC).
    draws : int
        Transformations drawn of each sample in a step.
    encoder_step, channel_step : {"exact", "sampled"}
        Whether a step of the encoder, or of the channel, takes all transformations, or `draws` of them.
    channel_rows : int
        Samples of a batch that an exact channel step looks at.
    distinct : bool
        In exact steps, positives are pairs of different transformations.
    importance_weights : {"plain", "normalized"}
        Of transformations drawn in a channel step.
    entropy_weight : float
        Weight of the entropy of P(T|x).
    effective_target : float, "auto" or None
        Effective number of transformations of each sample, exp of the entropy, that the channel must not fall below.
        "auto": 8, or nine tenths of all where they are fewer than nine. None: no such limit.
    centered : bool or "auto"
        Take the embedding of an empty view from every embedding; "auto": where the encoder has biases or norms.
        Without it, or a network without biases, the channel does not leave the uniform distribution.
    channel_learning_rate : float
        Rate of the channel's own optimizer. The encoder's, `learning_rate`, is 0.0005 for "crl-cnn" and for DNA
        unless given.
    inference : {"expectation", "top", "uniform"}
        What the representation is taken over: P(T|x), the most probable transformations alike, or all alike.
    inference_count : int or None
        How many are the most probable (8 for None); for the expectation, how many are drawn (None: all are used).
    nonempty : {"auto"}, callable or None
        Which views show something, so that the metrics have the mass of P(T|x) on them (`nonempty_mass`). "auto": of
        images that are not scaled, as is usual here, those that are not all black. In Python also a function from
        scaled views (n, ...) to bool (n,).
    projection : tuple of int or "auto"
        Widths of the head, behind a ReLU; the last is the embedding's. "auto": 128 with "crl-cnn", else 200 and 50,
        as published.
    [shared]

    Attributes
    ----------
    [attributes]

    Examples
    --------
    >>> import numpy as np
    >>> from viewsmith import CRLTAC
    >>> X = np.random.default_rng(0).integers(0, 256, (64, 28, 28)).astype("uint8")
    >>> model = CRLTAC(epochs=2, random_state=0).fit(X)
    >>> model.distribution(X).shape, model.views(X[:3], n_views=5).shape
    ((64, 9), (3, 5, 20, 20))
    """

    name = "crl-tac"
    strength_option = "noise_strength"
    resolved_options = ("centered", "crop_size", "crop_stride", "effective_target")
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # Sections 3, 5.2 and 5.3; optimizer, rate, batch and epochs are not given there.
        "paper-images": {
            "encoder": "crl-cnn",
            "projection": (200, 50),
            "beta": 0.5,
            "channel_beta": 0.5,
            "draws": 8,
            "encoder_step": "sampled",
            "channel_step": "sampled",
            "importance_weights": "plain",
            "entropy_weight": 0.0025,
            "effective_target": None,
            "optimizer": "adam",
            "learning_rate": 1e-3,
            "channel_learning_rate": 1e-3,
            "schedule": "constant",
            "epochs": 50,
        },
    }

    framework: Literal["info-max"] = "info-max"  # type: ignore[assignment]
    view_maker: Literal["auto"] = "auto"
    family: FamilyOption = "auto"
    channel: Literal["learned", "uniform"] = "learned"
    crop_size: Count | Auto = "auto"
    crop_stride: Count | Auto = "auto"
    crop_scales: Scales = (1.0,)
    crop_flips: bool = False
    masks: Draws = 64
    mask_fraction: Part = 0.5
    windows: Draws = 16
    window_fraction: Part = 0.5
    beta: Positive = 5.0
    channel_beta: Positive = 0.5
    draws: Draws = 8
    encoder_step: Literal["exact", "sampled"] = "sampled"
    channel_step: Literal["exact", "sampled"] = "exact"
    channel_rows: Count = 32
    distinct: bool = False
    importance_weights: Literal["plain", "normalized"] = "plain"
    entropy_weight: Rate = 0.0025
    effective_target: Effective | Auto | None = "auto"
    centered: bool | Auto = "auto"
    channel_learning_rate: Positive = 3e-3
    inference: Literal["expectation", "top", "uniform"] = "expectation"
    inference_count: Count | None = None
    nonempty: str | Counts | None = "auto"
    projection: Widths | Auto = "auto"

    def _defaults(self, options: SimpleNamespace, domain: str, row_shape: tuple[int, ...]) -> None:
        options.view_maker = "identity"
        if isinstance(options.nonempty, str) and options.nonempty != "auto":
            expected = "'auto' or None, or in Python a function of views"
            raise InputError(f"nonempty is {options.nonempty!r}, expected {expected}")
        own = is_own(options.family)
        self._refuse_idle(options, domain, own)
        if domain == "images":
            grid = crop_of(row_shape, options.crop_size, options.crop_stride)
            if options.encoder == "auto" and not own and grid == (CropCNN.crop, CropCNN.stride):
                options.encoder = "crl-cnn"
        if options.learning_rate == "auto" and (options.encoder == "crl-cnn" or domain == "dna"):
            options.learning_rate = 5e-4  # a larger one costs the head most of what it says of classes
        if domain == "images" and options.scaling == "auto":
            options.scaling = "none"  # so that black stays zero: an empty crop

    def _refuse_idle(self, options: SimpleNamespace, domain: str, own: bool) -> None:
        """Refuse options that would have no effect here."""
        for kind, names in FAMILY_OPTIONS.items():
            for name in names:
                if getattr(options, name) == getattr(type(self), name) or (kind == domain and not own):
                    continue
                where = "a family of your own" if own else domain
                raise InputError(f"{name} is of the {FAMILIES[kind]}, and has no use with {where}: leave it out")
        if options.temperature is not None:
            raise InputError(
                f"temperature is {options.temperature:g}, and crl-tac has beta, one over a temperature: give that"
            )

    def _resolve(self, options: SimpleNamespace, resolved: dict[str, Any], x: Rows) -> dict[str, Any]:
        crop, stride = crop_of(resolved["row_shape"], options.crop_size, options.crop_stride)
        own: dict[str, Any] = {}
        device = find_device(options.device)
        if is_own(options.family):
            own = inspect_family(options, resolved, x, device)
        elif resolved["domain"] == "images":
            size = resolved["row_shape"][:2]
            check_crops("crops", (crop, crop), resolved["encoder"], size, "take larger crops (crop_size)")
        known = own | {"crop_size": crop, "crop_stride": stride}
        if options.projection == "auto":
            known["projection"] = [128] if resolved["encoder"] == "crl-cnn" else [200, 50]
        if options.epochs == "auto" and resolved["encoder"] == "crl-cnn" and device.type == "cpu":
            known["epochs"] = default_epochs(len(x), options.batch_size, STEPS)
        family = channels.make_family(SimpleNamespace(**{**vars(options), **resolved, **known})).to(device)
        two = x[:2].to(device)
        # Both refuse what does not answer as it should.
        if callable(options.nonempty):
            AugmentationChannel(family).mass(two, options.nonempty)
        if isinstance(options.encoder, nn.Module):
            first = torch.zeros(len(two), 1, dtype=torch.int64, device=device)
            probe(options.encoder, resolved["encoder"], family.take(two, first)[:, 0])
        return known | {
            "effective_target": channels.target_of(options, family),
            "centered": resolved["encoder"] != "crl-cnn" if options.centered == "auto" else options.centered,
        }

    def _build(self, settings: SimpleNamespace) -> Method:
        # "auto" is left in the runs of before its widths were written down.
        widths = (200, 50) if settings.projection == "auto" else settings.projection
        head = MLP(settings.n_components, widths, bias=settings.centered)
        return CRLTACMethod(
            parts.make_encoder(settings),
            nn.Sequential(nn.ReLU(), parts.noisy(settings, head)),
            channels.make_channel(settings, learned=settings.channel == "learned"),
            centered=settings.centered,
            beta=settings.beta,
            channel_beta=settings.channel_beta,
            draws=settings.draws,
            encoder_step=settings.encoder_step,
            channel_step=settings.channel_step,
            channel_rows=settings.channel_rows,
            distinct=settings.distinct,
            weights=settings.importance_weights,
            entropy_weight=settings.entropy_weight,
            effective_target=settings.effective_target,
            inference=settings.inference,
            inference_count=8
            if settings.inference == "top" and settings.inference_count is None
            else settings.inference_count,
            nonempty=channels.nonempty_of(settings),
            epochs=settings.epochs,
            optimizer=parts.make_optimizer(settings),
            channel_optimizer=Optimizer("adam", settings.channel_learning_rate, schedule=settings.schedule),
        )

    @property
    def views_like_samples(self) -> bool:
        """Whether views have the features or channels of samples: those of functions of the user's own may not."""
        known = self.fitted_.get("own_family")
        return known is None or like_samples(known["sample"], known["view"], self.fitted_["domain"])

    def views(self, X: Any, n_views: int = 4, *, random_state: int | None = None, pool: Any = None) -> np.ndarray:
        check_is_fitted(self)
        if not self.views_like_samples:
            shapes = self.fitted_["own_family"]
            raise InputError(
                f"views of the family have shape {tuple(shapes['view'])} and samples {tuple(shapes['sample'])}, so "
                "that they have no units of the data: take method_.channel.family.every(torch.tensor(scaled(X)))"
            )
        return super().views(X, n_views, random_state=random_state, pool=pool)

    @property
    def _views_a_row(self) -> int:
        # Of images and DNA the blocks are small, and the views of an image may come from one pass.
        return self._channel().family.size if self.fitted_["domain"] == "vectors" else 1

    def distribution(self, X: Any) -> np.ndarray:
        """P(T|x), float32 (n, M): the probability of each transformation of each sample.

        Functions are numbered as they were given, crops row by row, at each scale as they are and then mirrored;
        `method_.channel.family` has the transformations themselves.
        """
        check_is_fitted(self)
        with torch.no_grad():
            return in_blocks(lambda x: self._channel().log_p(x).exp(), self._samples(X), 256).cpu().numpy()

    def nonempty_mass(self, X: Any, nonempty: Counts | None = None) -> np.ndarray:
        """Probability that a view of each sample shows something, float32 (n,).

        Parameters
        ----------
        X : array-like, n samples
        nonempty : callable, optional
            From scaled views (n, ...) to bool (n,); default: what the model was made with.
        """
        check_is_fitted(self)
        nonempty = nonempty or self._method().nonempty
        if nonempty is None:
            raise InputError(
                "the model does not know which views show something: give nonempty, a function from views (n, ...) to "
                "bool (n,)"
            )
        return self._channel().mass(self._samples(X), nonempty).cpu().numpy()

    def _config(self, context: dict[str, Any]) -> dict[str, Any]:
        config = super()._config(context)
        config["parameters"]["family"] = family_text(self.family)
        if callable(self.nonempty):
            config["parameters"]["nonempty"] = "function"
        return config

    def _method(self) -> CRLTACMethod:
        assert isinstance(self.method_, CRLTACMethod)
        return self.method_

    def _channel(self) -> AugmentationChannel:
        return self._method().channel
