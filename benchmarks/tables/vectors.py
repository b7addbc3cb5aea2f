"""Tables and verdicts of the study on vectors: writes docs/results/vectors.md."""

from __future__ import annotations

from benchmarks.common.runner import progress
from benchmarks.quality.vectors import short_training
from benchmarks.quality.vectors.study import SETS, STUDY, VIEWS_ON, WIDE
from benchmarks.tables.formatting import TIES, Lines, Table, collect, command, comparison, gains, section, titles, write

BASELINES = ("pca", "umap", "untrained")
VIEWS = ("scarf", "noise")
SAME_INPUT = ("pca, same input", "umap, same input")
ORDER = (
    *("raw", "pca", "pca, same input", "umap", "umap, same input", "untrained", "scarf", "noise", "neighbor mix"),
    *("contrastive", "neighbors + noise", "pinda", "pinda alone"),
)
INTRODUCTION = """# Measured results: vectors

Made by `benchmarks/tables/vectors.py` from `benchmarks/results/study.jsonl`; the protocol is that of
[evaluation](../evaluation.md) and of the docstring of `benchmarks/quality/vectors/study.py`. Every trained row has the
same encoder, batch size and number of steps; rows with noise have the same search over its strength. Mean ±
standard deviation over seeds 0, 1, 2 (raw and PCA are deterministic). In the study nothing was chosen with test
labels; [contrastive.md](../contrastive.md#limits) names the sets on which defaults of the neighbor recipe were
chosen. All columns are learned here; on cells and text the default of `contrastive` has further ones, and is measured
in [harm.md](harm.md)."""


# Metrics of the short training, in the order of its table.
SHORT = titles("linear_1pct", "knn", "linear", "nmi", "kmeans_accuracy")


def short(table: Table) -> Lines:
    """What the short training, the default, loses and gains against the study's 2,000 steps."""
    done = collect(short_training.STUDY.path)
    both = done | {(name, "2,000 steps"): table[name, "contrastive"] for name in short_training.NAMES}
    small, found = tuple(short_training.SMALL), short_training.NAMES
    compared = {name: ("short", "2,000 steps", [name]) for name in found}
    compared |= {f"{name}, batches of 128": ("small batches", "short", [name]) for name in small}
    together = {
        "all": ("short", "2,000 steps", found),
        "all, with 500 steps": ("500 steps", "2,000 steps", found),
        "560 rows of four sets, batches of 256": ("short", "2,000 steps", small),
        "560 rows of four sets, batches of 128": ("small batches", "short", small),
        "validation rows": ("short", "2,000 steps", tuple(short_training.VALIDATION)),
        "validation rows, with 500 steps": ("500 steps", "2,000 steps", tuple(short_training.VALIDATION)),
        "validation rows, encoder and head at .006": (
            *("head at the encoder's rate", "2,000 steps"),
            tuple(short_training.VALIDATION),
        ),
        "16,000 and 20,000 rows, with 1,000 steps": ("1,000 steps", "2,000 steps", tuple(short_training.LARGER)),
    }
    text = (
        'Mean difference of the default, `epochs="auto"`, from the row contrastive above, which trains 2,000 steps; of '
        "560\nrows with batches of 128 (the default) from batches of 256: paired by set and seed, ± half of the 95 % "
        "interval,\nnumber of pairs. From "
        f"`benchmarks/results/{short_training.STUDY.path.name}`\n"
        f"({progress(short_training.STUDY.cells(), short_training.STUDY.path)}). "
        "Validation rows are a\nfifth of the train rows, seed 0; those of 560 rows are the other train rows."
    )
    lines = gains(both, together | compared, SHORT, "set")
    return section("The default's short training", lines, text=text)


def main() -> None:
    table = collect(STUDY.path)
    # On narrow sets UMAP has the same input as the encoder in any case.
    same = {
        (name, "umap, same input"): table[name, "umap"] for name in SETS if name not in WIDE and (name, "umap") in table
    }
    lines = comparison(
        STUDY,
        table=table,
        metrics=tuple(TIES),
        order=ORDER,
        claims=("contrastive", "pinda", "pinda alone"),
        baselines={
            name: (*BASELINES, *(SAME_INPUT if name in WIDE else ()), *(VIEWS if name in VIEWS_ON else ()))
            for name in SETS
        },
        against="PCA and UMAP (either input), the untrained encoder and, where measured, SCARF and tuned noise",
        pairs=(
            ("contrastive", "umap, same input"),
            ("pinda", "contrastive"),
            ("pinda", "neighbors + noise"),
            ("pinda alone", "noise"),
        ),
        of_pairs=table | same,
    )
    write("results/vectors.md", [INTRODUCTION, *lines, *short(table)])


if __name__ == "__main__":
    command(__doc__, main)
