"""Dates as features: year, month, weekday, hour, and the time that has passed since the first date."""

from __future__ import annotations

import numpy as np
import pandas as pd

from viewsmith.core.messages import one_line, warn

PARTS = ("year", "month", "weekday", "hour", "elapsed")
NANOSECONDS = 86_400e9  # in a day
SAMPLE = 1000  # cells by which the format of most is found
# Text is tried as these in turn; the second and the third can both fit.
FORMATS = (
    "ISO8601",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%m/%d/%Y %H:%M",
    "%d/%m/%Y %H:%M",
    "%d.%m.%Y",
    "%d.%m.%Y %H:%M",
    "%d-%b-%Y",
)
_LOOKS_LIKE_DATE = r"\s*\d{1,4}[-/.](?:\d{1,2}|[A-Za-z]{3})[-/.]\d{1,4}(?:[T ,].*)?"


def is_date_dtype(column: pd.Series) -> bool:
    """Whether a column has dates, with or without a time zone."""
    return pd.api.types.is_datetime64_any_dtype(column.dtype)


def date_format(values: pd.Series) -> str | None:
    """The format in which all values, text without gaps, are dates; None if there is none.

    Text that fits month/day and day/month alike is read as month/day, with a warning.
    """
    text = values.astype(str)
    if len(text) == 0 or not text.head(20).str.fullmatch(_LOOKS_LIKE_DATE).all():
        return None
    fitting = [each for each in FORMATS if not parse(text, each).isna().any()]
    if len(fitting) > 1 and fitting[0] != "ISO8601" and (parse(text, fitting[0]) != parse(text, fitting[1])).any():
        warn(
            f"column {one_line(values.name, 60)} has dates like {text.iloc[0]!r}, read as month/day: write "
            "year-month-day if it is day/month"
        )
    return fitting[0] if fitting else None


def are_dates(text: pd.Series) -> pd.Series:
    """Which cells, text without gaps, are dates of the format that most of them have: bool (n,)."""
    alike = text.str.fullmatch(_LOOKS_LIKE_DATE)
    if not alike.any():
        return alike
    dates = text[alike]
    some = dates.iloc[:: -(-len(dates) // SAMPLE)]  # every format is tried, which takes long for all
    form = max(FORMATS, key=lambda each: parse(some, each).notna().sum())
    return parse(dates, form).notna().reindex(text.index, fill_value=False)


def parse(column: pd.Series, form: str) -> pd.Series:
    """Dates of a column of dates, or of text in a format, in UTC without time zone; NaT where there is none."""
    if is_date_dtype(column):
        dates = column
    else:
        dates = pd.to_datetime(column.astype("string"), format=form, errors="coerce", utc=True)
    if getattr(dates.dtype, "tz", None) is not None:
        dates = dates.dt.tz_convert("UTC").dt.tz_localize(None)
    return dates.astype("datetime64[ns]")


def date_parts(dates: pd.Series, origin: pd.Timestamp) -> np.ndarray:
    """`PARTS` of dates without gaps, float64 (n, 5); the time that has passed is in days."""
    of = dates.dt
    return np.column_stack([of.year, of.month, of.weekday, of.hour, days_since(dates, origin)]).astype(np.float64)


def days_since(dates: pd.Series, origin: pd.Timestamp) -> np.ndarray:
    """Days from a moment to dates, float64; in floating point, because a timedelta holds 292 years only."""
    days = dates.to_numpy("datetime64[ns]").astype(np.int64) / NANOSECONDS - origin.as_unit("ns").value / NANOSECONDS
    return np.where(dates.isna(), np.nan, days)


def moments(days: np.ndarray, origin: pd.Timestamp) -> pd.Series:
    """Undo `days_since`; days beyond the dates that pandas has become the first or the last one."""
    found = days * NANOSECONDS + float(origin.as_unit("ns").value)
    limits = float(pd.Timestamp.min.value + 10**12), float(pd.Timestamp.max.value - 10**12)
    return pd.Series(pd.to_datetime(np.clip(found, *limits).astype(np.int64)))
