"""HDF5 files whose damage ends the process that reads them."""

import subprocess
import sys

import numpy as np
import pytest

from refusals import refusal
from viewsmith.data import load_dataset
from viewsmith.data.readers import h5ad
from viewsmith.data.readers import h5ad as hdf5
from viewsmith.data.readers.h5ad import try_attributes

h5py = pytest.importorskip("h5py")


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "x.h5ad"
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=np.eye(3)).attrs["encoding-type"] = "array"
    return path


def damage(path):
    """Give the attribute, a string of variable length, a type that is neither a string nor a sequence."""
    content = path.read_bytes()
    type_of_string = bytes([0x19, 0x01, 0x01, 0x00])
    assert content.count(type_of_string) == 1
    path.write_bytes(content.replace(type_of_string, bytes([0x19, 0x05, 0x01, 0x00])))


def test_whole_and_unreadable_files_pass(path, tmp_path, monkeypatch):
    codes, run = [], subprocess.run
    monkeypatch.setattr(
        hdf5.subprocess, "run", lambda *a, **k: (found := run(*a, **k), codes.append(found.returncode))[0]
    )
    try_attributes(path)
    path.write_bytes(path.read_bytes()[:100])
    try_attributes(path)  # Python has an error for these, which the reader reports
    try_attributes(tmp_path / "missing.h5ad")
    assert codes == [0, 0, 0]


def test_a_file_that_crashes_its_reader(path):
    damage(path)
    code = f"import h5py; h5py.File({str(path)!r})['X'].attrs['encoding-type']"
    if subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode >= 0:
        pytest.skip("this version of HDF5 survives it")
    assert f"cannot read {path} as an .h5ad file: it is damaged (HDF5 crashes" in refusal(try_attributes, path)


def test_the_reader_tries_first(path, monkeypatch):
    pytest.importorskip("anndata")
    monkeypatch.setattr(h5ad, "try_attributes", try_attributes)
    monkeypatch.setattr(hdf5, "_READ_ATTRIBUTES", "import os; os.abort()")
    assert "it is damaged (HDF5 crashes on its attributes)" in refusal(load_dataset, path)


def test_an_endless_loop(path, monkeypatch):
    monkeypatch.setattr(hdf5, "_READ_ATTRIBUTES", "import time; time.sleep(60)")
    assert "HDF5 does not finish reading its attributes (0.2 s)" in refusal(try_attributes, path, 0.2)


def test_files_are_read_where_no_process_can_be_started(path, monkeypatch):
    pytest.importorskip("anndata")
    monkeypatch.setattr(h5ad, "try_attributes", try_attributes)
    monkeypatch.setattr(sys, "executable", str(path))
    assert "has no obs and no var" in refusal(load_dataset, path)  # so the reader went on
