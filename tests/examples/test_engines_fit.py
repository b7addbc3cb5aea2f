"""A linear-contrast model fitted over files by a plain loop, Ray Data, Spark and Dask: the same as in one process."""

import sys

import numpy as np
import pandas as pd
import pytest
from engine_examples import NAMES, engine

from refusals import refusal
from viewsmith import Contrastive, LinearContrast, load
from viewsmith.core.errors import InputError
from viewsmith.workflows.over_files import FitOverFiles, model_of

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.full_size  # as in the processes of the engines
SIDE = 12


def images(n, seed=0):
    """Bars of random places and sizes, uint8."""
    rng = np.random.default_rng(seed)
    made = rng.integers(0, 40, (n, SIDE, SIDE), dtype=np.uint8)
    for image in made:
        top, left = rng.integers(0, 6, 2)
        image[top : top + 2 + rng.integers(5), left : left + 6] += 180
    return made


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A run on the first images, and four files of images in nested lists."""
    folder, x = tmp_path_factory.mktemp("engines"), images(120)
    model = LinearContrast(random_state=0, n_components=6, features_options={"centers": 16}, max_samples=64)
    model.fit(x[:64]).save(folder / "run")
    for number in range(4):
        rows = [[np.asarray(row) for row in image] for image in x[number * 30 : number * 30 + 30]]
        pd.DataFrame({"image": rows}).to_parquet(folder / f"part-{number}.parquet")
    return folder, x, sorted(folder.glob("*.parquet"))


def plain(run, out, files, **options):
    work = FitOverFiles(run, out, **options)
    for _, row in work.pending(files).iterrows():
        work(pd.DataFrame({"file": [row["file"]]}))
    return work.finish()


@pytest.mark.parametrize("name", NAMES)
def test_files_give_the_result_of_their_sums_in_one_process(place, tmp_path, name, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    folder, x, files = place
    main = engine(name, "fit", plain)
    found = main(str(folder / "run"), str(tmp_path / "out"), [str(file) for file in files], column="image")
    model = load(folder / "run")
    parts = [model.sums(x[number * 30 : number * 30 + 30], f"part-{number}.parquet") for number in range(4)]
    expected = model.solve(parts[0] + parts[1] + parts[2] + parts[3]).transform(x)
    np.testing.assert_allclose(found.transform(x), expected, atol=1e-5)
    assert found.summary_["samples_of_views"] == 120 and found.summary_["files"] == 4
    found.save(tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").transform(x[:5]), found.transform(x[:5]))


def test_stopped_work_goes_on_and_any_split_gives_the_same(place, tmp_path):
    folder, x, files = place
    work = FitOverFiles(folder / "run", tmp_path / "out", column="image")
    work(work.pending(files[:3]))
    assert work.pending(files)["file"].tolist() == [str(files[3])]
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    again = FitOverFiles(folder / "run", tmp_path / "out", column="image")
    again(again.pending(files))
    assert all(path.stat().st_mtime_ns == at for path, at in before.items()) and len(again.parts()) == 2
    one_by_one = plain(folder / "run", tmp_path / "other", files, column="image")
    np.testing.assert_allclose(again.finish().transform(x), one_by_one.transform(x), atol=1e-5)


def test_sums_of_another_run_are_refused_and_the_run_itself_stays(place, tmp_path):
    folder, x, files = place
    before = model_of(str(folder / "run")).transform(x[:5])
    plain(folder / "run", tmp_path / "out", files, column="image")
    assert np.array_equal(model_of(str(folder / "run")).transform(x[:5]), before)
    other = LinearContrast(random_state=1, n_components=6, features_options={"centers": 16}).fit(x[56:])
    other.save(tmp_path / "other")
    assert "has sums of another run" in refusal(FitOverFiles(tmp_path / "other", tmp_path / "out").finish)


def test_what_cannot_be_summed_is_refused(place, tmp_path):
    folder, _, files = place
    out = tmp_path / "out"
    work = FitOverFiles(folder / "run", out, column="image")
    assert "has no sums of moments" in refusal(work.finish)
    frame = work.pending(files[:2])
    work(frame)
    work(frame[:1])
    with pytest.raises(InputError, match=r"part-0.parquet is in the parts sums-\w+.safetensors and sums-"):
        work.finish()
    for path in out.iterdir():
        path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InputError, match=r"is damaged .*: delete it, and do its files again"):
        work.pending(files)
    x = np.random.default_rng(0).normal(size=(40, 3))
    Contrastive(epochs=1, hidden=(4,), n_components=2, random_state=0).fit(x).save(tmp_path / "other")
    with pytest.raises(InputError, match="is a run of contrastive: only linear-contrast is fitted over files"):
        FitOverFiles(tmp_path / "other", out).finish.__self__._model()


def test_partial_fit_is_the_fit_of_all_samples(place):
    _, x, _ = place
    options = {"random_state": 0, "n_components": 6, "features_options": {"centers": 16}}
    parts = LinearContrast(**options).partial_fit(x[:60]).partial_fit(x[60:])
    assert parts.summary_["samples_of_views"] == 120
    first = LinearContrast(**options).fit(x[:60])
    assert not np.allclose(parts.transform(x), first.transform(x), atol=1e-3)
    same = first.solve(first.method_.sums + first.sums(x[60:], int(first.method_.sums.all_but(None).samples)))
    assert np.array_equal(parts.transform(x), same.transform(x))


def test_partial_fit_of_a_loaded_model_is_refused(place):
    folder, x, _ = place
    assert "a loaded or copied model is without its sums over views" in refusal(load(folder / "run").partial_fit, x)
