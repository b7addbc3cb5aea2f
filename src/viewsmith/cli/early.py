"""What a command refuses before it imports torch: paths that do not exist, places that cannot be written to, and names
of parts that nothing has. Everything is checked again, with all reasons, by the code that uses it."""

import itertools
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any

from viewsmith.cli.options import LISTED
from viewsmith.core.errors import InputError
from viewsmith.core.registry import GROUP, Kind, registered, unknown
from viewsmith.data.places import check_free, check_parent, check_run, check_source
from viewsmith.data.unread import refuse_unread


def check_paths(
    *,
    data: str | None = None,
    run: str | Path | None = None,
    new_run: Path | None = None,
    file: Path | None = None,
    read: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Raise InputError for a run, data or labels that do not exist, or a place for results that is not free."""
    if run is not None:
        check_run(run)
    if new_run is not None:
        check_free(new_run)
    if data is not None:
        check_source(data)
        if not entry_points(group=GROUP):  # a plug-in may read it
            refuse_unread(Path(data))
    if (labels := read.get("labels")) is not None and not Path(labels).is_file():
        there = "is a folder" if Path(labels).is_dir() else "does not exist"
        raise InputError(f"labels: {labels} {there}; expected a file")
    if file is not None:
        check_parent(file)


#: Data with at most so many bytes, or files in a folder, are read before the options of a method are checked.
QUICK_BYTES, QUICK_FILES = 2**25, 1000


def reads_quickly(data: str) -> bool:
    """Whether reading data takes less time than importing estimators: then faults of the data are found first."""
    path = Path(data.partition("::")[0])
    if path.is_dir():
        return next(itertools.islice(path.rglob("*"), QUICK_FILES, None), None) is None
    return not path.exists() or path.stat().st_size <= QUICK_BYTES


def check_names(kind: Kind, given: Iterable[str | None], also: Iterable[str] = ()) -> None:
    """Raise InputError for a name that no part of a kind has, in any modality; parts of plug-ins are not known here."""
    asked = [name for name in given if name is not None and name not in also]
    known = {*LISTED[kind].split(", "), *registered(kind)}
    prefixes = {name.partition(":")[0] for name in known if ":" in name}
    wrong = [name for name in asked if name not in known and not (":" in name and name.partition(":")[0] in prefixes)]
    if wrong and not entry_points(group=GROUP):
        raise unknown(kind, wrong[0], sorted(known))
