"""A limit for the memory of a network that a configuration describes, which is checked before it is allocated."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from viewsmith.core.errors import InputError

#: What makes tensors of a size that is given.
MAKERS = frozenset(
    (
        *(torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.randint, torch.randperm),
        *(torch.arange, torch.linspace, torch.logspace, torch.eye, torch.empty_strided),
        *(torch.tril_indices, torch.triu_indices),
        *(Tensor.new_empty, Tensor.new_zeros, Tensor.new_ones, Tensor.new_full, Tensor.repeat),
    )
)
#: A network takes at most so many times the bytes of its weights, and so many more: fixed tables, and what is drawn and
#: then changed. Measured on all methods, ResNet-18, HyenaDNA and the default networks: at most 1.7 times.
TIMES, MORE = 8, 2**26


class AllocationLimit(TorchFunctionMode):
    """Within it, no tensors are made that together are much larger than the weights of a network.

    A network that is built from a configuration, which a stranger may have written, is as large as its numbers say; its
    weights have been read, so that there is memory for them.

    Parameters
    ----------
    weights : mapping of str to Tensor
        The weights that the network will get.
    config : path
        The configuration, for messages.
    """

    def __init__(self, weights: Mapping[str, Tensor], config: str | os.PathLike[str]) -> None:
        super().__init__()
        self.config, self.made = config, 0
        self.limit = TIMES * sum(each.numel() * each.element_size() for each in weights.values()) + MORE

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in MAKERS:
            self.made += _size(func, args, kwargs)
            if self.made > self.limit:
                raise InputError(
                    f"{self.config} describes a network that is much larger than its weights: restore it or train again"
                )
        return func(*args, **kwargs)

    def __enter__(self) -> Self:
        super().__enter__()
        return self


def _size(func: Callable[..., Tensor], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """Bytes of what a function makes, which is not made."""
    plain = {name: value for name, value in kwargs.items() if name not in ("generator", "out", "pin_memory")}
    if args and isinstance(args[0], Tensor):
        made = func(args[0].to("meta"), *args[1:], **plain)
    else:
        made = func(*args, **plain | {"device": "meta"})
    return made.numel() * made.element_size()
