"""Motifs in sequences: rounds of EM against loops, planted motifs, real binding sites, nothing in nothing, formats."""

import itertools
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cases import slow
from refusals import refusal
from viewsmith import Discovery
from viewsmith.core.errors import InputError
from viewsmith.methods.discovery import motif_search
from viewsmith.methods.discovery.acceptance import choose
from viewsmith.methods.discovery.motif_models import Background, Motif, Windows, as_codes, lengths_of, shuffled
from viewsmith.methods.discovery.motifs import as_jaspar, as_meme
from viewsmith.modalities.dna.letters import AMINO_ACIDS, NUCLEOTIDES

pytestmark = pytest.mark.usefixtures("small_searches")

WORD = as_codes(np.frombuffer(b"TTGACATCGATA", np.uint8))


def sequences(n=24, length=40, share=1.0, seed=0):
    """Random codes with `WORD`, one letter of it changed, at a random place of a share of them; starts, or -1."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 4, (n, length)).astype(np.uint8)
    starts = np.where(rng.random(n) < share, rng.integers(0, length - len(WORD) + 1, n), -1)
    for row, start in zip(codes, starts, strict=True):
        if start >= 0:
            word = WORD.copy()
            word[rng.integers(len(word))] = rng.integers(4)
            row[start : start + len(word)] = word if rng.random() < 0.5 else 3 - word[::-1]
    return codes, starts


def small():
    codes = np.random.default_rng(3).integers(0, 4, (5, 9)).astype(np.uint8)
    codes[1, 7:] = codes[2, 3] = 4
    return codes, Windows.of(codes, 3, Background.of(codes))


def one_hot(windows):
    return torch.eye(windows.size)[windows.codes.long()].flatten(1)


def test_windows_against_a_loop():
    codes, windows = small()
    background = Background.of(codes)
    words, logs, first = [], [], [0]
    for sequence in codes.tolist():
        other = [3 - letter if letter < 4 else 4 for letter in sequence[::-1]]
        for strand in (sequence, other):
            before = [4, 4, *strand]
            for start in range(7):
                if 4 not in strand[start : start + 3]:
                    words.append(strand[start : start + 3])
                    at = range(start + 2, start + 5)
                    logs.append(sum(background.log_p[before[k - 2], before[k - 1], before[k]] for k in at))
        first.append(len(words))
    assert windows.codes.tolist() == words
    assert windows.sequence.tolist() == np.repeat(np.arange(5), np.diff(first)).tolist()
    np.testing.assert_allclose(windows.frequencies, np.bincount(np.ravel(words)) / np.size(words), rtol=1e-6)
    np.testing.assert_allclose(windows.log_background, logs, rtol=1e-6)
    assert windows.first.tolist() == first and windows.count.tolist() == np.diff(first).tolist()
    assert windows.reverse.sum() == len(words) / 2


@pytest.mark.parametrize("alphabet", [NUCLEOTIDES, AMINO_ACIDS])
@pytest.mark.parametrize("width", [3, 4, 6, 9])  # words that are filled up, whole, and both
def test_sums_over_letters_by_words_against_one_hot_letters(width, alphabet):
    c = len(alphabet)
    codes = np.random.default_rng(0).integers(0, c, (4, 12)).astype(np.uint8)
    background = Background.of(codes, alphabet)
    windows, rng = Windows.of(codes, width, background, both=c == 4), np.random.default_rng(1)
    z, own = one_hot(windows), windows.sequence.numpy()
    log_p, weights = (rng.normal(size=shape).astype(np.float32) for shape in ((5, c * width), (len(z), 5)))
    np.testing.assert_allclose(windows.scores(torch.from_numpy(log_p)), z @ log_p.T, atol=1e-5)
    np.testing.assert_allclose(windows.letters(torch.from_numpy(weights)), weights.T @ z.numpy(), atol=1e-5)
    sums = [weights[own == i].sum(0) for i in range(4)]
    np.testing.assert_allclose(windows.sums(torch.from_numpy(weights)), sums, atol=1e-5)
    letters = [weights[own == i, 0] @ z[own == i].numpy() for i in range(4)]
    np.testing.assert_allclose(windows.own_letters(torch.from_numpy(weights[:, 0])), letters, atol=1e-5)
    scores = [float(row @ log_p[i]) for row, i in zip(z, own, strict=True)]
    np.testing.assert_allclose(windows.own_scores(torch.from_numpy(log_p[:4])), scores, atol=1e-5)


def test_sequences_without_a_window_are_no_part_of_the_windows():
    codes = np.random.default_rng(0).integers(0, 4, (3, 9)).astype(np.uint8)
    codes[1, ::2] = 4
    assert Windows.of(codes, 3, Background.of(codes), both=False).first.tolist() == [0, 7, 14]


@pytest.mark.parametrize("alphabet", [NUCLEOTIDES, AMINO_ACIDS])
def test_a_letter_depends_on_those_before_unless_there_are_many_letters(alphabet):
    codes = np.tile(np.array([0, 1], np.uint8), (30, 20))  # ACAC...
    log_p = Background.of(codes, alphabet).log_p[..., : len(alphabet)]
    spread = np.ptp(log_p[: len(alphabet), : len(alphabet)], axis=(0, 1)).max()
    assert (spread > 3) if alphabet is NUCLEOTIDES else spread == 0
    np.testing.assert_allclose(np.exp(log_p).sum(-1), 1)


def test_best_sites_against_a_loop():
    codes, windows = small()
    p = np.random.default_rng(0).dirichlet(np.ones(4), 3)
    motif = Motif(p, Background.of(codes), 0.5)
    starts, reverse, scores = motif.best_sites(codes)
    for i, (row, start, other, score) in enumerate(zip(codes, starts, reverse, scores, strict=True)):
        own = slice(*windows.first[i : i + 2])
        s = one_hot(windows)[own] @ torch.from_numpy(np.log(p).ravel()).float() - windows.log_background[own]
        np.testing.assert_allclose(score, s.max(), rtol=1e-5)
        word = row[start : start + 3]
        word = 3 - word[::-1] if other else word
        assert word.tolist() == windows.codes[own][s.argmax()].tolist()


def test_sites_have_the_mean_ratio_over_widths_around_one_middle():
    codes, _ = small()
    rng = np.random.default_rng(0)
    background, frequencies = Background.of(codes), [rng.dirichlet(np.ones(4), w) for w in (3, 1, 5)]
    motif = Motif(frequencies[0], background, 0.5, others=tuple(frequencies[1:]))
    padded = np.pad(codes, ((0, 0), (2, 0)), constant_values=4)
    logs = background.log_p[padded[:, :-2], padded[:, 1:-1], codes]
    found = motif._scores(codes[None])[0]
    for row, log, own in zip(codes, logs, found, strict=True):
        for start, score in enumerate(own):
            ratios = []
            for p in frequencies:
                first = start + (3 - len(p)) // 2
                word = row[max(first, 0) : first + len(p)]
                if first >= 0 and len(word) == len(p) and (word < 4).all():
                    ratios.append(p[range(len(p)), word].prod() / np.exp(log[first : first + len(p)].sum()))
            whole = (row[start : start + 3] < 4).all()
            np.testing.assert_allclose(score, np.log(np.mean(ratios)) if whole else -np.inf, rtol=1e-9)


def density(sites):
    """`density_of_places` by a loop over pairs of starts."""
    found = []
    for i in range(len(sites)):
        near = [
            (np.exp(-((i - j) ** 2) / (2 * motif_search.SMOOTH**2)), v)
            for j, v in enumerate(sites)
            if abs(i - j) <= 4 * motif_search.SMOOTH
        ]
        found.append(sum(k * v for k, v in near) / sum(k for k, _ in near))
    return motif_search.ANYWHERE + (1 - motif_search.ANYWHERE) * np.array(found) / np.mean(found)


def test_density_of_places_against_a_loop():
    sites = np.random.default_rng(0).exponential(size=(3, 20)).astype(np.float32)
    found = motif_search.density_of_places(torch.from_numpy(sites))
    np.testing.assert_allclose(found, [density(row) for row in sites], rtol=1e-4)
    np.testing.assert_allclose(found.mean(1), 1, rtol=1e-5)


@pytest.mark.parametrize("placed", [False, True])
@pytest.mark.parametrize("at_once", [1, 2])  # each motif apart, both together
def test_rounds_and_gains_against_loops(at_once, placed, monkeypatch):
    monkeypatch.setattr(motif_search, "AT_ONCE", (at_once, at_once))
    _, windows = small()
    rng = np.random.default_rng(0)
    log_p = torch.log(torch.tensor(rng.dirichlet(np.ones(4), (2, 3))).float()).reshape(2, -1)
    shares, n, z, at = torch.tensor([0.4, 0.7]), 5, one_hot(windows), windows.place.tolist()
    density_ = rng.exponential(size=(2, windows.starts))
    place = torch.tensor(density_ / density_.mean(1, keepdims=True)).float() if placed else None
    motifs_ = motif_search.Fitted(log_p, shares, place)
    own = [range(*windows.first[i : i + 2].tolist()) for i in range(n)]
    letters = z.reshape(-1, 4).mean(0)
    model = motif_search.own_frequencies(windows)
    gains, counts, sites, places = motif_search._expected(windows, motifs_)
    fitted = motif_search._fit(windows, motifs_, 1, model)
    for k, share in enumerate(shares.tolist()):
        preferred = np.zeros(len(z)) if place is None else np.log(place[k, at].numpy())
        s = [float(row @ log_p[k] - b) + p for row, b, p in zip(z, windows.log_background, preferred, strict=True)]
        gain = [np.log(1 - share + share * np.mean([np.exp(s[j]) for j in own[i]])) for i in range(n)]
        weights = [share / len(own[i]) * np.exp(s[j]) / np.exp(gain[i]) for i in range(n) for j in own[i]]
        seen = sum(w * row.reshape(3, 4) for w, row in zip(weights, z, strict=True))
        np.testing.assert_allclose(gains[k], gain, atol=1e-5)
        np.testing.assert_allclose(counts[k].reshape(3, 4), seen, atol=1e-5)
        np.testing.assert_allclose(sites[k], sum(weights), atol=1e-5)
        expected = seen + motif_search.PRIOR * letters
        p = fitted.log_p[k].exp().reshape(3, 4)
        np.testing.assert_allclose(p, expected / expected.sum(1, keepdim=True), atol=1e-5)
        np.testing.assert_allclose(fitted.share[k], sum(weights) / n, atol=1e-5)
        if placed:
            there = np.bincount(at, weights, windows.starts)
            np.testing.assert_allclose(places[k], there, atol=1e-5)
            np.testing.assert_allclose(fitted.place[k], density(there), atol=1e-4)
        for i, value in enumerate(motif_search._left_out_gains(windows, motifs_[k : k + 1], model)):
            others = [j for j in range(len(s)) if j not in own[i]]
            rest = sum(weights[j] * z[j].reshape(3, 4) for j in others) + motif_search.PRIOR * letters
            p = torch.log(rest / rest.sum(1, keepdim=True)).ravel()
            away = np.ones(windows.starts)
            if placed:
                away = density(np.bincount([at[j] for j in others], [weights[j] for j in others], windows.starts))
            ratios = [np.exp(float(z[j] @ p - windows.log_background[j])) * away[at[j]] for j in own[i]]
            np.testing.assert_allclose(value, np.log(1 - share + share * np.mean(ratios)), atol=1e-5)


def test_a_motif_is_fitted_until_its_gain_stays_whatever_the_others_do():
    codes, _ = sequences()
    windows = Windows.of(codes, 6, Background.of(codes))
    model = motif_search.own_frequencies(windows)
    log_p = torch.log(torch.tensor(np.random.default_rng(0).dirichlet(np.ones(4), (5, 6))).float()).reshape(5, -1)
    share = torch.full((5,), 0.5)
    starts = motif_search.Fitted(log_p, share)
    together, alone = (
        motif_search._fit(windows, starts, 200, model),
        motif_search._fit(windows, starts[3:4], 200, model),
    )
    for name in ("log_p", "share", "gain"):
        np.testing.assert_allclose(getattr(together, name)[3:4], getattr(alone, name), atol=1e-4)
    again = motif_search._fit(windows, together, 1, model)
    np.testing.assert_allclose(again.gain, together.gain, atol=1e-4)
    np.testing.assert_allclose(together.gain, motif_search._expected(windows, together)[0].mean(1), atol=1e-6)


@pytest.mark.parametrize("at_once", [3, 32])
def test_starts_are_ranked_by_the_best_matches_of_all_sequences(at_once, monkeypatch):
    monkeypatch.setattr(motif_search, "AT_ONCE", (at_once, at_once))
    _, windows = small()
    rows = [one_hot(windows)[a:b] for a, b in itertools.pairwise(windows.first)]
    words = one_hot(windows)[~windows.reverse]
    total = [sum(float((own @ word).max()) for own in rows) for word in words]
    ranked = motif_search._ranked(windows, len(words), np.random.default_rng(0))
    found = [sum(float((own @ word).max()) for own in rows) for word in ranked]
    assert found == sorted(total, reverse=True)


def test_one_frequency_against_a_loop():
    counts = torch.from_numpy(np.random.default_rng(0).uniform(0, 5, (2, 3, 4))).float()
    for motif, log_p in zip(counts, motif_search.one_frequency(counts), strict=True):
        q = float(sum(max(position) for position in motif.tolist()) / motif.sum())
        for position, found in zip(motif, log_p.exp().reshape(3, 4), strict=True):
            expected = [(1 - q) / 3] * 4
            expected[int(position.argmax())] = q
            np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("size", [4, 20])
def test_the_evidence_of_groups_against_one_letter_after_the_other(size):
    words = np.random.default_rng(0).integers(0, size, (3, 5, 4))  # groups of five windows of four letters
    counts = np.stack([motif_search._packed(group, size).sum(0) for group in words])
    for group, found in zip(words, motif_search._evidence(counts, np.full(3, 5), 4, size), strict=True):
        expected = 0.0
        for column in group.T:
            seen = [0.5] * size
            for letter in column:
                expected += np.log(seen[letter] / sum(seen) * size)
                seen[letter] += 1
        np.testing.assert_allclose(found, expected)


def test_windows_that_share_letters_in_some_positions_become_starts():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, (4, 60)).astype(np.uint8)
    word = rng.integers(0, 4, 12)
    for row, start in zip(codes, (3, 40, 20, 11), strict=True):
        row[start : start + 12] = word
        row[start + rng.choice(12, 2, replace=False)] = 0
    windows = Windows.of(codes, 12, Background.of(codes), False)
    starts = motif_search._projected(windows, rng)
    assert (starts[0].reshape(12, 4).argmax(1).numpy() == word).mean() > 0.8
    np.testing.assert_allclose(starts.exp().reshape(len(starts), 12, 4).sum(2), 1, rtol=1e-5)


def planted(seed, n=20, length=600, width=15, changed=4):
    """The problem of Pevzner and Sze (2000): a word with `changed` letters changed in each sequence; first letters."""
    rng = np.random.default_rng(1000 + seed)
    codes = rng.integers(0, 4, (n, length)).astype(np.uint8)
    word, starts = rng.integers(0, 4, width), rng.integers(0, length - width + 1, n)
    for row, start in zip(codes, starts, strict=True):
        site, at = word.copy(), rng.choice(width, changed, replace=False)
        site[at] = (site[at] + rng.integers(1, 4, changed)) % 4
        row[start : start + width] = site
    return codes, starts


def placed_word(n=100, length=40, seed=0):
    """Random codes with TATAAA, one letter of it changed, at letter 20 or up to two away from it."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 4, (n, length)).astype(np.uint8)
    for row in codes:
        word, at = np.array([3, 0, 3, 0, 0, 0], np.uint8), 20 + rng.integers(-2, 3)
        word[rng.integers(6)] = rng.integers(4)
        row[at : at + 6] = word
    return codes


