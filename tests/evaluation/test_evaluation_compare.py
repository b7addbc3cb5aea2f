"""The comparison of a representation with its baselines, and its table."""

import json
import warnings
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_wine

from refusals import refusal
from viewsmith.core.errors import InputError
from viewsmith.evaluation import baselines, protocol
from viewsmith.evaluation.compare import _select_raw_features, compare, format_table
from viewsmith.evaluation.label_free import label_free
from viewsmith.evaluation.protocol import PROTOCOLS, Scored, evaluate_embedding
from viewsmith.reports.verdict import named_rows

SHIFT, SCALE = load_wine().data.mean(axis=0), load_wine().data.std(axis=0)


class TwoColumns:
    """Returns two of the scaled columns; the untrained model returns two others."""

    def __init__(self, first=0):
        self.first = first

    def scaled(self, x):
        return ((x - SHIFT) / SCALE).astype(np.float32)

    def raw_features(self, x):
        return {"scaled": self.scaled(x)}

    def transform(self, x, *, output="representation"):
        first = self.first if output == "representation" else 9
        return self.scaled(x)[:, first : first + 2]

    def untrained(self, x):
        return TwoColumns(5)


class WithMap(TwoColumns):
    outputs = MappingProxyType({"map": "flat"})

    def transform(self, x, *, output="representation"):
        assert output in ("representation", "flat")
        return super().transform(x, output=output)


