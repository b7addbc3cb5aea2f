"""Discovery in images: the contrast and the boxes against slow forms, found parts, nothing found, files, bad input."""

import csv
import dataclasses
import os
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

import viewsmith
from cases import slow
from located_discs import noise, with_discs
from refusals import refusal
from small_searches import smaller
from viewsmith import Discovery
from viewsmith.core.errors import InputError
from viewsmith.core.tensors import save_tensors
from viewsmith.data.any_size import as_images, read_samples
from viewsmith.methods.discovery import image_parts
from viewsmith.methods.discovery.contrast import (
    FAR,
    MIXED,
    Contrast,
    Gaussian,
    Moments,
    Search,
    Typical,
    best_boxes,
    folds,
    held_out_scores,
    q_values,
    sized_boxes,
)
from viewsmith.methods.discovery.images import PARTS, random_phases

pytestmark = pytest.mark.usefixtures("small_searches")


@pytest.fixture(scope="module")
def discs():
    """Images with a disc each, their centers, and the fitted model."""
    x, centers = with_discs(40)
    with smaller():
        return x, centers[:, 0], Discovery().fit(x)


def test_two_halves_that_agree_and_places_that_are_not_sure(discs):
    x, _, model = discs
    assert model.search_.steady > 0.95 and model.search_.least_q[0] < 0.1
    assert "not steady" not in model.describe(model.locate(x), len(x))
    model.search_.steady = 0.5
    try:
        assert "not steady: searches in two halves of them agree on the place in 50%" in model.describe(
            model.locate(x), 40
        )
        none = model.describe(model.locate(x)[:0], 40)  # what to do comes before how steady it is
        assert none.startswith("something may recur, but no place") and "; not steady" in none
        model.max_q = model.search_.least_q[0] / 2
        assert model.describe().startswith("something may recur, but no place is sure enough: the surest has q = 0.0")
    finally:
        model.search_.steady, model.max_q = 1.0, 0.1


# ---- equations ------------------------------------------------------------------------------------------------------


def test_contrast_is_the_log_ratio_of_two_gaussians():
    rng = np.random.default_rng(0)
    chosen, everything = rng.normal(1, 1, (40, 3)), rng.normal(0, 2, (200, 3))
    scores = Contrast.of(Moments.of(chosen), Moments.of(everything))(everything)
    whole = np.cov(everything.T, bias=True)
    mixed = (1 - MIXED) * np.cov(chosen.T, bias=True) + MIXED * whole
    expected = multivariate_normal(chosen.mean(0), mixed).logpdf(everything)
    expected -= multivariate_normal(everything.mean(0), whole).logpdf(everything)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)


def test_the_score_of_a_kind_has_both_densities_at_any_distance():
    rng = np.random.default_rng(0)
    chosen, everything = rng.normal(2, 1, (40, 3)), rng.normal(0, 1, (200, 3))
    contrast = Contrast.of(Moments.of(chosen), Moments.of(everything))
    z = np.concatenate([everything[:20], rng.normal(0, 6, (20, 3))]).astype(np.float32)
    p, u = (
        np.max([multivariate_normal(g.mean, c * g.factor @ g.factor.T).logpdf(z) for c in np.geomspace(1, 400, 400)], 0)
        for g in (contrast.chosen, contrast.all_windows)
    )
    np.testing.assert_allclose(contrast.of_kind(z), p - u, rtol=1e-3, atol=1e-3)


def test_an_outlier_of_its_kind_is_not_the_best_one():
    """What is far from everything has the highest ratio of densities, in whatever direction it is."""
    rng = np.random.default_rng(0)
    everything, chosen = rng.normal(size=(2000, 8)), rng.normal(0, 1.3, (60, 8)) + np.eye(8)[0] * 5
    contrast = Contrast.of(Moments.of(chosen), Moments.of(np.concatenate([everything, chosen])))
    outlier = np.concatenate([chosen, np.eye(8)[[1]] * 15])
    assert contrast(outlier).argmax() == 60
    of_kind = contrast.of_kind(outlier)
    assert of_kind[60] < np.quantile(of_kind[:60], 0.05)


