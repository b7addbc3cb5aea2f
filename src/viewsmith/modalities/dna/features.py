"""Features of letters: frequencies of k-mers, and responses to a dictionary of windows of letters."""

from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from viewsmith.core.registry import Bounds, register
from viewsmith.modalities.dna.letters import word_length
from viewsmith.modalities.dna.networks import kmer_frequencies, real_positions
from viewsmith.networks import dictionary
from viewsmith.networks.base import PartContext
from viewsmith.networks.dictionary import PatchResponses, patches_at
from viewsmith.networks.features import Features


@register(
    "features",
    "kmers",
    help="frequencies of k-mers, and learned windows of letters by place",
    modalities="dna",
    source="Coates, Lee and Ng 2011",
)
class KmersAndWindows(Features):
    """Frequencies of k-mers, and responses to a dictionary of windows, averaged over bins and their maximum.

    Sequences are scaled ones (B, C, L): one-hot letters, unknown ones as 1 / C each, zeros as padding. The dictionary
    is that of Coates, Lee and Ng (2011), of windows instead of patches. Bins divide each sequence, without its
    padding, into parts of equal length; windows that reach into the padding do not count.

    Parameters
    ----------
    context : PartContext
    k : int
        Length of a k-mer; k-mers with an unknown letter are not counted.
    window : int
        Letters of a window.
    centers : int
        Centers of the dictionary.
    bins : int
        Parts of a sequence over which responses are averaged.
    """

    def __init__(
        self,
        context: PartContext,
        *,
        k: Annotated[int, Bounds(ge=1, le=8)] = 4,
        window: Annotated[int, Bounds(ge=1)] = 8,
        centers: Annotated[int, Bounds(ge=2)] = 256,
        bins: Annotated[int, Bounds(ge=1)] = 5,
    ) -> None:
        super().__init__()
        self.k, self.bins = k, bins
        self.dictionary = PatchResponses(
            context.channels, (1, window), patch=(1, window), centers=centers, stride=1, regions=(1, 1)
        )
        self.n_features = context.channels**k + centers * (bins + 1)

    def fit(self, x: Tensor, generator: torch.Generator) -> None:
        x = x.float().cpu()
        width = self.dictionary.patch[1]
        x = F.pad(x, (0, max(0, width - x.shape[2])))
        windows = self._windows(x)
        each = -(-dictionary.SAMPLED // len(x))
        left = (torch.rand(len(x), each, generator=generator) * windows[:, None]).long()
        patches = patches_at(x[:, :, None], torch.zeros_like(left), left, 1, width)
        self.dictionary.fit_to(patches, generator)

    def block_size(self, x: Tensor) -> int:
        return self.dictionary.block_size(x[:, :, None])

    def of_block(self, x: Tensor) -> Tensor:
        responses = self.dictionary.maps(x[:, :, None])[:, :, 0]  # (B, centers, places)
        windows = self._windows(x)[:, None]
        place = torch.arange(responses.shape[2], device=x.device)
        inside = place < windows
        number = torch.arange(self.bins, device=x.device)
        first, last = number * windows // self.bins, -(-(number + 1) * windows // self.bins)
        # Bins of fewer windows than bins overlap, as those of adaptive pooling.
        in_bin = ((place[:, None] >= first[:, None]) & (place[:, None] < last[:, None])).to(responses.dtype)
        means = responses @ (in_bin / in_bin.sum(1, keepdim=True))
        largest = (responses * inside[:, None]).amax(2)
        return torch.cat([kmer_frequencies(x, self.k), means.mT.flatten(1), largest], dim=1)

    def _windows(self, x: Tensor) -> Tensor:
        """Number of windows in each sequence without its padding, at least 1, (B,)."""
        length = real_positions(x).sum(1)
        return (length - self.dictionary.patch[1] + 1).clamp_min(1)


@register(
    "features",
    "kmers",
    help="frequencies of k-mers, and learned windows of letters by place",
    modalities="proteins",
    source="Coates, Lee and Ng 2011",
)
class ProteinKmers(KmersAndWindows):
    """`KmersAndWindows` of 20 letters, whose words are shorter."""

    def __init__(
        self,
        context: PartContext,
        *,
        k: Annotated[int, Bounds(ge=1, le=3)] = 2,
        window: Annotated[int, Bounds(ge=1)] = 8,
        centers: Annotated[int, Bounds(ge=2)] = 256,
        bins: Annotated[int, Bounds(ge=1)] = 5,
    ) -> None:
        super().__init__(context, k=k, window=window, centers=centers, bins=bins)


@register(
    "features",
    "kmers",
    help="frequencies of k-mers, and learned windows of letters by place",
    modalities="letters:",
    source="Coates, Lee and Ng 2011",
)
class OwnKmers(KmersAndWindows):
    """`KmersAndWindows` of an own alphabet, whose words are as long as `word_length` says."""

    def __init__(
        self,
        context: PartContext,
        *,
        window: Annotated[int, Bounds(ge=1)] = 8,
        centers: Annotated[int, Bounds(ge=2)] = 256,
        bins: Annotated[int, Bounds(ge=1)] = 5,
    ) -> None:
        super().__init__(context, k=word_length(context.channels), window=window, centers=centers, bins=bins)
