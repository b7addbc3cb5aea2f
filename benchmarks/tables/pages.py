"""Write the tables of the documentation from committed results; in a page they stand between two comments.

vectors, modalities, crl_tac, diffaug, genview, metaug,
when_views_help                                           docs/results/NAME.md
linear_contrast                                           docs/linear_contrast.md
papers                                                    docs/results/papers.md, methods' pages, README

    python -m benchmarks.tables.pages [name ...] [--quick]

What stands outside of the comments is written by hand, or comes from a study that has been answered.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.common.runner import ROOT, progress
from benchmarks.quality import metaug_table1, study_modalities, views_in_closed_form
from benchmarks.quality.crl_tac import crl_tac_mnist
from benchmarks.quality.generated import diffaug_preset, genview_upper_bound
from benchmarks.quality.vectors import study
from benchmarks.tables import linear_contrast, papers
from benchmarks.tables.formatting import (
    TIES,
    Lines,
    Table,
    between,
    by_row,
    collect,
    comparison,
    gains,
    head,
    measured_with,
    section,
    titles,
)


def vectors() -> Lines:
    """Every row of the study on vectors, verdicts and paired differences."""
    table = collect(study.STUDY.path)
    # On narrow sets UMAP has the same input as the encoder in any case.
    narrow = [name for name in study.SETS if name not in study.WIDE and (name, "umap") in table]
    same_input = ("pca, same input", "umap, same input")
    return comparison(
        study.STUDY,
        table=table,
        metrics=tuple(TIES),
        order=(
            *("raw", "pca", "pca, same input", "umap", "umap, same input", "untrained", "scarf", "noise"),
            *("neighbor mix", "contrastive", "neighbors + noise", "pinda", "pinda alone"),
        ),
        claims=("contrastive", "pinda", "pinda alone"),
        baselines={
            name: (
                *("pca", "umap", "untrained"),
                *(same_input if name in study.WIDE else ()),
                *(("scarf", "noise") if name in study.VIEWS_ON else ()),
            )
            for name in study.SETS
        },
        against="PCA and UMAP (either input), the untrained encoder and, where measured, SCARF and tuned noise",
        pairs=(
            ("contrastive", "umap, same input"),
            ("pinda", "contrastive"),
            ("pinda", "neighbors + noise"),
            ("pinda alone", "noise"),
        ),
        of_pairs=table | {(name, "umap, same input"): table[name, "umap"] for name in narrow},
    )


def modalities() -> Lines:
    """The same of the study on images and DNA."""
    baselines = ("pca", "umap", "untrained", "fixed views")
    return comparison(
        study_modalities.STUDY,
        table=collect(study_modalities.STUDY.path),
        metrics=(*TIES, "linear_10pct"),
        order=(
            *("raw", "pca", "umap", "untrained", "noise", "fixed views", "neighbors"),
            *("pinda alone", "pinda + fixed views"),
        ),
        claims=("pinda + fixed views", "pinda alone", "neighbors"),
        baselines={
            name: baselines if name == "fashion_mnist" else (*baselines, "noise") for name in study_modalities.SETS
        },
        against="PCA, UMAP, the untrained encoder, the fixed views and, on all sets but fashion_mnist, tuned noise",
        pairs=(("pinda + fixed views", "fixed views"), ("pinda alone", "noise")),
    )


def diffaug() -> Lines:
    """Both readings of the published encoder, beside themselves before training."""
    table, preset = collect(diffaug_preset.STUDY.path), diffaug_preset
    sets, rows = list(preset.SETS), tuple(preset.ROWS)
    compared = {f"{one} - {other}": (one, other, sets) for one, other in preset.COMPARED}
    return section(
        "The published form",
        gains(table, compared, preset.METRICS),
        *(by_row(table, metric, sets, rows, title) for metric, title in preset.METRICS.items()),
        text="`paper`: representation y = 300, embedding z = 80, on which E.2 fits an SVM; `paper2d`: y = 80, z = 2\n"
        "(E.1). 2,000 rows, 500 encoder steps; the protocol is in\n"
        "`benchmarks/quality/generated/diffaug_preset.py`.",
    )


def genview() -> Lines:
    """What views of the same class, and weights that find others, are worth."""
    bound = genview_upper_bound
    table, metrics, sets = collect(bound.PATH), titles(*bound.PROTOCOLS), list(bound.SETS)
    rows = (*bound.ROWS, *bound.NOISE)
    compared = {f"{row} - framework": (row, "framework", sets) for row in rows}
    for share in bound.SHARES:
        one, other = f"wrong {share:g}, weighted", f"wrong {share:g}"
        compared[f"{one} - equal weights"] = one, other, sets
    shown = metrics | {"auc": "AUC of the quality", "weight_of_wrong": "weight of wrong views"}
    return section(
        "Views as good as asked",
        gains(table, compared, metrics),
        *(by_row(table, metric, sets, ("framework", *rows), title) for metric, title in shown.items()),
        text="Views are other samples of the same class, drawn with labels: an upper bound. A share of them, wrong,\n"
        "is of another class, which the weights of quality should find. `generator`: views of our own generator, from\n"
        "adaptive noise or a level of 0 to 400 (`benchmarks/quality/generated/genview_upper_bound.py`).",
    )


def metaug() -> Lines:
    """The paper's table 1 at a smaller scale."""
    table, of = collect(metaug_table1.STUDY.path), metaug_table1.STUDY
    shown = titles("linear", "knn").items()
    return section(
        "The published form",
        *(by_row(table, metric, list(of.sets), tuple(of.rows), title) for metric, title in shown),
        text="Table 1 of the paper at a smaller scale: 5,000 images, 5,000 steps, the output of the convolutions,\n"
        "on a GPU; the protocol is in `benchmarks/quality/metaug_table1.py`.",
    )


