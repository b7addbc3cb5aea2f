"""The convolutional DNA encoder: values against plain layers, independence of padding and of other rows."""

import pytest
import torch
import torch.nn.functional as F

from drawn import draw
from refusals import refusal
from viewsmith.core import tensors
from viewsmith.modalities.dna.networks import SequenceBatchNorm, SequenceCNN


def batch(lengths, width=None, seed=0):
    """Random one-hot sequences of the given lengths, a few N, padded to `width`."""
    width = width or max(lengths)
    x = torch.zeros(len(lengths), 4, width)
    for row, n in enumerate(lengths):
        letters = torch.randint(5, (n,), generator=draw(seed + row))
        x[row, :, :n] = torch.cat([torch.eye(4), torch.full((1, 4), 0.25)])[letters].T
    return x


@pytest.fixture
def encoder():
    """A small encoder with BatchNorm statistics of random data."""
    torch.manual_seed(0)
    encoder = SequenceCNN((6, 8, 10), kernel=7, n_components=12)
    for _ in range(3):
        encoder(batch([41, 60, 50, 33]))
    for module in encoder.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            torch.nn.init.normal_(module.weight, 1, 0.3)
            torch.nn.init.normal_(module.bias, 0, 0.3)
    return encoder.eval()


def test_shapes():
    encoder = SequenceCNN()
    assert encoder.n_components == 256
    x = batch([70, 41, 12])
    assert encoder(x).shape == (3, 256)
    assert encoder.stem(x).shape == (3, 48, 70)
    assert SequenceCNN((4,), kernel=3, n_components=5)(x).shape == (3, 5)


def test_values_equal_those_of_plain_layers(encoder):
    x = batch([64] * 3)
    h = x
    for number, block in enumerate(encoder.blocks):
        if number:
            h = F.max_pool1d(h, 4, ceil_mode=True)
        h = F.conv1d(h, block.convolution.weight, padding="same")
        norm = block.norm
        h = (h - norm.running_mean[:, None]) / (norm.running_var[:, None] + norm.eps).sqrt()
        h = torch.relu(h * norm.weight[:, None] + norm.bias[:, None])
    pooled = torch.cat([h.mean(dim=2), h.amax(dim=2)], dim=1)
    expected = torch.relu(encoder.norm(pooled @ encoder.project.weight.T))
    torch.testing.assert_close(encoder(x), expected)
    assert encoder(x).std() > 0.01


@pytest.mark.parametrize("length", [41, 44, 63, 7, 1])
def test_a_representation_does_not_depend_on_padding(encoder, length):
    alone = encoder(batch([length]))
    for width in (length + 1, length + 3, length + 50):
        torch.testing.assert_close(encoder(batch([length], width)), alone, rtol=0, atol=1e-6)
        stem = encoder.stem(batch([length], width))
        torch.testing.assert_close(stem[..., :length], encoder.stem(batch([length])), rtol=0, atol=1e-6)
        assert (stem[..., length:] == 0).all()


def test_training_does_not_depend_on_padding(encoder):
    encoder.train()
    lengths = [41, 60, 12, 55]
    before = {name: buffer.clone() for name, buffer in encoder.named_buffers()}
    results = []
    for width in (60, 97):
        encoder.load_state_dict({**encoder.state_dict(), **before})
        h = encoder(batch(lengths, width))
        gradient = torch.autograd.grad(h.square().sum(), list(encoder.parameters()))
        results.append((h, gradient, [buffer.clone() for buffer in encoder.buffers()]))
    torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-5)


def test_a_batch_without_padding_does_not_need_masks(encoder):
    encoder.train()
    x, block = batch([64] * 6), encoder.blocks[0]
    masked = block(x, torch.ones(6, 64, dtype=torch.bool))
    torch.testing.assert_close(block(x, None), masked, rtol=1e-5, atol=1e-6)


def test_batch_norm_uses_only_real_positions():
    norm = SequenceBatchNorm(3, momentum=1.0)
    x = torch.randn(4, 3, 9, generator=draw())
    real = torch.arange(9) < torch.tensor([9, 4, 1, 6])[:, None]
    rows = torch.cat([x[i, :, j][None] for i in range(4) for j in range(9) if real[i, j]])
    out = norm(x, real)
    torch.testing.assert_close(norm.running_mean, rows.mean(0))
    torch.testing.assert_close(norm.running_var, rows.var(0))
    expected = (x - rows.mean(0)[:, None]) / (rows.var(0, correction=0)[:, None] + norm.eps).sqrt() * real[:, None]
    torch.testing.assert_close(out, expected)


def test_batch_norm_without_selection_has_the_same_value_and_gradient():
    real = torch.arange(9) < torch.tensor([9, 4, 1, 6])[:, None]
    found = []
    for selects in (True, False):
        norm = SequenceBatchNorm(3).double()
        with torch.no_grad():
            norm.weight.copy_(torch.tensor([0.5, 2, -1]))
            norm.bias.copy_(torch.tensor([1.0, 0, -2]))
        x = torch.randn(4, 3, 9, generator=draw(), dtype=torch.float64, requires_grad=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tensors, "HOST", {"cpu"} if selects else set())
            out = norm(x, real)
        weights = torch.arange(out.numel(), dtype=torch.float64).view_as(out).sin()
        gradients = torch.autograd.grad((weights * out).sum(), (x, norm.weight, norm.bias))
        found.append([out, norm.running_mean, norm.running_var, norm.num_batches_tracked, *gradients])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_an_empty_sequence_has_a_finite_representation(encoder):
    x = batch([0, 30])
    assert encoder(x).isfinite().all()
    assert encoder.train()(x).isfinite().all()


@pytest.mark.parametrize("options", [{"widths": ()}, {"kernel": 8}])
def test_invalid_layouts_are_refused(options):
    assert "expected at least one width and an odd kernel" in refusal(SequenceCNN, **options)
