"""Violins of originals and generated views, against plain formulas, and data without a density."""

from __future__ import annotations

import re

import numpy as np
import pytest

from refusals import refusal
from viewsmith.core.errors import InputError
from viewsmith.reports import ReportContent, draw_violins, render_report
from viewsmith.reports.figure import BLUE, VERMILION


def rows(n: int = 200, d: int = 20, seed: int = 0) -> np.ndarray:
    """Rows whose features have increasing variance."""
    return np.random.default_rng(seed).normal(size=(n, d)) * np.arange(1, d + 1)


def labels(svg: str) -> list[str]:
    return [text for text in re.findall(r">([^<]+)</text>", svg) if re.search("[a-z]", text)]


def test_twelve_features_are_drawn_in_order_of_variance_in_the_originals() -> None:
    originals, views = rows(), rows(seed=1)
    views[:, 0] *= 1000  # a feature that varies in the views alone is not among them
    drawn = draw_violins("v", originals, views, [f"f{i}" for i in range(20)])
    order = np.argsort(-originals.std(axis=0))[:12]
    assert [text for text in labels(drawn.pictures[0].svg) if text.startswith("f")] == [f"f{i}" for i in order]
    assert "the 12 of 20 features that vary most" in drawn.note and "Left: 200 originals" in drawn.note
    assert "Violins of 12 features" in drawn.pictures[0].alt


def test_shift_and_spread_are_given_in_standard_deviations_of_the_originals() -> None:
    originals = rows(d=3)
    spread = originals.std(axis=0)
    views = np.median(originals, axis=0) + 0.5 * (originals - np.median(originals, axis=0))
    views[:, 1] += 0.75 * spread[1]
    drawn = draw_violins("v", originals, views, ["age", "height", "weight"])
    assert "views is 0.50 times that" in drawn.note and "views is 0.50 times that" in drawn.pictures[0].alt
    assert "that of height, 0.75 standard deviations" in drawn.note


def half(svg: str, color: str) -> np.ndarray:
    """The outline of the first half violin of a color, as points (x, y)."""
    path = re.search(rf'FillBetween[^>]+>\s*<defs>\s*<path id="[^"]+" d="([^"]+)" style="stroke: {color}', svg)
    assert path, color
    return np.array(re.findall(r"[ML] (-?[\d.]+) (-?[\d.]+)", path[1]), dtype=float)


def test_originals_are_left_of_generated_views() -> None:
    svg = draw_violins("v", rows(d=1), rows(d=1, seed=1)).pictures[0].svg
    assert half(svg, BLUE)[:, 0].max() < half(svg, VERMILION)[:, 0].min()


def test_a_long_tail_keeps_a_line() -> None:
    x = np.append(np.random.default_rng(0).normal(size=(199, 1)), [[1000.0]], axis=0)
    x[:3] = 300.0
    svg = draw_violins("v", x, x).pictures[0].svg
    outline = half(svg, BLUE)
    widths = [np.ptp(outline[outline[:, 1] == y, 0]) for y in np.unique(outline[:, 1])]
    assert np.min(widths) < np.max(widths) / 100  # thinner than the line around it
    assert re.search(f"stroke: {BLUE}; stroke-opacity: 0.8; stroke-width: 0.6", svg)


def test_features_of_other_units_are_standardized() -> None:
    similar = np.random.default_rng(2).normal(size=(100, 3))
    assert "value" in labels(draw_violins("v", similar, similar).pictures[0].svg)
    for other in (similar * [1, 1, 1000], similar + np.array([0, 0, 1000])):
        assert "standard deviations of the originals" in labels(draw_violins("v", other, other).pictures[0].svg)


@pytest.mark.parametrize(
    ("originals", "views"),
    [
        (np.zeros((50, 3)), np.zeros((50, 3))),  # nothing varies
        (np.column_stack([rows(d=2), np.full(200, 7.0)]), np.column_stack([rows(d=2, seed=1), np.full(200, 9.0)])),
        (np.column_stack([rows(d=2) * [1, 1e3], np.full(200, 7.0)]), rows(d=3) * [1, 1e3, 1]),  # and is standardized
        (rows(d=2), np.tile([1.0, 2.0], (30, 1))),  # views that have collapsed
        (rows(n=2, d=4), rows(n=2, d=4, seed=1)),
        (rows(n=1, d=1), rows(n=1, d=1, seed=1)),
        (rows(d=1), rows(n=3, d=1)),
        (np.repeat([[0.0], [1.0]], 30, axis=0), np.repeat([[0.0], [1.0]], [55, 5], axis=0)),  # two values
        (rows(d=2).astype(np.float32) * 1e-30, rows(d=2).astype(np.float32) * 1e-30),
        (np.random.default_rng(0).integers(0, 255, (40, 5), dtype=np.uint8), np.zeros((40, 5), dtype=np.uint8)),
    ],
)
@pytest.mark.filterwarnings("error")
def test_data_without_a_density_can_be_drawn(originals: np.ndarray, views: np.ndarray) -> None:
    drawn = draw_violins("v", originals, views)
    for text in (drawn.pictures[0].svg, drawn.pictures[0].alt, drawn.note):
        assert not re.search(r"\b(nan|inf)\b", text, re.IGNORECASE)
    assert len([text for text in labels(drawn.pictures[0].svg) if text.startswith("feature ")]) == originals.shape[1]


def test_few_values_are_dots_without_a_summary_of_their_spread() -> None:
    few, many = (draw_violins("v", rows(n, 3), rows(n, 3, 1)) for n in (9, 10))
    assert "quartiles" not in few.note and "standard deviation of the views" not in few.note
    assert "quartiles" in many.note and "standard deviation of the views" in many.note
    assert few.pictures[0].svg.count("<use") > many.pictures[0].svg.count("<use") + 40


def test_content_is_checked() -> None:
    x = np.zeros((4, 3))
    with pytest.raises(InputError, match=r"violins 'v': originals of shape \(4, 3\) with views of shape \(4, 2\)"):
        draw_violins("v", x, x[:, :2])
    assert "at least one row and one feature" in refusal(draw_violins, "v", x, x[:0])
    assert "give (n, d) and (m, d) arrays" in refusal(draw_violins, "v", x, x[:, None])
    assert "violins 'v': 2 names for 3 features" in refusal(draw_violins, "v", x, x, ["a", "b"])
    assert "have values that are not finite" in refusal(draw_violins, "v", x, np.where(np.eye(4, 3) > 0, np.nan, x))
    assert "have values that are not finite" in refusal(draw_violins, "v", x - np.inf, x)


def test_the_page_has_the_section_and_its_link() -> None:
    html = render_report(ReportContent("t", "m", figures=[draw_violins("shapes", rows(), rows(), caption="cap")]))
    assert '<a href="#views">' in html and '<section id="views">' in html
    assert "<h3>shapes</h3>" in html and "cap" in html and "Violins of 12 features" in html
    assert 'href="#views"' not in render_report(ReportContent("t", "m"))
