"""Features of DNA: k-mers, and windows of letters against a slow loop."""

import numpy as np
import torch

from viewsmith.modalities.dna.letters import AMINO_ACIDS, letter_rows
from viewsmith.modalities.dna.modality import dna_rows, kmer_frequencies
from viewsmith.modalities.dna.networks import KmersAndWindows, Nucleotides, OneHotLetters, ProteinKmers
from viewsmith.networks import PartContext


def sequences(n, length, seed=0):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list("ACGT"), length)) for _ in range(n)]


def scaled(texts):
    return Nucleotides()(torch.from_numpy(dna_rows(texts)))


def fitted(texts, **options):
    x = scaled(texts)
    features = KmersAndWindows(PartContext((x.shape[2],), 4), **options)
    features.fit(x, torch.Generator().manual_seed(0))
    return features


def slow_windows(features, text):
    """Responses of one sequence, one window at a time: means of five bins, then the maximum."""
    code = {letter: np.eye(4)[i] for i, letter in enumerate("ACGT")} | {"N": np.full(4, 0.25), "-": np.zeros(4)}
    letters = np.array([code[letter] for letter in text.ljust(8, "-")]).T
    filters, offset = features.dictionary.filters.flatten(1).double().numpy(), features.dictionary.offset.numpy()
    responses = []
    for start in range(letters.shape[1] - 7):
        similarity = filters @ letters[:, start : start + 8].flatten() - offset
        responses.append(np.maximum(0, similarity - similarity.mean() - similarity.std() / 2))
    n = len(responses)
    bins = [np.mean(responses[i * n // 5 : -(-(i + 1) * n // 5)], axis=0) for i in range(5)]
    return np.concatenate([*bins, np.max(responses, axis=0)])


def test_kmers_then_windows_of_a_slow_loop():
    texts = [*sequences(20, 60), "ACGTN" * 9 + "A", "ACGTACGTA", "ACGTACGT", "ACNT", "G"]
    features = fitted(texts, centers=7)
    found = features(scaled(texts)).numpy()
    assert features.n_features == found.shape[1] == 256 + 7 * 6
    np.testing.assert_allclose(found[:, :256], kmer_frequencies(dna_rows(texts)), atol=1e-7)
    expected = [slow_windows(features, text) for text in texts]
    np.testing.assert_allclose(found[:, 256:], expected, rtol=1e-3, atol=1e-4)


def test_padding_changes_no_features():
    texts = sequences(30, 50)
    features = fitted(texts, centers=7)
    padded = torch.nn.functional.pad(scaled(texts), (0, 40))
    torch.testing.assert_close(features(padded), features(scaled(texts)), rtol=0, atol=0)  # it is not read
    again = KmersAndWindows(PartContext((90,), 4), centers=7)
    again.fit(padded, torch.Generator().manual_seed(0))
    torch.testing.assert_close(again.dictionary.filters, features.dictionary.filters)


def test_proteins_have_frequencies_of_letters_and_autocovariances_of_a_slow_loop():
    texts = ["MKHRDLKPENILVDAA", "CPECGKSFXQSS", "MK", "W"]
    x = OneHotLetters(AMINO_ACIDS)(torch.from_numpy(letter_rows(texts, "x", AMINO_ACIDS)))
    features = ProteinKmers(PartContext((16,), 20), centers=7, lags=3, properties=2)
    features.fit(x, torch.Generator().manual_seed(0))
    found = features(x).numpy()
    assert features.n_features == found.shape[1] == 400 + 7 * 6 + 20 + 3 * 4
    letters = {letter: features.axes[i].numpy() for i, letter in enumerate(AMINO_ACIDS.letters)}
    letters["X"] = features.axes.mean(0).numpy()
    for row, text in zip(found, texts, strict=True):
        counts = [text.count(letter) + text.count("X") / 20 for letter in AMINO_ACIDS.letters]
        np.testing.assert_allclose(row[442:462], np.array(counts) / len(text), atol=1e-6)
        values = np.array([letters[letter] for letter in text])
        values = values - values.mean(0)
        for lag in (1, 2, 3):
            pairs = sum((np.outer(values[i + lag], values[i]) for i in range(len(text) - lag)), np.zeros((2, 2)))
            expected = pairs / max(1, len(text) - lag)
            np.testing.assert_allclose(row[462 + 4 * lag - 4 : 462 + 4 * lag], expected.flatten(), atol=1e-5)
    hydrophobic, charged = features.axes[[AMINO_ACIDS.letters.index(letter) for letter in "IK"], 0]
    assert float(hydrophobic * charged) < 0  # the first axis


def test_options():
    features = fitted(sequences(20, 30), k=2, window=5, centers=6, bins=3)
    assert features.n_features == 16 + 6 * 4 and features.dictionary.patch == (1, 5)
    assert features(scaled(sequences(4, 30))).shape == (4, features.n_features)
