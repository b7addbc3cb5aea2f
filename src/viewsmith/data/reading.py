"""The interface of readers: a reader takes a path and a `Request`, and returns what it `Found` in the file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.core.messages import one_line, pluralize, warn
from viewsmith.core.row_source import RowSource, is_large
from viewsmith.domains.checks import Impute, check_labels, warn_outer_spaces
from viewsmith.domains.counts import Normalization
from viewsmith.domains.few_labels import lacks_labels, partial_labels
from viewsmith.domains.targets import Target, as_classes, numbers_of, without_label

if TYPE_CHECKING:
    from viewsmith.domains.tables.encoder import TableEncoder


@dataclass(frozen=True)
class Request:
    """Options of `load_dataset` for a reader."""

    label: str | None = None
    drop: tuple[str, ...] = ()
    one_hot: tuple[str, ...] = ()
    impute: Impute = "none"
    schema: dict[str, Any] | None = None
    labels: Path | None = None
    layer: str | None = None
    image_size: int | None = None
    neighbors: str | None = None
    stream: bool = False
    shared: bool = False
    cache: Path | None = None
    cache_if_large: Path | None = None
    columns: dict[str, str] | None = None
    strict: bool = False
    table: TableEncoder | None = None
    groups: str | None = None
    few_labels: bool | None = None
    split_by_groups: bool = False
    test_groups: np.ndarray | None = None  # groups of the rows of a new table that is split by groups
    use_rep: str | None = None
    target: Target | None = None
    normalization: Normalization = "auto"

    def or_fitted(self, option: str) -> Any:
        """The value of an option; if it is not given, the value that the run was fitted with."""
        given = getattr(self, option)
        return given if given is not None or self.schema is None else self.schema.get(option)

    @property
    def target_or_fitted(self) -> Target | None:
        """What labels are, as given; as in the run, if the label is that of the run; None: by the rule."""
        if self.target is not None or self.schema is None:
            return self.target
        same = self.label in (None, self.schema.get("label")) and self.labels is None
        return self.schema.get("target") if same else None

    def streams(self, shape: Sequence[int], dtype: Any = np.float32) -> bool:
        """Whether rows of this shape stay on disk: if it was asked for, or if they are large."""
        return self.stream or is_large(shape, dtype)

    def maps(self, shape: Sequence[int], dtype: Any = np.float32) -> bool:
        """Whether rows of this shape, in a file that can be read by index, stay there: also for several processes."""
        return self.shared or self.streams(shape, dtype)

    def check_no_table_options(self, source: str, labels: str = "") -> None:
        """Raise InputError if an option names a column, because arrays have no named columns.

        `labels` says where labels come from instead.
        """
        # Files that hold their labels as y have no other name for them.
        label = None if self.few_labels and self.label == "y" else self.label
        for option, value in (
            ("label", label),
            ("drop", self.drop),
            ("one_hot", self.one_hot),
            ("columns", self.columns),
        ):
            if value:
                todo = labels if labels and option == "label" else f"leave {option} out"
                raise InputError(f"{source} is not a table and has no column for {option}={one_line(value)}; {todo}")


@dataclass(frozen=True)
class Found:
    """What a reader found in a file, before the checks for all sources.

    Attributes
    ----------
    x : ndarray, shape (n, ...), or RowSource
        A memory map or a source for rows that are not to be read as a whole.
    y : ndarray, shape (n,), or None
        Labels of the file, unchanged.
    n_train : int or None
        If the file gives the split: the first `n_train` rows are the train rows.
    names : list of str, or None
        Names of the columns of `x`.
    table : dict
        The schema of a table: ``columns``, ``one_hot``, ``drop``, ``label``. Empty for arrays.
    options : dict
        Options for reading later files, as part of the schema: ``layer`` and ``image_size``, if given.
    row_names : list of str, or None
        Names of the rows, if the file has names: image files, FASTA records, cells.
    neighbors : sparse matrix, shape (n, n), or None
        Neighbor graph of the rows; None if it was not requested.
    groups : ndarray, shape (n,), or None
        Groups of the rows, unchanged; None if they were not requested.
    cells : bool
        Whether rows are single cells, whose raw counts are recognized.
    """

    x: np.ndarray | RowSource
    y: np.ndarray | None = None
    n_train: int | None = None
    names: list[str] | None = None
    table: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    row_names: list[str] | None = None
    neighbors: Any = None
    groups: np.ndarray | None = None
    cells: bool = False


Reader = Callable[[Path, Request], Found]


def find_labels(found: Found, request: Request, n_rows: int, name: str) -> tuple[np.ndarray | None, bool]:
    """Labels, and whether some may be missing: because it was said, or because there are gaps, which is then said."""
    label = request.or_fitted("label")
    column = "y" if label is None else f"the label column {one_line(label, 60)!r}"
    what, expected = f"{column} in {name}", bool(request.or_fitted("few_labels"))
    if found.y is None:
        return None, expected
    y, partial = labels_of(found.y, request, n_rows, what, say=request.schema is None)
    if not partial:
        return y, False
    absent = without_label(y)
    if absent.all() and labels_may_lack(request):
        return None, expected
    if absent.all():
        raise InputError(f"{what}: all {pluralize(n_rows, 'label')} are missing (NaN or empty): leave the label out")
    if not expected and request.schema is None:  # a run has said so when it was fitted
        warn(
            f"{name}: {int(absent.sum()):,} of {pluralize(n_rows, 'row')} have no label (NaN or empty), and are not "
            "scored by evaluate"
        )
    return y, True


def labels_of(y: np.ndarray, request: Request, n_rows: int, what: str, *, say: bool = False) -> tuple[np.ndarray, bool]:
    """Checked labels, classes or numbers, and whether some may be missing; `say` where the kind may be wrong."""
    target, expected = request.target_or_fitted, bool(request.or_fitted("few_labels"))
    numbers = numbers_of(y, what, target, say=say)
    if numbers is not None:
        if len(numbers) != n_rows:
            raise InputError(f"{what} has {pluralize(len(numbers), 'number')} for {pluralize(n_rows, 'row')}")
        return numbers, expected or bool(np.isnan(numbers).any())
    given = as_classes(y, target)
    partial = expected or lacks_labels(given, what)
    found = (partial_labels if partial else check_labels)(given, n_rows, what)
    _warn_labels(found, what)
    return found, partial


def _warn_labels(y: np.ndarray, what: str) -> None:
    if y.dtype.kind == "U":
        warn_outer_spaces(np.unique(y).tolist(), what)


def labels_may_lack(request: Request) -> bool:
    """Whether rows are read without labels if the labels cannot be used: for a fitted run that found them by itself."""
    return request.schema is not None and request.label is None and request.labels is None


@contextlib.contextmanager
def reading(what: str, kind: str) -> Iterator[None]:
    """Convert the exceptions of a parser to an InputError that names the file.

    Parsers raise many types of exceptions for damaged files (of zlib, struct, tokenizers, arrow, memory), so all are
    caught. Only the call of the parser may be inside the ``with`` block.

    Parameters
    ----------
    what : str
        The file, or the part of a file.
    kind : str
        The expected format, such as ``an .npz archive``.

    Raises
    ------
    InputError
        Instead of any exception in the block.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if isinstance(error, ValueError) and "allow_pickle" in str(error):
            raise InputError(
                f"{what} contains Python objects, which are never unpickled; save numbers, or text with astype(str)"
            ) from error
        reason = one_line(f"{type(error).__name__}: {error}", 200)
        raise InputError(f"cannot read {what} as {kind}; is it damaged, or another format? ({reason})") from error
