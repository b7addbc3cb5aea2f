"""The registry of all parts with a name: methods, frameworks, view makers, encoders, modalities and so on; and options
that are declared once.

A part is registered where it is defined, with a help line, its modalities and its publication. Its options are the
keyword-only arguments of the class or function that builds it, with their defaults and annotations. Lists, validation,
help texts and the contract tests are derived from the entries. Other packages register their parts in the same way, in
a module that is an entry point of the group ``viewsmith.plugins``. This module is imported when a list or a name that
is not built in is first requested.

Options of estimators and readers are attributes of a class with a type, a default and, below it, what it means: checks,
documentation and flags of commands follow from that. The first paragraph of the text is the help of a flag.
"""

import ast
import contextlib
import dataclasses
import difflib
import functools
import importlib
import inspect
import math
import re
import sys
import textwrap
import types
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from viewsmith.core.errors import InputError, check_choice, duplicates, error_text

Kind = Literal[
    "method", "framework", "view maker", "encoder", "features", "noise generator", "transforms", "modality", "reader",
    "baseline",
]  # fmt: skip
GROUP = "viewsmith.plugins"
#: Types of options without an annotation, by those of their defaults, so that texts are converted.
_KINDS: dict[type, Any] = {bool: bool, str: str, int: int | float, float: float}
T = TypeVar("T")


@dataclass(frozen=True)
class Option:
    """A keyword-only argument of a part: its annotation and its default, or `REQUIRED`."""

    annotation: Any
    default: Any
    REQUIRED: typing.ClassVar[Any] = inspect.Parameter.empty


