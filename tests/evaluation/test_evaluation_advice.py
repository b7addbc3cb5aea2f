"""The sentence of a comparison claims what its own table of differences calls clear, and nothing else."""

import re

import numpy as np
import pytest

from viewsmith.evaluation.differences import Repeats, TestRows, word
from viewsmith.evaluation.leaderboard import Results, format_comparison, leaderboard, seconds_text

KINDS = {
    "majority": "baseline",
    "raw": "baseline",
    "pca": "baseline",
    "umap": "baseline",
    "untrained": "untrained",
    "contrastive": "method",
    "pinda": "method",
}
SECONDS = {"pca": 0.4, "umap": 60.0, "untrained": 0.2, "contrastive": 20.0, "pinda": 200.0}


def board(scores, repeats=3, n=1000, one_split=True, labeled=None, noise=0.003, seed=0, kinds=KINDS):
    """A leaderboard of rows with these chances to be right at each protocol, on test rows that differ in difficulty."""
    rng, protocols = np.random.default_rng(seed), list(next(iter(scores.values())))
    splits = Repeats(tuple(0 if one_split else i for i in range(repeats)), 0.0 if one_split else 0.25)
    found = Results(repeats, protocols)
    total, hard = (n if one_split else 5 * n), rng.random((len(protocols), 5 * n))
    for row, of_row in scores.items():
        for repeat in range(repeats):
            index = np.arange(n) if one_split else np.random.default_rng(repeat).permutation(total)[:n]
            values = {}
            for number, (name, chance) in enumerate(of_row.items()):
                own = np.where(rng.random(total) < 0.3, rng.random(total), hard[number, :total])
                right = own < chance + rng.normal(0, noise)
                values[name] = TestRows(right[index][None].astype(np.float32), index)
            means = {name: float(each.values.mean()) for name, each in values.items()}
            found.add(row, kinds[row], repeat, means, values)
            seconds = SECONDS.get(row, 0.01)
            trained = kinds[row] == "method"
            found.cost(row, repeat, 0.1 if trained else seconds, seconds if trained else None)
    found.labeled_rows = labeled or dict.fromkeys(protocols, 100)
    about = {"seeds": repeats, "test_rows": n, "split": {"kind": "given", "splits": len(set(splits.splits))}}
    return about | leaderboard(found, splits, [], "runs/out")


def words_of(result):
    """Which row is clearly better than which at which protocol."""
    found = set()
    for test in result["differences"]:
        said = word(test)
        if said in ("better", "worse"):
            pair = (test["row"], test["other"])
            found.add((*(pair if said == "better" else pair[::-1]), test["protocol"]))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_the_sentence_of_a_random_leaderboard_claims_what_the_table_says(seed):
    rng = np.random.default_rng(seed)
    protocols = ["linear_1pct", "linear", "knn", "kmeans_accuracy", "nmi"][: 2 + seed % 4]
    height = {row: rng.choice([0.7, 0.72, 0.8]) for row in KINDS}
    scores = {row: {p: height[row] + rng.normal(0, 0.03) for p in protocols} for row in KINDS}
    if seed % 5 == 0:
        scores = {row: dict.fromkeys(protocols, 0.7) for row in KINDS}
    labeled = {p: int(rng.choice([3, 300, 300])) for p in protocols}
    result = board(
        scores,
        repeats=1 + seed % 5,
        n=int(rng.choice([58, 400, 2000])),
        one_split=bool(rng.random() < 0.5),
        labeled=labeled,
        seed=seed,
    )
    better, said = words_of(result), result["next"]
    deciding = [p for p in protocols if labeled[p] >= 10 and p != "nmi"]
    assert result["decisive"] == deciding
    beaten = {(loser, p) for _, loser, p in better if p in deciding}
    seconds = {row: SECONDS.get(row, 0.01) for row in KINDS}
    cheapest = sorted(KINDS, key=lambda row: max(1.0, seconds[row]))
    for p in protocols:
        assert result["level"][p] == [row for row in cheapest if not any((other, row, p) in better for other in KINDS)]
    free = [row for row in cheapest if not any((row, p) in beaten for p in deciding)]
    if not deciding:
        assert said.startswith("Nothing can be decided")
        return
    if not free:
        assert said.startswith("Choose by purpose")
        for row, purpose in re.findall(r"(\w+) for (few labels|many labels|neighbors|clusters)", said):
            p = {"few labels": "linear_1pct", "many labels": "linear", "neighbors": "knn"}.get(
                purpose, "kmeans_accuracy"
            )
            assert result["level"][p][0] == ("majority" if row == "none" else row)
        return
    if free[0] == "majority":
        assert said.startswith("No row is clearly better than majority for ")
        return
    used = re.match(r"Use (\w+) \(([\d.]+) (s|min)\): no row is clearly better", said)
    assert used and used[1] == free[0]  # the cheapest that nothing is clearly better than
    assert used[2] == seconds_text(seconds[free[0]] + 0.1 * (KINDS[free[0]] == "method")).split()[0]
    means = result["rows"]
    for loser, p, gap, error, winner in re.findall(r"(\w+) \((\w+): ([\d.]+) ± ([\d.]+) behind (\w+)\)", said):
        assert (winner, loser, p) in better and cheapest.index(loser) < cheapest.index(free[0])
        assert float(gap) == pytest.approx(means[winner][p]["mean"] - means[loser][p]["mean"], abs=6e-4)
        assert 1.9 * float(error) < float(gap) + 1e-3
    for row, gap, p in re.findall(r"\((\w+) is ([\d.]+) ± [\d.]+ ahead of it at (\w+), which is not clear", said):
        assert (row, free[0], p) not in better and float(gap) > 0.015
    assert ("--seeds 5" in said) == (result["seeds"] < 3)
    assert said in format_comparison(result)


