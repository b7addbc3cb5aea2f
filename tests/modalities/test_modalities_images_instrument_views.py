"""Views of images of instruments: each against a slow loop or its definition."""

import numpy as np
import pytest
import torch

from drawn import draw
from refusals import refusal
from viewsmith.core.registry import find
from viewsmith.modalities import modality_of
from viewsmith.modalities.images import single_views
from viewsmith.views.base import ViewContext


def images(n=40, channels=3, height=9, width=12):
    return torch.rand((n, channels, height, width), generator=draw(1))


def test_gamma_is_a_power_of_each_channel():
    u = 0.1 + 0.8 * images()
    view = single_views.gamma(u, 0.5, draw())
    power = view.log() / u.log()
    assert power.std((2, 3)).max() < 1e-3
    assert 0.35 < power.mean((2, 3)).log().std() < 0.65
    low = torch.full((1, 1, 4, 4), -0.2)
    assert torch.equal(single_views.gamma(low, 0.5, draw()), low)
    at_zero = torch.zeros(2, 1, 3, 3, requires_grad=True)
    single_views.gamma(at_zero, 0.5, draw()).sum().backward()
    assert at_zero.grad.isfinite().all()


def test_background_is_a_plane_of_each_channel():
    u = images()
    added = (single_views.background(u, 0.1, draw()) - u).double().numpy()
    rows, columns = np.meshgrid(np.linspace(-1, 1, 9), np.linspace(-1, 1, 12), indexing="ij")
    basis = np.stack([np.ones(108), rows.ravel(), columns.ravel()], 1)
    fitted, rest, *_ = np.linalg.lstsq(basis, added.reshape(-1, 108).T, rcond=None)
    assert rest.max() < 1e-9
    np.testing.assert_allclose(fitted.std(1), 0.1, rtol=0.25)


def test_noise_of_photons_grows_with_the_root_of_the_value():
    for level, read, expected in ((0.04, 0.0, 0.02), (1.0, 0.0, 0.1), (0.0, 0.05, 0.05), (1.0, 0.05, 0.1118)):
        u = torch.full((4, 2, 50, 50), level)
        assert abs(float(single_views.detector_noise(u, 0.1, read, draw()).std()) - expected) < 0.003


def test_defocus_is_the_mean_in_a_disk():
    u = images(3, 2)
    view = single_views.defocus(u, 2.0, draw())
    radii = 2.0 * torch.rand((3, 1, 1), generator=draw())
    for i, r in enumerate(radii.flatten().tolist()):
        for y, x in ((4, 5), (0, 0), (8, 11)):
            total = weight = 0.0
            for dy in range(-3, 4):
                for dx in range(-3, 4):
                    w = min(max(r + 0.5 - (dy * dy + dx * dx) ** 0.5, 0), 1)
                    total += w * u[i, 1, min(max(y + dy, 0), 8), min(max(x + dx, 0), 11)]
                    weight += w
            assert abs(float(view[i, 1, y, x] - total / weight)) < 1e-5


def test_dropped_channels_are_flat_and_one_stays():
    u = images(300)
    view = single_views.channel_dropout(u, 0.9, draw())
    flat = view.std((2, 3)) < 1e-6
    assert not flat.all(1).any() and 0.5 < flat.float().mean() < 0.7  # of three, one stays
    torch.testing.assert_close(view.mean((2, 3)), u.mean((2, 3)))
    assert torch.equal(single_views.channel_dropout(u, 0.0, draw()), u)


def test_channels_are_moved_against_the_first_one():
    u = images(200)
    view = single_views.registration_shift(u, 2, draw())
    assert torch.equal(view[:, 0], u[:, 0])
    found = set()
    for i in range(200):
        fits = [
            (dy, dx)
            for dy in range(-2, 3)
            for dx in range(-2, 3)
            if torch.equal(view[i, 1, 2:-2, 2:-2], u[i, 1, 2 + dy : 7 + dy, 2 + dx : 10 + dx])
        ]
        assert len(fits) == 1
        found |= set(fits)
    assert len(found) == 25


NAMES = ("gamma", "background", "detector-noise", "defocus", "channel-dropout", "registration")


def built(name, channels=3, dtype="uint16", **options):
    statistics = {"pixel_mean": [0.4] * channels, "pixel_scale": [0.2] * channels}
    statistics |= {} if dtype == "uint8" else {"dtype": dtype}
    context = ViewContext(
        (9, 12, channels), channels, modality_of("images"), torch.nn.Identity(), statistics, name=name
    )
    return find("view maker", name, "images").made(context, **options)


@pytest.mark.parametrize("name", NAMES)
def test_makers_keep_scale_shape_and_draws(name):
    u = images()
    x = (u - 0.4) / 0.2
    maker = built(name)
    view = maker(x, generator=draw())
    assert view.shape == x.shape and not torch.equal(view, x)
    assert torch.equal(view, maker(x, generator=draw()))
    assert float((view - x).square().mean()) < 2 * float(x.square().mean())
    pixels = built(name, dtype="uint8")(x, generator=draw()) * 0.2 + 0.4
    assert pixels.min() >= -1e-6 and pixels.max() <= 1 + 1e-6


@pytest.mark.parametrize("name", ["channel-dropout", "registration"])
def test_what_needs_several_channels(name):
    assert "at least 2 channels, and these have 1" in refusal(built, name, 1)
