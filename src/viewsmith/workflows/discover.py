"""What `viewsmith discover` does: read images of any sizes, find the parts, write tables, crops and a report."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewsmith.core.errors import InputError, MissingExtra
from viewsmith.core.files import write_json_atomic, write_text_atomic
from viewsmith.core.messages import name_list, pluralize, warn
from viewsmith.data import load_dataset
from viewsmith.data.readers.folders import SUFFIXES
from viewsmith.estimators.discovery import Discovery
from viewsmith.methods.discovery.image_search import ImageList, as_images, square
from viewsmith.reports.parts import write_parts_report


def read_any_sizes(data: str) -> tuple[ImageList, list[str] | None]:
    """Images of a folder, of any sizes, with the names of their files; or of a file with an array.

    Raises
    ------
    InputError
        There are no images, or DATA is of another modality.
    """
    path = Path(data)
    if path.is_dir():
        return _folder(path)
    dataset = load_dataset(data)
    if dataset.domain != "images":
        raise InputError(f"{data} has {dataset.domain}, expected images: a folder of image files, or an array uint8")
    return as_images(np.asarray(dataset.x)), None


def _folder(path: Path) -> tuple[ImageList, list[str]]:
    """All readable images under a folder, in the order of their names."""
    if importlib.util.find_spec("PIL") is None:
        raise MissingExtra("pillow", "image", "reading folders of images")
    from PIL import Image, ImageOps

    files, shapes, damaged, color = [], [], [], False
    for file in sorted(path.rglob("*")):
        if file.suffix.lower() not in SUFFIXES or any(part.startswith(".") for part in file.relative_to(path).parts):
            continue
        try:
            with Image.open(file) as image:
                rotated = image.getexif().get(0x0112, 1) >= 5
                width, height = image.size[::-1] if rotated else image.size
                # Decodes a small version of a JPEG file, so that a damaged one is found before the search.
                image.draft("RGB", (32, 32))
                image.load()
                color = color or image.mode not in ("1", "L", "LA", "I", "I;16", "F")
        except (OSError, ValueError, SyntaxError):
            damaged.append(file.relative_to(path).as_posix())
            continue
        files.append(file)
        shapes.append((height, width))
    if damaged:
        warn(f"{pluralize(len(damaged), 'file')} cannot be read as an image, left out: {name_list(damaged)}")
    if not files:
        raise InputError(f"{path} is a folder without images ({' '.join(SUFFIXES)})")

    def read(i: int, size: tuple[int, int] | None) -> np.ndarray:
        with Image.open(files[i]) as image:
            if size is not None:
                image.draft("RGB" if color else "L", (max(size), max(size)))
            upright = ImageOps.exif_transpose(image).convert("RGB" if color else "L")
        if size is not None and upright.size != size[::-1]:
            upright = upright.resize(size[::-1], Image.Resampling.BOX)
        pixels = np.asarray(upright)
        return pixels if pixels.ndim == 3 else pixels[..., None]

    return ImageList(shapes, read, 3 if color else 1), [file.relative_to(path).as_posix() for file in files]


def discover_to(out: Path, data: str, options: dict[str, Any], crop_size: int = 64) -> Discovery:
    """Find what recurs in the images of DATA, and write the folder `out`.

    It gets the model (``config.toml``, ``model.safetensors``), ``parts.csv`` and ``coco.json`` with boxes in the pixels
    of the original images, ``crops/`` with a square around each part, and ``report.html``.
    """
    model = Discovery(**options)
    images, names = read_any_sizes(data)
    model.fit(images)
    model.save(out)
    found = model.locate(images)
    table = parts_table(found, names)
    write_text_atomic(out / "parts.csv", table.to_csv(index=False, float_format="%.4g"))
    write_json_atomic(out / "coco.json", coco(found, images, names))
    _write_crops(out / "crops", images, found, crop_size)
    write_parts_report(out / "report.html", model, images, found, names, title=Path(data).name)
    return model


def parts_table(found: np.ndarray, names: list[str] | None) -> pd.DataFrame:
    """Parts as a table: file (or index), kind, left, top, right, bottom, score, q."""
    table = pd.DataFrame(found).rename(columns={"sample": "index"})
    if names is not None:
        table["index"] = [names[i] for i in found["sample"]]
        table = table.rename(columns={"index": "file"})
    return table


def coco(found: np.ndarray, images: ImageList, names: list[str] | None) -> dict[str, Any]:
    """Parts in the layout of COCO's detection annotations."""
    listed = [
        {"id": i, "file_name": str(i) if names is None else names[i], "height": height, "width": width}
        for i, (height, width) in enumerate(images.shapes)
    ]
    annotations = []
    for number, part in enumerate(found):
        width, height = int(part["right"] - part["left"]), int(part["bottom"] - part["top"])
        box = [int(part["left"]), int(part["top"]), width, height]
        annotations.append(
            {
                "id": number,
                "image_id": int(part["sample"]),
                "category_id": int(part["kind"]),
                "bbox": box,
                "area": width * height,
                "iscrowd": 0,
                "score": round(float(part["score"]), 4),
            }
        )
    kinds = sorted({int(kind) for kind in found["kind"]})
    categories = [{"id": kind, "name": f"kind {kind}"} for kind in kinds]
    return {"images": listed, "annotations": annotations, "categories": categories}


def _write_crops(folder: Path, images: ImageList, found: np.ndarray, size: int) -> None:
    """PNG files of squares around the parts, named by image and part; `load_dataset` reads the folder."""
    if not len(found):
        return
    if importlib.util.find_spec("PIL") is None:
        raise MissingExtra("pillow", "image", "writing crops")
    from PIL import Image

    folder.mkdir(exist_ok=True)
    for number, part in enumerate(found):
        pixels = square(images.read(int(part["sample"]), None), part)
        crop = Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[..., 0])
        crop = crop.resize((size, size), Image.Resampling.BILINEAR)
        crop.save(folder / f"{int(part['sample']):06d}_{number:06d}_kind{int(part['kind'])}.png")
