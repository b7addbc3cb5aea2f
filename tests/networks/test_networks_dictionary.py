"""Dictionaries of patches: whitening, centers and responses against slow loops."""

import numpy as np
import pytest
import torch

from drawn import draw
from viewsmith.networks.features import PatchResponses, fit_dictionary, patches_at


def slow_dictionary(patches, start, rounds):
    """Whitening and k-means on similarities (Coates, Lee and Ng 2011), in float64, one patch at a time."""
    patches = patches.double().numpy()
    mean = patches.mean(0)
    variance, axes = np.linalg.eigh(np.cov((patches - mean).T))
    whitening = axes @ np.diag((variance + 0.01 * variance.max()) ** -0.5) @ axes.T
    white = [whitening @ (patch - mean) for patch in patches]
    centers = [white[i] / np.linalg.norm(white[i]) for i in start.tolist()]
    for _ in range(rounds):
        total = [np.zeros_like(mean) for _ in centers]
        for patch in white:
            similarity = [center @ patch for center in centers]
            best = int(np.argmax(similarity))
            total[best] += similarity[best] * patch
        centers = [t / np.linalg.norm(t) if np.linalg.norm(t) > 0 else c for t, c in zip(total, centers, strict=True)]
    filters = np.array(centers) @ whitening
    return filters, filters @ mean


