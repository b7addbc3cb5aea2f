"""The commands that find parts: discover, locate, and which transformations keep samples, symmetries."""

import contextlib
import json
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from viewsmith.cli import early, options
from viewsmith.cli.errors import echo, writing
from viewsmith.core.errors import InputError, check
from viewsmith.core.option_types import check_declared
from viewsmith.data import places
from viewsmith.methods.discovery.options import FLAGS, DiscoveryOptions, as_flags, check_modality


@options.with_flags(
    *options.OF_RECORDINGS, "threads", "debug", **{name: options.flag_of(DiscoveryOptions, name) for name in FLAGS}
)
def discover(
    data: Annotated[
        str,
        Argument(
            metavar="DATA",
            help="A folder of images of any sizes, a large image (--tile), FASTA, recordings, or an array.",
        ),
    ],
    read: dict[str, Any],
    given: dict[str, Any],
    out: Annotated[Path, Option(metavar="DIR", help="A new folder for parts, crops and the report.")],
    one_strand: Annotated[
        bool | None,
        Option("--one-strand/--both-strands", help="Sites on the given strand only; default: of RNA, not of DNA."),
    ] = None,
    crop_size: Annotated[
        int | None, Option(min=4, help="Size of the crops: pixels (64), letters (40), points (128).")
    ] = None,
    seed: options.Seed = 0,
) -> None:
    """Find what recurs in images, sequences or recordings, and where, without labels: places, crops and a report.

    DIR gets parts.csv, report.html, the model, and crops for the other commands. Images: coco.json (boxes in the pixels
    of the original files), crops/. DNA and proteins: parts.bed, motifs.meme, crops.fa, logos. Recordings: crops.npz.
    If nothing recurs, this is said and no part is listed.
    """
    strands = {} if one_strand is None else {"both_strands": not one_strand}
    asked: dict[str, Any] = given | strands | {"random_state": seed}
    if "windows" in given:
        sides = options.names(given["windows"])
        expected = "whole numbers separated by commas, such as 4,7"
        check(all(side.isdecimal() for side in sides), "--windows", repr(given["windows"]), expected)
        asked["windows"] = [int(side) for side in sides]
    with flags_of_discovery():
        for name in given:
            check_declared(DiscoveryOptions(**asked), name)
        check_modality(given.get("modality", "auto"))
    early.check_paths(data=data)
    places.check_free_for_parts(out)
    with early.importing():
        from viewsmith.data.any_size import read_samples

    with writing(out), flags_of_discovery():
        samples = read_samples(data, asked.get("modality", "auto"), **read)
        with early.importing():
            from viewsmith.workflows.discover import discover_to

        sentence = discover_to(out, samples, asked, crop_size, title=Path(data).name, read=read)
    echo(as_flags(sentence))
    echo(str(out / "report.html"))


