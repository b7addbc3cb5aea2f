"""Edits of DNA against loops over letters."""

import itertools

import pytest
import torch
from dna_toys import LENGTHS, LETTERS, decode, draw, encode, random_words

from viewsmith.modalities.dna import views as dna

COMPLEMENT = {"A": "T", "C": "G", "G": "C", "T": "A", "N": "N"}


@pytest.fixture
def batch():
    """Words of different lengths, their batch with padding, its plan, their lengths and random letters."""
    words = random_words(LENGTHS)
    x = encode(words, 33)
    return words, x, dna.unedited(x), torch.tensor(LENGTHS), torch.randint(4, (len(words), 33), generator=draw(1))


def spell(letters, row, positions):
    return "".join(LETTERS[letters[row, i]] for i in positions)


def all_segments():
    """Every start and size of a segment in each of the words, including empty segments and whole sequences."""
    for start, size in itertools.product(range(31), range(31)):
        yield (
            torch.tensor([min(start, n) for n in LENGTHS]),
            torch.tensor([min(size, n - min(start, n)) for n in LENGTHS]),
        )


def complemented(word):
    return "".join(COMPLEMENT[letter] for letter in reversed(word))


def test_an_unedited_plan_is_the_identity(batch):
    words, x, plan, *_ = batch
    assert torch.equal(dna.render(x, plan), x)
    assert decode(x) == words


def test_reverse_complement(batch):
    words, x, plan, lengths, _ = batch
    chosen = torch.tensor([True, False, True, True, True, True, False])
    once = dna.reverse_complement(plan, lengths, chosen)
    assert decode(dna.render(x, once)) == [
        complemented(w) if c else w for w, c in zip(words, chosen.tolist(), strict=True)
    ]
    assert torch.equal(dna.reverse_complement(once, lengths, chosen), plan)


def test_delete(batch):
    words, x, plan, lengths, letters = batch
    for start, size in all_segments():
        expected = []
        for row, (word, i, n) in enumerate(zip(words, start.tolist(), size.tolist(), strict=True)):
            kept = word[:i] + word[i + n :]
            left = spell(letters, row, range(n // 2))
            right = spell(letters, row, range(n // 2 + len(kept), len(word)))
            expected.append(left + kept + right)
        assert decode(dna.render(x, dna.delete(plan, lengths, start, size, letters))) == expected


def test_insert(batch):
    words, x, plan, lengths, letters = batch
    for start, size in all_segments():
        expected = [
            (w[:i] + spell(letters, row, range(i, i + n)) + w[i:])[: len(w)]
            for row, (w, i, n) in enumerate(zip(words, start.tolist(), size.tolist(), strict=True))
        ]
        assert decode(dna.render(x, dna.insert(plan, lengths, start, size, letters))) == expected


def test_translocate(batch):
    words, x, plan, lengths, _ = batch
    for shift in range(-33, 34):
        expected = [w[-(shift % len(w)) :] + w[: -(shift % len(w))] if shift % len(w) else w for w in words]
        assert decode(dna.render(x, dna.translocate(plan, lengths, torch.full((7,), shift)))) == expected


def test_invert(batch):
    words, x, plan, _, _ = batch
    for start, size in all_segments():
        expected = [
            w[:i] + complemented(w[i : i + n]) + w[i + n :]
            for w, i, n in zip(words, start.tolist(), size.tolist(), strict=True)
        ]
        assert decode(dna.render(x, dna.invert(plan, start, size))) == expected


def test_mutate(batch):
    words, x, plan, lengths, letters = batch
    redrawn = (torch.rand(7, 33, generator=draw(3)) < 0.4) & (torch.arange(33) < lengths[:, None])
    expected = [
        "".join(LETTERS[letters[row, i]] if redrawn[row, i] else letter for i, letter in enumerate(word))
        for row, word in enumerate(words)
    ]
    assert expected != words
    assert decode(dna.render(x, dna.mutate(plan, letters, redrawn))) == expected


@pytest.mark.parametrize("make", [dna.Deletion, dna.Insertion, dna.Translocation, dna.Mutation])
def test_edits_without_complements(make, batch):
    _, x, plan, lengths, _ = batch
    maker = make()
    edited = maker.edit(plan, lengths, lengths > 0, x, draw())
    assert int(edited.min()) >= 0 and not maker.complements
    assert torch.equal(maker(x, generator=draw()), dna.render(x, edited))


def test_a_plan_of_several_edits_equals_separate_edits(batch):
    _, x, plan, lengths, letters = batch
    start, size = lengths // 4, lengths // 3
    steps = [
        lambda p: dna.invert(p, start, size),
        lambda p: dna.delete(p, lengths, start, size, letters),
        lambda p: dna.reverse_complement(p, lengths, lengths > 5),
        lambda p: dna.insert(p, lengths, size, start, letters.flip(0)),
        lambda p: dna.translocate(p, lengths, size),
    ]
    one_by_one = x
    for step in steps:
        plan, one_by_one = step(plan), dna.render(one_by_one, step(dna.unedited(x)))
    assert torch.equal(dna.render(x, plan), one_by_one)
