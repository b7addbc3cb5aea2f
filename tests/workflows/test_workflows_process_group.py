"""Which backend the processes of torchrun join by."""

import pytest
import torch

from viewsmith.core import distributed
from viewsmith.workflows import runs


@pytest.mark.parametrize(
    ("device", "has_gpu", "expected"),
    [("auto", True, "nccl"), ("cuda:1", True, "nccl"), ("cpu", True, "gloo"), ("auto", False, "gloo")],
)
def test_processes_on_the_cpu_join_by_gloo_also_beside_a_gpu(monkeypatch, device, has_gpu, expected):
    joined = []
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    monkeypatch.setattr(torch.cuda, "set_device", lambda rank: None)
    monkeypatch.setattr(torch.distributed, "init_process_group", joined.append)
    monkeypatch.setattr(torch.distributed, "destroy_process_group", lambda: None)
    with runs.process_group(device):
        pass
    assert joined == [expected]


def unequal(rank, folder):
    assert distributed.gather(torch.ones(3)).shape == (6,)
    with pytest.raises(RuntimeError, match="batches of different sizes"):
        distributed.gather(torch.ones(3 + rank))
    torch.save(torch.tensor(rank), f"{folder}/{rank}.pt")


def test_batches_of_different_sizes_are_noticed_by_all_processes(tensors_of_pair):
    assert [int(rank) for rank in tensors_of_pair(unequal)] == [0, 1]
