"""What tables have in place of numbers: a first row of units, and marks of missing values."""

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from viewsmith.core.errors import name_list, one_line, pluralize, say, warn
from viewsmith.data.layouts import READ, transposing

if TYPE_CHECKING:
    import pandas as pd

MARKS = ("?", ".", "-", "--", "*")  # of missing values, as UCI, SAS and others write them
_MISSING = re.compile(r"(?i)\W*(|unknown|missing|none|null|n/?an?|not \w+|undefined|error|inf|invalid)\W*")  # no units
FEWEST = 5  # numbers below units
_CLASSES = re.compile(  # what the samples in columns are, as MetaboAnalyst has it below their names
    r"(?i)(class|group|label|condition|treatment|phenotype|genotype|diagnosis|disease|cohort|tissue)(es|s)?"
)
SOME = 1000  # cells that are looked at first


def with_numbers(
    frame: "pd.DataFrame", source_name: str, given: Collection[str] = (), fitted: Collection[str] = ()
) -> "pd.DataFrame":
    """A table without a first row of units, and with columns of numbers and `MARKS` as numbers, which is said, but for
    columns whose roles are `given`; those `fitted` on numbers may have few of them."""
    import pandas as pd

    texts = [place for place, dtype in enumerate(frame.dtypes) if pd.api.types.is_string_dtype(dtype)]
    if not texts or (len(frame) <= FEWEST and not fitted):
        return frame
    first = [] if _has_number(frame, texts) else [(place, frame.iloc[0, place]) for place in texts]
    units = {place: unit.strip() for place, unit in first if isinstance(unit, str) and not _MISSING.fullmatch(unit)}
    found: dict[int, pd.Series] = {}
    for place in texts:
        column = frame.iloc[1:, place] if place in units else frame.iloc[:, place]
        if (numbers := _numbers(column, frame.columns[place] in fitted)) is not None:
            found[place] = numbers
    below = {place: unit for place, unit in units.items() if place in found}
    if any(_as_below(frame.iloc[:SOME, place]) for place in (units.keys() - below.keys() if below else ())):
        found = {place: numbers for place, numbers in found.items() if place not in below}
        below = {}  # a sample, with a text in place of a number
    if below:  # then the other columns are without that row, too
        found = {place: numbers.iloc[-len(frame) + 1 :] for place, numbers in found.items()}
        said = name_list(list(dict.fromkeys(one_line(unit, 20) for unit in below.values())))
        if _CLASSES.fullmatch(units.get(0, "")) and 0 not in below:
            way = transposing(source_name, str(frame.columns[0]), False, frame.attrs.get(READ))
            said = f"{source_name}: the first row, {units[0]}, has classes ({said}), so columns are samples"
            warn(f"{said}, but samples are rows: {way} --label {units[0]}")
        else:
            say(f"{source_name}: the first row has units ({said}), and is left out")
        frame = frame.iloc[1:]
    changed = frame.copy(deep=False)
    found = {place: numbers for place, numbers in found.items() if place in below or frame.columns[place] not in given}
    marked = [place for place, numbers in found.items() if numbers.isna().sum() > frame.iloc[:, place].isna().sum()]
    for place, numbers in found.items():
        if place in below or place in marked:
            changed.isetitem(place, numbers.to_numpy())
    if marked:
        count = sum(int(found[place].isna().sum() - frame.iloc[:, place].isna().sum()) for place in marked)
        cells = frame.iloc[:, marked[0]]
        mark = cells[found[marked[0]].isna() & cells.notna()].iloc[0]
        names = name_list([str(frame.columns[place]) for place in marked])
        say(f"{source_name}: {pluralize(count, 'cell')} of {names} without a number ({mark!r}), taken as missing")
    return changed.reset_index(drop=True) if below else changed


# A text, since pandas 2.2 takes no compiled pattern for its string type.
_SUM = r"(?i)\s*(grand )?(totals?|sums?|averages?|means?|summe|gesamt|source|notes?|footnotes?)\b\s*:?.*"
LAST = 5  # rows that may be sums or notes


def warn_last_rows(frame: "pd.DataFrame", source_name: str) -> None:
    """Warn of last rows that are named as sums and notes are, if no row above is."""
    import pandas as pd

    if len(frame) < 2 * LAST or not pd.api.types.is_string_dtype(frame.dtypes.iloc[0]):
        return
    first = frame.iloc[:, 0].map(str)
    named = first.str.fullmatch(_SUM).to_numpy()
    count = int(named.sum())
    once = first.nunique() > len(frame) / 2 or first[named].is_unique  # not so of a category
    if 0 < count <= LAST and named[-count:].all() and once:
        cells = one_line(first.iloc[-count], 40)
        warn(
            f"{source_name}: the last {pluralize(count, 'row')} may be of sums or notes ({cells}), and "
            f"{'is' if count == 1 else 'are'} taken as samples: delete {'it' if count == 1 else 'them'} if so"
        )


def _as_below(column: "pd.Series") -> bool:
    """Whether the first cell of a text column is written as most below it are: s1 as s2, a word as a word."""
    shapes = column.map(str).str.strip().str.replace(r"[^\W\d_]+", "a", regex=True).str.replace(r"\d+", "9", regex=True)
    return bool((shapes.iloc[1:] == shapes.iloc[0]).mean() > 0.5)


def _has_number(frame: "pd.DataFrame", texts: list[int]) -> bool:
    """Whether the first row has a number anywhere."""
    from viewsmith.modalities import frames

    others = np.setdiff1d(np.arange(frame.shape[1]), texts)
    first = frame.iloc[0, texts]
    return bool(frame.iloc[:1, others].notna().to_numpy().any() or frames.to_numbers(first).notna().any())


def _numbers(column: "pd.Series", fitted: bool) -> "pd.Series | None":
    """A text column as numbers, if its cells are these or marks of missing values, few if it is not of a run `fitted`
    on numbers; None for another."""
    from viewsmith.modalities import frames

    for cells in (column.iloc[:SOME], column):
        numbers = frames.to_numbers(cells)
        others = cells[numbers.isna() & cells.notna()]
        if not others.map(str).str.strip().isin(MARKS).all():
            return None
    return numbers if fitted or numbers.notna().sum() >= max(FEWEST, len(others)) else None
