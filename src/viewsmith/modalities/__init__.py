"""Modalities: how each kind of samples is read, checked, scaled, encoded, augmented and drawn.

The modules that only models need, of encoders and view makers, import torch, and are imported on use.
"""

import viewsmith.modalities.vectors.modality  # noqa: F401, listed first

# isort: split
from viewsmith.core.registry import LATER
from viewsmith.modalities.base import Modality, detect, find_modality, modality_of
from viewsmith.modalities.checks import as_vectors, check_finite, check_labels, to_rows, warn_columns
from viewsmith.modalities.dna.modality import DNA, dna_rows, kmer_frequencies
from viewsmith.modalities.images.modality import Images, image_rows
from viewsmith.modalities.series.modality import Series
from viewsmith.modalities.spectra.modality import Spectra
from viewsmith.modalities.vectors.counts import log_normalize
from viewsmith.modalities.vectors.modality import Vectors

LATER["encoder"] += [
    f"viewsmith.modalities.{each}"
    for each in ("vectors.networks", "dna.networks", "images.encoders", "series.networks", "spectra.networks")
]
LATER["view maker"] += ["viewsmith.modalities.vectors.thinning"]
LATER["features"] += [
    f"viewsmith.modalities.{each}"
    for each in ("vectors.networks", "images.features", "dna.networks", "series.networks")
]
LATER["features"] += ["viewsmith.modalities.spectra.features"]

__all__ = [
    "DNA", "Images", "Modality", "Series", "Spectra", "Vectors", "as_vectors", "check_finite", "check_labels", "detect",
    "dna_rows", "find_modality", "image_rows", "kmer_frequencies", "log_normalize", "modality_of", "to_rows",
    "warn_columns",
]  # fmt: skip
