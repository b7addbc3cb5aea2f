"""DiffAug: a diffusion generator makes positives."""
