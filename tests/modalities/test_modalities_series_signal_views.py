"""Views of signals: each against a slow loop or its definition."""

import cmath
import math

import numpy as np
import pytest
import torch

from drawn import draw
from viewsmith.core.registry import find
from viewsmith.modalities import modality_of
from viewsmith.modalities.series import views
from viewsmith.modalities.series.networks import last_points
from viewsmith.views.base import ViewContext


def uniform(n, generator):
    return torch.rand((n, 1), generator=generator, dtype=torch.float64)[:, 0].tolist()


def signals(n=6, channels=2, length=40, seed=1):
    return torch.randn((n, channels, length), generator=draw(seed), dtype=torch.float64)


def ends(x, *of_shorter):
    """The last points of recordings, of which the first ones are shorter."""
    return torch.tensor([[last] for last in (*of_shorter, *[x.shape[2] - 1] * (len(x) - len(of_shorter)))])


def test_a_shift_moves_around_the_ends():
    x = signals()
    last = ends(x, 20, 30)
    view, drawn = views.time_shift(x, last, 0.5, draw()), uniform(6, draw())
    for i, u in enumerate(drawn):
        n = int(last[i]) + 1
        moved = round(0.5 * (2 * u - 1) * n)
        for t in range(40):
            assert torch.equal(view[i, :, t], x[i, :, (t - moved) % n if t < n else t])
    # Gaps move, too.
    x[0, :, 21:], x[0, 1, 5] = torch.nan, torch.nan
    assert views.time_shift(x, last, 0.5, draw())[0].isnan().sum() == x[0].isnan().sum()


def test_a_time_mask_is_a_part_of_its_own_length():
    x = signals()
    last = ends(x, 19)
    generator = draw()
    view, width, start = views.time_mask(x, last, 0.5, draw()), uniform(6, generator), uniform(6, generator)
    for i in range(6):
        n, wide = int(last[i]) + 1, 0.5 * width[i]
        begin = (1 - wide) * start[i]
        for t in range(40):
            masked = begin <= t / n < begin + wide
            assert torch.equal(view[i, :, t], 0 * x[i, :, t] if masked else x[i, :, t])


