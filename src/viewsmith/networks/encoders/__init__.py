"""Encoders, which map samples to representations; each file registers its encoders."""
