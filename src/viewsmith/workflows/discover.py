"""What `viewsmith discover` does: read samples, find the parts, write tables, crops and a report."""

import re
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewsmith.core import __version__
from viewsmith.core.errors import InputError, StoppedEarly, name_list, pluralize, require, warn
from viewsmith.core.files import (
    atomic_folder,
    atomic_path,
    check_no_link,
    check_regular,
    locked_folder,
    target_of,
    write_json_atomic,
    write_text_atomic,
)
from viewsmith.data import load_dataset
from viewsmith.data.dataset import Windows
from viewsmith.data.formats import by_ending, find_reader
from viewsmith.data.readers.folders import SUFFIXES, image_files, is_color
from viewsmith.data.reading import reading
from viewsmith.data.sources import check_recordings_table
from viewsmith.data.unread import refuse_folder, tiles_of
from viewsmith.data.write import spreadsheet_frame, write_npz
from viewsmith.estimator.options import check_options
from viewsmith.methods.discovery.estimator import CROP, Discovery
from viewsmith.methods.discovery.images import ImageList, as_images
from viewsmith.methods.discovery.motifs import as_jaspar, as_meme
from viewsmith.methods.discovery.options import FLAGS
from viewsmith.methods.discovery.report import save_logo, write_parts_report
from viewsmith.modalities import Images

# In the folder of a discovery until it is complete; of images with the features, which a stopped one reuses.
# Its name says that the folder is ours: no other one is written over.
CACHE = "discover.cache"
LOCK = ".lock"

FEWEST = 4  # images, as in `ImageSearch`

EXPECTED = {
    "images": f"images (a folder of image files, or an array {Images.samples.dtype})",
    "dna": "DNA (a FASTA file)",
    "series": "recordings (--modality series)",
}

# `Dataset.schema` of samples for a fitted model: a single one is enough, and they may have any shape.
FITTED: dict[str, Any] = {"row_shape": None, "feature_names": None, "columns": None, "drop": [], "one_hot": {}}


def read_samples(
    data: str, modality: str = "auto", fitted: bool = False, **read: Any
) -> tuple[Any, list[str] | None, str, Windows | None]:
    """Samples for `Discovery` (images of any sizes, sequences, recordings (n, T)), names if any, modality, and of
    windows of recordings where they are; `read` has options of `load_dataset`, such as the length of windows."""
    path = Path(data)
    if path.is_dir() and modality in ("auto", "images") and "images" in find_reader(path).modalities:
        images = _folder(path)
        if len(images) < FEWEST and not fitted:
            raise InputError(
                f"{data} has {pluralize(len(images), 'image')}, expected at least {FEWEST}: what recurs is seen across "
                f"images; cut a large one into tiles: {tiles_of(path / images.names[0])}"
            )
        return images, list(images.names), "images", None
    series = modality == "series"
    # Missing values stay NaN, which discovery refuses with what can be done here.
    impute: Any = "median" if series else "none"
    if series and not fitted:
        check_recordings_table(path, wide=True)
    wanted = "series" if series and not _one_channel(path) else None
    schema = FITTED | {"modality": wanted, "impute": impute} if fitted else None
    dataset = load_dataset(data, modality=wanted, impute=impute, schema=schema, **read)
    found, x = dataset.modality, np.asarray(dataset.x)
    if series and found == "vectors":
        found = "series"
    if found == "vectors" or modality not in ("auto", found):
        kinds = [EXPECTED[modality]] if fitted else list(EXPECTED.values())
        raise InputError(f"{data} has {dataset.modality}, expected {' or '.join(kinds)}")
    if found == "dna":
        names = dataset.row_names
        return x, None if names is None else [name or str(i) for i, name in enumerate(names)], found, None
    samples = as_images(x) if found == "images" else x[:, None] if x.ndim == 2 else x
    return samples, dataset.row_names, found, dataset.windows


def _one_channel(path: Path) -> bool:
    """Whether the file has recordings of one channel, numbers (n, T)."""
    if path.suffix.lower() == ".npy" and path.is_file():
        return np.load(path, mmap_mode="r", allow_pickle=False).ndim == 2
    if path.suffix.lower() == ".npz" and path.is_file():
        with np.load(path, allow_pickle=False) as content:
            return any(content[name].ndim == 2 for name in content.files if name.lower().startswith("x"))
    return path.suffix.lower() not in (".npy", ".npz")


