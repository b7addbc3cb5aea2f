"""Files of recordings in a folder: their order, labels by folders, those for tests, and whether they stay on disk."""

from collections.abc import Sequence
from pathlib import Path

from viewsmith.core.errors import pluralize, say
from viewsmith.data.event_tables import is_of_bids
from viewsmith.data.options import DataOptions
from viewsmith.data.places import VALIDATION

#: Files of recordings that together have more bytes are read in blocks.
IN_MEMORY = 2**25

#: A folder of spoken words that has no word (speech commands), and lists of test files, by their names in the folder.
NOISE, TEST_LISTS = "_background_noise_", ("testing_list.txt", "test_list.txt", "test.txt")


def stay_on_disk(files: Sequence[Path], request: DataOptions) -> bool:
    """Whether recordings stay in their files: if it was asked for, or if the files are large."""
    return request.stream or sum(file.stat().st_size for file in files) > IN_MEMORY


def files_of(path: Path, endings: Sequence[str]) -> tuple[list[tuple[Path, str | None]], int | None]:
    """Files of recordings in the order of their names, labels by their folders, and the number of train files if the
    folder has a split, ``train`` and ``test`` (or ``val``), or a list of the test files."""
    if path.is_file():
        return [(path, None)], None
    found = [file for file in sorted(path.rglob("*")) if file.name.lower().endswith(tuple(endings)) and file.is_file()]
    found = [file for file in found if not any(part.startswith(".") for part in file.relative_to(path).parts)]
    words = [file for file in found if file.relative_to(path).parts[0] != NOISE]
    if words and len(words) < len(found):
        say(f"{path}: the folder {NOISE} has no samples of a class, and is left out")
        found = words
    parts = {file.relative_to(path).parts[0].lower() for file in found}
    split = len(parts) == 2 and "train" in parts and parts <= {"train", "test", *VALIDATION}
    listed = set() if split else _test_files(path, found)
    test = {file for file in found if file in listed or (split and file.relative_to(path).parts[0].lower() != "train")}
    found.sort(key=lambda file: file in test)
    folders = [file.relative_to(path).parts[int(split) : -1] for file in found]
    labels = ["/".join(parts) or None for parts in folders]
    if len(set(labels)) < 2 or all(map(is_of_bids, (file.name for file in found))):  # folders of subjects
        labels = [None] * len(found)
    return list(zip(found, labels, strict=True)), len(found) - len(test) if test else None


def _test_files(path: Path, files: Sequence[Path]) -> set[Path]:
    """Those that a list of test files in the folder names."""
    for name in TEST_LISTS:
        if (path / name).is_file():
            lines = (path / name).read_text("utf-8", errors="replace").splitlines()
            named = {path / line.strip() for line in lines if line.strip()} & {*files}
            if named and len(named) < len(files):
                say(f"{path}: {pluralize(len(named), 'file')} of {len(files):,} are test samples, by {name}")
                return named
    return set()


def name_in(path: Path, file: Path) -> str:
    """Name of a file of a folder, or of a file that was given itself."""
    return file.name if path.is_file() else file.relative_to(path).as_posix()
