"""The constants of acceptance (`viewsmith.methods.discovery.acceptance`) halved and doubled, in letters and recordings.

Nothing recurs in walks (60 random walks of 200 points), noise (20 of 200) and composition (20 sequences of 80 letters,
each with frequencies of its own). Something does in event (60 pieces of noise with one event of 2.5 deviations), half
(an event of 4 deviations in half of 60 pieces) and word (20 sequences of 80 letters with a word of 12, 3 of them
changed). A row has the gain and p of every candidate, by which ALPHA and LEAST are judged; SURROGATES and SEARCHED are
rows of their own.

    OMP_NUM_THREADS=1 python -m benchmarks.quality.study_acceptance [minutes] [set ...]
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import torch

from benchmarks.common.runner import RESULTS, Cell, rows
from benchmarks.quality.suite import command
from viewsmith.methods.discovery import acceptance, events, motif_search

PATH = RESULTS / "study_acceptance.jsonl"
SEEDS, OTHERS = 5, 3  # as it is; with other searches
AS_IS = "as it is"
CONSTANTS = ("ALPHA", "LEAST", "SURROGATES", "SEARCHED")
SETTINGS = {f"{name} {mark}": (name, factor) for name in CONSTANTS for mark, factor in (("/ 2", 0.5), ("x 2", 2))}
NOTHING, SETS = ("walks", "noise", "composition"), ("walks", "noise", "composition", "event", "half", "word")


def samples(kind: str, seed: int) -> np.ndarray:
    """Recordings (n, 1, T), or codes of letters (n, L)."""
    rng = np.random.default_rng(seed)
    if kind == "walks":
        return rng.normal(size=(60, 1, 200)).cumsum(2).astype(np.float32)
    if kind == "composition":
        strong = rng.uniform(0.1, 0.9, 20)
        return np.stack([rng.choice(4, 80, p=[(1 - g) / 2, g / 2, g / 2, (1 - g) / 2]) for g in strong]).astype(
            np.uint8
        )
    if kind == "word":
        codes, word = rng.integers(0, 4, (20, 80)).astype(np.uint8), rng.integers(0, 4, 12)
        for own in codes:
            site, start = word.copy(), rng.integers(0, 69)
            site[rng.choice(12, 3, replace=False)] = rng.integers(0, 4, 3)
            own[start : start + 12] = site
        return codes
    x = rng.normal(size=(20 if kind == "noise" else 60, 1, 200))
    height, share = {"noise": (0.0, 0.0), "event": (2.5, 1.0), "half": (4.0, 0.5)}[kind]
    for own in np.flatnonzero(rng.random(len(x)) < share):
        start = rng.integers(0, 170)
        x[own, 0, start : start + 30] += height * np.hanning(30) * np.sin(np.arange(30) / 3)
    return x.astype(np.float32)


def measured(kind: str, setting: str, seed: int) -> dict[str, Any]:
    """Gain and p of every candidate."""
    torch.set_num_threads(1)
    began, x = time.process_time(), samples(kind, seed)
    name, factor = SETTINGS.get(setting, ("SEARCHED", 1))
    value = int(getattr(acceptance, name) * factor)
    search: Any = motif_search if x.ndim == 2 else events
    with mock.patch.object(search if name == "SURROGATES" else acceptance, name, value):
        if x.ndim == 2:
            tried: list[Any] = motif_search.find_motif(x, widths=(12,), seed=seed)
        else:
            tried = list(events.find_events(x, np.ones((len(x), x.shape[2]), bool), (12, 25), seed))
    numbers = {name: [float(f"{getattr(each.evidence, name):.4g}") for each in tried] for name in ("gain", "p")}
    return numbers | {"cpu_seconds": round(time.process_time() - began, 2)}


def cells(quick: bool = False) -> list[Cell]:
    """All cells."""
    if quick:
        return [Cell("noise", AS_IS, 0, partial(measured, "noise", AS_IS, 0))]
    searched = [AS_IS, *(setting for setting, (name, _) in SETTINGS.items() if name in ("SURROGATES", "SEARCHED"))]
    return [
        Cell(kind, setting, seed, partial(measured, kind, setting, seed))
        for setting in searched
        for kind in SETS
        for seed in range(SEEDS if setting == AS_IS else OTHERS)
    ]


def table() -> str:
    """In how many draws of each set something recurs, by constant."""
    lines = [f"| | {' | '.join(SETS)} |", "|" + "---|" * (1 + len(SETS))]
    for setting in (AS_IS, *SETTINGS):
        name, factor = SETTINGS.get(setting, ("", 1))
        given = name if name in ("ALPHA", "LEAST") else ""
        with mock.patch.object(
            acceptance, given or "ALPHA", getattr(acceptance, given or "ALPHA") * (factor if given else 1)
        ):
            found = [list(_recurs(kind, AS_IS if given else setting)) for kind in SETS]
        lines.append(f"| {setting} | {' | '.join(f'{sum(own)} of {len(own)}' if own else '' for own in found)} |")
    return "\n".join(lines)


def _recurs(kind: str, setting: str) -> Iterator[bool]:
    for row in rows(PATH):
        if (row["dataset"], row["method"]) == (kind, setting) and "error" not in row:
            tried = [acceptance.Evidence(*pair) for pair in zip(row["gain"], row["p"], strict=True)]
            yield any(each.recurs(len(tried)) for each in tried)


if __name__ == "__main__":
    command(__doc__, PATH, cells)
    print(table())
