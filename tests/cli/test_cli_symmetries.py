"""Symmetries of data: sets that have them and sets that do not, slow forms, bad input, the command."""

import json

import numpy as np
import pytest
from cli_tools import call, good

from drawn_strokes import strokes
from refusals import refusal
from viewsmith.evaluation.symmetries import nearest, symmetries
from viewsmith.modalities import modality_of

RNG = np.random.default_rng(0)


SAMPLES = {
    "images": RNG.integers(0, 256, (60, 8, 8, 3), dtype=np.uint8),
    "dna": np.frombuffer(b"ACGT", np.uint8)[RNG.integers(0, 4, (60, 30))],
    "series": RNG.normal(size=(60, 2, 20)).astype(np.float32),
    "vectors": RNG.normal(size=(60, 5)).astype(np.float32),
}


TRANSFORMATIONS = {name: modality_of(name).transformations(x.shape[1:]) for name, x in SAMPLES.items()}


def test_a_set_without_a_symmetry_and_one_with_it():
    (one,) = symmetries(strokes(200), "images", {"mirror": TRANSFORMATIONS["images"]["mirror"]})
    assert not one.on_the_data and one.told_apart > 0.95 and one.ratio > 1.3
    (other,) = symmetries(strokes(mirrored=True), "images", {"mirror": TRANSFORMATIONS["images"]["mirror"]})
    assert other.on_the_data and other.told_apart < 0.65 and 0.9 < other.ratio < 1.1
    assert one.ratio_interval[0] <= one.ratio <= one.ratio_interval[1]
    assert "mirror: off the data, told apart in" in one.describe()


@pytest.mark.parametrize("modality", ["dna", "vectors"])
def test_no_classifier_tells_apart_what_has_the_same_distribution(modality):
    """In high dimensions, samples have more variance along axes that are fitted to them alone."""
    rng = np.random.default_rng(3)
    x = {
        "dna": np.frombuffer(b"ACGT", np.uint8)[rng.integers(0, 4, (400, 150))],
        "vectors": rng.normal(size=(400, 300)),
    }
    name = {"dna": "reverse-complement", "vectors": "sign-flip"}[modality]
    (test,) = symmetries(x[modality], modality, {name: TRANSFORMATIONS[modality][name]})
    assert max(test.linear, test.nonlinear) < 0.58 and 0.98 < test.ratio < 1.02


def test_a_letter_at_a_fixed_place_is_seen_where_frequencies_of_words_do_not_show_it():
    x = np.frombuffer(b"ACGT", np.uint8)[RNG.integers(0, 4, (400, 41))]
    x[:, 20] = ord("C")
    (test,) = symmetries(x, "dna", {"reverse-complement": TRANSFORMATIONS["dna"]["reverse-complement"]})
    assert test.told_apart > 0.95 and test.on_the_data


def test_groups_are_on_one_side_of_a_held_out_test(tmp_path):
    """Rows of a group differ by noise: without groups, its original rows tell its transformed rows apart."""
    centers = np.random.default_rng(4).normal(size=(40, 30))
    groups = np.repeat(np.arange(40), 10)
    x = centers[groups] + 0.01 * np.random.default_rng(5).normal(size=(400, 30))
    flip = {"sign-flip": TRANSFORMATIONS["vectors"]["sign-flip"]}
    (apart,), (whole,) = symmetries(x, "vectors", flip), symmetries(x, "vectors", flip, groups=groups)
    assert apart.told_apart > 0.9 and whole.told_apart < 0.75
    np.savez(tmp_path / "x.npz", X=x, batch=groups)
    found = json.loads(good("symmetries", tmp_path / "x.npz", "--groups", "batch", "--json").out)
    assert found[0]["name"] == "sign-flip" and found[0]["told_apart"] < 0.75


def test_equal_samples_do_not_narrow_the_intervals():
    x = np.random.default_rng(6).normal(size=(60, 5))
    (test,) = symmetries(np.repeat(x, 4, axis=0), "vectors", {"sign-flip": TRANSFORMATIONS["vectors"]["sign-flip"]})
    (low, high), (least, largest) = test.told_apart_interval, test.ratio_interval
    assert high - low > 0.2 and largest - least > 0.05


def test_images_of_one_pixel_and_sequences_without_a_word():
    x = np.arange(200, dtype=np.uint8).reshape(-1, 1, 1)
    assert [test.name for test in symmetries(x, "images")] == ["color-inversion"]
    nothing = np.full((80, 40), ord("N"), np.uint8)
    assert "1 different samples, expected at least 50" in refusal(symmetries, nothing, "dna")
    cut = np.where(np.arange(100)[None] < np.arange(1, 81)[:, None], np.uint8(ord("N")), np.uint8(0))
    assert all(test.on_the_data for test in symmetries(cut, "dna"))


