"""Noise levels belong to the model: level and view of a row do not depend on the rows given with it."""

import numpy as np
import pytest
import torch

import viewsmith
from cases import slow
from viewsmith import GenView
from viewsmith.views.generated.noise_level import MAX_ROWS, NoiseTolerance, fit_density

TINY = {"epochs": 2, "n_components": 8, "batch_size": 16, "random_state": 0}
N = 40


def samples(modality, n=N, seed=0):
    rng = np.random.default_rng(seed)
    if modality == "vectors":
        return (rng.normal(size=(n, 5)) * rng.uniform(0.2, 3, (n, 1))).astype(np.float32)
    if modality == "dna":
        return rng.choice(np.frombuffer(b"ACGT", dtype=np.uint8), (n, 24))
    return rng.integers(0, 256, (n, 16, 16, 3), dtype=np.uint8)


def nearly_equal(one, other):
    """Whether views are equal up to rounding, which rarely changes letters and pixels."""
    return np.allclose(one, other, atol=1e-4) if one.dtype != np.uint8 else (one != other).mean() < 0.01


@pytest.mark.parametrize(
    ("modality", "noise"),
    [("vectors", "adaptive"), ("vectors", "random"), slow("images", "adaptive"), slow("dna", "adaptive")],
)
def test_a_row_does_not_depend_on_the_rows_given_with_it(modality, noise, tmp_path):
    x, new = samples(modality), samples(modality, 3, seed=9)
    model = GenView(**TINY, noise=noise).fit(x, run=tmp_path / "run")
    whole = model.generated_views(x, 2)
    assert len(np.unique(whole["level"])) > 1
    for found in (model.generated_views(x[:8], 2), viewsmith.load(tmp_path / "run").generated_views(x[:8], 2)):
        assert np.array_equal(found["level"], whole["level"][:8]) and nearly_equal(found["views"], whole["views"][:8])
    for row in (0, 7):
        alone = model.generated_views(x[row : row + 1], 2)
        assert np.array_equal(alone["level"][0], whole["level"][row])
        assert nearly_equal(alone["views"][0], whole["views"][row])
    beside = model.generated_views(np.concatenate([new, x[::-1]]), 2)
    assert np.array_equal(beside["level"][3:], whole["level"][::-1])
    assert nearly_equal(beside["views"][3:], whole["views"][::-1])
    alone = model.generated_views(new, 2)
    assert np.array_equal(beside["level"][:3], alone["level"]) and nearly_equal(beside["views"][:3], alone["views"])
    # Views of a row differ, and another seed gives other views.
    assert not nearly_equal(whole["views"][:, 0], whole["views"][:, 1])
    assert not nearly_equal(model.generated_views(x, 2, random_state=1)["views"], whole["views"])


@pytest.mark.parametrize("modality", ["vectors", slow("images")])
def test_a_row_has_the_same_level_in_training_and_in_later_calls(modality):
    x = samples(modality)
    model = GenView(**TINY).fit(x)
    generated = model.method_.generated
    generated.prepare(model.samples(x), model.fitted_["seed"])
    asked = []
    generate = generated.generate
    generated.generate = lambda x, index, rng, strength=None: (
        asked.append(strength) or generate(x, index, rng, strength)
    )
    generated.cached_views()
    levels = model.generated_views(x, 1)["level"][:, 0]
    assert torch.cat(asked[:1]).mul(500).sub(50).round().long().tolist() == levels.tolist()


@pytest.mark.parametrize("shape", [(5,), (3, 8, 8)])
def test_the_fitted_tolerance_is_saved_and_does_not_change(shape):
    torch.manual_seed(0)
    images = len(shape) == 3
    encoder = torch.nn.Conv2d(3, 6, 1) if images else torch.nn.Linear(5, 4)
    x = torch.randn(50, *shape) * torch.rand(50, *[1] * len(shape))
    fitted = NoiseTolerance().fit(encoder, x)
    expected = fitted(encoder, x)
    assert expected.dtype == torch.float64 and 0 <= expected.min() < expected.max() <= 1
    loaded = NoiseTolerance(width=6) if images else NoiseTolerance(references=(50, 4))
    loaded.load_state_dict(fitted.state_dict())
    for part in (slice(0, 1), slice(7, 30), slice(49, 50)):
        assert torch.equal(loaded(encoder, x[part]), expected[part])


def test_density_of_new_rows_equals_a_loop():
    h, new = torch.randn(30, 4), torch.randn(7, 4)
    density = fit_density(h, k=3)
    means = [sorted((h - row).norm(dim=1).tolist())[1:4] for row in h]
    means = sorted(sum(each) / 3 for each in means)
    slow = []
    for row in new:
        mean = sum(sorted((h - row).norm(dim=1).tolist())[:3]) / 3
        slow.append(sum(other >= mean for other in means) / 30)
    assert density.quantile(new, k=3).tolist() == pytest.approx(slow) and len(set(slow)) > 0
    assert density.quantile(new + 100).tolist() == [0.0] * 7


def test_a_sample_of_many_rows_is_stored(monkeypatch):
    assert MAX_ROWS == 10_000
    monkeypatch.setattr("viewsmith.views.generated.noise_level.MAX_ROWS", 20)
    h = torch.arange(100.0)[:, None] ** 2
    density = fit_density(h)
    assert density.references[:, 0].tolist() == [h[int(row), 0] for row in torch.linspace(0, 99, 20).long()]
    assert density.quantile(h).min() < 0.1
