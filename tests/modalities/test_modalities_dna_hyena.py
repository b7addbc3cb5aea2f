"""Hyena: the network against loops, published names and shapes, loading, padding."""

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from drawn import draw
from refusals import refusal
from viewsmith.core.errors import InputError
from viewsmith.modalities.dna.hyena import Hyena, causal_convolution

PUBLISHED = json.loads((Path(__file__).parent / "fixtures" / "hyenadna_tiny_1k.json").read_text(encoding="utf-8"))
SMALL = {"d_model": 6, "n_layer": 2, "d_inner": 10, "emb_dim": 5, "filter_order": 7, "max_length": 20}


def small(dtype=torch.float32):
    torch.manual_seed(0)
    encoder = Hyena(**SMALL).to(dtype)
    with torch.no_grad():  # the initialized blocks hardly change their input
        for parameter in encoder.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.5)
    return encoder


def batch(lengths, width=None, dtype=torch.float32, seed=0):
    x = torch.zeros(len(lengths), 4, width or max(lengths), dtype=dtype)
    for row, n in enumerate(lengths):
        x[row, :, :n] = torch.eye(4, dtype=dtype)[torch.randint(4, (n,), generator=draw(seed + row))].T
    return x


# --- the convolution


def direct(u, k):
    out = []
    for t in range(u.shape[-1]):
        out.append(sum(k[..., s] * u[..., t - s] for s in range(t + 1)))
    return torch.stack(out, dim=-1)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("length", [1, 2, 7, 16])
def test_convolution_by_fft_equals_the_causal_sum(dtype, tolerance, length):
    u = torch.randn(3, 4, length, generator=draw(), dtype=dtype, requires_grad=True)
    k = torch.randn(4, length, generator=draw(1), dtype=dtype, requires_grad=True)
    weight = torch.randn(3, 4, length, generator=draw(2), dtype=dtype)
    fast, slow = causal_convolution(u, k), direct(u, k)
    torch.testing.assert_close(fast, slow, rtol=tolerance, atol=tolerance)
    gradients = [torch.autograd.grad((y * weight).sum(), (u, k)) for y in (fast, slow)]
    torch.testing.assert_close(*gradients, rtol=10 * tolerance, atol=10 * tolerance)


def test_convolution_returns_half_precision():
    u = torch.randn(2, 5, generator=draw()).to(torch.bfloat16)
    assert causal_convolution(u, u).dtype == torch.bfloat16


# --- the network against loops over positions and channels


def linear(weights, name, v):
    out = []
    for row, weight in enumerate(weights[f"{name}.weight"].tolist()):
        bias = float(weights[f"{name}.bias"][row]) if f"{name}.bias" in weights else 0.0
        out.append(bias + sum(a * b for a, b in zip(weight, v, strict=True)))
    return out


def normalized(weights, name, v):
    mean = sum(v) / len(v)
    variance = sum((a - mean) ** 2 for a in v) / len(v)
    scale, shift = weights[f"{name}.weight"].tolist(), weights[f"{name}.bias"].tolist()
    return [(a - mean) / math.sqrt(variance + 1e-5) * s + b for a, s, b in zip(v, scale, shift, strict=True)]


def filters(weights, prefix, length, positions=22, width=6):
    """k[t][c] of the implicit filter, by the equations of the papers."""
    frequency = weights[f"{prefix}.implicit_filter.1.freq"][0].tolist()
    rows = []
    for t in range(length):
        wave = [2 * math.pi * t / positions * band for band in (1e-4, 1.0)]
        v = [t / (positions - 1), *map(math.cos, wave), *(-math.sin(w) for w in wave)]
        for layer in (0, 2, 4):
            h = linear(weights, f"{prefix}.implicit_filter.{layer}", v)
            v = [math.sin(f * a) for f, a in zip(frequency, h, strict=True)]
        v = linear(weights, f"{prefix}.implicit_filter.6", v)
        slow, fast = math.log(1e-2) / 1.5, math.log(1e-2) / 0.3
        decay = [abs(slow + (fast - slow) * c / (width - 1)) for c in range(width)]
        rows.append([a * (math.exp(-t / (positions - 1) * d) + 0.05) for a, d in zip(v, decay, strict=True)])
    return rows


