"""Denoisers of the conditional diffusion model, which map noised codes, times and conditions to predictions."""
