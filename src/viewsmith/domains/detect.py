"""Which domain samples are of, from what they look like."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.core.messages import join_names
from viewsmith.core.registry import entries, names
from viewsmith.domains.base import Domain, domain_of
from viewsmith.domains.checks import check_array, to_rows
from viewsmith.domains.vectors import VECTORS


def detect(X: Any, domain: str = "auto") -> Domain:
    """The domain of what was given in Python; "auto": by type, dtype and shape.

    Texts, in a list or a column, are DNA, and a list of arrays is images; arrays are told by dtype and shape
    (`find_domain`); everything else, such as DataFrames and sparse matrices, is vectors.
    """
    if domain != "auto":
        known = names("domain")
        if domain not in known:
            raise InputError(f"domain is {domain!r}, expected {join_names(['auto', *known])}")
        return domain_of(domain)
    if hasattr(X, "detach"):
        X = to_rows(X)[0]
    if isinstance(X, np.ndarray) and X.size and (X.ndim in (3, 4) or (X.dtype == np.uint8 and X.ndim == 2)):
        return find_domain(X)
    return next((each for each in _all() if each.recognizes(X)), VECTORS)


def find_domain(x: np.ndarray, domain: str | None = None, what: str = "the data") -> Domain:
    """Domain of an array: by its shape and dtype, or `domain` where the array can be read as that.

    Parameters
    ----------
    x : ndarray, shape (n, ...)
        uint8 (n, H, W) or (n, H, W, 1 or 3) with sides of at least 4 pixels are images; uint8 (n, L) whose values are
        all ASCII letters of A C G T N, in either case, with zeros after the end of a sequence, is DNA; other numbers
        (n, d) are vectors.
    domain : str, optional
        ``vectors`` takes any array and lays its rows flat.
    what : str
        How messages name the data.

    Raises
    ------
    InputError
        No domain, or not the one asked for, has such arrays.
    """
    check_array(x, what)
    if domain is not None:
        known = domain_of(domain)
        known.check(x, what)
        return known
    for each in _all():
        if each.recognizes(x):
            return each
    for each in _all():
        each.near_miss(x, what)
    return VECTORS


def _all() -> list[Domain]:
    return [entry.build() for entry in entries("domain")]
