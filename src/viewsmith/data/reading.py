"""What a reader is asked for and what it hands back; a reader is a function from a path and a request to findings."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.core.messages import one_line
from viewsmith.domains.checks import Impute


@dataclass(frozen=True)
class Request:
    """Options of `load_dataset` as the readers see them."""

    label: str | None = None
    drop: tuple[str, ...] = ()
    one_hot: tuple[str, ...] = ()
    impute: Impute = "none"
    schema: dict[str, Any] | None = None
    labels: Path | None = None
    layer: str | None = None
    image_size: int | None = None

    def remembered(self, option: str) -> Any:
        """An option of the file as given or, without that, as it was for the data that the run was fitted on."""
        given = getattr(self, option)
        return given if given is not None or self.schema is None else self.schema.get(option)

    def check_no_table_options(self, source: str) -> None:
        """Arrays have no named columns, so options that name some cannot be meant for them."""
        for option, value in (("label", self.label), ("drop", self.drop), ("one_hot", self.one_hot)):
            if value:
                raise InputError(
                    f"{source} is not a table, so {option}={one_line(value)} names no column in it; leave {option} out"
                )


@dataclass(frozen=True)
class Found:
    """What a reader found in a file, before the rules that hold for every source.

    Attributes
    ----------
    x : ndarray, shape (n, ...)
    y : ndarray, shape (n,), or None
        Labels as they are in the file.
    n_train : int or None
        The first `n_train` rows are the train part of a given split.
    names : list of str, or None
        Names of the columns of `x`.
    table : dict
        The table's part of the schema: ``columns``, ``one_hot``, ``drop``, ``label``. Empty for arrays.
    options : dict
        Options that a later file has to be read with, for the schema: ``layer``, ``image_size`` where they were given.
    row_names : list of str, or None
        Names of the rows where the file has some: image files, FASTA records, cells.
    """

    x: np.ndarray
    y: np.ndarray | None = None
    n_train: int | None = None
    names: list[str] | None = None
    table: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    row_names: list[str] | None = None


Reader = Callable[[Path, Request], Found]


@contextlib.contextmanager
def reading(what: str, kind: str) -> Iterator[None]:
    """Turn whatever a parser raises on a damaged file into one line that names the file.

    Parsers of damaged bytes raise nearly anything (zlib, struct, tokenizer, arrow and memory errors), hence the wide
    net; only the parser's own call belongs inside.

    Parameters
    ----------
    what : str
        The file, or the part of a file.
    kind : str
        What it was read as: ``an .npz archive``.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if isinstance(error, ValueError) and "allow_pickle" in str(error):
            raise InputError(
                f"{what} holds Python objects, which are never unpickled; save numbers, or text with astype(str)"
            ) from error
        reason = one_line(f"{type(error).__name__}: {error}", 200)
        raise InputError(f"cannot read {what} as {kind}; is it damaged, or another format? ({reason})") from error
