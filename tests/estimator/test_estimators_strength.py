"""Noise strength chosen without labels."""

import numpy as np
import pytest
import torch

from cases import slow
from viewsmith import Contrastive, PiNDA
from viewsmith.core.tensors import stream
from viewsmith.estimator import resolve as module

SHORT = {"epochs": 2, "n_components": 8, "projector_dims": (4,), "batch_size": 64, "random_state": 0}
TINY = SHORT | {"hidden": (16,)}
NOISE = {"view_maker": "noise", "kernel": "cosine"}


@pytest.fixture(autouse=True)
def short_trials(monkeypatch):
    monkeypatch.setattr(module, "TRIAL_STEPS", 10)


@pytest.fixture(scope="module")
def images():
    """Small images, whose strengths are tried by trainings."""
    return np.random.default_rng(0).integers(0, 256, (178, 8, 8), dtype=np.uint8)


CASES = [(Contrastive, "noise_strength", NOISE), (PiNDA, "strength", {"view_maker": "identity"})]


@pytest.mark.parametrize(("cls", "name", "options"), CASES)
def test_vectors_get_noise_that_stays_near_the_data(cls, name, options, wine):
    model = cls(**TINY, **options, **{name: "auto"}).fit(wine)
    distances = {float(key): value for key, value in model.fitted_["strength_scores"].items()}
    assert tuple(distances) == module.STRENGTHS
    assert list(distances.values()) == sorted(distances.values())
    chosen = model.fitted_[name]
    assert chosen == min(distances, key=lambda value: abs(np.log(distances[value] / module.DISTANCE)))
    by_hand = cls(**TINY, **options, **{name: chosen}).fit(wine)
    assert np.array_equal(model.transform(wine), by_hand.transform(wine))


def test_the_distance_at_each_strength_against_a_loop():
    x = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    _, distances = module.strength_at_distance(torch.from_numpy(np.concatenate([x, x[:5]])), 4)
    ordered = torch.from_numpy(x).unique(dim=0).numpy()
    noisy = ordered + 0.8 * torch.randn(30, 3, generator=stream(4, "strength")).numpy()
    medians = []
    for rows in (ordered, noisy):
        near = [min(np.linalg.norm(rows[i] - ordered[j]) for j in range(30) if j != i) for i in range(30)]
        medians.append(np.sort(near)[14])
    assert distances["0.8"] == pytest.approx(medians[1] / medians[0], rel=1e-4)


@pytest.mark.parametrize(("cls", "name", "options"), [CASES[0], slow(*CASES[1])])
def test_auto_takes_the_best_of_the_grid(cls, name, options, images):
    model = cls(**SHORT, **options, **{name: "auto"}).fit(images)
    scores = model.fitted_["strength_scores"]
    assert list(scores) == [str(value) for value in module.GRID]
    assert all(np.isfinite(score) and score <= 1 for score in scores.values()) and len(set(scores.values())) > 1
    chosen = model.fitted_[name]
    assert chosen in module.GRID and scores[str(chosen)] == max(scores.values())
    # The choice is all that auto does: the same strength by hand is the same model.
    by_hand = cls(**SHORT, **options, **{name: chosen}).fit(images)
    assert np.array_equal(model.transform(images), by_hand.transform(images))
    assert model.get_params()[name] == "auto"


@pytest.mark.slow
def test_the_choice_is_replayed_and_needs_no_labels(wine):
    options = TINY | NOISE | {"noise_strength": "auto"}
    one, again = Contrastive(**options).fit(wine), Contrastive(**options).fit(wine, np.arange(178) % 3)
    assert one.fitted_ == again.fitted_
    other = Contrastive(**options | {"random_state": 1}).fit(wine)
    assert other.fitted_["strength_scores"] != one.fitted_["strength_scores"]


def test_the_strength_with_the_best_score_is_chosen(images, monkeypatch):
    def prefer_the_second(h_train, h_held, x_train, x_held):
        assert len(h_held) == len(x_held) == 35 and len(h_train) == len(x_train) == 143
        assert h_train.shape[1] == 8
        seen.append(h_train)
        return [0.1, 0.9, 0.2, 0.3][len(seen) - 1]

    seen = []
    monkeypatch.setattr(module, "neighbor_r2", prefer_the_second)
    model = Contrastive(**SHORT | NOISE | {"noise_strength": "auto"}).fit(images)
    assert model.fitted_["noise_strength"] == module.GRID[1] and len(seen) == 4


def test_scaled_and_imputed_rows_are_compared(wine):
    x = wine.copy()
    x[::5, 2] = np.nan
    model = Contrastive(**TINY | NOISE | {"noise_strength": "auto", "impute": "median"}).fit(x)
    assert model.fitted_["noise_strength"] in module.STRENGTHS


@pytest.mark.parametrize("cls", [Contrastive, PiNDA])
def test_no_trials_without_noise(cls, wine, monkeypatch):
    monkeypatch.setattr(module, "clone", lambda estimator: pytest.fail("a trial was made"))
    if cls is Contrastive:
        fitted = cls(**TINY, noise_strength="auto", view_maker="neighbors").fit(wine).fitted_
        assert fitted["noise_strength"] == 1.0 and not fitted["strength_scores"]
    else:
        assert cls(**TINY, strength=0.7).fit(wine).fitted_["strength"] == 0.7


def test_too_few_rows_for_validation_use_strength_one(wine):
    fitted = Contrastive(**TINY | NOISE | {"noise_strength": "auto"}).fit(wine[:20]).fitted_
    assert fitted["noise_strength"] == 1.0 and not fitted["strength_scores"]


def test_a_strength_is_scored_on_rows_that_its_trial_has_not_seen(images, monkeypatch):
    trained, scored, train = [], [], module.train_briefly

    def noted(estimator, data, index, *args, **options):
        trained.append(data.rows[index])
        return train(estimator, data, index, *args, **options)

    def score(h_kept, h_held, kept, held):
        scored.append((len(h_kept), len(h_held)))
        return 0.0

    monkeypatch.setattr(module, "train_briefly", noted)
    monkeypatch.setattr(module, "neighbor_r2", score)
    Contrastive(**SHORT, **NOISE, noise_strength="auto").fit(images)
    assert scored == [(143, 35)] * len(module.GRID) and len(trained) == len(module.GRID)
    order = torch.randperm(178, generator=stream(0, "strength")).numpy()
    assert all(np.array_equal(rows, images[order[35:]]) for rows in trained)
