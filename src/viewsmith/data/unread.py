"""Formats that are not read: what they are, and the line of code that converts them, from `unread.toml`.

A line is meant to be run as it stands, and the tests run it: it is Python in quotes of a shell, and writes into the
working folder.
"""

import functools
import os
import re
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from viewsmith.core.errors import InputError, name_list, one_line, pluralize
from viewsmith.data.places import DICOM, TEXT_TABLES, extension_of, first_bytes, open_packed
from viewsmith.data.text_lines import is_numeral, lines_of_text

_ELECTRODES = (".locs", ".loc", ".ced", ".elc", ".sfp", ".elp")
_OF_HEADERS = {".fdt": ".set", ".eeg": ".vhdr"}  # what has the numbers of which header
_NO_FORMAT = ("", ".txt", ".dat")  # endings of texts that do not say what is in them
ANNOTATIONS = (".atr", ".qrs", ".ecg")  # of WFDB records


@dataclass(frozen=True)
class Format:
    """A format that is not read."""

    what: str  #: a noun with its article
    code: str  #: Python with ``{path}`` and ``{out}``, the file that it writes
    package: str = ""  #: to install for that, beside what viewsmith needs
    suffix: str = ".npy"  #: of the written file
    options: str = ""  #: with which it is given to commands
    of_folder: str | None = None  #: these for all files of a folder, if the code takes it as ``{path}``, too


@functools.cache
def _table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def named(name: str, kind: str = "") -> Format:
    """A format of the table `unread.toml`; `kind` stands in its code for KIND."""
    about = {"what": "", **_table()[name]}
    code = "; ".join(about["code"].splitlines()).replace("KIND", kind)
    told = ("endings", "of", "beside", "edges")  # by what it is known
    return Format(**{key: value for key, value in about.items() if key not in told} | {"code": code})


@functools.cache
def formats() -> dict[str, Format]:
    """The formats by the endings of files."""
    kinds = {name: about.get("endings", ()) for name, about in _table().items() if name != "advice"}
    return {
        ending: named(name, of[ending] if isinstance(of, dict) else "") for name, of in kinds.items() for ending in of
    }


def _advice(extension: str) -> dict[str, Any]:
    return next((entry for entry in _table()["advice"] if extension.lower() in entry["endings"]), {})


def advice(extension: str, path: Path) -> str:
    """What to do with a file of this extension; empty if nothing is known."""
    return str(_advice(extension).get("text", "")).format(path)


def refuse(path: Path, extension: str, *, texts: bool = True) -> None:
    """Raise InputError for a file that is there, of a format that is known and not read, with the line that converts
    it; `texts`: also for texts without a known extension that are tables."""
    extension = extension.lower()
    if not path.is_file():
        return
    form = _by_content(path, extension) or formats().get(extension)
    advised = _advice(extension)
    if extension in (".dat", ".atr") and (header := path.with_suffix(".hea")).is_file():
        raise InputError(f"{path} belongs to the record {header.name}: give {header}")
    elif extension in ANNOTATIONS:
        raise InputError(
            f"{path} has annotations of a WFDB record, and no signal: give the header {path.stem}.hea with its signals"
        )
    elif extension in _OF_HEADERS and (header := path.with_suffix(_OF_HEADERS[extension])).is_file():
        raise InputError(f"{path} belongs to {header.name}: {sentence(header, formats()[header.suffix])}")
    elif extension in _ELECTRODES:
        files = sorted(path.parent.iterdir())
        read = [file for file in files if file.suffix.lower() in (".edf", ".bdf")]
        beside = [file for file in files if file.suffix.lower() in (".set", ".vhdr", ".gdf", ".cnt", ".fif")]
        way = f": {sentence(beside[0], formats()[beside[0].suffix.lower()])}" if beside else " (.set, .edf, .bdf)"
        way = f" {read[0]}" if read else way
        raise InputError(f"{path} has places of electrodes rather than samples; give the recording{way}")
    elif extension in _NO_FORMAT and re.match(rb"ID   \S+ +(Unr|R)eviewed; +\d+ AA\.", first_bytes(path, 200)):
        several = path.read_bytes().count(b"\n//") > 1
        line = command(path, named("uniprot"), "" if several else _WINDOWS)
        cut = "" if several else "; one is cut into windows of 100"
        raise InputError(f"{path} is {named('uniprot').what}{cut}: {line}")
    elif extension not in DICOM and _is_dicom(path):
        raise InputError(f"{path} is a DICOM file without its ending: rename it to {path.name}.dcm")
    if form is not None:
        raise InputError(sentence(path, form))
    if texts and (not advised or "tables" in advised) and (form := _text_table(path)) is not None:
        said = f"the extension {extension!r}" if extension else "no extension"
        raise InputError(f"{path} has {said}; if it is a table: {command(path, form)}")


