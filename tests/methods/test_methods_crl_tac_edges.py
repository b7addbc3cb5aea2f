"""CRL-TAC on data with little variation and on unsuitable data; resume within an epoch."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import viewsmith
from crl_tac_toys import DATA, TINY, images, vectors
from refusals import refusal
from viewsmith import CRLTAC
from viewsmith.methods.crl_tac.channel import ChosenViews
from viewsmith.views import Crops


@pytest.mark.parametrize(("shape", "step"), [((28, 32), "exact"), ((12, 12), "sampled"), ((28, 28, 3), "sampled")])
def test_black_images_have_a_uniform_channel(shape, step):
    x = np.zeros((16, *shape), np.uint8)
    model = CRLTAC(**TINY | {"epochs": 4}, encoder_step=step, channel_step=step).fit(x)
    p = model.distribution(x)
    np.testing.assert_allclose(p, 1 / p.shape[1], rtol=1e-6)
    assert not model.transform(x, output="projection").any() and model.metrics_[-1]["nonempty_mass"] == 0
    assert abs(model.metrics_[-1]["loss"]) < 1e-6 and "the representation has collapsed" in model.warnings_[0]


@pytest.mark.parametrize(
    "x",
    [
        np.full((16, 28, 28), 77, np.uint8),
        np.repeat(images(1), 16, axis=0),
        np.zeros((16, 9), np.float32),
        np.ones((16, 9), np.float32),
        np.full((16, 7), ord("N"), np.uint8),
        np.random.default_rng(0).normal(size=(16, 2)).astype(np.float32),
    ],
    ids=["one gray", "one image", "zeros", "constant columns", "unknown bases", "two features"],
)
def test_data_with_little_variation_give_finite_results(x):
    fewer = {"masks": 6} if x.dtype == np.float32 else {}
    model = CRLTAC(**TINY | {"epochs": 2}, hidden=(8,), n_components=8, **fewer).fit(x)
    for found in (model.transform(x), model.transform(x, output="projection"), model.distribution(x)):
        assert np.isfinite(found).all()
    np.testing.assert_allclose(model.distribution(x).sum(1), 1, rtol=1e-5)
    assert np.isfinite(model.metrics_[-1]["loss"])


@pytest.mark.parametrize(
    ("modality", "options", "expected"),
    [
        ("vectors", {"crop_size": 9}, "crop_size is an option of the crops of images without effect for vectors"),
        ("images", {"masks": 9}, "masks is an option of the masks of vectors without effect for images"),
        ("dna", {"mask_fraction": 0.2}, "mask_fraction is an option of the masks of vectors without effect for dna"),
        ("vectors", {"window_fraction": 0.2}, "window_fraction is an option of the windows of sequences"),
        ("vectors", {"masks": 9, "family": [torch.neg, torch.abs]}, "without effect for a custom family"),
        ("vectors", {"temperature": 0.2}, "crl-tac has no temperature: give its inverse as beta"),
        ("images", {"nonempty": lambda views: views.any_of()}, "nonempty failed for views ("),
        ("images", {"crop_size": 6, "crop_stride": 2}, "28 x 32 pixels have 6 x 6 pixels, but the encoder cnn"),
        ("images", {"encoder": "crl-cnn", "crop_size": 9}, "take larger crops (crop_size), or another encoder"),
        ("images", {"family": Crops(40, 40)}, "have 28 x 32 pixels, but the crops were made for 40 x 40"),
    ],
)
def test_options_without_effect_or_that_fail_are_refused(modality, options, expected, tmp_path):
    x = DATA[modality]()
    assert expected in refusal(lambda: CRLTAC(**TINY).set_params(**options).fit(x, run=tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_the_message_for_small_images_has_advice():
    message = refusal(CRLTAC(**TINY).fit, np.zeros((4, 8, 8), np.uint8))
    assert message.endswith(
        "take larger crops (crop_size), enlarge the images, or use rows as vectors (--modality vectors)"
    )


def test_an_invalid_number_of_views_and_a_failing_function_are_refused():
    x = images()
    model = CRLTAC(**TINY).fit(x)
    assert "n_views is 2.5, expected a whole number of at least 1" in refusal(model.views, x, 2.5)
    message = refusal(model.nonempty_mass, x, lambda views: views.some())
    assert message.startswith("nonempty failed for views (") and "AttributeError" in message


def test_blocks_of_vectors_are_smaller_the_more_masks_there_are(monkeypatch):
    x = vectors()
    model = CRLTAC(**TINY).fit(x)
    seen, every = [], model.method_.channel.family.all_views
    monkeypatch.setattr(
        model.method_.channel.family, "all_views", lambda rows: (seen.append(len(rows)), every(rows))[1]
    )
    h = model.transform(x)
    assert seen == [1024 // 64] and np.allclose(model.transform(x[:1]), h[:1], atol=0)


@pytest.mark.parametrize(("view", "modality"), [("crops", "images"), ("windows", "dna")])
def test_a_custom_encoder_must_accept_the_views(view, modality):
    x = DATA[modality]()
    whole = (28, 32) if modality == "images" else (4, 41)
    custom = nn.Sequential(nn.Flatten(), nn.Linear(whole[0] * whole[1], 5))
    message = refusal(CRLTAC(**TINY, encoder=custom).fit, x)
    assert (
        "the encoder Sequential fails on samples of shape " + ("(1, 20, 20)" if view == "crops" else "(4, 2") in message
    )


def test_a_training_resumed_within_an_epoch_ends_with_the_same_weights(tmp_path, monkeypatch):
    # A memory of chosen views that is full, and used, after two steps.
    monkeypatch.setattr("viewsmith.methods.crl_tac.estimator.ChosenViews", partial(ChosenViews, size=16))
    x, options = images(24), TINY | {"epochs": 4, "channel_step": "sampled"}
    whole = CRLTAC(**options).fit(x, run=tmp_path / "whole")
    for stop in range(5):
        part = CRLTAC(**options, minutes=1e-9).fit(x, run=tmp_path / "part", resume=stop > 0)
        assert part.summary_["steps"] == stop + 1
    resumed = CRLTAC(**options).fit(x, run=tmp_path / "part", resume=True)
    assert resumed.summary_["steps"] == 12 and resumed.status_ == "finished"
    assert whole.method_.chosen_views.rows.min() >= 0
    torch.testing.assert_close(resumed.weights(), whole.weights(), rtol=0, atol=0)
    assert [row | {"seconds": 0} for row in resumed.metrics_] == [row | {"seconds": 0} for row in whole.metrics_]


def test_the_objective_of_equation_2_trains():
    model = CRLTAC(**TINY, objective="information", channel_step="sampled").fit(vectors())
    assert model.method_.options.objective == "information" and np.isfinite(model.metrics_[-1]["loss"])
    message = refusal(CRLTAC(**TINY, objective="information", distinct=True).fit, vectors())
    assert message.startswith("distinct is of the objective 'bound'") and "leave it out" in message


@pytest.mark.slow
def test_a_whole_training_in_bfloat16_finds_what_recurs_and_is_saved(tmp_path):
    """A bright square somewhere on black: the channel finds it."""
    rng = np.random.default_rng(0)
    x = np.zeros((96, 64, 64), np.uint8)
    for row, (top, left) in enumerate(rng.integers(0, 57, (96, 2))):
        x[row, top : top + 8, left : left + 8] = rng.integers(50, 256, (8, 8))
    sizes = {"epochs": 30, "batch_size": 32, "draws": 4, "channel_rows": 32, "n_components": 16, "effective_target": 4}
    model = CRLTAC(**sizes, learning_rate=3e-3, random_state=0, precision="bf16").fit(x)
    found = [row["nonempty_mass"] for row in model.metrics_ if "nonempty_mass" in row]
    assert found[1] > 0.5 and found[-1] > 0.9, found  # .2 of a uniform channel
    assert model.metrics_[-1]["effective"] < 8
    assert np.isfinite([row["loss"] for row in model.metrics_]).all()
    model.save(tmp_path / "run")
    loaded = viewsmith.load(tmp_path / "run")
    assert loaded.options_.precision == "bf16"
    assert np.array_equal(loaded.transform(x[:8]), model.transform(x[:8]))
    assert np.array_equal(loaded.views(x[:8], 2), model.views(x[:8], 2))
