"""LinearContrast as an estimator: what it refuses, custom features, kinds of data."""

import pickle

import numpy as np
import pytest
import torch

import viewsmith
from refusals import refusal
from viewsmith import LinearContrast
from viewsmith.evaluation.baselines import BaselineContext
from viewsmith.methods.linear_contrast import estimator, training
from viewsmith.networks.features import Features
from viewsmith.views import ViewMaker

SMALL = {"random_state": 0, "features_options": {"centers": 16}}


def images(n=60):
    return np.random.default_rng(0).integers(0, 255, (n, 16, 16)).astype(np.uint8)


class Pixels(Features):
    """The pixels themselves."""

    n_features = 256

    def of_block(self, x):
        return x.flatten(1)


class Same(ViewMaker):
    """Views that are the samples."""

    def forward(self, x, *, index=None, generator=None):
        return x


class Shade(ViewMaker):
    """Darker samples."""

    def forward(self, x, *, index=None, generator=None):
        return x * torch.rand(len(x), 1, 1, 1, generator=generator)


@pytest.mark.full_size
@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"epochs": 3}, "linear-contrast trains no network, and epochs is 3"),
        ({"supervision": "labels"}, "trains no network, and supervision is 'labels'"),
        ({"view_maker": "adversarial"}, "the views adversarial depend on a loss that is trained"),
        ({"view_maker": "identity"}, "the views identity change nothing that the features see"),
        ({"view_maker": Same()}, "the views Same change nothing that the features see"),
        ({"n_components": 100}, "n_components is 100, and 60 samples of 295 features give at most 59 columns"),
        ({"features": "kmers", "features_options": None}, "features is 'kmers', expected auto, 'patches', 'timm:NAME'"),
        ({"features": torch.nn.Identity()}, "features_options need a registered name"),
        ({"features_options": {"centre": 3}}, "the features 'patches' has no option 'centre'"),
    ],
)
def test_what_it_cannot_do_is_one_line(options, part):
    assert part in refusal(LinearContrast(**SMALL | options).fit, images())


def test_custom_features_are_fitted_saved_and_given_again(tmp_path):
    model = LinearContrast(features=Pixels(), random_state=0).fit(images())
    model.save(tmp_path / "run")
    again = viewsmith.load(tmp_path / "run", features=Pixels())
    assert np.array_equal(again.transform(images()), model.transform(images()))
    assert "the features of this model are custom" in refusal(viewsmith.load, tmp_path / "run")


@pytest.mark.parametrize(
    ("modality", "x"),
    [
        ("vectors", np.random.default_rng(0).normal(size=(120, 6)).astype(np.float32)),
        ("series", np.random.default_rng(0).normal(size=(60, 2, 40)).astype(np.float32)),
        ("dna", ["".join(np.random.default_rng(i).choice(list("ACGT"), 40)) for i in range(80)]),
        ("images", images()),
    ],
)
def test_every_kind_of_data(modality, x):
    model = LinearContrast(modality=modality, random_state=0).fit(x)
    h = model.transform(x)
    assert h.shape == (len(x), len(model.get_feature_names_out())) and np.isfinite(h).all()
    np.testing.assert_allclose(model.transform(x[:3]), h[:3], atol=1e-4)
    assert model.views(x[:5], 2).shape[:2] == (5, 2)
    assert model.summary_["columns"] + min(64, len(x) - 1) + 1 >= h.shape[1] > 8  # the last one may be constant


@pytest.mark.parametrize(
    ("x", "part"),
    [
        (images(1), "the data have 1 sample (n_samples=1), expected at least 2"),
        (np.repeat(images(1), 30, axis=0), "the features do not vary: all samples are equal to them"),
        (np.full((30, 16, 16), 7, np.uint8), "the features do not vary: all samples are equal to them"),
    ],
)
def test_samples_without_a_contrast_are_one_line(x, part):
    assert part in refusal(LinearContrast(**SMALL).fit, x)


def test_views_that_destroy_everything_are_named(monkeypatch):
    strong = SMALL | {"view_maker": "noise", "noise_strength": 1e4}
    with pytest.warns(UserWarning, match="at most: the views noise destroy nearly everything"):
        LinearContrast(**strong).fit(images())
    monkeypatch.setattr(training, "LEAST", 0.999)
    assert "by two views of a sample: the views noise destroy" in refusal(LinearContrast(**strong).fit, images())


@pytest.mark.parametrize("n", [2, 3, 9])
def test_fewer_samples_than_columns(n):
    model = LinearContrast(**SMALL).fit(images(n))
    h = model.transform(images(20))
    assert np.isfinite(h).all() and h.shape == (20, len(model.get_feature_names_out()))
    assert model.summary_["columns"] <= n - 1


def test_images_smaller_than_a_patch_have_features_of_all_pixels():
    """No encoder is asked for the size of images, which has no part in this method."""
    tiny = images()[:, :4, :4]
    assert np.isfinite(LinearContrast(**SMALL).fit(tiny).transform(tiny)).all()


