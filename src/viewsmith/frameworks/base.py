"""The interface of frameworks, and how a framework is built for an encoder.

A framework is a self-supervised objective with its own state. To add one, write one file with a subclass of
`Framework` and register it::

    @register("framework", "my-framework", help="views attract, and nothing repels them")
    class MyFramework(Framework):
        def __init__(self, encoder=None, head=None, *, weight: float = 1.0): ...
        def forward(self, pair, progress=0.0): ...

Its options are the keyword-only arguments of the constructor or, if heads depend on the encoder, of a class method
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
    """Facts about the data and the settings, used to resolve options that are "auto".

    Attributes
    ----------
    defaults : mapping
        Default values of options in the domain, such as ``kernel``.
    n_rows, batch_size : int
        Number of training rows, and of rows in a batch.
    other_samples : bool
        Whether the second view of a sample may be another sample (an edge of a neighbor graph).
    """

    defaults: Mapping[str, Any]
    n_rows: int
    batch_size: int
    other_samples: bool = False


@dataclass(frozen=True)
class FrameworkContext:
    """The encoder for which a framework is built, and what its heads depend on.

    Attributes
    ----------
    encoder : nn.Module
        Samples (B, ...) to representations h (B, n_components).
    n_components : int
        Width of the representations that heads get: without the columns that are not learned.
    published : bool
        Whether the encoder has the size for which heads were published (a ResNet). Otherwise heads are smaller.
    simclr_dims : tuple of int
        Default widths of a plain head in the domain.
    wrap : callable
        Maps a head to the head that is used. It can add noise on the representation before the head, and leave out
        columns that are not learned.
    """

    encoder: nn.Module
    n_components: int
    published: bool = False
    simclr_dims: tuple[int, ...] = (32,)
    wrap: Callable[[Any], nn.Module] = lambda head: head

    def dims(self, name: str, given: Sequence[int] | None, small: Sequence[int]) -> dict[str, int]:
        """Keyword arguments ``hidden`` and ``out`` of a head: `given`, else the published widths, else `small`.

        Raises
        ------
        InputError
            The number of widths is wrong.
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
    """Base class of frameworks: a self-supervised objective with its own state, such as a queue or a momentum copy.

    Parameters
    ----------
    encoder : nn.Module, optional
        Samples (B, ...) to representations h (B, n_components). Without it, an estimator connects its own encoder.
    head : nn.Module, optional
        Representations to projections z (B, d), from which the loss is computed.
    """

    encoder: nn.Module
    head: nn.Module
    #: Submodules that an optimizer can treat separately, by role. ``{"predictor": "predictor"}``: the learning rate can
    #: be constant. ``{"last layer": "prototypes"}``: the layer can be frozen at the start.
    training_roles: ClassVar[Mapping[Role, str]] = {}
    #: Whether the framework needs labels. If True, ``fit(X, y)`` passes them to `read_labels`.
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
        """Encoder and head that `transform`, evaluation and export use."""
        return self.encoder, self.head

    def represent(self, x: Tensor, output: str = "representation") -> Tensor:
        """Representations of scaled samples, (B, n_components), or their projections."""
        encoder, head = self.output_networks
        h: Tensor = encoder(x)
        return h if output == "representation" else head(h)

    def read_labels(self, labels: Tensor) -> None:
        """Store the class of each training row, int64 (n,), numbered from 0. Called if `reads_labels` is True."""
        raise NotImplementedError

    @property
    def connected(self) -> bool:
        """Whether the framework has an encoder."""
        return "encoder" in self._modules

    def connect(self, context: FrameworkContext) -> Self:
        """Set the encoder and, if there is no head, a plain head; return self."""
        self.encoder = context.encoder
        if "head" not in self._modules:
            self.head = context.wrap(MLP(context.n_components, context.simclr_dims))
        return self

    @classmethod
    def with_plain_head(
        cls, context: FrameworkContext, *, projector_dims: tuple[int, ...] | None = None, **options: Any
    ) -> Self:
        """Build the framework with a plain head and the options of its constructor."""
        head = context.wrap(MLP(context.n_components, projector_dims or context.simclr_dims))
        return cls(context.encoder, head, **options)

    #: Class method ``build(context, *, option=...)`` with which estimators build the framework. Subclasses with other
    #: heads override it. Its type is Any, because the signatures of subclasses differ.
    build: Any = with_plain_head

    @classmethod
    def resolve(cls, options: dict[str, Any], facts: DataFacts) -> dict[str, Any]:
        """Return the options with a value for every "auto".

        Raises
        ------
        InputError
            Options contradict each other or do not fit the data.
        """
        return options
