"""Steps that a GPU replays as one CUDA graph, instead of waiting for the launches of hundreds of small kernels."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from viewsmith.core.schedule import Batch

#: Forward and backward pass of a batch: the loss, a scalar, and scalars to log, without gradient.
Passes = Callable[[Batch], tuple[Tensor, dict[str, Tensor]]]

Result = TypeVar("Result")

#: Steps before the recording, in which libraries choose algorithms and allocate memory.
WARM_UP = 2


def record(work: Callable[[], None], generator: torch.Generator) -> Callable[[], None]:
    """Record the kernels that `work` launches, without running them; return a function that launches them again, with
    the seed and the position that `generator` has then."""
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph, stream=torch.cuda.Stream()):  # torch's own stream stays on the first device it was for
        work()
    return graph.replay


def beside(work: Callable[[], Result]) -> Result:
    """The result of `work` on another stream than the current one, as a recording needs it."""
    stream, current = torch.cuda.Stream(), torch.cuda.current_stream()
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        found = work()
    current.wait_stream(stream)
    return found


class ReplayedPasses:
    """Passes that launch the same kernels at every step (`Update.static`), recorded as a CUDA graph after the first
    steps, and replayed with their own random numbers; replays write the gradients of `parameters` to the same
    memory."""

    def __init__(self, passes: Passes, parameters: Sequence[nn.Parameter]) -> None:
        self.passes, self.parameters = passes, parameters
        self.steps = 0
        self.replay: Callable[[], None] | None = None

    def __call__(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        with torch.cuda.device_of(batch.x):  # streams are those of the current device, which may be another GPU
            return self._step(batch)

    def _step(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        if self.steps < WARM_UP:
            self.steps += 1
            return beside(lambda: self.passes(batch))
        if self.replay is None:
            self.batch = Batch(batch.x.clone(), batch.index.clone(), batch.generator)
            self.replay = record(self._run, batch.generator)
            self.gradients = [parameter.grad for parameter in self.parameters]
        self.batch.x.copy_(batch.x)
        self.batch.index.copy_(batch.index)
        self.replay()
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            parameter.grad = gradient
        # Copies, because the next replay writes to the same memory.
        return self.loss.clone(), {name: value.clone() for name, value in self.logs.items()}

    def _run(self) -> None:
        self.loss, self.logs = self.passes(self.batch)


class Compiled:
    """A network that `torch.compile` makes faster within ``with compiled():``; evaluations in between run it as it
    is."""

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
