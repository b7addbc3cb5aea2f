"""Discovery with fewer patches and fewer starts of motifs, for the small images and short sequences of tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

SMALLER = {
    "viewsmith.modalities.images.patches.SAMPLED": 4_000,
    "viewsmith.modalities.images.patches.ROUNDS": 5,
    "viewsmith.methods.discovery.contrast.ROUNDS": 8,
    "viewsmith.methods.discovery.motif_search.STARTS": 1_000,
    "viewsmith.methods.discovery.motif_search.TOP": 60,
    "viewsmith.methods.discovery.motif_search.LAST": 8,
    "viewsmith.methods.discovery.motif_search.PROJECTIONS": 60,
    "viewsmith.methods.discovery.motif_search.ALIKE": 120,
    "viewsmith.methods.discovery.motif_search.DRAWS": 5,
}


@contextlib.contextmanager
def smaller() -> Iterator[None]:
    """Within the context, the search is smaller."""
    with contextlib.ExitStack() as stack:
        for name, value in SMALLER.items():
            stack.enter_context(mock.patch(name, value))
        yield
