"""The arguments that all estimators share: their types, bounds, defaults and documentation."""

import inspect
import re
import textwrap
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from torch import nn

import viewsmith.frameworks
import viewsmith.modalities.dna.hyena
import viewsmith.modalities.dna.views
import viewsmith.modalities.images.single_views
import viewsmith.modalities.images.views
import viewsmith.modalities.series.views
import viewsmith.modalities.spectra.views
import viewsmith.modalities.vectors.thinning
import viewsmith.modalities.vectors.views  # noqa: F401, they register what the documentation names
from viewsmith.core.registry import Bounds, Fraction, Portion, Positive, Weight, registered, wrapped
from viewsmith.data.options import ModelDataOptions
from viewsmith.estimator.options import Part, arguments_text, with_role
from viewsmith.modalities import modality_of

# Ranges that the searches of several methods share, see `viewsmith tune` and its `default_space`.
RATE_RANGES = {"learning_rate": "0.0005..0.02"}
NEIGHBORS_RANGES = {**RATE_RANGES, "n_neighbors": "3..30"}
VIEWS_RANGES = {"crop_minimum": "0.08..0.7", "color_strength": "0..1.5"}
CROPS_RANGES = RATE_RANGES | VIEWS_RANGES
EDITS_RANGES = {**RATE_RANGES, "mutation_rate": "0.02..0.3", "max_edits": "1..4"}
RECIPE_RANGES = {"vectors": NEIGHBORS_RANGES, "images": CROPS_RANGES, "dna": EDITS_RANGES}
RECIPE_RANGES |= {"proteins": {**RATE_RANGES, "window_minimum": "0.2..0.9"}}

#: The optimizer of several published settings.
ADAM = {"optimizer": "adam", "learning_rate": 1e-3, "schedule": "constant"}
Count = Annotated[int, Bounds(ge=1)]
Natural = Annotated[int, Bounds(ge=0)]
BatchSize = Annotated[int, Bounds(ge=2)]
Widths = tuple[Count, ...]
Auto = Literal["auto"]
Jitter = Annotated[float, Bounds(ge=0, le=5)]  # five times the recipes' hue jitter of 0.1 is half a turn
SECTIONS = "Parameters\n----------\n[shared]\n\nAttributes\n----------\n[attributes]"
ATTRIBUTES_DOC = """\
    encoder_ : torch.nn.Module
        The trained encoder, from scaled samples to representations.
    method_ : Method
        All trained modules.
    table_ : TableEncoder or None
        Roles of the columns of a table, and what was learned of them; None for plain numbers.
    fitted_ : dict
        Settings that fit resolved from the data.
    metrics_ : list of dict
        Loss and label-free diagnostics during training.
    summary_ : dict
        Status, duration, hardware and versions of the training.
    status_ : str
        "finished", "interrupted" or "time limit".
    warnings_ : list of str
"""


def with_shared(cls: type, doc: str) -> str:
    """A class's documentation with its options at "[shared]" and the attributes at "[attributes]", or at the end."""
    doc = f"{inspect.cleandoc(doc)}\n"  # Python 3.13 has removed the indentation already
    if "[shared]\n" not in doc:
        text, heading, examples = doc.partition("Examples\n--------\n")
        doc = "\n\n".join([text.rstrip(), SECTIONS, heading + examples])
    attributes = re.split(r"^(?=\S)", textwrap.dedent(ATTRIBUTES_DOC), flags=re.MULTILINE)
    for marker, entries in (("[shared]", filled([*arguments_text(cls).values()])), ("[attributes]", attributes)):
        fresh = [entry for entry in entries if entry.strip() and f"\n{entry.split(' :')[0]} :" not in doc]
        doc = doc.replace(f"{marker}\n", "".join(fresh))
    return wrapped(doc)


