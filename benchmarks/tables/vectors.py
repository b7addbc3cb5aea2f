"""Tables and verdicts of the study on vectors: writes docs/results.md."""

from __future__ import annotations

from benchmarks.quality.study import SETS, STUDY, WIDE
from benchmarks.tables.formatting import TIES, collect, comparison, write

BASELINES = ("pca", "umap", "scarf", "noise", "untrained")
SAME_INPUT = ("pca, same input", "umap, same input")
ORDER = (
    *("raw", "pca", "pca, same input", "umap", "umap, same input", "untrained", "scarf", "noise", "neighbor mix"),
    *("contrastive", "neighbors + noise", "pinda", "pinda alone"),
)
INTRODUCTION = """# Measured results: vectors

Made by `benchmarks/tables/vectors.py` from `benchmarks/results/study.jsonl`; the protocol is that of
[evaluation.md](evaluation.md) and of the docstring of `benchmarks/quality/study.py`. Every trained row has the
same encoder, batch size and number of steps; rows with noise have the same search over its strength. Mean ±
standard deviation over seeds 0, 1, 2 (raw and PCA are deterministic). In the study nothing was chosen with test
labels; [contrastive.md](contrastive.md#limits) names the sets on which defaults of the neighbor recipe were
chosen."""


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
        baselines={name: (*BASELINES, *(SAME_INPUT if name in WIDE else ())) for name in SETS},
        against="PCA and UMAP (either input), SCARF, tuned noise and the untrained encoder",
        pairs=(
            ("contrastive", "umap, same input"),
            ("pinda", "contrastive"),
            ("pinda", "neighbors + noise"),
            ("pinda alone", "noise"),
        ),
        of_pairs=table | same,
    )
    write("results.md", [INTRODUCTION, *lines])


if __name__ == "__main__":
    main()
