"""Spectra: samples, features and views against loops, and what the default finds where scattering hides it."""

import numpy as np
import pandas as pd
import pytest
import torch

import viewsmith
from refusals import refusal
from viewsmith import CRLTAC, Contrastive, DiffAug, GenView, LinearContrast, MetAug, PiNDA
from viewsmith.estimator.figures import as_dataset
from viewsmith.methods.crl_tac.transforms import Distortions
from viewsmith.methods.pinda.views import PiNoise, SpectralMap
from viewsmith.modalities import modality_of
from viewsmith.modalities.spectra.features import Derivatives, normalized, slopes
from viewsmith.modalities.spectra.modality import spectrum_rows
from viewsmith.modalities.spectra.networks import SpectralAxes, SpectralLatents
from viewsmith.modalities.spectra.views import AxisShift, Scatter, SpectralNoise
from viewsmith.networks.base import PartContext
from viewsmith.networks.scaling import FirstColumns, SkipCoordinates

T = 40
X = torch.randn(6, 1, T, generator=torch.Generator().manual_seed(0)).cumsum(2)


def scattered(n=60, points=120, seed=0):
    """Spectra of three mixtures of bands, whose baselines and amplitudes vary more than the mixtures do."""
    r = np.random.default_rng(seed)
    y, t = np.arange(n) % 3, np.linspace(-1, 1, points)
    bands = np.exp(-((t - np.array([-0.4, 0.0, 0.5])[:, None]) ** 2) / 0.01)
    x = 1 + bands.sum(0) + 0.3 * bands[y]
    x = r.lognormal(0, 0.5, (n, 1)) * x + r.normal(0, 1, (n, 1)) + r.normal(0, 1, (n, 1)) * t
    return (x + r.normal(0, 0.002, x.shape)).astype(np.float32), y


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_slopes_are_those_of_lines_in_windows(dtype):
    x = X.to(dtype)
    found = slopes(x, 3)
    for at in (0, 1, 17, T - 1):
        window = x[:, 0, np.clip(np.arange(at - 3, at + 4), 0, T - 1)].double().numpy()
        expected = np.polyfit(np.arange(-3, 4), window.T, 1)[0]
        np.testing.assert_allclose(found[:, 0, at], expected, rtol=1e-4, atol=1e-5)


def test_level_and_amplitude_leave_the_features():
    features = Derivatives(PartContext((1, 120), 1))
    assert features.n_features == 4 * 120  # two windows of so few points are the same
    x = torch.from_numpy(scattered()[0])[:, None]
    np.testing.assert_allclose(features(3 * x + 5), features(x), atol=5e-3)
    assert not torch.allclose(features(x + 0.1 * torch.linspace(-1, 1, 120)), features(x), atol=1e-2)
    spread = np.diff(np.quantile(normalized(x)[:, 0].numpy(), [0.25, 0.75], axis=1), axis=0)
    np.testing.assert_allclose(spread[0], np.ones(60), rtol=1e-4)
    x[:, :, 7] = 1e4  # where nothing passes
    assert float(normalized(x).max()) == 100
    assert Derivatives(PartContext((1, 5000), 1)).n_features == 5 * 1024


def test_heights_of_few_peaks_among_zeros_are_told_apart():
    x = torch.zeros(2, 1, 200)
    x[:, 0, 20], x[0, 0, 90], x[1, 0, 90] = 3.0, 1.0, 2.0
    found = normalized(x)
    torch.testing.assert_close(found[:, 0, 90] / found[:, 0, 20], torch.tensor([1 / 3, 2 / 3]))
    torch.testing.assert_close(normalized(7 * x), found)
    assert torch.equal(normalized(torch.ones(1, 1, 50)), torch.zeros(1, 1, 50))


def test_scatter_is_a_polynomial_and_a_factor():
    view = Scatter(0.2, 0.5)(X, generator=torch.Generator().manual_seed(1))
    t = np.linspace(-1, 1, T)
    for before, after in zip(X[:, 0].numpy(), view[:, 0].numpy(), strict=True):
        basis = np.stack([before, np.ones(T), t, t * t], 1)
        residual = after - basis @ np.linalg.lstsq(basis, after, rcond=None)[0]
        assert np.abs(residual).max() < 1e-4 < np.abs(after - before).max()
    torch.testing.assert_close(Scatter(0.0, 0.0)(X, generator=torch.Generator()), X)


