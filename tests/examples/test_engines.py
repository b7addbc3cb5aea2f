"""Files of parquet by Ray Data, Spark and Dask in their local modes, and by a plain loop: each file once."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from engine_examples import ENGINES, EXAMPLES, NAMES, engine

import viewsmith
from viewsmith import Contrastive, Discovery
from viewsmith.core.errors import InputError
from viewsmith.workflows import over_files
from viewsmith.workflows.over_files import OverFiles

pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A run on four columns, and five files with a key and these columns."""
    folder = tmp_path_factory.mktemp("engines")
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32), columns=list("abcd"))
    with warnings.catch_warnings(action="ignore"):
        Contrastive(epochs=1, random_state=0, hidden=(8,), n_components=6).fit(table).save(folder / "run")
    table.insert(0, "key", [f"r{i}" for i in range(300)])
    for number in range(5):
        table[number * 60 : (number + 1) * 60].to_parquet(folder / f"part-{number}.parquet")
    return folder, table, sorted(folder.glob("*.parquet"))


def plain(run, out, files, task="embed", **options):
    work = OverFiles(task, out, run=run, **options)
    return work(work.pending(files)).to_dict("records")


@pytest.mark.parametrize("name", NAMES)
def test_each_file_has_one_result_and_stopped_work_goes_on(place, tmp_path, name, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    folder, table, files = place
    main, out = engine(name, "embed", plain), tmp_path / "out"
    first = main(str(folder / "run"), str(out), [str(file) for file in files[:2]], keep=["key"])
    assert sorted(row["rows"] for row in first) == [60, 60]
    before = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    rest = main(str(folder / "run"), str(out), [str(file) for file in files], keep=["key"])
    assert sorted(row["file"] for row in rest) == [str(file) for file in files[2:]]
    assert all(path.stat().st_mtime_ns == at for path, at in before.items())
    assert sorted(path.name for path in out.iterdir()) == [file.name for file in files]
    made = pd.concat([pd.read_parquet(out / file.name) for file in files], ignore_index=True)
    assert made["key"].tolist() == table["key"].tolist()
    expected = viewsmith.load(folder / "run").transform(table[list("abcd")])
    np.testing.assert_allclose(made[[f"h{i}" for i in range(6)]].to_numpy(), expected, atol=1e-5)
    assert list(main(str(folder / "run"), str(out), [str(file) for file in files], keep=["key"])) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ENGINES)
def test_engines_locate_and_test_symmetries_too(tmp_path, name, small_searches, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    main, rng = engine(name, "embed", plain), np.random.default_rng(0)
    texts = ["".join(rng.choice(list("ACGT"), 60)) for _ in range(600)]
    texts = [text[: 20 + i % 9] + "TGACTCATTGAC" + text[32 + i % 9 :] for i, text in enumerate(texts)]
    model = Discovery(modality="dna", windows=[12], random_state=0).fit(texts)
    model.save(tmp_path / "run")
    files = [str(tmp_path / f"part-{number}.parquet") for number in range(2)]
    for number, file in enumerate(files):
        pd.DataFrame({"dna": texts[number * 300 : (number + 1) * 300]}).to_parquet(file)
    done = main(str(tmp_path / "run"), str(tmp_path / "found"), files, "locate", column="dna")
    assert sorted(row["file"] for row in done) == files
    for number, file in enumerate(files):
        made = pd.read_parquet(tmp_path / "found" / Path(file).name)
        assert made["start"].tolist() == model.locate(texts[number * 300 : (number + 1) * 300])["start"].tolist()
    assert len(main(None, str(tmp_path / "tested"), files, "symmetries", column="dna")) == 2
    assert "reverse-complement" in set(pd.read_parquet(tmp_path / "tested" / "part-0.parquet")["name"])


@pytest.mark.slow
def test_spark_workers_have_the_python_of_the_driver(place, tmp_path, monkeypatch):
    pytest.importorskip(ENGINES["spark"])
    folder, _, files = place
    (tmp_path / "python3").write_text("#!/bin/sh\necho this Python has no viewsmith >&2\nexit 1\n")
    (tmp_path / "python3").chmod(0o755)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    command = [sys.executable, EXAMPLES / "spark_embed.py", folder / "run", tmp_path / "out", files[0]]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(pd.read_parquet(tmp_path / "out" / files[0].name)) == 60


def test_places_of_parts_keep_their_keys(tmp_path, small_searches):
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("ACGT"), 60)) for _ in range(80)]
    texts = [text[: 20 + i % 9] + "TGACTCATTGAC" + text[32 + i % 9 :] for i, text in enumerate(texts)]
    model = Discovery(modality="dna", windows=[12], random_state=0).fit(texts)
    model.save(tmp_path / "run")
    pd.DataFrame({"name": [f"s{i}" for i in range(80)], "dna": texts}).to_parquet(tmp_path / "x.parquet")
    plain(tmp_path / "run", tmp_path / "out", [tmp_path / "x.parquet"], "locate", column="dna", keep=["name"])
    made, expected = pd.read_parquet(tmp_path / "out" / "x.parquet"), model.locate(texts)
    assert len(made) == len(expected) > 60 and made["start"].tolist() == expected["start"].tolist()
    assert made["name"].tolist() == [f"s{i}" for i in expected["sample"]]


