"""The report of a discovery, one HTML file, and sequence logos (Schneider and Stephens 1990)."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Template
from markupsafe import Markup

from viewsmith.core import __version__
from viewsmith.core.files import write_text_atomic
from viewsmith.reports.drawing import PALETTE, VERMILION, Picture, as_svg, new_axes, pixels_as_png, style

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure


LETTERS = "ACGT"

COLORS = ("#117733", "#332288", "#ddaa33", "#cc3311")


def letter_heights(probabilities: np.ndarray, background: np.ndarray) -> np.ndarray:
    """Heights in bits, (w, 4): the information of each position against the background, shared by probability."""
    ratio = np.where(probabilities > 0, probabilities / background, 1.0)
    bits = (probabilities * np.log2(ratio)).sum(1, keepdims=True)
    return np.asarray(probabilities * np.maximum(bits, 0))


def draw_logo(probabilities: np.ndarray, background: np.ndarray, name: str) -> Picture:
    """The logo of a motif, as SVG for a page."""
    with style():
        return as_svg(_figure(probabilities, background), f"Sequence logo of {name}")


def save_logo(path: Path, probabilities: np.ndarray, background: np.ndarray) -> None:
    """Write the logo of a motif as an SVG file."""
    buffer = io.BytesIO()
    metadata: dict[str, Any] = {"Date": None}
    with style():
        _figure(probabilities, background).savefig(buffer, format="svg", metadata=metadata)
    write_text_atomic(path, buffer.getvalue().decode())


def _figure(probabilities: np.ndarray, background: np.ndarray) -> Figure:
    """The letters of each position on each other, the smallest at the bottom."""
    from matplotlib.patches import PathPatch
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    heights = letter_heights(probabilities, background)
    outlines = []
    for letter in LETTERS:
        path = TextPath((0, 0), letter, size=1)
        outlines.append((path, path.get_extents()))
    figure, axes = new_axes(0.8 + 0.3 * len(heights), 1.8)
    for position, row in enumerate(heights):
        bottom = 0.0
        for i in np.argsort(row):
            path, box = outlines[i]
            if row[i] > 1e-3:
                place = Affine2D().translate(-box.x0, -box.y0).scale(0.9 / box.width, row[i] / box.height)
                place = place.translate(position + 0.55, bottom)
                axes.add_patch(PathPatch(path.transformed(place), color=COLORS[i], linewidth=0))
            bottom += float(row[i])
    axes.set_xlim(0.5, len(heights) + 0.5)
    axes.set_ylim(0, max(2.0, float(heights.sum(1).max())))
    axes.set_xticks(range(1, len(heights) + 1))
    axes.set_ylabel("bits")
    axes.grid(visible=False)
    return figure


GALLERY, SIDE, COLUMNS = 48, 64, 12

SHOWN, WIDTH = 12, 256

LISTED, AROUND = 60, 60  # sites, and letters around each

_PAGE = Template(
    """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title><style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
