"""The evaluation protocol against scikit-learn, slow loops and cases computed by hand."""

import itertools
import warnings

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from viewsmith.core.errors import InputError
from viewsmith.evaluation import protocol
from viewsmith.evaluation.linear import standardize, train_softmax
from viewsmith.evaluation.neighbors import majority, neighbors
from viewsmith.evaluation.protocol import OPTIONAL, PROTOCOLS, evaluate_embedding, few_label_rows

NAMES = ["barbera", "barolo", "grignolino"]


@pytest.fixture(scope="module")
def split():
    """Wine, standardized: train rows, their labels, test rows, their labels."""
    x, y = load_wine(return_X_y=True)
    train, test = standardize(x[::2], x[1::2])
    return train, y[::2], test, y[1::2]


@pytest.fixture(scope="module")
def scores(split):
    return evaluate_embedding(*split)


def test_every_protocol_has_one_line_and_a_score(scores):
    assert list(scores) == list(PROTOCOLS)
    assert all(0 <= value <= 1 for value in scores.values())
    assert all(text and "\n" not in text for text in PROTOCOLS.values())


def test_linear_and_svm_agree_with_scikit_learn(split, scores):
    train, y, test, y_test = split
    for name, peer in (("linear", LogisticRegression(max_iter=2000)), ("svm", LinearSVC(dual=False))):
        assert scores[name] == pytest.approx(peer.fit(train, y).score(test, y_test), abs=1.5 / len(test))


@pytest.mark.parametrize("k", [1, 4, 5])
def test_neighbors_and_votes_agree_with_scikit_learn(split, k):
    train, y, test, _ = split
    peer = KNeighborsClassifier(k, metric="cosine", algorithm="brute").fit(train, y)
    found = neighbors(train, test, k)
    assert np.array_equal(found, peer.kneighbors(test, return_distance=False))
    assert np.array_equal(majority(y[found], 3), peer.predict(test))


def test_knn_score_is_the_accuracy_of_five_neighbors(split, scores):
    train, y, test, y_test = split
    peer = KNeighborsClassifier(5, metric="cosine", algorithm="brute").fit(train, y)
    assert scores["knn"] == peer.score(test, y_test)


def test_smallest_class_wins_a_tie():
    assert majority(np.array([[2, 1, 1, 2, 0], [2, 2, 1, 0, 0], [3, 3, 3, 0, 0]]), 4).tolist() == [1, 0, 3]


def test_cosine_with_a_row_of_zeros_is_zero():
    rows = [[-1.0, 0.1], [0.0, 0.0], [0.1, 5.0], [2.0, 0.0]]
    # Cosines of (1, 0): -1, 0, 0.02 and 1; the zero row comes after the nearly orthogonal one, before the opposite.
    assert neighbors(rows, [[7.0, 0.0]], 9).tolist() == [[3, 2, 1, 0]]


@pytest.mark.parametrize("suffix", ["", "_l2"])
def test_cluster_scores_agree_with_scikit_learn(split, scores, suffix):
    _, _, test, y_test = split
    rows = normalize(test) if suffix else test
    clusters = KMeans(3, n_init=10, random_state=0).fit_predict(rows)
    assert scores["nmi" + suffix] == pytest.approx(normalized_mutual_info_score(y_test, clusters), abs=1e-9)
    assert scores["ari" + suffix] == pytest.approx(adjusted_rand_score(y_test, clusters), abs=1e-9)
    best = max(np.mean(np.array(names)[clusters] == y_test) for names in itertools.permutations(range(3)))
    assert scores["kmeans_accuracy" + suffix] == pytest.approx(best)


def test_k_means_runs_once_for_its_three_numbers(split, monkeypatch):
    fits = []
    original = KMeans.fit_predict
    monkeypatch.setattr(KMeans, "fit_predict", lambda self, x: (fits.append(x), original(self, x))[1])
    evaluate_embedding(*split, protocols=["nmi", "kmeans_accuracy", "ari"])
    assert len(fits) == 1
    assert np.array_equal(fits[0], split[2])


@pytest.mark.parametrize("fraction", [0.01, 0.1])
def test_few_label_rows_of_each_class(fraction):
    counts = [3, 149, 260, 1200]
    codes = np.random.default_rng(0).permutation(np.repeat(np.arange(4), counts))
    draws = [few_label_rows(codes, fraction, draw) for draw in protocol.DRAWS]
    for rows in draws:
        assert len(np.unique(rows)) == len(rows)
        assert np.bincount(codes[rows]).tolist() == [max(1, round(fraction * count)) for count in counts]
    assert not np.array_equal(draws[0], draws[1])
    assert np.array_equal(draws[2], few_label_rows(codes, fraction, 2))