def filled(entries: list[str]) -> list[str]:
    """Fill in the names of the registered parts."""
    modalities = [modality_of(name) for name in registered("modality")]
    lists = {
        "modalities": ", ".join(modality.name for modality in modalities),
        "frameworks": ", ".join(registered("framework", general=True)),
        "view makers": "; ".join(f"{d.name}: {', '.join(registered('view maker', d.name))}" for d in modalities),
        "default views": ", ".join(f"{d.default_views} ({d.name})" for d in modalities),
        "encoders": "; ".join(f"{d.name}: {', '.join(registered('encoder', d.name))}" for d in modalities),
        "default features": ", ".join(f"{d.default_features} ({d.name})" for d in modalities if d.default_features),
        "predictors": ", ".join(with_role("predictor")),
        "last layers": ", ".join(with_role("last layer")),
        "default encoders": ", ".join(f"{d.default_encoder} ({d.name})" for d in modalities),
    }
    return [re.sub(r"\{([a-z ]+)\}", lambda found: lists.get(found[1], found[0]), entry) for entry in entries]


@dataclass(kw_only=True, eq=False, repr=False, init=False)
class Input(Part, ModelDataOptions):
    """How samples are read and scaled."""

    slot = "input"

    modality: str = "auto"
    """Kind of the samples: {modalities}; "auto" detects it."""
    scaling: Literal["auto", "standard", "global", "none"] = "auto"
    """Input scaling; "auto" takes "global" for vectors when more than half of the entries are zero."""
    input_components: Count | Auto | None = "auto"
    """Number of principal components of vectors that are the encoder's input; None: the features are the input. "auto":
    50 for more than 200 features (of rows on disk: 50) with neighbor views, None otherwise."""
    max_rows: Count | None = 1_000_000
    """Of rows on disk that are trained on in their principal components: so many random ones at most, unless labels or
    neighbors are given. Scaling and components are fitted to all rows. None: all are trained on."""


@dataclass(kw_only=True, eq=False, repr=False, init=False)
class Views(Part):
    """What makes two views of a sample."""

    slot = "views"
    lead = "view_maker"
    further = "view_options"

    view_maker: str | nn.Module = "auto"
    """Names joined by "+". {view makers}. Or channel:RUN, views drawn from the augmentation channel of a crl-tac run;
    or a custom view maker, which is copied. "auto": {default views}."""
    view_options: dict[str, Any] | None = None
    """Further options of the view makers by name."""
    n_neighbors: Count = 5
    """Number of neighbors of each row in the neighbor graph."""
    neighbor_space: Literal["input", "encoder"] = "input"
    """Space in which neighbors are searched. input: principal components, for DNA k-mer frequencies; encoder: the
    representation, searched again after each quarter of the training."""
    noise_strength: Positive | Auto = 1.0
    """Standard deviation of noise views in scaled units; "auto" chooses it without labels: vectors, by the distance of
    noisy rows from the data; others, among 0.25, 0.5, 1 and 2 by short trainings."""
    noise_distribution: Literal["gaussian", "uniform"] = "gaussian"
    """Distribution of the noise of noise views."""
    corruption_rate: Fraction = 0.6
    """Fraction of the features that corruption and conditional corruption replace."""
    mixup_minimum: Fraction = 0.9
    """Smallest weight of the sample in a mixture (mixup)."""
    neighbor_mix_minimum: Fraction = 0.5
    """Smallest weight of the sample in a mixture (neighbor-mix)."""
    adversarial_strength: Positive = 0.1
    """Step size of adversarial views in scaled units."""
    crop_minimum: Portion | Auto = "auto"
    """Smallest area of a crop, as a fraction of the image; "auto": the value of the recipe."""
    flip: Fraction | Auto = "auto"
    """Probability that a view of an image is mirrored; "auto": 0.5, or 0 if a test of the samples without labels shows
    that mirrored images are far from all images (`viewsmith.evaluation.symmetries`)."""
    color_strength: Jitter = 1.0
    """Factor on the recipe's color jitter, at most 5; 0: no jitter."""
    local_crops: Count = 4
    """Number of small crops of each image (multicrop)."""
    max_edits: Count = 2
    """Largest number of edits of one sequence (dna)."""
    mutation_rate: Annotated[float, Bounds(ge=0, le=0.75)] = 0.05
    """Fraction of the letters that mutation changes, at most 0.75 (random letters)."""
    strand: Fraction | Auto = "auto"
    """Probability of the reverse complement (dna); "auto" as for `flip`."""


