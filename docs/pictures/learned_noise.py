"""What PiNDA learns on wisdm_har: its noise of each feature against what the feature tells of persons and activities.

Drawn from `benchmarks/results/learned_noise.jsonl`, mean over the seeds of the set's own split.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from saving import save
from scipy.stats import spearmanr

from benchmarks.common.runner import rows
from benchmarks.quality.decisive.learned_noise import PATH

found = [row["features"] for row in rows(PATH) if row["dataset"] == "wisdm_har" and "error" not in row]
mean = {key: np.mean([features[key] for features in found], axis=0) for key in found[0]}
KINDS = {"between groups": "between persons", "between classes": "between activities"}

figure = Figure(figsize=(7.2, 2.9))
axes = figure.subplots(1, 2, sharey=True)
for axis, (kind, title) in zip(axes, KINDS.items(), strict=True):
    for row, color in (("pinda", "#5b9bd5"), ("learning", "#f0a04b")):
        rank = spearmanr(mean[kind], mean[row]).statistic
        name = "default barrier" if row == "pinda" else "weak barrier"
        axis.scatter(mean[kind], mean[row], s=14, color=color, label=f"{name}, rank correlation {rank:+.2f}")
        print(f"{row}, {kind}: {rank:+.3f}; sigma from {mean[row].min():.2f} to {mean[row].max():.2f}")
    axis.axhline(1, color="0.7", linewidth=0.8, zorder=0)
    axis.set_xlabel(f"variance {title}, fraction", fontsize=9)
    axis.tick_params(labelsize=8)
    axis.legend(fontsize=7)
axes[0].set_ylabel("noise of a feature / strength", fontsize=9)
figure.tight_layout()
save(figure, "learned_noise")
