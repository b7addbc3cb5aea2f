"""Reading data sets from files and names into a `Dataset`, writing representations, and view caches on disk."""

from viewsmith.data.dataset import Dataset, split_indices
from viewsmith.data.sources import READERS, load_dataset
from viewsmith.data.write import write_representations

__all__ = ["READERS", "Dataset", "load_dataset", "split_indices", "write_representations"]
