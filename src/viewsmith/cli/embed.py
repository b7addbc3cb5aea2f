"""The command embed."""

from pathlib import Path
from typing import Annotated, Any

import typer

from viewsmith.cli import early, options
from viewsmith.cli.errors import echo, writing
from viewsmith.data.places import check_map_path, check_representations_path


@options.with_flags("label", "labels", "tile", "overlap", "stream", "cache", "threads", "debug")
def embed(
    run: options.Run,
    data: options.Data,
    read: dict[str, Any],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="A .npz, .npy, .csv or .parquet file; .h5ad for .h5ad data.")
    ],
    output: Annotated[
        str, typer.Option(help="representation, projection, (diffaug) map or (metaug) view-1")
    ] = "representation",
    inference: Annotated[
        str | None, typer.Option(help="(crl-tac) average over views: expectation, top or uniform; default: the run's.")
    ] = None,
    map_: Annotated[
        Path | None,
        typer.Option(
            "--map", metavar="FILE.tif", help="Of a large image, also a map of the representations, and .png."
        ),
    ] = None,
) -> None:
    """Write the representations of DATA, or another output of the model."""
    early.check_paths(run=run, data=data, read=read, file=map_)
    check_representations_path(out)
    if map_ is not None:
        check_map_path(map_)
    options.check_out(out, data)
    early.check_values(output=output, inference=inference)
    model, dataset = early.model_and_data(run, data, read, early.data_of_run(run, data, read))
    import numpy as np

    from viewsmith.data import write_representations
    from viewsmith.workflows.locate import inferring
    from viewsmith.workflows.scene_map import check_map, write_map

    model = inferring(model, inference)
    if map_ is not None:
        check_map(dataset)
    blocks = model.transform_blocks(dataset.x, output=output)
    kept = None if map_ is None else list(blocks)
    with writing(out):
        write_representations(out, dataset, blocks if kept is None else kept)
    if map_ is not None and kept is not None:
        with writing(map_):
            write_map(map_, dataset, np.concatenate(kept))
    for path in (out, *(() if map_ is None else (map_, map_.with_suffix(".png")))):
        echo(str(path))
