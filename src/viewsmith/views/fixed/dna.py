"""Fixed view makers for DNA: edits that evolution makes (EvoAug: Lee et al. 2023, Genome Biology 24:105), batched.

A batch is (B, 4, L): channels A C G T, N a quarter in each, padding (zeros) after the end of a sequence. Every maker
keeps the shape, the padding and valid columns.

An edit does not touch the batch. It rewrites a *plan*, int64 (B, L): where each column of the view comes from, a
number below L for a base of the sequence, L to L + 3 for a fixed letter, and ~c (that is -1 - c) for the complement of
column c. Edits follow one another on the plan; `render` takes the columns in a single gather.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.core.samples import Rows
from viewsmith.networks.inputs.nucleotides import real_positions
from viewsmith.views.base import ViewMaker, rand, randint, randn

# A stretch is at most this share of its sequence: 20 bases are an edit of 200 and would be half of 41.
LARGEST_SHARE = 0.1


def unedited(x: Tensor) -> Tensor:
    """The plan that changes nothing: (B, L)."""
    return torch.arange(x.shape[2], device=x.device).expand(len(x), -1)


def render(x: Tensor, plan: Tensor, *, turned: bool = True) -> Tensor:
    """The view (B, 4, L) that a plan (B, L) describes; differentiable in `x`.

    With ``turned=False`` the plan holds no complements, which saves a third of the time.
    """
    letters = torch.eye(4, dtype=x.dtype, device=x.device).expand(len(x), -1, -1)
    columns = torch.cat([x, letters], dim=2)
    if not turned:
        return columns.gather(2, plan[:, None].expand(-1, 4, -1))
    other_strand = plan < 0
    view = columns.gather(2, torch.where(other_strand, ~plan, plan)[:, None].expand(-1, 4, -1))
    return torch.where(other_strand[:, None], view.flip(1), view)


def sequence_lengths(x: Tensor) -> Tensor:
    """Bases of each sequence of a batch (B, 4, L), int64 (B,)."""
    # On a CPU the maximum takes a quarter of the time of (x != 0).any().
    return (x.abs().amax(dim=1) > 0).sum(dim=1)


def reverse_complement(plan: Tensor, lengths: Tensor, chosen: Tensor) -> Tensor:
    """Read the other strand of the `chosen` sequences, bool (B,); sequences keep their first position.

    Parameters
    ----------
    plan : Tensor, int64, shape (B, L)
    lengths : Tensor, int64, shape (B,)
        Bases of each sequence, in this function and those below.
    """
    position, n = _positions(plan), lengths[:, None]
    turned = chosen[:, None] & (position < n)
    return _complement(plan.gather(1, torch.where(turned, n - 1 - position, position)), turned)


def mutate(plan: Tensor, letters: Tensor, redrawn: Tensor) -> Tensor:
    """Put `letters` (0 to 3 for A C G T), int64 (B, L), where `redrawn`, bool (B, L)."""
    return torch.where(redrawn, plan.shape[1] + letters, plan)


def delete(plan: Tensor, lengths: Tensor, start: Tensor, size: Tensor, letters: Tensor) -> Tensor:
    """Remove bases start to start + size - 1; `letters` fill up, half at each end (the odd one at the last).

    Parameters
    ----------
    start, size : Tensor, int64, shape (B,)
        With start + size at most the length; size 0 changes nothing.
    letters : Tensor, int64, shape (B, L)
        The letter that a position takes if it is filled up.
    """
    position, n, start, size = _positions(plan), lengths[:, None], start[:, None], size[:, None]
    left = size // 2
    source = position + torch.where(position < start + left, -left, size - left)
    outside = (source < 0) | (source >= n)
    kept = plan.gather(1, torch.where(outside, position, source))
    return mutate(kept, letters, outside & (position < n))


def insert(plan: Tensor, lengths: Tensor, start: Tensor, size: Tensor, letters: Tensor) -> Tensor:
    """Put `size` of the `letters` before base `start`; what is pushed past the sequence's end is lost. See `delete`."""
    position, n, start, size = _positions(plan), lengths[:, None], start[:, None], size[:, None]
    after = (position >= start + size) & (position < n)
    between = (position >= start) & (position < start + size)
    return mutate(plan.gather(1, position - torch.where(after, size, 0)), letters, between)