def _by_content(path: Path, extension: str) -> Format | None:
    """The format of a file whose ending does not say enough."""
    if extension == ".hdr":
        return named("volume")  # Analyze; those of ENVI are read
    if extension in (".h5", ".hdf5"):
        return _of_keypoints(path)
    if extension == ".nwb" and _has_spikes_alone(path):
        return named("spikes")
    if extension in (".fif", ".fif.gz") and re.search(r"[-_]epo\.fif", path.name.lower()):
        return named("epochs", "read_epochs")
    if extension == ".set" and _has_epochs(path):
        return named("epochs", "read_epochs_eeglab")
    if extension in (".nc", ".nc4") and _along_one_axis(path):
        return named("profile")
    if extension in formats():
        start = first_bytes(path, 10)
        if start.startswith(b"LASF"):
            raise InputError(f"{path} is a cloud of points: write images of its pieces, or their features in a table")
        return named("neural", "MicromedIO") if start == b"* MICROMED" else None
    try:
        with open_packed(path) as file:
            content = file.read(100_000)
    except Exception:  # damaged, of any library that unpacks
        return None
    if extension == ".fit":
        return named("watch") if content[8:12] == b".FIT" else None
    if extension == ".xml":
        return named("health") if b"HealthData" in content else named("ecg") if b"<AnnotatedECG" in content else None
    if extension == ".bin":
        return named("spikeglx") if path.with_suffix(".meta").is_file() else None
    if extension.replace(".gz", "") == ".log" and re.match(rb'\s*\{\s*"', content):
        raise InputError(f"{path} has an object of JSON in each line: rename it to {path.stem}.jsonl")
    return _by_first_lines(content) if extension.replace(".gz", "") in (*_NO_FORMAT, ".log") else None


def _has_epochs(path: Path) -> bool:
    """Whether a file of EEGLAB has pieces rather than one recording."""
    from scipy.io import loadmat

    try:
        found = loadmat(path, variable_names=["EEG", "trials"], squeeze_me=True)
        return int((found["EEG"]["trials"] if "EEG" in found else found["trials"]).item()) > 1
    except Exception:  # of version 7.3, or damaged
        return False


def _along_one_axis(path: Path) -> bool:
    """Whether the numbers of a NetCDF file have one axis at most."""
    try:
        if first_bytes(path, 3) == b"CDF":
            from scipy.io import netcdf_file

            with netcdf_file(path, mmap=False) as found:
                axes = [len(each.shape) for each in found.variables.values() if each.typecode() != "c"]
        else:
            import h5py

            with h5py.File(path, "r") as found:
                axes = [each.ndim for each in found.values() if hasattr(each, "dtype") and each.dtype.kind in "iuf"]
        return max(axes, default=0) == 1
    except Exception:  # without h5py, or damaged
        return False


def _has_spikes_alone(path: Path) -> bool:
    """Whether a file of NWB has times of spikes, and no recording."""
    try:
        import h5py

        with h5py.File(path, "r") as file:
            others = (file.get(each, ()) for each in ("acquisition", "processing"))
            return "spike_times" in file.get("units", ()) and not any(map(len, others))
    except (ImportError, OSError, RuntimeError, ValueError):
        return False


def _of_keypoints(path: Path) -> Format | None:
    """The format of a file of HDF5 that has keypoints of animals in the layout of another program."""
    try:
        import h5py

        with h5py.File(path, "r") as file:
            if {"tracks", "node_names"} <= file.keys():
                return named("sleap")
            return named("deeplabcut") if "df_with_missing" in file else None
    except (ImportError, OSError, RuntimeError, ValueError):
        return None


def refuse_data_set(folder: Path) -> None:
    """Raise InputError for a folder of a data set that one of its files tells, with the way on."""
    for name, about in _table().items():
        if name != "advice" and "of" in about and any(folder.glob(about["of"])):
            raise InputError(f"{folder} has {about['what']}: {command(folder, named(name))}")
    if (folder / "batches.meta").is_file() or all((folder / name).is_file() for name in ("meta", "train", "test")):
        raise InputError(
            f"{folder} has pickles of CIFAR, which are never opened, because they can run code: give the version for C "
            "programs (cifar-10-batches-bin), or files of parquet or images"
        )


