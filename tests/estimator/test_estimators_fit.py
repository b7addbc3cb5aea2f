"""fit, transform, views and untrained: determinism, independence, units."""

import functools
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from refusals import refusal
from registered import TRAINED, made
from viewsmith import CRLTAC, Contrastive, DiffAug, GenView, LinearContrast, MetAug, PiNDA
from viewsmith.core.errors import InputError
from viewsmith.frameworks import SimCLR
from viewsmith.methods.loading import estimators
from viewsmith.networks import PrincipalAxes

pytestmark = pytest.mark.filterwarnings("ignore:the representation has collapsed", "ignore:training ended early")

TINY = {"epochs": 2, "hidden": (16,), "n_components": 8, "projector_dims": (4,), "batch_size": 64, "random_state": 0}
every_trained = pytest.mark.parametrize("cls", TRAINED.values(), ids=TRAINED)
every_estimator = pytest.mark.parametrize("cls", estimators().values(), ids=estimators())


def weights(model):
    return {name: value.clone() for name, value in model.weights().items()}


@pytest.fixture(scope="module")
def fitted(wine):
    """The model of a class on the wines, which no test changes."""
    return functools.cache(lambda cls: made(cls, **TINY).fit(wine))


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


# --- fit


@pytest.mark.parametrize(("batch_size", "warns"), [("auto", False), (178, False), (179, True)])
def test_fewer_rows_than_a_batch_that_was_chosen_are_named(wine, batch_size, warns):
    with warnings.catch_warnings(record=True, action="always") as caught:
        model = Contrastive(**TINY | {"batch_size": batch_size}).fit(wine)
    text = [str(one.message) for one in caught if "batch" in str(one.message)]
    assert text == ["178 rows are fewer than a batch of 179: every step takes all of them"] * warns
    assert model.summary_["steps"] == 2


@every_estimator
def test_equal_seeds_give_equal_models_and_others_differ(cls, wine, fitted):
    labels = np.random.default_rng(0).integers(0, 3, size=178)  # which are never used
    one, again = fitted(cls), made(cls, **TINY).fit(wine, labels)
    assert same(weights(one), weights(again)) and same(one.initial_, again.initial_)
    assert np.array_equal(one.transform(wine), again.transform(wine))
    other = made(cls, **TINY | {"random_state": 1}).fit(wine)
    assert not np.array_equal(one.transform(wine), other.transform(wine))
    assert not same(one.initial_, other.initial_)


@every_estimator
def test_a_second_fit_equals_the_first_and_changes_no_random_stream_of_the_caller(cls, wine, fitted):
    torch.manual_seed(0)
    before, numpys = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    model = made(cls, **TINY).fit(wine[:, :5])
    assert model.transform(wine[:, :5]).shape == (178, 8)
    assert same(weights(model.fit(wine)), weights(fitted(cls)))
    model.views(wine)
    model.untrained(wine)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], numpys)  # noqa: NPY002


@every_estimator
def test_training_does_not_depend_on_the_gradient_mode_of_the_caller(cls, wine, fitted):
    expected = fitted(cls)
    with torch.inference_mode():
        model = made(cls, **TINY).fit(wine)
        assert not torch.is_grad_enabled()
        transformed = model.transform(wine)
    assert same(weights(model), weights(expected)) and np.array_equal(transformed, expected.transform(wine))


def test_seeds_may_be_random_states_or_none(wine):
    one, again = (Contrastive(**TINY | {"random_state": np.random.RandomState(3)}).fit(wine) for _ in range(2))
    assert same(weights(one), weights(again))
    np.random.seed(0)  # noqa: NPY002 - what scikit-learn means by None
    free, other = (Contrastive(**TINY | {"random_state": None}).fit(wine) for _ in range(2))
    assert free.fitted_["seed"] != other.fitted_["seed"]
    known = Contrastive(**TINY | {"random_state": free.fitted_["seed"]}).fit(wine)
    assert same(weights(free), weights(known))


