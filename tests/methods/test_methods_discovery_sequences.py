"""Discovery in DNA and recordings: motifs and events with their places, several kinds, files, bad input."""

import os

import numpy as np
import pytest

from refusals import refusal
from small_searches import smaller
from viewsmith import Discovery

pytestmark = pytest.mark.usefixtures("small_searches")

WORDS = "TTGACATTTATAATCG", "GGCCACGTGACCAAGT"
OTHER = str.maketrans("ACGT", "TGCA")


def random_text(rng, length):
    return "".join(rng.choice(list("ACGT"), length))


def with_words(n=24, length=80, words=WORDS[:1], present=1.0, seed=0):
    """Sequences with words, each with two letters changed, on either strand; and first letters and strands."""
    rng = np.random.default_rng(seed)
    texts, places = [], []
    for _ in range(n):
        text, own = random_text(rng, length), []
        for number, word in enumerate(words):
            if rng.random() >= present:
                own.append((-1, False))
                continue
            site = list(word)
            for at in rng.choice(len(word), 2, replace=False):
                site[at] = str(rng.choice(list("ACGT")))
            reverse = bool(rng.random() < 0.5)
            made = "".join(site)
            made = made.translate(OTHER)[::-1] if reverse else made
            lr_span = length // len(words)
            start = number * lr_span + int(rng.integers(0, lr_span - len(word)))
            text = text[:start] + made + text[start + len(word) :]
            own.append((start, reverse))
        texts.append(text)
        places.append(own)
    return texts, places


@pytest.fixture(scope="module")
def motif():
    texts, places = with_words()
    with smaller():
        return texts, places, Discovery(windows=[16]).fit(texts)


def test_sites_are_located_on_both_strands(motif):
    texts, places, model = motif
    found = model.locate(texts)
    assert model.modality_ == "dna" and model.recurs_ and "one motif recurs" in model.describe()
    assert len(found) >= 23 and (found["end"] - found["start"] == model.parts_[0].width).all()
    middle = (found["start"] + found["end"]) / 2
    near = [abs(m - places[i][0][0] - 8) <= 3 for m, i in zip(middle, found["sample"], strict=True)]
    assert np.mean(near) >= 0.95
    strands = np.array([places[i][0][1] for i in found["sample"]]) == found["reverse"]
    assert strands.mean() >= 0.95 or strands.mean() <= 0.05  # the word, or its reverse complement, is the motif


def test_crops_are_read_from_the_strand_of_the_site(motif):
    texts, _, model = motif
    crops, found = model.crops(texts, 16)
    consensus, site = model.parts_[0].consensus, found[0]
    word = texts[site["sample"]][site["start"] : site["end"]]
    word = word.translate(OTHER)[::-1] if site["reverse"] else word
    inner = model.crops(texts, len(consensus))[0][0]
    assert inner == word and len(crops) == len(found) and {len(crop) for crop in crops} == {16}
    letters = np.array([list(crop) for crop in model.crops(texts, len(consensus))[0]])
    assert (letters == np.array(list(consensus))).mean() > 0.7


def test_sequences_without_a_site_are_told_apart():
    texts, places = with_words(n=60, present=0.5, seed=1)
    model = Discovery(windows=[16]).fit(texts)
    scores, present = model.score_samples(texts), np.array([own[0][0] >= 0 for own in places])
    order = scores[present][:, None] > scores[~present]
    assert order.mean() > 0.9
    located = np.isin(np.arange(60), model.locate(texts)["sample"])
    assert located[present].mean() > 0.8 and located[~present].mean() < 0.3


def test_a_second_motif_is_found_after_the_first():
    texts, places = with_words(n=30, length=80, words=WORDS)
    model = Discovery(windows=[16], kinds=2).fit(texts)
    assert len(model.parts_) == 2 and "2 motifs recur" in model.describe()
    found = model.locate(texts)
    for kind in (0, 1):
        own = found[found["kind"] == kind]
        hits = [[abs(int(site["start"]) - place[0]) <= 3 for place in places[site["sample"]]] for site in own]
        assert len(own) > 24 and max(np.mean(hits, axis=0)) > 0.9


def test_several_sites_of_a_sequence_do_not_overlap():
    texts, _ = with_words(n=24, length=100, words=(WORDS[0], WORDS[0]))
    model = Discovery(windows=[16], max_parts=2).fit(texts)
    found = model.locate(texts)
    assert len(found) > 38
    for i in range(24):
        own = np.sort(found["start"][found["sample"] == i])
        assert (np.diff(own) >= model.parts_[0].width).all()


def test_nothing_recurs_in_random_sequences():
    rng = np.random.default_rng(0)
    texts = [random_text(rng, 60) for _ in range(24)]
    with pytest.warns(UserWarning, match="nothing recurs in these samples: the best candidate, "):
        model = Discovery(windows=[12]).fit(texts)
    assert not model.recurs_ and len(model.locate(texts)) == 0 and (model.score_samples(texts) == -np.inf).all()


