"""Alphabets: the letters that sequences are made of, and what follows from them."""

from dataclasses import dataclass, field
from functools import cache, cached_property

import numpy as np

from viewsmith.core.errors import InputError, one_line

#: About as many words of letters as features and coordinates have, if their length is not given.
MOST_WORDS = 400


@dataclass(frozen=True)
class Alphabet:
    """Letters of sequences, upper or lower case.

    Attributes
    ----------
    name, noun : str
        Name of the modality, and of the sequences in messages.
    letters : str
        Each is a channel of scaled sequences, in this order.
    unknown : str
        The letter for one that is not known: equal parts in all channels.
    complement : str
        The complement of each letter, which must be `letters` from their end; empty: sequences have no other strand.
    aliases : tuple of (str, str)
        Other letters, and the one that each of them is read as.
    frequencies, substitutions : ndarray, shapes (C,) and (C, C), optional
        How often letters occur, and P(b | a): which letter is in the place of another in related sequences.
    """

    name: str
    noun: str
    letters: str
    unknown: str
    complement: str = ""
    aliases: tuple[tuple[str, str], ...] = ()
    frequencies: np.ndarray | None = field(default=None, compare=False, repr=False)
    substitutions: np.ndarray | None = field(default=None, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.letters)

    def __str__(self) -> str:
        return " ".join(self.letters + self.unknown)

    @cached_property
    def known(self) -> np.ndarray:
        """Whether each ASCII code is a letter or an alias, bool (256,)."""
        found = np.zeros(256, dtype=np.bool_)
        every = self.letters + self.unknown + "".join(others for others, _ in self.aliases)
        found[[ord(letter) for letter in every + every.lower()]] = True
        return found

    @cached_property
    def read_as(self) -> np.ndarray:
        """The ASCII code that each code is read as, uint8 (256,)."""
        table = np.arange(256, dtype=np.uint8)
        for others, letter in self.aliases:
            table[[ord(other) for other in others]] = ord(letter)
            table[[ord(other) for other in others.lower()]] = ord(letter.lower())
        return table

    @cached_property
    def codes(self) -> np.ndarray:
        """The number of the letter that each ASCII code is read as, from 0; C for all others, uint8 (256,)."""
        table = np.full(256, len(self), dtype=np.uint8)
        for text in (self.letters, self.letters.lower()):
            table[[ord(letter) for letter in text]] = np.arange(len(self))
        return np.asarray(table[self.read_as])

    @cached_property
    def complements(self) -> np.ndarray:
        """The ASCII code of the complement of each code, uint8 (256,)."""
        table = np.arange(256, dtype=np.uint8)
        for one, other in zip(self.letters, self.complement, strict=True):
            table[ord(one)], table[ord(one.lower())] = ord(other), ord(other.lower())
        return table


def word_length(n_letters: int) -> int:
    """Length of the longest words, at least 1, of which there are at most `MOST_WORDS`: 4 for DNA."""
    length = 1
    while n_letters > 1 and n_letters ** (length + 1) <= MOST_WORDS:
        length += 1
    return length


