"""Fixed view makers for letters: the edits of evolution, batched (EvoAug: Lee et al. 2023, Genome Biology 24:105).

A batch is (B, C, L): a channel for each of the C letters (of DNA A C G T), 1 / C in each channel for an unknown one,
and zeros for padding after the end of a sequence. View makers keep the shape, the padding and valid columns.

An edit does not change the batch. It changes a *plan*, int64 (B, L), which gives the source of each column of the view:
a number from 0 to L - 1 is a letter of the sequence, L to L + C - 1 is a fixed one, and ~c (that is -1 - c) is the
complement of column c. Several edits are applied to the plan one after another; `render` then gathers the columns once.
"""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.registry import Bounds, Fraction, Portion, Weight, register
from viewsmith.core.samples import Rows
from viewsmith.modalities.dna.letters import AMINO_ACIDS, Alphabet
from viewsmith.modalities.dna.networks import real_positions
from viewsmith.views.base import ViewContext, ViewMaker, at, rand, randint, randn

view = partial(register, "view maker", modalities=("dna", "proteins", "letters:"))
Stream = torch.Generator | None

# A segment is at most this fraction of its sequence: 20 bases are a small part of 200 bases, but half of 41.
MAX_FRACTION = 0.1


def unedited(x: Tensor) -> Tensor:
    """The plan that changes nothing: (B, L)."""
    return torch.arange(x.shape[2], device=x.device).expand(len(x), -1)


def render(x: Tensor, plan: Tensor, *, complements: bool = True) -> Tensor:
    """The view (B, C, L) of a plan (B, L); a plan that is said to have no complements saves a third of the time."""
    letters = torch.eye(x.shape[1], dtype=x.dtype, device=x.device).expand(len(x), -1, -1)
    columns = torch.cat([x, letters], dim=2)
    if not complements:
        return columns.gather(2, plan[:, None].expand(-1, x.shape[1], -1))
    other_strand = plan < 0
    view = columns.gather(2, torch.where(other_strand, ~plan, plan)[:, None].expand(-1, x.shape[1], -1))
    return torch.where(other_strand[:, None], view.flip(1), view)


def sequence_lengths(x: Tensor) -> Tensor:
    """Number of letters of each sequence of a batch (B, C, L), int64 (B,)."""
    return real_positions(x).sum(dim=1)


def reverse_complement(plan: Tensor, lengths: Tensor, chosen: Tensor) -> Tensor:
    """Replace the `chosen` sequences by their reverse complement; padding stays at the end."""
    position, n = _positions(plan), lengths[:, None]
    reversed_ = chosen[:, None] & (position < n)
    return _complement(plan.gather(1, torch.where(reversed_, n - 1 - position, position)), reversed_)


def mutate(plan: Tensor, letters: Tensor, redrawn: Tensor) -> Tensor:
    """Write `letters` (0 to C - 1), int64 (B, L), at the positions `redrawn`, bool (B, L)."""
    return torch.where(redrawn, plan.shape[1] + letters, plan)


def delete(plan: Tensor, lengths: Tensor, start: Tensor, size: Tensor, letters: Tensor) -> Tensor:
    """Delete bases start to start + size - 1; the ends are filled with `letters`, half at each end."""
    position, n, start, size = _positions(plan), lengths[:, None], start[:, None], size[:, None]
    left = size // 2
    source = position + torch.where(position < start + left, -left, size - left)
    outside = (source < 0) | (source >= n)
    kept = plan.gather(1, torch.where(outside, position, source))
    return mutate(kept, letters, outside & (position < n))


def insert(plan: Tensor, lengths: Tensor, start: Tensor, size: Tensor, letters: Tensor) -> Tensor:
    """Insert `size` of the `letters` before base `start`; bases moved beyond the end are dropped. See `delete`."""
    position, n, start, size = _positions(plan), lengths[:, None], start[:, None], size[:, None]
    after = (position >= start + size) & (position < n)
    between = (position >= start) & (position < start + size)
    return mutate(plan.gather(1, position - torch.where(after, size, 0)), letters, between)


def translocate(plan: Tensor, lengths: Tensor, shift: Tensor) -> Tensor:
    """Rotate each sequence: base i moves to i + shift modulo the length; shift is int64, (B,)."""
    position, n = _positions(plan), lengths[:, None]
    source = (position - shift[:, None]) % n.clamp_min(1)
    return plan.gather(1, torch.where(position < n, source, position))


def invert(plan: Tensor, start: Tensor, size: Tensor) -> Tensor:
    """Replace bases start to start + size - 1 by their reverse complement; start and size are int64, (B,)."""
    position, start, size = _positions(plan), start[:, None], size[:, None]
    inverted = (position >= start) & (position < start + size)
    return _complement(plan.gather(1, torch.where(inverted, 2 * start + size - 1 - position, position)), inverted)


