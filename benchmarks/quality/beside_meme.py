"""Sequences: discovery beside MEME and STREME on published samples, planted words and shuffled letters.

discovery  the default; planted: told the width and one strand, as MEME is
meme       MEME of the MEME Suite, its own options and both strands of DNA (`-dna -revcomp`); planted: `-w 15 -mod oops`
streme     STREME of the MEME Suite, one motif of at most 30 letters, its own options otherwise

Sets: samples of the tests of the MEME Suite (`tests/common`, as the folder `meme`), each with a motif that is known
from elsewhere: peaks of KLF1 (mouse; all, without MEME, and 200), GCN4 and MCM1 (yeast, intergenic), 3' ends bound by
Puf3p (RNA), sites of LexA, promoters of genes of inositol, dehydrogenases and kinases; crp, whose sites are known;
planted (`study_discovery`), and shuffled sequences, in which nothing recurs (pairs of letters kept). The programs
`meme` and `streme` have to be on the path.

listed    sites that are listed (discovery: q up to .1; MEME and STREME: their own lists), in so many of the sequences
right     share of them that have at least half of a place of the known pattern, on either strand; of crp those within
          3 letters of a known site
recurs    discovery says so; E-value up to .05

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.beside_meme [minutes] [set or row]
"""

from __future__ import annotations

import csv
import re
import resource
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.common.data import data_folder
from benchmarks.common.runner import RESULTS, Cell
from benchmarks.quality.study_discovery import binding_sites, planted_words, shuffled
from benchmarks.quality.suite import command, rounded
from viewsmith import Discovery

#: Files of samples, and the known pattern as a regular expression.
SAMPLES = {
    "Klf1-200.fa": "CC[AC]C[AG]CCC",  # JASPAR MA0493
    "GCN4_YPD.fasta": "TGA[CG]TCA",
    "MCM1.fasta": "CC......GG",
    "Puf3p-200.s": "TGTA.ATA",
    "lex0.s": "CTG..........CAG",
    "INO_up800.s": "CATGTGAA",
    "adh.s": "TG...G.G|Y...K",  # the fold that binds NAD, and the active site
    "At.s": "HRD[LIVM]K",  # the active site (PROSITE PS00108)
    "Klf1.fa": "CC[AC]C[AG]CCC",
}
PROTEINS, RNA, MANY = ("adh.s", "At.s"), ("Puf3p-200.s",), ("Klf1.fa",)
ROWS, DRAWS = ("discovery", "meme", "streme"), 20
NEAR = 3  # letters


@dataclass(frozen=True)
class Sites:
    """A motif, whether it recurs, and its sites: the sequence, the first letter and the end of each."""

    motif: str
    recurs: bool
    sequence: np.ndarray
    start: np.ndarray
    end: np.ndarray
    cpu_seconds: float


def read_fasta(name: str) -> list[str]:
    """The sequences of a sample, RNA as DNA."""
    records = (data_folder() / "meme" / name).read_text().split(">")[1:]
    texts = ["".join("".join(record.split("\n")[1:]).split()).upper() for record in records]
    return [text.replace("U", "T") for text in texts] if name in RNA else texts


def sites_of(row: str, texts: list[str], *, protein: bool = False, both: bool = True, width: int = 0) -> Sites:
    """The sites that a program lists, with the width of the motif if it is told."""
    if row == "discovery":
        began = time.process_time()
        options = {"windows": [width] if width else None, "modality": "proteins" if protein else "dna"}
        model = Discovery(random_state=0, **options, **({} if protein else {"both_strands": both})).fit(texts)
        found = model.locate(texts)
        motif = model.parts_[0].consensus if model.recurs_ else ""
        seconds = time.process_time() - began
        return Sites(motif, model.recurs_, found["sample"], found["start"], found["end"], seconds)
    if (program := shutil.which(row)) is None:
        raise FileNotFoundError(f"{row} of the MEME Suite is not on the path: install it (https://meme-suite.org)")
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "x.fa"
        file.write_text("".join(f">{i}\n{text}\n" for i, text in enumerate(texts)))
        read = _meme if row == "meme" else _streme
        return read(program, file, protein, both, width)


