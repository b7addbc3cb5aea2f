"""Figures 6 to 8 of CRL-TAC's paper: projections with a trained channel and with a uniform one.

Digits of scikit-learn, 20 pixels wide, at one of nine places of a black image of 60 x 60 pixels, where the paper has
MNIST in 84 x 84 pixels. The published beta and widths of the head, otherwise defaults. Each of the four models is saved
in a folder (runs/crl_tac_projections by default) and resumed there if it was stopped.

    python docs/pictures/crl_tac_projections.py [FOLDER]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from saving import bare, save
from sklearn.datasets import load_digits

from viewsmith import CRLTAC
from viewsmith.losses.diagnostics import uniformity
from viewsmith.methods.crl_tac.figures import draw_panel
from viewsmith.reports.figure import BLUE, PALETTE, VERMILION

GLYPH, EPOCHS, SHOWN = 20, 20, 400  # side of a digit in pixels; epochs; images whose projections are drawn
RUNS = Path(__file__).parents[2] / "runs" / "crl_tac_projections"


def images(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Digits, each in one of nine cells of a black image, uint8 (n, 3 * GLYPH, 3 * GLYPH), and their classes."""
    found = load_digits()
    digits = torch.from_numpy(found.images)[:, None] / 16
    glyphs = torch.nn.functional.interpolate(digits, size=(GLYPH, GLYPH), mode="bilinear")[:, 0].numpy() * 255
    made = np.zeros((len(glyphs), 3 * GLYPH, 3 * GLYPH), np.uint8)
    for image, glyph, cell in zip(made, glyphs.round(), rng.integers(0, 9, len(glyphs)), strict=True):
        top, left = (GLYPH * part for part in divmod(cell, 3))
        image[top : top + GLYPH, left : left + GLYPH] = glyph
    return made, found.target


def trained(channel: str, width: int, X: np.ndarray, folder: Path) -> CRLTAC:
    """A model with a projection of `width` numbers; its run in `folder` is made, resumed or read."""
    run = folder / f"{channel}-{width}"
    started = time.process_time()
    options = {"beta": 0.5, "recurrence_weight": 0, "projector_dims": (200, width), "epochs": EPOCHS}
    model = CRLTAC(**options, channel=channel, random_state=0)
    model.fit(X, run=run, resume=True)
    print(f"{run.name}: {time.process_time() - started:.0f} s of CPU time", flush=True)
    if model.status_ != "finished":
        sys.exit(f"{run} is not finished: start this script again")
    return model


X, y = images(np.random.default_rng(0))
folder, some = RUNS if len(sys.argv) < 2 else Path(sys.argv[1]), np.random.default_rng(1).permutation(len(X))[:SHOWN]
colors = np.array(PALETTE, dtype=object)[y[some]]
figure = Figure(figsize=(8, 5.2))
axes = figure.subplots(2, 3, width_ratios=(1, 1.7, 1.7))
for line, (channel, name) in zip(axes, {"learned": "trained P(T|x)", "uniform": "uniform P(T|x)"}.items(), strict=True):
    for axis, width in zip(line, (2, 50), strict=False):
        z = trained(channel, width, X, folder).transform(X[some], output="projection")
        draw_panel(axis, z, colors)
        axis.tick_params(labelsize=7)
        axis.set_xlabel("")
        potential = float(uniformity(torch.from_numpy(z)).exp())
        similar = np.sort(np.abs(z @ z.T)[np.triu_indices(len(z), 1)])[::-1]
        print(f"{channel}, {width}: mean Gaussian potential {potential:.4f}, median |h.h'| {np.median(similar):.2f}")
    line[2].plot(np.linspace(0, 1, len(similar)), similar, color=VERMILION if channel == "learned" else BLUE)
    line[2].set_ylim(0, 1.02)
    line[2].tick_params(labelsize=7)
    bare(line[0], "").set_ylabel(name)
for axis, title in zip(axes[0], ("two dimensions", "50 dimensions", "sorted |h(x)·h(x')|"), strict=True):
    axis.set_title(title, fontsize=9)
axes[1, 1].set_xlabel("coordinate", fontsize=8)
axes[1, 2].set_xlabel("fraction of pairs", fontsize=8)
figure.subplots_adjust(wspace=0.2, hspace=0.12)
save(figure, "crl_tac_projections")
