"""Readers of sequences: FASTA with labels and a split from headers, FASTQ, BED, and a column of a table."""

import contextlib
import dataclasses
import io
import itertools
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import pandas as pd

from viewsmith.core.errors import InputError, name_list, one_line, pluralize, quoted, require, say, warn
from viewsmith.data.label_tables import column_of, rows_of_names, table_of_names, table_options
from viewsmith.data.options import DataOptions
from viewsmith.data.places import TEXT_TABLES, extension_of, first_bytes
from viewsmith.data.reading import FileContents, open_text, reader, reading
from viewsmith.data.recording_files import files_of
from viewsmith.data.unread import Format, command, hidden_letters, letters_way, named, quoted_path, sentence
from viewsmith.modalities import frames
from viewsmith.modalities.base import modality_of
from viewsmith.modalities.dna.letters import (
    AMINO_ACIDS,
    NUCLEOTIDES,
    Alphabet,
    alphabet_of,
    first_other_letter,
    letter_fault,
    letter_rows,
    letters_of,
    pad_rows,
)
from viewsmith.modalities.dna.modality import Letters

# Least part of the characters of a column that are letters: others, such as gaps, are then told with their place.
MOSTLY = 0.9


def alphabet_given(request: DataOptions) -> Alphabet | None:
    """The alphabet of the modality that was given, or that the run was fitted with; None for another modality."""
    given = None if request.modality is None else modality_of(request.modality)
    return given.alphabet if isinstance(given, Letters) else None


def read_sequences(
    frame: pd.DataFrame, request: DataOptions, alphabet: Alphabet, label: str | None, source_name: str
) -> FileContents:
    """The column with the most letters of the alphabet as rows, which it says; for a run, the column of the run."""
    column = None if request.schema is None else request.schema.get("sequences")
    if column is None:
        no_sequences = [*request.drop, *([] if label is None else [label])]
        column, *others = _columns(frame.drop(columns=no_sequences), alphabet, source_name)
        way = f"(--drop {quoted(one_line(column, 40))} leaves it out)"
        beside = f", not of {name_list(others, 4)} {way}" if others else ""
        warn(f"{source_name}: the sequences are those of the column {one_line(column, 60)}{beside}")
    elif column not in frame.columns:
        raise InputError(f"{source_name} has no column {one_line(column, 60)}, in which the run has its sequences")
    texts = frame[column]
    if texts.isna().any():
        row = int(texts.isna().to_numpy().argmax())
        raise InputError(
            f"{source_name}: row {row} (counted from 0) has no sequence: {_without_gaps(source_name, str(column))}"
        )
    rows = letter_rows(texts.astype(str).str.strip().tolist(), source_name, alphabet)
    y = None if label is None else frames.labels(frame[label])
    table: dict[str, Any] = {"columns": None, "one_hot": {}, "drop": list(request.drop), "label": label}
    return FileContents(rows, y, table=table, options={"sequences": column}, modality=alphabet.name)


_COMPLETE = Format(
    "",
    "import pandas as pd; x = pd.read_csv({path}, sep=None, engine='python'); "
    "x.dropna(subset=[{key}]).to_csv({out}, index=False)",
    suffix="_complete.csv",
)


def _without_gaps(source_name: str, column: str) -> str:
    """What to do with rows without a sequence, of a text table the line that leaves them out."""
    if extension_of(Path(source_name)) not in TEXT_TABLES:
        return "leave that row out"
    return command(Path(source_name), _COMPLETE, quoted_path(column))


