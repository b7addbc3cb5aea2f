"""Features: fixed functions of a sample, fitted in seconds without labels, pretrained weights or a contrast."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class FeatureContext:
    """The arguments that registered features are built from.

    Features are registered by ``@register("features", "my-features", help=..., modalities=...)`` on a class or a
    function of this context, whose keyword-only arguments are their options.

    Attributes
    ----------
    row_shape : tuple of int
        Shape of a sample as given by the user; sequences of DNA may have other lengths.
    channels : int
        First dimension of a scaled sample: the number of features, of color channels, of channels, or 4 for DNA.
    name : str
        The name given by the user, including its argument.
    """

    row_shape: tuple[int, ...]
    channels: int
    name: str = ""


class Features(nn.Module):
    """Fixed features of scaled samples, (B, C, ...) to (B, n_features): the samples that view makers also get.

    A subclass knows `n_features` and the shapes of its buffers when it is constructed, from its options and the shape
    of a sample, so that fitted buffers can be loaded into a new module.

    Attributes
    ----------
    n_features : int
        Number of features.
    """

    n_features: int

    def fit(self, x: Tensor, generator: torch.Generator) -> None:
        """Fill the buffers from scaled samples (n, C, ...), at most some thousand. The default does nothing.

        `generator` is one of the CPU. On every device, the same samples and the same state of the generator give the
        same buffers, up to rounding.
        """

    def forward(self, x: Tensor) -> Tensor:
        """Features, float32 (B, n_features), of scaled samples (B, C, ...), in blocks of them.

        No state changes; gradients with respect to the samples are possible.
        """
        if len(x) == 0:  # which some operations refuse, such as transforms of Fourier
            return x.new_zeros(0, self.n_features, dtype=torch.float32)
        blocks = x.float().split(self.block_size(x))
        return torch.cat([self.of_block(block) for block in blocks])

    def of_block(self, x: Tensor) -> Tensor:
        """Features of a block of samples, float32; a subclass overrides this, or `forward`."""
        raise NotImplementedError

    def block_size(self, x: Tensor) -> int:
        """Number of samples in a block."""
        return 256
