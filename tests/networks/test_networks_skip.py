"""The part of the representation that is not learned."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from viewsmith.core.errors import InputError
from viewsmith.core.registry import find
from viewsmith.modalities.dna.networks import kmer_frequencies
from viewsmith.modalities.vectors.networks import vector_encoder
from viewsmith.networks import scaling
from viewsmith.networks.base import EncoderContext
from viewsmith.networks.scaling import PrincipalAxes, SkipAxes, SkipCoordinates, are_sparse_and_equal, variance_kept


@pytest.fixture
def rows() -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(60, 7, generator=generator) @ torch.randn(7, 7, generator=generator)
    return (x - x.mean(0)) / x.std(0, correction=0) + 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_coordinates_keep_distances_along_leading_axes(rows: torch.Tensor, dtype: torch.dtype) -> None:
    skip = SkipCoordinates(7, 4, length=2.5)
    skip.fit(rows)
    found = skip.to(dtype)(rows.to(dtype)).numpy()

    centered = rows.double().numpy() - rows.double().numpy().mean(0)
    axes = np.linalg.svd(centered)[2][:4]
    along = np.array([[sum(row * axis) for axis in axes] for row in centered])
    along *= 2.5 / np.sqrt(np.mean([sum(row * row) for row in along]))
    assert np.linalg.norm(along, axis=1).max() < 3 * 2.5  # none is shortened
    for i in range(0, 60, 7):
        for j in range(60):
            # Rotated, so the coordinates differ, but not their products.
            assert found[i] @ found[j] == pytest.approx(sum(along[i] * along[j]), abs=5e-5)


def test_far_rows_are_shortened(rows: torch.Tensor) -> None:
    skip = SkipCoordinates(7, 3, length=2.0)
    skip.fit(rows)
    center = rows.mean(0)
    near, far = skip(center + 0.1 * (rows - center)), skip(center + 1000 * (rows - center))
    torch.testing.assert_close(far.norm(dim=1), torch.full((60,), 6.0))
    cosine = torch.nn.functional.cosine_similarity(near, far)
    torch.testing.assert_close(cosine, torch.ones(60))
    torch.testing.assert_close(near, 0.1 * skip(rows), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", [SkipCoordinates, SkipAxes])
def test_every_row_has_the_same_length_if_asked(rows: torch.Tensor, kind: type[SkipCoordinates]) -> None:
    found = []
    for unit in (False, True):
        skip = kind(7, 5, length=2.0, unit=unit).eval()
        skip.take(PrincipalAxes(7, 2).fit(rows, more=5)) if kind is SkipAxes else skip.fit(rows)
        found.append(skip(rows))
    plain, equal = found
    torch.testing.assert_close(equal, 2 * plain / plain.norm(dim=1, keepdim=True))
    assert (skip(skip.mean[None]).abs() < 1e-3).all() or kind is SkipAxes  # the center has no direction


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda x: x, True),
        (lambda x: 3 * x, True),
        (lambda x: x * np.where(np.arange(len(x)) % 25, 1, 0)[:, None], True),  # a few empty texts
        (lambda x: x * np.linspace(1, 1.2, len(x))[:, None], False),
        (lambda x: x * np.where(np.arange(len(x)) % 5, 1, 2)[:, None], False),
        (lambda x: np.full_like(x, 0.1), False),  # of one length, but not sparse
        (lambda x: 0 * x, False),
    ],
)
def test_sparse_rows_of_one_length_are_told(change: object, expected: bool) -> None:
    x = np.random.default_rng(0).random((2500, 30)) * (np.random.default_rng(1).random((2500, 30)) < 0.2)
    x[:, 0] += 0.1
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    given = change(x).astype(np.float32)  # type: ignore[operator]
    assert are_sparse_and_equal(given) is expected


def test_rotated_coordinates_have_similar_variances() -> None:
    x = torch.randn(500, 12, generator=torch.Generator().manual_seed(0)) * torch.logspace(0, -2, 12)
    skip = SkipCoordinates(12, 12, length=1.0)
    skip.fit(x)
    variances = skip(x).var(0)
    assert variances.min() > 0.01 * variances.max()  # on principal axes about 1e-4
    rotation = 5**0.5 * SkipCoordinates(9, 5, length=1.0, ordered=True).axes
    torch.testing.assert_close(rotation.T @ rotation, torch.eye(5))
    assert (rotation[5:] == 0).all()


def test_ordered_coordinates_are_taken_without_a_fit(rows: torch.Tensor) -> None:
    skip = SkipCoordinates(7, 3, length=1.0, ordered=True)
    before = skip(rows)
    skip.fit(rows)
    assert torch.equal(before, skip(rows))
    other = rows.clone()
    other[:, 3:] = 9.0
    assert torch.equal(before, skip(other))
    near = rows[:, :3] / 3**0.5
    near = near * (3 / near.norm(dim=1, keepdim=True)).clamp_max(1)
    torch.testing.assert_close(before @ before.T, near @ near.T)


def test_row_at_the_center_has_zeros_and_fewer_rows_than_axes_are_fine() -> None:
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [3.0, 0.0, 1.0, 2.0]])
    skip = SkipCoordinates(4, 4, length=3.0)
    skip.fit(x)
    torch.testing.assert_close(skip(x.mean(0, keepdim=True)), torch.zeros(1, 4), atol=1e-5, rtol=0)
    torch.testing.assert_close(skip(x).norm(dim=1), torch.tensor([3.0, 3.0]))
    equal = SkipCoordinates(4, 2, length=3.0)
    equal.fit(torch.ones(5, 4))
    assert torch.isfinite(equal(torch.ones(5, 4))).all()


@pytest.mark.parametrize(("input_components", "skipped"), [(0, 6), (5, 5), (0, 3)])
def test_encoder_has_learned_and_skipped_columns(rows: torch.Tensor, input_components: int, skipped: int) -> None:
    context = EncoderContext((7,), 7, 20, input_components)
    encoder = vector_encoder(context, hidden=(8,), appended_pca=skipped).eval()
    assert encoder(rows).shape == (60, 20)
    body = encoder[-1]
    body.skip.fit(rows)
    inner = encoder[0](rows) if input_components else rows
    out = encoder(rows)
    torch.testing.assert_close(out[:, : 20 - skipped], body.learned(inner))
    torch.testing.assert_close(out[:, 20 - skipped :], body.skip(inner))
    assert not [name for name, _ in encoder.named_parameters() if "skip" in name]


@pytest.mark.parametrize(("n", "dtype"), [(60, torch.float32), (6, torch.float32), (60, torch.float64)])
def test_coordinates_on_further_axes_are_multiplied_by_their_deviations(
    rows: torch.Tensor, n: int, dtype: torch.dtype
) -> None:
    x = rows[:n] * torch.arange(1, 8)  # more rows than features, or fewer
    axes, skip = PrincipalAxes(7, 2), SkipAxes(7, 5, length=2.5)
    skip.take(axes.fit(x, more=5))
    alone = PrincipalAxes(7, 2)
    alone.fit(x)
    torch.testing.assert_close(axes.axes, alone.axes)  # more axes do not change the encoder's
    skip.fit(x)  # changes nothing
    found = skip.to(dtype).eval()(x.to(dtype)).double().numpy()

    weighted = x.double().numpy() - x.double().numpy().mean(0)
    weighted /= np.sqrt(weighted.std(0))
    expected = np.zeros((n, n))
    for axis in np.linalg.svd(weighted)[2][:5]:
        along = [sum(row * axis) for row in weighted]
        deviation = np.sqrt(sum(value**2 for value in along) / n)
        for i, j in itertools.product(range(n), range(n)):
            expected[i, j] += deviation**2 * along[i] * along[j]
    expected *= 2.5**2 / np.mean(expected.diagonal())
    assert expected.diagonal().max() < (3 * 2.5) ** 2  # none is shortened
    np.testing.assert_allclose(found @ found.T, expected, atol=2e-4)


@pytest.mark.parametrize("weighted", [True, False])
def test_variance_kept_by_leading_axes(rows: torch.Tensor, weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x = rows * torch.arange(1, 8)
    centered = x.double().numpy() - x.double().numpy().mean(0)
    if weighted:
        centered /= np.sqrt(centered.std(0))
    values = np.linalg.svd(centered)[1] ** 2
    assert variance_kept(x, 3, weighted=weighted) == pytest.approx(sum(values[:3]) / sum(values), rel=1e-4)
    assert variance_kept(x, 7, weighted=weighted) == pytest.approx(1, rel=1e-4)
    monkeypatch.setattr(scaling, "SOME_ROWS", 25)
    assert variance_kept(x, 2, weighted=weighted) == variance_kept(x[::3], 2, weighted=weighted)
    assert variance_kept(torch.ones(5, 7), 2, weighted=weighted) == 0


def test_further_axes_without_variance_are_zero() -> None:
    skip = SkipAxes(6, 5, length=2.0).eval()
    line = torch.arange(4.0)[:, None] * torch.ones(6)  # four rows differ along one axis
    skip.take(PrincipalAxes(6, 1).fit(line, more=5))
    assert torch.linalg.matrix_rank(skip.axes) == 1
    torch.testing.assert_close(skip(line).square().sum(1).mean(), torch.tensor(4.0))
    skip.take(PrincipalAxes(6, 1).fit(torch.ones(4, 6), more=5))
    assert (skip(line) == 0).all()


def test_encoder_with_more_columns_than_its_input_has_axes(rows: torch.Tensor) -> None:
    encoder = vector_encoder(EncoderContext((7,), 7, 20, 3), hidden=(8,), appended_pca=9)
    encoder.skip.take(encoder.learned[0].fit(rows, more=7))
    assert not encoder(rows)[:, 13:].any()  # zeros in training
    out = encoder.eval()(rows)
    torch.testing.assert_close(out[:, :13], encoder.learned(rows))
    torch.testing.assert_close(out[:, 13:], encoder.skip(rows))
    assert torch.linalg.matrix_rank(out[:, 13:]) == 7


def test_encoder_without_learned_columns_is_refused() -> None:
    with pytest.raises(InputError, match=r"appended_pca is 9, .* none of the 4 columns .*: give fewer"):
        vector_encoder(EncoderContext((7,), 7, 4), appended_pca=9)


def pooled(image: np.ndarray, size: int) -> np.ndarray:
    """Means over blocks, by loops."""
    channels, height, width = image.shape
    found = np.zeros((channels, height // size, width // size))
    for c, i, j in itertools.product(*map(range, found.shape)):
        found[c, i, j] = image[c, i * size : (i + 1) * size, j * size : (j + 1) * size].mean()
    return found.ravel()


def test_skipped_columns_of_images_are_coordinates_of_pooled_pixels() -> None:
    x = torch.randn(40, 3, 19, 20, generator=torch.Generator().manual_seed(0))
    context = EncoderContext((19, 20, 3), 3, 40)
    encoder = find("encoder", "cnn", "images").build(context, appended_pca=24, appended_length=2.0).eval()
    for part in (module for module in encoder.modules() if isinstance(module, SkipCoordinates)):
        part.fit(x)
    out = encoder(x)
    assert out.shape == (40, 40)
    torch.testing.assert_close(out[:, :16], encoder.learned(x))
    rows = torch.from_numpy(np.stack([pooled(image, 2) for image in x.double().numpy()])).float()
    alone = SkipCoordinates(270, 24, length=2.0)
    alone.fit(rows)
    torch.testing.assert_close(out[:, 16:] @ out[:, 16:].T, alone(rows) @ alone(rows).T, atol=1e-4, rtol=1e-4)
    assert encoder(x[:, :, :10, :9]).shape == (40, 40)  # smaller crops
    assert encoder.stem(x).shape[1] == encoder.stem_width


def test_skipped_columns_of_sequences_are_of_bases_and_of_4_mers() -> None:
    letters = torch.randint(0, 4, (50, 30), generator=torch.Generator().manual_seed(0))
    x = torch.nn.functional.one_hot(letters, 4).mT.float()
    context = EncoderContext((30,), 4, 30)
    encoder = find("encoder", "cnn", "dna").build(context, appended_pca=11, appended_length=3.0).eval()
    for part in (module for module in encoder.modules() if isinstance(module, SkipCoordinates)):
        part.fit(x)
    out = encoder(x)
    assert out.shape == (50, 30)
    torch.testing.assert_close(out[:, :19], encoder.learned(x))
    bases, words = out[:, 19:27], out[:, 27:]
    for rows, columns, length in ((x.flatten(1), bases, 3.0), (kmer_frequencies(x), words, 0.4 * 3.0)):
        alone = SkipCoordinates(rows.shape[1], columns.shape[1], length=length)
        alone.fit(rows)
        torch.testing.assert_close(columns, alone(rows), atol=1e-4, rtol=1e-4)
    shorter, longer = encoder(x[:, :, :20]), encoder(torch.cat([x, x], dim=2))
    assert shorter.shape == (50, 30)
    torch.testing.assert_close(longer[:, 19:27], bases)  # the first positions


def test_axes_are_fitted_to_evenly_spaced_rows(monkeypatch: pytest.MonkeyPatch, rows: torch.Tensor) -> None:
    monkeypatch.setattr(scaling, "FITTED_ROWS", 20)
    some = SkipCoordinates(7, 4, length=2.0, features=lambda x: x.flatten(1))
    some.fit(rows[:, None])
    expected = SkipCoordinates(7, 4, length=2.0)
    expected.fit(rows[::3])
    torch.testing.assert_close(some(rows[:, None]), expected(rows))