@pytest.fixture(scope="module")
def dataset():
    x, y = load_wine(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    return SimpleNamespace(x_train=x[::2], y_train=names[::2], x_test=x[1::2], y_test=names[1::2])


def without(dataset, **changes):
    return SimpleNamespace(**(vars(dataset) | changes))


@pytest.fixture(scope="module")
def result(dataset):
    return compare(WithMap(), dataset)


def test_the_result_has_every_row_and_protocol(result):
    assert list(result["embeddings"]) == ["majority", "raw", "pca", "untrained", "representation", "map"]
    assert result["protocols"] == PROTOCOLS
    assert result["rows"] == {"train": 89, "test": 89, "classes": 3}
    assert set(result["label_free"]) | {"majority"} == set(result["seconds"]) == set(result["embeddings"])
    assert all(set(row) == {"embed", "score"} for row in result["seconds"].values())
    assert json.loads(json.dumps(result, allow_nan=False)) == result


def test_each_row_has_the_scores_of_its_embedding(result, dataset):
    model = WithMap()
    scaled = model.scaled(dataset.x_train), model.scaled(dataset.x_test)
    embeddings = {
        "raw": scaled,
        "pca": baselines.pca(*scaled),
        "untrained": tuple(part[:, 5:7] for part in scaled),
        "representation": tuple(part[:, 0:2] for part in scaled),
        "map": tuple(part[:, 9:11] for part in scaled),
    }
    for name, (train, test) in embeddings.items():
        metric = "euclidean" if name == "map" else "cosine"
        scores = evaluate_embedding(train, dataset.y_train, test, dataset.y_test, metric=metric)
        assert result["embeddings"][name] == scores
    assert result["embeddings"]["untrained"] != result["embeddings"]["representation"]


def test_the_differences_from_the_baselines_are_those_of_each_test_row(result, dataset):
    tests = {(test["other"], test["protocol"]): test for test in result["differences"]}
    assert set(tests) == {(row, p) for row in ("majority", "raw", "pca", "untrained") for p in PROTOCOLS}
    scores = result["embeddings"]
    for (row, p), test in tests.items():
        assert test["row"] == "representation"
        assert test["mean"] == pytest.approx(scores["representation"][p] - scores[row][p])
        assert (test["error"] or 0) < 0.2 and (test["p"] is None or test["p"] <= test["p_holm"] <= 1)
    values = {row: result.values_by_row[row]["knn"] for row in ("raw", "representation")}
    assert values["raw"].shape == (1, 89) and values["raw"].mean() == pytest.approx(scores["raw"]["knn"])
    gap = (values["representation"] - values["raw"])[0]
    expected = np.sqrt(((gap**2).sum() + 1) / 91 - (gap.sum() / 91) ** 2) / np.sqrt(91)
    assert tests["raw", "knn"]["error"] == pytest.approx(expected, rel=1e-5)
    assert result.values_by_row["raw"]["linear_1pct"].shape == (3, 89)
    assert result["labeled_rows"] == {
        p: 3 if p == "linear_1pct" else 9 if p == "linear_10pct" else 89 for p in PROTOCOLS
    }
    assert result.scored.all() and len(result.scored) == 89


def test_the_largest_class_of_train_is_a_row(result, dataset):
    largest = max("abc", key=lambda each: (dataset.y_train == each).sum())
    share = float((dataset.y_test == largest).mean())
    found = result["embeddings"]["majority"]
    assert {name: found[name] for name in PROTOCOLS} == {
        name: 0.0 if name.startswith(("nmi", "ari")) else pytest.approx(share) for name in PROTOCOLS
    }
    numbers = without(dataset, y_train=dataset.x_train[:, 0], y_test=dataset.x_test[:, 0])
    found = compare(TwoColumns(), numbers)["embeddings"]["majority"]
    assert -0.02 < found["r2"] <= 0 and found["r2"] == found["knn_r2"] == found["r2_1pct"]
    mean = dataset.x_train[:, 0].mean()
    assert found["mae"] == pytest.approx(np.abs(dataset.x_test[:, 0] - mean).mean())


class WithFeatures(TwoColumns):
    default_features = "columns"

    def fixed_features(self, x, *others):
        assert len(x) == 89 and len(others) == 1
        return [self.scaled(rows)[:, 2:5] for rows in (x, *others)]


def test_fixed_features_are_a_row_where_the_kind_of_data_has_some(dataset, result):
    found = compare(WithFeatures(), dataset, protocols=["knn", "linear"])
    assert list(found["embeddings"]) == ["majority", "raw", "features", "pca", "untrained", "representation"]
    parts = [WithFeatures().scaled(rows)[:, 2:5] for rows in (dataset.x_train, dataset.x_test)]
    expected = evaluate_embedding(parts[0], dataset.y_train, parts[1], dataset.y_test, protocols=["knn", "linear"])
    assert found["embeddings"]["features"] == expected
    assert any(test["other"] == "features" for test in found["differences"])
    assert "features" not in result["embeddings"]


def test_samples_that_have_no_features_are_no_end_of_an_evaluation(dataset):
    class TooSmall(WithFeatures):
        def fixed_features(self, x, *others):
            raise InputError("a patch of 6 pixels is larger than the images")

    with pytest.warns(UserWarning, match="no row features: a patch of 6 pixels"):
        found = compare(TooSmall(), dataset, protocols=["knn"])
    assert list(found["embeddings"]) == ["majority", "raw", "pca", "untrained", "representation"]


def test_positions_in_a_map_are_compared_by_euclidean_distance(result):
    """Two classes in the same direction, at different distances from the center, are two classes on a map."""
    angle, radius = np.random.default_rng(0).uniform(0, 7, 80), np.tile([1.0, 3.0], 40)
    points = np.stack([np.cos(angle), np.sin(angle)], 1) * radius[:, None]
    classes = (radius > 2).astype(int)
    given = (points[:40], classes[:40], points[40:], classes[40:])
    assert evaluate_embedding(*given, protocols=["knn"], metric="euclidean")["knn"] == 1
    assert evaluate_embedding(*given, protocols=["knn"])["knn"] < 0.8
    assert "map: Euclidean" in result["protocols"]["knn"]


def test_chosen_protocols_and_a_model_without_outputs(dataset):
    found = compare(TwoColumns(), dataset, protocols=["knn", "ari"])
    assert list(found["protocols"]) == ["knn", "ari"]
    assert list(found["embeddings"]) == ["majority", "raw", "pca", "untrained", "representation"]
    assert all(list(row) == ["knn", "ari"] for row in found["embeddings"].values())


def test_the_representation_has_the_alignment_of_its_views(result, dataset):
    assert not any("alignment" in row for row in result["label_free"].values())  # of a model without views

    class WithViews(TwoColumns):
        def represented_views(self, X, *, pool):
            assert len(X) == 89 and len(pool) == 89
            return self.transform(X) + 0.5

    found = compare(WithViews(), dataset, protocols=["knn"])["label_free"]
    order = np.random.default_rng(0).permutation(89)
    h = WithViews().transform(dataset.x_test)[order]
    assert [name for name, row in found.items() if "alignment" in row] == ["representation"]
    assert found["representation"]["alignment"] == label_free(h, h + 0.5)["alignment"] > 0


def test_umap_row_is_made_from_scaled_rows(dataset, monkeypatch):
    seen = []
    monkeypatch.setattr(baselines, "umap", lambda *rows: seen.append(rows) or rows)
    found = compare(TwoColumns(), dataset, umap=True, protocols=["knn"])
    assert found["embeddings"]["umap"] == found["embeddings"]["raw"]
    assert np.array_equal(seen[0][1], TwoColumns().scaled(dataset.x_test))


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ({"y_train": None, "y_test": None}, "no labels, .*--label COLUMN"),
        ({"x_test": None, "y_test": None}, "no test rows, .*--label COLUMN"),
        ({"y_test": None}, "test rows have no labels, .*--label COLUMN"),
    ],
)
def test_labels_and_test_rows_are_needed(dataset, missing, message):
    with pytest.raises(InputError, match=message):
        compare(TwoColumns(), without(dataset, **missing))


