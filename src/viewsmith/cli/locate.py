"""The commands discover, locate and crop: what recurs in samples, where, and its crops."""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from viewsmith.cli import early
from viewsmith.cli.errors import echo, writing
from viewsmith.cli.options import (
    OF_RECORDINGS,
    Data,
    Run,
    Seed,
    check_out,
    flag_of,
    load_run_and_data,
    names,
    with_flags,
)
from viewsmith.core.errors import InputError, check_choice
from viewsmith.core.options import annotations_of
from viewsmith.data.places import check_free_for_parts
from viewsmith.methods.discovery.options import FLAGS, DiscoveryOptions, as_flags

N = Annotated[int, typer.Option("--n", min=1, help="Largest number of locations in a sample.")]
MaxQ = Annotated[
    float | None,
    typer.Option(help="A run of discover: largest q-value of a part, above 0 and at most 1. Default: as fitted."),
]

Unjudged = Annotated[bool, flag_of(DiscoveryOptions, "unjudged").__metadata__[0]]


#: Flags of both commands.
of_run = with_flags("label", "labels", "tile", "overlap", "stream", "cache", "threads", "debug")


@of_run
def locate(
    run: Run,
    data: Data,
    read: dict[str, Any],
    out: Annotated[Path, typer.Option(metavar="FILE", help=".csv; for sequences also .bed")],
    n: N = 1,
    max_q: MaxQ = None,
    unjudged: Unjudged = False,
) -> None:
    """Write the locations that a run of crl-tac, or discover, finds in DATA: boxes, windows of sequences, features.

    One row for each location, train rows first. Samples without a location have no row.
    """
    early.check_paths(run=run, data=data, read=read, file=out)
    from viewsmith.workflows.discover import locate_again
    from viewsmith.workflows.locate import locate_to

    _find(locate_again, locate_to, run, data, read, out, n, max_q, unjudged)


@of_run
def crop(
    run: Run,
    data: Data,
    read: dict[str, Any],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="A new folder of images; or .npz; for sequences .fasta")],
    n: N = 1,
    max_q: MaxQ = None,
    unjudged: Unjudged = False,
) -> None:
    """Write crops of images or windows of sequences at the locations that a run of crl-tac, or discover, finds."""
    early.check_paths(run=run, data=data, read=read, file=out)
    from viewsmith.workflows.discover import crop_again
    from viewsmith.workflows.locate import crop_to

    _find(crop_again, crop_to, run, data, read, out, n, max_q, unjudged)


def _find(
    again: Callable[..., Any],
    find: Callable[..., Any],
    run: Path,
    data: str,
    read: dict[str, Any],
    out: Path,
    n: int,
    max_q: float | None,
    unjudged: bool,
) -> None:
    """Work with a run of discover, or of crl-tac."""
    from viewsmith.workflows.runs import is_discovery

    check_out(out, data)
    if max_q is not None and not 0 < max_q <= 1:
        raise InputError(f"--max-q is {max_q}, expected a number in (0, 1]")
    if is_discovery(run):
        with writing(out), _flags():
            tiled = {name: read[name] for name in ("tile", "overlap") if name in read}
            again(out, run, data, n, max_q, unjudged, **tiled)
    elif unjudged:
        raise InputError(f"--unjudged is for a run of discover, and {run} is none: leave it out")
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


@with_flags(*OF_RECORDINGS, "threads", "debug", **{name: flag_of(DiscoveryOptions, name) for name in FLAGS})
def discover(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A folder of images of any sizes, a large image (--tile), FASTA, recordings, or an array.",
        ),
    ],
    read: dict[str, Any],
    given: dict[str, Any],
    out: Annotated[Path, typer.Option(metavar="DIR", help="A new folder for parts, crops and the report.")],
    one_strand: Annotated[bool, typer.Option("--one-strand", help="DNA: sites on the given strand only.")] = False,
    crop_size: Annotated[
        int | None, typer.Option(min=4, help="Size of the crops: pixels (64), letters (40), points (128).")
    ] = None,
    seed: Seed = 0,
) -> None:
    """Find what recurs in images, sequences or recordings, and where, without labels: places, crops and a report.

    DIR gets parts.csv, report.html, the model, and crops for the other commands. Images: coco.json (boxes in the pixels
    of the original files), crops/. DNA and proteins: parts.bed, motifs.meme, crops.fa, logos. Recordings: crops.npz.
    If nothing recurs, this is said and no part is listed.
    """
    options: dict[str, Any] = given | {"both_strands": not one_strand, "random_state": seed}
    if "windows" in given:
        sides = names(given["windows"])
        if not all(side.isdecimal() for side in sides):
            raise InputError(
                f"--windows is {given['windows']!r}, expected whole numbers separated by commas, such as 4,7"
            )
        options["windows"] = [int(side) for side in sides]
    early.check_paths(data=data)
    check_free_for_parts(out)
    from viewsmith.data.any_size import read_samples

    with writing(out), _flags():
        modality = options.get("modality", "auto")
        check_choice("modality", modality, annotations_of(DiscoveryOptions)["modality"])
        samples = read_samples(data, modality, **read)
        from viewsmith.workflows.discover import discover_to

        sentence = discover_to(out, samples, options, crop_size, title=Path(data).name)
    echo(as_flags(sentence))
    echo(str(out / "report.html"))
