"""Time of DNA views against EvoAug's, on a batch of 256 one-hot sequences of 200 bases, with the same parameters.

Every edit and its EvoAug counterpart, in interleaved rounds; medians, and medians of the ratio. EvoAug's recipe is that
of `RobustModel`: two of its six augmentations for each sequence. Target: mutation and deletion 4 times faster. EvoAug
is not installed by default (pip install --no-deps evoaug); without it, it is recorded as absent.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.dna_views [--threads 1] [--rounds 40] [--device cuda] [--quick]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import metadata

import torch
from torch import Tensor

from benchmarks.speed.timing import clock, milliseconds, parser, ratio, read, record, time_interleaved
from viewsmith.modalities.dna import views as dna
from viewsmith.views import ViewMaker

BATCH, LENGTH = 256, 200
View = Callable[[Tensor], Tensor]


def peers() -> dict[str, View]:
    """EvoAug's augmentations by viewsmith's names; empty if EvoAug is not installed."""
    try:
        from evoaug import augment
    except ImportError:
        return {}
    edits: dict[str, View] = {
        "deletion": augment.RandomDeletion(0, 20),
        "reverse-complement": augment.RandomRC(0.5),
        "insertion": augment.RandomInsertion(0, 20),
        "translocation": augment.RandomTranslocation(0, 20),
        "mutation": augment.RandomMutation(0.05),
        "noise": augment.RandomNoise(0.0, 0.2),
    }

    def recipe(x: Tensor) -> Tensor:
        # The algorithm of RobustModel; the class itself needs pytorch_lightning. Insertions make sequences 20 longer.
        augmentations, rows = list(edits.values()), []
        for sequence in x:
            row = sequence[None]
            for number in sorted(torch.randperm(len(augmentations))[:2].tolist()):
                row = augmentations[number](row)
            rows.append(row)
        return torch.cat([row[:, :, :LENGTH] for row in rows])

    return edits | {"inversion": augment.RandomInversion(0, 20), "recipe (loop of the published algorithm)": recipe}


def ours(device: str) -> dict[str, View]:
    """Viewsmith's DNA views by name."""
    generator = torch.Generator(device).manual_seed(0)
    makers: dict[str, ViewMaker] = {
        "dna": dna.DNAViews(),
        "reverse-complement": dna.ReverseComplement(),
        "mutation": dna.Mutation(),
        "insertion": dna.Insertion(),
        "deletion": dna.Deletion(),
        "translocation": dna.Translocation(),
        "inversion": dna.Inversion(),
        "noise": dna.DNANoise(0.2),
        "recipe (loop of the published algorithm)": dna.DNAViews(noise=0.2),
    }
    return {name: lambda x, maker=maker: maker(x, generator=generator) for name, maker in makers.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    given = read(parser(__doc__, device=True, rounds=40), arguments)
    letters = torch.randint(4, (8 if given.quick else BATCH, LENGTH), generator=torch.Generator().manual_seed(0))
    x = torch.eye(4)[letters].mT.contiguous().to(given.device)
    views, evoaug = ours(given.device), peers()
    libraries = {"ours": views, "evoaug": evoaug}
    seconds = {}
    for name in views:
        works = {library: partial(edits[name], x) for library, edits in libraries.items() if name in edits}
        seconds[name] = time_interleaved(works, given.rounds, clock(given.device), warm=5)
    row = {
        "ms": {name: milliseconds(taken, 3) for name, taken in seconds.items()},
        "ratio": {name: ratio(taken["ours"], taken["evoaug"], 2) for name, taken in seconds.items() if name in evoaug},
        "target": 4,
        "evoaug": metadata.version("evoaug") if evoaug else "absent",
        "batch": len(x),
        "length": LENGTH,
        "clock": "wall time",
    }
    record("dna_views", row, given)


if __name__ == "__main__":
    main()