def test_symmetries_of_images_in_nested_lists(tmp_path):
    images = np.tile(np.linspace(0, 255, 12), (300, 12, 1)) + np.random.default_rng(0).normal(0, 3, (300, 12, 12))
    pixels = images.clip(0, 255).astype(np.uint8)
    pd.DataFrame({"image": [image.tolist() for image in pixels]}).assign(
        image=lambda table: table["image"].map(lambda rows: [np.asarray(row, np.uint8) for row in rows])
    ).to_parquet(tmp_path / "x.parquet")
    plain(None, tmp_path / "out", [tmp_path / "x.parquet"], "symmetries", column="image")
    made = pd.read_parquet(tmp_path / "out" / "x.parquet").set_index("name")
    assert not made.loc["mirror", "on_the_data"] and made.loc["mirror", "told_apart"] > 0.9


def test_a_result_appears_as_a_whole(place, tmp_path, monkeypatch):
    folder, _, files = place
    work = OverFiles("embed", tmp_path, run=folder / "run", keep=["key"])

    def full(self, path, **options):
        Path(path).write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", full)
    with pytest.raises(OSError, match="no space left"):
        work(work.pending(files[:1]))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("fit", {}, "task is 'fit', expected embed, locate or symmetries"),
        ("embed", {"run": None}, "need a run"),
        ("embed", {"keep": ["id"]}, r"part-0.parquet has no column 'id': its columns are key, a, b, c, d"),
    ],
)
def test_bad_options_are_refused(place, tmp_path, task, options, message):
    folder, _, files = place
    with pytest.raises(InputError, match=message):
        plain(**{"run": folder / "run", "out": tmp_path, "files": files, "task": task} | options)


def test_two_files_of_one_name_are_refused(place, tmp_path):
    folder, _, files = place
    with pytest.raises(InputError, match=r"two files are called part-0.parquet"):
        plain(folder / "run", tmp_path, [files[0], folder / "other" / files[0].name])


def test_the_data_are_not_their_results(place):
    folder, _, files = place
    before = {path: path.read_bytes() for path in files}
    work = OverFiles("embed", folder / "run" / "..", run=folder / "run")
    for call in (lambda: work.pending(files), lambda: work(pd.DataFrame({"file": list(map(str, files))}))):
        with pytest.raises(InputError, match=r"the folder of .*part-0\.parquet itself: give another folder"):
            call()
    assert {path: path.read_bytes() for path in files} == before


def test_files_that_cannot_be_read_or_written_are_named(place, tmp_path):
    folder, table, files = place
    (tmp_path / "bad.parquet").write_bytes(files[0].read_bytes()[:-50])
    (tmp_path / "no.parquet").write_text("no parquet")
    table.rename(columns={"key": "h0"}).to_parquet(tmp_path / "twice.parquet")
    for name, keep, said in (
        ("bad.parquet", [], "cannot read .*bad.parquet as a parquet file"),
        ("no.parquet", [], "cannot read .*no.parquet as a parquet file"),
        ("gone.parquet", [], "gone.parquet"),
        ("twice.parquet", ["h0"], "twice.parquet cannot be written: ValueError: Duplicate column names"),
    ):
        with pytest.raises(InputError, match=said) as caught:
            plain(folder / "run", tmp_path / "out", [tmp_path / name], keep=keep)
        assert "\n" not in str(caught.value)
    assert list((tmp_path / "out").iterdir()) == []


def test_each_place_has_the_key_of_its_row(place, tmp_path, monkeypatch):
    folder, _, files = place
    places = pd.DataFrame({"sample": [2, 2, 0], "start": [1, 5, 3]}, index=[7, 8, 9])
    monkeypatch.setitem(over_files._TASKS, "locate", lambda work, samples: places.reset_index(drop=True))
    plain(folder / "run", tmp_path, files[1:2], "locate", keep=["key"])
    made = pd.read_parquet(tmp_path / files[1].name)
    assert made.to_dict("list") == {"key": ["r62", "r62", "r60"], "sample": [2, 2, 0], "start": [1, 5, 3]}


def test_a_worker_has_as_many_threads_as_it_is_given(tmp_path):
    OverFiles("symmetries", tmp_path, threads=2)(pd.DataFrame({"file": []}))
    assert torch.get_num_threads() == 2
