"""Samples with an object at a known location, and CRL-TAC models whose channel is set to select it."""

import numpy as np
import torch

from viewsmith import CRLTAC
from viewsmith.methods.crl_tac.scores import CropScores, MaskScores, PositionScores

MOTIF = b"GGGGGGGGGGGG"


def bright(n=12, shape=(48, 56), size=12, count=1, color=False, seed=0):
    """Images with bright squares among dim spots on black, and the squares, (n, 4) or (n, count, 4)."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-24, 12, (n, *shape, 3) if color else (n, *shape)).clip(0).astype(np.uint8)
    boxes = np.full((n, count, 4), size)
    for row in range(n):
        for k in range(count):  # next to each other, without overlap
            part = shape[1] // count
            top, left = rng.integers(4, shape[0] - size - 3), k * part + rng.integers(4, part - size - 3)
            boxes[row, k, :2] = top, left
            x[row, top : top + size, left : left + size] = 255
    return x, boxes[:, 0] if count == 1 else boxes


def motifs(n=12, length=80, seed=0):
    """Sequences of A, C and T with one run of G, some of them shorter, and the start of the run."""
    rng = np.random.default_rng(seed)
    x = np.frombuffer(b"ACT", np.uint8)[rng.integers(0, 3, (n, length))].copy()
    starts = rng.integers(4, length - 30, n)
    for row, start in zip(x, starts, strict=True):
        row[start : start + len(MOTIF)] = np.frombuffer(MOTIF, np.uint8)
    x[::3, length - 12 :] = 0
    return x, starts


@torch.no_grad()
def pointing(model: CRLTAC, mask: int = 0) -> CRLTAC:
    """Set the channel to select bright crops, windows with many G, or one mask of features."""
    scores = model.method_.channel.scores
    assert scores is not None
    for parameter in scores.parameters():
        parameter.zero_()
    if isinstance(scores, CropScores):
        for conv, weight in ((scores.conv1, 1 / 36), (scores.conv2, 1 / 256), (scores.conv3, 1 / 10)):
            conv.weight.fill_(weight)
        scores.conv1.bias.fill_(-0.1)
    elif isinstance(scores, PositionScores):
        scores.conv1.weight[:, 2] = 1 / 32
        scores.conv2.weight.fill_(1.0)
    else:
        assert isinstance(scores, MaskScores)
        scores.outer.bias[mask] = 6.0
    model.method_.chosen.fill_(0.0)
    return model
