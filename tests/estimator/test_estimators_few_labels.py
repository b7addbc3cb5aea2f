"""supervision="labels" and groups= of the estimators."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

import viewsmith
from refusals import refusal
from viewsmith import CRLTAC, Contrastive, DiffAug, GenView, MetAug, PiNDA
from viewsmith.core.errors import InputError
from viewsmith.estimator.inputs import labels_used

X, Y = (part[:120] for part in load_digits(return_X_y=True))
FEW = np.where(np.arange(120) < 30, Y, -1)
SMALL = {"epochs": 1, "batch_size": 64, "random_state": 0, "hidden": (16,), "n_components": 8}
RNG = np.random.default_rng(0)
GROUPS = np.arange(120) % 3


def weights(model):
    return {name: value.numpy() for name, value in model.weights().items()}


def same(one, other):
    return all((weights(one)[name] == value).all() for name, value in weights(other).items())


def test_labels_are_not_used_without_supervision():
    plain, given = Contrastive(**SMALL).fit(X), Contrastive(**SMALL).fit(X, Y)
    assert same(plain, given) and "labels" not in given.summary_ and labels_used(given) is None
    used = Contrastive(**SMALL, supervision="labels").fit(X, FEW)
    assert not same(plain, used)
    assert used.summary_["labels"] == "supervision by labels: 30 of 120 training rows (10 classes)"


TARGET = np.where(np.arange(120) < 60, X[:, 20] + 0.5, np.nan)


def test_numbers_supervise_by_their_order(tmp_path):
    options = SMALL | {"supervision": "numbers"}
    model = Contrastive(**options).fit(X, TARGET, run=tmp_path / "run")
    assert model.summary_["labels"] == "supervision by numbers: 60 of 120 training rows"
    assert np.isfinite(model.metrics_[-1]["supervised"]) and not same(model, Contrastive(**SMALL).fit(X))
    assert same(model, Contrastive(**options).fit(X, 3 * TARGET - 1))  # only the order of distances counts
    assert not same(model, Contrastive(**options).fit(X, TARGET**2))
    assert labels_used(viewsmith.load(tmp_path / "run"))(X).tolist() == (np.arange(120) < 60).tolist()
    with pytest.raises(InputError, match="another configuration"):
        Contrastive(**options).fit(X, TARGET + 1, run=tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "a number or NaN for each of 120 rows, but none were given"),
        (TARGET[:50], "but 50 were given"),
        (np.where(TARGET > 5, 5.5, np.nan), "1 different number say nothing"),
        (np.full(120, np.nan), "0 labeled rows"),
        (np.array(["many"] * 120), "expected numbers"),
    ],
)
def test_numbers_that_cannot_be_used(y, message):
    with pytest.raises(InputError, match=message):
        Contrastive(**SMALL, supervision="numbers").fit(X, y)


@pytest.mark.parametrize("method", [PiNDA, DiffAug, GenView, MetAug])
def test_every_method_with_a_framework(method):
    model = method(**SMALL, supervision="labels").fit(X, FEW)
    assert any(np.isfinite(row.get("supervised", np.nan)) for row in model.metrics_)


@pytest.mark.parametrize("framework", ["moco", "swav"])
def test_other_frameworks(framework):
    model = Contrastive(**SMALL, framework=framework, supervision="labels").fit(X, FEW)
    assert np.isfinite(model.metrics_[-1]["supervised"])


def test_a_saved_model_knows_the_rows_whose_labels_it_used(tmp_path):
    model = Contrastive(**SMALL, supervision="labels", supervision_weight=0.5).fit(X, FEW)
    model.save(tmp_path / "run")
    loaded = viewsmith.load(tmp_path / "run")
    for each in (model, loaded):
        used = labels_used(each)
        assert used(X).tolist() == (FEW >= 0).tolist() and not used(X + 1).any()
    assert loaded.supervision_weight == 0.5


def test_a_resumed_training_equals_an_uninterrupted_one(tmp_path, monkeypatch):
    from viewsmith.training import engine

    options = SMALL | {"epochs": 4, "supervision": "labels", "checkpoint_every": 0.0}
    whole = Contrastive(**options).fit(X, FEW)
    stopped = engine.Trainer._stopped

    def after_two_steps(trainer):
        return "interrupted" if trainer.steps == 2 else stopped(trainer)

    with monkeypatch.context() as patch, pytest.warns(UserWarning, match="ended early"):
        patch.setattr(engine.Trainer, "_stopped", after_two_steps)
        Contrastive(**options).fit(X, FEW, run=tmp_path / "run")
    assert same(whole, Contrastive(**options).fit(X, FEW, run=tmp_path / "run", resume=True))


def test_a_resumed_training_needs_the_same_labels_and_groups(tmp_path):
    options = SMALL | {"supervision": "labels", "group_mode": "align"}
    given = {"run": tmp_path / "run", "groups": GROUPS}
    model = Contrastive(**options).fit(X, FEW, **given)
    assert same(model, Contrastive(**options).fit(X, FEW, resume=True, **given))
    others = [(np.where(FEW == 3, 4, FEW), GROUPS), (FEW, np.roll(GROUPS, 1) % 2), (np.roll(FEW, 1), GROUPS)]
    for labels, groups in others:
        with pytest.raises(InputError, match="another configuration"):
            Contrastive(**options).fit(X, labels, resume=True, run=tmp_path / "run", groups=groups)


def test_a_framework_of_labels_has_no_supervision_beside_it():
    assert "leave one of them out" in refusal(
        Contrastive(**SMALL, framework="supcon", supervision="labels").fit, X, FEW
    )


def test_a_method_without_framework(tmp_path):
    images = RNG.integers(0, 256, (20, 16, 16), dtype=np.uint8)
    with pytest.raises(InputError, match="'info-max' is no framework of pairs"):
        CRLTAC(epochs=1, batch_size=10, supervision="labels").fit(images, np.arange(20) % 2, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_strength_is_chosen_without_labels(monkeypatch):
    monkeypatch.setattr("viewsmith.estimator.resolve.TRIAL_STEPS", 2)
    options = SMALL | {"view_maker": "noise", "noise_strength": "auto", "supervision": "labels"}
    assert Contrastive(**options).fit(X, FEW).facts_.strength_scores


# ---- groups ---------------------------------------------------------------------------------------------------------


def test_groups_change_nothing_unless_aligned():
    plain, given = Contrastive(**SMALL).fit(X), Contrastive(**SMALL).fit(X, groups=GROUPS)
    assert same(plain, given) and given.summary_["groups"] == {"groups": 3, "mode": "none"}


def test_aligned_groups():
    model = Contrastive(**SMALL, group_mode="align").fit(X, groups=GROUPS)
    assert not same(model, Contrastive(**SMALL).fit(X))
    found = model.summary_["groups"]
    assert found["groups"] == 3 and found["mode"] == "align" and 0 < found["rows_with_mutual_neighbors"] <= 120
    assert found["mutual_edges"] % 2 == 0
    assert model.views(X[:5], 2).shape == (5, 2, 64)


@pytest.mark.parametrize(
    ("options", "groups", "message"),
    [
        ({}, None, "no groups were given"),
        ({"view_maker": "noise"}, GROUPS, "use no neighbors"),
        ({"neighbor_space": "encoder"}, GROUPS, "leave one of them out"),
        ({}, np.zeros(120), "has one group"),
    ],
)
def test_groups_that_cannot_be_aligned(options, groups, message):
    with pytest.raises(InputError, match=message):
        Contrastive(**SMALL, group_mode="align", **options).fit(X, groups=groups)


def test_groups_that_are_not_aligned_may_have_one_row():
    assert Contrastive(**SMALL).fit(X, groups=np.arange(120)).summary_["groups"] == {"groups": 120, "mode": "none"}


def test_columns_of_a_table_that_repeat_the_labels_are_named():
    codes = np.arange(60) % 4
    frame = pd.DataFrame({"a": np.random.default_rng(0).normal(size=60), "kind": np.array(list("wxyz"))[codes]})
    model = Contrastive(supervision="labels", epochs=1)
    assert "the feature kind repeats the labels: " in refusal(model.fit, frame, codes)
    frame = frame.drop(columns="kind").join(pd.get_dummies(codes, prefix="is"))
    assert "the features is_0, is_1, is_2, is_3 together repeat" in refusal(model.fit, frame, codes)