def beside_images(folder: Path, labels: Path | None = None) -> str:
    """What is said of the classes of images in files beside them, or of objects in them, with the line that makes
    samples of these; empty if there are none. `labels`: a table that is given, in place of those in the folder."""
    for name, about in _table().items():
        if name == "advice" or "beside" not in about or (labels is not None and "edges" not in about):
            continue
        told = folder.glob(about["beside"]) if labels is None else [labels]
        file = next((each for each in told if "edges" not in about or _has_edges(each, about["edges"])), None)
        if file is None:
            continue
        form = named(name, named("objects").code)
        objects = form.suffix == "_objects"
        given = " --label label --groups image --split-groups" if objects else ""
        line = command(folder, replace(form, options=given), quoted_path(file))
        if not objects:
            line = line.replace(", and give ", f", and give {folder} --labels ") + " --label label"
        return f"; there is {form.what}: {line}" if not objects else f"; there are {form.what}, as samples: {line}"
    return ""


def _has_edges(file: Path, edges: Sequence[Sequence[str]]) -> bool:
    """Whether the columns of a table have the edges of boxes, by any of these names."""
    first = first_bytes(file, 2**12).decode("utf-8", "replace").partition("\n")[0].lower().replace("_", "")
    columns = {name.strip().strip('"') for name in first.split(",")}
    return any(columns.issuperset(each) for each in edges)


LOOKED_AT = 16  # photographs of a folder, for temperatures


