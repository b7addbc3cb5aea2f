"""What a training step may read without waiting for the device."""

from __future__ import annotations

import torch
from torch import Tensor, nn

#: Types of devices whose values Python reads without waiting.
HOST = {"cpu"}


def on_host(x: Tensor) -> bool:
    """Whether Python can read values of a tensor at once.

    On a GPU, reading one waits until all of the queued work is done. So a step reads values only where this holds, for
    instance to leave out work that changes nothing, and otherwise does that work.
    """
    return x.device.type in HOST


class HostNumbers(nn.Module):
    """Numbers that are saved with a module and read in its steps: ``numbers["rounds"]``.

    They are buffers, for the state dict, and Python numbers, because reading a buffer would wait for a GPU.

    Parameters
    ----------
    **values : int or float
        Names and initial values.
    """

    def __init__(self, **values: float) -> None:
        super().__init__()
        self._values = dict(values)
        for name, value in values.items():
            self.register_buffer(name, torch.tensor(value))
        self.register_load_state_dict_post_hook(_read_numbers)

    def __getitem__(self, name: str) -> float:
        return self._values[name]

    def __setitem__(self, name: str, value: float) -> None:
        self._values[name] = value
        self.get_buffer(name).fill_(value)


def _read_numbers(numbers: HostNumbers, keys: object) -> None:
    numbers._values = {name: buffer.item() for name, buffer in numbers.named_buffers()}
