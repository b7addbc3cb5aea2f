"""Files that are either the old one or the new one."""

import json
import math

import numpy as np
import pytest

from viewsmith.core.files import atomic_path, write_json_atomic, write_text_atomic


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "a.txt"
    write_text_atomic(path, "old")
    with atomic_path(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
        assert temporary.parent == tmp_path and temporary.suffix == ".txt"
    assert path.read_text() == "new"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(error), atomic_path(path) as temporary:
        temporary.write_text("half")
        raise error
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_block_that_writes_nothing_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_path(tmp_path / "a.txt"):
        pass
    assert names(tmp_path) == []


def test_the_file_behind_a_link_changes_and_the_link_stays(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    write_text_atomic(link, "new")
    assert link.is_symlink() and target.read_text() == "new"


def test_json_has_no_nan_and_takes_numpy(tmp_path):
    path = tmp_path / "a.json"
    content = {"b": np.float32(1.5), "a": [math.nan, math.inf, np.array([1, 2])], "c": (None, True, "é")}
    write_json_atomic(path, content)
    text = path.read_text(encoding="utf-8")
    assert json.loads(text) == {"b": 1.5, "a": [None, None, [1, 2]], "c": [None, True, "é"]}
    assert list(json.loads(text)) == ["b", "a", "c"] and "NaN" not in text


def test_what_is_no_json_leaves_no_file(tmp_path):
    with pytest.raises(TypeError):
        write_json_atomic(tmp_path / "a.json", {"a": object()})
    assert names(tmp_path) == []
