"""Discovery with fewer patches and starts of motifs, closed forms with few features, narrow networks, no t-SNE."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Iterator
from typing import Self
from unittest import mock

from quick_reports import FirstAxes
from viewsmith.core.registry import entries

SMALLER = {
    "viewsmith.modalities.images.features.SAMPLED": 2_000,
    "viewsmith.modalities.images.features.ROUNDS": 3,
    "viewsmith.modalities.images.features.CENTERS": 96,
    "viewsmith.modalities.images.features.COMPONENTS": 32,
    "viewsmith.methods.discovery.images.SURROGATES": 40,
    "viewsmith.methods.discovery.images.MORE": 100,
    "viewsmith.methods.discovery.images.NULL": 100,
    "viewsmith.methods.discovery.pieces.LEVELS": 12,
    "viewsmith.methods.discovery.events.NULL": 500,
    "viewsmith.methods.discovery.motifs.NULL": 500,
    "viewsmith.methods.discovery.contrast.ROUNDS": 8,
    "viewsmith.methods.discovery.motif_search.STARTS": 400,
    "viewsmith.methods.discovery.motif_search.FEW_STARTS": 300,
    "viewsmith.methods.discovery.motif_search.TOP": 40,
    "viewsmith.methods.discovery.motif_search.FEW_TOP": 40,
    "viewsmith.methods.discovery.motif_search.LAST": 4,
    "viewsmith.methods.discovery.motif_search.FINAL": 2,
    "viewsmith.methods.discovery.motif_search.ROUNDS": 20,
    "viewsmith.methods.discovery.motif_search.SCREENED": 6_000,
    "viewsmith.methods.discovery.motif_search.PROJECTIONS": 30,
    "viewsmith.methods.discovery.motif_search.ALIKE": 80,
    "viewsmith.methods.discovery.acceptance.SEARCHED": 80,
    "viewsmith.methods.discovery.pieces.CHECKED": 1,
    "viewsmith.methods.crl_tac.building.FEWEST": 50,
}


@contextlib.contextmanager
def smaller() -> Iterator[None]:
    """Within the context, the search is smaller."""
    with contextlib.ExitStack() as stack:
        for name, value in SMALLER.items():
            stack.enter_context(mock.patch(name, value))
        yield


#: What the closed form, tests of symmetries and maps of a report do less of, by module and name.
CLOSED = {
    "viewsmith.networks.projected": {"SPANNING": 128, "FEW": 64},
    "viewsmith.networks.features": {"SAMPLED": 2_000},
    "viewsmith.methods.linear_contrast.training": {"RIDGES": (0.1, 0.3)},
    "viewsmith.workflows.views_table": {"DIRECTIONS": 64, "RIDGES": (0.1, 0.3)},
    "viewsmith.evaluation.symmetries": {"FOLDS": 2, "DRAWS": 20},
    "sklearn.manifold": {"TSNE": FirstAxes},
}
#: Fewer fixed features of a sample, by the names of their options.
FEATURES = {"centers": 32, "n_features": 168, "width": 128}
#: Narrow networks, by module, class and names of keyword arguments.
NETWORKS = {
    "viewsmith.modalities.images.encoders.SmallCNN": {"widths": (8, 16, 32, 32)},
    "viewsmith.modalities.images.denoiser.ImageDenoiser": {"width": 8},
    "viewsmith.modalities.vectors.networks.VectorDenoiser": {"width": 48},
    "viewsmith.modalities.dna.networks.SequenceDenoiser": {"width": 16, "fine": 8},
}


class ClosedForms:
    """Closed forms and the like are small, or as large as they are outside of tests."""

    def __init__(self) -> None:
        places = [(vars(importlib.import_module(module)), values) for module, values in CLOSED.items()]
        for entry in entries("features"):
            defaults = getattr(entry.build.__init__, "__kwdefaults__", None) or {}
            places.append((defaults, {name: value for name, value in FEATURES.items() if name in defaults}))
        for name, values in NETWORKS.items():
            module, _, network = name.rpartition(".")
            places.append((vars(importlib.import_module(module))[network].__init__.__kwdefaults__, values))
        self.small, self.places = False, [(place, less, {n: place[n] for n in less}) for place, less in places]

    @classmethod
    @functools.cache
    def of_tests(cls) -> Self:
        return cls()

    def set(self, small: bool) -> None:
        if small != self.small:
            for place, less, full in self.places:
                place.update(less if small else full)
            self.small = small
