"""Fixed view makers for proteins: letters replaced as evolution replaces them, masks and windows.

See `viewsmith.modalities.dna.views` for batches (B, C, L), plans and the edits that proteins share with DNA.
"""

from functools import partial
from typing import Annotated

import torch
from torch import Tensor

from viewsmith.core.registry import Bounds, register
from viewsmith.modalities.dna.alphabet import AMINO_ACIDS, Alphabet
from viewsmith.modalities.dna.networks import real_positions
from viewsmith.modalities.dna.views import DNAEdit, Stream, mutate, render, sequence_lengths
from viewsmith.views.base import ViewContext, ViewMaker, at, rand

view = partial(register, "view maker", modalities="proteins")


class Substitution(DNAEdit):
    """Letters redrawn from those that related sequences have in their place, P(b | a) of a substitution matrix.

    A position is redrawn with the probability that makes `rate` the mean fraction of letters that change, for letters
    as frequent as in the matrix: it keeps letters that evolution keeps, such as W and C of proteins. Unknown letters
    stay.

    Parameters
    ----------
    rate : float
        0 to `largest_rate` of the alphabet (BLOSUM62: 0.66, where every position is redrawn).
    alphabet : Alphabet
        With `substitutions`; default: that of proteins, with BLOSUM62 (Henikoff and Henikoff 1992).
    """

    cumulated: Tensor

    def __init__(self, rate: float = 0.2, alphabet: Alphabet = AMINO_ACIDS) -> None:
        super().__init__()
        largest = largest_rate(alphabet)
        Bounds(ge=0, le=largest).check("rate", rate)
        self.rate, self.redrawn = rate, rate / largest
        assert alphabet.substitutions is not None
        self.register_buffer("cumulated", torch.from_numpy(alphabet.substitutions.cumsum(1)).float(), persistent=False)

    def edit(self, plan: Tensor, lengths: Tensor, chosen: Tensor, like: Tensor, generator: Stream) -> Tensor:
        shape = tuple(plan.shape)
        view = render(like, plan, complements=False)
        drawn = rand(shape, like, generator)[..., None]
        bounds = self.cumulated.to(like)[view.argmax(dim=1)]
        letters = (drawn > bounds[..., :-1]).sum(dim=2)
        known = (view.amax(dim=1) > 0.5) & chosen[:, None]
        return mutate(plan, letters, known & (rand(shape, like, generator) < self.redrawn))


def largest_rate(alphabet: Alphabet) -> float:
    """The mean fraction of letters that change where all are redrawn."""
    assert alphabet.frequencies is not None and alphabet.substitutions is not None
    return round(float(1 - alphabet.frequencies @ alphabet.substitutions.diagonal()), 2)


class LetterMask(ViewMaker):
    """Letters replaced by the unknown one, 1 / C in each channel, independently with probability `rate`."""

    def __init__(self, rate: float = 0.15) -> None:
        super().__init__()
        Bounds(ge=0, le=1).check("rate", rate)
        self.rate = rate

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        masked = (rand((len(x), x.shape[2]), x, generator) < self.rate) & real_positions(x)
        return torch.where(masked[:, None], 1 / x.shape[1], x)


class LetterWindow(ViewMaker):
    """A window of a sequence at a random place, of a random length, at least the fraction `minimum`; then padding."""

    def __init__(self, minimum: float = 0.5) -> None:
        super().__init__()
        Bounds(gt=0, le=1).check("minimum", minimum)
        self.minimum = minimum

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        lengths, n = sequence_lengths(x), (len(x),)
        part = self.minimum + (1 - self.minimum) * rand(n, x, generator)
        size = torch.minimum((part * lengths).ceil().long().clamp_min(1), lengths)
        start = torch.minimum((rand(n, x, generator) * (lengths - size + 1)).long(), lengths - size)
        position = torch.arange(x.shape[2], device=x.device)
        source = (start[:, None] + position).clamp_max(x.shape[2] - 1)
        return x.gather(2, source[:, None].expand_as(x)) * (position < size[:, None])[:, None]


class ProteinViews(ViewMaker):
    """The recipe of proteins: a window, then letters substituted, then letters masked."""

    def __init__(self, substitution: float = 0.2, mask: float = 0.15, minimum: float = 0.5) -> None:
        super().__init__()
        self.steps = torch.nn.ModuleList([LetterWindow(minimum), Substitution(substitution), LetterMask(mask)])

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        for step in self.steps:
            x = step(x, generator=generator)
        return x


Substituted = Annotated[float, Bounds(ge=0, le=largest_rate(AMINO_ACIDS))]
Masked = Annotated[float, Bounds(ge=0, le=1)]
Least = Annotated[float, Bounds(gt=0, le=1)]


@view(
    "proteins",
    help="a window, with letters substituted by BLOSUM62 and others masked",
    source="Henikoff and Henikoff 1992",
    left_out={
        "substitution": {"substitution_rate": 0.0},
        "mask": {"mask_rate": 0.0},
        "window": {"window_minimum": 1.0},
    },
)
def _proteins(
    context: ViewContext, *, substitution_rate: Substituted = 0.2, mask_rate: Masked = 0.15, window_minimum: Least = 0.5
) -> ProteinViews:
    return ProteinViews(substitution_rate, mask_rate, window_minimum)


@view(
    "substitution",
    help="a fraction of the letters replaced by similar ones (BLOSUM62)",
    source="Henikoff and Henikoff 1992",
    strengths=at(substitution_rate=(0.2, 0.1, 0.4)),
)
def _substitution(context: ViewContext, *, substitution_rate: Substituted = 0.2) -> Substitution:
    return Substitution(substitution_rate)


@view(
    "mask",
    help="a fraction of the letters not known",
    modalities=("dna", "proteins", "letters:"),
    strengths=at(mask_rate=(0.15, 0.3)),
)
def _mask(context: ViewContext, *, mask_rate: Masked = 0.15) -> LetterMask:
    return LetterMask(mask_rate)


@view(
    "window",
    help="a window of the sequence",
    modalities=("dna", "proteins", "letters:"),
    strengths=at(window_minimum=(0.5, 0.8)),
)
def _window(context: ViewContext, *, window_minimum: Least = 0.5) -> LetterWindow:
    return LetterWindow(window_minimum)
