"""Reading data sets from files and names into a `Dataset`, writing representations, and view caches on disk."""

from typing import TYPE_CHECKING

from viewsmith.core import lazily

if TYPE_CHECKING:
    from viewsmith.data.dataset import Dataset, split_indices
    from viewsmith.data.sources import READERS, load_dataset
    from viewsmith.data.write import write_representations

# Imported on use, because flags of commands are made from `viewsmith.data.options`, which takes no time.
__getattr__ = lazily(
    __name__,
    {
        "viewsmith.data.dataset": "Dataset split_indices",
        "viewsmith.data.sources": "READERS load_dataset",
        "viewsmith.data.write": "write_representations",
    },
)

__all__ = ["READERS", "Dataset", "load_dataset", "split_indices", "write_representations"]
