"""The command discover: what recurs in images, and where."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from viewsmith.cli.errors import writing
from viewsmith.cli.options import Debug, Threads, names, set_threads
from viewsmith.core.errors import InputError


def discover(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A folder of images of any sizes, or a file.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="A new folder for parts, crops and the report.")],
    kinds: Annotated[int, typer.Option(min=1, help="Number of kinds of parts.")] = 1,
    max_parts: Annotated[int, typer.Option(min=1, help="Largest number of parts of a kind in an image.")] = 1,
    max_q: Annotated[float, typer.Option(help="Largest q-value of a part, above 0 and at most 1.")] = 0.1,
    image_size: Annotated[int, typer.Option(min=32, help="Longer side to which images are reduced, in pixels.")] = 128,
    windows: Annotated[
        str | None, typer.Option(metavar="K,K", help="Sides of windows in cells of 4 pixels (default: 4,5,7,9).")
    ] = None,
    crop_size: Annotated[int, typer.Option(min=4, help="Side of the crops, in pixels.")] = 64,
    seed: Annotated[int, typer.Option(min=0, help="Seed of patches and folds.")] = 0,
    threads: Threads = None,
    debug: Debug = False,
) -> None:
    """Find the parts that recur in images, and where they are, without labels: boxes, crops and a report.

    DIR gets parts.csv and coco.json (boxes in the pixels of the original files), crops/ (a folder of images for the
    other commands), report.html, and the model. If nothing recurs, this is said and no part is listed.
    """
    options: dict[str, Any] = {
        "kinds": kinds,
        "max_parts": max_parts,
        "max_q": max_q,
        "image_size": image_size,
        "random_state": seed,
    }
    if windows is not None:
        sides = names(windows)
        if not all(side.isdecimal() for side in sides):
            raise InputError(f"--windows is {windows!r}, expected whole numbers separated by commas, such as 4,7")
        options["windows"] = [int(side) for side in sides]
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"--out is {str(out)!r}, which exists and is not empty: choose a new folder")
    from viewsmith.workflows.discover import discover_to

    set_threads(threads)
    with writing(out):
        model = discover_to(out, data, options, crop_size)
    typer.echo(model.describe())
    typer.echo(str(out / "report.html"))
