"""Options of estimators: their parts, the chosen parts' own options, and validation against annotations.

A part is a dataclass whose fields are declared once, with type, bounds and a sentence below. An estimator inherits the
fields of its parts, so ``PiNDA(noise=Noise(strength=0.5))``, ``PiNDA(strength=0.5)``,
``set_params(noise__strength=0.5)`` and ``--set noise.strength=0.5`` are the same.

Without torch: the command line checks options before it is imported (`viewsmith.cli.early`). pydantic is imported on
use.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, get_origin

from viewsmith.core import registry
from viewsmith.core.errors import InputError, check, join_names, name_list, one_line, similar

if TYPE_CHECKING:
    import pydantic

    from viewsmith.core.schedule import Role


class OptionsSignature:
    """The arguments of a part as Python shows them: its options."""

    def __get__(self, part: Any, cls: Any) -> inspect.Signature:
        fields = getattr(cls, "__dataclass_fields__", {}).values()
        kind = inspect.Parameter.KEYWORD_ONLY
        return inspect.Signature([inspect.Parameter(field.name, kind, default=field.default) for field in fields])


class Part:
    """Options of one part of an estimator as attributes: those that are given, and the defaults of the class."""

    slot: ClassVar[str] = ""  #: argument of estimators that takes the part
    lead: ClassVar[str] = ""  #: option that can be given without its name, as in ``Views("noise")``
    further: ClassVar[str] = ""  #: option with those of the named part, as in ``Views("window", window_minimum=0.5)``
    __signature__: ClassVar[Any] = OptionsSignature()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "slot" in cls.__dict__:
            cls.__doc__ = registry.with_parameters(cls, cls.__doc__ or "")

    def __init__(self, *lead: Any, **options: Any) -> None:
        if len(lead) > (1 if self.lead else 0):
            raise TypeError(f"{type(self).__name__} takes its options by name")
        vars(self).update(dict.fromkeys([self.lead][: len(lead)], *lead), **options)
        known = leaves(type(self))
        unknown = [name for name in vars(self) if name not in known]
        if unknown and not self.further:
            raise TypeError(f"{type(self).__name__} has no option {unknown[0]!r}{_similar(unknown[0], known)}")

    @classmethod
    def of(cls, options: Any) -> Self:
        """The part of an estimator, with all of its options: what a method is trained with."""
        return cls(**{name: getattr(options, name) for name in leaves(cls)})

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The given options by name."""
        return dict(vars(self))

    def set_params(self, **options: Any) -> Self:
        """Give further options, or other values."""
        vars(self).update(vars(type(self)(**{**vars(self), **options})))
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


def leaves(part: type) -> tuple[str, ...]:
    """Names of the options of a part."""
    return tuple(field.name for field in dataclasses.fields(part))


@functools.cache
def slots(cls: Any) -> dict[str, type[Part]]:
    """The parts of an estimator by the argument that takes them."""
    return {base.slot: base for base in cls.__mro__ if issubclass(base, Part) and base.__dict__.get("slot")}


@functools.cache
def places(cls: Any) -> dict[str, str]:
    """The argument that takes an option of an estimator: that of its part; for an option of none, itself."""
    of_parts = {name: slot for slot, part in slots(cls).items() for name in leaves(part)}
    # Not by `dataclasses.fields`: documentation is written before a class is made a dataclass.
    options = (name for name, hint in registry.annotations_of(cls).items() if get_origin(hint) is not ClassVar)
    found = {name: of_parts.get(name, name) for name in options}
    # The parts first, those of the method before the others.
    order = [*slots(cls), *found.values()]
    return dict(sorted(found.items(), key=lambda item: order.index(item[1])))


