"""Models as repositories of the Hub: written to a folder, uploaded, and loaded from the library's own cache."""

import json
import shutil
import warnings

import numpy as np
import pytest
from cli_tools import call, good

import viewsmith
from refusals import refusal
from viewsmith import Contrastive
from viewsmith.data import load_dataset
from viewsmith.training.run import RunFolder
from viewsmith.workflows import export

pytest.importorskip("huggingface_hub")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("push")
    good("fit", "wine", "--out", folder / "run", "--epochs", 2)
    good("evaluate", folder / "run", "wine", "--protocols", "linear,knn")
    return folder / "run"


@pytest.fixture(scope="module")
def repository(run):
    to = run.with_name("repository")
    assert good("push", run, to, "--license", "apache-2.0").out.strip() == str(to)
    return to


def test_the_card_has_data_protocol_scores_and_figures(run, repository):
    from huggingface_hub import ModelCard

    card = ModelCard.load(repository / "README.md")
    assert card.data.library_name == "viewsmith" and card.data.license == "apache-2.0"
    assert {"contrastive", "vectors"} <= set(card.data.tags)
    evaluation = json.loads((run / "evaluation.json").read_text())
    score = evaluation["embeddings"]["representation"]["linear"]
    assert f"| representation | {score:.3f} |" in card.text
    assert evaluation["protocols"]["linear"] in card.text and "142 of wine" in card.text
    assert "| rows | vectors, each of 13 |" in card.text and "| split | stratified: 142 train, 36 test |" in card.text
    figures = [path.name for path in (repository / "figures").iterdir()]
    assert "training_loss.png" in figures and all(f"](figures/{name})" in card.text for name in figures)


def test_a_repository_has_no_rows_paths_or_pickles(run, repository):
    names = {path.name for path in repository.iterdir()}
    assert names == {
        *("README.md", "config.toml", "config.json", "summary.json", "metrics.jsonl", "evaluation.json", "figures"),
        *("model.safetensors", "initial.safetensors"),
    }
    config = json.loads((repository / "config.json").read_text())
    assert config == RunFolder(repository).read_config()
    assert "command" not in config and "/" not in config["data"]["source"]


def test_a_folder_is_loaded_as_a_run(run, repository, wine):
    one, other = viewsmith.load(run), viewsmith.load(repository)
    assert np.array_equal(one.transform(wine), other.transform(wine))


@pytest.fixture
def cache(repository, tmp_path, monkeypatch):
    """The cache of huggingface_hub with a snapshot of the repository, without a network."""
    from huggingface_hub import constants

    root = tmp_path / "models--someone--wine"
    shutil.copytree(repository, root / "snapshots" / ("a" * 40))
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text("a" * 40)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path


def test_a_model_is_loaded_from_the_hub(cache, run, wine, tmp_path):
    expected = viewsmith.load(run).transform(load_dataset("wine").x)
    for address in ("hf://someone/wine", "hf://someone/wine@main"):
        assert np.array_equal(viewsmith.load(address).transform(load_dataset("wine").x), expected)
    good("embed", "hf://someone/wine", "wine", "--out", tmp_path / "h.npz")
    with np.load(tmp_path / "h.npz") as file:
        assert np.array_equal(file["H"], expected)


def test_a_repository_that_cannot_be_read_is_one_line(cache):
    assert "hf://someone/other cannot be read" in refusal(viewsmith.load, "hf://someone/other")


class Server:
    """Takes the place of the Hub: what a client would upload is copied."""

    endpoint = "https://hub.example"

    def __init__(self, root):
        self.root, self.made = root, []

    def __call__(self, **options):
        return self

    def create_repo(self, name, *, private, exist_ok):
        self.made.append((name, private))

    def upload_folder(self, *, repo_id, folder_path, commit_message):
        shutil.copytree(folder_path, self.root / repo_id)


