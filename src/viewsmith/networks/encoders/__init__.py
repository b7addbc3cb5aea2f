"""Encoders: samples to representations; each file registers its own."""
