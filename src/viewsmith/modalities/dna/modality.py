"""Sequences of letters: the modality, with an alphabet; that of DNA; k-mer frequencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from viewsmith.core.errors import InputError, check, warn
from viewsmith.core.registry import register
from viewsmith.core.rows import AnyRows
from viewsmith.modalities.base import GENERATOR, Modality, SampleType, Transformation
from viewsmith.modalities.checks import to_rows
from viewsmith.modalities.dna.letters import (
    AMINO_ACIDS,
    BLOCK,
    NUCLEOTIDES,
    Alphabet,
    alphabet_of,
    check_letters,
    has_letters,
    is_text,
    letter_rows,
    letters_of,
    own_alphabet,
    without_aliases,
    word_length,
)

if TYPE_CHECKING:
    from torch import Tensor, nn

    from viewsmith.modalities.dna.networks import LetterLatents, OneHotLetters


# Sequences by which an alphabet is told.
SEEN = 1000

# Letters of a sequence from which a training on a CPU has fewer steps, as many as read the same number of letters, and
# the fewest: 1,500 steps on sequences of 2,000 letters take hours.
USUAL_LETTERS, FEWEST_STEPS = 256, 100


def alphabet_of_texts(texts: Sequence[Any]) -> Alphabet:
    """The alphabet of the first of many sequences, str or bytes."""
    seen = (text.encode("ascii", "replace") if isinstance(text, str) else text for text in texts[:SEEN])
    return alphabet_of(letters_of(b"".join(text for text in seen if isinstance(text, bytes))))


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
    return letter_rows(X, source_name, NUCLEOTIDES)


def kmer_frequencies(x: np.ndarray, k: int = 4, alphabet: Alphabet = NUCLEOTIDES) -> np.ndarray:
    """Frequencies of the 4^k (proteins: 20^k) words of length k (k-mers), the classical features of a sequence.

    Parameters
    ----------
    x : ndarray of uint8, shape (n, L)
        Letters, upper or lower case, padded with zeros.
    k : int
        Length of a word, 1 to 10.
    alphabet : Alphabet
        Default: that of DNA.

    Returns
    -------
    frequencies : ndarray of float32, shape (n, 4^k or 20^k)
        In alphabetical order. Words with an unknown letter or padding are not counted. Rows sum to 1, or to 0 if there
        is no word.

    Raises
    ------
    InputError
        `k` is out of range.
    """
    check(1 <= k <= 10, "k", k, "the length of a word, 1 to 10")
    import torch

    from viewsmith.modalities.dna import networks

    n_words = len(alphabet) ** k
    code, step = networks.OneHotLetters(alphabet), max(1, BLOCK // max(n_words, len(alphabet) * x.shape[1]))
    frequencies = np.empty((len(x), n_words), dtype=np.float32)
    for start in range(0, len(x), step):
        block = slice(start, start + step)
        frequencies[block] = networks.kmer_frequencies(code(torch.tensor(x[block])), k).numpy()
    return frequencies


def _reversed(x: np.ndarray) -> np.ndarray:
    """Sequences from their end; the padding of zeros stays at the end."""
    lengths = (x > 0).sum(1, keepdims=True)
    position = np.arange(x.shape[1])
    return np.take_along_axis(x, np.where(position < lengths, lengths - 1 - position, position), 1)


def _compared(x: np.ndarray, alphabet: Alphabet, places: int = 128) -> tuple[np.ndarray, np.ndarray]:
    """Roots of k-mer frequencies, and one-hot letters averaged to at most so many places."""
    import torch

    from viewsmith.modalities.dna.networks import OneHotLetters

    code, length = OneHotLetters(alphabet), min(places, x.shape[1])
    blocks = (code(torch.tensor(x[start : start + 500])) for start in range(0, len(x), 500))
    letters = [torch.nn.functional.adaptive_avg_pool1d(block, length).flatten(1) for block in blocks]
    words = kmer_frequencies(np.ascontiguousarray(x), word_length(len(alphabet)), alphabet)
    return np.sqrt(words.astype(np.float64)), torch.cat(letters).numpy()


class Letters(Modality):
    """Sequences of letters of an alphabet, uint8 (n, L), padded with 0.

    Attributes
    ----------
    alphabet : Alphabet
    letters_noun : str
        What letters are, in names of features.
    """

    alphabet: ClassVar[Alphabet]
    letters_noun: ClassVar[str] = "letters"
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
    denoisers = ("fast",)  # no denoiser of letters was published

    def default_steps(self, row_shape: Sequence[int], *, on_cpu: bool) -> int:
        steps = super().default_steps(row_shape, on_cpu=on_cpu)
        return min(steps, max(FEWEST_STEPS, steps * USUAL_LETTERS // row_shape[0])) if on_cpu else steps

    def recognizes(self, X: Any) -> bool:
        """Whether samples are a string, a list, array or column that starts with a string, or an array of letters, of
        this alphabet by `alphabet_of`."""
        if isinstance(X, np.ndarray) and X.ndim == 2:
            return has_letters(X, self.alphabet) and alphabet_of(X) is self.alphabet
        if getattr(X, "ndim", 0) == 1:
            X = np.asarray(X)[:SEEN].tolist()
        texts = [X] if isinstance(X, str | bytes) else X
        if not (isinstance(texts, list | tuple) and texts and isinstance(texts[0], str | bytes)):
            return False
        return alphabet_of_texts(texts) is self.alphabet

    def near_miss(self, x: np.ndarray, source_name: str) -> None:
        if is_text(x) and alphabet_of(x) is self.alphabet:
            warn(
                f"{source_name}: ASCII letters, but not only {self.alphabet}, so they are used as vectors; with "
                f"modality='{self.name}' (--modality {self.name}) the invalid letter is reported"
            )

    def check(self, x: np.ndarray, source_name: str = "the data") -> None:
        check_letters(x, source_name, self.alphabet)

    def read(
        self, X: Any, *, row_shape: Sequence[int] | None = None, impute: Any = "none", estimator: Any = None
    ) -> np.ndarray:
        if hasattr(X, "detach"):
            X = to_rows(X)[0]
        if X is None or hasattr(X, "tocsr"):
            raise InputError(
                f"the data are of type {type(X).__name__}, expected a list of strings or letters, uint8 (n, L), for "
                f"the modality '{self.name}'"
            )
        return letter_rows(X, "the data", self.alphabet)

    def from_file(self, x: AnyRows, names: list[str] | None, impute: Any, source_name: str) -> np.ndarray:
        return without_aliases(np.ascontiguousarray(x, dtype=self.samples.dtype), source_name, self.alphabet)

    def required_shape(self, row_shape: Sequence[int]) -> list[int | None]:
        return [None]

    def same_shape(self, one: Sequence[int], other: Sequence[int]) -> bool:
        return True

    def input_layer(self, row_shape: Sequence[int]) -> OneHotLetters:
        from viewsmith.modalities.dna.networks import OneHotLetters

        return OneHotLetters(self.alphabet)

    def channels(self, row_shape: Sequence[int]) -> int:
        return len(self.alphabet)

    def blank(self, row_shape: Sequence[int]) -> Tensor:
        import torch

        return torch.zeros(1, len(self.alphabet), 32)

    def onnx_example(self, row_shape: Sequence[int], layer: nn.Module) -> tuple[Tensor, nn.Module | None]:
        import torch

        # The lookup of letters cannot be exported to ONNX.
        return torch.full((2, len(self.alphabet), *row_shape), 1 / len(self.alphabet)), None

    def raw_features(self, rows: np.ndarray, layer: Any) -> dict[str, np.ndarray]:
        import torch

        from viewsmith.core.samples import shared_tensor
        from viewsmith.modalities.dna import networks

        with torch.no_grad():
            scaled = layer(shared_tensor(rows).to(layer.codes.device)).cpu()
        name = f"one-hot {self.letters_noun}"
        if len(self.alphabet) > 4 and scaled.shape[2] > networks.LONGEST_SKIP:  # wide
            scaled = scaled[:, :, : networks.LONGEST_SKIP]
            name += f" (the first {networks.LONGEST_SKIP})"
        k = word_length(len(self.alphabet))
        words = {f"{k}-mer frequencies": kmer_frequencies(rows, k, self.alphabet)}
        return {name: scaled.flatten(1).numpy()} | words

    def transformations(self, row_shape: Sequence[int]) -> Mapping[str, Transformation]:
        if not self.alphabet.complement:
            return {"reversal": _reversed}
        table = self.alphabet.complements
        return {
            "reverse-complement": lambda x: _reversed(table[x]),
            "complement": lambda x: np.asarray(table[x]),
            "reversal": _reversed,
        }

    def compared_features(self, samples: np.ndarray, transformed: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Roots of k-mer frequencies, then letters by place."""
        return list(zip(*(_compared(x, self.alphabet) for x in (samples, transformed)), strict=True))

    def neighbor_features(self, x: Tensor) -> Tensor | None:
        from viewsmith.modalities.dna import networks

        return networks.kmer_frequencies(x, word_length(len(self.alphabet)))

    def latents(self, row_shape: Sequence[int], statistics: Mapping[str, Any], encoder: nn.Module) -> LetterLatents:
        from viewsmith.modalities.dna.networks import LetterLatents

        return LetterLatents()

    def denoiser(self, kind: str, latents: LetterLatents, row_shape: Sequence[int], condition: int) -> nn.Module:
        from viewsmith.modalities.dna.networks import SequenceDenoiser

        return SequenceDenoiser(condition, letters=len(self.alphabet))


