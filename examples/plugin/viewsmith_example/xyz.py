"""A reader: folders of point clouds as text, three coordinates in a line."""

from pathlib import Path

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.data import DataOptions, FileContents, reader


@reader(
    "xyz",
    in_folders=(".xyz",),
    help="a folder of point clouds, or of folders of them, which are the labels; a line for each point",
    noun="a folder of .xyz files",
    modality="points",
    example="shapes/",
)
def read_xyz(path: Path, request: DataOptions) -> FileContents:
    """Clouds (n, points, 3), with the smallest number of points of all; classes are the names of their folders."""
    request.check_no_table_options(str(path), "the labels of clouds are the names of their folders")
    files = sorted(path.rglob("*.xyz"))
    try:
        clouds = [np.loadtxt(file, np.float32, ndmin=2) for file in files]
    except ValueError as error:
        raise InputError(f"{path} has a file that is no text of numbers: {error}") from error
    if not all(cloud.shape[1:] == (3,) for cloud in clouds):
        raise InputError(f"{path} has a file without three columns, expected x y z in each line")
    points = min(len(cloud) for cloud in clouds)
    names = [file.relative_to(path).as_posix() for file in files]
    labels = np.array([file.parent.name for file in files]) if len({file.parent for file in files}) > 1 else None
    return FileContents(np.stack([cloud[:points] for cloud in clouds]), labels, row_names=names, modality="points")
