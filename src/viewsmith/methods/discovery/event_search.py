"""Discovery in recordings: events of several kinds, their places in pieces, and q-values of the places.

After an event is found, its places are masked, and the next one is sought. The q-value of a place compares its score
with the best scores of pieces with the same spectra and random phases, so a piece may have no event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.domains import domain_of
from viewsmith.methods.discovery.contrast import Contrast, Whitening
from viewsmith.methods.discovery.events import CLEAR, Event, choose, find_events, free_windows, random_phases
from viewsmith.methods.discovery.search import q_values

FRACTIONS = (24, 16, 12, 8)  # widths that are tried are these fractions of a piece
SHORTEST = 8  # points of a window
FITTED = 400  # pieces that events are fitted to; all others are only scored
NULL = 2_000  # pieces with random phases for q-values
BLOCK = 256
#: One row for each event: number of the piece and kind, first point and the one after the last, score and q-value.
EVENTS = np.dtype(
    [*((name, np.int64) for name in ("sample", "kind", "start", "end")), *(("score", np.float64), ("q", np.float64))]
)


@dataclass
class EventSearch:
    """Events in recordings; see `viewsmith.Discovery` for the options.

    Attributes
    ----------
    parts : list of Event
        One for each kind that recurs.
    tried : list of list of Event
        For each kind, an event of each width.
    null : list of ndarray
        For each kind, the best scores of pieces with random phases, sorted.
    """

    name: ClassVar[str] = "series"

    windows: Sequence[int] | None = None
    kinds: int = 1
    max_parts: int = 1
    seed: int = 0
    parts: list[Event] = field(default_factory=list)
    tried: list[list[Event]] = field(default_factory=list)
    null: list[np.ndarray] = field(default_factory=list)
    channels: int = 0

    def fit(self, X: Any) -> None:
        """Find what recurs; raises InputError for samples or options that cannot be used."""
        x, rng = pieces(X), np.random.default_rng(self.seed)
        self.channels = x.shape[1]
        widths = [max(SHORTEST, x.shape[2] // part) for part in FRACTIONS] if self.windows is None else self.windows
        if max(widths) > x.shape[2] // 2:
            raise InputError(
                f"pieces of {x.shape[2]} points with windows of {max(widths)}, expected windows of at most half of a "
                "piece: give smaller windows, or longer pieces"
            )
        x = x[np.sort(rng.permutation(len(x))[:FITTED])]
        if (x == x[0]).all():
            raise InputError("all samples are equal, expected recordings that differ: there is nothing to contrast")
        if float(np.ptp(x, axis=2).max()) == 0:
            raise InputError("all channels are flat, expected recordings that vary: there is nothing to find")
        free = np.ones((len(x), x.shape[2]), bool)
        for _ in range(self.kinds):
            events = find_events(x, free, sorted(dict.fromkeys(widths)), self.seed)
            self.tried.append(events)
            event = choose(events)
            if event is None:
                break
            empty = random_phases(x[rng.integers(0, len(x), NULL)], rng)
            self.null.append(np.sort(np.concatenate([event.scores(part)[1].max(1) for part in _blocks(empty)])))
            self.parts.append(event)
            for starts, scores in _places(event, x, free, self.max_parts):
                free &= ~_inside(starts, np.where(scores > 0, event.width, 0), x.shape[2])

    def describe(self) -> str:
        """What was found, in one sentence."""
        best = max(self.tried[0], key=lambda event: event.gain - event.nothing[0])
        numbers = (
            f"{best.width} points, {best.gain:.1f} nats in the mean of the pieces, where {best.nothing[0]:.1f} are "
            f"found in pieces with random phases ({best.clarity:.0f} standard deviations)"
        )
        if not self.parts:
            return f"the best candidate has {numbers}; expected more than {CLEAR:.0f} standard deviations"
        kinds = "one event recurs" if len(self.parts) == 1 else f"{len(self.parts)} events recur"
        return f"{kinds}; the first has {numbers}"

    def candidates(self, X: Any) -> np.ndarray:
        """The best places of every kind in every piece, with their q-values among all of them."""
        x = pieces(X)
        if x.shape[1] != self.channels and self.parts:
            raise InputError(f"recordings of {x.shape[1]} channels, but the model was fitted on {self.channels}")
        tables = []
        free = np.ones((len(x), x.shape[2]), bool)
        for kind, event in enumerate(self.parts):
            for starts, scores in _places(event, x, free, self.max_parts):
                rows = np.flatnonzero(np.isfinite(scores))
                table = np.zeros(len(rows), EVENTS)
                table["sample"], table["kind"], table["score"] = rows, kind, scores[rows]
                table["start"], table["end"] = starts[rows], starts[rows] + event.width
                tables.append(table)
                free &= ~_inside(starts, np.where(scores > 0, event.width, 0), x.shape[2])
        found = np.concatenate(tables) if tables else np.zeros(0, EVENTS)
        for kind, null in enumerate(self.null):
            of_kind = found["kind"] == kind
            found["q"][of_kind] = q_values(found["score"][of_kind], null)
        return found[np.argsort(found["sample"], kind="stable")]

    def crops(self, X: Any, found: np.ndarray, size: int) -> np.ndarray:
        """`size` points around events, float32 (m, C, size); inside the piece as far as possible."""
        x = pieces(X)
        size = min(size, x.shape[2])
        middle = (found["start"] + found["end"]) // 2
        starts = np.clip(middle - size // 2, 0, x.shape[2] - size)
        cut = [x[i, :, a : a + size] for i, a in zip(found["sample"], starts, strict=True)]
        return np.stack(cut) if cut else np.zeros((0, x.shape[1], size), np.float32)

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Plain values and tensors of what was fitted."""
        plain: dict[str, Any] = {name: [getattr(e, name) for e in self.parts] for name in ("width", "gain")}
        plain |= {"nothing": [list(e.nothing) for e in self.parts], "channels": self.channels}
        tensors: dict[str, Tensor] = {}
        for i, (event, null) in enumerate(zip(self.parts, self.null, strict=True)):
            arrays = event.windows[0].arrays() | event.windows[1].arrays() | {"null": null}
            tensors |= {f"{i}.{name}": torch.from_numpy(np.ascontiguousarray(a)) for name, a in arrays.items()}
        return plain, tensors

    def restore(self, fitted: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Take what `state` gave."""
        self.channels = int(fitted["channels"])
        for i, (width, gain, nothing) in enumerate(
            zip(fitted["width"], fitted["gain"], fitted["nothing"], strict=True)
        ):
            own = {name.partition(".")[2]: t.numpy() for name, t in tensors.items() if name.startswith(f"{i}.")}
            windows = Whitening(own["mean"], own["axes"]), Contrast.from_arrays(own)
            self.parts.append(Event(int(width), windows, float(gain), tuple(nothing)))
            self.null.append(own["null"])
        self.tried = [[event] for event in self.parts]


def pieces(X: Any) -> np.ndarray:
    """Recordings (n, C, T), or of one channel (n, T), as float32 (n, C, T).

    Raises
    ------
    InputError
        Another shape, values that are not finite, or fewer than four pieces.
    """
    x = np.asarray(X.detach().cpu() if hasattr(X, "detach") else X)
    x = np.asarray(domain_of("series").read(x[:, None] if x.ndim == 2 else x))
    if len(x) < 4:
        raise InputError(f"{len(x)} pieces, expected at least 4: what recurs is seen across pieces")
    return x


def _blocks(x: np.ndarray) -> list[np.ndarray]:
    return [x[a : a + BLOCK] for a in range(0, len(x), BLOCK)]


def _places(event: Event, x: np.ndarray, free: np.ndarray, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """First points and scores of up to `count` events of each piece, which do not overlap; -inf for none."""
    parts = [event.scores(block) for block in _blocks(x)]
    starts, scores = parts[0][0], np.concatenate([each for _, each in parts])
    free, found = free.copy(), []
    for _ in range(count):
        held = np.where(free_windows(free, starts, event.width), scores, -np.inf)
        best = starts[held.argmax(1)]
        found.append((best, held.max(1)))
        free &= ~_inside(best, np.full(len(x), event.width), x.shape[2])
    return found


def _inside(starts: np.ndarray, widths: np.ndarray, length: int) -> np.ndarray:
    """Whether each point lies in the window of its piece, bool (n, T)."""
    place = np.arange(length)
    return np.asarray((place >= starts[:, None]) & (place < (starts + widths)[:, None]))
