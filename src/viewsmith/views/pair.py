"""The two views of a pair, made by view makers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.rows import Rows, apply_in_blocks
from viewsmith.core.schedule import Batch
from viewsmith.networks.wrappers import eval_mode
from viewsmith.views.base import PositivePair, ViewMaker
from viewsmith.views.neighbor_search import NeighborGraph

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

    quarter: Tensor

    def __init__(self, makers: Sequence[ViewMaker], *, refreshed: bool = False, changes_shape: bool = False) -> None:
        super().__init__()
        self.changes_shape = changes_shape
        self.makers: Sequence[ViewMaker] = nn.ModuleList(makers)  # type: ignore[assignment]
        self.refreshed = refreshed
        if refreshed:
            self.register_buffer("quarter", torch.tensor(0))
            self.searched = 0  # the same as a Python number, because reading a buffer would wait for a GPU
            self.register_load_state_dict_post_hook(_read_quarter)

    @property
    def needs_pool(self) -> bool:
        """Whether any maker uses other rows."""
        return any(maker.needs_pool for maker in self.makers)

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
        """Both views of samples (B, ...) at the rows `index`, int64 (B,); the second ones of `second`, if given.

        `progress`, 0 to 1, tells when to search refreshed neighbors in the representations of the `framework`, whose
        losses adversarial views need.

        Raises
        ------
        InputError
            A view maker returns something else than a view of each sample.
        RuntimeError
            The neighbors must be refreshed, but no framework is given.
        """
        if self.refreshed and int(4 * progress) > self.searched:
            if framework is None:
                raise RuntimeError("neighbors are searched in the encoder's representations: give framework=...")
            self._refresh(framework.get_submodule("encoder"))
            self.searched = int(4 * progress)
            self.quarter.fill_(self.searched)
        pair = PositivePair(x, x if second is None else second, None if index is None else (index, index))
        for maker in self.makers:
            options = {"loss": framework} if maker.needs_loss else {}
            pair = maker.pair(pair, generator=generator, **options)
            self._check(maker, x, pair)
        return pair

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
        pair: PositivePair = self(
            batch.x,
            index=batch.index,
            generator=batch.generator,
            progress=batch.progress,
            second=second,
            framework=framework,
        )
        return pair

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
                if isinstance(maker, NeighborGraph):
                    maker.refresh(lambda pool: apply_in_blocks(lambda x: encoder(x).float(), pool, 256))


def _read_quarter(pair: PairMaker, keys: object) -> None:
    pair.searched = int(pair.quarter)
