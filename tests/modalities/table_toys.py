"""A table with columns of every role, and its encoder."""

import numpy as np
import pandas as pd

from viewsmith.modalities.tables.encoder import TableEncoder, fit_table
from viewsmith.modalities.tables.roles import choose_roles

N = 60
ROWS = np.arange(N)


def people() -> pd.DataFrame:
    """A table with every role."""
    rng = np.random.default_rng(0)
    streets = [f"{name} street" for name in ("oak", "elm", "ash", "fir", "yew")]
    return pd.DataFrame(
        {
            "id": ROWS + 100,
            "age": np.where(ROWS % 7 == 0, np.nan, ROWS % 30 + 0.5),
            "town": np.where(ROWS % 10 == 0, None, np.array(["Oslo", "Rome", "Bari"])[ROWS % 3]),
            "member": ROWS % 2 == 0,
            "address": [f"{i} {streets[i % 5]}" for i in (ROWS % 45)],
            "joined": pd.Timestamp("2020-01-30") + pd.to_timedelta(ROWS * 37 + (ROWS % 3) / 24, unit="D"),
            "source": "web",
            "height": rng.normal(170, 10, N).round(1),
        }
    )


ROLES = {
    "id": "identifier",
    "age": "numeric",
    "town": "category",
    "member": "category",
    "address": "text",
    "joined": "date",
    "source": "constant",
    "height": "numeric",
}


def encoder(frame: pd.DataFrame, **roles: str) -> TableEncoder:
    return fit_table(frame, choose_roles(frame, roles))
