"""The command generate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from viewsmith.cli.errors import writing
from viewsmith.cli.options import Debug, Features, ImageSize, Label, Labels, Threads, check_only, set_threads
from viewsmith.core.errors import InputError


def generate(
    context: typer.Context,
    data: Annotated[
        list[str], typer.Argument(metavar="DATA", help="As for fit; with --merge: the folders that shards wrote.")
    ],
    out: Annotated[Path, typer.Option(metavar="CACHE", help="Folder for the view cache; a stopped job is resumed.")],
    merge: Annotated[
        bool, typer.Option("--merge", help="Merge the view caches that the shards of one job wrote.")
    ] = False,
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
    features: Features = None,
    shard: Annotated[str, typer.Option(metavar="I/N", help="Part of the job, from 1/N to N/N.")] = "1/1",
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
    domain: Annotated[str | None, typer.Option(help="[domain] (default: from the data)")] = None,
    transductive: Annotated[bool, typer.Option("--transductive", help="Generate views of all rows.")] = False,
    threads: Threads = None,
    debug: Debug = False,
) -> None:
    """Generate views of DATA for `fit --method genview`; a stopped job is resumed."""
    from viewsmith.data import load_dataset
    from viewsmith.training.generation import parse_shard
    from viewsmith.workflows.generate import generate_cache, merge_caches

    if merge:
        check_only(context, "with --merge", ("merge", "data", "out", "debug"))
        with writing(out):
            cache = merge_caches([Path(folder) for folder in data], out)
        if missing := cache.missing():
            typer.echo(f"{len(missing)} of {len(cache.numbers())} blocks are missing", err=True)
        typer.echo(str(out))
        return
    if len(data) > 1:
        raise InputError(f"got {len(data)} data sets, expected one: to merge the view caches of shards, add --merge")
    part = parse_shard(shard)
    set_threads(threads)
    dataset = load_dataset(data[0], label=label, labels=labels, domain=domain, image_size=image_size)
    with writing(out):
        cache = generate_cache(
            dataset,
            out,
            generator=generator,
            run=run,
            seed=seed,
            views_per_sample=views_per_sample,
            steps=steps,
            guidance=guidance,
            scheduler=scheduler,
            noise=noise,
            features=features or "encoder",
            shard=part,
            batch_size=batch_size,
            epochs=epochs,
            minutes=minutes,
            transductive=transductive,
            device=device,
            progress=True,
        )
    if missing := cache.missing():
        typer.echo(f"{len(missing)} of {len(cache.numbers())} blocks are for other shards", err=True)
    typer.echo(str(out))
