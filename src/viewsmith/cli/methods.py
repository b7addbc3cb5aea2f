"""The command methods: list everything that is registered, plug-ins included."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Annotated, Any

from typer import Argument

from viewsmith.cli.errors import echo
from viewsmith.cli.options import Json, with_flags
from viewsmith.core.errors import InputError, suggest
from viewsmith.core.registry import Entry, annotations_of, entries, find, has_others, texts_of, type_text
from viewsmith.estimator.options import places, slots

#: What `listing` finds, in seconds, without parts of others; `python tests/cli/test_cli_declared.py` writes it.
FILE = Path(__file__).with_name("listed.json")

#: Kinds of parts that depend on the modality, with the option that names them on the command line.
BY_MODALITY = {
    "view maker": "--views, joined by +",
    "encoder": "--encoder",
    "features": "--set features=NAME, of linear-contrast",
    "noise generator": "--set generator=NAME, of pinda",
    "transforms": "of crl-tac",
}


@with_flags("debug")
def methods(
    name: Annotated[
        str | None, Argument(metavar="NAME", help="Only what has this name; of a method its options.")
    ] = None,
    json_: Json = False,
) -> None:
    """List methods, frameworks, view makers, encoders, modalities, readers and baselines, with options and papers."""
    found = listing() if has_others() else json.loads(FILE.read_text(encoding="utf-8"))
    if name is not None:
        known = found
        found = {kind: _named(name, parts) for kind, parts in known.items()}
        if not any(found.values()):
            every = sorted({key for parts in known.values() for key in [*parts, *_inner(parts)]})
            raise InputError(f"nothing is called {name!r}; {suggest(name, every, 'there are')}")
    if json_:
        echo(json.dumps(found if name is None else {k: v for k, v in found.items() if v}, indent=2))
        return
    echo(as_text(found) if name is None else "\n".join([as_text(found), *map(_options_text, found["methods"])]))


def _inner(parts: dict[str, Any]) -> dict[str, Any]:
    """Parts of all modalities, of a kind that is listed by modality."""
    by_modality = [part for part in parts.values() if isinstance(part, dict) and "help" not in part]
    return {name: part for found in by_modality for name, part in found.items()}


def _named(name: str, parts: dict[str, Any]) -> dict[str, Any]:
    """The part with a name, also for each modality."""
    if name in parts and not _inner(parts):
        return {name: parts[name]}
    return {modality: {name: found[name]} for modality, found in parts.items() if name in found and _inner(parts)}


def _options_text(method: str) -> str:
    """The options of a method, by part: how each is set, its default and its sentence."""
    import viewsmith.methods.loading  # noqa: F401, it registers methods
    from viewsmith.estimator.arguments import filled

    cls: Any = find("method", method).build
    known, kinds, indent, lines = texts_of(cls), annotations_of(cls), " " * 6, []
    texts = dict(zip(known, filled([*known.values()]), strict=True))
    # Those of no part first.
    for option, part in sorted(places(cls).items(), key=lambda item: item[1] in slots(cls)):
        default, place = _plain(getattr(cls, option)), f"[{part}]  " if part in slots(cls) else ""
        lines.append(f"  --set {option}={'none' if default is None else default}  {place}{type_text(kinds[option])}")
        text = " ".join(texts.get(option, "").split())
        lines += textwrap.wrap(text, 79, initial_indent=indent, subsequent_indent=indent)
    return "\n".join(["", "options with their defaults", *lines])


def listing() -> dict[str, Any]:
    """Everything that is registered, as plain values."""
    import viewsmith.data.reading
    import viewsmith.evaluation
    import viewsmith.methods.loading  # noqa: F401, these register parts
    from viewsmith.modalities.base import works_in

    kinds = [entry.build() for entry in entries("modality")]
    modalities = [kind.name for kind in kinds]

    def described(entry: Entry) -> dict[str, Any]:
        defaults = {name: _plain(option.default) for name, option in entry.options.items()}
        found: dict[str, Any] = {"help": entry.help, "source": entry.source, "options": defaults}
        return found if entry.origin == "viewsmith" else found | {"package": entry.origin}

    return {
        "methods": {
            entry.name: {
                "estimator": entry.build.__name__,
                "modalities": [modality for modality in modalities if works_in(entry, modality)],
                "help": entry.help,
                "source": entry.source,
                "options": _grouped(entry.build),
            }
            | ({} if entry.origin == "viewsmith" else {"package": entry.origin})
            for entry in entries("method")
        },
        # By name: registered in the order in which modules happen to be imported.
        "frameworks": {entry.name: described(entry) for entry in sorted(entries("framework"), key=lambda e: e.name)},
        **{
            _plural(kind): {
                modality: {
                    entry.name + (entry.tag("argument", "NAME") if entry.name.endswith(":") else ""): described(entry)
                    for entry in entries(kind, modality)  # type: ignore[arg-type]
                }
                for modality in modalities
            }
            for kind in BY_MODALITY
        },
        "modalities": {kind.name: f"{kind.help}; {kind.samples}" for kind in kinds},
        "readers": {entry.name: _of_reader(entry) for entry in entries("reader")},
        "baselines": {entry.name: entry.help for entry in entries("baseline")},
    }


def _grouped(cls: Any) -> dict[str, Any]:
    """Defaults of the options of an estimator: of each part in a dict of its own."""
    found: dict[str, Any] = {part: {} for part in slots(cls)}
    for name, part in places(cls).items():
        (found[part] if part in slots(cls) else found)[name] = _plain(getattr(cls, name))
    return found


def _of_reader(entry: Entry) -> dict[str, Any]:
    found = {name: _plain(entry.tag(name)) for name in ("endings", "in_folders", "extra", "example")}
    found |= {"help": entry.help, "modality": "".join(entry.modalities)}
    return found if entry.origin == "viewsmith" else found | {"package": entry.origin}


def as_text(found: dict[str, Any]) -> str:
    """The listing for a terminal."""
    lines = []
    for name, entry in found["methods"].items():
        lines.append(f"{name}  ({', '.join(entry['modalities'])}){_package(entry)}")
        lines += [f"    {entry[text]}" for text in ("help", "source")]
    if found["frameworks"]:
        lines += ["", "frameworks  (--framework)"]
        lines += [_line(name, entry) for name, entry in found["frameworks"].items()]
    for kind, hint in BY_MODALITY.items():
        for modality, parts in found[_plural(kind)].items():
            if not parts:
                continue
            lines += ["", f"{_plural(kind)} of {modality}  ({hint})"]
            lines += [_line(name, entry) for name, entry in parts.items()]
    if found["modalities"]:
        lines += ["", "modalities", *(f"    {name}: {text}" for name, text in found["modalities"].items())]
    lines += ["", "readers  (by the ending of a file; * in a folder)"] if found["readers"] else []
    for name, entry in found["readers"].items():
        endings = [*entry["endings"], *(f"*{ending}" for ending in entry["in_folders"])]
        extra = f" (extra {entry['extra']})" if entry["extra"] else ""
        lines.append(f"    {name} {' '.join(endings)}: {entry['help']}{extra}{_package(entry)}")
    if found["baselines"]:
        lines += ["", "baselines", *(f"    {name}: {text}" for name, text in found["baselines"].items())]
    return "\n".join(lines).strip("\n")


def _plural(kind: str) -> str:
    return kind if kind.endswith("s") else f"{kind}s"


def _line(name: str, entry: dict[str, Any]) -> str:
    source = f" ({entry['source']})" if entry["source"] else ""
    options = f"; options: {', '.join(entry['options'])}" if entry["options"] else ""
    return f"    {name}: {entry['help']}{source}{options}{_package(entry)}"


def _package(entry: dict[str, Any]) -> str:
    return f"  [{entry['package']}]" if "package" in entry else ""


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value if isinstance(value, int | float | str | None) else None