def test_a_model_is_uploaded_with_pictures_of_given_samples(wine, tmp_path, monkeypatch):
    server = Server(tmp_path)
    monkeypatch.setattr("huggingface_hub.HfApi", server)
    with warnings.catch_warnings(action="ignore"):
        model = Contrastive(epochs=1, random_state=0).fit(wine)
    assert viewsmith.push(model, "hf://someone/wine", wine[:40], private=True) == "https://hub.example/someone/wine"
    assert server.made == [("someone/wine", True)]
    folder = tmp_path / "someone" / "wine"
    text = (folder / "README.md").read_text()
    assert "viewsmith.load('hf://someone/wine')" in text and "Not evaluated" in text
    assert (folder / "figures" / "maps_representation.png").exists()
    assert np.array_equal(viewsmith.load(folder).transform(wine), model.transform(wine))


def test_a_folder_that_exists_is_refused(run, repository):
    assert call("push", run, repository).refused("exists: choose a new folder")


def test_a_hub_that_refuses_is_one_line(run, monkeypatch):
    class Refuses(Server):
        def create_repo(self, name, *, private, exist_ok):
            raise PermissionError("401\nsign in")

    monkeypatch.setattr("huggingface_hub.HfApi", Refuses(None))
    assert call("push", run, "hf://someone/wine").refused("hf://someone/wine cannot be written", "401 sign in")


@pytest.mark.parametrize("name", ["evaluation.json", "initial.safetensors"])
def test_a_link_is_not_published(run, tmp_path, name):
    copied = shutil.copytree(run, tmp_path / "run")
    (tmp_path / "token").write_bytes((copied / name).read_bytes())
    (copied / name).unlink()
    (copied / name).symlink_to(tmp_path / "token")
    assert call("push", copied, tmp_path / "to").refused(f"{name} is a symbolic link, which is not published")
    assert not (tmp_path / "to").exists()


def test_no_path_of_the_machine_is_published(run, tmp_path, wine):
    data = tmp_path / "data of me" / "secret project.npz"
    data.parent.mkdir()
    np.savez(data, X=wine, y=np.arange(len(wine)) % 3)
    model = tmp_path / "models of me" / "run"
    model.parent.mkdir()
    good("fit", data, "--out", model, "--epochs", 1)
    weights = tmp_path / "weights" / "mine.safetensors"
    summary = json.loads((model / "summary.json").read_text())
    line = f"{data}: 3 rows; see {weights}, /home/me/notes.txt and https://example.org/a/b"
    summary["warnings"] = [line, f"damaged: {model.resolve()}/metrics.jsonl", "pixels/255, and/or 1 / 255"]
    (model / "summary.json").write_text(json.dumps(summary))
    evaluation = json.loads((run / "evaluation.json").read_text())
    evaluation["protocols"]["linear"] += f" of {weights}"
    (model / "evaluation.json").write_text(json.dumps(evaluation))
    config = (model / "config.toml").read_text()
    (model / "config.toml").write_text(config.replace('encoder_weights = "none"', f'encoder_weights = "{weights}"'))
    good("push", model, tmp_path / "to")
    for file in (tmp_path / "to").rglob("*"):
        if file.is_file():
            found = file.read_bytes()
            assert str(tmp_path).encode() not in found and b"/home/" not in found, file
    said = json.loads((tmp_path / "to" / "summary.json").read_text())["warnings"]
    assert said[0] == "secret project.npz: 3 rows; see mine.safetensors, notes.txt and https://example.org/a/b"
    assert said[1:] == ["damaged: run/metrics.jsonl", "pixels/255, and/or 1 / 255"]


@pytest.mark.parametrize(("modality", "tag"), [("images", "image-feature-extraction"), ("dna", "feature-extraction")])
def test_the_card_says_what_the_hub_lists_the_model_under(modality, tag):
    fitted = {"modality": modality, "row_shape": [8, 8], "n_components": 4, "scaling": "none", "seed": 0}
    fitted |= {"framework": "simclr", "view_maker": "simclr", "encoder": "cnn"}
    summary = {"device": "cpu", "hardware": {"processor": "one", "threads": 1}, "seconds": {"training": 1.0}}
    card = export._card({"fitted": fitted, "method": "contrastive"}, summary, None, [], "PATH", None)
    assert f'\npipeline_tag: "{tag}"\n' in card
