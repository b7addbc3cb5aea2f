"""Beats in pieces of an electrocardiogram, found without labels (needs VIEWSMITH_DATA).

The recording is number 100 of the MIT-BIH Arrhythmia Database (PhysioNet).
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from saving import save

from viewsmith import Discovery

SHOWN = 3

with np.load(Path(os.environ["VIEWSMITH_DATA"]) / "events" / "ecg100.npz") as content:
    x, rate = content["X"], int(content["rate"])
model = Discovery().fit(x)
crops, found = model.crops(x, 2 * model.parts_[0].width)

figure = Figure(figsize=(7.2, 2.4), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=(2, 1))
for axes, part in zip(left.subplots(SHOWN, 1), found[:: len(found) // SHOWN], strict=False):
    axes.plot(np.arange(x.shape[1]) / rate, x[part["sample"]], lw=0.6, color="#333333")
    axes.axvspan(part["start"] / rate, part["end"] / rate, color="#d55e00", alpha=0.3, lw=0)
    axes.set(xticks=[] if axes is not left.axes[-1] else [0, 1, 2, 3], yticks=[], xlim=(0, x.shape[1] / rate))
axes.set_xlabel("seconds")
axes = right.subplots()
place = (np.arange(crops.shape[2]) - crops.shape[2] / 2) / rate * 1000
low, high = np.quantile(crops[:, 0], (0.1, 0.9), axis=0)
axes.fill_between(place, low, high, alpha=0.25, lw=0, color="#0072b2")
axes.plot(place, crops[:, 0].mean(0), lw=1, color="#0072b2")
axes.set(xlabel="milliseconds", yticks=[], title=f"mean of {len(found)}")
save(figure, "beats")
