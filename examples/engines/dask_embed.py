"""Represent the rows of many parquet files with Dask: python dask_embed.py RUN OUT FILE..."""

import sys

import dask.dataframe

from viewsmith.workflows.over_files import OverFiles


def main(run: str, out: str, files: list[str], task: str = "embed", **options) -> list[dict]:
    """Write OUT/NAME.parquet for each file that has no result yet; return the files, rows and seconds."""
    work = OverFiles(task, out, run=run, **options)
    pending = work.pending(files)
    if pending.empty:
        return []
    table = dask.dataframe.from_pandas(pending, npartitions=len(pending))
    meta = {"file": str, "result": str, "rows": int, "seconds": float}
    return table.map_partitions(work, meta=meta).compute(scheduler="processes").to_dict("records")


if __name__ == "__main__":
    print(*main(*sys.argv[1:3], sys.argv[3:]), sep="\n")
