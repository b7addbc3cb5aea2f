"""Sequences of letters: strings to rows of ASCII codes, and checks of their letters."""

from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, one_line, pluralize, warn
from viewsmith.core.memory import check_size
from viewsmith.modalities.dna.alphabet import AMINO_ACIDS, NUCLEOTIDES, Alphabet, alphabet_of

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
    return (
        x.dtype == np.uint8
        and x.ndim == 2
        and x.size > 0
        and bool(alphabet.known[x[0, 0]])
        and _first_fault(x, alphabet) is None
    )


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
    check_size(
        len(lengths) * longest,
        f"{source_name}: {pluralize(len(lengths), 'sequence')}, padded to the length of the longest, {longest:,} "
        "letters,",
        "cut long sequences into pieces of similar length",
    )
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
