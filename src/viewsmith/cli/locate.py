"""The commands discover, locate and crop: what recurs in samples, where, and its crops."""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from viewsmith.cli import early
from viewsmith.cli.errors import echo, writing
from viewsmith.cli.options import OF_RECORDINGS, Data, Run, Seed, check_out, load_run_and_data, names, with_flags
from viewsmith.core.errors import InputError

N = Annotated[int, typer.Option("--n", min=1, help="Largest number of locations in a sample.")]
MaxQ = Annotated[
    float | None,
    typer.Option(help="A run of discover: largest q-value of a part, above 0 and at most 1. Default: as fitted."),
]


#: Flags of both commands.
of_run = with_flags("label", "labels", "stream", "cache", "threads", "debug")


@of_run
def locate(
    run: Run,
    data: Data,
    read: dict[str, Any],
    out: Annotated[Path, typer.Option(metavar="FILE", help=".csv; for sequences also .bed")],
    n: N = 1,
    max_q: MaxQ = None,
) -> None:
    """Write the locations that a run of crl-tac, or discover, finds in DATA: boxes, windows of sequences, features.

    One row for each location, train rows first. Samples without a location have no row.
    """
    early.check_paths(run=run, data=data, read=read, file=out)
    from viewsmith.workflows.discover import locate_again
    from viewsmith.workflows.locate import locate_to

    _find(locate_again, locate_to, run, data, read, out, n, max_q)


@of_run
def crop(
    run: Run,
    data: Data,
    read: dict[str, Any],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="A new folder of images; or .npz; for DNA .fasta")],
    n: N = 1,
    max_q: MaxQ = None,
) -> None:
    """Write crops of images or windows of sequences at the locations that a run of crl-tac, or discover, finds."""
    early.check_paths(run=run, data=data, read=read, file=out)
    from viewsmith.workflows.discover import crop_again
    from viewsmith.workflows.locate import crop_to

    _find(crop_again, crop_to, run, data, read, out, n, max_q)


def _find(
    again: Callable[..., Any],
    find: Callable[..., Any],
    run: Path,
    data: str,
    read: dict[str, Any],
    out: Path,
    n: int,
    max_q: float | None,
) -> None:
    """Work with a run of discover, or of crl-tac."""
    from viewsmith.workflows.runs import is_discovery

    check_out(out, data)
    if max_q is not None and not 0 < max_q <= 1:
        raise InputError(f"--max-q is {max_q}, expected a number in (0, 1]")
    if is_discovery(run):
        with writing(out), _flags():
            again(out, run, data, n, max_q)
    elif max_q is not None:
        raise InputError(f"--max-q is {max_q}, but {run} is no run of discover, so its locations have none")
    else:
        model, dataset = load_run_and_data(run, data, read)
        with writing(out):
            find(out, model, dataset, n)
    echo(str(out))


@contextlib.contextmanager
def _flags() -> Iterator[None]:
    """Within the context, messages of discovery name its options as flags."""
    from viewsmith.workflows.discover import as_flags

    shown = warnings.showwarning

    def show(message: Any, *rest: Any, **further: Any) -> None:
        shown(as_flags(str(message)), *rest, **further)

    warnings.showwarning = show
    try:
        yield
    except InputError as error:
        raise InputError(as_flags(str(error))) from error
    finally:
        warnings.showwarning = shown


@with_flags(*OF_RECORDINGS, "threads", "debug")
def discover(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="A folder of images of any sizes, FASTA, recordings (wav edf hea), or an array."
        ),
    ],
    read: dict[str, Any],
    out: Annotated[Path, typer.Option(metavar="DIR", help="A new folder for parts, crops and the report.")],
    kinds: Annotated[int, typer.Option(min=1, help="Largest number of kinds of parts, e.g. of cells.")] = 1,
    max_parts: Annotated[
        int, typer.Option(min=1, help="Largest number of parts of a kind in an image, e.g. 12 if it is full of cells.")
    ] = 1,
    modality: Annotated[
        str, typer.Option(help="auto, images, dna or series (recordings, which are never recognized)")
    ] = "auto",
    one_strand: Annotated[bool, typer.Option("--one-strand", help="DNA: sites on the given strand only.")] = False,
    max_q: Annotated[float, typer.Option(help="Largest q-value of a part, above 0 and at most 1.")] = 0.1,
    image_size: Annotated[
        int, typer.Option(min=32, help="Images: longer side to which they are reduced, in pixels.")
    ] = 128,
    features: Annotated[
        str,
        typer.Option(
            metavar="patches|timm:NAME|RUN",
            help="Images: dense features, learned from the images, or of a network of timm or of a trained model.",
        ),
    ] = "patches",
    feature_layer: Annotated[
        str | None, typer.Option(metavar="NAME", help="Layer of the network. Default: the deepest with small cells.")
    ] = None,
    feature_weights: Annotated[
        str | None, typer.Option(metavar="FILE", help="For timm: safetensors, or random. Default: those of timm.")
    ] = None,
    windows: Annotated[
        str | None,
        typer.Option(
            metavar="K,K",
            help="Windows that are tried: cells of 4 pixels (4,5,7,9), letters (8,12,16,22), points (1/24 to 1/8).",
        ),
    ] = None,
    crop_size: Annotated[
        int | None, typer.Option(min=4, help="Size of the crops: pixels (64), letters (40), points (128).")
    ] = None,
    device: Annotated[str, typer.Option(help="Images: auto, cpu or cuda, where features are computed.")] = "auto",
    seed: Seed = 0,
) -> None:
    """Find what recurs in images, DNA or recordings, and where, without labels: places, crops and a report.

    DIR gets parts.csv, report.html, the model, and crops for the other commands. Images: coco.json (boxes in the pixels
    of the original files), crops/. DNA: parts.bed, motifs.meme, motifs.jaspar, logos, crops.fa. Recordings: crops.npz.
    If nothing recurs, this is said and no part is listed.
    """
    options: dict[str, Any] = {
        "kinds": kinds,
        "max_parts": max_parts,
        "max_q": max_q,
        "modality": modality,
        "image_size": image_size,
        "features": features,
        "feature_layer": feature_layer,
        "feature_weights": feature_weights,
        "both_strands": not one_strand,
        "device": device,
        "random_state": seed,
    }
    if windows is not None:
        sides = names(windows)
        if not all(side.isdecimal() for side in sides):
            raise InputError(f"--windows is {windows!r}, expected whole numbers separated by commas, such as 4,7")
        options["windows"] = [int(side) for side in sides]
    early.check_paths(data=data)
    from viewsmith.workflows.discover import as_flags, discover_to

    with writing(out), _flags():
        sentence = discover_to(out, data, options, crop_size, **read)
    echo(as_flags(sentence))
    echo(str(out / "report.html"))