def expanded(cls: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options by name, from options, parts (also as mappings), and options with the name of their part before them,
    ``noise__strength`` or ``noise.strength``; an option of which two values are given raises InputError."""
    found: dict[str, Any] = {}
    for name, value in _pairs(cls, given):
        if name in found and found[name] is not value and repr(found[name]) != repr(value):
            raise InputError(f"{name} is given as {found[name]!r} and as {value!r}: leave one out")
        found[name] = value
    return found


def _pairs(cls: type, given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    known = slots(cls)
    for name, value in given.items():
        slot, dot, leaf = name.replace("__", ".", 1).partition(".")
        part = known.get(slot)
        if part is None:
            yield name, value
        elif dot:
            yield _of_part(part, leaf), value
        elif isinstance(value, part):
            yield from value.get_params().items()
        elif isinstance(value, Mapping):
            for leaf, each in value.items():
                yield _of_part(part, leaf), each
        elif part.lead and not isinstance(value, Part):
            yield part.lead, value
        elif value is not None:
            yield slot, value  # no part, see `check_parts`


def check_parts(estimator: Any) -> None:
    """Raise InputError for what was given as a part and is none."""
    cls: type = type(estimator)
    for slot, part in slots(cls).items():
        value = vars(estimator).get(slot)
        if isinstance(value, Part) or (value is not None and slot != part.lead):
            raise InputError(f"{slot} is {value!r}, expected {part.__name__}(...)")


def _of_part(part: type[Part], leaf: str) -> str:
    """The name of an option of a part; "name" is the leading one."""
    if leaf == "name" and part.lead:
        return part.lead
    known = leaves(part)
    if leaf not in known and f"{part.slot}_{leaf}" in known:
        return f"{part.slot}_{leaf}"
    if leaf not in known and not part.further:
        raise InputError(f"{part.slot} has no option {leaf!r}{_similar(leaf, known)}")
    return leaf


def _similar(name: str, known: tuple[str, ...]) -> str:
    close = similar(name, known)
    return f": did you mean {' or '.join(close)}?" if close else f": its options are {', '.join(known)}"


def no_option(cls: Any, name: str, further: Iterable[str] = ()) -> InputError:
    """The error for an option that an estimator does not have; it also suggests parts, and `further` options of those
    that are chosen."""
    close = similar(name, [*(field.name for field in dataclasses.fields(cls)), *slots(cls), *further])
    listed = f"`viewsmith methods {getattr(cls, 'name', '')}` lists its options"
    hint = f"did you mean {' or '.join(close)}?" if close else listed
    return InputError(f"{cls.__name__} has no option {name!r}: {hint}")


class Signature:
    """The arguments of an estimator as Python shows them: its parts, and the options of no part."""

    def __get__(self, estimator: Any, cls: type) -> inspect.Signature:
        hints, parts = registry.annotations_of(cls), slots(cls)
        fields = {field.name: field for field in dataclasses.fields(cls)}
        shown, kind = [], inspect.Parameter.KEYWORD_ONLY
        for name in dict.fromkeys(places(cls).values()):
            part = parts.get(name)
            lead = fields[part.lead if part is not None else name] if part is None or part.lead else None
            default = None if lead is None else lead.default
            annotation = hints[lead.name] if lead is not None and part is None else Any
            shown.append(inspect.Parameter(name, kind, default=default, annotation=annotation))
        return inspect.Signature(shown)


def constructor(cls: Any) -> Any:
    """`__init__` of an estimator with its options and their defaults as arguments, from which scikit-learn tells what
    to show of an estimator in a pipeline."""

    def __init__(self: Any, **options: Any) -> None:
        super(cls, self).__init__(**options)

    kind = inspect.Parameter.KEYWORD_ONLY
    named = (inspect.Parameter(name, kind, default=getattr(cls, name)) for name in places(cls))
    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    __init__.__signature__ = inspect.Signature([first, *named])  # type: ignore[attr-defined]
    return __init__


def arguments_text(cls: type) -> dict[str, str]:
    """Entries of the section "Parameters" of an estimator, by argument: of a part its options, in a line."""
    own, parts, found = registry.entries_of(cls), slots(cls), {}
    for name in dict.fromkeys(places(cls).values()):
        part = parts.get(name)
        if part is None:
            found[name] = own.get(name, "")
            continue
        given = f", or `{part.lead}` alone" if part.lead else ""
        theirs = ", ".join(leaf for leaf, slot in places(cls).items() if slot == name)
        about = (part.__doc__ or "").strip().splitlines()[0]
        found[name] = f"{name} : viewsmith.parts.{part.__name__}{given}\n    {about} Options: {theirs}.\n"
    return found


#: Options of earlier versions (of a part: PART.OPTION), and their names now.
RENAMED = {
    "dino.prototypes": "out_dim",
    "domain": "modality",
    "freeze_first_layers": "freeze",
    "skip_components": "appended_pca",
    "skip_length": "appended_length",
    "skip_unit": "appended_unit",
}


@functools.cache
def schema(cls: type) -> type[pydantic.BaseModel]:
    """A model of the constructor's arguments: names, types, bounds and defaults as annotated."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return _model(cls.__name__, {field.name: (hints[field.name], field.default) for field in dataclasses.fields(cls)})


def _model(name: str, fields: dict[str, Any]) -> type[pydantic.BaseModel]:
    import pydantic

    config = pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    return pydantic.create_model(name, __config__=config, **fields)


T = TypeVar("T")


def check_options(cls: type[T], given: dict[str, Any], further: Collection[str] = ()) -> T:
    """An object of `cls` with validated, converted arguments; messages also suggest `further` options of its parts."""
    model = schema(cls)  # type: ignore[arg-type]
    unknown = sorted(given.keys() - model.model_fields.keys())
    if unknown:
        if unknown[0] in RENAMED:
            raise InputError(f"{cls.__name__} has no option {unknown[0]!r}: it is called {RENAMED[unknown[0]]} now")
        raise no_option(cls, unknown[0], further)
    return cls(**_validated(model, given, cls.__name__))


def check_renamed(entry: registry.Entry, given: Iterable[str]) -> None:
    """Raise InputError, with the name of today, for an option that the part had under another name."""
    for name in given:
        if now := RENAMED.get(f"{entry.name}.{name}"):
            raise InputError(f"the {entry.kind} {entry.name!r} has no option {name!r}: it is called {now} now")


def check_part_options(entry: registry.Entry, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a registered part, validated and converted by its annotations."""
    known = entry.options
    check_renamed(entry, given)
    if unknown := sorted(given.keys() - known.keys()):
        theirs = f"its options are {', '.join(known)}" if known else "it has none"
        raise InputError(f"the {entry.kind} {entry.name!r} has no option {unknown[0]!r}: {theirs}")
    model = _model(f"the {entry.kind} {entry.name}", {name: (known[name].annotation, ...) for name in given})
    return _validated(model, given, f"the {entry.kind} {entry.name!r}")


def _validated(model: type[pydantic.BaseModel], given: Mapping[str, Any], owner: str) -> dict[str, Any]:
    import pydantic

    try:
        value = model.model_validate({name: _plain(name, value, model) for name, value in given.items()})
    except pydantic.ValidationError as error:
        raise InputError(_explain(owner, error)) from None
    return {name: getattr(value, name) for name in model.model_fields}


def _plain(name: str, value: Any, model: type[pydantic.BaseModel]) -> Any:
    """Convert scalars of numpy to Python's, devices to text, "none" to None where None is allowed, and "256,256" to
    a list for a tuple."""
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:  # which is not imported for this
        return value.item()
    if type(value).__module__ == "torch" and type(value).__name__ == "device":
        return str(value)
    if isinstance(value, str):
        annotation = str(model.model_fields[name].annotation)
        if value == "none" and "None" in annotation:
            return None
        if "tuple" in annotation.lower() and not value.isalpha():
            return [part for part in value.strip("()[] ").split(",") if part.strip()]
    return value


def _explain(owner: str, error: pydantic.ValidationError) -> str:
    """One line for a pydantic error; for a union, what each of its members expects."""
    details = error.errors()
    name, *inner = details[0]["loc"]
    same = [d for d in details if d["loc"][0] == name]
    if inner and details[0]["type"] == "literal_error" and "[" not in str(inner[0]):
        name = f"{name}: {one_line(inner[0], 60)}"  # a key of a mapping, such as the name of a column
    expected = []
    for detail in same:
        text = re.split(", (?:unable|got) ", detail["msg"].removeprefix("Input should be "))[0].removeprefix("a valid ")
        if detail["type"] == "missing":  # of a tuple: the number of the value
            text = f"at least {int(detail['loc'][-1]) + 1} values"
        elif detail["type"] == "too_long":
            text = f"at most {detail['ctx']['max_length']} values"
        elif detail["type"] == "tuple_type":
            text = f"a tuple such as ({detail['input']!r},)" if isinstance(detail["input"], int) else "a tuple"
        elif detail["type"] in ("sequence_str", "is_instance_of") and "Sequence" in text:
            text = "a list"
        if text not in expected:
            expected.append(text)
    given = same[0]["input"]
    return f"{owner}: {name} is {given!r}, expected {' or '.join(expected)}"


# ---- options of the chosen parts -------------------------------------------------------------------------------------
MODULE = "module:"  # prefix of the class of a custom part in configurations

# Options of several frameworks that are also arguments of the estimators.
FRAMEWORK_OPTIONS = (
    *("kernel", "temperature", "momentum", "queue_size", "prototypes", "out_dim", "projector_dims", "predictor_dims"),
)

#: Options of networks and of their training, which a method without networks lacks.
OF_TRAINING = (
    *("framework_options", "kernel", "temperature", "momentum", "queue_size", "prototypes", "out_dim", "encoder"),
    *("encoder_options", "encoder_weights", "stem", "hidden", "norm", "projector_dims", "predictor_dims"),
    *("representation_noise", "input_components", "neighbor_space", "supervision", "supervision_weight", "epochs"),
    *("optimizer", "learning_rate", "weight_decay", "final_weight_decay", "exclude_norm_and_bias"),
    *("trust_coefficient", "warmup", "schedule", "constant_predictor_rate", "freeze", "freeze_last_layer"),
    *("gradient_clip", "precision", "compile"),
)


def known_frameworks(allowed: Sequence[str]) -> list[str]:
    """Names of the frameworks that a method accepts; "*" stands for all general ones."""
    general = [name for name in registry.names("framework") if registry.find("framework", name).tag("general", True)]
    return [name for part in allowed for name in (general if part == "*" else [part])]


def check_framework(name: str, allowed: Sequence[str]) -> None:
    """Raise InputError for a name that is not a framework, or one that the method does not accept."""
    check_given_again("framework", name, "framework")
    known = known_frameworks(allowed)
    check(name in known, "framework", f"{name!r}{registry.meant(name, known)}", join_names(known))


def check_given_again(part: str, text: str, argument: str) -> None:
    """Raise InputError if the text of a part in a configuration is of a custom one, which has to be given again."""
    if text.startswith(MODULE):
        raise InputError(
            f"the {part} of this model {'are' if part == 'features' else 'is'} custom ({text.removeprefix(MODULE)}): "
            f"give {'them' if part == 'features' else 'it'}, as in viewsmith.load(run, {argument}=...)"
        )


def given_framework_options(options: Any, entry: registry.Entry) -> dict[str, Any]:
    """Options of a framework from the estimator's arguments and `framework_options`."""
    given: dict[str, Any] = {}
    for name in FRAMEWORK_OPTIONS:
        value = getattr(options, name)
        if value in (None, "auto"):
            continue
        if name not in entry.options:
            check_renamed(entry, [name])
            lacks = f"an option that the framework {entry.name!r} does not have"
            theirs = f"its options are {', '.join(entry.options)}" if entry.options else "it has none"
            raise InputError(f"{name} is {value!r}, {lacks}: {theirs}; leave it out")
        given[name] = value
    return given | check_part_options(entry, options.framework_options or {})


def roles_of(entry: registry.Entry | None) -> Mapping[Role, str]:
    """The parts of a registered framework that training recipes treat apart."""
    return getattr(entry.build, "training_roles", {}) if entry else {}


def with_role(role: Role) -> list[str]:
    """Names of the frameworks, of those registered so far, that have such a part (`Framework.training_roles`)."""
    return [name for name in registry.registered("framework") if role in roles_of(registry.get("framework", name))]


#: Options for a part that not every framework has.
ROLE_OPTIONS: dict[str, Role] = {"constant_predictor_rate": "predictor", "freeze_last_layer": "last layer"}


def check_recipe(options: Any, framework: str, known: list[str]) -> None:
    """Raise InputError for options of a recipe that the optimizer or the framework does not have."""
    if options.trust_coefficient != "auto" and options.optimizer != "lars":
        raise InputError(
            f"trust_coefficient is {options.trust_coefficient}, an option of the optimizer lars, not of "
            f"{options.optimizer}: set optimizer='lars', or leave it out"
        )
    roles = roles_of(registry.get("framework", framework))
    if not isinstance(custom := options.framework, str):
        framework, roles = type(custom).__name__, getattr(custom, "training_roles", {})
    for option, role in ROLE_OPTIONS.items():
        value = getattr(options, option)
        if not value or role in roles:
            continue
        others = [name for name in known if role in roles_of(registry.get("framework", name))]
        advice = f"take one of {join_names(others)}, or leave it out" if others else "leave it out"
        raise InputError(f"{option} is {value}, but the framework {framework!r} has no {role}: {advice}")


#: Arguments with options of parts, by the argument with the names of the parts.
OPTIONS_OF = {"framework": "framework_options", "view_maker": "view_options", "encoder": "encoder_options"}
OPTIONS_OF |= {"features": "features_options"}
KINDS: dict[str, registry.Kind] = {"framework": "framework", "view_maker": "view maker", "encoder": "encoder"}
KINDS |= {"features": "features"}


def route_options(cls: type, given: Mapping[str, Any], modality: str | None = None) -> tuple[dict[str, Any], list[str]]:
    """Arguments for an estimator; options that it does not have are passed to the chosen parts that have them."""
    own, given = {field.name for field in dataclasses.fields(cls)}, expanded(cls, given)
    left = given.keys() - own
    if not left:
        return given, []
    chosen = {part: _chosen(cls, given, part, modality) for part, theirs in OPTIONS_OF.items() if theirs in own}
    arguments = {name: value for name, value in given.items() if name in own}
    for name in sorted(left):
        takers = {arg: entry for arg, found in chosen.items() for entry in found[::-1] if name in entry.options}
        if len(takers) > 1:
            parts = " and ".join(f"the {entry.kind} {entry.name!r}" for entry in takers.values())
            tables = " or ".join(f"[{OPTIONS_OF[argument]}]" for argument in takers)
            raise InputError(f"{name} is an option of {parts}: set it in a file (--config), in the table {tables}")
        if not takers:
            _check_keyword_only(name, [entry for found in chosen.values() for entry in found])
            _check_not_elsewhere(cls, name, modality)
            arguments[name] = given[name]
        for argument, entry in takers.items():
            value = given[name] if modality is None else check_part_options(entry, {name: given[name]})[name]
            there = arguments.get(OPTIONS_OF[argument])
            arguments[OPTIONS_OF[argument]] = (there if isinstance(there, dict) else {}) | {name: value}
    return arguments, sorted({name for found in chosen.values() for entry in found for name in entry.options} - own)


def _check_keyword_only(name: str, parts: Sequence[registry.Entry]) -> None:
    """Raise InputError for an argument of a plug-in's part that is no option, because it can be given by place."""
    for entry in parts:
        if entry.origin != "viewsmith" and name in inspect.signature(entry.build).parameters:
            raise InputError(
                f"{name} is no option of the {entry.kind} {entry.name!r}, because it can be given by place: write * "
                "before it in the arguments"
            )


def _check_not_elsewhere(cls: type, name: str, modality: str | None) -> None:
    """Raise InputError, with the name of the part, for an option of a part that is not chosen."""
    for argument, kind in KINDS.items():
        for entry in registry.entries(kind, modality):
            if name in entry.options and entry.tag("general", True):
                todo = f"set {argument} to it" if hasattr(cls, argument) else "choose --method linear-contrast"
                raise InputError(
                    f"{cls.__name__} has no option {name!r}, but the {kind} {entry.name!r} has: {todo}, or "
                    f"leave {name} out"
                )
    methods: list[Any] = registry.entries("method")
    owners = [each.name for each in methods if name in {field.name for field in dataclasses.fields(each.build)}]
    if owners:
        raise InputError(
            f"{cls.__name__} has no option {name!r}, which is one of {name_list(owners)}: choose the method "
            f"(--method), or leave {name} out"
        )


def _chosen(cls: type, given: Mapping[str, Any], argument: str, modality: str | None) -> list[registry.Entry]:
    """Registry entries of the parts that an argument names; for "auto", the possible defaults."""
    text = given.get(argument, getattr(cls, argument))
    if not isinstance(text, str) or text.startswith(MODULE):  # an object has its own options
        return []
    kind = KINDS[argument]
    if kind == "framework":
        return [registry.find(kind, text)]
    found: list[registry.Entry] = []
    for modal in [entry.name for entry in registry.entries("modality")] if modality is None else [modality]:
        each = registry.built("modality", modal)
        own = {"encoder": [each.default_encoder, each.default_encoder_on_gpu], "features": [each.default_features]}
        default = own.get(argument, each.default_views.split("+"))
        listed = default if text == "auto" else text.split("+") if kind == "view maker" else [text]
        found += [entry for name in listed if (entry := registry.get(kind, name, each.name)) is not None]
    if not found and text != "auto" and kind != "features":  # which may be the folder of a run
        registry.find(kind, text.split("+")[0], modality)
    return found


def check_given(estimator: Any, modality: str | None = None) -> None:
    """Raise InputError for a framework that the method does not take, options of parts that those chosen do not have,
    and values that they do not take; without a modality, only if that holds in each of them."""
    check_framework(estimator.framework, estimator.frameworks)
    given_framework_options(estimator, registry.find("framework", estimator.framework))
    check_recipe(estimator, estimator.framework, known_frameworks(estimator.frameworks))
    if modality is not None and isinstance(estimator.encoder, str) and estimator.encoder != "auto":
        encoder_entry(estimator.encoder, modality)
    if modality is not None and isinstance(estimator.view_maker, str) and estimator.view_maker != "auto":
        for name in estimator.view_maker.split("+"):
            registry.find("view maker", name, modality)
    for argument, table in OPTIONS_OF.items():
        further = {} if argument == "framework" else getattr(estimator, table, None) or {}
        parts = _chosen(type(estimator), vars(estimator), argument, modality) if further else []
        for name, value in further.items():
            takers = [part for part in parts if name in part.options]
            if not takers and parts and getattr(estimator, argument) != "auto":
                raise lacking(parts, name, table)
            faults = [fault for taker in takers if (fault := _fault_of(taker, name, value)) is not None]
            if faults and len(faults) == len(takers):
                raise faults[0]


def _fault_of(part: registry.Entry, name: str, value: Any) -> InputError | None:
    try:
        check_part_options(part, {name: value})
    except InputError as fault:
        return fault
    return None


def encoder_entry(encoder: str, modality: str) -> registry.Entry:
    """The registry entry of an encoder; raises InputError if there is none for the modality."""
    try:
        return registry.find("encoder", encoder, modality)
    except InputError:
        known = ", ".join(registry.names("encoder", modality))
        raise InputError(
            f"encoder is {encoder!r}, expected auto, {known} for {modality}, or a custom torch.nn.Module"
        ) from None


def lacking(parts: Sequence[registry.Entry], name: str, argument: str) -> InputError:
    """The error for an option that none of the parts has."""
    known = sorted({option for part in parts for option in part.options})
    theirs = f"expected {', '.join(known)}" if known else "expected no options"
    return InputError(f"{argument} has the unknown option {name!r}, {theirs}: leave it out")