def test_large_images_are_reduced_before_their_views(tmp_path):
    x = np.random.default_rng(0).integers(0, 255, (24, 81, 70, 3)).astype(np.uint8)
    known = {"random_state": 0, "n_components": 4, "n_views": 2, "flip": 0}
    known |= {"features_options": {"centers": 8, "reduced_to": (9, 15)}}
    model = LinearContrast(**known).fit(x)
    encoder = model.method_.framework.encoder
    small = model.scale_rows(x)[:, :, :80].unflatten(2, (40, 2)).unflatten(4, (35, 2)).mean((3, 5))
    share = float(model.method_.share_of_parts)
    expected = (1 - share) * encoder(small) + share * sum(map(encoder, model.method_.views.parts(small))) / 4
    np.testing.assert_allclose(model.transform(x), expected.numpy(), atol=1e-5)
    assert model.views(x[:2], 1).shape == (2, 1, 81, 70, 3)  # of images as they are
    model.save(tmp_path / "run")
    assert np.array_equal(viewsmith.load(tmp_path / "run").transform(x), model.transform(x))


@pytest.mark.parametrize(
    ("views", "shrunk"),
    [
        ("turns", 2),
        ("blur", 2),
        ("gain", 2),
        ("byol", 2),
        ("neighbors", 1),  # other images, as they are
        ("defocus", 1),  # in pixels
        (Shade(), 1),
    ],
)
def test_images_are_reduced_before_views_that_allow_it(views, shrunk):
    x = np.random.default_rng(0).integers(0, 255, (24, 40, 40, 3)).astype(np.uint8)
    options = {"features_options": {"centers": 4, "reduced_to": (7,)}, "n_components": 4, "n_views": 2}
    assert LinearContrast(random_state=0, view_maker=views, **options).fit(x).method_.shrunk == shrunk


def test_views_of_sound_are_those_that_suit_its_features():
    sound = np.random.default_rng(0).normal(size=(30, 1, 400)).astype(np.float32)
    given = {"modality": "series", "features_options": {"sampling_rate": 400, "centers": 4, "bands": 12}}
    model = LinearContrast(features="log-mel", random_state=0, **given).fit(sound)
    assert model.options_.view_maker == "speed"
    other = LinearContrast(features="log-mel", view_maker="window", random_state=0, **given).fit(sound)
    assert other.options_.view_maker == "window"
    assert LinearContrast(modality="series", random_state=0).fit(sound).options_.view_maker == "window+jitter+scale"


def test_many_samples_get_more_columns(monkeypatch):
    monkeypatch.setattr(estimator, "SAMPLES_OF_COLUMN", 4)
    monkeypatch.setattr(estimator, "FEWEST_COLUMNS", 8)
    monkeypatch.setattr(estimator, "MOST_COLUMNS", 9)
    x = np.random.default_rng(0).normal(size=(40, 1, 60)).astype(np.float32)
    fits = [LinearContrast(modality="series", random_state=0).fit(x[:n]) for n in (20, 36, 40)]
    assert [model.facts_.n_components for model in fits] == [8, 9, 9]


def test_a_verbose_fit_says_what_was_chosen_and_why(capsys):
    model = LinearContrast(**SMALL, verbose=True).fit(images())
    facts = model.summary_
    nats = max(facts["held_out_nats"].values())
    said = f"{facts['columns']} columns of 295 features, ridge {facts['ridge']:g}, by the information about views of "
    assert facts["chosen"] == f"{said}held-out samples ({nats:.1f} nats)"
    assert f"linear-contrast has chosen, without labels: {said}" in capsys.readouterr().err
    given = LinearContrast(**SMALL, ridge=0.1, n_components=9).fit(images()).summary_
    assert given["chosen"] == "9 columns of 295 features, ridge 0.1"


def test_features_of_the_untrained_model_are_those_of_the_trained_one_and_computed_once(monkeypatch):
    x, counted = images(40), []
    model = LinearContrast(**SMALL).fit(x)
    initial, of_block = model.untrained(x), type(model.method_.framework.encoder.features).of_block
    expected = initial.transform(x), model.transform(x)
    monkeypatch.setattr(
        type(model.method_.framework.encoder.features),
        "of_block",
        lambda self, block: (counted.append(len(block)), of_block(self, block))[1],
    )
    found = model.transform_both(initial, x)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    once = sum(counted)
    model.transform(x)
    assert sum(counted) == 2 * once
    counted.clear()
    context = BaselineContext(model, "", x, x)
    rows = context.untrained_representations(), context.representations()
    assert sum(counted) == 2 * once  # train and test rows
    for (train, test), alone in zip(rows, expected, strict=True):
        np.testing.assert_array_equal(train, alone)
        np.testing.assert_array_equal(test, alone)


def test_a_pickled_model_is_as_large_as_its_weights():
    x = images(400)
    model = LinearContrast(random_state=0).fit(x)
    again = pickle.loads(packed := pickle.dumps(model))  # our own bytes
    weights = sum(value.numel() * value.element_size() for value in model.weights().values())
    assert len(packed) < 3 * weights
    np.testing.assert_array_equal(again.transform(x), model.transform(x))
    assert "without its sums over views: fit it again before partial_fit" in refusal(again.partial_fit, x)
    model.partial_fit(x)
