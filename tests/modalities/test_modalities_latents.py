"""Codes of vectors, images and DNA: range and inverse."""

import copy

import pytest
import torch

from refusals import refusal
from viewsmith.core.samples import Samples
from viewsmith.modalities.dna.networks import LetterLatents
from viewsmith.modalities.images.pixels import PixelLatents
from viewsmith.modalities.vectors.networks import VectorLatents
from viewsmith.networks import Nucleotides, Pixels, PrincipalAxes


def draws(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def mixed(n=40, d=6):
    """Rows of correlated features on different scales; feature 2 is constant."""
    x = draws(n, d) @ draws(d, d, seed=1) * torch.linspace(0.2, 3, d, dtype=torch.float64) + torch.arange(d)
    x[:, 2] = 7
    return x


def axes_of(x, k):
    axes = PrincipalAxes(x.shape[1], k).to(x)
    axes.fit(x)
    return axes


# --- vectors


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_latents_are_centered_and_scaled_and_can_be_decoded(dtype):
    x = mixed().to(dtype)
    latents = VectorLatents(6).to(dtype)
    latents.fit(x)
    u = latents.encode(x)
    assert u.dtype == dtype
    assert u.mean(0).abs().max() < 1e-6 and u.square().mean().sqrt().item() == pytest.approx(1, rel=1e-6)
    torch.testing.assert_close(u.std(0) / u.std(), x.std(0) / (x - x.mean(0)).std(), rtol=1e-4, atol=1e-6)
    back = latents.decode(u, x)
    assert back.dtype == dtype
    torch.testing.assert_close(back, x, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(latents.low, u.amin(0))
    torch.testing.assert_close(latents.high, u.amax(0))
    torch.testing.assert_close(latents.clip(u), u)
    # For any codes, a constant feature has its constant.
    wild = latents.decode(latents.clip(5 * draws(40, 6, seed=3).to(dtype)), x)
    assert (wild[:, 2] == 7).all() and (wild[:, 0].std() > 0)


@pytest.mark.parametrize("k", [1, 3])
def test_latents_on_principal_axes(k):
    x = mixed()
    axes = axes_of(x, k)
    latents = VectorLatents(6, axes).double()
    assert latents.n_latents == k
    latents.fit(x)
    u = latents.encode(x)
    assert u.shape == (40, k)
    assert u.mean(0).abs().max() < 1e-12 and u.square().mean().sqrt().item() == pytest.approx(1)
    # the coordinates of the encoder, up to center and scale
    coordinates = axes(x) - axes(x).mean(0)
    torch.testing.assert_close(u, coordinates / coordinates.square().mean().sqrt())
    torch.testing.assert_close(latents.clip(3 * u).amax(0), u.amax(0))
    # encode(decode(v)) is v, and no other linear decoder has a smaller squared error.
    v = draws(9, k, seed=2)
    torch.testing.assert_close(latents.encode(latents.decode(v, x[:9])), v)
    best = torch.linalg.lstsq(u, x - x.mean(0)).solution
    torch.testing.assert_close(latents.decode(u, x), u @ best + x.mean(0))
    assert (latents.decode(v, x)[:, 2] - 7).abs().max() < 1e-12


def test_decoding_is_exact_with_all_axes():
    x = mixed()
    latents = VectorLatents(6, axes_of(x, 5)).double()  # one of six features is constant
    latents.fit(x)
    torch.testing.assert_close(latents.decode(latents.encode(x), x), x)


def test_the_axes_of_the_encoder_are_copied():
    axes = axes_of(mixed(), 2)
    latents = VectorLatents(6, axes).double()
    assert not list(latents.parameters()) and not any(isinstance(m, PrincipalAxes) for m in latents.modules())
    latents.fit(mixed())
    u = latents.encode(mixed())
    axes.fit(draws(40, 6, seed=8))  # a later fit of the axes has no effect
    assert torch.equal(latents.encode(mixed()), u)
    assert torch.equal(copy.deepcopy(latents).encode(mixed()), u)


def test_axes_fitted_after_construction_are_read_by_fit():
    axes = PrincipalAxes(6, 2).double()
    latents = VectorLatents(6, axes).double()
    axes.fit(mixed())
    latents.fit(mixed())
    expected = VectorLatents(6, axes_of(mixed(), 2)).double()
    expected.fit(mixed())
    assert torch.equal(latents.encode(mixed()), expected.encode(mixed()))


@pytest.mark.parametrize("on_axes", [False, True])
def test_a_second_fit_replaces_the_first(on_axes):
    latents, fresh = (VectorLatents(6, axes_of(mixed(), 3) if on_axes else None).double() for _ in range(2))
    latents.fit(10 * mixed() + 3)
    for each in (latents, fresh):
        each.fit(mixed())
    torch.testing.assert_close(latents.state_dict(), fresh.state_dict())


@pytest.mark.parametrize("on_axes", [False, True])
def test_the_result_does_not_depend_on_the_block_size(on_axes, monkeypatch):
    x = mixed(50)
    fitted = []
    for numbers in (1 << 22, 24, 1):  # blocks of all rows, four rows, one row
        monkeypatch.setattr("viewsmith.modalities.vectors.networks.BLOCK", numbers)
        latents = VectorLatents(6, axes_of(x, 3) if on_axes else None).double()
        latents.fit(x if numbers != 24 else Samples(x, lambda rows: rows.clone()))
        fitted.append(latents.state_dict())
    for other in fitted[1:]:
        torch.testing.assert_close(other, fitted[0], rtol=1e-10, atol=1e-10)


def test_latents_are_fitted_precisely_in_float32():
    x = (draws(3000, 3) + 1000).float()
    latents = VectorLatents(3)
    latents.fit(x)
    u = latents.encode(x)
    assert u.mean(0).abs().max() < 1e-3 and u.square().mean().sqrt().item() == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize("k", [None, 2])
def test_identical_rows(k):
    x = torch.ones(5, 4)
    latents = VectorLatents(4, axes_of(x, k) if k else None)
    latents.fit(x)
    u = latents.clip(draws(5, k or 4, dtype=torch.float32))
    assert (u == 0).all() and torch.equal(latents.decode(u, x), x)


def test_rows_of_another_width_are_refused():
    assert refusal(VectorLatents(3).fit, torch.zeros(5, 4)) == (
        "the latents of vectors were given 5 rows of shape (4,), expected at least one of (3,)"
    )
    assert "were given 0 rows" in refusal(VectorLatents(3).fit, torch.zeros(0, 3))


# --- images


@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_run_from_minus_one_to_one(channels):
    images = torch.randint(0, 256, (4, 5, 6, channels), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    images[0, 0, 0], images[0, 0, 1] = 0, 255
    pixels = Pixels(images.shape[1:])
    pixels.fit(images, "standard")
    latents = PixelLatents(channels, pixels.center.tolist(), pixels.scale.tolist())
    latents.fit(Samples(images, pixels))
    x = pixels(images)
    u = latents.encode(x)
    torch.testing.assert_close(u, images.movedim(3, 1) / 127.5 - 1, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(latents.decode(u, x), x, rtol=1e-4, atol=1e-5)
    assert torch.equal(pixels.inverse(latents.decode(u, x)), images)
    assert latents.clip(2 * u).abs().max() == 1 and latents.mask(x) is None


def test_one_center_and_scale_for_all_channels():
    x = draws(2, 3, 4, 4)
    several = PixelLatents(3, [0.5] * 3, [0.25] * 3).double()
    assert torch.equal(PixelLatents(3, 0.5, 0.25).double().encode(x), several.encode(x))
    torch.testing.assert_close(several.encode(x), 2 * (0.25 * x + 0.5) - 1)
    assert torch.equal(PixelLatents(3).encode(x), 2 * x - 1)


def test_a_wrong_number_of_channels_is_refused():
    assert refusal(PixelLatents, 3, [0.5, 0.5]) == "center of the pixels has 2 values, expected 1 or 3"


# --- DNA


def test_letters():
    letters = torch.tensor([list(b"ACGTN"), [*b"GAT", 0, 0]], dtype=torch.uint8)
    nucleotides, latents = Nucleotides(), LetterLatents()
    x = nucleotides(letters)
    u = latents.encode(x)
    assert u[0, :, 1].tolist() == [-1, 1, -1, -1] and u[0, :, 4].tolist() == [-0.5] * 4
    assert (u[1, :, 3:] == 0).all() and u[1, :, 0].tolist() == [-1, -1, 1, -1]
    assert latents.mask(x).tolist() == [[[True] * 5], [[True] * 3 + [False] * 2]]
    assert latents.clip(3 * u).abs().max() == 1
    # any codes become letters, also at the N, and padding stays padding
    drawn = draws(2, 4, 5)
    back = latents.decode(drawn, x)
    assert back.dtype == x.dtype and torch.equal(back[1, :, 3:], torch.zeros(4, 2))
    real = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], dtype=torch.bool)
    assert torch.equal(back.argmax(1)[real], drawn.argmax(1)[real]) and (back.sum(1) == real).all()
    assert nucleotides.inverse(latents.decode(u, x))[1].tolist() == [*b"GAT", 0, 0]
