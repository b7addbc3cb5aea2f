"""What a framework is, and how one is built around an encoder.

A framework is the self-supervised objective with its own state. To add one, write one file with a subclass of
`Framework` and register it::

    @register("framework", "my-framework", help="views attract, and nothing repels them")
    class MyFramework(Framework):
        def __init__(self, encoder=None, head=None, *, weight: float = 1.0): ...
        def forward(self, pair, progress=0.0): ...

Its options are the keyword-only arguments of the constructor or, where heads depend on the encoder, of a class method
``build(context, *, option=...)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.method import Role
from viewsmith.networks.mlp import MLP
from viewsmith.views.base import Pair


@dataclass(frozen=True)
class DataFacts:
    """What is known of the data and the settings when options that are "auto" are resolved.

    Attributes
    ----------
    defaults : mapping
        Of the domain: options with the values that serve it, such as ``kernel``.
    n_rows, batch_size : int
        Training rows, and how many of them a step takes.
    other_samples : bool
        Whether the second view of a sample may be another sample (an edge of a neighbor graph).
    """

    defaults: Mapping[str, Any]
    n_rows: int
    batch_size: int
    other_samples: bool = False


@dataclass(frozen=True)
class FrameworkContext:
    """What a framework is built around.

    Attributes
    ----------
    encoder : nn.Module
        Samples (B, ...) to representations h (B, n_components).
    n_components : int
    published : bool
        The encoder has the size that heads were published for (a ResNet); otherwise heads are smaller.
    simclr_dims : tuple of int
        Widths of the plain head that suits the domain.
    wrap : callable
        Puts what the settings ask for between encoder and head: noise on the representation, or nothing.
    """

    encoder: nn.Module
    n_components: int
    published: bool = False
    simclr_dims: tuple[int, ...] = (32,)
    wrap: Callable[[Any], nn.Module] = lambda head: head

    def dims(self, name: str, given: Sequence[int] | None, small: Sequence[int]) -> dict[str, int]:
        """Widths ``hidden`` and ``out`` of a head as keywords: those given, else published or small ones.

        Raises
        ------
        InputError
            Another number of widths was given.
        """
        if given is None:
            if self.published:
                return {}
            given = small
        if len(given) != len(small):
            shape = "(hidden, output)" if len(small) == 2 else "(hidden,)"
            raise InputError(f"{name} is {tuple(given)}, expected {shape} with this framework")
        return dict(zip(("hidden", "out"), given, strict=False))


class Framework(nn.Module):
    """A self-supervised objective with its own state: queue, momentum copy, predictor, prototypes.

    Parameters
    ----------
    encoder : nn.Module, optional
        Samples (B, ...) to representations h (B, n_components). An object that is given to an estimator may come
        without: it is connected to the estimator's.
    head : nn.Module, optional
        Representations to projections z (B, d), where the loss lives.
    """

    encoder: nn.Module
    head: nn.Module
    #: The submodules that training recipes treat apart, by role: ``{"predictor": "predictor"}`` where its rate may be
    #: kept constant, ``{"last layer": "prototypes"}`` where it may be frozen at first.
    training_roles: ClassVar[Mapping[Role, str]] = {}
    #: Whether it needs labels, which ``fit(X, y)`` then hands to `read_labels`; no other framework gets any.
    reads_labels: ClassVar[bool] = False

    def __init__(self, encoder: nn.Module | None = None, head: nn.Module | None = None) -> None:
        super().__init__()
        if encoder is not None:
            self.encoder = encoder
        if head is not None:
            self.head = head

    def forward(self, pair: Pair, progress: float = 0.0) -> Tensor:
        """One loss value for each sample of the batch, shape (B,), in order.

        Parameters
        ----------
        pair : Pair
            Two views of each sample, (B, ...) each.
        progress : float
            Fraction of the training that is done, 0 to 1.
        """
        raise NotImplementedError

    @property
    def output_networks(self) -> tuple[nn.Module, nn.Module]:
        """Encoder and head whose outputs are the model's, for `transform`, evaluation and export."""
        return self.encoder, self.head

    def represent(self, x: Tensor, output: str = "representation") -> Tensor:
        """Representations of scaled samples, (B, n_components), or their projections."""
        encoder, head = self.output_networks
        h: Tensor = encoder(x)
        return h if output == "representation" else head(h)

    def read_labels(self, labels: Tensor) -> None:
        """Take the class of each training row, int64 (n,), numbered from 0; called where `reads_labels`."""
        raise NotImplementedError

    @property
    def connected(self) -> bool:
        """Whether it has its encoder."""
        return "encoder" in self._modules

    def connect(self, context: FrameworkContext) -> Self:
        """Take the encoder, and the plain head if it has none; what an object without an encoder is completed by."""
        self.encoder = context.encoder
        if "head" not in self._modules:
            self.head = context.wrap(MLP(context.n_components, context.simclr_dims))
        return self

    @classmethod
    def with_plain_head(
        cls, context: FrameworkContext, *, projector_dims: tuple[int, ...] | None = None, **options: Any
    ) -> Self:
        """The framework around an encoder, with a plain head and the options of its constructor."""
        head = context.wrap(MLP(context.n_components, projector_dims or context.simclr_dims))
        return cls(context.encoder, head, **options)

    #: How an estimator builds it: a class method of a context whose keyword-only arguments are the options. Overridden
    #: where heads depend on them; of any type here, because no signature is common to all.
    build: Any = with_plain_head

    @classmethod
    def resolve(cls, options: dict[str, Any], facts: DataFacts) -> dict[str, Any]:
        """The options with a value in place of every "auto".

        Raises
        ------
        InputError
            They do not fit one another or the data.
        """
        return options