@dataclass(kw_only=True, eq=False, repr=False, init=False)
class Objective(Part):
    """The self-supervised objective, with its heads."""

    slot = "framework"
    lead = "framework"
    further = "framework_options"

    framework: str | nn.Module = "simclr"
    """Self-supervised objective: {frameworks}; or a custom framework object, which is copied and, if it has no encoder
    yet, connected to the estimator's encoder."""
    framework_options: dict[str, Any] | None = None
    """Further options of the framework by name; `viewsmith methods` lists them."""
    kernel: Literal["auto", "cauchy", "cosine"] = "auto"
    """Similarity of projections in SimCLR: cauchy is 1 / (1 + d^2), without normalization; cosine is exp(cosine /
    temperature). "auto": cauchy for vectors and with neighbor views, cosine otherwise."""
    temperature: Positive | None = None
    """None: the framework's default; 1 with the Cauchy kernel."""
    momentum: Fraction | Auto = "auto"
    """Momentum of the momentum encoder (moco, moco-v3, byol, dino)."""
    queue_size: Natural | Auto = "auto"
    """Number of earlier keys used as negatives (moco, nnclr), or scored with a batch (swav; 0: none). "auto": half of
    the rows, at most 65,536 (moco) or 98,304 (nnclr); swav: 0."""
    prototypes: Count | Auto = "auto"
    """Number of prototypes (swav)."""
    out_dim: Count | Auto = "auto"
    """Width of the last layer (dino)."""
    projector_dims: Widths | Auto = "auto"
    """Widths of the projection head; the last is the width of the projection. "auto": the framework's default."""
    predictor_dims: Widths | Auto = "auto"
    """Widths of the predictor. "auto": the framework's default."""
    representation_noise: Weight = 0.0
    """Strength of the noise that is added to the representation before the head (SimCL); 0: no noise."""


@dataclass(kw_only=True, eq=False, repr=False, init=False)
class Encoder(Part):
    """The network from samples to representations."""

    slot = "encoder"
    lead = "encoder"
    further = "encoder_options"

    encoder: str | nn.Module = "auto"
    """{encoders}. Or a custom module from scaled samples (B, ...) to representations (B, d); it is copied, without
    torch.compile. "auto": {default encoders}."""
    encoder_options: dict[str, Any] | None = None
    """Further options of the encoder by name."""
    encoder_weights: str | None = None
    """Safetensors file with initial weights: those of the published HyenaDNA for hyena, with torchvision's names for
    ResNets, with timm's for timm:NAME. "pretrained": the published weights of timm:NAME, downloaded once."""
    n_components: Count | Auto = "auto"
    """Width of the representation, if the encoder does not fix it ("auto": 256 for mlp and cnn, 200 for crl-cnn)."""
    stem: Literal["auto", "small", "standard"] = "auto"
    """First layers of a ResNet: small is a 3x3 convolution without max-pooling, standard a 7x7 convolution with
    max-pooling. "auto": small for images of up to 64 pixels."""
    hidden: Widths = (256,)
    """Widths of the hidden layers of the mlp encoder."""
    norm: Literal["batch", "none"] = "batch"
    """batch: BatchNorm and ReLU after every layer of the mlp encoder, the representation included; none: ReLU between
    layers."""
    freeze: Natural | Literal["all"] = 0
    """So many first layers of the encoder keep their initial weights and BatchNorm statistics (MoCo v3 with
    transformers: 1). "all": the whole encoder, whose weights are given, and only what follows it is trained."""