def test_a_short_word_at_one_place_recurs_by_its_place():
    codes = placed_word()
    tried = motif_search.find_motif(codes, widths=(8,))
    found = choose(tried)
    assert [motif.place is not None for motif in tried] == [False, False, True] and found is tried[2]
    assert "TATAA" in found.consensus
    starts, reverse, scores = found.best_sites(codes)
    assert (abs(starts - 19) <= 3).mean() > 0.9 and not reverse.any()
    plain = replace(found, place=None)
    at = starts[0]
    everywhere = np.log(found.probabilities[np.arange(8), codes[0, at : at + 8]]).sum()
    everywhere -= found.background.windows(codes[:1], 8)[0, at]
    np.testing.assert_allclose(scores[0], everywhere + found.place[at], atol=1e-6)
    # Sequences of another length have no places.
    for one, other in zip(plain.best_sites(codes[:, :30]), found.best_sites(codes[:, :30]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_same_word_anywhere_has_no_place():
    codes = np.stack([np.roll(row, i) for i, row in enumerate(placed_word())])
    assert [motif.place for motif in motif_search.find_motif(codes, widths=(8,))] == [None, None]


def test_places_are_for_many_sequences_of_one_length():
    codes = placed_word(110)
    codes[:5, -3:] = 4  # a few are shorter
    assert (
        len(motif_search.find_motif(codes, widths=(8,))) == 3
        and len(motif_search.find_motif(codes[:90], widths=(8,))) == 2
    )
    codes[:20, -3:] = 4
    assert len(motif_search.find_motif(codes, widths=(8,))) == 2


def test_a_second_motif_has_places_though_the_first_touches_the_end():
    codes = placed_word()
    codes[:, -8:] = [0, 1, 2, 3, 2, 2, 1, 0]
    model = Discovery(windows=[8], kinds=2).fit(["".join("ACGT"[code] for code in row) for row in codes])
    first, second = model.parts_
    assert first.consensus == "ACGTGGCA" and second.place is not None and "TATAA" in second.consensus


def test_a_motif_in_half_of_many_sequences_recurs():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, (120, 40)).astype(np.uint8)
    assert choose(motif_search.find_motif(codes, widths=(8,))) is None
    for row in codes[:70]:
        at = rng.integers(30)
        row[at : at + 10] = [0, 1, 2, 3, 2, 2, 1, 0, 3, 3]
    found = choose(motif_search.find_motif(codes, widths=(10,)))
    assert found is not None and found.consensus in ("ACGTGGCATT", "AATGCCACGT") and found.evidence.gain > 1


def test_a_word_in_half_of_long_sequences_of_which_few_windows_are_screened_recurs(monkeypatch):
    monkeypatch.setattr(motif_search, "SCREENED", 2_000)
    monkeypatch.setattr(motif_search, "MANY_WINDOWS", 2_000)
    rng = np.random.default_rng(0)
    texts, word = rng.integers(0, 4, (120, 400)), rng.integers(0, 4, 14)
    has, starts = np.arange(120) < 60, rng.integers(0, 386, 120)
    for text, start in zip(texts[:60], starts, strict=False):
        text[start : start + 14] = word
        text[start + rng.integers(14)] = rng.integers(4)
    codes = np.ascontiguousarray(texts.astype(np.uint8))
    motif = choose(motif_search.find_motif(codes, widths=(12,)))
    assert motif is not None and motif.both
    found, _, scores = motif.best_sites(codes)
    assert (abs(found - starts) <= 6)[has].mean() >= 0.95 and np.median(scores[has]) > np.max(scores[~has])


def test_a_motif_with_places_is_saved_with_them(tmp_path):
    text = ["".join("ACGT"[code] for code in row) for row in placed_word()]
    model = Discovery(windows=[8]).fit(text)
    assert f"most often from letter {model.parts_[0].place.argmax() + 1}, counted from 1" in model.describe()
    model.save(tmp_path / "found")
    loaded = Discovery.load(tmp_path / "found")
    assert model.parts_[0].place is not None and loaded.locate(text).tolist() == model.locate(text).tolist()


@pytest.mark.slow
def test_a_planted_motif_with_four_letters_of_fifteen_changed():
    codes, starts = planted(1)
    motif = choose(motif_search.find_motif(codes, widths=(15,), both=False))
    assert motif is not None
    overlap = np.clip(15 - abs(motif.best_sites(codes)[0] - starts), 0, None).sum()
    assert overlap / (2 * 15 * 20 - overlap) > 0.7  # the performance coefficient


def test_the_background_draws_what_it_was_fitted_to():
    codes = np.tile(np.array([0, 0, 1, 3], np.uint8), (50, 20))
    drawn = Background.of(codes).draw(np.array([80, 40]), np.random.default_rng(0))
    assert (drawn[0] < 4).all() and (drawn[1, 40:] == 4).all() and (drawn[1, :40] < 4).all()
    assert np.bincount(drawn[0], minlength=4)[2] <= 2 and 30 <= (drawn[0] == 0).sum() <= 50


def test_a_motif_on_both_strands_is_found_and_scores_tell_who_has_it():
    codes, starts = sequences(60, share=0.6)
    motif = choose(motif_search.find_motif(codes, widths=(12,)))
    assert motif is not None and 0.45 < motif.share < 0.75
    assert motif.consensus in ("TTGACATCGATA", "TATCGATGTCAA")
    found, _, scores = motif.best_sites(codes)
    assert (found == starts)[starts >= 0].mean() > 0.95
    assert scores[starts >= 0].min() > np.quantile(scores[starts < 0], 0.5)


def test_shuffled_sequences_keep_their_pairs_of_letters():
    codes = np.random.default_rng(0).integers(0, 4, (30, 60)).astype(np.uint8)
    codes[0] = 0
    codes[1:10, 40:], codes[10, 2:], codes[11] = 4, 4, 4  # shorter ones
    codes[12, 20:26] = 4  # a gap
    drawn = shuffled(codes, 4, np.random.default_rng(1))
    assert ((drawn == codes)[13:].mean(1) < 0.6).all()
    assert np.array_equal(lengths_of(drawn), lengths_of(codes))
    for length, *rows in zip(lengths_of(codes), codes, drawn, strict=True):
        one, other = (
            (np.bincount(row[: length - 1] * 5 + row[1:length], minlength=25) for row in rows) if length else (0, 0)
        )
        assert np.array_equal(one, other)
    letters = np.where(codes == 4, 20, codes).astype(np.uint8)
    drawn = shuffled(letters, 20, np.random.default_rng(1))
    assert np.array_equal(drawn == 20, letters == 20) and np.array_equal(np.sort(drawn, 1), np.sort(letters, 1))


@pytest.mark.parametrize("seed", [0, slow(1)])
def test_sequences_that_differ_in_their_letters_have_no_motif(seed):
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.choice(4, 60, p=[(1 - g) / 2, g / 2, g / 2, (1 - g) / 2]) for g in rng.uniform(0.1, 0.9, 24)])
    assert choose(motif_search.find_motif(codes.astype(np.uint8), widths=(12,))) is None


