"""The claims of the five papers beside our numbers: docs/results/papers.md, methods' pages and the README.

The claims, their commands and the verdicts stand in claims.toml; numbers are computed from committed results.
"""

from __future__ import annotations

import statistics
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.runner import RESULTS, rows
from benchmarks.tables import formatting
from benchmarks.tables.formatting import Lines, collect, gain_of, head

CLAIMS = Path(__file__).with_name("claims.toml")
COLUMNS = ("claim", "paper", "here", "verdict", "command")


def papers() -> list[dict[str, Any]]:
    """The papers with their claims."""
    found: list[dict[str, Any]] = tomllib.loads(CLAIMS.read_text(encoding="utf-8"))["paper"]
    return found


def number(values: Sequence[float]) -> str:
    """Mean and standard deviation over seeds, without the leading zero: as papers print fractions."""
    text = f"{statistics.fmean(values):.3f}"
    text += f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return text.replace("0.", ".")


def used(claim: dict[str, Any]) -> list[dict[str, Any]]:
    """The result lines that a claim's numbers are computed from."""
    found = []
    for each in claim.get("rows", ()):
        table = collect(RESULTS / f"{each['file']}.jsonl")
        found += list(table.get((each["dataset"], each["method"]), {}).values())
    if given := claim.get("gains"):
        lines = rows(RESULTS / f"{given['file']}.jsonl")
        found += [line for line in lines if line["method"] in (given["one"], given["other"])]
    return found


def here(claim: dict[str, Any]) -> str:
    """Our numbers with the number of seeds, or pairs of seeds and sets; words where there is none."""
    parts = []
    for each in claim.get("rows", ()):
        table = collect(RESULTS / f"{each['file']}.jsonl")
        lines = list(table.get((each["dataset"], each["method"]), {}).values())
        if not lines:
            continue
        text = ", ".join(number([line[metric] for line in lines]) for metric in each["metrics"])
        label = f"{each['label']} " if "label" in each else ""
        parts.append(f"{label}{text} ({len(lines)} seed{'s' if len(lines) > 1 else ''})")
    if given := claim.get("gains"):
        table = collect(RESULTS / f"{given['file']}.jsonl")
        both = [name for name, method in table if method == given["one"] and (name, given["other"]) in table]
        gaps = formatting.differences(table, given["one"], given["other"], both, given["metric"])
        parts.append(f"{given['label']} {gain_of(gaps)} ({len(gaps)} pairs on {len(both)} sets)".replace("0.", "."))
    return "; ".join([*parts, *([claim["here"]] if "here" in claim else [])]) or "-"


def table(paper: dict[str, Any], folder: str = "") -> Lines:
    """The table of a paper's claims, for a page in `folder` of docs, and what the numbers were measured with."""
    lines = [paper["note"], "", *head(COLUMNS[0], COLUMNS[1:])]
    everything = []
    for claim in paper["claim"]:
        text = claim["command"]
        text = f"`{text}`" if text.startswith("make ") else text.replace("](", f"]({folder}")
        found = f"{claim['claim']} ({claim['where']})", claim["published"], here(claim), claim["verdict"], text
        lines.append(f"| {' | '.join(found)} |")
        everything += used(claim)
    return [*lines, *(["", hardware(everything)] if everything else [])]


def hardware(found: list[dict[str, Any]]) -> str:
    """Processors and dates of result lines."""
    names = set()
    for line in found:
        machine = line.get("hardware", {})
        names.add(
            machine.get("gpu")
            or line.get("gpu")
            or str(line.get("processor", "a CPU")).replace("(R)", "").removesuffix(" Processor")
        )
    dates = sorted(line["date"][:10] for line in found)
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    return f"Means over seeds ± standard deviation; measured on {', '.join(sorted(names))} (CPUs: one thread), {when}."


def summary(folder: str) -> Lines:
    """One line for each paper: what it claims, what was found."""
    lines = head("paper", ("its claim", "what we found"))
    for paper in papers():
        lines.append(
            f"| [{paper['name']}]({folder}{paper['page']}), {paper['source']} "
            f"| {paper['in_short']} | {paper['found']} |"
        )
    return lines


def blocks() -> dict[str, Lines]:
    """By page, what stands between its comments: all claims, those of each method, and one line for each paper."""
    whole, found = summary("../"), {"README.md": summary("docs/")}
    for paper in papers():
        source = f"{paper['source']}; [the method's page](../{paper['page']})."
        whole += ["", f"## {paper['name']}", "", source, "", *table(paper, "../")]
        found[f"docs/{paper['page']}"] = table(paper)
    return found | {"docs/results/papers.md": whole}
