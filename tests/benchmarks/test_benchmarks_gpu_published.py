"""The published sizes on a GPU, at toy size on a CPU: every row trains in slices, is resumed, and is scored."""

import io
import json
import random

import numpy as np
import pytest
from PIL import Image

from benchmarks.common import data
from benchmarks.quality import gpu_published
from cases import SEED


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """CIFAR-10 as JPEG files in an array, and MNIST."""
    rng = np.random.default_rng(0)
    stored = {}
    for side, count in (("train", 40), ("test", 10)):
        files = []
        for color in rng.integers(0, 256, (count, 3), dtype=np.uint8):
            image = io.BytesIO()
            Image.fromarray(np.broadcast_to(color, (32, 32, 3)).copy()).save(image, "JPEG")
            files.append(image.getvalue())
        stored[f"jpeg_{side}"] = np.frombuffer(b"".join(files), np.uint8)
        stored[f"offset_{side}"] = np.cumsum([0, *map(len, files)])
        stored[f"y_{side}"] = np.arange(count) % 2
        stored[f"X_{side}"] = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
    np.savez(tmp_path / "cifar10.npz", **{name: stored[name] for name in stored if not name.startswith("X")})
    np.savez(tmp_path / "mnist.npz", **{name: stored[name] for name in stored if name[0] in "Xy"})
    monkeypatch.setenv("VIEWSMITH_DATA", str(tmp_path))
    yield tmp_path


def test_images_kept_as_jpeg_files_are_read(folder):
    found = data.load(gpu_published.ROWS["simclr"].data)
    assert found.x.shape == (40, 32, 32, 3) and found.x_test.shape == (10, 32, 32, 3) and found.x.dtype == np.uint8
    # Each image has one color, which JPEG keeps but for rounding.
    expected = np.random.default_rng(0).integers(0, 256, (40, 3), dtype=np.uint8)
    assert np.abs(found.x.astype(int) - expected[:, None, None]).max() < 6


@pytest.mark.slow
@pytest.mark.parametrize("name", random.Random(SEED).sample(list(gpu_published.ROWS), 2))  # --quick runs all in one go
def test_every_row_ends_in_slices_with_its_scores(name, folder, capsys):
    call = [name, "--quick", "--device", "cpu", "--minutes", "1e-9", "--folder", str(folder / "runs")]
    said, slices = "", 0
    while "finished" not in said:
        gpu_published.main([*call, "--results", str(folder)])
        said, slices = capsys.readouterr().out, slices + 1
        assert slices < 500
    assert slices > 1  # a part ends after its first step
    scores = json.loads(said.splitlines()[-1])
    assert scores["method"] == name and 0 <= scores["linear"] <= 1 and 0 <= scores["knn"] <= 1
    summary = json.loads((folder / "runs" / f"{name}-0-quick" / "summary.json").read_text())
    assert summary["status"] == "finished" and summary["seconds"]["training"] > 0
    assert not (folder / "gpu_published.jsonl").exists()