def test_a_shift_moves_along_the_axis():
    line = torch.arange(float(T)).expand(500, 1, T)
    moved = (AxisShift(0.5)(line, generator=torch.Generator().manual_seed(0)) - line)[:, 0, 10:-10]
    assert torch.allclose(moved, moved[:, :1].expand_as(moved), atol=1e-4)  # all points alike, between points, too
    assert 0.4 < float(moved[:, 0].std()) < 0.6 and abs(float(moved.mean())) < 0.1


def test_noise_is_by_the_deviation_of_the_spectrum():
    x = torch.cat([X, 10 * X])
    noise = SpectralNoise(0.1)(x, generator=torch.Generator().manual_seed(0)) - x
    np.testing.assert_allclose(noise.std(2) / x.std(2), np.full((12, 1), 0.1), rtol=0.4)


def test_what_scattering_hides_is_found():
    x, y = scattered()
    model = LinearContrast(modality="spectra", random_state=0).fit(x)
    h = model.transform(x)
    nearest = [((h - row) ** 2).sum(1).argsort()[1] for row in h]
    raw = [((x - row) ** 2).sum(1).argsort()[1] for row in x]
    assert (y[nearest] == y).mean() > 0.95 > 0.7 > (y[raw] == y).mean()
    assert np.array_equal(model.transform(x[:, None]), h)  # (n, 1, points) is the same
    assert model.views(x[:2], n_views=3, random_state=0).shape == (2, 3, 120)
    assert set(modality_of("spectra").raw_features(x[:, None], None)) > {"values"}


@pytest.mark.parametrize(
    ("method", "options"),
    [
        (Contrastive, {"closed_form": True}),
        (Contrastive, {"encoder": "cnn"}),
        (PiNDA, {"distribution": "gaussian", "learn_mean": True}),
        (PiNDA, {"distribution": "uniform", "view_maker": "identity", "noise_length": 0}),
        (CRLTAC, {"distortions": 4}),
        (DiffAug, {"sampler_steps": 2}),
        (GenView, {"sampler_steps": 2}),
        (MetAug, {}),
    ],
)
def test_every_method_is_trained_on_spectra(method, options, tmp_path):
    x, _ = scattered(40)
    model = method(modality="spectra", epochs=2, batch_size=20, random_state=0, **options).fit(x)
    h, views = model.transform(x), model.views(x[:3], 2)
    # Coordinates of the input, of which the heads see nothing.
    kept = not options.keys() & {"closed_form", "encoder"}
    assert len(h) == 40 and model.options_.n_components == 256 + 64 * kept
    assert sum(isinstance(module, FirstColumns) for module in model.method_.modules()) >= kept
    assert np.isfinite(h).all() and h.std(0).max() > 0
    assert np.isfinite(views).all() and (method is MetAug or views.shape == (3, 2, 120))
    model.save(tmp_path / "run")
    loaded = viewsmith.load(tmp_path / "run")
    assert np.array_equal(loaded.transform(x), h) and np.array_equal(loaded.views(x[:3], 2), views)
    if method is CRLTAC:
        assert "no location" in refusal(model.locate, x)
        assert model.distribution(x).shape == (40, 4)


@pytest.mark.parametrize("options", [{"n_components": 16}, {"encoder_options": {"appended_pca": 0}}])
def test_columns_of_a_chosen_number_are_learned(options):
    x, _ = scattered(20)
    model = PiNDA(modality="spectra", epochs=1, batch_size=20, random_state=0, **options).fit(x)
    assert model.transform(x).shape == (20, options.get("n_components", 256))
    assert not any(isinstance(module, SkipCoordinates) for module in model.method_.modules())


def test_figures_have_the_points_of_the_axis_and_its_unit():
    axis = np.linspace(1800, 400, 120)
    x = pd.DataFrame(scattered(20)[0], columns=[f"{point:.1f} cm-1" for point in axis])
    model = LinearContrast(modality="spectra", random_state=0).fit(x)
    (figure,) = (each for each in model.figures(as_dataset(model, x, None)) if each.title == "Views")
    drawn = figure.pictures[0].drawn.axes[0]
    np.testing.assert_allclose(drawn.lines[0].get_xdata(), axis, atol=0.1)
    assert drawn.get_xlabel() == "cm-1" and drawn.xaxis_inverted()


def test_the_encoder_reads_places_without_level_and_amplitude():
    axes = SpectralAxes(Derivatives(PartContext((1, 120), 1)), 64)
    x = torch.from_numpy(scattered(20)[0])[:, None]
    axes.fit(x)
    np.testing.assert_allclose(axes(3 * x + 5), axes(x), atol=2e-2)
    assert (axes(x)[:, 19:] == 0).all() and axes(x)[:, :19].std(0).min() > 0  # of 20 spectra 19 axes
    assert not torch.allclose(axes(x.roll(10, 2)), axes(x), atol=0.1)


