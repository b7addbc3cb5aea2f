"""Vectors: samples as rows of numbers."""
