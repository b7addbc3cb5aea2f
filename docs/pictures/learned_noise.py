"""What PiNDA learns on wisdm_har: its noise of each feature against what the feature tells of activities and persons.

Drawn from `benchmarks/results/learned_noise.jsonl`, mean over the seeds of the set's own split. The first 30 features
are histograms of the acceleration along three axes, the others their means, peaks and deviations.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from saving import save
from scipy.stats import spearmanr

from benchmarks.common.runner import RESULTS, rows

found = [
    row["features"]
    for row in rows(RESULTS / "learned_noise.jsonl")
    if row["dataset"] == "wisdm_har" and "error" not in row
]
mean = {key: np.mean([features[key] for features in found], axis=0) for key in found[0]}
varies = mean["between groups"] > 0  # One feature is constant.
bins = np.arange(len(varies)) < 30
KINDS = {"between classes": "between activities", "between groups": "between persons"}
ROWS = {"pinda": ("default barrier", "#2f6fb0"), "learning": ("weak barrier", "#e08a2a")}

figure = Figure(figsize=(7.2, 3.1))
axes = figure.subplots(1, 2, sharey=True)
for axis, (kind, title) in zip(axes, KINDS.items(), strict=True):
    ranks = []
    for row, (name, color) in ROWS.items():
        rank = spearmanr(mean[kind][varies], mean[row][varies]).statistic
        ranks.append(f"{rank:+.2f}")
        for chosen, marker in ((bins, "o"), (~bins, "^")):
            at = chosen & varies
            axis.scatter(
                mean[kind][at],
                mean[row][at],
                s=14,
                color=color,
                marker=marker,
                linewidth=0,
                label=name if marker == "^" else None,
            )
        print(f"{row}, {kind}: {rank:+.3f}; {mean[row][bins].mean():.2f} and {mean[row][~bins & varies].mean():.2f}")
    axis.axhline(1, color="0.7", linewidth=0.8, zorder=0)
    axis.set_yscale("log")
    axis.set_xlabel(f"fraction of its variance {title}", fontsize=9)
    axis.tick_params(labelsize=8)
    axis.set_title(f"rank correlations {' and '.join(ranks)}", fontsize=9)
axes[0].legend(fontsize=8, loc=(0.4, 0.82), frameon=False, handletextpad=0.2)
axes[0].set_ylabel("noise of a feature / strength", fontsize=9)
figure.tight_layout()
save(figure, "learned_noise")
