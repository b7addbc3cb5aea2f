"""The commands discover, locate and crop: what recurs in samples, where, and its crops."""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from viewsmith.cli import early
from viewsmith.cli.errors import echo, writing
from viewsmith.cli.options import LISTED, OF_RECORDINGS, Data, Run, Seed, check_out, flag_of, names, with_flags
from viewsmith.core.errors import InputError
from viewsmith.core.options import check_declared
from viewsmith.data.places import (
    check_crops_path,
    check_free_for_parts,
    check_locations_path,
    check_parts_path,
    config_of,
)
from viewsmith.methods.discovery.options import FLAGS, DiscoveryOptions, as_flags, check_modality

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
    _find(run, data, read, out, n, max_q, unjudged, crops=False)


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
    _find(run, data, read, out, n, max_q, unjudged, crops=True)


def _find(
    run: Path, data: str, read: dict[str, Any], out: Path, n: int, max_q: float | None, unjudged: bool, *, crops: bool
) -> None:
    """Write places, or what is there, that a run of discover, or of crl-tac, finds; faults of the data are found before
    its model is loaded, whose imports take seconds."""
    check_out(out, data)
    early.check_values(max_q=max_q)
    config = config_of(run)
    if config.get("method") == "discovery":
        modality = str(config.get("modality"))
        check_parts_path(out, modality, crops=crops)
        from viewsmith.data.any_size import read_samples

        with writing(out), _flags():
            tiled = {name: read[name] for name in ("tile", "overlap") if name in read}
            samples = read_samples(data, modality, fitted=True, **tiled)
            from viewsmith.workflows.discover import crop_again, locate_again

            (crop_again if crops else locate_again)(out, run, samples, n, max_q, unjudged)
    elif unjudged:
        raise InputError(f"--unjudged is for a run of discover, and {run} is none: leave it out")
    elif max_q is not None:
        raise InputError(f"--max-q is {max_q}, but {run} is no run of discover, so its locations have none")
    else:
        kind = config.get("fitted", {}).get("modality")
        if kind in LISTED["modality"].split(", "):
            (check_crops_path if crops else check_locations_path)(out, kind)
        model, dataset = early.model_and_data(run, data, read, early.data_of_run(run, data, read))
        from viewsmith.workflows.locate import crop_to, locate_to

        with writing(out):
            (crop_to if crops else locate_to)(out, model, dataset, n)
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
    with _flags():
        for name in given:
            check_declared(DiscoveryOptions(**given), name)
        check_modality(given.get("modality", "auto"))
    early.check_paths(data=data)
    check_free_for_parts(out)
    from viewsmith.data.any_size import read_samples

    with writing(out), _flags():
        samples = read_samples(data, options.get("modality", "auto"), **read)
        from viewsmith.workflows.discover import discover_to

        sentence = discover_to(out, samples, options, crop_size, title=Path(data).name)
    echo(as_flags(sentence))
    echo(str(out / "report.html"))