class DNA(Letters):
    """DNA, uint8 (n, L), padded with 0."""

    name = "dna"
    alphabet = NUCLEOTIDES
    letters_noun = "bases"
    samples = SampleType({"letter": None}, "uint8", alphabet=NUCLEOTIDES.letters, unit="ASCII letters")
    help = "letters A C G T N: arrays, strings, FASTA files"
    default_views = "dna"
    longest_trained = USUAL_LETTERS


register("modality", DNA.name, help=DNA.help)(DNA)


class Proteins(Letters):
    """Proteins, uint8 (n, L), padded with 0."""

    name = "proteins"
    alphabet = AMINO_ACIDS
    samples = SampleType({"letter": None}, "uint8", alphabet=AMINO_ACIDS.letters, unit="ASCII letters")
    help = "the 20 letters of proteins, and X: arrays, strings, FASTA files"
    default_views = "proteins"
    default_method = "linear-contrast"


register("modality", Proteins.name, help=Proteins.help)(Proteins)


class OwnLetters(Letters):
    """Sequences of the letters of an own alphabet, uint8 (n, L), padded with 0; never recognized.

    Parameters
    ----------
    letters : str
        The letters, see `own_alphabet`.
    """

    help = "letters of an own alphabet, such as letters:HEC: arrays, strings, FASTA files"
    default_views = "window+mask"
    default_method = "linear-contrast"

    def __init__(self, letters: str = "ABC") -> None:
        self.alphabet = own_alphabet(letters)  # type: ignore[misc]
        self.name = self.alphabet.name  # type: ignore[misc]
        self.samples = SampleType({"letter": None}, "uint8", alphabet=letters.upper(), unit="ASCII letters")  # type: ignore[misc]

    def recognizes(self, X: Any) -> bool:
        return False

    def near_miss(self, x: np.ndarray, source_name: str) -> None:
        pass


register("modality", "letters:", help=OwnLetters.help, argument="ABC")(OwnLetters)