def test_held_out_scores_leave_the_own_fold_out():
    rng = np.random.default_rng(0)
    z = [rng.normal(f, 1, (30, 2)) for f in range(3)]
    moments = [Moments.of(rows) for rows in z]
    for own, scores in enumerate(held_out_scores(moments, moments, z)):
        others = np.concatenate([rows for f, rows in enumerate(z) if f != own])
        expected = Contrast.of(Moments.of(others), Moments.of(np.concatenate(z)))(z[own])
        np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-9)


def test_windows_are_averaged_over_all_blocks_of_images(monkeypatch):
    maps = np.random.default_rng(0).normal(size=(5, 4, 6, 3)).astype(np.float32)
    monkeypatch.setattr(image_parts, "BLOCK", 2)
    for i, row, column in np.ndindex(5, 3, 5):
        expected = maps[i, row : row + 2, column : column + 2].mean((0, 1))
        np.testing.assert_allclose(image_parts.window_means(maps, 2)[i, row, column], expected, rtol=1e-4, atol=1e-6)


def test_folds_are_of_equal_size_and_repeat():
    assert sorted(np.bincount(folds(10, 0))) == [2, 2, 3, 3]
    assert (folds(10, 0) == folds(10, 0)).all()
    assert folds(3, 0).max() == 2


@pytest.mark.parametrize("smallest", [1, 3])
def test_best_boxes_against_all_rectangles(smallest):
    maps = np.random.default_rng(0).normal(-0.2, 1, (5, 6, 7))
    boxes, sums = best_boxes(maps, smallest)
    for one, box, total in zip(maps, boxes, sums, strict=True):
        best = max(
            one[t:b, lft:r].sum()
            for t in range(6)
            for b in range(t + smallest, 7)
            for lft in range(7)
            for r in range(lft + smallest, 8)
        )
        assert total == pytest.approx(best)
        assert one[box[0] : box[2], box[1] : box[3]].sum() == pytest.approx(best)


@pytest.mark.parametrize("size", [(2.0, 3.0), (5.0, 2.5)])
def test_boxes_of_typical_size_against_all_rectangles(size):
    maps = np.random.default_rng(0).normal(-0.2, 1, (5, 6, 7))
    maps[0] = -1  # no box
    boxes, values = sized_boxes(maps, np.array(size), 2)
    for one, box, value in zip(maps, boxes, values, strict=True):
        top, left, bottom, right = box
        weighted = {
            (t, lft, b, r): one[t:b, lft:r].sum()
            * np.exp(-0.5 * (np.log2((b - t) / size[0]) ** 2 + np.log2((r - lft) / size[1]) ** 2))
            for t in range(6)
            for b in range(t + 2, 7)
            for lft in range(7)
            for r in range(lft + 2, 8)
        }
        assert value == pytest.approx(max(0, *weighted.values()))
        assert weighted[top, left, bottom, right] == pytest.approx(value) if value else not box.any()


def test_q_values_against_a_loop():
    rng = np.random.default_rng(0)
    scores, null = rng.normal(1, 1, 30), rng.normal(size=50)
    p = np.array([(1 + (null >= s).sum()) / 51 for s in scores])
    expected = [min(1.0, *(p[j] * 40 / (p <= p[j]).sum() for j in range(30) if p[j] >= p[i])) for i in range(30)]
    np.testing.assert_allclose(q_values(scores, null, 40), expected)
    assert len(q_values(np.zeros(0), null, 0)) == 0


def test_q_values_of_several_parts_in_a_sample_count_all_that_samples_without_one_have():
    """Up to 12 windows of noise in each sample: none of them is listed."""
    rng = np.random.default_rng(0)
    scores, null = (np.sort(rng.normal(size=(n, 40)))[:, :-13:-1] for n in (300, 200))
    expected = np.array([300 * (1 + (null >= s).sum()) / 201 for s in scores.ravel()])
    rank = np.array([(scores >= s).sum() for s in scores.ravel()])
    q = q_values(scores.ravel(), null, 300)
    worst = [min(1.0, *(expected / rank)[scores.ravel() <= s]) for s in scores.ravel()]
    np.testing.assert_allclose(q, worst)
    assert (q > 0.5).all()


