"""Tests of symmetries: which samples and groups are tested."""

import numpy as np

from viewsmith.evaluation import symmetries as module


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
