"""Rows that stay on disk: the same results as in memory, the same files, and what is said of damaged ones."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import viewsmith
from refusals import refusal
from viewsmith import Contrastive, DiffAug, PiNDA
from viewsmith.core import rows as row_source
from viewsmith.core.errors import InputError
from viewsmith.core.rows import ArrayRows
from viewsmith.data import load_dataset


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of a few rows."""
    monkeypatch.setattr(row_source, "BLOCK_VALUES", 800)


@pytest.fixture(scope="module")
def rows():
    """300 rows of eight clusters with 20 features."""
    rng = np.random.default_rng(0)
    centers = 2 * rng.normal(size=(8, 20))
    return (centers[rng.integers(0, 8, 300)] + rng.normal(size=(300, 20))).astype(np.float32)


@pytest.fixture
def on_disk(rows, tmp_path):
    np.save(tmp_path / "rows.npy", rows)
    return ArrayRows(np.load(tmp_path / "rows.npy", mmap_mode="r"))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"input_components": 6, "view_maker": "neighbor-mix"},
        {"view_maker": "mixup+noise", "scaling": "global"},
        {"view_maker": "corruption"},
    ],
    ids=str,
)
def test_a_fit_on_disk_is_the_fit_in_memory(options, rows, on_disk):
    one = Contrastive(epochs=3, random_state=0, **options).fit(rows)
    other = Contrastive(epochs=3, random_state=0, **options).fit(on_disk)
    assert [row["loss"] for row in other.metrics_] == pytest.approx([row["loss"] for row in one.metrics_], rel=1e-4)
    np.testing.assert_allclose(other.transform(on_disk), one.transform(rows), atol=2e-4)


@pytest.mark.parametrize("options", [{}, {"input_components": 6}, {"view_maker": "noise"}], ids=str)
def test_what_a_model_makes_of_rows_on_disk_is_bit_equal(options, rows, on_disk):
    model = Contrastive(epochs=1, random_state=0, **options).fit(rows)
    expected = model.transform(rows)
    assert np.array_equal(model.transform(on_disk), expected)
    assert np.array_equal(np.concatenate(list(model.transform_blocks(on_disk))), expected)
    views = model.views(rows, 3)
    np.testing.assert_allclose(model.views(on_disk, 3), views, atol=1e-6)
    assert np.array_equal(np.concatenate(list(model.view_blocks(rows, 3))), views)
    np.testing.assert_allclose(model.views(on_disk, 2, pool=rows[:50]), model.views(rows, 2, pool=rows[:50]), atol=1e-6)


def test_learned_views_train_on_rows_on_disk(rows, on_disk):
    one, other = (PiNDA(epochs=2, random_state=0).fit(x) for x in (rows, on_disk))
    np.testing.assert_allclose(other.transform(rows), one.transform(rows), atol=2e-4)


def test_generated_views_of_rows_on_disk_are_on_disk(rows, on_disk):
    options = {"epochs": 2, "generator_epochs": 1, "sampler_steps": 2, "random_state": 0}
    one, other = (DiffAug(**options).fit(x) for x in (rows, on_disk))
    np.testing.assert_allclose(other.transform(rows), one.transform(rows), atol=2e-3)


def test_few_axes_are_the_default_on_disk(tmp_path):
    np.save(tmp_path / "wide.npy", np.random.default_rng(0).normal(size=(80, 60)).astype(np.float32))
    source = ArrayRows(np.load(tmp_path / "wide.npy", mmap_mode="r"))
    assert Contrastive(epochs=1, random_state=0).fit(source).fitted_["input_components"] == 50
    assert Contrastive(epochs=1, random_state=0, view_maker="noise").fit(source).fitted_["input_components"] is None


def test_neighbors_need_few_axes(tmp_path):
    np.save(tmp_path / "wide.npy", np.random.default_rng(0).normal(size=(20, 201)).astype(np.float32))
    source = ArrayRows(np.load(tmp_path / "wide.npy", mmap_mode="r"))
    with pytest.raises(InputError, match=r"201 features, .* at most 200 principal axes"):
        Contrastive(epochs=1, random_state=0, input_components=None).fit(source)


