"""Detrended windows of recordings: values, gradients, and what does not change them."""

import numpy as np
import pytest
import torch
from scipy.signal import detrend

from refusals import refusal
from viewsmith import CRLTAC
from viewsmith.methods.crl_tac.transforms import Windows, detrended
from viewsmith.networks import PositionScores


@pytest.mark.parametrize("how", ["constant", "linear"])
@pytest.mark.parametrize(
    ("length", "dtype"), [(1, torch.float64), (2, torch.float64), (7, torch.float32), (48, torch.float64)]
)
def test_detrending_is_that_of_scipy(how, length, dtype):
    x = torch.randn(2, 3, length, dtype=dtype, generator=torch.Generator().manual_seed(0)) + 5
    expected = torch.from_numpy(detrend(x.numpy(), type=how if length > 1 else "constant"))
    torch.testing.assert_close(
        detrended(x, how), expected.to(dtype), rtol=0, atol=1e-5 if dtype == torch.float32 else 1e-12
    )


@pytest.mark.parametrize("how", ["constant", "linear"])
def test_gradients_of_detrending(how):
    x = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: detrended(v, how), x)


def scorer():
    torch.manual_seed(0)
    network = PositionScores(2, padded=False).double()
    for weight in network.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return network


@pytest.mark.parametrize("how", ["constant", "linear"])
def test_detrended_windows_and_their_scores_equal_those_of_single_windows(how):
    family, network = Windows(fraction=0.3, count=5, padded=False, detrend=how), scorer()
    x = torch.randn(3, 2, 40, dtype=torch.float64)
    views, scores = family.all_views(x), family.scores(network, x)
    assert views.shape == (3, 5, 2, 12) and scores.shape == (3, 5)
    for row in range(3):
        for t, start in enumerate((0, 7, 14, 21, 28)):
            one = torch.from_numpy(detrend(x[row, :, start : start + 12].numpy(), type=how))
            torch.testing.assert_close(views[row, t], one)
            torch.testing.assert_close(scores[row, t], network(one[None])[0].mean())


def test_scores_in_blocks_are_equal(monkeypatch):
    family, network = Windows(fraction=0.3, count=5, padded=False, detrend="linear"), scorer()
    x = torch.randn(7, 2, 40, dtype=torch.float64)
    whole = family.scores(network, x)
    monkeypatch.setattr("viewsmith.methods.crl_tac.transforms.MAX_VALUES", 8 * 5 * 2 * 12 * 2)  # two rows at a time
    torch.testing.assert_close(family.scores(network, x), whole)


def test_a_trend_changes_nothing_and_without_the_option_everything():
    t = np.linspace(-3, 3, 48, dtype=np.float32)
    x = np.random.default_rng(0).normal(size=(16, 2, 48)).astype(np.float32)
    settings = {"modality": "series", "windows": 4, "window_fraction": 0.5, "scaling": "none"}
    for how, equal in (("linear", True), ("none", False)):
        model = CRLTAC(**settings, detrend=how, epochs=3, batch_size=8, random_state=0).fit(x)
        for found in (model.transform, model.distribution):
            assert np.allclose(found(x), found(x + 2 + t), atol=1e-3) == equal
    loaded_options = model.configuration()["parameters"]
    assert loaded_options["detrend"] == "none"


def test_dna_has_no_trend():
    letters = np.frombuffer(b"ACGT" * 8, np.uint8)[None].repeat(8, 0)
    assert "detrend" in refusal(lambda: CRLTAC(modality="dna", detrend="linear", epochs=1, batch_size=4).fit(letters))
    assert "detrend" in refusal(lambda: CRLTAC(detrend="linear", epochs=1, batch_size=4).fit(np.eye(8)))
