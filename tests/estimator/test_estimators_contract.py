"""Contract of every estimator with every view maker: it trains all weights, saves and loads."""

import itertools

import numpy as np
import pytest
import torch

import viewsmith
from cases import covering, slow
from registered import TRAINED

TINY = {"epochs": 1, "hidden": (16,), "n_components": 8, "projector_dims": (8, 4), "batch_size": 64, "random_state": 0}
JOINED = ("noise+neighbors", "neighbors+corruption+mixup")
KERNELS = dict.fromkeys(TRAINED, ("cauchy", "cosine")) | {
    "diffaug": ("paper",),
    "crl-tac": ("auto",),
    "metaug": ("auto",),
}
SIMPLE = ("identity", "noise", "corruption", "mixup", "neighbor-mix", "neighbors")
MAKERS = dict.fromkeys(TRAINED, SIMPLE + JOINED) | {"crl-tac": ("auto",)}
# CRL-TAC subtracts the projection of an empty view from the others, and with it the last bias.
LAST = ("method.head.1.2.bias",)
COPIES = (
    "method.generated.encoder.",
    "method.generated.generator.averaged.",
    "method.quality.encoder.",
)  # copies of trained modules


COMBINATIONS = [(name, *pair) for name in TRAINED for pair in itertools.product(MAKERS[name], KERNELS[name])]


@pytest.mark.parametrize(("name", "view_maker", "kernel"), covering(COMBINATIONS, (0, 2), (1,), drawn=16))
def test_two_steps_of_every_combination(name, view_maker, kernel, wine, tmp_path):
    x = wine[:128]
    model = TRAINED[name](**TINY, view_maker=view_maker, kernel=kernel).fit(x)
    phases = {row["phase"] for row in model.metrics_}
    assert model.summary_["steps"] == 2 * len(phases) and np.isfinite(model.metrics_[-1]["loss"])
    h, views = model.transform(x), model.views(x[:9], 2)
    assert h.shape == (128, 8) and np.isfinite(h).all()
    # MetAug's views are features: of two views, 4 numbers each.
    assert views.shape == (9, 2, 8 if name == "metaug" else 13) and np.isfinite(views).all()

    # Two steps train every weight: encoder, head and, if there is one, the generator.
    trained = model.weights()
    learned = {f"method.{key}" for key, p in model.method_.named_parameters() if p.requires_grad}
    others = {f"method.{key}" for key, _ in model.method_.named_parameters()} - learned
    assert all(key.startswith(COPIES) for key in others)
    still = {key for key in learned if torch.equal(trained[key], model.initial_[key])}
    # A shift of all projections changes no distance: with the Cauchy kernel the last bias has no gradient.
    assert still <= {"method.framework.head.2.bias", "method.framework.map_head.3.bias", *LAST}, still
    # Modules that are fitted to the data, not trained, do not change.
    assert all(torch.equal(trained[key], model.initial_[key]) for key in trained if key.startswith("scaler."))

    model.save(tmp_path / "run")
    loaded = viewsmith.load(tmp_path / "run")
    assert np.array_equal(loaded.transform(x), h)
    assert np.array_equal(loaded.views(x[:9], 2), views)


@pytest.mark.parametrize("name", TRAINED)
def test_principal_axes_are_fitted_and_do_not_learn(name, digits):
    model = TRAINED[name](**TINY, input_components=6).fit(digits[:128])
    trained = model.weights()
    (key,) = {key for key in trained if key.endswith(".encoder.0.axes") and not key.startswith(COPIES)}
    assert trained[key].abs().sum() > 0 and torch.equal(trained[key], model.initial_[key])
    assert key not in {f"method.{name}" for name, _ in model.method_.named_parameters()}


PAPER = [name for name, cls in TRAINED.items() if "paper" in cls.presets]


@pytest.mark.parametrize("name", [slow(name) if name == "diffaug" else name for name in PAPER])
def test_presets_fit(name, wine):
    cls = TRAINED[name]
    small = {"epochs": 1, "random_state": 0}
    assert np.isfinite(cls(**cls.presets["paper"] | small).fit(wine[:64]).transform(wine)).all()


@pytest.mark.filterwarnings("error", "ignore::UserWarning", "ignore:.torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize("name", TRAINED)
def test_bf16_trains_and_serves_float32(name, wine):
    model = TRAINED[name](**TINY, precision="bf16").fit(wine)
    assert model.transform(wine).dtype == np.float32
    assert all(value.dtype != torch.bfloat16 for value in model.weights().values())
