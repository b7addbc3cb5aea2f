"""Features: fixed ones with which evaluations compare; functions, networks and trained models in place of them."""

import copy
import shutil
import sys
import types

import numpy as np
import pytest
import torch
from sklearn.preprocessing import StandardScaler
from torch import nn

import viewsmith
from refusals import refusal
from viewsmith import Contrastive, LinearContrast
from viewsmith.core.registry import find
from viewsmith.core.tensors import save_tensors
from viewsmith.networks.base import PartContext


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 256, (40, 12, 10, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def model(images):
    return Contrastive(epochs=1, batch_size=20, random_state=0).fit(images[:30])


def test_features_are_fitted_to_the_first_samples_alone(model, images):
    assert model.default_features == "patches"
    train, test = model.fixed_features(images[:30], images[30:])
    made = find("features", "patches", "images").build(PartContext((12, 10, 3), 3, name="patches"))
    assert train.shape == (30, made.n_features) and test.shape == (10, made.n_features)
    assert train.dtype == test.dtype == np.float32 and np.isfinite(train).all() and train.std(axis=0).max() > 0
    again, other = model.fixed_features(images[:30], images[30:33])
    np.testing.assert_array_equal(again, train)
    np.testing.assert_allclose(other, test[:3], rtol=1e-5, atol=1e-5)
    assert not np.allclose(model.fixed_features(images[10:], images[30:])[1], test)


def test_features_leave_the_random_numbers_of_the_user_alone(model, images):
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    model.fixed_features(images[:30])
    assert torch.rand(1) == expected


def fitted(x, **options):
    return LinearContrast(**{"random_state": 0, "n_views": 2} | options).fit(x)


def means(x):
    """Means of rows and columns of images (n, H, W, C)."""
    return np.concatenate([x.mean((1, 3)), x.mean((2, 3))], axis=1)


# ---- functions of the user ------------------------------------------------------------------------------------------
KINDS = {
    "images": np.random.default_rng(0).integers(0, 256, (40, 12, 10, 3), dtype=np.uint8),
    "gray": np.random.default_rng(0).integers(0, 256, (40, 12, 10), dtype=np.uint8),
    "vectors": np.random.default_rng(0).normal(5, 2, (40, 6)).astype(np.float32),
    "series": np.random.default_rng(0).normal(5, 2, (40, 2, 30)).astype(np.float32),
    "dna": ["".join(np.random.default_rng(i).choice(list("ACGT"), 30)) for i in range(40)],
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_function_gets_samples_in_the_form_and_units_of_the_data(kind):
    x, seen = KINDS[kind], []

    def numbers(rows):
        seen.append(rows)
        return rows.reshape(len(rows), -1)[:, :5].astype(float)

    given = {"modality": "series"} if kind == "series" else {}
    model = fitted(x, features=numbers, **given)
    shape, dtype = ((30,), np.uint8) if kind == "dna" else (x.shape[1:], x.dtype)
    assert {rows.shape[1:] for rows in seen} == {shape} and {rows.dtype for rows in seen} == {np.dtype(dtype)}
    if kind == "dna":
        assert {bytes([letter]) for rows in seen for letter in np.unique(rows)} <= {b"A", b"C", b"G", b"T", b"N", b"\0"}
    elif kind != "gray":
        seen.clear()
        model.transform(x[:7])
        assert any(np.allclose(rows[:7], x[:7], rtol=1e-4, atol=1e-4) for rows in seen)  # of copies, one is mirrored
    assert model.transform(x).shape == (40, len(model.get_feature_names_out()))


def test_a_function_is_named_in_the_run_and_given_again(images, tmp_path):
    model = fitted(images, features=means)
    model.save(tmp_path / "run")
    assert 'features = "module:means"' in (tmp_path / "run" / "config.toml").read_text()
    again = viewsmith.load(tmp_path / "run", features=means)
    assert np.array_equal(again.transform(images), model.transform(images))
    missing = refusal(viewsmith.load, tmp_path / "run")
    assert missing.startswith("the features of this model are custom (means): give them")
    other = viewsmith.load(tmp_path / "run", features=lambda x: means(x)[:, :3])
    assert "return 3 columns, but the model was fitted with 22" in refusal(other.transform, images)


def broken(x):
    raise ValueError("no such thing")


@pytest.mark.parametrize(
    ("function", "part"),
    [
        (broken, "the features broken fail on samples, uint8 of shape (2, 12, 10, 3): ValueError: no such thing"),
        (lambda x: means(x)[:-1], "return the shape (1, 22) for 2 samples, expected one row of numbers for each"),
        (lambda x: x.mean((1, 2, 3)), "return the shape (2,) for 2 samples"),
        (lambda x: means(x) * np.nan, "return NaN or infinite values"),
        (lambda x: "text", "the features <lambda> fail on samples"),
        (lambda x: np.ones((len(x), 4)), "the features do not vary: all samples are equal to them"),
        ("runs/none", "features is 'runs/none', expected auto, 'patches', 'timm:NAME', the folder of a run"),
        (nn.Identity(), "the features Identity returns (2, 3, 12, 10) for 2 samples, expected (2, width)"),
        (nn.Linear(3, 2), "the features Linear fails on samples of shape (3, 12, 10)"),
        (3, "features is 3, expected a name, the folder of a run, a fitted model, a module or a function"),
        (StandardScaler(), "features is a StandardScaler, expected a model of viewsmith, or its transform"),
        (Contrastive(), "features is a Contrastive that is not fitted: fit it, or give its run"),
        ("timm:", "features is 'timm:', expected timm:NAME"),
    ],
)
def test_features_that_cannot_be_used(images, function, part):
    assert part in refusal(LinearContrast(features=function).fit, images)


# ---- networks and trained models ------------------------------------------------------------------------------------
class Stem(nn.Module):
    """A convolution, a norm and a mean."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 9, 5), nn.BatchNorm2d(9)

    def forward(self, x):
        return self.norm(self.first(x)).relu().mean((2, 3))


def test_a_network_is_copied_frozen_and_its_weights_are_saved(images, tmp_path):
    torch.manual_seed(0)
    network = Stem()
    before = copy.deepcopy(network.state_dict())
    model = fitted(images, features=network)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert all(p.requires_grad for p in network.parameters())
    model.save(tmp_path / "run")
    again = viewsmith.load(tmp_path / "run", features=Stem())
    assert np.array_equal(again.transform(images), model.transform(images))


@pytest.mark.parametrize("given", ["fitted", "path"])
def test_the_representation_of_a_trained_model_is_saved_with_the_model(model, images, tmp_path, given):
    model.save(tmp_path / "trained")
    features = {"fitted": model, "path": tmp_path / "trained"}[given]
    made = fitted(images, features=features)
    encoder = made.method_.framework.encoder
    np.testing.assert_allclose(encoder.features(made.samples(images)[:]), model.transform(images), rtol=1e-4, atol=1e-4)
    expected = model.transform(images)
    made.save(tmp_path / "run")
    shutil.rmtree(tmp_path / "trained")
    again = viewsmith.load(tmp_path / "run")
    assert np.array_equal(again.transform(images), made.transform(images))
    assert np.array_equal(model.transform(images), expected)


def test_models_of_which_features_are_made_one_after_the_other(images, tmp_path):
    first = fitted(images, features_options={"centers": 8})
    second = fitted(images, features=first)
    third = fitted(images, features=second)
    third.save(tmp_path / "run")
    assert np.array_equal(viewsmith.load(tmp_path / "run").transform(images), third.transform(images))


def test_trained_models_that_cannot_give_features(model, images):
    other = refusal(LinearContrast(features=model).fit, images[:, :8])
    assert other.startswith("the model of the features was trained on images of shape (12, 10, 3), but the data are ")
    vectors = refusal(LinearContrast(features=model).fit, KINDS["vectors"])
    assert "but the data are vectors of shape (6,)" in vectors
    own = fitted(images, features=means)
    assert "has a part of your own, which is not saved with it" in refusal(LinearContrast(features=own).fit, images)


# ---- timm -----------------------------------------------------------------------------------------------------------
@pytest.fixture
def timm(monkeypatch):
    """A library with the functions of timm that are used; published biases are 0.25. Returns what was loaded."""
    library, builder, loaded = types.ModuleType("timm"), types.ModuleType("timm.models._builder"), []

    def create_model(name, *, num_classes, in_chans):
        if name != "stem":
            raise RuntimeError("unknown")
        network = Stem()
        network.pretrained_cfg = {"mean": (0.5, 0.4, 0.3), "std": (0.2, 0.2, 0.1)}
        return network

    def load_pretrained(network, *, num_classes, in_chans):
        loaded.append(in_chans)
        nn.init.constant_(network.first.bias, 0.25)

    library.create_model, builder.load_pretrained = create_model, load_pretrained
    monkeypatch.setitem(sys.modules, "timm", library)
    monkeypatch.setitem(sys.modules, "timm.models._builder", builder)
    return loaded


def test_a_network_of_timm_gets_pixels_as_it_was_trained_with(timm, images, tmp_path):
    model = fitted(images, features="timm:stem")
    features = model.method_.framework.encoder.features
    network = features.network
    assert timm == [3] and (network.first.bias == 0.25).all() and not network.training
    mean, deviation = torch.tensor([0.5, 0.4, 0.3]), torch.tensor([0.2, 0.2, 0.1])
    pixels = (torch.tensor(images) / 255 - mean) / deviation
    with torch.no_grad():
        torch.testing.assert_close(
            features(model.samples(images)[:]), network(pixels.movedim(3, 1)), rtol=1e-3, atol=1e-4
        )
    model.save(tmp_path / "run")
    again = viewsmith.load(tmp_path / "run")
    assert timm == [3] and np.array_equal(again.transform(images), model.transform(images))


def test_images_may_be_enlarged_for_timm_and_weights_come_from_a_file(timm, images, tmp_path):
    small = refusal(LinearContrast(features="timm:stem").fit, images[:, :4, :4])
    assert "the features timm:stem fail on images of 4 x 4 pixels" in small and "set side (features_options)" in small
    save_tensors(tmp_path / "w.safetensors", Stem().state_dict() | {"fc.weight": torch.zeros(2, 2)})
    options = {"weights": str(tmp_path / "w.safetensors"), "side": 20}
    model = fitted(images, features="timm:stem", features_options=options)
    features = model.method_.framework.encoder.features
    assert timm == [] and features.n_features == 9
    seen = []
    features.network.first.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].shape[2:]))
    model.transform(images)
    assert set(seen) == {(20, 20)}
    random = fitted(images, features="timm:stem", features_options={"weights": "random"})
    assert timm == [] and np.array_equal(
        random.transform(images),
        fitted(images, features="timm:stem", features_options={"weights": "random"}).transform(images),
    )


def test_timm_without_the_network_the_library_or_the_weights(timm, images, monkeypatch):
    assert "timm has no encoder 'none'" in refusal(LinearContrast(features="timm:none").fit, images)
    nowhere = LinearContrast(features="timm:stem", features_options={"weights": "nowhere"})
    assert "no weights at nowhere (weights of features_options)" in refusal(nowhere.fit, images)
    monkeypatch.setitem(sys.modules, "timm", None)
    assert "needs the package 'timm'" in refusal(LinearContrast(features="timm:stem").fit, images)
