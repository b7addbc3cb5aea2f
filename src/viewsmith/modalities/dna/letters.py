"""Sequences of letters: strings to rows of ASCII codes, and checks of their letters."""

from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, one_line, pluralize, warn
from viewsmith.core.rows import check_size

#: About as many words of letters as features and coordinates have, if their length is not given.
MOST_WORDS = 400


@dataclass(frozen=True)
class Alphabet:
    """Letters of sequences, upper or lower case."""

    name: str  #: of the modality
    noun: str  #: of the sequences, in messages
    letters: str  #: each is a channel of scaled sequences, in this order
    unknown: str  #: the letter for one that is not known: equal parts in all channels
    complement: str = ""  #: of each letter, `letters` from their end; empty: sequences have no other strand
    aliases: tuple[tuple[str, str], ...] = ()  #: other letters, and the one that each is read as
    frequencies: np.ndarray | None = field(default=None, compare=False, repr=False)  #: (C,): how often letters occur
    #: (C, C): P(b | a), which letter is in the place of another in related sequences
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


# Values processed at a time, so that temporary arrays are small compared with the rows.
BLOCK = 4_000_000


def letters_of(text: bytes | bytearray) -> np.ndarray:
    """Letters in the type of the samples, uint8, of text in ASCII."""
    return np.frombuffer(text, dtype=np.uint8)


def is_text_of(text: str, alphabet: Alphabet) -> bool:
    """Whether a text has letters of an alphabet alone."""
    return bool(alphabet.known[letters_of(text.encode("ascii", "replace"))].all())


def letter_rows(X: Any, source_name: str, alphabet: Alphabet) -> np.ndarray:
    """Sequences as rows of ASCII letters, see `viewsmith.modalities.dna_rows`."""
    if isinstance(X, str | bytes):
        raise InputError(f"{source_name}: a single string, expected a list of sequences; give it in a list: [sequence]")
    given = X if isinstance(X, list | tuple) else np.asarray(X)
    if isinstance(given, np.ndarray) and given.dtype.kind not in "USO":
        check_letters(given, source_name, alphabet)
        return without_aliases(np.ascontiguousarray(given), source_name, alphabet)
    if isinstance(given, np.ndarray) and given.ndim != 1:
        raise InputError(f"{source_name}: strings of shape {given.shape}, expected one string per row, shape (n,)")
    return _text_rows(given.tolist() if isinstance(given, np.ndarray) else list(given), source_name, alphabet)


def without_aliases(x: np.ndarray, source_name: str, alphabet: Alphabet) -> np.ndarray:
    """Rows with letters of the alphabet in place of others that are read as these, which it says in a line."""
    counts = np.bincount(x.ravel(), minlength=256)
    said = []
    for others, letter in alphabet.aliases:
        found = {other: int(counts[ord(other)] + counts[ord(other.lower())]) for other in others}
        found = {other: count for other, count in found.items() if count}
        if found:
            said.append(f"{' '.join(found)} ({pluralize(sum(found.values()), 'letter')}) read as {letter}")
    if not said:
        return x
    warn(f"{source_name}: {'; '.join(said)}")
    return np.asarray(alphabet.read_as[x])


def is_rna(X: Any) -> bool:
    """Whether sequences, strings or ASCII letters uint8, have U and no T: then there is no other strand."""
    if isinstance(X, np.ndarray) and X.dtype == np.uint8:
        counts = np.bincount(X.ravel(), minlength=256)
        return bool(counts[list(b"Uu")].any() and not counts[list(b"Tt")].any())
    found = {letter for text in X for letter in "UT" if isinstance(text, str) and letter in text.upper()}
    return found == {"U"}


def has_letters(x: np.ndarray, alphabet: Alphabet) -> bool:
    """Whether an array is uint8 (n, L) in which every row has letters of the alphabet, optionally followed by zeros."""
    # One value is tested first: it excludes most arrays that are not letters.
    if x.dtype != np.uint8 or x.ndim != 2 or x.size == 0 or not alphabet.known[x[0, 0]]:
        return False
    return _first_fault(x, alphabet) is None


def is_text(x: np.ndarray) -> bool:
    """Whether an array is uint8 (n, L) with ASCII letters and zeros, where each row starts with a letter."""
    alphabet = np.zeros(256, dtype=np.bool_)
    alphabet[[*range(ord("A"), ord("Z") + 1), *range(ord("a"), ord("z") + 1)]] = True
    if x.dtype != np.uint8 or x.ndim != 2 or not alphabet[x[:, 0]].all():
        return False
    alphabet[0] = True
    return bool(alphabet[x].all())


