"""`fit` compares the trained encoder with the untrained one, without labels, and says if training did harm."""

import copy

import numpy as np
import pytest
import torch

from viewsmith import Contrastive, DiffAug
from viewsmith.estimator.fitting import compared_with_untrained

LINE = "the trained encoder is below the untrained one"
HARMFUL = DiffAug.presets["paper2d"] | {"phases": "A", "epochs": 80, "learning_rate": 1e-3, "random_state": 0}


@pytest.fixture
def rows(digits):
    return digits[:400]


def below(model):
    return [line for line in model.warnings_ if line.startswith(LINE)]


def test_a_training_that_loses_what_the_encoder_had_is_named(rows):
    with pytest.warns(UserWarning, match=LINE):
        model = DiffAug(**HARMFUL).fit(rows)
    (line,) = below(model)
    assert "before training" in line and "\n" not in line and line in model.summary_["warnings"]


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [Contrastive, DiffAug])
def test_the_defaults_are_not_blamed(estimator, rows):
    options = {} if estimator is Contrastive else {"phases": "A", "epochs": 80}
    assert not below(estimator(random_state=0, **options).fit(rows[:300]))


def test_the_comparison_changes_neither_the_model_nor_random_streams(rows):
    model = Contrastive(epochs=1, random_state=0).fit(rows)
    before, state = copy.deepcopy(model.weights()), torch.get_rng_state()
    compared_with_untrained(model.method_, model.initial_, model.samples(rows), 0)
    assert all(torch.equal(value, before[name]) for name, value in model.weights().items())
    assert torch.equal(state, torch.get_rng_state()) and not model.method_.training


def test_few_rows_rows_without_difference_and_images_are_not_compared(rows):
    model = Contrastive(epochs=1, random_state=0).fit(rows)
    x = model.samples(rows)
    spoiled = copy.deepcopy(model.method_)
    for p in spoiled.framework.encoder.parameters():
        p.data.zero_()
    assert compared_with_untrained(spoiled, model.initial_, x, 0)
    assert not compared_with_untrained(spoiled, model.initial_, x[:199], 0)
    assert not compared_with_untrained(spoiled, model.initial_, x[:1].expand(300, -1).clone(), 0)
    images = np.random.default_rng(0).integers(0, 255, (200, 8, 8), dtype=np.uint8)
    of_images = Contrastive(epochs=1, random_state=0).fit(images)
    assert not below(of_images)


def test_labels_may_move_rows_apart(rows, monkeypatch):
    from viewsmith.estimator import fitting

    monkeypatch.setattr(fitting, "compared_with_untrained", lambda *_: pytest.fail("compared"))
    labels = np.arange(len(rows)) % 5
    Contrastive(epochs=1, random_state=0, framework="supcon").fit(rows, labels)
    Contrastive(epochs=1, random_state=0, supervision="labels").fit(rows, labels)
