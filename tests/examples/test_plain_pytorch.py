"""The parts in a plain PyTorch loop learn something."""

import runpy
from pathlib import Path

import numpy as np
import torch

EXAMPLE = Path(__file__).parents[2] / "examples" / "plain_pytorch.py"


def test_the_loop_lowers_the_loss(digits):
    torch.manual_seed(0)
    x = torch.from_numpy(digits[:300] / 4)
    encoder, losses = runpy.run_path(str(EXAMPLE))["train"](x, steps=30, batch_size=64)
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.2
    with torch.no_grad():
        h = encoder(x)
    assert h.shape == (300, 256) and h.isfinite().all() and not encoder.training
