"""The commands generate and merge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from viewsmith.cli.errors import writing
from viewsmith.cli.options import (
    Cache,
    Data,
    Debug,
    Features,
    ImageSize,
    Label,
    Labels,
    Stream,
    Threads,
    set_threads,
    storage,
)


def generate(
    data: Data,
    out: Annotated[Path, typer.Option(metavar="CACHE", help="Folder for the view cache; a stopped job is resumed.")],
    generator: Annotated[
        str, typer.Option(help="diffusion; unclip:FOLDER or unclip:OWNER/NAME (extra unclip); folder:PATH")
    ] = "diffusion",
    run: Annotated[
        Path | None, typer.Option(metavar="RUN", help="A diffaug run with the generator to use; default: train one.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same views.")] = 0,
    views_per_sample: Annotated[
        int | None, typer.Option(metavar="K", min=1, help="Views of each sample; default: 1.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of the sampler; default: 20 (unclip), those of the run.")
    ] = None,
    guidance: Annotated[float | None, typer.Option(help="Guidance of unclip; default: 10.")] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Sampler of unclip: ddim, ddpm, dpm, pndm or euler; default: that of the weights."),
    ] = None,
    noise: Annotated[
        str | None, typer.Option(help="adaptive (the default), random or constant:L, L from 0 to 400")
    ] = None,
    candidates: Annotated[
        int | None,
        typer.Option(
            metavar="C",
            min=1,
            help="Views generated for each one that is kept, chosen by quality and novelty (diffusion); default: 1.",
        ),
    ] = None,
    features: Features = None,
    shard: Annotated[str, typer.Option(metavar="I/N", help="Part of the job, for folders that are merged.")] = "1/1",
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Samples in a block; default: 16 (unclip), 256.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Epochs of a generator's training; default: as many as fit the minutes.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Time for a generator's training; default: at most 10, on two cores.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
    label: Label = None,
    labels: Labels = None,
    image_size: ImageSize = None,
    modality: Annotated[str | None, typer.Option(help="[modality] (default: from the data)")] = None,
    transductive: Annotated[bool, typer.Option("--transductive", help="Generate views of all rows.")] = False,
    stream: Stream = False,
    cache: Cache = None,
    threads: Threads = None,
    debug: Debug = False,
) -> None:
    """Generate views of DATA for `fit --method genview`; a stopped job is resumed; several jobs can fill a folder."""
    from viewsmith.data import load_dataset
    from viewsmith.methods.genview.parts import parse_shard
    from viewsmith.workflows.generate import check_options, generate_cache
    from viewsmith.workflows.runs import OF_CELLS, load_run

    part = parse_shard(shard)
    options: dict[str, Any] = {
        "run": run,
        "steps": steps,
        "guidance": guidance,
        "scheduler": scheduler,
        "noise": noise,
        "candidates": candidates,
        "epochs": epochs,
        "minutes": minutes,
    }
    check_options(generator, **options)  # before the data are read
    set_threads(threads)
    stored = storage(out, stream, cache)
    of_cells: dict[str, Any] = {}
    if run is not None:  # as the run has read them
        fitted = load_run(run)
        of_cells = {name: getattr(fitted, name) for name in (*OF_CELLS, "normalization")}
    dataset = load_dataset(
        data, label=label, labels=labels, modality=modality, image_size=image_size, **of_cells, **stored
    )
    with writing(out):
        made = generate_cache(
            dataset,
            out,
            generator=generator,
            seed=seed,
            views_per_sample=views_per_sample,
            features=features or "encoder",
            shard=part,
            batch_size=batch_size,
            transductive=transductive,
            device=device,
            progress=True,
            **options,
        )
    if missing := made.missing():
        typer.echo(f"{len(missing)} of {len(made.numbers())} blocks are for other shards", err=True)
    typer.echo(str(out))


def merge(
    parts: Annotated[list[Path], typer.Argument(metavar="CACHE...", help="Folders that the shards of one job wrote.")],
    out: Annotated[Path, typer.Option(metavar="CACHE", help="A new folder, or one of these.")],
    debug: Debug = False,
) -> None:
    """Merge the view caches of several shards (`generate --shard`), each of them in a separate folder."""
    from viewsmith.workflows.generate import merge_caches

    with writing(out):
        cache = merge_caches(parts, out)
    if missing := cache.missing():
        typer.echo(f"{len(missing)} of {len(cache.numbers())} blocks are missing", err=True)
    typer.echo(str(out))
