"""Thinning of counts as a view."""

import copy
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError, check_choice, check_fraction
from viewsmith.core.registry import Bounds, register
from viewsmith.modalities.vectors.counts import are_counts, value_blocks
from viewsmith.views.base import ViewContext, ViewMaker

Counted = Literal["counts", "log1p"]

# Relative error of a value after log1p, scaling and their inverses in float32, with a margin.
_TOLERANCE = 3e-5

# Smaller values are zeros that scaling and its inverse have changed.
_ZERO = 1e-5

# Each round of Euclid's algorithm at least halves the unit.
_ROUNDS = 3

# The largest smallest count of a row: with a smaller unit, any numbers are nearly whole multiples of it.
_LARGEST = 32

# Values this many times the smallest one are not used to find the unit, because their error is too large.
_RANGE = 64.0
_VALUES = 4_000_000


class Thinning(ViewMaker):
    """Each count kept with probability `keep`: c' ~ Binomial(c, keep), independently for every entry.

    Of a Poisson count with mean m, thinning gives a Poisson count with mean keep * m, and two parts of a split are
    independent (Neufeld et al. 2023, Inference after latent variable estimation for single-cell RNA sequencing data,
    section 2.2). Rows of log-normalized counts, log(1 + s c) with a factor s for each row, are thinned as counts and
    normalized again to the same total, so that a view has the total of its sample.

    Parameters
    ----------
    units : nn.Module, optional
        Input layer that scaled the rows, with ``inverse``; it is copied. Default: rows are not scaled.
    keep : float
        Probability to keep a count, above 0 and below 1.
    counted : {"counts", "log1p"}
        Whether rows in the units of the data are counts, or log-normalized counts.

    Raises
    ------
    InputError
        Outside of training: samples that are not counts. In training, `counted_as` checks all rows once.
    """

    def __init__(self, units: nn.Module | None = None, keep: float = 0.5, counted: Counted = "counts") -> None:
        super().__init__()
        check_fraction("keep", keep)
        check_choice("counted", counted, Counted)
        self.units, self.keep, self.counted = copy.deepcopy(units), keep, counted

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        values = x if self.units is None else self.units.inverse(x)  # type: ignore[operator]
        if self.counted == "log1p":
            values = values.expm1()
        values = torch.where(values < _ZERO, 0.0, values)
        unit = count_unit(values) if self.counted == "log1p" else values.new_ones(len(x), 1)
        counts = (values / unit).round()
        if not self.training and not _whole_multiples(values, unit, counts).all():
            raise InputError(_refusal("a sample"))
        kept = torch.binomial(counts, torch.full_like(counts, self.keep), generator=generator)
        if self.counted == "log1p":
            kept = (kept * (values.sum(1, keepdim=True) / kept.sum(1, keepdim=True).clamp_min(1))).log1p()
        return kept if self.units is None else self.units(kept)


def count_unit(values: Tensor) -> Tensor:
    """The value of one count in each row of normalized counts, by Euclid's algorithm from the smallest; too large if
    all counts have a common divisor, or the smallest is above 32."""
    smallest = torch.where(values > 0, values, torch.inf).amin(1, keepdim=True)
    smallest = torch.where(smallest.isinf(), 1.0, smallest)
    near = torch.where(values <= _RANGE * smallest, values, 0.0)
    divisor = torch.ones_like(smallest)
    for _ in range(_ROUNDS):
        unit = smallest / divisor
        rest = (near - unit * (near / unit).round()).abs()
        rest = torch.where(rest > _TOLERANCE * near, rest, unit).amin(1, keepdim=True)
        divisor = (smallest / rest).round()
    return smallest / torch.where(divisor <= _LARGEST, divisor, 1.0)


def counted_as(rows: np.ndarray) -> Counted:
    """Whether all rows are counts or all are log-normalized counts, log(1 + s c) with a factor s for each row."""
    if all(map(are_counts, value_blocks(rows))):
        return "counts"
    step = max(1, _VALUES // rows.shape[1])
    for start in range(0, len(rows), step):
        part = torch.from_numpy(rows[start : start + step])
        values = part.expm1()
        unit = count_unit(values.clamp_min(0))
        wrong = ~((part >= 0).all(1) & _whole_multiples(values, unit, (values / unit).round()))
        if wrong.any():
            raise InputError(_refusal(f"row {start + int(wrong.nonzero()[0])} (counted from 0)"))
    return "log1p"


def _whole_multiples(values: Tensor, unit: Tensor, counts: Tensor) -> Tensor:
    """For each row, whether all values are whole multiples of the unit, (B,)."""
    return ((values - unit * counts).abs() <= _TOLERANCE * values.clamp_min(unit)).all(1)


def _refusal(row: str) -> str:
    return (
        f"the views 'thinning' need counts, or counts that were normalized row by row and log1p-transformed, but {row} "
        "is neither: give raw counts (layer, --layer), or choose the views 'mask'"
    )


@register(
    "view maker",
    "thinning",
    help="counts thinned at random, as if a cell had been sequenced less deeply; needs counts",
    modalities="vectors",
    source="Neufeld et al. 2023",
    derive=lambda options, data: {"counted": counted_as(data.rows)},
    needs="counts",
)
def _thinning(context: ViewContext, *, thinning_keep: Annotated[float, Bounds(gt=0, lt=1)] = 0.5) -> Thinning:
    return Thinning(context.layer, thinning_keep, context.derived.get("counted", "counts"))