def _columns(frame: pd.DataFrame, alphabet: Alphabet, source_name: str) -> list[str]:
    """The text columns that have hardly anything but letters, those with the most first; for proteins those that have
    not only letters of DNA, if there are some."""
    found: dict[str, int] = {}
    of_dna: set[str] = set()
    for name in frame.columns:
        if pd.api.types.is_numeric_dtype(frame[name]):
            continue
        text = letters_of("".join(frame[name].dropna().astype(str)).encode("ascii", "replace"))
        known = int(alphabet.known[text].sum())
        if known and known >= MOSTLY * len(text):
            found[str(name)] = known
            if alphabet is not NUCLEOTIDES and NUCLEOTIDES.known[text].sum() >= MOSTLY * len(text):
                of_dna.add(str(name))
    if not found:
        raise InputError(
            f"{source_name}: no column has letters {alphabet} alone, expected one with the sequences; its columns are "
            f"{name_list(list(map(str, frame.columns)))}"
        )
    kept = found.keys() - of_dna or found.keys()
    return sorted(kept, key=lambda name: found[name], reverse=True)


_FASTA = (".fa", ".fasta", ".fas", ".fna", ".ffn", ".faa", ".frn", ".pep")
FASTA = (*_FASTA, *(f"{ending}.gz" for ending in _FASTA))
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
GENOTYPES = b"\x6c\x1b"  # with which files of PLINK begin, which end in .bed, too


@reader(
    "fasta",
    *FASTA,
    help="sequences of DNA or proteins, a record each; of a folder with labels by folders or files",
    noun="a FASTA file",
    modality=("dna", "proteins"),
    in_folders=FASTA,
    options=("labels",),
    once=True,
    example="enhancers.fa.gz --labels enhancers.tsv",
)
def read_fasta(path: Path, request: DataOptions) -> FileContents:
    """Sequences as ASCII letters, uint8 (n, L), padded with 0, train records first; labels of the file ``labels``, of
    ``label=VALUE`` in headers, or the names of the folders or files of a folder."""
    files, n_train = files_of(path, FASTA)
    headers, letters, starts = zip(*(_records(file) for file, _ in files), strict=True)
    before = np.cumsum([0, *map(len, letters[:-1])])
    kinds = [label for _, label in files]
    if len(files) > 1 and kinds[0] is None:
        kinds = [file.name.removesuffix(extension_of(file)) for file, _ in files]
    counts = list(map(len, headers))
    return sequence_contents(
        path,
        request,
        list(itertools.chain(*headers)),
        np.concatenate(letters),
        np.concatenate([first + each for first, each in zip(before, starts, strict=True)]),
        [file for (file, _), count in zip(files, counts, strict=True) for _ in range(count)],
        [kind or "" for kind, count in zip(kinds, counts, strict=True) for _ in range(count)],
        None if n_train is None else sum(counts[:n_train]),
    )


def sequence_contents(
    path: Path,
    request: DataOptions,
    headers: list[str],
    letters: np.ndarray,
    starts: np.ndarray,
    files: Sequence[Path] = (),
    kinds: Sequence[str] = (),
    n_train: int | None = None,
) -> FileContents:
    """What is read of records, with headers without '>', the letters of all of them and the start of each one; of a
    folder also the file and label of each one, and how many are train records."""
    replace(request, label=None).check_no_table_options(str(path))
    lengths = np.diff(starts, append=len(letters))

    def file_of(record: int) -> Path:
        return files[record] if files else path

    if not lengths.all():
        record = int(lengths.argmin())
        raise InputError(f"{file_of(record)}: {_record(headers, record)} has no sequence; leave it out")
    alphabet = alphabet_given(request) or alphabet_of(letters)
    fault = first_other_letter(letters, starts, alphabet)
    if fault is not None:
        record, position = fault
        sequence = letters[starts[record] : starts[record] + lengths[record]].tobytes().decode("latin-1")
        said = letter_fault(sequence[position], sequence, alphabet)
        file = file_of(record)
        raise InputError(
            f"{file}: {_record(headers, record)}, position {position + 1} is {said}{letters_way(file, said)}"
        )
    if len(headers) == 1 and request.schema is None:
        raise InputError(
            f"{path} has one record, expected at least 2 for training; cut a long sequence into windows, a record for "
            "each (bedtools makewindows and getfasta)"
        )
    if alphabet is AMINO_ACIDS and alphabet_of(letters) is NUCLEOTIDES:
        warn(f"{path}: the letters are those of DNA, and are read as proteins: leave --modality out, or translate them")
    _say_lower_case(letters, path, request.or_fitted("genome"))
    names = [_name(header) for header in headers]
    if request.schema is None:
        _check_lengths(lengths, headers, path)
    y, groups = _labels(headers, names, path, request, kinds)
    is_test = _given_split(headers, path, fresh=request.schema is None)
    if is_test is None and n_train is not None:
        is_test = np.arange(len(headers)) >= n_train
    order = np.arange(len(names)) if is_test is None else np.argsort(is_test, kind="stable")
    return FileContents(
        pad_rows(letters, starts[order], lengths[order], str(path)),
        None if y is None else y[order],
        None if is_test is None else int((~is_test).sum()),
        row_names=[names[i] for i in order],
        modality=alphabet.name,
        groups=None if groups is None else groups[order],
        table=table_options(request),
    )


