"""The commands that make views, and compare them: views, generate, views-table."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from viewsmith.cli import early, options
from viewsmith.cli.errors import echo, writing
from viewsmith.cli.options import OF_RECORDINGS, Data, Json, Seed, check_out, data_options, flag_of, names, with_flags
from viewsmith.core.errors import InputError, check
from viewsmith.core.registry import texts_of
from viewsmith.data.options import GeneratorOptions, parse_shard
from viewsmith.data.places import VIEW_CACHE, check_view_cache, check_views_path


@options.with_flags("label", "labels", "image_size", "stream", "cache", "threads", "debug")
def views(
    context: typer.Context,
    run: Annotated[Path, Argument(metavar="RUN", help="Folder of `viewsmith fit`, or of `viewsmith generate`.")],
    data: options.Data,
    read: dict[str, Any],
    out: Annotated[Path, Option(metavar="FILE", help="A .npz file; for a table also .csv, .tsv or .parquet.")],
    n: Annotated[
        int | None, Option("--n", min=1, help="Views of each row; default: 4, or all of a view cache.")
    ] = None,
    split: Annotated[str, Option(help="train or test")] = "train",
    seed: Annotated[int | None, Option(min=0, help="Default: the run's.")] = None,
) -> None:
    """Write augmented views of DATA, in the units of DATA; views of a table as a table: --out views.csv.

    PiNDA adds sigma and a draw of the noise for each sample. MetAug writes augmented features, and as `features` the
    projections they were made from. GenView and view caches add samples, and noise level and quality of each view.
    """
    check_views_path(out)
    early.check_paths(data=data, read=read)
    early.check_values(split=split)
    options.check_out(out, data, read)
    shared = ("run", "data", "out", "n", "label", "labels", "threads", "debug")
    if (run / VIEW_CACHE).exists():
        options.check_only(context, "for a view cache", (*shared, "image_size"))
        if out.suffix.lower() != ".npz":
            raise InputError(
                f"--out is {str(out)!r}, and views of a view cache are written to a file that ends in .npz"
            )
        from viewsmith.data.view_cache import ViewCacheFolder
        from viewsmith.workflows.generate import views_of_cache

        arrays = views_of_cache(ViewCacheFolder(run), data, n, **read)
    else:
        options.check_only(context, "for a run", (*shared, "split", "seed", "stream", "cache"))
        model, dataset = early.model_and_data(run, data, read)
        from viewsmith.workflows.generate import views_of_model

        arrays = views_of_model(model, dataset, n, split=split, seed=seed)
    from viewsmith.core.files import target_of
    from viewsmith.data.write import write_npz, write_views_table

    with writing(out):
        if out.suffix.lower() != ".npz":
            write_views_table(out, arrays, dataset.x, dataset.feature_names)
        else:
            write_npz(target_of(out), arrays, compressed=True)
    echo(str(out))


@with_flags(
    *("label", "labels", "image_size", "modality", "stream", "cache", "threads", "debug"),
    **{option: flag_of(GeneratorOptions, option) for option in texts_of(GeneratorOptions)},
)
def generate(
    data: Data,
    read: dict[str, Any],
    given: dict[str, Any],
    out: Annotated[Path, Option(metavar="CACHE", help="Folder for the view cache; a stopped job is resumed.")],
    transductive: Annotated[bool, Option("--transductive", help="Generate views of all rows.")] = False,
    merge: Annotated[
        list[Path] | None,
        Option(metavar="CACHE", help="A folder that a shard of the job wrote: its blocks are taken; repeatable."),
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
    from viewsmith.workflows.generate import generate_cache

    with writing(out):
        made = generate_cache(dataset, out, transductive=transductive, progress=True, **given)
    if missing := made.missing():
        echo(f"{len(missing)} of {len(made.numbers())} blocks are for other shards", err=True)
    echo(str(out))


@with_flags(
    *("label", "labels", "target", "groups", "image_size", "modality", "columns", "impute"),
    *(*OF_RECORDINGS, "threads", "debug"),
)
def views_table(
    data: Data,
    read: dict[str, Any],
    views: Annotated[
        str | None, Option(metavar="NAME,NAME", help="View makers to judge; default: those of the data, graded.")
    ] = None,
    base: Annotated[
        str | None,
        Option(
            metavar="NAME+NAME", help="The set that views are left out of and added to; default: of linear-contrast."
        ),
    ] = None,
    uses: Annotated[
        str, Option(metavar="USE,USE", help="Rows of the table: alone, left out, added.")
    ] = "alone,left out,added",
    samples: Annotated[
        int | None, Option(min=20, help="Samples with views; default: at most 1000, by --seconds.")
    ] = None,
    seconds: Annotated[float, Option(help="CPU seconds of a row, about.")] = 20.0,
    out: Annotated[Path | None, Option(metavar="FILE", help="Also write a .csv or .json file.")] = None,
    json_: Json = False,
    seed: Seed = 0,
) -> None:
    """Judge the views of DATA in seconds, in fixed features: alone, left out of the default set, added to it.

    Distance of views to other samples (ratio) and to their own (moved), correlation of two views, columns and nats that
    they share on held-out samples. With labels: accuracy of linear-contrast with these views on a held-out third
    of the train rows, with --groups on whole groups, and the gain over the features without views. Only train rows are
    read. Without labels the table tells only that mirrors and turns with a ratio of 1.25 or more harm.
    """
    written = out is None or out.suffix.lower() in (".csv", ".json")
    check(written, "--out", repr(str(out)), "a file name that ends in .csv or .json")
    asked = None if views is None else names(views)
    check(asked != [], "--views", repr(views), "names separated by commas, such as crop,light")
    early.check_names("view maker", base.split("+") if base else [])
    early.check_paths(data=data, read=read, file=out)
    if out is not None:
        check_out(out, data, read)
    from viewsmith.core.files import write_json_atomic, write_text_atomic
    from viewsmith.data.sources import read_dataset

    dataset = read_dataset(data, data_options(read))
    from viewsmith.workflows.runs import data_record
    from viewsmith.workflows.views_table import ViewRow, ViewsTable
    from viewsmith.workflows.views_table import views_table as judged

    said = set[tuple[str, str]]()

    def each(table: ViewsTable, row: ViewRow) -> None:
        if len(table) == 1:
            echo(_line(table.header()))
        if not row.note or (row.view, row.note) not in said:  # one reason is that of all strengths of a view
            echo(_line(table.cells_of(row)))
        said.add((row.view, row.note))

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
        groups=None if dataset.groups is None else dataset.groups[dataset.train_index],
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
