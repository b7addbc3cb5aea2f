"""Whether data, runs and places for results exist, without torch: what a command can refuse before anything is read."""

from pathlib import Path

from viewsmith.core.errors import InputError, join_names, one_line, require, suggest

BUILTIN = ("digits", "breast_cancer", "wine")

TABLES = (".csv", ".tsv", ".parquet")

#: Endings of files with representations.
REPRESENTATIONS = (".npz", ".npy", ".csv", ".parquet", ".h5ad")

CONFIG, LOCK = "config.toml", ".lock"

#: In the folder of a discovery until it is complete; of images with the features, which a stopped one reuses. Its name
#: says that the folder is ours: no other one is written over.
PARTS_CACHE = "discover.cache"


def file_of(path: Path) -> tuple[Path, str]:
    """The file and the table of a path FILE::TABLE; the table is empty without one."""
    name, _, table = path.name.partition("::")
    return path.with_name(name) if table else path, table


def extension_of(path: Path) -> str:
    """The extension of a file; compressed files have two: reads.fa.gz. Of FILE::TABLE that of the file."""
    path = file_of(path)[0]
    return "".join(path.suffixes[-2:]) if path.suffix.lower() == ".gz" else path.suffix


def check_source(source: str | Path) -> None:
    """Raise InputError if data are neither a built-in name nor an existing file or folder."""
    text = str(source)
    path = Path(text.partition("::")[0])  # FILE::TABLE
    if (isinstance(source, str) and text in BUILTIN) or "://" in text or path.exists():
        return
    if text in BUILTIN:
        raise InputError(
            f"the path {path} does not exist; expected a file or folder; give the text {text!r} for the built-in data "
            "set"
        )
    if path.suffix:
        raise InputError(f"{path} does not exist; expected a {extension_of(path)} file")
    hint = suggest(text, BUILTIN, "built-in")
    raise InputError(
        f"unknown data set {one_line(text, 100)!r}; {hint}, or give a file, such as .npz .npy .csv .tsv .parquet .h5ad "
        ".fasta .wav .edf, or a folder of images or recordings"
    )


def check_run(run: str | Path) -> None:
    """Raise InputError if a folder has no run; a repository of the Hub is not looked up."""
    path = Path(run)
    if str(run).startswith("hf:") or (path / CONFIG).exists():
        return
    reason = f"has no {CONFIG}" if path.is_dir() else "is not a folder"
    raise InputError(f"no run at {path} (it {reason}): expected the folder that `viewsmith fit` wrote")


def is_in_run(path: Path) -> bool:
    """Whether a path is in the folder of a run, or in its folder of checkpoints."""
    given = path.resolve()
    return any((folder / CONFIG).exists() for folder in given.parents[:2])


def is_result(folder: Path) -> bool:
    """Whether a folder is a run or a discovery, whose images are crops and figures, not samples."""
    if (folder / PARTS_CACHE).is_dir():  # of a discovery that was stopped
        return True
    weights = ("model.safetensors", "initial.safetensors")
    return (folder / CONFIG).is_file() and any((folder / name).is_file() for name in weights)


def check_free(run: str | Path) -> None:
    """Raise InputError if there is something else than a run where one is to be written."""
    path = Path(run)
    # The lock and a temporary configuration file, left by a process that was killed, are not files of the user.
    if path.exists() and (
        not path.is_dir()
        or not ((path / CONFIG).exists() or all(f.name.startswith((".config-", LOCK)) for f in path.iterdir()))
    ):
        raise InputError(f"{path} exists and is not a run of viewsmith: choose an empty or new folder")


def check_free_for_parts(out: Path) -> None:
    """Raise InputError if a discovery is to be written where something else is than one that was stopped."""
    if out.exists() and (
        not out.is_dir() or (any(entry.name != LOCK for entry in out.iterdir()) and not (out / PARTS_CACHE).is_dir())
    ):
        raise InputError(f"--out is {str(out)!r}, which exists and is not empty: choose a new folder")


def check_parent(path: Path) -> None:
    """Raise InputError if the folder of a file that is to be written does not exist."""
    if not path.absolute().parent.is_dir():
        raise InputError(f"the folder {path.absolute().parent} does not exist: create it first")


def check_representations_path(path: Path) -> None:
    """Raise InputError unless representations can be written to a file of this name."""
    if path.suffix.lower() not in REPRESENTATIONS:
        given = f"the extension {path.suffix!r}" if path.suffix else "no extension"
        raise InputError(f"cannot write {path}: it has {given}, expected one of {' '.join(REPRESENTATIONS)}")
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: the folder {path.parent} does not exist; create it first")
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder, expected the name of a file")
    check_parquet(path)


def check_map_path(path: Path) -> None:
    """Raise InputError unless a map of a scene can be written to a file of this name."""
    if path.suffix.lower() not in (".tif", ".tiff"):
        raise InputError(f"--map is {str(path)!r}, expected a file name that ends in .tif")
    check_parent(path)
    require("tifffile", "microscopy", "writing a map")


def check_views_path(path: Path) -> None:
    """Raise InputError unless views can be written to a file of this name."""
    if path.suffix.lower() not in (".npz", *TABLES):
        raise InputError(
            f"--out is {str(path)!r}, expected a file name that ends in .npz, or in {join_names(TABLES)} for a table"
        )
    check_parent(path)
    check_parquet(path)


def check_parquet(path: Path) -> None:
    """Raise MissingExtra for a parquet file without pyarrow."""
    if path.suffix.lower() == ".parquet":
        require("pyarrow", "parquet", "writing parquet files")
