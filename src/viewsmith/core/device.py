"""What a training step reads without waiting for a GPU."""

import functools
from collections.abc import Sequence

import torch
from torch import Tensor, nn

#: Types of devices whose values Python can read without waiting.
HOST = {"cpu"}


def on_host(x: Tensor) -> bool:
    """Whether Python can read the values of a tensor without waiting until a GPU has done all queued work."""
    return x.device.type in HOST


def constant(values: Sequence[float], like: Tensor) -> Tensor:
    """Numbers as a tensor (len(values),) like `like`, made once: it must not be changed."""
    return _constant(tuple(values), like.dtype, like.device)


@functools.cache
def _constant(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    # `torch.tensor` would make it on the host and wait for a copy. A tensor of inference mode could not be used in a
    # training later.
    with torch.inference_mode(False):
        return torch.cat([torch.full((1,), value, dtype=dtype, device=device) for value in values])


class HostNumbers(nn.Module):
    """Numbers ``numbers["rounds"]`` saved with a module: buffers, for which a read would wait, and Python numbers."""

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