def _folder(path: Path) -> ImageList:
    """All readable images under a folder, in the order of their names."""
    require("pillow", "image", "reading folders of images")
    from PIL import Image, ImageOps

    files, shapes, damaged, too_large, color = [], [], [], [], False
    given = image_files(path)
    for file in given:
        try:
            check_regular(file)
            with warnings.catch_warnings(), Image.open(file) as image:
                warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # large photographs are welcome
                color = is_color(image, file, given) or color
                rotated = image.getexif().get(0x0112, 1) >= 5
                width, height = image.size[::-1] if rotated else image.size
                # Decodes a small version of a JPEG file, so that a damaged one is found before the search.
                image.draft("RGB", (32, 32))
                image.load()
        except Image.DecompressionBombError:
            too_large.append(file.relative_to(path).as_posix())
            continue
        except InputError:  # whole, but of a kind that would be clipped or cut
            raise
        except Exception:  # damaged headers raise all kinds
            damaged.append(file.relative_to(path).as_posix())
            continue
        files.append(file)
        shapes.append((height, width))
    if damaged:
        warn(f"{pluralize(len(damaged), 'file')} cannot be read as an image, left out: {name_list(damaged)}")
    if too_large:
        pixels = 2 * (Image.MAX_IMAGE_PIXELS or 0)
        warn(f"{pluralize(len(too_large), 'image')} with more than {pixels:,} pixels, left out: {name_list(too_large)}")
    if not given:
        refuse_folder(path, by_ending())
        raise InputError(f"{path} is a folder without images ({' '.join(SUFFIXES)})")
    if not files:
        raise InputError(f"{path} has no image that can be read")

    def read(i: int, size: tuple[int, int] | None) -> np.ndarray:
        with reading(str(files[i]), "an image"), warnings.catch_warnings(), Image.open(files[i]) as image:
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            if size is not None:
                image.draft("RGB" if color else "L", (max(size), max(size)))
            upright = ImageOps.exif_transpose(image).convert("RGB" if color else "L")
        if size is not None and upright.size != size[::-1]:
            smaller = size[0] <= upright.size[1]
            upright = upright.resize(size[::-1], Image.Resampling.BOX if smaller else Image.Resampling.BICUBIC)
        pixels = np.asarray(upright)
        return pixels if pixels.ndim == 3 else pixels[..., None]

    def contents() -> Iterator[bytes]:
        for file in files:
            status = file.stat()
            yield f"{file.relative_to(path)} {status.st_size} {status.st_mtime_ns}".encode()

    names = [file.relative_to(path).as_posix() for file in files]
    return ImageList(shapes, read, 3 if color else 1, contents, names)


def discover_to(out: Path, data: str, options: dict[str, Any], crop_size: int | None = None, **read: Any) -> str:
    """Find what recurs in the samples of DATA, and write the folder `out`: model, ``parts.csv``, crops as samples,
    ``report.html``, and for images ``coco.json``, for DNA ``parts.bed``, motifs and logos. Return what was found, in
    plain words; `read` has options of `load_dataset`.

    Raises InputError if `out` is not empty, unless a discovery was stopped there.
    """
    cache = out / CACHE
    if out.exists() and (
        not out.is_dir() or (any(entry.name != LOCK for entry in out.iterdir()) and not cache.is_dir())
    ):
        raise InputError(f"--out is {str(out)!r}, which exists and is not empty: choose a new folder")
    check_no_link(cache)
    with locked_folder(out, LOCK):
        return _discover(out, cache, data, options, crop_size, read)


def _discover(
    out: Path, cache: Path, data: str, options: dict[str, Any], crop_size: int | None, read: dict[str, Any]
) -> str:
    """`discover_to` in a folder that this process holds."""
    check_options(Discovery, options)
    samples, names, modality, windows = read_samples(data, options.get("modality", "auto"), **read)
    options |= {"modality": modality, "cache": str(cache) if modality == "images" else None}
    model = Discovery(**options)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        model.fit(samples)
        sentence = _write_discovery(out, model, samples, names, crop_size, title=Path(data).name, windows=windows)
    except InputError:
        if {path.name for path in out.iterdir()} <= {CACHE, LOCK}:
            shutil.rmtree(cache, ignore_errors=True)
        raise
    except KeyboardInterrupt as error:
        kept = ", with the features that are kept there" if any(cache.iterdir()) else ""
        raise StoppedEarly(f"interrupted in {out}: the same command starts again{kept}") from error
    shutil.rmtree(cache)
    return sentence


#: Options in messages of `Discovery`: `max_parts=12`, `modality='series'`, or `max_q is 2`.
OPTIONS = "|".join([*FLAGS, "crop_size"])


