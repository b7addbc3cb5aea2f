"""Memory of trainings: of CRL-TAC with images and steps, of GenView with the views in a cache."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from crl_tac_toys import TINY
from located_toys import bright, pointing
from viewsmith import CRLTAC
from viewsmith.core.tensors import stream


@pytest.mark.parametrize("output", ["representation", "projection"])
def test_blocks_of_images_give_the_same_representations(output, monkeypatch):
    images = bright(5)[0]
    model = pointing(CRLTAC(**TINY).fit(images))
    method, x = model.method_, torch.from_numpy(model.scaled(images))
    with torch.no_grad():
        expected, message = method._represent(x, output), method.diagnose(x, stream(0, "x"))
        sizes, represent = [], method._represent
        monkeypatch.setattr("viewsmith.methods.crl_tac.training.block_size", lambda x: 2)
        monkeypatch.setattr(
            method, "_represent", lambda part, output: sizes.append(len(part)) or represent(part, output)
        )
        torch.testing.assert_close(method.represent(x, output), expected)
        assert method.diagnose(x, stream(0, "x")) == pytest.approx(message)
        method.train().represent(x, output)
    assert sizes == [2, 2, 1, 5]  # in training mode in one block, for BatchNorm


def grown(script, *arguments):
    """Growth of the memory of a process in MB, which the script prints."""
    command = [sys.executable, str(Path(__file__).with_name(script)), *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss is in kB on Linux alone")
def test_images_of_crl_tac_train_in_little_memory():
    taken = [grown("memory_process.py", n, epochs) for n, epochs in ((300, 4), (1200, 2))]
    # Discovery, from which it starts, keeps features of at most 5,000 images, here 40 kB of each, and their posteriors.
    # Equal processes differ by up to 100 MB on a machine that takes pages back; views of all images would be 1 GB.
    assert max(taken) < 950 and taken[1] < taken[0] + 900 * 0.25


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss is in kB on Linux alone")
def test_the_views_of_a_cache_stay_on_disk():
    # 2 views of each row take 16 MB, 12 views 98 MB.
    few, many = (grown("view_cache_process.py", n_views) for n_views in (2, 12))
    assert many < few + 30 and many < 120