def recordings(n=80, length=300, seed=0, events=1):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, length)).astype(np.float32)
    shape = 5 * np.sin(np.linspace(0, 3 * np.pi, 30)) * np.hanning(30)
    starts = np.stack([rng.integers(k * 150, (k + 1) * 300 // events - 40, n) for k in range(events)], 1)
    for row, own in zip(x, starts, strict=True):
        for start in own:
            row[start : start + 30] += shape
    return x, starts


@pytest.fixture(scope="module")
def event():
    x, starts = recordings()
    with smaller():
        return x, starts[:, 0], Discovery(windows=[24, 40]).fit(x)


def test_events_are_located(event):
    x, starts, model = event
    found = model.locate(x)
    assert model.modality_ == "series" and "one event recurs" in model.describe() and len(found) >= 76
    offset = found["start"] - starts[found["sample"]]
    assert (abs(offset - np.median(offset)) <= 5).mean() >= 0.95
    crops, _ = model.crops(x, 50)
    assert crops.shape == (len(found), 1, 50)
    assert np.array_equal(model.locate(x[:, None])["start"], found["start"])


def test_an_event_and_a_site_unlike_the_others_are_flagged_and_come_last(event, motif):
    x, _, model = event
    x = np.concatenate([x[:20], 4 * x[:1]])
    assert model.locate(x)["outlier"].tolist()[-1:] == [True] and not model.locate(x[:20])["outlier"].any()
    texts, _, sites = motif
    typical, kept = sites.search_.typical[0], sites.locate(texts)
    assert kept["outlier"].sum() <= 1
    assert typical.outliers(np.array([[typical.density.mean[0] + 30]])).all()


@pytest.mark.parametrize("which", ["event", "motif"])
def test_searches_without_a_sample_find_its_place_too(which, request):
    x, _, model = request.getfixturevalue(which)
    search, found = model.search_, model.locate(x)
    assert search.steady > 0.95 and "steady" not in model.describe(found, len(x))
    n, width = 4 * len(search.null[0]), 10
    scores = np.where(np.arange(n) % 4, search.null[0].min(), search.null[0].max() + 1)  # a quarter are sure
    starts, kept = np.full(n, 50), search.steady
    held = starts + np.where(np.arange(n) < n // 2, 5, 6)  # of half within half of the width
    try:
        search.compare(held, [(starts, scores)], width)
        assert search.steady == 0.5
        says = f"not steady: searches without them find a place that is listed in 50% of the {search.samples_name}"
        assert says in model.describe(found, len(x))
        search.compare(held, [(starts, scores), (starts + 10, np.where(np.arange(n) % 8, -np.inf, 1.0))], width)
        assert search.steady == 0.75
        search.compare(held, [(starts, np.full(n, -np.inf))], width)
        assert "whether that is steady is not known" in model.describe(found, len(x))
    finally:
        search.steady = kept


@pytest.mark.parametrize("which", ["event", "motif"])
def test_more_parts_never_list_fewer_samples(which, request):
    x, _, model = request.getfixturevalue(which)
    listed = []
    for n in (1, 3, 12):
        model.search_.max_parts = n
        listed.append(set(model.locate(x)["sample"]))
    model.search_.max_parts = 1
    assert listed[0] <= listed[1] <= listed[2]


@pytest.mark.parametrize("which", ["event", "motif"])
def test_the_order_of_samples_does_not_matter(which, request):
    x, _, model = request.getfixturevalue(which)
    order = np.random.default_rng(0).permutation(len(x))
    other = Discovery(windows=model.windows).fit([x[i] for i in order] if which == "motif" else x[order])
    np.testing.assert_array_equal(other.locate(x), model.locate(x))
    assert other.describe() == model.describe()


def test_an_event_is_the_same_however_many_are_listed():
    x = np.concatenate([recordings(20)[0], np.random.default_rng(1).normal(size=(10, 300))])
    one, three = (Discovery(windows=[30], max_parts=n).fit(x) for n in (1, 3))
    np.testing.assert_array_equal(one.search_.null[0][:, 0], three.search_.null[0][:, 0])
    assert set(one.locate(x)["sample"]) <= set(three.locate(x)["sample"])


def test_several_events_of_a_piece():
    x, starts = recordings(events=2)
    found = Discovery(windows=[30], max_parts=2).fit(x).locate(x)
    assert len(found) > 140
    offsets = found["start"][:, None] - starts[found["sample"]]
    offset = offsets[np.arange(len(found)), abs(offsets).argmin(1)]
    assert (abs(offset - np.median(offset)) <= 5).mean() >= 0.95


def test_pieces_of_noise_have_no_event():
    x, _ = recordings()
    model = Discovery(windows=[30]).fit(x)
    noise = np.random.default_rng(5).normal(size=(60, 300)).astype(np.float32)
    assert len(model.locate(noise)) <= 2
    with pytest.warns(UserWarning, match="nothing recurs"):
        assert not Discovery(windows=[30]).fit(noise).recurs_


def test_sequences_shorter_than_the_window_have_no_part_in_what_is_found():
    rng = np.random.default_rng(0)
    whole = [random_text(rng, 20) + "TTGACATTTATAATCG" + random_text(rng, 20) for _ in range(24)]
    model = Discovery(windows=[16]).fit([random_text(rng, 5) for _ in range(8)] + whole + ["N" * 40])
    found = model.locate(["ACGT", "N" * 40, whole[0]])
    assert found["sample"].tolist() == [2] and found["start"].tolist() == [20]
    assert np.isfinite(model.search_.null[0]).all()


@pytest.mark.parametrize("which", ["motif", "event"])
def test_saved_models_give_the_same(which, request, tmp_path):
    samples, _, model = request.getfixturevalue(which)
    model.save(tmp_path / "model")
    again = Discovery.load(tmp_path / "model")
    assert np.array_equal(again.locate(samples), model.locate(samples)) and again.modality_ == model.modality_
    assert again.describe() == model.describe()
    options = {"windows": list(model.windows)}
    same = Discovery(**options).fit(samples)
    assert np.array_equal(same.locate(samples), model.locate(samples))


def test_what_cannot_be_used():
    texts = ["ACGTACGTACGTACGT" + random_text(np.random.default_rng(i), 40) for i in range(8)]
    x = np.random.default_rng(0).normal(size=(8, 100))
    for options, samples, message in (
        ({}, texts[:2], "2 sequences, expected at least 4"),
        ({"windows": [80]}, texts, "0 sequences have 80 letters without N in a row"),
        ({}, ["N" * 60] * 8, "have 8 letters without N in a row"),
        ({}, [texts[0]] * 8, "all sequences are equal"),
        ({"image_size": 64}, texts, "image_size is an option for images, and the data are dna: leave it out"),
        ({"both_strands": False}, x, "both_strands is an option for dna, and the data are series"),
        ({"windows": [3]}, texts, "expected whole numbers of at least 4 for dna"),
        ({}, x[:2], "2 pieces, expected at least 4"),
        ({"windows": [60]}, x, "expected windows of at most half of a piece"),
        ({}, np.repeat(x[:1], 8, 0), "all samples are equal, expected recordings that differ"),
        ({}, np.arange(8.0)[:, None] * np.ones(100), "all channels are flat"),
        (
            {},
            np.where(np.arange(len(x))[:, None] == 3, np.nan, x),
            f"1 recording of {len(x)} without a value (all NaN)",
        ),
        ({"modality": "text"}, texts, "modality is 'text', expected auto, images, dna, proteins, letters:ABC"),
    ):
        assert message in refusal(Discovery(**options).fit, samples), message
    one, starts = recordings()
    flat = np.stack([one, np.full_like(one, 3)], 1)
    with pytest.warns(UserWarning, match=r"1 channel of 2 \(counted from 0: 1\) is flat in all pieces, ignored"):
        model = Discovery(modality="series", windows=[30]).fit(flat)
    offsets = model.search_.candidates(flat)["start"] - starts[:, 0]
    assert np.array_equal(model.locate(flat[:1])["start"], model.locate(flat)["start"][:1])  # in one piece
    assert (abs(offsets - np.median(offsets)) <= 4).mean() > 0.9
    two = Discovery(modality="series", windows=[20]).fit(np.stack([one[:20]] * 2, 1))
    assert "recordings of 1 channels, but the model was fitted on 2" in refusal(two.locate, one)


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("VIEWSMITH_DATA"), reason="VIEWSMITH_DATA names no folder of data sets")
def test_heart_beats_of_an_electrocardiogram(data_dir):
    with np.load(data_dir / "events" / "ecg100.npz") as content:
        x, beats, rate = content["X"], content["beats"], int(content["rate"])
    model = Discovery(windows=[67]).fit(x)
    found = model.locate(x)
    offsets = [start - row[row >= 0] for start, row in zip(found["start"], beats[found["sample"]], strict=True)]
    hits = [np.mean([(abs(o - d) <= rate * 0.05).any() for o in offsets]) for d in range(-100, 40)]
    assert len(found) >= 0.99 * len(x) and max(hits) >= 0.97


def test_events_are_found_in_small_units_and_short_recordings_are_refused(event, tmp_path):
    x, _, _ = event
    small = Discovery(windows=[40]).fit(1e-13 * x)  # tesla
    small.save(tmp_path / "small")
    found = Discovery.load(tmp_path / "small").locate(1e-13 * x)
    assert len(found) >= 76 and np.array_equal(found, small.locate(1e-13 * x))
    assert "20 points, expected at least 40" in refusal(small.locate, x[:, :20])
