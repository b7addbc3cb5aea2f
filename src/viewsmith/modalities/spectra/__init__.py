"""Spectra: samples as one value at each point of an axis, such as wave numbers."""
