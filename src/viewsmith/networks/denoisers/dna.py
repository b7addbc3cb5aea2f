"""A denoiser of DNA: ``denoiser(x, t, condition)`` maps noised letters (B, 4, L) to a prediction of that shape."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.networks.denoisers.layers import Modulation, TimestepEmbedding, zero_initialized
from viewsmith.networks.inputs.nucleotides import real_positions

TIME_WIDTH = 64
PATCH = 4


class SequenceDenoiser(nn.Module):
    """A U-shaped convolutional network that predicts the letter of each position, designed for one CPU core.

    The input is a noised code (+1 for the letter, -1 for the others). A convolution at full resolution finds motifs;
    dilated residual convolutions run on patches of 4 positions, where the same work allows four times the channels; a
    last convolution at full resolution returns the logits of the letters. The time determines scale and shift before
    each convolution, and the projected condition is added there.

    The information in a noised letter itself is known. With ``x_t = a x_0 + b eps`` and x_0 a letter, Bayes' rule adds
    ``2 a x_t / b^2`` to the logits. So the probabilities of the letters are ``softmax(logits + k(t) x_t)``, and q is
    the expected code, from -1 to 1. The prediction is ``g(t) (x_t - q) + h(t) q``: noise, velocity and sample all have
    this form, and k, g, h are learned functions of the time. In trials this needed a third of the steps of a plain last
    layer for the same velocity loss. g and h are initialized with 0, so the network predicts 0 before training.

    Padding (columns of zeros) is set to zero before every convolution and in the prediction, so the prediction of a
    base does not depend on the length of the padding.

    Designed for "v" predictions and a learning rate of about 6e-3 at batch size 128.

    Parameters
    ----------
    condition : int
        Width c of the condition.
    width : int
        Channels of the patches.
    fine : int
        Channels at full resolution, which takes most of the time.
    dilations : sequence of int
        Dilation of each convolution over patches.
    """

    def __init__(
        self, condition: int, *, width: int = 64, fine: int = 16, dilations: Sequence[int] = (1, 2, 4, 8)
    ) -> None:
        super().__init__()
        self.time = TimestepEmbedding(TIME_WIDTH)
        self.fine_condition = nn.Linear(condition, fine)
        self.motifs = nn.Conv1d(4, fine, 9, padding=4)
        self.fine_modulate = Modulation(TIME_WIDTH, fine)
        self.condition = nn.Linear(condition, width)
        self.down = nn.Conv1d(fine, width, PATCH, stride=PATCH)
        self.modulate = nn.ModuleList(Modulation(TIME_WIDTH, width) for _ in dilations)
        self.dilated = nn.ModuleList(nn.Conv1d(width, width, 3, padding=gap, dilation=gap) for gap in dilations)
        self.up = nn.ConvTranspose1d(width, fine, PATCH, stride=PATCH)
        self.local = nn.Conv1d(fine, fine, 5, padding=2)
        self.logits = nn.Conv1d(fine, 4, 1)
        self.factors = zero_initialized(nn.Linear(TIME_WIDTH, 3))

    def forward(self, x: Tensor, t: Tensor, condition: Tensor) -> Tensor:
        """Predictions (B, 4, L), 0 on padding, from noised codes, times (B,), 0 to 999, and conditions (B, c)."""
        real = real_positions(x)[:, None].to(x.dtype)
        time = self.time(t)
        log_k, g, h = self.factors(time)[:, :, None].split(1, dim=1)
        logits = self._logits(x, real, time, condition) + log_k.exp() * x
        q = (2 * logits.softmax(dim=1) - 1) * real
        return g * (x - q) + h * q

    def _logits(self, x: Tensor, real: Tensor, time: Tensor, condition: Tensor) -> Tensor:
        """Logits of the letters, (B, 4, L), from the neighborhood of each position, the time and the condition."""
        length = x.shape[2]
        padding = (0, -length % PATCH)
        real_patches = F.pad(real, padding).unflatten(2, (-1, PATCH)).amax(dim=3)
        fine = F.silu(self.fine_modulate(self.motifs(x), time, self.fine_condition(condition))) * real
        projected = self.condition(condition)
        patches = self.down(F.pad(fine, padding)) + projected[:, :, None]
        for number, (modulate, dilated) in enumerate(zip(self.modulate, self.dilated, strict=True)):
            modulated = modulate(patches, time, projected if number else None)
            patches = patches + dilated(F.silu(modulated) * real_patches)
        fine = fine + self.up(F.silu(patches))[:, :, :length]
        fine = fine + self.local(F.silu(fine) * real)
        logits: Tensor = self.logits(F.silu(fine))
        return logits
