"""Errors that a command finds before it imports torch."""

import json
import subprocess
import sys

import pytest
from cli_tools import call

from viewsmith.cli.options import LISTED
from viewsmith.data.places import REPRESENTATIONS
from viewsmith.data.write import _WRITERS

SLOW = {"torch", "pandas", "sklearn", "scipy", "matplotlib"}

# Paths without a folder do not exist; `data.csv`, `folder` and `run` do.
FAULTS = [
    ("fit data.csv --out new --epoch 3", "No such option"),
    ("fit data.csv --out new --image-size many", "--image-size"),
    ("fit data.csv", "Missing option"),
    ("fit none.csv --out new", "none.csv does not exist; expected a .csv file"),
    ("fit digit --out new", "unknown data set 'digit'; did you mean digits?"),
    ("fit data.csv --out folder", "folder exists and is not a run"),
    ("fit data.csv --out data.csv", "data.csv exists and is not a run"),
    ("fit data.csv --out new --labels none.tsv", "labels: none.tsv does not exist"),
    ("fit data.csv --out new --config none.toml", "no configuration file at none.toml"),
    ("fit data.csv --out new --config data.csv", "not valid TOML"),
    ("fit data.csv --out new --set hidden", "--set is 'hidden', expected KEY=VALUE"),
    ("fit data.csv --out new --method pind", "unknown method 'pind' (did you mean 'pinda'?)"),
    ("fit data.csv --out new --framework byl", "unknown framework 'byl' (did you mean 'byol'?)"),
    ("fit data.csv --out new --encoder resnet19", "unknown encoder 'resnet19' (did you mean 'resnet18'?)"),
    ("fit data.csv --out new --views noise+mixin", "unknown view maker 'mixin'"),
    ("embed none data.csv --out h.npz", "no run at none (it is not a folder)"),
    ("embed folder data.csv --out h.npz", "no run at folder (it has no config.toml)"),
    ("embed run none.csv --out h.npz", "none.csv does not exist"),
    ("embed run data.csv --out h.txt", "expected one of .npz .npy .csv .parquet .h5ad"),
    ("embed run data.csv --out none/h.npz", "does not exist; create it first"),
    ("embed run data.csv --out data.csv", "the data themselves"),
    ("evaluate none data.csv", "no run at none"),
    ("evaluate run none.csv", "none.csv does not exist"),
    ("plot none data.csv", "no run at none"),
    ("plot run data.csv --out none/map.png", "does not exist: create it first"),
    ("views run none.csv --out v.npz", "none.csv does not exist"),
    ("views run data.csv --out v.txt", "expected a file name that ends in .npz"),
    ("compare none.csv --out new", "none.csv does not exist"),
    ("compare data.csv --out new --methods pinda,byol", "unknown method 'byol'"),
    ("compare data.csv --out new --baselines pca,ica", "unknown baseline 'ica'"),
    ("compare data.csv --out new --budget 0", "--budget is 0"),
    ("tune none.csv --out new", "none.csv does not exist"),
    ("tune data.csv --out new --search hidden", "--search is 'hidden'"),
    ("symmetries none.csv", "none.csv does not exist"),
    ("views-table none.csv", "none.csv does not exist"),
    ("generate none.csv --out new", "none.csv does not exist"),
    ("discover none --out new", "unknown data set 'none'"),
    ("locate none data.csv --out p.csv", "no run at none"),
    ("crop run none.csv --out crops", "none.csv does not exist"),
    ("export none --out e.safetensors", "no run at none"),
    ("export run --out none/e.safetensors", "does not exist: create it first"),
    ("push none new", "no run at none"),
    ("report none", "no run at none"),
    ("report run --data none.csv", "none.csv does not exist"),
]

CODE = """
import contextlib, io, json, sys
from viewsmith.cli import main
for line in json.loads(sys.argv[1]):
    err = io.StringIO()
    with contextlib.redirect_stderr(err):
        try:
            main(line.split())
        except SystemExit as end:
            code = end.code
    imported = sorted(set(json.loads(sys.argv[2])) & sys.modules.keys())
    print(json.dumps([code, err.getvalue(), imported]))
    for name in imported:
        del sys.modules[name]
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    (tmp_path / "data.csv").write_text("a,b\n1,2\n3,4\n")
    for folder, file in (("folder", "note.txt"), ("run", "config.toml")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_faults_of_a_command_line_are_found_without_slow_imports(place):
    before = sorted(place.rglob("*"))
    lines = json.dumps([line for line, _ in FAULTS])
    run = subprocess.run([sys.executable, "-c", CODE, lines, json.dumps(sorted(SLOW))], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    found = [json.loads(line) for line in run.stdout.splitlines()]
    for (line, part), (code, err, imported) in zip(FAULTS, found, strict=True):
        assert code == 2 and err.startswith("error: ") and err.count("\n") == 1 and part in err, (line, err)
        assert imported == [], line
    assert sorted(place.rglob("*")) == before


def test_faults_of_data_are_found_before_estimators_are_imported(place):
    (place / "one.csv").write_text("a,b\n1,2\n")
    lines = json.dumps(["fit one.csv --out new --label a", "fit data.csv --out new --label c"])
    run = subprocess.run([sys.executable, "-c", CODE, lines, '["sklearn"]'], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    for (code, err, imported), part in zip(
        map(json.loads, run.stdout.splitlines()), ("expected at least 2", "no column 'c'"), strict=True
    ):
        assert code == 2 and part in err and imported == [], err


def test_names_of_plug_ins_are_not_refused_early(place, monkeypatch):
    refused = ("fit", "data.csv", "--out", "new", "--framework", "byl")
    assert call(*refused).refused("unknown framework 'byl'")
    monkeypatch.setattr("viewsmith.cli.early.entry_points", lambda group: [object()])
    assert call(*refused).refused("framework is 'byl', expected")


def test_names_that_were_registered_by_a_program_are_not_refused_early():
    from viewsmith.cli.early import check_names
    from viewsmith.core import registry

    class Toy:
        pass

    registry.register("framework", "toy-of-this-test", help="a test")(Toy)
    try:
        check_names("framework", ["toy-of-this-test", None])
    finally:
        registry._entries["framework"] = [e for e in registry._entries["framework"] if e.build is not Toy]
    for kind in LISTED:
        check_names(kind, [name.replace("NAME", "x").replace("RUN", "x") for name in LISTED[kind].split(", ")])


def test_endings_of_representations_are_those_that_have_a_writer():
    assert tuple(_WRITERS) == REPRESENTATIONS
