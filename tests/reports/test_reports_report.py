"""The HTML report: escaped, self-contained, reproducible, with a hint for each missing part."""

from __future__ import annotations

import base64
import io
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quick_reports import with_drawings
from refusals import refusal
from viewsmith.core.errors import InputError
from viewsmith.evaluation.compare import from_baselines
from viewsmith.reports import (
    Figure,
    Picture,
    ReportContent,
    color_by,
    draw_gallery,
    draw_map,
    draw_profile,
    draw_similarities,
    draw_violins,
    render_report,
    write_report,
)
from viewsmith.reports.report import draw_curves, training_axis

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
EVIL = "<script>alert('$x^2$')</script>"
VOID = {"meta", "img", "br", "link", "input", "hr"}


class Page(HTMLParser):
    """Elements, attributes and text of a page; unbalanced tags are an error."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def values(self, attribute: str, tag: str | None = None) -> list[str]:
        return [value for t, name, value in self.attributes if name == attribute and tag in (None, t)]


def metric_rows(epochs: int = 8) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for epoch in range(1, epochs + 1):
        rows.append({"phase": "train", "epoch": epoch, "step": 6 * epoch, "seconds": 0.1 * epoch, "loss": 4.0 / epoch})
        rows[-1] |= {"loss/encoder": 2.0 / epoch, "learning_rate": 0.01, "noise_level": 0.5, "noise_spread": 0.1}
        if epoch % 2 == 0:
            rows[-1] |= {"feature_std": 0.9, "effective_rank": 20.0 + epoch, "alignment": 0.3, "uniformity": -2.0}
    return rows


def evaluation() -> dict[str, Any]:
    rng, right = np.random.default_rng(0), {"raw": {"linear": 0.95, "linear_1pct": 0.84}}
    right["representation"] = {"linear": 0.94, "linear_1pct": 0.94}
    values = {
        row: {p: (rng.permutation(360) < 360 * s)[None].astype(np.float32) for p, s in of_row.items()}
        for row, of_row in right.items()
    }
    return {
        "differences": from_baselines(right, values),
        "embeddings": {
            "raw": {"linear": 0.95, "knn": float("nan"), "linear_1pct": 0.84},
            "representation": {"linear": 0.94, "knn": None, "linear_1pct": 0.94},
        },
        "protocols": {"linear": "logistic regression, C = 1", "linear_1pct": f"few labels {EVIL}"},
        "rows": {"train": 1437, "test": 360, "classes": 10},
        "label_free": {"raw": {"effective_rank": 24.0}, "representation": {"effective_rank": 31.0, "alignment": None}},
        "seconds": {"raw": {"embed": 1.25, "score": 0.5}},
    }


def full_content() -> ReportContent:
    rng = np.random.default_rng(0)
    labels = [EVIL, "naïve 名前", None, "x" * 500] * 15
    vectors = rng.normal(size=(5, 12))
    letters = rng.choice(np.frombuffer(b"ACGT", np.uint8), size=(2, 40))
    return ReportContent(
        title=f"A report {EVIL}",
        method=f"pinda {EVIL}",
        config={"method": {"name": EVIL, "hidden": [64, 32], "dropout": None}, "training": {"inner": {"seed": 3}}},
        summary={"status": "finished", "versions": {"torch": EVIL}, "split": {"index": list(range(400)), EVIL: 1}},
        metrics=[*metric_rows(), {"phase": EVIL, "epoch": 9, "step": 60, f"loss/{EVIL}": 1.0}],
        warnings=[f"careful {EVIL}"],
        evaluation=evaluation(),
        figures=[
            *(draw_map(name, rng.normal(size=(60, 2)), labels, EVIL) for name in ("raw", EVIL)),
            draw_profile(f"noise {EVIL}", rng.random(8), [EVIL, "$a$", "b\x00c", *"defgh"], EVIL, EVIL),
            draw_profile("wide", rng.random(100), [f"{EVIL} {i}" for i in range(100)], EVIL, EVIL),
            draw_gallery(EVIL, vectors, vectors[:, None] + rng.normal(size=(5, 3, 12)), "curve", EVIL),
            draw_gallery("images", rng.random((3, 8, 8)), rng.random((3, 2, 8, 8)), "pixels"),
            draw_gallery("dna", letters, np.stack([letters, letters[:, ::-1]], axis=1), "letters"),
            draw_violins(f"shapes {EVIL}", vectors, vectors + 1, [EVIL, "$a$", *"cdefghijkl"], EVIL),
            draw_violins("smooth", rng.normal(size=(40, 2)), rng.normal(size=(60, 2))),
            draw_similarities(f"alike {EVIL}", {EVIL: rng.random(30), "mixup": np.ones(3)}, EVIL),
            Figure(f"own {EVIL}", EVIL, note=EVIL, tables={EVIL: [[EVIL, "b"], [EVIL, EVIL]]}, html=EVIL),
        ],
    )


@pytest.fixture(scope="module")
def html() -> str:
    return render_report(full_content())


def test_names_labels_and_values_are_escaped(html: str) -> None:
    page = Page(html)
    assert "script" not in page.tags
    assert "<script" not in html.lower()
    for text in ("A report", "pinda", "careful", "few labels", "Loss:", "noise", "shapes", "alike", "own"):
        assert re.search(re.escape(text) + r"\s*" + re.escape(EVIL), page.text), text
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]


def test_dollar_signs_do_not_start_formulas_and_control_characters_are_replaced(html: str) -> None:
    axis_labels = re.findall(r"<text[^>]*>([^<]*)</text>", with_drawings(html))
    assert "$a$" in axis_labels
    assert "b\ufffdc" in axis_labels
    assert any("$x^2$" in label for label in axis_labels)


def test_the_page_fetches_nothing(html: str) -> None:
    page = Page(html)
    assert "://" not in html
    assert not {"script", "link", "iframe", "object", "embed"} & set(page.tags)
    assert page.values("src")
    assert all(re.match(r"data:image/(png|svg\+xml);base64,", value) for value in page.values("src"))
    assert all(value.startswith("#") for value in page.values("href"))
    assert not re.search(r"@import|url\(", html)
    assert any("default-src 'none'" in value for value in page.values("content", "meta"))


def test_references_inside_the_page_have_exactly_one_target(html: str) -> None:
    page = Page(html)
    ids = page.values("id")
    targets = {value[1:] for value in page.values("href") if value.startswith("#")}
    assert len(ids) == len(set(ids))
    assert targets <= set(ids)


def test_every_picture_has_an_alternative_text(html: str) -> None:
    page = Page(html)
    assert len(page.values("alt", "img")) == page.tags.count("img")
    assert all(page.values("alt", "img")) and all(page.values("aria-label"))
    assert html.count("data:image/svg+xml;base64,") > 10 and "<svg" not in html


@pytest.mark.slow
def test_equal_content_gives_equal_bytes_whatever_the_settings_of_matplotlib(html: str) -> None:
    import matplotlib

    with matplotlib.rc_context({"font.size": 30, "svg.hashsalt": "other", "text.parse_math": True, "axes.grid": False}):
        before = dict(matplotlib.rcParams)
        assert render_report(full_content()) == html
        assert dict(matplotlib.rcParams) == before


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_a_browser_shows_wide_galleries_in_full_width(tmp_path: Path) -> None:
    pictures = [Picture("wide", np.full((60, 700, 3), 200, np.uint8)), Picture("small", np.zeros((9, 9, 3), np.uint8))]
    page = render_report(ReportContent("a", "b", {}, {}, figures=[Figure("gallery", pictures=pictures)]))
    script = (
        "<script>addEventListener('load',()=>{document.title=[...document.querySelectorAll('figure')].map(f=>"
        "f.offsetWidth/f.parentElement.offsetWidth+' '+f.querySelector('img').offsetWidth).join(' ')})</script>"
    )
    page = page.replace("default-src 'none'; ", "").replace("</body>", f"{script}</body>")
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    options = ["--window-size=1280,900", "--virtual-time-budget=5000", "--dump-dom", str(tmp_path / "page.html")]
    done = subprocess.run([*map(str, command), *options], capture_output=True, text=True, timeout=120)
    share, wide, small, _ = map(float, re.search("<title>([^<]*)", done.stdout)[1].split())  # type: ignore[index]
    assert share == 1 and wide > 900 and small < 1


def test_two_maps_of_2000_points_stay_small() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 20, 2000)
    maps = [draw_map(name, rng.normal(size=(2000, 2)), labels) for name in ("raw", "representation")]
    content = ReportContent("big", "pinda", metrics=metric_rows(2000), figures=maps, evaluation=evaluation())
    assert len(render_report(content).encode()) < 1_500_000


def test_missing_parts_have_a_hint_how_to_get_them() -> None:
    text = Page(render_report(ReportContent("empty", "contrastive"))).text
    assert "Not evaluated yet. viewsmith evaluate RUN DATA" in text
    assert "No maps yet. viewsmith evaluate RUN DATA" in text
    assert "No training curves" in text and "viewsmith fit DATA --out RUN" in text
    assert "No diagnostics" in text


def test_missing_numbers_are_dashes_and_lists_are_cut(html: str) -> None:
    assert not re.search(r">\s*(nan|None)\s*<", html)
    row = re.search(r'<th scope="row">raw</th>(.*?)</tr>', html)
    assert row
    cells = re.findall(r"<td[^>]*>([^<]*)", row[1])
    assert cells == ["0.950", "–", "0.840"]
    assert "(400 values)" in html
    assert "dropout = null" in html and "[training.inner]\nseed = 3" in html


def test_the_best_of_a_column_is_marked_and_the_outcome_is_named(html: str) -> None:
    assert '<td class="best">0.950<span class="hidden"> best</span></td>' in html
    assert "−0.010" in html and "≈ ties" in html
    assert "+0.100" in html and "▲ beats" in html


@pytest.mark.parametrize(
    ("status", "tone"), [("finished", "good"), ("time limit", "fair"), ("interrupted", "fair"), ("odd", "plain")]
)
def test_status(status: str, tone: str) -> None:
    assert f'class="status {tone}">{status}<' in render_report(ReportContent("t", "m", summary={"status": status}))


@pytest.mark.parametrize(
    ("row", "label_free", "lines"),
    [
        ({"effective_rank": 1.5, "feature_std": 0.5}, {}, ["the effective rank at the end of training is 1.50"]),
        ({"effective_rank": 9.0, "feature_std": 0.01}, {}, ["the feature spread at the end of training is 0.01"]),
        ({}, {"effective_rank": 1.0}, ["the effective rank of the evaluated representation is 1.00"]),
        ({"effective_rank": 2.0, "feature_std": 0.05}, {"effective_rank": 2.0}, []),
    ],
)
@pytest.mark.usefixtures("blank_pictures")
def test_collapse_is_a_warning(row: dict[str, float], label_free: dict[str, float], lines: list[str]) -> None:
    metrics = [{"phase": "train", "epoch": 1, "effective_rank": 1.0, "feature_std": 0.0}, {"epoch": 2, **row}]
    metrics = metrics if row else []
    # Raw features of rank 1 are not a collapse of the representation.
    evaluated = {"label_free": {"raw": {"effective_rank": 1.0}, "representation": label_free}}
    html = render_report(ReportContent("t", "m", metrics=metrics, evaluation=evaluated))
    assert html.count("Collapse: ") == 2 * len(lines)  # at the top and beside the diagnostics
    for line in lines:
        assert line in html


def test_curves_keep_the_order_of_the_run_when_counters_restart_with_a_phase() -> None:
    rows = [
        {"phase": phase, "epoch": epoch} for phase, n in (("A", 3), ("B", 2), ("A", 1)) for epoch in range(1, n + 1)
    ]
    axis = training_axis(rows)
    assert axis.name == "epoch"
    assert axis.x.tolist() == [1, 2, 3, 4, 5, 6]
    assert axis.phases == (("A", 1.0, 3.0), ("B", 3.0, 5.0), ("A", 5.0, 6.0))


def test_curves_count_steps_when_an_epoch_has_several_rows_and_rows_when_nothing_is_counted() -> None:
    rows = [{"phase": "train", "epoch": 1 + step // 3, "step": step} for step in range(1, 7)]
    assert (training_axis(rows).name, training_axis(rows).x.tolist()) == ("step", [1, 2, 3, 4, 5, 6])
    assert training_axis([{"loss": 1.0}, {"loss": 2.0}]).name == "record"


def test_curves_skip_values_that_are_not_numbers_and_keep_gaps() -> None:
    rows = [{"epoch": 1, "loss": 3.0, "note": "text"}, {"epoch": 2, "loss": None, "empty": float("nan")}]
    rows.append({"epoch": 3, "loss": 1.5, "flag": True})
    (curve,) = draw_curves(rows)
    assert curve.data["key"] == "loss" and curve.value == 1.5
    assert "3 at the start, 1.5 at the end, lowest 1.5, highest 3" in curve.pictures[0].alt


def test_a_log_axis_only_for_positive_values_over_more_than_two_decades() -> None:
    def ticks(first: float, last: float, key: str = "loss") -> list[str]:
        (curve,) = draw_curves([{"epoch": 1, key: first}, {"epoch": 2, key: last}])
        return re.findall(r">([^<]+)</text>", curve.pictures[0].svg)

    assert {"1", "10", "100"} <= set(ticks(0.5, 900.0))
    assert "10" not in ticks(0.0, 900.0)
    assert "10" not in ticks(90.0, 900.0)
    assert "0.001" not in ticks(1e-5, 0.1, "learning_rate")


def test_labels_become_classes_or_a_scale() -> None:
    mixed = color_by([np.int64(10), 2.0, "9", None, float("nan"), 2], 6).legend
    assert [(entry.text, entry.count) for entry in mixed.entries] == [("2", 2), ("9", 1), ("10", 1), ("unlabeled", 2)]
    many = color_by([f"cell {i:02d}" for i in range(21)], 21)
    assert many.legend.scale == ("cell 00", "cell 20") and "21 labels" in many.legend.note
    floats = color_by([0.5, 2.0, None], 3)
    assert floats.legend.scale == ("0.5", "2") and len(set(floats.colors)) == 3
    assert color_by(None, 4).legend.entries == () and color_by([None, None], 2).legend.entries[0].count == 2


def test_a_long_label_is_cut_in_the_legend() -> None:
    (entry,) = color_by(["y" * 500], 1).legend.entries
    assert len(entry.text) == 28 and entry.text.endswith("…")


def test_profiles_are_sorted_and_wide_ones_list_both_ends() -> None:
    narrow = draw_profile("p", np.array([1.0, np.nan, 3.0]), ["low", "none", "high"])
    assert narrow.note == "Left out because they are not finite: 1." and not narrow.tables
    names = re.findall(r">(low|high|none)</text>", narrow.pictures[0].svg)
    assert names == ["high", "low"]
    top, bottom = draw_profile("p", np.arange(61.0)).tables.values()
    assert top[1] == ("feature 60", "60") and bottom[-1] == ("feature 0", "0")
    assert len(top) == len(bottom) == 16
    assert not draw_profile("p", np.array([np.nan])).pictures


def test_wide_vectors_show_the_features_with_the_largest_variance() -> None:
    samples = np.zeros((3, 300))
    samples[:, 250] = [1, 5, 9]
    drawn = draw_gallery("g", samples, samples[:, None], "curve")
    assert len(drawn.pictures) == 3 and "the 100 of 300 features with the largest variance" in drawn.note


def alignment(html: str) -> tuple[list[str], list[str], list[str]]:
    """Names, letters and marks of the rows of an alignment."""
    rows = re.findall(r'<div class="strand[^>]*><b>([^<]*)</b>(.*?)</div>', html)
    cells = [re.findall(r'<i class="(d )?[ACGTN]">(.)</i>', row) for _, row in rows]
    texts = ["".join(letter for _, letter in row) for row in cells]
    return [name for name, _ in rows], texts, ["".join(".x"[bool(mark)] for mark, _ in row) for row in cells]


def test_dna_is_compared_without_case_and_ends_with_the_longest_sequence() -> None:
    padded = np.zeros((1, 120), dtype=np.uint8)
    sample, view = padded.copy(), padded.copy()
    sample[0, :6] = np.frombuffer(b"acgtNN", np.uint8)
    view[0, :4] = np.frombuffer(b"ACCT", np.uint8)  # one letter changed, two lost
    drawn = draw_gallery("g", sample, np.stack([view, sample], axis=1), "letters")
    assert "Sample 1, letters 1 to 6 of 6" in drawn.html and "Shown" not in drawn.note
    names, texts, marks = alignment(drawn.html)
    assert names == ["sample", "view 1, 50%", "view 2, 0%"]
    assert texts == ["ACGTNN", "ACCT--", "ACGTNN"]
    assert marks == ["......", "..x.xx", "......"]
    assert "\x00" not in render_report(ReportContent("t", "m", figures=[drawn]))


def test_dna_shows_the_window_with_the_most_changes() -> None:
    sample = np.full((1, 300), ord("A"), dtype=np.uint8)
    view = sample.copy()
    view[0, 200] = ord("G")
    drawn = draw_gallery("g", sample, view[:, None], "letters")
    _, texts, marks = alignment(drawn.html)
    assert "letters 112 to 201 of 300" in drawn.html and "the 90 letters" in drawn.note
    assert [len(text) for text in texts] == [90, 90] and "x" not in marks[0]
    assert texts[1][marks[1].index("x")] == "G" and marks[1].count("x") == 1


@pytest.mark.parametrize("shape", [(2, 8, 8), (2, 8, 8, 1), (2, 300, 200, 3)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_images_of_any_layout_become_one_page(shape: tuple[int, ...], dtype: type) -> None:
    samples = np.ones(shape, dtype=dtype)
    (picture,) = draw_gallery("g", samples, np.stack([samples] * 3, axis=1), "pixels").pictures
    assert "2 images" in picture.alt and "3 of its views" in picture.alt
    assert len(picture.uri) < 200_000


def test_the_samples_set_the_scale_of_their_pictures() -> None:
    from matplotlib.image import imread

    samples = np.linspace(0, 1, 64).reshape(1, 8, 8)
    plain, outlier = samples[:, None].copy(), samples[:, None].copy()
    outlier[0, 0, 0, 0] = 50.0  # one pixel of a generated view
    drawn = []
    for views in (plain, outlier):
        (picture,) = draw_gallery("g", samples, views, "pixels").pictures
        pixels = imread(io.BytesIO(base64.b64decode(picture.uri.partition(",")[2])))[..., 0]
        drawn.append(pixels[:, :8])
    assert pixels[0, -8] == 1  # white
    assert np.array_equal(*drawn)
    assert np.allclose(drawn[0], samples[0], atol=0.003)


def test_inconsistent_content_is_an_error() -> None:
    assert "map 'm': 2 labels for 3 rows" in refusal(draw_map, "m", np.zeros((3, 2)), ["a", "b"])
    assert "map 'm': xy has shape (3, 3)" in refusal(draw_map, "m", np.zeros((3, 3)))
    assert "profile 'p': 1 names for 2 features" in refusal(draw_profile, "p", np.zeros(2), ["a"])
    with pytest.raises(InputError, match=r"gallery 'g': samples of shape \(2, 4\) with views of shape \(2, 3, 5\)"):
        draw_gallery("g", np.zeros((2, 4)), np.zeros((2, 3, 5)), "curve")
    with pytest.raises(InputError, match="kind 'sound'"):
        draw_gallery("g", np.zeros((2, 4)), np.zeros((2, 3, 4)), "sound")  # type: ignore[arg-type]


def test_a_report_is_replaced_atomically_and_no_temporary_file_remains(tmp_path: Any) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    write_report(path, ReportContent("new \udc80", "m"))
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_twenty_classes_have_twenty_colors_that_can_be_told_apart() -> None:
    coloring = color_by(list(range(20)), 20)
    assert len({*coloring.colors}) == len({entry.color for entry in coloring.legend.entries}) == 20
    rgb = np.array([[int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)] for color in coloring.colors])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = linear @ np.array([[0.4124, 0.2126, 0.0193], [0.3576, 0.7152, 0.1192], [0.1805, 0.0722, 0.9505]])
    f = np.cbrt(xyz / [0.9505, 1.0, 1.089])
    lab = np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)
    distance = np.linalg.norm(lab[:, None] - lab, axis=-1) + 1e3 * np.eye(20)
    assert distance.min() > 25  # CIELAB; a just noticeable difference is about 2
