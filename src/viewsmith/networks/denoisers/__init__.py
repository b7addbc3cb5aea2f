"""Denoisers of the conditional diffusion model: from noised codes, time steps and conditions to predictions."""
