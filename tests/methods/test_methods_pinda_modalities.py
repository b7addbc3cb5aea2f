"""PiNDA on images and DNA, with every framework, and its copies."""

import pytest
import torch
from torch import nn

from drawn import draw
from viewsmith.core import Batch, Optimizer
from viewsmith.frameworks import BYOL, DINO, MoCo, MoCoV3, SimCLR, SimSiam, SwAV
from viewsmith.losses import nt_xent
from viewsmith.methods import PiNDAMethod
from viewsmith.networks import MLP, LowResolutionMap, SequenceCNN, SequenceMap, SharedTrunkMap, SmallCNN, resnet18
from viewsmith.parts import Noise
from viewsmith.views import GaussianNoise, PairMaker, PiNoise, ViewMaker
from viewsmith.views.base import PositivePair

B = 4
FRAMEWORKS = {
    "simclr": SimCLR,
    "moco": lambda e, h: MoCo(e, h, queue=2 * B),
    "moco-v3": lambda e, h: MoCoV3(e, h, MLP(5, [5])),
    "byol": lambda e, h: BYOL(e, h, MLP(5, [5])),
    "simsiam": lambda e, h: SimSiam(e, h, MLP(5, [5])),
    "swav": lambda e, h: SwAV(e, h, prototypes=6),
    "dino": lambda e, h: DINO(e, h, out_dim=6),
}
both_modalities = pytest.mark.parametrize("modality", ["images", "dna"])


def samples(modality, n=B):
    if modality == "images":
        return torch.randn(n, 3, 12, 13, generator=draw(1), dtype=torch.float64)
    x = nn.functional.one_hot(torch.randint(4, (n, 15), generator=draw(1)), 4).mT.double()
    x[1, :, 6:] = 0
    return x


def encoder_of(modality):
    return SmallCNN(3, 8, widths=(8, 8)) if modality == "images" else SequenceCNN((8, 8), n_components=8)


def network_of(modality, encoder, shared):
    if shared:
        return SharedTrunkMap(encoder.stem, 8, 3 if modality == "images" else 4, dims=2 if modality == "images" else 1)
    return LowResolutionMap(3, width=8) if modality == "images" else SequenceMap(width=8)


def pinda(modality, framework="simclr", makers=(), shared=False, **options):
    torch.manual_seed(0)
    encoder = encoder_of(modality)
    noise = PiNoise(network_of(modality, encoder, shared), strength=0.4, adversarial=options.pop("adversarial", False))
    with torch.no_grad():
        noise.network.last.weight.normal_(0, 0.5)
    made, given = FRAMEWORKS[framework](encoder, MLP(8, [5])), Noise(**{"penalty_weight": 0.3} | options)
    return PiNDAMethod(made, PairMaker(makers), noise, options=given, epochs=2, optimizer=Optimizer()).double()


def batch(modality, progress=0.0):
    return Batch(samples(modality), torch.arange(B), draw(2), progress=progress)


class Crops(ViewMaker):
    """Two local views of each sample: a corner, and the flipped corner."""

    def pair(self, pair, *, generator=None):
        small = pair.second[:, :, :8, :8]
        return PositivePair(pair.first, pair.second, pair.ids, torch.stack([small, small.flip(3)], dim=1))

    def forward(self, x, *, index=None, generator=None):
        return x


class Watched(nn.Module):
    """A framework that records its inputs."""

    def __init__(self, inner):
        super().__init__()
        self.encoder, self.head, self.inner, self.seen = inner.encoder, inner.head, inner, []

    def forward(self, pair, progress=0.0):
        self.seen.append((pair, progress))
        return self.inner(pair, progress)


