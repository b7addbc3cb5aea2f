"""HyenaDNA (Nguyen et al. 2023, arXiv:2306.15794): a causal long-convolution encoder for DNA.

The default has the shape and the parameter names of the published ``hyenadna-tiny-1k-seqlen``, so that its weights can
be loaded. The operator is that of Poli et al. 2023 (arXiv:2302.10866), order 2: with three projections x0, x1, v of the
input, each followed by a convolution over 3 positions,

    y = x0 * (k conv (v * x1) + D v * x1)

where k is a causal filter as long as the sequence. A small network computes it from the position.
"""

import math
from collections.abc import Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.registry import register
from viewsmith.core.tensors import load_weights, read_published
from viewsmith.modalities.dna.networks import real_positions
from viewsmith.networks.base import EncoderContext

# The published tokenizer: 0 to 6 are special tokens, then A C G T N; the table is padded to a multiple of 8.
VOCABULARY, FIRST_LETTER = 16, 7
FREQUENCY = 10.0
SPECIAL_TOKENS = 2
MAX_LENGTH = 1024


def causal_convolution(u: Tensor, k: Tensor) -> Tensor:
    """``y_t = sum over s <= t of k_s u_(t-s)``, by FFT in O(L log L)."""
    length = u.shape[-1]
    # Twice the length, so that the convolution is not circular; not every device has an FFT in half precision.
    wide = torch.promote_types(u.dtype, torch.float32)
    spectrum = torch.fft.rfft(u.to(wide), n=2 * length) * torch.fft.rfft(k.to(wide), n=2 * length)
    return torch.fft.irfft(spectrum, n=2 * length)[..., :length].to(u.dtype)


class Sine(nn.Module):
    """sin(w x) with a learned frequency w per unit."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.freq = nn.Parameter(torch.full((1, width), FREQUENCY))

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(self.freq * x)


class PositionalEmbedding(nn.Module):
    """Fixed positional embedding, (1, positions, emb_dim): the position t from 0 to 1, and cosines and sines of it."""

    def __init__(self, emb_dim: int, positions: int) -> None:
        super().__init__()
        bands = (emb_dim - 1) // 2
        t = torch.linspace(0, 1, positions)[None, :, None]
        phase = torch.linspace(1e-4, bands - 1, bands) * (2 * math.pi / positions) * torch.arange(positions)[:, None]
        self.z = nn.Buffer(torch.cat([t, phase.cos()[None], -phase.sin()[None]], dim=2))
        self.t = nn.Buffer(t)


class Decay(nn.Module):
    """Exponential windows with decay rates from slow to fast over the channels (Hyena, section 3.3)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        slow, fast = math.log(1e-2) / 1.5, math.log(1e-2) / 0.3
        self.deltas = nn.Buffer(torch.linspace(slow, fast, width)[None, None])

    def forward(self, t: Tensor) -> Tensor:
        return torch.exp(-t * self.deltas.abs()) + 0.05


class ImplicitFilter(nn.Module):
    """The long filters, (d_model, L): a network of the position with sine activations, multiplied by a decay."""

    def __init__(self, d_model: int, emb_dim: int, order: int, positions: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(d_model))
        self.pos_emb = PositionalEmbedding(emb_dim, positions)
        # The published layers share one sine, which is stored once, as number 1: the numbers 3 and 5 are missing.
        self.implicit_filter = nn.ModuleDict(
            {
                "0": nn.Linear(emb_dim, order),
                "1": Sine(order),
                "2": nn.Linear(order, order),
                "4": nn.Linear(order, order),
                "6": nn.Linear(order, d_model, bias=False),
            }
        )
        self.modulation = Decay(d_model)

    def forward(self, length: int) -> Tensor:
        h, layers = self.pos_emb.z[0, :length], self.implicit_filter
        for name in ("0", "2", "4"):
            h = layers["1"](layers[name](h))
        filters: Tensor = layers["6"](h) * self.modulation(self.pos_emb.t[0, :length])[0]
        return filters.T


class HyenaOperator(nn.Module):
    """The order-2 operator of the module's docstring, (B, L, d_model) to (B, L, d_model)."""

    def __init__(self, d_model: int, emb_dim: int, filter_order: int, positions: int) -> None:
        super().__init__()
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.short_filter = nn.Conv1d(3 * d_model, 3 * d_model, 3, padding=2, groups=3 * d_model)
        self.filter_fn = ImplicitFilter(d_model, emb_dim, filter_order, positions)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, h: Tensor) -> Tensor:
        length = h.shape[1]
        x0, x1, v = self.short_filter(self.in_proj(h).mT)[..., :length].chunk(3, dim=1)
        v = v * x1
        v = causal_convolution(v, self.filter_fn(length)) + self.filter_fn.bias[:, None] * v
        return self.out_proj((x0 * v).mT)


class FeedForward(nn.Module):
    """Linear - GELU (tanh form) - Linear."""

    def __init__(self, d_model: int, d_inner: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(d_model, d_inner), nn.Linear(d_inner, d_model)

    def forward(self, h: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(h), approximate="tanh"))