def slow_block(weights, layer, h):
    prefix, length, width = f"layers.{layer}", len(h), len(h[0])
    projected = [linear(weights, f"{prefix}.mixer.in_proj", normalized(weights, f"{prefix}.norm1", v)) for v in h]
    short, bias = weights[f"{prefix}.mixer.short_filter.weight"], weights[f"{prefix}.mixer.short_filter.bias"]
    u = [
        [
            float(bias[c]) + sum(float(short[c, 0, 2 - s]) * projected[t - s][c] for s in range(3) if t >= s)
            for c in range(3 * width)
        ]
        for t in range(length)
    ]
    k, d = filters(weights, f"{prefix}.mixer.filter_fn", length), weights[f"{prefix}.mixer.filter_fn.bias"].tolist()
    out = []
    for t in range(length):
        y = []
        for c in range(width):
            product = [u[s][2 * width + c] * u[s][width + c] for s in range(t + 1)]
            long = sum(k[s][c] * product[t - s] for s in range(t + 1)) + d[c] * product[t]
            y.append(u[t][c] * long)
        mixed = [a + b for a, b in zip(h[t], linear(weights, f"{prefix}.mixer.out_proj", y), strict=True)]
        inner = linear(weights, f"{prefix}.mlp.fc1", normalized(weights, f"{prefix}.norm2", mixed))
        gelu = [0.5 * a * (1 + math.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3))) for a in inner]
        out.append([a + b for a, b in zip(mixed, linear(weights, f"{prefix}.mlp.fc2", gelu), strict=True)])
    return out


