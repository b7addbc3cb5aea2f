"""Whether data, runs and places for results exist, without torch: what a command can refuse before anything is read;
and addresses of the Hugging Face Hub, ``hf://OWNER/NAME``."""

import os
import re
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from viewsmith.core.errors import InputError, check, error_text, join_names, one_line, require, suggest

BUILTIN = ("digits", "breast_cancer", "wine")
TABLES = (".csv", ".tsv", ".parquet")
FASTA = (".fa", ".fasta", ".fna")

#: Endings of images, and of text tables, which in a folder of samples may be annotations.
TIFF = (".tif", ".tiff")
DICOM, NIFTI = (".dcm", ".dicom"), (".nii", ".nii.gz")
FITS = (".fits", ".fit", ".fts", ".fits.gz")
#: TIFF files of slide scanners and microscopes, under names of their own.
SLIDES = (".svs", ".ndpi", ".scn", ".bif", ".qptiff", ".lsm", ".btf", ".stk")
MRC = (".mrc", ".mrcs", ".map", ".mrc.gz", ".map.gz", ".mrc.bz2", ".map.bz2")
MICROSCOPES = (".czi", ".lif", ".nd2", *MRC)
JPEG2000 = (".jp2",)
INSTRUMENTS = (*DICOM, *NIFTI, *FITS, *SLIDES, *MICROSCOPES, *JPEG2000)
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", *TIFF, ".webp", ".avif", ".ppm", ".pgm", *INSTRUMENTS)
ARRAYS = (".npy",)  # files of arrays, of which a folder has a sample in each
#: Modules that open packed files, by their last ending; some builds of Python lack one.
PACKED = {".gz": "gzip", ".bz2": "bz2", ".xz": "lzma", ".zip": "zipfile"}
CSV, TSV = ((kind, *(kind + ending for ending in PACKED)) for kind in (".csv", ".tsv"))
TEXTS = (".txt", *(f".txt{ending}" for ending in PACKED), ".dat", ".data", ".tab")  # whose separator is found
TEXT_TABLES = (*CSV, *TSV, *TEXTS)
VALIDATION = ("val", "valid", "validation", "dev")  # folders that are the test split where there is no other

#: Kinds of data that are letters.
LETTERS = ("dna", "proteins")
PICTURES = (".png", ".svg", ".pdf")

#: Endings of files with representations.
REPRESENTATIONS = (".npz", ".npy", ".csv", ".parquet", ".h5ad")
CONFIG, LOCK, VIEW_CACHE = "config.toml", ".lock", "view_cache.json"

#: Files of a run (`viewsmith.training.run.RunFolder`), and its folder of checkpoints.
RUN_FILES = (
    *(CONFIG, "model.safetensors", "initial.safetensors", "row_hashes.safetensors", "rows.npy"),
    *("metrics.jsonl", "summary.json", "evaluation.json", "report.html"),
)
CHECKPOINT = "checkpoint"

#: In the folder of a discovery until it is complete; of images with the features, which a stopped one reuses. Its name
#: says that the folder is ours: no other one is written over.
PARTS_CACHE = "discover.cache"


def file_of(path: Path) -> tuple[Path, str]:
    """The file and the table of a path FILE::TABLE; the table is empty without one."""
    name, _, table = path.name.partition("::")
    return path.with_name(name) if table else path, table


def extension_of(path: Path) -> str:
    """The extension of a file; compressed files have two: reads.fa.gz, table.csv.zip; other archives, which hold
    several files, one. Of FILE::TABLE that of the file, and of a part (a.tfrecord-00000-of-00004) that of all."""
    path = file_of(path)[0]
    path = path.with_name(re.sub(r"(?<=\w)-\d{5}-of-\d{5}$", "", path.name)) if path.name else path
    both = "".join(path.suffixes[-2:])
    packed = path.suffix.lower() in PACKED and (path.suffix.lower() != ".zip" or both.lower() in TEXT_TABLES)
    return both if packed else path.suffix


