"""The claims of the five papers beside our numbers: docs/results/papers.md, methods' pages and the README.

The claims, their commands and the verdicts stand in claims.toml; numbers are computed from committed results. In the
methods' pages and in the README the table stands between two comments, and the rest of the page is not touched.
"""

from __future__ import annotations

import statistics
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.runner import RESULTS, ROOT, rows
from benchmarks.tables import formatting
from benchmarks.tables.formatting import Lines, collect, command, gain_of, head, write

CLAIMS = Path(__file__).with_name("claims.toml")
BEGIN, END = "<!-- claims: written by benchmarks/tables/papers.py -->", "<!-- end of claims -->"
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


def between(text: str, lines: Lines) -> list[str]:
    """The lines of a page with others between the two comments."""
    before, rest = text.split(BEGIN)
    return [*before.splitlines(), BEGIN, "", *lines, "", END, *rest.split(END)[1].splitlines()[1:]]


def main() -> None:
    lines = [
        "# The five papers, claim by claim",
        "",
        "Which claim of each paper was tested, with which command, and what came out. Numbers come from committed",
        "results; `make` runs what is missing. A claim that holds only with a setting that the paper does not name",
        "counts as not reproduced. Written by `benchmarks/tables/papers.py`.",
        "",
        *summary("../"),
    ]
    for paper in papers():
        lines += [
            "",
            f"## {paper['name']}",
            "",
            f"{paper['source']}; [the method's page](../{paper['page']}).",
            "",
            *table(paper, "../"),
        ]
        page = (ROOT / "docs" / paper["page"]).read_text(encoding="utf-8")
        write(paper["page"], between(page, table(paper)))
    write("results/papers.md", lines)
    if formatting.DOCS == ROOT / "docs":
        readme = ROOT / "README.md"
        text = "\n".join(between(readme.read_text(encoding="utf-8"), summary("docs/")))
        readme.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    command(__doc__, main)
