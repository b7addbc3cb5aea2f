"""Steps that a GPU replays as one CUDA graph, instead of waiting for the launches of hundreds of small kernels."""

import contextlib
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from viewsmith.core.schedule import Batch

#: Forward and backward pass of a batch: the loss, a scalar, and scalars to log, without gradient.
Passes = Callable[[Batch], tuple[Tensor, dict[str, Tensor]]]

#: Steps before the recording, in which libraries choose algorithms and allocate memory.
WARM_UP = 2


class ReplayedPasses:
    """Passes that launch the same kernels at every step (`Update.static`), recorded as a CUDA graph and replayed.

    The first steps run as they are. Random numbers are those of the passes: a graph reads seed and position of the
    batch's generator when it is replayed.

    Parameters
    ----------
    passes : callable
    parameters : sequence of nn.Parameter
        Those of which the passes compute gradients, which a replay writes to the same memory at every step.
    """

    def __init__(self, passes: Passes, parameters: Sequence[nn.Parameter]) -> None:
        self.passes, self.parameters = passes, parameters
        self.steps = 0
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        if self.graph is None and self.steps < WARM_UP:
            self.steps += 1
            return self._beside(batch)
        if self.graph is None:
            self._record(batch)
        assert self.graph is not None
        self.x.copy_(batch.x)
        self.index.copy_(batch.index)
        self.graph.replay()
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            parameter.grad = gradient
        # Copies, because the next replay writes to the same memory.
        return self.loss.clone(), {name: value.clone() for name, value in self.logs.items()}

    def _beside(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The passes on another stream, as recordings need it."""
        stream, current = torch.cuda.Stream(), torch.cuda.current_stream()
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            found = self.passes(batch)
        current.wait_stream(stream)
        return found

    def _record(self, batch: Batch) -> None:
        self.x, self.index = batch.x.clone(), batch.index.clone()
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(batch.generator)
        with torch.cuda.graph(graph):
            self.loss, self.logs = self.passes(Batch(self.x, self.index, batch.generator))
        self.gradients = [parameter.grad for parameter in self.parameters]
        self.graph = graph


class Compiled:
    """A network that `torch.compile` makes faster within ``with compiled():``; elsewhere it runs as it is.

    Evaluations in between would compile it again for other batches.
    """

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        network.compile(dynamic=False)
        self.call, network._compiled_call_impl = network._compiled_call_impl, None

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        self.network._compiled_call_impl = self.call
        try:
            yield
        finally:
            self.network._compiled_call_impl = None
