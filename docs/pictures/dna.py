"""Views of one sequence by single edits and by the recipe, a color for each letter."""

from __future__ import annotations

import random

import numpy as np
import torch
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from saving import bare, save

from viewsmith.modalities import dna_rows
from viewsmith.modalities.dna.views import (
    Deletion,
    DNAViews,
    Insertion,
    Inversion,
    Mutation,
    ReverseComplement,
    Translocation,
)
from viewsmith.networks import Nucleotides

random.seed(0)
layer = Nucleotides()
x = layer(torch.from_numpy(dna_rows(["".join(random.choices("ACGT", k=60))])))
makers = {
    "sequence": None,
    "mutation": Mutation(rate=0.1),
    "deletion": Deletion(),
    "insertion": Insertion(),
    "translocation": Translocation(),
    "inversion": Inversion(),
    "reverse-complement": ReverseComplement(p=1.0),
    "dna (recipe)": DNAViews(),
}
lines = [
    (x if maker is None else maker(x, generator=torch.Generator().manual_seed(1))).argmax(dim=1)[0].numpy()
    for maker in makers.values()
]

figure = Figure(figsize=(8, 2.6))
axis = bare(figure.subplots())
axis.imshow(np.stack(lines), cmap=ListedColormap(["#3a9a5c", "#3465a4", "#e0a030", "#c0392b"]), aspect="auto")
axis.set_yticks(range(len(makers)), list(makers), fontsize=8)
axis.set_xlabel("position; A green, C blue, G yellow, T red", fontsize=8)
axis.set_yticks(np.arange(0.5, len(makers) - 1), minor=True)
axis.grid(which="minor", axis="y", color="white", linewidth=2)
axis.tick_params(which="both", length=0)
save(figure, "dna")
