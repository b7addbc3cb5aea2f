"""Discovery in recordings: an event that recurs in pieces of recordings, such as a heart beat, and where.

1. Windows: of every window of w points, averages over a few points in a row, less the mean of the window, and the
   logarithm of the spread around each average, in each channel, reduced to whitened principal components. The spread
   of a steep flank is large whatever its sign: events of several shapes have it in common.
2. Contrast: windows are chosen that look alike across pieces and unlike windows in general
   (`viewsmith.methods.discovery.contrast`).
3. One view: the chosen windows may be an event shifted to both sides. From the larger half of them, with one window of
   a piece, the rounds are repeated; the result is taken unless it loses gain.
4. Choice: `viewsmith.methods.discovery.acceptance`, with random phases as surrogates.
5. All of them: p_P is fitted again to every place that is hardly found in random phases, and p_U to the windows beside
   these places, until they stay the same. The best window of each piece is of the most frequent shape; those of other
   shapes join by and by. A further place in a piece has to be rather an event than not, also if windows beside events
   are so many times as frequent as events are: s(z) is above the log of that.

With one template this is the consensus motif of a set of recordings (Kamgar et al. 2019); surrogates with random phases
are those of Theiler et al. (1992).

Of many channels those are searched, or their principal components, in which a quick search finds most that recurs: by
itself in each, without the pieces that are scored. An event lies in few of 100 channels, and costs as much as in few.

Symbols: z a window; w its points; n pieces of C channels and T points; s(z) = log p_P(z) / p_U(z).

What recurs most may be no event but a state, such as the silence between calls: it is masked, and what recurs beside it
is sought. After an event is found, its places are masked, and the next one is sought. The q-value of a place compares
its score with the best scores of pieces with random phases and the same spectra, those beside the events: with events
in them, spectra have their power all over the piece. So a piece may have no event.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.ndimage import find_objects, label, uniform_filter1d
from torch import Tensor

from viewsmith.core.errors import InputError, name_list, pluralize, warn
from viewsmith.core.progress import TOLD, with_progress
from viewsmith.core.rows import RowSource, row_blocks
from viewsmith.data.any_size import by_content
from viewsmith.data.sounds import otsu_threshold
from viewsmith.methods.discovery.acceptance import SURROGATES, Evidence, choose, parts_of
from viewsmith.methods.discovery.contrast import (
    ROUNDS,
    SURE,
    Contrast,
    Moments,
    Search,
    Whitening,
    arrays_of,
    below,
    choose_windows,
    columns,
    folds,
    from_arrays,
    inside,
    q_values,
    under,
)
from viewsmith.modalities import modality_of

POINTS = 24  # averages of a window in each channel
FITTED_STEPS, STEPS = 8, 16  # windows begin at every w / 8 points when an event is fitted, else at every w / 16
SPLITS = 2  # times that the chosen windows are cut in two
ONE_VIEW = 0.9  # of the gain of all, which one view must reach
ENDS = 64  # the ends of a piece are this part of it
SMALL_UNIT = 0.1  # spread of a channel below which it is the unit, as in volts of the heart or tesla of the brain
LEAST_SPREAD = 0.01  # of the standard deviation of a channel; what is below is alike
PLACES = 8  # of a piece, to which p_P is fitted again
CHANNELS = 8  # of more than twice as many, so many are searched
COMMON = 0.01  # least variance of a component of the channels, of which the mean is 1
#: Of the windows, what more of them rather are than not is a state, and no event: events side by side, each like the
#: windows that begin up to an eighth of the width before or after it, would be a quarter of all.
STATE = 0.25
QUICK = 100, 4, 3  # pieces, windows in a width, and rounds, in which channels are compared
AT_ONCE = 2**20  # values of windows that are in memory at once


@dataclass(frozen=True)
class Event:
    """An event, fitted: it scores the windows of any pieces."""

    width: int  # points of a window
    least: np.ndarray  # spread (C,) below which spreads are alike
    windows: tuple[Whitening, Contrast]
    evidence: Evidence = field(default_factory=Evidence)
    rarity: float = 0.0  # log of how many windows beside events there are for each: what scores more is rather one
    mixtures: np.ndarray | None = None  # of the channels, (K, C), in which it is sought
    # Where its best place in each piece starts, by a search without the piece.
    held: np.ndarray = field(default_factory=lambda: np.zeros(0, int))

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that are saved by name."""
        found = {"least": self.least, "rarity": np.array([self.rarity])}
        found |= {} if self.mixtures is None else {"mixtures": self.mixtures}
        return found | arrays_of(*self.windows)

    def sought(self, x: np.ndarray) -> tuple["Event", np.ndarray]:
        """The event in the mixtures alone, and these, (n, K, T), of pieces (n, C, T)."""
        return (self, x) if self.mixtures is None else (replace(self, mixtures=None), self.mixtures @ x)

    def scores(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First points (m,) of the windows of pieces (n, K, T), and their scores as events of the kind, (n, m)."""
        starts, z = components(x, self.width, self.least, self.windows[0])
        return starts, self.scores_of(z)

    def scores_of(self, z: np.ndarray) -> np.ndarray:
        """Scores (n, m) of windows with the components z (n, m, d)."""
        return self.windows[1](z.reshape(-1, z.shape[-1])).reshape(z.shape[:2])

    def beside(self, x: np.ndarray, free: np.ndarray) -> tuple[float, np.ndarray]:
        """Of the free windows of pieces (n, C, T), how many rather are of the kind than not, as a fraction; and which
        free points lie in none of these, bool (n, T)."""
        plain, sought = self.sought(x)
        parts = [plain.scores(some) for some in _sliced(sought, sought.shape[1] * x.shape[2])]
        starts, whole = parts[0][0], free_windows(free, parts[0][0], self.width)
        there = (np.concatenate([scores for _, scores in parts]) > self.rarity) & whole
        return float(there.sum() / max(whole.sum(), 1)), free & ~_covered(there, starts, self.width, x.shape[2])

    def features(self, x: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Features (n, d) of the window of each piece (n, C, T) that begins at its first point."""
        cut = np.stack([own[:, start : start + self.width] for own, start in zip(x, starts, strict=True)])
        return self.windows[0](window_values(cut, self.width, self.least)[1][:, 0])


def window_values(x: np.ndarray, width: int, least: np.ndarray, steps: int = STEPS) -> tuple[np.ndarray, np.ndarray]:
    """First points (m,) of windows, and their averages less the mean and log spreads, float32 (n, m, 2 C POINTS), of
    pieces (n, C, T); `least` (C,) is the spread below which spreads are alike."""
    step = max(1, width // POINTS)
    starts = np.arange(0, x.shape[2] - width + 1, max(1, width // steps))
    centered = x - x.mean(2, keepdims=True, dtype=np.float64)  # squares of a level would lose the digits of spreads
    summed = np.pad(np.stack([centered, centered**2]), ((0, 0), (0, 0), (0, 0), (1, 0))).cumsum(3)
    parts: list[np.ndarray] = []
    for points in (step, max(2, step)):
        mean, square = (summed[..., points:] - summed[..., :-points]) / points
        each = mean if not parts else np.log(np.sqrt((square - mean**2).clip(0)) + least[:, None])
        parts.append(each.astype(np.float32)[:, :, starts[:, None] + np.arange(0, width - points + 1, step)])
    parts[0] -= parts[0].mean(3, keepdims=True)
    values = np.concatenate(parts, 3).transpose(0, 2, 1, 3)
    return starts, np.ascontiguousarray(values).reshape(len(x), len(starts), -1)


def _blocks(x: np.ndarray, width: int, steps: int) -> Iterator[np.ndarray]:
    """Pieces (n, C, T) in blocks whose windows have at most about `AT_ONCE` values."""
    windows = (x.shape[2] - width) // max(1, width // steps) + 1
    rows = max(1, AT_ONCE // (2 * POINTS * windows * x.shape[1]))
    return (x[start : start + rows] for start in range(0, len(x), rows))


def components(
    x: np.ndarray, width: int, least: np.ndarray, whitening: Whitening, steps: int = STEPS
) -> tuple[np.ndarray, np.ndarray]:
    """First points (m,) of the windows of pieces (n, C, T), and whitened components of them, (n, m, d)."""
    each = (window_values(block, width, least, steps) for block in _blocks(x, width, steps))
    starts, z = zip(*((starts, whitening(values)) for starts, values in each), strict=True)
    return starts[0], np.concatenate(z)


def random_phases(x: np.ndarray, rng: np.random.Generator, gain: np.ndarray | None = None) -> np.ndarray:
    """Pieces with the same spectra, times `gain` (n,), and random phases, the same ones in all channels of a piece,
    float32 (n, C, T). The line from one end of a piece to the other stays: as a jump it would be in the spectrum."""
    ends = max(1, x.shape[2] // ENDS)
    first, last = x[:, :, :ends].mean(2, keepdims=True), x[:, :, -ends:].mean(2, keepdims=True)
    line = first + (last - first) * np.linspace(0, 1, x.shape[2], dtype=np.float32)
    spectrum = np.fft.rfft(x - line, axis=2)
    spectrum *= 1 if gain is None else gain[:, None, None]
    phases = rng.uniform(0, 2 * np.pi, (len(x), 1, spectrum.shape[2]))
    phases[:, :, 0] = 0
    return (np.fft.irfft(spectrum * np.exp(1j * phases), n=x.shape[2], axis=2) + line).astype(np.float32)


def find_events(x: np.ndarray, free: np.ndarray, widths: Sequence[int], seed: int = 0) -> list[Event]:
    """Find what recurs in pieces: an event for each width, with its evidence."""
    rows, every, rng = parts_of(len(x), seed), folds(len(x), seed), np.random.default_rng(seed)
    own_rows = [np.ones(len(x), bool), *rows]
    mixtures = _mixtures(x, free, sorted(widths)[len(widths) // 2], rows, seed)
    searches = [(width, number) for number in range(len(own_rows)) for width in widths]
    found: dict[int, list[Event]] = {width: [] for width in widths}
    sought = np.empty((len(x), x.shape[1] if mixtures[0] is None else len(mixtures[0]), x.shape[2]), np.float32)
    for width, number in with_progress(searches, "events", len(searches), "searches", told=TOLD):
        own, mixture = own_rows[number], mixtures[number]
        if width == widths[0]:
            part = x if mixture is None else mixture @ x
            least = LEAST_SPREAD * part.std((0, 2), dtype=np.float64) + 1e-12
            sought[~own] = part[~own]
        fold = folds(int(own.sum()), seed) if number else every
        windows = _search(part[own], free[own], width, least, fold)
        found[width].append(Event(width, least, windows, mixtures=mixture))
    scores, held = np.empty((len(widths), 1 + SURROGATES, len(x))), np.empty((len(widths), len(x)), int)
    passes = range(1 + SURROGATES)
    for number in with_progress(passes, "events", len(passes), "surrogates", told=TOLD):
        each = random_phases(sought, rng) if number else sought
        for i, width in enumerate(widths):
            for own, event in zip(rows, found[width][1:], strict=True):
                starts, scores[i, number, ~own] = _places(event, each[~own], free[~own], 1)[0]
                held[i, ~own] = held[i, ~own] if number else starts
    return [replace(found[width][0], evidence=Evidence.of(scores[i]), held=held[i]) for i, width in enumerate(widths)]


def _mixtures(
    x: np.ndarray, free: np.ndarray, width: int, parts: Sequence[np.ndarray], seed: int
) -> list[np.ndarray | None]:
    """Mixtures (K, C) of many channels in which an event is sought, in all pieces and in each part of them: channels,
    without what they have in common, and principal components, those with the largest gains of a quick search."""
    if x.shape[1] <= 2 * CHANNELS:
        return [None] * (1 + len(parts))
    spread = x.std((0, 2), dtype=np.float64)
    varies, scale = spread > 0, 1 / np.where(spread > 0, spread, np.inf)
    products = np.zeros((x.shape[1],) * 2)
    for piece in x:
        each = (piece - piece.mean(1, keepdims=True)) * scale[:, None].astype(np.float32)
        products += each @ each.T
    variance, axes = np.linalg.eigh(products / (len(x) * x.shape[2]))
    white = axes / np.sqrt(np.maximum(variance, COMMON))
    every = (np.concatenate([(white @ axes.T)[varies], white[:, -CHANNELS:].T]) * scale).astype(np.float32)
    pieces, steps, rounds = QUICK
    gains = np.empty((len(parts), len(every)))
    for number, own in enumerate(parts):
        some = np.flatnonzero(own)[:: -(-int(own.sum()) // pieces)]
        fold, mixed = folds(len(some), seed), every @ x[some]
        for i in range(len(every)):
            starts, values = window_values(mixed[:, i : i + 1], width, np.full(1, LEAST_SPREAD), steps)
            whole = free_windows(free[some], starts, width)
            z = Whitening.of(Moments.of(values, whole))(values)
            gains[number, i] = _gain(choose_windows(z, whole, fold, rounds=rounds)[0])
    return [every[np.sort(np.argsort(-own)[:CHANNELS])] for own in (gains.mean(0), *gains)]


def grown(event: Event, x: np.ndarray, free: np.ndarray, rng: np.random.Generator) -> tuple[Event, np.ndarray]:
    """The event with p_P fitted to all of its places in pieces x, up to `PLACES` in each, which are hardly found in
    random phases, however many are listed, and p_U to the windows beside these; and which points lie in the places,
    bool (n, T)."""
    whitening, chosen = event.windows[0], np.zeros((0, 0), bool)
    starts, z = components(x, event.width, event.least, whitening)
    whole, anywhere = free_windows(free, starts, event.width), np.ones((len(x), x.shape[2]), bool)
    everything, taken = Moments.of(z, whole), ~anywhere
    empty = components(random_phases(x, rng), event.width, event.least, whitening)[1]
    for _ in range(ROUNDS):
        found = np.stack(_best(starts, event.scores_of(z), free, event.width, PLACES), 2)
        null = np.stack([held for _, held in _best(starts, event.scores_of(empty), anywhere, event.width, PLACES)], 1)
        sure = q_values(found[1].ravel(), null, len(x)).reshape(found[1].shape) <= SURE
        rows, places = np.nonzero(sure & (found[1] > event.rarity))
        before, chosen = chosen, np.zeros(z.shape[:2], bool)
        chosen[rows, np.searchsorted(starts, found[0][rows, places])] = True
        if not chosen.any() or np.array_equal(chosen, before):
            break
        taken = _covered(chosen, starts, event.width, x.shape[2])
        events, beside = Moments.of(z[chosen]), Moments.of(z, whole & free_windows(~taken, starts, event.width))
        beside = beside if beside.count else everything
        rarity = max(0.0, float(np.log(beside.count / events.count)))
        event = replace(event, windows=(whitening, Contrast.of(events, everything, beside)), rarity=rarity)
    return event, taken


def without_events(x: np.ndarray, taken: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Blocks of pieces (m, C, T) with random phases and the spectra of what is beside the events: with events in it,
    the spectrum has their power all over the piece. Pieces are drawn in proportion to what is left of them."""
    taken = np.zeros_like(taken) if taken.all() else taken
    left, values = 1 - taken.mean(1), x.shape[1] * x.shape[2]
    rows = rng.choice(len(x), int(np.clip(NULL_VALUES // values, NULL // 10, NULL)), p=left / left.sum())
    for some in _sliced(rows, values):
        filled, _ = without_gaps(np.where(taken[some, None], np.float32(np.nan), x[some]))
        yield random_phases(filled, rng, (1 / np.sqrt(left[some])).astype(np.float32))


def free_windows(free: np.ndarray, starts: np.ndarray, width: int) -> np.ndarray:
    """Windows all of whose points are free, bool (n, m)."""
    taken = np.pad(~free, ((0, 0), (1, 0))).cumsum(1)
    return np.asarray(taken[:, starts + width] == taken[:, starts])


def _search(
    x: np.ndarray, free: np.ndarray, width: int, least: np.ndarray, fold: np.ndarray
) -> tuple[Whitening, Contrast]:
    """What windows of one width lead to."""
    moments, at = list[Moments](), 0
    for block in _blocks(x, width, FITTED_STEPS):
        starts, values = window_values(block, width, least, FITTED_STEPS)
        moments.append(Moments.of(values, free_windows(free[at : at + len(block)], starts, width)))
        at += len(block)
    whitening, whole = Whitening.of(sum(moments[1:], moments[0])), free_windows(free, starts, width)
    z = components(x, width, least, whitening, FITTED_STEPS)[1]
    scores, contrast = choose_windows(z, whole, fold)
    found, enough = [(_gain(scores), contrast)], ONE_VIEW * _gain(scores)
    for _ in range(SPLITS):
        scores, contrast = choose_windows(z, whole, fold, _half(z, whole, scores), count=1)
        if _gain(scores) >= enough:
            found.append((_gain(scores), contrast))
    return whitening, max(found[1:] or found, key=lambda pair: pair[0])[1]


def _gain(scores: np.ndarray) -> float:
    best = scores.max(1)
    return float(best[np.isfinite(best)].mean())


def _half(z: np.ndarray, whole: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Scores (n, m) under the larger half of the best windows, cut across their leading axis."""
    best = z[np.arange(len(z)), scores.argmax(1)][np.isfinite(scores.max(1))]
    along = (best - best.mean(0)) @ np.linalg.svd(best - best.mean(0), full_matrices=False)[2][0]
    half = best[along > 0 if (along > 0).mean() >= 0.5 else along <= 0]
    contrast = Contrast.of(Moments.of(half), Moments.of(z[whole]))
    return contrast(z.reshape(-1, z.shape[-1])).reshape(z.shape[:2])


FRACTIONS = (24, 16, 12, 8)  # widths that are tried are these fractions of a piece
SHORTEST = 8  # points of a window
FEWEST = 4  # pieces
FITTED = 400  # pieces that events are fitted to; all others are only scored
NULL = 2_000  # pieces with random phases for q-values; of long ones at least a tenth, of `NULL_VALUES` in all
NULL_VALUES = 2**26
BLOCK, BLOCK_VALUES = 256, 2**22  # pieces, and values of pieces, that are scored at once

#: First point of an event, and the one after the last.
EVENTS = columns(start=np.int64, end=np.int64)


@dataclass(kw_only=True)
class EventSearch(Search):
    """Events in recordings."""

    name: ClassVar[str] = "series"
    samples_name: ClassVar[str] = "pieces"
    saved, saved_of_parts = (*Search.saved, "channels", "units"), ("width",)
    channels: int = 0
    units: tuple[float, ...] = ()  # of each channel, by which it is divided
    states: list[Event] = field(default_factory=list)  # what recurs, but fills the pieces
    rate: float | None = None  # points in a second, if known, by which lengths are said in seconds, too

    def fit(self, X: Any) -> None:
        """Find what recurs; raises InputError for samples or options that cannot be used."""
        rng = np.random.default_rng(self.seed)
        x, free, widths = self._drawn(X, rng)
        while len(self.parts) < self.kinds:
            starts = np.arange(x.shape[2] - max(widths) + 1)
            if (some := int(free_windows(free, starts, max(widths)).any(1).sum())) < FEWEST:
                if not self.tried and not self.states:
                    raise InputError(
                        f"gaps (NaN) leave {pluralize(some, 'piece')} of {len(x)} with a window of {max(widths)} "
                        f"points without one, expected at least {FEWEST}: fill short gaps (DataFrame.interpolate), "
                        "or give smaller windows"
                    )
                break
            events = find_events(x, free, sorted(dict.fromkeys(widths)), self.seed)
            event = choose(events)
            if event is None:
                self.tried.append(events)
                break
            plain, sought = event.sought(x)
            plain, taken = grown(plain, sought, free, rng)
            event = replace(plain, mixtures=event.mixtures)
            filled, beside = event.beside(x, free)
            if filled > STATE:
                warn(
                    f"what recurs most fills {filled:.0%} of the pieces, as the silence between calls does: it is left "
                    "out, and what recurs beside it is sought"
                )
                self.states.append(event)
                free = beside
                continue
            self.tried.append(events)
            every = _places(plain, sought, free, max(PLACES, self.max_parts))
            found = every[: self.max_parts]
            empty = (
                _places(plain, each, np.ones((len(each), x.shape[2]), bool), self.max_parts)
                for each in without_events(sought, taken, rng)
            )
            null = np.concatenate([np.stack([scores for _, scores in places], 1) for places in empty])
            self.keep(event, null, found[0][1], plain.features(sought, found[0][0]))
            if len(self.parts) == 1:
                self.compare(event.held, [(at, np.where(s > event.rarity, s, -np.inf)) for at, s in every], event.width)
            for starts, scores in found:
                free &= ~inside(starts, np.where(scores > event.rarity, event.width, 0), x.shape[2])

    def _drawn(self, X: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, Sequence[int]]:
        """The pieces that events are fitted to, in their units, where they have no gap, and the widths that are tried;
        raises InputError for samples or options that cannot be used."""
        x: Any = X if isinstance(X, RowSource) else pieces(X)
        if len(x) < FEWEST:
            expected = f"expected at least {FEWEST}: what recurs is seen across them; cut shorter ones"
            raise InputError(f"{len(x)} pieces, {expected}")
        self.channels = x.shape[1]
        widths = [max(SHORTEST, x.shape[2] // part) for part in FRACTIONS] if self.windows is None else self.windows
        if max(widths) > x.shape[2] // 2:
            raise InputError(
                f"pieces of {x.shape[2]} points with windows of {max(widths)}, expected windows of at most half of a "
                "piece: give smaller windows, or longer pieces"
            )
        order = by_content(row for block in row_blocks(x) for row in np.asarray(block))
        x = x[order[rng.permutation(len(x))[:FITTED]]]
        x = pieces(x) if isinstance(X, RowSource) else x
        if np.array_equal(x, np.broadcast_to(x[0], x.shape), equal_nan=True):
            raise InputError("all samples are equal, expected recordings that differ: there is nothing to contrast")
        flat = np.fmax.reduce(np.fmax.reduce(x, 2) - np.fmin.reduce(x, 2), 0) == 0
        if flat.all():
            raise InputError("all channels are flat, expected recordings that vary: there is nothing to find")
        if flat.any():
            numbers = f"{pluralize(int(flat.sum()), 'channel')} of {len(flat)} (counted from 0: "
            warn(f"{numbers}{name_list(np.flatnonzero(flat).tolist())}) is flat in all pieces, ignored")
        x, free = without_gaps(x)
        spread = x.std((0, 2), dtype=np.float64)
        self.units = tuple(np.where((spread > 0) & (spread < SMALL_UNIT), spread, 1.0).tolist())
        return self._scaled(x), free, widths

    def _scaled(self, x: np.ndarray) -> np.ndarray:
        """Pieces (n, C, T) in units in which their averages count beside the logarithms of spreads."""
        units = np.array(self.units)
        return x if (units == 1).all() else (x / units[:, None]).astype(np.float32)

    def describe(self) -> str:
        if self.parts:
            kinds = "one event recurs" if len(self.parts) == 1 else f"{len(self.parts)} events recur"
            return f"{kinds}: {'' if len(self.parts) == 1 else 'the first has '}{self._length(self.parts[0])}"
        if not self.tried:
            return "what recurs fills the pieces, as silence does, and leaves too little beside it"
        best = max(self.tried[0], key=lambda event: event.evidence.gain)
        return f"the best candidate, of {self._length(best)}, {best.evidence.why(len(self.tried[0]))}"

    def extent(self, found: np.ndarray) -> str:
        """The size of the events of one kind."""
        return f"an event of {self._length(self.parts[int(found['kind'][0])])}"

    def _length(self, event: Event) -> str:
        """The length of an event, in points and seconds."""
        return f"{event.width} points" + ("" if self.rate is None else f" ({event.width / self.rate:.3g} s)")

    def candidates(self, X: Any) -> np.ndarray:
        """The best places of every kind in every piece, with their q-values among all of them."""
        x: Any = X if isinstance(X, RowSource) else pieces(X)
        if x.shape[1] != self.channels and self.parts:
            raise InputError(f"recordings of {x.shape[1]} channels, but the model was fitted on {self.channels}")
        if (width := max((each.width for each in (*self.parts, *self.states)), default=0)) > x.shape[2]:
            raise InputError(f"recordings of {x.shape[2]} points, expected at least {width}, the length of an event")
        blocks = [list(self._places(np.asarray(block))) for block in row_blocks(x)]
        places = [
            (same[0][0], {name: np.concatenate([columns[name] for _, columns in same]) for name in same[0][1]})
            for same in zip(*blocks, strict=True)
        ]
        table = self.table(EVENTS, places, len(x))
        if self.parts:
            self.alike = self._by_energy(x, table[(table["kind"] == 0) & (table["score"] > self.parts[0].rarity)])
        return table

    def _by_energy(self, x: Any, events: np.ndarray) -> tuple[int, int, int]:
        """Numbers of the spans of pieces (n, C, T) where the log energy of a window is above Otsu's threshold, of
        events, and of events in which the middle of one span lies."""
        width = self.parts[0].width
        some = np.linspace(0, len(x) - 1, min(len(x), FITTED)).astype(int)
        limit = otsu_threshold(log_energy(np.asarray(x[some]), width))
        spans, same, first = 0, 0, 0
        for block in row_blocks(x):
            for i, energy in enumerate(log_energy(np.asarray(block), width), first):
                found = [(at.start + at.stop) / 2 for (at,) in find_objects(label(energy > limit)[0])]
                own = events[events["sample"] == i]
                held = (own["start"][:, None] <= found) & (found < own["end"][:, None])
                spans, same = spans + len(found), same + int((held.sum(1) == 1).sum())
            first += len(block)
        return spans, len(events), same

    def threshold(self) -> tuple[str, str]:
        return "of the energy", (
            "of pieces x (n, channels, points), with scipy and scikit-image, e = numpy.log("
            f"ndimage.uniform_filter1d(((x - x.mean(2, keepdims=True)) ** 2).sum(1), {self.parts[0].width})"
            ".clip(1e-30)); ndimage.label(e > filters.threshold_otsu(e), [[0] * 3, [1] * 3, [0] * 3])"
        )

    def _places(self, x: np.ndarray) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """The best events of each kind, apart from those of the kinds before."""
        x, free = without_gaps(x)
        x = self._scaled(x)
        for state in self.states:
            free = state.beside(x, free)[1]
        for kind, event in enumerate(self.parts):
            plain, sought = event.sought(x)
            for number, (starts, scores) in enumerate(_places(plain, sought, free, self.max_parts)):
                if number:  # what else is between events also recurs, and is found in no random phases
                    scores = np.where(scores > event.rarity, scores, -np.inf)
                outlier = self.typical[kind].outliers(plain.features(sought, starts))
                yield kind, {"start": starts, "end": starts + event.width, "score": scores, "outlier": outlier}
                free &= ~inside(starts, np.where(scores > event.rarity, event.width, 0), x.shape[2])

    def crops(self, X: Any, found: np.ndarray, size: int) -> np.ndarray:
        """`size` points around events, float32 (m, C, size); inside the piece as far as possible."""
        x: Any = X if isinstance(X, RowSource) else pieces(X)
        size = min(size, x.shape[2])
        middle = (found["start"] + found["end"]) // 2
        starts = np.clip(middle - size // 2, 0, x.shape[2] - size)
        cut = [x[int(i)][:, a : a + size] for i, a in zip(found["sample"], starts, strict=True)]
        return np.stack(cut) if cut else np.zeros((0, x.shape[1], size), np.float32)

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        plain, tensors = super().state()
        for i, state in enumerate(self.states):
            tensors |= under(f"state{i}", {name: torch.from_numpy(array) for name, array in state.arrays().items()})
        return plain | {"states": [state.width for state in self.states]}, tensors

    def restore(self, fitted: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        super().restore(fitted, tensors)
        for i, width in enumerate(fitted["states"]):
            arrays = {name: tensor.numpy() for name, tensor in below(f"state{i}", tensors).items()}
            self.states.append(self.part_from(arrays, width=width))

    def part_from(self, arrays: dict[str, np.ndarray], **values: Any) -> Event:
        named = {"least": arrays["least"], "rarity": arrays["rarity"].item(), "mixtures": arrays.get("mixtures")}
        return Event(windows=from_arrays(arrays), **named, **values)


def pieces(X: Any) -> np.ndarray:
    """Recordings (n, C, T), or of one channel (n, T), as float32 (n, C, T), NaN in gaps."""
    x = X.detach().cpu() if hasattr(X, "detach") else X
    one_channel = getattr(x, "ndim", 0) == 2 and not hasattr(x, "tocsr")
    return np.asarray(modality_of("series").read(np.asarray(x)[:, None] if one_channel else x))


def without_gaps(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pieces with straight lines in their gaps, and which points are known, where events are sought, bool (n, T)."""
    unknown = np.isnan(x)
    if not unknown.any():
        return x, np.ones((len(x), x.shape[2]), bool)
    x, place = x.copy(), np.arange(x.shape[2])
    for channel, gap in zip(x.reshape(-1, x.shape[2]), unknown.reshape(-1, x.shape[2]), strict=True):
        if gap.all():
            channel[:] = 0
        elif gap.any():
            channel[gap] = np.interp(place[gap], place[~gap], channel[~gap])
    return x, ~unknown.any(1)


def log_energy(x: np.ndarray, points: int) -> np.ndarray:
    """Logarithm of the squares of pieces (n, C, T), less the mean of each channel, averaged over points, (n, T)."""
    known = without_gaps(x)[0].astype(np.float64)
    squares = ((known - known.mean(2, keepdims=True)) ** 2).sum(1)
    return np.asarray(np.log(uniform_filter1d(squares, points).clip(1e-30)))


def _sliced(rows: np.ndarray, values: int) -> Iterator[np.ndarray]:
    """Rows of pieces, or their numbers, in blocks that are small enough for pieces of so many values."""
    step = int(np.clip(BLOCK_VALUES // values, 1, BLOCK))
    return (rows[start : start + step] for start in range(0, len(rows), step))


def _places(event: Event, x: np.ndarray, free: np.ndarray, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """First points and scores of up to `count` events of each piece, which do not overlap; -inf for none."""
    parts = [event.scores(some) for some in _sliced(x, x.shape[1] * x.shape[2])]
    return _best(parts[0][0], np.concatenate([each for _, each in parts]), free, event.width, count)


def _best(
    starts: np.ndarray, scores: np.ndarray, free: np.ndarray, width: int, count: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """First points and scores (n,) of up to `count` free windows of each piece, of scores (n, m)."""
    free, found = free.copy(), []
    for _ in range(count):
        held = np.where(free_windows(free, starts, width), scores, -np.inf)
        best = starts[held.argmax(1)]
        found.append((best, held.max(1)))
        free &= ~inside(best, width, free.shape[1])
    return found


def _covered(chosen: np.ndarray, starts: np.ndarray, width: int, length: int) -> np.ndarray:
    """Whether each point lies in a chosen window (n, m) of its piece, bool (n, T)."""
    steps = np.zeros((len(chosen), length + 1), np.int8)  # windows that begin or end; few overlap
    steps[:, starts] += chosen
    steps[:, starts + width] -= chosen
    return np.asarray(steps.cumsum(1, np.int8)[:, :-1] > 0)