@pytest.mark.parametrize("modality", TRANSFORMATIONS)
def test_every_transformation_keeps_shape_and_dtype_and_repeats(modality):
    x = SAMPLES[modality]
    for transform in TRANSFORMATIONS[modality].values():
        assert transform(x).shape == x.shape and transform(x).dtype == x.dtype
    assert symmetries(x, modality) == symmetries(x, modality)
    assert {test.name for test in symmetries(x, modality)} == set(TRANSFORMATIONS[modality])


def test_reverse_complements_of_sequences_with_padding():
    x = np.frombuffer(b"ACGTN\0\0aaG\0\0\0\0", np.uint8).reshape(2, 7)
    found = TRANSFORMATIONS["dna"]["reverse-complement"](x)
    assert found.tobytes() == b"NACGT\0\0Ctt\0\0\0\0"


def test_the_nearest_other_sample_against_a_loop():
    rows, queries, kinds = RNG.normal(size=(12, 3)), RNG.normal(size=(12, 3)), RNG.integers(0, 9, 12)
    loop = [min(np.linalg.norm(queries[i] - rows[j]) for j in range(12) if kinds[j] != kinds[i]) for i in range(12)]
    np.testing.assert_allclose(nearest(queries, rows, kinds), loop)


def test_gray_images_and_oblong_ones_have_fewer_transformations():
    x = RNG.integers(0, 256, (60, 8, 12), dtype=np.uint8)
    assert [test.name for test in symmetries(x, "images")] == ["mirror", "upside-down", "color-inversion"]


def test_what_cannot_be_tested():
    assert "1 different samples, expected at least 50" in refusal(symmetries, np.zeros((80, 8, 8), np.uint8), "images")
    assert "40 different samples" in refusal(symmetries, SAMPLES["vectors"][:40], "vectors")
    cut = {"cut": lambda x: x[:, :2]}
    assert "the transformation cut gives (60, 2), expected" in refusal(symmetries, SAMPLES["vectors"], "vectors", cut)


def test_the_command(tmp_path):
    np.savez(tmp_path / "strokes.npz", X=strokes(200))
    header, mirror, *_ = good("symmetries", tmp_path / "strokes.npz").out.splitlines()
    assert header.split()[0] == "transformation" and mirror.split()[:4] == ["mirror", "off", "the", "data"]
    found = json.loads(good("symmetries", tmp_path / "strokes.npz", "--json").out)
    assert found[0]["name"] == "mirror" and found[0]["on_the_data"] is False
    np.savez(tmp_path / "few.npz", X=strokes(20))
    assert call("symmetries", tmp_path / "few.npz").refused("20 different samples, expected at least 50")


@pytest.mark.parametrize("how", [(), ("--stream",), ("--transductive",)])
def test_fit_says_what_it_chose_and_its_report_shows_it(tmp_path, how):
    np.save(tmp_path / "strokes.npy", strokes(200))
    command = ("fit", tmp_path / "strokes.npy", "--modality", "images", "--epochs", 1, *how)
    assert "mirror: off, told apart in" in good(*command, "--out", tmp_path / "run").err
    page = (tmp_path / "run" / "report.html").read_text()
    assert "<h3>Symmetries" in page and 'id="views"' in page
    assert "mirror: " not in good(*command, "--set", "flip=0.5", "--out", tmp_path / "forced").err
    assert "<h3>Symmetries" not in (tmp_path / "forced" / "report.html").read_text()


def test_reports_show_samples_that_are_too_few_for_a_test(tmp_path):
    np.save(tmp_path / "few.npy", strokes(20))
    command = ("fit", tmp_path / "few.npy", "--modality", "images", "--epochs", 1)
    assert "mirror: on, not tested: 20 different samples" in good(*command, "--out", tmp_path / "run").err
    page = (tmp_path / "run" / "report.html").read_text()
    assert "<td>not tested</td>" in page.partition("<h3>Symmetries")[2]


def test_stronger_views_leave_the_data(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.random.default_rng(0).normal(size=(200, 8)))
    options = ("--option", "noise_strength", "--values", ".1,4", "--views", "noise", "--json")
    curve = json.loads(good("symmetries", tmp_path / "x.npz", *options).out)
    weak, strong = curve
    assert [each["name"] for each in curve] == ["noise_strength 0.1", "noise_strength 4"]
    assert weak["ratio"] < 1.1 and weak["on_the_data"] and strong["ratio"] > 2 and not strong["on_the_data"]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (("--option", "flip"), "--option is given without --values"),
        (("--values", "1"), "--values is given without --option"),
        (("--option", "noise_strength", "--values", "a"), "--values is 'a', expected numbers separated by commas"),
        (("--option", "nothing", "--values", "1"), "option is 'nothing', expected an option of views"),
    ],
)
def test_a_curve_that_cannot_be_made(tmp_path, given, line):
    np.savez(tmp_path / "x.npz", X=np.random.default_rng(0).normal(size=(60, 4)))
    assert call("symmetries", tmp_path / "x.npz", *given).refused(line)
