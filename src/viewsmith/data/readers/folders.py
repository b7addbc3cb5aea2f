"""Reader of folders of image files, whose subfolders are the labels; decoded once, into a mapped file."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import filterfalse
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, name_list, one_line, pluralize, require, say, warn
from viewsmith.core.files import digest_of, read_json, read_mapped, write_json_atomic, write_mapped
from viewsmith.data.damaged import Damaged, Unreadable, without_damaged
from viewsmith.data.decoding import (
    GRAY,
    LOOKED_AT,
    InColor,
    check_headers,
    decoded,
    decoded_gray,
    filled,
    refuse_colored,
)
from viewsmith.data.image_files import (
    OPTIONS,
    Stack,
    channels_hint,
    channels_joined,
    contents_of,
    in_memory,
    is_deep,
    stack_of,
)
from viewsmith.data.label_tables import (
    check_named,
    column_of,
    is_submission,
    parts_that_recur,
    read_table,
    table_of_names,
    table_options,
)
from viewsmith.data.labels import missing_labels
from viewsmith.data.options import DataOptions
from viewsmith.data.places import ARRAYS, SUFFIXES, TABLES, VALIDATION, extension_of, is_result
from viewsmith.data.readers.instruments import refuse_waveforms
from viewsmith.data.reading import Claims, FileContents, by_ending, reader, reading
from viewsmith.data.tiles import check_several, check_tiled, tiled
from viewsmith.data.unread import beside_images, of_temperatures, refuse_folder
from viewsmith.modalities.images.modality import Images

Errors = Mapping[Path, Unreadable]  # of files that are left out


class ImageCache:
    """The decoded images of one folder, read with the same options."""

    def __init__(self, place: Path, source: Path, files: list[Path], options: dict[str, Any], left_out: Errors) -> None:
        whole = source.resolve()
        key = hashlib.sha256(json.dumps([str(whole), options], sort_keys=True).encode("utf-8", "surrogateescape"))
        self.source, name = source, f"{whole.name[:64] or 'images'}-{key.hexdigest()[:12]}"
        self.pixels, self.record = place / f"{name}.npy", place / f"{name}.json"
        self.side: int | None = options["side"]  # to which they are resized
        self._digest, self._files = _digest(source, files), {_name(file, source): file for file in files}
        self._left_out = {_name(file, source): error.reason for file, error in left_out.items()}

    def read(self) -> np.ndarray | None:
        """The images, mapped, if they were decoded and the folder has the same files since; else None, with
        a warning."""
        try:
            record = read_json(self.record)
            known, digest, self.side = record["files"], record["digest"], record["side"]
            without = record["left_out"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if known != self._digest:
            warn(
                f"{self.source} has other files than when its images were decoded (names, sizes or dates): they are "
                "decoded again"
            )
            return None
        if without.keys() != self._left_out.keys():  # those that were damaged when the images were decoded
            unreadable = {self._files[name]: Unreadable(f"{name}: {why}", why) for name, why in without.items()}
            raise Damaged(f"{self.source} has damaged files: {name_list(list(without))}", unreadable)
        try:
            if digest_of(self.pixels) != digest:
                raise ValueError("the content does not match its digest")
            return read_mapped(self.pixels)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"the decoded images {self.pixels} are damaged ({error}): delete this file") from error

    def read_or_write(self, images: Iterable[np.ndarray], shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Decode the images into the file, unless another process has done so meanwhile, and map it."""
        with Claims(self.pixels.parent / "claims").hold(self.pixels.stem, wait=True), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the folder has changed was said before
            known = self.read()
            return self.write(images, shape, dtype) if known is None else known

    def write(self, images: Iterable[np.ndarray], shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Decode the images into the file, and map it."""
        self.pixels.parent.mkdir(parents=True, exist_ok=True)
        self.record.unlink(missing_ok=True)
        write_mapped((image[None] for image in images), shape, self.pixels, dtype)
        record: dict[str, Any] = {"source": str(self.source), "files": self._digest, "shape": list(shape)}
        record |= {"side": self.side, "left_out": self._left_out, "digest": digest_of(self.pixels)}
        write_json_atomic(self.record, record)
        return read_mapped(self.pixels)


def _digest(source: Path, files: list[Path]) -> str:
    """Digest of names, sizes and dates of the files."""
    digest = hashlib.sha256()
    for file in files:
        found = file.stat()
        line = f"{_name(file, source)}\0{found.st_size}\0{found.st_mtime_ns}\n"
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


READ = (*SUFFIXES, *ARRAYS)  # endings of the files of images in folders
#: Training and Testing, train2017 and val2017, train_set: folders of a split as train, test and val.
SPLITS = re.compile(r"^(train|test|val|valid)(?:ing|idation)?(?:[ _-]?(?:set|data|images|\d{4}))?$")
PART = re.compile(r"(.+[_ -])(train|test|val|valid)(?:ing|idation)?([_ -].*)?")  # ISIC_2019_Training_Input
_LAYOUT = "FOLDER/CLASS/*.png, FOLDER/train/CLASS/*.png with FOLDER/test/CLASS/*.png, or FOLDER/*.png"


#: The name of groups that are folders of images, and folders of persons.
OF_FOLDERS = "folder"
_PERSON = re.compile(r"(?i)(patient|pat|subject|subj?|person|participant|case|donor|animal|mouse)[\W_]*\w*\d+")

#: Small copies that ImageXpress writes beside its images.
_THUMBNAIL = re.compile(r"_thumb[0-9A-Fa-f]{8}-[0-9A-Fa-f-]{27}\.")


@dataclass
class _Images:
    """Image files in order, their labels (if there are class folders), and ignored entries."""

    files: list[Path] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    ignored: list[Path] = field(default_factory=list)


@reader(
    "images",
    in_folders=SUFFIXES,
    help="a folder of image files, or of folders of them, which are the labels",
    noun="a folder of images",
    modality="images",
    options=("cache", *OPTIONS),
    extra="image",
    example="photos/ --image-size 64",
)
def read_folder(path: Path, request: DataOptions) -> FileContents:
    """Images in the order of their names: of 8 bits (n, H, W, 1), or (n, H, W, 3) if any is in color; or those of
    instruments, uint8, uint16 or float32 (n, H, W, C)."""
    require("pillow", "image", "reading folders of images")
    if path.is_file():
        root, images, n_train = path.parent, _Images(_listed(path, request.encoding)), None
        request = replace(request, labels=request.labels or path)
    else:
        check_named(request)
        with reading(str(path), "a folder of images"):
            root, (images, n_train) = path, _list_images(path)
    if not images.files:
        deeper = image_files(path)
        if len({file.parent.parent for file in deeper}) > 1:
            raise InputError(
                f"{path} has its {pluralize(len(deeper), 'image')} deeper than in folders of classes "
                f"({one_line(_name(deeper[0], path), 60)}): give a table with a column of their paths "
                f"(viewsmith fit images.csv --modality images), or put them into {_LAYOUT}"
            )
        refuse_folder(path, by_ending())
        raise InputError(f"{path} is a folder without images ({' '.join(SUFFIXES)}); expected {_LAYOUT}")
    if request.or_fitted("label") or request.or_fitted("groups"):  # their table is read
        images.ignored = [
            entry
            for entry in images.ignored
            if (entry.suffix not in (".csv", ".jsonl") or is_submission(entry))
            if request.labels is None or entry.resolve() != request.labels.resolve()
        ]
    if images.ignored:
        names = [str(entry.relative_to(path)) for entry in images.ignored]
        listed = [each for each in images.ignored if each.suffix.lower() in (*TABLES, ".jsonl")]
        some = [entry for entry in listed if not is_submission(entry)]
        table = min(some, key=lambda entry: not entry.name.lower().startswith("train"), default=None)
        of_labels = table is not None and request.label is None and request.schema is None
        beside = beside_images(path) if request.schema is None and request.masks is None else ""
        way = f"--labels {table} " if table is not None and table.parent == path else ""  # others are found
        warn(
            f"{path}: {pluralize(len(names), 'entry that is not an image', 'entries that are not images')}, ignored: "
            f"{name_list(names)}"
            + (beside or (f"; a table of labels is given by {way}--label COLUMN" if of_labels else ""))
        )
    given = request.labels if request.schema is None and request.masks is None and path.is_dir() else None
    if given is not None and (boxes := beside_images(path, given)):
        warn(f"{given}: whole images are the samples{boxes}")
    if request.schema is None and (hidden := of_temperatures(images.files, path)):
        warn(hidden)
    if request.schema is None and len(set(images.labels)) == 1:
        images.labels = []  # a folder of one folder says nothing of its images
    refuse_waveforms(path, images.files)
    return without_damaged(images.files, partial(_contents, path, root, images, n_train, request), path)


def _contents(
    path: Path, root: Path, images: _Images, n_train: int | None, request: DataOptions, left_out: Errors
) -> FileContents:
    """What a folder of these images has, without files that are left out."""
    size, all_files, labels = request.or_fitted("image_size"), images.files, images.labels
    names = [_name(file, root) for file in all_files]
    check_tiled(request)
    side, pattern = request.or_fitted("tile") or request.masks is not None, request.channel_files
    pattern = pattern or (request.schema or {}).get("signal", {}).get("channel_files")
    files: Sequence[Any] = images.files
    if pattern:
        files, names, kept = channels_joined(all_files, names, pattern, str(path), left_out)
    else:
        kept = [i for i, file in enumerate(all_files) if file not in left_out]
        files, names = [all_files[i] for i in kept], [names[i] for i in kept]
    labels = [labels[i] for i in kept] if labels else []
    if pattern and len(set(labels)) == len(labels):
        labels = []  # a folder for the channels of each image is no class
    n_train = None if n_train is None else sum(i < n_train for i in kept)
    if request.schema is None and not side:
        if not pattern:
            _check_masks(path, labels)
        if len(files) == 1:
            check_several(path, stack_of(files, request, size))
    wanted = request.or_fitted("label") or request.or_fitted("groups") not in (None, OF_FOLDERS)
    of_channels = [file.path.name for file in files] if pattern else []
    table = table_of_names(names, request, path, of_channels) if wanted else None
    y, groups = _labels(path, labels, request, table)
    if not wanted and y is request.schema is None and not side and not pattern and (hint := parts_that_recur(names)):
        say(f"{path}: {hint}")
    if table is not None and y is not None and n_train is not None and missing_labels(y[n_train:]).all():
        if request.schema is None:
            say(
                f"{path}: no image of its test folder has a label: a fifth of the labeled ones is held out in its place"
            )
        n_train = None
    if request.axes or request.channels or request.level or side or pattern or is_deep(all_files[kept[0]]):
        stack = stack_of(files, request, size, any_size=bool(side))
        if request.schema is None:
            hint = "" if pattern or stack.shape[3] > 1 else channels_hint(names)
            large = not side and min(stack.shape[1:3]) >= LARGE
            hint += "; parts of them as samples: --tile 128; at a smaller size: --image-size 128" if large else ""
            say(stack.described(path) + hint)
            if not side and size is None and any(file.slide and min(file.sides) >= LARGE for file in stack.files):
                raise InputError(
                    f"{path} has whole slides, expected images of one thing each: cut them into tiles (--tile 256), "
                    "or give the side to which they are resized as a whole (--image-size 128)"
                )
        if side:
            more = {"y": y, "groups": groups, "table": table_options(request)}
            return tiled(stack, request, names, str(path), n_train, path, of_images=table is not None, **more)
        each = np.repeat(np.arange(len(names)), [file.count for file in stack.files])
        of_file = {"y": y, "groups": groups}
        found = {name: None if values is None else values[each] for name, values in of_file.items()}
        train = None if n_train is None else int((each < n_train).sum())
        cached = request.cache is not None or request.cache_if_large is not None
        x = _cached(path, all_files, stack, request, left_out) if cached else in_memory(stack, str(path))
        return contents_of(stack, x, request, names, n_train=train, table=table_options(request), **found)
    fitted = request.schema["row_shape"] if request.schema else []
    x, size = _pixels(path, all_files, size, fitted[2:], request, left_out)
    options = {} if size is None else {"image_size": size}
    return FileContents(
        x, y, n_train, options=options, row_names=names, modality="images", groups=groups, table=table_options(request)
    )


LOOSE = 50  # images in class folders for each one beside these that is left out
LARGE = 512  # pixels of a side, from which on a whole image is rarely one sample, and takes seconds

#: Names of folders of pictures that say what is in the images beside them, pixel by pixel.
_PICTURES = {"image", "images", "imgs"}  # folders whose name is no class
_MASKS = {"mask", "masks", "label", "labels", "annotations", "segmentations"}


MASK_OF = re.compile(r"(.+?)[ _-](?:mask|masks|gt|seg|segmentation|annotation)(?:[ _-]?\d+)?", re.IGNORECASE)
EXACT, PAIRED = (".png", ".bmp", ".gif", ".tif", ".tiff"), 0.9  # files of masks; part of the files that are pairs
COLORS = 64  # of a mask, at most


def _check_masks(path: Path, labels: Sequence[str]) -> None:
    """Raise InputError for a folder of images and one of their masks, which would be read as two classes."""
    found = sorted(set(labels))
    masks = [name for name in found if name.lower() in _MASKS]
    if len(found) == 2 and len(masks) == 1:
        (images,) = set(found) - set(masks)
        raise InputError(
            f"{path} has the folders {images} and {masks[0]}, which would be two classes of samples: give "
            f"{path / images}"
        )


def _name(file: Path, root: Path) -> str:
    """Name of a file in its folder."""
    return Path(os.path.relpath(file, root)).as_posix()


def _listed(table: Path, encoding: str | None) -> list[Path]:
    """The image files of a table, in its first column with names of files that all exist, from its folder."""
    frame = read_table(table, encoding)
    for column in frame.columns:
        files = [table.parent / str(name) for name in frame[column]]
        if files and all(extension_of(file).lower() in SUFFIXES for file in files):
            if absent := [file for file in files if not file.is_file()]:
                raise InputError(
                    f"{table}: {pluralize(len(absent), 'file')} of the column {one_line(column, 40)} "
                    f"{'does' if len(absent) == 1 else 'do'} not exist, such as {absent[0]}: names are from the folder "
                    "of the table"
                )
            return files
    raise InputError(f"{table} has no column with names of image files ({' '.join(SUFFIXES)}) in every row")


def _labels(
    path: Path, of_folders: list[str], request: DataOptions, table: Any
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Labels and groups of files: columns of a table of their names, if they are named; else the names of folders, as
    labels, or as groups by the name `OF_FOLDERS`."""
    y = np.array(of_folders, dtype=np.str_) if of_folders else None
    replace(request, label=None).check_no_table_options(str(path))
    by_folder = request.or_fitted("groups") == OF_FOLDERS and OF_FOLDERS not in (() if table is None else table)
    if y is not None and by_folder:
        return (column_of(table, "label", request, str(path)) if request.or_fitted("label") else None), y
    if y is not None and request.schema is request.groups is None and all(map(_PERSON.fullmatch, of_folders)):
        say(f"{path}: folders such as {of_folders[0]} are labels; if they are of persons: --groups {OF_FOLDERS}")
    if table is None and request.masks is not None:  # it may be one of the objects
        return y, None
    own = request.few_labels and request.or_fitted("label") == "y"
    found = None if own else column_of(table, "label", request, str(path))
    return (y if found is None else found), column_of(table, "groups", request, str(path))


def _cached(path: Path, files: list[Path], stack: Stack, request: DataOptions, left_out: Errors) -> np.ndarray:
    """The images of a stack, decoded once into a cache if they are large."""
    place = request.cache or request.cache_if_large
    assert place is not None
    given = {"side": stack.side, "channels": request.channels, "axes": request.axes, "dtype": stack.dtype.name}
    given |= {"level": request.level} if request.level else {}
    given |= {"channel_files": request.channel_files} if request.channel_files else {}
    cache = ImageCache(place, path, files, given, left_out)
    if (known := cache.read()) is not None:
        return known
    if request.cache is None and not request.maps(stack.shape, stack.dtype):
        return in_memory(stack, str(path))
    return cache.read_or_write(stack.images(), stack.shape, stack.dtype)


def _pixels(
    path: Path, files: list[Path], side: int | None, channels: list[int], request: DataOptions, left_out: Errors
) -> tuple[np.ndarray, int | None]:
    """Pixels of all files but those left out, of the channels of the run if there is one, in memory, or decoded once
    into a cache; and the side to which they are resized."""
    fitted, place = request.schema is not None, request.cache or request.cache_if_large
    color, gray = channels == [3], channels == [1]
    cache = None if place is None else ImageCache(place, path, files, {"side": side, "color": color}, left_out)
    if cache is not None and (known := cache.read()) is not None:
        return known, cache.side
    files = [file for file in files if file not in left_out]
    shape, side = check_headers(files, side, color, str(path), fitted=fitted)

    def stored(images: Iterable[np.ndarray], channels: int) -> np.ndarray:
        of_images = (*shape[:3], channels)
        if cache is None or (request.cache is None and not request.maps(of_images, Images.samples.dtype)):
            return filled(images, of_images)
        cache.side = side
        return cache.read_or_write(images, of_images, Images.samples.dtype)

    if shape[3] == 3 and not color:
        with contextlib.suppress(InColor):
            x = stored(decoded_gray(files, shape, side), 1)
            if not fitted:
                say(f"{path}: images in color whose channels are equal, read as gray")
            return x, side
        if gray:
            refuse_colored(files, path)
    return stored(decoded(files, shape, side), shape[3]), side


def _list_images(root: Path) -> tuple[_Images, int | None]:
    """All images in a folder, and the number of train images if there are folders train and test."""
    folders = _split_folders(root)
    validation = next((folders[name] for name in VALIDATION if name in folders), None)
    if validation is not None and "train" in folders:
        taken = "left out: the split is that of train and test" if "test" in folders else "taken for the test split"
        warn(f"{root}: {validation.name} is {taken}")
        folders.setdefault("test", validation)
    if not {"train", "test"} <= folders.keys():
        for name, other in (("train", "test"), ("test", "train")):
            # If it has class folders, or is the only folder, it is one part of a split, not a class with this name.
            if name in folders and (len(folders) == 1 or not _entries(folders[name])[0]):
                raise InputError(f"{root} has {folders[name].name} without {other}; expected both, or class folders")
        return _labeled(root), None
    train, test = _labeled(folders["train"]), _labeled(folders["test"])
    for split, images in (("train", train), ("test", test)):
        if not images.files:
            beside = folders["train" if split == "test" else "test"]
            raise InputError(f"{folders[split]} is a folder without images; expected {_LAYOUT}; or give {beside} alone")
    if bool(train.labels) != bool(test.labels):
        with_labels, without = ("train", "test") if train.labels else ("test", "train")
        raise InputError(
            f"{folders[without]} has no class folders, but the other split of {root} has; expected them in both, or "
            f"give {folders[with_labels]} alone"
        )
    loose, others, rest = _entries(root)
    used = (folders["train"], folders["test"], validation)
    ignored = loose + [folder for folder in others if folder not in used] + rest
    merged = _Images(train.files + test.files, train.labels + test.labels, ignored + train.ignored + test.ignored)
    return merged, len(train.files)


def _split_folders(root: Path) -> dict[str, Path]:
    """The folders in a folder by their names, those of a split as train, test and val; Training beside Cycling, both
    with images, is a class."""
    inner = _entries(root)[1]
    found = {folder.name.lower(): folder for folder in inner}
    of_parts = {name: each for name in found if (each := PART.fullmatch(name)) is not None}
    if len(found) > 1 and len(of_parts) == len(found) and len({(e[1], e[3]) for e in of_parts.values()}) == 1:
        return {each[2]: found[name] for name, each in of_parts.items()}
    named = {name: key for name in found if (key := SPLITS.sub(r"\1", name)) not in found}
    verbs, others = named.keys() & {"training", "testing"}, [*filterfalse(SPLITS.match, found)]
    if all(any(_entries(found[name])[0] for name in names) for names in (verbs, others)):
        return found
    for key in dict.fromkeys(named.values()):
        several = [name for name in named if named[name] == key]
        if len(several) > 1:
            folders = name_list([found[name].name for name in several])
            raise InputError(f"{root} has several folders for {key}, {folders}: expected one; move them into one")
        found[key] = found.pop(several[0])
    return found


def _labeled(folder: Path) -> _Images:
    """The images of class folders with their labels, or the images in the folder itself without labels."""
    loose, classes, other = _entries(folder)
    if not loose and len(classes) == 1 and classes[0].name.lower() in _PICTURES:
        folder = classes[0]
        loose, classes, rest = _entries(folder)
        other += rest
    found, entries = _Images(ignored=other), {inner: _entries(inner) for inner in classes}
    names = {tuple(each.name for each in deeper) for files, deeper, _ in entries.values()}
    if len(names) == 1 == len(min(names)) and not any(files for files, *_ in entries.values()):
        entries = {inner: _entries(deeper[0]) for inner, (_, deeper, _) in entries.items()}  # CLASS/images/*.png
    for inner, (files, deeper, rest) in entries.items():
        found.files += files
        found.labels += [inner.name] * len(files)
        found.ignored += (deeper + rest) if files else [inner]
    if 0 < LOOSE * len(loose) <= len(found.files):  # pictures of a description of the data
        named = name_list([file.name for file in loose])
        warn(f"{folder}: {pluralize(len(loose), 'image')} beside the class folders, left out: {named}")
        loose = []
    if loose and found.files:
        raise InputError(
            f"{folder} has both images ({loose[0].name}) and class folders ({found.labels[0]}), expected only one of "
            "these: move the images into a class folder, or out"
        )
    found.files += loose
    if masks := _masks_beside(found.files, folder):
        kept = [i for i, file in enumerate(found.files) if file not in masks]
        found.files = [found.files[i] for i in kept]
        found.labels = [found.labels[i] for i in kept] if found.labels else []
    return found


def _masks_beside(files: Sequence[Path], folder: Path) -> set[Path]:
    """Files that are masks of others beside them, with a warning: ``x_mask.png`` of x, or, if nearly all are such
    pairs and some of them look so, ``x.png`` of ``x.jpg``, whose pixels are not exact."""
    stems = {file.with_suffix("") for file in files}
    masks = {
        file
        for file in files
        if (found := MASK_OF.fullmatch(file.stem)) is not None and file.with_name(found[1]) in stems
    }
    photos = {file.with_suffix(""): file for file in files if file.suffix.lower() in (".jpg", ".jpeg")}
    pairs = [file for file in files if file.suffix.lower() in EXACT and file.with_suffix("") in photos]
    if 2 * len(pairs) >= PAIRED * len(files):
        some = pairs[:: -(-len(pairs) // LOOKED_AT)] if pairs else []
        masks |= {*pairs} if all(_looks_masked(file, photos[file.with_suffix("")]) for file in some) else set()
    if masks:
        named = f"{pluralize(len(masks), 'image')} with the name of another one beside, left out as its mask"
        warn(f"{folder}: {named}: {name_list(sorted(file.name for file in masks))}")
    return masks


def _looks_masked(file: Path, photo: Path) -> bool:
    """Whether an image may be a mask of another one: of its size, with few colors, or gray where that is in color."""
    from PIL import Image

    with contextlib.suppress(InputError), reading(str(file), "an image"), Image.open(file) as mask:
        with Image.open(photo) as image:
            sizes = {image.size, image.size[::-1]}
        return mask.size in sizes and (
            mask.getcolors(COLORS) is not None or (mask.mode in GRAY and image.mode not in GRAY)
        )
    return True  # a damaged file, which is named later


def image_files(root: Path) -> list[Path]:
    """All image files in a folder and its folders, by name, without hidden entries and results (`is_result`)."""
    found, results = [], []
    for place, inner, names in os.walk(root):
        results += [Path(place) / name for name in inner if is_result(Path(place) / name)]
        inner[:] = [name for name in inner if not (name.startswith(".") or Path(place) / name in results)]
        files = [Path(place) / name for name in names if not (name.startswith(".") or _THUMBNAIL.search(name))]
        found += [file for file in files if extension_of(file).lower() in READ]
    if results:
        names = [str(folder.relative_to(root)) for folder in results]
        warn(f"{root} has results, whose images are not samples, ignored: {name_list(sorted(names))}")
    masks = [file for file in found if file.parent != root and file.parent.name.lower() in _MASKS]
    if 0 < len(masks) < len(found):
        warn(f"{root}: {pluralize(len(masks), 'image')} in folders of masks ({masks[0].parent.name}), left out")
        found = sorted(set(found) - set(masks))
    return sorted(set(found) - _masks_beside(found, root))


def _entries(folder: Path) -> tuple[list[Path], list[Path], list[Path]]:
    """Image files, folders and other files of a folder, each sorted by name, without hidden entries."""
    images, folders, other = list[Path](), list[Path](), list[Path]()
    for entry in sorted(folder.iterdir(), key=lambda path: path.name):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            (other if is_result(entry) else folders).append(entry)
        else:
            readable = entry.is_file() or not entry.exists()  # a broken link is an error, a pipe would be waited for
            is_image = extension_of(entry).lower() in READ and readable and not _THUMBNAIL.search(entry.name)
            (images if is_image else other).append(entry)
    return images, folders, other
