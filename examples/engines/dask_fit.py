"""Fit linear-contrast to the rows of many parquet files with Dask: python dask_fit.py RUN OUT FILE..."""

import sys

import dask.dataframe

from viewsmith import LinearContrast
from viewsmith.workflows.over_files import FitOverFiles


def main(run: str, out: str, files: list[str], **options) -> LinearContrast:
    """Sum the moments of the files that are in no part of OUT yet; return the model of all of them."""
    work = FitOverFiles(run, out, **options)
    pending = work.pending(files)
    if len(pending):
        table = dask.dataframe.from_pandas(pending, npartitions=len(pending))
        meta = {"file": str, "result": str, "rows": int, "seconds": float}
        table.map_partitions(work, meta=meta).compute(scheduler="processes")
    return work.finish()


if __name__ == "__main__":
    main(*sys.argv[1:3], sys.argv[3:]).save(sys.argv[2] + "/model")
