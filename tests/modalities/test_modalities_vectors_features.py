"""Features of vectors: principal coordinates, and random ReLU features of them."""

import numpy as np
import torch

from viewsmith.modalities.vectors.networks import RandomReLU
from viewsmith.networks import PartContext, PrincipalAxes


def rows(n, d, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed)) * torch.linspace(0.1, 3, d)


def fitted(x, **options):
    features = RandomReLU(PartContext((x.shape[1],), x.shape[1]), **options)
    features.fit(x, torch.Generator().manual_seed(0))
    return features


def test_coordinates_then_random_features_of_a_slow_loop():
    x = rows(300, 20)
    features = fitted(x, coordinates=6, width=40)
    axes = PrincipalAxes(20, 6)
    axes.fit(x)
    coordinates = axes(x).double().numpy()
    found = features(x)
    assert found.shape == (300, 46) == (300, features.n_features)
    np.testing.assert_allclose(found[:, :6], coordinates, rtol=1e-3, atol=1e-5)
    for row, given in zip(found[:5].numpy(), coordinates, strict=False):
        for i in range(40):
            weight, offset = features.projection[:, i].double().numpy(), float(features.offset[i])
            assert np.isclose(row[6 + i], max(0.0, float(weight @ given) + offset), atol=1e-4)


def test_random_features_see_coordinates_and_offset_with_one_variance():
    x = rows(500, 100)
    features = fitted(x, width=4000)
    z = features(x)[:, :64]
    assert abs(float(z.square().mean()) - 1) < 0.05
    assert abs(float((z @ features.projection).square().mean()) - 1) < 0.1
    assert abs(float(features.offset.square().mean()) - 1) < 0.1 and abs(float(features.offset.mean())) < 0.1


def test_fewer_rows_or_columns_than_coordinates():
    x = rows(5, 30)
    features = fitted(x, width=50)
    assert features.n_features == 30 + 50 and features(x).isfinite().all()
    assert (features(x)[:, 5:30] == 0).all()
    equal = fitted(rows(1, 30).expand(6, 30), width=50)
    assert (equal(x)[:, :30] == 0).all() and (equal(x)[:, 30:] > 0).any()
    assert fitted(rows(40, 3), width=50).n_features == 3 + 50
