"""Text columns of which most cells are numbers or dates, but too few for one of these roles."""

from __future__ import annotations

import pandas as pd

from viewsmith.core.messages import one_line, warn
from viewsmith.domains.tables.dates import are_dates
from viewsmith.domains.tables.decorated import outcome

MOST = 0.5  # of the cells, from which on the others are probably codes: n.d., <0.01, ?
DISTINCT = 10  # numbers, up to which they may be codes themselves


def warn_mostly(column: pd.Series, role: str, what: str) -> None:
    """Warn of a text column of which at least half of the cells, but not all, are numbers or dates of one format.

    Parameters
    ----------
    column : Series
        Of text.
    role : str
        The inferred role, category, text or identifier.
    what : str
        Name of the table in messages.
    """
    cells = column.dropna().astype(str)
    numbers = pd.to_numeric(cells, errors="coerce")
    # Codes with leading zeros stay text, so that numbers beside them are codes, too.
    if numbers.nunique() > DISTINCT and not cells.str.fullmatch(r"0\d+").any():
        kind, others, remedy = "numbers", cells[numbers.isna()], "--columns {0}=numeric takes the others as missing"
    else:
        others = cells[~are_dates(cells)]
        kind, remedy = "dates", "leave the other cells empty, or write all dates in one format"
    if len(others) == 0 or len(cells) - len(others) < MOST * len(cells):
        return
    name, (taken, given) = one_line(column.name, 60), outcome(role)
    share = f"{100 * (1 - len(others) / len(cells)):.0f} %"
    warn(
        f"{what}: column {name} has {kind} in {share} of its cells, and is {taken} because of the others, such as "
        f"{one_line(repr(others.iloc[0]), 30)}: {remedy.format(name)}; --columns {name}={given} says that it is meant"
    )
