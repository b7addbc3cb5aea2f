"""Diagnostics that need no labels."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.metrics import r2_score
from sklearn.neighbors import NearestNeighbors

from refusals import refusal
from viewsmith.core.errors import InputError
from viewsmith.evaluation.label_free import below_untrained, label_free, neighbor_r2
from viewsmith.losses import alignment, effective_rank, feature_std, uniformity


def test_label_free_numbers_are_the_diagnostics(digits):
    h, view = digits[:200], digits[:200] + 1
    found = label_free(h, view)
    h, view = torch.from_numpy(h), torch.from_numpy(view)
    assert found == {
        "feature_std": pytest.approx(float(feature_std(h))),
        "effective_rank": pytest.approx(float(effective_rank(h))),
        "uniformity": pytest.approx(float(uniformity(h))),
        "alignment": pytest.approx(float(alignment(h, view))),
    }


def test_label_free_without_views(digits):
    found = label_free(digits[:50].astype(np.float64))
    assert set(found) == {"feature_std", "effective_rank", "uniformity"}
    assert all(type(value) is float for value in found.values())


def test_one_row_has_no_spread(digits):
    assert "given 1 rows, expected at least 2" in refusal(label_free, digits[:1])


def test_neighbor_r2_against_scikit_learn(digits):
    fit, val = digits[:600], digits[600:800]
    # A representation: half of the pixels.
    h_fit, h_val = fit[:, 16:48] - 8, val[:, 16:48] - 8
    axes = PCA(20, svd_solver="full").fit(fit)
    nearest = NearestNeighbors(n_neighbors=10, metric="cosine").fit(h_fit).kneighbors(h_val, return_distance=False)
    predicted = axes.transform(fit)[nearest].mean(axis=1)
    expected = r2_score(axes.transform(val), predicted, multioutput="variance_weighted")
    found = neighbor_r2(h_fit, h_val, fit, val)
    assert 0.3 < expected < 0.95
    # Equally distant digits may be taken in another order.
    assert found == pytest.approx(expected, abs=2e-3)


def test_neighbor_r2_distinguishes_a_representation_from_noise(digits):
    fit, val = digits[:600], digits[600:800]
    noise = np.random.default_rng(0).normal(size=(800, 16))
    assert neighbor_r2(fit, val, fit, val) > neighbor_r2(noise[:600], noise[600:], fit, val) + 0.5
    assert neighbor_r2(fit, fit, fit, fit, k=1) == pytest.approx(1)


def test_neighbor_r2_with_few_rows_and_one_column(wine):
    assert neighbor_r2(wine[:4], wine[4:9], wine[:4], wine[4:9]) <= 1
    assert neighbor_r2(wine[:40], wine[40:], wine[:40, :1], wine[40:, :1]) <= 1


def test_neighbor_r2_checks_its_input(wine):
    assert "one representation for each row" in refusal(neighbor_r2, wine[:5], wine[5:], wine[:4], wine[5:])
    with pytest.raises(InputError, match="all 3 validation rows are equal"):
        neighbor_r2(wine[:9], wine[9:12], wine[:9], np.repeat(wine[:1], 3, axis=0))


@pytest.mark.parametrize(
    ("trained", "untrained", "expected"),
    [
        (0.85, 0.95, True),  # by the factor
        (0.78, 0.9, True),
        (0.45, 0.71, True),  # by the part
        (0.28, 0.51, True),
        (0.76, 0.84, False),
        (0.55, 0.65, False),
        (0.96, 0.99, False),
        (0.9, 0.8, False),
    ],
)
def test_a_trained_encoder_is_below_by_a_factor_or_a_part(trained, untrained, expected):
    assert below_untrained(trained, untrained) is expected


@pytest.mark.parametrize("h", [np.zeros(5), np.full((4, 2), np.nan), [["a", "b"]] * 4, None, np.zeros((3, 2, 2))])
def test_what_are_no_rows_of_numbers_is_refused(h):
    assert refusal(label_free, h)[:2] in ("h ", "h:")
    assert "(4, 2), and h_view (4, 3)" in refusal(label_free, np.eye(4)[:, :2], np.eye(4)[:, :3])
