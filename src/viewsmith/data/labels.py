"""Labels: missing ones, classes, groups, and how numbers are told from classes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import lgamma, log
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from viewsmith.core.errors import InputError, name_list, one_line, pluralize, quoted, warn
from viewsmith.data.options import DataOptions
from viewsmith.modalities.checks import check_labels, warn_nearly_equal

if TYPE_CHECKING:
    import pandas as pd

#: What a row without a label has, in messages.
MISSING = "-1, NaN or empty"

# With fewer labels, a feature can have one value in each class by chance.
LEAK_ROWS = 20
LEAK_ROWS_OF_CLASS = 5  # for several features together


def missing_labels(y: np.ndarray) -> np.ndarray:
    """Which rows have no label, bool (n,): -1, NaN, None, or empty text."""
    return _gaps(y) | _minus_ones(y)


def _gaps(y: np.ndarray) -> np.ndarray:
    """Which labels are NaN, None or empty text, bool (n,)."""
    if y.dtype.kind in "US":
        return np.char.strip(y.astype(str)) == ""
    return np.array([_is_gap(value) for value in y.tolist()], bool) if y.dtype.kind == "O" else y != y


def _minus_ones(y: np.ndarray) -> np.ndarray:
    """Which labels are -1, bool (n,)."""
    if y.dtype.kind in "US":
        return np.char.strip(y.astype(str)) == "-1"
    if y.dtype.kind in "iuf":
        return y == -1
    values = [value.strip() if isinstance(value, str) else value for value in y.tolist()]
    return np.array([v == "-1" if isinstance(v, str) else not _is_gap(v) and bool(v == -1) for v in values], bool)


def _is_gap(value: Any) -> bool:
    """Whether a label is missing: NaN, None, or empty text; -1 is not."""
    if isinstance(value, str):
        return not value.strip()
    # NaN and NaT differ from themselves; pandas' NA has no truth value, and is recognized by its name.
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def lacks_labels(y: np.ndarray, source_name: str = "y") -> bool:
    """Whether rows have no label: NaN, None or empty text; -1 is a class, as long as no label is missing."""
    if y.ndim != 1:
        return False
    absent = _gaps(y)
    if absent.any() and (minus := int(_minus_ones(y).sum())):
        raise InputError(
            f"{source_name}: {pluralize(int(absent.sum()), 'label')} {'is' if absent.sum() == 1 else 'are'} missing "
            f"(NaN or empty) and {minus} {'is' if minus == 1 else 'are'} -1, which also means no label: rename "
            "the class -1"
        )
    return bool(absent.any())


def partial_labels(y: np.ndarray, n_rows: int, source_name: str = "y") -> np.ndarray:
    """Labels of which some are missing: integers with -1, or text with "" for missing ones, shape (n,)."""
    if y.shape != (n_rows,):
        raise InputError(
            f"{source_name} has shape {y.shape}, expected one label or {MISSING} per row, shape ({n_rows},)"
        )
    absent = missing_labels(y)
    if absent.all():
        return np.full(n_rows, -1)
    given = y[~absent]
    if given.dtype.kind == "O":
        text = any(isinstance(value, str) for value in given)
        given = np.array([str(value) for value in given]) if text else np.array(given.tolist())
    given = check_labels(given, len(given), source_name)
    text = given.dtype.kind == "U"
    filled = np.full(n_rows, "" if text else -1, dtype=given.dtype if text else np.int64)
    filled[~absent] = given
    return filled


def few_label_codes(y: Any, n_rows: int) -> np.ndarray:
    """Class numbers from 0, and -1 for rows without a label, int64 (n,)."""
    if y is None:
        raise InputError(
            "supervision is 'labels', but no labels were given: call fit(X, y) (--supervise COLUMN), or leave "
            "supervision out"
        )
    labels = partial_labels(np.asarray(y), n_rows)
    known = ~missing_labels(labels)
    if not known.any():
        raise InputError(
            f"supervision is 'labels', but all {n_rows} labels are missing ({MISSING}): label some rows of at least "
            "two classes, or leave supervision out"
        )
    classes, codes = np.unique(labels[known], return_inverse=True)
    if len(classes) < 2:
        raise InputError(
            f"supervision is 'labels', but all {pluralize(int(known.sum()), 'labeled row')} have the label "
            f"{one_line(classes[0], 40)}, and others none ({MISSING}): expected at least two classes"
            if known.sum() < n_rows
            else f"{one_line(classes[0], 40)}: expected at least two classes"
        )
    found = np.full(n_rows, -1, dtype=np.int64)
    found[known] = codes
    return found


def few_label_numbers(y: Any, n_rows: int) -> np.ndarray:
    """Numbers, and NaN for rows without a label, float64 (n,)."""
    numbers = None if y is None else numbers_of(np.asarray(y), "y", "number")
    if numbers is None or len(numbers) != n_rows:
        given = "none were given" if numbers is None else f"{len(numbers)} were given"
        raise InputError(f"supervision is 'numbers', a number or NaN for each of {n_rows} rows, but {given}")
    known = numbers[~np.isnan(numbers)]
    if len(np.unique(known)) < 2:
        raise InputError(
            f"supervision is 'numbers', but {pluralize(len(known), 'labeled row')} with "
            f"{pluralize(len(np.unique(known)), 'different number')} say nothing: label more rows, or leave it out"
        )
    return numbers


def repeated_by(x: np.ndarray, y: np.ndarray) -> list[int]:
    """Columns that repeat the labels, one value in each class and another in each: the first alone, or all together if
    every class has at least 5 rows (sparse columns of fewer may be alike by chance)."""
    classes = int(y.max()) + 1
    first = x[np.unique(y, return_index=True)[1]]
    same = np.flatnonzero((x == first[y]).all(axis=0) & (first != first[0]).any(axis=0))
    for column in same:
        if len(np.unique(first[:, column])) == classes:
            return [int(column)]
    together = np.bincount(y).min() >= LEAK_ROWS_OF_CLASS and len(np.unique(first[:, same], axis=0)) == classes
    return [int(column) for column in same] if together else []


def check_no_leak(rows: np.ndarray, codes: np.ndarray, names: Sequence[str] | None = None) -> None:
    """Raise InputError if features repeat the labels, see `repeated_by`."""
    labeled = np.flatnonzero(codes >= 0)
    classes = int(codes.max()) + 1
    if rows.ndim != 2 or len(labeled) < max(LEAK_ROWS, 2 * classes):
        return
    found = repeated_by(rows[labeled], codes[labeled])
    if not found:
        return
    shown = list(dict.fromkeys(str(column) if not names else one_line(names[column], 60) for column in found))
    counted = "" if names else " (counted from 0)"
    if len(shown) == 1:
        raise InputError(
            f"the feature {shown[0]}{counted} repeats the labels: it has one value in each of the {classes} classes; "
            "leave it out (--drop)"
        )
    raise InputError(
        f"the features {name_list(shown, 5)}{counted} together repeat the labels: each has one value in each of the "
        f"{classes} classes, and no two classes agree in all of them; leave them out (--drop)"
    )


def group_names(groups: Any, n_rows: int, source_name: str = "groups") -> np.ndarray:
    """The group of each row as text, (n,)."""
    given = np.asarray(groups)
    if given.shape != (n_rows,):
        raise InputError(f"{source_name} has shape {given.shape}, expected one group per row, ({n_rows},)")
    missing = 0 if given.dtype.kind in "iub" else int(missing_labels(given).sum())
    if missing:
        raise InputError(
            f"{source_name} has {pluralize(missing, 'missing value')} (NaN or empty): give every row a group, or leave "
            "the groups out"
        )
    return given.astype(str)


def group_codes(groups: Any, n_rows: int, source_name: str = "groups", *, alone: bool = False) -> np.ndarray:
    """Group numbers from 0, int64 (n,), of training rows; groups of one row are valid if `alone`."""
    names, codes, counts = np.unique(group_names(groups, n_rows, source_name), return_inverse=True, return_counts=True)
    if len(names) < 2:
        raise InputError(
            f"{source_name} has one group ({names[0]}) in {n_rows} rows: expected at least two, or leave them out"
        )
    if (counts == 1).any() and not alone:
        single = names[counts == 1]
        raise InputError(
            f"{source_name} has {pluralize(len(single), 'group')} of one row: {name_list(list(single), 5)}; join such "
            "rows with another group, or leave them out"
        )
    return codes.astype(np.int64)


#: What labels are: classes, or numbers that are to be predicted.
Target = Literal["class", "number"]

# Numbers with a fraction and so few values may be classes; so many different integers may be numbers, and are, if most
# of those between them are missing: numbers of classes have no gaps.
FEW_VALUES, MANY_VALUES, QUANTITY = 20, 100, 50


def numbers_of(
    y: np.ndarray, source_name: str = "y", target: Target | None = None, *, say: bool = False
) -> np.ndarray | None:
    """A continuous target as float64 (n,), NaN where it is missing; None for classes: text, or integers but those of a
    quantity, many different ones with gaps."""
    if y.ndim != 1 or target == "class" or (target is None and y.dtype.kind in "bmM"):
        return None
    values = np.char.decode(y, "utf-8", "replace") if y.dtype.kind == "S" else y
    if target is None and values.dtype.kind in "iu" and not _is_quantity(values):
        if say:
            _warn_many(values, source_name)
        return None
    if target is None and values.dtype.kind != "f":
        listed = values.tolist()
        try:  # 1 and True are equal
            counted = Counter(zip(map(type, listed), listed, strict=True))
        except TypeError:  # lists
            return None
        given = [(value, times) for (_, value), times in counted.items() if not _is_gap(value)]
        if any(isinstance(value, str) for value, _ in given):
            _refuse_mixed(given, source_name)
            return None
        if not all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value, _ in given):
            return None
    found = values.astype(np.float64) if values.dtype.kind in "iufb" else _parsed(values, source_name)
    known = found[~np.isnan(found)]
    fractions = known[np.isfinite(known) & (known != np.round(known))]
    if target is None and not len(fractions) and not _is_quantity(known[np.isfinite(known)]):
        if say:
            _warn_many(known, source_name)
        return None
    if len(known) and not np.isfinite(known).all():
        what = pluralize(int(np.isinf(known).sum()), "infinite number")
        raise InputError(f"{source_name} has {what}: correct them, or leave their cells empty (rows without a label)")
    distinct = len(np.unique(known))
    if say and target is None and not len(fractions):
        warn(
            f"{source_name} has {distinct:,} different integers with gaps, taken as numbers: give --target class if "
            "they are classes"
        )
    elif say and target is None and 1 < distinct <= FEW_VALUES and 5 * distinct <= len(known):
        warn(
            f"{source_name} has {distinct} different values, such as {fractions[0]:g}, taken as numbers: give --target "
            "class if they are classes"
        )
    return found


def as_classes(y: np.ndarray, target: Target | None) -> np.ndarray:
    """Labels unchanged, but numbers with a fraction as text if they are to be classes (``target="class"``)."""
    if target != "class" or numbers_of(y) is None:
        return y
    return np.array(["" if _is_gap(value) else f"{float(value):.15g}" for value in y.tolist()], dtype=np.str_)


def without_label(y: np.ndarray) -> np.ndarray:
    """Which rows have no label, bool (n,), of checked labels: numbers are float, and NaN where they are missing."""
    return np.isnan(y) if y.dtype.kind == "f" else missing_labels(y)


def kind_of(y: np.ndarray) -> Target:
    """What checked labels are."""
    return "number" if y.dtype.kind == "f" else "class"


def _parsed(values: np.ndarray, source_name: str) -> np.ndarray:
    found = np.full(len(values), np.nan)
    for i, value in enumerate(values.tolist()):
        if _is_gap(value):
            continue
        try:
            found[i] = float(value)
        except (TypeError, ValueError):
            raise InputError(
                f"{source_name} holds {one_line(repr(value), 40)}, expected numbers: correct it, or give --target class"
            ) from None
    return found


def _refuse_mixed(given: list[tuple[Any, int]], source_name: str) -> None:
    """Raise InputError for labels, of which each is so often, that are mostly numbers with a fraction, but not all."""
    broken, numbers, other = set[float](), 0, None
    for value, times in given:
        try:
            number = float(value)
        except (TypeError, ValueError):
            other = value
        else:
            numbers += times
            broken |= set() if number.is_integer() else {number}
    rest = sum(times for _, times in given) - numbers
    if other is not None and len(broken) > FEW_VALUES and numbers > rest:
        raise InputError(
            f"{source_name} mixes {numbers:,} numbers and {rest:,} texts, such as "
            f"{one_line(repr(other), 40)}: correct them or leave them empty, or give --target class"
        )


def _is_quantity(values: np.ndarray) -> bool:
    """Whether integers are a quantity, such as a price: many different ones, few rows of each, with gaps."""
    distinct = len(np.unique(values))
    return QUANTITY < distinct > len(values) / 5 and float(values.max()) - float(values.min()) + 1 >= 2 * distinct


def _warn_many(values: np.ndarray, source_name: str) -> None:
    """Warn of so many different integers that they may be a quantity."""
    distinct = len(np.unique(values))
    if distinct > MANY_VALUES and 5 * distinct > len(values):
        warn(
            f"{source_name} has {distinct:,} different integers, taken as classes: give --target number if it is "
            "a quantity"
        )


def find_labels(y: np.ndarray | None, request: DataOptions, n_rows: int, name: str) -> tuple[np.ndarray | None, bool]:
    """Labels, and whether some may be missing: because it was said, or because there are gaps, which is then said."""
    label = request.or_fitted("label")
    column = "y" if label is None else f"the label column {one_line(label, 60)!r}"
    source_name, expected = f"{column} in {name}", bool(request.or_fitted("few_labels"))
    if y is None:
        return None, expected
    y, partial = labels_of(y, request, n_rows, source_name, say=request.schema is None)
    if not partial:
        return y, False
    absent = without_label(y)
    if absent.all() and labels_may_lack(request):
        return None, expected
    if absent.all():
        raise InputError(
            f"{source_name}: all {pluralize(n_rows, 'label')} are missing (NaN or empty): leave the label out"
        )
    if not expected and request.schema is None:  # a run has said so when it was fitted
        warn(
            f"{name}: {int(absent.sum()):,} of {pluralize(n_rows, 'row')} have no label (NaN or empty), and are not "
            "scored by evaluate"
        )
    return y, True


def labels_of(
    y: np.ndarray, request: DataOptions, n_rows: int, source_name: str, *, say: bool = False
) -> tuple[np.ndarray, bool]:
    """Checked labels, classes or numbers, and whether some may be missing; `say` where the kind may be wrong."""
    target, expected = request.target_or_fitted, bool(request.or_fitted("few_labels"))
    numbers = numbers_of(y, source_name, target, say=say)
    if numbers is not None:
        if len(numbers) != n_rows:
            raise InputError(f"{source_name} has {pluralize(len(numbers), 'number')} for {pluralize(n_rows, 'row')}")
        return numbers, expected or bool(np.isnan(numbers).any())
    given = as_classes(y, target)
    partial = expected or lacks_labels(given, source_name)
    found = (partial_labels if partial else check_labels)(given, n_rows, source_name)
    if found.dtype.kind == "U":
        warn_nearly_equal(np.unique(found).tolist(), source_name)
    return found, partial


def labels_may_lack(request: DataOptions) -> bool:
    """Whether rows are read without labels if the labels cannot be used: for a fitted run that found them by itself."""
    return request.schema is not None and request.label is None and request.labels is None


PURE = 0.999  # of the rows whose value occurs again have the most frequent label of the value
SAME = 0.9999  # correlation with a target that a column repeats
CHANCE = 0.05  # of columns that determine labels in a random order, at most
REPEATED = 0.5  # of the rows must have a value that occurs again
SAMPLED = 100_000  # rows, of more than twice as many, that tell which columns cannot determine the label; or 1 %


def leaking_columns(frame: "pd.DataFrame", y: np.ndarray) -> list[str]:
    """Columns whose values, which mostly occur again, determine the label; else columns that do so together."""
    import pandas as pd

    labels = pd.factorize(y)[0]
    if len(labels) == 0:
        return []
    base = np.bincount(labels).max() / len(labels)
    found, few_codes, kinds = [], {}, labels.max() + 1
    rows_of_some = None
    if len(labels) > 2 * SAMPLED:
        rows_of_some = np.sort(np.random.default_rng(0).choice(len(labels), max(SAMPLED, len(labels) // 100), False))
        some = frame.iloc[rows_of_some]
    for i, name in enumerate(frame.columns):
        if rows_of_some is not None:
            codes = pd.factorize(some.iloc[:, i])[0] + 1
            if not _may_determine(codes, labels[rows_of_some], kinds, len(labels)):
                continue
        codes = pd.factorize(frame[name])[0] + 1  # 0 is a gap
        different = np.count_nonzero(np.bincount(codes))
        # Of values that hardly occur again nothing can be said: they determine everything.
        if different > len(codes) // 2:
            continue
        if different <= kinds:  # more cannot have one value in each class
            few_codes[str(name)] = codes
        table = np.bincount(codes * kinds + labels, minlength=(codes.max() + 1) * kinds).reshape(-1, kinds)
        table = table[table.sum(axis=1) > 1]
        rows = table.sum()
        if rows < REPEATED * len(labels) or base > 1 - 5 * (1 - PURE):
            continue
        if table.max(axis=1).sum() < PURE * rows or len(table) < 2:
            continue
        # Labels in a random order are so in one of `log_orders`, and of many columns some are: as of genes of few rows.
        log_orders = lgamma(rows + 1) - sum(lgamma(count + 1) for count in table.sum(axis=0))
        if log_orders - len(table) * log(kinds) > log(len(frame.columns) / CHANCE):
            found.append(name)
    if found or len(labels) < LEAK_ROWS or not few_codes:
        return found
    names = list(few_codes)
    return [names[column] for column in repeated_by(np.column_stack(list(few_codes.values())), labels)]


def _may_determine(codes: np.ndarray, labels: np.ndarray, kinds: int, n: int) -> bool:
    """Whether a column of `n` rows, of which some have these values, may determine the label, alone or with others.

    If half as many values as rows are different, at least m^2 / (2 n) of m rows have the value of another one in the
    mean; if all but (1 - `PURE`) n rows have the most frequent label of their value, at most (1 - `PURE`) m of m rows
    have another one. Half of the first and twice the second are farther off than chance explains (Chernoff: 1e-13).
    """
    m, different = len(codes), np.count_nonzero(np.bincount(codes))
    if different <= kinds:
        return True
    if m - different < m * m / (4 * n):
        return False
    table = np.bincount(codes * kinds + labels, minlength=(codes.max() + 1) * kinds).reshape(-1, kinds)
    return bool(m - table.max(axis=1).sum() <= 2 * (1 - PURE) * m)


def repeating_columns(frame: "pd.DataFrame", y: np.ndarray) -> list[str]:
    """Numeric columns that are the target but for scale and offset: their correlation is nearly 1 or -1."""
    import pandas as pd

    from viewsmith.modalities import frames

    target, found = pd.Series(y, index=frame.index), []
    for name in frame.columns:
        numbers = frames.to_numbers(frame[name]).astype(float)
        enough = min(numbers.nunique(), target.nunique()) >= 3 and (numbers.notna() & target.notna()).sum() >= LEAK_ROWS
        if enough and abs(numbers.corr(target)) > SAME:
            found.append(str(name))
    return found


LABELS = ("label", "labels", "target", "class")  # names, in any case, of columns that are hardly meant as features


def warn_label_among(roles: Mapping[str, str], source_name: str) -> None:
    """Warn of features, by name and role, that are named like a label."""
    for name, role in roles.items():
        if name.lower() in LABELS:
            warn(
                f"{source_name}: column {name} is a feature: --label {name} makes it the label, --drop {name} leaves "
                f"it out, --columns {name}={role} says that it is meant"
            )


def warn_leaks(frame: "pd.DataFrame", y: np.ndarray, label: str, source_name: str, *, numbers: bool = False) -> None:
    """Warn of columns that say the label (`leaking_columns`), or repeat a target of numbers (`repeating_columns`)."""
    if found := repeating_columns(frame, y) if numbers else leaking_columns(frame, y):
        says, of, reason = "say", "label", "rows with equal values have one label"
        if numbers:
            says, of, reason = "repeat", "target", f"correlation above {SAME}"
        column, s, them = ("column", "s", "it") if len(found) == 1 else ("columns", "", "them")
        option = ",".join(f"{one_line(name, 60)}=drop" for name in found[:5])
        warn(
            f"{source_name}: {column} {name_list(found)} {says}{s} the {of} {one_line(label, 60)} ({reason}): leave "
            f"{them} out with --columns {quoted(option)} unless new rows have {them}, too"
        )
