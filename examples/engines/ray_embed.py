"""Represent the rows of many parquet files with Ray Data: python ray_embed.py RUN OUT FILE..."""

import sys

import ray

from viewsmith.workflows.over_files import OverFiles


def main(run: str, out: str, files: list[str], task: str = "embed", **options) -> list[dict]:
    """Write OUT/NAME.parquet for each file that has no result yet; return the files, rows and seconds."""
    work = OverFiles(task, out, run=run, **options)
    pending = work.pending(files)
    if pending.empty:
        return []
    done = ray.data.from_pandas(pending).repartition(len(pending)).map_batches(work, batch_format="pandas")
    return done.take_all()


if __name__ == "__main__":
    print(*main(*sys.argv[1:3], sys.argv[3:]), sep="\n")
