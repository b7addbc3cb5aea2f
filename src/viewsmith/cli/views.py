"""The command views."""

from pathlib import Path
from typing import Annotated, Any

import typer

from viewsmith.cli import early, options
from viewsmith.cli.errors import echo, writing
from viewsmith.core.errors import InputError
from viewsmith.data.places import VIEW_CACHE, check_views_path


@options.with_flags("label", "labels", "image_size", "stream", "cache", "threads", "debug")
def views(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of `viewsmith fit`, or of `viewsmith generate`.")],
    data: options.Data,
    read: dict[str, Any],
    out: Annotated[Path, typer.Option(metavar="FILE", help="A .npz file; for a table also .csv, .tsv or .parquet.")],
    n: Annotated[
        int | None, typer.Option("--n", min=1, help="Views of each row; default: 4, or all of a view cache.")
    ] = None,
    split: Annotated[str, typer.Option(help="train or test")] = "train",
    seed: Annotated[int | None, typer.Option(min=0, help="Default: the run's.")] = None,
) -> None:
    """Write augmented views of DATA, in the units of DATA; views of a table as a table: --out views.csv.

    PiNDA adds sigma and a draw of the noise for each sample. MetAug writes augmented features, and as `features` the
    projections they were made from. GenView and view caches add samples, and noise level and quality of each view.
    """
    check_views_path(out)
    early.check_paths(data=data, read=read)
    early.check_values(split=split)
    options.check_out(out, data)
    shared = ("run", "data", "out", "n", "label", "labels", "threads", "debug")
    if (run / VIEW_CACHE).exists():
        options.check_only(context, "for a view cache", (*shared, "image_size"))
        if out.suffix.lower() != ".npz":
            raise InputError(
                f"--out is {str(out)!r}, and views of a view cache are written to a file that ends in .npz"
            )
        from viewsmith.data.view_cache import ViewCacheFolder
        from viewsmith.workflows.views import views_of_cache

        arrays = views_of_cache(ViewCacheFolder(run), data, n, **read)
    else:
        options.check_only(context, "for a run", (*shared, "split", "seed", "stream", "cache"))
        model, dataset = early.model_and_data(run, data, read, early.data_of_run(run, data, read))
        from viewsmith.workflows.views import views_of_model

        arrays = views_of_model(model, dataset, n, split=split, seed=seed)
    from viewsmith.core.files import atomic_path, target_of
    from viewsmith.data.write import write_npz, write_views_table

    with writing(out):
        if out.suffix.lower() != ".npz":
            write_views_table(out, arrays, dataset.x, dataset.feature_names)
        else:
            with atomic_path(target_of(out)) as temporary, temporary.open("wb") as file:
                write_npz(file, arrays, compressed=True)
    echo(str(out))
