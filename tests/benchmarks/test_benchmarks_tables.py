"""Tables: the committed pages are what the scripts write; verdicts, gains and entries by hand."""

import json
import re

import pytest

from benchmarks.tables import (
    cells,
    crl_tac,
    decisive,
    diffaug,
    formatting,
    genview,
    harm,
    label_free,
    labels_and_groups,
    linear_contrast,
    metaug,
    modalities,
    numbers,
    papers,
    regimes,
    tables,
    vectors,
    what_and_where,
    which_method,
)
from viewsmith.evaluation.label_free import MEASURES, STUDY

PAGES = {
    "results/vectors.md": vectors,
    "results/modalities.md": modalities,
    "results/diffaug.md": diffaug,
    "results/metaug.md": metaug,
    "results/genview.md": genview,
    "results/crl_tac.md": crl_tac,
    "results/what_and_where.md": what_and_where,
    "results/tables.md": tables,
    "results/cells.md": cells,
    "results/labels_and_groups.md": labels_and_groups,
    "results/decisive.md": decisive,
    "results/harm.md": harm,
    "results/numbers.md": numbers,
    "results/label_free.md": label_free,
    "results/when_views_help.md": regimes,
    "results/which_method.md": which_method,
    "linear_contrast.md": linear_contrast,
    "results/papers.md": papers,
} | {paper["page"]: papers for paper in papers.papers()}


@pytest.mark.parametrize("name", PAGES)
def test_committed_pages_agree_with_the_results(name, monkeypatch, tmp_path):
    committed = (formatting.DOCS / name).read_text(encoding="utf-8")
    monkeypatch.setattr(formatting, "DOCS", tmp_path)
    PAGES[name].main()
    assert (tmp_path / name).read_text(encoding="utf-8") == committed


def test_the_readme_has_a_line_for_each_paper():
    readme = (papers.ROOT / "README.md").read_text(encoding="utf-8")
    assert "\n".join(papers.summary("docs/")) in readme


