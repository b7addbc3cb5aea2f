"""What a step may ask of the device that it runs on."""

from __future__ import annotations

from torch import Tensor

#: Types of devices whose values Python reads without waiting.
HOST = {"cpu"}


def on_host(x: Tensor) -> bool:
    """Whether Python can read values of a tensor at once.

    On a GPU, reading one waits until all of the queued work is done. So a step reads values only where this holds, for
    instance to leave out work that changes nothing, and otherwise does that work.
    """
    return x.device.type in HOST
