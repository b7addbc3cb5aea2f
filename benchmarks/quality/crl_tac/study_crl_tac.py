"""The study of CRL-TAC: does a learned channel P(T|x) do better than a uniform one, with the same transformations?

Both rows have the same encoder, transformations, objective, optimizer and number of encoder steps (600); the learned
channel has additional channel steps. Settings are the defaults of the library except the transformations (`FAMILIES`).
"contrastive" has the defaults of that method, which include another encoder, and the same number of steps with batch
size 256. "untrained" is the network of the learned row before training. Inference is the expectation over P(T|x);
scores with the prefix uniform_inference_ are those of the learned row with equal weights of all transformations.

Train rows are limited (`common.data.SETS`), test rows to 5,000, random, seed 0.

    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.crl_tac.study_crl_tac [minutes] [set or row ...]
"""

from __future__ import annotations

from typing import Any

from benchmarks.common.data import Data, sets
from benchmarks.quality.suite import UNTRAINED, Budget, Row, Scores, Stage, Study, Trained, main, score
from viewsmith import CRLTAC, Contrastive

SETS = sets("sc_citeseq_cbmc")
FAMILIES: dict[str, dict[str, Any]] = {"sc_citeseq_cbmc": {"input_components": 50}}
PROTOCOLS = ("linear", "knn", "kmeans_accuracy", "linear_1pct")


def uniform_inference(row: str, model: Any, data: Data) -> Scores:
    """Scores of the learned row with equal weights of all transformations."""
    if row != "learned":
        return {}
    learned = model.method_.inference
    model.method_.inference = "uniform"
    found = score(model.transform(data.x), model.transform(data.x_test), data, PROTOCOLS)
    model.method_.inference = learned
    return {f"uniform_inference_{key}": value for key, value in found.items()}


ROWS: dict[str, Row] = {
    "learned": Trained(CRLTAC, on=FAMILIES),
    "uniform": Trained(CRLTAC, {"channel": "uniform"}, FAMILIES),
    "untrained": UNTRAINED,
    "contrastive": Trained(Contrastive),
}
STUDY = Study(
    "study_crl_tac",
    SETS,
    ROWS,
    stages=[Stage(tuple(ROWS), seeds=(0, 1, 2))],
    budget=Budget(vectors=600),
    protocols=PROTOCOLS,
    reference=Trained(CRLTAC, on=FAMILIES),
    first=512,
    extra=uniform_inference,
)

if __name__ == "__main__":
    main(STUDY, __doc__)
