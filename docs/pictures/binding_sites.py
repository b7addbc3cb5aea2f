"""Binding sites of CRP, found without labels: the logo of the motif and some of its sites (needs VIEWSMITH_DATA).

The sequences are those of Stormo and Hartzell (1989).
"""

from __future__ import annotations

import os
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D
from saving import save

from viewsmith import Discovery
from viewsmith.data.any_size import read_samples
from viewsmith.methods.discovery.report import COLORS, letter_heights

SHOWN = 6

sequences, names, *_ = read_samples(str(Path(os.environ["VIEWSMITH_DATA"]) / "motifs" / "crp.fa"))
model = Discovery().fit(sequences)
motif = model.parts_[0]
crops, found = model.crops(sequences, motif.width)
order = (-found["score"]).argsort()[:SHOWN]

figure = Figure(figsize=(7.2, 2.2), layout="constrained")
left, right = figure.subplots(1, 2, width_ratios=(3, 2))
for position, row in enumerate(letter_heights(motif.probabilities, motif.background.frequencies)):
    bottom = 0.0
    for i in row.argsort():
        path = TextPath((0, 0), motif.alphabet.letters[i], size=1)
        box = path.get_extents()
        place = Affine2D().translate(-box.x0, -box.y0).scale(0.9 / box.width, row[i] / box.height)
        left.add_patch(PathPatch(path.transformed(place.translate(position + 0.05, bottom)), color=COLORS[i], lw=0))
        bottom += float(row[i])
left.set(xlim=(0, motif.width), ylim=(0, 2), ylabel="bits", xticks=[])
left.spines[["top", "right"]].set_visible(False)
for line, number in enumerate(order):
    site = found[number]
    text = f"{(names or [])[site['sample']].split()[0]:8} {site['start'] + 1:4d} {'-' if site['reverse'] else '+'}  "
    right.text(0, -line, text + crops[number], family="monospace", size=8, va="center")
right.set(xlim=(0, 1), ylim=(-SHOWN + 0.5, 0.5))
right.axis("off")
save(figure, "binding_sites")