def of_temperatures(files: Sequence[Path], folder: Path) -> str:
    """What is said of photographs if one of some is a picture in false colors beside the temperatures that a camera
    has measured, with the line that converts these; else empty."""
    photographs = [file for file in files if file.suffix.lower() in (".jpg", ".jpeg")]
    some = photographs[:: max(1, len(photographs) // LOOKED_AT)]
    hidden = [file.name for file in some if file.is_file() and b"FLIR\0" in first_bytes(file, 2**16)]
    if not hidden:
        return ""
    return (
        f"{folder}: {name_list(hidden, 2)} {'has' if len(hidden) == 1 else 'have'} temperatures of a FLIR camera, and "
        f"pictures in false colors are read; to read temperatures: {command(folder, named('temperatures'))}"
    )


def _is_dicom(path: Path) -> bool:
    return first_bytes(path, 132)[128:] == b"DICM"


def _by_first_lines(content: bytes) -> Format | None:
    """The format of a text that its first lines tell."""
    if content.startswith(b"#separator ") and b"\n#fields" in content:
        return named("zeek")
    if content.startswith(b"#METABOLOMICS WORKBENCH"):
        return named("mwtab")
    lines = [line.partition(b"#")[0] for line in content.splitlines()[:6]]
    if lines and lines[0].startswith(b"!Series_"):
        return named("geo")
    # Of libsvm: a label, and numbers after their rising places, as 1 3:0.5 11:1 14:2.
    pairs = [re.findall(rb"(?<=\s)(\d+):\S+", line) for line in lines]
    rising = all(sorted(set(map(int, each))) == list(map(int, each)) for each in pairs)
    whole = all(len(line.split()) == 1 + len(each) for line, each in zip(lines[:5], pairs, strict=False))
    many = sum(map(len, pairs)) >= 3 * len(lines)  # times of day are few
    return named("libsvm") if lines and rising and whole and many else None


def _text_table(path: Path) -> Format | None:
    """What reads a text file whose lines have equal numbers of fields, one less in a header at most."""
    if (found := lines_of_text(path)) is None:
        return None
    named = len(found.rows[-1]) > len(found.rows[0])  # a header, in which the column of names has none
    header = "" if named or not any(is_numeral(cell) for cell in found.rows[0]) else ", header=None"
    separator = {"\t": "chr(9)", r"\s+": "r'\\s+'"}.get(found.separator, f"'{found.separator}'")
    read = f"pd.read_csv({{path}}, sep={separator}, comment='#'{header})"
    code = f"import pandas as pd; {read}.to_csv({{out}}{'' if named else ', index=False'})"
    return Format("a text table", code, suffix=".csv")


def fixed_width_way(path: Path) -> str:
    """What to do with a text whose columns are told by their places in a line alone; empty for others."""
    try:
        with open_packed(path) as file:
            content = file.read(100_000).decode("utf-8", "ignore")
    except Exception:  # damaged, of any library that unpacks
        return ""
    lines = [line for line in content.splitlines()[:-1] if line.strip()]
    places = range(max(map(len, lines), default=0))
    used = [any(not line[i : i + 1].isspace() and line[i : i + 1] for line in lines) for i in places]
    columns = sum(now and not before for before, now in zip([False, *used], used, strict=False))
    if columns < 2 or len(lines) < FEWEST_LINES or any("\t" in line for line in lines):
        return ""
    header = ", header=None" if any(map(is_numeral, lines[0].split())) else ""
    return f"; of {columns} columns of fixed width: {command(path, named('fixed-width'), header)}"


FEWEST_LINES = 10  # in which words of a text hardly have blanks at the same places


def command(path: Path, form: Format, key: str = "") -> str:
    """The line that converts a file, for a shell, and what to give then."""
    stem = path.name.split(".")[0] or "data"
    out = stem + form.suffix
    code = form.code.format(
        path=quoted_path(path), folder=quoted_path(path.parent), out=quoted_path(out), key=key, suffix=path.suffix
    )
    first = f"pip install {form.package}, then " if form.package else ""
    return f'{first}python -c "{code}", and give {out}{form.options.replace("STEM", stem)}'


def sentence(path: Path, form: Format, key: str = "") -> str:
    """What a file is, and the line that converts it."""
    return f"{path} is {form.what}, which is not read yet: {command(path, form, key)}"


def sentence_of_all(folder: Path, files: Sequence[Path], suffix: str, form: Format) -> str:
    """What the files of a folder are, of an ending in any case, and the line that converts them together."""
    written = {file.name[-len(suffix) :] for file in files}
    any_case = "".join(f"[{letter}{letter.upper()}]" if letter.isalpha() else letter for letter in suffix)
    pattern = written.pop() if len(written) == 1 else any_case
    of_all = replace(form, code=form.code.replace("{suffix}", pattern), options=form.of_folder or "")
    return f"{folder} has {len(files):,} files {suffix}, each {form.what}: {command(folder, of_all)}"


def quoted_path(path: str | Path) -> str:
    """A path as a literal of Python in double quotes of a shell; FILE if it has characters that end or change these."""
    text = str(path)
    return "'FILE'" if set(text) & set("'\"$`\\!\n\r") or not text.isprintable() else f"'{text}'"


_WINDOWS = "s = [(a + '/' + str(i + 1), t[i:i+100]) for a, t in s for i in range(0, max(1, len(t) - 99), 50)]; "


def letters_way(path: Path, fault: str) -> str:
    """What to do with gaps and unknown letters of a FASTA file, for the end of a message about a letter."""
    edit = "y/Xx/Nn/" if "write N" in fault else "s/[-.*]//g" if "remove gaps" in fault else ""
    return f": sed '/^>/!{edit}' {path} > {path.name.split('.')[0]}_letters.fasta" if edit else ""


def hidden_letters(path: Path) -> str:
    """The line that makes lower-case letters of a FASTA file unknown."""
    stem = path.name.split(".")[0]
    unknown = "to leave them out, write N (proteins: X)"
    plain = path.suffix.lower().startswith((".f", ".pep")) and path.suffix.lower() not in (".fastq", ".fq")
    return f"{unknown}: sed '/^>/!y/acgtu/NNNNN/' {path} > {stem}_masked.fasta" if plain else unknown


DOCUMENTS = 10  # texts, from which on they are samples


def _refuse_documents(folder: Path, files: list[Path]) -> None:
    """Raise InputError for a folder of texts in words, with the line that counts their words."""
    some = files[:: -(-len(files) // DOCUMENTS)] if files else []
    if len(files) < DOCUMENTS or 2 * sum(lines_of_text(file) is not None for file in some) > len(some):
        return
    words = [word for file in some for word in file.read_bytes()[:10_000].decode("utf-8", "ignore").split()]
    if 2 * sum(any(map(str.isalpha, word)) for word in words) < len(words) or len(words) < 10 * len(some):
        return
    labeled = len({file.parent for file in files}) > 1
    line = command(folder, named("documents"), ", y=[f.parent.name for f in p]" if labeled else "")
    raise InputError(f"{folder} has {len(files):,} texts, whose words can be counted: {line}")


# How files of the counts of a sample are told (HTSeq, STAR, kallisto, RSEM), and how their column is read.
_COUNTS = {
    rb"(?s).*\n__no_feature\t\d": ", header=None).iloc[:, 0]",
    rb"N_unmapped\t\d": ", header=None).iloc[:, 0]",
    rb"target_id\tlength\teff_length\test_counts\t": ").est_counts",
    rb"(gene|transcript)_id\t\S+\tlength\teffective_length\texpected_count\t": ").expected_count",
}


def _refuse_counts(folder: Path, found: Mapping[str, list[Path]]) -> None:
    """Raise InputError for a folder of counts of genes, a file for each sample, with the line that joins them."""
    for suffix, files in found.items():
        if len(files) < 2 or suffix in formats():
            continue
        try:
            with open_packed(files[0]) as file:
                content = file.read(MOST_OF_COUNTS)
        except Exception:  # damaged, of any library that unpacks
            continue
        if kind := next((kind for start, kind in _COUNTS.items() if re.match(start, content)), ""):
            form = named("gene-counts", kind)
            line = command(folder, replace(form, code=form.code.replace("{suffix}", suffix)))
            raise InputError(f"{folder} has {form.what}, a file for each of {len(files):,} samples: {line}")


MOST_OF_COUNTS = 2**24  # bytes: those of HTSeq end with what tells them
MOST_FILES = 100_000  # that are looked at in a folder


def files_in(folder: Path) -> Iterator[Path]:
    """Files in a folder and its folders, without hidden ones."""
    seen = 0
    for place, inner, names in os.walk(folder):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        for name in sorted(names):
            seen += 1
            if seen > MOST_FILES:
                return
            if not name.startswith("."):
                yield Path(place) / name


def refuse_unread(path: Path) -> None:
    """Raise InputError for a file or folder of which the endings alone say that it is not read, before torch is
    imported."""
    if path.is_file():
        refuse(path, extension_of(path), texts=False)
    elif path.is_dir() and (
        path.suffix.lower() == ".mff"
        or (not path.suffix and {extension_of(file).lower() for file in files_in(path)} <= formats().keys())
    ):
        refuse_folder(path)


def refuse_folder(folder: Path, read: Collection[str] = ()) -> None:
    """Raise InputError for a folder without images that has something else, with what to do about it; `read` has the
    endings of files that are read."""
    found: dict[str, list[Path]] = {}
    refuse_data_set(folder)
    if of_egi := [folder] if folder.suffix.lower() == ".mff" else sorted(folder.glob("**/*.mff"))[:1]:
        raise InputError(sentence(of_egi[0], named("egi")))
    if (folder / "state.json").is_file() and (folder / "dataset_info.json").is_file():
        raise InputError(f"{folder} is a data set on disk without its files .arrow: copy it from its source again")
    for file in filter(Path.is_file, files_in(folder)):  # a pipe would be waited for
        found.setdefault(extension_of(file).lower(), []).append(file)
        if file.name in ("barcodes.tsv", "barcodes.tsv.gz") and not any(file.parent.glob("matrix.mtx*")):
            raise InputError(
                f"{file.parent} is a 10x folder without matrix.mtx or matrix.mtx.gz: copy it from its source again"
            )
        if file.name == "1r":
            raise InputError(sentence(folder, named("nmr")))
        if extension_of(file) not in read and _is_dicom(file):
            raise InputError(f"{folder} has DICOM files without the ending .dcm: {command(folder, named('dicom'))}")
    if found and found.keys() <= {*ANNOTATIONS}:
        stems = sorted({f"{file.stem}.hea" for files in found.values() for file in files})
        raise InputError(
            f"{folder} has annotations of WFDB records, and no signals: put the headers and signals beside them, "
            f"{name_list(stems, 3)}"
        )
    _refuse_documents(folder, found.get(".txt", []))
    _refuse_counts(folder, found)
    told = {end: files for end in (".xml", ".bin") if (files := found.get(end)) and _by_content(files[0], end)}
    for wanted in ([ending for ending in read if ending not in TEXT_TABLES], formats(), TEXT_TABLES):
        ours = {*wanted, *told} if wanted is formats() else wanted
        counts = Counter({suffix: len(files) for suffix, files in found.items() if suffix in ours})
        if not counts:
            continue
        ((suffix, count),) = counts.most_common(1)
        first = found[suffix][0]
        if wanted is not formats():
            below = {folder / file.relative_to(folder).parts[0] for file in found[suffix]}
            if count > 1 and len(below) == 1 and (only := below.pop()).is_dir():
                raise InputError(f"{folder}: its {count:,} files {suffix} are in a folder of their own; give {only}")
            names = [one_line(file.relative_to(folder), 60) for each in counts for file in found[each]]
            raise InputError(f"{folder} is a folder without images; give one of its files: {name_list(names)}")
        form = _by_content(first, suffix) or formats()[suffix]
        if count > 1 and form.of_folder is not None:
            raise InputError(sentence_of_all(folder, found[suffix], suffix, form))
        rest = f"{folder} has {pluralize(count, f'file {suffix}', f'files {suffix}')}; " if count > 1 else ""
        raise InputError(rest + sentence(first, form))
    for suffix, files in sorted(found.items(), key=lambda each: -len(each[1])):
        if text := advice(suffix, files[0]):
            raise InputError(f"{folder} has {pluralize(len(files), f'file {suffix}', f'files {suffix}')}: {text}")
