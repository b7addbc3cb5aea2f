"""Violins of originals and generated views, against plain formulas, and data without a density."""

from __future__ import annotations

import re

import numpy as np
import pytest

from viewsmith.core.errors import InputError
from viewsmith.reports import FeatureViolins, ReportContent, render_report
from viewsmith.reports.charts import draw_violins, kernel_density
from viewsmith.reports.drawing import BLUE, VERMILION


def rows(n: int = 200, d: int = 20, seed: int = 0) -> np.ndarray:
    """Rows whose features have increasing variance."""
    return np.random.default_rng(seed).normal(size=(n, d)) * np.arange(1, d + 1)


def labels(svg: str) -> list[str]:
    return [text for text in re.findall(r">([^<]+)</text>", svg) if re.search("[a-z]", text)]


@pytest.mark.parametrize("spread", [0.3, 40.0])
def test_the_density_is_the_sum_of_gaussians(spread: float) -> None:
    values = spread * np.random.default_rng(1).normal(size=50)
    grid = np.linspace(values.min(), values.max(), 400)
    q1, q3 = np.percentile(values, [25, 75])
    h = 0.9 * min(values.std(), (q3 - q1) / 1.34) * 50 ** (-1 / 5)
    expected = np.array([sum(np.exp(-((point - value) ** 2) / (2 * h**2)) for value in values) for point in grid])
    made = kernel_density(values, grid)
    # Values move to the nearest of 400 points, far less than a bandwidth.
    assert np.allclose(made / made.max(), expected / expected.max(), atol=0.01)


def test_a_density_of_mostly_equal_values_is_finite_and_peaks_there() -> None:
    values = np.concatenate([np.zeros(95), np.arange(1.0, 6.0)])  # no distance between the quartiles
    density = kernel_density(values, np.linspace(0, 5, 101))
    assert np.isfinite(density).all() and density.argmax() == 0
    h = 0.9 * values.std() * 100**-0.2
    assert density[4] / density[0] == pytest.approx(np.exp(-((4 * 0.05) ** 2) / (2 * h**2)), rel=0.01)


def test_twelve_features_are_drawn_in_order_of_variance_in_the_originals() -> None:
    originals, views = rows(), rows(seed=1)
    views[:, 0] *= 1000  # a feature that varies in the views alone is not among them
    drawn = draw_violins(FeatureViolins("v", originals, views, [f"f{i}" for i in range(20)]))
    order = np.argsort(-originals.std(axis=0))[:12]
    assert [text for text in labels(drawn.picture.svg) if text.startswith("f")] == [f"f{i}" for i in order]
    assert "the 12 of 20 features that vary most" in drawn.note and "Left: 200 originals" in drawn.note
    assert "Violins of 12 features" in drawn.picture.alt


def test_shift_and_spread_are_given_in_standard_deviations_of_the_originals() -> None:
    originals = rows(d=3)
    spread = originals.std(axis=0)
    views = np.median(originals, axis=0) + 0.5 * (originals - np.median(originals, axis=0))
    views[:, 1] += 0.75 * spread[1]
    drawn = draw_violins(FeatureViolins("v", originals, views, ["age", "height", "weight"]))
    assert "views is 0.50 times that" in drawn.note and "views is 0.50 times that" in drawn.picture.alt
    assert "that of height, 0.75 standard deviations" in drawn.note


def half(svg: str, color: str) -> np.ndarray:
    """The outline of the first half violin of a color, as points (x, y)."""
    used = re.search(rf'<use href="#([^"]+)"[^>]*style="fill: {color}', svg)
    assert used, color
    path = re.search(rf'<path (?:id="{used[1]}" d="([^"]+)"|d="([^"]+)" id="{used[1]}")', svg)
    assert path
    return np.array(re.findall(r"[ML] (-?[\d.]+) (-?[\d.]+)", path[1] or path[2]), dtype=float)


def test_originals_are_left_of_generated_views() -> None:
    svg = draw_violins(FeatureViolins("v", rows(d=1), rows(d=1, seed=1))).picture.svg
    assert half(svg, BLUE)[:, 0].max() < half(svg, VERMILION)[:, 0].min()


def test_a_long_tail_keeps_a_line() -> None:
    x = np.append(np.random.default_rng(0).normal(size=(199, 1)), [[1000.0]], axis=0)
    x[:3] = 300.0
    outline = half(draw_violins(FeatureViolins("v", x, x)).picture.svg, BLUE)
    widths = [np.ptp(outline[outline[:, 1] == y, 0]) for y in np.unique(outline[:, 1])]
    assert np.max(widths) / 50 < np.min(widths) < np.max(widths) / 20


def test_features_of_other_units_are_standardized() -> None:
    rng = np.random.default_rng(2)
    similar = rng.normal(size=(100, 3))
    assert "value" in labels(draw_violins(FeatureViolins("v", similar, similar)).picture.svg)
    for other in (similar * [1, 1, 1000], similar + np.array([0, 0, 1000])):
        assert "standard deviations of the originals" in labels(
            draw_violins(FeatureViolins("v", other, other)).picture.svg
        )


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
    drawn = draw_violins(FeatureViolins("v", originals, views))
    for text in (drawn.picture.svg, drawn.picture.alt, drawn.note):
        assert not re.search(r"\b(nan|inf)\b", text, re.IGNORECASE)
    assert len([text for text in labels(drawn.picture.svg) if text.startswith("feature ")]) == originals.shape[1]


def test_few_values_are_dots_without_a_summary_of_their_spread() -> None:
    few, many = (draw_violins(FeatureViolins("v", rows(n, 3), rows(n, 3, 1))) for n in (9, 10))
    assert "quartiles" not in few.note and "standard deviation of the views" not in few.note
    assert "quartiles" in many.note and "standard deviation of the views" in many.note
    assert few.picture.svg.count("<use") > many.picture.svg.count("<use") + 40


def test_content_is_checked() -> None:
    x = np.zeros((4, 3))
    with pytest.raises(InputError, match=r"violins 'v': originals of shape \(4, 3\) with views of shape \(4, 2\)"):
        FeatureViolins("v", x, x[:, :2])
    with pytest.raises(InputError, match=r"at least one row and one feature"):
        FeatureViolins("v", x, x[:0])
    with pytest.raises(InputError, match=r"give \(n, d\) and \(m, d\) arrays"):
        FeatureViolins("v", x, x[:, None])
    with pytest.raises(InputError, match=r"violins 'v': 2 names for 3 features"):
        FeatureViolins("v", x, x, ["a", "b"])
    with pytest.raises(InputError, match=r"the views have values that are not finite"):
        FeatureViolins("v", x, np.where(np.eye(4, 3) > 0, np.nan, x))
    with pytest.raises(InputError, match=r"the originals have values that are not finite"):
        FeatureViolins("v", x - np.inf, x)


def test_the_page_has_the_section_and_its_link() -> None:
    html = render_report(ReportContent("t", "m", violins=[FeatureViolins("shapes", rows(), rows(), caption="cap")]))
    assert '<a href="#views">' in html and '<section id="views">' in html
    assert "<h3>shapes</h3>" in html and "cap" in html and "Violins of 12 features" in html
    assert 'href="#views"' not in render_report(ReportContent("t", "m"))
