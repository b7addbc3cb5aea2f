"""Discovery in DNA: a motif that recurs in sequences, on either strand, and where.

The objective is that of `viewsmith.methods.discovery.contrast`, E log p_P(z) / p_U(z), with independent letters for p_P
and a Markov chain for p_U. With zero or one site in a sequence this is MEME's model (Bailey and Elkan 1994):

1. Windows: every window of w letters without N, on both strands.
2. Starts: windows as consensus words, ranked by the sum over sequences of their best match; of few sequences also
   groups of windows that agree in random positions (Buhler and Tompa 2002).
3. Rounds (EM): posterior of each window to be the site; frequencies of the letters, weighted by the posterior; share of
   the sequences that have a site. Hundreds of starts at once, as one product of matrices.
4. Shifts: the best motif is moved to both sides and fitted again.
5. Two models of p_P: frequencies of their own for each position (MEME), or one frequency of the consensus letter for
   all positions, the others equal, as in planted motifs (Pevzner and Sze 2000). The second one cannot fit noise, and
   tells weak motifs from it.
6. Choice: the gain of a motif is the mean log likelihood ratio of a sequence, under the motif that its own sites did
   not help to fit. The same search in sequences drawn from p_U says what gain is found in nothing: of several w, the
   one farthest above it, in standard deviations, is taken. If none is clearly above it, nothing recurs.

After a motif is found, its sites are masked (N), and the next one is sought. The q-value of a site compares its score
s(z) with the best scores of sequences of the same lengths that are drawn from p_U: a sequence may have no site.

Symbols: z a window; w its letters; n sequences; W windows; S motifs fitted at once; s(z) = log p_P(z) / p_U(z).
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.special import gammaln
from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.methods.discovery.contrast import Search, part_table
from viewsmith.modalities import modality_of

WIDTHS = (8, 12, 16, 22)
ORDER = 2  # letters before, on which a letter of the background depends
STARTS, TOP, LAST = 12_000, 600, 40  # windows that are ranked, fitted for a few rounds, and fitted to the end
FINAL = 4  # motifs that are fitted to all windows
SCREENED = 24_000  # windows in which starts are ranked and fitted
FEW_ROUNDS, ROUNDS = 8, 60
FITTED = 500  # sequences that a motif is fitted to; all others are only scored
PRIOR = 6.0  # letters that are added to each position of a motif
MATCH = 0.6  # frequency of the letter of a start
PRIOR_ALIKE = 0.3  # of the letters of a group of windows
# Random sets of positions; windows of a group at least; groups kept of a set, and of all sets.
PROJECTIONS, AT_LEAST, OF_EACH, ALIKE = 500, 3, 24, 1_800
FEW_ALIKE = 3  # rounds of the second model, before the best motifs are fitted to the end
MATCHES = 0.3, 0.95  # least and largest frequency of a consensus letter, if it is one for all positions

DRAWS, FEW_DRAWS, MANY = 8, 3, 100  # of sequences from p_U; of at least so many, whose mean gain hardly varies
CLEAR = 4.5  # least clarity of a motif that recurs
LEAST_SPREAD = 0.02  # nats
ENOUGH = 1e-5  # change of the gain in a round, in nats; a motif with less is fitted
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
    first: np.ndarray  # number of the first window of each sequence, and W: int64 (n + 1,)

    @classmethod
    def of(cls, codes: np.ndarray, width: int, background: Background, both: bool = True) -> "Windows":
        """All windows of sequences, codes (n, L)."""
        strands = np.stack([codes, _other_strand(codes)] if both else [codes], 1)
        views = np.lib.stride_tricks.sliding_window_view(strands, width, axis=2)
        whole = (views < 4).all(3)
        count = whole.sum((1, 2))
        return cls(
            torch.from_numpy(np.eye(4, dtype=np.float32)[views[whole]].reshape(-1, 4 * width)),
            torch.from_numpy(background.windows(strands, width)[whole]).float(),
            torch.from_numpy(np.nonzero(whole)[1] > 0),
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
    nothing: tuple[float, float]  # mean and standard deviation of the gain in sequences drawn from p_U
    both: bool = True  # strands

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
        return (self.gain - self.nothing[0]) / self.nothing[1]

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
        table = np.pad(np.log(self.probabilities), ((0, 0), (0, 1)), constant_values=-np.inf)
        m = codes.shape[1] - self.width + 1
        for at in range(0, len(codes) if m > 0 else 0, BLOCK):
            block = codes[at : at + BLOCK]
            strands = np.stack([block, _other_strand(block)] if self.both else [block])
            s = -self.background.windows(strands, self.width)
            for j, log_p in enumerate(table):
                s += log_p[strands[:, :, j : j + m]]
            s[1:] = s[1:, :, ::-1]  # counted on the given strand
            flat = s.transpose(1, 0, 2).reshape(len(block), -1)
            best = flat.argmax(1)
            rows = np.flatnonzero(np.isfinite(flat.max(1)))
            scores[at + rows] = flat[rows, best[rows]]
            reverse[at + rows], starts[at + rows] = np.divmod(best[rows], m)
        return starts, reverse, scores


def as_codes(sequences: np.ndarray) -> np.ndarray:
    """Codes 0 to 3 for A, C, G and T (or U), 4 for other letters and padding, of ASCII letters uint8 (n, L)."""
    return np.asarray(_CODES[sequences])


def find_motif(codes: np.ndarray, *, widths: Sequence[int] = WIDTHS, both: bool = True, seed: int = 0) -> list[Motif]:
    """Find what recurs in sequences: a motif for each width, see `choose`."""
    rng = np.random.default_rng(seed)
    usable = np.zeros(0, int)
    if codes.shape[1] >= min(widths):
        largest = np.lib.stride_tricks.sliding_window_view(codes, min(widths), axis=1).max(2)
        usable = np.flatnonzero(largest.min(1) < 4)
    if len(usable) < 4:
        raise InputError(
            f"{len(usable)} sequences have {min(widths)} letters without N in a row, expected at least 4: "
            "give a smaller width, or longer sequences"
        )
    codes = codes[np.sort(rng.permutation(usable)[:FITTED])]
    if (codes == codes[0]).all():
        raise InputError("all sequences are equal, expected sequences that differ: there is nothing to contrast")
    background = Background.of(np.concatenate([codes, _other_strand(codes)]) if both else codes)
    lengths = np.where(codes < 4, np.arange(1, codes.shape[1] + 1), 0).max(1)
    empty = [background.draw(lengths, rng) for _ in range(DRAWS if len(codes) < MANY else FEW_DRAWS)]
    found = []
    for width in sorted(widths):
        if codes.shape[1] < width or len(Windows.of(codes, width, background, both).first) < 5:
            continue
        drawn = [_search(each, width, background, both, rng) for each in empty]
        for number, (log_p, share, gain) in enumerate(_search(codes, width, background, both, rng)):
            nothing = [models[number][2] for models in drawn]
            p = log_p.double().exp().reshape(width, 4).numpy()
            p /= p.sum(1, keepdims=True)
            spread = max(float(np.std(nothing, ddof=1)), LEAST_SPREAD)
            found.append(Motif(p, background, share, gain, (float(np.mean(nothing)), spread), both))
    return found


def choose(tried: Sequence[Motif]) -> Motif | None:
    """The motif whose gain is farthest above what is found in nothing; None if nothing recurs."""
    return max((motif for motif in tried if motif.recurs), key=lambda motif: motif.clarity, default=None)


Model = Callable[[Tensor], Tensor]  # from counts of letters (S, w, 4) to log p_P (S, 4 w)


def _search(
    codes: np.ndarray, width: int, background: Background, both: bool, rng: np.random.Generator
) -> list[tuple[Tensor, float, float]]:
    """log p_P (4 w,), the share of the sequences and the gain of the best motif of all starts, under both models."""
    windows = screen = Windows.of(codes, width, background, both)
    some = max(4, len(codes) * SCREENED // len(windows.letters))
    if some < len(codes):
        screen = Windows.of(codes[np.sort(rng.permutation(len(codes))[:some])], width, background, both)
    free, starts = own_frequencies(windows), _ranked(screen, STARTS if screen is windows else STARTS // 2, rng)
    log_p = torch.log((1 - MATCH) / 3 + (MATCH - (1 - MATCH) / 3) * starts)
    if len(codes) < MANY:
        log_p = torch.cat([log_p, _projected(windows, rng)])
    log_p, share, gain = _fit(screen, log_p, torch.full((len(log_p),), 0.5), FEW_ROUNDS, free)
    few = _fit(screen, one_frequency(_frequencies(log_p)), share, FEW_ALIKE, one_frequency)
    best = torch.topk(gain, min(LAST, len(gain))).indices
    fitted = _fit(screen, log_p[best], share[best], ROUNDS, free)
    # Starts of the second model: the best motifs of the first, and those that are best after a few rounds of their own.
    best = torch.topk(few[2], min(LAST, len(gain))).indices
    starts = torch.cat([one_frequency(_frequencies(fitted[0])), few[0][best]])
    alike = _fit(screen, starts, torch.cat([fitted[1], few[1][best]]), ROUNDS, one_frequency)
    return [_finished(windows, screen, *fitted, free), _finished(windows, screen, *alike, one_frequency)]


def _frequencies(log_p: Tensor) -> Tensor:
    """Frequencies (S, w, 4) of log p_P (S, 4 w)."""
    return log_p.exp().reshape(len(log_p), -1, 4)


def _finished(
    windows: Windows, screen: Windows, log_p: Tensor, share: Tensor, gain: Tensor, model: Model
) -> tuple[Tensor, float, float]:
    """The best of the motifs, fitted to all windows, and moved to both sides; its share and its left-out gain."""
    fitted = _fit(windows, *_best(log_p, share, gain), ROUNDS, model)
    i = int(fitted[2].argmax())
    shifted = _shifts(fitted[0][i], windows)
    moved = _fit(screen, shifted, fitted[1][i].expand(len(shifted)), FEW_ROUNDS, model)
    moved = _fit(windows, *_best(*moved), ROUNDS, model)
    log_p, share = _best(*(torch.cat(pair) for pair in zip(fitted, moved, strict=True)))
    left_out = torch.stack([_left_out_gains(windows, *one, model).mean() for one in zip(log_p, share, strict=True)])
    i = int(left_out.argmax())
    return log_p[i], float(share[i]), float(left_out[i])


def _best(log_p: Tensor, share: Tensor, gain: Tensor) -> tuple[Tensor, Tensor]:
    """The `FINAL` motifs with the largest gains, and their shares."""
    best = torch.topk(gain, min(FINAL, len(gain))).indices
    return log_p[best], share[best]


def own_frequencies(windows: Windows) -> Model:
    """Frequencies of their own for each position, with `PRIOR` letters added to the counts."""
    frequencies = windows.letters.mean(0).reshape(-1, 4).mean(0)
    return lambda counts: torch.log((counts + PRIOR * frequencies) / (counts.sum(2, keepdim=True) + PRIOR)).flatten(1)


def one_frequency(counts: Tensor) -> Tensor:
    """One frequency of the most frequent letter for all positions; the other three are equal."""
    top = counts.argmax(2, keepdim=True)
    q = (counts.gather(2, top).sum((1, 2)) / counts.sum((1, 2)).clamp_min(1e-12)).clamp(*MATCHES)[:, None, None]
    p = ((1 - q) / 3).expand(counts.shape).scatter(2, top, q.expand(top.shape))
    return torch.log(p).flatten(1)


def _ranked(windows: Windows, count: int, rng: np.random.Generator) -> Tensor:
    """One-hot words (S, 4 w) of the windows with the largest sum over sequences of their best match, of `count`."""
    # The other strand of a window is the same start.
    rows = torch.nonzero(~windows.reverse).ravel()
    words = windows.letters[rows[torch.from_numpy(np.sort(rng.permutation(len(rows))[:count]))]]
    total = torch.zeros(len(words))
    for _, own, first in windows.blocks(len(words)):
        matches = words @ windows.letters[own].T
        total += torch.from_numpy(np.maximum.reduceat(matches.numpy(), first, axis=1).sum(1))
    return words[torch.topk(total, min(TOP, len(total))).indices]


def _projected(windows: Windows, rng: np.random.Generator) -> Tensor:
    """log p_P (S, 4 w) of groups of windows that agree in random positions, the least probable by chance first."""
    width = windows.letters.shape[1] // 4
    letters = windows.letters.reshape(-1, width, 4).argmax(2).numpy()
    size = min(width - 1, round(np.log(max(len(letters), 4)) / np.log(4)))  # about one window in a group by chance
    kept = []
    for _ in range(PROJECTIONS):
        key = letters[:, rng.choice(width, size, replace=False)] @ 4 ** np.arange(size)
        count = np.bincount(key, minlength=4**size)
        groups = np.flatnonzero(count >= AT_LEAST)
        number = np.full(4**size, -1)
        number[groups] = np.arange(len(groups))
        rows = np.flatnonzero(number[key] >= 0)
        place = (number[key[rows]][:, None] * width + np.arange(width)) * 4 + letters[rows]
        counts = np.bincount(place.ravel(), minlength=len(groups) * width * 4).reshape(-1, 4 * width)
        kept.append(counts[np.argsort(-_evidence(counts, width))[:OF_EACH]].astype(np.float32))
    distinct = np.unique(np.concatenate(kept), axis=0)
    best = torch.from_numpy(distinct[np.argsort(-_evidence(distinct, width), kind="stable")[:ALIKE]])
    p = best.reshape(-1, width, 4) + PRIOR_ALIKE
    return torch.log(p / p.sum(2, keepdim=True)).flatten(1)


def _evidence(counts: np.ndarray, width: int) -> np.ndarray:
    """Log marginal likelihood, prior Dirichlet(1/2), of letters counted in windows (S, 4 w), against 1/4 for each."""
    c = counts.reshape(len(counts), width, 4).astype(np.int64)
    n = c[:, 0].sum(1)  # windows of a group
    table = gammaln(np.arange(n.max(initial=0) + 1) + 0.5) - gammaln(0.5)
    return np.asarray(table[c].sum((1, 2)) + width * (n * np.log(4) - gammaln(n + 2)))


def _expected(windows: Windows, log_p: Tensor, share: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gains of sequences (S, n), log likelihoods with against without a motif; expected letters (S, 4 w) and sites."""
    gains, counts, sites = log_p.new_empty(len(log_p), len(windows.first) - 1), torch.zeros_like(log_p), 0 * share
    for sequences, own, first in windows.blocks(len(log_p)):
        letters, count = windows.letters[own], windows.count[sequences]
        ratio = torch.addmm(-windows.log_background[own], log_p, letters.T).exp_()
        mean = torch.from_numpy(np.add.reduceat(ratio.numpy(), first, axis=1)) / count
        gains[:, sequences] = torch.log1p(share[:, None] * (mean - 1))
        weight = share[:, None] / count / torch.exp(gains[:, sequences])
        sites += (weight * mean * count).sum(1)
        counts += ratio.mul_(weight.repeat_interleave(count.long(), 1)) @ letters
    return gains, counts, sites


