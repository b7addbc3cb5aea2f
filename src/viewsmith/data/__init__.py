"""Data in and out: arrays, tables, images, DNA, single-cell files become one `Dataset`; representations a file."""

from viewsmith.data.check import DOMAINS, as_vectors, check_finite, check_labels, find_domain, to_rows, warn_columns
from viewsmith.data.dataset import Dataset, Domain, Impute, split_indices
from viewsmith.data.dna import dna_rows, kmer_frequencies
from viewsmith.data.images import image_rows
from viewsmith.data.sources import READERS, load_dataset
from viewsmith.data.write import write_representations

__all__ = [
    "DOMAINS",
    "READERS",
    "Dataset",
    "Domain",
    "Impute",
    "as_vectors",
    "check_finite",
    "check_labels",
    "dna_rows",
    "find_domain",
    "image_rows",
    "kmer_frequencies",
    "load_dataset",
    "split_indices",
    "to_rows",
    "warn_columns",
    "write_representations",
]
