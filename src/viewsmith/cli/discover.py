"""The command discover."""

from pathlib import Path
from typing import Annotated, Any

import typer

from viewsmith.cli import early
from viewsmith.cli.errors import echo, writing
from viewsmith.cli.locate import flags_of_discovery
from viewsmith.cli.options import OF_RECORDINGS, Seed, flag_of, names, with_flags
from viewsmith.core.errors import InputError
from viewsmith.core.options import check_declared
from viewsmith.data.places import check_free_for_parts
from viewsmith.methods.discovery.options import FLAGS, DiscoveryOptions, as_flags, check_modality


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
    one_strand: Annotated[
        bool | None,
        typer.Option(
            "--one-strand/--both-strands", help="Sites on the given strand only; default: of RNA, not of DNA."
        ),
    ] = None,
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
    options: dict[str, Any] = (
        given | ({} if one_strand is None else {"both_strands": not one_strand}) | {"random_state": seed}
    )
    if "windows" in given:
        sides = names(given["windows"])
        if not all(side.isdecimal() for side in sides):
            raise InputError(
                f"--windows is {given['windows']!r}, expected whole numbers separated by commas, such as 4,7"
            )
        options["windows"] = [int(side) for side in sides]
    with flags_of_discovery():
        for name in given:
            check_declared(DiscoveryOptions(**given), name)
        check_modality(given.get("modality", "auto"))
    early.check_paths(data=data)
    check_free_for_parts(out)
    from viewsmith.data.any_size import read_samples

    with writing(out), flags_of_discovery():
        samples = read_samples(data, options.get("modality", "auto"), **read)
        from viewsmith.workflows.discover import discover_to

        sentence = discover_to(out, samples, options, crop_size, title=Path(data).name, read=read)
    echo(as_flags(sentence))
    echo(str(out / "report.html"))
