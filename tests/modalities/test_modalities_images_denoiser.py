"""Denoisers of images: precision, padding, receptive field, and the published network against its listing."""

import math

import pytest
import torch
import torch.nn.functional as F

from cases import slow
from viewsmith.core.errors import InputError
from viewsmith.modalities.images.denoiser import ImageDenoiser, PublishedImageDenoiser

KINDS = {"default": ImageDenoiser, "published": PublishedImageDenoiser}
every_kind = pytest.mark.parametrize("kind", KINDS)
CONDITION = 5


def network_of(kind, channels=3, dtype=torch.float32):
    torch.manual_seed(0)
    options = {"width": 8} if kind == "default" else {}
    return KINDS[kind](channels, CONDITION, **options).to(dtype)


def batch(n, height, width, channels=3, dtype=torch.float32, seed=0):
    """Noised images, times and conditions."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, channels, height, width, generator=g, dtype=dtype)
    return x, torch.randint(1000, (n,), generator=g), torch.randn(n, CONDITION, generator=g, dtype=dtype)


def trained(network, steps=5):
    """Train for a few steps to add a brightness that depends on time and condition."""
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for step in range(steps):
        x, t, condition = batch(4, 8, 8, dtype=next(network.parameters()).dtype, seed=step)
        target = x + condition[:, :1, None, None] + (t / 500 - 1)[:, None, None, None]
        optimizer.zero_grad()
        (network(x, t, condition) - target).square().mean().backward()
        optimizer.step()
    return network


@every_kind
@pytest.mark.parametrize("size", [(7, 20), (20, 7)])
def test_small_images_are_refused(kind, size):
    with pytest.raises(InputError, match=f"{size[0]} x {size[1]} pixels, expected at least 8 x 8"):
        network_of(kind)(*batch(1, *size))


@pytest.mark.parametrize("size", [(16, 16), (12, 20)])
def test_the_default_pads_odd_images_with_zeros(size):
    x, t, condition = batch(2, size[0] - 1, size[1] - 1)
    network = trained(network_of("default"))
    extended = network(F.pad(x, (0, 1, 0, 1)), t, condition)[:, :, :-1, :-1]
    torch.testing.assert_close(network(x, t, condition), extended)


def test_the_receptive_field_of_the_default_covers_a_small_image():
    x, t, condition = batch(1, 16, 16, dtype=torch.float64)
    network = trained(network_of("default", dtype=torch.float64))
    x.requires_grad_()
    (corner,) = torch.autograd.grad(network(x, t, condition)[0, :, 0, 0].sum(), x)
    assert corner[0].abs().amax(dim=0).min() > 0


# ---- The published network -------------------------------------------------------------------------------------------


def test_published_parameter_count():
    """By hand: 3x3 convolutions without bias, norms with scale and shift, other layers with bias."""

    def double(n_in, middle, n_out):
        return 9 * n_in * middle + 2 * middle + 9 * middle * n_out + 2 * n_out

    def resized(n_in, middle, n_out):
        return double(n_in, n_in, n_in) + double(n_in, middle, n_out) + 256 * n_out + n_out

    def attention(n):
        return 2 * n + (3 * n * n + 3 * n) + (n * n + n) + 2 * n + 2 * (n * n + n)

    expected = (
        double(3, 16, 16)
        + resized(16, 32, 32) + attention(32)
        + resized(32, 64, 64) + attention(64)
        + resized(64, 64, 64) + attention(64)
        + resized(128, 64, 32) + attention(32)
        + resized(64, 32, 16) + attention(16)
        + resized(32, 16, 16) + attention(16)
        + 16 * 3 + 3
        + CONDITION * 256 + 256
    )  # fmt: skip
    assert sum(p.numel() for p in network_of("published").parameters()) == expected


def restated(weights, x, t, condition):
    """The published network, computed from its weights, with attention position by position."""
    w = {name: value.detach() for name, value in weights.items()}

    def norm(h, name):  # over all channels and positions of an image
        mean = h.mean(dim=(1, 2, 3), keepdim=True)
        deviation = ((h - mean) ** 2).mean(dim=(1, 2, 3), keepdim=True).add(1e-5).sqrt()
        return (h - mean) / deviation * w[f"{name}.weight"][:, None, None] + w[f"{name}.bias"][:, None, None]

    def gelu(h):
        return h * 0.5 * (1 + torch.erf(h / math.sqrt(2)))

    def double(h, name):
        h = gelu(norm(F.conv2d(h, w[f"{name}.0.weight"], padding=1), f"{name}.1"))
        return norm(F.conv2d(h, w[f"{name}.3.weight"], padding=1), f"{name}.4")

    def linear(row, name):
        return w[f"{name}.weight"] @ row + w[f"{name}.bias"]

    def layer_norm(row, name):
        row = (row - row.mean()) / (row.var(correction=0) + 1e-5).sqrt()
        return row * w[f"{name}.weight"] + w[f"{name}.bias"]

    def attend(image, name):  # (C, H, W)
        rows = [image[:, i, j] for i in range(image.shape[1]) for j in range(image.shape[2])]
        n = len(rows[0])
        into, bias = w[f"{name}.attention.in_proj_weight"], w[f"{name}.attention.in_proj_bias"]
        q, k, v = zip(*((into @ layer_norm(row, f"{name}.norm") + bias).split(n) for row in rows), strict=True)
        result = []
        for position, row in enumerate(rows):
            heads = []
            for head in range(4):
                part = slice(head * n // 4, (head + 1) * n // 4)
                scores = torch.stack([q[position][part] @ other[part] for other in k]) / math.sqrt(n / 4)
                attention = torch.exp(scores) / torch.exp(scores).sum()
                heads.append(sum(s * other[part] for s, other in zip(attention, v, strict=True)))
            row = row + linear(torch.cat(heads), f"{name}.attention.out_proj")
            inner = linear(layer_norm(row, f"{name}.forward_layers.0"), f"{name}.forward_layers.1")
            result.append(row + linear(gelu(inner), f"{name}.forward_layers.3"))
        return torch.stack(result, dim=1).reshape(image.shape)

    def resized(h, code, name):
        h = gelu(h + double(h, f"{name}.same.layers"))
        h = double(h, f"{name}.change.layers")
        silu = code / (1 + torch.exp(-code))
        return h + (silu @ w[f"{name}.bias.weight"].T + w[f"{name}.bias.bias"])[:, :, None, None]

    rates = torch.tensor([10000 ** (-k / 256) for k in range(0, 256, 2)], dtype=x.dtype)
    code = torch.stack([torch.cat([torch.sin(time * rates), torch.cos(time * rates)]) for time in t])
    code = code + condition @ w["condition.weight"].T + w["condition.bias"]
    h = double(x, "first.layers")
    skipped = []
    for depth in range(3):
        skipped.append(h)
        height, width = h.shape[2] // 2, h.shape[3] // 2
        windows = [
            [h[:, :, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2].amax(dim=(2, 3)) for j in range(width)]
            for i in range(height)
        ]
        h = resized(torch.stack([torch.stack(row, dim=2) for row in windows], dim=2), code, f"down.{depth}")
        h = torch.stack([attend(image, f"down_attention.{depth}") for image in h])
    for depth in range(3):
        skip = skipped.pop()
        h = F.interpolate(h, size=skip.shape[2:], mode="bilinear", align_corners=True)
        h = resized(torch.cat([skip, h], dim=1), code, f"up.{depth}")
        h = torch.stack([attend(image, f"up_attention.{depth}") for image in h])
    return torch.einsum("oc,bchw->bohw", w["last.weight"][:, :, 0, 0], h) + w["last.bias"][:, None, None]


@pytest.mark.parametrize("size", [(8, 8), slow((9, 13))])
def test_the_published_network_equals_a_slow_restatement(size):
    network = trained(network_of("published", dtype=torch.float64))
    x, t, condition = batch(2, *size, dtype=torch.float64)
    expected = restated(network.state_dict(), x, t, condition)
    # The timestep embedding is computed in float32.
    torch.testing.assert_close(network(x, t, condition), expected, rtol=1e-5, atol=1e-5)
