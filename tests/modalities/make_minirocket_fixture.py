"""Write fixtures/minirocket.npz: features of a few random series by the package aeon, with its kernels and biases.

aeon needs an older numba than other packages here, so it has an environment of its own:

    pip install aeon==1.6.0
    python tests/modalities/make_minirocket_fixture.py [FILE]

``make test-interop`` runs it where aeon is installed, and compares with the fixture.
"""

import sys
from importlib import metadata
from pathlib import Path

import numpy as np

FIXTURE = Path(__file__).parent / "fixtures" / "minirocket.npz"
#: Channels and length; up to nine channels are read by a kernel.
SHAPES = {"one": (1, 41), "four": (4, 33), "twelve": (12, 20), "shortest": (1, 9)}


def features_of_aeon() -> dict[str, np.ndarray]:
    """For each shape six training series, the fitted parameters, and the features of three of the series."""
    from aeon.transformations.collection.convolution_based import MiniRocket

    found = {"version": np.array(metadata.version("aeon"))}
    for name, (channels, length) in SHAPES.items():
        x = np.random.default_rng(channels).normal(size=(6, channels, length)).astype(np.float32)
        transform = MiniRocket(n_kernels=84 * 4, random_state=0).fit(x)
        sizes, chosen, dilations, counts, biases = transform.parameters
        used = np.zeros((len(sizes), channels), dtype=np.uint8)
        for row, numbers in zip(used, np.split(chosen, np.cumsum(sizes)[:-1]), strict=True):
            row[numbers] = 1
        found |= {
            f"{name}_x": x[:3],
            f"{name}_channels": used,
            f"{name}_dilations": np.stack([dilations, counts], axis=1),
            f"{name}_biases": biases.astype(np.float32),
            f"{name}_features": np.asarray(transform.transform(x[:3]), dtype=np.float32),
        }
    return found


if __name__ == "__main__":
    np.savez_compressed(sys.argv[1] if len(sys.argv) > 1 else FIXTURE, **features_of_aeon())