@pytest.mark.parametrize(
    ("width", "options"), [(201, {}), (201, {"input_components": None}), (60, {"max_rows": 40})], ids=str
)
def test_rows_that_processes_share_are_trained_on_as_in_memory(width, options, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(90, width)).astype(np.float32))
    one, other = (load_dataset(tmp_path / "x.npy", shared=shared).x for shared in (False, True))
    assert isinstance(one, np.ndarray) and isinstance(other, ArrayRows) and other.small
    models = [Contrastive(epochs=2, random_state=0, **options).fit(x) for x in (one, other)]
    assert (
        models[0].fitted_.get("input_components")
        == models[1].fitted_.get("input_components")
        == (50 if width > 200 and not options else None)
    )
    assert models[0].summary_["rows"] == models[1].summary_["rows"] == 90
    losses = [[row["loss"] for row in model.metrics_] for model in models]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    np.testing.assert_allclose(models[1].transform(one), models[0].transform(one), atol=2e-3)  # the axes of noise


def test_a_resumed_run_on_disk_is_the_uninterrupted_one(on_disk, tmp_path):
    def model(epochs_of_stop=None):
        return Contrastive(epochs=4, random_state=0, input_components=6, checkpoint_every=0.0, batch_size=64)

    whole = model().fit(on_disk, run=tmp_path / "whole")
    from viewsmith.training import engine

    one_epoch = engine.Trainer._finish_epoch

    def stopped(trainer, phase):
        one_epoch(trainer, phase)
        if trainer.epochs_done == 2 and trainer.step == 0:
            raise KeyboardInterrupt

    engine.Trainer._finish_epoch = stopped
    try:
        with pytest.raises(KeyboardInterrupt):
            model().fit(on_disk, run=tmp_path / "stopped")
    finally:
        engine.Trainer._finish_epoch = one_epoch
    assert (tmp_path / "stopped" / "rows.npy").is_file()
    resumed = model().fit(on_disk, run=tmp_path / "stopped", resume=True)
    assert all(torch.equal(value, resumed.weights()[name]) for name, value in whole.weights().items())
    assert not (tmp_path / "stopped" / "rows.npy").exists()
    assert viewsmith.load(tmp_path / "whole").transform(on_disk).shape == (300, 256)


# ---- files and commands ---------------------------------------------------------------------------------------------


def test_a_changed_file_is_noticed(rows, tmp_path):
    np.save(tmp_path / "rows.npy", rows)
    data = load_dataset(tmp_path / "rows.npy", stream=True)
    assert np.array_equal(data.x[:3], rows[:3])
    np.save(tmp_path / "rows.npy", rows[:200])
    with pytest.raises(InputError, match=r"rows\.npy was changed while it was read"):
        data.x[:3]


@pytest.mark.parametrize("name", ["rows.npy", "rows.npz"])
def test_a_truncated_file_is_one_clear_line(name, rows, tmp_path):
    path = tmp_path / name
    np.save(path, rows) if name.endswith("npy") else np.savez(path, X=rows)
    path.write_bytes(path.read_bytes()[:-5000])
    assert "is it damaged" in refusal(load_dataset, path, stream=True)


def test_infinite_values_are_found_in_every_block(rows, tmp_path):
    rows = rows.astype(np.float64)
    rows[250, 3] = np.nan
    np.save(tmp_path / "rows.npy", rows)
    with pytest.raises(InputError, match=r"1 missing value \(NaN\) in 1 column \(counted from 0\): 3"):
        load_dataset(tmp_path / "rows.npy", stream=True)
    filled = load_dataset(tmp_path / "rows.npy", stream=True, impute="median")
    one, other = (Contrastive(epochs=1, random_state=0, impute="median").fit(x) for x in (rows, filled.x))
    for name in ("center", "scale", "fill"):
        torch.testing.assert_close(getattr(other.scaler_, name), getattr(one.scaler_, name))


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss is in kB on Linux alone")
@pytest.mark.parametrize("views", ["neighbors", "noise"])
def test_memory_does_not_grow_with_rows(views):
    command = [sys.executable, str(Path(__file__).with_name("streaming_process.py"))]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, "120000", views], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 70  # the rows take 144 MB