def first_bytes(path: Path, number: int) -> bytes:
    """The first bytes of a file, as many as there are."""
    with path.open("rb") as file:
        return file.read(number)


def open_packed(path: Path) -> Any:
    """The bytes of a file, plain or packed by gzip, which its first ones say, by bzip2 or xz, or alone in a zip."""
    ending = ".gz" if first_bytes(path, 2) == b"\x1f\x8b" else path.suffix.lower().replace(".gz", "")
    if ending == ".zip":
        return _only_one_in(path)
    return import_module(PACKED.get(ending, "io")).open(path, "rb")


def _only_one_in(path: Path) -> Any:
    """The bytes of the only file in a zip; Finder of macOS adds hidden ones."""
    with ZipFile(path) as archive:
        names = [name for name in archive.namelist() if not re.search(r"(^|/)(\.|__MACOSX/)|/$", name)]
        if len(names) != 1:
            raise InputError(f"{path} has {len(names)} files, expected one table: unpack it, and give one of its files")
        return archive.open(names[0])


def check_source(source: str | Path) -> None:
    """Raise InputError if data are neither a built-in name nor an existing file or folder."""
    text = str(source)
    path = Path(text.partition("::")[0])  # FILE::TABLE
    if text in ("", "-") and isinstance(source, str):
        what = "'-', but standard input is not read" if text else "'', an empty text"
        raise InputError(f"the data are {what}: give a file, whose ending says what it is, or a folder")
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
    if not str(run).startswith("hf:"):
        _check_has(Path(run), CONFIG, "run", "fit")


def check_view_cache(path: Path) -> None:
    """Raise InputError if a folder has no view cache."""
    _check_has(path, VIEW_CACHE, "view cache", "generate")


def _check_has(path: Path, file: str, noun: str, command: str) -> None:
    if not (path / file).exists():
        reason = f"has no {file}" if path.is_dir() else "is not a folder"
        raise InputError(f"no {noun} at {path} (it {reason}): expected the folder that `viewsmith {command}` wrote")


def config_of(run: str | Path) -> dict[str, Any]:
    """The configuration of a run; empty if it cannot be read, for reasons that loading the model says."""
    from viewsmith.core.files import read_toml  # imports numpy

    try:
        return read_toml(Path(run) / CONFIG)
    except (OSError, ValueError):
        return {}


def is_result(folder: Path) -> bool:
    """Whether a folder is a run or a discovery, whose images are crops and figures, not samples."""
    if (folder / PARTS_CACHE).is_dir():  # of a discovery that was stopped
        return True
    weights = ("model.safetensors", "initial.safetensors")
    return (folder / CONFIG).is_file() and any((folder / name).is_file() for name in weights)


def check_not_of_run(path: Path, flag: str = "--out") -> None:
    """Raise InputError if a file to be written is one that a run consists of, which it would destroy."""
    given = path.resolve()
    in_checkpoint = given.parent.name == CHECKPOINT
    run = given.parent.parent if in_checkpoint else given.parent
    if (run / CONFIG).exists() and (in_checkpoint or given.name in RUN_FILES):
        raise InputError(f"{flag} is {str(path)!r}, a file of the run {run}, which it would destroy: give another")


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
    check_parent(path)
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder, expected the name of a file")
    check_parquet(path)


def check_map_path(path: Path) -> None:
    """Raise InputError unless a map of a scene can be written to a file of this name."""
    check(path.suffix.lower() in TIFF, "--map", repr(str(path)), "a file name that ends in .tif")
    check_parent(path)
    require("tifffile", "microscopy", "writing a map")


def check_views_path(path: Path) -> None:
    """Raise InputError unless views can be written to a file of this name."""
    expected = f"a file name that ends in .npz, or in {join_names(TABLES)} for a table"
    check(path.suffix.lower() in (".npz", *TABLES), "--out", repr(str(path)), expected)
    check_parent(path)
    check_parquet(path)