def test_few_label_score_is_the_mean_over_draws(split):
    train, y, test, y_test = split
    expected = []
    for draw in protocol.DRAWS:
        rows = few_label_rows(y, 0.1, draw)
        expected.append(LogisticRegression(max_iter=2000).fit(train[rows], y[rows]).score(test, y_test))
    ours = evaluate_embedding(*split, protocols=["linear_10pct"])["linear_10pct"]
    assert ours == pytest.approx(np.mean(expected), abs=0.5 / len(test))


def test_all_embeddings_get_the_same_labeled_rows(split, monkeypatch):
    train, y, test, y_test = split
    seen = []
    original = protocol.few_label_rows
    monkeypatch.setattr(protocol, "few_label_rows", lambda *given: seen.append(original(*given)) or seen[-1])
    names = np.array(NAMES)
    few = ["linear_1pct", "linear_10pct"]
    evaluate_embedding(train, y, test, y_test, protocols=few)
    evaluate_embedding(train[:, :2], names[y], test[:, :2], names[y_test], protocols=few)
    assert len(seen) == 12
    assert all(np.array_equal(a, b) for a, b in zip(seen[:6], seen[6:], strict=True))


@pytest.mark.parametrize("as_objects", [False, True])
def test_labels_may_be_text(split, scores, as_objects):
    train, y, test, y_test = split
    names = np.array(NAMES, dtype=object if as_objects else None)
    assert evaluate_embedding(train, names[y], test, names[y_test]) == scores


def test_classes_that_train_does_not_have_are_errors(split):
    train, y, test, y_test = split
    y_test = np.where(y_test == 1, 7, y_test)  # sorts after the classes of train
    for unseen in (y_test, np.where(y_test == 7, -3, y_test)):
        plain = evaluate_embedding(train, y, test, split[3], protocols=["linear", "knn", "kmeans_accuracy"])
        found = evaluate_embedding(train, y, test, unseen, protocols=["linear", "knn", "kmeans_accuracy"])
        fraction = np.mean(split[3] == 1)
        assert plain["linear"] - fraction - 0.02 <= found["linear"] <= 1 - fraction
        assert plain["knn"] - fraction <= found["knn"] <= 1 - fraction
        assert found["kmeans_accuracy"] == plain["kmeans_accuracy"]


def test_scores_have_the_order_of_the_given_protocols(split, scores):
    wanted = ["svm", "ari_l2", "linear"]
    assert list(evaluate_embedding(*split, protocols=wanted).items()) == [(name, scores[name]) for name in wanted]


def test_fewer_test_rows_than_classes(split):
    train, y, test, y_test = split
    with pytest.warns(UserWarning, match="2 test rows are fewer than the 3 classes"):
        found = evaluate_embedding(train, y, test[:2], y_test[:2], protocols=["knn", "nmi"])
    assert np.isnan(found["nmi"])
    assert not np.isnan(found["knn"])
    with warnings.catch_warnings(action="error"):
        evaluate_embedding(train, y, test[:2], y_test[:2], protocols=["knn"])


def test_collapsed_and_zero_rows_are_legal(split):
    train, y, test, y_test = split
    largest = np.mean(y_test == np.bincount(y).argmax())
    with warnings.catch_warnings(action="ignore"):  # k-means says that it found fewer distinct points than clusters
        found = evaluate_embedding(np.zeros_like(train), y, np.zeros_like(test), y_test)
    assert found["linear"] == largest
    assert found["nmi"] == 0


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda a, y, b, z: (np.where(a > 2, np.nan, a), y, b, z), r"pca \(train\): .* missing value"),
        (lambda a, y, b, z: (a, y, np.where(b > 2, np.inf, b), z), r"pca \(test\): .* infinite value"),
        (lambda a, y, b, z: (a[:, 0], y, b, z), r"pca \(train\) has shape \(89,\), expected rows of features"),
        (lambda a, y, b, z: (a, y, b[:0], z[:0]), r"pca \(test\) has shape \(0, 13\)"),
        (lambda a, y, b, z: (a, y, b[:, :4], z), "pca has 13 columns in train and 4 in test"),
        (lambda a, y, b, z: (a, y[:-1], b, z), "y_train has 88 labels for 89 rows"),
        (lambda a, y, b, z: (a, y * 0, b, z), "all train rows have the label 0, expected at least two classes"),
        (lambda a, y, b, z: (a, y.astype(str), b, z), "expected text or numbers in both"),
        (lambda a, y, b, z: (a, y, b, z + 0.5), "not a continuous target"),
        (lambda a, y, b, z: (a, y + 0.5, b, np.where(z == 1, np.nan, z)), "y_test has [0-9]+ missing numbers"),
        (lambda a, y, b, z: (a, y * 0 + 0.5, b, z), "all 89 train rows have the target 0.5"),
        (lambda a, y, b, z: (a, y + 0.5, b, z.astype(str).astype("U4") + "m"), "y_test holds .*m., expected numbers"),
        (lambda a, y, b, z: (a, y / 2, b, z[:-1]), r"y_test has shape \(88,\), expected one number per row"),
    ],
)
def test_invalid_input_is_named(split, broken, message):
    with pytest.raises(InputError, match=message):
        evaluate_embedding(*broken(*split), name="pca")


