"""Which reader takes a file or a folder.

A reader is a part of the registry: a function of a path and `DataOptions` that returns `FileContents`. It says which
endings of files it reads, alone or as samples of a folder, and what it needs.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from viewsmith.core.errors import InputError, one_line
from viewsmith.core.registry import LATER, Entry, entries, find, register
from viewsmith.data.options import DataOptions
from viewsmith.data.places import BUILTIN, PACKED, TEXT_TABLES, check_source, extension_of, file_of, is_result
from viewsmith.data.unread import MOST_FILES, advice, refuse


def planes_of(image: Any) -> int:
    """Number of planes of an opened image that its pixels, as Pillow gives them, do not show: pages, or channels that
    are no colors; 1 if they show all."""
    # MPO is a photo with a preview; other formats with several frames are animations or have several pages.
    pages = getattr(image, "n_frames", 1) if image.format != "MPO" else 1
    if pages > 1:
        return int(pages)
    stored = int(getattr(image, "tag_v2", {}).get(277, 1))  # SamplesPerPixel of TIFF
    return stored if stored > len(image.getbands()) else 1


def deep(image: Any) -> str:
    """What an opened image has in place of 8 bits per channel, "" if it has these."""
    stored = image.tile[0][3] if image.tile else ""
    stored = str(stored[0] if isinstance(stored, tuple) and stored else stored)
    if image.mode == "F":
        return "floating-point values"
    # Pillow would silently reduce 16-bit colors to their upper 8 bits.
    return "more than 8 bits per channel" if image.mode[0] == "I" or "16" in stored else ""


_BUILT_IN = """arrays array_folders tables text_tables trials table_files datasets h5ad cells sequences genbank folders
instruments signals"""
LATER["reader"] += [f"viewsmith.data.readers.{each}" for each in _BUILT_IN.split()]
R = TypeVar("R", bound=Callable[..., Any])


def reader(
    name: str,
    *endings: str,
    help: str,
    noun: str,
    modality: str | tuple[str, ...] = (),
    in_folders: Sequence[str] = (),
    options: Sequence[str] = (),
    extra: str = "",
    table: bool = False,
    once: bool = False,
    example: str = "",
    header: Callable[[Path], Any] | None = None,
    recognizes: Callable[[Path], bool] | None = None,
) -> Callable[[R], R]:
    """Decorator that registers a reader, a function of a path and `DataOptions` that returns `FileContents`.

    Parameters
    ----------
    name : str
        The name in lists.
    *endings : str
        Endings of the files that it reads, in lower case: ``".csv"``, ``".fa.gz"``; of a folder, with a slash:
        ``".zarr/"``.
    help : str
        One line: what is read.
    noun : str
        What is read, with its article, for messages: "a FASTA file".
    modality : str or tuple of str
        The modality that it gives, or several, which the contents tell apart; empty: the array says it.
    in_folders : sequence of str
        Endings of the files of a folder that it reads as a whole. Of several readers the one with the most files does.
    options : sequence of str
        Options of `DataOptions` that have an effect for such readers alone.
    extra : str
        The extra that has its library.
    table : bool
        Whether columns have names, of which one may be the label.
    once : bool
        Whether one of several processes reads for all, because decoding takes long.
    example : str
        What is written after ``viewsmith fit``.
    header : callable
        Of image files: a function of a path that returns an `ImageFile`, with which folders of them are read, too.
    recognizes : callable
        A function of a path: whether the name and the content say, whatever the ending is, that it is one of these.
    """
    if wrong := [ending for ending in (*endings, *in_folders) if not ending.startswith(".")]:
        raise ValueError(f"the reader {name!r} has the ending {wrong[0]!r}, expected a dot first, as in '.csv'")
    if not (endings or in_folders or recognizes):
        raise ValueError(f"the reader {name!r} has no endings: give those of the files that it reads, as in '.csv'")
    tags: dict[str, Any] = {"endings": endings, "in_folders": tuple(in_folders), "takes": tuple(options)}
    tags |= {"noun": noun, "extra": extra, "table": table, "once": once, "example": example, "header": header}
    tags["recognizes"] = recognizes
    return register("reader", name, help=help, modalities=modality, **tags)


def by_ending() -> dict[str, Entry]:
    """Readers by the endings of what they read; those of a plug-in come after, and so in place of, built-in ones."""
    return {ending: entry for entry in entries("reader") for ending in entry.tag("endings")}


def is_table(source: str | Path) -> bool:
    """Whether a file is a table, by its ending."""
    found = by_ending().get(extension_of(Path(source)).lower())
    return found is not None and bool(found.tag("table"))


def recognized(path: Path) -> Iterator[Entry]:
    """Readers that recognize a path, whatever its ending is."""
    return (entry for entry in entries("reader") if entry.tag("recognizes") and entry.tag("recognizes")(path))


def find_reader(path: Path) -> Entry:
    """The reader that recognizes a path, else that of its ending, or of the files of a folder; InputError says what
    a file without a reader is, and what converts it."""
    if (found := next(recognized(path), None)) is not None:
        return found
    if path.is_dir():
        return by_ending().get(f"{path.suffix.lower()}/") or _reader_of_folder(path)
    check_source(path)
    if path.name.split(".")[0] in ("matrix", "barcodes", "features", "genes") and all(
        any(path.parent.glob(name)) for name in ("matrix.mtx*", "barcodes.tsv*")
    ):
        raise InputError(f"{path} belongs to its folder, which is read as a whole: give {path.parent}")
    ending = extension_of(path)
    found = by_ending().get(ending.lower())
    if found is None:
        refuse(path, ending)
        given = f"the extension {ending!r}" if ending else "no extension"
        hint = advice(ending, path)
        if hint:
            raise InputError(f"{path} has {given}; {hint}")
        known = " ".join(ending for ending in by_ending() if not ending.endswith((*PACKED, "/")))
        raise InputError(
            f"{path} has {given}; expected {known}, a folder of images, or one of the built-in {', '.join(BUILTIN)}"
        )
    if not file_of(path)[0].is_file():
        raise InputError(f"{path} is neither a file nor a folder; expected a {ending} file")
    return found


def _reader_of_folder(folder: Path) -> Entry:
    """The reader of most files of a folder; that of images, which says what is expected, if nothing is read."""
    counts, images = count_endings(folder), find("reader", "images")
    known = [images, *(entry for entry in entries("reader") if entry is not images)]

    def files(entry: Entry) -> tuple[bool, int]:
        """Tables in text are read if there is nothing else: beside other files they are of labels."""
        number = sum(counts[ending] for ending in entry.tag("in_folders"))
        return number > 0 and not set(entry.tag("in_folders")) <= {*TEXT_TABLES}, number

    return max(known, key=files)


def count_endings(folder: Path) -> Counter[str]:
    """How many files with each ending a folder and its folders have, without hidden ones and results."""
    counts: Counter[str] = Counter()
    for place, inner, names in os.walk(folder):
        inner[:] = [name for name in inner if not name.startswith(".") and not is_result(Path(place) / name)]
        counts.update(extension_of(Path(name)).lower() for name in names if not name.startswith("."))
        if counts.total() > MOST_FILES:
            break
    return counts


MANY_KINDS = 8  # of which a message does not name all


def check_options(name: str, request: DataOptions, chosen: Entry | None) -> None:
    """Raise InputError for an option that has an effect with other readers only than the chosen one."""
    nouns: dict[str, list[str]] = {}
    for entry in entries("reader"):
        for option in entry.tag("takes"):
            nouns.setdefault(option, []).append(entry.tag("noun"))
    takes = set() if chosen is None else set(chosen.tag("takes"))
    of_recordings = {"time", "recording", "length", "step", "rate", "channels"}
    if request.modality == "series" and chosen is not None and chosen.tag("table"):
        takes |= of_recordings
    nouns |= {option: ["a table of recordings (--modality series)"] for option in ("time", "recording")}
    for option, known in nouns.items():
        value = getattr(request, option)
        if value is not None and option not in takes:
            if option in of_recordings and chosen is not None and chosen.tag("table"):
                raise InputError(
                    f"{name} is a table, of which {option}={one_line(value, 60)} needs recordings: give --modality "
                    "series, and --time COLUMN if each row is a moment; or leave it out"
                )
            fault, names = f"{option}={one_line(value, 60)} has no effect", list(dict.fromkeys(known))
            if len(names) > MANY_KINDS:
                own = "" if option != "labels" else ", or give the column that has them (--label COLUMN)"
                kind = "a built-in data set" if chosen is None else chosen.tag("noun")
                way = f"leave {option} out{own}"
                texts = (
                    chosen is not None and not request.schema and not {*TEXT_TABLES}.isdisjoint(chosen.tag("endings"))
                )
                if option == "labels" and texts:
                    from viewsmith.data.label_tables import joining  # with torch and pandas, for this message alone

                    way = joining(Path(name), request) or way
                raise InputError(f"{name} is {kind}, on which {fault}; {way}")
            raise InputError(f"{name} is not {' or '.join(names)}, so {fault}; leave {option} out")
