"""One of the two processes of a test."""

import datetime

import torch


def member(work, rank, meet, *args, **kwargs):
    """Call ``work(rank, *args, **kwargs)`` in a group of two processes, which meet in a file."""
    torch.set_num_threads(1)
    wait = datetime.timedelta(seconds=60)
    torch.distributed.init_process_group("gloo", f"file://{meet}", wait, world_size=2, rank=rank)
    try:
        work(rank, *args, **kwargs)
    finally:
        torch.distributed.destroy_process_group()
