"""Networks in evaluation mode inside a training step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from viewsmith.core import distributed


@contextlib.contextmanager
def evaluating(*modules: nn.Module) -> Iterator[None]:
    """Modules in evaluation mode for a while: BatchNorm takes no statistics, and uses those that it has.

    Of several processes all get those of the first, which are kept with a model, so that they compute alike.
    """
    before = [(module, module.training) for module in modules]
    norms = [each for module in modules for each in module.modules() if isinstance(each, _BatchNorm)]
    distributed.broadcast_tensors(*(buffer for norm in norms for buffer in norm.buffers()))
    for module in modules:
        module.eval()
    try:
        yield
    finally:
        for module, training in before:
            module.train(training)
