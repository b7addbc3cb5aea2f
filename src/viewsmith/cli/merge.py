"""The command merge."""

from pathlib import Path
from typing import Annotated

import typer

from viewsmith.cli.errors import echo, writing
from viewsmith.cli.options import with_flags
from viewsmith.data.places import check_view_cache


@with_flags("debug")
def merge(
    parts: Annotated[list[Path], typer.Argument(metavar="CACHE...", help="Folders that the shards of one job wrote.")],
    out: Annotated[Path, typer.Option(metavar="CACHE", help="A new folder, or one of these.")],
) -> None:
    """Merge the view caches of several shards (`generate --shard`), each of them in a separate folder."""
    for part in parts:
        check_view_cache(part)
    from viewsmith.workflows.generate import merge_caches

    with writing(out):
        cache = merge_caches(parts, out)
    if missing := cache.missing():
        echo(f"{len(missing)} of {len(cache.numbers())} blocks are missing", err=True)
    echo(str(out))