def check_picture_path(path: Path) -> None:
    """Raise InputError unless a map can be drawn to a file of this name."""
    expected = "a name that ends in .png, .svg or .pdf"
    check(path.suffix.lower() in PICTURES, "the picture", repr(str(path)), expected)


def check_parquet(path: Path) -> None:
    """Raise MissingExtra for a parquet file without pyarrow."""
    if path.suffix.lower() == ".parquet":
        require("pyarrow", "parquet", "writing parquet files")


def check_locations_path(path: Path, modality: str) -> None:
    """Raise InputError unless locations in samples of this modality can be written to a file of this name."""
    from viewsmith.modalities import modality_of

    known = modality_of(modality).location_suffixes
    if path.suffix.lower() not in known:
        raise InputError(
            f"--out is {str(path)!r}, expected, for locations in {modality}, a file name that ends in "
            f"{join_names(known)}"
        )
    check_parent(path)


def check_crops_path(path: Path, modality: str) -> None:
    """Raise InputError unless crops of samples of this modality can be written to this path."""
    from viewsmith.modalities import modality_of

    suffix, known = path.suffix.lower(), modality_of(modality).crop_suffixes
    if not known:
        raise InputError(f"the samples are {modality}, which have no crops: `viewsmith views` draws views")
    in_folder = "" in known and suffix not in (".npz", *FASTA)
    if not in_folder and suffix not in known:
        folder = "a new folder, or " if "" in known else ""
        raise InputError(
            f"--out is {str(path)!r}, expected, for crops of {modality}, {folder}a file name that ends in "
            f"{join_names([end for end in known if end])}"
        )
    check_parent(path)
    if not in_folder:
        if path.is_dir():
            raise InputError(f"--out is {str(path)!r}, a folder: give the name of a file")
        return
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"--out is {str(path)!r}, which exists and is not an empty folder: give another path")
    require("pillow", "image", "writing images")


def check_parts_path(out: Path, modality: str, *, crops: bool) -> None:
    """Raise InputError unless the parts that a discovery finds, or crops of them, can be written to this path."""
    suffix = out.suffix.lower()
    if not crops:
        if suffix != ".csv" and not (suffix == ".bed" and modality in LETTERS):
            raise InputError(f"--out is {str(out)!r}, expected a file that ends in .csv, or for sequences .bed")
        return
    expected = ".fasta" if modality in LETTERS else {"series": ".npz"}.get(modality, "")
    if suffix != expected:
        wanted = f"a file that ends in {expected}" if expected else "a new folder"
        raise InputError(f"--out is {str(out)!r}, expected {wanted}")
    if modality == "images" and out.exists():
        raise InputError(f"--out is {str(out)!r}, which exists: choose a new folder")


_ADDRESS = re.compile(r"hf:/{1,2}([\w.-]+/[\w.-]+?)(?:@([\w.-]+))?")  # a Path has made one slash of two
#: Files that are downloaded: nothing that could be executed or unpickled.
PATTERNS = ("*.safetensors", "*.toml", "*.json", "*.jsonl", "*.md")


def repository_of(address: str | os.PathLike[str]) -> tuple[str, str | None] | None:
    """Name and revision of the repository ``hf://OWNER/NAME`` or ``hf://OWNER/NAME@REVISION``; None for a path."""
    text = os.fspath(address)
    if not text.startswith("hf:"):
        return None
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise InputError(f"the repository is {one_line(text, 80)!r}, expected hf://OWNER/NAME, or a folder")
    return found[1], found[2]


def downloaded(address: str | os.PathLike[str]) -> Path:
    """The folder of a repository, downloaded once, or the path itself."""
    repository = repository_of(address)
    if repository is None:
        return Path(address)
    require("huggingface_hub", "hub", "loading from the Hub")
    from huggingface_hub import snapshot_download

    name, revision = repository
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(PATTERNS), library_name="viewsmith"))
    except Exception as error:  # of the network, the server and the account
        raise InputError(f"hf://{name} cannot be read ({one_line(error_text(error), 200)})") from error
