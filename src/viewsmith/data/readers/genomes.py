"""Readers of sequences beside FASTA: reads (FASTQ), GenBank, and intervals of a genome (BED)."""

import contextlib
import dataclasses
import io
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from viewsmith.core.errors import InputError, name_list, one_line, pluralize, require, warn
from viewsmith.data.formats import reader
from viewsmith.data.options import DataOptions
from viewsmith.data.readers.fasta import sequence_contents
from viewsmith.data.reading import FileContents, open_text, reading
from viewsmith.modalities.dna.alphabet import NUCLEOTIDES
from viewsmith.modalities.dna.letters import letters_of

_LABELS = "give labels in a file (--labels FILE), a name and a label in each line"


def _contents(path: Path, request: DataOptions, records: list[tuple[str, str]]) -> FileContents:
    """What is read of records, a header and letters each."""
    if not records:
        raise InputError(f"{path} has no record with a sequence")
    encoded = [text.encode("ascii", "replace") for _, text in records]
    starts = np.cumsum([0, *map(len, encoded[:-1])])
    return sequence_contents(path, request, [header for header, _ in records], letters_of(b"".join(encoded)), starts)


@reader(
    "fastq",
    *(".fastq", ".fq", ".fastq.gz", ".fq.gz"),
    help="reads of a sequencer, without their qualities",
    noun="a FASTQ file",
    modality="dna",
    options=("labels",),
    extra="dna",
    once=True,
    example="reads.fastq.gz",
)
def read_fastq(path: Path, request: DataOptions) -> FileContents:
    """Reads as ASCII letters, uint8 (n, L), padded with 0; their qualities are not used, which is said."""
    request.check_no_table_options(str(path), _LABELS)
    require("Bio", "dna", "reading FASTQ files")
    from Bio.SeqIO.QualityIO import FastqGeneralIterator

    with reading(str(path), "a FASTQ file"), open_text(path, path.suffix == ".gz", "give fewer reads") as file:
        lines = io.TextIOWrapper(cast(BinaryIO, file), "ascii", "replace")
        records = [(header, letters) for header, letters, _ in FastqGeneralIterator(lines)]
    warn(f"{path}: the qualities of the bases are not used")
    return _contents(path, request, records)


@reader(
    "genbank",
    *(".gb", ".gbk", ".genbank"),
    help="records of GenBank, their sequences",
    noun="a GenBank file",
    modality=("dna", "proteins"),
    options=("labels",),
    extra="dna",
    once=True,
    example="records.gb --labels kinds.tsv",
)
def read_genbank(path: Path, request: DataOptions) -> FileContents:
    """Sequences of records as ASCII letters, uint8 (n, L), padded with 0; features are not read."""
    request.check_no_table_options(str(path), _LABELS)
    require("Bio", "dna", "reading GenBank files")
    from Bio import SeqIO

    with reading(str(path), "a GenBank file"):
        found = list(SeqIO.parse(path, "genbank"))
    if absent := [record.id for record in found if not record.seq.defined]:
        raise InputError(
            f"{path}: {pluralize(len(absent), 'record')} of {len(found):,} without letters, such as "
            f"{one_line(absent[0], 40)}: download them with their sequences (of NCBI: format 'GenBank (full)')"
        )
    records = [(f"{record.id} {record.description}", str(record.seq)) for record in found]
    return _contents(path, request, records)


