"""Raw counts of single cells: how they are recognized, and their log-normalization."""

import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, warn
from viewsmith.core.rows import AnyRows, RowSource

#: Counts of each cell after normalization, as in Seurat and in scanpy's tutorials.
TOTAL = 10_000.0

# What is said where counts are recognized.
NORMALIZED = (
    f"raw counts, log-normalized: each row to {TOTAL:,.0f} counts, then log(1 + x); normalization='none' "
    "(--normalization none) leaves them as they are"
)

# Values checked at a time, so that temporary arrays are small.
_BLOCK = 100_000


def looks_like_counts(x: Any, names: Sequence[str] = ()) -> bool:
    """Whether a matrix holds raw counts: whole numbers, none negative, some above 1, and more than half of them zero.
    Peaks of chromatin, by the `names` of the columns, may be 0 and 1 alone: open or not."""
    largest, nonzero = 0.0, 0
    for part in value_blocks(x):
        if not are_counts(part):
            return False
        largest, nonzero = max(largest, float(part.max(initial=0))), nonzero + int(np.count_nonzero(part))
    return largest > (0 if names_of_peaks(names) else 1) and 2 * nonzero < x.shape[0] * x.shape[1]


_BARCODE = re.compile(r"[ACGT]{8,}([-_.:].*)?")
# Also places of methylation and probes of arrays.
_GENE = re.compile(
    r"ENS[A-Z]{0,5}G\d{6,}.*|(MT|mt)-\w+|R[Pp][LSls]\d+\w*|(cg|ch\.\w+\.)\d{6,}\w*|\d{4,}(_[a-z])?_at|ILMN_\d{5,}"
)


def genes_in_rows(rows: Sequence[str], columns: Sequence[str]) -> bool:
    """Whether the rows of a matrix are genes and its columns cells, by their names: barcodes, Ensembl identifiers, and
    genes of mitochondria and ribosomes."""
    cells = sum(bool(_BARCODE.fullmatch(name)) for name in columns) > len(columns) / 2
    named = sum(bool(_GENE.fullmatch(name)) for name in rows)
    others = sum(bool(_GENE.fullmatch(name)) for name in columns)
    return (cells and not others) or (named >= max(5, len(rows) / 200) and not others)


def features_in_rows(x: np.ndarray) -> bool:
    """Whether rows of values of one unit are features rather than samples, as genes, sites and metabolites are: they
    have different means, and each column has nearly the same. Columns in standard deviations say nothing, and those in
    the order of an axis, such as years, are told by near ones."""
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # rows or columns that are empty
        spread, of_rows, of_columns = np.nanvar(x), np.nanmean(x, axis=1), np.nanmean(x, axis=0)
        scales = np.nanstd(x, axis=0)
        standardized = np.ptp(scales) < 1e-3 * scales.max()
        near, far = (np.nanmedian(np.abs(x - np.roll(x, by, axis=1))) for by in (1, x.shape[1] // 2))
        alike = np.nanvar(of_rows) > 0.6 * spread and np.nanvar(of_columns) < 0.02 * spread
        return bool(alike and not standardized and near > 0.5 * far)


def names_of_genes(names: Sequence[str]) -> bool:
    """Whether names are of genes: some are Ensembl identifiers, or genes of mitochondria and ribosomes."""
    return sum(bool(_GENE.fullmatch(name)) for name in names) >= max(5, len(names) / 200)


_PEAK = re.compile(r"(chr)?\w+[:_-]\d+[_-]\d+")


def names_of_peaks(names: Sequence[str]) -> bool:
    """Whether names are intervals of a genome, such as chr1:10109-10357."""
    return len(names) > 0 and all(map(_PEAK.fullmatch, names))


def uneven_totals(x: np.ndarray) -> bool:
    """Whether totals of rows of counts differ clearly more than those of columns, as totals of genes do."""
    spread = [float(np.log1p(x.sum(axis=axis, dtype=np.float64)).var()) for axis in (1, 0)]
    return spread[0] > 4 * spread[1]


#: Fewest columns that may be counts of samples; rows of them that are looked at, and the least largest value.
MANY_COLUMNS, ROWS_SEEN, LARGE = 100, 200, 1000.0


def warn_depth(x: AnyRows, source_name: str) -> None:
    """Warn of many columns that may be counts of samples, such as reads of genes: whole numbers, few of them large,
    whose totals differ between rows by more than a fifth. These say how much of a sample was read."""
    part = np.asarray(x[:ROWS_SEEN])
    if not are_counts(part) or part.max() < max(LARGE, 20 * np.median(part)):
        return
    totals = part.sum(axis=1, dtype=np.float64)
    if totals.max() > 1.2 * totals.min():
        warn(
            f"{source_name}: columns may be counts, such as of genes, by their whole numbers, and their totals differ, "
            f"from {totals.min():,.0f} to {totals.max():,.0f} a row: --normalization log takes shares and logarithms"
        )


def warn_counts(x: Any, source_name: str) -> None:
    """Warn of raw counts that are given to a model of values that were not recognized as counts."""
    if looks_like_counts(x):
        warn(
            f"{source_name} has raw counts, but the run was fitted on other values: give values as those, "
            "viewsmith.modalities.log_normalize(counts) for example"
        )


def check_counts(x: Any, source_name: str) -> None:
    """Raise InputError unless all values of a matrix or RowSource are whole numbers and none is negative."""
    for part in value_blocks(x):
        if not are_counts(part):
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


def value_blocks(x: Any) -> Iterator[np.ndarray]:
    """Values of rows in blocks, of sparse ones those that are stored."""
    if isinstance(x, RowSource):
        yield from (part if isinstance(part, np.ndarray) else part.data for part in x.stored_blocks())
        return
    if hasattr(x, "tocsr"):
        x = (x if x.format in ("csr", "csc", "coo", "bsr") else x.tocsr()).data
    values = np.asarray(x)
    step = max(1, _BLOCK // max(1, values[:1].size))
    for begin in range(0, len(values), step):
        yield values[begin : begin + step]


def are_counts(part: np.ndarray) -> bool:
    """Whether values are whole numbers and none is negative."""
    # Comparisons with NaN are false, and infinity is refused elsewhere.
    return bool(((part >= 0) & (part == np.round(part))).all())