def as_flags(text: str) -> str:
    """A message with options written as the flags of the command."""
    text = re.sub(rf"\b({OPTIONS})=(['\"]?)([\w.]+)\2", lambda m: f"--{m[1].replace('_', '-')} {m[3]}", text)
    text = re.sub(rf"\b({OPTIONS})(?= is )", lambda m: f"--{m[1].replace('_', '-')}", text)
    return re.sub(r"(?<!-)\bmax_(q|parts)\b", r"--max-\1", text)


def _write_discovery(
    out: Path,
    model: Discovery,
    samples: Any,
    names: list[str] | None,
    crop_size: int | None,
    *,
    title: str,
    windows: Windows | None,
) -> str:
    """Write the folder of a fitted discovery, and say what was found; what a stopped one has written is replaced."""
    modality = model.modality_
    model.save(out)
    crops, found = model.crops(samples, {"images": 64}.get(modality) if crop_size is None else crop_size)
    if windows is not None:
        kept = _distinct(found, windows)
        crops, found = crops[kept], found[kept]
    write_text_atomic(out / "parts.csv", parts_text(found, names, windows))
    if modality == "images":
        check_no_link(out / "crops")
        shutil.rmtree(out / "crops", ignore_errors=True)
        write_json_atomic(out / "coco.json", coco(found, samples, names))
        _write_crops(out / "crops", crops, found)
    elif modality == "dna":
        _write_motifs(out, model, crops, found, names)
    elif len(crops):
        with atomic_path(out / "crops.npz") as temporary, temporary.open("wb") as file:
            write_npz(file, {"X": crops})
    write_parts_report(out / "report.html", model, samples, found, names, title=title, spelled=as_flags)
    return model.describe(found, len(samples))


def locate_again(out: Path, run: Path, data: str, n: int, max_q: float | None = None) -> None:
    """Write where the parts of a discovery are in DATA: a table, or for DNA also BED (``.bed``)."""
    model, found, names, _, windows = _found_in(run, data, n, max_q)
    found = found if windows is None else found[_distinct(found, windows)]
    if out.suffix.lower() == ".bed" and model.modality_ == "dna":
        write_text_atomic(target_of(out), bed(found, names))
    elif out.suffix.lower() == ".csv":
        write_text_atomic(target_of(out), parts_text(found, names, windows))
    else:
        raise InputError(f"--out is {str(out)!r}, expected a file that ends in .csv, or for DNA .bed")


def crop_again(out: Path, run: Path, data: str, n: int, max_q: float | None = None) -> None:
    """Write what is at the parts of a discovery in DATA: a folder of images, ``.fasta`` or ``.npz``."""
    model, found, names, samples, _ = _found_in(run, data, n, max_q)
    suffix = {"images": "", "dna": ".fasta", "series": ".npz"}[model.modality_]
    if out.suffix.lower() != suffix:
        expected = f"a file that ends in {suffix}" if suffix else "a new folder"
        raise InputError(f"--out is {str(out)!r}, expected {expected}")
    crops = model.search_.crops(samples, found, CROP[model.modality_])
    if model.modality_ == "images":
        if out.exists():
            raise InputError(f"--out is {str(out)!r}, which exists: choose a new folder")
        _write_crops(out, crops, found)
    elif model.modality_ == "dna":
        write_text_atomic(target_of(out), fasta(crops, found, names))
    else:
        with atomic_path(target_of(out)) as temporary, temporary.open("wb") as file:
            write_npz(file, {"X": crops})


def _found_in(
    run: Path, data: str, n: int, max_q: float | None = None
) -> tuple[Discovery, np.ndarray, list[str] | None, Any, Windows | None]:
    """The model of a discovery, up to `n` parts of a kind in each sample of DATA, names, samples and windows; with
    q-values up to `max_q`, by default that of the run."""
    model = Discovery.load(run)
    if max_q is not None:
        model.set_params(max_q=max_q)
    samples, names, _, windows = read_samples(data, model.modality_, fitted=True)
    model.search_.max_parts = n
    return model, model.locate(samples), names, samples, windows


def bed(found: np.ndarray, names: list[str] | None) -> str:
    """Sites in the format BED; its score is a whole number from 0 to 1,000, 50 for each nat."""
    table = pd.DataFrame({"name": _labels(found, names), "start": found["start"], "end": found["end"]})
    table["kind"] = [f"motif{kind}" for kind in found["kind"]]
    table["score"] = np.clip(np.round(50 * found["score"]), 0, 1000).astype(int)
    table["strand"] = np.where(found["reverse"], "-", "+")
    return str(table.to_csv(sep="\t", index=False, header=False))


