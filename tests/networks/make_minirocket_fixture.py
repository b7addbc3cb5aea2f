"""Write fixtures/minirocket.npz: features of MiniRocket by the package aeon 1.6, with its kernels and biases.

aeon needs an older numba than other packages here, so it has an environment of its own:
``pip install aeon==1.6.0 && python tests/networks/make_minirocket_fixture.py``.
"""

from pathlib import Path

import numpy as np
from aeon.transformations.collection.convolution_based import MiniRocket

found = {}
for name, (channels, length) in {"one": (1, 41), "four": (4, 33), "twelve": (12, 20)}.items():
    x = np.random.default_rng(channels).normal(size=(6, channels, length)).astype(np.float32)
    transform = MiniRocket(n_kernels=84 * 4, random_state=0).fit(x)
    sizes, chosen, dilations, counts, biases = transform.parameters
    used = np.zeros((len(sizes), channels), dtype=np.uint8)
    for row, channel_numbers in zip(used, np.split(chosen, np.cumsum(sizes)[:-1]), strict=True):
        row[channel_numbers] = 1
    found |= {
        f"{name}_x": x[:3],
        f"{name}_channels": used if channels > 1 else np.ones_like(used),
        f"{name}_dilations": np.stack([dilations, counts], axis=1),
        f"{name}_biases": biases.astype(np.float32),
        f"{name}_features": np.asarray(transform.transform(x[:3]), dtype=np.float32),
    }
np.savez_compressed(Path(__file__).parent / "fixtures" / "minirocket.npz", **found)
