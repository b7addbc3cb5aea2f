"""The arguments that all estimators share: their types, bounds, defaults and documentation."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field
from torch import nn

import viewsmith.frameworks
import viewsmith.views  # noqa: F401, they register what the documentation names
from viewsmith.core.method import Role
from viewsmith.core.registry import Entry, get, registered
from viewsmith.domains import domain_of

Count = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
BatchSize = Annotated[int, Field(ge=2)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Portion = Annotated[float, Field(gt=0, le=1)]
Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Widths = tuple[Count, ...]
Auto = Literal["auto"]
Jitter = Annotated[float, Field(ge=0, le=5)]  # the recipes' hue of 0.1 may become half a turn

SHARED_DOC = """\
    domain : {"auto", {domains}}
        What the samples are; "auto" looks at them.
    framework : str or viewsmith.frameworks.Framework
        Self-supervised objective: {frameworks}; or a framework object of your own, which is copied and, where it has no
        encoder yet, connected to the estimator's.
    framework_options : dict or None
        Further options of the framework by name; `viewsmith methods` lists them.
    view_maker : str or viewsmith.views.ViewMaker
        View makers joined by "+". {view makers}. Or channel:RUN, views drawn from the augmentation channel of a run of
        crl-tac; or a view maker of your own, which is copied. "auto": {default views}.
    view_options : dict or None
        Further options of the view makers by name.
    kernel : {"auto", "cauchy", "cosine"}
        SimCLR's similarity of projections: 1 / (1 + d^2) as they are, or exp(cosine / temperature). "auto": cauchy on
        vectors and with neighbors.
    temperature : float or None
        None: the framework's default; 1 with the Cauchy kernel.
    momentum : float or "auto"
        Of the slowly moving copy (moco, moco-v3, byol, dino).
    queue_size : int or "auto"
        Earlier keys as negatives (moco). "auto": half of the rows, at most 65,536.
    prototypes : int or "auto"
        Number of prototypes (swav) or outputs (dino).
    encoder : str or torch.nn.Module
        {encoders}. Or a module of your own from scaled samples to rows; it is copied. "auto": {default encoders}.
    encoder_options : dict or None
        Further options of the encoder by name.
    encoder_weights : str or None
        A safetensors file with weights to start from: the published HyenaDNA's for hyena, torchvision's names for
        ResNets.
    n_components : int or "auto"
        Width of the representation, where the encoder leaves it open (mlp, cnn: 256, crl-cnn: 200).
    stem : {"auto", "small", "standard"}
        First layers of a ResNet: 3x3 without max-pooling, or 7x7 with it; "auto": small up to 64 pixels.
    hidden : tuple of int
        Widths of the hidden layers of the mlp encoder.
    norm : {"batch", "none"}
        BatchNorm and ReLU after every layer of the mlp, the representation included; or ReLU between plain layers.
    projector_dims : tuple of int or "auto"
        Widths of the projection head; the last is the projection's. "auto": the framework's.
    predictor_dims : tuple of int or "auto"
        Widths of the predictor. "auto": the framework's.
    representation_noise : float
        Strength of noise on the representation before the head (SimCL); 0: none.
    input_components : int, "auto" or None
        Principal axes before the encoder of vectors. "auto": 50 for more than 200 features with neighbor views.
    n_neighbors : int
        Edges of each row in the neighbor graph.
    neighbor_space : {"input", "encoder"}
        Where neighbors are sought: principal axes or words of the input, or, sought anew at each quarter of the
        training, the representation.
    noise_strength : float or "auto"
        Standard deviation of noise views in scaled units; "auto" chooses from 0.25, 0.5, 1 and 2 without labels.
    noise_distribution : {"gaussian", "uniform"}
    corruption_rate : float
        Fraction of the features that corruption and conditional corruption replace.
    mixup_minimum, neighbor_mix_minimum : float
        Smallest fraction of the sample in a mixture.
    adversarial_strength : float
        Step of adversarial views in scaled units.
    crop_minimum : float or "auto"
        Smallest area of a crop, as a fraction of the image; "auto": the recipe's.
    flip : float
        Fraction of the views of images that are mirrored.
    color_strength : float
        Factor on the recipe's color jitter, at most 5; 0: none.
    local_crops : int
        Small crops of each image (multicrop).
    max_edits : int
        Most edits of one sequence (dna).
    mutation_rate : float
        Fraction of the letters that mutation changes, at most 0.75.
    scaling : {"auto", "standard", "global", "none"}
        Input scaling; "auto" takes "global" for vectors when more than half of the entries are zero.
    impute : {"none", "median"}
        What to do with missing values: refuse, or take the median of the training rows.
    epochs : int or "auto"
        "auto": as many as take 2,000 steps (images and DNA: 1,500; more on a GPU).
    batch_size : int
        At least 2: the other rows of a batch are the negatives.
    optimizer : {"adamw", "adam", "sgd", "lars"}
        "lars": rates scaled layer by layer, for large batches.
    learning_rate : float or "auto"
        "auto": 0.003; with lars 0.3 for every 256 rows of a batch.
    weight_decay, warmup : float
        `warmup` is the fraction of the steps in which the rate rises.
    final_weight_decay : float or None
        The weight decay goes there from `weight_decay` by half a cosine (DINO); None: it is constant.
    exclude_norm_and_bias : bool or "auto"
        No weight decay of biases and of the weights of normalization layers, and with lars the plain rate. "auto": with
        lars.
    trust_coefficient : float or "auto"
        Of lars. "auto": 0.001.
    schedule : {"cosine", "constant"}
    constant_predictor_rate : bool
        The predictor keeps its learning rate, whatever the schedule, as published with SimSiam ({predictors}).
    freeze_first_layers : int
        So many first layers of the encoder keep their initial weights (MoCo v3 with transformers: 1).
    freeze_last_layer : float
        Fraction of the steps at whose start the prototypes do not move ({prototypes}).
    gradient_clip : float or None
        Largest norm of the gradient.
    precision : {"32", "bf16"}
    device : {"auto", "cpu", "cuda"} or "cuda:N"
    minutes : float or None
        Stop training at this age.
    checkpoint_every : float
        Seconds between checkpoints of a training with a run folder.
    verbose : bool
        Show progress on stderr when it is a terminal.
    random_state : int, RandomState or None
        Same seed, same machine, same number of threads: same result.