class DNAEdit(ViewMaker):
    """Base class of the edits; `complements` says whether an edit writes complements."""

    complements = False

    def edit(self, plan: Tensor, lengths: Tensor, chosen: Tensor, like: Tensor, generator: Stream) -> Tensor:
        """Apply the edit to the `chosen` sequences, with parameters drawn for each of them."""
        raise NotImplementedError

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        lengths = sequence_lengths(x)
        plan = self.edit(unedited(x), lengths, torch.ones_like(lengths, dtype=torch.bool), x, generator)
        return render(x, plan, complements=self.complements)


@view(
    "reverse-complement", help="the reverse complement, half of the time", modalities="dna", strengths=({},), named={}
)
class ReverseComplement(DNAEdit):
    """The reverse complement of a sequence, with probability `p` (EvoAug: 0.5)."""

    complements = True
    p: Fraction = 0.5

    def edit(self, plan: Tensor, lengths: Tensor, chosen: Tensor, like: Tensor, generator: Stream) -> Tensor:
        drawn = rand((len(plan),), like, generator) < self.p
        return reverse_complement(plan, lengths, chosen & drawn)


@view(
    "mutation",
    help="a fraction of the letters changed",
    strengths=at(mutation_rate=(0.05, 0.02, 0.15)),
    named={"mutation_rate": "rate"},
)
class Mutation(DNAEdit):
    """Single bases changed independently with probability `rate` (EvoAug: 0.05).

    As in EvoAug, each position is redrawn from the four letters with probability 4/3 `rate`. A quarter of these draws
    do not change the base, so a base changes with probability `rate`. An N becomes a base with probability
    4/3 `rate`. At the maximum, 0.75, the view is random DNA. Unlike here, EvoAug draws the same number of positions in
    every sequence.
    """

    rate: Annotated[float, Bounds(ge=0, le=0.75)] = 0.05
    """0 to 0.75."""

    def edit(self, plan: Tensor, lengths: Tensor, chosen: Tensor, like: Tensor, generator: Stream) -> Tensor:
        shape, letters = tuple(plan.shape), like.shape[1]
        redrawn = rand(shape, like, generator) < self.rate * letters / (letters - 1)
        real = _positions(plan) < torch.where(chosen, lengths, 0)[:, None]
        return mutate(plan, randint(letters, shape, like, generator), redrawn & real)


class SegmentEdit(DNAEdit):
    """Base class of edits of a random segment."""

    def __init__(self, minimum: int = 0, maximum: int = 20) -> None:
        super().__init__()
        if not 0 <= minimum <= maximum:
            raise InputError(f"minimum = {minimum}, maximum = {maximum}: expected 0 <= minimum <= maximum, in bases")
        self.minimum, self.maximum = minimum, maximum

    def sizes(self, lengths: Tensor, chosen: Tensor, like: Tensor, generator: Stream) -> Tensor:
        """Lengths of the segments, int64 (B,): uniform from minimum to maximum, 0 for sequences not chosen."""
        largest = (lengths * MAX_FRACTION).long().clamp_max(self.maximum)
        return torch.where(chosen, _uniform(largest.clamp_max(self.minimum), largest, like, generator), 0)


@view("deletion", help="a random segment deleted", strengths=({},))
class Deletion(SegmentEdit):
    """A random segment deleted, the ends filled with random bases (EvoAug: up to 20 bases). See `SegmentEdit`."""

    def edit(self, plan: Tensor, lengths: Tensor, chosen: Tensor, like: Tensor, generator: Stream) -> Tensor:
        size = self.sizes(lengths, chosen, like, generator)
        start = _uniform(torch.zeros_like(size), lengths - size, like, generator)
        return delete(plan, lengths, start, size, randint(like.shape[1], tuple(plan.shape), like, generator))


@view("insertion", help="random letters inserted at a random position", strengths=({},))
class Insertion(SegmentEdit):
    """Random bases inserted at a random position, the end trimmed (EvoAug: up to 20 bases). See `SegmentEdit`.

    EvoAug instead lengthens every sequence by `maximum`, with random bases at its ends.
    """

    def edit(self, plan: Tensor, lengths: Tensor, chosen: Tensor, like: Tensor, generator: Stream) -> Tensor:
        size = self.sizes(lengths, chosen, like, generator)
        start = _uniform(torch.zeros_like(size), lengths - size, like, generator)
        return insert(plan, lengths, start, size, randint(like.shape[1], tuple(plan.shape), like, generator))


