"""Represent the rows of many parquet files with Spark: python spark_embed.py RUN OUT FILE..."""

import os
import sys

from pyspark.sql import SparkSession

from viewsmith.workflows.over_files import OverFiles


def main(run: str, out: str, files: list[str], task: str = "embed", **options) -> list[dict]:
    """Write OUT/NAME.parquet for each file that has no result yet; return the files, rows and seconds."""
    work = OverFiles(task, out, run=run, **options)
    pending = [(file,) for file in work.pending(files)["file"]]
    spark = SparkSession.builder.getOrCreate()
    table = spark.createDataFrame(pending, "file string").repartition(max(1, len(pending)))
    done = table.mapInPandas(lambda frames: map(work, frames), "file string, result string, rows long, seconds double")
    return [row.asDict() for row in done.collect()]


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # of the workers
    print(*main(*sys.argv[1:3], sys.argv[3:]), sep="\n")
