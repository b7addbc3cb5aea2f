"""Bad input: exit code 2, one line with what was given and what to do, and no files."""

import contextlib
import errno
import os
import pathlib
import resource

import pytest
from cli_tools import call, files, good

from viewsmith.cli.errors import explain
from viewsmith.core import registry
from viewsmith.modalities import Modality


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("[parameters]\ndepth = 3\n", ("no option 'depth'",)),
        ("method = ['pinda']\n", ("unknown method", "['pinda']")),
        ("epochs = 1\n\xff", ("not valid TOML",)),
    ],
)
def test_invalid_configuration_files(tmp_path, content, parts):
    (tmp_path / "c.toml").write_text(content, encoding="latin-1")
    assert call("fit", "wine", "--out", tmp_path / "run", "--config", tmp_path / "c.toml").refused(*parts)
    assert call("fit", "wine", "--out", tmp_path / "run", "--config", tmp_path).refused("not a regular file")
    assert [path.name for path in tmp_path.iterdir()] == ["c.toml"]


# ---- the output -----------------------------------------------------------------------------------------------------


def test_a_folder_with_other_files(tmp_path):
    (tmp_path / "file").write_text("mine")
    before = files(tmp_path)
    assert call("fit", "wine", "--out", tmp_path).refused("is not a run of viewsmith", "empty or new folder")
    assert call("fit", "wine", "--out", tmp_path, "--resume").refused("is not a run of viewsmith")
    assert call("fit", "wine", "--out", tmp_path / "file").refused("is not a run of viewsmith")
    assert call("fit", "wine", "--out", tmp_path / "file" / "run").refused("Not a directory")
    assert call("fit", "wine", "--out", tmp_path / ("x" * 300)).refused("File name too long")
    assert files(tmp_path) == before


def test_a_folder_without_write_permission(tmp_path, data, runs, monkeypatch):
    def denied(path, *_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(pathlib.Path, "mkdir", denied)
        result = call("fit", "wine", "--out", tmp_path / "run", "--epochs", 1)
    assert result.refused(f"cannot use {tmp_path / 'run'}: Permission denied")
    with monkeypatch.context() as patch:
        opened = pathlib.Path.open
        patch.setattr(pathlib.Path, "open", lambda p, mode="r", **o: denied(p) if "w" in mode else opened(p, mode, **o))
        results = [
            call("embed", runs / "plain", data / "x.npy", "--out", tmp_path / "h.npz"),
            call("views", runs / "plain", data / "x.npy", "--out", tmp_path / "h.npz"),
        ]
    for result in results:
        assert result.refused(f"cannot use {tmp_path / 'h.npz'}: Permission denied", "another path")
    assert list(tmp_path.iterdir()) == []


@contextlib.contextmanager
def file_size(size):
    """Limits the size of the files that this process may write, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:  # before pytest writes to a log that may be longer
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
def test_a_full_disk_when_embedding(tmp_path, data, runs, suffix):
    out = tmp_path / f"h{suffix}"
    out.write_text("old")
    with file_size(5000):
        result = call("embed", runs / "plain", data / "x.npy", "--out", out)
    assert result.refused(f"no space left to write {out}", "free some space")
    assert [path.name for path in tmp_path.iterdir()] == [out.name] and out.read_text() == "old"


# Bytes of free space: less than a configuration, less than the weights, less than a checkpoint.
@pytest.mark.parametrize("size", [500, 20_000, "checkpoint"])
@pytest.mark.parametrize("there", [False, True])
def test_a_full_disk_when_fitting(tmp_path, data, runs, size, there):
    run = tmp_path / "deep" / "run"
    if there:
        run.mkdir(parents=True)
    if size == "checkpoint":
        size = (runs / "plain" / "initial.safetensors").stat().st_size + 100
    with file_size(size):
        result = call("fit", data / "x.npy", "--out", run, "--epochs", 2)
    assert result.refused(f"no space left to write {run}")
    assert list(tmp_path.rglob("*")) == ([run.parent, run] if there else [])


def test_a_disk_that_fills_up_does_not_damage_the_checkpoint(tmp_path, data, runs, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    command = ("fit", data / "x.npy", "--out", tmp_path / "run", "--epochs", 2)
    with monkeypatch.context() as patch:
        patch.setattr("viewsmith.training.run.RunFolder.write_model", full)
        assert call(*command).refused("no space left", "existing files are unchanged")
    assert call(*command).refused("add --resume")
    good(*command, "--resume")
    name = "model.safetensors"
    assert (tmp_path / "run" / name).read_bytes() == (runs / "plain" / name).read_bytes()


def test_too_little_memory(tmp_path, data):
    result = call("fit", data / "x.npy", "--out", tmp_path / "run", "--set", "hidden=999999999999")
    assert result.refused("not enough memory", "batch_size")
    assert list(tmp_path.iterdir()) == []


# ---- data for a run -------------------------------------------------------------------------------------------------


# ---- internal errors ------------------------------------------------------------------------------------------------


def test_an_internal_error_is_one_line_and_exit_code_1(data, runs, monkeypatch):
    def fault(*_, **__):
        raise RuntimeError("one\ntwo")

    monkeypatch.setattr("viewsmith.workflows.runs.load_for", fault)
    command = ("evaluate", runs / "given", data / "given.npz")
    result = call(*command)
    assert (result.code, result.out) == (1, "")
    assert result.err == "error: RuntimeError: one two; a bug in viewsmith: report it with the output of --debug\n"
    with_traceback = call(*command, "--debug").err
    assert with_traceback.startswith("Traceback") and with_traceback.endswith(result.err)
    # Where there are plug-ins, it may be theirs; here one in which it is raised.
    monkeypatch.setattr(registry, "others", lambda: ["toys"])
    assert (
        call(*command).err
        == "error: RuntimeError: one two; a bug in a plug-in (toys) or in viewsmith: --debug shows where\n"
    )
    monkeypatch.setattr(registry, "others", lambda: [__name__])
    assert f"RuntimeError: one two; raised in the plug-in {__name__}, {__file__}, line" in call(*command).err


def test_debug_shows_the_traceback_of_bad_input(tmp_path):
    result = call("fit", "nowhere.csv", "--out", tmp_path / "run", "--debug")
    assert result.code == 2 and result.err.startswith("Traceback")
    assert result.err.splitlines()[-1].startswith("error: ")


def test_a_loss_that_is_not_finite_ends_with_exit_code_1(tmp_path, data):
    result = call("fit", data / "x.npy", "--out", tmp_path / "run", "--batch-size", 20, "--set", "learning_rate=1e30")
    (message,) = [line for line in result.err.splitlines() if not line.startswith("warning: ")]
    assert result.code == 1 and message.startswith("error: the loss of")
    assert "learning rate" in result.err and list(tmp_path.iterdir()) == []


def test_an_abstract_method_without_a_message_is_named():
    class Half(Modality):
        name = "half"

    with pytest.raises(NotImplementedError) as error:
        Half().input_layer((2,))
    assert explain(error.value)[1].startswith("NotImplementedError: Half has no input_layer; ")
