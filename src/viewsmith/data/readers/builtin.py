"""Data sets that are part of scikit-learn; nothing is downloaded."""

from __future__ import annotations

from viewsmith.data.reading import Found, Request

BUILTIN = ("digits", "breast_cancer", "wine")


def read_builtin(name: str, request: Request) -> Found:
    """Vectors and classes of one of `BUILTIN`."""
    from sklearn import datasets

    request.check_no_table_options(name)
    bunch = getattr(datasets, f"load_{name}")()
    return Found(bunch.data, bunch.target, names=[str(feature) for feature in bunch.feature_names])
