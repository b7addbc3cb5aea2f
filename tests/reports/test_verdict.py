"""The verdict sentence and the comparison table, against numbers computed by hand."""

from __future__ import annotations

import pytest

from viewsmith.reports.verdict import caveat, comparison, verdict

BEATS, TIES, LOSES = "beats", "ties", "loses"


def test_the_whole_sentence() -> None:
    embeddings = {
        "representation": {"linear_1pct": 0.94, "knn": 0.97, "linear": 0.93},
        "untrained": {"linear_1pct": 0.80, "knn": 0.96, "linear": 0.97},
        "raw": {"linear_1pct": 0.84, "knn": 0.95, "linear": 0.96},
        "pca": {"linear_1pct": 0.62, "knn": 0.98, "linear": 0.95},
    }
    assert verdict(embeddings) == (
        "Representation beats raw, PCA and the untrained encoder on 1% labels (0.94 vs 0.84, 0.62, 0.80); "
        "ties on kNN (0.97 vs 0.98 for PCA); loses on linear (0.93 vs 0.97 for the untrained encoder)."
    )


@pytest.mark.parametrize(
    ("protocol", "ours", "best", "outcome"),
    [
        ("linear", 0.955, 0.940, TIES),  # a difference of exactly the width is a tie
        ("linear", 0.956, 0.940, BEATS),
        ("linear", 0.925, 0.940, TIES),
        ("linear", 0.924, 0.940, LOSES),
        ("knn", 0.916, 0.900, BEATS),
        ("svm", 0.884, 0.900, LOSES),
        ("linear_10pct", 0.916, 0.900, BEATS),
        ("linear_1pct", 0.930, 0.900, TIES),
        ("linear_1pct", 0.931, 0.900, BEATS),
        ("linear_1pct", 0.869, 0.900, LOSES),
        ("kmeans_accuracy", 0.650, 0.600, TIES),
        ("kmeans_accuracy", 0.651, 0.600, BEATS),
        ("kmeans_accuracy", 0.549, 0.600, LOSES),
    ],
)
def test_tie_widths(protocol: str, ours: float, best: float, outcome: str) -> None:
    # A second baseline far below must not turn a tie or a loss into a win.
    embeddings = {"raw": {protocol: 0.1}, "umap": {protocol: best}, "representation": {protocol: ours}}
    sentence = verdict(embeddings)
    assert [word for word in (BEATS, TIES, LOSES) if f"{word} " in sentence] == [outcome]
    compared = comparison(embeddings).outcomes[0]
    assert compared is not None and compared[0] == outcome and compared[1] == pytest.approx(ours - best)


def test_a_difference_of_one_test_row_is_a_tie_and_a_small_test_split_has_a_caveat() -> None:
    embeddings = {"raw": {"knn": 22 / 24}, "representation": {"knn": 23 / 24}}
    assert verdict(embeddings) == "Representation beats raw on kNN (0.96 vs 0.92)."
    assert verdict(embeddings, 24) == "Representation ties on kNN (0.96 vs 0.92 for raw)."
    assert comparison(embeddings, 24).outcomes == ((TIES, pytest.approx(1 / 24)),)
    assert verdict(embeddings, 48).startswith("Representation beats")
    assert caveat(25).endswith("The standard error of an accuracy on 25 test rows is up to 0.1.")
    assert caveat(10_000) == caveat(None) == "This is one run: a claim needs several seeds."


def test_a_missing_baseline_score_is_a_dash_and_the_others_still_count() -> None:
    embeddings = {"raw": {"knn": 0.5}, "pca": {"knn": None}, "representation": {"knn": 0.9}}
    assert verdict(embeddings) == "Representation beats raw and PCA on kNN (0.90 vs 0.50, –)."


def test_other_outputs_of_the_method_are_not_baselines() -> None:
    embeddings = {"raw": {"knn": 0.5}, "map": {"knn": 0.99}, "representation": {"knn": 0.9}}
    assert verdict(embeddings) == "Representation beats raw on kNN (0.90 vs 0.50)."


@pytest.mark.parametrize(
    ("embeddings", "reason"),
    [
        ({"representation": {"knn": 0.9}}, "no representation, or no baseline"),
        ({"raw": {"knn": 0.9}}, "no representation, or no baseline"),
        ({"raw": {"knn": 0.9}, "representation": {"linear": 0.9}}, "no protocol has scores for both"),
        ({"raw": {"knn": float("nan")}, "representation": {"knn": 0.9}}, "no protocol has scores for both"),
    ],
)
def test_no_verdict_without_two_numbers(embeddings: dict[str, dict[str, float]], reason: str) -> None:
    assert verdict(embeddings).startswith("No verdict") and reason in verdict(embeddings)


def test_the_table_has_ordered_rows_and_columns_and_marks_all_best_scores() -> None:
    embeddings = {
        "representation": {"knn": 0.9, "linear": 0.8, "custom": 1.0, "nmi_l2": 0.4},
        "untrained": {"knn": 0.9, "linear": None},
        "raw": {"knn": 0.7, "linear": 0.85},
    }
    table = comparison(embeddings)
    assert table.columns == ("linear", "kNN", "custom")
    assert [name for name, _ in table.rows] == ["raw", "untrained", "representation"]
    assert [[cell.best for cell in cells] for _, cells in table.rows] == [
        [True, False, False],
        [False, True, False],
        [False, True, True],
    ]
    assert table.outcomes[2] is None  # no tie width is known for it
    assert comparison(embeddings, unit_rows=True).columns == ("NMI",)
