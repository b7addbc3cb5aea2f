"""Constructor arguments as the configuration: their types and bounds, checked when fit is called, and their docs."""

from __future__ import annotations

import dataclasses
import functools
import re
import types
import typing
from typing import Annotated, Any, Literal

import numpy as np
import pydantic
from pydantic import ConfigDict, Field, create_model

from viewsmith.core.errors import InputError

Count = Annotated[int, Field(ge=1)]
BatchSize = Annotated[int, Field(ge=2)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Portion = Annotated[float, Field(gt=0, le=1)]
Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Widths = tuple[Count, ...]
Auto = Literal["auto"]
Jitter = Annotated[float, Field(ge=0, le=5)]  # the recipes' hue of 0.1 may become half a turn

SHARED_DOC = """\
    domain : {"auto", "vectors", "images", "dna"}
        What the samples are; "auto" looks at them.
    framework : {"simclr", "moco", "moco-v3", "byol", "simsiam", "swav", "dino"}
        Self-supervised objective.
    view_maker : str
        View makers joined by "+". Vectors: identity, noise, corruption, mixup, neighbour-mix, neighbours,
        adversarial, conditional. Images: simclr, byol, moco, multicrop, identity, noise, mixup, neighbours,
        neighbour-mix, adversarial. DNA: dna, reverse-complement, mutation, insertion, deletion, translocation,
        inversion, identity, noise, mixup, neighbours, adversarial. "auto": neighbours, simclr and dna.
    kernel : {"auto", "cauchy", "cosine"}
        SimCLR's similarity of embeddings: 1 / (1 + d^2) as they are, or exp(cosine / temperature). "auto": cauchy on
        vectors and with neighbours.
    temperature : float or None
        None: the framework's usual one; 1 with the Cauchy kernel.
    momentum : float or "auto"
        Of the slowly moving copy (moco, moco-v3, byol, dino).
    queue_size : int or "auto"
        Earlier keys as negatives (moco). "auto": half of the rows, at most 65,536.
    prototypes : int or "auto"
        Number of prototypes (swav) or outputs (dino).
    encoder : str or torch.nn.Module
        Vectors: mlp. Images: cnn, resnet18, resnet50, crl-cnn, timm:NAME. DNA: cnn, hyena. Or a module of your own
        from scaled samples to rows; it is copied. "auto": mlp, cnn (resnet18 on a GPU), cnn.
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
    projection, prediction : tuple of int or "auto"
        Widths of the projection head (the last is the embedding's) and of the predictor; "auto": the framework's.
    representation_noise : float
        Strength of noise on the representation before the head (SimCL); 0: none.
    input_components : int, "auto" or None
        Principal axes before the encoder of vectors. "auto": 50 for more than 200 features with neighbour views.
    n_neighbors : int
        Edges of each row in the neighbour graph.
    neighbour_space : {"input", "encoder"}
        Where neighbours are sought: principal axes or words of the input, or, sought anew at each quarter of the
        training, the representation.
    noise_strength : float or "auto"
        Standard deviation of noise views in scaled units; "auto" chooses from 0.25, 0.5, 1 and 2 without labels.
    noise_distribution : {"gaussian", "uniform"}
    corruption_rate : float
        Share of the features that corruption and conditional corruption replace.
    mixup_minimum, neighbour_mix_minimum : float
        Smallest share of the sample in a mixture.
    adversarial_strength : float
        Step of adversarial views in scaled units.
    crop_minimum : float or "auto"
        Smallest area of a crop, as a share of the image; "auto": the recipe's.
    flip : float
        Share of the views of images that are mirrored.
    colour_strength : float
        Factor on the recipe's colour jitter, at most 5; 0: none.
    local_crops : int
        Small crops of each image (multicrop).
    max_edits : int
        Most edits of one sequence (dna).
    mutation_rate : float
        Share of the letters that mutation changes, at most 0.75.
    scaling : {"auto", "standard", "global", "none"}
        Input scaling; "auto" takes "global" for vectors when more than half of the entries are zero.
    impute : {"none", "median"}
        What to do with missing values: refuse, or take the median of the training rows.
    epochs : int or "auto"
        "auto": as many as take 2,000 steps (images and DNA: 1,500; more on a GPU).
    batch_size : int
        At least 2: the other rows of a batch are the negatives.
    optimizer : {"adamw", "adam", "sgd"}
    learning_rate : float or "auto"
    weight_decay, warmup : float
        `warmup` is the share of the steps in which the rate rises.
    schedule : {"cosine", "constant"}
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
        Same seed, same machine, same result.
"""


@functools.cache
def schema(cls: type) -> type[pydantic.BaseModel]:
    """A model of the constructor's arguments: names, types, bounds and defaults as annotated."""
    hints = typing.get_type_hints(cls, include_extras=True)
    fields: dict[str, Any] = {field.name: (hints[field.name], field.default) for field in dataclasses.fields(cls)}
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    return create_model(cls.__name__, __config__=config, **fields)


def check_options(cls: type, given: dict[str, Any]) -> types.SimpleNamespace:
    """Validated and converted arguments of `cls`, defaults filled in. Texts are converted ("3" where a number is due).

    Raises
    ------
    InputError
        The first argument that is unknown or out of range: what was given, what was expected.
    """
    model = schema(cls)
    unknown = sorted(given.keys() - model.model_fields.keys())
    if unknown:
        known = ", ".join(model.model_fields)
        raise InputError(f"{cls.__name__} has no option {unknown[0]!r}: its options are {known}")
    try:
        value = model.model_validate({name: _plain(name, value, model) for name, value in given.items()})
    except pydantic.ValidationError as error:
        raise InputError(_explain(cls, error)) from None
    return types.SimpleNamespace(**{name: getattr(value, name) for name in model.model_fields})


def _plain(name: str, value: Any, model: type[pydantic.BaseModel]) -> Any:
    """numpy scalars as Python's; the text "none" as None where None is allowed; "256,256" as a list where one is."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, str):
        annotation = str(model.model_fields[name].annotation)
        if value == "none" and "None" in annotation:
            return None
        if "tuple" in annotation.lower() and not value.isalpha():
            return [part for part in value.strip("()[] ").split(",") if part.strip()]
    return value


def _explain(cls: type, error: pydantic.ValidationError) -> str:
    """One line of a pydantic error; for a union, what each of its members expects."""
    details = error.errors()
    name = details[0]["loc"][0]
    same = [d for d in details if d["loc"][0] == name]
    expected = []
    for detail in same:
        text = re.split(", (?:unable|got) ", detail["msg"].removeprefix("Input should be "))[0].removeprefix("a valid ")
        if text not in expected:
            expected.append(text)
    given = same[0]["input"]
    return f"{cls.__name__}: {name} is {given!r}, expected {' or '.join(expected)}"
