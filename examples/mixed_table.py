"""A table of mixed columns: fit, neighbors as rows that a person can read, and new rows.

python mixed_table.py
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from viewsmith import Contrastive


def customers(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    """Three groups of customers with numbers, categories, dates and gaps."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, rows)
    table = pd.DataFrame(
        {
            "customer": [f"C{i:05d}" for i in range(rows)],
            "age": (np.array([25, 45, 70])[group] + rng.normal(0, 6, rows)).round(),
            "plan": np.array(["basic", "family", "senior"])[np.where(rng.random(rows) < 0.8, group, 0)],
            "active": rng.random(rows) < np.array([0.9, 0.7, 0.4])[group],
            "joined": pd.Timestamp("2021-01-01") + pd.to_timedelta(300 * group + rng.integers(0, 200, rows), unit="D"),
        }
    )
    table.loc[rng.random(rows) < 0.1, "age"] = None
    return table


def main(epochs: int = 40) -> pd.DataFrame:
    """Fit, and return two views of each of three rows."""
    table = customers()
    model = Contrastive(epochs=epochs, random_state=0).fit(table)
    print(model.table_.describe())

    # Views are rows of the table: here two of the nearest other rows of each row.
    print(table[:3])
    views = model.views(table, n_views=2)[:6]
    print(views)

    # New rows: columns by name, in any order; unseen categories are "other".
    new = customers(5, seed=1)[["plan", "joined", "active", "age"]]
    print(model.transform(new).shape)
    return views


if __name__ == "__main__":
    main()
