"""Views of a diffusion model, which methods share: the model, samplers, the cache, noise levels."""