@pytest.mark.parametrize(("modality", "two_sided"), [("images", True), ("dna", False)])
def test_pinda_equals_its_equation_in_every_modality(modality, two_sided):
    method, x = pinda(modality, two_sided=two_sided), samples(modality)
    losses, logs = method.joint_step(batch(modality))
    sigma, _ = method.noise.noise_parameters(x)
    count = 2 if two_sided else 1
    eps = sigma.repeat(count, *[1] * (x.ndim - 1))
    eps = eps * torch.randn(eps.shape, generator=draw(2), dtype=torch.float64)
    views = [x + eps[:B], x + eps[B:] if two_sided else x]
    contrast = nt_xent(*method.represent(torch.cat(views), "projection").chunk(2), temperature=0.5)
    real = sigma > 0
    barrier = torch.stack([-(sigma[i][real[i]] / 0.4).log().mean() for i in range(B)])
    torch.testing.assert_close(losses, contrast + 0.3 * barrier, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(logs["penalty"], barrier.mean())
    assert real.all() == (modality == "images") and (views[0][1, :, 6:][~real[1, :, 6:]] == 0).all()
    parameters = list(method.parameters())
    for one, other in zip(
        torch.autograd.grad(losses.square().sum(), parameters),
        torch.autograd.grad((contrast + 0.3 * barrier).square().sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)


def test_full_views_get_noise_and_progress_is_passed():
    method = pinda("images", "swav", [GaussianNoise(0.1), Crops()], two_sided=True)
    method.framework = Watched(method.framework)
    assert method.joint_step(batch("images", progress=0.75))[0].shape == (B,)
    (seen, progress), generator = method.framework.seen[0], draw(2)
    made = method.views(samples("images"), index=torch.arange(B), generator=generator)
    both = torch.cat([made.first, made.second])
    noise = method.noise.noise(both, generator)[0]
    assert progress == 0.75 and torch.equal(seen.local, made.local)
    assert torch.equal(torch.stack(seen.ids), torch.stack(made.ids))
    torch.testing.assert_close(torch.cat([seen.first, seen.second]), both + noise, rtol=1e-12, atol=1e-12)


@both_modalities
def test_a_shared_generator_is_saved_and_loaded_with_its_method(modality):
    method, other = pinda(modality, shared=True).eval(), pinda(modality, shared=True).eval()
    saved = {name: value + 0.01 if value.is_floating_point() else value for name, value in method.state_dict().items()}
    addresses = [p.data_ptr() for p in method.state_dict().values() if p.numel()]
    assert len(addresses) == len(set(addresses))
    method.load_state_dict(saved)
    other.load_state_dict(saved)
    assert torch.equal(method.joint_step(batch(modality))[0], other.joint_step(batch(modality))[0])


def test_the_generator_does_not_train_the_shared_stem():
    method = pinda("images", shared=True, penalty="log_barrier", penalty_weight=1.0)
    _, logs = method.joint_step(batch("images"))
    trunk = torch.autograd.grad(logs["penalty"], list(method.framework.parameters()), allow_unused=True)
    assert all(g is None for g in trunk)


@both_modalities
def test_noise_parts(modality):
    method, x = pinda(modality).eval(), samples(modality)
    made = method.noise_parts(x, draw(3))
    assert set(made) == {"sigma", "noise", "view"} and all(value.shape == x.shape for value in made.values())
    assert torch.equal(made["view"], x + made["noise"]) and torch.equal(made["view"], method.view(x, generator=draw(3)))
    assert torch.equal(made["sigma"], method.noise.noise_parameters(x)[0])
    assert not any(value.requires_grad for value in made.values())


@both_modalities
def test_diagnostics_equal_the_loops(modality):
    method, x = pinda(modality, penalty="none").eval(), samples(modality)
    method.noise.level = "free"
    with torch.no_grad():
        sigma, numbers = method.noise.noise_parameters(x)[0], method.diagnose(x, draw())
    entries = [[v for v in row if v > 0] for row in sigma.flatten(1).T.tolist()]
    means = [sum(row) / len(row) for row in entries if row]
    middle = sum(means) / len(means)
    spread = (sum((m - middle) ** 2 for m in means) / len(means)) ** 0.5 / middle
    squares = [v * v for row in entries for v in row]
    assert numbers["noise_spread"] == pytest.approx(spread) and spread > 0.01
    assert numbers["noise_level"] == pytest.approx((sum(squares) / len(squares)) ** 0.5)


def test_a_step_of_resnet18_with_a_shared_trunk():
    torch.manual_seed(0)
    encoder = resnet18(1)
    noise = PiNoise(SharedTrunkMap(encoder.stem, encoder.stem_width, 1), strength=0.3)
    method = PiNDAMethod(
        SimCLR(encoder, MLP(512, [8])),
        PairMaker([]),
        noise,
        options=Noise(two_sided=True),
        epochs=1,
        optimizer=Optimizer(),
    )
    x = torch.randn(3, 1, 9, 11, generator=draw())
    losses, _ = method.joint_step(Batch(x, torch.arange(3), draw()))
    losses.mean().backward()
    assert noise.network.last.weight.grad.abs().max() > 0
    assert encoder.bn1.num_batches_tracked == 1  # the generator's pass through the stem is not counted
    assert method.diagnose(x, draw())["noise_level"] == pytest.approx(0.3)
