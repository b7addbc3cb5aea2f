"""Features: fixed functions of a sample, fitted in seconds without labels or a contrast; functions of users."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError, error_text
from viewsmith.networks.base import Reference


class Features(nn.Module):
    """Fixed features of scaled samples, (B, C, ...) to (B, n_features): the samples that view makers also get.

    Features are registered by ``@register("features", "my-features", help=..., modalities=...)`` on a class or a
    function of a `PartContext`, whose keyword-only arguments are their options.

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


class NetworkFeatures(Features):
    """The output of a network, (B, ...) to (B, n_features), in evaluation mode and without gradients."""

    def __init__(self, network: nn.Module, n_features: int) -> None:
        super().__init__()
        self.network, self.n_features = network.requires_grad_(False), n_features
        self.train()

    def train(self, mode: bool = True) -> Self:
        """Stay in evaluation mode, whatever the mode of the model."""
        return super().train(False)

    @torch.no_grad()
    def of_block(self, x: Tensor) -> Tensor:
        found: Tensor = self.network(x)
        return found.float()


class FunctionFeatures(Features):
    """What a function of samples returns, in the form and units of the data, to (B, n_features); it is not copied, and
    also gets views, which are not in the data."""

    def __init__(self, function: Callable[[np.ndarray], Any], n_features: int, layer: nn.Module) -> None:
        super().__init__()
        self.function, self.n_features, self.layer = function, n_features, Reference(layer)

    @torch.no_grad()
    def of_block(self, x: Tensor) -> Tensor:
        found = features_of_function(self.function, self.layer.module, x)
        if found.shape[1] != self.n_features:
            raise InputError(
                f"the features {name_of(self.function)} return {found.shape[1]} columns, but the model was fitted with "
                f"{self.n_features}: give the same function"
            )
        return found


def features_of_function(function: Callable[[np.ndarray], Any], layer: Any, x: Tensor) -> Tensor:
    """Checked features of a user's function for scaled samples, float32 (B, d)."""
    rows, name = layer.inverse(x).cpu().numpy(), name_of(function)
    try:
        made = function(rows)
        found = torch.as_tensor(made if isinstance(made, Tensor) else np.asarray(made, np.float32))
    except Exception as error:
        raise InputError(
            f"the features {name} fail on samples, {rows.dtype} of shape {rows.shape}: {error_text(error)}"
        ) from error
    if found.ndim != 2 or len(found) != len(rows) or not found.shape[1]:
        raise InputError(
            f"the features {name} return the shape {tuple(found.shape)} for {len(rows)} samples, expected one row of "
            "numbers for each"
        )
    if not bool(found.isfinite().all()):
        raise InputError(f"the features {name} return NaN or infinite values: return finite ones")
    return found.detach().to(x.device, torch.float32)


def name_of(function: Any) -> str:
    """Name of a function, or the class of an object."""
    return str(getattr(function, "__name__", type(function).__name__))
