"""DNA views: edits against loops over letters, shares and validity, padding, replay, gradients."""

import itertools

import pytest
import torch

from viewsmith.core.errors import InputError
from viewsmith.views.fixed import dna

LETTERS = "ACGT"
COMPLEMENT = {"A": "T", "C": "G", "G": "C", "T": "A", "N": "N"}
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
LEAVE_THE_CODE = ("noise", "mixup", "recipe with noise")


def draw(seed=0):
    return torch.Generator().manual_seed(seed)


def encode(words, width=None, dtype=torch.float32):
    """Scaled batch (B, 4, width) of strings over A C G T N."""
    width = width or max(map(len, words))
    x = torch.zeros(len(words), 4, width, dtype=dtype)
    for row, word in enumerate(words):
        for position, letter in enumerate(word):
            if letter == "N":
                x[row, :, position] = 0.25
            else:
                x[row, LETTERS.index(letter), position] = 1
    return x


def decode(x):
    """Strings of a batch whose columns are valid; stops at padding, which must last to the end."""
    words = []
    for sample in x:
        word = ""
        for column in sample.T.tolist():
            if column == [0.25] * 4:
                word += "N"
            elif sorted(column) == [0, 0, 0, 1]:
                word += LETTERS[column.index(1)]
            else:
                assert column == [0] * 4, column
                word += "-"
        assert "-" not in word.rstrip("-")
        words.append(word.rstrip("-"))
    return words


def random_words(lengths, seed=0, letters="ACGTN"):
    generator = draw(seed)
    return ["".join(letters[int(i)] for i in torch.randint(len(letters), (n,), generator=generator)) for n in lengths]


def made(name, pool):
    maker = MAKERS[name]()
    maker.prepare(pool)
    return maker


LENGTHS = [30, 12, 1, 30, 7, 2, 19]


@pytest.fixture
def batch():
    """Words of different lengths, their batch with padding, its plan, their lengths and random letters."""
    words = random_words(LENGTHS)
    x = encode(words, 33)
    return words, x, dna.unedited(x), torch.tensor(LENGTHS), torch.randint(4, (len(words), 33), generator=draw(1))


def spelled(letters, row, positions):
    return "".join(LETTERS[letters[row, i]] for i in positions)


def all_stretches():
    """Every start and size in each of the words, one batch per pair, empty ones and whole sequences included."""
    for start, size in itertools.product(range(31), range(31)):
        yield (
            torch.tensor([min(start, n) for n in LENGTHS]),
            torch.tensor([min(size, n - min(start, n)) for n in LENGTHS]),
        )


# --- edits against a loop over letters


def complemented(word):
    return "".join(COMPLEMENT[letter] for letter in reversed(word))


def test_nothing_edited(batch):
    words, x, plan, *_ = batch
    assert torch.equal(dna.render(x, plan), x)
    assert decode(x) == words