def test_classes_that_no_train_row_has_are_named_once(dataset):
    y_test = dataset.y_test.copy()
    y_test[:3], y_test[3:5] = "d", "e"
    with pytest.warns(UserWarning, match="5 test rows have classes that no train row has, which .*: d, e") as found:
        compare(TwoColumns(), without(dataset, y_test=y_test), protocols=["knn"])
    assert len([each for each in found if "no train row has" in str(each.message)]) == 1
    with warnings.catch_warnings(action="error"):  # a class without test rows is no fault
        compare(TwoColumns(), without(dataset, y_test=np.where(dataset.y_test == "c", "a", dataset.y_test)))


def test_test_rows_of_new_classes_alone_have_no_classifier(dataset):
    new = without(dataset, y_test=np.array(["d", "e"])[np.arange(len(dataset.y_test)) % 2])
    message = refusal(compare, TwoColumns(), new)
    assert "no test row has a class of the train rows (test: d, e; train: a, b, c)" in message
    with pytest.warns(UserWarning, match="no train row has"):  # clusters are of the test rows
        assert "representation" in str(compare(TwoColumns(), new, protocols=["kmeans_accuracy"]))


def test_unknown_protocols_are_an_error_before_any_work(dataset):
    model = TwoColumns()
    model.scaled = None
    assert "unknown protocol 'lda'" in refusal(compare, model, dataset, protocols=["lda"])


def test_an_embedding_that_is_not_finite_is_named(dataset):
    model = TwoColumns()
    model.transform = lambda x: model.scaled(x) * np.nan
    assert "representation (train)" in refusal(compare, model, dataset, protocols=["knn"])


def test_table_by_hand():
    table = format_table(
        {
            "embeddings": {
                "raw": {"linear": 0.81249, "nmi": float("nan")},
                "pca": {"linear": 0.5, "nmi": float("nan")},
                "representation": {"linear": 0.8121, "nmi": float("nan")},
            },
            "raw": "scaled values",
            "protocols": {"linear": "how linear is scored", "nmi": "how nmi is scored"},
            "rows": {"train": 80, "test": 20, "classes": 3},
        }
    )
    assert table.splitlines() == [
        "                linear   nmi",
        "raw              0.812*  nan",
        "pca              0.500   nan",
        "representation   0.812*  nan",
        "",
        "Fitted on 80 train rows, scored on 20 test rows, 3 classes.",
        "raw: scaled values",
        '* best of the column; docs/evaluation.md and result["protocols"], in evaluation.json, describe the columns',
    ]


class TwoKindsOfRaw(TwoColumns):
    """Two kinds of raw features: one constant column, and the scaled rows."""

    def raw_features(self, x):
        return {"useless": np.zeros((len(x), 1), np.float32), "scaled": self.scaled(x)}


