"""The contract of all denoisers: shapes, dtypes, times, and what a prediction depends on."""

import pytest
import torch

from drawn import draw, normal
from viewsmith.modalities.dna.networks import SequenceDenoiser
from viewsmith.modalities.images.denoiser import ImageDenoiser, PublishedImageDenoiser
from viewsmith.modalities.vectors.networks import PublishedVectorDenoiser, VectorDenoiser

CONDITION = 5
#: By name: a new denoiser, and the shapes of the samples that it takes.
DENOISERS = {
    "vectors": (lambda: VectorDenoiser(6, CONDITION), [(6,)]),
    "one feature": (lambda: VectorDenoiser(1, CONDITION), [(1,)]),
    "vectors, published": (lambda: PublishedVectorDenoiser(6, CONDITION), [(6,)]),
    "images": (lambda: ImageDenoiser(3, CONDITION, width=8), [(3, 9, 13), (3, 8, 8)]),
    "images, published": (lambda: PublishedImageDenoiser(3, CONDITION), [(3, 9, 13), (3, 8, 8)]),
    "letters": (lambda: SequenceDenoiser(CONDITION), [(4, 30), (4, 1), (4, 5), (4, 251)]),
}
every_denoiser = pytest.mark.parametrize("name", DENOISERS)


def network_of(name, dtype=torch.float32, random=True):
    """A denoiser; if `random`, no layer is 0, as after some steps."""
    torch.manual_seed(0)
    network = DENOISERS[name][0]().to(dtype)
    with torch.no_grad():
        for p in network.parameters() if random else ():
            p += 0.1 * torch.randn_like(p)
    return network


def batch(name, n=4, dtype=torch.float32, shape=None):
    """Noised samples, times and conditions."""
    t = torch.randint(1000, (n,), generator=draw(1))
    return normal(n, *(shape or DENOISERS[name][1][0]), dtype=dtype), t, normal(n, CONDITION, seed=2, dtype=dtype)


@every_denoiser
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_predictions_are_like_the_samples_and_times_may_be_floats(name, dtype):
    network = network_of(name, dtype)
    for shape in DENOISERS[name][1]:
        x, t, condition = batch(name, 3, dtype, shape)
        found = network(x, t, condition)
        assert found.shape == x.shape and found.dtype == dtype and bool(found.isfinite().all())
        torch.testing.assert_close(network(x, t.float(), condition), found)


@every_denoiser
def test_all_but_published_ones_predict_zero_before_training(name):
    assert network_of(name, random=False)(*batch(name)).any() == ("published" in name)


@every_denoiser
def test_low_precision_is_close(name):
    network, given = network_of(name), batch(name)
    expected = network(*given)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = network(*given).float()
    low.square().mean().backward()
    assert (low - expected).square().mean() < 0.01 * expected.square().mean()


@every_denoiser
def test_a_prediction_depends_on_its_own_sample_time_and_condition(name):
    network, given = network_of(name, torch.float64), batch(name, dtype=torch.float64)
    found = network(*given)
    alone = torch.cat([network(*(part[i : i + 1] for part in given)) for i in range(4)])
    torch.testing.assert_close(found, alone, rtol=1e-7, atol=1e-9)
    for place in range(3):
        changed = [part.clone() for part in given]
        changed[place][1] = 999 - changed[place][1] if place == 1 else changed[place][1] + 1
        moved = (network(*changed) - found).abs().flatten(1).amax(1)
        assert moved[1] > 1e-3 and moved[[0, 2, 3]].max() < 1e-9


@every_denoiser
def test_the_gradient_reaches_every_parameter(name):
    network = network_of(name)
    network(*batch(name, 16)).square().mean().backward()
    assert [name for name, p in network.named_parameters() if p.grad is None or not p.grad.any()] == []
