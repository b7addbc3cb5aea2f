"""DNA view makers: distributions of the draws, the recipe, padding, replay, gradients."""

import pytest
import torch
from dna_toys import LENGTHS, LETTERS, decode, draw, encode, random_words

from viewsmith.core.errors import InputError
from viewsmith.modalities.dna import views as dna

MAKERS = {
    "reverse complement": lambda: dna.ReverseComplement(0.5),
    "mutation": lambda: dna.Mutation(0.3),
    "insertion": lambda: dna.Insertion(1, 20),
    "deletion": lambda: dna.Deletion(1, 20),
    "translocation": lambda: dna.Translocation(1, 20),
    "inversion": lambda: dna.Inversion(1, 20),
    "noise": lambda: dna.DNANoise(0.2),
    "mixup": lambda: dna.DNAMixup(0.5),
    "recipe": lambda: dna.DNAViews(),
    "recipe with noise": lambda: dna.DNAViews(noise=0.2),
}
every_maker = pytest.mark.parametrize("name", MAKERS)


def prepared(name, pool):
    maker = MAKERS[name]()
    maker.prepare(pool)
    return maker


# --- distributions of the draws


def test_mutation_changes_the_given_fraction_of_the_bases():
    x = encode(random_words([200] * 500, letters=LETTERS))
    for rate in (0.0, 0.05, 0.75):
        view = dna.Mutation(rate)(x, generator=draw())
        changed = (view != x).any(dim=1).double()
        assert float(changed.mean()) == pytest.approx(rate, abs=4 * (rate * (1 - rate) / changed.numel()) ** 0.5)
        if rate == 0.05:
            per_sequence = changed.sum(dim=1)
            assert float(per_sequence.var()) == pytest.approx(200 * 0.05 * 0.95, rel=0.3)  # positions are independent
            new = view.argmax(dim=1)[changed.bool()]
            old = x.argmax(dim=1)[changed.bool()]
            counts = torch.bincount((new - old) % 4, minlength=4)[1:].double()  # other letters, equally likely
            assert (counts / counts.sum() - 1 / 3).abs().max() < 4 * (2 / 9 / counts.sum()) ** 0.5


def test_an_n_can_become_a_base():
    x = encode(["N" * 200] * 100)
    changed = (dna.Mutation(0.3)(x, generator=draw()) != x).any(dim=1).double()
    assert float(changed.mean()) == pytest.approx(0.4, abs=4 * (0.24 / 20000) ** 0.5)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0])
def test_the_reverse_complement_has_the_given_probability(p):
    x = encode(["AACGG"] * 2000, 7)
    words = decode(dna.ReverseComplement(p)(x, generator=draw()))
    assert set(words) <= {"AACGG", "CCGTT"}
    assert words.count("CCGTT") / 2000 == pytest.approx(p, abs=4 * (p * (1 - p) / 2000) ** 0.5)


def test_the_reverse_complement_is_its_own_inverse():
    x = dna.DNANoise(0.1)(encode(random_words(LENGTHS), 40), generator=draw())
    maker = dna.ReverseComplement(1.0)
    assert not torch.equal(maker(x), x)
    assert torch.equal(maker(maker(x)), x)


@pytest.mark.parametrize(
    ("minimum", "maximum", "length", "expected"),
    [(0, 20, 200, range(21)), (3, 6, 200, range(3, 7)), (0, 20, 41, range(5)), (8, 20, 41, [4]), (0, 20, 9, [0])],
)
def test_segment_sizes_and_their_maximum(minimum, maximum, length, expected):
    n = 4000
    lengths, chosen = torch.full((n,), length), torch.arange(n) % 2 == 0
    sizes = dna.Deletion(minimum, maximum).sizes(lengths, chosen, torch.zeros(1), draw())
    assert (sizes[~chosen] == 0).all()
    counts = torch.bincount(sizes[chosen], minlength=22)
    assert sorted(set(sizes[chosen].tolist())) == list(expected)
    probability = 1 / len(expected)
    assert (counts[list(expected)] / 2000 - probability).abs().max() <= 4 * (
        probability * (1 - probability) / 2000
    ) ** 0.5


def test_translocation_rotates_in_both_directions():
    words = decode(dna.Translocation(2, 2)(encode(["AC" + "G" * 17 + "T"] * 1000), generator=draw()))
    right, left = "GT" + "AC" + "G" * 16, "G" * 17 + "TAC"
    assert set(words) == {right, left}
    assert abs(words.count(left) - 500) < 4 * 250**0.5


def test_noise_has_the_given_deviation_and_leaves_out_padding():
    x = encode(random_words([50, 100, 80] * 20), 110)
    noise = dna.DNANoise(0.2)(x, generator=draw()) - x
    real = (x != 0).any(dim=1)
    assert (noise.mT[~real] == 0).all()
    assert float(noise.mT[real].std()) == pytest.approx(0.2, rel=0.03)
    assert float(noise.mT[real].mean()) == pytest.approx(0, abs=4 * 0.2 / (4 * int(real.sum())) ** 0.5)