def test_the_better_raw_features_are_selected(dataset):
    found = compare(TwoKindsOfRaw(), dataset, protocols=["linear"])
    assert found["raw"] == "scaled" and found["embeddings"]["raw"]["linear"] > 0.9


def test_raw_features_are_chosen_without_the_test_labels(dataset):
    other = without(dataset, y_test=np.roll(dataset.y_test, 31))
    assert compare(TwoKindsOfRaw(), other, protocols=["linear"])["raw"] == "scaled"


def test_table_of_all_protocols_fits_the_screen(result):
    lines = format_table(result).splitlines()
    assert max(map(len, lines)) <= 120
    for name, scores in result["embeddings"].items():
        row = [cell for line in lines if line.startswith(f"{name} ") for cell in line.split()[1:]]
        assert [float(cell.rstrip("*")) for cell in row] == [round(value, 3) for value in scores.values()]
    tables = lines[: lines.index("Fitted on 89 train rows, scored on 89 test rows, 3 classes.")]
    assert [word for line in tables if line.startswith("  ") for word in line.split()] == list(PROTOCOLS)


def test_an_encoder_with_given_weights_is_not_called_untrained(dataset):
    model = TwoColumns()
    model.given_weights = True
    result = compare(model, dataset, protocols=["knn"])
    assert "given encoder" in format_table(result) and "untrained" not in format_table(result)
    assert "given encoder" in named_rows(result) and "untrained" in result["embeddings"]


def test_raw_features_are_selected_on_rows_that_the_probe_has_not_seen():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 40)
    honest = rng.normal(size=(80, 2)) + 1.5 * y[:, None]
    many = rng.normal(size=(80, 400))  # separates all rows on which it is fitted, and no others

    class TwoFeatures:
        def raw_features(self, x):
            rows = np.asarray(x)[:, 0].astype(int)
            return {"many": many[rows].astype(np.float32), "honest": honest[rows].astype(np.float32)}

    assert _select_raw_features(TwoFeatures(), np.arange(80)[:, None], y, "class", {}) == "honest"
    assert _select_raw_features(TwoFeatures(), np.arange(80)[:, None], y + 0.5, "number", {}) == "honest"


def test_diagnostics_are_of_test_rows(dataset):
    moved = without(dataset, x_test=dataset.x_test * [3.0, *[1.0] * 12])
    found = compare(TwoColumns(), moved, rows=["representation"])["label_free"]["representation"]
    order = np.random.default_rng(0).permutation(len(moved.x_test))
    expected = label_free(TwoColumns().transform(moved.x_test[order]))
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    of_train = label_free(TwoColumns().transform(moved.x_train))
    assert found["feature_std"] != pytest.approx(of_train["feature_std"], rel=0.1)


def test_equal_features_are_scored_once(dataset, monkeypatch):
    scored, seen = [], {}
    monkeypatch.setattr(
        protocol, "score_embedding", lambda *args, **options: scored.append(args) or Scored({"knn": 1.0}, {})
    )
    compare(TwoColumns(), dataset, protocols=["knn"], seen=seen)
    compare(TwoColumns(1), dataset, protocols=["knn"], seen=seen)  # only the representation differs
    assert len(scored) == 6
    others = np.array(dataset.y_test[::-1], dtype=object)
    compare(TwoColumns(), without(dataset, y_test=others), protocols=["knn"], seen=seen)
    compare(TwoColumns(), without(dataset, y_test=others[::-1].astype(str)), protocols=["knn"], seen=seen)
    compare(TwoColumns(), dataset, protocols=["linear"], seen=seen)
    assert len(scored) == 16


def test_long_scores_say_how_far_they_are(dataset, monkeypatch, capsys):
    monkeypatch.setattr(protocol, "TOLD", 0.0)
    model = TwoColumns()
    compare(model, dataset, rows=["raw"])
    assert "scores of" not in capsys.readouterr().err
    model.verbose = True
    compare(model, dataset, rows=["raw", "pca"])
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" in ")[0] for line in lines] == [f"scores of {row}: 4 of 12 parts" for row in ("raw", "pca")]
