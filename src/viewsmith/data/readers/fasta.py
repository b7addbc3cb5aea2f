"""Reader of FASTA files, plain or gzip, with labels from headers or a second file, and a split from headers."""

import itertools
import re
from pathlib import Path

import numpy as np

from viewsmith.core.errors import InputError, name_list, one_line, pluralize, warn
from viewsmith.data.formats import reader
from viewsmith.data.options import DataOptions
from viewsmith.data.readers.sequences import alphabet_given
from viewsmith.data.reading import FileContents, open_text, reading
from viewsmith.data.unread import hidden_letters, letters_way
from viewsmith.modalities.dna.alphabet import alphabet_of
from viewsmith.modalities.dna.letters import first_other_letter, letter_fault, letters_of, pad_rows

_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@reader(
    "fasta",
    *(".fa", ".fasta", ".fna", ".fa.gz", ".fasta.gz", ".fna.gz"),
    help="sequences of DNA or proteins, a record each",
    noun="a FASTA file",
    modality=("dna", "proteins"),
    options=("labels",),
    once=True,
    example="enhancers.fa.gz --labels enhancers.tsv",
)
def read_fasta(path: Path, request: DataOptions) -> FileContents:
    """Sequences as ASCII letters, uint8 (n, L), padded with 0, train records first; labels of the file ``labels`` or of
    ``label=VALUE`` in headers."""
    request.check_no_table_options(str(path), "give labels in a file (--labels FILE) or in the headers (label=NAME)")
    return sequence_contents(path, request, *_records(path))


def sequence_contents(
    path: Path, request: DataOptions, headers: list[str], letters: np.ndarray, starts: np.ndarray
) -> FileContents:
    """What is read of records, with headers without '>', the letters of all of them and the start of each one."""
    lengths = np.diff(starts, append=len(letters))
    if not lengths.all():
        raise InputError(f"{path}: {_record(headers, int(lengths.argmin()))} has no sequence; leave it out")
    alphabet = alphabet_given(request) or alphabet_of(letters)
    fault = first_other_letter(letters, starts, alphabet)
    if fault is not None:
        record, position = fault
        sequence = letters[starts[record] : starts[record] + lengths[record]].tobytes().decode("latin-1")
        said = letter_fault(sequence[position], sequence, alphabet)
        raise InputError(
            f"{path}: {_record(headers, record)}, position {position + 1} is {said}{letters_way(path, said)}"
        )
    if len(headers) == 1 and request.schema is None:
        raise InputError(
            f"{path} has one record, expected at least 2 for training; cut a long sequence into windows, a record for "
            "each (bedtools makewindows and getfasta)"
        )
    _say_lower_case(letters, path)
    y = _labels(headers, path, request.labels)
    is_test = _given_split(headers, path, fresh=request.schema is None)
    names = [_name(header) for header in headers]
    if is_test is None:
        return FileContents(pad_rows(letters, starts, lengths, str(path)), y, row_names=names, modality=alphabet.name)
    order = np.argsort(is_test, kind="stable")
    rows = pad_rows(letters, starts[order], lengths[order], str(path))
    in_order = [names[i] for i in order]
    n_train = int((~is_test).sum())
    return FileContents(rows, None if y is None else y[order], n_train, row_names=in_order, modality=alphabet.name)


MASKED = 0.01, 0.99  # of the letters are lower case: they mark repeats, rather than being the style of the file


def _say_lower_case(letters: np.ndarray, path: Path) -> None:
    """Say that some letters are lower case, and how they are hidden, which the user may want."""
    part = float((letters >= ord("a")).mean())
    if MASKED[0] <= part <= MASKED[1]:
        warn(
            f"{path}: {part:.0%} of the letters are lower case, which often marks repeats; they are read like the "
            f"others: {hidden_letters(path)}"
        )


def _records(path: Path) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Headers without '>', the concatenated letters of all records, and the start of each record."""
    headers: list[str] = []
    letters = bytearray()
    starts: list[int] = []
    with reading(str(path), "a FASTA file"):
        with path.open("rb") as raw:
            compressed = raw.read(2) == _GZIP
        with open_text(path, compressed, "give fewer or shorter records") as file:
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
                    letters += text
    if not headers:
        raise InputError(f"{path} is empty; expected a FASTA file: lines of '>' and a name, then the sequence")
    return headers, letters_of(letters), np.array(starts, dtype=np.int64)


def _labels(headers: list[str], path: Path, labels: Path | None) -> np.ndarray | None:
    """Labels of the records, empty text where there is none; None if no record has one."""
    if labels is None:
        found = _fields(headers, "label")
        return np.array([label or "" for label in found]) if any(found) else None
    known = _label_file(labels)
    names = [_name(header) for header in headers]
    unused = sorted(known.keys() - set(names))
    absent = [i for i, name in enumerate(names) if name not in known]
    if unused and absent:  # names that nearly agree, such as those of another version of the file
        raise InputError(
            f"{labels} does not contain {pluralize(len(absent), 'record')} of {len(names):,} of {path}, first "
            f"{_record(headers, absent[0])}, but {pluralize(len(unused), 'name')} that {path} does not have: "
            f"{name_list(unused)}; give records without a label a line with an empty label, or correct the names"
        )
    if unused:
        warn(f"{labels}: {pluralize(len(unused), 'name')} that {path} does not have, ignored: {name_list(unused)}")
    return np.array([known.get(name, "") for name in names], dtype=np.str_)


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
                "by a tab or a comma"
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
