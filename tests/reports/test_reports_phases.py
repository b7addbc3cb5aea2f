"""Runs with several kinds of phase: which metrics have separate curves, and the warnings at the end."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from viewsmith.methods.diffaug.training import DiffAugMethod
from viewsmith.reports import ReportContent, render_report
from viewsmith.reports.report import DIAGNOSTICS, collapse_warnings, draw_curves, drift_warnings, phase_kind


def run(schedule: str = "ABA", epochs: int = 4) -> list[dict[str, Any]]:
    """Rows of phases A1, B1, A2, ... as logged by an encoder and a generator that are trained alternately."""
    rows: list[dict[str, Any]] = []
    for position, letter in enumerate(schedule):
        phase = f"{letter}{schedule[: position + 1].count(letter)}"
        for _ in range(epochs):
            n = len(rows) + 1
            row = {"phase": phase, "epoch": n, "step": 10 * n, "seconds": 1.0 * n, "learning_rate": 0.001}
            row["loss"] = 5.0 - 0.1 * n if letter == "A" else 0.9 - 0.01 * n
            if n % 2 == 0:
                row |= {"feature_std": 0.5, "effective_rank": 10.0 + n}
            if letter == "B":
                row |= {"denoising": 0.5, "gradient": 2.0}
            if phase == "A2":
                row |= {"drift": 0.1 * position, "generated_similarity": 0.8}
            rows.append(row)
    return rows


def losses(schedule: str, epochs: int = 4) -> list[dict[str, Any]]:
    return [{key: row[key] for key in ("phase", "epoch", "loss")} for row in run(schedule, epochs)]


def segments(svg: str) -> list[int]:
    """Lengths, in points, of the connected lines of a panel."""
    found = re.findall(r'<path d="([^"]+)" [^>]*stroke: #0072b2; stroke-width: 1.3', svg)
    return [1 + stretch.count("L") for path in found for stretch in path.split("M")[1:]]


@pytest.mark.parametrize(
    ("name", "kind"), [("A1", "A"), ("A12", "A"), ("train", "train"), ("stage2b3", "stage2b"), ("7", "7"), ("", "")]
)
def test_phases_of_one_kind_differ_in_their_trailing_number(name: str, kind: str) -> None:
    assert phase_kind(name) == kind


def test_metrics_of_a_phase_have_a_panel_for_each_kind_of_phase() -> None:
    curves = {curve.title: curve for curve in draw_curves(run())}
    assert list(curves)[:4] == ["Loss (A1, A2)", "Loss (B1)", "Learning rate (A1, A2)", "Learning rate (B1)"]
    encoder, generator = curves["Loss (A1, A2)"], curves["Loss (B1)"]
    assert encoder.data["key"] == generator.data["key"] == "loss"
    assert "4.9 at the start, 3.8 at the end, lowest 3.8, highest 4.9" in encoder.pictures[0].alt
    assert "0.85 at the start, 0.82 at the end" in generator.pictures[0].alt
    assert (encoder.value, generator.value) == (pytest.approx(3.8), pytest.approx(0.82))


def test_no_line_crosses_a_phase_of_another_kind() -> None:
    curves = {curve.title: curve for curve in draw_curves(losses("ABABA"))}
    assert segments(curves["Loss (A1, A2, A3)"].pictures[0].svg) == [4, 4, 4]
    assert segments(curves["Loss (B1, B2)"].pictures[0].svg) == [4, 4]
    # Consecutive phases of one kind are one training.
    (loss, *_) = draw_curves(losses("AAB"))
    assert loss.title == "Loss (A1, A2)" and segments(loss.pictures[0].svg) == [8]


def test_diagnostics_have_one_curve_over_all_phases_and_a_key_of_one_kind_has_a_plain_title() -> None:
    curves = {curve.title: curve for curve in draw_curves(run())}
    assert segments(curves["Effective rank"].pictures[0].svg) == [6]
    assert "Gradient" in curves and segments(curves["Gradient"].pictures[0].svg) == [4]
    for key in ("drift", "generated_similarity", "denoising"):
        assert DIAGNOSTICS[key][0] in curves
    assert len(curves) == 4 + 6


def test_a_single_kind_of_phase_has_plain_titles() -> None:
    loss, rate, *_ = draw_curves([row | {"phase": "train"} for row in run("A")])
    assert (loss.title, rate.title) == ("Loss", "Learning rate") and segments(loss.pictures[0].svg) == [4]


def test_of_many_phases_the_first_and_last_are_named() -> None:
    titles = [curve.title for curve in draw_curves(losses("AB" * 5, 2))]
    assert titles == ["Loss (A1, A2 … A5)", "Loss (B1, B2 … B5)"]


def test_an_isolated_value_is_a_dot() -> None:
    def dots(rows: list[dict[str, Any]]) -> int:
        return len(
            re.findall(
                r'<use xlink:href="[^"]+" x=', draw_curves(rows)[0].pictures[0].svg.split("stroke-width: 1.3")[-1]
            )
        )

    long, short = losses("ABA", 4), losses("ABA", 1)
    assert dots(long) == 0 and dots(short) == 2  # A1 and A2 of one epoch each
    assert dots(long[:4] + long[4:8] + long[8:9]) == 1


def test_names_of_phases_are_drawn_if_they_fit() -> None:
    def names(rows: list[dict[str, Any]]) -> list[str]:
        return re.findall(r">([AB]\d)</text>", draw_curves(rows)[0].pictures[0].svg)

    assert names(losses("ABABA")) == ["A1", "B1", "A2", "B2", "A3"]
    short = losses("ABA", 60)
    del short[62:120]  # two epochs of B among 120
    assert names(short) == ["A1", "A2"]
    assert names(losses("AB" * 30, 2)) == []


def test_a_fraction_is_drawn_from_0_to_1() -> None:
    (drift,) = (curve for curve in draw_curves(run()) if curve.data["key"] == "drift")
    ticks = re.findall(r">([\d.]+)</text>", drift.pictures[0].svg)
    assert "0.0" in ticks and "1.0" in ticks


def test_diagnostics_are_explained_and_the_training_section_explains_separate_panels() -> None:
    html = render_report(ReportContent("t", "m", metrics=run()))
    training, diagnostics = html.split('id="training"')[1].split('id="diagnostics"')
    assert "Drift of generated views" in diagnostics and DIAGNOSTICS["drift"][1] in diagnostics
    assert "Drift of generated views" not in training
    assert "have separate panels" in training
    assert "have separate panels" not in render_report(ReportContent("t", "m", metrics=run("A")))


def test_an_evaluation_explains_only_what_it_shows() -> None:
    evaluation = {"label_free": {"representation": {"effective_rank": 9.0}}}
    html = render_report(ReportContent("t", "m", evaluation=evaluation))
    assert "<dt>Effective rank</dt>" in html and "<dt>Drift" not in html and "<dt>Alignment" not in html


@pytest.mark.parametrize(
    ("values", "expected"), [([0.9, 0.5], None), ([0.1, 0.51], "51%"), ([0.62, None, float("nan")], "62%"), ([], None)]
)
def test_drift_of_most_views_is_a_warning(values: list[float | None], expected: str | None) -> None:
    lines = drift_warnings([{"epoch": i, "drift": value} for i, value in enumerate(values)])
    assert len(lines) == (expected is not None)
    if expected:
        assert f"the nearest row of {expected} of them is not in the sample's neighborhood" in lines[0]


def test_the_drift_warning_of_the_run_is_not_repeated() -> None:
    metrics = [{"phase": "A2", "epoch": 1, "drift": 0.75}]
    (line,) = drift_warnings(metrics)
    generated = SimpleNamespace(drift=torch.tensor(0.75), warnings=list)
    assert DiffAugMethod.warnings(SimpleNamespace(generated=generated), metrics) == [line]  # type: ignore[arg-type]
    for warnings in ([], [line], ["something else", line]):
        html = render_report(ReportContent("t", "m", metrics=metrics, warnings=warnings)).replace("&#39;", "'")
        top, rest = html.split("<main>")
        assert top.count(line) == 1 and rest.count("enerated views drift from their samples") == 1


@pytest.mark.parametrize(
    ("rows", "rank", "collapsed"),
    [(2, 1.0, 0), (2, 0.1, 1), (3, 1.2, 0), (3, 0.9, 1), (4, 1.6, 0), (5, 1.9, 1), (500, 1.9, 1), (None, 1.9, 1)],
)
@pytest.mark.usefixtures("blank_pictures")
def test_few_rows_alone_are_not_a_collapse(rows: int | None, rank: float, collapsed: int) -> None:
    metrics = [{"epoch": 1, "effective_rank": rank, "feature_std": 0.9}]
    assert len(collapse_warnings(metrics, None, rows)) == collapsed
    evaluation = {"label_free": {"representation": {"effective_rank": rank}}, "rows": {"train": 900, "test": rows}}
    assert len(collapse_warnings([], evaluation, 900)) == collapsed
    page = render_report(ReportContent("t", "m", summary={"rows": rows}, metrics=metrics, evaluation=evaluation))
    assert page.count("Collapse: ") == 2 * 2 * collapsed  # training and evaluation; at the top and further down


def test_equal_rows_are_a_collapse_however_few() -> None:
    metrics = [{"epoch": 1, "effective_rank": 0.0, "feature_std": 0.0}]
    assert len(collapse_warnings(metrics, None, 2)) == 2
    assert len(collapse_warnings(metrics, {"rows": {}}, None)) == 2
