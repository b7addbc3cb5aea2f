"""The contract of all registered features: shape, dtype, repetition, saved buffers, blocks, gradient, odd samples."""

import copy

import pytest
import torch

from drawn import draw
from viewsmith.core.registry import entries, find, names
from viewsmith.modalities import modality_of
from viewsmith.networks import Features, PartContext

#: Shapes of a sample as users give it, the default of a test first.
SHAPES = {
    "vectors": [(9,), (1,), (100,)],
    "images": [(24, 20, 3), (28, 28), (16, 16), (8, 8, 1), (9, 40, 5)],
    "dna": [(40,), (3,), (8,), (300,)],
    "series": [(3, 50), (1, 8), (12, 40), (1, 300)],
    "spectra": [(1, 50), (1, 8), (1, 300)],
}
#: Options that make features small; every other option has its default.
SMALL = {"centers": 12, "n_features": 190, "width": 30, "bands": 12, "k": 2}
FIXED = ("derivatives",)  # nothing is fitted
#: Those of a library that is not installed here are tested with a small one (tests/estimator/test_estimators_features).
CASES = [(modality, name) for modality in SHAPES for name in names("features", modality) if ":" not in name]
every = pytest.mark.parametrize(("modality", "name"), CASES, ids=[f"{m}-{n}" for m, n in CASES])
ODD = [(m, n, shape) for m, n in CASES for shape in SHAPES[m]]


@pytest.fixture(autouse=True)
def few_patches(monkeypatch):
    """Dictionaries of patches that are fitted to fewer of them, in less time."""
    monkeypatch.setattr("viewsmith.networks.features.SAMPLED", 1_000)


def built(modality, name, shape=None, **options):
    """Features with few columns, not fitted."""
    shape = SHAPES[modality][0] if shape is None else shape
    entry = find("features", name, modality)
    small = {name: value for name, value in SMALL.items() if name in entry.options}
    return entry.build(PartContext(shape, modality_of(modality).channels(shape), name=name), **small | options)


