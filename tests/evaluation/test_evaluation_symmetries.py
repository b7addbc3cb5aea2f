"""Tests of symmetries: which samples and groups are tested."""

import tracemalloc

import numpy as np
import pytest

from viewsmith.evaluation import symmetries as module
from viewsmith.modalities import modality_of
from viewsmith.modalities.images import modality as images_module


def test_groups_are_those_of_the_samples_that_are_tested(monkeypatch):
    monkeypatch.setattr(module, "SAMPLES", 60)
    found = []
    monkeypatch.setattr(module, "in_raw_features", lambda modality, x, changed: x)
    monkeypatch.setattr(module, "tested", lambda name, x, kinds, rng: found.append((x, kinds)))
    x, groups = np.arange(300, dtype=np.float32)[:, None], np.arange(300) // 7
    module.symmetries(x, "vectors", {"half": lambda rows: rows / 2}, groups=groups)
    ((rows, kinds),) = found
    expected = groups[rows[:, 0].astype(int)]
    assert kinds.shape == (60,) and np.array_equal(kinds[:, None] == kinds, expected[:, None] == expected)


def test_fewer_of_large_samples_are_tested(monkeypatch):
    monkeypatch.setattr(module, "BYTES", 4 * 250 * 3)
    monkeypatch.setattr(module, "tested", lambda name, compared, kinds, rng: len(kinds))
    x = np.arange(1200, dtype=np.float32).reshape(300, 4)
    assert module.symmetries(x[:, :3], "vectors", {"half": lambda rows: rows / 2}) == [250]
    assert module.symmetries(x, "vectors", {"half": lambda rows: rows / 2}) == [200]


def test_components_of_far_more_features_than_samples(monkeypatch):
    rng = np.random.default_rng(0)
    x = (rng.normal(0, 2.0 ** np.arange(5), (40, 5)) @ rng.normal(size=(5, 1000)) + 3).astype(np.float32)
    found = module.components(x[:20], x[20:])
    monkeypatch.setattr(module, "WIDE", 1000)
    for one, other in zip(found, module.components(x[:20], x[20:]), strict=True):
        assert one.dtype == other.dtype == np.float32
        np.testing.assert_allclose(np.abs(one[:, :5]), np.abs(other[:, :5]), atol=0.01)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", ">u2", "float32"])
def test_equal_samples_are_of_one_kind_in_the_order_of_their_values(dtype):
    x = np.random.default_rng(0).integers(0, 300, (40, 2, 2)).astype(dtype)
    x[7] = x[11]
    expected = np.unique(x.reshape(40, -1), axis=0, return_inverse=True)[1].ravel()
    assert np.array_equal(module.kinds_of(x), expected) and expected[7] == expected[11]


@pytest.mark.parametrize("name", ["kinds", "eighth-turn", "features"])
def test_samples_of_a_test_are_held_once_or_twice(monkeypatch, name):
    monkeypatch.setattr(images_module, "BLOCK_VALUES", 2**16)
    x = np.random.default_rng(0).integers(0, 4000, (200, 64, 64, 2), np.uint16)
    images = modality_of("images")
    work = {
        "kinds": module.kinds_of,
        "eighth-turn": images.transformations_of(x)["eighth-turn"],
        "features": lambda x: images.compared_features(x, x),
    }[name]
    work(x[:60])  # imports
    tracemalloc.start()
    work(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * x.nbytes
