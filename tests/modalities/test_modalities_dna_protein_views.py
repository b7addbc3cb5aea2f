"""Views of proteins: substitutions by BLOSUM62, masks, windows and the recipe."""

import numpy as np
import pytest
import torch

from refusals import refusal
from viewsmith.modalities.dna.letters import AMINO_ACIDS, letter_rows
from viewsmith.modalities.dna.networks import OneHotLetters, real_positions
from viewsmith.modalities.dna.views import LetterMask, LetterWindow, ProteinViews, Substitution, largest_rate


@pytest.fixture
def stream():
    return torch.Generator().manual_seed(0)


def scaled(*texts):
    return OneHotLetters(AMINO_ACIDS)(torch.from_numpy(letter_rows(list(texts), "the data", AMINO_ACIDS)))


def text_of(view):
    return bytes(OneHotLetters(AMINO_ACIDS).inverse(view[None])[0].tolist()).decode().rstrip("\0")


def test_substitutions_are_drawn_by_the_conditional_probabilities_of_the_matrix(stream):
    letters = AMINO_ACIDS.letters
    view = Substitution(largest_rate(AMINO_ACIDS))(scaled(*["W" * 4000, "I" * 4000]), generator=stream)
    for row, letter in zip(view, "WI", strict=True):
        # The log odds of the published matrix, W-W 11 and I-V 3 in half bits, times the frequencies.
        expected = AMINO_ACIDS.substitutions[letters.index(letter)]
        np.testing.assert_allclose(row.mean(1), expected, atol=0.03)
    assert AMINO_ACIDS.substitutions[letters.index("W"), letters.index("W")] > 0.5
    assert letters[AMINO_ACIDS.substitutions[letters.index("I")].argsort()[-2]] in "VL"


def test_the_rate_is_the_fraction_of_letters_that_change(stream):
    rng = np.random.default_rng(0)
    x = scaled(*["".join(rng.choice([*AMINO_ACIDS.letters], 4000, p=AMINO_ACIDS.frequencies)) for _ in range(4)])
    view = Substitution(0.3)(x, generator=stream)
    assert abs(float((view.argmax(1) != x.argmax(1)).float().mean()) - 0.3) < 0.02


def test_unknown_letters_and_padding_stay(stream):
    x = scaled("XXXX", "WWWWWWWW")
    view = Substitution(0.6)(x, generator=stream)
    assert torch.equal(view[0], x[0])
    assert torch.equal(real_positions(view), real_positions(x))


@pytest.mark.parametrize("rate", [-0.1, 0.9])
def test_a_rate_out_of_range_is_refused(rate):
    assert "rate" in refusal(Substitution, rate)


def test_a_mask_writes_unknown_letters(stream):
    x = scaled("MKV" * 400, "MKV")
    view = LetterMask(0.25)(x, generator=stream)
    text = text_of(view[0])
    assert abs(text.count("X") / 1200 - 0.25) < 0.04
    assert torch.equal(real_positions(view), real_positions(x))


def test_a_window_is_a_part_of_its_sequence(stream):
    texts = ["ACDEFGHIKLMNPQRSTVWY", "MKVLATG", "M"]
    seen = set()
    for _ in range(50):
        for text, view in zip(texts, LetterWindow(0.5)(scaled(*texts), generator=stream), strict=True):
            assert text_of(view) in text and len(text_of(view)) >= len(text) / 2
            seen.add(text_of(view))
    assert texts[1] in seen or "KVLATG" in seen
    assert len(seen) > 40


def test_the_recipe_is_replayed_by_its_stream():
    x = scaled("ACDEFGHIKLMNPQRSTVWY" * 3, "MKVLATG")
    one, other = (ProteinViews()(x, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(one, other) and not torch.equal(one, x)
    identity = ProteinViews(0.0, 0.0, 1.0)
    assert torch.equal(identity(x, generator=torch.Generator().manual_seed(3)), x)
