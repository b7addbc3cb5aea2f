"""Readers of numpy's files, from which nothing is unpickled, of arrays of MATLAB, and of data sets of scikit-learn."""

import struct
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from viewsmith.core.errors import InputError, name_list, one_line, pluralize, require, say, warn
from viewsmith.core.rows import AnyRows, ArrayRows, JoinedRows, as_source, check_size, memory_limit
from viewsmith.data.hdf5 import Archive, has_arrays
from viewsmith.data.image_files import ImageFile
from viewsmith.data.matlab import arrays_of, channels_of
from viewsmith.data.options import DataOptions
from viewsmith.data.readers import scenes
from viewsmith.data.readers.array_recordings import OF_RECORDINGS, RATES, has_time, rate_of, rates_of, recordings_of
from viewsmith.data.readers.sequences import alphabet_given
from viewsmith.data.readers.spectra import AXIS_ARRAY, spectra_of_arrays
from viewsmith.data.reading import FileContents, reader, reading
from viewsmith.data.recording_files import stay_on_disk
from viewsmith.data.recordings import OPTIONS, Recording, samples_of
from viewsmith.data.tiles import read_file
from viewsmith.data.unread import command, named
from viewsmith.modalities.base import dtype_on_disk
from viewsmith.modalities.checks import check_array
from viewsmith.modalities.dna.letters import letter_rows
from viewsmith.modalities.dna.modality import alphabet_of_texts

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_ZIP_HEADER = 30  # bytes
_LABELS_OF = {"y_train": "X_train", "y_test": "X_test", "y": "X"}
#: What others call the arrays, in any case: keras, MedMNIST, bunches of scikit-learn, sets for MATLAB.
OTHERS = {
    "X_train": ("train_x", "train_images", "train_data", "xtrain"),
    "X_test": ("test_x", "test_images", "test_data", "xtest"),
    "y_train": ("train_y", "train_labels", "ytrain"),
    "y_test": ("test_y", "test_labels", "ytest"),
    "X": ("data", "images", "fea"),
    "y": ("target", "labels", "label", "gnd", "class"),
}
LONG = 1000  # numbers in one column, from which on they are probably a recording
_SPARSE = {"format", "shape", "data"}  # names that scipy.sparse.save_npz writes


def npy_scene(path: Path) -> ImageFile:
    """An array of a .npy file, mapped, as an image."""
    with _open(path, b"\x93NUMPY", "an .npy file"), reading(str(path), "an .npy file"):
        return scenes.scene_of(path, np.load(path, mmap_mode="r", allow_pickle=False))


def mat_scene(path: Path) -> ImageFile:
    """``X``, or the largest array of numbers, of a .mat file as an image."""
    return scenes.scene_among(path, arrays_of(path, ["y", *OTHERS["y"]])[0])


def npz_scene(path: Path) -> ImageFile:
    """``X``, or the largest array of numbers, of an .npz file as an image."""
    with _open(path, b"PK", "an .npz archive") as file, reading(str(path), "an .npz archive"):
        return _archive_scene(path, np.load(file, allow_pickle=False))


def hdf5_scene(path: Path) -> ImageFile:
    """``X``, or the largest array of numbers, of an HDF5 file as an image."""
    require("h5py", "omics", "reading .h5 files")
    import h5py

    with reading(str(path), "an HDF5 file"), h5py.File(path, "r") as file:
        return _archive_scene(path, Archive(path, file))


def _archive_scene(path: Path, archive: Any) -> ImageFile:
    """The scene of an archive of arrays, which are all read."""
    return scenes.scene_among(path, {name: _load(path, archive, name) for name in archive.files})


@reader(
    "npy",
    ".npy",
    help="an array, numbers (n, ...) or text of DNA (n,); images with --axes or --tile, recordings with --length",
    noun="an .npy file",
    options=tuple(dict.fromkeys((*OF_RECORDINGS, *scenes.OF_SCENES))),
    header=npy_scene,
    example="x.npy",
)
def read_npy(path: Path, request: DataOptions) -> FileContents:
    """An array, shape (n, ...), or strings of DNA, shape (n,), without labels."""
    request.check_no_table_options(str(path))
    if has_time(request):
        with _open(path, b"\x93NUMPY", "an .npy file"), reading(str(path), "an .npy file"):
            x = np.load(path, mmap_mode="r" if stay_on_disk([path], request) else None, allow_pickle=False)
        return samples_of(recordings_of(x, path.stem, None, None, str(path)), request, str(path))
    if scenes.is_scene(request) or request.channels:
        return read_file(path, request)
    with _open(path, b"\x93NUMPY", "an .npy file") as file, reading(str(path), "an .npy file"):
        mapped = map_array(path, 0, request)
        rows = np.load(file, allow_pickle=False) if mapped is None else mapped
    scenes.check_not_scene(path, rows.shape, rows.dtype, {}, request)
    return FileContents(_letters(rows, str(path), request))