def test_claims_name_pages_results_and_make_targets_that_exist():
    targets = set(re.findall(r"^([\w-]+):", (papers.ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for paper in papers.papers():
        assert (papers.ROOT / "docs" / paper["page"]).exists()
        for claim in paper["claim"]:
            assert claim["verdict"] and claim["published"], claim
            files = [each["file"] for each in claim.get("rows", ())] + [
                claim["gains"]["file"] for _ in "1" if "gains" in claim
            ]
            assert all((papers.RESULTS / f"{file}.jsonl").exists() for file in files), claim
            assert not claim["command"].startswith("make ") or claim["command"].removeprefix("make ") in targets, claim


def test_numbers_of_a_claim_come_from_its_rows(monkeypatch, tmp_path):
    monkeypatch.setattr(papers, "RESULTS", tmp_path)
    lines = [{"dataset": "d", "method": "m", "seed": s, "linear": v} for s, v in ((0, 0.5), (1, 0.7))]
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    row = {"file": "r", "dataset": "d", "method": "m", "metrics": ["linear"], "label": "ours"}
    assert papers.here({"rows": [row]}) == "ours .600 ± .141 (2 seeds)"
    assert papers.here({"rows": [row | {"method": "other"}]}) == "-"


def test_verdicts_follow_the_tie_widths():
    def scores(value):
        return {seed: dict.fromkeys(formatting.TIES, value) for seed in (0, 1, 2)}

    baselines = ("pca", "umap")
    table = {("s", name): scores(0.80) for name in baselines} | {("s", "pinda"): scores(0.82)}
    line = formatting.verdicts(table, "pinda", {"s": baselines})[2]
    km, few, knn, linear = [part.strip() for part in line.split("|")[2:-1]]
    assert km.startswith("ties") and few.startswith("ties")
    assert knn.startswith("**beats**") and linear.startswith("**beats**")
    table["s", "pinda"] = scores(0.74)
    assert formatting.verdicts(table, "pinda", {"s": baselines})[2].count("loses to pca (-0.060)") == 4
    del table["s", "umap"]
    assert formatting.verdicts(table, "pinda", {"s": baselines})[2].count("open") == 4


def test_gains_pair_sets_and_seeds():
    def scores(*numbers):
        return {seed: {"knn": number} for seed, number in enumerate(numbers)}

    table = {("s", "a"): scores(0.5, 0.75), ("t", "a"): scores(0.5), ("s", "b"): scores(0.25, 0.25), ("t", "b"): {}}
    assert formatting.gain(table, "a", "b", ["s", "t"], "knn") == "-"
    table["t", "b"] = scores(0.5, 0.9)
    # Differences 0.25, 0.5 and 0: mean 0.25, deviation 0.25, and 4.303 is Student's quantile at two degrees of freedom.
    assert formatting.gain(table, "a", "b", ["s", "t"], "knn") == "+0.250 ± 0.621 (3)"
    assert formatting.gain(table, "a", "b", ["s", "t"], "knn", digits=4) == "+0.2500 ± 0.6210 (3)"
    found = formatting.gains(table, {"a": ("a", "b", ["s", "t"]), "few": ("a", "b", ["s"])}, {"knn": "kNN"})
    assert found == ["| row | kNN |", "|---|---|", "| a | +0.250 ± 0.621 (3) |"]
    lines = formatting.by_row(table, "knn", ["s", "t"], ("b", "a", "none"))
    assert lines[2:] == ["| b (2) | 0.250 ± 0.000 | 0.700 ± 0.283 |", "| a (2) | 0.625 ± 0.177 | 0.500 |"]
    assert formatting.by_row(table, "svm", ["s"], ("a",)) == [] == formatting.section("svm", [], text="nothing")
    assert formatting.section("kNN", [], lines[:2], text="why") == ["", "## kNN", "", "why", "", *lines[:2]]


def test_conclusions_pair_means_over_sets():
    def scores(*numbers):
        return {seed: {"knn": number} for seed, number in enumerate(numbers)}

    table = {("s", "a"): scores(0.5, 0.7), ("t", "a"): scores(0.5), ("u", "a"): scores(0.4)}
    table |= {("s", "b"): scores(0.3, 0.3), ("t", "b"): scores(0.2), ("u", "b"): scores(0.1), ("t", "c"): scores(0.55)}
    # Every difference is 0.3, so the interval has no width.
    found = formatting.conclusions(table, [("a", "b"), ("b", "a"), ("a", "c")], ["s", "t", "u"], {"knn": "kNN"})
    assert found == [
        "- *a* against *b*: kNN +0.300 ± 0.000 (3 sets), better.",
        "- *b* against *a*: kNN -0.300 ± 0.000 (3 sets), worse; loses on s -0.300, t -0.300, u -0.300.",
    ]
    table["s", "c"] = scores(0.7)
    # Differences -0.1 and -0.05: mean -0.075, deviation 0.0354, Student's quantile 12.706 at one degree of freedom.
    last = formatting.conclusions(table, [("a", "c")], ["s", "t"], {"knn": "kNN"})
    assert last == ["- *a* against *c*: kNN -0.075 ± 0.318 (2 sets), no clear difference; loses on s -0.100, t -0.050."]


def test_harm_is_the_smaller_mean_difference_to_the_better_of_raw_features_and_pca():
    def scores(linear, knn):
        return {"linear": linear, "knn": knn}

    table = {
        ("s", "raw"): {0: scores(0.8, 0.5)},
        ("s", "pca"): {0: scores(0.7, 0.6)},
        ("s", "contrastive"): {0: scores(0.79, 0.58), 1: scores(0.81, 0.54)},
    }
    assert harm.gaps(table, "s", "linear") == pytest.approx([-0.01, 0.01])
    assert harm.gaps(table, "s", "knn") == pytest.approx([-0.02, -0.06])
    assert harm.worst(table, "s") == pytest.approx(-0.04)
    assert harm.difference([-0.02, -0.06], harm=True) == "**-0.040 ± 0.028**"
    assert harm.difference([-0.04], harm=False) == "-0.040"


def test_compare_says_what_the_study_of_measures_found():
    table = label_free.complete()
    always, chance = (round(label_free.mean_regret(table, rule), 3) for rule in ("always", None))
    assert {"sets": len(table), "always": always, "chance": chance} == STUDY
    assert label_free.verdict(table).startswith("No rule") and label_free.best_rule(table) == "always"
    assert {*label_free.MEASURES} == {*MEASURES, "stability_seeds", "stability_halves"}


def test_the_method_for_a_set_is_the_cheapest_that_is_level_with_the_best():
    seeds = (0, 1, 2)
    values = {"raw": dict.fromkeys(seeds, 0.89), "contrastive": {0: 0.9, 1: 0.91, 2: 0.89}, "pinda": {}}
    assert which_method.cell(values, "linear") == ("raw", "raw 0.890 (contrastive 0.900)")
    values["raw"] = dict.fromkeys(seeds, 0.8)
    assert which_method.cell(values, "linear") == ("contrastive", "contrastive 0.900")
    table = {("s", "raw"): {0: {"linear": 0.5}}, ("s", "fixed views"): {seed: {"linear": 0.6} for seed in seeds}}
    found = which_method.scores(table, "s", "linear", modality=True)
    assert found["raw"] == dict.fromkeys(seeds, 0.5) and found["contrastive"][2] == 0.6 and not found["umap"]
