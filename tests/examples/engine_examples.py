"""The examples of work over files by Ray Data, Spark and Dask, where their libraries are installed."""

import runpy
from pathlib import Path

import pytest

ENGINES = {"ray": "ray", "spark": "pyspark", "dask": "dask.dataframe"}
EXAMPLES = Path(__file__).parents[2] / "examples" / "engines"
#: A plain loop, and the libraries, whose start takes seconds.
NAMES = ["plain", *(pytest.param(each, marks=pytest.mark.slow) for each in ENGINES)]


def engine(name, task, plain):
    """The main function of the example of a library for a task, or `plain`, which does the same in a loop."""
    if name == "plain":
        return plain
    module = pytest.importorskip(ENGINES[name])
    if name == "ray" and not module.is_initialized():
        module.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    return runpy.run_path(str(EXAMPLES / f"{name}_{task}.py"))["main"]