@view("translocation", help="the sequence rotated", strengths=({},))
class Translocation(SegmentEdit):
    """The sequence rotated left or right: a segment moves from one end to the other (EvoAug: up to 20 bases).

    See `SegmentEdit`.
    """

    def edit(self, plan: Tensor, lengths: Tensor, chosen: Tensor, like: Tensor, generator: Stream) -> Tensor:
        size = self.sizes(lengths, chosen, like, generator)
        left = rand((len(plan),), like, generator) < 0.5
        return translocate(plan, lengths, torch.where(left, -size, size))


@view("inversion", help="a random segment replaced by its reverse complement", modalities="dna", strengths=({},))
class Inversion(SegmentEdit):
    """A random segment replaced by its reverse complement (in EvoAug's code up to 30 bases). See `SegmentEdit`."""

    complements = True

    def edit(self, plan: Tensor, lengths: Tensor, chosen: Tensor, like: Tensor, generator: Stream) -> Tensor:
        size = self.sizes(lengths, chosen, like, generator)
        return invert(plan, _uniform(torch.zeros_like(size), lengths - size, like, generator), size)


class DNANoise(ViewMaker):
    """Gaussian noise on the four channels of the bases, none on padding: x + std * e (EvoAug: std 0.2)."""

    std: Weight = 0.2
    """Standard deviation, at least 0."""

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        return x + self.std * randn(x, generator) * real_positions(x)[:, None]


@view(
    "mixup", help="mixed with a random sequence", strengths=at(mixup_minimum=(0.9,)), named={"mixup_minimum": "minimum"}
)
class DNAMixup(ViewMaker):
    """The sample mixed with a random row: a x + (1 - a) x', a ~ U(minimum, 1) (DACL: Verma et al. 2021, section 3).

    Positions beyond the end of one of the two sequences are not mixed.
    """

    needs_pool = True
    minimum: Fraction = 0.9
    """Least weight of the sample, 0 to 1."""

    def prepare(self, pool: Rows) -> None:
        self.pool = pool

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        pool = self._pool()
        other = pool[randint(len(pool), (len(x),), x, generator)]
        other = F.pad(other, (0, x.shape[2] - other.shape[2]))
        both = real_positions(x) & real_positions(other)
        weight = (1 - self.minimum) * rand((len(x), 1), x, generator) * both
        return x + weight[:, None] * (other - x)


class DNAViews(ViewMaker):
    """The DNA recipe: random edits of each sequence, the reverse complement with some probability, optional noise.

    This is EvoAug with one gather for the whole batch: 1 to `max_edits` random edits per sequence, applied in the order
    of the list. EvoAug draws the reverse complement and noise from the same list; here they are applied in addition.

    Parameters
    ----------
    edits : sequence of DNAEdit, optional
        Default: deletion, insertion, translocation and mutation, as in EvoAug's example (no inversion).
    max_edits : int
        Largest number of edits per sequence (EvoAug: 2). With 0, or without edits: only reverse complement and noise.
    strand : float
        Probability of the reverse complement.
    noise : float
        Standard deviation of Gaussian noise; 0 means none.

    Raises
    ------
    InputError
        An argument is out of range.
    """

    def __init__(
        self, edits: Sequence[DNAEdit] | None = None, *, max_edits: int = 2, strand: float = 0.5, noise: float = 0.0
    ) -> None:
        super().__init__()
        if edits is None:
            edits = [Deletion(), Insertion(), Translocation(), Mutation()]
        Bounds(ge=0).check("max_edits", max_edits)
        self.edits = torch.nn.ModuleList(edits)
        self.max_edits = min(max_edits, len(edits))
        self.strand, self.noise = ReverseComplement(strand), DNANoise(noise)

    def symmetric_copies(self, x: Tensor) -> list[Tensor]:
        return [x, ReverseComplement(1.0)(x)] if self.strand.p > 0 else [x]

    def choose(self, n: int, like: Tensor, generator: Stream) -> Tensor:
        """Which edits each of n sequences gets, bool (n, edits): a random subset of 1 to `max_edits`."""
        if self.max_edits == 0:
            return torch.zeros(n, len(self.edits), dtype=torch.bool, device=like.device)
        number = 1 + randint(self.max_edits, (n, 1), like, generator)
        rank = rand((n, len(self.edits)), like, generator).argsort(dim=1).argsort(dim=1)
        return rank < number

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        lengths, plan = sequence_lengths(x), unedited(x)
        chosen = self.choose(len(x), x, generator)
        for edit, sequences in zip([*self.edits, self.strand], [*chosen.unbind(1), lengths > 0], strict=True):
            assert isinstance(edit, DNAEdit)
            plan = edit.edit(plan, lengths, sequences, x, generator)
        view = render(x, plan)
        return self.noise(view, generator=generator) if self.noise.std else view


def _positions(plan: Tensor) -> Tensor:
    return torch.arange(plan.shape[1], device=plan.device)[None]


def _complement(plan: Tensor, where: Tensor) -> Tensor:
    return torch.where(where, ~plan, plan)


