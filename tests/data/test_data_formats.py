"""Readers as parts of the registry: by endings, in folders, with own options; `python FILE` writes the table."""

from pathlib import Path

import numpy as np
import pytest

from refusals import refusal
from viewsmith.core.registry import entries
from viewsmith.data import DataOptions, FileContents, load_dataset, reader
from viewsmith.data.reading import by_ending, find_reader

PAGE = Path(__file__).parents[2] / "docs" / "data.md"
START, END = "<!-- readers -->\n", "\n<!-- end -->"


def table():
    """The table of docs/data.md."""
    rows = ["| reader | files | modality | extra | command |", "|---|---|---|---|---|"]
    for entry in entries("reader"):
        endings = " ".join([*entry.tag("endings"), *(f"*{ending}" for ending in entry.tag("in_folders"))])
        extra = f"`{entry.tag('extra')}`" if entry.tag("extra") else ""
        modality = ", ".join(entry.modalities) or "by the array"
        command = f"`viewsmith fit {entry.tag('example')} --out run`"
        rows.append(f"| {entry.name}: {entry.help} | `{endings}` | {modality} | {extra} | {command} |")
    return "\n".join(rows)


def test_the_page_lists_the_readers():
    assert PAGE.read_text().partition(START)[2].partition(END)[0] == table()


def test_every_reader_says_what_it_reads_and_with_what():
    extras = {
        "",
        "astronomy",
        "czi",
        "dna",
        "excel",
        "image",
        "lif",
        "medical",
        "microscopy",
        "mrc",
        "nd2",
        "omics",
        "parquet",
    }
    extras |= {"signals"}
    for entry in entries("reader"):
        assert entry.help and entry.tag("noun") and entry.tag("example") and entry.tag("extra") in extras, entry.name
        assert entry.tag("endings") or entry.tag("in_folders"), entry.name
        assert all(ending == ending.lower() and ending[0] == "." for ending in entry.tag("endings")), entry.name


def test_a_reader_names_the_modality_its_endings_and_its_options(tmp_path, own_parts):
    @reader("pairs", ".pairs", help="two channels", noun="a .pairs file", modality="series", options=("use_rep",))
    def read_pairs(path, request):
        assert request.use_rep in (None, "raw")
        x = np.loadtxt(path, np.float32).reshape(-1, 2, 8)
        return FileContents(x, np.arange(len(x)) % 2, row_names=list("abcdefghij"), modality="series")

    x = np.random.default_rng(0).normal(size=(10, 16)).astype(np.float32)
    np.savetxt(tmp_path / "x.PAIRS", x)
    for options in ({}, {"use_rep": "raw"}):
        data = load_dataset(tmp_path / "x.PAIRS", **options)
        assert data.modality == "series" and data.row_names == list("abcdefghij")
        np.testing.assert_allclose(data.x.reshape(10, 16), x, rtol=1e-5)
    flat = load_dataset(tmp_path / "x.PAIRS", modality="vectors")  # what the user says comes first
    assert flat.modality == "vectors" and flat.x.shape == (10, 16)
    message = refusal(load_dataset, "wine", use_rep="raw")
    assert message.startswith("wine is not an .h5ad file or an .h5mu file or a .pairs file, so use_rep=raw has no")


def test_what_a_reader_gives_is_checked(tmp_path, own_parts):
    for endings, message in ((("mine",), "has the ending 'mine', expected a dot first"), ((), "has no endings: give")):
        with pytest.raises(ValueError, match=f"the reader 'mine' {message}"):
            reader("mine", *endings, help="mine", noun="mine")
    given = [np.eye(20), FileContents(np.eye(20), list("ab") * 10)]
    reader("mine", ".mine", help="mine", noun="mine")(lambda path, request: given.pop())
    (tmp_path / "x.mine").write_text("")
    assert load_dataset(tmp_path / "x.mine").y.tolist() == list("ab") * 10
    with pytest.raises(TypeError, match="the reader 'mine' returned ndarray, expected FileContents"):
        load_dataset(tmp_path / "x.mine")


def test_a_later_reader_replaces_one_of_the_same_ending(tmp_path, own_parts):
    (tmp_path / "x.npy").write_text("nothing")

    @reader("other npy", ".npy", help="ones", noun="ones")
    def read_ones(path, request):
        return FileContents(np.eye(4))

    assert load_dataset(tmp_path / "x.npy").x.tolist() == np.eye(4).tolist()


@pytest.mark.parametrize(("counts", "expected"), [((3, 2), "images"), ((2, 3), "dots"), ((0, 1), "dots")])
def test_the_reader_of_most_files_reads_a_folder(tmp_path, own_parts, counts, expected):
    @reader("dots", ".dots", in_folders=(".dot", ".dot.gz"), help="dots", noun="a folder of dots")
    def read_dots(path: Path, request: DataOptions) -> FileContents:
        raise NotImplementedError

    for ending, count in zip((".png", ".dot"), counts, strict=True):
        for number in range(count):
            (tmp_path / "a").mkdir(exist_ok=True)
            (tmp_path / "a" / f"{number}{ending}{'.gz' * (ending == '.dot' and number % 2)}").touch()
    for hidden in range(4):
        (tmp_path / f".{hidden}.png").touch()
    (tmp_path / "run").mkdir()
    for name in ("config.toml", "model.safetensors", *(f"{i}.png" for i in range(9))):
        (tmp_path / "run" / name).touch()
    assert find_reader(tmp_path).name == expected


def test_endings_are_unique_and_of_folders_have_a_slash(tmp_path):
    endings = [ending for entry in entries("reader") for ending in entry.tag("endings")]
    assert sorted(endings) == sorted(by_ending())
    (tmp_path / "cells.zarr").mkdir()
    assert find_reader(tmp_path / "cells.zarr").name == "h5ad"
    (tmp_path / "x.csv").mkdir()
    assert find_reader(tmp_path / "x.csv").name == "images"  # which says what is expected


if __name__ == "__main__":
    before, _, rest = PAGE.read_text().partition(START)
    PAGE.write_text(before + START + table() + END + rest.partition(END)[2])
