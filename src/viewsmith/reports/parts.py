"""The report of a discovery: one HTML file with the best parts, images with boxes and the scores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Template
from markupsafe import Markup

from viewsmith.core.files import write_text_atomic
from viewsmith.core.version import __version__
from viewsmith.reports.drawing import as_svg, new_axes, pixels_as_png, style

if TYPE_CHECKING:
    from collections.abc import Sequence

GALLERY, SIDE, COLUMNS = 48, 64, 12
SHOWN, WIDTH = 12, 256

_PAGE = Template(
    """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title><style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
img, svg { max-width: 100% } figure { margin: 1rem 0 } figcaption { color: #555; font-size: .9rem }
.images { display: flex; flex-wrap: wrap; gap: .5rem } .images figure { margin: 0; width: 256px; max-width: 46% }
</style></head><body>
<h1>What recurs in {{ title }}</h1>
<p><strong>{{ verdict }}</strong> {{ sentence }}</p>
<p>The method looked for windows that look alike across images and unlike windows in general; a box is where more than
half of the posterior of each cell says "part". Scores are log likelihood ratios in nats; the q-value is the expected
fraction of false parts among those with at least this score.</p>
{% if gallery %}<h2>Best parts</h2>
<figure><img src="{{ gallery.uri }}" alt="{{ gallery.alt }}">
<figcaption>The parts with the highest scores, best first.</figcaption></figure>{% endif %}
{% if scores %}<h2>Scores</h2><figure>{{ scores }}
<figcaption>Scores of the found parts, and the best scores of the images apart from the boxes.</figcaption></figure>
{% endif %}
{% for heading, figures in rows if figures %}<h2>{{ heading }}</h2><div class="images">
{% for picture, caption in figures %}<figure><img src="{{ picture.uri }}" alt="{{ picture.alt }}">
<figcaption>{{ caption }}</figcaption></figure>{% endfor %}</div>{% endfor %}
<p><small>viewsmith {{ version }}</small></p></body></html>
""",
    autoescape=True,
)


def write_parts_report(
    path: Path, model: Any, images: Any, found: np.ndarray, names: Sequence[str] | None, *, title: str
) -> None:
    """Write the page of a fitted `viewsmith.Discovery`.

    Parameters
    ----------
    path : Path
    model : Discovery
    images : ImageList
    found : structured array
        What `Discovery.locate` returned for these images.
    names : sequence of str, optional
        Names of the images.
    title : str
    """
    ranked = found[np.argsort(-found["score"], kind="stable")]
    spread = ranked[np.unique(np.linspace(0, len(ranked) - 1, SHOWN).astype(int))] if len(ranked) else ranked
    without = np.setdiff1d(np.arange(len(images)), found["sample"])
    rows = [
        ("Images, from the best score to the worst", [_boxed(images, found, int(p["sample"]), names) for p in spread]),
        (f"Images without a part ({len(without)})", [_boxed(images, found, int(i), names) for i in without[:SHOWN]]),
    ]
    kinds = len(model.parts_)
    count = len(np.unique(found["sample"]))
    verdict = (
        f"{len(found)} parts of {kinds} {'kind' if kinds == 1 else 'kinds'} in {count} of {len(images)} images."
        if kinds
        else "Nothing recurs here."
    )
    page = _PAGE.render(
        title=title,
        verdict=verdict,
        sentence=model.describe()[:1].upper() + model.describe()[1:] + ".",
        gallery=_gallery(images, ranked) if len(ranked) else None,
        scores=_scores(model, found) if kinds else None,
        rows=rows,
        version=__version__,
    )
    write_text_atomic(path, page)


def _gallery(images: Any, ranked: np.ndarray) -> Any:
    """Squares around the best parts in rows."""
    tiles = []
    for part in ranked[:GALLERY]:
        box = [int(part[side]) for side in ("top", "bottom", "left", "right")]
        tiles.append(_fitted(images.read(int(part["sample"]), None)[box[0] : box[1], box[2] : box[3]], SIDE))
    columns = min(COLUMNS, len(tiles))
    tiles += [np.full_like(tiles[0], 255)] * (-len(tiles) % columns)
    lines = [np.concatenate(tiles[i : i + columns], 1) for i in range(0, len(tiles), columns)]
    return pixels_as_png(_plain(np.concatenate(lines, 0)), "The best parts")


def _fitted(pixels: np.ndarray, side: int) -> np.ndarray:
    """Pixels (h, w, C) as a square tile with its aspect ratio, on white, by the nearest pixel."""
    scale = (side - 2) / max(pixels.shape[:2])
    height, width = (max(1, round(n * scale)) for n in pixels.shape[:2])
    rows = np.arange(height) * pixels.shape[0] // height
    columns = np.arange(width) * pixels.shape[1] // width
    tile = np.full((side, side, pixels.shape[2]), 255, np.uint8)
    top, left = (side - height) // 2, (side - width) // 2
    tile[top : top + height, left : left + width] = pixels[rows][:, columns]
    return tile


def _boxed(images: Any, found: np.ndarray, i: int, names: Sequence[str] | None) -> tuple[Any, str]:
    """An image with the boxes of its parts, and its caption."""
    height, width = images.shapes[i]
    scale = min(1.0, WIDTH / max(height, width))
    size = (max(4, round(height * scale)), max(4, round(width * scale)))
    pixels = np.repeat(images.read(i, size), 3 // images.channels, axis=2).copy()
    own = found[found["sample"] == i]
    for part in own:
        top, bottom = (int(np.clip(part[s] * scale, 0, size[0] - 1)) for s in ("top", "bottom"))
        left, right = (int(np.clip(part[s] * scale, 0, size[1] - 1)) for s in ("left", "right"))
        color = ((230, 60, 20), (20, 110, 220), (20, 150, 60))[int(part["kind"]) % 3]
        for line in (np.s_[top : top + 2, left : right + 1], np.s_[max(bottom - 1, 0) : bottom + 1, left : right + 1]):
            pixels[line] = color
        for line in (np.s_[top : bottom + 1, left : left + 2], np.s_[top : bottom + 1, max(right - 1, 0) : right + 1]):
            pixels[line] = color
    name = str(i) if names is None else names[i]
    scores = ", ".join(f"{part['score']:.1f} (q {part['q']:.3f})" for part in own)
    return pixels_as_png(pixels, f"Image {name}"), f"{name}: {scores}" if scores else name


def _plain(pixels: np.ndarray) -> np.ndarray:
    """Pixels (h, w, 3) of gray or color pixels."""
    return np.repeat(pixels, 3 // pixels.shape[2], axis=2)


def _scores(model: Any, found: np.ndarray) -> Any:
    """Histograms of the scores of the first kind, and of those apart from the boxes."""
    with style():
        figure, axes = new_axes(6.0, 2.4)
        parts, rest = found["score"][found["kind"] == 0], model.search_.null[0]
        both = np.concatenate([parts, rest])
        bins = np.linspace(both.min(), both.max(), 41).tolist()
        axes.hist(rest, bins, alpha=0.6, label="apart from the boxes")
        axes.hist(parts, bins, alpha=0.6, label="parts")
        axes.set_xlabel("score (nats)")
        axes.set_ylabel("number")
        axes.legend()
        # Its texts were escaped when it was drawn.
        return Markup(as_svg(figure, "Histogram of scores").svg)
