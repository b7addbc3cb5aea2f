"""Raw counts of single cells: how they are recognized, their log-normalization, and thinning as a view."""

import copy
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError, check_choice, check_fraction, warn
from viewsmith.core.registry import Bounds, register
from viewsmith.core.rows import AnyRows, RowSource
from viewsmith.views.base import ViewContext, ViewMaker

#: Counts of each cell after normalization, as in Seurat and in scanpy's tutorials.
TOTAL = 10_000.0

# What is said where counts are recognized.
NORMALIZED = (
    f"raw counts, log-normalized: each row to {TOTAL:,.0f} counts, then log(1 + x); normalization='none' "
    "(--normalization none) leaves them as they are"
)

# Values checked at a time, so that temporary arrays are small.
_BLOCK = 100_000


def looks_like_counts(x: Any) -> bool:
    """Whether a matrix holds raw counts: whole numbers, none negative, some above 1, and more than half of
    them zero."""
    largest, nonzero = 0.0, 0
    for part in _parts(x):
        if not _whole(part):
            return False
        largest, nonzero = max(largest, float(part.max(initial=0))), nonzero + int(np.count_nonzero(part))
    return largest > 1 and 2 * nonzero < x.shape[0] * x.shape[1]


_BARCODE = re.compile(r"[ACGT]{8,}([-_.:].*)?")
_GENE = re.compile(r"ENS[A-Z]{0,5}G\d{6,}.*|(MT|mt)-\w+|R[Pp][LSls]\d+\w*")


def genes_in_rows(rows: Sequence[str], columns: Sequence[str]) -> bool:
    """Whether the rows of a matrix are genes and its columns cells, by their names: barcodes, Ensembl identifiers, and
    genes of mitochondria and ribosomes."""
    cells = sum(bool(_BARCODE.fullmatch(name)) for name in columns) > len(columns) / 2
    named = sum(bool(_GENE.fullmatch(name)) for name in rows)
    others = sum(bool(_GENE.fullmatch(name)) for name in columns)
    return (cells and not others) or (named >= max(5, len(rows) / 200) and not others)


def uneven_totals(x: np.ndarray) -> bool:
    """Whether totals of rows of counts differ clearly more than those of columns, as totals of genes do."""
    spread = [float(np.log1p(x.sum(axis=axis, dtype=np.float64)).var()) for axis in (1, 0)]
    return spread[0] > 4 * spread[1]


def warn_counts(x: Any, source_name: str) -> None:
    """Warn of raw counts that are given to a model of values that were not recognized as counts."""
    if looks_like_counts(x):
        warn(
            f"{source_name} has raw counts, but the run was fitted on other values: give values as those, "
            "viewsmith.modalities.log_normalize(counts) for example"
        )


def check_counts(x: Any, source_name: str) -> None:
    """Raise InputError unless all values of a matrix or RowSource are whole numbers and none is negative."""
    for part in _parts(x):
        if not _whole(part):
            wrong = part[~((part >= 0) & (part == np.round(part)))].flat[0]
            raise InputError(
                f"{source_name} has the value {wrong:.6g}, expected raw counts, which are to be log-normalized: give "
                "counts (layer, --layer)"
            )


def log_normalize(x: Any, *, out: np.ndarray | None = None) -> Any:
    """Log-normalized counts, log(1 + 10,000 c / (sum of the row)), as float32; rows of zeros stay zero.

    Parameters
    ----------
    x : ndarray or scipy sparse matrix, shape (n, d)
        Raw counts. The sum is over the given columns.
    out : ndarray of float32, shape (n, d), optional
        Where the result for an array is written; it may be `x`.

    Returns
    -------
    ndarray or scipy sparse matrix in CSR format, shape (n, d)
        Sparse if `x` is.
    """
    total = np.asarray(x.sum(axis=1, dtype=np.float64)).reshape(-1)
    factor = (TOTAL / np.where(total > 0, total, 1.0)).astype(np.float32)
    if hasattr(x, "tocsr"):
        made = x.tocsr().astype(np.float32)
        made.data = np.log1p(made.data * np.repeat(factor, np.diff(made.indptr)))
        return made
    scaled = np.multiply(x, factor[:, None], dtype=np.float32, out=out)
    return np.log1p(scaled, out=scaled)


class _LogNormalizedRows(RowSource):
    """Rows of counts that are log-normalized where they are read."""

    def __init__(self, source: RowSource) -> None:
        super().__init__(source.shape, source.name)
        self.source = source
        self.by_index, self.complete = source.by_index, source.complete

    def read_range(self, start: int, stop: int) -> np.ndarray:
        rows = self.read_sparse(start, stop)
        return self._normalized(self.source[start:stop]) if rows is None else rows.toarray()

    def read_index(self, index: np.ndarray) -> np.ndarray:
        return self._normalized(self.source[index])

    def read_sparse(self, start: int, stop: int) -> Any:
        rows = self.source.sparse(start, stop)
        return None if rows is None else log_normalize(rows)

    def _normalized(self, rows: np.ndarray) -> np.ndarray:
        return log_normalize(rows)


def log_normalized(x: AnyRows) -> AnyRows:
    """`log_normalize` of rows that were read from a file: in place, or where they are read."""
    if isinstance(x, RowSource):
        return _LogNormalizedRows(x)
    return log_normalize(x, out=x if x.flags.writeable else None)


def _parts(x: Any) -> Iterator[np.ndarray]:
    """Values of rows in blocks, of a sparse matrix those that it stores."""
    if isinstance(x, RowSource):
        yield from x.blocks()
        return
    if hasattr(x, "tocsr"):
        x = (x if x.format in ("csr", "csc", "coo", "bsr") else x.tocsr()).data
    values = np.asarray(x)
    step = max(1, _BLOCK // max(1, values[:1].size))
    for begin in range(0, len(values), step):
        yield values[begin : begin + step]


def _whole(part: np.ndarray) -> bool:
    # Comparisons with NaN are false, and infinity is refused elsewhere.
    return bool(((part >= 0) & (part == np.round(part))).all())


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
    if all(map(_whole, _parts(rows))):
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
