"""The interface of frameworks, and how a framework is built for an encoder.

A framework is a self-supervised objective with its own state. To add one, write one file with a subclass of
`Framework` and register it::

    @register("framework", "my-framework", help="views attract, and nothing repels them")
    class MyFramework(Framework):
        weight: Annotated[float, Bounds(ge=0)] = 1.0
        def forward(self, pair, progress=0.0): ...

If heads depend on the encoder, a class method ``build(context, *, option=..., **options)`` makes them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import gather, is_distributed, local_rows
from viewsmith.core.errors import InputError, check
from viewsmith.core.registry import Declared, entries
from viewsmith.core.schedule import Role
from viewsmith.losses.nt_xent import Kernel, nt_xent, unit
from viewsmith.networks.base import MLP, cosine_momentum, momentum_copy, update_copy
from viewsmith.views.base import PositivePair


@dataclass(frozen=True)
class DataSummary:
    """Facts about the data and the settings, used to resolve options that are "auto"."""

    defaults: Mapping[str, Any]  #: of options in the modality, such as ``kernel``
    n_rows: int  #: for training
    batch_size: int
    other_samples: bool = False  #: the second view may be another sample (an edge of a neighbor graph)


@dataclass(frozen=True)
class FrameworkContext:
    """The encoder for which a framework is built, and what its heads depend on."""

    encoder: nn.Module  #: samples (B, ...) to representations h (B, n_components)
    n_components: int  #: that heads get: without columns that are not learned
    #: The encoder has the size for which heads were published (a ResNet); otherwise heads are smaller.
    published: bool = False
    simclr_dims: tuple[int, ...] = (32,)  #: default widths of a plain head in the modality
    #: Maps a head to the head that is used: with noise on its input, without columns that are not learned.
    wrap: Callable[[Any], nn.Module] = lambda head: head

    def dims(self, name: str, given: Sequence[int] | None, small: Sequence[int]) -> dict[str, int]:
        """Keyword arguments ``hidden`` and ``out`` of a head: `given`, else the published widths, else `small`."""
        if given is None:
            if self.published:
                return {}
            given = small
        if len(given) != len(small):
            shape = "(hidden, output)" if len(small) == 2 else "(hidden,)"
            raise InputError(f"{name} is {tuple(given)}, expected {shape} with this framework")
        return dict(zip(("hidden", "out"), given, strict=False))


class Framework(Declared, nn.Module):
    """Base class of frameworks: a self-supervised objective with its own state, such as a queue or a momentum copy.

    An option is declared once, as an attribute of the class with a type, bounds and a default, such as
    ``temperature: Annotated[float, Bounds(gt=0)] = 0.1``. The constructor takes it by name and checks it.

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
    #: be constant. ``{"last layer": "last_layer"}``: the layer can be frozen at the start.
    training_roles: ClassVar[Mapping[Role, str]] = {}
    #: Whether the framework needs labels. If True, ``fit(X, y)`` passes them to `read_labels`.
    reads_labels: ClassVar[bool] = False
    #: Whether every forward pass launches the same kernels, see `viewsmith.networks.base.is_static`.
    static_step: ClassVar[bool] = False
    #: What `queue_size` "auto" is at most, half of the rows being less; 0: a queue has to be asked for.
    largest_queue: ClassVar[int] = 0

    def __init__(self, encoder: nn.Module | None = None, head: nn.Module | None = None, **options: Any) -> None:
        super().__init__()
        if encoder is not None:
            self.encoder = encoder
        if head is not None:
            self.head = head
        self.take(**options)

    def forward(self, pair: PositivePair, progress: float = 0.0) -> Tensor:
        """Losses (B,) of a pair of views (B, ...) each; `progress` is the fraction of the training that is done."""
        raise NotImplementedError

    def check_no_local_views(self, pair: PositivePair) -> None:
        """Reject what is no pair of views, and multi-crop views, for a framework that does not support them."""
        if not isinstance(pair, PositivePair):
            raise InputError(
                f"a framework is called with a {type(pair).__name__}, expected PositivePair(first, second)"
            )
        if pair.local is not None:
            takes = ", ".join(entry.name for entry in entries("framework") if entry.tag("local_views"))
            name = next((e.name for e in entries("framework") if e.build is type(self)), type(self).__name__)
            raise InputError(f"multi-crop views need one of the frameworks {takes}, got {name}")

    def project_pair(self, pair: PositivePair) -> Tensor:
        """Projections of both views, (2 B, d), in one pass: they share BatchNorm statistics. For two views alone."""
        self.check_no_local_views(pair)
        return full_precision(self.head(self.encoder(torch.cat([pair.first, pair.second]))))

    def represent_views(self, pair: PositivePair) -> Tensor:
        """Representations of all views, ((2 + V) * B, n): first, second, then local ones; equal sizes in one pass."""
        full = torch.cat([pair.first, pair.second])
        if pair.local is None:
            return self.encoder(full)
        local, fits = pair.local, pair.local.ndim == full.ndim + 1 and len(pair.local) == len(pair.first)
        expected = f"({len(pair.first)}, views, ...) with samples of {full.ndim - 1} dimensions"
        check(fits, "the shape of the multi-crop views", tuple(local.shape), expected)
        crops = local.transpose(0, 1).flatten(0, 1)
        if crops.shape[1:] == full.shape[1:]:
            return self.encoder(torch.cat([full, crops]))
        return torch.cat([self.encoder(full), self.encoder(crops)])

    def update_copies(self, momentum: float, names: Sequence[str] = ("encoder", "head")) -> bool:
        """In a training forward, update the momentum copies ``NAME_copy``; return whether it is one."""
        training = updates_state(self)
        if training:
            for name in names:
                update_copy(getattr(self, f"{name}_copy"), getattr(self, name), momentum)
        return training

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
    build: ClassVar[Any] = with_plain_head

    @classmethod
    def resolve(cls, options: dict[str, Any], data: DataSummary) -> dict[str, Any]:
        """Return the options with a value for every "auto"; raises InputError if they do not fit the data."""
        size, batch = options.get("queue_size", "auto" if cls.largest_queue else 0), min(data.batch_size, data.n_rows)
        if not (size or cls.largest_queue):
            return options
        if size == "auto":
            size = min(cls.largest_queue, max(data.batch_size, data.n_rows // 2))
        expected = f"at least the {batch} rows of a batch: raise it, or lower batch_size"
        check(size >= batch, "queue_size", size, expected)
        return options | {"queue_size": size}


class PredictorFramework(Framework):
    """Base class of frameworks with a predictor of projections (B, d), with ``momentum`` those of momentum copies."""

    training_roles: ClassVar[Mapping[Role, str]] = {"predictor": "predictor"}
    #: Functions that make the published head and predictor, from the width of their input, and `hidden` (and `out`).
    projector: ClassVar[Callable[..., MLP]]
    predicts: ClassVar[Callable[..., MLP]]
    #: Widths of head and predictor of small encoders.
    small_dims: ClassVar[tuple[tuple[int, ...], tuple[int, ...]]] = ((512, 256), (512,))
    separate_batch_norm: bool = False
    """Pass first and second views through the networks separately, each with its own BatchNorm statistics, as in the
    authors' program. Otherwise both views share one pass."""
    momentum: float  # an option of frameworks that predict copies

    def __init__(self, encoder: nn.Module, head: nn.Module, predictor: nn.Module, **options: Any) -> None:
        super().__init__(encoder, head, **options)
        self.predictor = predictor
        if "momentum" in self.declared_options():
            self.encoder_copy, self.head_copy = momentum_copy(encoder), momentum_copy(head)

    @classmethod
    def build(
        cls,
        context: FrameworkContext,
        *,
        projector_dims: tuple[int, ...] | None = None,
        predictor_dims: tuple[int, ...] | None = None,
        **options: Any,
    ) -> Self:
        """Build the framework with its head and predictor, of the published widths or, for small encoders, smaller."""
        head = cls.projector(context.n_components, **context.dims("projector_dims", projector_dims, cls.small_dims[0]))
        widths = context.dims("predictor_dims", predictor_dims, cls.small_dims[1])
        predictor = cls.predicts(head.n_components, **widths, **cls.predictor_options(context))
        return cls(context.encoder, context.wrap(head), predictor, **options)

    @classmethod
    def predictor_options(cls, context: FrameworkContext) -> dict[str, Any]:
        """Further arguments of `predicts`."""
        return {}

    def predictions_and_targets(self, pair: PositivePair, progress: float) -> tuple[Tensor, Tensor]:
        """Predictions of the online network and projections of its copies (updated first in a training forward, with a
        momentum that rises to 1) for both views, each (2 B, d)."""
        self.check_no_local_views(pair)
        self.update_copies(cosine_momentum(self.momentum, progress))
        views = torch.cat([pair.first, pair.second])
        p = self._of_views(lambda x: self.predictor(self.head(self.encoder(x))), views)
        with torch.no_grad():
            z = self._of_views(lambda x: self.head_copy(self.encoder_copy(x)), views)
        return _of_equal_width(p, z)

    def predictions_and_projections(self, pair: PositivePair) -> tuple[Tensor, Tensor]:
        """Predictions for both views and their projections without gradient, each (2 B, d): no momentum copies."""
        self.check_no_local_views(pair)
        z = self._of_views(lambda x: self.head(self.encoder(x)), torch.cat([pair.first, pair.second]))
        return _of_equal_width(self._of_views(self.predictor, z), z.detach())

    def _of_views(self, network: Callable[[Tensor], Tensor], views: Tensor) -> Tensor:
        """Output for first and second views, (2 B, ...), in one pass or, `separate_batch_norm`, in one for each."""
        return torch.cat([network(part) for part in views.chunk(2)]) if self.separate_batch_norm else network(views)


def _of_equal_width(p: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """Predictions and projections in full precision; raises InputError unless they have the same width."""
    check(p.shape == z.shape, "the predictor's output width", p.shape[-1], f"that of the projections, {z.shape[-1]}")
    return full_precision(p), full_precision(z)


def head_width(head: nn.Module, width: int | None) -> int:
    """Output width of a head: `width` or, if it is None, ``head.n_components``."""
    found = getattr(head, "n_components", None) if width is None else width
    if not isinstance(found, int):
        raise InputError(f"the head, a {type(head).__name__}, has no attribute n_components: give its output width")
    return found


def updates_state(framework: nn.Module) -> bool:
    """Whether this is a training forward (train mode, gradients enabled). Others do not change copies and queues."""
    return framework.training and torch.is_grad_enabled()


def nt_xent_of_all(
    z: Tensor,
    ids: tuple[Tensor, Tensor] | None,
    *,
    temperature: float,
    kernel: Kernel,
    negatives: Literal["all", "cross"],
) -> Tensor:
    """`viewsmith.losses.nt_xent` of z (2 B, d) with negatives from all processes, computed without autocast, (B,)."""
    z0, z1 = z.chunk(2)
    gathered = gathered_ids = None
    if is_distributed():
        gathered = gather(z0), gather(z1)
        gathered_ids = None if ids is None else (gather(ids[0]), gather(ids[1]))
    with torch.autocast(z.device.type, enabled=False):
        return nt_xent(
            z0,
            z1,
            temperature=temperature,
            kernel=kernel,
            negatives=negatives,
            ids=ids,
            gathered=gathered,
            gathered_ids=gathered_ids,
            offset=local_rows(len(z0)).start,
        )


def two_way_info_nce(
    anchors: Tensor, candidates: Tensor, ids: tuple[Tensor, Tensor] | None, temperature: float
) -> tuple[Tensor, Tensor]:
    """InfoNCE of both directions, (B,) each, of anchors and candidates (2 B, d); those of all processes count unless
    they show a row of the anchor's pair (`ids`)."""
    a, c = anchors.chunk(2), candidates.chunk(2)
    gathered = gather(c[0]), gather(c[1])
    all_ids = None if ids is None else (gather(ids[0]), gather(ids[1]))

    def direction(view: int) -> Tensor:
        return nt_xent(
            a[view],
            c[1 - view],
            temperature=temperature,
            negatives="cross",
            ids=None if ids is None else (ids[view], ids[1 - view]),
            gathered=(gathered[view], gathered[1 - view]),
            gathered_ids=None if all_ids is None else (all_ids[view], all_ids[1 - view]),
            offset=local_rows(len(a[0])).start,
        )

    return direction(0), direction(1)


def replace_oldest(pointer: Tensor, count: int, length: int, has: str = "queue has {} keys") -> Tensor:
    """Positions of the `count` oldest features in a queue of `length`; moves `pointer` to the next oldest, in place."""
    if count > length:
        given = has.format(length)
        raise InputError(f"the {given}, expected at least the {count} samples of a batch: enlarge it")
    positions = (pointer + torch.arange(count, device=pointer.device)) % length
    pointer.add_(count).remainder_(length)
    return positions


def random_keys(shape: Sequence[int], generator: torch.Generator | None) -> Tensor:
    """Random directions, (..., d), the initial content of a memory. Default: a generator with seed 0."""
    draws = torch.Generator().manual_seed(0) if generator is None else generator
    return unit(torch.randn(*shape, generator=draws, device=draws.device))


def full_precision(z: Tensor) -> Tensor:
    """Convert `z` to float32, unless it is float64."""
    return z if z.dtype == torch.float64 else z.float()


def prototype_scores(z: Tensor, prototypes: nn.Linear) -> Tensor:
    """Cosines of projections (n, d) and prototypes (K, d), shape (n, K), computed in float32 or float64."""
    with torch.autocast(z.device.type, enabled=False):
        return unit(full_precision(z)) @ unit(full_precision(prototypes.weight)).T
