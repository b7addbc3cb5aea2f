"""Kinds of columns: how each becomes features, float32 (n, k), and how features become values again.

A column is fitted by `fit` to a column of the training rows; what it learns are plain values. Texts become hashed
character n-grams, or words, on their principal axes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pandas as pd

from viewsmith.core.errors import InputError, name_list, one_line, pluralize, quoted, warn
from viewsmith.modalities import frames
from viewsmith.modalities.checks import warn_lost_digits, warn_nearly_equal
from viewsmith.modalities.tables import cells, roles
from viewsmith.modalities.tables.roles import Rare, list_cells

if TYPE_CHECKING:
    from viewsmith.networks.scaling import PrincipalAxes

HASHES, OF_WORDS = 1024, 8192  # features of n-grams and of words
AXES, AXES_OF_WORDS = 16, 64
FITTED, FITTED_TO_WORDS = 20_000, 3000  # rows, at most, that axes are fitted to
DOCUMENT = 20  # words in the mean, from which on words tell more than n-grams
_WORD = re.compile(r"\w\w")


def ngram_counts(texts: list[str]) -> np.ndarray:
    """Counts of the 2- to 4-grams within words, hashed to `HASHES` features, each row of length 1 (or 0); float32."""
    from sklearn.feature_extraction.text import HashingVectorizer

    hashing = HashingVectorizer(
        analyzer="char_wb", ngram_range=(2, 4), n_features=HASHES, alternate_sign=False, dtype=np.float32
    )
    return hashing.transform(texts).toarray()


def word_counts(texts: list[str]) -> np.ndarray:
    """1 + log of the counts of words, hashed to `OF_WORDS` features, each row of length 1 (or 0); float32."""
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.preprocessing import normalize

    hashing = HashingVectorizer(n_features=OF_WORDS, alternate_sign=False, norm=None, dtype=np.float32)
    rows = hashing.transform(texts)
    rows.data = 1 + np.log(rows.data)
    return normalize(rows).toarray()


def are_documents(texts: list[str]) -> bool:
    """Whether texts have so many words that these tell more than n-grams; of up to 1,000. Single letters, of which
    `word_counts` has none, are no words."""
    some = texts[:: -(-len(texts) // 1000)]
    return sum(_WORD.search(part) is not None for text in some for part in text.split()) >= DOCUMENT * len(some)


def fit_axes(texts: list[str], words: bool = False) -> PrincipalAxes:
    """Principal axes of the n-grams of texts, at most `AXES`, or of their words, at most `AXES_OF_WORDS`."""
    import torch

    from viewsmith.networks.scaling import PrincipalAxes

    step = -(-len(texts) // (FITTED_TO_WORDS if words else FITTED))
    rows = torch.from_numpy((word_counts if words else ngram_counts)(texts[::step]))
    axes = PrincipalAxes(rows.shape[1], min(AXES_OF_WORDS if words else AXES, len(rows)))
    axes.fit(rows)
    return axes


def on_axes(texts: list[str], axes: PrincipalAxes) -> np.ndarray:
    """Coordinates of texts, float32 (n, k)."""
    import torch

    made, words = [], len(axes.mean) == OF_WORDS
    block, counts = (FITTED_TO_WORDS, word_counts) if words else (FITTED, ngram_counts)
    with torch.no_grad():
        for start in range(0, len(texts), block):
            made.append(axes(torch.from_numpy(counts(texts[start : start + block]))).numpy())
    return np.concatenate(made)


OTHER = "other"
DECIMALS = 6  # at most; numbers with more are read back with seven significant digits


@dataclass(frozen=True)
class Number:
    """Numbers, and where the training rows have gaps an indicator of them; a gap is filled with the median."""

    role: ClassVar[str] = "numeric"
    name: str
    median: float
    gaps: bool = False
    decimals: int | None = None  # of the training rows; None: more than `DECIMALS`
    lenient: bool = False  # cells that are no numbers are gaps: the user gave the role
    filled: bool = False  # without a word: the user asked for it
    form: tuple[str, ...] = ()  # of numbers in text (`cells.Form`); empty: plain numbers

    @classmethod
    def fit(cls, column: pd.Series, source_name: str, indicator: bool = True, rows: Any = slice(None)) -> Number:
        """Of a whole column, so that messages have its row numbers; `rows` are the training rows."""
        name, form = str(column.name), () if frames.is_numeric(column) else cells.form_of(column) or ()
        numbers, others = _numbers(column, form)
        if len(lost := column[others]):
            warn(
                f"{source_name}: column {one_line(name, 60)} has {pluralize(len(lost), 'cell')} that "
                f"{'is' if len(lost) == 1 else 'are'} not numbers, taken as missing: {list_cells(column, lost)}"
            )
        given = numbers[rows]
        values = given[~np.isnan(given)]
        if len(values) == 0:
            raise InputError(
                f"{source_name}: column {one_line(name, 60)} has no number; leave it out "
                f"(--columns {quoted(f'{name}=drop')})"
            )
        warn_lost_digits(values[:, None], [name], source_name)
        finite = values[np.isfinite(values)]
        exact = (d for d in range(DECIMALS + 1) if (np.round(finite, d) == finite).all())
        gaps = indicator and len(values) < len(given)
        return cls(name, float(np.median(values)), gaps, next(exact, None), bool(len(lost)), not indicator, form)

    @property
    def features(self) -> list[str]:
        return [self.name, f"{self.name} missing"] if self.gaps else [self.name]

    def encode(self, column: pd.Series, source_name: str) -> np.ndarray:
        numbers, others = _numbers(column, self.form)
        if len(lost := column[others]) and not self.lenient:
            raise InputError(
                f"{source_name}: column {one_line(self.name, 60)} has {pluralize(len(lost), 'cell')} that "
                f"{'is' if len(lost) == 1 else 'are'} not numbers: {list_cells(column, lost)}; the model was fitted on "
                f"numbers{f' with {self.form[2]}' if self.form and self.form[2] else ''} there"
            )
        missing = np.isnan(numbers)
        if missing.any() and not self.gaps and not self.filled:
            _warn_gaps(self.name, missing, "the median", source_name)
        values = np.where(missing, self.median, numbers)
        return np.column_stack([values, missing]) if self.gaps else values[:, None]

    def decode(self, block: np.ndarray, known: Any = None) -> np.ndarray:
        values = block[:, 0].astype(np.float64)
        if self.decimals is not None:
            values = np.round(values, self.decimals)
        else:
            values = np.array([float(f"{value:.7g}") for value in values])
        return np.where(block[:, 1] > 0.5, np.nan, values) if self.gaps else values


@dataclass(frozen=True)
class Category:
    """An indicator for each of the sorted `values`, one for `rare` and unseen values together, and one for gaps if
    there are some; `dtype` is what they were."""

    role: ClassVar[str] = "category"
    name: str
    values: tuple[str, ...]
    rare: tuple[str, ...] = ()
    gaps: bool = False
    dtype: Literal["text", "bool", "number"] = "text"

    @classmethod
    def fit(cls, column: pd.Series, source_name: str) -> Category:
        frames.categories(column, source_name)  # raises for values that cannot be compared
        given = _as_text(column)
        counts = given.dropna().value_counts()
        warn_nearly_equal(counts.index, f"{source_name}: column {one_line(column.name, 60)}")
        frequent = counts[counts >= Rare(len(column)).least]
        # Nothing is frequent where every value is rare: then the most frequent ones stay.
        values = frequent.index if len(frequent) else counts.index[:1]
        dtype: Literal["text", "bool", "number"] = "text"
        if pd.api.types.is_bool_dtype(column.dropna().infer_objects()):
            dtype = "bool"
        elif frames.is_numeric(column):
            dtype = "number"
        rare = sorted(set(counts.index) - set(values))
        return cls(str(column.name), tuple(sorted(values)), tuple(rare), bool(column.isna().any()), dtype)

    @property
    def features(self) -> list[str]:
        extra = [] if OTHER in self.values else [OTHER]
        return [f"{self.name}={value}" for value in [*self.values, *extra]] + [f"{self.name} missing"] * self.gaps

    def encode(self, column: pd.Series, source_name: str) -> np.ndarray:
        no_numbers = frames.to_numbers(pd.Series(self.values, dtype=object)).isna().all()
        if self.dtype == "text" and no_numbers and not pd.api.types.is_bool_dtype(column.dtype):
            _refuse_numbers(column, f"text such as {one_line(repr(self.values[0]), 40)}", source_name)
        position = {value: i for i, value in enumerate(self.values)}
        other = position.setdefault(OTHER, len(position))
        codes, found = pd.factorize(_as_text(column))
        missing = len(position) if self.gaps else other
        target = np.array([*(position.get(str(value), other) for value in found), missing])
        if not self.gaps:
            _warn_gaps(self.name, codes < 0, "the value other", source_name)
        block = np.zeros((len(column), len(self.features)), dtype=np.float32)
        block[np.arange(len(column)), target[codes]] = 1.0  # a gap has the code -1, the last entry
        return block

    def warn_unseen(self, column: pd.Series, source_name: str) -> None:
        """Warn of values that the training rows did not have."""
        found = set(_as_text(column).dropna())
        unseen, name = sorted(found - {*self.values, *self.rare}), one_line(self.name, 60)
        if not unseen:
            return
        message = (
            f"{source_name}: column {name} has {pluralize(len(unseen), 'value')} that the model does not know, taken "
            f"as other: {name_list(unseen)}"
        )
        if len(unseen) == len(found):
            known, given = (name_list([repr(value) for value in values], 3) for values in (self.values, unseen))
            message = (
                f"{source_name}: column {name} has none of the values that are known ({known}), but {given}: all are "
                "taken as other; check that it is the column that the model was fitted on, spelled in the same way"
            )
        warn(message)

    def decode(self, block: np.ndarray, known: Any = None) -> np.ndarray:
        names: list[Any] = [*self.values, *([] if OTHER in self.values else [OTHER]), *([None] if self.gaps else [])]
        if self.dtype == "bool":
            names = [{"True": True, "False": False}.get(str(name), name) for name in names]
        return np.array(names, dtype=object)[block.argmax(axis=1)]


@dataclass(frozen=True)
class Text:
    """Text of many values: coordinates of its hashed character n-grams, or words, on principal axes."""

    role: ClassVar[str] = "text"
    name: str
    components: int
    gaps: bool = False
    words: bool = False
    axes: PrincipalAxes = field(default=None, repr=False, compare=False)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.axes is None:
            from viewsmith.networks.scaling import PrincipalAxes

            object.__setattr__(self, "axes", PrincipalAxes(OF_WORDS if self.words else HASHES, self.components))

    @classmethod
    def fit(cls, column: pd.Series, source_name: str) -> Text:
        given = _as_text(column).dropna().tolist()
        if not given:
            raise InputError(f"{source_name}: column {one_line(column.name, 60)} has no text; leave it out (drop)")
        words = are_documents(given)
        axes = fit_axes(given, words)
        return cls(str(column.name), axes.axes.shape[1], len(given) < len(column), words, axes)

    @property
    def features(self) -> list[str]:
        return [f"{self.name} axis {i}" for i in range(self.components)] + [f"{self.name} missing"] * self.gaps

    def encode(self, column: pd.Series, source_name: str) -> np.ndarray:
        _refuse_numbers(column, "text", source_name)
        codes, found = pd.factorize(_as_text(column))
        if not self.gaps:
            _warn_gaps(self.name, codes < 0, "an average", source_name)
        places = np.zeros((len(found) + 1, self.components), dtype=np.float32)  # the last is that of gaps
        if len(found):
            places[:-1] = on_axes([str(value) for value in found], self.axes)
        block = places[codes]
        return np.column_stack([block, codes < 0]) if self.gaps else block

    def decode(self, block: np.ndarray, known: Any = None) -> np.ndarray:
        values = np.empty(len(block), dtype=object)
        if known is not None and len(known):
            import torch

            places = torch.from_numpy(on_axes([str(value) for value in known], self.axes))
            rows = torch.from_numpy(np.ascontiguousarray(block[:, : self.components], dtype=np.float32))
            near = [torch.cdist(part, places).argmin(dim=1) for part in rows.split(4096)]
            values[:] = np.array(known, dtype=object)[torch.cat(near).numpy()]
        if self.gaps:
            values[block[:, -1] > 0.5] = None
        return values


@dataclass(frozen=True)
class Date:
    """Year, month, weekday, hour and days since the first date, if they vary; `format` is "" for dates."""

    role: ClassVar[str] = "date"
    name: str
    format: str
    origin: str
    median: str
    parts: tuple[str, ...]
    gaps: bool = False

    @classmethod
    def fit(cls, column: pd.Series, source_name: str) -> Date:
        form = "" if roles.is_date_dtype(column) else roles.date_format(column.dropna())
        given = pd.Series(dtype="datetime64[us]") if form is None else roles.parse(column, form).dropna()
        if form is None or len(given) == 0:
            raise InputError(
                f"{source_name}: column {one_line(column.name, 60)} has no dates, or not all of one format; write them "
                "as year-month-day, or give another role (--columns)"
            )
        origin, median = given.min(), given.sort_values().iloc[(len(given) - 1) // 2]
        values = roles.date_parts(given, origin)
        varied = values.min(axis=0) < values.max(axis=0)
        parts = tuple(part for part, varies in zip(roles.PARTS, varied, strict=True) if varies or part == "elapsed")
        return cls(str(column.name), form, origin.isoformat(), median.isoformat(), parts, len(given) < len(column))

    @property
    def features(self) -> list[str]:
        return [f"{self.name} {part}" for part in self.parts] + [f"{self.name} missing"] * self.gaps

    def encode(self, column: pd.Series, source_name: str) -> np.ndarray:
        if self.format != roles.DIGITS:
            _refuse_numbers(column, "dates", source_name)
        parsed = roles.parse(column, self.format or "ISO8601")
        if len(lost := column[parsed.isna() & column.notna()]):
            raise InputError(
                f"{source_name}: column {one_line(self.name, 60)} has {pluralize(len(lost), 'cell')} that "
                f"{'is' if len(lost) == 1 else 'are'} not dates as in the training rows: {list_cells(column, lost)}; "
                f"expected dates such as {self._example()!r}"
            )
        missing = parsed.isna().to_numpy()
        if missing.any() and not self.gaps:
            _warn_gaps(self.name, missing, "the median", source_name)
        values = roles.date_parts(parsed.fillna(pd.Timestamp(self.median)), pd.Timestamp(self.origin))
        kept = values[:, [roles.PARTS.index(part) for part in self.parts]]
        return np.column_stack([kept, missing]) if self.gaps else kept

    def _example(self) -> str:
        """The median of the training rows, as they write dates."""
        form = "%Y-%m-%d" if self.format in ("", "ISO8601") else self.format
        return pd.Timestamp(self.median).strftime(form)

    def decode(self, block: np.ndarray, known: Any = None) -> np.ndarray:
        elapsed = block[:, self.parts.index("elapsed")].astype(np.float64)
        values = np.empty(len(block), dtype=object)
        if known is not None and len(known):
            series = pd.Series(known)
            parsed = roles.parse(series, self.format or "ISO8601")
            of_known = roles.days_since(parsed, pd.Timestamp(self.origin))
            order = np.argsort(of_known)
            right = np.searchsorted(of_known[order], elapsed).clip(1, max(1, len(order) - 1))
            left = right - 1
            right = right.clip(max=len(order) - 1)
            nearer = np.abs(of_known[order[right]] - elapsed) < np.abs(of_known[order[left]] - elapsed)
            values[:] = series.to_numpy(dtype=object)[order[np.where(nearer, right, left)]]
        else:
            moments = roles.moments(elapsed, pd.Timestamp(self.origin))
            values[:] = moments.dt.round("s").dt.strftime("%Y-%m-%d %H:%M:%S").to_numpy(dtype=object)
        if self.gaps:
            values[block[:, -1] > 0.5] = None
        return values


Column = Number | Category | Text | Date
KINDS: dict[str, Any] = {kind.role: kind for kind in (Number, Category, Text, Date)}


def _numbers(column: pd.Series, form: tuple[str, ...] = ()) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of a column as float64, gaps and other cells as NaN, and which cells are others, both (n,)."""
    if frames.is_numeric(column):
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return numbers, np.zeros(len(column), dtype=bool)
    if roles.is_date_dtype(column):
        return np.full(len(column), np.nan), column.notna().to_numpy()
    if form:
        return cells.numbers_of(column, cells.Form(*form))
    texts = column.astype(object).where(column.notna(), None).map(lambda value: None if value is None else str(value))
    numbers = frames.to_numbers(texts).to_numpy(np.float64)
    return numbers, np.isnan(numbers) & column.notna().to_numpy()


def _as_text(column: pd.Series) -> pd.Series:
    """A column as text with gaps as None; whole numbers without a decimal point."""
    codes, found = pd.factorize(column)
    names = np.array([*(frames.category_text(value) for value in found), None], dtype=object)
    return pd.Series(names[codes], index=column.index, name=column.name, dtype=object)


def _refuse_numbers(column: pd.Series, fitted_on: str, source_name: str) -> None:
    """Raise InputError for a column of numbers by its dtype, whatever rows are beside a row."""
    if column.dtype != object and frames.is_numeric(column) and column.notna().any():
        raise InputError(
            f"{source_name}: column {one_line(column.name, 60)} has numbers ({column.dtype}), and the model was fitted "
            f"on {fitted_on}"
        )


def _warn_gaps(name: str, missing: np.ndarray | Sequence[bool], instead: str, source_name: str) -> None:
    count = int(np.sum(missing))
    if count:
        warn(
            f"{source_name}: column {one_line(name, 60)} has {pluralize(count, 'missing value')}, and the training "
            f"rows had none: {instead} stands for {'it' if count == 1 else 'them'}"
        )
