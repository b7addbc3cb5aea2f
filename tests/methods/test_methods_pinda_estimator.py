"""Learned noise in training: the published objective collapses in two ways, the default does not."""

import itertools

import numpy as np
import pytest

from cases import slow
from refusals import refusal
from viewsmith import PiNDA
from viewsmith.methods.pinda.estimator import noise_gallery

# The published settings with narrower networks and the penalty for images; half a second of training.
PAPER = PiNDA.presets["paper"] | {
    "penalty": "inverse_norm",
    "penalty_weight": 1.0,
    "hidden": (64,),
    "generator_hidden": (64,),
    "projector_dims": (32,),
    "n_components": 32,
    "batch_size": 128,
    "epochs": 300,
    "random_state": 0,
}


def noise_of(model):
    """Level and spread of the noise through training, from the metrics."""
    rows = [row for row in model.metrics_ if "noise_level" in row]
    return [row["noise_level"] for row in rows], [row["noise_spread"] for row in rows]


@pytest.mark.slow
def test_published_noise_vanishes_without_a_penalty(wine):
    with pytest.warns(UserWarning, match="the learned noise has collapsed from 0.5 to"):
        model = PiNDA(**PAPER | {"penalty": "none", "learning_rate": 3e-3}).fit(wine)
    level, _ = noise_of(model)
    assert PAPER["strength"] == 0.5 and level[-1] < 0.02
    assert all(later < earlier for earlier, later in itertools.pairwise(level))


@pytest.mark.slow
def test_published_noise_with_its_penalty_grows_on_few_features(wine):
    with pytest.warns(UserWarning) as caught:
        model = PiNDA(**PAPER).fit(wine)
    level, spread = noise_of(model)
    # sqrt(12) = 3.46 is the spread of noise on one feature of thirteen.
    assert spread[0] < 0.5 and spread[-1] > 3 and level[-1] > 2
    text = [str(warning.message) for warning in caught]
    assert model.warnings_ == text
    assert any("sits on few features" in line for line in text) and any("has grown to" in line for line in text)
    profile, _ = model.noise_profile(wine)
    fraction = np.sort((profile / wine.std(0)) ** 2)[::-1]
    assert fraction[0] > 0.9 * fraction.sum()


def test_a_fixed_level_does_not_spread_noise_over_all_features(wine):
    with pytest.warns(UserWarning, match="sits on few features"):
        model = PiNDA(**PAPER | {"level": "fixed", "penalty": "none"}).fit(wine)
    level, spread = noise_of(model)
    assert level == pytest.approx([0.5] * len(level)) and spread[-1] > 2


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize(
    ("published", "objective"),
    [slow(True, "cooperative"), (True, "adversarial"), slow(False, "cooperative"), slow(False, "adversarial")],
)
def test_default_noise_has_a_stable_level_and_spread(wine, published, objective):
    # The same recipe as above except level and penalty; and PiNDA() with its defaults, with a shorter training.
    if published:
        model = PiNDA(**PAPER | {"level": "fixed", "penalty": "log_barrier", "objective": objective})
    else:
        model = PiNDA(epochs=100, batch_size=178, objective=objective, random_state=0)
    level, spread = noise_of(model.fit(wine))
    assert level == pytest.approx([model.strength] * len(level), rel=1e-4)
    assert max(spread) < 1
    assert spread[-1] > 0.005  # but a shape was learned


def test_the_published_form_has_a_penalty_only_on_images():
    assert PiNDA.presets["paper"]["penalty"] == "none"
    assert PiNDA.presets["paper-images"]["penalty"] == "inverse_norm"


def test_adversarial_noise_grows_under_the_published_penalty(wine):
    level, _ = noise_of(PiNDA(**PAPER | {"objective": "adversarial", "epochs": 100}).fit(wine))
    assert all(later > earlier for earlier, later in itertools.pairwise(level))


