"""Discovery in sequences: a motif that recurs, on either strand of DNA, and where.

The objective is that of `viewsmith.methods.discovery.contrast`, E log p_P(z) / p_U(z), with independent letters for p_P
and a Markov chain for p_U. With zero or one site in a sequence this is MEME's model (Bailey and Elkan 1994):

1. Windows: every window of w known letters, on both strands. Copies of what is in a sequence before are unknown (N, X):
   duplicated genes recur, but not because of a motif.
2. Starts: windows as consensus words, ranked by the sum over sequences of their best match; of few sequences also
   groups of windows that agree in random positions (Buhler and Tompa 2002). Of many windows few are screened, those of
   some sequences; a few such groups of all windows are further starts.
3. Rounds (EM): posterior of each window to be the site; frequencies of the letters, weighted by the posterior; share of
   the sequences that have a site. Hundreds of starts at once, as one product of matrices; a quarter of them, those with
   the largest gains, goes on after 1, 2, 4 rounds and so on.
4. Shifts: the best motif is moved to both sides and fitted again.
5. Two models of p_P: frequencies of their own for each position (MEME), or one frequency of the consensus letter for
   all positions, the others equal, as in planted motifs (Pevzner and Sze 2000). The second one cannot fit noise, and
   tells weak motifs from it.
6. Places: if nine tenths of 100 sequences or more have one length, a third model of p_P prefers places on the given
   strand, as the TATA box does: a smooth density of the starts, fitted in the same rounds.
7. Choice among widths and models: `viewsmith.methods.discovery.acceptance`, with shuffled sequences as surrogates.
8. Sites: of fewer than 100 sequences, a motif of the first model is also fitted with fewer and more letters on both
   sides. A site has the mean of p_P / p_U over the widths that find most of the same sites: which of two places of
   nearly equal score is the better one depends on the width, and the width is not known.

After a motif is found, its sites are masked (unknown), and the next one is sought. The q-value of a site compares its
score s(z) with the best scores of sequences of the same lengths that are drawn from p_U: a sequence may have no site.

Letters are those of an alphabet of C letters, with two strands if they have complements.

Symbols: z a window; w its letters; n sequences; W windows; S motifs fitted at once; s(z) = log p_P(z) / p_U(z).
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
import torch.nn.functional as F
from scipy.special import gammaln
from torch import Tensor

from viewsmith.core.errors import InputError, warn
from viewsmith.core.progress import TOLD, with_progress
from viewsmith.methods.discovery.acceptance import SURROGATES, Evidence, parts_of
from viewsmith.methods.discovery.motif_models import Background, Motif, Windows, lengths_of, other_strand, shuffled
from viewsmith.modalities.dna.letters import NUCLEOTIDES, Alphabet

WIDTHS = (8, 12, 16, 22)
STARTS, TOP, LAST = 12_000, 600, 8  # windows that are ranked, fitted for a few rounds, and fitted to the end
FEW_STARTS, FEW_TOP = 1_200, 200  # of few sequences, beside groups of windows
FIRST = 8_000  # windows in which starts of few sequences are compared before any round
FINAL = 4  # motifs that are fitted to all windows
MANY_WINDOWS, EARLY = 2**17, 4  # with more, so many rounds are of all motifs, and all rounds of the best one
GROUPS = 15, 16  # of windows that are only screened: random sets of positions, and groups of windows that are starts
SCREENED = 24_000  # windows in which starts are ranked and fitted
FEW_ROUNDS, ROUNDS = 8, 60
THIRD, QUARTER = 3, 4  # of the motifs that go on
FITTED, LETTERS = 500, 2**19  # sequences and letters that a motif is fitted to, at most; all others are only scored
PRIOR = 6.0  # letters that are added to each position of a motif
MATCH = 0.6  # frequency of the letter of a start
PRIOR_ALIKE = 0.3  # of the letters of a group of windows
# Random sets of positions; windows of a group at least; groups kept of a set, and of all sets.
PROJECTIONS, AT_LEAST, OF_EACH, ALIKE = 300, 3, 32, 1_800
MATCHES = 0.3, 0.95  # least and largest frequency of a consensus letter, if it is one for all positions
MANY = 100  # sequences of which windows are starts enough
SMOOTH, ANYWHERE = 3.0, 0.1  # letters, deviation of the density of places; share of sites that may be anywhere
# Least part of the sequences that have the full length, for places; least density of the best place, uniform being 1.
ONE_LENGTH, PREFERRED = 0.9, 2.0
CACHED, AT_ONCE = 2**19, (8, 32)  # values of motifs in windows, which stay in a cache; of how many motifs at once
ENOUGH = 1e-5  # change of the gain in a round, in nats; a motif with less is fitted
EXACT = 24  # bits of a whole number that float32 holds
GROUPED, COUNTED = 2**15, 2**14  # windows that are grouped at once; their packed counts, which stay in a cache
PACKED, LETTER_BITS = 4, 6  # letters that are counted in one float32, and the bits of each
MOST = 2**LETTER_BITS - 1  # windows of a group that are counted
LESS, AGREE = 2, 0.5  # sites have widths up to 1 / 2 less and more, as tried ones, if half of the sites are the same
COPY, COPIED = 30, 0.01  # letters of a copy; share of the letters that is worth a warning
# Of a polynomial of the letters of a copy, modulo 2^64: that two different ones are equal does not happen.
_POWERS = [np.uint64(pow(0x9E3779B97F4A7C15, power, 2**64)) for power in range(COPY)]


def find_motif(
    codes: np.ndarray,
    *,
    widths: Sequence[int] = WIDTHS,
    both: bool = True,
    seed: int = 0,
    lengths: np.ndarray | None = None,
    alphabet: Alphabet = NUCLEOTIDES,
) -> list[Motif]:
    """Find what recurs in sequences: motifs for each width, see `choose`; `lengths` count the sites that are masked."""
    rng, size, both = np.random.default_rng(seed), len(alphabet), both and bool(alphabet.complement)
    usable = _usable(codes, min(widths), size)
    if len(usable) < 4:
        raise InputError(
            f"{len(usable)} sequences have {min(widths)} letters without {alphabet.unknown} in a row, expected at "
            "least 4: give a smaller width, or longer sequences"
        )
    rows = np.sort(rng.permutation(usable)[: min(FITTED, max(MANY, LETTERS // codes.shape[1]))])
    lengths, codes = (lengths_of(codes, size) if lengths is None else lengths)[rows], codes[rows]
    if (codes == codes[0]).all():
        raise InputError("all sequences are equal, expected sequences that differ: there is nothing to contrast")
    codes = _without_copies(codes, min(widths), both, size)
    background = Background.of(np.concatenate([codes, other_strand(codes, size)]) if both else codes, alphabet)
    fitting = [
        w for w in sorted(widths) if codes.shape[1] >= w and len(Windows.of(codes, w, background, both).first) >= 5
    ]
    sought = parts_of(len(codes), seed)
    placed = len(codes) >= MANY and (lengths == codes.shape[1]).mean() >= ONE_LENGTH
    kinds = [(background, both, False), (Background.of(codes, alphabet), False, True)][: 1 + placed]
    surrogates = shuffled(np.tile(codes, (SURROGATES, 1)), size, rng).reshape(SURROGATES, *codes.shape)
    found, searches = list[Motif](), list(itertools.product(fitting, kinds))
    for width, (own, strands, places) in with_progress(searches, "motifs", len(searches), "searches", told=TOLD):
        parts = [_search(codes[rows], width, own, strands, places, rng) for rows in sought]
        windows = Windows.of(codes, width, own, strands)
        for same in zip(*parts, strict=True):
            evidence, starts = _evidence_of([model for model, _ in same], sought, codes, surrogates, own, strands)
            joined, model = functools.reduce(Fitted.joined, [each for each, _ in same]), same[0][1]
            fitted = _fit(windows, joined, _rounds(windows), model).best(1)
            if evidence.recurs(1):
                fitted = _fit(windows, fitted, ROUNDS, model)
            motif = replace(_motif(fitted, own, strands), evidence=evidence, held=(rows, starts))
            if motif.place is None or np.exp(motif.place.max()) >= PREFERRED:
                found.append(motif)
        if len(codes) < MANY:
            # With one frequency for all positions, letters beside the motif count as much as its own: no other widths.
            found[-2] = replace(found[-2], others=_other_widths(found[-2], codes))
    return found


def _evidence_of(
    motifs: Sequence["Fitted"],
    sought: Sequence[np.ndarray],
    codes: np.ndarray,
    surrogates: np.ndarray,
    background: Background,
    both: bool,
) -> tuple[Evidence, np.ndarray]:
    """Of the motifs that were found in some of the sequences each, in the others and in their surrogates; and where the
    best sites of the others start."""
    scores, starts = np.empty((1 + len(surrogates), len(codes))), np.empty(len(codes), int)
    for model, rows in zip(motifs, sought, strict=True):
        motif = _motif(model, background, both)
        starts[~rows], _, scores[0, ~rows] = motif.best_sites(codes[~rows])
        for own, each in zip(scores[1:], surrogates, strict=True):
            own[~rows] = motif.best_sites(each[~rows])[2]
    return Evidence.of(scores), starts


def _usable(codes: np.ndarray, width: int, size: int) -> np.ndarray:
    """Numbers of the sequences that have `width` known letters, of `size`, in a row."""
    if codes.shape[1] < width:
        return np.zeros(0, int)
    return np.flatnonzero(np.lib.stride_tricks.sliding_window_view(codes, width, axis=1).max(2).min(1) < size)


def _without_copies(codes: np.ndarray, width: int, both: bool, size: int) -> np.ndarray:
    """Codes without copies, of which it warns; InputError if fewer than four sequences are left."""
    codes, n_copied = copies_masked(codes, both, size)
    if not n_copied:
        return codes
    if (left := len(_usable(codes, width, size))) < 4:
        raise InputError(
            f"{left} of {len(codes)} sequences are no copies of others, expected at least 4: what recurs is seen "
            "across sequences"
        )
    if (copied := n_copied / ((codes < size).sum() + n_copied)) > COPIED:
        warn(
            f"{copied:.0%} of the letters repeat what is before them, in {COPY} letters or more (duplicates, overlaps, "
            "repeats): a motif is fitted without these copies"
        )
    return codes


def copies_masked(codes: np.ndarray, both: bool, size: int = 4) -> tuple[np.ndarray, int]:
    """Codes (n, L) with unknown letters in place of the copies of what is before them, in `COPY` letters or more, on
    either strand, and their number: duplicated genes and overlapping peaks recur, but not because of a motif."""
    if codes.shape[1] < COPY:
        return codes, 0
    value = np.zeros((len(codes), codes.shape[1] - COPY + 1), np.uint64)
    other, known = value.copy(), np.ones(value.shape, bool)
    for i in range(COPY):
        letter = codes[:, i : i + value.shape[1]]
        known &= letter < size
        number = np.minimum(letter, size - 1).astype(np.uint64)
        value += number * _POWERS[i]
        other += (np.uint64(size - 1) - number) * _POWERS[COPY - 1 - i]
    place = np.flatnonzero(known)
    words = (np.minimum(value, other) if both else value).ravel()[place]
    first = np.unique(words, return_index=True)[1]
    copied = np.zeros(value.shape, bool)
    copied.ravel()[np.delete(place, first)] = True
    inside = np.zeros(codes.shape, bool)
    for i in range(COPY):
        inside[:, i : i + value.shape[1]] |= copied
    return np.where(inside, size, codes).astype(codes.dtype), int((inside & (codes < size)).sum())


def _motif(model: "Fitted", background: Background, both: bool) -> Motif:
    """The only motif of a fit."""
    p = model.log_p[0].exp().reshape(-1, background.size).double().numpy()
    place = None if model.place is None else model.place[0].log().numpy()
    p /= p.sum(1, keepdims=True)
    return Motif(p, background, float(model.share), both, place)


def _other_widths(motif: Motif, codes: np.ndarray) -> tuple[np.ndarray, ...]:
    """The motif with fewer and more letters on both sides, fitted again, where most of its best sites stay."""
    own, found = motif.best_sites(codes)[0] + motif.width / 2, []
    for more in range(-(motif.width // (2 * LESS)), motif.width // (2 * LESS) + 1):
        width = motif.width + 2 * more
        if more == 0 or width > codes.shape[1]:
            continue
        windows = Windows.of(codes, width, motif.background, motif.both)
        if len(windows.first) < 5:
            continue
        mean = windows.frequencies.numpy()
        added, kept = np.tile(mean, (max(more, 0), 1)), motif.probabilities[max(-more, 0) : motif.width + min(more, 0)]
        start = torch.from_numpy(np.concatenate([added, kept, added])).float().log().reshape(1, -1)
        fitted = _fit(windows, Fitted(start, torch.tensor([motif.share])), ROUNDS, own_frequencies(windows))
        other = _motif(fitted, motif.background, motif.both)
        if (abs(other.best_sites(codes)[0] + width / 2 - own) <= motif.width / 4).mean() >= AGREE:
            found.append(other.probabilities)
    return tuple(found)


Model = Callable[[Tensor], Tensor]  # from counts of letters (S, w, C) to log p_P (S, C w)


@dataclass(frozen=True)
class Fitted:
    """S motifs that were fitted at once."""

    log_p: Tensor  # log p_P of letters, (S, C w)
    share: Tensor  # (S,)
    place: Tensor | None = None  # p_P / p_U of starts, (S, L - w + 1); None: any place
    gain: Tensor = field(default_factory=lambda: torch.zeros(0))  # mean over sequences, (S,)

    def best(self, count: int) -> "Fitted":
        """Those with the largest gains."""
        return self[torch.topk(self.gain, min(count, len(self.gain))).indices]

    def joined(self, other: "Fitted") -> "Fitted":
        """These and others, of the same model."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Fitted(*(None if one is None else torch.cat([one, two]) for one, two in pairs))  # type: ignore[arg-type]

    def __getitem__(self, rows: Tensor | slice) -> "Fitted":
        return Fitted(*(None if value is None else value[rows] for value in vars(self).values()))  # type: ignore[arg-type]


