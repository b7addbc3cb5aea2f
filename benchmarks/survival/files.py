"""Files of strangers: each is read, or refused with a way on, which is then gone.

Everything in the folders of `VIEWSMITH_DATA` that have files as they were found: each folder, and one file of each
ending in it. A way is what the line says: "give PATH", a flag with a value, or Python in quotes, which is run in an
empty folder, without what it asks to install. A row that ends in NO WAY, or an error that is no InputError, ends the
script with 1.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.survival.files [folder ...]
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.data import data_folder
from viewsmith.core.errors import InputError
from viewsmith.data import load_dataset

FOLDERS = ("files", "instruments", "objects", "motifs", "events", "tables")
#: What a line says to do that cannot be gone here: other samples, another program, or nothing at all with such a file.
SAID = (
    "pip install|open it in R|expected at least|rather than samples|has the extension|windows|sed |leave it out|of them"
)


def places(folder: Path) -> Iterator[Path]:
    """What there is to read: its entries, and in each folder one file of each ending."""
    for path in sorted(entry for entry in folder.iterdir() if entry.suffix != ".md"):
        yield path
        if path.is_dir():
            kept = (each for each in sorted(path.iterdir(), reverse=True) if each.suffix not in (".md", ".txt"))
            yield from sorted({each.name if each.is_dir() else each.suffix: each for each in kept}.values())


def read(path: str | Path, **options: Any) -> str:
    """What was read, in words."""
    with warnings.catch_warnings(action="ignore"):
        dataset = load_dataset(path, **options)
    return f"{dataset.modality} {tuple(dataset.x.shape)}"


def gone(path: Path, line: str) -> str:
    """What is read after following the line of a refusal."""
    if (code := re.search(r"python -c (\".*?\")(?=, and |$)", line)) and "pip install" not in line:
        with tempfile.TemporaryDirectory() as folder:
            command = f"{sys.executable} -c {code[1]}"
            subprocess.run(["bash", "-c", command], cwd=folder, check=True, capture_output=True)
            made = max(Path(folder).iterdir(), key=os.path.getmtime)
            return f"after its code: {read(made, **({'modality': 'series'} if made.suffix == '.npy' else {}))}"
    found = re.search(r"give (?:the recording |one of its files: )?(\S+?)(?=[;,]|$)", line)
    named = str(path / found[1]) if found else ""  # an absolute path stays as it is
    if found and Path(named.partition("::")[0]).exists():
        try:
            return f"with what it names: {read(named)}"
        except InputError as error:  # which has a way of its own
            return f"what it names is refused; {gone(Path(named), str(error))}"
    flags = re.findall(r"--([a-z-]+) (\w+)", line) + [("image-size", "64")] * ("(--image-size)" in line)
    for name, value in flags:
        try:
            option = {name.replace("-", "_"): int(value) if value.isdigit() else value}
            return f"with --{name} {value}: {read(path, **option)}"
        except InputError:
            continue
    if re.search(SAID, line) or flags:
        return "the line says what to do elsewhere"
    raise LookupError


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", metavar="folder", default=FOLDERS)
    given, counts = parser.parse_args(arguments), {"read": 0, "way": 0, "no way": 0}
    for path in (path for folder in given.folders for path in places(data_folder() / folder)):
        name = path.relative_to(data_folder())
        try:
            what, kind = read(path), "read"
        except InputError as error:
            line = str(error)
            try:
                what, kind = f"refused; {gone(path, line)}", "way"
            except Exception as failed:
                what, kind = f"NO WAY ({type(failed).__name__}: {str(failed)[:80]}): {line[:200]}", "no way"
        except Exception as error:
            what, kind = f"RAW {type(error).__name__}: {error}", "no way"
        counts[kind] += 1
        print(f"{name}: {what}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    if counts["no way"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