def test_a_motif_of_few_sequences_is_fitted_with_other_widths_and_saved_with_them(tmp_path):
    rng = np.random.default_rng(0)
    codes, starts = rng.integers(0, 4, (20, 40)).astype(np.uint8), rng.integers(0, 28, 20)
    kept = np.delete(np.arange(12), [4, 5, 6, 7])  # four letters say nothing: the positions differ
    for row, start in zip(codes, starts, strict=True):
        row[start + kept] = WORD[kept]
    text = ["".join("ACGT"[c] for c in row) for row in codes]
    model = Discovery(windows=[12]).fit(text)
    widths = sorted(map(len, model.parts_[0].others))
    assert widths and set(widths) <= {6, 8, 10, 14, 16, 18}
    assert (model.locate(text)["start"] == starts).mean() > 0.9
    model.save(tmp_path / "found")
    assert Discovery.load(tmp_path / "found").locate(text).tolist() == model.locate(text).tolist()
    assert not motif_search.find_motif(sequences(120)[0], widths=(12,))[0].others


def test_nothing_recurs_in_random_letters():
    codes = np.random.default_rng(1).integers(0, 4, (20, 40)).astype(np.uint8)
    assert choose(motif_search.find_motif(codes, widths=(8, 12))) is None


@pytest.mark.parametrize(("word", "said"), [("TA" * 8, True), ("CAG" * 5 + "C", True), ("TTGACATTTATAATCG", False)])
def test_a_simple_repeat_is_said_with_how_to_look_beside_it(word, said):
    """As the runs of T in promoters of yeast, which hide the sites of GCN4."""
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("ACGT"), 60)) for _ in range(30)]
    texts = [text[:20] + word + text[36:] for text in texts]
    model = Discovery(windows=[16], both_strands=False).fit(texts)
    text = model.describe(model.locate(texts), len(texts))
    assert (f"; {word} is a simple repeat: --kinds 2 also seeks what recurs beside it" in text) == said