def _search(
    codes: np.ndarray, width: int, background: Background, both: bool, places: bool, rng: np.random.Generator
) -> list[tuple[Fitted, Model]]:
    """The best motif of all starts under each model of letters, or that prefers places, with its left-out gain."""
    windows, screen = _windows(codes, width, background, both, rng)
    free, groups = own_frequencies(windows), None
    if len(codes) < MANY and not places:
        words = _ranked(screen, FEW_STARTS, rng)[:FEW_TOP]
        starts = _started(torch.cat([_from_words(words, windows.size), _projected(windows, rng)]))
        starts = _left(_fit(_windows(codes, width, background, both, rng, FIRST)[1], starts, 0, free), THIRD)
    else:
        words = _ranked(screen, STARTS // (1 if screen is windows and not places else 2), rng)
        starts = _started(_from_words(words, windows.size))
    once = _fit(screen, _anywhere(starts, windows) if places else starts, 1, free)
    fitted = _raced(screen, once, free)
    if windows is not screen:  # of long sequences only few windows are screened
        groups = _started(_projected(windows, rng, GROUPS[0])[: GROUPS[1]])
        groups = _fit(windows, groups, 1, free).best(FINAL)
    if places:
        models = [(fitted.best(FINAL), free, groups and _anywhere(groups, windows))]
    else:
        # Starts of the second model: the best motifs of the first, and what is best under the second after one round.
        alike = _raced(screen, _fit(screen, _alike(once, windows), 0, one_frequency), one_frequency)
        alike = alike.joined(_fit(screen, _alike(fitted, windows), ROUNDS, one_frequency)).best(FINAL)
        models = [(fitted.best(FINAL), free, groups), (alike, one_frequency, groups and _alike(groups, windows))]
    every = [(motifs if more is None else motifs.joined(more), model) for motifs, model, more in models]
    return [(_finished(windows, screen, motifs, model), model) for motifs, model in every]


def _anywhere(motifs: Fitted, windows: Windows) -> Fitted:
    """Motifs that may start at any place, but could prefer some."""
    return replace(motifs, place=torch.ones(len(motifs.log_p), windows.starts))


def _alike(motifs: Fitted, windows: Windows) -> Fitted:
    """Motifs with one frequency of the consensus letter for all positions."""
    return replace(motifs, log_p=one_frequency(motifs.log_p.exp().reshape(len(motifs.log_p), -1, windows.size)))


def _rounds(windows: Windows) -> int:
    """Rounds before the best one of some motifs is taken."""
    return EARLY if len(windows) > MANY_WINDOWS else ROUNDS


def _raced(windows: Windows, starts: Fitted, model: Model) -> Fitted:
    """EM from S motifs with known gains: a quarter of them goes on, those with the largest gains, for 1, 2, 4 rounds
    and so on, and the last ones until their gain stays."""
    rounds = 1
    while len(starts.log_p) > LAST:
        starts = _fit(windows, _left(starts, QUARTER), rounds, model)
        rounds *= 2
    return _fit(windows, starts, ROUNDS, model)


def _started(log_p: Tensor) -> Fitted:
    """Motifs of which each sequence has a site with probability 1/2."""
    return Fitted(log_p, torch.full((len(log_p),), 0.5))


def _left(motifs: Fitted, part: int) -> Fitted:
    """The best of the motifs, one of `part`, but at least `LAST`."""
    return motifs.best(max(LAST, len(motifs.log_p) // part))


def _windows(
    codes: np.ndarray,
    width: int,
    background: Background,
    both: bool,
    rng: np.random.Generator,
    screened: int = SCREENED,
) -> tuple[Windows, Windows]:
    """All windows, and about `screened` of them, those of some sequences."""
    windows = Windows.of(codes, width, background, both)
    some = max(4, len(codes) * screened // len(windows))
    if some >= len(codes):
        return windows, windows
    return windows, Windows.of(codes[np.sort(rng.permutation(len(codes))[:some])], width, background, both)


def _from_words(words: Tensor, size: int) -> Tensor:
    """log p_P (S, C w) that prefer the letters of words, one-hot."""
    other = (1 - MATCH) / (size - 1)
    return torch.log(other + (MATCH - other) * words)


def _finished(windows: Windows, screen: Windows, fitted: Fitted, model: Model) -> Fitted:
    """The best of the motifs, fitted to all windows, and moved to both sides, with its left-out gain."""
    fitted = _fit(windows, fitted, _rounds(windows), model).best(FINAL)
    top = fitted[fitted.gain.argmax()[None]]
    shifted = _shifts(top.log_p[0], windows)
    anywhere = None if top.place is None else torch.ones(len(shifted), top.place.shape[1])
    moved = _fit(screen, Fitted(shifted, top.share.expand(len(shifted)), anywhere), FEW_ROUNDS, model)
    best = fitted.joined(_fit(windows, moved.best(FINAL), _rounds(windows), model)).best(FINAL)
    left_out = torch.stack([_left_out_gains(windows, best[i : i + 1], model).mean() for i in range(len(best.gain))])
    best = replace(best, gain=left_out).best(1)
    return _fit(windows, best, ROUNDS, model) if len(windows) > MANY_WINDOWS else best


def own_frequencies(windows: Windows) -> Model:
    """Frequencies of their own for each position, with `PRIOR` letters added to the counts."""
    frequencies = windows.frequencies
    return lambda counts: torch.log((counts + PRIOR * frequencies) / (counts.sum(2, keepdim=True) + PRIOR)).flatten(1)


def one_frequency(counts: Tensor) -> Tensor:
    """One frequency of the most frequent letter for all positions; the others are equal."""
    top = counts.argmax(2, keepdim=True)
    q = (counts.gather(2, top).sum((1, 2)) / counts.sum((1, 2)).clamp_min(1e-12)).clamp(*MATCHES)[:, None, None]
    p = ((1 - q) / (counts.shape[2] - 1)).expand(counts.shape).scatter(2, top, q.expand(top.shape))
    return torch.log(p).flatten(1)


def _ranked(windows: Windows, count: int, rng: np.random.Generator) -> Tensor:
    """One-hot words (S, C w) of the windows with the largest sum over sequences of their best match, of `count`."""
    # The other strand of a window is the same start.
    rows = torch.nonzero(~windows.reverse).ravel()
    chosen = windows.codes[rows[torch.from_numpy(np.sort(rng.permutation(len(rows))[:count]))]]
    words = torch.eye(windows.size)[chosen.long()].flatten(1)
    total, counts = torch.zeros(len(words)), np.diff(windows.first).tolist()
    for some in torch.arange(len(words)).split(AT_ONCE[1]):  # of which torch takes all maxima at once
        matches = windows.scores(words[some]).split(counts)
        total[some] = torch.from_numpy(torch.stack([own.amax(0) for own in matches]).numpy().sum(0))
    return words[torch.topk(total, min(TOP, len(total))).indices]


def _projected(windows: Windows, rng: np.random.Generator, sets: int = PROJECTIONS) -> Tensor:
    """log p_P (S, C w) of groups of windows that agree in random positions, the least probable by chance first."""
    width, c, letters = windows.width, windows.size, windows.codes.numpy()
    # About one window in a group by chance; of many windows fewer, so that few groups have to be counted.
    size = round(np.log(max(len(letters), c)) / np.log(c)) + (len(letters) > SCREENED)
    size = min(width - 1, size, int(EXACT / np.log2(c)))
    chosen = _positions(width, size, rng)[:sets]
    weights = np.zeros((len(chosen), width), np.float32)  # of letters, to numbers of groups, which are exact in float32
    np.put_along_axis(weights, chosen, float(c) ** np.arange(size, dtype=np.float32)[None], axis=1)
    packed, kept, values = torch.from_numpy(_packed(letters, c)), [], letters.astype(np.float32)
    at_once = max(1, GROUPED // len(letters))
    for some in range(0, len(weights), at_once):
        keys = (weights[some : some + at_once] @ values.T).astype(np.int64)
        keys += c**size * np.arange(len(keys))[:, None]
        number = np.bincount(keys.ravel())
        large = number >= AT_LEAST
        groups, at = np.flatnonzero(large), np.flatnonzero(large[keys])
        place = np.zeros(len(number), np.min_scalar_type(len(groups)))  # of few bits, which are sorted soon
        place[groups] = np.arange(len(groups))
        at, number = at[np.argsort(place[keys.ravel()[at]], kind="stable")], number[groups]
        if number.max(initial=0) > MOST:
            at = at[np.arange(len(at)) - np.repeat(number.cumsum() - number, number) < MOST]
            number = np.minimum(number, MOST)
        rows, first = torch.from_numpy(at % len(letters)), torch.from_numpy(number.cumsum() - number)
        counts = F.embedding_bag(rows, packed, first, mode="sum").numpy()
        evidence = _evidence(counts, number, width, c)
        for own in np.split(np.arange(len(groups)), np.searchsorted(groups, c**size * np.arange(1, len(keys)))):
            kept.append(counts[own[np.argpartition(evidence[own], -OF_EACH)[-OF_EACH:]] if len(own) > OF_EACH else own])
    every = np.concatenate(kept)
    distinct = every[np.unique(every.view(f"V{every.itemsize * every.shape[1]}"), return_index=True)[1]]
    counted = distinct.astype(np.int64)[..., None] >> LETTER_BITS * np.arange(PACKED) & MOST
    counted = counted.reshape(len(distinct), width, -1)[..., :c]
    evidence = _evidence(distinct, counted[:, 0].sum(1), width, c)
    p = torch.from_numpy(counted[np.argsort(-evidence, kind="stable")[:ALIKE]]).float() + PRIOR_ALIKE
    return torch.log(p / p.sum(2, keepdim=True)).flatten(1)


def _packed(letters: np.ndarray, c: int) -> np.ndarray:
    """Windows (W, w) as numbers that add up to counts of letters, exactly: `PACKED` letters in each, (W, w k)."""
    numbers = np.zeros((*letters.shape, -(-c // PACKED)), np.float32)
    at, value = letters[..., None].astype(np.int64) // PACKED, 2.0 ** (LETTER_BITS * (letters % PACKED))
    np.put_along_axis(numbers, at, value[..., None].astype(np.float32), 2)
    return numbers.reshape(len(letters), -1)


def _positions(width: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Different random sets of `size` of `width` positions, at most `PROJECTIONS`, one in each row."""
    if math.comb(width, size) <= PROJECTIONS:
        return np.array(list(itertools.combinations(range(width), size)))
    return np.array([rng.choice(width, size, replace=False) for _ in range(PROJECTIONS)])


def _evidence(packed: np.ndarray, number: np.ndarray, width: int, c: int) -> np.ndarray:
    """Log marginal likelihood, prior Dirichlet(1/2), of letters counted in groups (S, w k), `_packed`, of `number`
    windows, against 1/C for each."""
    of_two, of_group = _evidence_of_counts(c)
    of_letters, size = np.empty(len(packed)), max(1, COUNTED // packed.shape[1])
    for some in (slice(start, start + size) for start in range(0, len(packed), size)):
        counts = packed[some].astype(np.int64)
        each = of_two.take(counts & (len(of_two) - 1))
        each += of_two.take(counts >> 2 * LETTER_BITS)
        of_letters[some] = each.sum(1)
    return np.asarray(of_letters + width * of_group[number])


@functools.cache
def _evidence_of_counts(c: int) -> tuple[np.ndarray, np.ndarray]:
    """The parts of `_evidence` at a position: those of two packed counts, and of the number of windows."""
    n = np.arange(MOST + 1)
    of_letter = gammaln(n + 0.5) - gammaln(0.5)
    return np.add.outer(of_letter, of_letter).ravel(), n * np.log(c) - gammaln(n + c / 2) + gammaln(c / 2)


def _expected(windows: Windows, motifs: Fitted, counted: bool = True) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Gains of sequences (S, n), log likelihoods with against without a motif; if `counted`, expected letters (S, C w),
    sites (S,), and sites at each start (S, L - w + 1)."""
    log_p, share, count = motifs.log_p, motifs.share, windows.count[:, None]
    gains, letters, sites = log_p.new_empty(len(log_p), len(count)), torch.zeros_like(log_p), 0 * share
    places = None if motifs.place is None else torch.zeros_like(motifs.place)
    at_once = min(max(CACHED // len(windows), AT_ONCE[0]), AT_ONCE[1])
    for some in (slice(start, start + at_once) for start in range(0, len(log_p), at_once)):
        ratio = windows.scores(log_p[some]).sub_(windows.log_background[:, None]).exp_()
        if motifs.place is not None:
            ratio *= motifs.place[some].T.index_select(0, windows.place)
        sums = windows.sums(ratio)
        gain = torch.log1p(share[some] * (sums / count - 1))
        gains[some] = gain.T
        if not counted:
            continue
        weight = share[some] / count / torch.exp(gain)
        sites[some] = (weight * sums).sum(0)
        posterior = ratio.mul_(weight.index_select(0, windows.sequence))
        letters[some] = windows.letters(posterior)
        if places is not None:
            places[some] = torch.zeros(windows.starts, posterior.shape[1]).index_add_(0, windows.place, posterior).T
    return gains, letters, sites, places


def density_of_places(sites: Tensor) -> Tensor:
    """p_P / p_U of starts (S, L - w + 1), from the expected sites at each, by a Gaussian kernel."""
    reach = int(4 * SMOOTH)
    kernel = torch.exp(-0.5 * (torch.arange(-reach, reach + 1) / SMOOTH) ** 2)[None, None]
    near, all_near = (F.conv1d(x[:, None], kernel, padding=reach)[:, 0] for x in (sites, torch.ones_like(sites[:1])))
    density = near / all_near + 1e-9
    return (1 - ANYWHERE) * density / density.mean(1, keepdim=True) + ANYWHERE


def _fit(windows: Windows, motifs: Fitted, rounds: int, model: Model) -> Fitted:
    """EM from S motifs at once, each until its gain stays."""
    n, log_p, share = len(windows.first) - 1, motifs.log_p.clone(), motifs.share.clone()
    place = None if motifs.place is None else motifs.place.clone()
    gain, moving = torch.full((len(log_p),), -torch.inf), torch.arange(len(log_p))
    found = Fitted(log_p, share, place, gain)
    for number in range(rounds + 1):
        gains, counts, sites, places = _expected(windows, found[moving], number < rounds)
        # The gain may fall in a round: with the letters that are added to the counts, it is not what EM maximizes.
        moves = abs(gains.mean(1) - gain[moving]) >= ENOUGH
        gain[moving] = gains.mean(1)
        moving = moving[moves]
        if number == rounds or not len(moving):
            break
        log_p[moving] = model(counts[moves].reshape(len(moving), -1, windows.size))
        share[moving] = (sites[moves] / n).clamp(1 / n, 1 - 0.5 / n)
        if place is not None and places is not None:
            place[moving] = density_of_places(places[moves])
    return found


def _left_out_gains(windows: Windows, motif: Fitted, model: Model) -> Tensor:
    """Log likelihood ratio of each sequence (n,), under the motif that its own sites did not help to fit."""
    n, count, share = len(windows.first) - 1, windows.count, motif.share[0]
    ratio = torch.exp(windows.scores(motif.log_p)[:, 0] - windows.log_background)
    if motif.place is not None:
        ratio *= motif.place[0, windows.place]
    weight = share / count / (1 + share * (windows.sums(ratio[:, None])[:, 0] / count - 1))
    posterior = ratio * weight[windows.sequence]
    letters = windows.own_letters(posterior)
    others = model((letters.sum(0) - letters).reshape(n, -1, windows.size))
    likely = torch.exp(windows.own_scores(others) - windows.log_background)
    if motif.place is not None:
        sites = torch.zeros(n, motif.place.shape[1])
        sites.index_put_((windows.sequence, windows.place), posterior, accumulate=True)
        likely *= density_of_places(sites.sum(0) - sites)[windows.sequence, windows.place]
    return torch.log1p(share * (windows.sums(likely[:, None])[:, 0] / count - 1))


def _shifts(log_p: Tensor, windows: Windows) -> Tensor:
    """The motif moved by up to half its width to both sides, (S, C w); new positions have the mean frequencies."""
    width, size = windows.width, windows.size
    prior = torch.log(windows.frequencies)
    moved = []
    for shift in range(-(width // 2), width // 2 + 1):
        one = torch.roll(log_p.reshape(width, size), shift, 0).clone()
        one[: max(shift, 0)], one[width + min(shift, 0) :] = prior, prior
        moved.append(one.ravel())
    return torch.stack(moved)