@pytest.mark.parametrize(("asked", "message"), [(["linear", "lda"], "unknown protocol 'lda'"), ([], "no protocol")])
def test_unknown_protocols_list_the_known(split, asked, message):
    with pytest.raises(InputError, match=f"{message}.*expected one or more of linear, knn, svm, .*linear_10pct"):
        evaluate_embedding(*split, protocols=asked)


def test_arrays_with_negative_strides_are_those_of_their_copies():
    x, y = np.random.default_rng(0).normal(size=(120, 6)).astype(np.float32), np.arange(120) % 3
    parts = x[:80][::-1], y[:80][::-1], x[80:, ::-1][::-1], y[80:][::-1]
    expected = evaluate_embedding(*(np.ascontiguousarray(part) for part in parts))
    assert evaluate_embedding(*parts) == expected


def written_out(x, y, n_classes, *, epochs, batch_size, learning_rate, seed):
    """Softmax regression by Adam (Kingma and Ba 2015, Algorithm 1) in float64."""
    generator = torch.Generator().manual_seed(seed)
    bound = x.shape[1] ** -0.5
    sizes = (n_classes, x.shape[1]), (n_classes,)
    weights = [torch.empty(size).uniform_(-bound, bound, generator=generator).double().numpy() for size in sizes]
    first, second, t = [0.0, 0.0], [0.0, 0.0], 0
    for _ in range(epochs):
        order = torch.randperm(len(x), generator=generator).numpy()
        for start in range(0, len(x), batch_size):
            rows, t = order[start : start + batch_size], t + 1
            scores = x[rows] @ weights[0].T + weights[1]
            p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
            p[np.arange(len(rows)), y[rows]] -= 1
            for i, g in enumerate((p.T @ x[rows] / len(rows), p.mean(0))):
                first[i] = 0.9 * first[i] + 0.1 * g
                second[i] = 0.999 * second[i] + 0.001 * g**2
                step = first[i] / (1 - 0.9**t) / (np.sqrt(second[i] / (1 - 0.999**t)) + 1e-8)
                weights[i] = weights[i] - learning_rate * step
    return weights


def test_the_layer_is_the_steps_written_out():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 4)), rng.integers(0, 3, 30)
    options = {"epochs": 4, "batch_size": 8, "learning_rate": 0.01, "seed": 5}
    layer = train_softmax(torch.from_numpy(x).float(), torch.from_numpy(y), 3, **options)
    weight, bias = written_out(x, y, 3, **options)
    np.testing.assert_allclose(layer.weight.numpy(), weight, atol=1e-5)
    np.testing.assert_allclose(layer.bias.numpy(), bias, atol=1e-5)


def test_the_protocol_is_computed_only_if_named():
    x, y = load_wine(return_X_y=True)
    train, test = standardize(x[::2], x[1::2])
    found = evaluate_embedding(train, y[::2], test, y[1::2], protocols=["softmax_50", "knn"])
    assert list(found) == ["softmax_50", "knn"] and "softmax_50" in OPTIONAL and "softmax_50" not in PROTOCOLS
    rows, codes = torch.from_numpy(np.asarray(train)), torch.from_numpy(y[::2])
    predicted = train_softmax(rows, codes, 3)(torch.from_numpy(np.asarray(test))).argmax(1)
    assert found["softmax_50"] == float((predicted.numpy() == y[1::2]).mean())


@pytest.mark.parametrize("chosen", [None, ["knn"], ["linear", "nmi"], ["svm", "nmi_l2"], ["knn", "linear_1pct", "ari"]])
def test_the_progress_of_scores_ends_at_its_total(split, monkeypatch, chosen):
    def counted(steps, title, total, unit, size, told):
        assert sum(map(size, steps)) == total and title == "scores of raw"
        return ()

    monkeypatch.setattr(protocol, "with_progress", counted)
    train, y_train, test, y_test = split
    protocol.score_embedding(train, y_train, test, y_test, protocols=chosen, name="raw", progress=True)
