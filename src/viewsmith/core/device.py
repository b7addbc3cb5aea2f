"""Values that a training step can read without waiting for a GPU."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

#: Types of devices whose values Python can read without waiting.
HOST = {"cpu"}


def on_host(x: Tensor) -> bool:
    """Whether Python can read the values of a tensor without waiting.

    On a GPU, reading a value waits until all queued work is done. A training step therefore reads values only if this
    is True, for example to skip work that would change nothing. Otherwise the step does that work.
    """
    return x.device.type in HOST


def constant(values: Sequence[float], like: Tensor) -> Tensor:
    """Numbers as a tensor (len(values),) with the dtype and on the device of `like`.

    Each number is the argument of an operation on the device; `torch.tensor` would make the tensor on the host and wait
    for its copy.
    """
    return torch.cat([like.new_full((1,), value) for value in values])


class HostNumbers(nn.Module):
    """Numbers that are saved with a module and can be read in every step: ``numbers["rounds"]``.

    Each number is stored twice: as a buffer, which is part of the state dict, and as a Python number, because reading a
    buffer would wait for a GPU.

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
