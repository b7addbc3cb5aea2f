"""The map of regimes: kinds of data by methods, from the table of docs/results/when_views_help.md."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from saving import save

METHODS = ("CRL-TAC", "PiNDA", "DiffAug", "GenView", "MetAug")
COLORS = {"better": "#5b9bd5", "tie": "#dddddd", "worse": "#f0a04b"}

PAGE = Path(__file__).parents[1] / "results" / "when_views_help.md"
#: Columns of the table; the first one with a difference is shown, or the one that the verdict names.
METRICS = {"kNN": 3, "linear": 4, "k-means": 5, "1 % labels": 6}

lines = PAGE.read_text(encoding="utf-8").partition("| data |")[2].split("\n\n")[0].splitlines()[2:]
table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
data = list(dict.fromkeys(row[0] for row in table))
figure = Figure(figsize=(7.6, 0.44 * len(data) + 0.5))
axis = figure.subplots()
for row in table:
    verdict = "tie" if row[8] == "tie" else row[8].replace("*", "").split()[0]
    named = [metric for metric in METRICS if f"at {metric}" in row[8]]
    metric = next(name for name in named or METRICS if row[METRICS[name]] != "-")
    left, top = METHODS.index(row[1]), data.index(row[0])
    axis.add_patch(Rectangle((left, top), 1, 1, facecolor=COLORS[verdict], edgecolor="white", linewidth=2))
    mean = row[METRICS[metric]].split()[0]
    axis.text(left + 0.5, top + 0.36, mean, ha="center", va="center", fontsize=9)
    axis.text(left + 0.5, top + 0.74, f"{metric}, {row[7]} pairs", ha="center", va="center", fontsize=6)
axis.set(xlim=(0, len(METHODS)), ylim=(len(data), 0))
axis.set_xticks([left + 0.5 for left in range(len(METHODS))], METHODS, fontsize=9)
axis.set_yticks([top + 0.5 for top in range(len(data))], data, fontsize=9)
axis.xaxis.tick_top()
axis.tick_params(length=0)
axis.grid(False)
for side in axis.spines.values():
    side.set_visible(False)
save(figure, "map")
