"""Recordings: samples as channels over time."""
