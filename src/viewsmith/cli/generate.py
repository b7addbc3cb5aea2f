"""The commands generate and merge."""

from pathlib import Path
from typing import Annotated, Any

import typer

from viewsmith.cli.errors import writing
from viewsmith.cli.options import Data, Features, Seed, data_options, with_flags


@with_flags(
    *("label", "labels", "image_size", "modality", "stream", "cache", "threads", "debug"),
    run=Annotated[
        Path | None, typer.Option(metavar="RUN", help="A diffaug run with the generator to use; default: train one.")
    ],
    views_per_sample=Annotated[int | None, typer.Option(metavar="K", min=1, help="Views of each sample; default: 1.")],
    steps=Annotated[
        int | None, typer.Option(min=1, help="Steps of the sampler; default: 20 (unclip), those of the run.")
    ],
    guidance=Annotated[float | None, typer.Option(help="Guidance of unclip; default: 10.")],
    scheduler=Annotated[
        str | None,
        typer.Option(help="Sampler of unclip: ddim, ddpm, dpm, pndm or euler; default: that of the weights."),
    ],
    noise=Annotated[str | None, typer.Option(help="adaptive (the default), random or constant:L, L from 0 to 400")],
    candidates=Annotated[
        int | None,
        typer.Option(
            metavar="C",
            min=1,
            help="Views generated for each one that is kept, chosen by quality and novelty (diffusion); default: 1.",
        ),
    ],
    features=Features,
    batch_size=Annotated[int | None, typer.Option(min=1, help="Samples in a block; default: 16 (unclip), 256.")],
    epochs=Annotated[
        int | None, typer.Option(min=1, help="Epochs of a generator's training; default: as many as fit the minutes.")
    ],
    minutes=Annotated[
        float | None, typer.Option(help="Time for a generator's training; default: at most 10, on two cores.")
    ],
)
def generate(
    data: Data,
    read: dict[str, Any],
    given: dict[str, Any],
    out: Annotated[Path, typer.Option(metavar="CACHE", help="Folder for the view cache; a stopped job is resumed.")],
    generator: Annotated[
        str, typer.Option(help="diffusion; unclip:FOLDER or unclip:OWNER/NAME (extra unclip); folder:PATH")
    ] = "diffusion",
    seed: Seed = 0,
    shard: Annotated[str, typer.Option(metavar="I/N", help="Part of the job, for folders that are merged.")] = "1/1",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
    transductive: Annotated[bool, typer.Option("--transductive", help="Generate views of all rows.")] = False,
) -> None:
    """Generate views of DATA for `fit --method genview`; a stopped job is resumed; several jobs can fill a folder."""
    from viewsmith.data.sources import read_dataset
    from viewsmith.methods.genview.parts import parse_shard
    from viewsmith.workflows.generate import GeneratorOptions, fill_cache
    from viewsmith.workflows.runs import OF_CELLS, load_run

    options = GeneratorOptions(generator=generator, seed=seed, shard=parse_shard(shard), device=device, **given)
    options.check()  # before the data are read
    if options.run is not None:  # as the run has read them
        fitted = load_run(options.run)
        read |= {name: getattr(fitted, name) for name in (*OF_CELLS, "normalization")}
    dataset = read_dataset(data, data_options(read, run=out))
    with writing(out):
        made = fill_cache(dataset, out, options, transductive=transductive, progress=True)
    if missing := made.missing():
        typer.echo(f"{len(missing)} of {len(made.numbers())} blocks are for other shards", err=True)
    typer.echo(str(out))


@with_flags("debug")
def merge(
    parts: Annotated[list[Path], typer.Argument(metavar="CACHE...", help="Folders that the shards of one job wrote.")],
    out: Annotated[Path, typer.Option(metavar="CACHE", help="A new folder, or one of these.")],
) -> None:
    """Merge the view caches of several shards (`generate --shard`), each of them in a separate folder."""
    from viewsmith.workflows.generate import merge_caches

    with writing(out):
        cache = merge_caches(parts, out)
    if missing := cache.missing():
        typer.echo(f"{len(missing)} of {len(cache.numbers())} blocks are missing", err=True)
    typer.echo(str(out))