@pytest.mark.parametrize("columns", [1, 3])
def test_more_parts_of_a_sample_never_list_fewer_samples(columns):
    """The first part of a sample has at most the q-value that it has alone. The first one of nothing counts twice, as a
    wrong first part and as a later one; a null of one place counts for three."""
    rng = np.random.default_rng(0)
    null = np.sort(rng.normal(size=(200, columns)))[:, ::-1]
    first = rng.normal(2, 1, 100)
    scores = np.stack([first, first - rng.exponential(1, 100), first - 1 - rng.exponential(1, 100)])

    def q_of(max_parts):
        rows = np.zeros(100 * max_parts, PARTS)
        rows["sample"], rows["score"] = np.tile(np.arange(100), max_parts), scores[:max_parts].ravel()
        return Search(max_parts=max_parts, null=[null]).with_q_values(rows, 100)

    one, three = q_of(1), q_of(3)
    np.testing.assert_array_equal(one["q"], q_values(first, null[:, :1], 100))
    assert (three["q"][::3] <= one["q"]).all() and (three["sample"] == np.repeat(np.arange(100), 3)).all()
    assert set(one["sample"][one["q"] <= 0.1]) <= set(three["sample"][three["q"] <= 0.1])
    places = null[:, [0, 0, 1]] if columns == 3 else np.repeat(null, 3, 1)
    further = q_values(scores.T.ravel(), places, 100).reshape(100, 3)[:, 1:]
    np.testing.assert_array_equal(three["q"].reshape(100, 3)[:, 1:], further)


# ---- what is found --------------------------------------------------------------------------------------------------


def test_every_disc_is_found_with_its_size(discs):
    x, centers, model = discs
    found = model.locate(x)
    assert model.recurs_
    assert found["sample"].tolist() == list(range(len(x)))
    middle = np.stack([found["top"] + found["bottom"], found["left"] + found["right"]], 1) / 2
    assert np.abs(middle - centers).max() <= 6
    assert 14 <= np.median(found["right"] - found["left"]) <= 24


def test_what_was_found_is_said_in_plain_words(discs):
    x, _, model = discs
    found = model.locate(x)
    said = model.describe(found, len(x))
    size = np.median(found["right"] - found["left"] + found["bottom"] - found["top"]) / 2
    assert said == f"a thing of about {size:.0f} pixels is in 40 of 40 images; about 1 of these may be wrong"
    assert model.describe(found[:0], len(x)).startswith("something may recur, but no place is sure enough")
    doubtful = found.copy()
    doubtful["q"] = 0.25
    assert "about 10 of these may be wrong" in model.describe(doubtful, len(x))


def test_new_images_and_images_without_a_disc(discs):
    _, _, model = discs
    x = np.concatenate([with_discs(20, seed=5)[0], noise(20, seed=6)])
    found, scores = model.locate(x), model.score_samples(x)
    assert set(range(20)) <= set(found["sample"])
    assert (found["sample"] >= 20).sum() <= 4
    assert scores[:20].min() > scores[20:].max()


def test_a_part_of_another_color_is_flagged_and_comes_last(discs):
    _, _, model = discs
    x, centers = with_discs(20, seed=5)
    row, column = np.mgrid[: x.shape[1], : x.shape[2]]
    x[0][np.hypot(row - centers[0, 0, 0], column - centers[0, 0, 1]) < 9] = 200, 30, 200
    found = model.locate(x)
    assert found["sample"][found["outlier"]].tolist() == [0]
    assert model.describe(found, 20).endswith("; 1 of these, unlike the others, comes last")
    for n in (3, 12):
        model.search_.max_parts = n
        more = model.locate(x)
        assert (
            set(found["sample"]) <= set(more["sample"])
            and not (np.diff(more["outlier"][more["sample"] == 0]) < 0).any()
        )
    model.search_.max_parts = 1


