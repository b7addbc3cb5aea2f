"""Registered names of the DNA view makers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from viewsmith.core.errors import InputError
from viewsmith.core.registry import register
from viewsmith.views.base import ViewContext
from viewsmith.views.fixed.dna import (
    Deletion,
    DNAMixup,
    DNANoise,
    DNAViews,
    Insertion,
    Inversion,
    Mutation,
    ReverseComplement,
    Translocation,
)


def _check_rate(options: Mapping[str, Any], row_shape: tuple[int, ...]) -> None:
    if options["mutation_rate"] > 0.75:
        # A random letter differs from the original one with probability 3/4.
        raise InputError(f"mutation_rate is {options['mutation_rate']}, expected at most 0.75 (random letters)")


@register(
    "view maker",
    "dna",
    help="one or more random edits, and the reverse complement (EvoAug)",
    domains="dna",
    source="Lee et al. 2023",
    check=_check_rate,
    symmetry={"strand": "reverse-complement"},
)
def _dna(
    context: ViewContext,
    *,
    max_edits: int = 2,
    mutation_rate: float = 0.05,
    strand: float | Literal["auto"] = "auto",
) -> DNAViews:
    edits = [Deletion(), Insertion(), Translocation(), Mutation(mutation_rate)]
    # "auto" is resolved by a test of the data; without data it is the published rate.
    return DNAViews(edits, max_edits=max_edits, strand=0.5 if strand == "auto" else strand)


@register("view maker", "reverse-complement", help="the reverse complement, half of the time", domains="dna")
def _reverse_complement(context: ViewContext) -> ReverseComplement:
    return ReverseComplement()


@register("view maker", "mutation", help="a fraction of the letters changed", domains="dna", check=_check_rate)
def _mutation(context: ViewContext, *, mutation_rate: float = 0.05) -> Mutation:
    return Mutation(mutation_rate)


@register("view maker", "insertion", help="random letters inserted at a random position", domains="dna")
def _insertion(context: ViewContext) -> Insertion:
    return Insertion()


@register("view maker", "deletion", help="a random segment deleted", domains="dna")
def _deletion(context: ViewContext) -> Deletion:
    return Deletion()


@register("view maker", "translocation", help="the sequence rotated", domains="dna")
def _translocation(context: ViewContext) -> Translocation:
    return Translocation()


@register("view maker", "inversion", help="a random segment replaced by its reverse complement", domains="dna")
def _inversion(context: ViewContext) -> Inversion:
    return Inversion()


@register("view maker", "noise", help="Gaussian noise on the encoded letters", domains="dna", searches="noise_strength")
def _noise(context: ViewContext, *, noise_strength: float = 1.0) -> DNANoise:
    return DNANoise(noise_strength)


@register("view maker", "mixup", help="mixed with a random sequence", domains="dna")
def _mixup(context: ViewContext, *, mixup_minimum: float = 0.9) -> DNAMixup:
    return DNAMixup(mixup_minimum)
