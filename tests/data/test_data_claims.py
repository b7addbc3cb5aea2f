"""Work that processes share through a folder: each piece is done, and only once while all are alive."""

import os
import time
from pathlib import Path

import pytest

from viewsmith.data import reading as claims
from viewsmith.data.reading import Claims


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(claims, "POLL", 0.01)


def done_in(folder):
    return lambda piece: (folder / f"{piece}.done").exists()


def work(folder, out, pieces, ready=None, go=None, stop_at=None):
    """Do pieces: each appends its process to a file; at `stop_at` the process waits to be killed."""
    claims.POLL = 0.01
    if ready is not None:
        ready.set()
        go.wait(60)
    for piece in Claims(folder, heartbeat=0.05, patience=0.5).each(range(pieces), done_in(out)):
        if piece == stop_at:
            (out / "stopped").touch()
            time.sleep(120)
        with (out / f"{piece}.log").open("a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(0.01)
        (out / f"{piece}.done").touch()


def test_a_piece_has_one_holder(tmp_path):
    folder = tmp_path / "claims"
    with Claims(folder).hold("a") as first, Claims(folder).hold("a") as second, Claims(folder).hold("b") as other:
        assert (first, second, other) == (True, False, True)
    assert not folder.exists()
    with pytest.raises(KeyboardInterrupt), Claims(folder).hold("a"):
        raise KeyboardInterrupt
    with Claims(folder).hold("a") as again:
        assert again


def test_processes_share_the_pieces(tmp_path, processes):
    folder, n = tmp_path / "claims", 30
    go, ready = processes.Event(), [processes.Event() for _ in range(2)]
    workers = [processes.Process(target=work, args=(folder, tmp_path, n, each, go)) for each in ready]
    for worker in workers:
        worker.start()
    assert all(each.wait(60) for each in ready)
    go.set()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    logs = [(tmp_path / f"{piece}.log").read_text().split() for piece in range(n)]
    assert [len(log) for log in logs] == [1] * n
    assert {process for log in logs for process in log} == {str(worker.pid) for worker in workers}
    assert not folder.exists()


def test_a_piece_of_a_killed_process_is_taken_over(tmp_path, processes):
    folder = tmp_path / "claims"
    worker = processes.Process(target=work, args=(folder, tmp_path, 3), kwargs={"stop_at": 1})
    worker.start()
    deadline = time.monotonic() + 60
    while not (tmp_path / "stopped").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    with Claims(folder).hold("1") as mine:
        assert not mine  # it is alive
    worker.kill()
    worker.join(60)
    work(folder, tmp_path, 3)
    assert [len((tmp_path / f"{piece}.log").read_text().split()) for piece in range(3)] == [1, 1, 1]
    assert not folder.exists()


@pytest.mark.slow
def test_a_claim_of_another_machine_counts_while_its_heart_beats(tmp_path):
    folder = tmp_path / "claims"
    mine, path = Claims(folder, heartbeat=0.05, patience=0.3), folder / "a"
    for content in ('{"host": "elsewhere", "process": 1}', "", "{", "[]", '{"host": 1}'):
        folder.mkdir()
        path.write_text(content)
        with mine.hold("a") as taken:
            assert not taken, content
        before = path.stat().st_mtime
        os.utime(path, (before - 1, before - 1))
        with mine.hold("a") as taken:
            assert taken, content
            first = path.stat().st_mtime
            time.sleep(0.4)  # longer than the patience
            assert path.stat().st_mtime > first
            with Claims(folder, patience=0.3).hold("a") as other:
                assert not other
        assert not folder.exists()


def test_the_folder_may_be_removed_while_a_piece_is_claimed(tmp_path, monkeypatch):
    make, moments = Path.mkdir, [FileNotFoundError, FileExistsError]

    def removed_at_once(folder, *args, **kwargs):
        make(folder, *args, **kwargs)
        if moments:
            folder.rmdir()
            if moments.pop() is FileExistsError:  # it was there for the system, not for Python a moment later
                raise FileExistsError

    monkeypatch.setattr(Path, "mkdir", removed_at_once)
    with Claims(tmp_path / "claims").hold("a") as mine:
        assert mine and not moments


def test_what_killed_processes_left_is_cleared(tmp_path):
    folder = tmp_path / "claims"
    folder.mkdir()
    (folder / "7").write_text("x")
    (folder / ".stale-1").touch()
    Claims(folder).clear()
    assert not folder.exists()
    Claims(folder).clear()
