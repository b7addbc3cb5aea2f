"""Reader of folders of .npy files, a sample each: images, recordings or vectors."""

from pathlib import Path

import numpy as np

from viewsmith.core.errors import InputError, pluralize
from viewsmith.data.image_files import OPTIONS as OF_IMAGES
from viewsmith.data.options import DataOptions
from viewsmith.data.places import ARRAYS
from viewsmith.data.readers.array_recordings import has_time, recording_of
from viewsmith.data.readers.arrays import OTHERS, read_set
from viewsmith.data.readers.folders import read_folder
from viewsmith.data.reading import FileContents, reader, reading
from viewsmith.data.recordings import OPTIONS, files_of, name_in, samples_of, stay_on_disk

#: Names of files that have all samples, or those of a split, beside which others have the labels.
OF_ALL = {each.lower() for name in ("X", "X_train") for each in (name, *OTHERS[name])}
#: What an array of a file may be, by its number of axes.
KINDS = {
    1: {"series": "a recording (time,)", "vectors": "a row of features (d,)"},
    2: {"images": "an image (H, W)", "series": "a recording (channels, time)"},
    3: {"images": "an image (H, W, C)"},
}


@reader(
    "arrays",
    in_folders=ARRAYS,
    help="a folder of .npy files that are a sample each: images, recordings or vectors; with labels by folders",
    noun="a folder of .npy files",
    options=tuple(dict.fromkeys((*OPTIONS, *OF_IMAGES, "cache"))),
    example="trials/ --modality series --rate 250",
)
def read_arrays_of_folder(path: Path, request: DataOptions) -> FileContents:
    """Images (n, H, W, C), recordings (n, channels, time) or vectors (n, d), in the order of the names of the files."""
    files, n_train = files_of(path, ARRAYS)
    here = [file for file, _ in files if file.parent == path]
    if len(here) > 1 and {file.stem.lower() for file in here} & OF_ALL:
        return read_set(path, here, request)
    with reading(str(files[0][0]), "an .npy file"):
        first = np.load(files[0][0], mmap_mode="r", allow_pickle=False)
    kind = "series" if has_time(request) else request.modality
    kinds = KINDS.get(first.ndim, {})
    if kind is None and len(kinds) == 1:
        (kind,) = kinds
    if kind not in kinds:
        flags = " or ".join(f"{what} (--modality {name})" for name, what in kinds.items())
        raise InputError(
            f"{path}: {name_in(path, files[0][0])} is {first.dtype} of shape {first.shape}, and the kind of data is "
            f"{kind or 'not given'}: expected " + (flags or "arrays of one to three axes")
        )
    if kind == "images":
        return read_folder(path, request)
    on_disk = stay_on_disk([file for file, _ in files], request)
    rows, recordings = [], []
    for file, label in files:
        with reading(str(file), "an .npy file"):
            x = np.load(file, mmap_mode="r" if on_disk and kind == "series" else None, allow_pickle=False)
        if x.ndim != first.ndim or x.dtype.kind not in "biuf" or (kind == "vectors" and x.shape != first.shape):
            raise InputError(
                f"{file} is {x.dtype} of shape {x.shape}, and {name_in(path, files[0][0])} {first.dtype} of "
                f"{first.shape}: expected numbers, with as many axes ({pluralize(first.ndim, 'axis', 'axes')})"
            )
        if kind == "vectors":
            rows.append(x)
        else:
            recordings.append(recording_of(x[None] if x.ndim == 1 else x, name_in(path, file), label))
    if kind == "series":
        return samples_of(recordings, request, str(path), n_train=n_train, folder=path)
    request.check_no_table_options(str(path), "labels are the names of folders")
    names, labels = [name_in(path, file) for file, _ in files], [label for _, label in files]
    y = None if labels[0] is None else np.array(labels)
    return FileContents(np.stack(rows), y, n_train, row_names=names)
