"""Reports of CRL-TAC: heat maps, selected features, sorted similarities; and views smaller than samples."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from cases import slow
from viewsmith import CRLTAC
from viewsmith.methods.crl_tac.figures import (
    COLOR,
    CURVES,
    PAIRS,
    box_gallery,
    cover,
    draw_box,
    draw_panel,
    draw_probabilities,
    draw_projections,
    draw_sorted,
    projection_figures,
    spread,
)
from viewsmith.reports import ReportContent, draw_gallery, render_report
from viewsmith.reports.charts import match_sample_shape
from viewsmith.reports.report import draw_curves

TINY = {"epochs": 1, "batch_size": 8, "random_state": 0, "draws": 2, "channel_rows": 4}


def by_title(figures):
    return {figure.title: figure for figure in figures}


def model_with(p, shape=(28, 32), **options):
    """A model of images with a given P(T|x)."""
    x = np.random.default_rng(0).integers(0, 256, (8, *shape)).astype(np.uint8)
    model = CRLTAC(**TINY, **options).fit(x)
    model.distribution = lambda X: np.tile(np.asarray(p, np.float32), (len(X), 1))
    return model, x


def test_heat_and_boxes_of_scaled_and_mirrored_crops_are_in_the_image_as_given():
    size = 2 * (36 + 1)
    for number, area in {
        36 + 5: (slice(0, 20), slice(0, 20)),  # mirrored, first row, last column
        72: (slice(0, 40), slice(0, 40)),  # half size: the whole image
    }.items():
        p = np.zeros(size)
        p[number] = 1
        model, x = model_with(p, (40, 40, 3), crop_scales=(1.0, 0.5), crop_flips=True)
        boxed, covered = box_gallery(model, x[:1], 1).data["views"][0]
        expected = np.zeros((40, 40), bool)
        expected[area] = True
        assert covered.shape == (40, 40, 3) and np.array_equal(covered[..., 0] > 0, expected), number
        assert (boxed[area][0] == COLOR).all() and (boxed[area][:, -1] == COLOR).all()


def test_heat_equals_a_slow_sum():
    rng = np.random.default_rng(0)
    boxes = np.concatenate([rng.uniform(0, 9, (6, 2)), rng.uniform(1, 9, (6, 2))], axis=1)
    p, expected = rng.dirichlet(np.ones(6), 2), np.zeros((2, 20, 20))
    for n, t, row, column in np.ndindex(2, 6, 20, 20):
        top, left, height, width = boxes[t]
        if round(top) <= row < round(top + height) and round(left) <= column < round(left + width):
            expected[n, row, column] += p[n, t]
    np.testing.assert_allclose(cover(p, boxes, (20, 20)), expected)


def test_the_hardest_images_come_first_and_those_without_a_box_before_them():
    p = np.full((5, 12), 0.02)
    for row, peak in enumerate((0.5, 0.45, 0.7, 1 / 12, 0.6)):
        p[row], p[row, 0] = (1 - peak) / 11, peak
    model, x = model_with(p[0])
    x = x[:5]
    model.distribution = lambda X: p[[np.flatnonzero((x == row).all(axis=(1, 2)))[0] for row in X]]
    gallery = box_gallery(model, x, 3)
    assert [np.flatnonzero((x == image[..., 0]).all(axis=(1, 2)))[0] for image in gallery.data["samples"]] == [3, 0, 2]
    assert (
        gallery.data["views"][0, 0] == gallery.data["samples"][0]
    ).all() and "no location is found in 1." in gallery.caption
    assert gallery.caption.startswith("3 of 5 images, hardest first: the probability of the box rises from 0.00 to")


def test_a_box_of_few_pixels_is_filled():
    image = np.zeros((4, 4, 3), np.uint8)
    draw_box(image, 1, 1, 2, 2)
    assert (image[1:3, 1:3] == COLOR).all() and image.any(axis=2).sum() == 4


def test_curves_of_a_channel_have_titles_and_probabilities_run_from_0_to_1():
    row = {"phase": "train", "entropy": 1.0, "effective": 2.7, "largest_p": 0.5, "nonempty_mass": 0.998}
    curves = {curve.data["key"]: curve for curve in draw_curves([row | {"epoch": n} for n in (1, 2)])}
    assert curves["effective"].title == "Effective number of transformations"
    assert curves["nonempty_mass"].title == "Probability of nonempty views"
    for key in ("largest_p", "nonempty_mass"):
        assert ">0.0<" in curves[key].pictures[0].svg and ">1.0<" in curves[key].pictures[0].svg


def test_sorted_similarities_are_described():
    drawn = draw_sorted({"trained": np.linspace(0, 0.4, 11), "before": np.full(3, 0.9)}, "cap")
    assert "trained 0.20 (95% 0.38); before 0.90" in drawn.pictures[0].alt
    html = render_report(ReportContent("t", "m", figures=[drawn]))
    assert '<a href="#views">' in html and "cap" in html and "fraction of pairs" in drawn.pictures[0].svg


def unit(rng, *shape):
    z = rng.normal(size=shape)
    return z / np.linalg.norm(z, axis=-1, keepdims=True)


def axes():
    from matplotlib.figure import Figure

    return Figure().subplots()


def test_projections_of_two_numbers_are_points_and_wider_ones_curves():
    rng, panel = np.random.default_rng(0), axes()
    z = unit(rng, 30, 2)
    draw_panel(panel, z, np.full(30, "#123456"))
    np.testing.assert_allclose(panel.collections[0].get_offsets(), z)
    panel, z = axes(), unit(rng, 2 * CURVES, 7)
    draw_panel(panel, z, np.resize(["#000001", "#000002"], len(z)))
    np.testing.assert_allclose([line.get_ydata() for line in panel.lines], z[::2])
    assert {line.get_color() for line in panel.lines} == {"#000001"}


def test_the_spread_of_projections_equals_a_slow_mean():
    z = unit(np.random.default_rng(0), 9, 3)
    expected = np.mean([sum((row[k] - z[:, k].mean()) ** 2 for k in range(3)) for row in z]) ** 0.5
    assert spread(z) == pytest.approx(expected) and spread(np.tile(z[:1], (4, 1))) == pytest.approx(0, abs=1e-12)


def test_projections_are_described():
    z = unit(np.random.default_rng(0), 2 * CURVES + 1, 5)
    drawn = draw_projections({"trained": z, "uniform": np.tile(z[:1], (len(z), 1))}, None, "cap")
    assert f"Each curve is a row (134 of {len(z)})" in drawn.note and "uniform 0.00" in drawn.pictures[0].alt
    assert "Each point is a row" in draw_projections({"one": z[:, :2]}, None, "").note
    labels = np.arange(len(z)) % 2
    html = render_report(ReportContent("t", "m", figures=[draw_projections({"one": z}, labels, "cap")]))
    assert '<a href="#views">' in html and "cap" in html and "Each curve is a row" in html


def test_projections_of_models_are_at_length_one_and_their_pairs_those_of_a_slow_loop():
    class Model:
        def transform(self, X, *, output):
            assert output == "projection"
            return X[:, :2]

    x = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    projections, pairs = projection_figures({"a": Model(), "b": Model()}, x, [0, 1] * 3)
    assert list(projections.data["labels"]) == [0, 1] * 3
    z = [row[:2] / np.linalg.norm(row[:2]) for row in x]
    np.testing.assert_allclose(projections.data["projections"]["b"], z, rtol=1e-6)
    expected = [abs(float(z[i] @ z[j])) for i in range(6) for j in range(i + 1, 6)]
    np.testing.assert_allclose(pairs.data["similarities"]["a"], expected, rtol=1e-5)
    assert "a, and b for comparison" in projections.caption


def test_the_rows_of_projections_are_spread_over_all_rows():
    model, x = model_with(np.ones(12) / 12)
    x = np.repeat(x[:2], [PAIRS, PAIRS], axis=0)  # sorted by class
    rows = {"x_test": None, "x_train": x, "y_train": np.repeat([0, 1], PAIRS), "partly_labeled": False}
    data = SimpleNamespace(**rows, modality="images")
    labels = by_title(model.figures(data))["Projections"].data["labels"]
    assert len(labels) == PAIRS and labels.mean() == 0.5


def test_smaller_views_are_centered():
    made = match_sample_shape(np.ones((2, 3, 2, 4), np.uint8), np.zeros((2, 5, 4), np.uint8))
    assert made.shape == (2, 3, 5, 4) and (made[:, :, 1:3] == 1).all() and (made[:, :, [0, 3, 4]] == 128).all()
    views = np.ones((2, 3, 7))
    assert match_sample_shape(views, np.zeros((2, 7))) is views


@pytest.mark.parametrize("modality", [slow("images"), "vectors", slow("dna")])
def test_pictures_of_every_modality(modality):
    rng = np.random.default_rng(0)
    x = {
        "images": rng.integers(0, 256, (24, 28, 28)).astype(np.uint8),
        "vectors": rng.normal(size=(24, 9)).astype(np.float32),
        "dna": np.frombuffer(b"ACGT", np.uint8)[rng.integers(0, 4, (24, 30))],
    }[modality]
    model = CRLTAC(**TINY).fit(x)
    figures = model.figures(SimpleNamespace(x_test=None, x_train=x, y_train=None, modality=modality))
    drawn = by_title(figures)
    own = {
        "images": ["Where the channel looks"],
        "vectors": ["What the channel chooses", "Features that the channel keeps"],
        "dna": ["What the channel chooses"],
    }[modality]
    shared, compared = ["raw", "representation", "Views"], ["Projections", "Similarity of different samples"]
    assert list(drawn) == [*shared, *own, *compared]
    views = drawn["Views"].data["views"]
    assert views.shape[2:] == x.shape[1:]
    assert list(drawn["Similarity of different samples"].data["similarities"]) == ["trained", "before training"]
    assert drawn["Projections"].data["projections"]["trained"].shape[0] == len(x)
    if modality == "vectors":
        p, masks = model.distribution(x).mean(0), model.method_.channel.family.masks.numpy()
        np.testing.assert_allclose(
            drawn["Features that the channel keeps"].data["values"], (p - 1 / 64) @ masks, atol=1e-6
        )
    if modality == "dna":
        covered = [bytes(view).strip(b".") for view in views[0]]
        assert all(len(piece) == 15 and piece in bytes(x[0]) for piece in covered)
        names = drawn["What the channel chooses"].data["names"]
        assert names[0] == "0% to 50%" and names[-1] == "50% to 100%"
    assert "Similarity of different samples" in render_report(ReportContent("t", "m", figures=figures[len(shared) :]))


def letters(*texts):
    return np.array([list(text.encode()) for text in texts], np.uint8)


def test_windows_of_sequences_are_aligned_to_their_samples():
    views = np.stack([letters("GT\0", "CGT"), letters("ACG", "TTT")])
    placed = match_sample_shape(views, letters("aacgtn", "ACG\0\0\0"))
    assert [bytes(view) for view in placed.reshape(-1, 6)] == [
        b"...GT.",
        b"..CGT.",
        b"ACG\0\0\0",
        b"TTT\0\0\0",  # not in the sample
    ]
    drawn = draw_gallery("t", letters("aacgtn"), placed[:1], "letters", "c")
    assert "Dots" in drawn.note
    assert re.findall("<b>(.*?)</b>", drawn.html) == ["sample", "view 1, 0%", "view 2, 0%"]
    assert 'class="d ' not in drawn.html


def test_larger_views_are_subsampled_evenly():
    views = np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4)
    assert match_sample_shape(views, np.zeros((1, 2, 4), np.uint8)).tolist() == [[[[0, 1, 2, 3], [8, 9, 10, 11]]]]
    assert match_sample_shape(views, np.zeros((1, 2, 6), np.uint8))[0, 0, 0].tolist() == [128, 0, 1, 2, 3, 128]


def probabilities(m=3, views=None):
    p = np.eye(m)[[1, 0]] * 0.7 + 0.3 / m
    samples = np.zeros((2, 6, 5), np.uint8)
    return draw_probabilities([f"name {k}" for k in range(m)], np.stack([p.mean(0), *p]), "cap", samples, views)


def test_bars_keep_the_order_of_names_and_describe_the_most_probable():
    drawn = probabilities()
    assert drawn.note == "Dotted line: equal probabilities, 0.33." and len(drawn.pictures) == 3
    assert drawn.pictures[1].alt == (
        "Sample 1: effectively 1.89 of 3 transformations; most probable name 1 0.80, name 0 0.10, name 2 0.10."
    )
    assert drawn.pictures[1].svg.index("name 0") < drawn.pictures[1].svg.index("name 1")
    html = render_report(ReportContent("t", "m", figures=[drawn]))
    assert '<a href="#views">' in html and html.count('class="plot"') == 3


def test_only_the_most_probable_of_many_transformations_have_bars():
    drawn = probabilities(40)
    assert "the 12 most probable of 40" in drawn.note
    assert drawn.pictures[1].svg.count(">name ") == 12 and "sum of the 28 others 0.21" in drawn.pictures[1].svg


def test_bars_have_images_beside_them():
    drawn = probabilities(views=np.zeros((2, 2, 6, 5), np.uint8))
    assert [picture.svg.count("data:image/png;base64,") for picture in drawn.pictures] == [0, 3, 3]
    assert "its 2 most probable views" in drawn.note
