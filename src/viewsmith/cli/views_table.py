"""The command views-table: what each view of a kind of data does, in seconds."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from viewsmith.cli import early
from viewsmith.cli.errors import echo, writing
from viewsmith.cli.options import OF_RECORDINGS, Data, Json, Seed, check_out, data_options, names, with_flags
from viewsmith.core.errors import InputError


@with_flags(
    "label", "labels", "target", "image_size", "modality", "columns", "impute", *OF_RECORDINGS, "threads", "debug"
)
def views_table(
    data: Data,
    read: dict[str, Any],
    views: Annotated[
        str | None, typer.Option(metavar="NAME,NAME", help="View makers to judge; default: those of the data, graded.")
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            metavar="NAME+NAME", help="The set that views are left out of and added to; default: of linear-contrast."
        ),
    ] = None,
    uses: Annotated[
        str, typer.Option(metavar="USE,USE", help="Rows of the table: alone, left out, added.")
    ] = "alone,left out,added",
    samples: Annotated[
        int | None, typer.Option(min=20, help="Samples with views; default: at most 1000, by --seconds.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="CPU seconds of a row, about.")] = 20.0,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write a .csv or .json file.")] = None,
    json_: Json = False,
    seed: Seed = 0,
) -> None:
    """Judge the views of DATA in seconds, in fixed features: alone, left out of the default set, added to it.

    Distance of views to other samples (ratio) and to their own (moved), correlation of two views, columns and nats that
    they share on held-out samples. With labels: accuracy of linear-contrast with these views on a held-out third
    of the train rows, and the gain over the features without views. Only train rows are read. Without labels
    the table tells only that mirrors and turns with a ratio of 1.25 or more harm.
    """
    if out is not None and out.suffix.lower() not in (".csv", ".json"):
        raise InputError(f"--out is {str(out)!r}, expected a file name that ends in .csv or .json")
    asked = None if views is None else names(views)
    if asked == []:
        raise InputError(f"--views is {views!r}, expected names separated by commas, such as crop,light")
    early.check_names("view maker", base.split("+") if base else [])
    early.check_paths(data=data, read=read, file=out)
    if out is not None:
        check_out(out, data)
    from viewsmith.core.files import write_json_atomic, write_text_atomic
    from viewsmith.data.sources import read_dataset

    dataset = read_dataset(data, data_options(read))
    from viewsmith.workflows.runs import data_record
    from viewsmith.workflows.views_table import ViewRow, ViewsTable
    from viewsmith.workflows.views_table import views_table as judged

    def each(table: ViewsTable, row: ViewRow) -> None:
        if len(table) == 1:
            echo(_line(table.header()))
        echo(_line(table.cells_of(row)))

    shown = judged(
        dataset.x_train,
        dataset.y_train,
        modality=dataset.modality,
        views=asked,
        base=base,
        uses=names(uses),
        samples=samples,
        seconds=seconds,
        target=None if dataset.y is None else dataset.target,
        seed=seed,
        context=data_record(dataset),
        **({} if json_ else {"each": each}),
    )
    content = {"samples": shown.samples, "scored": shown.scored, "rows": [row.as_dict() for row in shown]}
    if out is not None:
        with writing(out):
            if out.suffix.lower() == ".json":
                write_json_atomic(out, content)
            else:
                write_text_atomic(out, shown.frame().to_csv(index=False))
    echo(json.dumps(content, indent=2) if json_ else f"\n{shown.about()}")


def _line(cells: tuple[str, ...]) -> str:
    """A line of the table; a row without numbers has a note."""
    name, *others = cells
    return f"{name:<44}" + (f"  {others[0]}" if len(others) == 1 else "".join(f"  {cell:>14}" for cell in others))
