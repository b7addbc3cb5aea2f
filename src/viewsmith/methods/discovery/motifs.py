"""Discovery in sequences: motifs of several kinds, their sites, and the text formats of motifs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.data.any_size import by_content
from viewsmith.methods.discovery.acceptance import choose
from viewsmith.methods.discovery.contrast import Search, columns, inside
from viewsmith.methods.discovery.motif_models import Background, Motif, as_codes, lengths_of
from viewsmith.methods.discovery.motif_search import WIDTHS, find_motif
from viewsmith.modalities import modality_of
from viewsmith.modalities.dna.letters import AMINO_ACIDS, NUCLEOTIDES


def as_meme(motifs: Sequence[Motif], names: Sequence[str], counts: Sequence[int]) -> str:
    """Motifs in the minimal text format of the MEME Suite, version 4, with the `counts` of their sites."""
    alphabet = motifs[0].alphabet if motifs else NUCLEOTIDES
    known = alphabet in (NUCLEOTIDES, AMINO_ACIDS)  # those of DNA and proteins are built in
    letters = [f"ALPHABET= {alphabet.letters}"] if known else ['ALPHABET "letters"', *alphabet.letters, "END ALPHABET"]
    lines = ["MEME version 4", "", *letters, ""]
    if alphabet.complement:
        lines += [f"strands: {'+ -' if all(motif.both for motif in motifs) else '+'}", ""]
    if motifs:
        pairs = zip(alphabet.letters, motifs[0].background.frequencies, strict=True)
        lines += ["Background letter frequencies", " ".join(f"{letter} {p:.4f}" for letter, p in pairs), ""]
    for motif, name, sites in zip(motifs, names, counts, strict=True):
        # E of MEME is not computed: 0 is what its tools take if there is none.
        matrix = f"letter-probability matrix: alength= {len(alphabet)} w= {motif.width} nsites= {max(1, sites)} E= 0"
        lines += [f"MOTIF {name} {motif.consensus}", "", matrix]
        lines += [" ".join(f"{p:.6f}" for p in row) for row in motif.probabilities] + [""]
    return "\n".join(lines)


def as_jaspar(motifs: Sequence[Motif], names: Sequence[str], counts: Sequence[int]) -> str:
    """Motifs in the text format of JASPAR: whole counts of each letter, which add up to the number of sites."""
    text = ""
    for motif, name, count in zip(motifs, names, counts, strict=True):
        sites = max(1, count)
        letters = np.array([_rounded(row * sites, sites) for row in motif.probabilities])
        text += f">{name}\t{motif.consensus}\n"
        for letter, column in zip(motif.alphabet.letters, letters.T, strict=True):
            text += f"{letter} [ {' '.join(str(count) for count in column)} ]\n"
    return text


def _rounded(shares: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers nearest to `shares` that add up to `total`."""
    found = np.floor(shares).astype(int)
    found[np.argsort(found - shares, kind="stable")[: total - found.sum()]] += 1
    return found


PLACES = 4  # of a sequence, one of which a search without it should find
NULL = 2_000  # sequences drawn from the background for q-values

#: First letter of a site, from 0, and the one after the last on the given strand; is it read from the other strand?
SITES = columns(start=np.int64, end=np.int64, reverse=np.bool_)


