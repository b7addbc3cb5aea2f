"""Data in and out: arrays, tables and built-in sets become one `Dataset`; representations become a file."""

from viewsmith.data.check import DOMAINS, as_vectors, check_finite, check_labels, find_domain, to_rows, warn_columns
from viewsmith.data.dataset import Dataset, Domain, Impute, split_indices
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
    "find_domain",
    "load_dataset",
    "split_indices",
    "to_rows",
    "warn_columns",
    "write_representations",
]
