"""DiffAug's published form on small sets: both readings of its encoder, beside the same encoders before training.

The paper's encoder is [-1, 500, 300, 80] (E.2). `presets["paper"]` has the representation y = 300 and the embedding
z = 80, on which E.2's linear SVM is fitted; `presets["paper2d"]` has y = 80 and z = 2 (E.1). Each reading is trained in
phase A alone; in phases A, B, A with replacement 0, the control of generated positives (the generator does not reach
the encoder then, so it is trained for one epoch only); and with all of the preset: a tenth of the positives generated.

At most 2,000 train and 2,000 test rows, 500 encoder steps (84 epochs; the preset has 670), "long": 4,000. The paper's
own sets are not here. Scores are of y, with the prefix z_ those of z.

    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.generated.diffaug_preset [minutes] [set or row ...]
"""

from __future__ import annotations

from typing import Any

from benchmarks.common.data import Data, sets
from benchmarks.quality.suite import RAW, Budget, Scores, Stage, Study, Trained, Untrained, main, rounded
from benchmarks.tables.formatting import by_row, collect, gain, titles
from viewsmith import DiffAug
from viewsmith.evaluation.protocol import evaluate_embedding

READINGS = ("paper", "paper2d")


def row(reading: str, budget: Budget | None = None, **changes: Any) -> Trained:
    """A reading of the published encoder."""
    return Trained(DiffAug, DiffAug.presets[reading] | changes, budget=budget)


CONTROL: dict[str, Any] = {"replacement": 0.0, "generator_epochs": 1}
ROWS = {
    **{f"{name}, untrained": Untrained(row(name, phases="A")) for name in READINGS},
    **{f"{name}, phase A": row(name, phases="A") for name in READINGS},
    **{f"{name}, replacement 0": row(name, **CONTROL) for name in READINGS},
    **{name: row(name) for name in READINGS},
    **{f"{name}, long": row(name, Budget(vectors=4000), phases="A") for name in READINGS},
    "default, long": Trained(DiffAug, {"phases": "A"}, budget=Budget(vectors=4000)),
    "raw": RAW,
}
FIRST = tuple(f"{name}, {kind}" for kind in ("phase A", "untrained") for name in READINGS)
SETS = sets("optdigits", "letter", "texture", "sc_citeseq_cbmc", train_rows=2000, test_rows=2000)
PROTOCOLS = ("svm", "linear", "knn", "kmeans_accuracy", "linear_1pct")


def of_z(row: str, model: Any, data: Data) -> Scores:
    """Scores of z, of models that have it."""
    if not isinstance(model, DiffAug):
        return {}
    z, z_test = (model.transform(part, output="map") for part in (data.x, data.x_test))
    return rounded(evaluate_embedding(z, data.y, z_test, data.y_test, protocols=["svm", "knn"]), "z_")


STUDY = Study(
    "diffaug_preset",
    SETS,
    ROWS,
    stages=[
        *(Stage(FIRST, seeds=(seed,)) for seed in range(3)),
        *(Stage((f"{name}, replacement 0",), seeds=(seed,)) for seed in range(3) for name in READINGS),
        Stage(("raw",)),
        Stage(READINGS, ("letter",)),
        Stage(("paper",), ("optdigits", "sc_citeseq_cbmc")),
        Stage(("paper2d, long", "default, long"), ("optdigits", "texture"), seeds=(0,)),
        Stage(("paper, long",), ("optdigits",), seeds=(0,)),
    ],
    budget=Budget(vectors=500),
    protocols=PROTOCOLS,
    reference=row("paper", phases="A"),
    extra=of_z,
)
METRICS = titles("svm", "knn", "linear_1pct") | {"z_svm": "z, linear SVM", "z_knn": "z, kNN"}
#: Rows that are compared, paired by set and seed.
COMPARED = [
    (one, other)
    for name in READINGS
    for one, other in (
        (f"{name}, phase A", f"{name}, untrained"),
        (f"{name}, replacement 0", f"{name}, phase A"),
        (name, f"{name}, replacement 0"),
    )
]

if __name__ == "__main__":
    table = collect(main(STUDY, __doc__))
    for metric, title in METRICS.items():
        print("", title, *by_row(table, metric, list(SETS), tuple(ROWS)), sep="\n")
        for one, other in COMPARED:
            print(f"{one} minus {other}, {title}: {gain(table, one, other, list(SETS), metric)}")
