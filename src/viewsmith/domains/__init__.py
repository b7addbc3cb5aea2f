"""Domains: how each kind of samples is read, checked, scaled and encoded."""

from viewsmith.domains.base import Domain, domain_of
from viewsmith.domains.checks import as_vectors, check_finite, check_labels, to_rows, warn_columns
from viewsmith.domains.counts import log_normalize
from viewsmith.domains.detect import detect, find_domain
from viewsmith.domains.dna import DNA, dna_rows, kmer_frequencies
from viewsmith.domains.images import Images, image_rows
from viewsmith.domains.series import Series
from viewsmith.domains.vectors import Vectors

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
