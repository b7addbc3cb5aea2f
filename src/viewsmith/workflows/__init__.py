"""Whole tasks that several commands share, on files, runs and fitted models."""

from viewsmith.methods import loading  # noqa: F401, every method is registered