@every_trained
def test_summary_and_attributes_of_fit(cls, fitted):
    model = fitted(cls)
    # Two epochs are too few for a good generator or channel.
    untaught = ("generated views drift", "the channel has not left")
    assert model.status_ == "finished" and all(line.startswith(untaught) for line in model.warnings_)
    epochs = 3 if cls in (DiffAug, GenView) else 2
    assert [row["epoch"] for row in model.metrics_] == list(range(1, epochs + 1))
    assert {"loss", "feature_std", "effective_rank", "uniformity", "alignment"} <= model.metrics_[-1].keys()
    assert model.fitted_["scaling"] == "standard" and model.fitted_["epochs"] == 2
    assert model.summary_["rows"] == 178 and model.summary_["steps"] == 2 * epochs


# --- transform


@every_estimator
def test_outputs_by_name(cls, wine, fitted):
    model = fitted(cls)
    assert model.transform(wine, output="projection").shape == (178, 8 if cls is LinearContrast else 4)
    assert np.array_equal(model.transform(wine, output="representation"), model.transform(wine))
    with pytest.raises(InputError, match="output is 'maps', expected one of 'representation', 'projection'"):
        model.transform(wine, output="maps")
    if cls is DiffAug:
        assert model.transform(wine, output="map").shape == (178, 2)


# --- views


@every_estimator
def test_views_are_replayed_and_in_the_units_of_the_rows(cls, wine):
    # With phase A alone DiffAug uses fixed views, and so does GenView without generated views.
    extra = {PiNDA: {"strength": 0.03}, DiffAug: {"phases": "A"}, GenView: {"alpha": 0.0}}.get(cls, {})
    if cls is CRLTAC:
        pytest.skip("its views are drawn from the channel")
    model = made(cls, **TINY, view_maker="noise", noise_strength=1e-4, **extra).fit(wine)
    if cls is MetAug:
        assert np.array_equal(model.views(wine, 3), model.views(wine, 3))
        assert not np.array_equal(model.views(wine, 3), model.views(wine, 3, random_state=1))
        model.views = model.input_views
    for n_views in (1, 3):
        views = model.views(wine, n_views)
        assert views.shape == (178, n_views, 13) and views.dtype == np.float32
        assert np.array_equal(views, model.views(wine, n_views))
        assert not np.array_equal(views, model.views(wine, n_views, random_state=1))
        assert len(np.unique(views[0, :, 0])) == n_views
        moved = (views - wine[:, None]) / wine.std(0)
        assert 0 < np.abs(moved).max() < (0.3 if cls is PiNDA else 1e-3)


def test_views_of_parts_equal_views_of_all_rows_only_with_a_pool(wine):
    model = Contrastive(**TINY, n_neighbors=1).fit(wine)
    scaled = model.scaled(wine)

    def nearest(query, rows, skip_self):
        distances = ((query - rows) ** 2).sum(1)
        return int(np.argsort(distances)[1 if skip_self else 0])

    views = model.views(wine, 1)[:, 0]
    for row in (0, 50, 177):
        np.testing.assert_allclose(views[row], wine[nearest(scaled[row], scaled, True)], rtol=1e-5, atol=1e-4)
    # With a pool the rows are new: the nearest row of the pool may be the row itself.
    with_pool = model.views(wine[:5], 2, pool=wine[100:])
    for row in range(5):
        expected = wine[100 + nearest(scaled[row], scaled[100:], False)]
        np.testing.assert_allclose(with_pool[row], [expected] * 2, rtol=1e-5, atol=1e-4)


def test_views_do_not_change_the_representation(wine):
    model = Contrastive(**TINY, view_maker="neighbors+corruption").fit(wine)
    before = model.transform(wine)
    model.views(wine[:10], 2, pool=wine[20:40])
    assert np.array_equal(model.transform(wine), before)


