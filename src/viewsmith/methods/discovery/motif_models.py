"""Motifs: the background, the windows of sequences, and a motif with the scores of its sites.

p_U is a Markov chain, p_P has independent letters; see `viewsmith.methods.discovery.motif_search`, which fits motifs.
Letters are numbers from 0 in the order of an alphabet of C letters, and C, which is not known: N, X, padding.
"""

import itertools
from dataclasses import dataclass, field
from functools import cache, cached_property

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from viewsmith.methods.discovery.acceptance import Evidence
from viewsmith.modalities.dna.letters import NUCLEOTIDES, Alphabet, word_length

ORDER = 2  # letters before, on which a letter of the background depends
FEW_LETTERS = 8  # with more, the background has independent letters: of pairs of these too few are seen
BLOCK = 500
PERMUTED = 2**21  # letters that are shuffled at once
LISTED = 0.2  # least probability of a letter of a pattern, as in those of MEME


@cache
def spelled(size: int) -> Tensor:
    """Every word of letters that are looked up at once, one-hot, (words, letters of a word * size)."""
    length = word_length(size)
    words = torch.cartesian_prod(*[torch.arange(size)] * length).reshape(-1, length)
    return torch.eye(size)[words].reshape(size**length, size * length)


@dataclass(frozen=True)
class Background:
    """p_U: a Markov chain of order `ORDER` of both strands; of more than `FEW_LETTERS` letters, independent ones."""

    # log p(letter | two letters before), (C + 1, C + 1, C + 1); C (not known, before the start): any letter
    log_p: np.ndarray
    alphabet: Alphabet = NUCLEOTIDES

    @property
    def size(self) -> int:
        """The number of letters, C."""
        return len(self.alphabet)

    @classmethod
    def of(cls, strands: np.ndarray, alphabet: Alphabet = NUCLEOTIDES) -> "Background":
        """Fitted to the codes (m, L) of both strands, with the frequencies of shorter contexts as prior counts."""
        c = len(alphabet)
        padded = np.pad(strands, ((0, 0), (ORDER, 0)), constant_values=c).astype(np.int64)
        known = strands < c
        index = (padded[:, :-2] * (c + 1) ** 2 + padded[:, 1:-1] * (c + 1) + padded[:, 2:])[known]
        counts = np.bincount(index, minlength=(c + 1) ** 3).reshape((c + 1,) * 3)[:, :, :c].astype(np.float64)
        single = (counts.sum((0, 1)) + 1) / (counts.sum() + c)
        double = counts.sum(0) + c * single
        double = np.concatenate([double[:c], double.sum(0, keepdims=True)])
        double /= double.sum(1, keepdims=True)
        triple = counts + c**2 * double[None]
        triple /= triple.sum(2, keepdims=True)
        triple[c], triple[:, c] = double, single
        if c > FEW_LETTERS:
            triple[:] = single
        return cls(np.log(np.pad(triple, ((0, 0), (0, 0), (0, 1)), constant_values=1.0)), alphabet)

    def windows(self, strands: np.ndarray, width: int) -> np.ndarray:
        """log p_U of every window of `width` letters, float64 (..., L - width + 1), of codes (..., L); unknown ones
        count 0."""
        edge = [(0, 0)] * (strands.ndim - 1)
        padded = np.pad(strands, [*edge, (ORDER, 0)], constant_values=self.size)
        of_letters = self.log_p[padded[..., :-2], padded[..., 1:-1], padded[..., 2:]]
        cumulated = np.pad(of_letters.cumsum(-1), [*edge, (1, 0)])
        return np.asarray(cumulated[..., width:] - cumulated[..., :-width])

    @property
    def frequencies(self) -> np.ndarray:
        """Frequencies of the letters, (C,)."""
        return np.exp(self.log_p[-1, -1, :-1])

    def draw(self, lengths: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Random sequences of these lengths, codes (n, L) with C after the end."""
        found = np.full((len(lengths), ORDER + int(lengths.max())), self.size, NUCLEOTIDES.codes.dtype)
        cumulated = np.exp(self.log_p[:, :, :-1]).cumsum(2)
        for i in range(ORDER, found.shape[1]):
            of_letter = cumulated[found[:, i - 2], found[:, i - 1]]
            drawn = (rng.random((len(found), 1)) > of_letter[:, :-1]).sum(1)
            found[:, i] = np.where(i - ORDER < lengths, drawn, self.size)
        return found[:, ORDER:]


@dataclass(frozen=True)
class Windows:
    """Windows of w known letters, on one or both strands, of the sequences that have any, in their order.

    A window is read as k words of a few letters (DNA: 4, proteins: 2), the last one filled up with the first letter:
    its score under a motif is a sum of k entries of a table of words, in a tenth of the time of a product with one-hot
    letters.
    """

    codes: Tensor  # letters, uint8 (W, w)
    log_background: Tensor  # log p_U(z), (W,)
    reverse: Tensor  # bool (W,): read from the other strand
    place: Tensor  # start on its strand, int64 (W,)
    starts: int  # L - w + 1
    first: np.ndarray  # number of the first window of each sequence, and W: int64 (n + 1,)
    alphabet: Alphabet = NUCLEOTIDES

    @classmethod
    def of(cls, codes: np.ndarray, width: int, background: Background, both: bool = True) -> "Windows":
        """All windows of sequences, codes (n, L)."""
        size = background.size
        strands = np.stack([codes, other_strand(codes, size)] if both else [codes], 1)
        views = np.lib.stride_tricks.sliding_window_view(strands, width, axis=2)
        whole = (views < size).all(3)
        count, starts = whole.sum((1, 2)), whole.shape[2]
        strand, start = np.nonzero(whole)[1:]
        return cls(
            torch.from_numpy(views[whole]),
            torch.from_numpy(background.windows(strands, width)[whole]).float(),
            torch.from_numpy(strand > 0),
            torch.from_numpy(start),
            starts,
            np.concatenate([[0], count[count > 0].cumsum()]),
            background.alphabet,
        )

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def width(self) -> int:
        """Letters of a window, w."""
        return self.codes.shape[1]

    @property
    def size(self) -> int:
        """The number of letters, C."""
        return len(self.alphabet)

    @cached_property
    def count(self) -> Tensor:
        """Number of windows of each sequence, float32 (n,)."""
        return torch.from_numpy(np.diff(self.first)).float()

    @cached_property
    def sequence(self) -> Tensor:
        """Number of the sequence of each window, int64 (W,)."""
        return torch.from_numpy(np.repeat(np.arange(len(self.first) - 1), np.diff(self.first)))

    @cached_property
    def frequencies(self) -> Tensor:
        """Frequencies of the letters in all windows, (C,)."""
        return torch.bincount(self.codes.flatten(), minlength=self.size) / self.codes.numel()

    @cached_property
    def words(self) -> Tensor:
        """Rows of the words of each window in a table of words, int32 (W, k)."""
        length = word_length(self.size)
        padded = F.pad(self.codes, (0, -self.width % length)).reshape(len(self), -1, length).int()
        number = (padded * self.size ** torch.arange(length - 1, -1, -1, dtype=torch.int32)).sum(2, dtype=torch.int32)
        return number + len(spelled(self.size)) * torch.arange(number.shape[1], dtype=torch.int32)

    @cached_property
    def _with_word(self) -> tuple[Tensor, Tensor]:
        """Windows in the order of their first, second, ... word, int32 (k W,), and the first of each word, (k V,)."""
        words = len(spelled(self.size))
        order = np.argsort(self.words.numpy() % words, axis=0, kind="stable").T.ravel()
        count = torch.bincount(self.words.flatten(), minlength=self.words.shape[1] * words)
        return torch.from_numpy(order).int(), (count.cumsum(0) - count).int()

    def scores(self, log_p: Tensor) -> Tensor:
        """Sums over the letters of each window of values of S motifs (S, C w), (W, S)."""
        return F.embedding_bag(self.words, table_of_words(log_p, self.size), mode="sum")

    def letters(self, weights: Tensor) -> Tensor:
        """Weighted counts of the letters at each position, (S, C w), for weights of the windows (W, S)."""
        windows, first = self._with_word
        return letters_of_words(F.embedding_bag(windows, weights, first, mode="sum"), self.width, self.size)

    @cached_property
    def _by_sequence(self) -> tuple[Tensor, Tensor]:
        """All windows, and the first one of each sequence."""
        return torch.arange(len(self)), torch.from_numpy(self.first[:-1])

    def sums(self, values: Tensor) -> Tensor:
        """Sums of the values of windows (W, S) over those of each sequence, (n, S)."""
        windows, first = self._by_sequence
        return F.embedding_bag(windows, values, first, mode="sum")

    def own_letters(self, weights: Tensor) -> Tensor:
        """Weighted counts of the letters of the windows of each sequence, (n, C w), for weights (W,)."""
        n, rows = len(self.first) - 1, self.words.shape[1] * len(spelled(self.size))
        place = (self.words * n + self.sequence[:, None]).flatten()
        every = weights[:, None].expand(-1, self.words.shape[1]).flatten()
        table = torch.bincount(place, every, rows * n).reshape(rows, n).float()
        return letters_of_words(table, self.width, self.size)

    def own_scores(self, log_p: Tensor) -> Tensor:
        """Sums over the letters of each window of the values of the motif of its sequence, one of n (n, C w), (W,)."""
        table = table_of_words(log_p, self.size)
        return table.flatten()[self.words * table.shape[1] + self.sequence[:, None]].sum(1)


def table_of_words(log_p: Tensor, size: int = 4) -> Tensor:
    """Sums over the letters of all V words at each of k places, (k V, S), of values (S, C w)."""
    every = spelled(size)
    padded = F.pad(log_p, (0, -log_p.shape[1] % every.shape[1])).reshape(len(log_p), -1, every.shape[1])
    return (every @ padded.permute(1, 2, 0)).flatten(0, 1)


def letters_of_words(table: Tensor, width: int, size: int = 4) -> Tensor:
    """Counts of the letters (S, C w) from counts of the V words at each of k places, (k V, S)."""
    every = spelled(size)
    letters = every.T @ table.reshape(-1, len(every), table.shape[1])
    return letters.flatten(0, 1).T[:, : size * width]


@dataclass(frozen=True, eq=False)
class Motif:
    """A motif, fitted: it scores the windows of any sequences."""

    probabilities: np.ndarray  # p_P: frequencies of the letters, (w, C)
    background: Background  # p_U
    share: float  # of the sequences that have a site
    both: bool = True  # strands
    # log p_P / p_U of each start in sequences of one length, (L - w + 1,), if places matter (then of one strand).
    place: np.ndarray | None = None
    # The same motif with fewer or more letters on both sides, (w', C) each, by which its sites are scored, too.
    others: tuple[np.ndarray, ...] = ()
    evidence: Evidence = field(default_factory=Evidence)
    # Numbers of the sequences it was fitted to, and where the best site of each starts, by a search without it.
    held: tuple[np.ndarray, np.ndarray] | None = None

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that are saved by name."""
        found = {"probabilities": self.probabilities, "background": self.background.log_p}
        found |= {} if self.place is None else {"place": self.place}
        return found | {f"other{len(p)}": p for p in self.others}

    @property
    def width(self) -> int:
        return len(self.probabilities)

    @property
    def consensus(self) -> str:
        """The most frequent letter at each position."""
        return "".join(self.alphabet.letters[i] for i in self.probabilities.argmax(1))

    @property
    def pattern(self) -> str:
        """The motif as PROSITE writes it, such as ``[HY]-R-D-[LI]-K-x(2)-N``: the letters with at least `LISTED` of
        each position, and x for any; without an x at the ends."""
        found = []
        for p in self.probabilities:
            letters = "".join(self.alphabet.letters[i] for i in np.argsort(-p, kind="stable") if p[i] >= LISTED)
            found.append(f"[{letters}]" if len(letters) > 1 else letters)
        groups = [(key or "x", len(list(run))) for key, run in itertools.groupby(found)]
        while groups and groups[0][0] == "x":
            groups.pop(0)
        while groups and groups[-1][0] == "x":
            groups.pop()
        return "-".join(letters if count == 1 else f"{letters}({count})" for letters, count in groups)

    @property
    def alphabet(self) -> Alphabet:
        return self.background.alphabet

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
            strands = np.stack([block, other_strand(block, self.background.size)] if self.both else [block])
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

    def surprise(self, codes: np.ndarray, starts: np.ndarray, reverse: np.ndarray) -> np.ndarray:
        """-log p_P of the letters of a site of each sequence, (n, 1)."""
        at = np.clip(starts[:, None] + np.arange(self.width), 0, codes.shape[1] - 1)
        letters = np.minimum(np.take_along_axis(codes, at, 1), self.background.size - 1)
        letters = np.where(reverse[:, None], other_strand(letters, self.background.size), letters)
        return -np.log(self.probabilities)[np.arange(self.width), letters].sum(1, keepdims=True)

    def _scores(self, strands: np.ndarray) -> np.ndarray:
        """log p_P / p_U of all windows of codes (..., L), (..., L - w + 1): the mean of p_P / p_U over the widths, of
        windows with the same middle; -inf where a letter is not known."""
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
        """log p_P / p_U of all windows under the frequencies p (w, C), (..., L - w + 1)."""
        s, size = -self.background.windows(strands, len(p)), self.background.size + 1
        log_p, length = np.pad(np.log(p), ((0, 0), (0, 1)), constant_values=-np.inf), min(word_length(size), len(p))
        # Words of a few letters are looked up at once; the last one ends with the window.
        m, letters = strands.shape[-1] - length + 1, strands.astype(np.int16)
        words = letters[..., :m].copy()
        for i in range(1, length):
            words *= np.int16(size)
            words += letters[..., i : i + m]
        for end in range(len(p), 0, -length):
            table, first = np.zeros(()), max(0, end - length)
            for row in log_p[first:end]:
                table = np.add.outer(table, row)
            every = np.broadcast_to(table.reshape(table.shape + (1,) * (length - table.ndim)), (size,) * length)
            s += every.ravel()[words[..., first : first + s.shape[-1]]]
        return s


def as_codes(sequences: np.ndarray, alphabet: Alphabet = NUCLEOTIDES) -> np.ndarray:
    """Numbers of letters, C for unknown ones and padding, of ASCII letters uint8 (n, L)."""
    return np.asarray(alphabet.codes[sequences])


def lengths_of(codes: np.ndarray, size: int = 4) -> np.ndarray:
    """Lengths (n,) up to the last known letter of `size`."""
    return np.asarray(np.where(codes < size, np.arange(1, codes.shape[1] + 1), 0).max(1))


def other_strand(codes: np.ndarray, size: int = 4) -> np.ndarray:
    """The reverse complement of all L columns, padding included, codes (n, L)."""
    return np.asarray(np.where(codes < size, size - 1 - codes, size)[:, ::-1].astype(codes.dtype))


def shuffled(codes: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Sequences (n, L) with the same pairs of letters in another order, by random Euler paths (Altschul and Erickson
    1985); of more than `FEW_LETTERS` letters, with the same letters: most of their pairs occur once."""
    rows = max(1, PERMUTED // codes.shape[1])
    own = _permuted if size > FEW_LETTERS else _paths
    return np.concatenate([own(codes[a : a + rows], size, rng) for a in range(0, len(codes), rows)])


def _permuted(codes: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """The known letters in another order."""
    known, made = codes < size, codes.copy()
    order = np.where(known, rng.random(codes.shape), 2).argsort(1)
    made[known] = np.take_along_axis(codes, order, 1)[np.arange(codes.shape[1]) < known.sum(1, keepdims=True)]
    return made


def _paths(codes: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Random Euler paths; an unknown letter counts as one."""
    made, ends, every = codes.copy(), lengths_of(codes, size) - 1, np.arange(len(codes))
    first = np.where(np.arange(codes.shape[1] - 1) < ends[:, None], codes[:, :-1], size + 1)
    count = np.stack([(first == letter).sum(1) for letter in range(size + 1)], 1)
    drawn, todo = np.zeros(first.shape), np.flatnonzero(ends > 1)
    of_letter = [first[todo] == letter for letter in range(size + 1)]
    while len(todo):
        drawn[todo] = here = rng.random((len(todo), first.shape[1]))
        # A path passes all pairs if the last ones of the letters lead to the last letter; otherwise it is drawn again.
        place = np.stack([np.where(own, here, -1).argmax(1) for own in of_letter], 1)
        goal, row = codes[todo, ends[todo]][:, None], np.arange(len(todo))[:, None]
        last = np.where(count[todo] > 0, codes[todo[:, None], place + 1], goal)
        at = np.tile(np.arange(size + 1), (len(todo), 1))
        for _ in range(size + 1):
            at = np.where(at == goal, at, last[row, at])
        again = (at != goal).any(1)
        todo, of_letter = todo[again], [own[again] for own in of_letter]
    # What follows each letter, letter by letter, in random order, and where that of a letter begins.
    following = np.take_along_axis(codes[:, 1:], (first + drawn).argsort(1), 1)
    start = count.cumsum(1) - count
    letter = codes[:, 0].astype(np.int64)
    for i in range(1, codes.shape[1]):
        going = (i <= ends) & (ends > 1)
        letter = np.where(going, following[every, np.minimum(start[every, letter], following.shape[1] - 1)], letter)
        made[:, i] = np.where(going, letter, codes[:, i])
        start[every, made[:, i - 1]] += going
    return made
