"""Contrastive learning in closed form on fixed features."""

import copy
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from torch import nn

from viewsmith.core.errors import InputError
from viewsmith.core.registry import Bounds, Portion, Positive, find, names, register
from viewsmith.core.tensors import derive_seed
from viewsmith.estimator import arguments
from viewsmith.estimator.base import ViewsmithEstimator
from viewsmith.estimator.model import choose_features, make_features, make_views, modality_in, shrinks
from viewsmith.estimator.options import MODULE, OF_TRAINING
from viewsmith.estimator.plan import (
    BuildContext,
    Facts,
    TrainingData,
    collected,
    of_record,
    prepared,
    recorded,
    text_of,
)
from viewsmith.estimator.resolve import resolved
from viewsmith.methods.linear_contrast.training import MANY, LinearContrastFramework, LinearContrastMethod, Sums
from viewsmith.modalities import Modality
from viewsmith.networks.projected import Beside, ProjectedFeatures
from viewsmith.views.base import PairMaker

#: Most columns of n samples: one for `SAMPLES_OF_COLUMN` samples, but no fewer and no more than these. A linear
#: classifier of 256 columns of 5,000 images already fits noise.
SAMPLES_OF_COLUMN, FEWEST_COLUMNS, MOST_COLUMNS = 32, 160, 512
#: Smaller crops of published recipes are for networks: in the features smaller ones share less with each other.
CROP_MINIMUM = 0.4
APPENDED = 64
RIDGES_RANGES = {"ridge": "0.01..3"}


@dataclass(frozen=True, kw_only=True)
class LinearContrastFacts(Facts):
    """Facts, with the features that were chosen; `n_components` is the largest number of columns."""

    encoder: str = "features"
    epochs: int = 0
    n_components: int
    features: str
    features_options: dict[str, Any]
    appended_pca: int