img, svg { max-width: 100% } figure { margin: 1rem 0 } figcaption { color: #555; font-size: .9rem }
pre { overflow-x: auto; font-size: .8rem; line-height: 1.35 }
.images { display: flex; flex-wrap: wrap; gap: .5rem } .images figure { margin: 0; width: 256px; max-width: 46% }
</style></head><body>
<h1>What recurs in {{ title }}</h1>
<p><strong>{{ verdict }}</strong> {{ sentence }}</p>
<p>{{ method }} Scores are log likelihood ratios in nats; the q-value is the expected
fraction of false parts among those with at least this score.</p>
{% for heading, picture, caption in wide if picture %}<h2>{{ heading }}</h2>
<figure>{% if picture.uri %}<img src="{{ picture.uri }}" alt="{{ picture.alt }}">
{%- else %}{{ picture.markup }}{% endif %}
<figcaption>{{ caption }}</figcaption></figure>{% endfor %}
{% for heading, text in lists if text %}<h2>{{ heading }}</h2><pre>{{ text }}</pre>{% endfor %}
{% for heading, figures in rows if figures %}<h2>{{ heading }}</h2><div class="images">
{% for picture, caption in figures %}<figure>{% if picture.uri %}<img src="{{ picture.uri }}" alt="{{ picture.alt }}">
{%- else %}{{ picture.markup }}{% endif %}
<figcaption>{{ caption }}</figcaption></figure>{% endfor %}</div>{% endfor %}
<p><small>viewsmith {{ version }}</small></p></body></html>
""",
    autoescape=True,
)


def write_parts_report(
    path: Path, model: Any, samples: Any, found: np.ndarray, names: Sequence[str] | None, *, title: str
) -> None:
    """Write the page of a fitted `viewsmith.Discovery`."""
    ranked = found[np.argsort(-found["score"], kind="stable")]
    without = np.setdiff1d(np.arange(len(samples)), found["sample"])
    kinds = len(model.parts_)
    count = len(np.unique(found["sample"]))
    verdict = (
        f"{len(found)} parts of {kinds} {'kind' if kinds == 1 else 'kinds'} in {count} of {len(samples)} samples."
        if kinds
        else "Nothing recurs here."
    )
    content = _CONTENT[model.modality_](model, samples, ranked, without, names)
    if kinds:
        content.wide.append(("Scores", _scores(model, found), f"Scores of the parts, and those of {content.nothing}."))
    page = _PAGE.render(
        title=title,
        verdict=verdict,
        sentence=model.describe()[:1].upper() + model.describe()[1:] + ".",
        version=__version__,
        **vars(content),
    )
    write_text_atomic(path, page)


@dataclass
class Content:
    """What the page shows of one kind of data.

    Attributes
    ----------
    method : str
        What the method looked for.
    nothing : str
        What scores are compared with.
    wide : list of (heading, picture, caption)
    lists : list of (heading, text)
    rows : list of (heading, list of (picture, caption))
    """

    method: str
    nothing: str
    wide: list[tuple[str, Any, str]] = field(default_factory=list)
    lists: list[tuple[str, str]] = field(default_factory=list)
    rows: list[tuple[str, Any]] = field(default_factory=list)


def _inline(picture: Picture) -> dict[str, Any]:
    """A picture for the page; the texts of SVG were escaped when it was drawn."""
    return {"uri": picture.uri, "alt": picture.alt, "markup": Markup(picture.svg)}


def _spread(ranked: np.ndarray) -> np.ndarray:
    """Parts from the best score to the worst, evenly spaced."""
    return ranked[np.unique(np.linspace(0, len(ranked) - 1, SHOWN).astype(int))] if len(ranked) else ranked


def _images(model: Any, images: Any, ranked: np.ndarray, without: np.ndarray, names: Sequence[str] | None) -> Content:
    content = Content(
        "The method looked for windows that look alike across images and unlike windows in general; a box is where "
        "more than half of the posterior of each cell says part.",
        "the images apart from the boxes",
    )
    found = ranked[np.argsort(ranked["sample"], kind="stable")]
    if len(ranked):
        gallery = _inline(_gallery(images, ranked))
        content.wide.append(("Best parts", gallery, "The parts with the highest scores, best first."))
    content.rows = [
        (
            "Images beside their score map, from the best score to the worst",
            [_boxed(model, images, found, int(p["sample"]), names) for p in _spread(ranked)],
        ),
        (
            f"Images without a part ({len(without)})",
            [_boxed(model, images, found, int(i), names) for i in without[:SHOWN]],
        ),
    ]
    return content


def _dna(model: Any, sequences: Any, ranked: np.ndarray, without: np.ndarray, names: Sequence[str] | None) -> Content:
    content = Content(
        "The method looked for a motif, independent letters at each position, that sequences share and that a Markov "
        "chain of order 2 does not explain.",
        "the best sites of random sequences",
    )
    for kind, motif in enumerate(model.parts_):
        logo = draw_logo(motif.probabilities, motif.background.frequencies, motif.consensus)
        caption = f"{motif.consensus}, {motif.bits.sum():.1f} bits; {motif.share:.0%} of the sequences have a site."
        content.wide.append((f"Motif {kind}", _inline(logo), caption))
    width = max((len(_name(names, int(i))) for i in ranked["sample"][:LISTED]), default=0)
    crops = model.search_.crops(sequences, ranked[:LISTED], AROUND) if len(ranked) else []
    lines = [
        f"{_name(names, int(site['sample'])):{width}}  {int(site['start']) + 1:6d}  {'-' if site['reverse'] else '+'}  "
        f"{site['score']:6.1f}  {site['q']:.4f}  {text}"
        for site, text in zip(ranked, crops, strict=False)
    ]
    heading = "Sites, best first: sequence, first letter from 1, strand, score, q, letters around"
    content.lists.append((heading, "\n".join(lines)))
    content.lists.append(
        (f"Sequences without a site ({len(without)})", ", ".join(_name(names, i) for i in without[:LISTED]))
    )
    return content


def _series(model: Any, x: Any, ranked: np.ndarray, without: np.ndarray, names: Sequence[str] | None) -> Content:
    content = Content(
        "The method looked for windows that look alike across pieces and unlike windows in general.",
        "pieces with the same spectra and random phases",
    )
    for kind, event in enumerate(model.parts_):
        own = ranked[ranked["kind"] == kind]
        if len(own):
            cut = model.search_.crops(x, own, 2 * event.width)
            caption = f"Mean and deciles of {len(own)} windows of twice the event's width ({event.width} points)."
            content.wide.append((f"Event {kind}", _inline(_mean_event(cut)), caption))
    pictures = [
        (
            _inline(_piece(x[int(p["sample"])], ranked[ranked["sample"] == p["sample"]])),
            f"{_name(names, int(p['sample']))}: {p['score']:.1f} (q {p['q']:.3f})",
        )
        for p in _spread(ranked)
    ]
    content.rows = [
        ("Pieces, from the best score to the worst", pictures),
        (
            f"Pieces without an event ({len(without)})",
            [(_inline(_piece(x[int(i)], ranked[:0])), _name(names, int(i))) for i in without[:SHOWN]],
        ),
    ]
    return content


def _name(names: Sequence[str] | None, i: int) -> str:
    return str(i) if names is None else str(names[i])


def _mean_event(cut: np.ndarray) -> Picture:
    """Mean and deciles over windows (m, C, w), a line for each channel."""
    with style():
        figure, axes = new_axes(6.0, 2.4)
        place = np.arange(cut.shape[2])
        for channel in range(cut.shape[1]):
            color = PALETTE[channel % len(PALETTE)]
            low, high = np.quantile(cut[:, channel], (0.1, 0.9), axis=0)
            axes.fill_between(place, low, high, color=color, alpha=0.2, linewidth=0)
            axes.plot(place, cut[:, channel].mean(0), color=color, linewidth=1)
        axes.set_xlabel("points")
        return as_svg(figure, "Mean event")


def _piece(x: np.ndarray, own: np.ndarray) -> Picture:
    """A piece (C, T) with its events shaded."""
    with style():
        figure, axes = new_axes(3.2, 1.2)
        for event in own:
            axes.axvspan(int(event["start"]), int(event["end"]), color=VERMILION, alpha=0.25, linewidth=0)
        for channel, values in enumerate(x):
            axes.plot(values, color=PALETTE[channel % len(PALETTE)], linewidth=0.6)
        return as_svg(figure, "A piece and its events")


_CONTENT = {"images": _images, "dna": _dna, "series": _series}


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


def _boxed(model: Any, images: Any, found: np.ndarray, i: int, names: Sequence[str] | None) -> tuple[Any, str]:
    """An image with the boxes of its parts beside its score map, and its caption."""
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
    if model.parts_:
        pixels = np.concatenate([pixels, _score_map(model, images, i, size)], 1)
    name = str(i) if names is None else names[i]
    scores = ", ".join(f"{part['score']:.1f} (q {part['q']:.3f})" for part in own)
    return pixels_as_png(pixels, f"Image {name}"), f"{name}: {scores}" if scores else name


def _score_map(model: Any, images: Any, i: int, size: tuple[int, int]) -> np.ndarray:
    """Probability of every place of an image to lie in a part of any kind, white to red, uint8 (h, w, 3)."""
    maps, valid = model.search_._maps(images, np.array([i]))
    p = np.max([part.posteriors(maps)[0] for part in model.parts_], axis=0)[valid[0].any(1)][:, valid[0].any(0)]
    rows, columns = (np.arange(n) * own // n for n, own in zip(size, p.shape, strict=True))
    fade = p[rows][:, columns, None]
    return np.asarray(255 - fade * (255 - np.array([200, 40, 20]))).astype(np.uint8)


def _plain(pixels: np.ndarray) -> np.ndarray:
    """Pixels (h, w, 3) of gray or color pixels."""
    return np.repeat(pixels, 3 // pixels.shape[2], axis=2)


def _scores(model: Any, found: np.ndarray) -> dict[str, Any]:
    """Histograms of the scores of the first kind, and of those of what is no part."""
    with style():
        figure, axes = new_axes(6.0, 2.4)
        parts, rest = found["score"][found["kind"] == 0], model.search_.null[0]
        both = np.concatenate([parts, rest])
        bins = np.linspace(both.min(), both.max(), 41).tolist()
        axes.hist(rest, bins, alpha=0.6, label="no part", density=True)
        axes.hist(parts, bins, alpha=0.6, label="parts", density=True)
        axes.set_xlabel("score (nats)")
        axes.set_ylabel("density")
        axes.legend()
        return _inline(as_svg(figure, "Histogram of scores"))
