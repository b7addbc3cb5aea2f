"""Histograms of the similarity of sample and view."""

from __future__ import annotations

import re

import numpy as np
import pytest

from refusals import refusal
from viewsmith.core.errors import InputError
from viewsmith.reports import ReportContent, draw_similarities, render_report
from viewsmith.reports.charts import common_bins


def kinds() -> dict[str, np.ndarray]:
    return {"generated": np.linspace(0.6, 1.0, 101), "mixup": np.full(20, 0.99), "crops": np.linspace(-0.25, 0.75, 51)}


def test_quantiles_are_in_the_table_and_in_the_alt_text() -> None:
    drawn = draw_similarities("s", kinds())
    (table,) = drawn.tables.values()
    assert [(kind, count) for kind, *_, count in table[1:]] == [("generated", "101"), ("mixup", "20"), ("crops", "51")]
    assert table[1][1:4] == ("0.62", "0.80", "0.98")
    assert "generated 0.80 (5% 0.62, 95% 0.98); mixup 0.99" in drawn.pictures[0].alt
    assert "crops 0.25 (5% -0.20, 95% 0.70)" in drawn.pictures[0].alt
    html = render_report(ReportContent("t", "m", figures=[draw_similarities("s", kinds(), "cap")]))
    cells = re.search(r'<th scope="row">crops</th>(.*?)</tr>', html)
    assert cells and re.findall(r"<td>([^<]*)", cells[1]) == ["−0.20", "0.25", "0.70", "51"]
    assert '<a href="#views">' in html and "cap" in html


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ([0.62, 0.97], (0.6, 1.0)),
        ([-0.31, 0.2], (-0.4, 0.2)),
        ([1.0], (0.9, 1.0)),
        ([-1.0, -1.0], (-1.0, -0.9)),
        ([0.3], (0.2, 0.4)),
        ([-1.0, 1.0], (-1.0, 1.0)),
    ],
)
def test_bins_contain_every_value_and_stay_within_the_range_of_a_cosine(
    values: list[float], ends: tuple[float, float]
) -> None:
    edges = common_bins(np.array(values))
    assert np.allclose(edges[[0, -1]], ends) and np.allclose(np.diff(edges), edges[1] - edges[0])


def strips(svg: str) -> list[tuple[float, float, float, float]]:
    """Left, right, top and bottom of each filled histogram."""
    found = []
    for path in re.findall(r'<path d="([^"]+)"[^>]*style="fill: #(?:d55e00|8e9aa6); opacity', svg):
        x, y = zip(*((float(a), float(b)) for a, b in re.findall(r"([\d.]+) ([\d.]+)", path)), strict=True)
        found.append((min(x), max(x), min(y), max(y)))
    return found


def test_kinds_have_common_bins_and_separate_strips() -> None:
    svg = draw_similarities("s", kinds()).pictures[0].svg
    generated, mixup, crops = strips(svg)
    assert generated[:2] == mixup[:2] == crops[:2]
    assert generated[3] <= mixup[2] and mixup[3] <= crops[2]  # one under the other, in the given order
    heights = [bottom - top for _, _, top, bottom in (generated, mixup, crops)]
    assert np.allclose(heights, heights[0], rtol=1e-4)
    assert svg.count("#d55e00") == 1  # only the first kind is highlighted


def test_the_median_is_marked_at_its_position() -> None:
    svg = draw_similarities("s", {"a": np.array([0.0, 0.25, 1.0])}).pictures[0].svg
    (left, right, _, bottom), *_ = strips(svg)
    lines = re.findall(r'<path d="M ([\d.]+) ([\d.]+) \s*L ([\d.]+) [\d.]+\s*" [^>]*stroke: #1f2933', svg)
    (x0, y0, x1), *_ = lines
    assert len(lines) == 1 and x0 == x1 and abs(float(y0) - bottom) < 0.01
    assert np.isclose((float(x0) - left) / (right - left), 0.25, atol=1e-4)


@pytest.mark.filterwarnings("error")
def test_values_at_the_edge_of_a_bin_are_counted() -> None:
    below = np.nextafter(0.9, 0)  # ten times this rounds to 9
    for first, second in ((below, 1.0), (-below, -1.0), (1.001, -1.001)):
        drawn = draw_similarities("s", {"a": np.array([first]), "b": np.array([second])})
        assert len(strips(drawn.pictures[0].svg)) == 2 and not re.search(r"\bnan\b", drawn.pictures[0].svg)
        (table,) = drawn.tables.values()
        assert all(abs(float(cell.replace("−", "-"))) <= 1 for row in table[1:] for cell in row[1:4])


def test_content_is_checked() -> None:
    assert "histogram 's': no similarities" in refusal(draw_similarities, "s", {})
    assert "similarities of 'a' have shape (2, 2)" in refusal(draw_similarities, "s", {"a": np.zeros((2, 2))})
    assert "similarities of 'a' have shape (0,)" in refusal(draw_similarities, "s", {"a": np.zeros(0)})
    for wrong in (1.1, -2.0, float("nan")):
        with pytest.raises(InputError, match=r"similarities of 'b' have .* or are not all cosines"):
            draw_similarities("s", {"a": np.zeros(3), "b": np.array([0.5, wrong])})