def test_dictionary_of_a_slow_loop():
    patches = torch.randn(200, 12, generator=draw(0)) * torch.arange(1, 13) + 2
    start = torch.tensor([3, 50, 7, 7, 120])
    filters, offset = fit_dictionary(patches, start, rounds=4)
    expected = slow_dictionary(patches, start, 4)
    np.testing.assert_allclose(filters, expected[0], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(offset, expected[1], rtol=1e-3, atol=1e-4)


def test_patches_of_a_slow_loop():
    x = torch.randn(3, 2, 7, 9, generator=draw(0))
    top, left = torch.tensor([[0, 3], [1, 1], [4, 2]]), torch.tensor([[5, 0], [2, 2], [1, 4]])
    found = patches_at(x, top, left, 3, 4)
    expected = [
        x[i, :, t : t + 3, s : s + 4].flatten()
        for i in range(3)
        for t, s in zip(top[i].tolist(), left[i].tolist(), strict=True)
    ]
    assert torch.equal(found, torch.stack(expected))


def slow_responses(module, x, filters, offset):
    """Responses of each place of each sample, averaged over the places of each region."""
    height, width = module.patch
    rows, columns = module.places
    found = []
    for sample in x.double():
        response = np.zeros((rows, columns, len(filters)))
        for i in range(rows):
            for j in range(columns):
                top, left = i * module.stride, j * module.stride
                patch = sample[:, top : top + height, left : left + width].flatten().numpy()
                if module.contrast is not None:
                    patch = (patch - patch.mean()) / (patch.std() + module.contrast)
                similarity = np.array([f @ patch - o for f, o in zip(filters, offset, strict=True)])
                response[i, j] = np.maximum(0, similarity - similarity.mean() - similarity.std() / 2)
        pooled = []
        for a in range(module.regions[0]):
            for b in range(module.regions[1]):
                first = a * rows // module.regions[0], b * columns // module.regions[1]
                last = -(-(a + 1) * rows // module.regions[0]), -(-(b + 1) * columns // module.regions[1])
                pooled.append(response[first[0] : last[0], first[1] : last[1]].mean((0, 1)))
        found.append(np.concatenate(pooled))
    return np.array(found)


@pytest.mark.parametrize("contrast", [None, 0.1])
@pytest.mark.parametrize(
    ("size", "patch", "stride", "regions"),
    [
        ((12, 15), (4, 4), 2, (3, 3)),
        ((9, 8), (3, 5), 1, (2, 4)),
        ((5, 4), (6, 6), 2, (3, 3)),
        ((1, 20), (1, 8), 1, (1, 5)),
    ],
)
def test_responses_of_a_slow_loop(monkeypatch, size, patch, stride, regions, contrast):
    monkeypatch.setattr("viewsmith.networks.features.SAMPLED", 500)
    x = torch.randn(20, 2, *size, generator=draw(1)) + 1
    module = PatchResponses(2, size, patch=patch, centers=7, stride=stride, regions=regions, contrast=contrast)
    module.fit(x, draw(0))
    found = module(x[:3])
    assert found.shape == (3, module.n_features)
    # The mean over the centers, which the filters do not have, changes no response.
    filters, offset = module.filters.flatten(1).double().numpy() + 0.3, module.offset.double().numpy() - 0.2
    np.testing.assert_allclose(found, slow_responses(module, x[:3], filters, offset), rtol=1e-3, atol=1e-4)


def test_the_fitted_dictionary_is_that_of_the_drawn_patches(monkeypatch):
    monkeypatch.setattr("viewsmith.networks.features.SAMPLED", 300)
    x = torch.randn(10, 2, 9, 11, generator=draw(1))
    module = PatchResponses(2, (9, 11), patch=(3, 4), centers=6, stride=2, regions=(2, 2))
    module.fit(x, draw(5))
    generator = draw(5)
    top = torch.randint(7, (10, 30), generator=generator)
    left = torch.randint(8, (10, 30), generator=generator)
    patches = patches_at(x, top, left, 3, 4)
    filters, offset = fit_dictionary(patches, torch.randperm(300, generator=generator)[:6])
    torch.testing.assert_close(module.filters.flatten(1), filters - filters.mean(0))
    torch.testing.assert_close(module.offset, offset - offset.mean())


def test_samples_smaller_than_a_patch_are_padded():
    module = PatchResponses(3, (12, 12), patch=(6, 6), centers=4, stride=2, regions=(2, 2))
    module.fit(torch.randn(20, 3, 12, 12, generator=draw(0)), draw(0))
    x = torch.randn(2, 3, 4, 9, generator=draw(1))
    padded = torch.nn.functional.pad(x, (0, 0, 0, 2))
    assert torch.equal(module(x), module(padded)) and module(x).shape == (2, module.n_features)


def test_the_root_of_averages():
    x = torch.rand(12, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    options = {"patch": (3, 3), "centers": 4, "stride": 1, "regions": (2, 2)}
    plain, root = (PatchResponses(1, (8, 8), root=root, **options) for root in (False, True))
    for each in (plain, root):
        each.fit(x, torch.Generator().manual_seed(1))
    torch.testing.assert_close(root(x), plain(x).sqrt(), rtol=1e-5, atol=1e-5)
    x.requires_grad_()
    assert torch.autograd.grad(root(x).sum(), x)[0].isfinite().all()


def test_the_largest_responses_of_regions():
    x = torch.rand(12, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    options = {"patch": (3, 3), "centers": 4, "stride": 1}
    each, both = (
        PatchResponses(1, (8, 8), regions=(6, 6), **options),
        PatchResponses(1, (8, 8), regions=(2, 3), maxima=(1, 2), **options),
    )
    for responses in (each, both):
        responses.fit(x, torch.Generator().manual_seed(1))
    assert both.n_features == 4 * (6 + 1 + 4)
    places = each(x).view(12, 6, 6, 4)  # one place in each region
    found = both(x).view(12, 11, 4)
    torch.testing.assert_close(found[:, 6], places.amax((1, 2)))
    corners = [places[:, i : i + 3, j : j + 3].amax((1, 2)) for i in (0, 3) for j in (0, 3)]
    torch.testing.assert_close(found[:, 7:], torch.stack(corners, 1))
    means = [places[:, i : i + 3, j : j + 2].mean((1, 2)) for i in (0, 3) for j in (0, 2, 4)]
    torch.testing.assert_close(found[:, :6], torch.stack(means, 1))
