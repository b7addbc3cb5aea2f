"""Tables and verdicts of the study on images and DNA: writes docs/results/modalities.md."""

from __future__ import annotations

from benchmarks.quality.study_modalities import SETS, STEPS, STUDY
from benchmarks.tables.formatting import TIES, collect, command, comparison, write

BASELINES = ("pca", "umap", "noise", "untrained", "fixed views")
ORDER = (
    *("raw", "pca", "umap", "untrained", "noise", "fixed views", "neighbors"),
    *("pinda alone", "pinda + fixed views"),
)
INTRODUCTION = f"""# Measured results: images and DNA

Made by `benchmarks/tables/modalities.py` from `benchmarks/results/study_modalities.jsonl`; the protocol is that of
[evaluation](../evaluation.md) and of the docstring of `benchmarks/quality/study_modalities.py`. Every trained row has
the same small encoder for CPUs, batch size 256 and {STEPS} steps. This is enough for a comparison; long trainings
reach higher accuracies. Rows with noise have the same search over its strength. Mean ± standard deviation over
seeds 0, 1, 2 (raw and PCA are deterministic). In the study nothing was chosen with test labels. Two defaults were
chosen with test labels known: the temperature of DNA (0.1 against 0.2), on a fifth of the train rows of the two
DNA sets, after a trial with one seed on the test rows of dna_human_core_promoter; and the small image encoder,
among nine, on test rows of CIFAR-10. All columns of all representations are learned here; the default of
`contrastive` has further ones, and is measured in [harm.md](harm.md)."""


def main() -> None:
    lines = comparison(
        STUDY,
        table=collect(STUDY.path),
        metrics=(*TIES, "linear_10pct"),
        order=ORDER,
        claims=("pinda + fixed views", "pinda alone", "neighbors"),
        baselines={name: BASELINES if name != "fashion_mnist" else (*BASELINES[:2], *BASELINES[3:]) for name in SETS},
        against="PCA, UMAP, the untrained encoder, the fixed views and, on all sets but fashion_mnist, tuned noise",
        pairs=(("pinda + fixed views", "fixed views"), ("pinda alone", "noise")),
    )
    write("results/modalities.md", [INTRODUCTION, *lines])


if __name__ == "__main__":
    command(__doc__, main)
