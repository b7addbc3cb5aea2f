"""Alphabets of letters, and what networks and features make of letters of any alphabet."""

import itertools

import numpy as np
import pytest
import torch

from viewsmith.modalities.dna.letters import Alphabet, letter_rows, word_length
from viewsmith.modalities.dna.modality import kmer_frequencies
from viewsmith.modalities.dna.networks import LetterLatents, OneHotLetters, SequenceDenoiser

#: Hydrophobic and polar, and a letter in between.
HP = Alphabet("hp", "HP models", "HPS", "X")


def test_letters_of_an_alphabet_become_one_hot_columns_and_come_back():
    rows = letter_rows(["HPSX", "hp"], "the data", HP)
    code = OneHotLetters(HP)
    x = code(torch.from_numpy(rows))
    assert x.shape == (2, 3, 4)
    np.testing.assert_allclose(x[0, :, 3], 1 / 3)
    assert x[1, :, 2:].abs().sum() == 0
    assert bytes(code.inverse(x)[0].tolist()) == b"HPSX" and bytes(code.inverse(x)[1].tolist()) == b"HP\0\0"


def test_frequencies_of_words_are_those_of_a_slow_loop():
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice([*HP.letters, HP.unknown], 30)) for _ in range(3)]
    words = ["".join(word) for word in itertools.product(HP.letters, repeat=2)]
    found = kmer_frequencies(letter_rows(texts, "the data", HP), 2, HP)
    counts = np.array([[sum(text[i : i + 2] == word for i in range(29)) for word in words] for text in texts])
    np.testing.assert_allclose(found, counts / counts.sum(1, keepdims=True), atol=1e-6)


def test_words_are_as_long_as_few_enough_of_them_allow():
    assert [word_length(n) for n in (1, 2, 4, 20, 500)] == [1, 8, 4, 2, 1]


def test_latents_and_denoiser_take_any_number_of_letters():
    x = OneHotLetters(HP)(torch.from_numpy(letter_rows(["HPSHPS", "hp"], "the data", HP)))
    u = LetterLatents().encode(x)
    assert torch.equal(LetterLatents().decode(u, x), x)
    assert SequenceDenoiser(2, letters=3)(u, torch.tensor([0, 9]), torch.zeros(2, 2)).shape == x.shape


def test_a_letter_of_another_alphabet_is_refused_with_its_place():
    with pytest.raises(ValueError, match=r"row 0, position 2 .* is 'A', expected H P S X"):
        letter_rows(["HPA"], "the data", HP)
