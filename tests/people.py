"""A table of people with columns of several roles, for tests that read, encode or train on tables."""

import numpy as np
import pandas as pd

N = 60
ROWS = np.arange(N)


def people(*columns: str) -> pd.DataFrame:
    """The table, or some of its columns; every seventh age is missing."""
    rng = np.random.default_rng(0)
    since = pd.Timestamp("2021-03-01") + pd.to_timedelta(ROWS * 9, unit="D")
    table = pd.DataFrame(
        {
            "id": ROWS,
            "age": np.where(ROWS % 7 == 0, np.nan, rng.normal(40, 10, N).round()),
            "town": np.array(["Oslo", "Rome", "Bari"])[rng.integers(0, 3, N)],
            "zip": [f"0{i}" for i in ROWS % 4 + 150],
            "street": [f"{i} {('elm', 'oak')[i % 2]}" for i in ROWS % 45],
            "since": since,
            "joined": since.strftime("%Y-%m-%d"),
            "kind": np.array(["x", "y"])[(ROWS // 3) % 2],
        }
    )
    return table[list(columns)] if columns else table
