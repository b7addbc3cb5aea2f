"""Fit linear-contrast to the rows of many parquet files with Ray Data: python ray_fit.py RUN OUT FILE..."""

import sys

import ray

from viewsmith import LinearContrast
from viewsmith.workflows.over_files import FitOverFiles


def main(run: str, out: str, files: list[str], **options) -> LinearContrast:
    """Sum the moments of the files that are in no part of OUT yet; return the model of all of them."""
    work = FitOverFiles(run, out, **options)
    pending = work.pending(files)
    if len(pending):
        ray.data.from_pandas(pending).repartition(len(pending)).map_batches(work, batch_format="pandas").materialize()
    return work.finish()


if __name__ == "__main__":
    main(*sys.argv[1:3], sys.argv[3:]).save(sys.argv[2] + "/model")