_BLOSUM62 = """
   A  R  N  D  C  Q  E  G  H  I  L  K  M  F  P  S  T  W  Y  V
A  4 -1 -2 -2  0 -1 -1  0 -2 -1 -1 -1 -1 -2 -1  1  0 -3 -2  0
R -1  5  0 -2 -3  1  0 -2  0 -3 -2  2 -1 -3 -2 -1 -1 -3 -2 -3
N -2  0  6  1 -3  0  0  0  1 -3 -3  0 -2 -3 -2  1  0 -4 -2 -3
D -2 -2  1  6 -3  0  2 -1 -1 -3 -4 -1 -3 -3 -1  0 -1 -4 -3 -3
C  0 -3 -3 -3  9 -3 -4 -3 -3 -1 -1 -3 -1 -2 -3 -1 -1 -2 -2 -1
Q -1  1  0  0 -3  5  2 -2  0 -3 -2  1  0 -3 -1  0 -1 -2 -1 -2
E -1  0  0  2 -4  2  5 -2  0 -3 -3  1 -2 -3 -1  0 -1 -3 -2 -2
G  0 -2  0 -1 -3 -2 -2  6 -2 -4 -4 -2 -3 -3 -2  0 -2 -2 -3 -3
H -2  0  1 -1 -3  0  0 -2  8 -3 -3 -1 -2 -1 -2 -1 -2 -2  2 -3
I -1 -3 -3 -3 -1 -3 -3 -4 -3  4  2 -3  1  0 -3 -2 -1 -3 -1  3
L -1 -2 -3 -4 -1 -2 -3 -4 -3  2  4 -2  2  0 -3 -2 -1 -2 -1  1
K -1  2  0 -1 -3  1  1 -2 -1 -3 -2  5 -1 -3 -1  0 -1 -3 -2 -2
M -1 -1 -2 -3 -1  0 -2 -3 -2  1  2 -1  5  0 -2 -1 -1 -1 -1  1
F -2 -3 -3 -3 -2 -3 -3 -3 -1  0  0 -3  0  6 -4 -2 -2  1  3 -1
P -1 -2 -2 -1 -3 -1 -1 -2 -2 -3 -3 -1 -2 -4  7 -1 -1 -4 -3 -2
S  1 -1  1  0 -1  0  0  0 -1 -2 -2  0 -1 -2 -1  4  1 -3 -2 -2
T  0 -1  0 -1 -1 -1 -1 -2 -2 -1 -1 -1 -1 -2 -1  1  5 -2 -2  0
W -3 -3 -4 -4 -2 -2 -3 -2 -2 -3 -2 -3 -1  1 -4 -3 -2 11  2 -3
Y -2 -2 -2 -3 -2 -1 -2 -3  2 -1 -1 -2 -1  3 -3 -2 -2  2  7 -1
V  0 -3 -3 -3 -1 -2 -2 -3 -3  3  1 -2  1 -1 -2 -2  0 -3 -1  4
"""
# Frequencies of the amino acids in the blocks that the matrix was made of, in its order.
_OF_BLOCKS = (
    *(0.074, 0.052, 0.045, 0.054, 0.025, 0.034, 0.054, 0.074, 0.026, 0.068),
    *(0.099, 0.058, 0.025, 0.047, 0.039, 0.057, 0.051, 0.013, 0.032, 0.073),
)


def _substitutions(letters: str) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies p (20,) and P(b | a) (20, 20) of BLOSUM62, whose scores are 2 log2 P(b | a) / p_b, by `letters`."""
    header, *rows = _BLOSUM62.strip().splitlines()
    order = [header.split().index(letter) for letter in letters]
    scores = np.array([row.split()[1:] for row in rows], dtype=np.float64)[np.ix_(order, order)]
    p = np.array(_OF_BLOCKS)[order]
    p /= p.sum()
    joint = p * 2 ** (scores / 2)
    return p, joint / joint.sum(1, keepdims=True)


#: RNA has U in place of T; letters for one of several bases (IUPAC) are unknown.
NUCLEOTIDES = Alphabet("dna", "DNA", "ACGT", "N", "TGCA", (("U", "T"), ("RYKMSWBDHV", "N")))
#: Aspartate or asparagine, glutamate or glutamine, leucine or isoleucine, selenocysteine and pyrrolysine are unknown.
_LETTERS = "ACDEFGHIKLMNPQRSTVWY"
AMINO_ACIDS = Alphabet("proteins", "a protein", _LETTERS, "X", "", (("BZJUO", "X"),), *_substitutions(_LETTERS))


@cache
def own_alphabet(letters: str) -> Alphabet:
    """An alphabet of given letters; an unknown one is X, or N or ? if X is a letter."""
    upper = letters.upper()
    if len(upper) < 2 or len({*upper}) < len(upper) or not upper.isascii() or not upper.isprintable() or " " in upper:
        raise InputError(
            f"alphabet is {one_line(repr(letters), 60)}, expected at least two different letters in a row, such as HEC"
        )
    unknown = next(letter for letter in "XN?" if letter not in upper)
    return Alphabet(f"letters:{upper}", f"a sequence of the letters {' '.join(upper)}", upper, unknown)


#: Letters of proteins that no code of a base has; the least part of letters that are no bases with and without them.
OF_PROTEINS, NOT_BASES, MOST_NOT_BASES = b"EFILPQefilpq", 0.2, 0.5


def alphabet_of(letters: np.ndarray) -> Alphabet:
    """The alphabet of letters, uint8 of any shape: that of proteins if enough of them are no bases, or of DNA."""
    counts = np.bincount(letters.ravel(), minlength=256)
    counts[0] = 0
    bases = counts[list(b"ACGTUNacgtun")].sum()
    least = NOT_BASES if counts[list(OF_PROTEINS)].any() else MOST_NOT_BASES
    others = counts.sum() - bases
    return AMINO_ACIDS if others and others >= least * counts.sum() else NUCLEOTIDES
