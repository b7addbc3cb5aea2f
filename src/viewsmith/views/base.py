"""The view maker, the interface of all augmentations; pairs of views; noise on representations (SimGCL)."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, dataclass_transform

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import rank
from viewsmith.core.errors import InputError, check_weight
from viewsmith.core.registry import Declared
from viewsmith.core.samples import Rows, apply_in_blocks
from viewsmith.core.schedule import Batch
from viewsmith.core.tensors import stream
from viewsmith.networks.base import PartContext, eval_mode

#: One random stream for a batch, or one per sample; with one per sample a view does not depend on the batch.
Generators = torch.Generator | Sequence[torch.Generator]


@dataclass
class CropBoxes:
    """The region of the source image that each of B views shows, and whether the view is mirrored left to right."""

    boxes: Tensor  # top, left, height, width, (B, 4), as fractions of the image
    flip: Tensor  # bool (B,)


@dataclass
class PositivePair:
    """Two views of each sample, as view makers pass them to a framework.

    Raises
    ------
    InputError
        `first`, `second` and `ids` have different numbers of rows.
    """

    first: Tensor  #: (B, ...), as the second
    second: Tensor
    #: each (B,): row of the training set that each first and each second view shows, if known
    ids: tuple[Tensor, Tensor] | None = None
    local: Tensor | None = None  #: (B, V, ...): V further, smaller views of each sample (multi-crop)
    #: regions of the samples that views show, if only crops have moved their pixels
    crops: tuple[CropBoxes, CropBoxes] | None = None

    def __post_init__(self) -> None:
        # Frameworks concatenate both views: with different numbers of them, views of different samples would be pairs.
        parts = {"second": self.second}
        parts |= {} if self.ids is None else {"ids[0]": self.ids[0], "ids[1]": self.ids[1]}
        for name, part in parts.items():
            if isinstance(self.first, Tensor) and isinstance(part, Tensor) and len(part) != len(self.first):
                raise InputError(
                    f"{name} of a pair has {len(part)} rows, first {len(self.first)}; expected one of each sample"
                )


class _OptionsSignature:
    """The signature of a view maker without a constructor of its own: its options."""

    def __get__(self, maker: "ViewMaker | None", cls: "type[ViewMaker]") -> inspect.Signature | None:
        return cls.options_signature() if maker is None and cls.__init__ is ViewMaker.__init__ else None


@dataclass_transform()
class ViewMaker(Declared, nn.Module):
    """A module that maps a batch of scaled samples to one view of each, with the same shape, dtype and device.

    It is called as ``maker(x, index=..., generator=...)``. `x` is (B, ...). `index`, int64 (B,), gives the row of each
    sample in the pool; it is None for samples that are not in the pool. All randomness comes from `generator`, so a
    draw can be replayed. There is no loop over samples.

    An option is declared once, as an attribute of the class with a type, bounds and a default, such as
    ``rate: Annotated[float, Bounds(ge=0, le=1)] = 0.2``, with what it is in a text below. The constructor takes options
    in their order or by name, and checks them.
    """

    views_made: int = 2  #: 2: both views of a pair are augmented; 1: only the second, the first is the sample
    needs_pool: bool = False  #: views use other rows: `prepare` must be called first
    #: Views depend on the pair loss: `pair` and the call get the framework as ``loss=``, a function of a
    #: `PositivePair`.
    needs_loss: bool = False
    static_step: bool = False  #: every call launches the same kernels, see `viewsmith.networks.base.is_static`
    mixes_rows: bool = False  #: views are weighted means of rows of the pool, so that principal coordinates are enough
    pool: Rows | None = None  #: rows given by `prepare`; never saved with the model
    __signature__ = _OptionsSignature()

    def __init__(self, *values: Any, **options: Any) -> None:
        super().__init__()
        self.take(*values, **options)
        self.__post_init__()

    def __post_init__(self) -> None:
        """Further checks of the options, and what is made of them."""

    def prepare(self, pool: Rows) -> None:
        """Set the pool, the scaled training rows, (n, ...), for makers that use other rows."""

    def refresh(self, encode: Callable[[Rows], Tensor]) -> None:
        """Search neighbors again in the output of `encode`, which maps the pool (n, ...) to (n, d)."""

    def describe(self) -> dict[str, Any]:
        """Facts found by `prepare` for the summary of a run: plain values by name."""
        return {}

    def release(self) -> None:
        """Free the pool that `prepare` has set."""
        self.pool = None

    def typical_views(self, x: Tensor) -> Tensor | None:
        """Views (B, m, ...) of samples (B, ...) whose mean representation is that of the sample; None: itself.

        For views so unlike the sample (small crops of a large image) that an encoder trained on them does not
        understand it.
        """
        return None

    def symmetric_copies(self, x: Tensor) -> list[Tensor]:
        """Samples (B, ...), and what the symmetries among the views make of them: mirror images, other strands."""
        return [x]

    def parts(self, x: Tensor) -> list[Tensor]:
        """Parts of samples (B, ...) that are views of them, the same of every sample: crops at the corners."""
        return []

    def share_of_parts(self, x: Tensor) -> float:
        """How much of the representation of samples like `x`, (n, ...), is the mean of their parts: 0 to 1/2."""
        return 0.0

    def of_reduced(self, scale: float) -> "ViewMaker | None":
        """The maker whose views of images reduced to `scale` of their sides are about the reduced views of images, or
        None: there is none, views depend on the size of images."""
        return None

    def pair(self, pair: PositivePair, *, generator: torch.Generator | None = None) -> PositivePair:
        """Augment both views of a pair, or only the second (`views_made`). May be overridden."""
        ids = pair.ids or (None, None)
        first = self(pair.first, index=ids[0], generator=generator) if self.views_made == 2 else pair.first
        return PositivePair(first, self(pair.second, index=ids[1], generator=generator), pair.ids, pair.local)

    def _pool(self) -> Rows:
        if self.pool is None:
            raise RuntimeError(f"{type(self).__name__} needs a pool of rows: call prepare(rows) first")
        return self.pool


@dataclass(frozen=True)
class PrecomputedGraph:
    """Neighbors of n rows: those of row i are ``ends[offsets[i] : offsets[i + 1]]``, int64 (edges,) and (n + 1,)."""

    offsets: Tensor
    ends: Tensor

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.offsets) - 1

    def to(self, device: torch.device) -> "PrecomputedGraph":
        """The same graph on a device."""
        return PrecomputedGraph(self.offsets.to(device), self.ends.to(device))

    @property
    def degrees(self) -> Tensor:
        """Number of neighbors of each row, int64 (n,)."""
        return self.offsets.diff()

    def random_neighbors(self, index: Tensor, generator: torch.Generator | None) -> Tensor:
        """Draw one neighbor of each row at `index`, (B,), uniformly; for a row without neighbors, the row itself."""
        first, degree = self.offsets[index], self.degrees[index]
        # In float64, so that all neighbors are equally likely even if a row has very many.
        drawn = torch.rand(len(index), dtype=torch.float64, device=index.device, generator=generator)
        position = first + torch.minimum((drawn * degree).long(), degree - 1).clamp_min(0)
        return torch.where(degree > 0, self.ends[position.clamp_max(len(self.ends) - 1)], index)


@dataclass(frozen=True)
class ViewContext(PartContext):
    """The arguments that a registered view maker is built from, beside those of `PartContext`.

    A view maker is registered by ``@register("view maker", "my-views", help=..., modalities=...)`` on a class whose
    declared or keyword-only arguments are its options, or on a function of a context with such arguments. Its tags:
    ``named`` (of a class: names of options, and of the attributes that they set), ``changes_shape`` (views have another
    shape than samples, so it must be the last), ``local_views`` (it makes additional, smaller views, which not every
    framework supports), ``other_samples`` (a view may be another sample), ``neighbors`` (it searches nearest rows),
    ``needs`` (the values it needs, "counts"), ``searches`` (the option that ``noise_strength="auto"`` chooses), and
    functions: ``adapt`` (from the estimator's arguments, the modality and the shape of a row to arguments for this view
    maker), ``check`` (of the options and the shape of a row, raises InputError), ``derive`` (from arguments and
    training data to the values in `derived`) and ``smaller`` (from the shape of a row and these values to the name of
    its smaller views and their size in pixels, or None).
    """

    modality: Any
    encoder: nn.Module  #: that is trained
    #: of the training rows from the input layer, see `Modality.fit_input`
    statistics: Mapping[str, Any] = field(default_factory=dict)
    space: Callable[[Tensor], Tensor] | None = None  #: in which neighbors are searched; default: the scaled samples
    refreshed: bool = False  #: neighbors are searched again during training, in the representation
    derived: Mapping[str, Any] = field(default_factory=dict)  #: returned by the tags ``derive`` of the view makers
    #: The model is new, so that weights of another run must be read; otherwise they are loaded with the model.
    fresh: bool = True
    graph: PrecomputedGraph | None = None  #: neighbor graph of the training rows, used instead of a search


def at(**options: Sequence[float]) -> tuple[dict[str, Any], ...]:
    """Options at each of several strengths, for the tag `strengths` of a view maker."""
    return tuple(dict(zip(options, values, strict=True)) for values in zip(*options.values(), strict=True))


def rand(shape: tuple[int, ...], like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Uniform draws on the device and in the dtype of `like`."""
    return torch.rand(shape, device=like.device, dtype=like.dtype, generator=generator)


