"""The constants of acceptance (`viewsmith.methods.discovery.acceptance`) halved and doubled, and the guards of images.

Nothing recurs in walks (60 random walks of 200 points), noise (20 of 200) and composition (20 sequences of 80 letters,
each with frequencies of its own). Something does in event (60 pieces of noise with one event of 2.5 deviations), half
(an event of 4 deviations in half of 60 pieces) and word (20 sequences of 80 letters with a word of 12, 3 of them
changed). A row has the gain and p of every candidate, by which ALPHA and LEAST are judged; SURROGATES and SEARCHED are
rows of their own.

In images all are rows of their own. Nothing recurs in textures (five spectra) and fragments (of digits and clothes),
something does in smears, cards, and digits and objects in color among fragments (400 images of each): sets of
study_discovery.py, seed 0.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.study_acceptance [minutes] [set ...]
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import torch

from benchmarks.common.runner import RESULTS, Cell, rows
from benchmarks.quality.crl_tac import clutter
from benchmarks.quality.study_discovery import cards, fragments, scores, smears, textures
from benchmarks.quality.suite import command, rounded
from viewsmith import Discovery
from viewsmith.methods.discovery import acceptance, events, image_parts, motif_search

PATH = RESULTS / "study_acceptance.jsonl"
DRAWS = 20
AS_IS = "as it is"
CONSTANTS = ("ALPHA", "LEAST", "SURROGATES", "SEARCHED")
IMAGE_CONSTANTS = {"ALPHA": acceptance, "LEAST": acceptance} | dict.fromkeys(
    ("BACKGROUND", "CONSISTENT", "ENTIRELY"), image_parts
)


def settings(names: Iterable[str]) -> dict[str, tuple[str, float]]:
    """Constants halved and doubled."""
    return {f"{name} {mark}": (name, factor) for name in names for mark, factor in (("/ 2", 0.5), ("x 2", 2.0))}


SETTINGS, IMAGE_SETTINGS = settings(CONSTANTS), settings(IMAGE_CONSTANTS)
NOTHING, SETS = ("walks", "noise", "composition"), ("walks", "noise", "composition", "event", "half", "word")
NO_OBJECTS = {"textures": 5, "fragments": 4}  # draws
PHOTOGRAPHS = {"smears": smears, "cards": cards}
IMAGE_SETS = (*NO_OBJECTS, *PHOTOGRAPHS, "mnist", "cifar")


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


def in_images(kind: str, setting: str, seed: int) -> dict[str, Any]:
    """Whether something recurs; where it is known, center and CorLoc of the best place in every image."""
    torch.set_num_threads(1)
    known: list[np.ndarray] | None = None
    if kind in PHOTOGRAPHS:
        x, known = PHOTOGRAPHS[kind]()
    elif kind in NO_OBJECTS:
        x = textures(seed) if kind == "textures" else fragments(("mnist", "fashion")[seed % 2], seed)
    else:
        x, corners = clutter.make(kind, 400, seed)
        known = [np.array([[left, top, left + width, top + height]]) for top, left, height, width in corners]
    name, factor = IMAGE_SETTINGS.get(setting, ("ALPHA", 1.0))
    value = getattr(IMAGE_CONSTANTS[name], name) * factor
    with mock.patch.object(IMAGE_CONSTANTS[name], name, value):
        if known is None:
            began = time.process_time()
            recurs = Discovery(random_state=seed).fit(x).recurs_
            return {"recurs": recurs, "cpu_seconds": round(time.process_time() - began, 2)}
        return rounded(scores(x, known, random_state=seed))


def cells(quick: bool = False) -> list[Cell]:
    """All cells."""
    if quick:
        return [Cell("noise", AS_IS, 0, partial(measured, "noise", AS_IS, 0))]
    searched = [AS_IS, *(setting for setting, (name, _) in SETTINGS.items() if name in ("SURROGATES", "SEARCHED"))]
    found = [
        Cell(kind, setting, seed, partial(measured, kind, setting, seed))
        for setting in searched
        for kind in SETS
        for seed in range(DRAWS)
    ]
    return found + [
        Cell(kind, setting, seed, partial(in_images, kind, setting, seed))
        for setting in (AS_IS, *IMAGE_SETTINGS)
        for kind in IMAGE_SETS
        for seed in range(NO_OBJECTS.get(kind, 1))
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
    lines += ["", f"| | {' | '.join(IMAGE_SETS)} |", "|" + "---|" * (1 + len(IMAGE_SETS))]
    for setting in (AS_IS, *IMAGE_SETTINGS):
        lines.append(f"| {setting} | {' | '.join(_in_set(kind, setting) for kind in IMAGE_SETS)} |")
    return "\n".join(lines)


def _in_set(kind: str, setting: str) -> str:
    own = [row for row in rows(PATH) if (row["dataset"], row["method"]) == (kind, setting) and "error" not in row]
    if kind in NO_OBJECTS:
        return f"{sum(row['recurs'] for row in own)} of {len(own)}" if own else ""
    return ", ".join(f"{row['center']:.3f} / {row['corloc']:.3f}" if row["recurs"] else "nothing" for row in own)


def _recurs(kind: str, setting: str) -> Iterator[bool]:
    for row in rows(PATH):
        if (row["dataset"], row["method"]) == (kind, setting) and "error" not in row:
            tried = [acceptance.Evidence(*pair) for pair in zip(row["gain"], row["p"], strict=True)]
            yield any(each.recurs(len(tried)) for each in tried)


if __name__ == "__main__":
    command(__doc__, PATH, cells)
    print(table())
