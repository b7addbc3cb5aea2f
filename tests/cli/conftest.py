"""Small files of every kind, and runs on them."""

import numpy as np
import pandas as pd
import pytest
from cli_tools import good

from quick_reports import without_pictures


@pytest.fixture(scope="module", autouse=True)
def no_pictures():
    """Reports without pictures, which tests/reports tests."""
    with pytest.MonkeyPatch.context() as patch:
        without_pictures(patch)
        yield


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """Folder with 40 rows of four features and two classes in every format, and a table with all kinds of columns."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(40, 4)) * [1, 10, 100, 1000] + 5).astype(np.float32)
    y = np.arange(40) % 2
    np.save(folder / "x.npy", x)
    np.savez(folder / "x.npz", X=x)
    np.savez(folder / "xy.npz", X=x, y=y)
    np.savez(folder / "given.npz", X_train=x[:30], X_test=x[30:], y_train=y[:30], y_test=y[30:])
    table = pd.DataFrame(x, columns=list("abcd"))
    table["type"] = np.where(y, "beta", "alpha")
    table.to_csv(folder / "t.csv", index=False)
    table.to_csv(folder / "t.tsv", index=False, sep="\t")
    table.to_parquet(folder / "t.parquet")
    more = table.assign(site=rng.choice(["north", "south"], 40), note="text")
    more.to_csv(folder / "more.csv", index=False)
    gaps = table.copy()
    gaps.loc[[3, 7], "b"] = np.nan
    gaps.to_csv(folder / "gaps.csv", index=False)
    return folder


@pytest.fixture(scope="session")
def table(data):
    """The table in ``t.csv``."""
    return pd.read_csv(data / "t.csv")


@pytest.fixture(scope="session")
def runs(tmp_path_factory, data):
    """Folder with the runs ``table`` (of ``t.csv``), ``given`` (of ``given.npz``) and ``plain`` (of ``x.npy``)."""
    folder = tmp_path_factory.mktemp("runs")
    good("fit", data / "t.csv", "--label", "type", "--out", folder / "table", "--epochs", 2)
    good("fit", data / "given.npz", "--out", folder / "given", "--epochs", 2)
    good("fit", data / "x.npy", "--out", folder / "plain", "--epochs", 2)
    return folder
