"""Tables of labels: a row for each sample, or for a part of its name such as the well."""

import io
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, name_list, one_line, pluralize, quoted, say, suggest, warn
from viewsmith.data.options import DataOptions
from viewsmith.data.places import first_bytes
from viewsmith.data.reading import reading
from viewsmith.data.text_lines import lines_of_text
from viewsmith.data.unread import Format, command
from viewsmith.modalities.dna.letters import NUCLEOTIDES

FEW_TABLES = 20  # in the folders of a folder, among which one of labels is looked for: more are data
MOST_TEXTS = 12  # columns of which pairs are looked at
LEAST_NAMED = 0.1  # of the samples, that a table that was given has by their names

#: Cells without a value; None may be a treatment.
MISSING_WORDS = ["", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null"]


def table_of_names(names: Sequence[str], request: DataOptions, folder: Path | None, files: Sequence[str] = ()) -> Any:
    """The table of labels, in the order of the names: the given file, or one in the folder, or below, that has all
    names, or a part of each; ``attrs["file"]`` is its path. Of a name that the given file does not have all is NaN.
    It may have names of files in place of those of the samples."""
    found = find_table(names, request, folder, repeated=True)
    found = find_table(files, request, folder, repeated=True) if found is None and files else found
    if found is None and request.labels is not None and request.masks is None:
        raise InputError(
            f"{request.labels} has no column with the names of all samples, such as {names[0]}: expected a table with "
            "one row for each, and labels in other columns"
        )
    return found


def find_table(names: Sequence[str], request: DataOptions, folder: Path | None, *, repeated: bool = False) -> Any:
    """As `table_of_names`; None also where the given table has no row for each name. `repeated`: a table that is given,
    or alone has the label, may have several rows of a name, with equal labels. Parts of the names that are asked for
    are columns, too."""
    found = _table_of_file(names, request, folder, repeated=repeated)
    asked = [name for option in ("label", "groups") if (name := request.or_fitted(option)) and _AT.fullmatch(name)]
    parts = {name: _parts_at(names, name) for name in asked if found is None or name not in found.columns}
    if request.label is request.groups is None:  # new samples of a run may have other names, and no labels
        parts = {name: values for name, values in parts.items() if None not in values}
    for name, values in parts.items():
        _check_parts(name, names, values, fresh=request.schema is None)
    if not parts:
        return found
    import pandas as pd

    own = pd.DataFrame(parts)
    return own if found is None else found.assign(**own)


_AT = re.compile("(name|word):(.*)")  # of a column: a part of the names of files, with numbers at its end or without


def _split(name: str) -> list[str]:
    """The parts of the name of a file, without folders and ending."""
    return re.split(r"[\W_]+", re.sub(r"(?<=.)\.\w+$", "", re.split(r"[/\\]", name)[-1]))


def _parts_at(names: Sequence[str], column: str) -> list[str | None]:
    """The part of each name at a place, from 0; None where a name has fewer, or the column has no place."""
    kind, _, at = column.partition(":")
    ends = r"\d+$" if kind == "word" else "$"
    found = [_split(name) for name in names]
    return [re.sub(ends, "", each[int(at)]) if at.isdecimal() and int(at) < len(each) else None for each in found]


def _check_parts(column: str, names: Sequence[str], parts: Sequence[str | None], fresh: bool) -> None:
    """Raise InputError unless each name has the part that a column is, and some parts recur without their numbers."""
    kind, _, at = column.partition(":")
    if None in parts:
        name = names[parts.index(None)]
        has = f"but {one_line(name, 60)} has {pluralize(len(_split(name)), 'part')}, {name_list(_split(name))}"
        given = f"the part {at}" if at.isdecimal() else f"no part, {kind}:NUMBER,"
        raise InputError(f"{one_line(column, 60)} is {given} of the names of files, from 0, {has}")
    words = set(_parts_at(names, word := f"word:{at}"))
    if fresh and len(set(parts)) == len(parts) > len(words) and "" not in words:
        raise InputError(f"each file has another {column}, such as {parts[0]}: {word} leaves the number at its end out")


def parts_that_recur(names: Sequence[str]) -> str:
    """What is said of files whose names may have their labels; empty for others."""
    widths = {len(_split(name)) for name in names}
    if len(names) < FEWEST_FILES or len(widths) > 1:
        return ""
    recur = {}
    for at in range(min(widths.pop(), 10)):
        named, words = (_parts_at(names, f"{kind}:{at}") for kind in ("name", "word"))
        numbered = len(set(named)) == len(named) and "" not in words
        found = sorted(set(map(str, words if numbered else named)))
        if 1 < len(found) <= len(names) / FEWEST_OF_PART:
            recur[f"{'word' if numbered else 'name'}:{at}"] = found
    each = [f"{column} ({name_list(found, 3)})" for column, found in recur.items()]
    return f"parts of the names of files may be labels or groups: --label {' or '.join(each)}" if each else ""


FEWEST_FILES, FEWEST_OF_PART = 8, 4  # of a folder, and in the mean of those with one part in their names


def _table_of_file(names: Sequence[str], request: DataOptions, folder: Path | None, *, repeated: bool) -> Any:
    """As `find_table`, of the given table, or those of the folder."""
    found_there = list(tables(request, folder))
    if folder is not None and request.labels is None:  # no table that is a sample is about the others
        known = set(names)
        found_there = [each for each in found_there if each[0].relative_to(folder).as_posix() not in known]
    named = [request.or_fitted(option) for option in ("label", "groups")]
    # Of several tables with the names, the one with the columns that are asked for.
    found_there.sort(key=lambda found: -sum(name in found[1].columns for name in named if name is not None))
    alone = repeated and sum(named[0] in table.columns for _, table in found_there) == 1
    for file, table in found_there:
        asked = request.labels is not None or (alone and named[0] in table.columns)
        several = repeated and asked and request.masks is None
        wanted = [name for name in named if name in table.columns] if several else None
        rows = _rows_of(names, table, file, partly=asked, wanted=wanted, alone=alone_in(request))
        if rows is not None:
            if (rows < 0).any():
                without, first = int((rows < 0).sum()), one_line(names[int((rows < 0).argmax())], 60)
                warn(f"{file} has no row of {pluralize(without, 'sample')} of {len(rows):,}, such as {first}")
            found = table.reindex(rows).reset_index(drop=True)
            found.attrs["file"] = str(file)
            return found
    return _of_splits(names, [found for found in found_there if named[0] in found[1].columns], request)


def _of_splits(names: Sequence[str], found_there: Sequence[tuple[Path, Any]], request: DataOptions) -> Any:
    """The table of labels of tables that are of one part of the split each, by their names or folders (train.csv,
    train/metadata.csv), in the order of the names, which are in folders of these parts; None if there is none."""
    import pandas as pd

    folders = np.array([name.split("/")[0] if "/" in name else "" for name in names])
    parts, used = [], []
    for file, table in found_there:
        words = (_SPLIT.match(file.parent.name), _SPLIT.match(file.name))
        split = next((each[0].lower() for each in words if each is not None), None)
        own = [i for i, each in enumerate(folders) if split and each.lower().startswith(split)]
        rows = _rows_of([names[i] for i in own], table, file, partly=request.labels is not None) if own else None
        if rows is not None:
            parts.append(table.reindex(rows).set_axis(own))
            used.append(file)
    if not parts or len(of_rows := pd.concat(parts)) > of_rows.index.nunique():
        return None
    if without := len(names) - len(of_rows):
        first = one_line(names[min(set(range(len(names))) - set(of_rows.index))], 60)
        warn(f"{name_list(used)}: no row of {pluralize(without, 'sample')} of {len(names):,}, such as {first}")
    found = of_rows.reindex(range(len(names)))
    found.attrs["file"] = str(used[0])
    return found


_SPLIT = re.compile("train|test|val", re.IGNORECASE)  # with which the names of the parts of a split begin
_SUBMISSION = re.compile("sample_?submission", re.IGNORECASE)  # of a competition, whose labels are no labels


_TABLES = ("*.csv", "metadata.jsonl", "participants.tsv")  # the last one is of BIDS


def tables(request: DataOptions, folder: Path | None) -> Iterator[tuple[Path, Any]]:
    """The given table of labels, or those in the folder and below; columns that are not numbers are text."""
    beside, below = (
        [] if folder is None else sorted(file for name in _TABLES for file in folder.glob(at + name))
        for at in ("", "*/")
    )
    found_there = [each for each in beside if not is_submission(each)] + (below if len(below) <= FEW_TABLES else [])
    for file in found_there if request.labels is None else [request.labels]:
        try:
            table = read_table(file, request.or_fitted("encoding"), (request.or_fitted("label"), request.groups))
        except InputError:
            if request.labels is not None:
                raise
            continue
        yield file, table


def is_submission(file: Path) -> bool:
    """Whether a table is a form of a competition, to be filled in, whose labels are those of no sample."""
    return _SUBMISSION.match(file.name) is not None


def read_table(file: Path, encoding: str | None = None, known: Sequence[str | None] = ()) -> Any:
    """A table of labels, in this encoding if it is not UTF-8; `known` are names of columns: they are its header."""
    import pandas as pd

    from viewsmith.data.headers import LOOKED_AT, has_header
    from viewsmith.modalities.frames import of_json

    if file.is_dir():
        raise InputError(f"labels={file} is a folder, which only recordings have, one file for each: give a table")

    with reading(str(file), "a table of labels"):
        if file.suffix.lower() == ".xlsx":
            return _typed(partial(pd.read_excel, file))
        if file.suffix.lower() == ".parquet":
            return pd.read_parquet(file)
        if (ending := file.suffix.lower()) in (".json", ".jsonl", ".ndjson"):
            return of_json(file, ending != ".json")
        if ending == ".txt" and (lines := _counted_lines(file)):
            return _typed(lambda **options: pd.read_csv(io.StringIO("\n".join(lines)), sep=r"\s+", **options))
        read: Any = partial(
            pd.read_csv, file, sep=None, engine="python", keep_default_na=False, na_values=MISSING_WORDS
        )
        try:
            first = read(header=None, nrows=LOOKED_AT, dtype=str)
        except UnicodeDecodeError as error:
            if encoding is None:
                raise InputError(f"{file} is not UTF-8: give its encoding (--encoding latin-1)") from error
            read = partial(read, encoding=encoding)
            first = read(header=None, nrows=LOOKED_AT, dtype=str)
        named = first.iloc[0].isin([name for name in known if name and not name.isdigit()]).any()
        if len(first) > 1 and not named and not has_header(first.fillna("")):
            names = list(map(str, range(first.shape[1])))
            say(f"{file}: the first line has values, as the others: columns are named {names[0]} to {names[-1]}")
            read = partial(read, header=None, names=names)
        return _typed(read)


def _typed(read: Callable[..., Any]) -> Any:
    """A table whose columns of codes such as 01, and of names that pandas would not survive as numbers, are text."""
    from viewsmith.modalities.frames import is_huge

    text = read(dtype=object)
    codes = [
        name for name in text if text[name].map(lambda cell: is_huge(cell) or _CODE.match(str(cell)) is not None).any()
    ]
    return read(dtype=dict.fromkeys(codes, str))


_CODE = re.compile(r"0\d+$")


def _counted_lines(file: Path) -> list[str]:
    """Lines of a text whose first one is the number of its rows, without that (CelebA); a header that does not name the
    first column has ``file`` for it. Empty for other texts."""
    if not first_bytes(file, 20).partition(b"\n")[0].strip().isdigit():
        return []
    count, header, *rows = file.read_text("utf-8", "replace").strip().split("\n")
    if int(count) != len(rows):
        return []
    lacks = len(rows[0].split()) == len(header.split()) + 1
    return [f"file {header}" if lacks else header, *rows]


_BASES = f"[{NUCLEOTIDES.letters}]"  # of barcodes, eight or more
_ENDING = re.compile(rf"(?<=.)\.\w+$|(?<={_BASES}{{8}})-\d+$")  # of a file, or the lane of a barcode


def forms(names: Sequence[str]) -> list[list[str]]:
    """Names as they are, without folders, without folders and endings, also those of the lanes of barcodes, and these
    in small letters; without blanks around them."""
    names = [name.strip() for name in names]
    files = [re.split(r"[/\\]", name)[-1] for name in names]
    stems = [_ENDING.sub("", name) for name in files]
    return [names, files, stems, [name.casefold() for name in stems]]


FOLDED = 3  # of `forms`, in small letters


def plain(column: object) -> str:
    """The name of a column without case and marks."""
    return re.sub(r"[^a-z]", "", str(column).lower())


def _in_cases(names: Sequence[str]) -> bool:
    """Whether some names differ in their case alone, so that small letters do not tell them apart."""
    return len({name.casefold() for name in names}) < len(set(names))


def rows_of_names(names: Sequence[str], given: Sequence[str]) -> np.ndarray:
    """The place of each name among given ones, in the first form of both that most have, -1 where there is none."""
    best = np.full(len(names), -1)
    for (i, known), (j, keys) in itertools.product(enumerate(forms(names)), enumerate(forms(given))):
        if (best >= 0).all() or len(set(keys)) < len(keys) or (known != names and len(set(known)) < len(known)):
            continue
        if FOLDED in (i, j) and (_in_cases(known) or _in_cases(keys)):
            continue
        place = dict(zip(keys, range(len(keys)), strict=True))
        rows = np.array([place.get(name, -1) for name in known], np.int64)
        best = rows if (rows >= 0).sum() > (best >= 0).sum() else best
    return best


def _rows_of(
    names: Sequence[str],
    table: Any,
    file: Path,
    *,
    partly: bool,
    wanted: Sequence[Any] | None = None,
    alone: bool = False,
) -> np.ndarray | None:
    """The row of each name, -1 where the table has none; None if no column has the names. With columns that are
    `wanted` a name may have several rows, which agree in them. `alone`: samples of a row are split as any others."""
    best, least, repeated = None, (1 if partly else len(names)), None
    known_forms = [(i, known) for i, known in enumerate(forms(names)) if len(set(known)) == len(names)]
    depth = max((name.count("/") for name in names), default=0)
    for column in table.columns:
        if table[column].dtype.kind in "fb" or least > len(names):  # 3.2 is no file 3
            continue
        cells = table[column].map(str).tolist()
        forms_of_keys = forms(cells)[:1]
        if table[column].dtype.kind not in "iu":  # also with as many of their folders as names have at most
            tails = ["/".join(re.split(r"[/\\]", cell.strip())[-depth - 1 :]) for cell in cells]
            forms_of_keys = [*forms(cells), tails]
        for j, keys in enumerate(forms_of_keys):
            row_of = dict(zip(keys[::-1], range(len(keys))[::-1], strict=True))  # the first of equal ones
            if (several := len(row_of) < len(keys)) and (wanted is None or column in wanted):
                continue
            for i, known in known_forms:
                if FOLDED in (i, j) and (_in_cases(known) or _in_cases(keys)):
                    continue
                rows = np.array([row_of.get(name, -1) for name in known], np.int64)
                if (found := int((rows >= 0).sum())) >= least and found >= LEAST_NAMED * len(names):
                    best, least, repeated = rows, found + 1, (set(known), keys) if several else None
            if least > len(names):
                break
    if repeated is not None and wanted is not None:
        _check_repeated(table[list(wanted)], *repeated, file)
    return _rows_of_parts(names, table, file, alone) if best is None else best


def _check_repeated(wanted: Any, names: set[str], keys: Sequence[str], file: Path) -> None:
    """Say that several rows of a table have one name; raise InputError if their labels or groups are different."""
    of_names = wanted.assign(**{_NAME: keys})[[key in names for key in keys]]
    for column in wanted:
        values = of_names.drop_duplicates([_NAME, column])
        if len(clashes := values[_NAME][values[_NAME].duplicated()]):
            name = clashes.iloc[0]
            both = name_list(values.loc[values[_NAME] == name, column].astype(str).tolist(), 3)
            raise InputError(
                f"{file} has rows with different {one_line(column, 40)} of {pluralize(clashes.nunique(), 'sample')}, "
                f"such as {one_line(name, 40)} ({both}): expected one; choose a row of each (drop_duplicates in pandas)"
            )
    if extra := len(of_names) - of_names[_NAME].nunique():
        said = f"{pluralize(extra, 'row')} more than one for a sample, with equal {name_list(list(wanted))}"
        say(f"{file}: {said}")


_NAME = "name of a sample"  # of a column that no table has


def _parts(name: str) -> set[str]:
    """Pieces of a name between marks, in lower case; of the wells A1 and A01 are the same; sub-01 of BIDS is one."""
    pieces = re.split(r"[^0-9a-z]+", re.sub(r"(?<![0-9a-z])sub-(?=[0-9a-z])", "sub", name.lower()))
    return {re.sub(r"^([a-z]{1,2})0+(?=\d)", r"\1", piece) for piece in pieces}


_NO_PART = re.compile(rf"\d*|{_BASES.lower()}{{8,}}")  # numbers, and barcodes, of which several lanes may have one


def _rows_of_parts(names: Sequence[str], table: Any, file: Path, alone: bool) -> np.ndarray | None:
    """The row of each name by a piece of it, such as the well, or two; None if no columns have one of each name."""
    if len(table) >= len(names) and "participant_id" not in table.columns:
        return None
    texts = [c for c in table.columns if table[c].map(lambda cell: isinstance(cell, str)).all()][:MOST_TEXTS]
    pieces = [_parts(name) for name in names]
    for columns in [[c] for c in texts] + [[a, b] for i, a in enumerate(texts) for b in texts[i + 1 :]]:
        keys = [tuple(_parts(cell) for cell in row) for row in table[columns].itertuples(index=False)]
        if any(len(part) != 1 or _NO_PART.fullmatch(next(iter(part))) for key in keys for part in key):
            continue
        row_of = {frozenset().union(*key): i for i, key in enumerate(keys)}
        if len(row_of) < len(keys):
            continue
        known = frozenset().union(*row_of)
        rows = [row_of.get(frozenset(piece & known), -1) for piece in pieces]
        if min(rows) >= 0:
            said = " and ".join(one_line(str(c), 40) for c in columns)
            _say_rows(
                f"{file}: labels by {said}, which {'is a part' if len(columns) == 1 else 'are parts'} of the names",
                rows,
            )
            if alone and len(columns) == 1 and "participant_id" not in columns:
                _say_shared(columns[0], rows)
            return np.array(rows, np.int64)
    begins = [re.split(r"[^0-9A-Za-z]+", re.split(r"[/\\]", name)[-1])[0].lstrip("0") for name in names]
    for column in [c for c in table.columns if table[c].dtype.kind in "iu" and table[c].is_unique]:
        place = {str(number): i for i, number in enumerate(table[column])}
        if all(begin in place for begin in begins):
            rows = [place[begin] for begin in begins]
            _say_rows(f"{file}: labels by {one_line(column, 40)}, with which names begin", rows)
            if alone:
                _say_shared(column, rows)
            return np.array(rows, np.int64)
    return None


def alone_in(request: DataOptions) -> bool:
    """Whether samples with one row of a table of labels are not kept together, and a fit may do so."""
    return request.schema is None and request.groups is None


def _say_rows(start: str, rows: Sequence[int]) -> None:
    say(f"{start}: {pluralize(len(set(rows)), 'row')} for {pluralize(len(rows), 'sample')}")


def _say_shared(column: Any, rows: Sequence[int]) -> None:
    """Say that samples of one row, such as the fields of a well, may be for training and for tests."""
    if len(set(rows)) < len(rows):
        name = one_line(str(column), 40)
        say(
            f"samples of one {name} may be in both parts of the split, which makes scores too good: "
            f"--groups {quoted(name)} --split-groups holds whole ones out"
        )


def check_named(request: DataOptions) -> None:
    """Raise InputError for a table of labels of which no column is named."""
    if request.labels is None or request.schema is not None or not request.labels.is_file():
        return
    if request.label is None and request.groups is None:
        table = read_table(request.labels, request.encoding)
        columns = " or ".join(one_line(name, 40) for name in table.columns[:8])
        raise InputError(
            f"labels={request.labels} has no effect without the column of the labels: --label {columns}"
            f"{_of_indicators(table, request.labels)}"
        )


_CLASSES = Format(
    "a table with a column for each class",
    "import pandas as pd; x = pd.read_csv({path}, dtype=str); "
    "x.set_index(x.columns[0]).astype(float).idxmax(axis=1).to_csv({out}, header=['label'])",
    suffix="_classes.csv",
    options=" --label label",
)


def _of_indicators(table: Any, file: Path) -> str:
    """The line that makes one column of those of a table that has a column for each class, with 1 in that of a row;
    empty for others."""
    x = table.iloc[:, 1:]
    if x.shape[1] < 2 or file.suffix != ".csv" or not all(dtype.kind in "iufb" for dtype in x.dtypes):
        return ""
    if not (x.isin([0, 1]).all(axis=None) and (x.sum(axis=1) == 1).all()):
        return ""
    line = command(file, _CLASSES).replace(", and give ", ", and give --labels ")
    return f"; each row has 1 in the column of its class: {line}"


def table_options(request: DataOptions) -> dict[str, Any]:
    """What a table of labels adds to the schema."""
    label = request.or_fitted("label")
    return {} if label is None else {"columns": None, "one_hot": {}, "drop": [], "label": label}


def with_labels(frame: Any, request: DataOptions, source_name: str) -> tuple[Any, str]:
    """A table with the columns of labels and groups that a given one has for its rows, by one column of names in each,
    and this column; InputError with the line that joins them where the names are those of its columns."""
    from viewsmith.modalities.frames import with_columns

    check_named(request)
    ((file, table),) = tables(request, None)
    wanted = {request.or_fitted(option) for option in ("label", "groups")} - {None}
    if lacking := sorted(wanted - {*table.columns} - ({*frame.columns} if wanted & {*table.columns} else set())):
        raise InputError(f"{file} has no column {one_line(lacking[0], 40)}; its columns are {name_list(table.columns)}")
    found: dict[str, np.ndarray] = {}
    numbered = {name for name in frame.columns if frame[name].dtype.kind in "fbiu"}  # as in columns of one name alone
    for name in frame.columns:
        names = frame[name].map(str).tolist()
        if len(set(names)) == len(names) and (name not in numbered or name in table.columns):
            there = table[[name, *sorted(wanted & {*table.columns})]] if name in numbered else table
            rows = _rows_of(names, there, file, partly=True, wanted=sorted(wanted & {*table.columns}))
            if rows is not None and 2 * (rows >= 0).sum() >= min(len(names), len(table)):
                found[name] = rows
    if not found:
        _refuse_repeated(frame, table, source_name, file)
        way = joining(Path(source_name), request)
        raise InputError(
            f"{source_name} and {file} have no column with the same names" + (f"; {way}" if way else ": expected one")
        )
    # Numbers may be those of rows, in another order in each table, as pandas writes them.
    of_rows = {name for name in numbered if re.fullmatch("Unnamed.*|index|rownames|row", str(name))}
    key = max(found, key=lambda x: (x not in numbered, x not in of_rows, x in table.columns, (found[x] >= 0).sum()))
    rows, told = found[key], f"{source_name}: the labels of {file} are told by {one_line(key, 40)}"
    if key in of_rows:
        warn(f"{told}, in which both have numbers: if these only count rows, give both tables a column of names")
    else:
        say(told)
    if without := int((rows < 0).sum()):
        missing = one_line(frame[key].iloc[int((rows < 0).argmax())], 60)
        warn(f"{file} has no row of {pluralize(without, 'row')} of {len(rows):,}, such as {missing}")
    if twice := sorted(wanted & {*table.columns} & {*frame.columns}):
        warn(f"{source_name} has {name_list(twice)}, too: that of {file} is used")
    taken = {name: table[name].reindex(rows).to_numpy() for name in wanted & {*table.columns}}
    return with_columns(frame, taken), str(key)


def _refuse_repeated(frame: Any, table: Any, source_name: str, file: Path) -> None:
    """Raise InputError for two tables with a column of the same name and texts, which one of them has several times."""
    for name in frame.columns.intersection(table.columns):
        both = [each[name].dropna().astype(str) for each in (frame, table)]
        shared = len(set(both[0]) & set(both[1]))
        if 2 * shared < max(2, min(each.nunique() for each in both)):
            continue
        for each, place in zip(both, (source_name, file), strict=True):
            if not each.is_unique:
                raise InputError(
                    f"{place} has several rows of {one_line(each[each.duplicated()].iloc[0], 40)} in "
                    f"{one_line(name, 40)}: expected one, by which labels are told"
                )


def joining(path: Path, request: DataOptions) -> str:
    """The line that exchanges rows and columns of a text table whose columns are samples, and adds what another table
    has for these; empty where no column of that has their names."""
    import pandas as pd

    file, wanted = request.labels, request.label or request.groups
    try:
        marks = [text.separator for each in (path, file) if each and (text := lines_of_text(each)) is not None]
        samples = set(pd.read_csv(path, sep=marks[0], dtype=str, nrows=MOST_ROWS).columns)
        labels = pd.read_csv(str(file), sep=marks[1], dtype=str)
    except Exception:  # what is no text; the message has no line then
        return ""
    keys = [key for key in labels.columns if key != wanted and labels[key].is_unique]
    key = max(keys, key=lambda name: len(samples & set(labels[name])), default="")
    out = f"{path.name.split('.')[0]}_labeled.csv"
    texts = {str(each) for each in (path, file, key, wanted, out, *marks)}
    named = len(samples & set(labels[key])) if key else 0
    if 2 * named < min(len(labels), len(samples)) or any(set(text) & set("'\"$`\\!\n\r") for text in texts):
        return ""
    code = (
        f"import pandas as pd; y = pd.read_csv('{file}', sep={marks[1]!r}, dtype=str)"
        f".set_index('{key}')[['{wanted}']]; "
        f"x = pd.read_csv('{path}', sep={marks[0]!r}, index_col=0); "
        f"x[x.columns.intersection(y.index)].T.join(y).to_csv('{out}', index_label='{key}')"
    )
    said = f"its columns are samples, by {one_line(key, 40)} of {file}"
    return f'{said}: python -c "{code}", and give {out} --label {quoted(wanted)}'


MOST_ROWS = 1000  # that are looked at


def column_of(table: Any, option: str, request: DataOptions, source_name: str) -> np.ndarray | None:
    """The column of a table of labels that an option names; None without a name, and where only the run that was fitted
    has it."""
    name = request.or_fitted(option)
    if name is None or (getattr(request, option) is None and name not in getattr(table, "columns", ())):
        return None
    if table is None:
        raise InputError(
            f"{source_name} has no table of labels for {option}={one_line(name, 60)}: give one with a column of the "
            "names of samples (--labels FILE.csv)"
        )
    columns = [str(column) for column in table.columns]
    if name not in columns:
        hint = suggest(name, columns, "the columns of the table of labels are")
        raise InputError(f"{source_name} has no column {one_line(name, 60)!r}, given as {option}; {hint}")
    found: np.ndarray = table[name].to_numpy()
    return found.astype(str) if found.dtype == object and all(isinstance(each, str) for each in found) else found