def randn(like: Tensor, generator: Generators | None) -> Tensor:
    """Standard Gaussian draws with the shape, device and dtype of `like`, from one stream or from one per sample."""
    if isinstance(generator, Sequence):
        # A loop, because draws from separate streams cannot be batched.
        return torch.stack([randn(row, stream) for row, stream in zip(like, generator, strict=True)])
    return torch.randn(like.shape, device=like.device, dtype=like.dtype, generator=generator)


def randint(high: int, shape: tuple[int, ...], like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Integers from 0 to high - 1 on the device of `like`."""
    return torch.randint(high, shape, device=like.device, generator=generator)


def representation_noise(h: Tensor, strength: float, generator: torch.Generator | None = None) -> Tensor:
    """``h + s * sign(h) * u / ||u||`` with u uniform on [0, 1], of h (B, n) (Yu et al. 2022, equation 7)."""
    u = rand(tuple(h.shape), h, generator)
    return h + strength * h.sign() * u / torch.linalg.vector_norm(u, dim=1, keepdim=True)


class RepresentationNoise(nn.Module):
    """`representation_noise` between encoder and head in training mode; the identity in evaluation mode.

    A layer of a network gets no generator, so this module has its own random stream: a seed and the number of draws so
    far. Both are saved with the weights, so a resumed training draws the same numbers.

    Parameters
    ----------
    strength : float
        Norm of the noise, in the units of the representation.
    seed : int, optional
        Default: drawn from torch's global generator, like initial weights.

    Attributes
    ----------
    stream : Tensor of int64, shape (2,)
        Seed and number of draws.
    """

    static_step = False  # the seed of a draw is a Python number

    def __init__(self, strength: float = 0.1, *, seed: int | None = None) -> None:
        super().__init__()
        check_weight("strength", strength)
        self.strength = strength
        first = int(torch.randint(2**62, ())) if seed is None else seed
        self.stream = nn.Buffer(torch.tensor([first, 0]))

    def forward(self, h: Tensor) -> Tensor:
        if not self.training:
            return h
        seed, draws = self.stream.tolist()
        self.stream[1] += 1
        # All processes and the momentum copy start from the same stream, but need different noise. The rank identifies
        # the process, and the missing gradient the momentum copy.
        path = "representation", draws, rank(), int(h.requires_grad)
        return representation_noise(h, self.strength, stream(seed, *path, device=h.device))


REPRESENTED_VIEWS = 4096  # largest number of `ViewMaker.typical_views` that are in memory at a time


class PairMaker(nn.Module):
    """Applies view makers in order to both views of a pair (those with ``views_made = 1`` to the second only).

    Parameters
    ----------
    makers : sequence of ViewMaker
    refreshed : bool
        Whether neighbors are searched again, in the representations of the framework's encoder, after each quarter of
        the training.
    changes_shape : bool
        Whether views may have another shape than samples.
    """

    def __init__(self, makers: Sequence[ViewMaker], *, refreshed: bool = False, changes_shape: bool = False) -> None:
        super().__init__()
        self.changes_shape = changes_shape
        self.makers: Sequence[ViewMaker] = nn.ModuleList(makers)  # type: ignore[assignment]
        self.refreshed = refreshed
        if refreshed:
            self.quarter = nn.Buffer(torch.tensor(0))
            self.searched = 0  # the same as a Python number, because reading a buffer would wait for a GPU
            self.register_load_state_dict_post_hook(_read_quarter)

    @property
    def needs_pool(self) -> bool:
        """Whether any maker uses other rows."""
        return any(maker.needs_pool for maker in self.makers)

    @property
    def static_step(self) -> bool:
        """Whether neighbors are never searched again; see `ViewMaker`."""
        return not self.refreshed

    @property
    def mixes_rows(self) -> bool:
        """Whether all makers only mix rows, see `ViewMaker`."""
        return all(maker.mixes_rows for maker in self.makers)

    def prepare(self, pool: Rows) -> None:
        """Call `ViewMaker.prepare` of every maker with the scaled training rows, (n, ...)."""
        for maker in self.makers:
            maker.prepare(pool)

    def describe(self) -> dict[str, Any]:
        """Facts found by `prepare` for the summary of a run, of all makers; see `ViewMaker.describe`."""
        return {name: value for maker in self.makers for name, value in maker.describe().items()}

    def release(self) -> None:
        """Free the training rows."""
        for maker in self.makers:
            maker.release()

    def forward(
        self,
        x: Tensor,
        *,
        index: Tensor | None = None,
        generator: torch.Generator | None = None,
        progress: float = 0.0,
        second: Tensor | None = None,
        framework: nn.Module | None = None,
    ) -> PositivePair:
        """Both views of samples (B, ...) at the rows `index`, int64 (B,); `progress` tells when refreshed neighbors are
        searched in representations of the `framework`, whose losses adversarial views need."""
        if self.refreshed and int(4 * progress) > self.searched:
            if framework is None:
                raise RuntimeError("neighbors are searched in the encoder's representations: give framework=...")
            self._refresh(framework.get_submodule("encoder"))
            self.searched = int(4 * progress)
            self.quarter.fill_(self.searched)
        pair = PositivePair(x, x if second is None else second, None if index is None else (index, index))
        before = None if x.is_inference() else x._version
        for maker in self.makers:
            options = {"loss": framework} if maker.needs_loss else {}
            pair = maker.pair(pair, generator=generator, **options)
            if before is not None and x._version != before:
                raise InputError(
                    f"the view maker {type(maker).__name__} changed the samples that it was given, of which both views "
                    "are made: expected new tensors, such as x + noise in place of x.add_(noise)"
                )
            self._check(maker, x, pair)
        return pair

    def several(
        self, x: Tensor, number: int, *, index: Tensor | None = None, generator: torch.Generator | None = None
    ) -> list[Tensor]:
        """So many views of samples (B, ...); the second one is a view, even of makers that keep the first as it is."""
        drawn: list[Tensor] = []
        alike = all(maker.views_made == 2 for maker in self.makers)
        while len(drawn) < number:
            pair = self(x, index=index, generator=generator)
            drawn += [pair.first, pair.second] if alike or not drawn else [pair.second]
        return drawn[:number]

    def of_reduced(self, scale: float) -> "PairMaker | None":
        """The same with `ViewMaker.of_reduced` of all makers, or None."""
        makers = [maker.of_reduced(scale) for maker in self.makers]
        if any(maker is None for maker in makers) or self.refreshed:
            return None
        return PairMaker([maker for maker in makers if maker is not None], changes_shape=self.changes_shape)

    def symmetric_copies(self, x: Tensor) -> list[Tensor]:
        """Copies of samples (B, ...) by the symmetries of the first maker that has some; else the samples alone."""
        return next((copies for maker in self.makers if len(copies := maker.symmetric_copies(x)) > 1), [x])

    def parts(self, x: Tensor) -> list[Tensor]:
        """Parts of samples (B, ...) by the first maker that has some."""
        return next((parts for maker in self.makers if (parts := maker.parts(x))), [])

    def share_of_parts(self, x: Tensor) -> float:
        """The largest `ViewMaker.share_of_parts`."""
        return max((maker.share_of_parts(x) for maker in self.makers), default=0.0)

    def _check(self, maker: ViewMaker, x: Tensor, pair: PositivePair) -> None:
        """Raise InputError unless both views, which a maker of the user may have made, fit the samples."""
        for view in (pair.first, pair.second):
            if not isinstance(view, Tensor):
                raise InputError(
                    f"the view maker {type(maker).__name__} returned {type(view).__name__}, expected a torch.Tensor"
                )
            if len(view) != len(x) if self.changes_shape else view.shape != x.shape:
                raise InputError(
                    f"the view maker {type(maker).__name__} made views of shape {tuple(view.shape)} from samples of "
                    f"shape {tuple(x.shape)}, expected one view of each sample, of the same shape"
                )
            if view.dtype != x.dtype:
                raise InputError(
                    f"the view maker {type(maker).__name__} made views of {view.dtype} from samples of {x.dtype}, "
                    "expected the same dtype"
                )

    def for_batch(self, batch: Batch, framework: nn.Module, *, second: Tensor | None = None) -> PositivePair:
        """Both views of a training batch, for the framework that trains on them; `second` as in the call."""
        return self(
            batch.x,
            index=batch.index,
            generator=batch.generator,
            progress=batch.progress,
            second=second,
            framework=framework,
        )

    def view(
        self,
        x: Tensor,
        *,
        index: Tensor | None = None,
        generator: torch.Generator | None = None,
        framework: nn.Module | None = None,
    ) -> Tensor:
        """One view of each sample, made like second views."""
        return self(x, index=index, generator=generator, framework=framework).second

    def represent(self, represent: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """Representations of scaled samples (B, ...): theirs, or means of their `ViewMaker.typical_views`."""
        maker: ViewMaker | None = self.makers[-1] if self.makers else None
        first = None if maker is None else maker.typical_views(x[:1])
        if maker is None or first is None:
            return represent(x)

        def mean(part: Tensor) -> Tensor:
            views = maker.typical_views(part)
            assert views is not None
            return represent(views.flatten(0, 1)).unflatten(0, views.shape[:2]).mean(dim=1)

        return apply_in_blocks(mean, x, max(1, REPRESENTED_VIEWS // first.shape[1]))

    @torch.no_grad()
    def _refresh(self, encoder: nn.Module) -> None:
        with eval_mode(encoder):
            for maker in self.makers:
                maker.refresh(lambda pool: apply_in_blocks(lambda x: encoder(x).float(), pool, 256))


def _read_quarter(pair: PairMaker, keys: object) -> None:
    pair.searched = int(pair.quarter)
