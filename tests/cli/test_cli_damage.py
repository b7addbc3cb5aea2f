"""Runs with missing, truncated or changed files are refused in one line that names the problem."""

import os
import shutil

import pytest
from cli_tools import call, good


def flipped(content):
    """Flip one bit in the middle of the weights."""
    middle = len(content) * 2 // 3
    return content[:middle] + bytes([content[middle] ^ 16]) + content[middle + 1 :]


def damage(run, name, change):
    content = (run / name).read_bytes()
    (run / name).write_bytes(change(content))


@pytest.mark.parametrize(
    ("name", "change", "parts"),
    [
        ("model.safetensors", flipped, ("model.safetensors is damaged", "does not match its checksum")),
        ("config.toml", lambda content: content.replace(b'\\"columns', b'\\"colors'), ("data.schema",)),
        ("summary.json", lambda content: content[:50], ("summary.json is damaged",)),
    ],
)
def test_a_damaged_run(tmp_path, data, runs, name, change, parts):
    run = shutil.copytree(runs / "plain", tmp_path / "run")
    damage(run, name, change)
    assert call("embed", run, data / "x.npy", "--out", tmp_path / "h.npz").refused(*parts)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("name", ["config.toml", "model.safetensors"])
def test_a_pipe_in_a_run_is_not_waited_for(tmp_path, data, runs, name):
    run = shutil.copytree(runs / "plain", tmp_path / "run")
    (run / name).unlink()
    os.mkfifo(run / name)
    assert call("embed", run, data / "x.npy", "--out", tmp_path / "h.npz").refused(name, "not a regular file")


@pytest.mark.parametrize("name", ["model.safetensors", "initial.safetensors"])
def test_damaged_weights_of_a_finished_run_are_written_again(tmp_path, data, name):
    command = ("fit", data / "x.npy", "--out", tmp_path / "run", "--epochs", 2)
    good(*command)
    before = (tmp_path / "run" / name).read_bytes()
    damage(tmp_path / "run", name, flipped)
    good(*command, "--resume")
    assert (tmp_path / "run" / name).read_bytes() == before


@pytest.mark.parametrize("content", ["{", '{"embeddings": {"raw": 1}}'])
def test_a_damaged_evaluation(tmp_path, runs, content):
    run = shutil.copytree(runs / "plain", tmp_path / "run")
    (run / "evaluation.json").write_text(content)
    assert call("report", run).refused("evaluation.json is damaged", "delete it")


def test_a_run_without_weights(tmp_path, data, runs):
    given = (data / "x.npy", "--out", tmp_path / "h.npz")
    for name, part in (("model.safetensors", "has no model yet"), ("initial.safetensors", "no weights at")):
        run = shutil.copytree(runs / "plain", tmp_path / name)
        (run / name).unlink()
        assert call("embed", run, *given).refused(part)
    assert not (tmp_path / "h.npz").exists()
