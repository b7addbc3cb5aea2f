"""The file of all options that the command line checks before it imports torch, and that of all parts, which it lists.

    python tests/cli/test_cli_declared.py

writes them.
"""

import dataclasses
import inspect
import json
import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest

from viewsmith.cli import early, options
from viewsmith.cli.methods import FILE, listing
from viewsmith.core.errors import InputError
from viewsmith.core.registry import Bounds, Entry, Kind, annotations_of, entries, names, standing_in
from viewsmith.estimator.options import check_given, check_options, route_options, schema
from viewsmith.methods.loading import estimators
from viewsmith.modalities import modality_of

KINDS = ("method", "framework", "encoder", "view maker", "features", "modality", "baseline")
CONSTANTS = ("name", "slot", "lead", "further", "presets", "preset_needs", "frameworks")
OF_MODALITY = ("name", "preset_suffix", "default_method", "default_features", "default_views")
OF_MODALITY += ("default_encoder", "default_encoder_on_gpu", "longest_trained")


def text(annotation: Any) -> str:
    """An annotation, as `early` evaluates it; "Any" for what cannot be given in a command."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        bounds = [each for each in inner[1:] if isinstance(each, Bounds)]
        plain = {n: v for each in bounds for n, v in vars(each).items() if v is not None}
        limits = ", ".join(f"{name}={limit}" for name, limit in plain.items())
        return f"typing.Annotated[{text(inner[0])}, Bounds({limits})]" if bounds else text(inner[0])
    if origin in (Union, types.UnionType):
        return " | ".join(map(text, inner))
    if origin is Literal:
        return f"typing.Literal[{', '.join(map(repr, inner))}]"
    if origin in (tuple, list, dict, Mapping, Sequence):
        return f"{origin.__name__}[{', '.join('...' if each is ... else text(each) for each in inner)}]"
    if annotation in (None, types.NoneType):
        return "None"
    return annotation.__name__ if getattr(annotation, "__module__", "") == "builtins" else "Any"


def class_told(cls: type) -> dict[str, Any]:
    fields, hints = {field.name: field for field in dataclasses.fields(cls)}, annotations_of(cls)
    own = [name for name in inspect.get_annotations(cls) if name in fields]
    return {
        "bases": [base.__name__ for base in cls.__bases__ if dataclasses.is_dataclass(base)],
        "constants": {name: repr(cls.__dict__[name]) for name in CONSTANTS if name in cls.__dict__},
        "options": {name: [text(hints[name]), repr(fields[name].default)] for name in own},
    }


def part_told(entry: Entry) -> dict[str, Any]:
    made = modality_of(entry.name) if entry.kind == "modality" else entry.build
    told = OF_MODALITY if entry.kind == "modality" else ("training_roles",)
    attributes = {name: getattr(made, name) for name in told if hasattr(made, name)}
    options = {} if entry.kind in ("method", "modality", "baseline") else entry.options
    found = {
        "name": entry.name,
        "modalities": list(entry.modalities),
        "tags": {name: entry.tags[name] for name in ("general", "argument") if name in entry.tags},
        "attributes": {name: dict(value) if isinstance(value, dict) else value for name, value in attributes.items()},
        "options": {name: text(option.annotation) for name, option in options.items()},
    }
    return found | ({"class": entry.build.__name__} if entry.kind == "method" else {})


def told() -> str:
    """The content of the file, a line for each class and part."""
    # Sorted, since parts are registered in the order in which a process imports them.
    own = {
        kind: sorted((e for e in entries(kind) if e.origin == "viewsmith"), key=lambda e: (e.name, e.modalities))
        for kind in KINDS
    }
    classes = {c.__name__: c for e in own["method"] for c in e.build.__mro__[::-1] if dataclasses.is_dataclass(c)}
    lines = [f" {json.dumps(name)}: {json.dumps(class_told(cls))}" for name, cls in classes.items()]
    kinds = []
    for kind, parts in own.items():
        found = ",\n".join(f"  {json.dumps(part_told(entry))}" for entry in parts)
        kinds.append(f" {json.dumps(kind)}: [\n{found}\n ]")
    return '{"classes": {\n' + ",\n".join(lines) + '\n},\n"parts": {\n' + ",\n".join(kinds) + "\n}}\n"


def test_the_file_has_what_is_declared():
    assert early.FILE.read_text() == told(), "run: python tests/cli/test_cli_declared.py"
    with early.parts_declared():
        listed = {kind: names(kind) for kind in KINDS}
    assert listed == {kind: names(kind) for kind in KINDS}


def listed() -> str:
    """The content of the other file, a line for each part: what `viewsmith methods` lists without parts of others."""
    listing()  # imports what registers parts
    with standing_in([entry for kind in get_args(Kind) for entry in entries(kind) if entry.origin == "viewsmith"]):
        kinds = []
        for kind, parts in listing().items():
            found = ",\n".join(f" {json.dumps(name)}: {json.dumps(part)}" for name, part in parts.items())
            kinds.append(f"{json.dumps(kind)}: {{\n{found}\n}}")
        return "{" + ",\n".join(kinds) + "}\n"


@pytest.mark.full_size
def test_the_other_file_has_what_is_listed():
    assert json.loads(FILE.read_text()) == json.loads(listed()), "run: python tests/cli/test_cli_declared.py"


@pytest.mark.parametrize("method", sorted(estimators()))
def test_declared_options_are_those_of_the_estimator(method):
    cls = estimators()[method]
    with early.parts_declared():
        (entry,) = (each for each in entries("method") if each.name == method)
    for name, field in schema(cls).model_fields.items():
        other = schema(entry.build).model_fields[name]
        assert other.default == field.default
        assert text(other.annotation) == text(field.annotation) or "Module" in str(field.annotation), name


def test_options_of_parts_that_a_preset_chooses_are_taken_before_the_data_are_read():
    with pytest.raises(InputError, match="queue_size is 64, an option that the framework 'simclr' does not have"):
        options.declared_estimator("genview", None, None, ["queue_size=64"], {})
    assert options.declared_estimator("genview", "paper", None, ["queue_size=64"], {"view_cache": "c"}).queue_size == 64


@pytest.mark.parametrize(
    ("letters", "pairs", "method"),
    [(256, [], "contrastive"), (257, [], "linear-contrast"), (2000, ["epochs=2"], "contrastive")],
)
def test_long_dna_has_the_closed_form_by_default(letters, pairs, method):
    assert options.declared_estimator(None, None, None, pairs, {}, "dna", (letters,)).name == method
    assert options.declared_estimator(None, None, None, [], {}, "vectors", (letters,)).name == "contrastive"


FAULTS = [
    ("contrastive", {"epoks": 3}, None),
    ("contrastive", {"epochs": "many"}, None),
    ("contrastive", {"hidden": "a"}, None),
    ("contrastive", {"training.learning_rate": "0"}, None),
    ("contrastive", {"noise.strength": "0.5"}, None),
    ("contrastive", {"view_maker": "mask", "mask_rate": "7"}, None),
    ("contrastive", {"view_maker": "noise", "thinning_keep": "0.2"}, None),
    ("contrastive", {"framework": "vicreg", "temperature": "0.2"}, None),
    ("contrastive", {"framework": "vicreg", "variance_weight": "-1"}, None),
    ("contrastive", {"framework_options": {"sigreg_weight": 2}}, None),
    ("contrastive", {"framework": "lejepa", "framework_options": {"sigreg_weight": 2}}, None),
    ("contrastive", {"encoder": "mlp", "encoder_options": {"depth": 2}}, None),
    ("contrastive", {"trust_coefficient": "0.1"}, None),
    ("contrastive", {"freeze_last_layer": "0.1"}, None),
    ("contrastive", {"encoder": "resnet18"}, "dna"),
    ("pinda", {"noise.strenth": "0.5"}, None),
    ("pinda", {"noise.strength": "-0.5"}, None),
    ("pinda", {"masks": "3"}, None),
    ("crl-tac", {"framework": "byol"}, None),
    ("linear-contrast", {"centers": "1"}, None),
    ("contrastive", {"encoder": "resnet18"}, "vectors"),
    ("contrastive", {"view_maker": "noise+crop"}, "vectors"),
    ("metaug", {"dino": "1"}, None),
]


def fault(method, given, modality):
    (entry,) = (each for each in entries("method") if each.name == method)
    try:
        check_given(check_options(entry.build, *route_options(entry.build, given, modality)), modality)
    except InputError as error:
        return str(error)


@pytest.mark.parametrize(("method", "given", "modality"), FAULTS)
def test_faults_are_told_in_the_words_of_the_estimator(method, given, modality):
    with early.parts_declared():
        found = fault(method, given, modality)
    assert found is not None and found == fault(method, given, modality)


def test_what_one_modality_takes_is_no_fault_before_the_data_are_read():
    with early.parts_declared():
        assert fault("linear-contrast", {"features": "kmers", "k": "5"}, None) is None
        assert "k is '5', expected less than" in str(
            fault("linear-contrast", {"features": "kmers", "k": "5"}, "proteins")
        )


if __name__ == "__main__":
    early.FILE.write_text(told())
    FILE.write_text(listed())
