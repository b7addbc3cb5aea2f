"""Alphabets: the letters that sequences are made of, and what follows from them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

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
    """

    name: str
    noun: str
    letters: str
    unknown: str
    complement: str = ""

    def __len__(self) -> int:
        return len(self.letters)

    def __str__(self) -> str:
        return " ".join(self.letters + self.unknown)

    @cached_property
    def known(self) -> np.ndarray:
        """Whether each ASCII code is a letter, bool (256,)."""
        found = np.zeros(256, dtype=np.bool_)
        found[[ord(letter) for each in self.letters + self.unknown for letter in (each, each.lower())]] = True
        return found

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


NUCLEOTIDES = Alphabet("dna", "DNA", "ACGT", "N", complement="TGCA")