"""


ATTRIBUTES_DOC = """\
    fitted_ : dict
        What fit resolved from the data.
    metrics_ : list of dict
        Loss and label-free diagnostics through training.
    summary_ : dict
        How long the training took, on what, and how it ended.
    status_ : str
        "finished", "interrupted" or "time limit".
    warnings_ : list of str
"""


def with_shared(doc: str) -> str:
    """A class's documentation with the entries that all share in place of its lines "[shared]" and "[attributes]".

    An entry that the class has of its own takes the place of the shared one.
    """
    for marker, shared in (("[shared]", _filled(SHARED_DOC)), ("[attributes]", ATTRIBUTES_DOC)):
        entries = re.split(r"^(?=    \S)", shared, flags=re.MULTILINE)
        fresh = [entry for entry in entries if entry and f"\n{entry.split(' :')[0]} :" not in doc]
        doc = doc.replace(f"    {marker}\n", "".join(fresh))
    return doc


def with_role(role: Role) -> list[str]:
    """Names of the frameworks, of those registered so far, that have such a part (`Framework.training_roles`)."""
    return [name for name in registered("framework") if role in roles_of(get("framework", name))]


def roles_of(entry: Entry | None) -> Mapping[Role, str]:
    """The parts of a registered framework that training recipes treat apart."""
    return getattr(entry.build, "training_roles", {}) if entry else {}


def _filled(doc: str) -> str:
    """The documentation with the names that are built in, from the registry."""
    domains = [domain_of(name) for name in registered("domain")]
    lists = {
        "domains": ", ".join(f'"{domain.name}"' for domain in domains),
        "frameworks": ", ".join(registered("framework", general=True)),
        "view makers": ". ".join(
            f"{d.name.capitalize()}: {', '.join(registered('view maker', d.name))}" for d in domains
        ),
        "default views": ", ".join(f"{d.default_views} ({d.name})" for d in domains),
        "encoders": ". ".join(f"{d.name.capitalize()}: {', '.join(registered('encoder', d.name))}" for d in domains),
        "predictors": ", ".join(with_role("predictor")),
        "prototypes": ", ".join(with_role("last layer")),
        "default encoders": ", ".join(f"{d.default_encoder} ({d.name})" for d in domains),
    }
    for name, text in lists.items():
        doc = doc.replace("{" + name + "}", text)
    lines = (
        textwrap.wrap(line, 116, subsequent_indent=" " * 8) if len(line) > 116 else [line] for line in doc.split("\n")
    )
    return "\n".join(part for wrapped in lines for part in wrapped)


@dataclass(kw_only=True, eq=False, repr=False)
class Arguments:
    """The constructor's arguments, documented in `SHARED_DOC`: stored untouched, checked by fit."""

    domain: str = "auto"
    framework: str | nn.Module = "simclr"
    framework_options: dict[str, Any] | None = None
    view_maker: str | nn.Module = "auto"
    view_options: dict[str, Any] | None = None
    kernel: Literal["auto", "cauchy", "cosine"] = "auto"
    temperature: Positive | None = None
    momentum: Fraction | Auto = "auto"
    queue_size: Count | Auto = "auto"
    prototypes: Count | Auto = "auto"
    encoder: str | nn.Module = "auto"
    encoder_options: dict[str, Any] | None = None
    encoder_weights: str | None = None
    n_components: Count | Auto = "auto"
    stem: Literal["auto", "small", "standard"] = "auto"
    hidden: Widths = (256,)
    norm: Literal["batch", "none"] = "batch"
    projector_dims: Widths | Auto = "auto"
    predictor_dims: Widths | Auto = "auto"
    representation_noise: Rate = 0.0
    input_components: Count | Auto | None = "auto"
    n_neighbors: Count = 5
    neighbor_space: Literal["input", "encoder"] = "input"
    noise_strength: Positive | Auto = 1.0
    noise_distribution: Literal["gaussian", "uniform"] = "gaussian"
    corruption_rate: Fraction = 0.6
    mixup_minimum: Fraction = 0.9
    neighbor_mix_minimum: Fraction = 0.5
    adversarial_strength: Positive = 0.1
    crop_minimum: Portion | Auto = "auto"
    flip: Fraction = 0.5
    color_strength: Jitter = 1.0
    local_crops: Count = 4
    max_edits: Count = 2
    mutation_rate: Fraction = 0.05
    scaling: Literal["auto", "standard", "global", "none"] = "auto"
    impute: Literal["none", "median"] = "none"
    epochs: Count | Auto = "auto"
    batch_size: BatchSize = 256
    optimizer: Literal["adamw", "adam", "sgd", "lars"] = "adamw"
    learning_rate: Positive | Auto = "auto"
    weight_decay: Rate = 0.0
    final_weight_decay: Rate | None = None
    exclude_norm_and_bias: bool | Auto = "auto"
    trust_coefficient: Positive | Auto = "auto"
    warmup: Fraction = 0.0
    schedule: Literal["cosine", "constant"] = "cosine"
    constant_predictor_rate: bool = False
    freeze_first_layers: Natural = 0
    freeze_last_layer: Fraction = 0.0
    gradient_clip: Positive | None = None
    precision: Literal["32", "bf16"] = "32"
    device: str = "auto"
    minutes: Positive | None = None
    checkpoint_every: Rate = 30.0
    verbose: bool = False
    random_state: Any = None