def check_letters(x: np.ndarray, source_name: str, alphabet: Alphabet) -> None:
    """Raise InputError for an array that is not of the alphabet; the message gives the first invalid position."""
    if x.dtype != np.uint8 or x.ndim != 2:
        raise InputError(
            f"{source_name}: {x.dtype} of shape {x.shape}; {alphabet.noun} is uint8 (n, L), with ASCII letters "
            f"{alphabet}, or a list of strings; cast codes with astype(np.uint8)"
        )
    if x.size == 0:
        raise InputError(
            f"{source_name}: no sequences, shape {x.shape}; {alphabet.noun} is uint8 (n, L) with at least one letter "
            "per row"
        )
    fault = _first_fault(x, alphabet)
    if fault is None:
        return
    row, position = fault
    if not x[row].any():
        raise InputError(f"{source_name}: row {row} (counted from 0) has no letter; leave that row out")
    if x[row, position] == 0:
        raise InputError(
            f"{source_name}: row {row}, position {position} (counted from 0) is 0, which is padding and is allowed "
            f"only after the end of a sequence; write {alphabet.unknown} for an unknown letter"
        )
    raise InputError(
        f"{source_name}: row {row}, position {position} (counted from 0) is "
        f"{letter_fault(chr(x[row, position]), x[row].tobytes().decode('latin-1'), alphabet)}"
    )


def letter_fault(letter: str, sequence: str, alphabet: Alphabet) -> str:
    """The part of a message about a letter that is not in the alphabet: what was given and expected, what to do."""
    given = repr(letter) if letter.isprintable() else f"the code {ord(letter)}"
    upper = letter.upper()
    is_protein = alphabet_of(letters_of(sequence.encode("ascii", "replace"))) is AMINO_ACIDS
    if is_protein and alphabet is NUCLEOTIDES:
        advice = "is it a protein? Give the modality proteins (--modality proteins)"
    elif upper in "NX":
        advice = f"write {alphabet.unknown} for an unknown letter"
    elif upper in "-.*":
        advice = "remove gaps and stops"
    else:
        advice = "replace it or leave the sequence out"
    return f"{given}, expected {alphabet}, upper or lower case; {advice}"


def first_other_letter(letters: np.ndarray, starts: np.ndarray, alphabet: Alphabet) -> tuple[int, int] | None:
    """Sequence and position of the first value that is not a letter; None if all values are letters."""
    for start in range(0, len(letters), BLOCK):
        known = alphabet.known[letters[start : start + BLOCK]]
        if not known.all():
            at = start + int(known.argmin())
            sequence = int(np.searchsorted(starts, at, side="right")) - 1
            return sequence, at - int(starts[sequence])
    return None


def pad_rows(letters: np.ndarray, starts: np.ndarray, lengths: np.ndarray, source_name: str) -> np.ndarray:
    """Sequences as rows, uint8 (n, L), padded with zeros."""
    longest = int(lengths.max())
    padded = f"{pluralize(len(lengths), 'sequence')}, padded to the length of the longest, {longest:,} letters,"
    way = "cut long sequences into pieces of similar length"
    check_size(len(lengths) * longest, f"{source_name}: {padded}", way)
    rows = np.zeros((len(lengths), longest), dtype=np.uint8)
    for row, start, length in zip(rows, starts.tolist(), lengths.tolist(), strict=True):
        row[:length] = letters[start : start + length]
    return rows


def _text_rows(texts: list[Any], source_name: str, alphabet: Alphabet) -> np.ndarray:
    if not texts:
        raise InputError(f"{source_name}: no sequences; expected a list of strings")
    for i, text in enumerate(texts):
        if not isinstance(text, str | bytes):
            raise InputError(
                f"{source_name}: row {i} (counted from 0) is {one_line(repr(text), 60)}, expected a sequence as a "
                "string"
            )
        if not text:
            raise InputError(f"{source_name}: row {i} (counted from 0) is an empty string; leave that row out")
    # A character that is not ASCII is replaced by one byte that is not a letter, so that positions do not change.
    encoded = [text.encode("ascii", "replace") if isinstance(text, str) else text for text in texts]
    lengths = np.array([len(text) for text in encoded], dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    letters = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    fault = first_other_letter(letters, starts, alphabet)
    if fault is not None:
        row, position = fault
        sequence = texts[row] if isinstance(texts[row], str) else texts[row].decode("latin-1")
        raise InputError(
            f"{source_name}: row {row}, position {position} (counted from 0) is "
            f"{letter_fault(sequence[position], sequence, alphabet)}"
        )
    return without_aliases(pad_rows(letters, starts, lengths, source_name), source_name, alphabet)


def _first_fault(x: np.ndarray, alphabet: Alphabet) -> tuple[int, int] | None:
    """Row and column of the first invalid value in uint8 (n, L), L at least 1; None if all are valid."""
    step = max(1, BLOCK // x.shape[1])
    for start in range(0, len(x), step):
        block = x[start : start + step]
        is_letter = alphabet.known[block]
        if is_letter.all():
            continue
        # In a row without a letter the first zero is invalid, too.
        end = np.where(is_letter.any(axis=1), x.shape[1] - is_letter[:, ::-1].argmax(axis=1), 1)
        fault = ~is_letter & ((block != 0) | (np.arange(x.shape[1]) < end[:, None]))
        if fault.any():
            row, position = divmod(int(fault.argmax()), x.shape[1])
            return start + row, position
    return None
