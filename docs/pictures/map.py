"""The map of regimes: kinds of data by methods, from the results of `benchmarks.tables.regimes`."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from saving import save

from benchmarks.tables.regimes import METRICS, REGIMES, shown

METHODS = ("CRL-TAC", "PiNDA", "DiffAug", "GenView", "MetAug")
COLORS = {"better": "#5b9bd5", "tie": "#dddddd", "worse": "#f0a04b"}

data = list(dict.fromkeys(regime.data for regime in REGIMES))
figure = Figure(figsize=(7.6, 0.44 * len(data) + 0.5))
axis = figure.subplots()
for regime in REGIMES:
    found = regime.differences()
    if not any(found.values()):
        continue
    metric, verdict = shown(found)
    gaps = found[metric]
    left, top = METHODS.index(regime.method), data.index(regime.data)
    axis.add_patch(Rectangle((left, top), 1, 1, facecolor=COLORS[verdict], edgecolor="white", linewidth=2))
    axis.text(left + 0.5, top + 0.36, f"{sum(gaps) / len(gaps):+.3f}", ha="center", va="center", fontsize=9)
    pairs = "1 seed" if len(gaps) == 1 else f"{len(gaps)} pairs"
    axis.text(left + 0.5, top + 0.74, f"{METRICS[metric]}, {pairs}", ha="center", va="center", fontsize=6)
axis.set(xlim=(0, len(METHODS)), ylim=(len(data), 0))
axis.set_xticks([left + 0.5 for left in range(len(METHODS))], METHODS, fontsize=9)
axis.set_yticks([top + 0.5 for top in range(len(data))], data, fontsize=9)
axis.xaxis.tick_top()
axis.tick_params(length=0)
axis.grid(False)
for side in axis.spines.values():
    side.set_visible(False)
save(figure, "map")
