"""Tables of what matters, and where: writes docs/results/what_and_where.md.

A seed of a regime counts if all of its rows in `ALWAYS` are done. Other rows may have fewer seeds; their number is then
behind the value.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from benchmarks.quality.crl_tac import crop_sizes
from benchmarks.quality.crl_tac.what_and_where import (
    CHEAP,
    FIRST,
    GENVIEW,
    MAIN,
    MANY,
    PATH,
    PLAIN,
    RECURRENCE,
    REGIMES,
    SERVED,
    SERVING,
    SHORT,
    TARGET,
    TEST,
    TRAIN,
    TREND,
)
from benchmarks.quality.suite import SEEDS
from benchmarks.tables.formatting import (
    Lines,
    Table,
    collect,
    command,
    entry,
    head,
    measured_with,
    section,
    titles,
    write,
)

METRICS = titles("linear", "knn", "linear_1pct")
ALWAYS = tuple(row for row in CHEAP if row != "uniform")
ROWS = ("crl-tac", "uniform", "contrastive", "found boxes", "oracle", "untrained")
ORDER = (
    "crl-tac",
    "crl-tac, top",
    *ROWS[1:],
    "raw",
    "pca",
    *(row + end for end in (RECURRENCE, PLAIN, SHORT, TREND) for row in ROWS),
)
OTHERS = tuple(row + end for end in ("", SHORT) for row in ("contrastive", *SERVING, *GENVIEW))
PLACES = {"corloc": "CorLoc", "center": "center in the object"}
BOXES = {"middle": "middle", "deviation": "largest deviation", "saliency": "spectral residual"}
GAIN, LOSS, PLACE = 0.10, 0.05, 0.9  # the targets: above uniform crops, below the oracle, CorLoc


def complete(table: Table) -> Table:
    """The results of the seeds of which all rows in `ALWAYS` are done."""
    made: Table = {}
    for name in REGIMES:
        many = ("crl-tac", "oracle") if name.endswith(MANY) else ALWAYS
        always = ("crl-tac",) if name == "fashion two" else many
        seeds = set.intersection(*(set(table.get((name, row), {})) for row in always))
        for (other, row), found in table.items():
            if other == name and seeds & set(found):
                made[name, row] = {seed: found[seed] for seed in sorted(seeds & set(found))}
    for name in REGIMES:  # the same weights, represented by the most probable crops
        found = {seed: row for seed, row in made.get((name, "crl-tac"), {}).items() if "top_linear" in row}
        if found:
            made[name, "crl-tac, top"] = {seed: {"linear": row["top_linear"]} for seed, row in found.items()}
    return made


def numbers(table: Table, name: str, row: str, metric: str) -> list[float]:
    """Values of a metric over seeds; [] without any."""
    return [row[metric] for row in table.get((name, row), {}).values() if metric in row]


def by_row(
    table: Table,
    names: Sequence[str],
    rows: Mapping[str, tuple[str, str]],
    first: str,
    text: Callable[[Sequence[float]], str] = entry,
) -> Lines:
    """A table with a column for each regime and a line for each title in `rows`, of a row and a metric."""
    columns = [f"{name} ({len(table[name, 'crl-tac'])})" for name in names]
    lines = head(first, columns)
    for title, (row, metric) in rows.items():
        cells = []
        for name in names:
            found, seeds = numbers(table, name, row, metric), len(table[name, "crl-tac"])
            cells.append(text(found) + (f" ({len(found)})" if 0 < len(found) < seeds else ""))
        if any(cell != "-" for cell in cells):
            lines.append(f"| {title} | {' | '.join(cells)} |")
    return lines


def whole_number(found: Sequence[float]) -> str:
    """The mean as a whole number."""
    return f"{statistics.fmean(found):.0f}" if found else "-"


def places(table: Table, names: Sequence[str]) -> list[Lines]:
    """A table for CorLoc and one for centers."""
    made = []
    for metric, title in PLACES.items():
        rows = {
            row: (row, metric) for row in ("crl-tac", *("crl-tac" + end for end in (RECURRENCE, PLAIN, SHORT, TREND)))
        }
        rows |= {title: ("places", f"{kind}_{metric}") for kind, title in BOXES.items()}
        made.append(by_row(table, names, rows, title))
    return made


def differences(table: Table, name: str, end: str, other: str) -> list[float]:
    """Linear accuracy of CRL-TAC minus that of another row, for each seed of both."""
    ours, theirs = (table.get((name, row + end), {}) for row in ("crl-tac", other))
    return [ours[seed]["linear"] - theirs[seed]["linear"] for seed in ours if seed in theirs]


def verdict(differences: Sequence[float], least: float) -> str:
    """The mean difference, and whether it is at least this much."""
    if not differences:
        return "-"
    mean = statistics.fmean(differences)
    return f"{'met' if mean >= least else '**missed**'} ({mean:+.3f})"


def targets(table: Table, names: Sequence[str]) -> Lines:
    """A line for each regime of images with one object, from means over seeds, and one for the short rows."""
    lines = head("regime", [f"{GAIN:.2f} above uniform", f"at most {LOSS:.2f} below the oracle", "place"])
    for name in names:
        for end in ("", SHORT):
            ours = table.get((name, "crl-tac" + end))
            if not ours:
                continue
            where = statistics.fmean(row["corloc"] for row in ours.values())
            uniform, oracle = (differences(table, name, end, row) for row in ("uniform", "oracle"))
            if name == "cifar":
                others = [numbers(table, name, "places", f"{kind}_corloc") for kind in BOXES]
                best = max(statistics.fmean(found) for found in others if found)
                place = f"ahead of every baseline: {verdict([where - best], 0)}"
            else:
                place = f"CorLoc {PLACE}: {verdict([where - PLACE], 0)}"
            few = f" ({len(ours)})" if len(ours) < len(table[name, "crl-tac"]) else ""
            above = verdict(uniform, GAIN) + (f" ({len(uniform)})" if 0 < len(uniform) < len(ours) else "")
            lines.append(f"| {name}{end}{few} | {above} | {verdict(oracle, -LOSS)} | {place} |")
    return lines


def sizes() -> Lines:
    """Scores and criteria of each size of crops, and what choosing by a criterion loses."""
    table = collect(crop_sizes.PATH)
    runs = {
        (name, seed): {size: table[name, size][seed] for size in crop_sizes.SIZES}
        for name in FIRST
        for seed in SEEDS
        if all(seed in table.get((name, size), {}) for size in crop_sizes.SIZES)
    }
    criteria = ("information", "bound", "own - other", "retrieval")
    metrics = {"linear": "linear", "corloc": "CorLoc"}
    scores, regrets = (
        head("regime, side of crops", [*metrics.values(), *criteria, "seeds"]),
        head("criterion", [f"{title} lost: mean, largest" for title in metrics.values()]),
    )
    for name in dict.fromkeys(name for name, _ in runs):
        for size in crop_sizes.SIZES:
            found = [sizes[size] for (other, _), sizes in runs.items() if other == name]
            means = [statistics.fmean(row[key] for row in found) for key in (*metrics, *criteria)]
            scores.append(f"| {name}, {size} | {' | '.join(f'{mean:.3f}' for mean in means)} | {len(found)} |")
    choices = {name: (lambda sizes, name=name: max(sizes, key=lambda size: sizes[size][name])) for name in criteria}
    choices |= {f"always {size}": (lambda sizes, size=size: size) for size in crop_sizes.SIZES}
    for name, choose in choices.items():
        cells = []
        for metric in metrics:
            lost = [
                max(row[metric] for row in sizes.values()) - sizes[choose(sizes)][metric] for sizes in runs.values()
            ]
            cells.append(f"{statistics.fmean(lost):.3f}, {max(lost):.3f}")
        regrets.append(f"| {name} | {' | '.join(cells)} |")
    text = (
        "Three sizes, as scales of the images (`benchmarks/quality/crl_tac/crop_sizes.py`): mean over seeds of\n"
        "scores and of criteria without labels, and what is lost against the best of the three by taking the size\n"
        "with the largest criterion."
    )
    return section("Size of crops", scores, regrets, text=text) if runs else []


def main() -> None:
    table = complete(collect(PATH))
    names = [name for name in REGIMES if (name, "crl-tac") in table]
    one = [name for name in names if (name, "places") in table]
    images = [name for name in one if REGIMES[name].modality == "images"]
    many = [name for name in names if name.endswith(MANY)]
    served = [name for name in SERVED if any((name, "simclr, learned crops" + end) in table for end in ("", SHORT))]
    lines = [
        "# Measured: what matters, and where",
        "",
        "Written by `benchmarks/tables/what_and_where.py` from `benchmarks/results/what_and_where.jsonl`; samples,",
        f"rows and protocol are in `benchmarks/quality/crl_tac/what_and_where.py`. {TRAIN:,} training and {TEST} test",
        f"samples with one object at an unknown place, made anew for each seed; images also 6,000 and {TEST}. Mean ±",
        "standard deviation over seeds; their number is behind each regime, or behind a value with fewer seeds.",
        f"{measured_with(PATH)}.",
    ]
    text = "From means over seeds, of linear accuracy and CorLoc."
    lines += section("Targets", targets(table, images + many), text=text)
    for metric, title in METRICS.items():
        lines += section(title, by_row(table, one, {row: (row, metric) for row in ORDER}, "row"))
    text = (
        "CorLoc: the box overlaps the object by at least 1/2 (intersection over union). Boxes of the baselines have\n"
        "the size of the object, those of crl-tac that of its crops."
    )
    lines += section("Place", *places(table, one), text=text)
    if many:
        rows = {f"{row}, {title}": (row, metric) for row in ORDER[:6] for metric, title in METRICS.items()}
        rows |= {f"crl-tac, {title}": ("crl-tac", metric) for metric, title in PLACES.items()}
        lines += section("6,000 images", by_row(table, many, rows, "row, score"))
    if "fashion two" in names:
        kinds = {
            "both found (boxes overlap the items by at least 1/2)": "both",
            "both found (centers of boxes)": "both_center",
            "at least one (center)": "one_center",
        }
        pair = ("crl-tac", "crl-tac" + TARGET)
        rows = {f"{row}: {title}": (row, metric) for row in pair for title, metric in kinds.items()}
        lines += section("Two items in an image", by_row(table, ["fashion two"], rows, ""))
    rows = {f"{row}, {title}": (row, metric) for metric, title in METRICS.items() for row in OTHERS}
    whole = {f"{row}, linear, whole images": (row, "whole_linear") for row in OTHERS if "learned crops" in row}
    if served:
        text = (
            "Framework simclr (`contrastive`, `genview`) or byol. Views are random resized crops, or drawn from the\n"
            "channel of crl-tac. With these, an image is represented by the mean over its 8 most probable crops, or\n"
            "as a whole."
        )
        lines += section(
            "Learned crops for other methods", by_row(table, served, rows | whole, "row, score"), text=text
        )
    trained = (
        "crl-tac",
        *("crl-tac" + end for end in (RECURRENCE, PLAIN)),
        "uniform",
        "oracle",
        *OTHERS,
        *(row + end for end in (SHORT, TREND) for row in MAIN),
    )
    costs = [
        by_row(table, names, {row: (row, metric) for row in trained}, title, whole_number)
        for title, metric in {"CPU seconds": "cpu_seconds", "steps": "steps"}.items()
    ]
    lines += section("Trainings", *costs, text="Means over seeds.")
    lines += sizes()
    write("results/what_and_where.md", lines)


if __name__ == "__main__":
    command(__doc__, main)
