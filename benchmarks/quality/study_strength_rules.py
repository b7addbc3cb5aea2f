"""Which number, known without labels, predicts the strength of views that helps? Rules against the scores of trainings.

For each set, option and strength of `study_strengths`, with 1,000 train rows and one view of each:

distance    median distance of a view to the nearest other sample, over that of a sample
told apart  held-out accuracy of a classifier of samples against views
lost        views that are nearer to another sample than to their own
crossed     views whose nearest other sample is not among the ten nearest of their own sample

each in the principal components of the raw features, and in the representation of an encoder that was trained briefly
(100 steps) with the default views. The table chooses for each set the strength at which a number is nearest to a
target, the best target on the other sets; and, to compare, the strength that is best on the other sets.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.study_strength_rules [minutes] [set ...]
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from sklearn.decomposition import PCA

from benchmarks.common.data import load
from benchmarks.common.runner import RESULTS, Cell, rows
from benchmarks.quality import study_strengths
from benchmarks.quality.study_strengths import GRADED, SETS
from benchmarks.quality.suite import command, rounded
from viewsmith import Contrastive
from viewsmith.losses.diagnostics import told_apart, view_distance

COMPARED, NEAREST, SHORT = 1000, 10, 100
GIVEN: dict[str, Any] = {"batch_size": 256, "random_state": 0, "device": "cpu"}
NUMBERS = tuple(
    f"{measure}, {space}" for space in ("raw", "encoder") for measure in ("distance", "told", "lost", "crossed")
)
PATH = RESULTS / "study_strength_rules.jsonl"


def numbers(a: np.ndarray, b: np.ndarray, space: str) -> dict[str, float]:
    """The four numbers for features of samples and of their views, (n, d) each."""
    pca = PCA(min(64, *a.shape), random_state=0).fit(np.concatenate([a, b]))
    x, v = (torch.from_numpy(pca.transform(part)).double() for part in (a, b))
    own = torch.eye(len(x), dtype=torch.bool)
    nearest = torch.cdist(x, x).masked_fill(own, torch.inf).topk(NEAREST, largest=False).indices
    distance = torch.cdist(v, x)
    other = distance.masked_fill(own, torch.inf).min(dim=1)
    result = {
        "distance": view_distance(x, v),
        "told": told_apart(x, v),
        "lost": (other.values < distance.diagonal()).double().mean(),
        "crossed": 1 - (nearest == other.indices[:, None]).any(dim=1).double().mean(),
    }
    return {f"{name}, {space}": float(value) for name, value in result.items()}


@lru_cache(maxsize=1)
def trained(name: str, quick: bool) -> Contrastive:
    """An encoder of the set, trained briefly with the default views."""
    x = load(SETS[name]).x
    return Contrastive(epochs=1 if quick else max(1, SHORT // (len(x) // 256)), **GIVEN).fit(x)


def measure(name: str, option: str, value: float, others: dict[str, Any], quick: bool) -> dict[str, Any]:
    """All numbers of one strength; the encoder is the same for all strengths of a set."""
    torch.set_num_threads(1)
    x = load(SETS[name]).x
    encoder = trained(name, quick)
    part = x[np.random.default_rng(0).permutation(len(x))[:COMPARED]]
    drawing = Contrastive(epochs=1, max_rows=256, **GIVEN, **{option: value}, **others).fit(part)
    views = drawing.views(part, 1)[:, 0]
    raw = [list(encoder.raw_features(rows).values())[-1].astype(np.float64) for rows in (part, views)]
    return rounded({**numbers(*raw, "raw"), **numbers(encoder.transform(part), encoder.transform(views), "encoder")})


def cells(quick: bool = False) -> list[Cell]:
    """One cell for each set, option and strength."""
    found = [
        Cell(name, f"{option} {value:g}", 0, lambda a=(name, option, value, others, quick): measure(*a))
        for name, graded in GRADED.items()
        for option, strengths, others in graded
        for value in strengths
    ]
    return found[:2] if quick else found


def table(score: str = "knn") -> str:
    """For each number: rank correlation with the score within a set, and what its choice loses to the best strength."""
    known = {(row["dataset"], row["method"]): row for row in rows(PATH) if "error" not in row}
    scored = [row for row in rows(study_strengths.PATH) if "error" not in row]
    curves = []
    for name, graded in GRADED.items():
        for option, strengths, _ in graded:
            keys = [(name, f"{option} {value:g}") for value in strengths]
            if all(key in known for key in keys):
                scores = [np.mean([row[score] for row in scored if (row["dataset"], row["method"]) == k]) for k in keys]
                curves.append((option, np.array(strengths), np.array(scores), [known[key] for key in keys]))
    lines = ["| rule | rank correlation | lost, mean | lost, largest |", "|---|---|---|---|"]
    for number in ("strength", *NUMBERS):
        values = [s if number == "strength" else np.array([row[number] for row in r]) for _, s, _, r in curves]
        lost, ranks = [], []
        for k, (option, _, scores, _) in enumerate(curves):
            # A fixed strength is compared within its option; the numbers mean the same for all.
            others = [j for j in range(len(curves)) if j != k and (number != "strength" or curves[j][0] == option)]
            if not others:
                continue
            targets = np.unique(np.concatenate([values[j] for j in others]))
            regret = [np.mean([_lost(values[j], curves[j][2], target) for j in others]) for target in targets]
            lost.append(_lost(values[k], scores, targets[int(np.argmin(regret))]))
            order = [np.argsort(np.argsort(part)) for part in (values[k], scores)]
            ranks.append(np.corrcoef(*order)[0, 1])
        lines.append(f"| {number} | {np.mean(ranks):.2f} | {np.mean(lost):.3f} | {np.max(lost):.3f} |")
    return "\n".join(lines)


def _lost(values: np.ndarray, scores: np.ndarray, target: float) -> float:
    """What the strength whose number is nearest to the target loses to the best."""
    return float(scores.max() - scores[int(np.argmin(np.abs(values - target)))])


if __name__ == "__main__":
    if command(__doc__, PATH, cells) == PATH:
        print(table())