def test_typical_parts_against_a_loop():
    """Outliers are far out of the distances of all parts, each from those of the other folds."""
    z = np.concatenate([np.random.default_rng(0).normal(size=(40, 3)), [[9.0, 0, 0]]])
    typical, fold = Typical.of(z, 1), folds(41, 1)

    def density(rows):
        return Gaussian.of(rows.mean(0), (1 - MIXED) * np.cov(rows.T, bias=True) + MIXED * np.eye(3))

    kept = np.arange(41) < 40
    for last in (False, True):
        rest = kept if last else kept | True
        held = np.array([np.sqrt(density(z[rest & (fold != fold[i])]).distance(z[[i]])[0]) for i in range(41)])
        low, high = np.quantile(held, (0.25, 0.75))
        assert (held > high + FAR * max(high - low, 1)).tolist() == (~kept).tolist()
    assert typical.limit == pytest.approx(high + FAR * max(high - low, 1))
    assert typical.outliers(z).tolist() == (~kept).tolist()
    assert not Typical.of(z[:0]).outliers(z).any() and not Typical.of(z[:1]).outliers(z).any()


def test_a_black_background_and_parts_that_fill_the_images():
    rng = np.random.default_rng(0)
    black = np.zeros((30, 48, 48), np.uint8)
    black[:, 16:36, 10:30] = rng.integers(0, 256, (30, 20, 20))
    assert Discovery(random_state=0).fit(black).describe().startswith("one kind of thing recurs")
    whole = rng.integers(0, 256, (30, 48, 48), np.uint8)
    whole[:, 1:-1, 1:-1] = np.arange(46, dtype=np.uint8)
    Discovery(random_state=0).fit(whole)  # whatever it finds, without an error


def test_windows_that_do_not_fit_beside_the_part_have_q_values():
    rng = np.random.default_rng(0)
    x = np.zeros((40, 84, 84), np.uint8)
    x[:, 30:58, 20:48] = rng.integers(0, 256, (40, 28, 28))
    parts = Discovery(windows=(9,), random_state=0).fit(x).locate(x)
    assert len(parts) == 40 and (parts["q"] < 0.05).all()


def test_several_parts_of_an_image():
    x, _ = with_discs(30, per_image=2, width=128)
    found = Discovery(max_parts=3).fit(x).locate(x)
    assert np.mean(np.bincount(found["sample"], minlength=30) >= 2) > 0.95


def test_parts_that_touch_do_not_become_one():
    x, _ = with_discs(45, width=96)
    row, column = np.mgrid[:64, :96]
    for image in x[::3]:  # three discs side by side
        image[:] = noise(1, width=96)[0]
        for center in (30, 48, 66):
            image[(row - 32) ** 2 + (column - center) ** 2 < 81] = (110, 40, 160)
    found = Discovery().fit(x).locate(x)
    widths = (found["right"] - found["left"])[found["sample"] % 3 == 0]
    assert len(widths) == 15 and widths.max() <= 36 and np.median(found["right"] - found["left"]) <= 24


def test_what_is_no_part_is_not_masked():
    x, _ = with_discs(40)
    model = Discovery().fit(x).search_
    maps, valid = model._maps(as_images(x), np.arange(40))
    for boxes, scores in image_parts.boxes_of(model.parts[0], maps, valid, 4)[1:]:
        assert (boxes[~np.isfinite(scores)] == 0).all()  # one disc in each image: no further part


def test_images_of_several_sizes_and_gray_ones():
    tall, wide = with_discs(15, height=96)[0], with_discs(15, seed=3, width=96)[0]
    mixed = [*tall, *wide]
    found = Discovery().fit(mixed).locate(mixed)
    assert len(np.unique(found["sample"])) >= 29
    for part in found:
        height, width = mixed[part["sample"]].shape[:2]
        assert 0 <= part["left"] < part["right"] <= width
        assert 0 <= part["top"] < part["bottom"] <= height
    gray = with_discs(20)[0][..., 1]
    assert Discovery().fit(gray).locate(gray)["sample"].tolist() == list(range(20))


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [-1.0, -2.0])
def test_nothing_recurs_in_smooth_textures(exponent):
    """Extremes of smooth noise look like parts; images with the same spectrum and random phases have them, too."""
    frequency = np.hypot(np.fft.fftfreq(64)[:, None], np.fft.fftfreq(64)[None])
    frequency[0, 0] = 1
    made = np.fft.ifft2(np.fft.fft2(np.random.default_rng(0).normal(size=(60, 3, 64, 64))) * frequency**exponent).real
    x = np.clip(made / made.std((2, 3), keepdims=True) * 40 + 128, 0, 255).astype(np.uint8).transpose(0, 2, 3, 1)
    with pytest.warns(UserWarning, match="nothing recurs"):
        assert not Discovery().fit(x).recurs_


