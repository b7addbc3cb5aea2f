"""A denoiser of DNA: ``denoiser(x, t, condition)``, noised letters (B, 4, L) to a prediction of the same shape."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.networks.denoisers.layers import Modulation, TimeCode, zero_start
from viewsmith.networks.inputs.nucleotides import real_positions

TIME_WIDTH = 64
PATCH = 4


class SequenceDenoiser(nn.Module):
    """A U-shaped convolutional network that says which letter each position holds, made for one CPU core.

    The letters are coded as +1 and the others as -1, noised. A convolution over single positions finds motifs; residual
    convolutions with growing gaps work on patches of 4 positions, where the same work has four times the channels; and
    a last convolution over single positions gives each letter a logit. The time sets scale and shift before each
    convolution, and the condition is added to the channels there.

    What a noised letter says by itself is known: with ``x_t = a x_0 + b eps`` and x_0 a letter, Bayes' rule adds
    ``2 a x_t / b^2`` to the letters' logits. So the letters' probabilities are ``softmax(logits + k(t) x_t)``, and q
    the letter expected from them, from -1 to 1. The prediction is ``g(t) (x_t - q) + h(t) q``; the noise, the velocity
    and the sample all have that form, and k, g, h are learned functions of the time. In trials this reached the
    velocity loss of a plain last layer in a third of its steps. g and h start at zero, so that it predicts 0 until it
    is trained.

    Padding, columns of zeros, is zero before every convolution and in the prediction: what is said of a base does not
    depend on how far the batch was padded.

    Made for "v" predictions and a learning rate around 6e-3 at batch 128.

    Parameters
    ----------
    condition : int
        Width c of the condition.
    width : int
        Channels of the patches.
    fine : int
        Channels of the single positions, where most of the time goes.
    dilations : sequence of int
        For each convolution over patches, the distance between the three patches that it sees.
    """

    def __init__(
        self, condition: int, *, width: int = 64, fine: int = 16, dilations: Sequence[int] = (1, 2, 4, 8)
    ) -> None:
        super().__init__()
        self.time = TimeCode(TIME_WIDTH)
        self.fine_condition = nn.Linear(condition, fine)
        self.motifs = nn.Conv1d(4, fine, 9, padding=4)
        self.fine_modulate = Modulation(TIME_WIDTH, fine)
        self.condition = nn.Linear(condition, width)
        self.down = nn.Conv1d(fine, width, PATCH, stride=PATCH)
        self.modulate = nn.ModuleList(Modulation(TIME_WIDTH, width) for _ in dilations)
        self.wide = nn.ModuleList(nn.Conv1d(width, width, 3, padding=gap, dilation=gap) for gap in dilations)
        self.up = nn.ConvTranspose1d(width, fine, PATCH, stride=PATCH)
        self.near = nn.Conv1d(fine, fine, 5, padding=2)
        self.logits = nn.Conv1d(fine, 4, 1)
        self.factors = zero_start(nn.Linear(TIME_WIDTH, 3))

    def forward(self, x: Tensor, t: Tensor, condition: Tensor) -> Tensor:
        """Predictions (B, 4, L), 0 on padding, from noised codes, times (B,), 0 to 999, and conditions (B, c)."""
        real = real_positions(x)[:, None].to(x.dtype)
        time = self.time(t)
        log_k, g, h = self.factors(time)[:, :, None].split(1, dim=1)
        logits = self._logits(x, real, time, condition) + log_k.exp() * x
        q = (2 * logits.softmax(dim=1) - 1) * real
        return g * (x - q) + h * q

    def _logits(self, x: Tensor, real: Tensor, time: Tensor, condition: Tensor) -> Tensor:
        """What the surroundings, the time and the condition say of each letter, (B, 4, L)."""
        length = x.shape[2]
        rest = (0, -length % PATCH)
        real_patches = F.pad(real, rest).unflatten(2, (-1, PATCH)).amax(dim=3)
        fine = F.silu(self.fine_modulate(self.motifs(x), time, self.fine_condition(condition))) * real
        told = self.condition(condition)
        patches = self.down(F.pad(fine, rest)) + told[:, :, None]
        for number, (modulate, wide) in enumerate(zip(self.modulate, self.wide, strict=True)):
            modulated = modulate(patches, time, told if number else None)
            patches = patches + wide(F.silu(modulated) * real_patches)
        fine = fine + self.up(F.silu(patches))[:, :, :length]
        fine = fine + self.near(F.silu(fine) * real)
        logits: Tensor = self.logits(F.silu(fine))
        return logits