@dataclass(frozen=True)
class Bounds:
    """Bounds of a finite number in an annotation, ``Annotated[float, Bounds(gt=0)]``, for layers without pydantic."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None

    def check(self, name: str, value: Any) -> None:
        """Raise InputError unless a number has these bounds and is finite."""
        low = self.ge if self.ge is not None else self.gt
        holds = -math.inf < value < math.inf and not (
            (self.ge is not None and value < self.ge)
            or (self.gt is not None and value <= self.gt)
            or (self.le is not None and value > self.le)
            or (self.lt is not None and value >= self.lt)
        )
        if holds:
            return
        if self.le is not None:
            expected = f"a number from {low:g} to {self.le:g}"
        elif self.gt is not None:
            expected = f"a number above {low:g}"
        else:
            expected = f"at least {low}" if isinstance(self.ge, int) else f"a number of at least {low:g}"
        raise InputError(f"{name} is {value}, expected {expected}")

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        schema = handler(source)
        bounds = {name: value for name, value in vars(self).items() if value is not None}
        return schema | bounds | ({"allow_inf_nan": False} if schema["type"] == "float" else {})


Positive = Annotated[float, Bounds(gt=0)]
Fraction = Annotated[float, Bounds(ge=0, le=1)]
Portion = Annotated[float, Bounds(gt=0, le=1)]
Weight = Annotated[float, Bounds(ge=0.0)]


@dataclass(frozen=True)
class Entry:
    """A registered part."""

    kind: Kind
    name: str
    build: Callable[..., Any]  #: class or function that builds the part; its keyword-only arguments are the options
    help: str  #: one line
    modalities: tuple[str, ...] = ()  #: for which the part can be used; empty: all
    source: str = ""  #: the publication, such as "Chen et al. 2020"
    tags: Mapping[str, Any] = field(default_factory=dict)  #: further properties, which depend on the kind
    origin: str = "viewsmith"  #: the package that registered it

    @property
    def options(self) -> dict[str, Option]:
        """Options by name. If only a method can build the part, its options are in the tag ``options``; the tag
        ``named`` has other names, which are unique in a modality, of attributes of a class that are options."""
        if "options" in self.tags:
            return {name: Option(annotation, None) for name, annotation in self.tags["options"].items()}
        if "named" in self.tags:
            declared = self.build.declared_options()  # type: ignore[attr-defined]
            return {name: declared[attribute] for name, attribute in self.tags["named"].items()}
        # A class that needs other parts, as a framework needs an encoder, has a class method `build`. It can have
        # options and, with **options, pass the others to the constructor.
        build: Any = getattr(self.build, "build", None) if inspect.isclass(self.build) else None
        functions: list[Any] = [] if build is None else [build]
        found: dict[str, Option] = {}
        if build is None or _takes_others(build):
            made: Any = self.build.__init__ if inspect.isclass(self.build) else self.build
            # A constructor that takes no others has only its own: attributes of its class are no options.
            found = dict(getattr(self.build, "declared_options", dict)()) if _takes_others(made) else {}
            functions += [] if found else [made]
        for function in functions:
            hints = typing.get_type_hints(function, include_extras=True)
            for name, parameter in _parameters(function).items():
                if parameter.kind is parameter.KEYWORD_ONLY:
                    found[name] = Option(hints.get(name, _KINDS.get(type(parameter.default), Any)), parameter.default)
        return found

    def made(self, context: Any, **options: Any) -> Any:
        """The part; a class takes only its options."""
        of_context = () if isinstance(self.build, type) else (context,)
        named = self.tag("named", {})
        return self.build(*of_context, **{named.get(name, name): value for name, value in options.items()})

    def tag(self, name: str, default: Any = None) -> Any:
        """The value of a tag, or `default` if the part does not have it."""
        return self.tags.get(name, default)

    def serves(self, modality: str | None) -> bool:
        """Whether the part can be used in a modality, which may have an argument; None: in any modality."""
        if modality is None or not self.modalities:
            return True
        name, colon, _ = modality.partition(":")
        return modality in self.modalities or (bool(colon) and f"{name}:" in self.modalities)


_entries: dict[Kind, list[Entry]] = {kind: [] for kind in typing.get_args(Kind)}

#: Modules that register parts of a kind, imported when a list or a name that is not registered yet is requested.
LATER: dict[Kind, list[str]] = {kind: [] for kind in _entries}
_plugins: list[str] | None = None


def register(
    kind: Kind, name: str, *, help: str, modalities: tuple[str, ...] | str = (), source: str = "", **tags: Any
) -> Callable[[T], T]:
    """Decorator that registers a class or a function under a name.

    Parameters
    ----------
    kind : str
        See `Kind`.
    name : str
        The name for users. After a name that ends in a colon, users write an argument (``timm:NAME``).
    help : str
        One line for lists and help texts.
    modalities : str or tuple of str
        The modalities for which the part can be used; empty: all. Two parts of different modalities can have one name.
    source : str
        The publication.
    **tags
        Further properties, see `Entry.tags`.

    Raises
    ------
    ValueError
        Another part has this name, or there is no such kind.
    """
    if kind not in _entries:
        raise ValueError(f"the kind of part is {kind!r}, expected one of {', '.join(_entries)}")

    def add(build: T) -> T:
        served = (modalities,) if isinstance(modalities, str) else tuple(modalities)
        origin = str(getattr(build, "__module__", "")).partition(".")[0]
        if origin != "viewsmith":
            _check_called(kind, name, build)
        entry = Entry(kind, name, typing.cast(Callable[..., Any], build), help, served, source, tags, origin)
        for other in _entries[kind]:
            clash = other.name == name and (not other.modalities or not served or {*other.modalities} & {*served})
            if clash and not _same(other.build, build):
                raise ValueError(f"the {kind} {name!r} is registered already, by {other.build.__module__}")
        # If a module is imported again, its new entry replaces the old one.
        _entries[kind][:] = [e for e in _entries[kind] if e.name != name or not _same(e.build, build)] + [entry]
        return build

    return add


#: What subclasses have to define, by the modules of their base classes.
_BASES = ("torch.nn.modules.module", "viewsmith.frameworks.base", "viewsmith.views.base", "viewsmith.estimator.base")


def _check_called(kind: Kind, name: str, build: Any) -> None:
    """Raise ValueError for a part that cannot be called as viewsmith calls the parts of its kind."""

    def takes(what: str, function: Any, *given: str, **named: None) -> None:
        with contextlib.suppress(TypeError):
            if function is not None and function.__module__ not in _BASES:
                inspect.signature(function).bind_partial(*given, **named)
                return
        raise ValueError(f"the {kind} {name!r} needs {what}")

    is_class = inspect.isclass(build)
    if kind == "method":
        what = "a subclass of ViewsmithEstimator, with _build(self, plan)"
        takes(what, getattr(build, "_build", None), "self", "plan")
    elif kind == "framework" and is_class:
        if not hasattr(build, "project_pair"):
            raise ValueError(f"the framework {name!r} is no subclass of viewsmith.frameworks.Framework")
        takes("forward(self, pair, progress=0.0)", build.forward, "self", "pair", "progress")
        takes("__init__(self, encoder=None, head=None, *, OPTIONS)", build, "encoder", "head")
    elif kind == "view maker" and is_class:
        what = "forward(self, x, *, index=None, generator=None)"
        takes(what, getattr(build, "forward", None), "self", "x", index=None, generator=None)
    elif kind == "encoder":
        takes("to take an EncoderContext, and options by name", build, "context")
    elif kind == "reader":
        takes("to take a path and DataOptions", build, "path", "options")
    if kind in ("method", "modality") and is_class and (said := getattr(build, "name", None)) != name:
        raise ValueError(f"the {kind} {name!r} has the class attribute name = {said!r}, expected {name!r}")


def _parameters(function: Any) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function).parameters


def _takes_others(function: Any) -> bool:
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in _parameters(function).values())


def _same(one: Any, other: Any) -> bool:
    return (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)


def registered(kind: Kind, modality: str | None = None, **tags: Any) -> list[str]:
    """Sorted names of the parts registered so far that have these tags. Plug-ins are not imported."""
    found = [e for e in _entries[kind] if e.serves(modality) and all(e.tag(n, v) == v for n, v in tags.items())]
    return sorted({_display_name(e) for e in found})


def entries(kind: Kind, modality: str | None = None) -> list[Entry]:
    """All parts of a kind, including plug-ins, in the order of registration; only those for `modality`, if given."""
    _load_later(kind)
    load_plugins()
    return [entry for entry in _entries[kind] if entry.serves(modality)]


def names(kind: Kind, modality: str | None = None) -> list[str]:
    """Sorted names of `entries` without duplicates. A name with an argument is written ``name:ARGUMENT``."""
    return sorted({_display_name(entry) for entry in entries(kind, modality)})


def _display_name(entry: Entry) -> str:
    return entry.name + entry.tag("argument", "NAME") if entry.name.endswith(":") else entry.name


def get(kind: Kind, name: str, modality: str | None = None) -> Entry | None:
    """The part with this name, or None."""
    for complete in (None, lambda: _load_later(kind), load_plugins):
        if complete is not None:
            complete()
        for entry in _entries[kind]:
            named = entry.name == name or (entry.name[-1] == ":" and name.startswith(entry.name))
            if named and entry.serves(modality):
                return entry
    return None


def find(kind: Kind, name: str, modality: str | None = None) -> Entry:
    """The part with this name.

    Raises
    ------
    InputError
        There is no such part. The message lists the known names and suggests a similar one.
    """
    if (entry := get(kind, name, modality)) is not None:
        return entry
    raise unknown(kind, name, names(kind, modality), f" for {modality}" if modality else "")


def built(kind: Kind, name: str) -> Any:
    """A part that is built without options; what follows a colon in its name is its argument."""
    entry, (_, _, argument) = find(kind, name), name.partition(":")
    return entry.build(argument) if argument else entry.build()


def others() -> list[str]:
    """The packages, beside this one, that have registered parts so far."""
    return sorted({entry.origin for found in _entries.values() for entry in found} - {"viewsmith"})


def has_others() -> bool:
    """Whether plug-ins, or the program, register parts beside those of the package."""
    return bool(others() or plugins())


@contextlib.contextmanager
def standing_in(declared: Sequence[Entry]) -> Iterator[None]:
    """Other entries take the place of all that are registered, until the context ends; nothing may be imported in it
    that registers parts."""
    global _plugins
    before, later, loaded = {k: [*v] for k, v in _entries.items()}, {k: [*v] for k, v in LATER.items()}, _plugins
    _plugins = []
    for kind in _entries:
        _entries[kind][:], LATER[kind][:] = [entry for entry in declared if entry.kind == kind], []
    try:
        yield
    finally:
        _plugins = loaded
        for kind in _entries:
            _entries[kind][:], LATER[kind][:] = before[kind], later[kind]


def unknown(kind: Kind, name: str, known: Sequence[str], place: str = "") -> InputError:
    """The error for a name that no part of a kind has: it lists the known names and suggests a similar one."""
    served = sorted({modality for entry in _entries[kind] if entry.name == name for modality in entry.modalities})
    hint = f" (it is for {', '.join(served)})" if served else meant(name, known)
    if kind == "method" and get("framework", name) is not None:
        hint = f" (it is a framework: --method contrastive --set framework={name})"
    return InputError(f"unknown {kind} {name!r}{hint}: expected one of {', '.join(known)}{place}")


def meant(name: object, known: Sequence[str]) -> str:
    """Hint for a message about an unknown name: the one like it, also where it is written as a class or a module is."""
    close = difflib.get_close_matches(str(name).lower().replace("_", "-"), known, n=1, cutoff=0.7)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _load_later(kind: Kind) -> None:
    """Import the modules of `LATER`, and bring their parts into its order, before those of other modules."""
    for module in LATER[kind]:
        importlib.import_module(module)
    places = {module: place for place, module in enumerate(LATER[kind])}
    if places:
        _entries[kind].sort(key=lambda entry: places.get(entry.build.__module__, len(places)))


@functools.cache
def plugins() -> metadata.EntryPoints:
    """Entry points of the plug-ins that are installed, which a process looks for once."""
    return metadata.entry_points(group=GROUP)


def load_plugins() -> list[str]:
    """Import the plug-ins (entry points ``viewsmith.plugins``) once, warn of those that fail, return their names."""
    global _plugins
    if _plugins is None:
        _plugins = []
        for point in plugins():
            try:
                point.load()
                _plugins.append(point.name)
            except Exception as error:
                reason = error_text(error)
                warnings.warn(f"the plug-in {point.name!r} ({point.value}) is skipped: {reason}", stacklevel=3)
    return _plugins


Impute = Literal["none", "median"]
Normalization = Literal["auto", "log", "none"]
ColumnRole = Literal["numeric", "category", "text", "date", "drop"]


@dataclass(frozen=True)
class Flag:
    """How commands show an option: the placeholder of its value, another name, the kind of part that it names."""

    metavar: str | None = None
    name: str | None = None
    lists: str | None = None


class _Documentation:
    """The documentation of a class with its documented attributes, made on use, since that reads its source."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __get__(self, part: Any, cls: type) -> str:
        return with_parameters(cls, self.text)


