"""Tables of CRL-TAC on MNIST and of its study: writes docs/results/crl_tac.md."""

from __future__ import annotations

import statistics

from benchmarks.common.runner import progress
from benchmarks.quality.crl_tac import crl_tac_mnist
from benchmarks.quality.crl_tac.study_crl_tac import ROWS, STUDY
from benchmarks.tables.formatting import Table, by_row, collect, command, entry, head, measured, titles, values, write

# Tables 1 and 2 of the paper: encoder f and head h, averaged over P(T|x), its 8 most probable crops, all crops, or the
# nine crops of the oracle.
PAPER = {
    ("84 x 84", "crl-tac", "f learned"): "0.973",
    ("84 x 84", "crl-tac", "f top"): "0.975",
    ("84 x 84", "crl-tac", "h learned"): "0.955",
    ("84 x 84", "crl-tac", "h top"): "0.955",
    ("84 x 84", "uniform", "f uniform"): "0.460",
    ("84 x 84", "uniform", "h uniform"): "0.316",
    ("84 x 84", "uniform", "f oracle"): "0.935",
    ("84 x 84", "uniform", "h oracle"): "0.514",
    ("84 x 84", "crl-tac", "mass"): "0.998",
    ("84 x 84", "crl-tac", "uniformity"): "0.0845",
    ("84 x 84", "uniform", "uniformity"): "0.976",
    ("84 x 84, 1,000", "preset, uniform", "uniformity"): "0.976",
    ("84 x 84, 1,000", "preset, learned", "uniformity"): "0.0845",
    ("plain", "crl-tac", "f learned"): "0.981",
    ("plain", "crl-tac", "f top"): "0.986",
    ("plain", "crl-tac", "h learned"): "0.964",
    ("plain", "crl-tac", "h top"): "0.967",
    ("plain", "uniform", "f uniform"): "0.981",
    ("plain", "uniform", "h uniform"): "0.927",
}
TITLES = {
    "84 x 84": "84 x 84 pixels",
    "plain": "28 x 28 pixels (plain MNIST)",
    "84 x 84, 1,000": "84 x 84 pixels, 1,000 training and test images: the preset, with biases and without",
}
NAMES = {"cosine": "median of \\|cos\\| of h", "seconds_fit": "seconds of training"}
KEYS = [
    *(f"{part} {how}" for part in "fh" for how in ("learned", "top", "uniform", "oracle")),
    *("mass", "effective", "largest p", "uniformity", "cosine"),
]
PARTS = {"f": "encoder", "h": "head"}
METRICS = titles("linear", "knn", "kmeans_accuracy", "linear_1pct")
UNIFORM = "learned (uniform inference)"


def mnist(table: Table, name: str) -> list[str]:
    """Table of the rows on MNIST, with a column of the paper's numbers where they exist."""
    runs = {row: table.get((f"mnist {name}", row), {}) for row in crl_tac_mnist.ROWS}
    runs = {row: seeds for row, seeds in runs.items() if seeds}
    if not runs:
        return []
    published = {row for images, row, _ in PAPER if images == name}
    heads = []
    for row, seeds in runs.items():
        heads += [
            f"{row}: seeds {', '.join(map(str, sorted(seeds)))}",
            *([f"{row}, paper"] if row in published else []),
        ]
    lines = ["", f"### {TITLES[name]}", "", *head("", heads)]
    for key in [*KEYS, "seconds_fit"]:
        cells = []
        for row, seeds in runs.items():
            cells.append(number(seeds, key, 0 if key == "seconds_fit" else 4))
            if row in published:
                cells.append(PAPER.get((name, row, key), ""))
        if any(cells):
            part, _, how = key.partition(" ")
            title = f"{PARTS[part]}, {how}" if part in PARTS else NAMES.get(key, key)
            lines.append(f"| {title} | {' | '.join(cells)} |")
    return lines


def number(seeds: dict[int, dict[str, float]], key: str, digits: int) -> str:
    """Mean over seeds, ± standard deviation of three: of standardized features and, in brackets, of raw features."""
    kinds = [f"{key} std", f"{key} raw"] if key[:2] in ("f ", "h ") else [key]
    means = [[row[kind] for row in seeds.values() if kind in row] for kind in kinds]
    texts = [
        f"{statistics.fmean(part):.{digits}f}" + (f" ± {statistics.stdev(part):.{digits}f}" if len(part) > 2 else "")
        for part in means
        if part
    ]
    return "" if not texts else texts[0] if len(texts) == 1 else f"{texts[0]} ({texts[1]})"


def study() -> list[str]:
    """The tables of the study, with a separate row for uniform inference."""
    table, lines = collect(STUDY.path), []
    sets = measured(table, list(STUDY.sets))
    for name in sets:
        learned = table.get((name, "learned"), {})
        table[name, UNIFORM] = {
            seed: {metric: row[f"uniform_inference_{metric}"] for metric in METRICS} for seed, row in learned.items()
        }
    rows = list(ROWS)
    rows.insert(1, UNIFORM)
    for metric, title in METRICS.items():
        lines += ["", *by_row(table, metric, sets, rows, title)]
    lines += ["", *head("learned channel", sets)]
    for key in ("information", "effective", "largest_p"):
        cells = [entry(values(table, name, "learned", key)) for name in sets]
        lines.append(f"| {key.replace('_', ' ')} | {' | '.join(cells)} |")
    return lines if sets else []


def main() -> None:
    found, done = collect(crl_tac_mnist.PATH), progress(crl_tac_mnist.cells(), crl_tac_mnist.PATH)
    lines = [
        "# Measured: CRL-TAC",
        "",
        "Written by `benchmarks/tables/crl_tac.py`. One thread of a shared CPU: seconds are upper bounds.",
        "",
        "## MNIST (tables 1 and 2 of the paper)",
        "",
        f"Protocol: `benchmarks/quality/crl_tac/crl_tac_mnist.py`, {done}.",
        "Accuracy of logistic regression on 10,000 test images, on standardized features and, in brackets, on raw",
        "features (C = 1 is a strong penalty for the encoder's small values). learned: expectation over P(T|x); top:",
        "its 8 most probable crops; uniform: all crops; oracle: the nine crops inside the digit's cell. The paper's",
        "numbers are means of 4 seeds, with the probe of scikit-learn; it does not say how features were scaled.",
        *(line for name in crl_tac_mnist.SETS for line in mnist(found, name)),
        "",
        "## A learned channel against a uniform one",
        "",
        f"Protocol: `benchmarks/quality/crl_tac/study_crl_tac.py`. {progress(STUDY.cells(), STUDY.path)}.",
        "Mean ± standard deviation over seeds; accuracy on test rows.",
        *study(),
    ]
    write("results/crl_tac.md", lines)


if __name__ == "__main__":
    command(__doc__, main)
