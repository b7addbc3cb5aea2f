"""Discovery with fewer patches and fewer starts of motifs, for the small images and short sequences of tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

SMALLER = {
    "viewsmith.modalities.images.patches.SAMPLED": 8_000,
    "viewsmith.modalities.images.patches.ROUNDS": 8,
    "viewsmith.methods.discovery.motif_models.STARTS": 1_500,
    "viewsmith.methods.discovery.motif_models.TOP": 100,
    "viewsmith.methods.discovery.motif_models.LAST": 8,
    "viewsmith.methods.discovery.motif_models.PROJECTIONS": 100,
    "viewsmith.methods.discovery.motif_models.ALIKE": 200,
    "viewsmith.methods.discovery.motif_models.DRAWS": 5,
}


@contextlib.contextmanager
def smaller() -> Iterator[None]:
    """Within the context, the search is smaller."""
    with contextlib.ExitStack() as stack:
        for name, value in SMALLER.items():
            stack.enter_context(mock.patch(name, value))
        yield
