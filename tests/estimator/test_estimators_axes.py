"""Time and channels of recordings that are exchanged: refused in files, a warning in Python, and never in others."""

import warnings

import numpy as np
import pytest

from refusals import refusal
from viewsmith import Contrastive, Discovery
from viewsmith.data import load_dataset
from viewsmith.modalities.checks import in_pieces
from viewsmith.modalities.series.modality import exchanged, step_ratio

rng = np.random.default_rng(0)


def waves(n=40, channels=4, points=64, rate=20):
    """Slow waves in channels of several sizes and offsets."""
    phase = rng.uniform(0, 2 * np.pi, (n, channels, 1))
    size = 2.0 ** np.arange(channels)[:, None]
    return (size * np.sin(2 * np.pi * np.arange(points) / rate + phase) + 3 * size).astype(np.float32)


def messages(call, *given):
    with warnings.catch_warnings(record=True, action="always") as caught:
        call(*given)
    return [str(warning.message) for warning in caught if "axes are exchanged" in str(warning.message)]


def test_exchanged_axes_of_a_file_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", waves().transpose(0, 2, 1)[:, :, :4].repeat(3, 2)[:, :, :12])
    message = refusal(load_dataset, tmp_path / "x.npy", modality="series")
    assert "more channels than points" in message and "X.transpose(0, 2, 1)" in message
    np.save(tmp_path / "x.npy", np.load(tmp_path / "x.npy").transpose(0, 2, 1))
    assert load_dataset(tmp_path / "x.npy", modality="series").x.shape == (40, 12, 64)


def test_in_python_they_are_a_warning(small_searches):
    x = waves(channels=24).transpose(0, 2, 1)
    model = Contrastive(modality="series", epochs=1, verbose=False)
    assert len(messages(model.fit, x)) == 1
    assert not messages(model.transform, x)
    assert not messages(Contrastive(modality="series", epochs=1, verbose=False).fit, x.transpose(0, 2, 1))
    assert len(messages(Discovery(modality="series").fit, x)) == 1


@pytest.mark.parametrize("channels", [1, 2, 12, 32, 100])
def test_recordings_as_they_should_be(channels):
    assert exchanged(waves(channels=channels), "x") == (False, "")


def test_a_last_axis_that_looks_like_channels_is_a_warning():
    surely, said = exchanged(waves(channels=16, points=12).transpose(0, 2, 1), "x")
    assert not surely and "12 channels of 16 points" in said and "more channels" not in said


def test_noise_is_not_judged_but_for_its_shape():
    noise = rng.normal(size=(50, 4, 40))
    assert exchanged(noise, "x") == (False, "")
    surely, said = exchanged(rng.normal(size=(50, 40, 12)), "x")
    assert not surely and "more channels than points in time" not in said and "more channels than points" in said


def test_missing_values_and_flat_recordings():
    x = waves()
    x[:, 0] = np.nan
    assert step_ratio(x) > 1
    assert exchanged(np.full((5, 20, 10), np.nan), "x")[0] is False
    assert exchanged(np.zeros((5, 20, 10)), "x")[0] is False


@pytest.mark.parametrize(
    ("shape", "part"),
    [((4000,), "one long recording"), ((900,), "Reshape your data"), ((20000, 2), "one long recording")],
)
def test_one_long_recording(tmp_path, shape, part):
    x = rng.normal(size=shape)
    np.save(tmp_path / "x.npy", x)
    message = refusal(load_dataset, tmp_path / "x.npy", modality="series")
    assert part in message
    if part == "one long recording":
        code = message.rpartition("(--modality series): ")[2]
        cut = eval(code, {"X": x})
        np.save(tmp_path / "x.npy", cut)
        assert load_dataset(tmp_path / "x.npy", modality="series").x.shape[1] == (shape[1] if len(shape) > 1 else 1)
        np.testing.assert_array_equal(cut[1, 0], x.reshape(len(x), -1)[cut.shape[2] : 2 * cut.shape[2], 0])


@pytest.mark.parametrize("shape", [(1, 3, 5000), (1, 1, 5000)])
def test_one_recording_in_three_dimensions(tmp_path, shape):
    x = rng.normal(size=shape).cumsum(2)
    np.save(tmp_path / "x.npy", x)
    message = refusal(load_dataset, tmp_path / "x.npy", modality="series")
    cut = eval(message.rpartition("(--modality series): ")[2], {"X": x})
    assert cut.shape == (10, shape[1], 500)
    np.testing.assert_array_equal(cut[2], x[0, :, 1000:1500])


def test_channels_first():
    x = rng.normal(size=(3, 5000))
    np.testing.assert_array_equal(eval(in_pieces(3, 5000).rpartition(": ")[2], {"X": x})[1], x[:, 500:1000])