MASKED = 0.01, 0.99  # of the letters are lower case: they mark repeats, rather than being the style of the file


def _say_lower_case(letters: np.ndarray, path: Path, genome: str | Path | None = None) -> None:
    """Say that some letters are lower case, and how they are hidden, in the genome that they are of if there is one,
    which the user may want."""
    part = float((letters >= ord("a")).mean())
    if MASKED[0] <= part <= MASKED[1]:
        warn(
            f"{path}: {part:.0%} of the letters are lower case, which often marks repeats; they are read like the "
            f"others: {hidden_letters(Path(genome or path))}"
        )


def _records(path: Path) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Headers without '>', the concatenated letters of all records, and the start of each record."""
    headers: list[str] = []
    letters = bytearray()
    starts: list[int] = []
    with reading(str(path), "a FASTA file"), open_text(path, "give fewer or shorter records") as file:
        # Lines may end with \r alone.
        for number, line in enumerate(itertools.chain.from_iterable(map(bytes.splitlines, file)), 1):
            text = (line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line).strip()
            if text.startswith(b">"):
                headers.append(text[1:].decode("utf-8", "replace"))
                starts.append(len(letters))
            elif text and not headers:
                raise InputError(
                    f"{path}: line {number} is {one_line(repr(text[:40].decode('utf-8', 'replace')))}, expected a "
                    "FASTA file, in which each record begins with a line of '>' and a name"
                )
            else:
                letters += b"".join(text.split())  # blocks of ten letters
    if not headers:
        raise InputError(f"{path} is empty; expected a FASTA file: lines of '>' and a name, then the sequence")
    return headers, letters_of(letters), np.array(starts, dtype=np.int64)


OUTLYING, LONG = 20, 10_000  # times as long as most records, and letters, from which on one fills the memory


def _check_lengths(lengths: np.ndarray, headers: list[str], path: Path) -> None:
    """Raise InputError for a record that is so much longer than the others that the rows of all would be."""
    longest, most = int(lengths.max()), int(np.quantile(lengths, 0.95))
    if longest > max(LONG, OUTLYING * most):
        raise InputError(
            f"{path}: {_record(headers, int(lengths.argmax()))} has {longest:,} letters, and 95% of the records at "
            f"most {most:,}: all rows would be as long; leave it out, or cut it into pieces"
        )


Columns = tuple[np.ndarray | None, np.ndarray | None]


def _labels(headers: list[str], names: list[str], path: Path, request: DataOptions, kinds: Sequence[str]) -> Columns:
    """Labels and groups of the records, empty text where there is none: of a table of names, of parts of the headers,
    or of the folders; None if no record has one."""
    label, groups = request.or_fitted("label"), request.or_fitted("groups")
    if request.few_labels and label == "y":
        label = None
    if request.labels is not None and (label is not None or groups is not None):
        table = table_of_names(names, request, None)
        return column_of(table, "label", request, str(path)), column_of(table, "groups", request, str(path))
    of_groups = None
    if groups is not None and (found := _part(headers, groups, "groups", path, asked=request.groups is not None)):
        of_groups = np.array([value or "" for value in found])
    if request.labels is not None:
        return _of_file(names, headers, path, request.labels), of_groups
    if label is not None:
        found = _part(headers, label, "label", path, asked=request.label is not None)
    else:
        found = _fields(headers, "label")
    if any(found):
        return _values(found, request), of_groups
    if label is None and any(kinds):
        return np.array(kinds), of_groups
    if label is None and request.schema is None:
        _say_parts(headers, path)
    return None, of_groups


def _parts(header: str) -> list[str]:
    """Parts of a header: between bars, or between spaces."""
    return [part.strip() for part in header.split("|")] if "|" in header else header.split()


def _values(found: Sequence[str | None], request: DataOptions) -> np.ndarray:
    """Values of headers as numbers if all are, of which some have a fraction; as text if they are classes, such as 1.1
    and 1.10, or others; missing where there is none."""
    if request.target_or_fitted != "class" and _are_scores(found):
        return np.array([float(value or "nan") for value in found])
    return np.array([value or "" for value in found])


def _are_scores(found: Iterable[str | None]) -> bool:
    values = {value for value in found if value}
    if not all(map(_SCORE.fullmatch, values)) or not any("." in value for value in values):
        return False
    return len(values) > FEW_VALUES or len(set(map(float, values))) == len(values)


_SCORE = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def _part(headers: list[str], name: str, option: str, path: Path, *, asked: bool) -> list[str | None]:
    """The values of ``NAME=VALUE`` in headers, or the part with a number from 0 of each; none if no header has one."""
    found: list[str | None] = _fields(headers, re.escape(name))
    if not any(found) and name.isdecimal():
        found = [parts[int(name)] if int(name) < len(parts) else None for parts in map(_parts, headers)]
    if any(found):
        return found
    if asked:
        raise InputError(
            f"{path}: no header has {one_line(name, 40)}=VALUE, given as {option}; give a part of the headers by its "
            f"number from 0 ({name_list(_parts(headers[0]), 4)}), or a table (--labels FILE)"
        )
    return []


FEW_VALUES, MANY_RECORDS = 20, 10


def _say_parts(headers: list[str], path: Path) -> None:
    """Say which part of the headers has few values or numbers with a fraction, which may be the labels."""
    parts = list(map(_parts, headers))
    for number in range(min(map(len, parts))):
        values = sorted({each[number] for each in parts})
        few = 1 < len(values) <= min(FEW_VALUES, len(headers) // MANY_RECORDS)
        if few or (len(values) > FEW_VALUES and _are_scores(each.split("=")[-1] for each in values)):
            keys = {value.partition("=")[0] for value in values if "=" in value}
            key = keys.pop() if len(keys) == 1 else number
            kind = f"one of {len(values)} values" if few else "a number"
            say(
                f"{path}: part {number} of the headers is {kind} ({name_list(values, 4)}): "
                f"--label {key} makes it the label"
            )
            return


def _of_file(names: list[str], headers: list[str], path: Path, labels: Path) -> np.ndarray:
    """Labels of the records by a file of names and labels, empty text where there is none."""
    known = _label_file(labels)
    given, values = list(known), [*known.values(), ""]
    rows = rows_of_names(names, given)
    unused = sorted({*given} - {given[row] for row in rows if row >= 0})
    absent = np.flatnonzero(rows < 0).tolist()
    if unused and absent:  # names that nearly agree, such as those of another version of the file
        raise InputError(
            f"{labels} does not contain {pluralize(len(absent), 'record')} of {len(names):,} of {path}, first "
            f"{_record(headers, absent[0])}, but {pluralize(len(unused), 'name')} that {path} does not have: "
            f"{name_list(unused)}; give records without a label a line with an empty label, or correct the names"
        )
    if unused:
        warn(f"{labels}: {pluralize(len(unused), 'name')} that {path} does not have, ignored: {name_list(unused)}")
    return np.array([values[row] for row in rows], dtype=np.str_)


def _label_file(path: Path) -> dict[str, str]:
    """Labels by name, from lines of two columns, separated by a tab or a comma; the label may be empty."""
    if not path.is_file():
        raise InputError(f"labels: {path} {'is a folder' if path.is_dir() else 'does not exist'}; expected a file")
    with reading(str(path), "a file of names and labels in UTF-8"):
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    labels: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split("\t" if "\t" in line else ",")]
        if len(fields) != 2 or not fields[0]:
            raise InputError(
                f"{path}: line {number} is {one_line(repr(line.strip()), 60)}, expected a name and a label, separated "
                "by a tab or a comma; of a table with more columns give the name of one (--label COLUMN)"
            )
        name, label = fields
        if labels.setdefault(name, label) != label:
            raise InputError(
                f"{path}: line {number} gives {one_line(name, 60)} the label {one_line(label, 60)}, an earlier line "
                f"{one_line(labels[name], 60)}; keep one of them"
            )
    return labels


def _given_split(headers: list[str], path: Path, fresh: bool) -> np.ndarray | None:
    """Which records are in the test split, bool (n,); None without a split."""
    found = _fields(headers, "split")
    if not any(found):
        return None
    for i, split in enumerate(found):
        if split not in ("train", "test"):
            given = f"split={one_line(split, 60)}" if split else "no split"
            raise InputError(
                f"{path}: {_record(headers, i)} has {given}; expected split=train or split=test "
                "for every record, or none"
            )
    is_test = np.array([split == "test" for split in found])
    if is_test.any() and not is_test.all():
        return is_test
    given = f"{path}: every record has split={found[0]}"
    if fresh:
        raise InputError(f"{given}; expected both split=train and split=test, or neither")
    warn(f"{given}, so the rows are not split")
    return None


def _fields(headers: list[str], key: str) -> list[str | None]:
    """The values of ``key=VALUE`` in each header."""
    pattern = re.compile(rf"(?:^|\s){key}=(\S+)")
    return [match[1] if (match := pattern.search(header)) else None for header in headers]


def _name(header: str) -> str:
    return header.split(maxsplit=1)[0] if header.strip() else ""


def _record(headers: list[str], i: int) -> str:
    """A record in messages: its name, or its number, counted from 1."""
    name = one_line(_name(headers[i]), 60)
    return f"record {name!r}" if name else f"record number {i + 1} (without a name)"


of_records = partial(reader, options=("labels",), extra="dna", once=True)


def record_contents(path: Path, request: DataOptions, records: list[tuple[str, str]]) -> FileContents:
    """What is read of records, a header and letters each."""
    if not records:
        raise InputError(f"{path} has no record with a sequence")
    encoded = [text.encode("ascii", "replace") for _, text in records]
    starts = np.cumsum([0, *map(len, encoded[:-1])])
    return sequence_contents(path, request, [header for header, _ in records], letters_of(b"".join(encoded)), starts)


@of_records(
    "fastq",
    *(".fastq", ".fq", ".fastq.gz", ".fq.gz"),
    help="reads of a sequencer, without their qualities",
    noun="a FASTQ file",
    modality="dna",
    example="reads.fastq.gz",
)
def read_fastq(path: Path, request: DataOptions) -> FileContents:
    """Reads as ASCII letters, uint8 (n, L), padded with 0; their qualities are not used, which is said."""
    require("Bio", "dna", "reading FASTQ files")
    from Bio.SeqIO.QualityIO import FastqGeneralIterator

    with reading(str(path), "a FASTQ file"), open_text(path, "give fewer reads") as file:
        lines = io.TextIOWrapper(cast(BinaryIO, file), "ascii", "replace")
        records = [(header, letters) for header, letters, _ in FastqGeneralIterator(lines)]
    warn(f"{path}: the qualities of the bases are not used")
    return record_contents(path, request, records)


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
    genome, width = request.or_fitted("genome"), request.or_fitted("width")
    if first_bytes(path, 2) == GENOTYPES:
        raise InputError(sentence(path, named("plink")))
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
    return dataclasses.replace(record_contents(path, request, records), options=kept)


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
    with open_text(path, "give fewer intervals") as file:
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
