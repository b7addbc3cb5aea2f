"""The report of a discovery, one HTML file, and sequence logos (Schneider and Stephens 1990)."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from viewsmith.core import __version__
from viewsmith.core.files import write_text_atomic
from viewsmith.core.progress import html_table
from viewsmith.methods.discovery.motif_models import Motif
from viewsmith.modalities.dna.letters import AMINO_ACIDS, Alphabet
from viewsmith.modalities.images.channels import WHITE, pictures, to_pixels
from viewsmith.modalities.images.features import CELL
from viewsmith.reports import Figure, Picture, new_axes, render
from viewsmith.reports.figure import PALETTE, VERMILION

COLORS = ("#117733", "#332288", "#ddaa33", "#cc3311")
#: Of amino acids: polar, amide, basic, acidic, hydrophobic.
CHEMISTRY = {"GSTYC": "#117733", "NQ": "#aa4499", "KRH": "#332288", "DE": "#cc3311", "AFILMPVW": "#333333"}


def letter_heights(probabilities: np.ndarray, background: np.ndarray) -> np.ndarray:
    """Heights in bits, (w, C): the information of each position against the background, shared by probability."""
    ratio = np.where(probabilities > 0, probabilities / background, 1.0)
    bits = (probabilities * np.log2(ratio)).sum(1, keepdims=True)
    return np.asarray(probabilities * np.maximum(bits, 0))


def _colors(alphabet: Alphabet) -> Sequence[str]:
    """A color for each letter."""
    if alphabet is AMINO_ACIDS:
        return [color for letter in alphabet.letters for group, color in CHEMISTRY.items() if letter in group]
    return COLORS if len(alphabet) <= len(COLORS) else [PALETTE[i % len(PALETTE)] for i in range(len(alphabet))]


@lru_cache(maxsize=16)  # for a file of its own, and the report
def draw_logo(motif: Motif) -> Picture:
    """The letters of each position of a motif on each other, the smallest at the bottom."""
    from matplotlib.patches import PathPatch
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    heights = letter_heights(motif.probabilities, motif.background.frequencies)
    paths, colors = [TextPath((0, 0), letter, size=1) for letter in motif.alphabet.letters], _colors(motif.alphabet)
    with new_axes(0.8 + 0.3 * len(heights), 1.8) as (figure, axes):
        for position, row in enumerate(heights):
            bottom = 0.0
            for i in np.argsort(row):
                box = paths[i].get_extents()
                if row[i] > 1e-3:
                    place = Affine2D().translate(-box.x0, -box.y0).scale(0.9 / box.width, row[i] / box.height)
                    place = place.translate(position + 0.55, bottom)
                    axes.add_patch(PathPatch(paths[i].transformed(place), color=colors[i], linewidth=0))
                bottom += float(row[i])
        axes.set(xlim=(0.5, len(heights) + 0.5), ylim=(0, max(2.0, float(heights.sum(1).max()))), ylabel="bits")
        axes.set_xticks(range(1, len(heights) + 1))
        axes.grid(visible=False)
    return Picture(f"Sequence logo of {motif.consensus}", figure)


GALLERY, SIDE, COLUMNS = 36, 112, 6  # six in a row are larger than 40 pixels on a phone, too
SHOWN, WIDTH = 12, 256
BOXES = (("red", (230, 60, 20)), ("blue", (20, 110, 220)), ("green", (20, 150, 60)))  # by kind
LISTED, AROUND = 60, 60  # sites, and letters around each


def write_parts_report(
    path: Path,
    model: Any,
    samples: Any,
    found: np.ndarray,
    names: Sequence[str] | None,
    *,
    title: str,
    spelled: Callable[[str], str] = str,
) -> None:
    """Write the page of a fitted `viewsmith.Discovery`; `spelled` writes options as the user types them."""
    ranked = found[np.lexsort((-found["score"], found["outlier"]))]
    without = np.setdiff1d(np.arange(len(samples)), found["sample"])
    sentence = spelled(model.describe(found, len(samples)))
    draw, sought, nothing = _KINDS[model.search_.name]
    names = [str(i) for i in range(len(samples))] if names is None else [str(name) for name in names]
    figures = draw(model, samples, ranked, without, names)
    figures.append(_scores(model, found, nothing) if model.parts_ else _tried(model))
    page = render(
        "figures.html.j2",
        title=f"What recurs in {title}",
        verdict=sentence[:1].upper() + sentence[1:] + ".",
        notes=[
            f"The method looked for {sought}. A score says, in nats, how much more probable a place is as one of the "
            "kind than otherwise; q is the expected fraction of wrong parts among those with at least this score."
        ],
        figures=[figure for figure in figures if figure.pictures or figure.html],
        version=__version__,
    )
    write_text_atomic(path, page)


def _spread(ranked: np.ndarray) -> np.ndarray:
    """Samples from the one with the best part to that with the worst, evenly spaced; those of the first kind first."""
    samples = ranked["sample"][np.argsort(ranked["kind"], kind="stable")]
    samples = samples[np.sort(np.unique(samples, return_index=True)[1])]
    return np.asarray(samples[np.unique(np.linspace(0, len(samples) - 1, SHOWN).astype(int))] if len(samples) else [])


def _images(model: Any, images: Any, ranked: np.ndarray, without: np.ndarray, names: Sequence[str]) -> list[Figure]:
    figures = []
    for kind in np.unique(ranked["kind"]):
        own = ranked[ranked["kind"] == kind]
        heading = f"Best parts of kind {kind} ({BOXES[kind % 3][0]} boxes)" if len(model.parts_) > 1 else "Best parts"
        caption = f"The highest scores of {len(own)} in {len(np.unique(own['sample']))} images, best first."
        figures.append(Figure(heading, caption, [Picture("The best parts", _gallery(images, own))]))
    box = "the box" if len(model.parts_) == 1 else "boxes in the colors of their kinds"
    right = "Right: the probability of each place to lie in a part, from white (0) to red (1)."
    legend = f"Left: the image with {box} of its parts. {right}" if model.parts_ else ""
    return [
        *figures,
        Figure(
            "Images beside their score map, from the best score to the worst",
            pictures=[_boxed(model, images, ranked, int(i), names) for i in _spread(ranked)],
            note=legend,
        ),
        Figure(
            f"Images without a part ({len(without)})",
            pictures=[_boxed(model, images, ranked, int(i), names) for i in without[:SHOWN]],
            note=legend,
        ),
    ]


def _letters(model: Any, sequences: Any, ranked: np.ndarray, without: np.ndarray, names: Sequence[str]) -> list[Figure]:
    figures = []
    for kind, motif in enumerate(model.parts_):
        logo = draw_logo(motif)
        own = ranked[ranked["kind"] == kind]
        caption = (
            f"{motif.consensus}, {motif.bits.sum():.1f} bits, pattern {motif.pattern}; {len(own):,} sites are listed, "
            f"in {len(np.unique(own['sample'])):,} of {len(sequences):,} sequences."
        )
        note = "The height of a letter is its part of the information of its position, in bits."
        figures.append(Figure(f"Motif {kind}", caption, [logo], note=note))
    width = max((len(names[i]) for i in ranked["sample"][:LISTED]), default=0)
    crops = model.search_.crops(sequences, ranked[:LISTED], AROUND) if len(ranked) else []
    lines = [
        f"{names[site['sample']]:{width}}  {int(site['start']) + 1:6d}  {'-' if site['reverse'] else '+'}  "
        f"{site['score']:6.1f}  {site['q']:.4f}  {text}"
        for site, text in zip(ranked, crops, strict=False)
    ]
    sites = Markup("<pre>{}</pre>").format("\n".join(lines)) if lines else ""
    heading = "Sites, best first: sequence, first letter (counted from 1), strand, score, q, letters around"
    rest = Figure(f"Sequences without a site ({len(without)})", html=", ".join(names[i] for i in without[:LISTED]))
    return [*figures, Figure(heading, html=sites), rest]


AVERAGED = 2_000  # events, of which the mean is drawn


def _series(model: Any, x: Any, ranked: np.ndarray, without: np.ndarray, names: Sequence[str]) -> list[Figure]:
    figures = []
    for kind, event in enumerate(model.parts_):
        own = ranked[ranked["kind"] == kind]
        if len(own):
            some = own[:: -(-len(own) // AVERAGED)]
            cut = model.search_.crops(x, some, 2 * event.width)
            caption = f"Mean and deciles of {len(some)} windows of twice the event's width ({event.width} points)."
            figures.append(Figure(f"Event {kind}", caption, [_mean_event(cut)]))
    pieces = []
    for i in _spread(ranked):
        own = ranked[ranked["sample"] == i]
        pieces.append(_piece(x[int(i)], own, f"{names[i]}: {_summary(own)}"))
    others = [_piece(x[int(i)], ranked[:0], names[i]) for i in without[:SHOWN]]
    return [
        *figures,
        Figure("Pieces, from the best score to the worst", pictures=pieces, note="Shaded: the events."),
        Figure(f"Pieces without an event ({len(without)})", pictures=others),
    ]


def _summary(own: np.ndarray) -> str:
    """Scores and q-values of the parts of a sample; of several kinds, the number of each."""
    kinds, counts = np.unique(own["kind"], return_counts=True)
    if len(kinds) > 1:
        return ", ".join(f"{count} of kind {kind}" for kind, count in zip(kinds, counts, strict=True))
    return ", ".join(f"{part['score']:.1f} (q {part['q']:.3f})" for part in own)


def _mean_event(cut: np.ndarray) -> Picture:
    """Mean and deciles over windows (m, C, w), a line for each channel."""
    with new_axes(6.0, 2.4) as (figure, axes):
        place = np.arange(cut.shape[2])
        for channel in range(cut.shape[1]):
            color = PALETTE[channel % len(PALETTE)]
            low, high = np.quantile(cut[:, channel], (0.1, 0.9), axis=0)
            axes.fill_between(place, low, high, color=color, alpha=0.2, linewidth=0)
            axes.plot(place, cut[:, channel].mean(0), color=color, linewidth=1)
        axes.set_xlabel("points")
    return Picture("Mean event", figure)


def _piece(x: np.ndarray, own: np.ndarray, caption: str) -> Picture:
    """A piece (C, T) with its events shaded."""
    with new_axes(3.2, 1.2) as (figure, axes):
        for event in own:
            axes.axvspan(int(event["start"]), int(event["end"]), color=VERMILION, alpha=0.25, linewidth=0)
        for channel, values in enumerate(x):
            axes.plot(values, color=PALETTE[channel % len(PALETTE)], linewidth=0.6)
    return Picture("A piece and its events", figure, caption)


#: Of each search: how its figures are drawn, what was sought, and what scores are compared with.
_KINDS: dict[str, tuple[Callable[..., list[Figure]], str, str]] = {
    "images": (
        _images,
        "windows that look alike across images and unlike windows in general; a box holds the cells that are more "
        "probably a part than not, and is rather of typical size than of another",
        "places that are no part: the best ones beside the best part of each image, or, where most images have a "
        "second part, in images with random phases",
    ),
    "letters": (
        _letters,
        "a motif, independent letters at each position, that sequences share and that a Markov chain (of order 2; of "
        "proteins 0) does not explain",
        "the best sites of random sequences",
    ),
    "series": (
        _series,
        "windows that look alike across pieces and unlike windows in general",
        "pieces with the same spectra and random phases",
    ),
}


def _gallery(images: Any, ranked: np.ndarray) -> np.ndarray:
    """Squares around the best parts in rows, uint8 (h, w, 3)."""
    tiles = []
    for part in ranked[:GALLERY]:
        top, bottom, left, right = (int(part[side]) for side in ("top", "bottom", "left", "right"))
        pixels = pictures(images.read(int(part["sample"]), None)[None])[0]
        tiles.append(_fitted(pixels[top:bottom, left:right], SIDE))
    columns = min(COLUMNS, len(tiles))
    tiles += [np.full_like(tiles[0], WHITE)] * (-len(tiles) % columns)
    return np.concatenate([np.concatenate(tiles[i : i + columns], 1) for i in range(0, len(tiles), columns)], 0)


def _fitted(pixels: np.ndarray, side: int) -> np.ndarray:
    """Pixels (h, w, 3) as a square tile with its aspect ratio, on white, by the nearest pixel."""
    scale = (side - 2) / max(pixels.shape[:2])
    height, width = (max(1, round(n * scale)) for n in pixels.shape[:2])
    rows = np.arange(height) * pixels.shape[0] // height
    columns = np.arange(width) * pixels.shape[1] // width
    tile = np.full((side, side, 3), WHITE, pixels.dtype)
    top, left = (side - height) // 2, (side - width) // 2
    tile[top : top + height, left : left + width] = pixels[rows][:, columns]
    return tile


def _boxed(model: Any, images: Any, found: np.ndarray, i: int, names: Sequence[str]) -> Picture:
    """An image with the boxes of its parts beside its score map."""
    height, width = images.shapes[i]
    scale = min(1.0, WIDTH / max(height, width))
    size = (max(4, round(height * scale)), max(4, round(width * scale)))
    pixels = pictures(images.read(i, size)[None])[0]
    own = found[found["sample"] == i]
    for part in own:
        top, bottom = (int(np.clip(part[s] * scale, 0, size[0] - 1)) for s in ("top", "bottom"))
        left, right = (int(np.clip(part[s] * scale, 0, size[1] - 1)) for s in ("left", "right"))
        box = pixels[top : bottom + 1, left : right + 1]
        inside = box[2:-2, 2:-2].copy()
        box[:] = BOXES[int(part["kind"]) % 3][1]
        box[2:-2, 2:-2] = inside
    if model.parts_:
        pixels = np.concatenate([pixels, _score_map(model, images, i, size)], 1)
    return Picture(f"Image {names[i]}", pixels, f"{names[i]}: {_summary(own)}" if len(own) else names[i])


def _score_map(model: Any, images: Any, i: int, size: tuple[int, int]) -> np.ndarray:
    """Probability of every place of an image to lie in a part of any kind, white to red, uint8 (h, w, 3)."""
    p = model.search_.probabilities(images, i)
    rows, columns = (np.arange(n) * own // n for n, own in zip(size, p.shape, strict=True))
    fade = p[rows][:, columns, None]
    return to_pixels(1 - fade * (0.22, 0.84, 0.92))


def _tried(model: Any) -> Figure:
    """The best candidate of each window, of which none recurs."""
    header, row = _TRIED[model.search_.name]
    table = html_table("", [row(each) for each in model.tried_[0]], header)
    return Figure("Candidates", "The best one of each window that was tried; none is clear enough.", html=Markup(table))


#: Of each search: header and row of a candidate.
_TRIED: dict[str, tuple[Sequence[str], Callable[[Any], Sequence[str]]]] = {
    "images": (
        ("window", "lies in one box", "log odds above those of random phases", "p", "it fills"),
        lambda part: (
            f"{CELL * part.window} pixels",
            f"{part.shares.mean():.0%}",
            f"{part.evidence.gain:.2f}" if part.evidence.of_odds else "",
            f"{part.evidence.p:.1g}" if part.evidence.of_odds else "",
            f"{part.posterior:.0%}",
        ),
    ),
    "letters": (
        ("motif", "letters", "score above that of shuffled sequences", "p"),
        lambda motif: (motif.consensus, f"{motif.width}", f"{motif.evidence.gain:.2f} nats", f"{motif.evidence.p:.1g}"),
    ),
    "series": (
        ("window", "score above that of random phases", "p"),
        lambda event: (f"{event.width} points", f"{event.evidence.gain:.1f} nats", f"{event.evidence.p:.1g}"),
    ),
}


def _scores(model: Any, found: np.ndarray, nothing: str) -> Figure:
    """For each kind, histograms of the scores, and of those of what is no part."""
    pictures = []
    for kind, null in enumerate(model.search_.null):
        parts, rest = found["score"][found["kind"] == kind], null[:, 0]
        rest = rest[np.isfinite(rest)]  # -inf: no candidate
        both = np.concatenate([parts, rest])
        if not len(both):
            continue
        bins = np.linspace(both.min(), both.max(), 41).tolist()
        with new_axes(6.0, 2.4) as (figure, axes):
            for scores, label in ((rest, "no part"), (parts, "parts")):
                each = np.full(len(scores), 1 / max(len(scores), 1))  # there may be a hundred times as many of one
                name = f"{label} ({len(scores):,})"
                axes.hist(scores, bins, weights=each, alpha=0.6, label=name, histtype="stepfilled")
            axes.set(xlabel="score (nats)", ylabel="fraction of each")
            axes.legend()
        pictures.append(Picture(f"Histogram of scores of kind {kind}", figure))
    order = ", kind by kind" if len(pictures) > 1 else ""
    return Figure("Scores", f"Scores of the parts, and those of {nothing}{order}.", pictures)
