"""Peak memory of CRL-TAC: fit of one epoch, then transform and locate of 256 images; each case in a new process.

Target: at most 1.5 GB for 6,000 gray images of 84 x 84 pixels, and no growth with the number of images but that of
their pixels. The peak includes Python and all packages (0.4 GB).

    export OMP_NUM_THREADS=1
    python -m benchmarks.speed.methods.crl_tac_memory [--threads 1] [--case 6000 84 1 crl-cnn] ... [--quick]

A case is the number of images, their side, their channels and the encoder. All cases take minutes on one core.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence

import numpy as np

from benchmarks.common.runner import ROOT
from benchmarks.speed.timing import parser, read, record

CASES = [
    ("6000", "84", "1", "crl-cnn"),
    ("600", "224", "1", "crl-cnn"),
    ("1200", "224", "1", "crl-cnn"),
    ("300", "224", "3", "crl-cnn"),
    ("256", "84", "1", "resnet18-dense"),
]


def measure(images: int, side: int, channels: int, encoder: str) -> dict[str, object]:
    from viewsmith import CRLTAC

    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (images, side, side, channels), dtype=np.uint8)
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so short a training does not start the channel
        model = CRLTAC(epochs=1, encoder=encoder, random_state=0).fit(x)
    fitted = time.process_time() - started
    model.transform(x[:256])
    model.locate(x[:256])
    return {
        "images": images,
        "side": side,
        "channels": channels,
        "encoder": encoder,
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 3),
        "pixels_gb": round(x.nbytes / 1e9, 3),
        "fit_seconds": round(fitted, 1),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("--case", nargs=4, action="append", metavar=("IMAGES", "SIDE", "CHANNELS", "ENCODER"))
    options.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = read(options, arguments)
    for images, side, channels, encoder in given.case or ([("16", "40", "1", "crl-cnn")] if given.quick else CASES):
        if given.child or given.quick:
            row = measure(int(images), int(side), int(channels), encoder)
        else:
            command = [sys.executable, "-m", "benchmarks.speed.methods.crl_tac_memory", "--child", "--case"]
            command += [images, side, channels, encoder, "--threads", str(given.threads)]
            done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
            row = json.loads(done.stdout.splitlines()[-1])
        if given.child:
            print(json.dumps(row))
        else:
            record("crl_tac_memory", row, given)


if __name__ == "__main__":
    main()