def _fit(windows: Windows, log_p: Tensor, share: Tensor, rounds: int, model: Model) -> tuple[Tensor, Tensor, Tensor]:
    """EM from S motifs at once, each until its gain stays; log p_P (S, 4 w), shares (S,) and mean gains (S,)."""
    n, log_p, share = len(windows.first) - 1, log_p.clone(), share.clone()
    gain, moving = torch.full((len(log_p),), -torch.inf), torch.arange(len(log_p))
    for number in range(rounds + 1):
        gains, counts, sites = _expected(windows, log_p[moving], share[moving])
        # The gain may fall in a round: with the letters that are added to the counts, it is not what EM maximizes.
        moves = abs(gains.mean(1) - gain[moving]) >= ENOUGH
        gain[moving] = gains.mean(1)
        moving = moving[moves]
        if number == rounds or not len(moving):
            break
        log_p[moving] = model(counts[moves].reshape(len(moving), -1, 4))
        share[moving] = (sites[moves] / n).clamp(1 / n, 1 - 0.5 / n)
    return log_p, share, gain


def _left_out_gains(windows: Windows, log_p: Tensor, share: float | Tensor, model: Model) -> Tensor:
    """Log likelihood ratio of each sequence (n,), under the motif that its own sites did not help to fit."""
    n, count = len(windows.first) - 1, windows.count
    ratio = torch.exp(windows.letters @ log_p - windows.log_background)
    each = [slice(a, b) for a, b in itertools.pairwise(windows.first.tolist())]
    sums = torch.stack([ratio[own].sum() for own in each])
    weight = share / count / (1 + share * (sums / count - 1))
    letters = torch.stack([ratio[own] @ windows.letters[own] for own in each]) * weight[:, None]
    others = model((letters.sum(0) - letters).reshape(n, -1, 4))
    s = torch.cat([windows.letters[own] @ p for own, p in zip(each, others, strict=True)]) - windows.log_background
    mean = torch.from_numpy(np.add.reduceat(s.exp().numpy(), windows.first[:-1])) / count
    return torch.log1p(share * (mean - 1))