class Declared:
    """Base class of parts whose options are attributes with a type, bounds and a default, which are declared once; a
    text below an attribute is in the documentation of the class, among its parameters."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__doc__ and inspect.get_annotations(cls):
            cls.__doc__ = _Documentation(cls.__doc__)  # type: ignore[assignment]

    @classmethod
    @functools.cache
    def declared_options(cls) -> Mapping[str, Option]:
        """Options by name: annotated attributes with a default, of classes below the one that extends `Declared`, whose
        own attributes are facts about a part."""
        own = [base for base in cls.__mro__[::-1] if issubclass(base, Declared) and base is not Declared]
        facts = {name for base in own if Declared in base.__bases__ for name in inspect.get_annotations(base)}
        names = [name for base in own for name in inspect.get_annotations(base) if name in base.__dict__.keys() - facts]
        hints = get_type_hints(cls, include_extras=True) if names else {}
        names = [name for name in names if get_origin(hints[name]) is not ClassVar]
        return {name: Option(hints[name], getattr(cls, name)) for name in names}

    @classmethod
    def options_signature(cls) -> inspect.Signature:
        """The signature of a constructor that takes the options, in their order or by name."""
        kind, declared = inspect.Parameter.POSITIONAL_OR_KEYWORD, cls.declared_options()
        return inspect.Signature([inspect.Parameter(name, kind, default=o.default) for name, o in declared.items()])

    def take(self, *values: Any, **options: Any) -> None:
        """Store the value of each option, or its default; raises InputError unless it is one of its values."""
        try:
            given = self.options_signature().bind(*values, **options).arguments
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}") from None
        for name, option in self.declared_options().items():
            value = given.get(name, option.default)
            if get_origin(option.annotation) is Literal:
                check_choice(name, value, option.annotation)
            for further in getattr(option.annotation, "__metadata__", ()):
                if isinstance(further, Bounds):
                    further.check(name, value)
            setattr(self, name, value)


@functools.cache
def annotations_of(cls: type) -> dict[str, Any]:
    """Types of the attributes of a class and its bases, with bounds."""
    return get_type_hints(cls, include_extras=True)


@functools.cache
def texts_of(cls: type) -> dict[str, str]:
    """What is written below the attributes of a class and its bases, by name; its own come first."""
    found: dict[str, str] = {}
    for base in cls.__mro__:
        if "__annotations__" in base.__dict__ and not base.__module__.startswith("torch."):
            for name, text in _own_texts(base).items():
                found.setdefault(name, text)
    return found


@functools.cache
def _own_texts(cls: type) -> dict[str, str]:
    try:
        lines = inspect.getsource(sys.modules[cls.__module__]).splitlines()
    except (KeyError, OSError, TypeError):  # typed into an interpreter
        return {}
    heads = (f"class {cls.__name__}(", f"class {cls.__name__}:")
    start = next((number for number, line in enumerate(lines) if line.startswith(heads)), None)
    if start is None:  # in a function
        return {}
    ends = (number for number in range(start + 1, len(lines)) if lines[number] and not lines[number][0].isspace())
    (defined,) = ast.parse("\n".join(lines[start : next(ends, len(lines))])).body
    assert isinstance(defined, ast.ClassDef)
    found = {}
    for declared, text in zip(defined.body, defined.body[1:], strict=False):
        if isinstance(declared, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            found[ast.unparse(declared.target)] = inspect.cleandoc(str(text.value.value))
    return found


def entries_of(cls: type) -> dict[str, str]:
    """Entries of a section "Parameters" for the documented attributes of a class, by name."""
    kinds = annotations_of(cls)
    texts = {name: " ".join(text.split()) for name, text in texts_of(cls).items()}
    return {name: f"{name} : {type_text(kinds[name])}\n    {text}\n" for name, text in texts.items()}


def with_parameters(cls: type, text: str) -> str:
    """The documentation of a class, with its documented attributes, if it has any, among or as its parameters."""
    if not (documented := entries_of(cls)):
        return text
    text, *sections = re.split(r"\n\n(?=[A-Z][a-z]+\n---)", inspect.cleandoc(text))
    given = sections.pop(0) if sections and sections[0].startswith("Parameters") else "Parameters\n----------"
    listed = f"{given}\n{''.join(documented.values()).rstrip()}"
    return wrapped("\n\n".join([text, listed, *sections]) + "\n")


def declare(function: Callable[..., Any], cls: type) -> None:
    """Give a function the documented attributes of a dataclass as keyword arguments: in its signature and its text."""
    signature, documented, hints = inspect.signature(function), entries_of(cls), get_type_hints(cls)
    given = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    given += [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
        for f in dataclasses.fields(cls)
        if f.name in documented
    ]
    function.__signature__ = signature.replace(parameters=given)  # type: ignore[attr-defined]
    text = inspect.cleandoc(function.__doc__ or "")  # none if Python removes documentation
    function.__doc__ = wrapped(text.replace("[options]", "".join(documented.values()).rstrip()))


def wrapped(doc: str) -> str:
    """Documentation with its long lines wrapped; what follows is indented as an entry of a list."""
    lines = doc.split("\n")
    long = (textwrap.wrap(line, 116, subsequent_indent="    ") if len(line) > 116 else [line] for line in lines)
    return "\n".join(part for parts in long for part in parts)


def type_text(annotation: Any) -> str:
    """A type as documentation writes it: ``float or "auto"``, ``{"batch", "none"}``, ``tuple of int``."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_text(inner[0])
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(type_text(each) for each in inner))
    if origin is Literal:
        values = ", ".join(f'"{value}"' if isinstance(value, str) else repr(value) for value in inner)
        return values if len(inner) == 1 else f"{{{values}}}"
    if origin in (tuple, Sequence):
        return f"{type_text(origin)} of {type_text(inner[0])}"
    if origin is not None:
        return type_text(origin)
    if annotation in (Any, type(None)):
        return "None" if annotation is type(None) else "object"
    name = str(annotation.__qualname__)
    return {"Module": "torch.nn.Module", "Sequence": "sequence", "Mapping": "mapping"}.get(name, name)


def parse_range(name: str, text: str) -> tuple[int | float, int | float] | list[str]:
    """The ends of ``LOW..HIGH``, or the choices of ``A,B,...``, of the option `name`."""
    low, dots, high = (part.strip() for part in text.partition(".."))
    if dots:
        first, last = _number(name, text, low), _number(name, text, high)
        if first >= last:
            raise InputError(f"the range of {name} is {text!r}, expected LOW..HIGH with LOW below HIGH")
        return first, last
    choices = [part.strip() for part in text.split(",")]
    if len(choices) < 2 or not all(choices):
        raise InputError(f"the range of {name} is {text!r}, expected LOW..HIGH, or two or more choices, A,B")
    if twice := duplicates(choices):
        raise InputError(f"the range of {name} has {twice[0]!r} twice: leave one out")
    return choices


def _number(name: str, text: str, end: str) -> int | float:
    if re.fullmatch(r"[+-]?\d+", end):
        return int(end)
    with contextlib.suppress(ValueError):
        if math.isfinite(number := float(end)):
            return number
    raise InputError(f"the range of {name} is {text!r}, but {end!r} is not a finite number: expected LOW..HIGH")
