"""Detection of the domain from type, dtype and shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, join_names
from viewsmith.core.registry import entries, names
from viewsmith.core.rows import RowSource
from viewsmith.modalities.base import Domain, domain_of
from viewsmith.modalities.checks import check_array, to_rows
from viewsmith.modalities.vectors.modality import VECTORS


def detect(X: Any, domain: str = "auto") -> Domain:
    """The domain of samples given in Python.

    A list or column of strings is DNA. A list of arrays is images. The dtype and shape of an array determine its domain
    (`find_domain`). Everything else, such as DataFrames and sparse matrices, is vectors.

    Parameters
    ----------
    X : array-like, n samples
    domain : str
        Name of a domain; "auto" detects it.

    Returns
    -------
    Domain

    Raises
    ------
    InputError
        Unknown name, or an array that no domain accepts.
    """
    if domain != "auto":
        known = names("domain")
        if domain not in known:
            raise InputError(f"domain is {domain!r}, expected {join_names(['auto', *known])}")
        return domain_of(domain)
    if isinstance(X, RowSource):
        return find_domain(X)
    if hasattr(X, "detach"):
        X = to_rows(X)[0]
    if isinstance(X, np.ndarray) and X.size and (X.ndim in (3, 4) or (X.dtype == np.uint8 and X.ndim == 2)):
        return find_domain(X)
    return next((each for each in _all() if each.recognizes(X)), VECTORS)


def find_domain(x: np.ndarray | RowSource, domain: str | None = None, what: str = "the data") -> Domain:
    """The domain of an array, by its shape and dtype, or the given one after a check.

    Parameters
    ----------
    x : ndarray or RowSource, shape (n, ...)
        uint8 (n, H, W) or (n, H, W, 1 or 3) with sides of at least 4 pixels are images; uint8 (n, L) whose values are
        all ASCII letters of A C G T N, upper or lower case, with zeros after the end of a sequence, is DNA; other
        numbers (n, d) are vectors.
    domain : str, optional
        Name of a domain. ``vectors`` accepts any array and flattens its rows.
    what : str
        Name of the data in messages.

    Returns
    -------
    Domain

    Raises
    ------
    InputError
        Unknown name, or an array that the domain does not accept.
    """
    check_array(x, what)
    if isinstance(x, RowSource):
        found = next((each for each in _all() if each.name == "images" and x.dtype == np.uint8), VECTORS)
        if domain not in (None, found.name):
            raise InputError(f"{what}: rows that stay on disk are {found.name} here, not {domain}; leave domain out")
        return found
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