@reader(
    "npz",
    ".npz",
    help="arrays X_train and X_test with y_train and y_test, or X with y; also as keras, MedMNIST and scipy name them",
    noun="an .npz file",
    options=(*OF_RECORDINGS, *scenes.OF_TILES),
    header=npz_scene,
    example="x.npz --modality series",
)
def read_npz(path: Path, request: DataOptions) -> FileContents:
    """``X_train`` and ``X_test``, or ``X``, numbers or strings of DNA; labels and ``feature_names``, if present."""
    if (tiles := scenes.read_tiles(path, request)) is not None:
        return tiles
    # The file is opened here because numpy does not close a damaged file.
    with _open(path, b"PK", "an .npz archive") as file:
        with reading(str(path), "an .npz archive"):
            archive = np.load(file, allow_pickle=False)
        sparse = set(archive.files) >= _SPARSE
        keys = names_of_arrays(path, [] if sparse else archive.files, request)
        if sparse:
            return _sparse(path)
        keys = _with_spectra(path, archive, keys, request)
        _check_not_scene(path, archive, keys, request)
        return _of_archive(path, archive, keys, request)


@reader(
    "hdf5",
    ".hdf5",
    help="arrays X with y, or X_train, X_test, ..., or the largest one; also .h5, in groups and as others name them",
    noun="an HDF5 file",
    extra="omics",
    recognizes=has_arrays,
    options=(*OF_RECORDINGS, *scenes.OF_TILES),
    header=hdf5_scene,
    example="images.h5",
)
def read_hdf5(path: Path, request: DataOptions) -> FileContents:
    """The arrays that `read_npz` takes; if none has such a name, the largest one."""
    require("h5py", "omics", "reading .h5 files")
    import h5py

    if (tiles := scenes.read_tiles(path, request)) is not None:
        return tiles

    with reading(str(path), "an HDF5 file"), h5py.File(path, "r") as file:
        archive = Archive(path, file)
        keys = names_of_arrays(path, archive.files, request)
        keys = _with_spectra(path, archive, keys, request)
        if not keys.keys() & {"X", "X_train", "X_test"}:
            keys["X"] = _largest(path, archive.stored)
        _check_not_scene(path, archive, keys, request)
        return _of_archive(path, archive, keys, request)


def _largest(path: Path, arrays: Mapping[str, Any]) -> str:
    """The name of the largest of the arrays of a file that have numbers."""
    sizes = {name: item.size for name, item in arrays.items() if item.dtype.kind in "biuf"}
    if not sizes:
        raise InputError(f"{path} has {name_list(list(arrays)) or 'no arrays'}, expected an array of numbers")
    found = max(sizes, key=sizes.__getitem__)
    say(f"{path}: {found} is read, the largest of {name_list(list(arrays))}")
    return found


def read_set(path: Path, files: Sequence[Path], request: DataOptions) -> FileContents:
    """The arrays of .npy files of a folder, by the names of the files, as those of an archive."""
    arrays = {}
    for file in files:
        with _open(file, b"\x93NUMPY", "an .npy file") as opened, reading(str(file), "an .npy file"):
            mapped = map_array(file, 0, request)
            arrays[file.stem] = np.load(opened, allow_pickle=False) if mapped is None else mapped
    archive = InMemory(arrays)
    return _of_archive(path, archive, names_of_arrays(path, archive.files, request), request)


