"""Rows that are scaled when they are read."""

import time

import numpy as np
import pytest
import torch

from viewsmith.core import samples
from viewsmith.core.rows import ArrayRows
from viewsmith.core.samples import Samples, apply_in_blocks, batches, mapped


def test_samples_are_scaled_when_they_are_read():
    rows = torch.arange(12, dtype=torch.uint8).reshape(6, 2)
    scaled = Samples(rows, lambda x: x / 2)
    assert len(scaled) == 6 and scaled.device == rows.device
    assert torch.equal(scaled[torch.tensor([4, 0])], torch.tensor([[4.0, 4.5], [0.0, 0.5]]))
    assert torch.equal(scaled[1:3], rows[1:3] / 2)
    assert scaled.rows is rows and scaled.to(torch.device("cpu")).scale is scaled.scale


def test_apply_in_blocks_equals_one_call():
    rows = torch.arange(14.0).reshape(7, 2)
    for given in (rows, Samples(rows, lambda x: 3 * x)):
        for size in (1, 3, 7, 100):
            assert torch.equal(apply_in_blocks(lambda x: x + 1, given, size), given[:] + 1)


class Counted(ArrayRows):
    """Counts the rows of each read, and those of the batches that are read and not used yet."""

    def __init__(self, array):
        super().__init__(array)
        self.reads = []

    def __getitem__(self, key):
        found = super().__getitem__(key)
        self.reads.append(len(found))
        return found


@pytest.mark.parametrize(
    ("values", "reads"), [(10**6, [64, 14]), (3 * 8 * 5, [24, 24, 24, 6]), (1, [8] * 9 + [6])], ids=str
)
def test_batches_of_rows_on_disk_are_read_together_and_are_those_of_rows_in_memory(monkeypatch, values, reads):
    monkeypatch.setattr(samples, "TOGETHER_VALUES", values)
    x = torch.randn(90, 5, generator=torch.Generator().manual_seed(0))
    indices = torch.randperm(90, generator=torch.Generator().manual_seed(1))[:78].split(8)
    source = Counted(x.numpy())
    found = list(batches(Samples(source, lambda rows: 2 * rows), indices))
    assert source.reads == reads
    assert [(2 * x[index]).tolist() for index in indices] == [batch.tolist() for batch in found]


@pytest.mark.parametrize(("values", "most"), [(10**6, 16), (3 * 8 * 5, 9), (1, 5)], ids=str)
def test_few_batches_are_read_before_they_are_needed(monkeypatch, values, most):
    monkeypatch.setattr(samples, "TOGETHER_VALUES", values)
    source = Counted(np.zeros((800, 5), np.float32))
    found = batches(Samples(source, lambda rows: rows), torch.arange(800).flip(0).split(8))
    for used in range(1, 80):
        next(found)
        time.sleep(0.002)  # the thread reads as far as it will
        assert used <= sum(source.reads) / 8 <= used - 1 + most


def test_fewer_batches_of_large_rows_are_read_ahead(monkeypatch):
    monkeypatch.setattr(samples, "TOGETHER_VALUES", 1)
    monkeypatch.setattr(samples, "BYTES_AHEAD", 2 * 8 * 5 * 4)
    for indices in (torch.arange(800).split(8), [slice(i, i + 8) for i in range(0, 800, 8)]):
        source = Counted(np.zeros((800, 5), np.float32))
        found = batches(Samples(source, lambda rows: rows), indices)
        next(found)
        time.sleep(0.05)
        assert sum(source.reads) == 3 * 8


def test_a_function_of_rows_is_taken_in_blocks_as_they_are_read(monkeypatch):
    monkeypatch.setattr(samples, "IMAGE_BLOCK", 3)
    sizes, rows = [], torch.arange(14.0).view(7, 2)

    def scale(block):
        sizes.append(len(block))
        return block + 1

    for given in (rows + 1, Samples(rows, scale)):
        found = mapped(given, lambda block: block.sum(1))
        assert torch.equal(found[torch.tensor([6, 0, 3, 4])], (rows + 1).sum(1)[[6, 0, 3, 4]])
    assert sizes == [3, 1]
