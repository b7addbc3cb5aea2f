"""Reader of one count matrix of genes and cells (Matrix Market), with files of their names beside it."""

from pathlib import Path
from typing import Any

from scipy import sparse

from viewsmith.core.errors import InputError, one_line, warn
from viewsmith.data.formats import reader
from viewsmith.data.options import DataOptions
from viewsmith.data.readers.tenx import counts_of_cells, lines_of
from viewsmith.data.reading import FileContents, reading
from viewsmith.modalities.vectors.counts import genes_in_rows, names_of_genes

_LARGEST = 2**26  # bytes of a file of names
_NAMES = (".tsv", ".csv", ".txt")


@reader(
    "mtx",
    *(".mtx", ".mtx.gz"),
    help="one count matrix, with files of names beside it; whether genes are rows is told by the names",
    noun="an .mtx matrix",
    modality="vectors",
    options=("labels",),
    example="counts.mtx --labels cells.csv --label cell_type",
)
def read_mtx(path: Path, request: DataOptions) -> FileContents:
    """Cells, float32 (n, genes). Names of genes are sought in files beside the matrix with as many lines as it has rows
    or columns; which of both the genes are is told by them, and said."""
    if path.name in ("matrix.mtx", "matrix.mtx.gz") and any(path.parent.glob("barcodes.tsv*")):
        raise InputError(f"{path} belongs to its folder, which is read as a whole: give {path.parent}")
    with reading(str(path), "a Matrix Market file"):
        from scipy.io import mmread

        counts = sparse.csr_array(mmread(path))
    rows, columns = (_names(path, size) for size in counts.shape)
    by_rows, by_columns = (names_of_genes(names) or _says_genes(file) for names, file in (rows, columns))
    if genes_in_rows(rows[0], columns[0]) or (by_rows and not by_columns):
        transposed = True
    elif genes_in_rows(columns[0], rows[0]) or by_columns:
        transposed = False
    else:
        raise InputError(
            f"{path} is a matrix of {counts.shape[0]:,} x {counts.shape[1]:,} whose genes cannot be told from its "
            "cells: put a file with the names of the genes beside it, genes.txt, a name in each line"
        )
    genes, cells = (rows, columns) if transposed else (columns, rows)
    warn(
        f"{path}: genes are {'rows' if transposed else 'columns'} and cells {'columns' if transposed else 'rows'}, by "
        f"the names in {one_line((genes[1] or cells[1] or path).name, 60)}"
    )
    n = counts.shape[1 if transposed else 0]
    names = cells[0] or [str(number) for number in range(n)]
    of_genes = genes[0] or [str(number) for number in range(counts.shape[0 if transposed else 1])]
    cells_first: Any = sparse.csr_array(counts.T) if transposed else counts
    return counts_of_cells(cells_first, names, of_genes, request, str(path), (path.parent,))


def _names(path: Path, size: int) -> tuple[list[str], Path | None]:
    """The names of as many rows or columns, and their file, one with the name of the matrix first."""
    stem = path.name.split(".")[0]
    files = [file for file in sorted(path.parent.iterdir()) if file.name.removesuffix(".gz").lower().endswith(_NAMES)]
    for file in sorted(files, key=lambda file: not file.name.startswith(stem)):
        if not file.is_file() or file.stat().st_size > _LARGEST:
            continue
        try:
            lines = [line for line in lines_of(file) if line.strip()]
        except (OSError, UnicodeDecodeError):
            continue
        if len(lines) in (size, size + 1):
            fields = [line.replace('"', "").split("\t" if "\t" in line else ",") for line in lines[len(lines) - size :]]
            return [_best(field) for field in fields], file
    return [], None


def _says_genes(file: Path | None) -> bool:
    """Whether the name of a file says that its lines are genes."""
    return file is not None and any(word in file.name.lower() for word in ("gene", "feature", "var"))


def _best(fields: list[str]) -> str:
    """The name in a line: the second field of three as in files of 10x, otherwise the first."""
    return (fields[1] if len(fields) >= 3 and fields[2] == "Gene Expression" else fields[0]).strip()
