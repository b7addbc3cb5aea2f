"""The commands that use a trained model: embed, plot, export, push, report."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from viewsmith.cli import early, options
from viewsmith.cli.errors import echo, writing
from viewsmith.core.errors import InputError, quoted
from viewsmith.data import places
from viewsmith.data.places import repository_of


@options.with_flags("label", "labels", "tile", "overlap", "masks", "stream", "cache", "threads", "debug")
def embed(
    run: options.Run,
    data: options.Data,
    read: dict[str, Any],
    out: Annotated[Path, Option(metavar="FILE", help="A .npz, .npy, .csv or .parquet file; .h5ad for .h5ad data.")],
    output: Annotated[
        str, Option(help="representation, projection, (diffaug) map or (metaug) view-1")
    ] = "representation",
    inference: Annotated[
        str | None, Option(help="(crl-tac) average over views: expectation, top or uniform; default: the run's.")
    ] = None,
    map_: Annotated[
        Path | None,
        Option("--map", metavar="FILE.tif", help="Of a large image, also a map of the representations, and .png."),
    ] = None,
) -> None:
    """Write the representations of DATA, or another output of the model."""
    early.check_paths(run=run, data=data, read=read, file=map_)
    places.check_representations_path(out)
    options.check_out(out, data, read)
    maps = () if map_ is None else (map_, options.check_map(map_, data, read))
    early.check_values(output=output, inference=inference)
    model, dataset = early.model_and_data(run, data, read)
    import numpy as np

    from viewsmith.data import write_representations
    from viewsmith.workflows.locate import check_map, inferring, write_map

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
    for path in (out, *maps):
        echo(str(path))


@options.with_flags("labels", "masks", "threads", "debug")
def plot(
    run: options.Run,
    data: options.Data,
    read: dict[str, Any],
    out: Annotated[Path | None, Option(metavar="FILE", help="A .png, .svg or .pdf file; default: RUN/map.png.")] = None,
    color: Annotated[
        str | None, Option(metavar="COLUMN", help="Any column of a table or of obs; default: the labels.")
    ] = None,
    by: Annotated[str, Option(help="tsne, umap (extra viz), pca or, for diffaug, map")] = "tsne",
) -> None:
    """Draw a map of the representations of DATA, colored by a column."""
    early.check_paths(run=run, data=data, read=read, file=(out := out or run / "map.png"))
    early.check_values(by=by)
    places.check_picture_path(out)
    options.check_out(out, data, read)
    values = None
    if color is not None:
        from viewsmith.data.sources import column_of

        values = column_of(data, color)
    model, dataset = early.model_and_data(run, data, read)
    if values is not None and len(values) != len(dataset.x):
        raise InputError(f"the column {color!r} of {data} cannot be matched with the {len(dataset.x)} rows of the map")
    values = dataset.y if color is None else values
    title = dataset.label_name or "" if color is None else color
    with writing(out):
        model.plot(dataset.x, values, by=by, title=title).save(out)
    echo(str(out))


@options.with_flags("debug")
def export(
    run: options.Run,
    out: Annotated[Path, Option(metavar="FILE", help="File to write.")],
    format_: Annotated[
        str | None,
        Option(
            "--format", help="timm, torchvision, onnx (extra export) or safetensors; default: by the ending of FILE"
        ),
    ] = None,
) -> None:
    """Write the encoder of RUN in a format that other libraries can load."""
    early.check_paths(run=run)
    places.check_parent(out)
    options.check_out(out, str(run))
    ending = out.suffix.lower().removeprefix(".")
    form = (ending or "safetensors") if format_ is None else format_
    if format_ is None and form not in ("onnx", "safetensors"):
        raise InputError(f"--out is {quoted(out)}, expected a name that ends in .onnx or .safetensors, or --format")
    early.check_values(format=form)
    if ending in ("onnx", "safetensors") and (form == "onnx") != (ending == "onnx"):
        raise InputError(f"--out {out} is named as {ending}, and --format is {form}: give one of them")
    from viewsmith.workflows.export import export_encoder
    from viewsmith.workflows.runs import load_run

    model = load_run(run)
    with writing(out):
        hint = export_encoder(model, out, form)
    echo(hint, err=True)
    echo(str(out))


@options.with_flags("threads", "debug")
def push(
    run: options.Run,
    to: Annotated[str, Argument(metavar="TO", help="hf://OWNER/NAME (extra hub), or a new folder.")],
    private: Annotated[bool, Option("--private", help="A new repository is private.")] = False,
    license_: Annotated[str | None, Option("--license", metavar="NAME", help="Of the weights.")] = None,
) -> None:
    """Publish RUN on the Hugging Face Hub, with a card, or write such a repository to a folder."""
    early.check_paths(run=run)
    repository_of(to)
    from viewsmith.workflows.export import push as publish

    with writing(Path(to)):
        echo(publish(run, to, private=private, license=license_))


@options.with_flags("label", "labels", "masks", "threads", "debug")
def report(
    run: options.Run,
    read: dict[str, Any],
    data: Annotated[str | None, Option(metavar="DATA", help="Default: the data of the run.")] = None,
) -> None:
    """Write RUN/report.html with curves, diagnostics, comparison and maps."""
    early.check_paths(run=run, data=data, read=read)
    given = data or (places.config_of(run).get("data", {}).get("source") if read else None)
    dataset = None if given is None else early.data_of_run(run, given, read)
    from viewsmith.workflows.runs import write_run_report

    of_labels = {name: value for name, value in read.items() if name != "masks"}  # of which the samples are read
    echo(str(write_run_report(run, data=data, dataset=dataset, pictures=True, **of_labels)))