def test_invalid_arguments_of_views_are_refused(wine):
    model = Contrastive(**TINY).fit(wine)
    assert "n_views is 0, expected a whole number of at least 1" in refusal(model.views, wine, 0)
    assert "expected at least two rows, got one; give pool=rows" in refusal(model.views, wine[:1], 2)
    assert model.views(wine[:1], 2, pool=wine).shape == (1, 2, 13)


# --- untrained


@every_trained
@pytest.mark.parametrize("norm", ["batch", "none"])
def test_untrained_has_the_weights_from_before_training(cls, norm, wine, fitted):
    model = fitted(cls) if norm == "batch" else made(cls, **TINY, norm=norm).fit(wine)
    trained, h = weights(model), model.transform(wine)
    fresh = model.untrained(wine)
    running = {name for name in trained if "running_" in name or "num_batches" in name}
    assert bool(running) == (norm == "batch")
    assert same(
        {name: value for name, value in weights(fresh).items() if name not in running},
        {name: value for name, value in model.initial_.items() if name not in running},
    )
    assert not np.array_equal(fresh.transform(wine), h)
    assert np.isfinite(fresh.transform(wine)).all()
    # The original does not change, and the copy trains nothing.
    assert same(weights(model), trained) and np.array_equal(model.transform(wine), h)


def test_untrained_batch_norm_sees_the_rows_once(wine):
    model = Contrastive(**TINY).fit(wine)
    fresh = model.untrained(wine)
    linear, norm, *_ = fresh.method_.framework.encoder[0]
    with torch.no_grad():
        features = linear(fresh.scale_rows(wine))
    assert isinstance(norm, nn.BatchNorm1d) and norm.momentum == 0.1 and not norm.training
    torch.testing.assert_close(norm.running_mean, features.mean(0), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(norm.running_var, features.var(0), rtol=1e-4, atol=1e-5)


def test_a_framework_with_an_encoder_has_the_width_of_that(wine):
    framework = SimCLR(nn.Linear(13, 4), nn.Linear(4, 4))
    model = PiNDA(framework=framework, epochs=1, random_state=0).set_output(transform="pandas").fit(wine)
    assert model.transform(wine).shape == (len(wine), 4) == (len(wine), model.options_.n_components)
    for further in ({"encoder": nn.Linear(13, 2)}, {"encoder": "mlp"}, {"encoder_options": {"dropout": 0.1}}):
        message = refusal(Contrastive(framework=framework, **further).fit, wine)
        assert "the framework SimCLR has an encoder: give one of them" in message


def test_the_pool_is_released_when_views_are_refused(wine, monkeypatch):
    model = Contrastive(**TINY, view_maker="neighbors").fit(wine)
    held = []
    monkeypatch.setattr(model.method_, "prepare", lambda rows, seed: held.append(len(rows)))
    monkeypatch.setattr(model.method_, "release", held.clear)
    monkeypatch.setattr(model.method_, "view", lambda x, **options: refuse())

    def refuse():
        assert held == [len(wine)]
        raise InputError("no")

    assert refusal(model.views, wine) == "no" and held == []


def test_input_components_stand_before_the_encoder(digits):
    def axes(**options):
        model = Contrastive(**TINY | {"epochs": 1}, **options).fit(digits[:200])
        return [m for m in model.method_.modules() if isinstance(m, PrincipalAxes)], model

    assert axes()[0] == []  # 64 features are not wide
    (found,), model = axes(input_components=10)
    assert found.axes.shape == (64, 10) and model.fitted_["input_components"] == 10
    wide = np.random.default_rng(0).normal(size=(60, 210)).astype(np.float32)
    options = TINY | {"epochs": 1}
    assert [Contrastive(**options).fit(x).fitted_["input_components"] for x in (wide, wide[:40])] == [50, 40]
    assert Contrastive(**options, view_maker="noise").fit(wide).fitted_["input_components"] is None
    assert Contrastive(**options, input_components=None).fit(wide).fitted_.get("input_components") is None