def test_the_network_equals_slow_loops_over_positions():
    encoder = small(torch.float64)
    weights = {name: tensor.detach() for name, tensor in encoder.state_dict().items()}
    word = "ACGTTGCAN"
    x = batch([9], dtype=torch.float64)
    for position, letter in enumerate(word):
        x[0, :, position] = 0.25 if letter == "N" else torch.eye(4, dtype=torch.float64)["ACGT".index(letter)]
    table = weights["embeddings.word_embeddings.weight"]
    h = [(table[7:11].mean(0) if letter == "N" else table[7 + "ACGT".index(letter)]).tolist() for letter in word]
    for layer in (0, 1):
        h = slow_block(weights, layer, h)
    h = torch.tensor([normalized(weights, "ln_f", v) for v in h], dtype=torch.float64)
    # The positional embedding is computed in float32, as published.
    torch.testing.assert_close(encoder.hidden(x)[0], h, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(encoder(x)[0], h.mean(0), rtol=1e-4, atol=1e-5)


def test_filters_are_the_same_for_every_length():
    encoder = small()
    make = encoder.layers[0].mixer.filter_fn
    torch.testing.assert_close(make(5), make(17)[:, :5])
    assert torch.equal(make(9), make(9))


# --- sequences


def test_shapes_and_defaults():
    encoder = Hyena()
    assert encoder.n_components == 128 and encoder.max_length == 1024
    assert encoder(batch([41, 20])).shape == (2, 128)
    assert sum(parameter.numel() for parameter in encoder.parameters()) == 436_096  # published as 0.4 M


@pytest.mark.parametrize("width", [10, 13, 20])
def test_a_representation_does_not_depend_on_padding_and_other_rows(width):
    encoder = small()
    together = encoder(batch([9, 10, 1], width))
    for row, length in enumerate([9, 10, 1]):
        alone = encoder(batch([length], seed=row))
        torch.testing.assert_close(together[row : row + 1], alone, rtol=1e-5, atol=1e-6)


def test_hidden_states_are_causal():
    encoder = small()
    x, y = batch([12]), batch([12])
    y[..., 7:] = y[..., 7:].flip(1)
    one, other = encoder.hidden(x)[0], encoder.hidden(y)[0]
    torch.testing.assert_close(one[:7], other[:7], rtol=1e-5, atol=1e-6)
    assert (one[7:] - other[7:]).abs().amax(dim=1).min() > 1e-3


def test_too_long_sequences_are_refused():
    encoder = small()
    assert encoder(batch([20])).shape == (1, 6)
    assert "sequences of 21 bases: this Hyena encoder accepts at most 20" in refusal(encoder, batch([21]))


def test_even_positional_embeddings_are_refused():
    assert "emb_dim = 4: expected an odd number" in refusal(Hyena, emb_dim=4)


# --- published weights


def published(prefix="hyena.backbone."):
    """Random tensors with the published names and shapes."""
    tensors = {}
    for number, (name, shape) in enumerate(PUBLISHED["tensors"].items()):
        tensors[name.replace("hyena.backbone.", prefix)] = torch.randn(shape, generator=draw(number))
    return tensors


def saved(tensors, tmp_path):
    save_file(tensors, tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def test_names_and_shapes_are_the_published_ones():
    expected = {
        name.removeprefix("hyena.backbone."): tuple(shape)
        for name, shape in PUBLISHED["tensors"].items()
        if name != "lm_head.weight"
    }
    assert {name: tuple(tensor.shape) for name, tensor in Hyena().state_dict().items()} == expected


@pytest.mark.parametrize("prefix", ["hyena.backbone.", "backbone.", "model.backbone.", ""])
def test_published_weights_load(prefix, tmp_path):
    tensors = published(prefix)
    if prefix:
        tensors["decoder.output_transform.weight"] = torch.zeros(2)
    encoder = Hyena()
    encoder.load_published(saved(tensors, tmp_path))
    for name, tensor in encoder.state_dict().items():
        assert torch.equal(tensor, tensors[prefix + name])


def test_weights_of_checkpointed_training_with_three_sines_load(tmp_path):
    tensors, original = {}, published("model.backbone.")
    for name, tensor in original.items():
        name = name.replace(".mixer.", ".mixer.layer.").replace(".mlp.", ".mlp.layer.")
        tensors[name] = tensor
        if name.endswith("1.freq"):
            tensors[name.replace("1.freq", "3.freq")] = tensors[name.replace("1.freq", "5.freq")] = tensor.clone()
    encoder = Hyena()
    encoder.load_published(saved({name: tensor.clone() for name, tensor in tensors.items()}, tmp_path))
    for name, tensor in encoder.state_dict().items():
        assert torch.equal(tensor, original["model.backbone." + name])


def without(*names):
    return lambda tensors: {name: tensor for name, tensor in tensors.items() if name not in names}


FIRST = "hyena.backbone.layers.0.mixer.filter_fn."


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("hyena.backbone.ln_f.bias"), r"1 names differ \(missing 'ln_f\.bias'\)$"),
        (
            lambda tensors: {name: tensor for name, tensor in tensors.items() if "layers.1" not in name},
            r"26 names differ \(missing 'layers\.1\.[a-z]+.*'\)$",
        ),
        (lambda tensors: {**tensors, "hyena.backbone.extra": torch.zeros(1)}, r"1 names differ \(unknown 'extra'\)$"),
        (
            lambda tensors: {**tensors, "hyena.backbone.ln_f.bias": torch.zeros(7)},
            r"ln_f\.bias has shape \(7,\), expected \(128,\)$",
        ),
        (
            lambda tensors: {**tensors, FIRST + "implicit_filter.3.freq": torch.zeros(1, 64)},
            r"implicit_filter\.3\.freq is given twice",
        ),
        (lambda tensors: {**tensors, "ema.backbone.ln_f.bias": torch.zeros(128)}, r"ln_f\.bias is given twice"),
    ],
    ids=["one missing", "a layer missing", "unexpected", "shape", "different sine", "two copies"],
)
def test_wrong_weights_are_refused_in_one_line(change, message, tmp_path):
    encoder = Hyena()
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    with pytest.raises(InputError, match=message) as raised:
        encoder.load_published(saved(change(published()), tmp_path))
    assert "\n" not in str(raised.value)
    assert all(torch.equal(tensor, before[name]) for name, tensor in encoder.state_dict().items())


def test_other_files_are_refused(tmp_path):
    torch.save(published(), tmp_path / "weights.ckpt")
    assert "pickled weights are never read" in refusal(Hyena().load_published, tmp_path / "weights.ckpt")
    message = refusal(Hyena().load_published, tmp_path / "absent.safetensors")
    assert "expected a safetensors file for the encoder hyena" in message
