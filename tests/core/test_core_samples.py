"""Rows that are scaled when they are read."""

import torch

from viewsmith.core.samples import Samples, apply_in_blocks


def test_samples_are_scaled_when_they_are_read():
    rows = torch.arange(12, dtype=torch.uint8).reshape(6, 2)
    samples = Samples(rows, lambda x: x / 2)
    assert len(samples) == 6 and samples.device == rows.device
    assert torch.equal(samples[torch.tensor([4, 0])], torch.tensor([[4.0, 4.5], [0.0, 0.5]]))
    assert torch.equal(samples[1:3], rows[1:3] / 2)
    assert samples.rows is rows and samples.to(torch.device("cpu")).scale is samples.scale


def test_apply_in_blocks_equals_one_call():
    rows = torch.arange(14.0).reshape(7, 2)
    for given in (rows, Samples(rows, lambda x: 3 * x)):
        for size in (1, 3, 7, 100):
            assert torch.equal(apply_in_blocks(lambda x: x + 1, given, size), given[:] + 1)
