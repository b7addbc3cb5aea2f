"""What `viewsmith discover` does: read samples, find the parts, or what recurs in sounds and where, and write tables,
crops and a report."""

import shutil
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import torch

from viewsmith.core import __version__, files
from viewsmith.core.errors import InputError, StoppedEarly, check, pluralize, require, say, warn
from viewsmith.core.tensors import load_tensors, save_tensors
from viewsmith.data.any_size import Samples
from viewsmith.data.dataset import Tiles, Windows
from viewsmith.data.places import LOCK, PARTS_CACHE, check_free_for_parts
from viewsmith.data.readers.tiff import write_tiff
from viewsmith.data.write import spreadsheet_frame, write_annotations, write_npz
from viewsmith.estimator.options import check_options
from viewsmith.methods.discovery.estimator import CROP, Discovery
from viewsmith.methods.discovery.motifs import as_jaspar, as_meme
from viewsmith.methods.discovery.options import ONE_STRAND, as_flags
from viewsmith.methods.discovery.pieces import PieceSearch
from viewsmith.methods.discovery.report import draw_logo, write_parts_report
from viewsmith.methods.linear_contrast.estimator import LinearContrast
from viewsmith.methods.loading import load
from viewsmith.modalities.images.channels import is_photograph, to_pixels
from viewsmith.reports import Figure, Picture, draw_map, render, two_dimensional_map
from viewsmith.training.run import RunFolder

FEWEST, MOST_KINDS = 12, 30  # sounds, kinds
JUDGED = 4000  # sounds at most by which the number of kinds is chosen
OPTIONS = {"kinds", "random_state", "modality", "max_parts"}
MODEL, CENTERS = "model", "kinds.safetensors"  # in the folder of a discovery
SHOWN, HEIGHT = 8, 96  # spectrograms of a kind, and their pixels


