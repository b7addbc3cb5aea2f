"""The page of a comparison: its parts, its size, and how a browser shows it."""

import html
import re
import shutil
import subprocess

import numpy as np
import pytest

from viewsmith.evaluation.differences import Repeats, TestRows
from viewsmith.evaluation.leaderboard import Results, leaderboard
from viewsmith.reports.comparison import _against_best, render_comparison
from viewsmith.reports.report import _p

PROTOCOLS = ["linear", "knn", "kmeans_accuracy", "linear_1pct", "linear_10pct"]
KINDS = {"raw": "baseline", "a <b>": "method", "a <b> untrained": "untrained"}
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def compared(kinds=KINDS, repeats=3, failed=None):
    rng, found = np.random.default_rng(0), Results(repeats, PROTOCOLS)
    for row, kind in kinds.items():
        for repeat in range(repeats):
            found.add(row, kind, repeat, {name: 0.7 + 0.2 * rng.random() for name in PROTOCOLS})
            found.cost(row, repeat, 0.1, 2.0 if kind == "method" else None)
    found.failed = failed or {}
    methods = [row for row, kind in kinds.items() if kind == "method"]
    cells = [
        {"method": name, "seed": i, "split": i, "status": "finished", "seconds": 2.0, "why": ""}
        for name in methods
        for i in range(repeats)
    ]
    about = {
        "data": "runs/cells & more.csv",
        "modality": "vectors",
        "sizes": {"train": 80, "test": 20, "classes": 2},
        "split": {"kind": "stratified", "splits": repeats},
        "seeds": repeats,
        "test_rows": 20,
    }
    return about | leaderboard(found, Repeats(tuple(range(repeats)), 0.25), cells, "runs/out")


def maps(rows, count=60):
    rng = np.random.default_rng(1)
    return {row: {"xy": rng.normal(size=(count, 2)).tolist(), "labels": [i % 3 for i in range(count)]} for row in rows}


def test_every_part_is_on_the_page_and_escaped():
    result = compared(failed={"broken": "the loss is <not> finite"})
    page = render_comparison(result, maps(result["rows"]))
    text = html.unescape(re.sub(r"<[^>]+>", " ", page))
    assert "<b>" not in page and page.count("<img class=") == 5
    for part in ("cells & more.csv", result["next"], "a <b> untrained", "broken failed: the loss is <not> finite"):
        assert part in text
    for name in PROTOCOLS:
        for row in result["rows"].values():
            assert f"{row[name]['mean']:.3f}" in text
    assert "Nadeau and Bengio" in text and "3 seeds, each with its own split" in text
    assert 'src="http' not in page and "<script" not in page
    assert render_comparison(result, maps(result["rows"])) == page


def test_a_page_without_maps_curves_or_costs():
    found = Results(1, ["knn"])
    found.add("raw", "baseline", 0, {"knn": 0.5})
    result = compared() | leaderboard(found, Repeats((0,)), [], "out") | {"seeds": 1}
    page = render_comparison(result, {})
    assert 'id="maps"' not in page and 'id="labels"' not in page and 'id="cost"' not in page


def test_many_rows_are_a_small_page():
    kinds = {f"method{i}": "method" for i in range(34)}
    result = compared(kinds)
    page = render_comparison(result, maps(kinds, 500))
    assert len(page.encode()) < 3e6 and "18 further rows have no map" in page


@pytest.mark.parametrize(("rows", "said"), [(4, "raw is not clearly behind (a tie is 0.015)"), (400, "all others are")])
def test_what_is_clearly_behind_is_said_in_words(rows, said):
    found = Results(1, ["knn"])
    for row, score in (("raw", 0.5), ("pca", 0.75)):
        right = (np.arange(rows) % 4 < 4 * score).astype(np.float32)[None]
        found.add(row, "baseline", 0, {"knn": score}, {"knn": TestRows(right, np.arange(rows))})
    result = compared() | leaderboard(found, Repeats((0,)), [], "out") | {"seeds": 1}
    page = render_comparison(result, {})
    assert "kNN (neighbors): pca is best with 0.750" in page and said in page
    assert "Of a single training only the test rows are known" in page


def test_scores_of_few_labels_are_said_to_decide_nothing():
    found = Results(1, ["knn", "linear_1pct"])
    found.add("raw", "baseline", 0, {"knn": 0.5, "linear_1pct": 0.5})
    found.labeled_rows = {"knn": 90, "linear_1pct": 2}
    page = render_comparison(compared() | leaderboard(found, Repeats((0,)), [], "out"), {})
    assert "Fewer than 10 labels, so it decides nothing: linear_1pct (2 labeled rows)." in page
    assert "Not complete" not in page


def test_differences_from_the_best_row_have_one_sign():
    result = compared()
    found = _against_best(result, "knn")
    means = {row: scores["knn"]["mean"] for row, scores in result["rows"].items()}
    assert found["best"] == max(means, key=means.get) and len(found["tests"]) == 2
    for each in found["tests"]:
        assert each["mean"] == pytest.approx(means[each["row"]] - means[found["best"]])
        assert each["low"] < each["mean"] < each["high"] and each["mean"] <= 0


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_shows_the_page_without_scrolling_sideways(tmp_path, width):
    result = compared({f"a method with a long name {i}": "method" for i in range(8)})
    page = render_comparison(result, maps(result["rows"]))
    # The window of headless Chromium is at least 500 wide, so that a phone is a frame in a page that measures it.
    inner = page.replace("default-src 'none'; ", "")
    script = (
        "<script>addEventListener('load',()=>{const e=document.documentElement;document.querySelector('details').open="
        "true;parent.postMessage([e.scrollWidth,e.clientWidth,document.images.length,[...document.images].every(i=>"
        "i.naturalWidth>0),[...document.querySelectorAll('.scroll')].filter(i=>i.scrollWidth>i.clientWidth).length],"
        "'*')})"
        "</script>"
    )
    (tmp_path / "inner.html").write_text(inner.replace("</body>", script + "</body>"))
    (tmp_path / "outer.html").write_text(
        f"<iframe src='inner.html' style='border:0;width:{width}px;height:900px'></iframe><p id='found'></p>"
        "<script>addEventListener('message',e=>{found.textContent=e.data.join(' ')})</script>"
    )
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    options = ["--virtual-time-budget=5000", "--dump-dom", str(tmp_path / "outer.html")]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=120)
    scroll, visible, images, loaded, wide = re.search(r'id="found">([^<]*)<', done.stdout)[1].split()
    assert int(scroll) <= int(visible) and width - 20 <= int(visible) <= width  # without the scroll bar
    assert images == "10" and loaded == "true" and wide == "0"  # no table scrolls either


def test_small_p_values_are_not_zero():
    assert [_p(value) for value in (0.0, 4e-4, 6e-4, 0.25, None)] == ["< 0.001", "< 0.001", "0.001", "0.250", "–"]
