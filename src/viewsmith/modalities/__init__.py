"""Domains: how each kind of samples is read, checked, scaled and encoded."""

from viewsmith.modalities.base import Domain, domain_of
from viewsmith.modalities.checks import as_vectors, check_finite, check_labels, to_rows, warn_columns
from viewsmith.modalities.detect import detect, find_domain
from viewsmith.modalities.dna.modality import DNA, dna_rows, kmer_frequencies
from viewsmith.modalities.images.modality import Images, image_rows
from viewsmith.modalities.series.modality import Series
from viewsmith.modalities.vectors.counts import log_normalize
from viewsmith.modalities.vectors.modality import Vectors

__all__ = [
    "DNA",
    "Domain",
    "Images",
    "Series",
    "Vectors",
    "as_vectors",
    "check_finite",
    "check_labels",
    "detect",
    "dna_rows",
    "domain_of",
    "find_domain",
    "image_rows",
    "kmer_frequencies",
    "log_normalize",
    "to_rows",
    "warn_columns",
]