def spectrum(values):
    """Discrete Fourier transform by its sum."""
    n = len(values)
    return [sum(v * cmath.exp(-2j * math.pi * k * t / n) for t, v in enumerate(values)) for k in range(n // 2 + 1)]


@pytest.mark.parametrize("length", [40, 41])
def test_a_frequency_mask_leaves_out_a_band_of_octaves(length):
    x, generator = signals(length=length), draw()
    view, width, below = views.frequency_mask(x, 2.0, 4.0, draw()), uniform(6, generator), uniform(6, generator)
    for i in range(6):
        wide = 2 * width[i]
        upper = 2.0 ** -((4 - wide) * below[i])
        for k, (before, after) in enumerate(
            zip(spectrum(x[i, 1].tolist()), spectrum(view[i, 1].tolist()), strict=True)
        ):
            f = k / (length / 2)
            assert abs(after - (0 if upper * 2**-wide <= f <= upper else before)) < 1e-9


def test_filters_have_the_response_of_butterworth():
    assert math.isclose(float(views.butterworth(torch.tensor(1.0))), 0.5**0.5, rel_tol=1e-6)
    decibels = 20 * views.butterworth(torch.tensor([4.0, 8.0])).log10()
    assert abs(float(decibels[0] - decibels[1]) - 24.1) < 0.1
    x, generator = signals(), draw()
    view, low, high = views.random_filter(x, 0.25, 0.2, draw()), uniform(6, generator), uniform(6, generator)
    for i in range(6):
        for k, (before, after) in enumerate(
            zip(spectrum(x[i, 0].tolist()), spectrum(view[i, 0].tolist()), strict=True)
        ):
            f = k / 20
            gain = (1 + (f / 0.25 ** low[i]) ** 8) ** -0.5
            gain *= (1 + (0.2 * high[i] / f) ** 8) ** -0.5 if f else 0
            assert abs(after - gain * before) < 1e-9
    torch.testing.assert_close(views.random_filter(x, 1.0, 0.0, draw()), x)


@pytest.mark.parametrize("color", [0.0, 2.0])
def test_noise_has_its_level_and_color(color):
    x = 3 + 0.5 * signals(400, 1, 256)
    last = ends(x, 99)
    added = views.colored_noise(x, last, 10.0, color, draw()) - x
    known = [slice(0, int(end) + 1) for end in last[:, 0]]
    levels = [10 * math.log10(float(x[i, 0, s].var() / added[i, 0, s].var())) for i, s in enumerate(known)]
    assert 9.9 < min(levels) < 11 and 29 < max(levels) < 30.1
    power = (torch.fft.rfft(added[1:, 0]).abs() / added[1:, 0].std(1, keepdim=True)).square().mean(0)
    steep = float((power[4] / power[64]).log2() / 4)  # of colors from 0 to 2
    assert abs(steep) < 0.1 if color == 0 else 0.5 < steep < 2
    silent = torch.zeros(3, 1, 64)
    assert torch.equal(views.colored_noise(silent, ends(silent), 0.0, 1.0, draw()), silent)


def test_the_vocoder_equals_a_slow_loop():
    s = torch.complex(signals(3, 5, 9), signals(3, 5, 9, seed=2))
    factor = torch.tensor([[0.7], [1.0], [1.6]], dtype=torch.float64)
    found = views.phase_vocoder(s, factor, 12)
    for i in range(3):
        for k in range(5):
            phase = cmath.phase(s[i, k, 0].item())
            for j in range(12):
                at = j / float(factor[i])
                before = min(int(at), 7)
                a, b, w = s[i, k, before].item(), s[i, k, before + 1].item(), min(at - before, 1)
                expected = cmath.rect((1 - w) * abs(a) + w * abs(b), phase)
                assert abs(found[i, k, j].item() - expected) < 1e-9
                step = 2 * math.pi * k * 2 / 8
                deviation = cmath.phase(b) - cmath.phase(a) - step
                phase += step + deviation - 2 * math.pi * round(deviation / (2 * math.pi))
    # A factor of 1 gives the spectra of a signal back.
    torch.testing.assert_close(views.phase_vocoder(s, factor[1:2].expand(3, 1), 9), s)


def test_a_tone_gets_another_pitch_and_keeps_its_time():
    time = torch.arange(4000) / 4000
    tone = torch.sin(2 * math.pi * 400 * time) * (time > 0.5)
    x = tone.repeat(20, 1, 1)
    view = views.pitch_shift(x, ends(x), 5.0, 256, draw())
    for row, u in zip(view[:, 0], torch.rand((20, 1), generator=draw())[:, 0].tolist(), strict=True):
        heard = torch.fft.rfft(row[2300:3700]).abs().argmax() * 4000 / 1400
        assert abs(float(heard) - 400 * 2 ** (5 / 12 * (2 * u - 1))) < 3
        assert row[:1800].abs().max() < 0.05 and 0.5 < row[2300:3700].square().mean() * 2 < 1.2


@pytest.mark.parametrize(("rate", "points"), [(8000.0, 512), (None, 128), (1e6, 1024)])
def test_the_window_of_the_vocoder_is_of_64_milliseconds(rate, points):
    x = torch.randn((4, 1, 2000), generator=draw())
    statistics = {} if rate is None else {"sampling_rate": rate}
    context = ViewContext((1, 2000), 1, modality_of("series"), torch.nn.Identity(), statistics)
    maker = find("view maker", "pitch", "series").made(context)
    assert torch.equal(maker(x, generator=draw()), views.pitch_shift(x, ends(x), 2.0, points, draw()))


@pytest.mark.parametrize("name", ["pitch", "colored-noise", "filter", "time-mask", "frequency-mask"])
def test_gaps_are_zeros_for_a_change_and_stay(name):
    x = signals(length=80).float()
    x[0, :, 60:], x[1, 0, 7] = torch.nan, torch.nan
    maker = find("view maker", name, "series").made(ViewContext((2, 80), 2, modality_of("series"), torch.nn.Identity()))
    view = maker(x, generator=draw())
    assert torch.equal(view.isnan(), x.isnan())
    filled = maker.change(x.nan_to_num(), last_points(x, ~x.isnan().all(1)), draw())
    np.testing.assert_array_equal(view[~x.isnan()], filled[~x.isnan()])
