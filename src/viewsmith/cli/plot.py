"""The command plot."""

from pathlib import Path
from typing import Annotated, Any

import typer

from viewsmith.cli import early, options
from viewsmith.cli.errors import echo, writing
from viewsmith.core.errors import InputError
from viewsmith.data.places import check_picture_path


@options.with_flags("labels", "threads", "debug")
def plot(
    run: options.Run,
    data: options.Data,
    read: dict[str, Any],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A .png, .svg or .pdf file; default: RUN/map.png.")
    ] = None,
    color: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Any column of a table or of obs; default: the labels.")
    ] = None,
    by: Annotated[str, typer.Option(help="tsne, umap (extra viz), pca or, for diffaug, map")] = "tsne",
) -> None:
    """Draw a map of the representations of DATA, colored by a column."""
    early.check_paths(run=run, data=data, read=read, file=(out := out or run / "map.png"))
    early.check_values(by=by)
    check_picture_path(out)
    options.check_out(out, data)
    values = None
    if color is not None:
        from viewsmith.data.of_run import column_of

        values = column_of(data, color)
    model, dataset = early.model_and_data(run, data, read, early.data_of_run(run, data, read))
    if values is not None and len(values) != len(dataset.x):
        raise InputError(f"the column {color!r} of {data} cannot be matched with the {len(dataset.x)} rows of the map")
    values = dataset.y if color is None else values
    title = dataset.label_name or "" if color is None else color
    with writing(out):
        model.plot(dataset.x, values, by=by, title=title).save(out)
    echo(str(out))
