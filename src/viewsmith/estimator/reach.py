"""How far scaled rows lie from zero and from each other: by it new rows that are off the scale of the fit are seen."""

import math
from typing import Any

import torch
from torch import Tensor

from viewsmith.core.errors import warn
from viewsmith.core.rows import RowSource
from viewsmith.core.samples import Rows, evenly_spaced

SEEN, SEEN_VALUES = 1000, 2**24  # rows that are looked at, and values, of which large rows have many

# Times the size of the training rows from which on, and times their spread up to which, new ones are off their scale.
# Test parts of 16 sets: 0.97 to 1.04 and 0.88 to 1.12; batches and subjects held out: at most 1.6 and at least 0.37;
# whole classes held out: at most 2.6 and at least 0.27.
FAR, NEAR = 6.0, 0.03

FEWEST = 10  # rows of which a spread says something


def reach(x: Tensor) -> dict[str, float]:
    """Median and largest root mean square of scaled rows (n, ...), and their spread: the root mean square of the
    standard deviations of their values. Values that are not known (NaN) are left out of the former, and 0 in the
    latter."""
    rows = x.flatten(1).double()
    size = rows.square().nanmean(1).sqrt()
    spread = rows.nan_to_num().var(0, correction=0).mean().sqrt()
    return {"size": float(size.median()), "largest": float(size.max()), "spread": float(spread)}


def reach_of(x: Rows) -> dict[str, float]:
    """`reach` of up to `SEEN` training rows; empty if they are not finite."""
    found = reach(x[evenly_spaced(len(x), _seen(x))])
    return {name: float(f"{value:.6g}") for name, value in found.items()} if _finite(found) else {}


def some_of(rows: Any) -> Any:
    """Up to `SEEN` rows, spread evenly unless the rows can only be read in order."""
    if isinstance(rows, RowSource) and not rows.by_index:
        return rows[: _seen(rows)]
    return rows[evenly_spaced(len(rows), _seen(rows)).numpy()]


def _seen(rows: Any) -> int:
    """How many rows are looked at: fewer large ones, which are scaled in memory together."""
    return max(FEWEST, min(SEEN, SEEN_VALUES // max(1, math.prod(rows[:1].shape[1:]))))


def warn_off_scale(x: Tensor, fitted: dict[str, float]) -> None:
    """Warn of new scaled rows (n, ...) that are much larger than those of the fit, or differ much less."""
    if not fitted or not len(x):
        return
    found = reach(x)
    advice = "are units and preprocessing the same?"
    if not found["size"] <= max(FAR * fitted["size"], fitted["largest"]):
        times = float(f"{found['size'] / max(fitted['size'], 1e-30):.0e}")
        warn(f"the rows are off the scale of the fit, {times:,.0f} times as large as its rows after scaling: {advice}")
    elif len(x) >= FEWEST and 0 < found["spread"] < NEAR * fitted["spread"]:
        times = found["spread"] / fitted["spread"]
        warn(f"the rows are off the scale of the fit, their spread is {times:.1g} of that of its rows: {advice}")


def _finite(found: dict[str, float]) -> bool:
    return all(torch.isfinite(torch.tensor(value)) for value in found.values())
