"""Promised and found shares of wrong parts among those that discovery lists, with two standard errors.

Drawn from `benchmarks/results/study_q.jsonl` and `study_pieces.jsonl`, means over seeds.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from saving import save

from benchmarks.quality.study_q import LEVELS, by_set

figure = Figure(figsize=(6, 4), layout="constrained")
axes = figure.subplots()
axes.plot([0, 0.22], [0, 0.22], color="gray", linewidth=1, label="as promised")
for k, (name, rows) in enumerate(by_set().items()):
    wrong, listed = (
        np.array([np.mean([row[f"{what}_at_{q:g}"] for row in rows]) for q in LEVELS]) for what in ("wrong", "listed")
    )
    error = 2 * np.sqrt(wrong * (1 - wrong) / np.maximum(listed, 1))
    axes.errorbar(np.array(LEVELS) + 0.001 * (k - 4), wrong, error, marker="o", capsize=2, label=name)
axes.set(xlabel="promised: largest q of the listed parts", ylabel="found: share of wrong ones", xlim=(0, 0.22))
axes.legend(fontsize=7, ncols=2)
save(figure, "q_values")
