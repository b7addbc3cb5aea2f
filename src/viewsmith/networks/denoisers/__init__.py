"""Denoisers of the conditional diffusion: noised codes, time steps, conditions to predictions like the codes."""
