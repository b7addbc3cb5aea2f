"""DNA: strings to rows of letters, checks of letters, k-mer frequencies, and the modality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from viewsmith.core.errors import InputError, one_line, pluralize, warn
from viewsmith.core.memory import check_size
from viewsmith.core.registry import register
from viewsmith.modalities.base import GENERATOR, Modality, SampleType, Transformation
from viewsmith.modalities.checks import to_rows
from viewsmith.modalities.dna import ALPHABET

if TYPE_CHECKING:
    from torch import Tensor, nn

    from viewsmith.modalities.dna.networks import LetterLatents, Nucleotides

UNKNOWN = "N"

_IS_LETTER = np.zeros(256, dtype=np.bool_)

_IS_LETTER[[ord(letter) for each in ALPHABET + UNKNOWN for letter in (each, each.lower())]] = True

# Values processed at a time, so that temporary arrays are small compared with the rows.
_BLOCK = 4_000_000


def letters_of(text: bytes | bytearray) -> np.ndarray:
    """Letters in the type of the samples, uint8, of text in ASCII."""
    return np.frombuffer(text, dtype=np.uint8)


def is_dna_text(text: str) -> bool:
    """Whether a text has letters of DNA alone."""
    return set(text.upper()) <= {*ALPHABET, UNKNOWN}


def dna_rows(X: Any, source_name: str = "the data") -> np.ndarray:
    """Sequences as rows of ASCII letters.

    Parameters
    ----------
    X : list, tuple or array of str or bytes, shape (n,); or ndarray of uint8, shape (n, L)
        Letters A C G T N, upper or lower case. Rows of an array may be padded with zeros after at least one letter.
    source_name : str
        Name of the data in messages.

    Returns
    -------
    rows : ndarray of uint8, shape (n, L)
        The letters, unchanged; L is the length of the longest sequence, others are padded with 0 at the end.

    Raises
    ------
    InputError
        Another type or shape, an empty sequence, or another letter (the message gives its row and position).
    """
    if isinstance(X, str | bytes):
        raise InputError(f"{source_name}: a single string, expected a list of sequences; give it in a list: [sequence]")
    given = X if isinstance(X, list | tuple) else np.asarray(X)
    if isinstance(given, np.ndarray) and given.dtype.kind not in "USO":
        check_letters(given, source_name)
        return np.ascontiguousarray(given)
    if isinstance(given, np.ndarray) and given.ndim != 1:
        raise InputError(f"{source_name}: strings of shape {given.shape}, expected one string per row, shape (n,)")
    return _text_rows(given.tolist() if isinstance(given, np.ndarray) else list(given), source_name)


def is_dna(x: np.ndarray) -> bool:
    """Whether an array is uint8 (n, L) in which every row has letters A C G T N, optionally followed by zeros."""
    # One value is tested first: it excludes most arrays that are not DNA.
    return x.dtype == np.uint8 and x.ndim == 2 and x.size > 0 and bool(_IS_LETTER[x[0, 0]]) and _first_fault(x) is None


def is_text(x: np.ndarray) -> bool:
    """Whether an array is uint8 (n, L) with ASCII letters and zeros, where each row starts with a letter."""
    alphabet = np.zeros(256, dtype=np.bool_)
    alphabet[[*range(ord("A"), ord("Z") + 1), *range(ord("a"), ord("z") + 1)]] = True
    if x.dtype != np.uint8 or x.ndim != 2 or not alphabet[x[:, 0]].all():
        return False
    alphabet[0] = True
    return bool(alphabet[x].all())


def check_letters(x: np.ndarray, source_name: str = "the data") -> None:
    """Raise InputError for an array that is not DNA; the message gives the first invalid row and position."""
    if x.dtype != np.uint8 or x.ndim != 2:
        raise InputError(
            f"{source_name}: {x.dtype} of shape {x.shape}; DNA is uint8 (n, L), with ASCII letters A C G T N, or a "
            "list of strings; cast codes with astype(np.uint8)"
        )
    if x.size == 0:
        raise InputError(
            f"{source_name}: no sequences, shape {x.shape}; DNA is uint8 (n, L) with at least one letter per row"
        )
    fault = _first_fault(x)
    if fault is None:
        return
    row, position = fault
    if not x[row].any():
        raise InputError(f"{source_name}: row {row} (counted from 0) has no letter; leave that row out")
    if x[row, position] == 0:
        raise InputError(
            f"{source_name}: row {row}, position {position} (counted from 0) is 0, which is padding and is allowed "
            "only after the end of a sequence; write N for an unknown letter"
        )
    raise InputError(
        f"{source_name}: row {row}, position {position} (counted from 0) is "
        f"{letter_fault(chr(x[row, position]), x[row].tobytes().decode('latin-1'))}"
    )


def letter_fault(letter: str, sequence: str) -> str:
    """The part of a message about a letter of a sequence that is not DNA: what was given and expected, what to do."""
    given = repr(letter) if letter.isprintable() else f"the code {ord(letter)}"
    upper = letter.upper()
    if not set(sequence.upper()).isdisjoint("EFILPQ"):
        advice = "is it a protein? There is no modality for proteins"
    elif upper == "U":
        advice = "this is RNA, write T for U"
    elif upper in "RYKMSWBDHV":
        advice = "write N for an ambiguous base"
    elif upper in "-.*":
        advice = "remove gaps and stops"
    else:
        advice = "replace it or leave the sequence out"
    return f"{given}, expected A C G T N, upper or lower case; {advice}"


def first_other_letter(letters: np.ndarray, starts: np.ndarray) -> tuple[int, int] | None:
    """Sequence and position of the first value that is not a letter of DNA; None if all values are letters."""
    for start in range(0, len(letters), _BLOCK):
        known = _IS_LETTER[letters[start : start + _BLOCK]]
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


def kmer_frequencies(x: np.ndarray, k: int = 4) -> np.ndarray:
    """Frequencies of the 4^k words of length k (k-mers), the classical features of a sequence.

    Parameters
    ----------
    x : ndarray of uint8, shape (n, L)
        Letters, upper or lower case, padded with zeros.
    k : int
        Length of a word, 1 to 10.

    Returns
    -------
    frequencies : ndarray of float32, shape (n, 4^k)
        In alphabetical order. Words with an N or padding are not counted. Rows sum to 1, or to 0 if there is no word.

    Raises
    ------
    InputError
        `k` is out of range.
    """
    if not 1 <= k <= 10:
        raise InputError(f"k is {k}, expected the length of a word, 1 to 10")
    import torch

    from viewsmith.modalities.dna import networks

    code, step = networks.Nucleotides(), max(1, _BLOCK // max(4**k, 4 * x.shape[1]))
    frequencies = np.empty((len(x), 4**k), dtype=np.float32)
    for start in range(0, len(x), step):
        block = slice(start, start + step)
        frequencies[block] = networks.kmer_frequencies(code(torch.tensor(x[block])), k).numpy()
    return frequencies


def _text_rows(texts: list[Any], source_name: str) -> np.ndarray:
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
    fault = first_other_letter(letters, starts)
    if fault is not None:
        row, position = fault
        sequence = texts[row] if isinstance(texts[row], str) else texts[row].decode("latin-1")
        raise InputError(
            f"{source_name}: row {row}, position {position} (counted from 0) is "
            f"{letter_fault(sequence[position], sequence)}"
        )
    return pad_rows(letters, starts, lengths, source_name)


def _first_fault(x: np.ndarray) -> tuple[int, int] | None:
    """Row and column of the first invalid value in uint8 (n, L), L at least 1; None if all are valid."""
    step = max(1, _BLOCK // x.shape[1])
    for start in range(0, len(x), step):
        block = x[start : start + step]
        is_letter = _IS_LETTER[block]
        if is_letter.all():
            continue
        # In a row without a letter the first zero is invalid, too.
        end = np.where(is_letter.any(axis=1), x.shape[1] - is_letter[:, ::-1].argmax(axis=1), 1)
        fault = ~is_letter & ((block != 0) | (np.arange(x.shape[1]) < end[:, None]))
        if fault.any():
            row, position = divmod(int(fault.argmax()), x.shape[1])
            return start + row, position
    return None


def _complement(x: np.ndarray) -> np.ndarray:
    table = np.arange(256, dtype=np.uint8)
    for one, other in ("AT", "TA", "CG", "GC", "at", "ta", "cg", "gc"):
        table[ord(one)] = ord(other)
    return table[x]


def _reversed(x: np.ndarray) -> np.ndarray:
    """Sequences from their end; the padding of zeros stays at the end."""
    lengths = (x > 0).sum(1, keepdims=True)
    position = np.arange(x.shape[1])
    return np.take_along_axis(x, np.where(position < lengths, lengths - 1 - position, position), 1)


def _compared(x: np.ndarray, places: int = 128) -> tuple[np.ndarray, np.ndarray]:
    """Roots of 4-mer frequencies, and one-hot letters averaged to at most so many places."""
    import torch

    from viewsmith.modalities.dna.networks import Nucleotides

    code, length = Nucleotides(), min(places, x.shape[1])
    blocks = (code(torch.tensor(x[start : start + 500])) for start in range(0, len(x), 500))
    letters = [torch.nn.functional.adaptive_avg_pool1d(block, length).flatten(1) for block in blocks]
    return np.sqrt(kmer_frequencies(np.ascontiguousarray(x)).astype(np.float64)), torch.cat(letters).numpy()


class DNA(Modality):
    """Sequences of letters, uint8 (n, L), padded with 0."""

    name = "dna"
    samples = SampleType({"letter": None}, "uint8", alphabet=ALPHABET, unit="ASCII letters")
    help = "letters A C G T N: arrays, strings, FASTA files"
    default_views = "dna"
    default_encoder = default_encoder_on_gpu = "cnn"
    default_features = "kmers"
    steps, steps_on_gpu = 1500, 10_000
    step_seconds = (7e-6, 3e-6)
    defaults = MappingProxyType(
        GENERATOR
        | {"directions": True, "nu": 100.0}
        | {"generator_learning_rate": 6e-3, "noise_schedule": "linear", "strength": 0.5}
    )
    picture = "letters"
    crop_suffixes, location_suffixes = (".fasta", ".fa", ".fna", ".npz"), (".csv", ".bed")
    denoisers = ("fast",)  # no denoiser of DNA was published

    def recognizes(self, X: Any) -> bool:
        """Whether samples are a string, a list, array or column that starts with a string, or an array of letters."""
        if isinstance(X, np.ndarray) and X.ndim == 2:
            return is_dna(X)
        if getattr(X, "ndim", 0) == 1:
            X = np.asarray(X)[:1].tolist()
        return isinstance(X, str | bytes) or (isinstance(X, list | tuple) and bool(X) and isinstance(X[0], str | bytes))

    def near_miss(self, x: np.ndarray, source_name: str) -> None:
        if is_text(x):
            warn(
                f"{source_name}: ASCII letters, but not only A C G T N, so they are used as vectors; with "
                "modality='dna' (--modality dna) the invalid letter is reported"
            )

    def check(self, x: np.ndarray, source_name: str = "the data") -> None:
        check_letters(x, source_name)

    def read(
        self, X: Any, *, row_shape: Sequence[int] | None = None, impute: Any = "none", estimator: Any = None
    ) -> np.ndarray:
        if hasattr(X, "detach"):
            X = to_rows(X)[0]
        if X is None or hasattr(X, "tocsr"):
            raise InputError(
                f"the data are of type {type(X).__name__}, expected a list of strings or letters, uint8 (n, L), for "
                "the modality 'dna'"
            )
        return dna_rows(X)

    def required_shape(self, row_shape: Sequence[int]) -> list[int | None]:
        return [None]

    def same_shape(self, one: Sequence[int], other: Sequence[int]) -> bool:
        return True

    def input_layer(self, row_shape: Sequence[int]) -> Nucleotides:
        from viewsmith.modalities.dna.networks import Nucleotides

        return Nucleotides()

    def channels(self, row_shape: Sequence[int]) -> int:
        return 4

    def blank(self, row_shape: Sequence[int]) -> Tensor:
        import torch

        return torch.zeros(1, 4, 32)

    def onnx_example(self, row_shape: Sequence[int], layer: nn.Module) -> tuple[Tensor, nn.Module | None]:
        import torch

        # The lookup of letters cannot be exported to ONNX.
        return torch.full((2, 4, *row_shape), 0.25), None

    def raw_features(self, rows: np.ndarray, layer: Any) -> dict[str, np.ndarray]:
        import torch

        from viewsmith.core.samples import shared_tensor

        with torch.no_grad():
            scaled = layer(shared_tensor(rows).to(layer.codes.device)).cpu()
        return {"one-hot bases": scaled.flatten(1).numpy(), "4-mer frequencies": kmer_frequencies(rows)}

    def transformations(self, row_shape: Sequence[int]) -> Mapping[str, Transformation]:
        return {
            "reverse-complement": lambda x: _reversed(_complement(x)),
            "complement": _complement,
            "reversal": _reversed,
        }

    def compared_features(self, samples: np.ndarray, transformed: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Roots of 4-mer frequencies, then letters by place."""
        return list(zip(_compared(samples), _compared(transformed), strict=True))

    def neighbor_features(self, x: Tensor) -> Tensor | None:
        from viewsmith.modalities.dna.networks import kmer_frequencies

        return kmer_frequencies(x)

    def latents(self, row_shape: Sequence[int], statistics: Mapping[str, Any], encoder: nn.Module) -> LetterLatents:
        from viewsmith.modalities.dna.networks import LetterLatents

        return LetterLatents()

    def denoiser(self, kind: str, latents: LetterLatents, row_shape: Sequence[int], condition: int) -> nn.Module:
        from viewsmith.modalities.dna.networks import SequenceDenoiser

        return SequenceDenoiser(condition)


register("modality", DNA.name, help=DNA.help)(DNA)