def _of_archive(path: Path, archive: Any, keys: Mapping[str, str], request: DataOptions) -> FileContents:
    """The arrays of an archive, as recordings if options or a rate beside them say so."""
    name = keys.get("X_train" if keys.keys() >= {"X_train", "X_test"} else "X")
    told = request.modality is None and request.schema is None and name is not None
    axes = _axes(path, archive, str(name)) if told and rates_of(archive) else 0
    if axes == 2 and not has_time(request):
        say(f"{path}: {name} is read as rows of features; if it is recordings, with a rate: --modality series")
    if axes == 3:
        rate = rate_of(path, archive, request)
        if rate is not None:
            say(f"{path}: {name} is read as recordings of {rate:g} points per second; else give --modality")
        request = replace(request, modality="series")
    if has_time(request) or (request.modality == "series" and rates_of(archive)):
        return _recordings_of(path, archive, keys, request)
    return read_arrays(path, archive, keys, request)


def _axes(path: Path, archive: Any, name: str) -> int:
    """The number of axes of an array."""
    return len(_header(path, archive, name)[0])


def _header(path: Path, archive: Any, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array, of which a file has only its header read."""
    if isinstance(archive, Archive):
        return archive.stored[name].shape, archive.stored[name].dtype
    if hasattr(archive, "zip"):
        with reading(f"{name} in {path}", "an array"), archive.zip.open(f"{name}.npy") as file:
            if (header := _HEADERS.get(np.lib.format.read_magic(file))) is not None:
                shape, _, dtype = header(file)
                return shape, dtype
    found = np.asarray(archive[name])
    return found.shape, found.dtype


def _check_not_scene(path: Path, archive: Any, keys: Mapping[str, str], request: DataOptions) -> None:
    """`scenes.check_not_scene` of ``X`` of an archive, beside its arrays of two axes."""
    if "X" in keys and len((header := _header(path, archive, keys["X"]))[0]) == 3:
        maps = [name for name in archive.files if _header(path, archive, name)[0] == header[0][:2]]
        scenes.check_not_scene(path, *header, {name: _load(path, archive, name) for name in maps}, request)


def _recordings_of(path: Path, archive: Any, keys: Mapping[str, str], request: DataOptions) -> FileContents:
    """The arrays of an archive as recordings, with the rate that it has."""
    split = {"X_train", "X_test"} <= keys.keys()
    names = ("X_train", "X_test") if split else ("X",)
    arrays = {keys.get(name) or _largest(path, archive): name for name in names}
    _check_split(path, keys)
    rate = rate_of(path, archive, request)
    each: list[list[Recording]] = []
    for name, ours in arrays.items():
        label = keys.get(ours.replace("X", "y"))
        y = None if label is None else _load_labels(path, archive, label)
        x = _load_rows(path, archive, name, request)
        if request.stream and not isinstance(x, np.memmap):
            stay = "recordings stay in arrays of one piece (np.save, np.savez, HDF5 without chunks)"
            warn(f"{path}: {name} is read into memory, in spite of stream: {stay}")
        each.append(recordings_of(x, name, y, rate, str(path)))
    found = _grouped([*chain(*each)], path, archive, keys, request)
    return samples_of(found, request, str(path), n_train=len(each[0]) if split else None)


def _grouped(
    found: list[Recording], path: Path, archive: Any, keys: Mapping[str, str], request: DataOptions
) -> list[Recording]:
    """Recordings with their groups, if an array has them."""
    own = request.or_fitted("groups") == "recording" or request.labels is not None
    groups = None if own else _groups(path, archive, keys, request)
    if groups is None:
        return found
    if len(groups) != len(found):
        raise InputError(
            f"{path}: {request.or_fitted('groups')} has {len(groups):,} values for "
            f"{pluralize(len(found), 'recording')}, expected one for each"
        )
    return [replace(one, group=group) for one, group in zip(found, groups, strict=True)]


def read_arrays(path: Path, archive: Any, keys: Mapping[str, str], request: DataOptions) -> FileContents:
    """What is read of the arrays of an archive, of .npz or HDF5, of which `keys` has the names by ours."""
    if request.channels and request.or_fitted("modality") != "spectra":
        given = ",".join(request.channels)
        images = path.suffix == ".npz" and any(_axes(path, archive, name) == 4 for name in archive.files)
        way = "give --modality series for recordings, or leave channels out"
        if images and given.replace(",", "").isdecimal():
            way = command(path, named("channels"), key=given)
        raise InputError(f"{path} is read as samples, on which channels={one_line(given, 60)} has no effect: {way}")
    for label, rows in _LABELS_OF.items():
        if label in keys and rows not in keys:
            raise InputError(f"{path} has {keys[label]} without {rows}; expected X_train and X_test, or X")
    if keys.keys() & {"X_train", "X_test"}:
        _check_split(path, keys)
        found = _given_split(path, archive, keys, request)
    elif "X" in keys:
        x = _letters(_load_rows(path, archive, keys["X"], request), f"{keys['X']} in {path}", request)
        y = _load_labels(path, archive, keys["y"]) if "y" in keys else None
        if y is not None and isinstance(x, np.ndarray) and x.ndim == 2 and len(x) != len(y) == x.shape[1]:
            say(f"{path}: the columns of {keys['X']}, with as many as there are labels, are the samples")
            x = x.T
        found = FileContents(x, y)
    else:
        names_in_file = name_list(archive.files) or "no arrays"
        raise InputError(f"{path} has {names_in_file}; expected X_train and X_test (y_train, y_test), or X (y)")
    names = _feature_names(path, archive, found.x) if "feature_names" in keys else None
    groups = _groups(path, archive, keys, request)
    made = FileContents(found.x, found.y, found.n_train, names, groups=groups)
    if request.or_fitted("modality") != "spectra":
        return made
    read = {keys.get(each) for each in OTHERS}
    beside = [name for name in archive.files if AXIS_ARRAY.fullmatch(name) and name not in read]
    with reading(f"{name_list(beside)} in {path}", "an array"):
        axes = {name: array for name in beside if isinstance(array := archive[name], np.ndarray)}
    return spectra_of_arrays(made, axes, request, str(path))


def _with_spectra(path: Path, archive: Any, keys: Mapping[str, str], request: DataOptions) -> dict[str, str]:
    """Names of arrays; of spectra X is the largest array where that of this name is their axis, or there is none."""
    named = "X_train" in keys or ("X" in keys and _axes(path, archive, keys["X"]) > 1)
    if named or request.or_fitted("modality") != "spectra":
        return dict(keys)
    sizes = {name: np.size(archive[name]) for name in archive.files if _axes(path, archive, name) > 1}
    if not sizes:
        return dict(keys)
    found = max(sizes, key=sizes.__getitem__)
    say(f"{path}: {found} is read, the largest of {name_list(archive.files)}")
    return {ours: name for ours, name in keys.items() if name != found} | {"X": found}


def names_of_arrays(path: Path, names: Sequence[str], request: DataOptions) -> dict[str, str]:
    """Names of the arrays of an archive, by the name by which they are read; other names for the same are said, and
    what is neither read nor has the groups. Options of columns are refused, but for a label that is the name of y."""
    found, by_lower = {name: name for name in names}, {name.lower(): name for name in names}
    if len(names) == 1 and not by_lower.keys() & {own.lower() for own in OTHERS}:
        request.check_no_table_options(str(path), "labels are the array y")
        return {"X": names[0]}
    for own, others in OTHERS.items():
        if own not in found and (name := next((by_lower[o] for o in (own.lower(), *others) if o in by_lower), None)):
            found[own] = name
    request.check_no_table_options(str(path), "labels are the array y", found.get("y", found.get("y_train")))
    said = [f"{name} as {own}" for own, name in found.items() if name.lower() != own.lower()]
    if said and found.keys() & {"X", "X_train"}:
        used = {found.get(own) for own in (*OTHERS, "feature_names")}
        groups = request.or_fitted("groups")
        used |= {groups, f"{groups}_train", f"{groups}_test"}
        left = [name for name in names if name not in used and name.lower() not in RATES]
        said_of_left = f"; {name_list(left)} {'is' if len(left) == 1 else 'are'} not used" * bool(left)
        say(f"{path}: {', '.join(said)}{said_of_left}")
    return found


def _sparse(path: Path) -> FileContents:
    """Rows of a sparse matrix of scipy."""
    with reading(str(path), "a sparse matrix of scipy"):
        from scipy import sparse

        x = sparse.load_npz(path)
    check_size(4 * x.shape[0] * x.shape[1], f"{path}, {x.shape[0]:,} x {x.shape[1]:,} values,", "save fewer columns")
    return FileContents(x.astype(np.float32).toarray())


def _groups(path: Path, archive: Any, keys: Mapping[str, str], request: DataOptions) -> np.ndarray | None:
    """The array of groups: NAME_train followed by NAME_test, or NAME."""
    name = request.or_fitted("groups")
    if name is None:
        return None
    split = [f"{name}_train", f"{name}_test"]
    wanted = split if "X_train" in keys else [name]
    if not keys.keys() >= set(wanted):
        if request.groups is None:
            return None
        raise InputError(f"{path} has no {' and no '.join(wanted)}, given as groups; it has {name_list(sorted(keys))}")
    return np.concatenate([np.asarray(_load(path, archive, keys[key])) for key in wanted])


def _check_split(path: Path, keys: Mapping[str, str]) -> None:
    """Raise InputError for one part of a split alone, and warn of arrays beside it that are not used."""
    for one, other in (("X_train", "X_test"), ("X_test", "X_train"), ("y_train", "y_test"), ("y_test", "y_train")):
        if one in keys and other not in keys:
            hint = "; name the array X if there is no split" if one == "X_train" else ""
            raise InputError(f"{path} has {keys[one]} without {other}; expected both{hint}")
    if "X_train" in keys and (unused := [keys[key] for key in ("X", "y") if key in keys]):
        warn(
            f"{path} has X_train and X_test, which are used, and {' and '.join(unused)}, not used: leave out "
            "what is not meant"
        )


def _given_split(path: Path, archive: Any, keys: Mapping[str, str], request: DataOptions) -> FileContents:
    train, test = (_load_rows(path, archive, keys[key], request) for key in ("X_train", "X_test"))
    if _is_text(train) and _is_text(test) and len(train):
        # Padded together, so that both splits have the width of the longest sequence.
        letters = _letters(np.concatenate([train, test]), f"X_train, X_test in {path}", request)
        train, test = letters[: len(train)], letters[len(train) :]
    check_array(train, f"X_train in {path}")
    check_array(test, f"X_test in {path}")
    if train.shape[1:] != test.shape[1:]:
        raise InputError(
            f"{path}: a row is {train.shape[1:]} in X_train and {test.shape[1:]} in X_test; expected the same"
        )
    if dtype_on_disk(train.shape, train.dtype) != dtype_on_disk(test.shape, test.dtype):
        # Images and DNA are recognized by their dtype, so splits with different ones would be of different modalities.
        raise InputError(f"{path}: X_train is {train.dtype} and X_test is {test.dtype}; expected the same")
    y = None
    if "y_train" in keys:
        y_train, y_test = (_load_labels(path, archive, keys[key]) for key in ("y_train", "y_test"))
        for name, labels, rows in (("y_train", y_train, train), ("y_test", y_test, test)):
            if labels.shape != (len(rows),):
                raise InputError(f"{path}: {name} has shape {labels.shape}, expected one label per row, ({len(rows)},)")
        if (y_train.dtype.kind in "US") != (y_test.dtype.kind in "US"):
            raise InputError(f"{path}: y_train is {y_train.dtype} and y_test is {y_test.dtype}; expected the same")
        y = np.concatenate([y_train, y_test])
    return FileContents(_joined(train, test), y, n_train=len(train))


def _joined(train: np.ndarray, test: np.ndarray) -> AnyRows:
    """Both splits as one; vectors in a memory map stay there."""
    dtype = dtype_on_disk(train.shape, train.dtype)
    mapped = [None if dtype is None else as_source(rows, always=True, dtype=dtype) for rows in (train, test)]
    if mapped == [None, None]:
        return np.concatenate([train, test])
    return JoinedRows([mapped[0] or ArrayRows(train, dtype=dtype), mapped[1] or ArrayRows(test, dtype=dtype)])


def _is_text(x: np.ndarray) -> bool:
    return x.dtype.kind in "US" and x.ndim == 1


def _letters(x: np.ndarray, source_name: str, request: DataOptions) -> np.ndarray:
    """Rows of letters of the alphabet of the texts, or of the given modality."""
    if not _is_text(x):
        return x
    return letter_rows(x, source_name, alphabet_given(request) or alphabet_of_texts(x.tolist()))


def _check_unpacked(path: Path, archive: Any, key: str) -> None:
    """Raise InputError for a compressed array, of a file of any size, that is larger than the memory."""
    stored, limit = getattr(archive, "zip", None), memory_limit()
    if stored is None or limit is None or f"{key}.npy" not in stored.namelist():
        return
    size = stored.getinfo(f"{key}.npy").file_size
    if size > 2 * limit:
        raise InputError(
            f"{key} in {path} unpacks to {size / 2**30:,.1f} GiB, more than the memory of this machine: save fewer rows"
        )


def _load(path: Path, archive: Any, key: str) -> np.ndarray:
    _check_unpacked(path, archive, key)
    with reading(f"{key} in {path}", "an array"):
        array = archive[key]
        if not isinstance(array, np.ndarray):
            raise ValueError(f"{key} is not an array")
    return array


def _load_labels(path: Path, archive: Any, key: str) -> np.ndarray:
    """An array of labels; one column of them is one label per row."""
    labels = _load(path, archive, key)
    return labels.reshape(-1) if labels.ndim > 1 and labels.size == len(labels) else labels


def _load_rows(path: Path, archive: Any, key: str, request: DataOptions) -> np.ndarray:
    """An array of rows, mapped if it is large and not compressed."""
    if not hasattr(archive, "zip"):
        return archive.rows(key, request)
    with reading(f"{key} in {path}", "an array"):
        info = archive.zip.getinfo(f"{key}.npy")
        if info.compress_type == zipfile.ZIP_STORED:
            with path.open("rb") as file:
                file.seek(info.header_offset)
                header = file.read(_ZIP_HEADER)
            # Lengths of name and extra field, after which the member begins.
            start = info.header_offset + _ZIP_HEADER + sum(struct.unpack("<HH", header[26:30]))
            mapped = map_array(path, start, request)
            if mapped is not None:
                return mapped
    return _load(path, archive, key)


def map_array(path: Path, start: int, request: DataOptions) -> np.ndarray | None:
    """The numpy array at a position of a file, mapped; None if it is small, text, objects or in Fortran order."""
    with path.open("rb") as file:
        file.seek(start)
        version = np.lib.format.read_magic(file)
        if version not in _HEADERS:
            return None
        shape, fortran, dtype = _HEADERS[version](file)
        as_stored = dtype_on_disk(shape, dtype) or np.float32
        if fortran or dtype.kind not in "biuf" or 0 in shape or not request.maps(shape, as_stored):
            return None
        # Not writing through: changes stay in memory.
        return np.memmap(path, dtype, "c", file.tell(), shape)


def _feature_names(path: Path, archive: Any, x: AnyRows) -> list[str] | None:
    try:
        names = _load(path, archive, "feature_names")
    except InputError:
        names = np.empty(0)
    if x.ndim == 2 and names.shape == (x.shape[1],) and names.dtype.kind in "US":
        return [str(name) for name in (np.char.decode(names, "utf-8", "replace") if names.dtype.kind == "S" else names)]
    warn(f"{path}: feature_names does not have one string per column and is ignored (save np.array(names, dtype=str))")
    return None


def _open(path: Path, start: bytes, kind: str) -> BinaryIO:
    # For a file with another start numpy raises a misleading error about pickles.
    with reading(str(path), kind):
        file = path.open("rb")
    found = file.read(len(start))
    if found != start:
        file.close()
        raise InputError(f"{path} is {'empty' if not found else f'not {kind}'}; expected {kind} written by numpy")
    file.seek(0)
    return file


def read_builtin(name: str, request: DataOptions) -> FileContents:
    """Vectors and classes of one of `BUILTIN`."""
    request.check_no_table_options(name)
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    return FileContents(bunch.data, bunch.target, names=list(map(str, bunch.feature_names)), modality="vectors")


@reader(
    "mat",
    ".mat",
    help="arrays of MATLAB: X with y, or the largest one; with --modality series or --length recordings",
    noun="a .mat file",
    options=tuple(dict.fromkeys((*OPTIONS[:-1], *scenes.OF_SCENES))),
    header=mat_scene,
    example="emg.mat --length 2s --rate 1000",
)
def read_mat(path: Path, request: DataOptions) -> FileContents:
    """The arrays that `read_npz` takes, or the largest one of numbers; a cell array of recordings (channels, time)."""
    if scenes.is_scene(request) and not has_time(request):
        request.check_no_table_options(str(path), "labels are the array y")
        return read_file(path, request)
    arrays, numbers, cells = arrays_of(path, ["y", *OTHERS["y"]])
    if (cube := scenes.unfolded(numbers)) is not None and not has_time(request):
        scenes.check_not_scene(path, cube.shape, cube.dtype, numbers, request, unfolded=True)
    keys = names_of_arrays(path, list(arrays), request)
    of_spectra = request.or_fitted("modality") == "spectra"
    if of_spectra and "y" in keys and min(arrays[keys["y"]].shape, default=0) > 1:  # spectra over x
        del keys["y"]
    each = (*_LABELS_OF, "feature_names", request.or_fitted("groups"))
    flat = {keys[key]: _flat(arrays[keys[key]]) for key in each if key in keys}
    archive = InMemory(numbers | cells | flat)
    large = {name: value for name, value in (numbers | cells).items() if name not in flat and value.size > 1}
    if structs := [name for name, value in arrays.items() if value.dtype.names and not large]:
        fields = name_list(list(arrays[structs[0]].dtype.names or ()))
        raise InputError(
            f"{path} has the struct {structs[0]} with {fields}, and others, expected an array: save its field alone, "
            f"X = cat(1, {structs[0]}.FIELD); save('x.mat', 'X')"
        )
    if (x := arrays.get(keys.get("X", ""))) is not None and x.dtype.kind == "c":
        raise InputError(f"{path}: {keys['X']} is complex, expected numbers: split it into real and imaginary part")
    if not large:
        raise InputError(f"{path} has {name_list(list(arrays)) or 'nothing'}, expected an array of numbers, such as X")
    if keys.keys() & {"X_train", "X_test"}:
        return _of_archive(path, archive, keys, request)
    named = keys.get("X") in large and not (of_spectra and min(large[keys["X"]].shape) == 1 < len(large))
    name = keys["X"] if named else max(large, key=lambda each: _size(large[each]))
    if len(large) > 1 and keys.get("X") != name and channels_of(numbers) is None:
        say(f"{path}: {name} is read, the largest of {name_list(list(large))}")
    x, y = large[name], flat.get(keys.get("y", ""))
    if y is not None and x.ndim > 2 and len(x) != len(y) == x.shape[-1]:
        x = np.moveaxis(x, -1, 0)
        say(f"{path}: the last axis of {name}, with as many as there are labels, has the samples")
    cut = request.length is not None or bool((request.schema or {}).get("signal"))
    of_time = name in cells or request.modality == "series" or cut
    may_be = not of_spectra and request.modality is None and (x.ndim == 3 or (x.ndim == 2 and y is None))
    rate = rate_of(path, numbers, request) if of_time or may_be else None
    if not of_time:
        if rate is None:
            x = x.reshape(len(x), -1) if x.ndim == 3 and x.shape[1] == 1 else x  # rows of structs
            scenes.check_not_scene(path, x.shape, x.dtype, numbers, request)
            if may_be and x.ndim == 2 and min(x.shape) == 1 and x.size >= LONG:
                warn(
                    f"{path}: {name} has {x.size:,} numbers, each taken as a row or feature: --modality series "
                    "--rate 250 --length 2s takes them as a recording"
                )
            return read_arrays(path, InMemory({**archive, name: x}), keys | {"X": name}, request)
        say(f"{path}: {name} is read as recordings of {rate:g} points per second; else give --modality")
    if y is None and not named and (several := channels_of(numbers)) is not None and len(several[0][0]) == x.size:
        say(f"{path}: the channels are {name_list(several[1])}")
        found = [Recording(several[0].astype(np.float32), path.stem, rate, several[1])]
    else:
        found = recordings_of(x, name, y, rate, str(path))
    return samples_of(_grouped(found, path, archive, keys, request), request, str(path))


class InMemory(dict[str, np.ndarray]):
    """Arrays by name, as an archive."""

    @property
    def files(self) -> list[str]:
        """The names."""
        return list(self)

    def rows(self, name: str, request: DataOptions) -> np.ndarray:
        """The array of a name."""
        return self[name]


def _flat(value: np.ndarray) -> np.ndarray:
    """Labels or names of MATLAB, a row, a column or a cell array of them, (n,)."""
    flat = value.ravel()
    return flat if flat.dtype.kind != "O" else np.array([str(np.asarray(each).ravel()[0]) for each in flat])


def _size(value: np.ndarray) -> int:
    return sum(each.size for each in value) if value.dtype.kind == "O" else value.size
