"""The verdict sentence and the comparison table: what they claim is what the differences of the evaluation support."""

import re

import numpy as np
import pytest

from viewsmith.evaluation.compare import from_baselines
from viewsmith.evaluation.differences import word
from viewsmith.reports.verdict import PROTOCOLS, caveat, comparison, verdict


def evaluated(scores, n=1000, **more):
    """An evaluation of accuracies by row and protocol, whose rows are right on different test rows as far as can be."""
    rng, values = np.random.default_rng(0), {}
    for row, of_row in scores.items():
        values[row] = {p: (rng.permutation(n) < round(n * s))[None].astype(np.float32) for p, s in of_row.items()}
    found = {"embeddings": scores, "differences": from_baselines(scores, values), "rows": {"test": n}}
    return found | {"labeled_rows": dict.fromkeys(PROTOCOLS, 100)} | more


def test_the_whole_sentence():
    embeddings = {
        "majority": {"linear_1pct": 0.3, "knn": 0.3, "linear": 0.3, "svm": 0.3},
        "representation": {"linear_1pct": 0.94, "knn": 0.97, "linear": 0.93, "svm": 0.9},
        "untrained": {"linear_1pct": 0.80, "knn": 0.96, "linear": 0.97, "svm": 0.88},
        "raw": {"linear_1pct": 0.84, "knn": 0.95, "linear": 0.96, "svm": 0.87},
        "pca": {"linear_1pct": 0.62, "knn": 0.98, "linear": 0.95, "svm": 0.86},
    }
    found = evaluated(embeddings)
    errors = {
        p: next(t["error"] for t in found["differences"] if t["protocol"] == p and t["other"] == other)
        for p, other in (("linear_1pct", "raw"), ("knn", "pca"), ("svm", "untrained"), ("linear", "untrained"))
    }
    assert 0.005 < min(errors.values()) < max(errors.values()) < 0.02
    assert verdict(found) == (
        "Representation beats majority, raw, PCA and the untrained encoder on 1% labels (0.940 against 0.840 for raw, "
        f"± {errors['linear_1pct']:.3f}); ties on kNN (0.970 against 0.980 for PCA, ± {errors['knn']:.3f}); is not "
        f"clearly different on SVM (0.900 against 0.880 for the untrained encoder, ± {errors['svm']:.3f}); loses on "
        f"linear (0.930 against 0.970 for the untrained encoder, ± {errors['linear']:.3f}, also to raw)."
    )


@pytest.mark.parametrize(
    ("protocol", "ours", "best", "outcome"),
    [
        ("linear", 0.955, 0.940, "ties"),  # a difference of exactly the width is a tie
        ("linear", 0.956, 0.940, "beats"),
        ("linear", 0.925, 0.940, "ties"),
        ("linear", 0.924, 0.940, "loses"),
        ("linear_1pct", 0.930, 0.900, "ties"),
        ("linear_1pct", 0.931, 0.900, "beats"),
        ("kmeans_accuracy", 0.650, 0.600, "ties"),
        ("kmeans_accuracy", 0.651, 0.600, "beats"),
        ("kmeans_accuracy", 0.549, 0.600, "loses"),
    ],
)
def test_tie_widths(protocol, ours, best, outcome):
    # A second baseline far below must not turn a tie or a loss into a win.
    embeddings = {"raw": {protocol: 0.1}, "umap": {protocol: best}, "representation": {protocol: ours}}
    found = evaluated(embeddings, 20_000)
    sentence = verdict(found)
    assert [each for each in ("beats", "ties", "not clearly", "loses") if f"{each} " in sentence] == [outcome]
    compared = comparison(found).outcomes[0]
    assert compared is not None and compared.outcome == outcome and compared.difference == pytest.approx(ours - best)


def test_what_58_rows_do_not_show_is_not_said():
    """.72 against .67 on 58 rows, of which .707 are the largest class."""
    embeddings = {"majority": {"linear": 41 / 58}, "raw": {"linear": 39 / 58}, "representation": {"linear": 42 / 58}}
    said = verdict(evaluated(embeddings, 58))
    assert re.match("Representation (is not clearly different|ties) on linear .0.724 against 0.707", said)
    assert "nowhere clearly better than majority" in said and "beats" not in said
    assert caveat(25).endswith("The standard error of an accuracy on 25 test rows is up to 0.1.")
    assert caveat(10_000) == caveat(None) and "a claim needs several seeds" in caveat(None)


def test_scores_of_fewer_than_ten_labels_do_not_decide():
    embeddings = {"raw": {"r2_1pct": 0.1, "r2": 0.8}, "representation": {"r2_1pct": 0.9, "r2": 0.8}}
    found = evaluated(embeddings, 100) | {"labeled_rows": {"r2_1pct": 3, "r2": 318}, "target": "number"}
    assert "1% labels (0.9" not in verdict(found) and "beats" not in verdict(found)
    assert verdict(found).endswith("Scores of fewer than 10 labeled rows decide nothing: R², 1% labels (3).")
    assert [each and each.outcome for each in comparison(found).outcomes] == ["ties", None]
    assert verdict(evaluated(embeddings, 9)).startswith("No verdict")  # nor do nine test rows


def test_the_cheapest_baseline_that_is_nowhere_behind_is_named():
    embeddings = {
        "majority": {"knn": 0.3},
        "raw": {"knn": 0.5},
        "umap": {"knn": 0.905},
        "features": {"knn": 0.9},
        "representation": {"knn": 0.9},
    }
    seconds = {"raw": {"embed": 0.1}, "umap": {"embed": 60.0}, "features": {"embed": 5.2}, "representation": {}}
    said = verdict(evaluated(embeddings, seconds=seconds))
    assert said.endswith("Nowhere clearly behind it, without training: the fixed features (5.2 s).")


