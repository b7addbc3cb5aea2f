"""Numerical methods that several losses use: computation in chunks, and values per sample from batch means."""
