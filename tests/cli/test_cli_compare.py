"""The command compare: several methods, seeds and baselines on one data set."""

import json

import numpy as np
import pytest
from cli_tools import call, files, good

from viewsmith.evaluation import baselines
from viewsmith.workflows import compare as workflow

SMALL = [part for option in ("epochs=1", "hidden=8", "n_components=4") for part in ("--set", option)]
GIVEN = ("wine", "--methods", "contrastive,pinda", "--seeds", 2, "--protocols", "knn,linear", *SMALL)


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    return folder / "out", good("compare", *GIVEN, "--out", folder / "out")


def test_methods_are_compared_with_baselines(compared):
    out, result = compared
    content = json.loads((out / "compare.json").read_text())
    rows = ["raw", "pca", "contrastive untrained", "contrastive", "pinda untrained", "pinda"]
    assert sorted(content["rows"]) == sorted(rows) and content["protocols"] == ["knn", "linear"]
    assert list(content["rows"])[:2] == ["raw", "pca"]
    assert [(cell["method"], cell["seed"]) for cell in content["cells"]] == [
        ("contrastive", 0),
        ("pinda", 0),
        ("contrastive", 1),
        ("pinda", 1),
    ]
    for cell in content["cells"]:
        saved = json.loads((out / f"{cell['method']}-{cell['seed']}" / "evaluation.json").read_text())
        assert (
            saved["embeddings"]["representation"]["knn"]
            == content["rows"][cell["method"]]["knn"]["values"][cell["seed"]]
        )
    for row, scores in content["rows"].items():
        for score in scores.values():
            one = row in ("raw", "pca")
            assert len(score["values"]) == (1 if one else 2) and score["mean"] == np.mean(score["values"])
            assert score["deviation"] == (None if one else np.std(score["values"], ddof=1))
    lines = result.out.splitlines()
    assert lines[0].split() == ["knn", "linear"] and [line[:21].strip() for line in lines[1:7]] == list(content["rows"])
    assert any("2 seeds" in line for line in lines)


def test_rows_that_are_level_with_the_best_are_named(compared):
    out, result = compared
    content = json.loads((out / "compare.json").read_text())
    times = {name: [cell["seconds"] for cell in content["cells"] if cell["method"] == name] for name in content["rows"]}
    methods = sorted(("contrastive", "pinda"), key=lambda name: sum(times[name]))
    order = ["raw", "pca", *(f"{name} untrained" for name in methods), *methods]
    for protocol, level in content["level"].items():
        means = {row: scores[protocol]["mean"] for row, scores in content["rows"].items()}
        near = [row for row in order if means[row] >= max(means.values()) - 0.015 - 1e-9]
        assert level == near and any(f"{protocol:6}  {', '.join(near)}" in line for line in result.out.splitlines())
    everywhere = [row for row in order if all(row in level for level in content["level"].values())]
    assert content["level_everywhere"] == everywhere
    answer, error = result.out.splitlines()[-2:]
    assert f"level with the best everywhere: {everywhere[0]}." in answer if everywhere else "None is level" in answer
    assert content["test_rows"] == 36 and "on 36 test rows is up to 0.083" in error


def test_an_answer_without_a_row_that_is_level_everywhere(compared):
    content = json.loads((compared[0] / "compare.json").read_text())
    content |= {"level": {"knn": ["raw"], "linear": ["pinda"]}, "level_everywhere": [], "test_rows": 5000}
    last = workflow.format_comparison(content).splitlines()[-1]
    assert last == "None is level with the best everywhere: choose by what the representation is for."


def test_a_warning_of_several_trainings_is_given_once(compared):
    assert compared[1].err.count("142 rows are fewer than a batch of 256") == 1


def test_differences_are_paired_by_seed(compared):
    content = json.loads((compared[0] / "compare.json").read_text())
    assert len(content["differences"]) == 2 * 3 * 2
    for found in content["differences"]:
        name = f"{found['method']} untrained" if found["baseline"] == "untrained" else found["baseline"]
        method, other = (content["rows"][row][found["protocol"]]["values"] for row in (found["method"], name))
        values = np.array(method) - np.array(other if len(other) == 2 else other * 2)
        assert found["mean"] == pytest.approx(values.mean()) and found["deviation"] == pytest.approx(values.std(ddof=1))
        assert (found["p"] is None) == (found["deviation"] == 0)


def test_the_same_command_resumes_without_training(compared, monkeypatch):
    out, result = compared
    before, table = files(out), (out / "compare.json").read_bytes()
    monkeypatch.setattr(workflow, "compare", None)
    assert good("compare", *GIVEN, "--out", out).out == result.out
    changed = {name for name, content in files(out).items() if content != before.get(name)}
    assert changed == {"compare.json"} and (out / "compare.json").read_bytes() == table
    other = [*SMALL, "--set", "n_neighbors=2"]
    given = ("wine", "--methods", "contrastive", "--seeds", 1, *other, "--out", out)
    assert call("compare", *given).refused("another configuration (n_neighbors is 5 there, 2 now)")


def test_a_budget_ends_trainings_and_umap_is_a_baseline(tmp_path, monkeypatch):
    monkeypatch.setattr(baselines, "umap", lambda train, test: (train[:, :2], test[:, :2]))
    given = ("wine", "--methods", "contrastive", "--seeds", 1, "--budget", 0.001, "--baselines", "umap")
    sets = ("--set", "hidden=8", "--set", "epochs=9999", "--protocols", "knn", "--json", "--out", tmp_path / "out")
    content = json.loads(good("compare", *given, *sets).out)
    assert list(content["rows"]) == ["umap", "contrastive"] and content["cells"][0]["status"] == "time limit"
    assert json.loads(good("compare", *given, *sets).out)["cells"] == content["cells"]


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (("--methods", "contrastive,nothing"), ("unknown method 'nothing'", "expected")),
        (("--methods", ","), ("no method is given",)),
        (("--baselines", "raw,tsne"), ("unknown baseline 'tsne'", "pca")),
        (("--protocols", "mean"), ("unknown protocol 'mean'",)),
        (("--budget", 0), ("--budget is 0.0, expected a number of minutes above 0",)),
        (("--seeds", 0), ("--seeds is '0'",)),
        (("--set", "nothing=1"), ("no option 'nothing'",)),
    ],
)
def test_bad_options_are_refused_before_any_training(given, parts, tmp_path):
    assert call("compare", "wine", "--out", tmp_path / "out", *given).refused(*parts)
    assert not (tmp_path / "out").exists()


def test_data_without_labels_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((9, 2)))
    assert call("compare", tmp_path / "x.npy", "--out", tmp_path / "out").refused("the data have no labels")
    assert not (tmp_path / "out").exists()