def translocate(plan: Tensor, lengths: Tensor, shift: Tensor) -> Tensor:
    """Cut each sequence in two and swap the parts: base i moves to i + shift, modulo the length; shift int64 (B,)."""
    position, n = _positions(plan), lengths[:, None]
    source = (position - shift[:, None]) % n.clamp_min(1)
    return plan.gather(1, torch.where(position < n, source, position))


def invert(plan: Tensor, start: Tensor, size: Tensor) -> Tensor:
    """Replace bases start to start + size - 1 by their reverse complement; start and size int64 (B,)."""
    position, start, size = _positions(plan), start[:, None], size[:, None]
    turned = (position >= start) & (position < start + size)
    return _complement(plan.gather(1, torch.where(turned, 2 * start + size - 1 - position, position)), turned)


class DNAEdit(ViewMaker):
    """What the edits share: they rewrite plans, so that several can follow one another at the price of one.

    Attributes
    ----------
    turns : bool
        Whether the edit makes complements.
    """

    turns: bool = False

    def edit(
        self, plan: Tensor, lengths: Tensor, chosen: Tensor, like: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        """The plan after this edit of the `chosen` sequences, bool (B,), with parameters drawn for each of them.

        `like` is any floating-point tensor on the device of the batch.
        """
        raise NotImplementedError

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        lengths = sequence_lengths(x)
        plan = self.edit(unedited(x), lengths, torch.ones_like(lengths, dtype=torch.bool), x, generator)
        return render(x, plan, turned=self.turns)


class ReverseComplement(DNAEdit):
    """The other strand of a sequence, with probability `p` (EvoAug: 0.5)."""

    turns = True

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = _share("p", p, 1.0)

    def edit(
        self, plan: Tensor, lengths: Tensor, chosen: Tensor, like: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        drawn = rand((len(plan),), like, generator) < self.p
        return reverse_complement(plan, lengths, chosen & drawn)


class Mutation(DNAEdit):
    """Single bases change, each on its own, with probability `rate` (EvoAug: 0.05).

    As in EvoAug a site is redrawn uniformly from the four letters with probability 4/3 of `rate`, since a quarter of
    the draws are silent: of known bases the share `rate` changes. An N becomes a base with probability 4/3 of `rate`.
    At 0.75, the most there is, the view is random DNA. EvoAug redraws the same number of sites in every sequence.
    """

    def __init__(self, rate: float = 0.05) -> None:
        super().__init__()
        self.rate = _share("rate", rate, 0.75)

    def edit(
        self, plan: Tensor, lengths: Tensor, chosen: Tensor, like: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        shape = tuple(plan.shape)
        redrawn = rand(shape, like, generator) < self.rate * 4 / 3
        real = _positions(plan) < torch.where(chosen, lengths, 0)[:, None]
        return mutate(plan, randint(4, shape, like, generator), redrawn & real)


class StretchEdit(DNAEdit):
    """An edit of a random stretch: `minimum` to `maximum` bases, and at most a tenth of the sequence."""

    def __init__(self, minimum: int = 0, maximum: int = 20) -> None:
        super().__init__()
        if not 0 <= minimum <= maximum:
            raise InputError(f"minimum = {minimum}, maximum = {maximum}: expected 0 <= minimum <= maximum, in bases")
        self.minimum, self.maximum = minimum, maximum

    def sizes(self, lengths: Tensor, chosen: Tensor, like: Tensor, generator: torch.Generator | None) -> Tensor:
        """Bases to edit in each sequence, int64 (B,): uniform from minimum to maximum, 0 where not chosen."""
        most = (lengths * LARGEST_SHARE).long().clamp_max(self.maximum)
        return torch.where(chosen, _uniform(most.clamp_max(self.minimum), most, like, generator), 0)


class Deletion(StretchEdit):
    """A random stretch is lost; random bases fill up, half at each end (EvoAug: up to 20 bases). See `StretchEdit`."""

    def edit(
        self, plan: Tensor, lengths: Tensor, chosen: Tensor, like: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        size = self.sizes(lengths, chosen, like, generator)
        start = _uniform(torch.zeros_like(size), lengths - size, like, generator)
        return delete(plan, lengths, start, size, randint(4, tuple(plan.shape), like, generator))


class Insertion(StretchEdit):
    """Random bases come in at a random place and the end is trimmed (EvoAug: up to 20 bases). See `StretchEdit`.

    EvoAug lengthens every sequence by `maximum` instead, with random bases around it.
    """

    def edit(
        self, plan: Tensor, lengths: Tensor, chosen: Tensor, like: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        size = self.sizes(lengths, chosen, like, generator)
        start = _uniform(torch.zeros_like(size), lengths - size, like, generator)
        return insert(plan, lengths, start, size, randint(4, tuple(plan.shape), like, generator))


class Translocation(StretchEdit):
    """A stretch from one end moves to the other, a roll left or right (EvoAug: by up to 20). See `StretchEdit`."""

    def edit(
        self, plan: Tensor, lengths: Tensor, chosen: Tensor, like: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        size = self.sizes(lengths, chosen, like, generator)
        left = rand((len(plan),), like, generator) < 0.5
        return translocate(plan, lengths, torch.where(left, -size, size))


class Inversion(StretchEdit):
    """A random stretch is replaced by its reverse complement (in EvoAug's code up to 30 bases). See `StretchEdit`."""

    turns = True

    def edit(
        self, plan: Tensor, lengths: Tensor, chosen: Tensor, like: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        size = self.sizes(lengths, chosen, like, generator)
        return invert(plan, _uniform(torch.zeros_like(size), lengths - size, like, generator), size)


class DNANoise(ViewMaker):
    """Gaussian noise on the four channels of the bases, none on padding: x + std * e (EvoAug: std 0.2)."""

    def __init__(self, std: float = 0.2) -> None:
        super().__init__()
        if not std >= 0:
            raise InputError(f"std = {std}: expected a standard deviation of 0 or more, in units of the one-hot code")
        self.std = std

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        return x + self.std * randn(x, generator) * real_positions(x)[:, None]


class DNAMixup(ViewMaker):
    """The sample mixed with a random row: a x + (1 - a) x', a ~ U(minimum, 1) (DACL: Verma et al. 2021, section 3).

    Positions that either sequence does not have stay as they are in x, so that no column is dimmed by padding.
    """

    needs_pool = True

    def __init__(self, minimum: float = 0.9) -> None:
        super().__init__()
        self.minimum = _share("minimum", minimum, 1.0)

    def prepare(self, pool: Rows) -> None:
        self.pool = pool

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        pool = self._pool()
        other = pool[randint(len(pool), (len(x),), x, generator)]
        other = F.pad(other, (0, x.shape[2] - other.shape[2]))
        both = real_positions(x) & real_positions(other)
        share = (1 - self.minimum) * rand((len(x), 1), x, generator) * both
        return x + share[:, None] * (other - x)


class DNAViews(ViewMaker):
    """The DNA recipe: one to `most` edits of each sequence, then perhaps the other strand, then perhaps noise.

    EvoAug in one gather for the whole batch: of each sequence a random number of edits, 1 to `most`, applied in the
    order of the list. EvoAug draws strand and noise from the same list; here they come on top.

    Parameters
    ----------
    edits : sequence of DNAEdit, optional
        Default: deletion, insertion, translocation and mutation as in EvoAug's example (no inversion).
    most : int
        Edits of a sequence at most (EvoAug: 2). 0 or no edits: strand and noise alone.
    strand : float
        Probability of the reverse complement.
    noise : float
        Standard deviation of Gaussian noise; 0: columns stay one-hot.
    """

    def __init__(
        self, edits: Sequence[DNAEdit] | None = None, *, most: int = 2, strand: float = 0.5, noise: float = 0.0
    ) -> None:
        super().__init__()
        if edits is None:
            edits = [Deletion(), Insertion(), Translocation(), Mutation()]
        if most < 0:
            raise InputError(f"most = {most}: expected the number of edits of a sequence at most, 0 or more")
        self.edits = torch.nn.ModuleList(edits)
        self.most = min(most, len(edits))
        self.strand, self.noise = ReverseComplement(strand), DNANoise(noise)

    def choose(self, n: int, like: Tensor, generator: torch.Generator | None) -> Tensor:
        """Which edits each of n sequences gets, bool (n, edits): a random subset of 1 to `most`."""
        if self.most == 0:
            return torch.zeros(n, len(self.edits), dtype=torch.bool, device=like.device)
        number = 1 + randint(self.most, (n, 1), like, generator)
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


def _uniform(low: Tensor, high: Tensor, like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Integers from low to high, both included, int64 (B,)."""
    draw = torch.rand(low.shape, device=like.device, generator=generator)
    # In float32 a draw just below 1 can round up to the next integer.
    return torch.minimum(low + (draw * (high - low + 1)).long(), high)


def _share(name: str, value: float, most: float) -> float:
    if not 0 <= value <= most:
        raise InputError(f"{name} = {value}: expected a number from 0 to {most:g}")
    return value
