"""``viewsmith generate`` and ``viewsmith export``: a bank gone on with, an encoder handed on, and refusals."""

import csv
import shutil

import pytest
from cli_tools import call, files, good


@pytest.fixture(scope="module")
def made(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("banks")
    result = good("generate", data / "given.npz", "--out", folder / "bank", "--epochs", 2, "--batch-size", 8)
    assert result.out.splitlines() == [str(folder / "bank")]
    return folder / "bank"


def test_the_bank(made):
    with (made / "manifest.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [int(line["sample"]) for line in lines] == list(range(30))  # the train rows
    assert {line["generator"] for line in lines} == {"diffusion"}
    assert len(list((made / "blocks").iterdir())) == 4


def test_a_finished_bank_is_left_alone(made, data):
    before = files(made)
    good("generate", data / "given.npz", "--out", made, "--epochs", 2, "--batch-size", 8)
    assert files(made) == before


def test_it_goes_on_to_the_same_bits(made, data):
    before = files(made)
    (made / "blocks" / "000001.safetensors").unlink()
    (made / "manifest.csv").unlink()
    good("generate", data / "given.npz", "--out", made, "--epochs", 2, "--batch-size", 8)
    assert {name: content for name, (content, _) in files(made).items()} == {
        name: content for name, (content, _) in before.items()
    }


def test_shards(made, data, tmp_path):
    options = ("--run", made / "generator", "--batch-size", 8)
    first = good("generate", data / "given.npz", "--out", tmp_path / "bank", *options, "--shard", "1/2")
    assert "2 of 4 blocks are for other shards" in first.err
    assert not (tmp_path / "bank" / "manifest.csv").exists()
    second = good("generate", data / "given.npz", "--out", tmp_path / "bank", *options, "--shard", "2/2")
    assert "blocks" not in second.err and (tmp_path / "bank" / "manifest.csv").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--shard", "3/2"), "expected i/n"),
        (("--noise", "constant:900"), "expected adaptive, random or constant:L"),
        (("--generator", "unclip"), "unclip needs weights"),
        (("--run", "nowhere"), "no run at nowhere"),
        (("--generator", "folder:nowhere.npz"), "no views at nowhere.npz"),
    ],
)
def test_refusals_leave_nothing_behind(data, tmp_path, options, said):
    assert call("generate", data / "given.npz", "--out", tmp_path / "bank", *options).refused(said)
    assert not (tmp_path / "bank").exists()


def test_a_bank_of_other_data_is_refused(made, data):
    before = files(made)
    assert call("generate", data / "x.npz", "--out", made, "--epochs", 2, "--batch-size", 8).refused("another bank")
    assert files(made) == before


def test_export(data, tmp_path, runs):
    result = good("export", runs / "plain", "--out", tmp_path / "encoder.safetensors")
    assert result.out.splitlines() == [str(tmp_path / "encoder.safetensors")] and "viewsmith.networks" in result.err
    assert call("export", runs / "plain", "--out", tmp_path / "e", "--format", "timm").refused(
        "timm has no encoder like"
    )
    assert call("export", runs / "plain", "--out", tmp_path / "no" / "e").refused("does not exist")
    assert {path.name for path in tmp_path.iterdir()} == {"encoder.safetensors"}


def test_a_training_with_the_bank_and_its_report(made, data, tmp_path):
    run = tmp_path / "run"
    good("fit", data / "given.npz", "--method", "genview", "--bank", made, "--epochs", 2, "--out", run)
    good("embed", run, data / "given.npz", "--out", tmp_path / "h.npz")
    good("evaluate", run, data / "given.npz", "--protocols", "knn")
    good("views", run, data / "given.npz", "--n", 2, "--out", tmp_path / "views.npz")
    good("report", run)
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "Generated views" in page and "noise level 400" in page and "quality" in page
    shutil.move(made, tmp_path / "elsewhere")
    good("report", run)
    assert "noise level 400" not in (run / "report.html").read_text(encoding="utf-8")
    shutil.move(tmp_path / "elsewhere", made)


def test_banks_that_do_not_fit_the_data(made, data, tmp_path):
    result = call("fit", data / "x.npz", "--method", "genview", "--bank", made, "--out", tmp_path / "run")
    assert result.refused("views of 30 rows, and 40 are given") and not (tmp_path / "run").exists()
    result = call("fit", data / "x.npz", "--bank", made, "--out", tmp_path / "run")
    assert result.refused("has no option 'bank'")