def test_the_precision_of_the_auxiliary_gaussian_is_logged(wine):
    model = PiNDA(epochs=20, random_state=0).fit(wine)
    gamma = [row["gamma"] for row in model.metrics_]
    assert 0 < gamma[0] < gamma[-1] < 1


def test_algorithm_2_on_the_views_of_simclr_is_one_option():
    x = np.random.default_rng(0).integers(0, 256, (16, 16, 16, 3)).astype(np.uint8)
    small = {"encoder": "cnn", "generator": "low-resolution", "epochs": 1, "batch_size": 8, "random_state": 0}
    model = PiNDA(**PiNDA.presets["paper-images"] | small | {"algorithm": 2}).fit(x)
    assert model.method_.options.algorithm == 2 and model.options_.view_maker == "simclr"
    assert np.isfinite(model.metrics_[-1]["loss"])


def test_algorithm_2_and_noise_on_both_views_exclude_each_other(wine):
    assert PiNDA(algorithm=2, epochs=1, random_state=0).fit(wine).metrics_[-1]["loss"] > 0
    assert "two_sided is True, which algorithm 2 decides" in refusal(PiNDA(algorithm=2, two_sided=True).fit, wine)
    crops = PiNDA(algorithm=2, view_maker="grid-crop", epochs=1)
    message = refusal(crops.fit, np.zeros((8, 28, 32), np.uint8) + np.arange(8, dtype=np.uint8)[:, None, None])
    assert message.startswith("algorithm is 2") and "take algorithm 1" in message


@pytest.mark.parametrize("learn_mean", [False, True])
def test_a_learned_mean_is_in_the_report(learn_mean):
    x = np.random.default_rng(0).integers(0, 256, (12, 16, 16, 3)).astype(np.uint8)
    model = PiNDA(learn_mean=learn_mean, epochs=2, batch_size=4, random_state=0).fit(x)
    made = model.noise_parts(x[:3])
    assert list(made) == ["sigma", *["mean"] * learn_mean, "noise", "view"]
    if learn_mean:
        expected = model.method_.noise.noise_parameters(model.samples(x[:3])[:])[1].detach().numpy()
        assert np.array_equal(made["mean"], expected) and abs(expected).max() > 0
    gallery = noise_gallery(x[:3], made)
    assert gallery.data["views"].shape[:2] == (3, 3 + learn_mean) and ("its mean" in gallery.caption) == learn_mean


def test_the_random_fraction_bounds_the_spread(wine):
    options = PAPER | {"level": "fixed", "penalty": "none", "random_fraction": 0.5, "epochs": 100}
    model = PiNDA(**options).fit(wine)
    profile = model.noise_profile(wine)[0] / wine.std(0)
    assert (profile >= 0.5 * 0.5**0.5 - 1e-4).all()


def test_noise_profile_is_in_the_units_of_each_feature(wine):
    x = np.column_stack([wine, np.full(178, 3, np.float32)])
    model = PiNDA(epochs=3, random_state=0, strength=0.5).fit(x)
    mean, spread = model.noise_profile(x)
    assert mean.shape == spread.shape == (14,)
    assert mean[13] == spread[13] == 0  # a constant feature has no noise
    np.testing.assert_allclose(mean[:13] / wine.std(0), 0.5, rtol=0.2)
    # The noise in the views has this profile.
    moved = model.views(x, 200) - x[:, None]
    np.testing.assert_allclose(moved.std((0, 1))[:13], mean[:13], rtol=0.05)
    assert (moved[..., 13] == 0).all()


def test_options_of_another_generator_are_refused():
    images = np.random.default_rng(0).integers(0, 256, (30, 16, 16), dtype=np.uint8)
    message = "noise_length is an option of the generator spectral, without effect on mlp"
    assert message in refusal(PiNDA(noise_length=0.1).fit, images.reshape(30, -1))
    message = "generator_hidden is an option of the generator mlp, without effect on low-resolution"
    assert message in refusal(PiNDA(generator_hidden=(8,)).fit, images)
