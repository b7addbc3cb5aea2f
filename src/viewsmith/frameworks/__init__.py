"""Self-supervised objectives with their own state; each gives one loss value per sample."""

from viewsmith.frameworks.simclr import SimCLR

__all__ = ["SimCLR"]
