"""The command methods: list everything that is registered, plug-ins included."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from viewsmith.cli.options import Debug

#: Kinds of parts that depend on the domain, with the option that names them on the command line.
BY_DOMAIN = {
    "view maker": "--views, joined by +",
    "encoder": "--encoder",
    "noise generator": "--set generator=NAME, of pinda",
    "transforms": "of crl-tac",
}


def methods(json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False, debug: Debug = False) -> None:
    """List methods, frameworks, view makers, encoders, domains and baselines, with their options and papers."""
    found = listing()
    typer.echo(json.dumps(found, indent=2) if json_ else as_text(found))


def listing() -> dict[str, Any]:
    """Everything that is registered, as plain values."""
    import viewsmith.evaluation  # noqa: F401, both register parts
    from viewsmith.core.registry import Entry, entries
    from viewsmith.modalities import domain_of

    def works_in(method: Entry, domain: str) -> bool:
        """Whether the domain has the part that the method needs, and a generator of views if it needs one."""
        part = method.trait("part")
        return (part is None or bool(entries(part, domain))) and (
            not method.trait("generates") or domain_of(domain).generates
        )

    domains = [entry.name for entry in entries("domain")]

    def described(entry: Entry) -> dict[str, Any]:
        defaults = {name: _plain(option.default) for name, option in entry.options.items()}
        found: dict[str, Any] = {"help": entry.help, "source": entry.source, "options": defaults}
        return found if entry.origin == "viewsmith" else found | {"package": entry.origin}

    return {
        "methods": {
            entry.name: {
                "estimator": entry.build.__name__,
                "domains": [domain for domain in entry.domains or domains if works_in(entry, domain)],
                "help": entry.help,
                "source": entry.source,
            }
            | ({} if entry.origin == "viewsmith" else {"package": entry.origin})
            for entry in entries("method")
        },
        "frameworks": {entry.name: described(entry) for entry in entries("framework")},
        **{
            f"{kind}s".replace("transformss", "transforms"): {
                domain: {
                    entry.name + (entry.trait("argument", "NAME") if entry.name.endswith(":") else ""): described(entry)
                    for entry in entries(kind, domain)  # type: ignore[arg-type]
                }
                for domain in domains
            }
            for kind in BY_DOMAIN
        },
        "domains": {entry.name: entry.help for entry in entries("domain")},
        "baselines": {entry.name: entry.help for entry in entries("baseline")},
    }


def as_text(found: dict[str, Any]) -> str:
    """The listing for a terminal."""
    lines = []
    for name, entry in found["methods"].items():
        lines += [
            f"{name}  ({', '.join(entry['domains'])}){_package(entry)}",
            f"    {entry['help']}",
            f"    {entry['source']}",
        ]
    lines += ["", "frameworks  (--framework)"]
    lines += [_line(name, entry) for name, entry in found["frameworks"].items()]
    for kind, hint in BY_DOMAIN.items():
        for domain, parts in found[f"{kind}s".replace("transformss", "transforms")].items():
            if not parts:
                continue
            lines += ["", f"{kind}s of {domain}  ({hint})".replace("transformss", "transforms")]
            lines += [_line(name, entry) for name, entry in parts.items()]
    for kind in ("domains", "baselines"):
        lines += ["", kind, *(f"    {name}: {text}" for name, text in found[kind].items())]
    return "\n".join(lines)


def _line(name: str, entry: dict[str, Any]) -> str:
    source = f" ({entry['source']})" if entry["source"] else ""
    options = f"; options: {', '.join(entry['options'])}" if entry["options"] else ""
    return f"    {name}: {entry['help']}{source}{options}{_package(entry)}"


def _package(entry: dict[str, Any]) -> str:
    return f"  [{entry['package']}]" if "package" in entry else ""


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value if isinstance(value, int | float | str | None) else None