@pytest.mark.parametrize("distribution", ["gaussian", "uniform"])
def test_noise_is_smooth_along_the_axis_and_on_zeros_too(distribution):
    noise = PiNoise(SpectralMap(T, length=0.25), distribution=distribution, strength=0.5)
    x = X.clone().repeat(200, 1, 1)
    x[:, :, 5] = 0.0
    eps = (noise(x, generator=torch.Generator().manual_seed(0)) - x)[:, 0].detach()
    np.testing.assert_allclose(eps.std(0), np.full(T, 0.5), rtol=0.1)
    assert np.corrcoef(eps[:, 5], eps[:, 6])[0, 1] > 0.98 > 0.5 > np.corrcoef(eps[:, 5], eps[:, 35])[0, 1]
    assert (float(eps.abs().max()) <= 0.5 * 3**0.5 + 1e-5) == (distribution == "uniform")


def test_distortions_are_gains_baselines_and_shifts():
    family = Distortions(count=3, seed=1)
    family.drawn[:, 4] = 0
    views = family.all_views(X)
    t = np.linspace(-1, 1, T)
    for k in range(3):
        for before, after in zip(X[:, 0].numpy(), views[:, k, 0].numpy(), strict=True):
            basis = np.stack([before, np.ones(T), t, t * t], 1)
            found = np.linalg.lstsq(basis, after, rcond=None)[0]
            assert np.abs(after - basis @ found).max() < 1e-4
            assert np.isclose(found[0], np.exp(float(family.drawn[k, 0])), atol=1e-3)
    family.drawn[:] = torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0])
    torch.testing.assert_close(family.all_views(X)[:, 0, :, :-1], X[:, :, 1:])


def test_latents_are_coordinates_of_equal_variance():
    x = torch.from_numpy(scattered(20)[0])[:, None]
    latents = SpectralLatents(120)
    latents.fit(x)
    u = latents.encode(x)
    np.testing.assert_allclose(latents.decode(u, x), x, atol=2e-2)
    assert u.shape == (20, 32) and (u[:, 19:] == 0).all()
    np.testing.assert_allclose(u[:, :5].std(0) / u[:, 0].std(), np.ones(5), rtol=0.05)


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (np.zeros((4, 2, 30)), "spectra are numbers (n, points), with at least 8 points"),
        (np.zeros((4, 7)), "shape (4, 7); spectra are numbers (n, points)"),
        (np.full((4, 30), np.nan), "point 0"),
        (np.full((4, 30), "a"), "text"),
    ],
)
def test_bad_spectra_are_refused(x, said):
    assert said in refusal(spectrum_rows, x)


def test_other_points_are_refused():
    x, _ = scattered(30)
    model = LinearContrast(modality="spectra", random_state=0).fit(x)
    assert "have 119 points, but the model was fitted on 120" in refusal(model.transform, x[:, 1:])


def test_columns_of_a_frame_are_points_of_an_axis(tmp_path):
    x, _ = scattered()
    frame = pd.DataFrame(x, columns=np.linspace(900, 1700, 120).round(1))
    mixed = frame[np.random.default_rng(0).permutation(frame.columns)]
    model = LinearContrast(modality="spectra", random_state=0).fit(mixed)
    h = model.transform(frame)
    model.save(tmp_path / "run")
    for each in (model, viewsmith.load(tmp_path / "run")):
        for same in (frame, mixed, frame[frame.columns[::-1]], x):
            np.testing.assert_array_equal(each.transform(same), h)
        table = pytest.importorskip("pyarrow").Table.from_pandas(mixed.set_axis(mixed.columns.astype(str), axis=1))
        np.testing.assert_array_equal(each.transform(table), h)
        finer = np.linspace(900, 1700, 239).round(1)
        made = pd.DataFrame(np.stack([np.interp(finer, frame.columns, row) for row in x]), columns=finer.astype(str))
        np.testing.assert_allclose(each.transform(made), h, atol=1e-2)
        assert "give spectra of this range" in refusal(each.transform, frame.iloc[:, :100])
        for gaps in (frame.mask(frame == frame.iloc[0, 3]), made.mask(made == made.iloc[0, 3])):
            message = refusal(each.transform, gaps)
            assert "1 missing value (NaN), such as at" in message and "impute" not in message
    falling = LinearContrast(modality="spectra", random_state=0).fit(frame[frame.columns[::-1]])
    np.testing.assert_array_equal(falling.transform(mixed), falling.transform(x[:, ::-1].copy()))
