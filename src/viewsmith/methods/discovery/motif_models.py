"""Motifs in DNA: the background, the windows of sequences, and a motif with the scores of its sites.

p_U is a Markov chain, p_P has independent letters; see `viewsmith.methods.discovery.motif_search`, which fits motifs.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

ORDER = 2  # letters before, on which a letter of the background depends
CLEAR = 4.5  # least clarity of a motif that recurs
LEAST_SPREAD = 0.02  # nats; of held-out halves, whose mean gain in nothing is below 0, the only one
CACHED = 2**19  # values of windows under motifs that are computed at once
BLOCK = 500
_CODES = np.full(256, 4, np.uint8)

for _code, _letters in enumerate((b"Aa", b"Cc", b"Gg", b"TtUu")):
    _CODES[list(_letters)] = _code

LETTERS = "ACGT"


@dataclass(frozen=True)
class Background:
    """p_U: a Markov chain of order `ORDER` of both strands."""

    log_p: np.ndarray  # log p(letter | two letters before), (5, 5, 5); 4 (N, before the start): any letter

    @classmethod
    def of(cls, strands: np.ndarray) -> "Background":
        """Fitted to the codes (m, L) of both strands, with the frequencies of shorter contexts as prior counts."""
        padded = np.pad(strands, ((0, 0), (ORDER, 0)), constant_values=4).astype(np.int64)
        known = strands < 4
        index = (padded[:, :-2] * 25 + padded[:, 1:-1] * 5 + padded[:, 2:])[known]
        counts = np.bincount(index, minlength=125).reshape(5, 5, 5)[:, :, :4].astype(np.float64)
        single = (counts.sum((0, 1)) + 1) / (counts.sum() + 4)
        double = counts.sum(0) + 4 * single
        double = np.concatenate([double[:4], double.sum(0, keepdims=True)])
        double /= double.sum(1, keepdims=True)
        triple = counts + 16 * double[None]
        triple /= triple.sum(2, keepdims=True)
        triple[4], triple[:, 4] = double, single
        return cls(np.log(np.pad(triple, ((0, 0), (0, 0), (0, 1)), constant_values=1.0)))

    def windows(self, strands: np.ndarray, width: int) -> np.ndarray:
        """log p_U of every window of `width` letters, float64 (..., L - width + 1), of codes (..., L); N counts 0."""
        edge = [(0, 0)] * (strands.ndim - 1)
        padded = np.pad(strands, [*edge, (ORDER, 0)], constant_values=4)
        of_letters = self.log_p[padded[..., :-2], padded[..., 1:-1], padded[..., 2:]]
        cumulated = np.pad(of_letters.cumsum(-1), [*edge, (1, 0)])
        return np.asarray(cumulated[..., width:] - cumulated[..., :-width])

    @property
    def frequencies(self) -> np.ndarray:
        """Frequencies of A, C, G and T, (4,)."""
        return np.exp(self.log_p[4, 4, :4])

    def draw(self, lengths: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Random sequences of these lengths, codes (n, L) with 4 after the end."""
        found = np.full((len(lengths), ORDER + int(lengths.max())), 4, np.uint8)
        cumulated = np.exp(self.log_p[:, :, :4]).cumsum(2)
        for i in range(ORDER, found.shape[1]):
            of_letter = cumulated[found[:, i - 2], found[:, i - 1]]
            drawn = (rng.random((len(found), 1)) > of_letter[:, :3]).sum(1)
            found[:, i] = np.where(i - ORDER < lengths, drawn, 4)
        return found[:, ORDER:]


