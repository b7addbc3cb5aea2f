"""Processes of a group notice that another one has died, whatever they are doing."""

import os
import signal
import sys
import threading
import time
from datetime import timedelta

import pytest
import torch

from viewsmith.core.distributed import LOST, watched_peers

KILLED = -signal.SIGKILL


def member(rank: int, size: int, folder: str, acts: dict[int, str]) -> None:
    """A process of a group of `size`, which does what `acts` says for its rank, and otherwise waits for a minute."""
    sys.stderr = sys.stdout = open(f"{folder}/{rank}", "w")  # noqa: SIM115, open to the end
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", f"file://{folder}/meet", timedelta(seconds=40), world_size=size, rank=rank
    )
    act = acts.get(rank, "wait")
    try:
        with watched_peers(grace=0.5 if act != "fail later" else 30):
            torch.distributed.barrier()
            if act == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if act == "fail":
                raise ValueError("no space left")
            if act == "fail later":
                time.sleep(1)
                raise ValueError("its own reason")
            if act == "finish later":
                time.sleep(2)
            if act == "wait":
                time.sleep(60)
    except ValueError as error:
        print(error, flush=True)
        os._exit(3)
    os._exit(0)


@pytest.mark.parametrize(
    ("size", "acts", "codes"),
    [
        (2, {0: "die"}, [KILLED, 1]),
        (3, {2: "die"}, [1, 1, KILLED]),
        (2, {1: "fail"}, [1, 3]),
        (2, {0: "die", 1: "fail later"}, [KILLED, 3]),
        (3, {0: "finish later", 1: "finish", 2: "finish later"}, [0, 0, 0]),
    ],
    ids=["first dies", "last of three dies", "one fails", "own message", "one finishes before the others"],
)
def test_processes_end_soon_after_another_has_died(processes, tmp_path, size, acts, codes):
    members = [processes.Process(target=member, args=(rank, size, str(tmp_path), acts)) for rank in range(size)]
    for process in members:
        process.start()
    for process in members:
        process.join(30)
        if process.is_alive():
            process.kill()
            pytest.fail("a process did not end")
    assert [process.exitcode for process in members] == codes
    for rank, code in enumerate(codes):
        said = (tmp_path / str(rank)).read_text() if code != KILLED else ""
        expected = {1: f"error: {LOST}\n", 3: "no space left\n" if acts.get(rank) == "fail" else "its own reason\n"}
        assert said == expected.get(code, "")


def test_one_process_has_nothing_to_watch():
    before = threading.active_count()
    with watched_peers():
        assert threading.active_count() == before
