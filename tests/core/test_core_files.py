"""Atomic writing leaves the complete old or the complete new file, and no temporary files."""

import errno
import json
import os
import tomllib

import numpy as np
import pytest

from viewsmith.core import files
from viewsmith.core.errors import InputError, InUseError


def test_the_file_is_replaced_at_the_end(tmp_path):
    path = tmp_path / "a.npz"
    path.write_text("old")
    with files.atomic_path(path) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.name.startswith(".") and temporary.suffix == ".npz"
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.npz"]


def test_two_writers_use_different_temporary_files(tmp_path):
    with files.atomic_path(tmp_path / "a.txt") as one, files.atomic_path(tmp_path / "a.txt") as other:
        assert one != other
        one.write_text("1")
        other.write_text("2")
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_keeps_the_old_file_and_removes_the_temporary_file(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(error), files.atomic_path(path) as temporary:
        temporary.write_text("half")
        raise error
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_the_error_of_a_full_disk_is_raised(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError) as caught:
        files.write_text_atomic(path, "new")
    assert caught.value.errno == errno.ENOSPC
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_block_that_writes_nothing_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), files.atomic_path(tmp_path / "a.txt"):
        pass
    assert os.listdir(tmp_path) == []


def test_a_symbolic_link_is_replaced_or_followed_if_asked(tmp_path):
    (tmp_path / "real").mkdir()
    link, real = tmp_path / "a.txt", tmp_path / "real" / "b.txt"
    link.symlink_to(real)
    files.write_text_atomic(files.target_of(link), "new")
    assert link.is_symlink() and real.read_text() == "new"
    files.write_text_atomic(link, "newer")
    assert not link.is_symlink() and link.read_text() == "newer" and real.read_text() == "new"


def test_a_lock_does_not_follow_a_link(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "mine")
    with pytest.raises(InputError, match=r"\.lock is a symbolic link"), files.locked_folder(tmp_path / "run"):
        pass
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.parametrize("read", [files.read_json, files.read_toml])
def test_what_cannot_be_read_is_a_value_error(tmp_path, read):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "deep").write_text("a = " + "[" * 100_000 if read is files.read_toml else "[" * 100_000)
    (tmp_path / "latin").write_bytes(b'a = "\xe9"' if read is files.read_toml else b'"\xe9"')
    for name, reason in (("pipe", "not a regular file"), ("deep", "nested too deeply"), ("latin", "utf-8")):
        with pytest.raises(ValueError, match=reason):
            read(tmp_path / name)


def test_a_file_name_can_have_the_maximum_length(tmp_path):
    path = tmp_path / ("n" * 250 + ".txt")
    files.write_text_atomic(path, "new")
    assert path.read_text() == "new"


def test_text_is_written_as_utf8_with_its_line_ends(tmp_path):
    files.write_text_atomic(tmp_path / "a.txt", "µ\nb\r\n")
    assert (tmp_path / "a.txt").read_bytes() == "µ\nb\r\n".encode()


def test_json_keeps_order_and_has_no_nan(tmp_path):
    path = tmp_path / "a.json"
    obj = {"z": float("nan"), "a": [1.5, float("inf"), (-float("inf"), True, None)], "n": np.float32("nan")}
    files.write_json_atomic(path, obj | {"array": np.array([[1.0, np.nan]]), "count": np.int64(3)})
    text = path.read_text()
    assert "NaN" not in text and "Infinity" not in text and text.startswith('{\n  "z"') and text.endswith("\n")
    read = json.loads(text)
    assert list(read) == ["z", "a", "n", "array", "count"]
    assert read == {"z": None, "a": [1.5, None, [None, True, None]], "n": None, "array": [[1.0, None]], "count": 3}


def test_invalid_json_keeps_the_old_file(tmp_path):
    files.write_json_atomic(tmp_path / "a.json", {"a": 1})
    with pytest.raises(TypeError):
        files.write_json_atomic(tmp_path / "a.json", {"a": object()})
    assert json.loads((tmp_path / "a.json").read_text()) == {"a": 1}


def test_a_folder_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "folder"
    for exists in (False, True):
        if exists:
            (path / "a").unlink()
        with files.atomic_folder(path) as temporary:
            (temporary / "a").write_text("content")
            assert not (path / "a").exists()
        assert [entry.name for entry in tmp_path.iterdir()] == ["folder"] and (path / "a").read_text() == "content"
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error), files.atomic_folder(tmp_path / "b") as temporary:
            (temporary / "c").mkdir()
            raise error
    with pytest.raises(OSError, match="not empty"), files.atomic_folder(path):
        pass
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_a_folder_has_one_holder(tmp_path):
    path = tmp_path / "a" / "folder"
    with files.locked_folder(path):
        with pytest.raises(InUseError, match=r"folder is in use by another process.*wait"), files.locked_folder(path):
            pytest.fail("two holders")
        assert os.listdir(path) == [".lock"]
        (path / "file").write_text("content")
    assert os.listdir(path) == ["file"]
    with files.locked_folder(path), files.locked_folder(tmp_path / "other"):
        pass
    assert os.listdir(path) == ["file"] and os.listdir(tmp_path) == ["a"]


def test_an_empty_folder_made_for_the_lock_does_not_stay(tmp_path):
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error), files.locked_folder(tmp_path / "a" / "b"):
            raise error
    assert os.listdir(tmp_path) == []
    (tmp_path / "a").mkdir()
    with files.locked_folder(tmp_path / "a"):
        pass
    assert os.listdir(tmp_path) == ["a"]


def hold(path, held, end):
    with files.locked_folder(path):
        held.set()
        end.wait(60)


def test_the_lock_ends_with_its_process(tmp_path, processes):
    held, end = processes.Event(), processes.Event()
    process = processes.Process(target=hold, args=(tmp_path / "run", held, end))
    process.start()
    assert held.wait(60)
    with pytest.raises(InUseError), files.locked_folder(tmp_path / "run"):
        pass
    process.kill()
    process.join(60)
    assert os.listdir(tmp_path / "run") == [".lock"]
    with files.locked_folder(tmp_path / "run"):
        pass
    assert os.listdir(tmp_path / "run") == []


@pytest.mark.parametrize("cell", ["=1+2", "@SUM(A1)", "+cmd|' /C calc'!A0", "-a", "\t=1", "=", "==", "-1-2"])
def test_a_text_is_no_formula_in_a_spreadsheet(cell):
    assert files.spreadsheet_text(cell) == (cell if len(cell) == 1 else f"'{cell}")


@pytest.mark.parametrize("cell", ["-0.5", "+3", "-1e-3", "-inf", "-", "+", "a=b", "", "'=1", "x.png", -0.5, None, True])
def test_numbers_and_other_texts_stay(cell):
    assert files.spreadsheet_text(cell) is cell


def test_an_unchanged_toml_is_parsed_once_and_each_reader_has_its_own_values(tmp_path, monkeypatch):
    parsed = []
    monkeypatch.setattr("tomllib.loads", lambda text, loads=tomllib.loads: parsed.append(text) or loads(text))
    path = tmp_path / "config.toml"
    for text in ("[table]\nx = [1, 2]\n", "[table]\nx = [1, 3]\n"):
        path.write_text(text)
        files.read_toml(path)["table"]["x"].append(4)
        assert files.read_toml(path) == tomllib.loads(text)
    assert len(parsed) == 2 + 2  # two files, and the expected values
