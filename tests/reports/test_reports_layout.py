"""The two-dimensional map."""

from __future__ import annotations

import numpy as np
import pytest

from refusals import refusal
from viewsmith.core.errors import InputError
from viewsmith.reports import two_dimensional_map

pytestmark = pytest.mark.full_size


def blobs(n: int, width: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    label = np.arange(n) % 3
    return rng.normal(size=(n, width)) + 12 * rng.normal(size=(3, width))[label], label


def test_groups_stay_together() -> None:
    x, label = blobs(90)
    xy, index = two_dimensional_map(x)
    assert xy.shape == (90, 2) and index.tolist() == list(range(90))
    distance = np.linalg.norm(xy[:, None] - xy[None], axis=2) + 1e9 * np.eye(90)
    assert (label[distance.argmin(axis=1)] == label).all()


def test_the_same_seed_gives_the_same_map_and_rows_are_sampled_by_it() -> None:
    x, _ = blobs(80)
    first, second, other = (two_dimensional_map(x, seed=seed, max_rows=40) for seed in (1, 1, 2))
    assert np.array_equal(first[0], second[0]) and np.array_equal(first[1], second[1])
    assert first[1].tolist() != other[1].tolist()
    assert len(set(first[1].tolist())) == 40 and (np.diff(first[1]) > 0).all() and first[1].max() < 80


def test_one_or_two_features_are_the_map() -> None:
    x = np.arange(40.0).reshape(20, 2)
    assert np.array_equal(two_dimensional_map(x)[0], x)
    for line in (x[:, :1], x[:, 0]):
        assert np.array_equal(two_dimensional_map(line)[0], np.column_stack([x[:, 0], np.zeros(20)]))


@pytest.mark.parametrize("n", [1, 2, 3, 9])
def test_few_rows_are_projected_by_pca(n: int) -> None:
    x = np.random.default_rng(0).normal(size=(n, 5))
    xy, _ = two_dimensional_map(x)
    assert xy.shape == (n, 2) and np.isfinite(xy).all()
    if n > 1:
        centered = x - x.mean(axis=0)
        assert np.abs(xy[:, 0]).max() > 0
        assert xy[:, 0].std() == pytest.approx(np.linalg.svd(centered, compute_uv=False)[0] / n**0.5)


@pytest.mark.parametrize(
    "x", [np.full((30, 6), 3.0), np.outer(np.arange(30.0), np.ones(6)), np.eye(12)[np.zeros(30, int)]]
)
def test_collapsed_features_can_still_be_drawn(x: np.ndarray) -> None:
    xy, _ = two_dimensional_map(x)
    assert xy.shape == (30, 2) and np.isfinite(xy).all()


def test_images_are_flattened() -> None:
    assert two_dimensional_map(np.random.default_rng(0).integers(0, 255, (12, 4, 4), dtype=np.uint8))[0].shape == (
        12,
        2,
    )


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((0, 3)), r"shape \(0, 3\)"),
        (np.zeros((3, 0)), r"shape \(3, 0\)"),
        (np.array([[1.0, np.nan, 0.0]]), "not finite"),
    ],
)
def test_bad_input_is_named(x: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        two_dimensional_map(x)
    assert "max_rows is 0" in refusal(two_dimensional_map, np.zeros((3, 3)), max_rows=0)


def test_wide_rows_have_the_principal_coordinates_of_scikit_learn(monkeypatch) -> None:
    """By products of rows, in blocks of columns; the map of the two is the same but for signs."""
    from sklearn.decomposition import PCA

    from viewsmith.reports import figure

    x = blobs(60, 300)[0].astype(np.float32)
    monkeypatch.setattr(figure, "_COLUMNS", 128)
    mean = x.mean(axis=0, dtype=np.float64)
    found = figure._principal(x, mean, 2.0, 50, 0)
    expected = PCA(50).fit_transform((x - mean) / 2)
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-6)
    assert figure._principal(x[:, :40], mean[:40], 1.0, 50, 0).shape == (60, 40)
