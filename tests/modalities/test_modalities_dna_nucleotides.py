"""DNA to scaled batches and back, and k-mer frequencies."""

import itertools

import pytest
import torch

from viewsmith.modalities.dna.networks import Nucleotides, kmer_frequencies, real_positions


def letters(*texts):
    width = max(map(len, texts))
    return torch.tensor([[*text.encode(), *[0] * (width - len(text))] for text in texts], dtype=torch.uint8)


def test_letters_become_columns_by_hand():
    x = Nucleotides()(letters("ACGTN", "ac"))
    assert x.shape == (2, 4, 5)
    assert x[0].T.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0.25] * 4]
    assert x[1].T.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0] * 4, [0] * 4, [0] * 4]
    assert real_positions(x).tolist() == [[True] * 5, [True, True, False, False, False]]


def test_the_inverse_gives_upper_case_letters():
    code = Nucleotides()
    assert torch.equal(code.inverse(code(letters("ACGTNNA", "tgn"))), letters("ACGTNNA", "TGN"))
    noisy = code(letters("ACGT", "GT")) + 0.2 * torch.eye(4).flip(0) * torch.tensor([[[1.0]], [[0.0]]])
    assert torch.equal(code.inverse(noisy), letters("ACGT", "GT"))


def test_the_codes_are_not_saved():
    assert Nucleotides().state_dict() == {}


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_kmer_frequencies_equal_a_slow_loop(k):
    texts = ["ACGTTGCANACGGT", "GGGGGGG", "ACN", "TTTTACGTAC"]
    found = kmer_frequencies(Nucleotides()(letters(*texts)), k)
    words = ["".join(word) for word in itertools.product("ACGT", repeat=k)]
    for text, row in zip(texts, found, strict=True):
        seen = [text[i : i + k] for i in range(len(text) - k + 1)]
        seen = [word for word in seen if "N" not in word]
        expected = [seen.count(word) / max(1, len(seen)) for word in words]
        torch.testing.assert_close(row, torch.tensor(expected))


def test_a_sequence_shorter_than_k_has_no_kmers():
    assert kmer_frequencies(Nucleotides()(letters("AC")), 4).tolist() == [[0.0] * 256]
