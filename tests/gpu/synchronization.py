"""Finds, on any device, the operations of a training step for which a CPU would wait for a GPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten

#: They return a Python number, or a tensor whose shape depends on values.
WAITING = {
    *(aten._local_scalar_dense.default, aten.equal.default, aten.nonzero.default, aten.masked_select.default),
    *(aten.unique_dim.default, aten._unique2.default, aten.unique_consecutive.default, aten.bincount.default),
    *(aten.repeat_interleave.Tensor, aten.linalg_eigh.default),
    # A tensor of Python numbers (torch.tensor, new_tensor, a list as an index), which is copied to the device.
    aten.lift_fresh.default,
}


class Synchronized(AssertionError):
    """A step waits for the device."""


class NoSynchronization(TorchDispatchMode):
    """While it is entered, operations that wait for the device raise, whatever the device is.

    On a GPU ``torch.cuda.set_sync_debug_mode("error")`` finds the same and also copies from one device to another; this
    needs no GPU, and so it is checked in every run of the tests.
    """

    def __enter__(self) -> NoSynchronization:
        self.tolist = Tensor.tolist  # it is no operation that is dispatched
        Tensor.tolist = _waits  # type: ignore[method-assign]
        return super().__enter__()  # type: ignore[no-any-return]

    def __exit__(self, *error: Any) -> None:
        Tensor.tolist = self.tolist  # type: ignore[method-assign]
        super().__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        masks = func in (aten.index.Tensor, aten.index_put_.default, aten.index_put.default) and any(
            isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) for index in args[1]
        )
        if masks or func in WAITING:
            raise Synchronized(f"{func} waits for the device")
        return func(*args, **(kwargs or {}))


def _waits(x: Tensor) -> Any:
    raise Synchronized("tolist waits for the device")