class HyenaBlock(nn.Module):
    """Two residual layers, each after a LayerNorm: the operator, then a feed-forward network."""

    def __init__(self, d_model: int, d_inner: int, emb_dim: int, filter_order: int, positions: int) -> None:
        super().__init__()
        self.mixer = HyenaOperator(d_model, emb_dim, filter_order, positions)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.mlp = FeedForward(d_model, d_inner)

    def forward(self, h: Tensor) -> Tensor:
        h = h + self.mixer(self.norm1(h))
        return h + self.mlp(self.norm2(h))


class Hyena(nn.Module):
    """DNA (B, 4, L) to representations (B, d_model): the mean of the last hidden states over the bases.

    The four channels of a position are the weights of the token embeddings of A C G T: a one-hot column selects one,
    and N is their mean (the published row for N is loaded but not used). So noise on the input has a gradient. Padding
    at the end has no effect, because every layer is causal. Unlike in the published training, there is no dropout.

    Parameters
    ----------
    d_model, n_layer, d_inner : int
        Width, number of blocks, width of the hidden layer of the feed-forward networks.
    emb_dim, filter_order : int
        Network of the long filters: width of its positional embedding (odd, at least 3) and of its layers.
    max_length : int
        Length of the longest sequence, in bases.

    Raises
    ------
    InputError
        `emb_dim` is even or below 3.
    """

    def __init__(
        self,
        *,
        d_model: int = 128,
        n_layer: int = 2,
        d_inner: int = 512,
        emb_dim: int = 5,
        filter_order: int = 64,
        max_length: int = MAX_LENGTH,
    ) -> None:
        super().__init__()
        if emb_dim < 3 or emb_dim % 2 == 0:
            raise InputError(f"emb_dim = {emb_dim}: expected an odd number, at least 3 (position, cosines, sines)")
        self.n_components, self.max_length = d_model, max_length
        self.embeddings = nn.ModuleDict({"word_embeddings": nn.Embedding(VOCABULARY, d_model)})  # as published
        # The published filters are two positions longer than the sequences, for special tokens.
        self.layers = nn.ModuleList(
            HyenaBlock(d_model, d_inner, emb_dim, filter_order, max_length + SPECIAL_TOKENS) for _ in range(n_layer)
        )
        self.ln_f = nn.LayerNorm(d_model)
        self.apply(_initialize)

    def hidden(self, x: Tensor) -> Tensor:
        """Last hidden states of every position, (B, L, d_model); those of padding are meaningless."""
        if x.shape[2] > self.max_length:
            raise InputError(
                f"sequences of {x.shape[2]} bases: this Hyena encoder accepts at most {self.max_length}; "
                "cut them into pieces, or use another encoder (or a larger max_length)"
            )
        table: Tensor = self.embeddings["word_embeddings"].weight  # type: ignore[assignment]
        h: Tensor = x.mT @ table[FIRST_LETTER : FIRST_LETTER + 4]
        for layer in self.layers:
            h = layer(h)
        return self.ln_f(h)

    def forward(self, x: Tensor) -> Tensor:
        real = real_positions(x).to(x.dtype)[:, None]
        return (real @ self.hidden(x))[:, 0] / real.sum(dim=2).clamp_min(1)

    def load_published(self, path: str | Path) -> None:
        """Load published weights, without the language-model head, from a safetensors file.

        The file is ``model.safetensors`` of LongSafari/hyenadna-tiny-1k-seqlen-hf, or a copy of the original weights.
        """
        stored = read_published(Path(path), "encoder_weights", "the encoder hyena")
        load_weights(self, published_names(stored), f"{path} (encoder_weights)", "the encoder hyena")


def published_names(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Published weights by the names of `Hyena`, without the language-model head and copies of the shared sine."""
    state: dict[str, Tensor] = {}
    backbone = any("backbone." in name for name in stored)
    for full_name, tensor in stored.items():
        _, found, name = full_name.rpartition("backbone.")
        if not found and (backbone or name.startswith("lm_head.")):
            continue
        name = name.replace(".mixer.layer.", ".mixer.").replace(".mlp.layer.", ".mlp.")
        for copy in ("3", "5"):
            name = name.replace(f"implicit_filter.{copy}.freq", "implicit_filter.1.freq")
        if name in state and not (name.endswith(".freq") and torch.equal(state[name], tensor)):
            raise InputError(f"HyenaDNA weights: {full_name} is given twice, with different values or prefixes")
        state[name] = tensor
    return state


def _initialize(module: nn.Module) -> None:
    """Published initialization: weights of linear layers and embeddings N(0, 0.02^2), biases 0."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


@register(
    "encoder",
    "hyena",
    help="long convolutions, with the shape of hyenadna-tiny-1k",
    modalities="dna",
    source="Nguyen et al. 2023",
    width=128,
    longest=MAX_LENGTH,
)
def _hyena(context: EncoderContext) -> Hyena:
    return Hyena()