def test_reverse_complement_by_hand():
    x = encode(["AACGTN", "CCN", "T"], 8)
    plan = dna.reverse_complement(dna.unedited(x), torch.tensor([6, 3, 1]), torch.tensor([True, True, False]))
    assert decode(dna.render(x, plan)) == ["NACGTT", "NGG", "T"]


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
    for start, size in all_stretches():
        expected = []
        for row, (word, i, n) in enumerate(zip(words, start.tolist(), size.tolist(), strict=True)):
            kept = word[:i] + word[i + n :]
            left = spelled(letters, row, range(n // 2))
            right = spelled(letters, row, range(n // 2 + len(kept), len(word)))
            expected.append(left + kept + right)
        assert decode(dna.render(x, dna.delete(plan, lengths, start, size, letters))) == expected


def test_delete_by_hand():
    x, letters = encode(["ACGTACGT"], 9), torch.full((1, 9), 2)
    plan = dna.delete(dna.unedited(x), torch.tensor([8]), torch.tensor([2]), torch.tensor([3]), letters)
    assert decode(dna.render(x, plan)) == ["GACCGTGG"]  # GTA goes; one G before, two after


def test_insert(batch):
    words, x, plan, lengths, letters = batch
    for start, size in all_stretches():
        expected = [
            (w[:i] + spelled(letters, row, range(i, i + n)) + w[i:])[: len(w)]
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
    for start, size in all_stretches():
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
def test_edits_that_turn_nothing_render_without_complements(make, batch):
    _, x, plan, lengths, _ = batch
    maker = make()
    edited = maker.edit(plan, lengths, lengths > 0, x, draw())
    assert int(edited.min()) >= 0 and not maker.complements
    assert torch.equal(maker(x, generator=draw()), dna.render(x, edited))


def test_edits_follow_one_another_as_if_each_were_made_on_its_own(batch):
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


# --- what the draws are like


def test_mutation_changes_its_share_of_the_bases():
    x = encode(random_words([200] * 500, letters=LETTERS))
    for rate in (0.0, 0.05, 0.75):
        view = dna.Mutation(rate)(x, generator=draw())
        changed = (view != x).any(dim=1).double()
        assert float(changed.mean()) == pytest.approx(rate, abs=4 * (rate * (1 - rate) / changed.numel()) ** 0.5)
        if rate == 0.05:
            per_sequence = changed.sum(dim=1)
            assert float(per_sequence.var()) == pytest.approx(200 * 0.05 * 0.95, rel=0.3)  # each site on its own
            new = view.argmax(dim=1)[changed.bool()]
            old = x.argmax(dim=1)[changed.bool()]
            counts = torch.bincount((new - old) % 4, minlength=4)[1:].double()  # the three others are as likely
            assert (counts / counts.sum() - 1 / 3).abs().max() < 4 * (2 / 9 / counts.sum()) ** 0.5


def test_an_n_can_become_a_base():
    x = encode(["N" * 200] * 100)
    changed = (dna.Mutation(0.3)(x, generator=draw()) != x).any(dim=1).double()
    assert float(changed.mean()) == pytest.approx(0.4, abs=4 * (0.24 / 20000) ** 0.5)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0])
def test_the_other_strand_is_read_in_its_share_of_the_sequences(p):
    x = encode(["AACGG"] * 2000, 7)
    words = decode(dna.ReverseComplement(p)(x, generator=draw()))
    assert set(words) <= {"AACGG", "CCGTT"}
    assert words.count("CCGTT") / 2000 == pytest.approx(p, abs=4 * (p * (1 - p) / 2000) ** 0.5)


def test_twice_the_other_strand_is_the_first():
    x = dna.DNANoise(0.1)(encode(random_words(LENGTHS), 40), generator=draw())
    maker = dna.ReverseComplement(1.0)
    assert not torch.equal(maker(x), x)
    assert torch.equal(maker(maker(x)), x)


@pytest.mark.parametrize(
    ("minimum", "maximum", "length", "expected"),
    [(0, 20, 200, range(21)), (3, 6, 200, range(3, 7)), (0, 20, 41, range(5)), (8, 20, 41, [4]), (0, 20, 9, [0])],
)
def test_sizes_and_their_cap(minimum, maximum, length, expected):
    n = 4000
    lengths, chosen = torch.full((n,), length), torch.arange(n) % 2 == 0
    sizes = dna.Deletion(minimum, maximum).sizes(lengths, chosen, torch.zeros(1), draw())
    assert (sizes[~chosen] == 0).all()
    counts = torch.bincount(sizes[chosen], minlength=22)
    assert sorted(set(sizes[chosen].tolist())) == list(expected)
    share = 1 / len(expected)
    assert (counts[list(expected)] / 2000 - share).abs().max() <= 4 * (share * (1 - share) / 2000) ** 0.5


@pytest.mark.parametrize(
    "edit", ["insert", pytest.param("delete", marks=pytest.mark.slow), pytest.param("invert", marks=pytest.mark.slow)]
)
def test_stretches_lie_anywhere_in_the_sequence(edit, monkeypatch):
    seen = {}
    original = getattr(dna, edit)

    def spy(plan, *arguments):
        seen["start"], seen["size"] = arguments[-2:] if edit == "invert" else arguments[1:3]
        return original(plan, *arguments)

    monkeypatch.setattr(dna, edit, spy)
    maker = {"delete": dna.Deletion, "insert": dna.Insertion, "invert": dna.Inversion}[edit](3, 3)
    maker(encode(["ACGTACGTAC" * 3] * 5000, 40), generator=draw())
    assert (seen["size"] == 3).all()
    counts = torch.bincount(seen["start"])
    assert len(counts) == 28
    assert (counts / 5000 - 1 / 28).abs().max() < 4 * (1 / 28 / 5000) ** 0.5


def test_translocation_goes_either_way():
    words = decode(dna.Translocation(2, 2)(encode(["AC" + "G" * 17 + "T"] * 1000), generator=draw()))
    right, left = "GT" + "AC" + "G" * 16, "G" * 17 + "TAC"
    assert set(words) == {right, left}
    assert abs(words.count(left) - 500) < 4 * 250**0.5


def test_noise_has_its_deviation_and_stays_off_the_padding():
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
    share = view[:, 1, 0]
    assert float(share.min()) >= 0 and float(share.max()) <= 0.4 and float(share.mean()) == pytest.approx(0.2, abs=0.03)
    torch.testing.assert_close(view[:, 1, :4], share[:, None].expand(-1, 4))
    tail = view[:, 1, 4:7]
    short = (tail == 0).all(dim=1)
    torch.testing.assert_close(tail[~short], share[~short, None].expand(-1, 3))
    assert 140 < int(short.sum()) < 260
    assert torch.equal(view[short][:, :, 4:7], x[short][:, :, 4:7])


def test_mixup_takes_rows_of_another_width():
    x = encode(["AAAAA"], 6)
    for width in (4, 9):
        maker = dna.DNAMixup(0.0)
        maker.prepare(encode(["CCCC"], width))
        view = maker(x, generator=draw())
        assert (view[:, 1, :4] > 0).all() and torch.equal(view[:, :, 4:], x[:, :, 4:])


# --- the recipe


def test_the_recipe_gives_each_sequence_one_to_most_edits():
    recipe = dna.DNAViews(max_edits=2)
    chosen = recipe.choose(6000, torch.zeros(1), draw())
    counts = chosen.sum(dim=1)
    assert set(counts.tolist()) == {1, 2}
    assert abs(int((counts == 1).sum()) - 3000) < 4 * 1500**0.5
    per_edit = chosen.double().mean(dim=0)  # 1.5 edits of 4
    assert (per_edit - 1.5 / 4).abs().max() < 4 * (0.24 / 6000) ** 0.5
    assert not dna.DNAViews(max_edits=0).choose(5, torch.zeros(1), draw()).any()
    assert dna.DNAViews([dna.Mutation()], max_edits=3).choose(5, torch.zeros(1), draw()).all()


def test_the_recipe_is_its_edits_one_after_the_other():
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


def test_a_recipe_without_edits_reads_either_strand():
    x = encode(["AACGG"] * 200)
    words = decode(dna.DNAViews([])(x, generator=draw()))
    assert set(words) == {"AACGG", "CCGTT"}


# --- what all of them promise


@every_maker
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shape_padding_and_columns_stay_valid(name, dtype):
    words = [*random_words([60, 41, 5, 1, 33] * 8), ""]
    x = encode(words, 64, dtype)
    before, state = x.clone(), torch.get_rng_state()
    view = made(name, x)(x, generator=draw())
    assert view.shape == x.shape and view.dtype == dtype
    assert not torch.equal(view, x)
    assert torch.equal((view != 0).any(dim=1), (x != 0).any(dim=1))
    if name not in LEAVE_THE_CODE:
        assert [len(word) for word in decode(view)] == [len(word) for word in words]
    if name not in ("noise", "recipe with noise"):
        torch.testing.assert_close(view.sum(dim=1), x.sum(dim=1))
    view += 1
    assert torch.equal(x, before) and torch.equal(torch.get_rng_state(), state)


@every_maker
def test_a_draw_can_be_replayed(name):
    x = encode(random_words([60, 41] * 10))
    maker = made(name, x)
    one, again, other = (maker(x, generator=draw(seed)) for seed in (0, 0, 1))
    assert torch.equal(one, again) and not torch.equal(one, other)


@every_maker
def test_every_sequence_has_a_draw_of_its_own(name):
    x = encode(random_words([200])).expand(64, -1, -1)
    views = made(name, encode(random_words([200] * 3, seed=9)))(x, generator=draw())
    fewest = 2 if name == "reverse complement" else 15  # translocations are 20 each way
    assert len({tuple(view.flatten().tolist()) for view in views}) >= fewest


@every_maker
def test_gradients_flow_through(name):
    x = encode(random_words([60, 41] * 4), dtype=torch.float64).requires_grad_()
    view = made(name, x.detach())(x, generator=draw())
    weight = torch.randn(view.shape, generator=draw(2), dtype=torch.float64)
    gradient = torch.autograd.grad((view * weight).sum(), x)[0]
    step = torch.randn(view.shape, generator=draw(4), dtype=torch.float64) * (x != 0).any(dim=1)[:, None]
    # Views are linear in the sample for a given draw.
    moved = made(name, x.detach())((x + 1e-3 * step).detach(), generator=draw())
    torch.testing.assert_close(((moved - view) * weight).sum() / 1e-3, (gradient * step).sum(), rtol=1e-6, atol=1e-8)
    assert gradient.abs().sum() > 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dna.Mutation(0.8), r"rate = 0.8: expected a number from 0 to 0.75"),
        (lambda: dna.ReverseComplement(-0.1), r"p = -0.1: expected a number from 0 to 1"),
        (lambda: dna.Deletion(5, 3), r"minimum = 5, maximum = 3: expected 0 <= minimum <= maximum"),
        (lambda: dna.DNANoise(-1.0), r"std = -1.0: expected a standard deviation of at least 0"),
        (lambda: dna.DNAMixup(1.5), r"minimum = 1.5: expected a number from 0 to 1"),
        (lambda: dna.DNAViews(max_edits=-1), r"max_edits = -1: expected the largest number of edits"),
    ],
)
def test_bad_settings_are_refused_in_one_line(make, message):
    with pytest.raises(InputError, match=message) as raised:
        make()
    assert "\n" not in str(raised.value)
