"""Fit linear-contrast to the rows of many parquet files with Spark: python spark_fit.py RUN OUT FILE..."""

import os
import sys

from pyspark.sql import SparkSession

from viewsmith import LinearContrast
from viewsmith.workflows.over_files import FitOverFiles


def main(run: str, out: str, files: list[str], **options) -> LinearContrast:
    """Sum the moments of the files that are in no part of OUT yet; return the model of all of them."""
    work = FitOverFiles(run, out, **options)
    pending = [(file,) for file in work.pending(files)["file"]]
    if pending:
        table = SparkSession.builder.getOrCreate().createDataFrame(pending, "file string").repartition(len(pending))
        result = "file string, result string, rows long, seconds double"
        table.mapInPandas(lambda frames: map(work, frames), result).collect()
    return work.finish()


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # of the workers
    main(*sys.argv[1:3], sys.argv[3:]).save(sys.argv[2] + "/model")
