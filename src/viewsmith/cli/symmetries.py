"""The command symmetries: which transformations keep samples among the samples of the data."""

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from viewsmith.cli import early
from viewsmith.cli.errors import echo
from viewsmith.cli.options import OF_RECORDINGS, Data, Json, Seed, data_options, names, with_flags
from viewsmith.core.errors import InputError


@with_flags("label", "labels", "image_size", "groups", "modality", *OF_RECORDINGS, "threads", "debug")
def symmetries(
    data: Data,
    read: dict[str, Any],
    json_: Json = False,
    option: Annotated[
        str | None, typer.Option(metavar="NAME", help="An option of the views, such as noise_strength, to vary.")
    ] = None,
    values: Annotated[str | None, typer.Option(metavar="V,V", help="Values of --option, such as .1,.25,.5.")] = None,
    views: Annotated[str, typer.Option(metavar="NAME", help="With --option: the view maker.")] = "auto",
    seed: Seed = 0,
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

    dataset = read_dataset(data, data_options(read))
    from viewsmith.evaluation.symmetries import Symmetries
    from viewsmith.evaluation.symmetries import symmetries as tested

    if option is not None and values is not None:
        from viewsmith.workflows.views import strength_curve

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
        return [float(part) for part in names(text)]
    except ValueError as error:
        raise InputError(f"--values is {text!r}, expected numbers separated by commas, such as .1,.25,.5") from error