def fasta(crops: list[str], found: np.ndarray, names: list[str] | None) -> str:
    """Letters around sites as FASTA, read from the strand of the site."""
    return "".join(
        f">{label}:{site['start']}-{site['end']}({'-' if site['reverse'] else '+'})_motif{site['kind']}\n{text}\n"
        for label, site, text in zip(_labels(found, names), found, crops, strict=True)
    )


def _labels(found: np.ndarray, names: list[str] | None) -> list[str]:
    """Names of the sequences of sites, without what follows a space."""
    return [str(i) if names is None else names[i].split()[0] for i in found["sample"]]


def _write_motifs(out: Path, model: Discovery, crops: list[str], found: np.ndarray, names: list[str] | None) -> None:
    """Sites as BED and FASTA, motifs in the formats of the MEME Suite and JASPAR, and their logos."""
    motifs, titles = model.parts_, [f"motif{kind}" for kind in range(len(model.parts_))]
    write_text_atomic(out / "parts.bed", bed(found, names))
    counts = [int((found["kind"] == kind).sum()) for kind in range(len(motifs))]
    write_text_atomic(out / "motifs.meme", as_meme(motifs, titles, counts))
    write_text_atomic(out / "motifs.jaspar", as_jaspar(motifs, titles, counts))
    for title, motif in zip(titles, motifs, strict=True):
        save_logo(out / f"{title}.svg", motif.probabilities, motif.background.frequencies)
    if crops:
        write_text_atomic(out / "crops.fa", fasta(crops, found, names))


def _distinct(found: np.ndarray, windows: Windows) -> np.ndarray:
    """Parts of windows that are not parts of other windows, too; those of each kind by themselves."""
    kept = np.ones(len(found), dtype=bool)
    for kind in np.unique(found["kind"]):
        of_kind = np.flatnonzero(found["kind"] == kind)
        part = found[of_kind]
        kept[of_kind] = windows.distinct(part["sample"], part["start"], part["end"], part["score"])
    return kept


def parts_text(found: np.ndarray, names: list[str] | None, windows: Windows | None) -> str:
    """Parts as a table in CSV, of windows of recordings also in the time of these."""
    table = parts_table(found, names)
    if windows is not None:
        table = table.assign(**windows.located(found["sample"], found["start"], found["end"]))
    return str(spreadsheet_frame(table).to_csv(index=False, float_format="%.4g"))


def parts_table(found: np.ndarray, names: list[str] | None) -> pd.DataFrame:
    """Parts as a table: file (or index), kind, place, score, q."""
    table = pd.DataFrame(found).rename(columns={"sample": "index"})
    if names is not None:
        table["index"] = [names[i] for i in found["sample"]]
        table = table.rename(columns={"index": "file"})
    return table


def coco(found: np.ndarray, images: ImageList, names: list[str] | None) -> dict[str, Any]:
    """Parts in the layout of COCO's detection annotations. Numbers start at 1, for pycocotools takes 0 as no match."""
    listed = [
        {"id": i + 1, "file_name": str(i) if names is None else names[i], "height": height, "width": width}
        for i, (height, width) in enumerate(images.shapes)
    ]
    annotations = []
    for number, part in enumerate(found):
        width, height = int(part["right"] - part["left"]), int(part["bottom"] - part["top"])
        box = [int(part["left"]), int(part["top"]), width, height]
        annotations.append(
            {
                "id": number + 1,
                "image_id": int(part["sample"]) + 1,
                "category_id": int(part["kind"]) + 1,
                "bbox": box,
                "area": width * height,
                "iscrowd": 0,
                "score": round(float(part["score"]), 4),
            }
        )
    kinds = sorted({int(kind) for kind in found["kind"]})
    categories = [{"id": kind + 1, "name": f"kind {kind}", "supercategory": "part"} for kind in kinds]
    info = {"description": "Parts that viewsmith discover found", "version": __version__}
    return {"info": info, "licenses": [], "images": listed, "annotations": annotations, "categories": categories}


def _write_crops(folder: Path, crops: np.ndarray, found: np.ndarray) -> None:
    """PNG files of squares around the parts, named by image and part; `load_dataset` reads the folder."""
    if not len(found):
        return
    require("pillow", "image", "writing crops")
    from PIL import Image

    with atomic_folder(folder) as whole:
        for number, (part, pixels) in enumerate(zip(found, crops, strict=True)):
            crop = Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[..., 0])
            crop.save(whole / f"{int(part['sample']):06d}_{number:06d}_kind{int(part['kind'])}.png")
