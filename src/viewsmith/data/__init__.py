"""Reading data sets from files and names into a `Dataset`, writing representations, and view caches on disk."""

from typing import TYPE_CHECKING

from viewsmith.core import lazily

if TYPE_CHECKING:
    from viewsmith.data.dataset import Dataset, split_indices
    from viewsmith.data.options import DataOptions
    from viewsmith.data.reading import FileContents, reader
    from viewsmith.data.sources import load_dataset
    from viewsmith.data.write import write_representations
    from viewsmith.modalities.images.channels import image_squares

# Imported on use, because flags of commands are made from `viewsmith.data.options`, which takes no time.
__getattr__ = lazily(
    __name__,
    {
        "viewsmith.data.dataset": "Dataset split_indices",
        "viewsmith.data.options": "DataOptions",
        "viewsmith.data.reading": "FileContents reader",
        "viewsmith.data.sources": "load_dataset",
        "viewsmith.data.write": "write_representations",
        "viewsmith.modalities.images.channels": "image_squares",
    },
)

__all__ = [
    "DataOptions", "Dataset", "FileContents", "image_squares", "load_dataset", "reader", "split_indices",
    "write_representations",
]  # fmt: skip
