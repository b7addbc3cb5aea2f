"""Options are checked when fit is called, converted if that is safe, and refused by name."""

import inspect
import types
import warnings
from collections.abc import Mapping
from typing import Annotated, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest
import torch

from refusals import refusal
from registered import FRAMEWORKS
from viewsmith import CRLTAC, Contrastive, DiffAug, GenView, LinearContrast, MetAug, PiNDA
from viewsmith.core.errors import InputError, join_names
from viewsmith.core.registry import Bounds, registered
from viewsmith.estimator.options import check_options, places, schema
from viewsmith.frameworks import SimCLR
from viewsmith.methods.loading import estimators
from viewsmith.views import Identity

BEYOND = {
    "ge": (-1, "greater than or equal to {:g}"),
    "gt": (0, "greater than {:g}"),
    "le": (1, "less than or equal to {:g}"),
    "lt": (0, "less than {:g}"),
}
WRONG = {
    bool: ("perhaps", "boolean"),
    int: (2.5, "integer"),
    float: (float("nan"), "finite number"),
    str: (3, "string"),
}


def refused(annotation, bounded=False):
    """Values that a type does not allow, each with a part of what the message expects."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        bounds = vars(inner[1]) if isinstance(inner[1], Bounds) else {}
        yield from (
            (bound + BEYOND[s][0], BEYOND[s][1].format(bound)) for s, bound in bounds.items() if bound is not None
        )
        yield from refused(inner[0], bool(bounds))
    elif origin in (Union, types.UnionType):
        yield from refused(inner[0])
    elif origin is Literal:
        yield "neither", ", ".join(map(repr, inner[:-1])) + f" or {inner[-1]!r}" if len(inner) > 1 else repr(inner[0])
    elif origin is tuple:
        yield 8, "tuple"
        yield from (((given,), text) for given, text in refused(inner[0]))
    elif origin in (dict, Mapping):
        yield 3, "dictionary"
    elif annotation in WRONG:
        assert bounded or annotation not in (int, float), "a number has bounds"
        yield WRONG[annotation]


#: What depends on more than the type: option, given value, expected part of the message.
FRAMEWORK = ("framework", "barlow", join_names(FRAMEWORKS))
SHARED = [
    ("modality", "text", join_names(["auto", *registered("modality")])),
    ("encoder", "resnet18", "auto, mlp for vectors"),
    ("temperature", "warm", "number"),
    ("hidden", "8,x", "integer"),
    ("device", "tpu", "'auto', 'cpu', 'cuda' or 'cuda:N'"),
    ("callbacks", 7, "a list of viewsmith.training.Callback or of names: tensorboard, mlflow, wandb"),
    ("random_state", -1, "a non-negative integer, a RandomState or None"),
    ("random_state", "luck", "a non-negative integer, a RandomState or None"),
    ("random_state", 0.5, "a non-negative integer, a RandomState or None"),
]
OWN = {
    Contrastive: [*SHARED, FRAMEWORK],
    PiNDA: [*SHARED, FRAMEWORK, ("generator", "transformer", "'auto' or 'mlp' for vectors")],
    GenView: [*SHARED, FRAMEWORK, ("noise", "loud", "adaptive")],
    DiffAug: [
        *SHARED,
        ("framework", "moco", "'soft' or 'simclr'"),
        ("phases", "BA", "A, AB, ABA, ABABA and so on, or J"),
    ],
    CRLTAC: [
        *SHARED,
        ("framework", "moco", "'info-max'"),
        ("view_maker", "noise", "'auto'"),
        ("nonempty", "bright", "'auto' or None, or in Python a function of views"),
    ],
    MetAug: [
        *SHARED,
        ("framework", "soft", join_names(["oucl", *FRAMEWORKS])),
        ("memory_size", 16, "at least the 178 rows of a batch"),
        ("negatives", 1000, "at most the 256 features"),
    ],
    LinearContrast: [
        *(case for case in SHARED if case[0] != "encoder"),
        ("framework", "barlow", "'linear-contrast'"),
        ("features", 5, "a name, the folder of a run, a fitted model, a module or a function"),
    ],
}
OF_TYPES = {
    cls: [
        (option, given, text)
        for option, annotation in get_type_hints(cls, include_extras=True).items()
        if option in schema(cls).model_fields
        for given, text in refused(annotation)
    ]
    for cls in OWN
}


@pytest.mark.parametrize("cls", OWN)
def test_values_that_a_type_does_not_allow_are_refused(cls):
    for option, given, expected in OF_TYPES[cls]:
        try:
            check_options(cls, {option: given})
            message = "nothing"
        except InputError as error:
            message = str(error)
        assert f"{option} is " in message and expected in message and "\n" not in message, (option, given)


@pytest.mark.parametrize(
    ("cls", "option", "given", "expected"),
    [(cls, *case) for cls, cases in OWN.items() for case in cases if cls is Contrastive or case not in SHARED],
)
def test_invalid_values_are_refused_in_one_line(wine, cls, option, given, expected):
    message = refusal(cls(**{option: given}).fit, wine)
    assert f"{option} is " in message and f"expected {expected}" in message
    assert repr(given) in message or repr(given).strip("'").split(",")[-1] in message


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"view_maker": torch.nn.Dropout()}, "view_maker is of type Dropout.*viewsmith.views.ViewMaker, whose forward"),
        ({"views": torch.nn.Dropout()}, "view_maker is of type Dropout"),
        ({"view_maker": lambda x: x}, "view_maker is of type function"),
        ({"view_maker": Identity}, "view_maker is the class Identity, expected a name or an object"),
        ({"framework": torch.nn.CosineSimilarity()}, "framework is of type CosineSimilarity.*returns losses"),
        ({"encoder": torch.nn.Flatten}, "encoder is the class Flatten.*torch.nn.Module from scaled samples"),
        ({"encoder": lambda x: x}, "encoder is of type function"),
        ({"view_maker": ["noise", "mixup"]}, r"view_maker is a list, expected names joined by \+: 'noise\+mixup'"),
    ],
    ids=lambda value: None if isinstance(value, str) else next(iter(value)),
)
def test_objects_that_are_no_parts_are_refused_with_what_a_part_is(wine, given, says):
    with pytest.raises(InputError, match=says):
        Contrastive(**given).fit(wine)


def test_every_option_has_values_that_are_refused():
    assert set(OWN) == set(estimators().values())
    for cls, cases in OWN.items():
        known = {case[0] for case in cases} | {option for option, *_ in OF_TYPES[cls]}
        assert cls().get_params(deep=False).keys() == known


@pytest.mark.parametrize("name", ["magic", "", "noise+", "noise+magic", "Noise"])
def test_unknown_view_makers_are_refused_with_the_known_ones(wine, name):
    unknown = name.split("+")[-1]
    with pytest.raises(
        InputError, match=f"unknown view maker {unknown!r}.*expected one of adversarial, .*identity, mask, mixup"
    ):
        Contrastive(view_maker=name).fit(wine)


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_missing_gpu_is_refused(wine, device, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert f"device is '{device}', but this machine has no usable GPU" in refusal(Contrastive(device=device).fit, wine)


@pytest.mark.parametrize(
    ("option", "given", "value"),
    [
        ("epochs", np.int64(3), 3),
        ("epochs", "3", 3),
        ("epochs", "auto", "auto"),
        ("learning_rate", np.float32(0.5), 0.5),
        ("learning_rate", "1e-3", 1e-3),
        ("learning_rate", 1, 1.0),
        ("hidden", "256,64", (256, 64)),
        ("hidden", "(256, 64)", (256, 64)),
        ("hidden", "[256]", (256,)),
        ("hidden", "256", (256,)),
        ("hidden", "", ()),
        ("hidden", [8, np.int64(4)], (8, 4)),
        ("hidden", np.array([8, 4]), (8, 4)),
        ("temperature", "none", None),
        ("temperature", None, None),
        ("temperature", "0.2", 0.2),
        ("input_components", "none", None),
        ("input_components", "auto", "auto"),
        ("input_components", "20", 20),
        ("minutes", "none", None),
        ("verbose", "true", True),
        ("verbose", np.bool_(True), True),
        ("impute", "none", "none"),
        ("scaling", "none", "none"),
        ("norm", "none", "none"),
        ("noise_strength", "auto", "auto"),
        ("noise_strength", "0.5", 0.5),
        ("random_state", np.int64(5), 5),
    ],
)
def test_texts_and_numpy_scalars_are_converted(option, given, value):
    found = getattr(check_options(Contrastive, {option: given}), option)
    assert found == value and type(found) is type(value)


def test_defaults_pass_their_own_check_and_are_filled_in():
    for cls in estimators().values():
        assert vars(check_options(cls, {})) == cls().get_params(deep=False)
        for preset in cls.presets.values():
            options = check_options(cls, preset)
            assert all(getattr(options, name) == value for name, value in preset.items())
        assert schema(cls).model_fields.keys() == places(cls).keys()


@pytest.mark.parametrize("part", [{"encoder": torch.nn.Linear(13, 4)}, {"framework": SimCLR()}, {"views": Identity()}])
def test_unknown_options_beside_an_object_are_named(part):
    for name, meant in (("lr", "learning_rate"), ("embedding_dim", "n_components")):
        with pytest.raises(TypeError, match=f"Contrastive has no option '{name}': did you mean {meant}"):
            Contrastive(**part, **{name: 1})


def test_messages_about_unknown_options_have_similar_names():
    assert "CRLTAC has no option 'mask': did you mean masks?" in refusal(check_options, CRLTAC, {"mask": 3})


def test_unknown_options_of_the_constructor_are_refused_with_their_name_here():
    for name, meant in {
        "epoch": "epochs",
        "lr": "learning_rate",
        "seed": "random_state",
        "trainin": "training",
    }.items():
        with pytest.raises(TypeError, match=f"Contrastive has no option '{name}': did you mean {meant}"):
            Contrastive(**{name: 1})
    with pytest.raises(InputError, match="Contrastive has no option 'xyz': `viewsmith methods contrastive` lists"):
        check_options(Contrastive, {"xyz": 1})


def test_names_of_parts_as_classes_are_written_and_of_other_modalities_are_refused_with_both(wine):
    assert "framework is 'SimCLR' (did you mean 'simclr'?)" in refusal(Contrastive(framework="SimCLR").fit, wine)
    with pytest.raises(InputError, match=r"unknown view maker 'simclr' \(it is for images\): expected one of"):
        Contrastive(views="simclr").fit(wine)


def test_a_device_of_torch_is_its_text():
    assert check_options(Contrastive, {"device": torch.device("cuda", 1)}).device == "cuda:1"


def test_converted_options_train(wine):
    tiny = {"hidden": "8", "n_components": "4", "projector_dims": "4", "epochs": "1", "random_state": np.int64(0)}
    plain = {"hidden": (8,), "n_components": 4, "projector_dims": (4,), "epochs": 1, "random_state": 0}
    one, other = Contrastive(**tiny).fit(wine), Contrastive(**plain).fit(wine)
    assert np.array_equal(one.transform(wine), other.transform(wine))


@pytest.mark.parametrize("name", estimators())
def test_every_option_and_attribute_is_documented_once(name):
    doc = inspect.getdoc(estimators()[name])
    entries = [entry for line in doc.splitlines() if " : " in line for entry in line.split(" : ")[0].split(", ")]
    options = list(inspect.signature(estimators()[name]).parameters)
    attributes = ["fitted_", "metrics_", "summary_", "status_", "warnings_"]
    assert sorted(entry for entry in entries if entry in options + attributes) == sorted(options + attributes)
    assert "[shared]" not in doc and "[attributes]" not in doc


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"noise_strength": 0.5}, "noise_strength=0.5 has no effect on the views 'neighbors'"),
        ({"noise_strength": 0.5, "view_maker": "noise+neighbors"}, None),
        ({"n_neighbors": 3}, None),
        ({"n_neighbors": 3, "view_maker": "mask"}, "n_neighbors=3 has no effect on the views 'mask'"),
        ({"flip": 0}, "flip=0 has no effect"),
        ({"flip": "auto", "crop_minimum": "auto"}, None),
    ],
)
@pytest.mark.parametrize("cls", [Contrastive, LinearContrast])
def test_options_of_other_views_are_told(wine, cls, options, told):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        cls(**options, random_state=0, **({"epochs": 1} if cls is Contrastive else {})).fit(wine)
    found = [str(each.message) for each in said if "has no effect" in str(each.message)]
    assert len(found) == (told is not None) and all(told in each for each in found)