@dataclass(kw_only=True, eq=False, repr=False, init=False)
class Training(Part):
    """How long, how and where the encoder is trained."""

    slot = "training"

    epochs: Count | Auto = "auto"
    """"auto": as many as 2,000 training steps take (images and DNA: 1,500; more on a GPU)."""
    batch_size: BatchSize | Auto = "auto"
    """Rows in a training step, at least 2: the other rows of a batch are the negatives. "auto": 256; of images above
    128 x 128 pixels as many as take the memory of 256 of that size, at least 32."""
    optimizer: Literal["adamw", "adam", "sgd", "lars"] = "adamw"
    """lars scales the learning rate of each layer, for large batches."""
    learning_rate: Positive | Auto = "auto"
    """"auto": 0.003; with lars 0.3 for every 256 rows of a batch."""
    weight_decay: Weight = 0.0
    """Decay of the weights in each step, decoupled from the gradient."""
    final_weight_decay: Weight | None = None
    """The weight decay follows half a cosine from `weight_decay` to this value (DINO); None: it is constant."""
    exclude_norm_and_bias: bool | Auto = "auto"
    """No weight decay for biases and the weights of normalization layers and, with lars, no scaling of their learning
    rate. "auto": only with lars."""
    trust_coefficient: Positive | Auto = "auto"
    """Of lars. "auto": 0.001."""
    warmup: Fraction = 0.0
    """Fraction of the steps in which the learning rate increases."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """The learning rate falls along half a cosine, or stays."""
    constant_predictor_rate: bool = False
    """The predictor keeps its learning rate, whatever the schedule, as published with SimSiam ({predictors})."""
    freeze_last_layer: Fraction = 0.0
    """Fraction of the steps at whose start the last layer does not move ({last layers})."""
    gradient_clip: Positive | None = None
    """Largest norm of the gradient; None: no clipping."""
    precision: Literal["32", "bf16"] = "32"
    """32 bits, or bfloat16 in forward passes."""
    compile: bool = False
    """On a GPU, with contrastive and pinda: `torch.compile` makes the encoder faster, after half a minute."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N"""
    minutes: Positive | None = None
    """Stop after this many minutes, preparation included (neighbor search, choice of a strength); None: no limit.

    A preparation that takes longer, and more than 10 seconds, is stopped: nothing is trained then, which is said."""
    checkpoint_every: Weight = 30.0
    """Seconds between checkpoints, if there is a run folder."""
    callbacks: Any = None
    """Called during the training. The names tensorboard, mlflow and wandb stand for loggers
    (`viewsmith.training.Tracker`)."""


@dataclass(kw_only=True, eq=False, repr=False, init=False)
class Arguments(Views, Objective, Encoder, Training, Input):
    """The arguments of all estimators' constructors: stored unchanged, validated in `fit`."""

    supervision: Literal["none", "labels", "numbers"] = "none"
    """labels: the labels in ``fit(X, y)`` are used, where rows have one (others: -1, NaN or empty); a supervised
    contrastive term on the labeled rows is added to the loss. numbers: `y` is a continuous target, NaN where rows have
    none, and the term is Rank-N-Contrast. none: `y` is not used."""
    supervision_weight: Positive = 1.0
    """Weight of that term."""
    group_mode: Literal["none", "align"] = "none"
    """align: with neighbor views and ``fit(X, groups=...)``, mutual nearest neighbors in other groups (batches,
    subjects) are positives, too."""
    verbose: bool = False
    """Show progress on stderr when it is a terminal."""
    random_state: Any = None
    """Seed. The same seed, machine and number of threads give the same result."""


@dataclass(kw_only=True, eq=False, repr=False, init=False)
class GeneratorArguments:
    """Options of estimators that train a diffusion model."""

    generator_epochs: Count | Auto = "auto"
    """Epochs in which the generator is trained, all together; "auto": a fraction of the encoder's epochs that depends
    on the modality."""
    generator_learning_rate: Positive | Auto = "auto"
    """Learning rate of the generator."""
    sampler_steps: Count | Auto = "auto"
    """Steps of the sampler."""