def kinds_of(h: np.ndarray, kinds: int | None = None, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The kind of each row (n, d), from 0 by their numbers, and its silhouette; as many kinds as are given, or as have
    the largest mean silhouette."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_samples, silhouette_score

    def clusters(x: np.ndarray, k: int) -> Any:
        return KMeans(k, n_init=5, random_state=seed).fit_predict(x)

    rows = _normalized(h)
    if kinds is None:
        some = rows[np.sort(np.random.default_rng(seed).permutation(len(rows))[:JUDGED])]
        tried = range(2, min(MOST_KINDS, len(some) // 3) + 1)
        kinds = max(tried, key=lambda k: float(silhouette_score(some, clusters(some, k))))
    labels = clusters(rows, kinds)
    order = np.argsort(-np.bincount(labels, minlength=kinds), kind="stable")
    silhouettes = np.ones(len(rows)) if kinds == 1 else silhouette_samples(rows, labels)
    return np.argsort(order)[labels], silhouettes


def discover_sounds(out: Path, found: Samples, options: dict[str, Any], title: str) -> str:
    """Write ``parts.csv`` (a row for each sound), annotations, ``crops.npz`` and ``report.html``; return what was
    found, in plain words."""
    x, _, _, windows, _ = found
    assert isinstance(windows, Windows) and windows.rate is not None
    if others := options.keys() - OPTIONS:
        raise InputError(f"{min(others)} is for events in windows, and the parts are whole sounds here: leave it out")
    if len(x) < FEWEST:
        raise InputError(f"{pluralize(len(x), 'sound')}, expected at least {FEWEST}: kinds are seen across sounds")
    seed, kinds = int(options.get("random_state", 0)), options.get("kinds")
    check(kinds is None or 1 <= kinds <= len(x), "kinds", kinds, f"1 to {len(x)}, the number of sounds")
    model = LinearContrast(
        modality="series", features="log-mel", features_options={"sampling_rate": windows.rate}, random_state=seed
    ).fit(x)
    h = model.transform(x)
    kind, silhouettes = kinds_of(h, kinds, seed)
    table = _table(found, kind, silhouettes)
    files.write_text_atomic(out / "parts.csv", _text(table))
    model.save(out / MODEL)
    centers = np.stack([_normalized(h)[kind == each].mean(0) for each in range(kind.max() + 1)])
    save_tensors(out / CENTERS, {"centers": torch.from_numpy(centers)})
    signal = {"rate": windows.rate, "points": x.shape[2], "sounds": True}
    RunFolder(out).write_config({"method": "discovery", "modality": "series", "read": {"signal": signal}})
    of, first, last = (table[name].to_numpy() for name in ("recording", "first", "last"))
    write_annotations(out / "annotations", of, first, last, [f"kind {each}" for each in kind], windows.rate)
    write_npz(out / "crops.npz", {"X": np.asarray(x[:]), "y": kind})
    counts = np.bincount(kind)
    recordings = pluralize(len(np.unique(windows.recordings)), "recording")
    sentence = (
        f"{pluralize(len(x), 'sound')} in {recordings}, of {pluralize(len(counts), 'kind')} "
        f"({', '.join(map(str, counts))}); mean silhouette {silhouettes.mean():.2f}"
    )
    xy, index = two_dimensional_map(h, seed=seed)
    figures = [
        Figure(
            f"Kind {each} ({count})",
            "The sounds that are most like their kind: frequency upward, time to the right.",
            [Picture(f"Spectrograms of kind {each}", _spectrograms(x, np.flatnonzero(kind == each), silhouettes))],
        )
        for each, count in enumerate(counts)
    ]
    page = render(
        "figures.html.j2",
        title=f"Sounds in {title}",
        verdict=f"{sentence[:1].upper()}{sentence[1:]}.",
        notes=[
            "Sounds lie between silences: their level over the background of each recording is above Otsu's threshold. "
            "A silhouette is near 1 where a sound is much nearer to its kind than to the next one, and 0 between two."
        ],
        figures=[draw_map("All sounds by kind", xy, kind[index]), *figures],
        version=__version__,
    )
    files.write_text_atomic(out / "report.html", page)
    return sentence


def locate_sounds(out: Path, run: Path, given: Samples, *, crops: bool = False) -> None:
    """Write the kinds of the sounds of other recordings, those of the nearest centers, as a table, or with `crops`
    sounds and kinds; a score is 1 less the quotient of the distances to the nearest center and the next."""
    h = _normalized(load(run / MODEL).transform(given.rows))
    distances = np.linalg.norm(h[:, None] - load_tensors(run / CENTERS)["centers"].numpy(), axis=2)
    kind, near = distances.argmin(1), np.sort(distances, 1)
    if crops:
        write_npz(files.target_of(out), {"X": np.asarray(given.rows[:]), "y": kind})
        return
    score = np.ones(len(h)) if near.shape[1] == 1 else 1 - near[:, 0] / np.maximum(near[:, 1], 1e-12)
    files.write_text_atomic(files.target_of(out), _text(_table(given, kind, score)))


def _normalized(h: np.ndarray) -> np.ndarray:
    return h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), 1e-12)


def _table(found: Samples, kind: np.ndarray, score: np.ndarray) -> pd.DataFrame:
    """A row for each sound: its kind and its place."""
    assert isinstance(found.windows, Windows)
    place = found.windows.located(np.arange(len(kind)), np.array(0), np.array(found.rows.shape[2]))
    return pd.DataFrame({"file": found.names, "kind": kind, "score": score} | place)


def _text(table: pd.DataFrame) -> str:
    return str(spreadsheet_frame(table).to_csv(index=False, float_format="%.6g"))


def _spectrograms(x: Any, rows: np.ndarray, silhouettes: np.ndarray) -> np.ndarray:
    """Spectrograms of the rows with the largest silhouettes beside each other, dark where loud, uint8 (H, W, 3)."""
    from scipy.signal import stft

    tiles = []
    for i in rows[np.argsort(-silhouettes[rows], kind="stable")][:SHOWN].tolist():
        values = np.asarray(x[i : i + 1])[0, 0]
        values = values[~np.isnan(values)]
        points = min(256, len(values))
        power = np.abs(stft(values, nperseg=points, noverlap=points * 3 // 4)[2]) ** 2
        level = 10 * np.log10(power + 1e-12 * max(float(power.max()), 1e-30))
        shade = np.clip((level.max() - level) / 50, 0, 1)[::-1]
        across = np.arange(HEIGHT) * len(shade) // HEIGHT
        tiles += [shade[across], np.ones((HEIGHT, 4))]
    gray = to_pixels(np.concatenate(tiles, 1))
    return np.repeat(np.repeat(gray, 2, 1)[..., None], 3, 2)


#: Events of a kind that a window of a longer recording may have, unless it is given.
IN_A_WINDOW = 8

#: Events whose crops are written.
MOST_CROPS = 10_000


def discover_to(
    out: Path,
    found: Samples,
    options: dict[str, Any],
    crop_size: int | None = None,
    *,
    title: str = "data",
    read: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """Find what recurs in samples, and write the folder `out`: model, ``parts.csv``, crops as samples, ``report.html``,
    and for images ``coco.json``, for sequences ``parts.bed``, motifs and logos. Return what was found, in plain words.
    The model keeps how they were read, the options `read`, with which further files are.

    Raises InputError if `out` is not empty, unless a discovery was stopped there.
    """
    check_free_for_parts(out)
    files.check_no_link(out / PARTS_CACHE)
    with files.locked_folder(out, LOCK):
        if isinstance(found.windows, Windows) and found.windows.ends is not None:
            sentence = discover_sounds(out, found, options, title)
        else:
            sentence = _discover(out, found, options, crop_size, title)
        config = (folder := RunFolder(out)).read_config()
        kept = {name: str(value) if isinstance(value, Path) else value for name, value in read.items()}
        folder.write_config(config | {"read": kept | config.get("read", {})})
        return sentence


def _discover(out: Path, found: Samples, options: dict[str, Any], crop_size: int | None, title: str) -> str:
    """`discover_to` in a folder that this process holds."""
    check_options(Discovery, options)
    if found.rna and "both_strands" not in options:
        options["both_strands"] = False
        say(f"{ONE_STRAND} (--both-strands: on both)")
    if isinstance(found.windows, Windows):
        options = {"max_parts": IN_A_WINDOW} | options
    cache = out / PARTS_CACHE
    options |= {"modality": found.modality, "cache": str(cache) if found.modality == "images" else None}
    model = Discovery(**options)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "nothing recurs")  # which the sentence says
            if isinstance(found.windows, Windows):
                warnings.filterwarnings("ignore", ".* with gaps")  # which was said as they were cut
            model.fit(found.rows)
            warnings.filterwarnings("ignore", ".* with gaps")
            sentence = _write_discovery(out, model, found, crop_size, title)
    except InputError:
        if {path.name for path in out.iterdir()} <= {PARTS_CACHE, LOCK}:
            shutil.rmtree(cache, ignore_errors=True)
        raise
    except KeyboardInterrupt as error:
        kept = ", with the features that are kept there" if any(cache.iterdir()) else ""
        raise StoppedEarly(f"interrupted in {out}: the same command starts again{kept}") from error
    shutil.rmtree(cache)
    return sentence


def _write_discovery(out: Path, model: Discovery, given: Samples, crop_size: int | None, title: str) -> str:
    """Write the folder of a fitted discovery, and say what was found; what a stopped one has written is replaced."""
    samples, names, kind, windows = given.rows, given.names, model.search_.name, given.windows
    model.save(out)
    model.search_.rate = getattr(windows, "rate", None)
    found = _distinct(model.locate(samples), windows)
    files.write_text_atomic(out / "parts.csv", parts_text(found, names, windows))
    if isinstance(windows, Windows) and windows.rate is not None and len(found):
        files.check_no_link(out / "annotations")
        shutil.rmtree(out / "annotations", ignore_errors=True)
        place = windows.located(found["sample"], found["start"], found["end"])
        texts = [f"kind {kind_of}" for kind_of in found["kind"]]  # scores are in parts.csv: these can be labels
        write_annotations(out / "annotations", place["recording"], place["first"], place["last"], texts, windows.rate)
    some, size = found, (64 if kind == "images" else CROP[kind]) if crop_size is None else crop_size
    if kind == "series" and len(found) > MOST_CROPS:
        some = found[np.linspace(0, len(found) - 1, MOST_CROPS).astype(int)]
        warn(f"crops.npz has {MOST_CROPS:,} of the {len(found):,} events, evenly spread")
    crops = model.search_.crops(samples, some, size)
    if kind == "images":
        files.check_no_link(out / "crops")
        shutil.rmtree(out / "crops", ignore_errors=True)
        tiles = (windows.placed(found), windows.shapes, windows.scenes) if isinstance(windows, Tiles) else None
        files.write_json_atomic(out / "coco.json", coco(*(tiles or (found, samples.shapes, names))))
        _write_crops(out / "crops", crops, found)
    elif kind == "letters":
        _write_motifs(out, model, crops, found, names)
    elif len(crops):
        write_npz(out / "crops.npz", {"X": crops})
    write_parts_report(out / "report.html", model, samples, found, names, title=title, spelled=as_flags)
    return model.describe(found, len(samples))


def locate_again(
    out: Path, run: Path, given: Samples, n: int | None, max_q: float | None = None, unjudged: bool = False
) -> None:
    """Write where the parts of a discovery are in samples: a table, or for sequences also BED (``.bed``)."""
    found, names = _found_in(run, given, n, max_q, unjudged)[1], given.names
    text = bed(found, names) if out.suffix.lower() == ".bed" else parts_text(found, names, given.windows)
    files.write_text_atomic(files.target_of(out), text)


def crop_again(
    out: Path, run: Path, given: Samples, n: int | None, max_q: float | None = None, unjudged: bool = False
) -> None:
    """Write what is at the parts of a discovery in samples: a folder of images, ``.fasta`` or ``.npz``."""
    model, found = _found_in(run, given, n, max_q, unjudged)
    crops = model.search_.crops(given.rows, found, CROP[model.search_.name])
    if model.modality_ == "images":
        _write_crops(out, crops, found)
    elif model.search_.name == "letters":
        files.write_text_atomic(files.target_of(out), fasta(crops, found, given.names))
    else:
        write_npz(files.target_of(out), {"X": crops})


def _found_in(
    run: Path, given: Samples, n: int | None, max_q: float | None, unjudged: bool
) -> tuple[Discovery, np.ndarray]:
    """The model of a discovery, and up to `n` parts of a kind in each sample (default: 1, or all pieces); with
    q-values up to `max_q`, by default that of the run."""
    model = Discovery.load(run)
    given_max = {} if max_q is None else {"max_q": max_q}
    model.set_params(unjudged=unjudged or model.unjudged, **given_max)
    if n is not None or not isinstance(model.search_, PieceSearch):
        model.search_.max_parts = n or 1
    return model, _distinct(model.locate(given.rows), given.windows)


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
    """Sites as BED and FASTA, motifs in the formats of the MEME Suite and, of DNA, JASPAR, and their logos."""
    motifs, titles = model.parts_, [f"motif{kind}" for kind in range(len(model.parts_))]
    files.write_text_atomic(out / "parts.bed", bed(found, names))
    counts = [int((found["kind"] == kind).sum()) for kind in range(len(motifs))]
    files.write_text_atomic(out / "motifs.meme", as_meme(motifs, titles, counts))
    if model.modality_ == "dna":
        files.write_text_atomic(out / "motifs.jaspar", as_jaspar(motifs, titles, counts))
    for title, motif in zip(titles, motifs, strict=True):
        files.write_text_atomic(out / f"{title}.svg", draw_logo(motif).svg)
    if crops:
        files.write_text_atomic(out / "crops.fa", fasta(crops, found, names))


def _distinct(found: np.ndarray, windows: Windows | Tiles | None) -> np.ndarray:
    """The parts, of windows or tiles without those that others show, too; those of each kind by themselves."""
    if windows is None:
        return found
    kept = np.ones(len(found), dtype=bool)
    for kind in np.unique(found["kind"]):
        of_kind = np.flatnonzero(found["kind"] == kind)
        kept[of_kind] = windows.distinct(found[of_kind])
    return found[kept]


def parts_text(found: np.ndarray, names: list[str] | None, windows: Windows | Tiles | None) -> str:
    """Parts as a table in CSV, of windows of recordings also in the time of these; of tiles in the pixels of their
    scene, and, with the coordinates of a map, their centers."""
    if isinstance(windows, Tiles):
        placed = windows.placed(found)
        center = [(placed[one] + placed[other]) / 2 for one, other in (("left", "right"), ("top", "bottom"))]
        table = parts_table(placed, windows.scenes).assign(**windows.coordinates(placed["sample"], *center))
    else:
        table = parts_table(found, names)
        if windows is not None:
            place = windows.located(found["sample"], found["start"], found["end"])
            # As text, which keeps all digits of long recordings.
            seconds = {name: [f"{each:.4f}" for each in place[name]] for name in ("begin_s", "end_s") if name in place}
            table = table.assign(**place | seconds)
    return str(spreadsheet_frame(table).to_csv(index=False, float_format="%.4g"))


def parts_table(found: np.ndarray, names: list[str] | None) -> pd.DataFrame:
    """Parts as a table: file (or index), kind, place, score, q, outlier."""
    table = pd.DataFrame(found)
    if names is not None:
        table["sample"] = [names[i] for i in found["sample"]]
    return table.rename(columns={"sample": "index" if names is None else "file"})


def coco(found: np.ndarray, shapes: Sequence[tuple[int, int]], names: list[str] | None) -> dict[str, Any]:
    """Parts in the layout of COCO's detection annotations. Numbers start at 1, for pycocotools takes 0 as no match."""
    listed = [
        {"id": i + 1, "file_name": str(i) if names is None else names[i], "height": height, "width": width}
        for i, (height, width) in enumerate(shapes)
    ]
    annotations = []
    for number, part in enumerate(found):
        left, top, right, bottom = (int(part[side]) for side in ("left", "top", "right", "bottom"))
        numbers = {"id": number + 1, "image_id": int(part["sample"]) + 1, "category_id": int(part["kind"]) + 1}
        box = {"bbox": [left, top, right - left, bottom - top], "area": (right - left) * (bottom - top), "iscrowd": 0}
        judged = {"score": round(float(part["score"]), 4), "outlier": bool(part["outlier"])}
        annotations.append(numbers | box | judged)
    kinds = sorted({int(kind) for kind in found["kind"]})
    categories = [{"id": kind + 1, "name": f"kind {kind}", "supercategory": "part"} for kind in kinds]
    info = {"description": "Parts that viewsmith discover found", "version": __version__}
    return {"info": info, "licenses": [], "images": listed, "annotations": annotations, "categories": categories}


def _write_crops(folder: Path, crops: np.ndarray, found: np.ndarray) -> None:
    """PNG files of squares around the parts, or TIFF files of images of instruments, named by image and part;
    `load_dataset` reads the folder."""
    if not len(found):
        return
    require("pillow", "image", "writing crops")
    from PIL import Image

    with files.atomic_folder(folder) as whole:
        for number, (part, pixels) in enumerate(zip(found, crops, strict=True)):
            name = f"{int(part['sample']):06d}_{number:06d}_kind{int(part['kind'])}"
            if is_photograph(pixels.shape, pixels.dtype):
                crop = Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[..., 0])
                crop.save(whole / f"{name}.png", compress_level=1)  # in a third of the time, hardly larger
            else:
                write_tiff(whole / f"{name}.tif", pixels)