def _run(*words: object) -> tuple[str, float]:
    """What a command prints, and the CPU seconds that it takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _meme(program: str, file: Path, protein: bool, both: bool, width: int) -> Sites:
    """Sites of MEME, by its text."""
    words = ["-protein"] if protein else ["-dna", *(["-revcomp"] if both else [])]
    text, seconds = _run(program, file, "-text", *words, *(["-w", width, "-mod", "oops"] if width else []))
    head = re.search(r"^MOTIF (\S+) .*width = +(\d+) .*E-value = (\S+)", text, re.M)
    if head is None:
        return Sites("", False, *np.zeros((3, 0), int), seconds)
    block = text.split("sites sorted by position p-value")[1].split("block diagrams")[0]
    strand = "" if protein or not both else r"[+-]\s+"
    rows = re.findall(rf"^(\d+)\s+{strand}(\d+)\s+\d\S*e\S*\s", block, re.M)
    sequence, start = np.array(rows, int).reshape(-1, 2).T
    return Sites(head[1], float(head[3]) <= 0.05, sequence, start - 1, start - 1 + int(head[2]), seconds)


def _streme(program: str, file: Path, protein: bool, both: bool, width: int) -> Sites:
    """Sites of STREME, by the tables that it writes."""
    del both, width  # it has both strands of DNA, and no width
    out = file.parent / "out"
    alphabet = "--protein" if protein else "--dna"
    _, seconds = _run(program, "--p", file, alphabet, "--nmotifs", 1, "--maxw", 30, "--oc", out)
    head = re.search(r"^MOTIF \d+-(\S+).*\n.*E= (\S+)", (out / "streme.txt").read_text(), re.M)
    if head is None:
        return Sites("", False, *np.zeros((3, 0), int), seconds)
    with (out / "sites.tsv").open() as table:
        lines = [line for line in csv.DictReader(table, delimiter="\t") if line["seq_ID"]]
    sequence, start, end = (np.array([line[k] for line in lines], int) for k in ("seq_ID", "site_Start", "site_End"))
    return Sites(head[1], float(head[2]) <= 0.05, sequence, start - 1, end, seconds)


def in_sample(name: str, row: str) -> dict[str, Any]:
    """Sites in a sample, and how many of them contain what is known."""
    torch.set_num_threads(1)
    texts, middles = binding_sites() if name == "crp" else (read_fasta(name), [])
    sites = sites_of(row, texts, protein=name in PROTEINS, both=name not in RNA)
    places = list(zip(sites.sequence, sites.start, sites.end, strict=True))
    if name == "crp":
        right = [min(abs((start + end) / 2 - m) for m in middles[i]) <= NEAR for i, start, end in places]
    else:
        known = re.compile(f"(?=({SAMPLES[name]}))")
        found = [known_places(known, text, name not in PROTEINS) for text in texts]
        right = [any(2 * (min(end, e) - max(start, s)) >= e - s for s, e in found[i]) for i, start, end in places]
    count, share = len(set(sites.sequence.tolist())), float(np.mean(right)) if right else 0.0
    result = {"motif": sites.motif, "recurs": sites.recurs, "listed": len(places), "in_sequences": count}
    return result | {"sequences": len(texts)} | rounded({"right": share, "cpu_seconds": sites.cpu_seconds})


def known_places(known: re.Pattern[str], text: str, both: bool) -> list[tuple[int, int]]:
    """Where a pattern is in a sequence, on either strand."""
    found = [match.span(1) for match in known.finditer(text)]
    turned = text.translate(str.maketrans("ACGT", "TGCA"))[::-1] if both else ""
    return found + [(len(text) - match.end(1), len(text) - match.start(1)) for match in known.finditer(turned)]


def in_planted(row: str, seed: int, *size: int) -> dict[str, Any]:
    """Performance coefficient of the sites of a planted word (Pevzner and Sze 2000), of known width on one strand."""
    torch.set_num_threads(1)
    codes, starts, width = planted_words(seed, *size)
    texts = ["".join(own) for own in np.array(list("ACGT"))[codes]]
    sites = sites_of(row, texts, both=False, width=width)
    n, own = len(texts), np.full(len(texts), -width)
    own[sites.sequence[::-1]] = sites.start[::-1]  # the best site of each sequence is the first
    common = np.clip(width - abs(own - starts), 0, None).sum()
    listed = width * len(set(sites.sequence.tolist()))
    return rounded(
        {
            "recurs": sites.recurs,
            "coefficient": common / (listed + width * n - common),
            "cpu_seconds": sites.cpu_seconds,
        }
    )


def in_shuffled(row: str, seed: int) -> dict[str, Any]:
    """Whether something recurs in the sequences of crp with shuffled letters."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(seed)
    sites = sites_of(row, [shuffled(text, rng) for text in binding_sites()[0]])
    return rounded({"recurs": sites.recurs, "listed": len(sites.start), "cpu_seconds": sites.cpu_seconds})


def cells(quick: bool = False) -> list[Cell]:
    """All cells; with `quick` a few planted words for discovery, which need neither data nor a program."""
    if quick:
        return [Cell("planted", "discovery", 0, partial(in_planted, "discovery", 0, 8, 60, 10, 1))]
    pairs = [(name, row) for name in ("crp", *SAMPLES) for row in ROWS if row != "meme" or name not in MANY]
    found = [Cell(name, row, 0, partial(in_sample, name, row)) for name, row in pairs]
    draws = [(row, seed) for row in ROWS[:2] for seed in range(DRAWS)]
    found += [Cell("planted", row, seed, partial(in_planted, row, seed)) for row, seed in draws]
    return found + [Cell("shuffled", row, seed, partial(in_shuffled, row, seed)) for row, seed in draws]


if __name__ == "__main__":
    command(__doc__, RESULTS / "beside_meme.jsonl", cells)