def test_sequences_without_a_window_have_no_site():
    codes, _ = sequences()
    motif = motif_search.find_motif(codes, widths=(12,))[0]
    codes[0] = 4
    start, _, score = motif.best_sites(codes)
    assert start[0] == -1 and score[0] == -np.inf and (start[1:] >= 0).all()


def test_what_cannot_be_searched():
    codes, _ = sequences(6)
    assert "0 sequences have 90 letters without N in a row" in refusal(motif_search.find_motif, codes, widths=(90,))


def test_text_formats():
    p = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7]])
    motif = Motif(p, Background.of(sequences()[0]), 0.5)
    lines = as_meme([motif], ["one"], [7]).splitlines()
    assert lines[0] == "MEME version 4" and "MOTIF one AT" in lines and "strands: + -" in lines
    matrix = lines.index("letter-probability matrix: alength= 4 w= 2 nsites= 7 E= 0")
    assert lines[matrix + 1].split() == ["0.700000"] + 3 * ["0.100000"]
    counts = [list(map(int, line[3:-1].split())) for line in as_jaspar([motif], ["one"], [7]).splitlines()[1:]]
    assert np.sum(counts, 0).tolist() == [7, 7] and counts[0] == [5, 1] and counts[3] == [0, 5]
    assert as_jaspar([motif], ["one"], [50]).splitlines()[:2] == [">one\tAT", "A [ 35 5 ]"]


