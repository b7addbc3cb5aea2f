"""The memory that a training takes does not grow with the number of images and steps."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss is in kB on Linux alone")
def test_images_of_crl_tac_train_in_little_memory():
    command = [sys.executable, str(Path(__file__).with_name("memory_process.py"))]
    taken = []
    for n, epochs in ((600, 8), (3000, 4)):  # 24 and 48 steps
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [*command, str(n), str(epochs)], capture_output=True, text=True, env=environment, timeout=300
        )
        assert done.returncode == 0, done.stderr
        taken.append(float(done.stdout))
    assert max(taken) < 850 and taken[1] < taken[0] + 150