def test_a_method_wins_where_the_difference_is_clear():
    low = dict.fromkeys(("linear", "knn"), 0.7)
    scores = {
        "majority": {"linear": 0.3, "knn": 0.3},
        "raw": low,
        "pca": low,
        "contrastive": {"linear": 0.8, "knn": 0.7},
    }
    result = board(scores)
    behind = r"\(linear: 0\.\d+ ± 0\.\d+ behind contrastive\)"
    listed = "|".join(f"{one} {behind}, {two} {behind}" for one, two in (("raw", "pca"), ("pca", "raw")))
    assert re.fullmatch(
        rf"Use contrastive \(20 s\): no row is clearly better; cheaper and clearly behind: ({listed}) \(± is a "
        r"standard error\); `viewsmith embed runs/out/contrastive-0 DATA --out FILE` writes its representation\.",
        result["next"],
    )
    few = board(scores, repeats=2, n=40, one_split=False)
    assert few["next"].startswith("Use raw (0.01 s): no row is clearly better")


def test_the_cheaper_of_equals_is_named_by_seconds():
    equal = dict.fromkeys(("linear", "knn"), 0.8)
    scores = {"majority": {"linear": 0.3, "knn": 0.3}, "umap": equal, "contrastive": equal, "pinda": equal}
    result = board(scores)
    assert result["level"]["linear"] == ["contrastive", "umap", "pinda"]  # 20, 60 and 200 seconds
    assert result["next"].startswith("Use contrastive (20 s): no row is clearly better; `viewsmith embed")


def test_scores_of_three_labeled_rows_do_not_decide():
    scores = {"raw": {"r2_1pct": 0.2, "r2": 0.8}, "pinda": {"r2_1pct": 0.7, "r2": 0.8}}
    result = board(scores, labeled={"r2_1pct": 3, "r2": 318})
    assert result["level"]["r2_1pct"] == ["pinda"] and result["decisive"] == ["r2"]
    assert result["next"].startswith("Use raw") and "r2_1pct" not in result["next"]
    assert "Fewer than 10 labels, so it decides nothing: r2_1pct (3 labeled rows)." in format_comparison(result)
    assert result["leaderboard"][0]["mean"] == result["rows"][result["leaderboard"][0]["row"]]["r2"]["mean"]


def test_where_nothing_is_better_than_the_largest_class():
    scores = {row: {"linear": 0.7, "knn": 0.7} for row in ("majority", "raw", "contrastive")}
    said = board(scores, n=58)["next"]
    assert (
        said
        == "No row is clearly better than majority for many labels, neighbors: there is no reason to use any of them."
    )


def test_seconds_are_read_at_a_glance():
    given = (0.0, 0.0123, 0.5, 9.87, 99.4, 240.0, 900.0)
    assert [seconds_text(each) for each in given] == ["0.01 s", "0.012 s", "0.5 s", "9.9 s", "99 s", "240 s", "15 min"]
