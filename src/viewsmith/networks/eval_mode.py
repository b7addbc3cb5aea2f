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
    processes compute the same function.
    """
    modes = [(module, module.training) for module in modules]
    norms = [each for module in modules for each in module.modules() if isinstance(each, _BatchNorm)]
    distributed.broadcast_tensors(*(buffer for norm in norms for buffer in norm.buffers()))
    for module in modules:
        module.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.train(training)
