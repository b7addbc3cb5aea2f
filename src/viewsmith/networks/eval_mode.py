"""Evaluation mode inside a training step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from viewsmith.core import distributed


@contextlib.contextmanager
def eval_mode(*modules: nn.Module) -> Iterator[None]:
    """Put modules into evaluation mode inside a ``with`` block: BatchNorm uses its running statistics unchanged.

    All processes first get the running statistics of the first process, which are saved with the model. So all
    processes compute the same function. Submodules that are already in evaluation mode stay in it.
    """
    training = [part for module in modules for part in module.modules() if part.training]
    norms = [part for part in training if isinstance(part, _BatchNorm)]
    distributed.broadcast_tensors(*(buffer for norm in norms for buffer in norm.buffers()))
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True
