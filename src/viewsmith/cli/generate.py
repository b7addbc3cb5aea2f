"""The command generate."""

from pathlib import Path
from typing import Annotated, Any

import typer

from viewsmith.cli import early
from viewsmith.cli.errors import echo, writing
from viewsmith.cli.options import Data, data_options, flag_of, with_flags
from viewsmith.core.options import texts_of
from viewsmith.data.generator_options import GeneratorOptions, parse_shard
from viewsmith.data.places import check_view_cache


@with_flags(
    *("label", "labels", "image_size", "modality", "stream", "cache", "threads", "debug"),
    **{option: flag_of(GeneratorOptions, option) for option in texts_of(GeneratorOptions)},
)
def generate(
    data: Data,
    read: dict[str, Any],
    given: dict[str, Any],
    out: Annotated[Path, typer.Option(metavar="CACHE", help="Folder for the view cache; a stopped job is resumed.")],
    transductive: Annotated[bool, typer.Option("--transductive", help="Generate views of all rows.")] = False,
    merge: Annotated[
        list[Path] | None,
        typer.Option(metavar="CACHE", help="A folder that a shard of the job wrote: its blocks are taken; repeatable."),
    ] = None,
) -> None:
    """Generate views of DATA for `fit --method genview`; a stopped job is resumed; several jobs can fill a folder."""
    for part in merge or ():
        check_view_cache(part)
    early.check_paths(data=data, read=read, run=given.get("run"))
    if "shard" in given:
        given["shard"] = parse_shard(given["shard"])
    options = GeneratorOptions(**given)
    options.check()  # before the data are read
    if merge:
        from viewsmith.workflows.generate import merge_caches

        with writing(out):
            missing = merge_caches(merge, out).missing()
        if not missing:
            echo(str(out))
            return
    from viewsmith.data.sources import read_dataset

    if options.run is not None:  # as the run has read them
        from viewsmith.workflows.runs import OF_CELLS, load_run

        fitted = load_run(options.run)
        read |= {name: getattr(fitted, name) for name in (*OF_CELLS, "normalization")}
    dataset = read_dataset(data, data_options(read, run=out))
    from viewsmith.workflows.generate import fill_cache

    with writing(out):
        made = fill_cache(dataset, out, options, transductive=transductive, progress=True)
    if missing := made.missing():
        echo(f"{len(missing)} of {len(made.numbers())} blocks are for other shards", err=True)
    echo(str(out))