def test_a_pattern_lists_letters_as_prosite_writes_them():
    frequent = {"H": 0.45, "Y": 0.45}, {"R": 0.8}, {}, {}, {"D": 0.9}, {"D": 0.7}, {}
    p = np.full((9, 20), 0.004)
    for row, letters in zip(p[1:], frequent, strict=False):
        for letter, probability in letters.items():
            row[AMINO_ACIDS.letters.index(letter)] = probability
    motif = Motif(p / p.sum(1, keepdims=True), Background.of(np.zeros((1, 1), np.uint8), AMINO_ACIDS), 1, False)
    assert motif.pattern == "[HY]-R-x(2)-D(2)"
    lines = as_meme([motif], ["one"], [50]).splitlines()
    assert lines[2] == f"ALPHABET= {AMINO_ACIDS.letters}" and not any("strands" in line for line in lines)
    assert any(line.startswith("letter-probability matrix: alength= 20 w= 9") for line in lines)


def test_a_motif_of_proteins_has_one_strand(tmp_path):
    rng, letters = np.random.default_rng(0), np.array([*AMINO_ACIDS.letters])
    texts, starts = [], rng.integers(0, 48, 20)
    for start in starts:
        word = np.array([*"HRDLKPENILLD"])
        word[rng.choice(12, 3, replace=False)] = rng.choice(letters, 3)
        text = rng.choice(letters, 60)
        text[start : start + 12] = word
        texts.append("".join(text))
    model = Discovery(windows=[12]).fit(texts)
    found = model.locate(texts)
    assert model.modality_ == "proteins" and not model.parts_[0].both and not found["reverse"].any()
    assert len(found) >= 19 and (abs(found["start"] - starts[found["sample"]]) <= 2).mean() >= 0.95
    assert "H-R-D-L-K-P-E-N" in model.parts_[0].pattern and "pattern" in model.describe()
    assert model.crops(texts, 12)[0][0] in texts[found["sample"][0]]
    model.save(tmp_path / "run")
    again = Discovery.load(tmp_path / "run")
    np.testing.assert_array_equal(again.locate(texts), found)
    assert again.parts_[0].alphabet is AMINO_ACIDS and again.describe() == model.describe()