def when_views_help() -> Lines:
    """The views of each method through the closed form."""
    study, lines = views_in_closed_form, list[str]()
    table, metrics = collect(study.PATH), titles("knn", "linear", "linear_1pct")
    of_kind: dict[str, list[str]] = {}
    for name, known in study.SETS.items():
        of_kind.setdefault(known.modality, []).append(name)
    for kind, names in of_kind.items():
        sets = [name for name in names if (name, "fixed") in table]
        compared = {f"{row} - fixed": (row, "fixed", sets) for row in study.CELLS if row != "fixed"}
        compared |= {"crl-tac - uniform": ("crl-tac", "uniform", sets), "pinda - noise": ("pinda", "noise", sets)}
        if made := gains(table, compared, metrics, kind):
            lines += ["", *made, "", *by_row(table, "knn", sets, study.CELLS, f"kNN of {kind} (seeds)")]
    return lines and [*lines, "", f"{progress(study.cells(), study.PATH)}; {measured_with(study.PATH)}."]


# Tables 1 and 2 of the paper on CRL-TAC: encoder f and head h, averaged over P(T|x), its 8 most probable crops, all
# crops, or the nine crops of the oracle.
PAPER = {
    ("84 x 84", "crl-tac"): {
        "f learned": "0.973",
        "f top": "0.975",
        "h learned": "0.955",
        "h top": "0.955",
        "mass": "0.998",
        "uniformity": "0.0845",
    },
    ("84 x 84", "uniform"): {
        "f uniform": "0.460",
        "h uniform": "0.316",
        "f oracle": "0.935",
        "h oracle": "0.514",
        "uniformity": "0.976",
    },
    ("84 x 84, 1,000", "preset, uniform"): {"uniformity": "0.976"},
    ("84 x 84, 1,000", "preset, learned"): {"uniformity": "0.0845"},
    ("plain", "crl-tac"): {"f learned": "0.981", "f top": "0.986", "h learned": "0.964", "h top": "0.967"},
    ("plain", "uniform"): {"f uniform": "0.981", "h uniform": "0.927"},
}
OF_MNIST = {
    "84 x 84": "84 x 84 pixels",
    "plain": "28 x 28 pixels (plain MNIST)",
    "84 x 84, 1,000": "84 x 84 pixels, 1,000 training and test images: the preset, with biases and without",
}
NAMES = {"cosine": "median of \\|cos\\| of h", "seconds_fit": "seconds of training"}
KEYS = [
    *(f"{part} {how}" for part in "fh" for how in ("learned", "top", "uniform", "oracle")),
    *("mass", "effective", "largest p", "uniformity", "cosine", "seconds_fit"),
]
PARTS = {"f": "encoder", "h": "head"}


def crl_tac() -> Lines:
    """CRL-TAC on MNIST, beside the paper's numbers."""
    found, mnist = collect(crl_tac_mnist.PATH), crl_tac_mnist
    lines = [f"{progress(mnist.cells(), mnist.PATH)}."]
    return [*lines, *(line for name in mnist.SETS for line in of_mnist(found, name))]


def of_mnist(table: Table, name: str) -> Lines:
    """Table of the rows on MNIST, with a column of the paper's numbers where they exist."""
    runs = {row: table.get((f"mnist {name}", row), {}) for row in crl_tac_mnist.ROWS}
    runs = {row: seeds for row, seeds in runs.items() if seeds}
    heads = []
    for row, seeds in runs.items():
        heads.append(f"{row}: seeds {', '.join(map(str, sorted(seeds)))}")
        heads += [f"{row}, paper"] if (name, row) in PAPER else []
    lines = ["", f"### {OF_MNIST[name]}", "", *head("", heads)]
    for key in KEYS:
        cells = []
        for row, seeds in runs.items():
            cells.append(number(seeds, key, 0 if key == "seconds_fit" else 4))
            cells += [PAPER[name, row].get(key, "")] if (name, row) in PAPER else []
        if any(cells):
            part, _, how = key.partition(" ")
            title = f"{PARTS[part]}, {how}" if part in PARTS else NAMES.get(key, key)
            lines.append(f"| {title} | {' | '.join(cells)} |")
    return lines if runs else []


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


#: By name, pages (below the root of the repository) with what they have between the comments.
BLOCKS: dict[str, Callable[[], dict[str, Lines]]] = {
    "linear_contrast": lambda: {"docs/linear_contrast.md": linear_contrast.tables()},
    "papers": papers.blocks,
} | {
    block.__name__: lambda block=block: {f"docs/results/{block.__name__}.md": block()}
    for block in (vectors, modalities, crl_tac, diffaug, genview, metaug, when_views_help)
}


def write(name: str, folder: Path) -> list[Path]:
    """Write the pages of a name below a folder."""
    written = []
    for page, lines in BLOCKS[name]().items():
        path = folder / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(between((ROOT / page).read_text(encoding="utf-8"), lines), encoding="utf-8")
        written.append(path)
    return written


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help="; ".join(BLOCKS))
    parser.add_argument("--quick", action="store_true", help="test the script; the documentation stays as it is")
    given = parser.parse_args(arguments)
    if unknown := set(given.names) - set(BLOCKS):
        parser.error(f"no such tables: {', '.join(sorted(unknown))}; expected some of {', '.join(BLOCKS)}")
    with tempfile.TemporaryDirectory() as folder:
        for name in given.names or BLOCKS:
            print(*write(name, Path(folder) if given.quick else ROOT), sep="\n")


if __name__ == "__main__":
    main()
