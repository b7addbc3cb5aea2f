"""Recordings: multivariate series."""