@reader(
    "bed",
    *(".bed", ".bed.gz", ".narrowpeak", ".narrowpeak.gz"),
    help="intervals of a genome, which `--genome` gives: their sequences, of one width around their centers or summits",
    noun="a BED file",
    modality="dna",
    options=("labels", "genome", "width"),
    extra="dna",
    example="peaks.bed --genome hg38.fa --width 200",
)
def read_bed(path: Path, request: DataOptions) -> FileContents:
    """Sequences of intervals as ASCII letters, uint8 (n, L), read from the strand of each, as FASTA has them."""
    request.check_no_table_options(str(path), _LABELS)
    genome, width = request.or_fitted("genome"), request.or_fitted("width")
    if genome is None:
        raise InputError(
            f"{path} has intervals without a sequence: give the genome that they are of (--genome hg38.fa)"
        )
    intervals = list(_intervals(path))
    if not intervals:
        raise InputError(f"{path} has no interval: a chromosome, a start and an end in each line, separated by tabs")
    records, outside = [], 0
    with _opened(Path(genome)) as chromosomes:
        unknown = sorted({each.chromosome for each in intervals} - set(chromosomes.keys()))
        if unknown:
            raise InputError(
                f"{path} has the chromosomes {name_list(unknown)}, which {genome} does not have: its own are "
                f"{name_list(list(chromosomes.keys()))}; write them with the names of the genome"
            )
        for each in intervals:
            first, last = each.places(width)
            if first < 0 or last > len(chromosomes[each.chromosome]):
                outside += 1
                continue
            letters = letters_of(str(chromosomes[each.chromosome][first:last]).encode("ascii", "replace"))
            letters = NUCLEOTIDES.complements[letters[::-1]] if each.strand == "-" else letters
            name = each.name or f"{each.chromosome}:{first}-{last}({each.strand})"
            records.append((name, letters.tobytes().decode("ascii")))
    if outside:
        warn(f"{path}: {pluralize(outside, 'interval')} of {len(intervals):,} left out, over the end of a chromosome")
    kept = {"genome": str(genome)} | ({} if width is None else {"width": width})
    return dataclasses.replace(_contents(path, request, records), options=kept)


@dataclass(frozen=True)
class Interval:
    """A line of a BED file; `middle` is that of the interval, or the summit of a peak."""

    chromosome: str
    start: int
    end: int
    middle: int
    strand: str
    name: str

    def places(self, width: int | None) -> tuple[int, int]:
        """First letter from 0, and the one after the last: of the interval, or of `width` letters around the middle."""
        first = self.middle - (width or 0) // 2
        return (self.start, self.end) if width is None else (first, first + width)


def _intervals(path: Path) -> Iterator[Interval]:
    """The intervals of a BED or narrowPeak file, whose tenth column is the distance of the summit."""
    with open_text(path, path.suffix == ".gz", "give fewer intervals") as file:
        for number, line in enumerate(file, 1):
            fields = line.decode("utf-8", "replace").rstrip("\r\n").split("\t")
            if not fields[0].strip() or fields[0].startswith(("#", "track", "browser")):
                continue
            try:
                start, end = int(fields[1]), int(fields[2])
            except (IndexError, ValueError):
                start, end = -1, -1
            if not 0 <= start < end:
                raise InputError(
                    f"{path}: line {number:,} is {one_line(repr(chr(9).join(fields)), 60)}, expected a chromosome, a "
                    "start from 0 and a larger end, separated by tabs"
                )
            summit = int(fields[9]) if len(fields) == 10 and fields[9].isdecimal() else (end - start) // 2
            strand = fields[5] if len(fields) > 5 and fields[5] in ("+", "-") else "+"
            name = fields[3].strip() if len(fields) > 3 and fields[3].strip() not in ("", ".") else ""
            yield Interval(fields[0], start, end, start + summit, strand, name)


@contextlib.contextmanager
def _opened(genome: Path) -> Iterator[Any]:
    """A genome by chromosome; its index, FASTA.fai, is written beside it, or for now where that is not allowed."""
    require("pyfaidx", "dna", "reading a part of a genome")
    if not genome.is_file():
        raise InputError(
            f"genome: {genome} {'is a folder' if genome.is_dir() else 'does not exist'}; expected a FASTA file"
        )
    from pyfaidx import Fasta

    index, beside = f"{genome}.fai", os.access(genome.parent, os.W_OK)
    with contextlib.ExitStack() as stack:
        if not (beside or Path(index).is_file()):
            index = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "genome.fai")
        with reading(str(genome), "a genome in FASTA"):
            opened = stack.enter_context(Fasta(str(genome), indexname=index))
        yield opened