def _shifts(log_p: Tensor, windows: Windows) -> Tensor:
    """The motif moved by up to half its width to both sides, (S, 4 w); new positions have the mean frequencies."""
    width = len(log_p) // 4
    prior = torch.log(windows.letters.mean(0).reshape(-1, 4).mean(0))
    moved = []
    for shift in range(-(width // 2), width // 2 + 1):
        one = torch.roll(log_p.reshape(width, 4), shift, 0).clone()
        one[: max(shift, 0)], one[width + min(shift, 0) :] = prior, prior
        moved.append(one.ravel())
    return torch.stack(moved)


def _other_strand(codes: np.ndarray) -> np.ndarray:
    """The reverse complement of all L columns, padding included, codes (n, L)."""
    return np.asarray(np.where(codes < 4, 3 - codes, 4)[:, ::-1].astype(np.uint8))


# ---- files ----------------------------------------------------------------------------------------------------------
def as_meme(motifs: Sequence[Motif], names: Sequence[str]) -> str:
    """Motifs in the minimal text format of the MEME Suite, version 4."""
    strands = "+ -" if all(motif.both for motif in motifs) else "+"
    lines = ["MEME version 4", "", "ALPHABET= ACGT", "", f"strands: {strands}", ""]
    if motifs:
        pairs = zip(LETTERS, motifs[0].background.frequencies, strict=True)
        lines += ["Background letter frequencies", " ".join(f"{letter} {p:.4f}" for letter, p in pairs), ""]
    for motif, name in zip(motifs, names, strict=True):
        lines += [f"MOTIF {name} {motif.consensus}", f"letter-probability matrix: alength= 4 w= {motif.width}"]
        lines += [" ".join(f"{p:.6f}" for p in row) for row in motif.probabilities] + [""]
    return "\n".join(lines)


def as_jaspar(motifs: Sequence[Motif], names: Sequence[str], sites: int = 100) -> str:
    """Motifs in the text format of JASPAR: counts of each letter among `sites` sites."""
    return "".join(_jaspar_lines(motifs, names, sites))


def _jaspar_lines(motifs: Sequence[Motif], names: Sequence[str], sites: int) -> Iterator[str]:
    for motif, name in zip(motifs, names, strict=True):
        yield f">{name}\t{motif.consensus}\n"
        for letter, column in zip(LETTERS, motif.probabilities.T, strict=True):
            yield f"{letter} [ {' '.join(f'{p * sites:.2f}' for p in column)} ]\n"


NULL = 2_000  # sequences drawn from the background for q-values

#: One row for each site: number of the sequence and kind, first letter from 0 and the one after the last on the given
#: strand, whether it is read from the other strand, score and q-value.
SITES = np.dtype(
    [
        *((name, np.int64) for name in ("sample", "kind", "start", "end")),
        *(("reverse", np.bool_), ("score", np.float64), ("q", np.float64)),
    ]
)


@dataclass(kw_only=True)
class MotifSearch(Search):
    """Motifs in DNA."""

    name: ClassVar[str] = "dna"
    both_strands: bool = True

    def fit(self, X: Any) -> None:
        """Find what recurs; raises InputError for samples or options that cannot be used."""
        codes, rng = sequence_codes(X), np.random.default_rng(self.seed)
        if len(codes) < 4:
            raise InputError(f"{len(codes)} sequences, expected at least 4: what recurs is seen across sequences")
        for _ in range(self.kinds):
            widths = WIDTHS if self.windows is None else self.windows
            motifs = find_motif(codes, widths=widths, both=self.both_strands, seed=self.seed)
            self.tried.append(motifs)
            motif = choose(motifs)
            if motif is None:
                break
            lengths = _lengths(codes)
            drawn = motif.background.draw(rng.choice(lengths[lengths >= motif.width], NULL), rng)
            self.null.append(np.sort(motif.best_sites(drawn)[2]))
            self.parts.append(motif)
            for starts, _, scores in _sites(motif, codes, self.max_parts):
                codes = _masked(codes, starts, np.where(scores > 0, motif.width, 0))

    def describe(self) -> str:
        """What was found, in one sentence."""
        best = max(self.tried[0], key=lambda motif: motif.clarity)
        numbers = (
            f"{best.consensus} of {best.width} letters, {best.clarity:.1f} standard deviations above what is found in "
            "random sequences of the same composition"
        )
        if not self.parts:
            return f"the best candidate is {numbers}; expected more than {CLEAR}"
        kinds = "one motif recurs" if len(self.parts) == 1 else f"{len(self.parts)} motifs recur"
        return f"{kinds}; the first is {numbers}"

    def candidates(self, X: Any) -> np.ndarray:
        """The best sites of every kind in every sequence, with their q-values among all of them."""
        return part_table(SITES, self._places(sequence_codes(X)), self.null)

    def _places(self, codes: np.ndarray) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """The best sites of each kind, apart from those of the kinds before."""
        for kind, motif in enumerate(self.parts):
            for starts, reverse, scores in _sites(motif, codes, self.max_parts):
                yield kind, {"start": starts, "end": starts + motif.width, "reverse": reverse, "score": scores}
                codes = _masked(codes, starts, np.where(scores > 0, motif.width, 0))

    def crops(self, X: Any, found: np.ndarray, size: int) -> list[str]:
        """`size` letters around sites, read from the strand of the site; fewer at the ends of a sequence."""
        letters = np.asarray(modality_of("dna").read(X))
        ends = _lengths(as_codes(letters))
        cut = []
        for site in found:
            middle, length = int(site["start"] + site["end"]) // 2, int(ends[site["sample"]])
            start = max(0, min(middle - size // 2, length - size))
            text = letters[site["sample"], start : min(start + size, length)].tobytes().decode("ascii")
            cut.append(text.translate(COMPLEMENT)[::-1] if site["reverse"] else text)
        return cut

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Plain values and tensors of what was fitted."""
        plain = {name: [getattr(motif, name) for motif in self.parts] for name in ("share", "gain", "both")}
        plain["nothing"] = [list(motif.nothing) for motif in self.parts]
        tensors: dict[str, Tensor] = {}
        for i, (motif, null) in enumerate(zip(self.parts, self.null, strict=True)):
            arrays = {"probabilities": motif.probabilities, "background": motif.background.log_p, "null": null}
            tensors |= {f"{i}.{name}": torch.from_numpy(np.ascontiguousarray(a)) for name, a in arrays.items()}
        return plain, tensors

    def restore(self, fitted: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Take what `state` gave."""
        for i, nothing in enumerate(fitted["nothing"]):
            p, log_p, null = (tensors[f"{i}.{name}"].numpy() for name in ("probabilities", "background", "null"))
            share, gain, both = (fitted[name][i] for name in ("share", "gain", "both"))
            self.parts.append(Motif(p, Background(log_p), float(share), float(gain), tuple(nothing), bool(both)))
            self.null.append(null)
        self.tried = [[motif] for motif in self.parts]


COMPLEMENT = str.maketrans("ACGTUacgtu", "TGCAAtgcaa")


def sequence_codes(X: Any) -> np.ndarray:
    """Codes (n, L) of sequences: strings, or ASCII letters uint8 (n, L); see `as_codes`."""
    return as_codes(np.asarray(modality_of("dna").read(X)))


def _lengths(codes: np.ndarray) -> np.ndarray:
    """Lengths (n,) up to the last known letter."""
    return np.asarray(np.where(codes < 4, np.arange(1, codes.shape[1] + 1), 0).max(1))


def _sites(motif: Motif, codes: np.ndarray, count: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Starts, strands and scores of up to `count` sites of each sequence, which do not overlap; -inf for none."""
    found = []
    for _ in range(count):
        starts, reverse, scores = motif.best_sites(codes)
        found.append((starts, reverse, scores))
        codes = _masked(codes, starts, np.full(len(codes), motif.width))
    return found


def _masked(codes: np.ndarray, starts: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Codes with N in place of a site of each sequence; width 0: none."""
    place = np.arange(codes.shape[1])
    inside = (place >= starts[:, None]) & (place < (starts + widths)[:, None]) & (starts >= 0)[:, None]
    return np.where(inside, 4, codes).astype(np.uint8)
