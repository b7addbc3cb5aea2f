"""Files of samples that cannot be read: all are found at once, and a few of many are left out, by name."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from viewsmith.core.errors import InputError, MissingExtra, name_list, one_line, pluralize, warn

T = TypeVar("T")
S = TypeVar("S")

MOST_DAMAGED = 0.1  # of the files of a folder, which are left out
LISTED = 20  # of them, which are named


class Unreadable(InputError):
    """A file cannot be read: it is damaged, of another format, or gone."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class Damaged(InputError):
    """Some of the files of a folder cannot be read; `files` has the error of each."""

    def __init__(self, message: str, files: Mapping[Path, Unreadable]) -> None:
        super().__init__(message)
        self.files = dict(files)


def path_of(file: Any) -> Path:
    """The path of a file, or of the header of one."""
    return file if isinstance(file, Path) else file.path


def look_at_all(files: Sequence[S], look: Callable[[S], object]) -> None:
    """Look at all files. Raises the first InputError, with the names of further files that have one: `Damaged` if all
    of these cannot be read."""
    unreadable: dict[Path, Unreadable] = {}
    refused: dict[Path, InputError] = {}
    for file in files:
        try:
            look(file)
        except MissingExtra:
            raise
        except Unreadable as error:
            unreadable[path_of(file)] = error
        except InputError as error:
            refused[path_of(file)] = error
    if refused:
        raise InputError(_all(refused, len(files))) from next(iter(refused.values()))
    if unreadable:
        raise Damaged(_all(unreadable, len(files)), unreadable)


def _all(errors: Mapping[Path, InputError], count: int) -> str:
    first, *others = errors
    more = f"; so it is with {pluralize(len(others), 'further file')} of {count:,}: " if others else ""
    return f"{errors[first]}{more}{name_list([file.name for file in others], LISTED)}"


def read_each(files: Sequence[S], read: Callable[[S], T]) -> Iterator[T]:
    """What is read of each file; after one that cannot be read all others are looked at (`look_at_all`)."""
    for number, file in enumerate(files):
        try:
            found = read(file)
        except InputError:
            look_at_all(files[number:], read)
            raise
        yield found


def without_damaged(files: Sequence[Path], read: Callable[[Mapping[Path, Unreadable]], T], source: Path) -> T:
    """What is read of a folder. `read` is given the files that are left out, none at first, and again whenever it
    raises `Damaged`; a warning names them. Raises InputError where they are more than a tenth."""
    left_out: dict[Path, Unreadable] = {}
    while True:
        try:
            found = read(left_out)
        except Damaged as error:
            if error.files.keys() <= left_out.keys():
                raise
            left_out |= error.files
            if len(left_out) > MOST_DAMAGED * len(files):
                if len(files) == 1:
                    raise
                raise InputError(
                    f"{_all(left_out, len(files))}; more than a tenth of the files of {source} cannot be read: "
                    "copy them again from their source, or move them out"
                ) from error
        else:
            if left_out:
                first = one_line(next(iter(left_out.values())).reason, 120)
                names = sorted(_short(file, source) for file in left_out)
                warn(
                    f"{source}: {pluralize(len(left_out), 'file')} of {len(files):,} cannot be read as "
                    f"{'an image' if len(left_out) == 1 else 'images'}, left out, so that no row is of "
                    f"{'it' if len(left_out) == 1 else 'them'}: {name_list(names, LISTED)} "
                    f"({first})"
                )
            return found


def _short(file: Path, folder: Path) -> str:
    return file.relative_to(folder).as_posix() if folder in file.parents else f"{file.parent.name}/{file.name}"