def test_random_phases_of_an_image_keep_its_spectrum_and_its_colors():
    image = noise(1)[0] // 4 + 96  # nothing is cut at 0 and 255
    drawn = random_phases(image, np.random.default_rng(0))
    spectra = [abs(np.fft.fft2(each.astype(float), axes=(0, 1))) for each in (image, drawn)]
    np.testing.assert_allclose(*spectra, rtol=0.1, atol=60)  # of rounded pixels
    colors = [np.cov(each.reshape(-1, 3).T) for each in (image, drawn)]
    np.testing.assert_allclose(*colors, rtol=0.05, atol=1)


@pytest.mark.parametrize("seed", [0, slow(1), slow(2)])
def test_nothing_recurs_in_noise(seed):
    model = Discovery()
    x = noise(60, seed)
    with pytest.warns(
        UserWarning, match="nothing recurs in these samples: the best candidate is not one thing in each"
    ):
        model.fit(x)
    assert not model.recurs_
    assert len(model.locate(x)) == 0
    assert np.isneginf(model.score_samples(x)).all()
    assert model.crops(x)[0].shape == (0, 32, 32, 3)


def test_crops_are_squares_with_the_disc(discs):
    x, _, model = discs
    crops, found = model.crops(x, 16)
    assert crops.shape == (len(found), 16, 16, 3)
    assert np.abs(crops[:, 6:10, 6:10].mean((0, 1, 2)) - (110, 40, 160)).max() < 15


def test_own_features_and_those_that_give_no_map(discs):
    x, _, _ = discs

    def colors(images):
        maps = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
        return torch.nn.functional.avg_pool2d(torch.cat([maps, maps**2], 1), 4)

    model = Discovery(features=colors).fit(x)
    assert len(model.locate(x)) == len(x)
    assert "features is of the type function, which cannot be saved" in refusal(model.save, "unused")
    with pytest.raises(InputError, match=r"the features give \(16, 3\) for 16 images, expected maps \(n, d, h, w\)"):
        Discovery(features=lambda images: torch.zeros(len(images), 3)).fit(x)


def test_saved_and_loaded_model_is_the_same(discs, tmp_path):
    x, _, model = discs
    model.save(tmp_path / "run")
    loaded = Discovery.load(tmp_path / "run")
    assert (loaded.locate(x) == model.locate(x)).all()
    assert (Discovery().fit(x).locate(x) == model.locate(x)).all()
    assert loaded.get_params()["image_size"] == 128
    (tmp_path / "run" / "model.safetensors").unlink()
    assert "no weights at" in refusal(Discovery.load, tmp_path / "run")


# ---- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (noise(1), "1 image, expected at least 4"),
        (np.zeros((20, 64, 64), np.uint8), "all samples are equal"),
        (noise(8)[:, :28], "the smallest image has 28 pixels on its shorter side"),
        (np.zeros((8, 64, 64)), "the data are float64 of shape"),
        (np.zeros((0, 64, 64), np.uint8), "without images"),
        ("images", "the data are of type str without images"),
    ],
)
def test_data_that_cannot_be_used(x, message):
    with pytest.raises(InputError, match=message):
        Discovery().fit(x)


@pytest.mark.parametrize(
    "options", [{"kinds": 0}, {"max_parts": 1.5}, {"windows": ()}, {"windows": (1,)}, {"max_q": 0}, {"features": "x"}]
)
def test_options_out_of_range(options):
    with pytest.raises(InputError, match=f"{next(iter(options))} is .*, expected"):
        Discovery(**options).fit(noise(8))


def test_other_number_of_channels(discs):
    model, x = discs[2], discs[0][:4]
    assert "images with 2 channels, but the model was fitted on 3" in refusal(model.locate, noise(4)[..., :2])
    gray = x[..., :1]
    assert np.array_equal(model.locate(gray), model.locate(np.repeat(gray, 3, 3)))
    of_gray = Discovery(windows=(4, 6), image_size=64).fit(discs[0][..., :1])
    assert np.array_equal(of_gray.locate(gray), of_gray.locate(np.repeat(gray, 3, 3)))
    message = refusal(of_gray.locate, [*np.repeat(gray, 3, 3)[:2], x[2]])
    assert "1 image of 3 in color, and the model was fitted on gray ones: 2; leave them out" in message


