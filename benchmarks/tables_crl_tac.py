"""Tables of CRL-TAC from its results files: writes docs/results_crl_tac.md."""

from __future__ import annotations

import crl_tac_mnist
import study_crl_tac
from runner import progress, rows
from tables import DOCS, collect, entry, values

# Tables 1 and 2 of the paper: encoder and head, over P(T|x), its 8 most probable crops, all crops, the oracle's nine.
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
    ("plain", "crl-tac", "f learned"): "0.981",
    ("plain", "crl-tac", "f top"): "0.986",
    ("plain", "crl-tac", "h learned"): "0.964",
    ("plain", "crl-tac", "h top"): "0.967",
    ("plain", "uniform", "f uniform"): "0.981",
    ("plain", "uniform", "h uniform"): "0.927",
}
KEYS = [
    *(f"{part} {how}" for part in "fh" for how in ("learned", "top", "uniform", "oracle")),
    *("mass", "effective", "largest p", "uniformity"),
]
TITLES = {"f": "encoder", "h": "head"}
NAMES = {"seconds_fit": "seconds of training"}
METRICS = {"linear": "linear", "knn": "kNN", "kmeans_accuracy": "k-means", "linear_1pct": "1 % labels"}


def main() -> None:
    lines = [
        "# Measured: CRL-TAC",
        "",
        "Written by `benchmarks/tables_crl_tac.py`. One thread of a shared CPU, so that seconds are upper bounds.",
        "",
        "## MNIST (tables 1 and 2 of the paper)",
        "",
        f"Protocol: `benchmarks/crl_tac_mnist.py`. {progress(crl_tac_mnist.cells([]), crl_tac_mnist.PATH)}.",
        "Accuracy of logistic regression on 10,000 test images: standardized features, and in brackets raw ones, where",
        "C = 1 is strong for features as small as the encoder's. learned: expectation over P(T|x); top: its 8 most",
        "probable crops; uniform: all crops; oracle: the nine crops inside the digit's cell. The paper's numbers are",
        "means of 4 seeds; its probe is scikit-learn's, and how features were scaled is not said.",
    ]
    found = collect(crl_tac_mnist.PATH)
    for name in ("84 x 84", "plain"):
        runs = {row: found.get((f"mnist {name}", row), {}) for row in crl_tac_mnist.OPTIONS}
        runs = {row: seeds for row, seeds in runs.items() if seeds}
        if not runs:
            continue
        lines += ["", f"### {name} pixels" if name != "plain" else "### MNIST as it is", ""]
        published = {row for place, row, _ in PAPER if place == name}
        heads = [f"{row}: seeds {', '.join(map(str, sorted(seeds)))}" for row, seeds in runs.items()]
        heads = [head + f" | {row}, paper" * (row in published) for head, row in zip(heads, runs, strict=True)]
        lines += [f"| | {' | '.join(heads)} |", "|---" * (1 + sum(head.count("|") + 1 for head in heads)) + "|"]
        for key in [*KEYS, "seconds_fit"]:
            cells = [_number(seeds, key, 0 if key == "seconds_fit" else 4) for seeds in runs.values()]
            if any(cells):
                part, _, how = key.partition(" ")
                title = f"{TITLES[part]}, {how}" if part in TITLES else NAMES.get(key, key)
                known = [f" | {PAPER.get((name, row, key), '')}" * (row in published) for row in runs]
                lines.append(f"| {title} | {' | '.join(map(''.join, zip(cells, known, strict=True)))} |")
    every = study_crl_tac.cells([])
    lines += [
        "",
        "## A learned channel against a uniform one",
        "",
        f"Protocol: `benchmarks/study_crl_tac.py`. {progress(every, study_crl_tac.PATH)}.",
        "Mean ± standard deviation over seeds; accuracy on test rows.",
    ]
    table = collect(study_crl_tac.PATH)
    sets = [name for name in study_crl_tac.SETS if any(key[0] == name for key in table)]
    for metric, title in METRICS.items() if sets else ():
        lines += ["", f"| {title} | {' | '.join(sets)} |", f"|---|{'---|' * len(sets)}"]
        shown = [(row, row, metric) for row in study_crl_tac.ROWS]
        shown.insert(1, ("learned (uniform inference)", "learned", f"uniform_inference_{metric}"))
        for label, row, key in shown:
            cells = [values(table, name, row, key) for name in sets]
            if any(cells):
                lines.append(f"| {label} ({max(map(len, cells))}) | {' | '.join(entry(cell) for cell in cells)} |")
    if sets:
        lines += ["", f"| learned channel | {' | '.join(sets)} |", f"|---|{'---|' * len(sets)}"]
        for key in ("information", "effective", "largest_p"):
            cells = [values(table, name, "learned", key) for name in sets]
            lines.append(f"| {key.replace('_', ' ')} | {' | '.join(entry(cell) for cell in cells)} |")
    (DOCS / "results_crl_tac.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(rows(crl_tac_mnist.PATH)) + len(rows(study_crl_tac.PATH))} rows")


def _number(seeds: dict[int, dict[str, float]], key: str, places: int = 4) -> str:
    kinds = [f"{key} std", f"{key} raw"] if key[:2] in ("f ", "h ") else [key]
    means = [[row[kind] for row in seeds.values() if kind in row] for kind in kinds]
    told = [f"{sum(part) / len(part):.{places}f}" for part in means if part]
    return "" if not told else told[0] if len(told) == 1 else f"{told[0]} ({told[1]})"


if __name__ == "__main__":
    main()
