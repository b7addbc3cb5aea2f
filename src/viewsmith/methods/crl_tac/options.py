"""The options of CRL-TAC, each declared once; the training takes `CRLTACOptions` whole."""

from dataclasses import dataclass
from typing import Annotated, Literal

from viewsmith.core.registry import Bounds, Positive, Weight
from viewsmith.estimator.arguments import Auto, Count
from viewsmith.estimator.options import Part
from viewsmith.methods.crl_tac import families
from viewsmith.methods.crl_tac.channel import Predicate
from viewsmith.methods.crl_tac.transforms import Detrend

Draws = Annotated[int, Bounds(ge=2)]
Steps = Annotated[int, Bounds(ge=0)]
Some = Annotated[float, Bounds(gt=0, lt=1)]
Effective = Annotated[float, Bounds(ge=1)]
Scales = tuple[Annotated[float, Bounds(gt=0, le=4)], ...]
Inference = Literal["expectation", "top", "uniform"]


@dataclass(kw_only=True, eq=False, repr=False, init=False)
class Transforms(Part):
    """The transformations between which the channel chooses."""

    slot = "family"
    lead = "family"

    family: families.FamilyOption = "auto"
    """The transformations. "auto": crops, feature subsets, windows or distortions, with the options below. In Python
    also custom ones: at least two functions from scaled samples (B, ...) to a view of each sample, all views of one
    shape; or a `viewsmith.views.Family`. It is copied; `viewsmith.load` needs it again."""
    crop_size: Count | Auto | None = None
    """Side of the crops of images in pixels: about the size of the objects. None: 20, as published; 5/7 of a shorter
    side below 24 pixels. "auto": a quarter, a third or half of it, by three short trainings without labels."""
    crop_stride: Count | Auto = "auto"
    """Distance between the corners of crops in pixels. "auto": 4, as published; 1/8 of a shorter side below 24 pixels.
    Crops of at least 20 pixels at a multiple of 4 have the default encoder "crl-cnn": one pass encodes all."""
    crop_scales: Scales = (1.0,)
    """Scales of the images that crops are taken from: 0.5 halves height and width."""
    crop_flips: bool = False
    """Also take crops of the mirrored images."""
    masks: Draws = 64
    """Number of feature subsets (vectors)."""
    mask_fraction: Some = 0.5
    """Fraction of the features in each subset, more than 0 and less than 1."""
    windows: Draws = 16
    """Number of windows (sequences)."""
    window_fraction: Some = 0.5
    """Length of each window, as a fraction of the sequence, more than 0 and less than 1."""
    detrend: Detrend = "none"
    """Recordings: subtract its mean, or a line, from each channel of a window, so that level or drift is not used."""
    distortions: Draws = 16
    """Number of distortions (spectra): each has another gain, level, slope, curvature and place on the axis."""
    distortion_strength: Positive = 1.0
    """Size of the distortions; 1: that of the view makers scatter and axis-shift."""
    nonempty: str | Predicate | None = "auto"
    """Which views are not empty: the metrics then include their probability (`nonempty_mass`). "auto": those not all
    black, for images without scaling (mostly black ones). In Python also a function from scaled views to bool (n,)."""


@dataclass(kw_only=True, eq=False, repr=False, init=False)
class Channel(Part):
    """The augmentation channel and its training."""

    slot = "channel"
    lead = "channel"

    channel: Literal["learned", "uniform"] = "learned"
    """uniform: P(T|x) stays uniform (SimCLR with such views, for comparison)."""
    channel_beta: Positive = 0.5
    """Concentration of P(Z|T(x)), the inverse of a temperature, in the encoder step and in the channel step. Published:
    0.5 in both; a larger one in the encoder step gives better projections (docs, CRL-TAC)."""
    channel_step: Literal["exact", "sampled"] = "exact"
    """Whether a channel step uses all transformations or draws `draws` of them."""
    channel_rows: Count = 32
    """Number of samples of a batch that an exact channel step uses."""
    channel_learning_rate: Positive = 3e-3
    """Learning rate of the channel. That of the encoder, `learning_rate`, is 0.0005 by default for "crl-cnn" and for
    DNA."""
    draws: Draws = 8
    """Number of transformations drawn for each sample in a sampled step."""
    distinct: bool = False
    """In exact steps, only pairs of different transformations are positives."""
    importance_weights: Literal["plain", "normalized"] = "plain"
    """Weights of the transformations drawn in a sampled channel step."""
    start: Literal["auto", "discovery", "none"] = "auto"
    """Images with crops. "discovery": `viewsmith.Discovery` finds what recurs in the images, and where (in at most
    5,000 of them). P(T|x) and the encoder start from there in the first `start_steps` steps, and P(T|x) is held there
    with `place_weight`; crops have its size, if `crop_size` is None. "none": as published. "auto": discovery with the
    encoder "crl-cnn" for at least 100 images of 48 pixels or more; if nothing recurs, as published."""
    start_steps: Steps | Auto = "auto"
    """Images with crops: in so many first steps, positives are crops that overlap each other, and P(T|x) moves to where
    such crops agree. Later all crops that are drawn from P(T|x) are positives. "auto": 50, or 0 if black stays zero
    (`scaling`), where such a start can end beside the object."""
    place_weight: Weight = 1.0
    """Weight of E_Q log P(T|x), where Q is concentrated on the place that discovery found."""
    recurrence_weight: Weight | Auto = "auto"
    """Weight of `viewsmith.losses.recurrence` in the channel step: prefers what other samples show, too. "auto": 3 for
    crops of images whose black stays zero (`scaling`), otherwise 0, as published."""
    entropy_weight: Weight = 0.0025
    """Weight of the entropy of P(T|x)."""
    effective_target: Effective | Auto | None = "auto"
    """Soft lower limit of the effective number of transformations of a sample, the exponential of the entropy of
    P(T|x). "auto": 8, or 9/10 of the number of transformations if there are fewer than nine. None: no limit."""


@dataclass(kw_only=True, eq=False, repr=False, init=False)
class Averaging(Part):
    """How a sample is represented: by which transformations."""

    slot = "inference"
    lead = "inference"

    inference: Inference = "expectation"
    """Average that gives the representation: over P(T|x), over the most probable transformations with equal weights, or
    over all transformations with equal weights."""
    inference_count: Count | None = None
    """Number of most probable transformations (None: 8); for the expectation, of drawn ones (None: all are used)."""


@dataclass(kw_only=True, eq=False, repr=False, init=False)
class CRLTACOptions(Channel, Averaging):
    """What Algorithm 1 reads: the two steps, and how a sample is represented."""

    beta: Positive = 5.0
    """Concentration of P(Z|T(x)), the inverse of a temperature, in the encoder step and in the channel step. Published:
    0.5 in both; a larger one in the encoder step gives better projections (docs, CRL-TAC)."""
    encoder_step: Literal["exact", "sampled"] = "sampled"
    """Whether an encoder step uses all transformations or draws `draws` of them."""
    objective: Literal["bound", "information"] = "bound"
    """What training maximizes: the lower bound of the information, as published, or the information (equation 2)."""
    centered: bool | Auto = "auto"
    """Subtract the projection of an empty view from every projection; "auto": for every encoder but "crl-cnn". The
    channel leaves the uniform distribution only with centered projections or networks without biases."""