# ---- real images ----------------------------------------------------------------------------------------------------

needs_data = pytest.mark.skipif("VIEWSMITH_DATA" not in os.environ, reason="needs VIEWSMITH_DATA")


@needs_data
@pytest.mark.slow
def test_white_cells_in_blood_smears():
    folder = Path(os.environ["VIEWSMITH_DATA"]) / "objects" / "bccd"
    images, names, *_ = read_samples(str(folder / "images"))
    truth = {name: [] for name in names}
    with (folder / "boxes.csv").open() as file:
        for row in csv.DictReader(file):
            if row["class"] == "WBC":
                truth[row["file"]].append([float(row[side]) for side in ("left", "top", "right", "bottom")])
    with warnings.catch_warnings(action="error"):
        found = Discovery().fit(images).locate(images)
    center = overlap = 0
    for part in found:
        left, top, right, bottom = (part[side] for side in ("left", "top", "right", "bottom"))
        x, y, most = (left + right) / 2, (top + bottom) / 2, 0.0
        for a, b, c, d in truth[names[part["sample"]]]:
            center += a <= x <= c and b <= y <= d
            shared = max(0, min(right, c) - max(left, a)) * max(0, min(bottom, d) - max(top, b))
            most = max(most, shared / ((right - left) * (bottom - top) + (c - a) * (d - b) - shared))
        overlap += most >= 0.5
    with_cell = sum(map(bool, truth.values()))
    assert center / with_cell >= 0.995
    assert overlap / with_cell >= 0.97
    assert as_images(images) is images


# ---- features of networks -------------------------------------------------------------------------------------------


