"""Samples with separate strengths and random streams, which do not depend on each other."""

import pytest
import torch
from diffusion_toys import ToyDenoiser

from viewsmith.modalities.vectors.networks import VectorLatents
from viewsmith.views.generated.diffusion import ConditionalDiffusion


def model_of(**options):
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 5, generator=generator, dtype=torch.float64)
    y = torch.randn(6, 3, generator=generator, dtype=torch.float64)
    model = ConditionalDiffusion(ToyDenoiser(5, 3), VectorLatents(5), condition=3, steps=4, **options).double()
    model.fit(x, y)
    return model, x, y


def streams(rows):
    return [torch.Generator().manual_seed(int(row)) for row in rows]


STRENGTH = torch.tensor([0.3, 0.9, 0.3, 1.0, 0.1, 0.9])


@pytest.mark.parametrize("sampler", ["ddim", "ddpm", "dpm"])
@pytest.mark.parametrize("blur", [0.0, 0.5])
def test_each_sample_equals_a_sample_drawn_alone(sampler, blur):
    model, x, y = model_of(sampler=sampler, blur=blur)
    together = model.sample(x, y, streams(range(6)), strength=STRENGTH)
    for row in range(6):
        one, _, _ = model_of(sampler=sampler, blur=blur, strength=float(STRENGTH[row]))
        alone = one.sample(x[row : row + 1], y[row : row + 1], streams([row]))
        torch.testing.assert_close(together[row], alone[0], rtol=1e-9, atol=1e-9)
    order = torch.tensor([4, 0, 5])
    others = model.sample(x[order], y[order], streams(order), strength=STRENGTH[order])
    torch.testing.assert_close(others, together[order], rtol=1e-9, atol=1e-9)


def test_one_stream_for_all_samples_can_be_replayed():
    model, x, y = model_of()
    one, other = (model.sample(x, y, torch.Generator().manual_seed(3), strength=STRENGTH) for _ in range(2))
    assert torch.equal(one, other) and not torch.equal(one[0], one[2])