@register(
    "method",
    "linear-contrast",
    help="fixed features and the contrast of fixed views on them, solved in closed form in seconds",
    source="InfoNCE: van den Oord et al. 2018; its solution for Gaussians: Ioffe 2006 (PLDA)",
    search={"images": arguments.VIEWS_RANGES | RIDGES_RANGES, "*": RIDGES_RANGES},
    compared=("images", "proteins", "series", "spectra"),
)
@dataclass(kw_only=True, eq=False, repr=False, init=False)
class LinearContrast(ViewsmithEstimator):
    """The linear map of fixed features that solves InfoNCE: seconds instead of a training.

    Features of a sample are fixed (patches of images, MiniRocket's convolutions of recordings, k-mers, random ReLU
    features of vectors). Two sums over views of the samples, how views of one sample differ and how samples differ,
    have the best critic of Gaussian features as the solution of one eigenproblem; see
    `viewsmith.methods.linear_contrast.training`. The representation has the columns in which views of a sample agree,
    rotated so that all are alike; ``transform(X, output="projection")`` has the most certain ones first. The ridge and
    the number of columns are chosen by what views of held-out samples share, without labels. Symmetries among the views
    (mirror images, other strands) are averaged out.

    Parameters
    ----------
    [shared]

    Attributes
    ----------
    encoder_ : torch.nn.Module
        The features and the weights.
    [attributes]

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from viewsmith import LinearContrast
    >>> images = load_digits().images[:400].astype("uint8") * 15
    >>> model = LinearContrast(n_components=32, random_state=0).fit(images)
    >>> model.transform(images).shape
    (400, 32)
    """

    framework: str | nn.Module = "linear-contrast"
    """The objective, which is fixed."""
    features: Any = "auto"
    """Fixed features by name. Or the representation of a trained model: the folder of its run, or a fitted one. Or
    your own: a function of samples in the form and units of the data, or a module of scaled samples, which is copied (a
    `Features` module is also fitted). "auto": {default features}."""
    features_options: dict[str, Any] | None = None
    """Further options of the features by name; `viewsmith methods` lists them."""
    n_components: arguments.Count | arguments.Auto = "auto"
    """Number of columns. "auto": chosen on held-out samples; at most one for 32 samples, from 160 to 512."""
    appended_pca: arguments.Natural | arguments.Auto = "auto"
    """Principal components of the features that are appended, at a fifth of the squared length: what views of few
    samples do not tell. "auto": 64 for fewer than 1,000 samples if `n_components` is "auto", otherwise none."""
    n_views: Annotated[int, Bounds(ge=2)] = 8
    """Views of each sample."""
    batch_size: arguments.BatchSize = 256
    """Samples in a block."""
    crop_minimum: Portion | arguments.Auto = "auto"
    """Smallest area of a crop, as a fraction of the image; "auto": 0.4."""
    ridge: Positive | arguments.Auto = "auto"
    """Part of the views' mean noise that is added to the noise of every direction. "auto": chosen on held-out samples
    among 0.01, 0.03, 0.1 and 0.3."""
    max_samples: arguments.Count | None = 10_000
    """Of more samples, the views of so many random ones are used: what they say of the moments hardly changes with
    more. None: of all."""

    name = "linear-contrast"
    frameworks: ClassVar[tuple[str, ...]] = ("linear-contrast",)
    facts_type: ClassVar[type[Facts]] = LinearContrastFacts
    trains = False

    @property
    def outputs_(self) -> tuple[str, ...]:
        return ("representation", "projection")

    @property
    def _n_features_out(self) -> int:
        return int(self.method_.framework.encoder.n_components)

    def transform_both(self, initial: Self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """What `transform` of the `untrained` model and of this one return; their features are computed once."""
        both = copy.copy(self)
        both.method_ = copy.copy(self.method_)
        both.method_._modules = dict(self.method_._modules)  # a copy shares them
        first, second = initial.method_.framework.encoder, self.method_.framework.encoder
        both.method_.framework = LinearContrastFramework(Beside(first, second))
        found = collected(*both._represented(X, "representation"))
        return found[:, : first.n_components], found[:, first.n_components :]

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Add the views of further samples, and solve again; the first call is `fit`, which also fits the features.

        Parameters
        ----------
        X : array-like, n samples
            At least two, as in `fit`; of more than `max_samples`, random ones are used in each call.
        y : ignored

        Raises
        ------
        InputError
            Samples of another form; or a model that was loaded or copied, which is without its sums over views.
        """
        if not hasattr(self, "method_"):
            return self.fit(X)
        if (sums := self.method_.sums) is None:
            raise InputError("a loaded or copied model is without its sums over views: fit it again before partial_fit")
        return self.solve(sums + self.sums(X, int(sums.all_but(None).samples)))

    def solve(self, sums: Sums) -> Self:
        """Set the representation from sums over views of samples, such as those of many files added up."""
        self.method_.use(sums)
        self.summary_ = self.summary_ | self.method_.facts
        return self

    def sums(self, X: Any, *path: str | int) -> Sums:
        """Sums over views of samples, of which the representation follows; `path` selects the random draws."""
        rows, seed = self.samples(X), derive_seed(self.facts_.seed, "sums", *path)
        with prepared(self.method_, rows, seed):
            return self.method_.moments(rows, seed)

    def _adapt(self, options: Any, modality: Modality, rows: Any, signal: Mapping[str, Any]) -> Any:
        defaults = {field.name: field.default for field in dataclasses.fields(type(self))}
        if given := [name for name in OF_TRAINING if getattr(options, name) != defaults[name]]:
            raise InputError(
                f"linear-contrast trains no network, and {given[0]} is {getattr(options, given[0])!r}: leave it out, "
                "or choose the method contrastive"
            )
        if options.crop_minimum == "auto":
            options = dataclasses.replace(options, crop_minimum=CROP_MINIMUM)
        features, mild = options.features, modality.mild_views
        if features == "auto":
            features, _ = modality.features_for(signal)
        if isinstance(features, str) and features in names("features", modality.name):
            mild = find("features", features, modality.name).tags.get("mild_views", mild)
        if options.view_maker == "auto" and mild is not None:
            maker, settings = mild
            options = dataclasses.replace(
                options, view_maker=maker, view_options=dict(settings) | (options.view_options or {})
            )
        return super()._adapt(options, modality, rows, signal)

    def _resolve(self, given: Any, options: Any, data: TrainingData) -> tuple[Any, dict[str, Any], Any]:
        features, of_features, weights = choose_features(options.features, options.features_options, data)
        width = options.n_components
        if width == "auto":
            width = min(max(len(data.x) // SAMPLES_OF_COLUMN, FEWEST_COLUMNS), MOST_COLUMNS)
        appended = options.appended_pca
        if appended == "auto":
            appended = APPENDED if options.n_components == "auto" and len(data.x) < MANY else 0
        own: dict[str, Any] = {"features": features, "features_options": of_features, "n_components": width}
        own |= {"appended_pca": min(appended, len(data.x) - 1)}
        return options, own, weights

    def _build(self, plan: BuildContext[LinearContrastFacts]) -> LinearContrastMethod:
        options, facts = plan.options, plan.facts
        shrunk, small_views = smaller(plan)
        features = make_features(plan, modality_in(plan), shrunk)
        encoder = ProjectedFeatures(features, facts.n_components, facts.appended_pca)
        views = make_views(plan, encoder)
        if any(maker.needs_loss for maker in views.makers):
            raise InputError(
                f"the views {text_of(options.view_maker)} depend on a loss that is trained, and linear-contrast trains "
                "none: take others (view_maker, --views)"
            )
        return LinearContrastMethod(
            LinearContrastFramework(encoder),
            views,
            view_names=text_of(options.view_maker).removeprefix(MODULE),
            n_views=options.n_views,
            ridge=None if options.ridge == "auto" else options.ridge,
            n_components=None if options.n_components == "auto" else options.n_components,
            batch_size=options.batch_size,
            max_samples=options.max_samples,
            minutes=options.minutes,
            least_constant=modality_in(plan).least_constant,
            shrunk=shrunk,
            small_views=small_views,
        )


def smaller(plan: BuildContext[LinearContrastFacts]) -> tuple[int, PairMaker | None]:
    """By how much images are shrunk before their views, and the makers of these: as far as the features allow it, if no
    view depends on the size of the image."""
    facts = plan.facts
    by = shrinks(facts.features, modality_in(plan), facts.row_shape, facts.features_options)
    views = make_views(plan, nn.Identity()).of_reduced(1 / by) if by > 1 else None
    return (1 if views is None else by), views


# ---- beside a training ----------------------------------------------------------------------------------------------
def default_settings(data: TrainingData) -> dict[str, Any]:
    """Settings of the default closed form of training rows."""
    alone = dataclasses.replace(data, labels=None, neighbors=None, groups={})
    default = LinearContrast(random_state=data.seed)
    options = default._adapt(default, data.modality, data.rows, data.statistics)
    chosen, found = resolved(options, alone, default.frameworks, with_encoder=False)
    facts = LinearContrastFacts(**found, **default._resolve(options, chosen, alone)[1])
    return recorded(default.get_params(deep=False), chosen, facts)


def default_method(settings: Mapping[str, Any], plan: BuildContext[Any]) -> LinearContrastMethod:
    """The default closed form as a part of the model that `plan` builds, from all samples, whatever its time limit: a
    run that is resumed has the same one."""
    options, facts = of_record(LinearContrast(), settings)
    return LinearContrast()._build(BuildContext(options, facts, fresh=plan.fresh, layer=plan.layer))