class Halved(torch.nn.Module):
    """Two layers of maps with cells of 4 and 8 pixels."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Conv2d(3, 24, 7, stride=4, padding=3)
        self.second = torch.nn.Conv2d(24, 32, 3, stride=2, padding=1)

    def forward(self, x):
        return self.second(self.first(x).relu()).mean((2, 3))


def test_a_network_gives_maps_of_its_deepest_small_cells(discs):
    x, centers, _ = discs
    model = Discovery(features=Halved()).fit(x)
    assert (model.search_.dense.stride, model.search_.dense.maps.layer) == (8, "second")
    assert model.search_._maps(as_images(x[:2]), np.arange(2))[0].shape[1:3] == (x.shape[1] // 4, x.shape[2] // 4)
    found = model.search_.candidates(x)
    best = found[np.unique(found["sample"], return_index=True)[1]]
    middle = np.stack([best["top"] + best["bottom"], best["left"] + best["right"]], 1) / 2
    assert model.recurs_ and np.median(np.abs(middle - centers)) <= 6
    named = Discovery(features=Halved(), feature_layer="first").fit(x[:20])
    assert named.search_.dense.stride == 4


def test_a_trained_model_gives_the_features_and_is_saved_with_them(discs, tmp_path):
    x, _, _ = discs
    trained = viewsmith.Contrastive(encoder="cnn", epochs=1, batch_size=30, random_state=0).fit(x)
    trained.save(tmp_path / "run")
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # it may find nothing after one epoch
        model = Discovery(windows=[5], features=str(tmp_path / "run")).fit(x[:20])
        same = Discovery(windows=[5], features=trained).fit(x[:20])
    assert np.array_equal(model.score_samples(x), same.score_samples(x))
    model.save(tmp_path / "found")
    (tmp_path / "run").rename(tmp_path / "moved")
    loaded = viewsmith.load(tmp_path / "found")
    assert np.array_equal(loaded.score_samples(x), model.score_samples(x))
    gray = refusal(Discovery(features=trained).fit, x[..., 0])
    assert "expected one that was trained on images with 1 channels" in gray


def test_timm_gives_features_with_its_weights_and_pixels(discs, tmp_path, monkeypatch):
    x, _, _ = discs

    def create_model(name, *, num_classes, in_chans):
        network = Halved()
        network.pretrained_cfg = {"mean": (0.5, 0.4, 0.3), "std": (0.2, 0.2, 0.2)}
        return network

    library, builder = types.ModuleType("timm"), types.ModuleType("timm.models._builder")
    library.create_model = create_model
    builder.load_pretrained = lambda network, **_: torch.nn.init.constant_(network.first.bias, 0.25)
    monkeypatch.setitem(sys.modules, "timm", library)
    monkeypatch.setitem(sys.modules, "timm.models._builder", builder)
    x = x[:20]
    model = Discovery(features="timm:halved").fit(x)
    dense = model.search_.dense
    assert dense.center.tolist() == pytest.approx([0.5, 0.4, 0.3])
    assert float(dense.maps.encoder.module.first.bias.detach()[0]) == 0.25
    model.save(tmp_path / "found")
    builder.load_pretrained = None  # a saved model needs neither the cache nor the network
    assert np.array_equal(viewsmith.load(tmp_path / "found").score_samples(x), model.score_samples(x))
    save_tensors(tmp_path / "w.safetensors", Halved().state_dict() | {"fc.weight": torch.zeros(2, 2)})
    given = Discovery(features="timm:halved", feature_weights=str(tmp_path / "w.safetensors")).fit(x)
    assert float(given.search_.dense.maps.encoder.module.first.bias.detach()[0]) != 0.25


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_the_image_with_a_value_that_is_not_finite_is_named(discs, value):
    x = discs[0].astype(np.float32)
    x[7, 20, 20] = value
    for given in (x, list(x)):
        assert f"1 image of {len(x)} with missing (NaN) or infinite values (counted from 0): 7;" in refusal(
            Discovery().fit, given
        )


def test_features_that_cannot_be_used(discs, tmp_path):
    x, _, _ = discs
    nothing = refusal(Discovery(features=str(tmp_path / "none")).fit, x)
    assert "none" in nothing
    assert "feature_weights is 'w'" in refusal(Discovery(feature_weights="w").fit, x)
    assert "feature_layer is 'a', but the features are no network" in refusal(Discovery(feature_layer="a").fit, x)
    layer = refusal(Discovery(features=Halved(), feature_layer="third").fit, x)
    assert layer == "the network has no layer 'third' that gives maps: choose first, second"
    linear = refusal(Discovery(features=torch.nn.Linear(3, 2)).fit, x)
    assert "fails on images of 224 x 224 pixels with 3 channels" in linear
    vectors = refusal(Discovery(features=torch.nn.Sequential(torch.nn.Flatten(), torch.nn.LazyLinear(4))).fit, x)
    assert vectors.endswith("for images of 224 x 224 pixels: use another encoder or larger images")
    one = refusal(Discovery(features=lambda images: torch.zeros(len(images), 3, 1, 1)).fit, x)
    assert "the features have maps of 1 x 1 cells, expected at least 8 on each side" in one
    missing = refusal(Discovery(features=lambda images: torch.full((len(images), 3, 24, 24), torch.nan)).fit, x)
    assert "have NaN or infinite values" in missing
    assert "which cannot be saved" in refusal(Discovery(features=Halved()).fit(x).save, tmp_path / "out")
    assert "features is 3, expected" in refusal(Discovery(features=3).fit, x)


def test_a_part_at_the_border_is_found_with_large_windows():
    x, _ = with_discs(40)
    x = np.ascontiguousarray(x[:, :, 12:])  # discs lose their left side
    model = Discovery(windows=[6]).fit(x)
    assert len(np.unique(model.search_.candidates(x)["sample"])) == len(x)


def test_images_of_other_things_are_told_and_small_ones_have_no_part(discs, monkeypatch):
    model, x = discs[2], discs[0][:8]
    with monkeypatch.context() as patch:
        patch.setattr(model.search_, "typical", [dataclasses.replace(model.search_.typical[0], limit=0.0)])
        with pytest.warns(UserWarning, match="8 of 8 parts are unlike those that it was fitted to: q-values do not"):
            model.locate(x)
    assert set(model.locate([*x[:2], x[2][:8, :8]])["sample"]) <= {0, 1}
    assert "the largest image has 8 x 8 pixels, expected at least" in refusal(model.locate, x[:, :8, :8])
    assert "size is 0, expected at least 1" in refusal(model.crops, x, 0)
    assert "windows is 4, expected a list" in refusal(Discovery(windows=4).fit, x)
