"""Reader of idx files, in which MNIST and the data sets after it (Fashion-MNIST, EMNIST, KMNIST) are published."""

import gzip
import math
import re
from pathlib import Path

import numpy as np

from viewsmith.core.errors import InputError, name_list
from viewsmith.core.memory import check_size
from viewsmith.data.formats import reader
from viewsmith.data.options import DataOptions
from viewsmith.data.reading import FileContents, reading

_NAME = re.compile(r"(?P<of>.+)[-.]idx(?P<axes>\d)-ubyte(\.gz)?")
_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def _samples(folder: Path) -> list[Path]:
    """The idx files of a folder that are no labels; of a plain and a compressed one of one name the plain one."""
    found = {
        file.name.removesuffix(".gz"): file
        for file in sorted(folder.iterdir(), reverse=True)
        if (name := _NAME.fullmatch(file.name)) and name["axes"] != "1"
    }
    return sorted(found.values())


def _recognized(path: Path) -> bool:
    return bool(_samples(path)) if path.is_dir() else bool(_NAME.fullmatch(path.name)) and path.is_file()


@reader(
    "idx",
    *(".idx3-ubyte", ".idx2-ubyte"),
    help="files of MNIST: NAME-images-idx3-ubyte with the labels beside it; of a folder train and t10k (or test)",
    noun="an idx file",
    recognizes=_recognized,
    example="MNIST/raw/",
)
def read_idx(path: Path, request: DataOptions) -> FileContents:
    """Arrays (n, ...) with the labels of the file beside them; of a folder both splits."""
    request.check_no_table_options(str(path), "labels are in the file NAME-labels-idx1-ubyte")
    if path.is_file():
        return FileContents(_array(path), _labels(path))
    files = _samples(path)
    train = [file for file in files if "train" in file.name]
    test = [file for file in files if file not in train and re.search("t10k|test", file.name)]
    if len(files) == 1:
        return FileContents(_array(files[0]), _labels(files[0]))
    if len(train) != 1 or len(test) != 1 or len(files) != 2:
        raise InputError(f"{path} has {name_list([file.name for file in files])}, expected one split: give one of them")
    x, y = [_array(file) for file in (*train, *test)], [_labels(file) for file in (*train, *test)]
    labels = None if y[0] is None or y[1] is None else np.concatenate([y[0], y[1]])
    return FileContents(np.concatenate(x), labels, n_train=len(x[0]))


def _labels(file: Path) -> np.ndarray | None:
    """The labels in the file beside one of samples, None without one."""
    near = re.sub(r"idx\d", "idx1", file.name.replace("images", "labels")).removesuffix(".gz")
    found = [each for name in (near, near + ".gz") if (each := file.with_name(name)) != file and each.is_file()]
    return _array(found[0]) if found else None


def _array(file: Path) -> np.ndarray:
    """The array of a file: two zeros, type, number of axes, their lengths and the values, the largest byte first."""
    with reading(str(file), "an idx file"), (gzip.open if file.suffix == ".gz" else open)(file, "rb") as opened:
        start = opened.read(4)
        if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in _TYPES:
            raise InputError(f"{file} is not an idx file: it starts with {start!r}")
        shape = np.frombuffer(opened.read(4 * start[3]), ">u4").tolist()
        dtype = np.dtype(_TYPES[start[2]])
        size = math.prod(shape) * dtype.itemsize
        check_size(size, f"{file}, {' x '.join(map(str, shape))} values,", "write fewer samples")
        values = opened.read(size)
    if len(values) < size:
        raise InputError(f"{file} has {len(values):,} bytes of values, expected {size:,}: copy it again")
    return np.frombuffer(values, dtype).reshape(shape).astype(dtype.newbyteorder("="))