@dataclass(frozen=True)
class Windows:
    """Windows of w letters without N, on one or both strands, of the sequences that have any, in their order."""

    letters: Tensor  # one-hot, float32 (W, 4 w)
    log_background: Tensor  # log p_U(z), (W,)
    reverse: Tensor  # bool (W,): read from the other strand
    place: Tensor  # start on its strand, int64 (W,)
    starts: int  # L - w + 1
    first: np.ndarray  # number of the first window of each sequence, and W: int64 (n + 1,)

    @classmethod
    def of(cls, codes: np.ndarray, width: int, background: Background, both: bool = True) -> "Windows":
        """All windows of sequences, codes (n, L)."""
        strands = np.stack([codes, other_strand(codes)] if both else [codes], 1)
        views = np.lib.stride_tricks.sliding_window_view(strands, width, axis=2)
        whole = (views < 4).all(3)
        count, starts = whole.sum((1, 2)), whole.shape[2]
        strand, start = np.nonzero(whole)[1:]
        return cls(
            torch.from_numpy(np.eye(4, dtype=np.float32)[views[whole]].reshape(-1, 4 * width)),
            torch.from_numpy(background.windows(strands, width)[whole]).float(),
            torch.from_numpy(strand > 0),
            torch.from_numpy(start),
            starts,
            np.concatenate([[0], count[count > 0].cumsum()]),
        )

    @property
    def count(self) -> Tensor:
        """Number of windows of each sequence, float32 (n,)."""
        return torch.from_numpy(np.diff(self.first)).float()

    def blocks(self, motifs: int) -> Iterator[tuple[slice, slice, np.ndarray]]:
        """Sequences, their windows and the first window of each, as many as fit into a cache for all motifs."""
        a, n = 0, len(self.first) - 1
        while a < n:
            b = max(a + 1, int(np.searchsorted(self.first, self.first[a] + CACHED // motifs, "right")) - 1)
            yield slice(a, b), slice(int(self.first[a]), int(self.first[b])), self.first[a:b] - self.first[a]
            a = b


@dataclass(frozen=True)
class Motif:
    """A motif, fitted: it scores the windows of any sequences."""

    probabilities: np.ndarray  # p_P: frequencies of A, C, G and T, (w, 4)
    background: Background  # p_U
    share: float  # of the sequences that have a site
    gain: float  # mean log likelihood ratio of sequences, each left out, in nats
    nothing: tuple[float, float] | None  # mean and standard deviation in sequences from p_U; None: judged by halves
    both: bool = True  # strands
    # log p_P / p_U of each start in sequences of one length, (L - w + 1,), if places matter (then of one strand).
    place: np.ndarray | None = None
    # The same motif with fewer or more letters on both sides, (w', 4) each, by which its sites are scored, too.
    others: tuple[np.ndarray, ...] = ()

    @property
    def width(self) -> int:
        return len(self.probabilities)

    @property
    def recurs(self) -> bool:
        """Whether the gain is clearly above what is found in nothing."""
        return self.clarity > CLEAR

    @property
    def clarity(self) -> float:
        """Distance of the gain from what is found in nothing, in standard deviations."""
        return self.excess / (LEAST_SPREAD if self.nothing is None else self.nothing[1])

    @property
    def excess(self) -> float:
        """The gain less that in nothing, which wider motifs have more of, nats."""
        return self.gain - (0.0 if self.nothing is None else self.nothing[0])

    @property
    def consensus(self) -> str:
        """The most frequent letter at each position."""
        return "".join(LETTERS[i] for i in self.probabilities.argmax(1))

    @property
    def bits(self) -> np.ndarray:
        """Information of each position against the frequencies of the background, bits (w,)."""
        p = self.probabilities
        return np.asarray((p * np.log2(p / self.background.frequencies)).sum(1))

    def best_sites(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Start (on the given strand, from 0), whether on the other strand, and s(z), of the best window of each
        sequence, (n,); the score is -inf and the start -1 where there is no window."""
        starts, reverse, scores = np.full(len(codes), -1), np.zeros(len(codes), bool), np.full(len(codes), -np.inf)
        m = codes.shape[1] - self.width + 1
        for at in range(0, len(codes) if m > 0 else 0, BLOCK):
            block = codes[at : at + BLOCK]
            strands = np.stack([block, other_strand(block)] if self.both else [block])
            s = self._scores(strands)
            s[1:] = s[1:, :, ::-1]  # counted on the given strand
            if self.place is not None and len(self.place) == m:
                s += self.place
            flat = s.transpose(1, 0, 2).reshape(len(block), -1)
            best = flat.argmax(1)
            rows = np.flatnonzero(np.isfinite(flat.max(1)))
            scores[at + rows] = flat[rows, best[rows]]
            reverse[at + rows], starts[at + rows] = np.divmod(best[rows], m)
        return starts, reverse, scores

    def _scores(self, strands: np.ndarray) -> np.ndarray:
        """log p_P / p_U of all windows of codes (..., L), (..., L - w + 1): the mean of p_P / p_U over the widths, of
        windows with the same middle; -inf where a window has an N."""
        found = self._ratios(self.probabilities, strands)
        known = np.isfinite(found)
        count = known.astype(np.int64)
        for p in self.others:
            more = (len(p) - self.width) // 2  # letters on each side
            if len(p) <= strands.shape[-1]:
                one = self._ratios(p, strands)
                one = one[..., max(-more, 0) : one.shape[-1] - max(-more, 0)]
                there = (..., slice(max(more, 0), found.shape[-1] - max(more, 0)))
                found[there] = np.logaddexp(found[there], one)
                count[there] += np.isfinite(one)
        return np.where(known, found - np.log(np.maximum(count, 1)), -np.inf) if self.others else found

    def _ratios(self, p: np.ndarray, strands: np.ndarray) -> np.ndarray:
        """log p_P / p_U of all windows under the frequencies p (w, 4), (..., L - w + 1)."""
        s = -self.background.windows(strands, len(p))
        for j, log_p in enumerate(np.pad(np.log(p), ((0, 0), (0, 1)), constant_values=-np.inf)):
            s += log_p[strands[..., j : j + s.shape[-1]]]
        return s


def as_codes(sequences: np.ndarray) -> np.ndarray:
    """Codes 0 to 3 for A, C, G and T (or U), 4 for other letters and padding, of ASCII letters uint8 (n, L)."""
    return np.asarray(_CODES[sequences])


def lengths_of(codes: np.ndarray) -> np.ndarray:
    """Lengths (n,) up to the last known letter."""
    return np.asarray(np.where(codes < 4, np.arange(1, codes.shape[1] + 1), 0).max(1))


def other_strand(codes: np.ndarray) -> np.ndarray:
    """The reverse complement of all L columns, padding included, codes (n, L)."""
    return np.asarray(np.where(codes < 4, 3 - codes, 4)[:, ::-1].astype(np.uint8))