def test_nothing_recurs_in_random_proteins():
    texts = ["".join(row) for row in np.random.default_rng(1).choice([*AMINO_ACIDS.letters], (12, 60))]
    assert not Discovery(windows=(8,)).fit(texts).recurs_


@pytest.mark.skipif("VIEWSMITH_DATA" not in os.environ, reason="needs VIEWSMITH_DATA")
def test_real_binding_sites():
    lines = (Path(os.environ["VIEWSMITH_DATA"]) / "motifs" / "crp.fa").read_text().split()
    sites = [[int(s) - 1 for s in word[6:].split(",")] for word in lines if word.startswith("sites=")]
    letters = [word for word in lines if set(word) <= set("ACGT")]
    codes = as_codes(np.stack([np.frombuffer(word.encode(), np.uint8) for word in letters]))
    tried = motif_search.find_motif(codes, widths=(22,))
    assert choose(tried) is not None
    motif = tried[0]  # with frequencies of its own for each position
    middle = motif.best_sites(codes)[0] + 11
    near = [min(abs(m - site - 11) for site in of) <= 3 for m, of in zip(middle, sites, strict=True)]
    assert sum(near) == 18


def test_copies_of_what_is_before_are_masked_as_by_a_loop():
    codes = np.random.default_rng(0).integers(0, 4, (5, 90)).astype(np.uint8)
    codes[1, 20:80] = codes[0, 5:65]  # a copy
    codes[2, 10:50] = 3 - codes[1, 40:80][::-1]  # of a copy, on the other strand
    codes[3, : motif_search.COPY - 1] = codes[0, : motif_search.COPY - 1]  # too short
    codes[4, 60:] = 4
    for both in (True, False):
        expected, seen = codes.copy(), set()
        for i, row in enumerate(codes):
            for start in range(len(row) - motif_search.COPY + 1):
                word = tuple(row[start : start + motif_search.COPY])
                other = tuple(3 - np.array(word)[::-1])
                if 4 in word:
                    continue
                if word in seen or (both and other in seen):
                    expected[i, start : start + motif_search.COPY] = 4
                seen.add(word)
        found, count = motif_search.copies_masked(codes, both)
        np.testing.assert_array_equal(found, expected)
        assert count == (expected != codes).sum() >= (100 if both else 60)
    assert motif_search.copies_masked(codes[:, : motif_search.COPY - 1], True)[1] == 0


def test_a_duplicated_sequence_is_no_motif():
    texts = ["".join(row) for row in np.random.default_rng(1).choice(list("ACGT"), (12, 90))]
    texts[7] = texts[2]
    with pytest.warns(UserWarning, match="8% of the letters repeat"):
        assert not Discovery(windows=(8, 12), random_state=0).fit(texts).recurs_
    with pytest.raises(InputError, match="2 of 6 sequences are no copies of others"):
        Discovery(random_state=0).fit([texts[0]] * 3 + [texts[1]] * 3)
