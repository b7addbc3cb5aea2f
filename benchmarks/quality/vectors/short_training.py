"""The short training of the neighbor recipe against 2,000 steps: what do fewer steps cost?

"short" is the default of `Contrastive` on up to 10,000 vectors with batches of 256: 1,000 steps at .0045, or 500 at
.006 for at most 1,000 rows; the head's rate is .3 of that. So few rows have batches of 128 by default, at .0045: "small
batches". The row "2,000 steps" trains as `epochs` does, at .003. Test rows are for "short" and "500 steps"; those of
2,000 steps are the row "contrastive" of `benchmarks.quality.vectors.study`, with the same rows and seeds. The settings
were chosen on a fifth of the train rows ("..., validation"), one seed; 500 steps, the first choice for all, were given
up when test rows showed what they lose. "..., 560 rows": so many train rows, scored on the other train rows.

    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.vectors.short_training [minutes] [set or row] [--quick]
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from sklearn.model_selection import train_test_split

from benchmarks.common.data import Data, DataSet
from benchmarks.quality.suite import Budget, Row, Stage, Study, Trained, main
from benchmarks.quality.vectors.study import SETS as OF_STUDY
from viewsmith import Contrastive

# The sets of the neighbor recipe's comparison with UMAP.
NAMES = tuple(OF_STUDY)[:8]
FEW = ("optdigits", "texture", "letter", "sc_citeseq_cbmc")
PROTOCOLS = ("linear", "knn", "kmeans_accuracy", "nmi", "linear_1pct")


def held_out(data: Data, rows: float | int) -> Data:
    """So many of the train rows (a fraction or a number), and the others in place of the test rows."""
    x, x_held, y, y_held = train_test_split(data.x, data.y, train_size=rows, stratify=data.y, random_state=0)
    return Data(x, y, x_held, y_held)


VALIDATION = {f"{name}, validation": replace(OF_STUDY[name], prepare=partial(held_out, rows=0.8)) for name in NAMES}
SMALL = {f"{name}, 560 rows": replace(OF_STUDY[name], prepare=partial(held_out, rows=560)) for name in FEW}
LARGER = {  # more rows than are trained briefly
    "mnist, 20,000 rows": DataSet("mnist", train_rows=20_000),
    "fashion_mnist, 20,000 rows": DataSet("fashion_mnist", train_rows=20_000),
    "letter, 16,000 rows": DataSet("letter"),
}
SHORT = {"epochs": "auto", "batch_size": 256}
ROWS: dict[str, Row] = {
    "small batches": Trained(Contrastive, {"epochs": "auto"}),
    "short": Trained(Contrastive, SHORT),
    "2,000 steps": Trained(Contrastive),
    "1,000 steps": Trained(
        Contrastive, {"learning_rate": 4.5e-3, "head_learning_rate": 1.35e-3}, budget=Budget(vectors=1000)
    ),
    "500 steps": Trained(
        Contrastive, {"learning_rate": 6e-3, "head_learning_rate": 1.8e-3}, budget=Budget(vectors=500)
    ),
    "head at the encoder's rate": Trained(Contrastive, SHORT | {"learning_rate": 6e-3, "head_learning_rate": 6e-3}),
}
STUDY = Study(
    "short_training",
    {name: OF_STUDY[name] for name in NAMES} | SMALL | VALIDATION | LARGER,
    ROWS,
    stages=(
        Stage(("short",), NAMES),
        Stage(("small batches", "short"), tuple(SMALL)),
        Stage(("2,000 steps", "short"), tuple(SMALL), (0,)),
        Stage(("500 steps",), NAMES),
        Stage(("2,000 steps", "1,000 steps"), tuple(LARGER)),
        Stage(("2,000 steps", "short", "500 steps", "head at the encoder's rate"), tuple(VALIDATION), (0,)),
    ),
    budget=Budget(vectors=2000),
    protocols=PROTOCOLS,
)

if __name__ == "__main__":
    main(STUDY, __doc__)
