"""A family of custom transformations, defined by functions of the user."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.messages import error_text
from viewsmith.views.learned.transforms import Family


class Functions(Family):
    """A family of custom transformations T_1 ... T_M, each defined by a function.

    Parameters
    ----------
    functions : sequence of callable
        At least two; each maps samples (B, ...) to one view of each, and all views have the same shape. A view must
        depend on its sample only, and be the same in every call. Modules are copied; their weights are not trained.

    Raises
    ------
    InputError
        There are fewer than two functions. Calls raise it if a function fails, or returns views of another shape than
        the others, or values that are not finite.
    """

    def __init__(self, functions: Sequence[Callable[[Tensor], Tensor]]) -> None:
        super().__init__()
        self.size = self._check_size(len(functions), "functions")
        self.functions = [copy.deepcopy(f) if isinstance(f, nn.Module) else f for f in functions]
        self.names = [f"{number} {_name(f)}" for number, f in enumerate(functions)]
        # As submodules they move to the device of the family and are saved with it.
        self.networks = nn.ModuleList(f for f in self.functions if isinstance(f, nn.Module)).requires_grad_(False)

    def take(self, x: Tensor, t: Tensor) -> Tensor:
        # Each function is called once, on all samples for which it was drawn.
        rows = torch.arange(len(x), device=x.device).repeat_interleave(t.shape[1])
        order = t.flatten().argsort(stable=True)
        counts = torch.bincount(t.flatten(), minlength=self.size).tolist()
        parts = {k: self._view(k, x[part]) for k, part in enumerate(rows[order].split(counts)) if len(part)}
        first = min(parts)
        for k, part in parts.items():
            if part.shape[1:] != parts[first].shape[1:]:
                raise InputError(
                    f"{self._name(k)} returned views of shape {tuple(part.shape[1:])} and {self._name(first)} of "
                    f"shape {tuple(parts[first].shape[1:])}: all views of a family must have the same shape"
                )
        return torch.cat(list(parts.values()))[order.argsort()].unflatten(0, t.shape)

    def _view(self, k: int, x: Tensor) -> Tensor:
        try:
            view = self.functions[k](x)
        except Exception as error:
            raise InputError(f"{self._name(k)} failed for samples {tuple(x.shape)}: {error_text(error)}") from error
        if not isinstance(view, Tensor) or view.shape[:1] != x.shape[:1] or view.ndim < 2:
            given = tuple(view.shape) if isinstance(view, Tensor) else type(view).__name__
            raise InputError(f"{self._name(k)} returned {given} for samples {tuple(x.shape)}, expected a view of each")
        if not torch.isfinite(view).all():
            raise InputError(f"{self._name(k)} returned values that are not finite: test it on samples of zeros, too")
        return view.to(x.dtype)

    def _name(self, k: int) -> str:
        return f"transformation {k} ({_name(self.functions[k])})"


def _name(function: Callable[[Tensor], Tensor]) -> str:
    """The name of a function, also inside ``functools.partial``; of a module or other object the name of its class."""
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))