@options.with_flags("label", "labels", "tile", "overlap", "stream", "cache", "threads", "debug")
def locate(
    run: options.Run,
    data: options.Data,
    read: dict[str, Any],
    out: Annotated[
        Path,
        Option(
            metavar="FILE",
            help=".csv; for sequences also .bed. With --crops: a new folder of images; or .npz; for sequences .fasta",
        ),
    ],
    crops: Annotated[
        bool, Option("--crops", help="Write what is there: crops of images, windows of sequences.")
    ] = False,
    n: Annotated[
        int | None, Option("--n", min=1, help="Largest number of locations in a sample; default: 1, pieces: all.")
    ] = None,
    max_q: Annotated[
        float | None,
        Option(help="A run of discover: largest q-value of a part, above 0 and at most 1. Default: as fitted."),
    ] = None,
    unjudged: Annotated[bool, options.flag_of(DiscoveryOptions, "unjudged").__metadata__[0]] = False,
) -> None:
    """Write the locations that a run of crl-tac, or discover, finds in DATA: boxes, windows of sequences, features; or
    what is there.

    One row for each location, train rows first. Samples without a location have no row.
    """
    early.check_paths(run=run, data=data, read=read, file=out)
    options.check_out(out, data, read)
    early.check_values(max_q=max_q)
    config = places.config_of(run)
    if config.get("method") == "discovery":
        modality = str(config.get("modality"))
        places.check_parts_path(out, modality, crops=crops)
        sounds = "signal" in config.get("read", {})
        if sounds and (unjudged or max_q is not None):
            raise InputError("--max-q and --unjudged are for events, and sounds have no q-value: leave them out")
        from viewsmith.data.any_size import read_samples

        with writing(out), flags_of_discovery():
            tiled = {name: read[name] for name in ("tile", "overlap") if name in read}
            samples = read_samples(data, modality, fitted=True, as_before=config.get("read", {}), **tiled)
            if sounds:
                from viewsmith.workflows.discover import locate_sounds

                locate_sounds(out, run, samples, crops=crops)
            else:
                from viewsmith.workflows.discover import crop_again, locate_again

                (crop_again if crops else locate_again)(out, run, samples, n, max_q, unjudged)
    elif unjudged:
        raise InputError(f"--unjudged is for a run of discover, and {run} is none: leave it out")
    elif max_q is not None:
        raise InputError(f"--max-q is {max_q}, but {run} is no run of discover, so its locations have none")
    else:
        kind = config.get("fitted", {}).get("modality")
        if kind in options.listed("modality").split(", "):
            (places.check_crops_path if crops else places.check_locations_path)(out, kind)
        model, dataset = early.model_and_data(run, data, read)
        from viewsmith.workflows.locate import crop_to, locate_to

        with writing(out):
            (crop_to if crops else locate_to)(out, model, dataset, n or 1)
    echo(str(out))


@contextlib.contextmanager
def flags_of_discovery() -> Iterator[None]:
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


@options.with_flags("label", "labels", "image_size", "groups", "modality", *options.OF_RECORDINGS, "threads", "debug")
def symmetries(
    data: options.Data,
    read: dict[str, Any],
    json_: options.Json = False,
    option: Annotated[
        str | None, Option(metavar="NAME", help="An option of the views, such as noise_strength, to vary.")
    ] = None,
    values: Annotated[str | None, Option(metavar="V,V", help="Values of --option, such as .1,.25,.5.")] = None,
    views: Annotated[str, Option(metavar="NAME", help="With --option: the view maker.")] = "auto",
    seed: options.Seed = 0,
) -> None:
    """Test without labels which transformations of DATA are safe as views: mirror, turns, reverse complement.

    A transformation is off the data if transformed samples are far from all other samples, and a classifier tells them
    apart from the samples. Only train rows are read, those of a group on one side of the test; labels are not. With
    --option, views are tested at several values of an option instead: how far do they leave the data, from which
    strength?
    """
    if (option is None) != (values is None):
        given, missing = ("--option", "--values") if values is None else ("--values", "--option")
        raise InputError(
            f"{given} is given without {missing}, expected both, such as --option noise_strength --values .1,.5"
        )
    early.check_names("view maker", views.split("+"), also=["auto"])
    early.check_paths(data=data, read=read)
    from viewsmith.data.sources import read_dataset

    dataset = read_dataset(data, options.data_options(read))
    from viewsmith.evaluation.symmetries import Symmetries
    from viewsmith.evaluation.symmetries import symmetries as tested

    if option is not None and values is not None:
        from viewsmith.workflows.generate import strength_curve

        found = strength_curve(dataset, option, _numbers(values), views, seed=seed)
    else:
        found = tested(dataset.x_train, dataset.modality, groups=dataset.groups_train, seed=seed)
    if json_:
        echo(json.dumps([asdict(test) | {"on_the_data": test.on_the_data} for test in found], indent=2))
        return
    row = "{:<20}  {:<12}  {:>16}  {:>6}  {:>9}  {:>18}".format
    for cells in (Symmetries.HEADER, *Symmetries(found).cells()):
        echo(row(*cells))


def _numbers(text: str) -> list[float]:
    """Numbers separated by commas."""
    try:
        return [float(part) for part in options.names(text)]
    except ValueError as error:
        raise InputError(f"--values is {text!r}, expected numbers separated by commas, such as .1,.25,.5") from error
