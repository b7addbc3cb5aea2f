"""Objects at unknown places: the samples, the scores of places, the places without training, and a small study."""

import numpy as np
import pytest
import torch

from benchmarks.quality.crl_tac import clutter, salience, what_and_where
from benchmarks.tables import what_and_where as tables
from viewsmith import CRLTAC


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Files of a few random bright images under the names of the data sets."""
    rng = np.random.default_rng(0)
    for name, shape in (("mnist", (28, 28)), ("fashion_mnist", (28, 28)), ("cifar10_small", (32, 32, 3))):
        x = rng.integers(100, 256, (40, *shape)).astype(np.uint8)
        y = np.arange(40) % 4
        np.savez(tmp_path / name, X_train=x, y_train=y, X_test=x[::-1], y_test=y[::-1])
    monkeypatch.setenv("VIEWSMITH_DATA", str(tmp_path))
    monkeypatch.setattr(what_and_where, "RUNS", tmp_path / "runs")
    clutter._source.cache_clear()
    yield tmp_path
    clutter._source.cache_clear()


@pytest.mark.parametrize("name", clutter.NAMES)
def test_objects_are_where_their_boxes_are(name, folder):
    x, y, boxes = clutter.make(name, 12, 3)
    kind = name.split()[0]
    with np.load(folder / f"{clutter.FILES[kind]}.npz") as archive:
        objects, classes = archive["X_train"], archive["y_train"]
    for image, labels, places in zip(x, y.reshape(12, -1), boxes.reshape(12, -1, 4), strict=True):
        for label, (top, left, height, width) in zip(labels, places, strict=True):
            found = image[top : top + height, left : left + width]
            if name == "mnist scaled":
                assert found.shape == (height, width) and found.min() >= 90
            else:
                (same,) = np.flatnonzero((objects == found).reshape(40, -1).all(axis=1))
                assert classes[same] == label
        if len(places) == 2:
            (top, left, *_), (other_top, other_left, *_) = places
            assert max(abs(top - other_top), abs(left - other_left)) >= 28


def test_scores_of_places_by_hand():
    truth = np.array([[[0, 0, 10, 10]], [[20, 20, 10, 10]], [[0, 0, 10, 10]]])
    boxes = np.array([[2.0, 2, 10, 10], [25, 25, 10, 10]])  # of samples 0 and 1; nothing is found in sample 2
    overlap, inside = what_and_where.agreement(boxes, truth[:2, 0])
    np.testing.assert_allclose(overlap, [64 / 136, 25 / 175])
    assert inside.tolist() == [True, True]
    assert what_and_where.place_scores(np.array([0, 1]), boxes, truth) == {"corloc": 0.0, "center": 0.6667}
    near = np.array([[1.0, 0, 10, 10], [26, 20, 10, 10]])
    assert what_and_where.place_scores(np.array([0, 1]), near, truth) == {"corloc": 0.3333, "center": 0.3333}
    two = np.array([[[0, 0, 10, 10], [20, 20, 10, 10]]] * 2)
    found = what_and_where.place_scores(np.array([0, 0, 1, 1]), np.array([[1, 0, 10, 10], [20, 21, 10, 10]] * 2), two)
    assert found == {"both": 1.0, "both_center": 1.0, "one_center": 1.0}
    same = np.array([[1, 0, 10, 10], [20, 21, 10, 10], [0, 1, 10, 10], [1, 1, 10, 10]])
    found = what_and_where.place_scores(np.array([0, 0, 1, 1]), same, two)
    assert found == {"both": 0.5, "both_center": 0.5, "one_center": 1.0}


def test_the_largest_deviation_is_that_of_a_slow_search():
    x = torch.rand(5, 2, 12, 14, generator=torch.Generator().manual_seed(0), dtype=torch.float32)
    train = torch.rand(7, 2, 12, 14, generator=torch.Generator().manual_seed(1), dtype=torch.float32)
    grid = [(top, left) for top in range(0, 9, 2) for left in range(0, 10, 3)]

    def patch(image, top, left):
        return image[:, top : top + 4, left : left + 5]

    mean = sum(patch(image, *corner) for image in train for corner in grid) / (len(train) * len(grid))
    found = salience.most_deviating(x, train, (4, 5), (2, 3))
    for image, box in zip(x, found, strict=True):
        best = max(grid, key=lambda corner: float((patch(image, *corner) - mean).square().sum()))
        assert box.tolist() == [*best, 4, 5]


def test_saliency_finds_the_one_thing_in_a_regular_image():
    rows, columns = torch.meshgrid(torch.arange(64), torch.arange(64), indexing="ij")
    image = torch.sin(rows * 0.8) * torch.sin(columns * 0.8)
    image = image[None, None].repeat(1, 3, 1, 1)
    image[..., 36:46, 12:22] += torch.rand(10, 10, generator=torch.Generator().manual_seed(0)) * 2
    ((top, left, height, width),) = salience.spectral_residual(image, (16, 16), (4, 4)).tolist()
    assert (height, width) == (16, 16) and top <= 36 <= 46 <= top + 16 and left <= 12 <= 22 <= left + 16
    assert salience.center(image, (16, 20)).tolist() == [[24, 22, 16, 20]]


def test_objects_are_cut_out_of_images_and_sequences():
    images = np.arange(2 * 40 * 40, dtype=np.uint8).reshape(2, 40, 40)
    boxes = np.array([[[2, 3, 28, 28]], [[0, 0, 20, 20]]])
    made = what_and_where.cut_out(images, boxes, (28, 28))
    assert made.shape == (2, 28, 28) and (made[0] == images[0, 2:30, 3:31]).all()
    series = np.arange(2 * 3 * 50).reshape(2, 3, 50)
    windows = what_and_where._four(np.array([[4, 14], [30, 40]]))
    assert windows.tolist() == [[[0, 4, 1, 10]], [[0, 30, 1, 10]]]
    np.testing.assert_array_equal(what_and_where.cut_out(series, windows, (1, 10))[1], series[1, :, 30:40])


def test_boxes_around_found_centers():
    class Found:
        def locate(self, x):
            kind = [("sample", int), *((name, float) for name in ("top", "left", "height", "width"))]
            return np.array([(0, 10.0, 0.0, 20, 20), (2, 21.4, 30.0, 20, 20)], kind)

    boxes = what_and_where.found_boxes(Found(), np.zeros((3, 50, 50)), (28, 28))[:, 0]
    assert boxes.tolist() == [[6, 0, 28, 28], [11, 11, 28, 28], [17, 22, 28, 28]]


def test_rows_have_options_of_their_estimators():
    for name, regime in what_and_where.REGIMES.items():
        for row in (*what_and_where.MAIN, "found boxes", "contrastive", "byol", "genview"):
            for end in ("", what_and_where.SHORT, what_and_where.TREND):
                model = what_and_where.model_of(name, row + end, 0)
                ours = row not in ("contrastive", "byol", "genview")
                half = not ours and regime.modality == "images"
                assert model.epochs == (regime.short if end else regime.epochs) / (2 if half else 1)
                assert isinstance(model, CRLTAC) is ours
                if name == "events" and row == "crl-tac":
                    assert model.detrend == ("none" if end == what_and_where.TREND else "linear")


@pytest.mark.slow
def test_a_small_study_of_one_regime(folder, monkeypatch, capsys):
    monkeypatch.setattr(what_and_where, "PATH", folder / "what_and_where.jsonl")
    rows = ("crl-tac", "oracle", "found boxes", "raw", "places", "simclr, learned crops")
    cells = [cell for cell in what_and_where.cells(quick=True) if cell.key[0] == "cifar" and cell.key[1] in rows]
    found = {cell.method: cell.work() for cell in cells}
    assert set(found) == set(rows)
    assert {"linear", "knn", "linear_1pct", "top_linear", "corloc", "center", "found"} <= found["crl-tac"].keys()
    assert {"linear", "whole_linear"} <= found["simclr, learned crops"].keys()
    assert found["places"].keys() == {
        f"{kind}_{key}" for kind in ("middle", "deviation", "saliency") for key in ("corloc", "center")
    }


def test_the_page_counts_complete_seeds_and_gives_verdicts():
    scores = {"linear": 0.5, "corloc": 0.95, "top_linear": 0.4, "middle_corloc": 0.1}
    table = {("mnist", row): {0: scores, 1: scores} for row in what_and_where.CHEAP}
    del table["mnist", "pca"][1]
    table["mnist", "uniform"][0] = {"linear": 0.45}
    table["mnist", "oracle"][0] = {"linear": 0.54}
    table |= {("fashion", row): {0: scores} for row in what_and_where.CHEAP[1:]}
    made = tables.complete(table)
    assert {name for name, _ in made} == {"mnist"} and set(made["mnist", "crl-tac"]) == {0}
    assert tables.numbers(made, "mnist", "crl-tac, top", "linear") == [0.4]
    line = tables.targets(made, ["mnist"])[2]
    assert line == "| mnist | **missed** (+0.050) | met (-0.040) | CorLoc 0.9: met (+0.050) |"