def test_mixup_mixes_where_both_have_bases():
    pool = encode(["CCCC", "CCCCCCCCCC"], 12)
    x = encode(["AAAAAAA"] * 400, 12)
    maker = dna.DNAMixup(0.6)
    maker.prepare(pool)
    view = maker(x, generator=draw())
    assert (view[:, :, 7:] == 0).all()
    torch.testing.assert_close(view.sum(dim=1), x.sum(dim=1))
    weight = view[:, 1, 0]
    assert (
        float(weight.min()) >= 0 and float(weight.max()) <= 0.4 and float(weight.mean()) == pytest.approx(0.2, abs=0.03)
    )
    torch.testing.assert_close(view[:, 1, :4], weight[:, None].expand(-1, 4))
    tail = view[:, 1, 4:7]
    short = (tail == 0).all(dim=1)
    torch.testing.assert_close(tail[~short], weight[~short, None].expand(-1, 3))
    assert 140 < int(short.sum()) < 260
    assert torch.equal(view[short][:, :, 4:7], x[short][:, :, 4:7])


def test_mixup_accepts_rows_of_another_width():
    x = encode(["AAAAA"], 6)
    for width in (4, 9):
        maker = dna.DNAMixup(0.0)
        maker.prepare(encode(["CCCC"], width))
        view = maker(x, generator=draw())
        assert (view[:, 1, :4] > 0).all() and torch.equal(view[:, :, 4:], x[:, :, 4:])


# --- the recipe


def test_the_recipe_draws_one_to_max_edits_per_sequence():
    recipe = dna.DNAViews(max_edits=2)
    chosen = recipe.choose(6000, torch.zeros(1), draw())
    counts = chosen.sum(dim=1)
    assert set(counts.tolist()) == {1, 2}
    assert abs(int((counts == 1).sum()) - 3000) < 4 * 1500**0.5
    per_edit = chosen.double().mean(dim=0)  # 1.5 edits of 4
    assert (per_edit - 1.5 / 4).abs().max() < 4 * (0.24 / 6000) ** 0.5
    assert not dna.DNAViews(max_edits=0).choose(5, torch.zeros(1), draw()).any()
    assert dna.DNAViews([dna.Mutation()], max_edits=3).choose(5, torch.zeros(1), draw()).all()


def test_the_recipe_equals_its_edits_in_order():
    x = encode(random_words([60] * 50 + [41] * 50), 64)
    edits = [dna.Deletion(1), dna.Insertion(1), dna.Inversion(1)]
    recipe = dna.DNAViews(edits, max_edits=2, strand=0.5)
    view = recipe(x, generator=draw(5))
    generator = draw(5)
    chosen = recipe.choose(100, x, generator)
    expected, lengths = x, torch.tensor([60] * 50 + [41] * 50)
    for edit, sequences in [*zip(edits, chosen.T, strict=True), (recipe.strand, torch.ones(100, dtype=torch.bool))]:
        expected = dna.render(expected, edit.edit(dna.unedited(x), lengths, sequences, x, generator))
    assert torch.equal(view, expected)


def test_a_recipe_without_edits_has_the_reverse_complement():
    x = encode(["AACGG"] * 200)
    words = decode(dna.DNAViews([])(x, generator=draw()))
    assert set(words) == {"AACGG", "CCGTT"}


# --- the contract of all makers


@every_maker
def test_sequences_are_drawn_independently(name):
    x = encode(random_words([200])).expand(64, -1, -1)
    views = prepared(name, encode(random_words([200] * 3, seed=9)))(x, generator=draw())
    fewest = 2 if name == "reverse complement" else 15  # there are 20 translocations in each direction
    assert len({tuple(view.flatten().tolist()) for view in views}) >= fewest


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dna.Mutation(0.8), r"rate is 0.8, expected a number from 0 to 0.75"),
        (lambda: dna.ReverseComplement(-0.1), r"p is -0.1, expected a number from 0 to 1"),
        (lambda: dna.Deletion(5, 3), r"minimum = 5, maximum = 3: expected 0 <= minimum <= maximum"),
        (lambda: dna.DNANoise(-1.0), r"std is -1.0, expected a number of at least 0"),
        (lambda: dna.DNAMixup(1.5), r"minimum is 1.5, expected a number from 0 to 1"),
        (lambda: dna.DNAViews(max_edits=-1), r"max_edits is -1, expected at least 0"),
    ],
)
def test_invalid_settings_are_refused_in_one_line(make, message):
    with pytest.raises(InputError, match=message) as raised:
        make()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("maker", "edit"), [("Deletion", "delete"), ("Insertion", "insert"), ("Inversion", "invert")])
def test_segments_start_anywhere_in_the_sequence(maker, edit, monkeypatch):
    starts, original = [], getattr(dna, edit)
    place = 0 if edit == "invert" else 1
    monkeypatch.setattr(dna, edit, lambda plan, *given: starts.append(given[place]) or original(plan, *given))
    getattr(dna, maker)(3, 3)(encode(["ACGTACGTAC" * 3] * 3000, 40), generator=draw())
    counts = torch.bincount(starts[0])
    assert len(counts) == 28 and (counts / 3000 - 1 / 28).abs().max() < 4 * (1 / 28 / 3000) ** 0.5
