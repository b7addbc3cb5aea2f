"""Tables: the committed pages are what the scripts write; verdicts, gains and entries by hand."""

import json
import re

import pytest

from benchmarks.tables import formatting, pages, papers


@pytest.mark.parametrize("name", pages.BLOCKS)
def test_committed_pages_agree_with_the_results(name, tmp_path):
    for path in pages.write(name, tmp_path):
        committed = pages.ROOT / path.relative_to(tmp_path)
        assert path.read_text(encoding="utf-8") == committed.read_text(encoding="utf-8")


def test_an_unknown_name_is_refused(capsys):
    with pytest.raises(SystemExit):
        pages.main(["none"])
    assert "no such tables: none; expected some of" in capsys.readouterr().err


def test_claims_name_pages_results_and_make_targets_that_exist():
    targets = set(re.findall(r"^([\w-]+):", (pages.ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for paper in papers.papers():
        assert (pages.ROOT / "docs" / paper["page"]).exists()
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
