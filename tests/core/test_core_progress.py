"""The progress bar of long loops."""

import re
import time

import pytest

from viewsmith.core.progress import with_progress


def on_terminal(monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")


def plain(text):
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def test_items_are_yielded_and_the_bar_counts_their_sizes(capfd, monkeypatch):
    on_terminal(monkeypatch)
    items = [3, 4, 5]
    assert list(with_progress(iter(items), "embed", 12, "rows", size=lambda n: n, after=0)) == items
    shown = plain(capfd.readouterr().err)
    assert "embed" in shown and "12/12" in shown and "rows" in shown


def test_a_short_loop_shows_no_bar(capfd, monkeypatch):
    on_terminal(monkeypatch)
    assert list(with_progress(range(3), "embed", 3, "rows")) == [0, 1, 2]
    assert capfd.readouterr().err == ""


def test_no_bar_without_a_terminal_or_in_other_processes(capfd, monkeypatch):
    assert list(with_progress(range(3), "embed", 3, "rows", after=0)) == [0, 1, 2]
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("viewsmith.core.distributed.rank", lambda: 1)
    assert list(with_progress(range(3), "embed", 3, "rows", after=0)) == [0, 1, 2]
    assert capfd.readouterr().err == ""


def test_the_bar_stops_when_an_error_is_raised(capfd, monkeypatch):
    on_terminal(monkeypatch)

    def broken():
        yield 1
        yield 2
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        list(with_progress(broken(), "embed", 3, "rows", after=0))
    assert "embed" in plain(capfd.readouterr().err)


def test_the_bar_is_seen_while_the_first_item_takes_long(capfd, monkeypatch):
    on_terminal(monkeypatch)
    loop = with_progress([1, 2], "motifs", 2, "searches", after=0.01)
    assert next(loop) == 1
    deadline = time.monotonic() + 10
    shown = ""
    while "0/2" not in shown and time.monotonic() < deadline:
        time.sleep(0.02)
        shown += plain(capfd.readouterr().err)
    loop.close()
    assert "motifs" in shown and "0/2" in shown
