"""DNA as networks take it, and back: letters to one-hot columns."""

from __future__ import annotations

import torch
from torch import Tensor, nn

LETTERS = b"ACGT"


class Nucleotides(nn.Module):
    """Scaled sequences (n, 4, L) from ASCII letters, uint8 (n, L), and back.

    A C G T, in either case, become one-hot columns, N a quarter of each, and padding (0, after the end of a sequence)
    a column of zeros.
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
        """Letters of the largest entries; N where all four are alike, 0 where there is no base."""
        letters = torch.tensor(list(LETTERS), dtype=torch.uint8, device=x.device)[x.argmax(dim=1)]
        letters[x.amax(dim=1) == x.amin(dim=1)] = ord("N")
        letters[(x == 0).all(dim=1)] = 0
        return letters


def real_positions(x: Tensor) -> Tensor:
    """Which positions of scaled DNA (B, 4, L) hold a base and which are padding: bool (B, L)."""
    # Four times as fast on a CPU as (x != 0).any(dim=1).
    return x.abs().amax(dim=1) > 0


def kmer_frequencies(x: Tensor, k: int = 4) -> Tensor:
    """Frequencies of the 4^k words of length `k` in scaled DNA (B, 4, L), (B, 4^k); rows sum to 1, or 0 without one.

    A word that holds an N or padding is not counted.
    """
    known = (x.amax(dim=1) > 0.5) & (x.sum(dim=1) != 0)
    windows = max(0, x.shape[2] - k + 1)
    word = x.new_zeros(len(x), windows, dtype=torch.int64)
    whole = torch.ones(len(x), windows, dtype=torch.bool, device=x.device)
    letter = x.argmax(dim=1)
    for shift in range(k):
        word = 4 * word + letter[:, shift : shift + windows]
        whole &= known[:, shift : shift + windows]
    counts = x.new_zeros(len(x), 4**k).scatter_add_(1, word, whole.to(x.dtype))
    return counts / counts.sum(dim=1, keepdim=True).clamp_min(1)