def test_clusters_of_a_baseline_that_agree_better_are_said():
    embeddings = {"pca": {"ari": 0.787, "knn": 0.9}, "representation": {"ari": 0.631, "knn": 0.9}}
    said = verdict(evaluated(embeddings, 855))
    assert "For clusters, take PCA: its k-means agrees better with the classes (ARI 0.631 against 0.787" in said
    assert "For clusters" not in verdict(evaluated(embeddings, 30))  # not clear


def test_a_missing_baseline_score_is_not_beaten_and_the_others_still_count():
    embeddings = {"raw": {"knn": 0.5}, "pca": {"knn": float("nan")}, "representation": {"knn": 0.9}}
    assert verdict(evaluated(embeddings | {"pca": {}})).startswith("Representation beats raw on kNN (0.900 against")


def test_other_outputs_of_the_method_are_not_baselines():
    embeddings = {"raw": {"knn": 0.5}, "map": {"knn": 0.99}, "representation": {"knn": 0.9}}
    found = evaluated(embeddings)
    found["differences"] = [test for test in found["differences"] if test["other"] != "map"]
    assert verdict(found).startswith("Representation beats raw on kNN")


@pytest.mark.parametrize(
    ("embeddings", "reason"),
    [
        ({"representation": {"knn": 0.9}}, "no representation, or no baseline"),
        ({"raw": {"knn": 0.9}}, "no representation, or no baseline"),
        ({"raw": {"knn": 0.9}, "representation": {"linear": 0.9}}, "no protocol has scores for the"),
        ({"raw": {"knn": float("nan")}, "representation": {"knn": 0.9}}, "no protocol has scores for the"),
    ],
)
def test_no_verdict_without_two_numbers(embeddings, reason):
    found = {"embeddings": embeddings, "rows": {"test": 100}}
    assert verdict(found).startswith("No verdict") and reason in verdict(found)


def test_few_rows_are_the_reason_for_no_verdict():
    scores = {"raw": {"knn": 0.7}, "representation": {"knn": 0.9}}
    found = verdict({"embeddings": scores, "rows": {"test": 3}, "labeled_rows": {"knn": 3}})
    assert found == "No verdict. Scores of fewer than 10 labeled rows decide nothing: kNN (3)."


def test_the_table_has_ordered_rows_and_columns_and_marks_all_best_scores():
    embeddings = {
        "representation": {"knn": 0.9, "linear": 0.8, "custom": 1.0, "nmi_l2": 0.4},
        "untrained": {"knn": 0.9, "linear": None},
        "features": {},
        "raw": {"knn": 0.7, "linear": 0.85},
        "majority": {},
    }
    table = comparison({"embeddings": embeddings})
    assert table.columns == ("linear", "kNN", "custom")
    assert [name for name, _ in table.rows] == ["majority", "raw", "features", "untrained", "representation"]
    assert [[cell.best for cell in cells] for _, cells in table.rows if cells[1].score] == [
        [True, False, False],
        [False, True, False],
        [False, True, True],
    ]
    assert table.outcomes[2] is None  # no tie width is known for it
    assert comparison({"embeddings": embeddings}, unit_rows=True).columns == ("NMI",)


@pytest.mark.parametrize("seed", range(20))
def test_the_sentence_claims_only_what_the_differences_support(seed):
    rng = np.random.default_rng(seed)
    names = ["majority", "raw", "pca", "untrained", "representation"][seed % 2 :]
    center = {name: rng.uniform(0.6, 0.8) for name in names}
    keys = ("linear_1pct", "linear", "knn", "kmeans_accuracy")
    scores = {name: {p: round(center[name] + rng.normal(0, 0.05), 2) for p in keys} for name in names}
    few = {p: int(rng.choice([4, 400])) for p in keys}
    found = evaluated(scores, int(rng.choice([40, 300, 2000])), labeled_rows=few)
    said, words = verdict(found), {(t["protocol"], t["other"]): word(t) for t in found["differences"]}
    place = {PROTOCOLS[p]: p for p in keys}
    claimed, baselines = dict[str, str](), [name for name in names if name != "representation"]
    first = said.split(". ")[0]
    if first.startswith("No verdict"):
        assert all(count < 10 for count in few.values())
        return
    for clause in first.removeprefix("Representation ").split("; "):
        kind = clause.split(" ")[0]
        for title, ours, best in re.findall(r"([\w%-]+(?: labels)?) \((0\.\d+) against (0\.\d+)", clause):
            claimed[p := place[title]] = kind
            assert float(ours) == pytest.approx(scores["representation"][p]) and few[p] >= 10
            of_protocol = [words[p, name] for name in baselines]
            if kind == "beats":
                assert set(of_protocol) == {"better"} and float(best) == max(scores[name][p] for name in baselines)
            else:
                assert ("worse" in of_protocol) == (kind == "loses")
    assert set(claimed) == {p for p in keys if few[p] >= 10}
    unbeaten = [name for name in baselines if not any(words[p, name] == "better" for p in claimed)]
    assert ("owhere clearly" in said) == bool(unbeaten)
    if unbeaten:
        expected = {"majority": "majority", "raw": "raw", "pca": "PCA", "untrained": "the untrained encoder"}
        assert expected[unbeaten[0]] in said.split(". ", 1)[1]
