"""Do the q-values of `Discovery` hold? Share of wrong parts among those listed at q of at most .05, .1 and .2.

smears and cards, up to three parts in an image (wrong: the center in no labeled white cell, or card); objects among
fragments, 400 images of each of three sources, up to two parts (wrong: the center not in the object); 601 pieces of an
electrocardiogram (wrong: more than 50 ms from the most frequent distance to a beat); CRP, 18 sequences (wrong: more
than 3 letters from a known site). Rows of nuclei are those of study_pieces.py; `docs/pictures/q_values.py` draws all of
them.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.study_q [minutes] [set ...]
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

from benchmarks.common.runner import RESULTS, Cell, rows
from benchmarks.quality import study_pieces
from benchmarks.quality.crl_tac import clutter
from benchmarks.quality.study_discovery import binding_sites, cards, folder, smears
from benchmarks.quality.suite import command, rounded
from viewsmith import Discovery

PATH = RESULTS / "study_q.jsonl"
LEVELS = study_pieces.LEVELS
IMAGES = 400
PHOTOGRAPHS = {"smears": smears, "cards": cards}
SETS = (*PHOTOGRAPHS, *clutter.FILES, "crp", "ecg100")


def judged(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """q-values of the places in a set, and which are right."""
    if name == "crp":
        texts, sites = binding_sites()
        parts = Discovery(max_q=1, random_state=seed).fit(texts).locate(texts)
        middle = (parts["start"] + parts["end"]) / 2
        near = [min(abs(m - site) for site in sites[i]) <= 3 for m, i in zip(middle, parts["sample"], strict=True)]
        return parts["q"], np.array(near, bool)
    if name == "ecg100":
        with np.load(folder() / "events" / "ecg100.npz") as content:
            x, known, rate = content["X"], content["beats"], int(content["rate"])
        parts = Discovery(max_q=1, random_state=seed).fit(x).locate(x)
        offsets = [s - known[i][known[i] >= 0] for i, s in zip(parts["sample"], parts["start"], strict=True)]
        near = [[(abs(own - d) <= rate / 20).any() for own in offsets] for d in range(-x.shape[1] // 4, 60)]
        return parts["q"], np.array(max(near, key=sum), bool)
    if name in PHOTOGRAPHS:
        x, boxes = PHOTOGRAPHS[name]()
    else:
        x, corners = clutter.make(name, IMAGES, seed)
        boxes = [np.array([[left, top, left + width, top + height]]) for top, left, height, width in corners]
    model = Discovery(max_parts=3 if name in PHOTOGRAPHS else 2, max_q=1, random_state=seed).fit(x)
    parts = model.locate(x)
    middle = np.stack([parts["left"] + parts["right"], parts["top"] + parts["bottom"]], 1) / 2
    labeled = np.array([len(boxes[i]) > 0 for i in parts["sample"]], bool)
    inside = [
        bool(((m >= boxes[i][:, :2]) & (m < boxes[i][:, 2:])).all(1).any())
        for m, i in zip(middle, parts["sample"], strict=True)
    ]
    return parts["q"][labeled], np.array(inside, bool)[labeled]


def measured(name: str, seed: int) -> dict[str, Any]:
    """Listed parts and the share of wrong ones at each level."""
    began = time.process_time()
    q, right = judged(name, seed)
    result: dict[str, Any] = {"cpu_seconds": time.process_time() - began}
    for level in LEVELS:
        listed = right[q <= level]
        result[f"listed_at_{level:g}"] = len(listed)
        result[f"wrong_at_{level:g}"] = float(1 - listed.mean()) if len(listed) else 0.0
    return rounded(result)


def cells(quick: bool = False) -> list[Cell]:
    """All cells."""
    names = ("crp",) if quick else SETS
    return [Cell(name, "discovery", seed, partial(measured, name, seed)) for seed in range(1) for name in names]


def table() -> str:
    """Wrong and listed parts of every set at each level."""
    lines = ["| set | seeds | wrong at .05 | .1 | .2 |", "|" + "---|" * 5]
    for name, own in by_set().items():
        numbers = [
            f"{np.mean([r[f'wrong_at_{q:g}'] for r in own]):.3f} of {np.mean([r[f'listed_at_{q:g}'] for r in own]):.0f}"
            for q in LEVELS
        ]
        lines.append(f"| {name} | {len(own)} | {' | '.join(numbers)} |")
    return "\n".join(lines)


def by_set() -> dict[str, list[dict[str, Any]]]:
    """Rows of discovery in which parts are listed, of this study and of pieces, by set."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in [*rows(PATH), *rows(study_pieces.PATH)]:
        if row["method"] == "discovery" and row.get(f"listed_at_{LEVELS[-1]:g}"):
            found.setdefault(row["dataset"], []).append(row)
    return found


if __name__ == "__main__":
    command(__doc__, PATH, cells)
    print(table())