def _uniform(low: Tensor, high: Tensor, like: Tensor, generator: Stream) -> Tensor:
    """Uniform integers from low to high, inclusive, int64 (B,)."""
    draw = torch.rand(low.shape, device=like.device, generator=generator)
    # In float32 a draw just below 1 can be rounded up to the next integer.
    return torch.minimum(low + (draw * (high - low + 1)).long(), high)


@view(
    "dna",
    help="one or more random edits, and the reverse complement (EvoAug)",
    modalities="dna",
    source="Lee et al. 2023",
    symmetry={"strand": ("reverse-complement", 0.5)},
    left_out={"edits": {"max_edits": 0}, "reverse-complement": {"strand": 0.0}},
)
def _dna(
    context: ViewContext, *, max_edits: int = 2, mutation_rate: float = 0.05, strand: float | Literal["auto"] = "auto"
) -> DNAViews:
    edits = [Deletion(), Insertion(), Translocation(), Mutation(mutation_rate)]
    # "auto" is resolved by a test of the data; without data it is the published rate.
    return DNAViews(edits, max_edits=max_edits, strand=0.5 if strand == "auto" else strand)


@view("noise", help="Gaussian noise on the encoded letters", searches="noise_strength")
def _noise(context: ViewContext, *, noise_strength: float = 1.0) -> DNANoise:
    return DNANoise(noise_strength)


# ---- proteins ----
view_of_proteins = partial(register, "view maker", modalities="proteins")


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

    def __init__(self, rate: float = 0.2, alphabet: Alphabet = AMINO_ACIDS) -> None:
        super().__init__()
        largest = largest_rate(alphabet)
        Bounds(ge=0, le=largest).check("rate", rate)
        self.rate, self.redrawn = rate, rate / largest
        assert alphabet.substitutions is not None
        self.cumulated = nn.Buffer(torch.from_numpy(alphabet.substitutions.cumsum(1)).float(), persistent=False)

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


@view(
    "mask", help="a fraction of the letters not known", strengths=at(mask_rate=(0.15, 0.3)), named={"mask_rate": "rate"}
)
class LetterMask(ViewMaker):
    """Letters replaced by the unknown one, 1 / C in each channel, independently with probability `rate`."""

    rate: Fraction = 0.15

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        masked = (rand((len(x), x.shape[2]), x, generator) < self.rate) & real_positions(x)
        return torch.where(masked[:, None], 1 / x.shape[1], x)


@view(
    "window",
    help="a window of the sequence",
    strengths=at(window_minimum=(0.5, 0.8)),
    named={"window_minimum": "minimum"},
)
class LetterWindow(ViewMaker):
    """A window of a sequence at a random place, of a random length, at least the fraction `minimum`; then padding."""

    minimum: Portion = 0.5

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        lengths, n = sequence_lengths(x), (len(x),)
        part = self.minimum + (1 - self.minimum) * rand(n, x, generator)
        size = torch.minimum((part * lengths).ceil().long().clamp_min(1), lengths)
        start = torch.minimum((rand(n, x, generator) * (lengths - size + 1)).long(), lengths - size)
        position = torch.arange(x.shape[2], device=x.device)
        source = (start[:, None] + position).clamp_max(x.shape[2] - 1)
        return x.gather(2, source[:, None].expand_as(x)) * (position < size[:, None])[:, None]


Substituted = Annotated[float, Bounds(ge=0, le=largest_rate(AMINO_ACIDS))]


@view_of_proteins(
    "proteins",
    help="a window, with letters substituted by BLOSUM62 and others masked",
    source="Henikoff and Henikoff 1992",
    left_out={
        "substitution": {"substitution_rate": 0.0},
        "mask": {"mask_rate": 0.0},
        "window": {"window_minimum": 1.0},
    },
    named={"substitution_rate": "substitution", "mask_rate": "mask", "window_minimum": "minimum"},
)
class ProteinViews(ViewMaker):
    """The recipe of proteins: a window, then letters substituted, then letters masked."""

    substitution: Substituted = 0.2
    mask: Fraction = 0.15
    minimum: Portion = 0.5

    def __post_init__(self) -> None:
        steps = LetterWindow(self.minimum), Substitution(self.substitution), LetterMask(self.mask)
        self.steps = torch.nn.ModuleList(steps)

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        for step in self.steps:
            x = step(x, generator=generator)
        return x


@view_of_proteins(
    "substitution",
    help="a fraction of the letters replaced by similar ones (BLOSUM62)",
    source="Henikoff and Henikoff 1992",
    strengths=at(substitution_rate=(0.2, 0.1, 0.4)),
)
def _substitution(context: ViewContext, *, substitution_rate: Substituted = 0.2) -> Substitution:
    return Substitution(substitution_rate)
