"""Locations that CRL-TAC finds: boxes, windows and features, their crops, and samples without a location."""

import numpy as np
import pandas as pd
import pytest
import torch

import viewsmith
from crl_tac_toys import TINY, dna, vectors
from located_toys import bright, motifs, pointing
from refusals import refusal
from viewsmith import CRLTAC
from viewsmith.methods.crl_tac.figures import FEATURE


@pytest.fixture(scope="module")
def of_images():
    """A model whose channel selects bright crops, images, and the boxes of their squares."""
    x, squares = bright(12)
    return pointing(CRLTAC(**TINY).fit(x)), x, squares


@pytest.fixture(scope="module")
def of_dna():
    x, starts = motifs(12)
    return pointing(CRLTAC(**TINY, window_fraction=0.25, windows=13).fit(x)), x, starts


# ---- images ---------------------------------------------------------------------------------------------------------


def test_boxes_of_images_are_on_their_squares(of_images):
    model, x, squares = of_images
    found = model.locate(x)
    frame = pd.DataFrame(found)
    assert list(frame) == ["sample", "top", "left", "height", "width", "probability"]
    assert frame["sample"].tolist() == list(range(12)) and (frame[["height", "width"]] == 20).all(axis=None)
    middles = frame[["top", "left"]].to_numpy() + 10
    assert np.abs(middles - squares[:, :2] - squares[:, 2:] / 2).max() <= 2.5  # slightly more than half of the stride
    assert frame["probability"].between(0.5, 1).all()


def test_crops_are_the_pixels_of_the_boxes(of_images):
    model, x, _ = of_images
    crops, found = model.crops(x)
    assert crops.shape == (12, 20, 20) and crops.dtype == np.uint8
    for crop, place in zip(crops, found, strict=True):
        top, left = round(place["top"]), round(place["left"])
        np.testing.assert_array_equal(crop, x[place["sample"], top : top + 20, left : left + 20])


def test_several_boxes_of_an_image_are_on_its_squares(of_images):
    model = of_images[0]
    x, squares = bright(6, count=2)
    found = model.locate(x, n=3)
    assert np.bincount(found["sample"]).tolist() == [2] * 6
    for row in range(6):
        of = found[found["sample"] == row]
        middles = np.stack([of["top"], of["left"]], axis=1) + 10
        far = np.linalg.norm(middles[:, None] - (squares[row, :, :2] + squares[row, :, 2:] / 2), axis=2)
        assert sorted(far.argmin(axis=1)) == [0, 1] and far.min(axis=1).max() < 5


def test_blocks_do_not_change_the_locations(of_images, monkeypatch):
    model, x, _ = of_images
    expected = model.locate(x, 2)
    monkeypatch.setattr("viewsmith.methods.crl_tac.figures.BLOCK", 5)
    found = model.locate(x, 2)
    np.testing.assert_array_equal(found["sample"], expected["sample"])
    for name in ("top", "left", "probability"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5)


def test_black_images_have_no_location(of_images):
    model, x, _ = of_images
    empty = np.zeros_like(x[:3])
    assert len(model.locate(empty, 2)) == 0
    crops, found = model.crops(np.concatenate([empty, x[:1]]))
    assert found["sample"].tolist() == [3] and len(crops) == 1
    assert model.crops(empty)[0].shape == (0, 20, 20)
    assert len(CRLTAC(**TINY, channel="uniform").fit(x).locate(x)) == 0
    with pytest.warns(UserWarning, match="uniform"):
        idle = CRLTAC(**TINY | {"effective_target": None}, channel_learning_rate=1e-9).fit(x)
    assert len(idle.locate(x)) == 0


def test_boxes_of_color_images_at_several_sizes_and_mirrored():
    x, squares = bright(8, size=32, color=True)
    model = pointing(CRLTAC(**TINY, crop_scales=(1.0, 0.5), crop_flips=True).fit(x))
    crops, found = model.crops(x)
    assert crops.shape == (len(found), 20, 20, 3) and set(found["height"].round()) <= {20, 40}
    assert len(found) == 8 and np.isin(found["sample"], range(8)).all()
    tops, lefts = found["top"], found["left"]
    assert (tops >= 0).all() and (lefts + found["width"] <= x.shape[2] + 1e-6).all()
    middles = np.stack([tops + found["height"] / 2, lefts + found["width"] / 2], axis=1)
    assert np.abs(middles - squares[:, :2] - squares[:, 2:] / 2).max() < 16


def test_an_object_larger_than_the_crops_has_a_box_inside_it():
    x = np.zeros((4, 60, 60), np.uint8)
    x[:, 6:54, 4:52] = 200
    found = pointing(CRLTAC(**TINY).fit(bright(8, shape=(60, 60))[0])).locate(x)
    assert len(found) in (0, 4)  # P(T|x) is near uniform if the crops inside are similar
    assert ((found["top"] >= 4) & (found["left"] >= 2) & (found["top"] + 20 <= 56)).all()


def test_a_loaded_model_finds_the_same_locations(of_images, tmp_path):
    model, x, _ = of_images
    model.save(tmp_path / "run")
    np.testing.assert_array_equal(viewsmith.load(tmp_path / "run").locate(x, 2), model.locate(x, 2))


# ---- sequences and vectors ------------------------------------------------------------------------------------------


def test_windows_of_dna_are_on_their_motifs(of_dna):
    model, x, starts = of_dna
    crops, found = model.crops(x)
    assert found.dtype.names == ("sample", "start", "end", "probability") and len(found) == 12
    lengths = (x != 0).sum(axis=1)
    assert ((found["start"] >= 0) & (found["end"] <= lengths)).all()
    middles = (found["start"] + found["end"]) / 2
    assert np.abs(middles - starts - 6).max() <= 6
    for crop, place in zip(crops, found, strict=True):
        np.testing.assert_array_equal(
            crop[: place["end"] - place["start"]], x[place["sample"], place["start"] : place["end"]]
        )
    texts = [bytes(row).rstrip(b"\0").decode() for row in x]
    np.testing.assert_array_equal(model.locate(texts), found)


def test_features_of_vectors_are_those_of_the_probable_masks():
    x = vectors()
    model = pointing(CRLTAC(**TINY, masks=6, mask_fraction=0.4).fit(x), mask=2)
    found = model.locate(pd.DataFrame(x).to_numpy(), n=3)
    selected = np.flatnonzero(model.method_.channel.family.masks[2].numpy())
    assert found.dtype == FEATURE and np.isin(found["feature"], selected).all()
    assert np.bincount(found["sample"], minlength=16).tolist() == [3] * 16
    assert "features of vectors cannot be cut out" in refusal(model.crops, x)


def test_dna_without_a_motif_has_no_window(of_dna):
    assert len(of_dna[0].locate(["A" * 80, "N" * 80])) == 0


# ---- inference and bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "2"])
def test_the_number_of_locations_is_checked(of_images, n):
    assert "expected a whole number of at least 1" in refusal(of_images[0].locate, of_images[1], n)


def test_bad_input(of_images):
    model, x, _ = of_images
    assert "inference is 'best', expected" in refusal(model.transform, x, inference="best")
    assert "the model was fitted on" in refusal(model.locate, x[:, :20])
    assert "use smaller crops" in refusal(CRLTAC(**TINY, crop_size=50).fit, x)
    custom = CRLTAC(**TINY, family=[torch.neg, torch.abs]).fit(vectors())
    assert "have no location in a sample" in refusal(custom.locate, vectors())
    with pytest.raises(Exception, match="not fitted"):
        CRLTAC().locate(dna())