@dataclass(kw_only=True)
class MotifSearch(Search):
    """Motifs in sequences of the letters of a modality."""

    name: ClassVar[str] = "letters"
    samples_name: ClassVar[str] = "sequences"
    saved_of_parts = ("share", "both")
    modality: str = NUCLEOTIDES.name
    both_strands: bool = True

    @property
    def letters(self) -> Any:
        """The modality of the sequences, `Letters`."""
        return modality_of(self.modality)

    def fit(self, X: Any) -> None:
        """Find what recurs; raises InputError for samples or options that cannot be used."""
        alphabet, rng = self.letters.alphabet, np.random.default_rng(self.seed)
        codes = self._codes(X)
        codes = codes[by_content(codes)]
        if len(codes) < 4:
            raise InputError(f"{len(codes)} sequences, expected at least 4: what recurs is seen across sequences")
        lengths, widths = lengths_of(codes, len(alphabet)), WIDTHS if self.windows is None else self.windows
        for _ in range(self.kinds):
            motifs = find_motif(
                codes, widths=widths, both=self.both_strands, seed=self.seed, lengths=lengths, alphabet=alphabet
            )
            self.tried.append(motifs)
            motif = choose(motifs)
            if motif is None:
                break
            drawn = motif.background.draw(rng.choice(lengths[lengths >= motif.width], NULL), rng)
            sites = _sites(motif, codes, self.max_parts)
            null = np.stack([scores for _, _, scores in _sites(motif, drawn, self.max_parts)], 1)
            self.keep(motif, null, sites[0][2], motif.surprise(codes, *sites[0][:2]))
            if len(self.parts) == 1:
                rows, held = motif.held
                again = _sites(motif, codes[rows], max(PLACES, self.max_parts))
                self.compare(held, [(at, np.where(s > 0, s, -np.inf)) for at, _, s in again], motif.width)
            for starts, _, scores in sites:
                codes = _masked(codes, starts, np.where(scores > 0, motif.width, 0), motif)

    def describe(self) -> str:
        best = self.parts[0] if self.parts else max(self.tried[0], key=lambda motif: motif.evidence.gain)
        numbers = f"{best.consensus}, {best.width} letters{_starts(best)}"
        if self.parts:
            numbers += f", pattern {best.pattern}" if len(best.alphabet) > len(NUCLEOTIDES) else ""
            kinds = "one motif recurs" if len(self.parts) == 1 else f"{len(self.parts)} motifs recur"
            return f"{kinds}: {'' if len(self.parts) == 1 else 'the first is '}{numbers}"
        return f"the best candidate, {numbers}, {best.evidence.why(len(self.tried[0]))}"

    def summary(self, found: np.ndarray, samples: int, max_q: float, unjudged: bool) -> str:
        text = super().summary(found, samples, max_q, unjudged)
        if self.parts and _repeats(self.parts[-1].consensus):
            more = len(self.parts) + 1
            text += f"; {self.parts[-1].consensus} is a simple repeat: --kinds {more} also seeks what recurs beside it"
        return text

    def extent(self, found: np.ndarray) -> str:
        """The motif of the sites of one kind."""
        motif = self.parts[int(found["kind"][0])]
        return f"the motif {motif.consensus}{_starts(motif)}"

    def candidates(self, X: Any) -> np.ndarray:
        """The best sites of every kind in every sequence, with their q-values among all of them."""
        codes = self._codes(X)
        return self.table(SITES, self._places(codes), len(codes))

    def _places(self, codes: np.ndarray) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """The best sites of each kind, apart from those of the kinds before."""
        for kind, motif in enumerate(self.parts):
            for starts, reverse, scores in _sites(motif, codes, self.max_parts):
                outlier = self.typical[kind].outliers(motif.surprise(codes, starts, reverse))
                place = {"start": starts, "end": starts + motif.width, "reverse": reverse}
                yield kind, place | {"score": scores, "outlier": outlier}
                codes = _masked(codes, starts, np.where(scores > 0, motif.width, 0), motif)

    def crops(self, X: Any, found: np.ndarray, size: int) -> list[str]:
        """`size` letters around sites, read from the strand of the site; fewer at the ends of a sequence."""
        alphabet, letters = self.letters.alphabet, np.asarray(self.letters.read(X))
        ends = lengths_of(as_codes(letters, alphabet), len(alphabet))
        cut = []
        for site in found:
            middle, length = int(site["start"] + site["end"]) // 2, int(ends[site["sample"]])
            start = max(0, min(middle - size // 2, length - size))
            text = letters[site["sample"], start : min(start + size, length)]
            cut.append((alphabet.complements[text[::-1]] if site["reverse"] else text).tobytes().decode("ascii"))
        return cut

    def _codes(self, X: Any) -> np.ndarray:
        """Numbers of letters (n, L) of sequences: strings, or ASCII letters uint8 (n, L)."""
        return as_codes(np.asarray(self.letters.read(X)), self.letters.alphabet)

    def part_from(self, arrays: dict[str, np.ndarray], **values: Any) -> Motif:
        background = Background(arrays["background"], self.letters.alphabet)
        others = sorted((array for name, array in arrays.items() if name.startswith("other")), key=len)
        place = arrays.get("place")
        return Motif(arrays["probabilities"], background, place=place, others=tuple(others), **values)


def _repeats(text: str) -> bool:
    """Whether a text repeats one to three letters, but for a tenth of them."""
    return any(3 * by <= len(text) and sum(map(str.__ne__, text, text[by:])) <= len(text) // 10 for by in (1, 2, 3))


def _starts(motif: Motif) -> str:
    """Where a motif that prefers places starts most often, in a text."""
    return "" if motif.place is None else f" (most often from letter {motif.place.argmax() + 1}, counted from 1)"


def _sites(motif: Motif, codes: np.ndarray, count: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Starts, strands and scores of up to `count` sites of each sequence, which do not overlap; -inf for none."""
    found = []
    for _ in range(count):
        starts, reverse, scores = motif.best_sites(codes)
        found.append((starts, reverse, scores))
        codes = _masked(codes, starts, motif.width, motif)
    return found


def _masked(codes: np.ndarray, starts: np.ndarray, widths: np.ndarray | int, motif: Motif) -> np.ndarray:
    """Codes with unknown letters in place of a site of each sequence; width 0: none."""
    site = inside(starts, np.where(starts < 0, 0, widths), codes.shape[1])
    return np.where(site, motif.background.size, codes).astype(codes.dtype)
