"""DNA as input of networks: letters to one-hot columns, and back."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from viewsmith.networks.base import Latents


class LetterLatents(Latents):
    """Latents of DNA (B, 4, L): +1 for the letter and -1 for the others; -1/2 for N (1/4 each), and 0 for padding."""

    def encode(self, x: Tensor) -> Tensor:
        """Latents (B, 4, L) of scaled sequences (B, 4, L)."""
        return torch.where(self.mask(x), 2 * x - 1, 0)

    def decode(self, u: Tensor, x: Tensor) -> Tensor:
        """Scaled sequences (B, 4, L): the letter with the largest latent, 0 where `x` has padding."""
        letters = torch.zeros_like(x).scatter_(1, u.argmax(dim=1, keepdim=True), 1)
        return letters * self.mask(x)

    def mask(self, x: Tensor) -> Tensor:
        """Which positions are not padding: bool, (B, 1, L)."""
        return real_positions(x)[:, None]


LETTERS = b"ACGT"


class Nucleotides(nn.Module):
    """ASCII letters, uint8 (n, L), to scaled sequences (n, 4, L), and back.

    A C G T (upper or lower case) become one-hot columns, N becomes 1/4 of each, and padding (0, after the end of a
    sequence) a column of zeros.
    """

    codes: Tensor

    def __init__(self) -> None:
        super().__init__()
        codes = torch.zeros(256, 4)
        for channel, letter in enumerate(LETTERS):
            codes[letter, channel] = codes[letter + 32, channel] = 1.0
        codes[ord("N")] = codes[ord("n")] = 0.25
        self.register_buffer("codes", codes, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.codes[x.int()].movedim(2, 1).contiguous()

    def inverse(self, x: Tensor) -> Tensor:
        """The letters of the largest entries, uint8 (n, L); N if all four are equal, 0 for padding."""
        letters = torch.tensor(list(LETTERS), dtype=torch.uint8, device=x.device)[x.argmax(dim=1)]
        letters[x.amax(dim=1) == x.amin(dim=1)] = ord("N")
        letters[(x == 0).all(dim=1)] = 0
        return letters


def real_positions(x: Tensor) -> Tensor:
    """Which positions of scaled DNA (B, 4, L) are bases, not padding: bool (B, L)."""
    # Four times as fast on a CPU as (x != 0).any(dim=1).
    return x.abs().amax(dim=1) > 0


def kmer_frequencies(x: Tensor, k: int = 4) -> Tensor:
    """Frequencies of the 4^k words of length k (k-mers).

    Parameters
    ----------
    x : Tensor, shape (B, 4, L)
        Scaled DNA.
    k : int

    Returns
    -------
    Tensor, shape (B, 4^k)
        In alphabetical order. Words with an N or padding are not counted. Rows sum to 1, or to 0 if there is no word.
    """
    known = (x.amax(dim=1) > 0.5) & (x.sum(dim=1) != 0)
    windows = max(0, x.shape[2] - k + 1)
    n = x.shape[0]  # `len` would fix the batch of an exported graph
    word = x.new_zeros(n, windows, dtype=torch.int64)
    valid = torch.ones(n, windows, dtype=torch.bool, device=x.device)
    letter = x.argmax(dim=1)
    for shift in range(k):
        word = 4 * word + letter[:, shift : shift + windows]
        valid &= known[:, shift : shift + windows]
    counts = x.new_zeros(n, 4**k).scatter_add_(1, word, valid.to(x.dtype))
    return counts / counts.sum(dim=1, keepdim=True).clamp_min(1)