def samples(modality, n, seed, shape=None):
    """Scaled samples in float32."""
    shape = SHAPES[modality][0] if shape is None else shape
    if modality == "dna":
        letters = torch.randint(4, (n, *shape), generator=draw(seed))
        x = torch.nn.functional.one_hot(letters, 4).movedim(2, 1).float()
        x[0, :, :2] = 0.25  # N
        x[1:2, :, shape[0] // 2 + 1 :] = 0  # padding
        return x
    return torch.randn(n, *modality_of(modality).blank(shape).shape[1:], generator=draw(seed))


def fitted(modality, name, shape=None, n=30, seed=0):
    features = built(modality, name, shape)
    features.fit(samples(modality, n, 1, shape), draw(seed))
    return features


def test_every_modality_has_default_features_and_the_cases_are_complete():
    for entry in entries("modality"):
        default = entry.build().default_features
        if entry.origin == "viewsmith":
            assert find("features", default, entry.name).build.__doc__
    assert {e.name for e in entries("features") if e.origin == "viewsmith"} == {name for _, name in CASES} | {"timm:"}


@pytest.mark.parametrize(("modality", "name", "shape"), ODD, ids=[f"{m}-{n}-{s}" for m, n, s in ODD])
def test_shapes_are_known_before_the_fit_and_features_are_finite(modality, name, shape):
    features, x = built(modality, name, shape), samples(modality, 7, 2, shape)
    assert isinstance(features, Features)
    before = {name: (buffer.shape, buffer.dtype) for name, buffer in features.state_dict().items()}
    assert bool(before) is (name not in FIXED) and not list(features.parameters())
    features.fit(samples(modality, 30, 1, shape), draw(0))
    assert {name: (buffer.shape, buffer.dtype) for name, buffer in features.state_dict().items()} == before
    found = features(x)
    assert found.shape == (7, features.n_features) and found.dtype == torch.float32 and found.isfinite().all()
    assert (found.std(0) > 0).float().mean() > 0.5


@every
def test_the_same_seed_gives_the_same_features_and_another_one_others(modality, name):
    x = samples(modality, 5, 2)
    one, again, other = (fitted(modality, name, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(one(x), again(x)) and torch.equal(one(x), one(x))
    assert torch.equal(one(x), other(x)) is (name in FIXED)


@every
def test_fitting_again_forgets_the_first_fit(modality, name):
    features, x = fitted(modality, name, seed=3), samples(modality, 5, 2)
    expected = features(x)
    features.fit(10 * samples(modality, 20, 7), draw(9))
    features.fit(samples(modality, 30, 1), draw(3))
    assert torch.equal(features(x), expected)


@every
def test_saved_buffers_give_the_same_features(modality, name):
    features, x = fitted(modality, name), samples(modality, 5, 2)
    loaded = built(modality, name)
    loaded.load_state_dict(features.state_dict())
    assert torch.equal(loaded(x), features(x))


@every
def test_neither_fit_nor_call_changes_samples_or_state(modality, name):
    x, pool = samples(modality, 5, 2), samples(modality, 30, 1)
    given, given_pool = x.clone(), pool.clone()
    features = built(modality, name)
    features.fit(pool, draw(0))
    state = copy.deepcopy(features.state_dict())
    global_state = torch.get_rng_state()
    first = features(x)
    features.train()
    assert torch.equal(features(x), first)
    assert torch.equal(x, given) and torch.equal(pool, given_pool)
    assert all(torch.equal(value, state[key]) for key, value in features.state_dict().items())
    assert torch.equal(torch.get_rng_state(), global_state)


@every
def test_a_sample_has_the_same_features_in_any_batch_and_any_block(modality, name, monkeypatch):
    features, x = fitted(modality, name), samples(modality, 9, 2)
    together = features(x)
    torch.testing.assert_close(features(x[4:6]), together[4:6], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(features(x.flip(0)), together.flip(0), rtol=1e-4, atol=1e-5)
    monkeypatch.setattr(type(features), "block_size", lambda self, x: 2)
    torch.testing.assert_close(features(x), together, rtol=1e-4, atol=1e-5)
    assert features(x[:0]).shape == (0, features.n_features)


@every
def test_other_memory_formats_and_dtypes(modality, name):
    features, x = fitted(modality, name), samples(modality, 5, 2)
    expected = features(x)
    strided = x.transpose(0, -1).contiguous().transpose(0, -1)
    torch.testing.assert_close(features(strided), expected, rtol=1e-4, atol=1e-5)
    for dtype in (torch.float64, torch.bfloat16):
        found = features(x.to(dtype))
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, features(x.to(dtype).float()), rtol=1e-4, atol=1e-5)


@every
def test_gradients_reach_the_samples(modality, name):
    features, x = fitted(modality, name), samples(modality, 5, 2).requires_grad_()
    with torch.no_grad():
        expected = features(x)
    found = features(x)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    if found.requires_grad:  # counts of letters have none
        (gradient,) = torch.autograd.grad(found.square().sum(), x)
        assert gradient.isfinite().all() and (gradient != 0).any()


@every
@pytest.mark.parametrize("value", [0.0, 3.0])
def test_constant_samples_have_finite_features(modality, name, value):
    x = torch.full_like(samples(modality, 6, 0), value)
    assert fitted(modality, name)(x).isfinite().all()
    features = built(modality, name)
    features.fit(x, draw(0))
    assert features(x).isfinite().all() and features(samples(modality, 6, 2)).isfinite().all()


@every
@pytest.mark.parametrize("n", [1, 2])
def test_one_or_two_samples_can_be_fitted(modality, name, n):
    features = built(modality, name)
    features.fit(samples(modality, n, 1), draw(0))
    assert features(samples(modality, 4, 2)).isfinite().all()
