"""Files of MNIST (idx): arrays, labels beside them, splits, and what is refused."""

import gzip
import struct

import numpy as np
import pytest

from refusals import refusal
from viewsmith.data import load_dataset

rng = np.random.default_rng(0)


def idx(path, x, code=8):
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wb") as file:
        file.write(
            struct.pack(f">HBB{x.ndim}I", 0, code, x.ndim, *x.shape) + x.astype(x.dtype.newbyteorder(">")).tobytes()
        )
    return path


@pytest.mark.parametrize(("test", "ending"), [("t10k", ".gz"), ("emnist-test", "")])
def test_a_folder_of_both_splits(tmp_path, test, ending):
    x, y = rng.integers(0, 256, (30, 6, 5), dtype=np.uint8), np.arange(30, dtype=np.uint8) % 3
    for name, rows in (("emnist-train" if test != "t10k" else "train", slice(0, 20)), (test, slice(20, 30))):
        idx(tmp_path / f"{name}-images-idx3-ubyte{ending}", x[rows])
        idx(tmp_path / f"{name}-labels-idx1-ubyte{ending}", y[rows])
    data = load_dataset(tmp_path)
    assert data.modality == "images" and data.split == "given" and len(data.x_train) == 20
    np.testing.assert_array_equal(data.x, x)
    np.testing.assert_array_equal(data.y, y)


def test_a_file_of_other_numbers_without_labels(tmp_path):
    x = rng.normal(size=(9, 4)).astype(np.float32)
    np.testing.assert_array_equal(load_dataset(idx(tmp_path / "x.idx2-ubyte", x, 0x0D)).x, x)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x03ab", "has 2 bytes of values, expected 6: copy it again"),
        (b"\x1f\x8b", "is not an idx file: it starts with"),
        (b"\0\0\x07\x01\0\0\0\x02ab", "is not an idx file: it starts with"),
    ],
)
def test_files_that_are_refused(tmp_path, content, part):
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(content)
    assert part in refusal(load_dataset, path)
    (tmp_path / "other-images-idx3-ubyte").write_bytes(content)
    assert "expected one split: give one of them" in refusal(load_dataset, tmp_path)
