"""DNA: text as rows of letters, what may stand in a row, frequencies of words, and the domain."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.memory import check_size
from viewsmith.core.messages import one_line, pluralize
from viewsmith.core.registry import register
from viewsmith.domains.base import Domain
from viewsmith.domains.checks import to_rows
from viewsmith.networks.denoisers.dna import SequenceDenoiser
from viewsmith.networks.inputs import nucleotides
from viewsmith.networks.inputs.codes import LetterCodes
from viewsmith.networks.inputs.nucleotides import Nucleotides

_IS_LETTER = np.zeros(256, dtype=np.bool_)
_IS_LETTER[list(b"ACGTNacgtn")] = True
# Values looked at in one go: what is needed beside the rows stays far below what they take.
_BLOCK = 4_000_000


def dna_rows(X: Any, what: str = "the data") -> np.ndarray:
    """Sequences as ASCII letters, one row each.

    Parameters
    ----------
    X : list, tuple or array of str or bytes, shape (n,); or ndarray of uint8, shape (n, L)
        Letters A C G T N in either case. Rows of an array may end in padding, zeros, after at least one letter.
    what : str
        How messages name the data.

    Returns
    -------
    rows : ndarray of uint8, shape (n, L)
        The letters as given; L is the length of the longest text, and shorter ones are padded with 0 at the end.

    Raises
    ------
    InputError
        Another type or shape, an empty sequence, or another letter, with its row and position.
    """
    if isinstance(X, str | bytes):
        raise InputError(f"{what}: one text, expected a list of sequences; put it into a list: [sequence]")
    given = X if isinstance(X, list | tuple) else np.asarray(X)
    if isinstance(given, np.ndarray) and given.dtype.kind not in "USO":
        check_letters(given, what)
        return np.ascontiguousarray(given)
    if isinstance(given, np.ndarray) and given.ndim != 1:
        raise InputError(f"{what}: text of shape {given.shape}, expected one text a row, shape (n,)")
    return _text_rows(given.tolist() if isinstance(given, np.ndarray) else list(given), what)


def is_dna(x: np.ndarray) -> bool:
    """Whether an array is uint8 (n, L) and every row letters of A C G T N and then, perhaps, zeros."""
    # One value first: most arrays of bytes that are not DNA are told by it.
    return x.dtype == np.uint8 and x.ndim == 2 and x.size > 0 and bool(_IS_LETTER[x[0, 0]]) and _first_fault(x) is None


def is_text(x: np.ndarray) -> bool:
    """Whether an array is uint8 (n, L) of ASCII letters and zeros, each row beginning with a letter."""
    alphabet = np.zeros(256, dtype=np.bool_)
    alphabet[[*range(ord("A"), ord("Z") + 1), *range(ord("a"), ord("z") + 1)]] = True
    if x.dtype != np.uint8 or x.ndim != 2 or not alphabet[x[:, 0]].all():
        return False
    alphabet[0] = True
    return bool(alphabet[x].all())


def check_letters(x: np.ndarray, what: str = "the data") -> None:
    """Raise InputError for an array that is not DNA, with the first row and position that are at fault."""
    if x.dtype != np.uint8 or x.ndim != 2:
        raise InputError(
            f"{what}: {x.dtype} of shape {x.shape}; DNA is uint8 (n, L), every value an ASCII letter of A C G T N, or "
            "a list of texts; cast codes with astype(np.uint8)"
        )
    if x.size == 0:
        raise InputError(f"{what}: no sequences, shape {x.shape}; DNA is uint8 (n, L) with at least one letter a row")
    fault = _first_fault(x)
    if fault is None:
        return
    row, position = fault
    if not x[row].any():
        raise InputError(f"{what}: row {row} (counted from 0) holds no letter; leave that row out")
    if x[row, position] == 0:
        raise InputError(
            f"{what}: row {row}, position {position} (counted from 0) is 0, which is padding and only stands after the "
            "end of a sequence; write N for an unknown letter"
        )
    raise InputError(
        f"{what}: row {row}, position {position} (counted from 0) is {letter_fault(chr(x[row, position]))}"
    )


def letter_fault(letter: str) -> str:
    """What to say of a letter that is none of DNA: which it is, what was expected, what to do."""
    shown = repr(letter) if letter.isprintable() else f"the code {ord(letter)}"
    upper = letter.upper()
    if upper == "U":
        advice = "this is RNA, write T for U"
    elif upper in "RYKMSWBDHV":
        advice = "write N for a base that is not certain"
    elif upper in "-.*":
        advice = "take gaps and stops out"
    elif upper in "EFILPQ":
        advice = "is it a protein? There is no domain for those"
    else:
        advice = "replace it or leave the sequence out"
    return f"{shown}, expected A C G T N in either case; {advice}"


def first_other_letter(letters: np.ndarray, starts: np.ndarray) -> tuple[int, int] | None:
    """Sequence and position of the first value that is no letter of DNA, None without one.

    Parameters
    ----------
    letters : ndarray of uint8, shape (total,)
        Sequences one after another, none of them empty.
    starts : ndarray of int64, shape (n,)
        Where each begins.
    """
    for begin in range(0, len(letters), _BLOCK):
        known = _IS_LETTER[letters[begin : begin + _BLOCK]]
        if not known.all():
            at = begin + int(known.argmin())
            sequence = int(np.searchsorted(starts, at, side="right")) - 1
            return sequence, at - int(starts[sequence])
    return None


def pad_rows(letters: np.ndarray, starts: np.ndarray, lengths: np.ndarray, what: str) -> np.ndarray:
    """Sequences of any length as rows, uint8 (n, L), with zeros after their ends; see `first_other_letter`."""
    longest = int(lengths.max())
    check_size(
        len(lengths) * longest,
        f"{what}: {pluralize(len(lengths), 'sequence')}, padded to the longest of {longest:,} letters,",
        "cut long sequences into pieces of similar length",
    )
    rows = np.zeros((len(lengths), longest), dtype=np.uint8)
    for row, start, length in zip(rows, starts.tolist(), lengths.tolist(), strict=True):
        row[:length] = letters[start : start + length]
    return rows


def kmer_frequencies(x: np.ndarray, k: int = 4) -> np.ndarray:
    """Frequencies of the 4^k words of length `k`, the classical features of a sequence.

    Parameters
    ----------
    x : ndarray of uint8, shape (n, L)
        Letters in either case; padded with zeros.
    k : int
        Length of a word, 1 to 10.

    Returns
    -------
    frequencies : ndarray of float32, shape (n, 4^k)
        Words in alphabetical order. Words that hold an N or padding are not counted; a row sums to 1, or is all zeros
        where no word is left.
    """
    if not 1 <= k <= 10:
        raise InputError(f"k is {k}, expected the length of a word, 1 to 10")
    code, step = nucleotides.Nucleotides(), max(1, _BLOCK // max(4**k, 4 * x.shape[1]))
    frequencies = np.empty((len(x), 4**k), dtype=np.float32)
    for begin in range(0, len(x), step):
        block = slice(begin, begin + step)
        frequencies[block] = nucleotides.kmer_frequencies(code(torch.tensor(x[block])), k).numpy()
    return frequencies


def _text_rows(texts: list[Any], what: str) -> np.ndarray:
    if not texts:
        raise InputError(f"{what}: no sequences; expected a list of texts")
    for i, text in enumerate(texts):
        if not isinstance(text, str | bytes):
            raise InputError(
                f"{what}: row {i} (counted from 0) is {one_line(repr(text), 60)}, expected the text of a sequence"
            )
        if not text:
            raise InputError(f"{what}: row {i} (counted from 0) is an empty text; leave that row out")
    # A character that is not ASCII becomes one byte that is no letter, so that positions stay what they are.
    encoded = [text.encode("ascii", "replace") if isinstance(text, str) else text for text in texts]
    lengths = np.array([len(text) for text in encoded], dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    letters = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    fault = first_other_letter(letters, starts)
    if fault is not None:
        row, position = fault
        letter = texts[row][position]
        raise InputError(
            f"{what}: row {row}, position {position} (counted from 0) is "
            f"{letter_fault(letter if isinstance(letter, str) else chr(letter))}"
        )
    return pad_rows(letters, starts, lengths, what)


def _first_fault(x: np.ndarray) -> tuple[int, int] | None:
    """Row and column of the first value that may not stand there, in uint8 (n, L) with L at least 1."""
    step = max(1, _BLOCK // x.shape[1])
    for begin in range(0, len(x), step):
        block = x[begin : begin + step]
        is_letter = _IS_LETTER[block]
        if is_letter.all():
            continue
        # A row without a letter has its end before the first column, where a zero is at fault, too.
        end = np.where(is_letter.any(axis=1), x.shape[1] - is_letter[:, ::-1].argmax(axis=1), 1)
        fault = ~is_letter & ((block != 0) | (np.arange(x.shape[1]) < end[:, None]))
        if fault.any():
            row, position = divmod(int(fault.argmax()), x.shape[1])
            return begin + row, position
    return None


class DNA(Domain):
    """Sequences of letters, uint8 (n, L), 0 after the end of a shorter one."""

    name = "dna"
    help = "letters A C G T N: arrays, texts, FASTA"
    default_views = "dna"
    default_encoder = default_encoder_on_gpu = "cnn"
    steps, steps_on_gpu = 1500, 10_000
    defaults: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {
            "directions": True,
            "nu": 100.0,
            "generator_epochs": 0.5,
            "generator_learning_rate": 6e-3,
            "predicts": "v",
            "noise_schedule": "linear",
            "sampler": "dpm",
            "sampler_steps": 10,
            "strength": 0.5,
        }
    )
    picture = "letters"
    denoisers = ("fast",)  # none was published

    def recognizes(self, X: Any) -> bool:
        """A text, or a list, an array or a column of a DataFrame that begins with one; or an array of letters."""
        if isinstance(X, np.ndarray) and X.ndim == 2:
            return is_dna(X)
        if getattr(X, "ndim", 0) == 1:
            X = np.asarray(X)[:1].tolist()
        return isinstance(X, str | bytes) or (isinstance(X, list | tuple) and bool(X) and isinstance(X[0], str | bytes))

    def near_miss(self, x: np.ndarray, what: str) -> None:
        if is_text(x):
            warnings.warn(
                f"{what}: ASCII letters, but not of A C G T N alone, so they are taken as vectors; domain='dna' "
                "(--domain dna) says which letter is at fault",
                UserWarning,
                stacklevel=5,
            )

    def check(self, x: np.ndarray, what: str = "the data") -> None:
        check_letters(x, what)

    def read(
        self, X: Any, *, row_shape: Sequence[int] | None = None, impute: Any = "none", estimator: Any = None
    ) -> np.ndarray:
        if hasattr(X, "detach"):
            X = to_rows(X)[0]
        if X is None or hasattr(X, "tocsr"):
            raise InputError(
                f"the data are a {type(X).__name__}, expected a list of texts or letters, uint8 (n, L), for the domain "
                "'dna'"
            )
        return dna_rows(X)

    def kept_shape(self, row_shape: Sequence[int]) -> list[int | None]:
        return [None]

    def same_shape(self, one: Sequence[int], other: Sequence[int]) -> bool:
        return True

    def input_layer(self, row_shape: Sequence[int]) -> Nucleotides:
        return Nucleotides()

    def fit_input(self, layer: Any, raw: Tensor, scaling: str) -> tuple[str, dict[str, Any]]:
        return "none", {}

    def channels(self, row_shape: Sequence[int]) -> int:
        return 4

    def blank(self, row_shape: Sequence[int]) -> Tensor:
        return torch.zeros(1, 4, 32)

    def onnx_example(self, row_shape: Sequence[int], layer: nn.Module) -> tuple[Tensor, nn.Module | None]:
        # The table of letters has no form in ONNX.
        return torch.full((2, 4, *row_shape), 0.25), None

    def raw_features(self, rows: np.ndarray, layer: Any) -> dict[str, np.ndarray]:
        with torch.no_grad():
            scaled = layer(torch.from_numpy(rows).to(layer.codes.device)).cpu()
        return {"one-hot bases": scaled.flatten(1).numpy(), "4-mer frequencies": kmer_frequencies(rows)}

    def neighbor_features(self, x: Tensor) -> Tensor | None:
        return nucleotides.kmer_frequencies(x)

    def codes(self, row_shape: Sequence[int], stats: Mapping[str, Any], encoder: nn.Module) -> LetterCodes:
        return LetterCodes()

    def denoiser(self, kind: str, codes: LetterCodes, row_shape: Sequence[int], condition: int) -> nn.Module:
        return SequenceDenoiser(condition)


SEQUENCES = DNA()


@register("domain", DNA.name, help=DNA.help)
def _dna() -> Domain:
    return SEQUENCES
