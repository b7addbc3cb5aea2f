"""Errors that a command finds before it imports torch."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_tools import call, good
from PIL import Image

from small_searches import smaller
from viewsmith.cli import early
from viewsmith.cli.early import reads_quickly
from viewsmith.core import registry
from viewsmith.data.places import REPRESENTATIONS
from viewsmith.data.write import _WRITERS

SLOW = {"torch", "pandas", "sklearn", "scipy", "matplotlib"}

# Paths without a folder do not exist; `data.csv`, `folder` and `run` do.
FAULTS = [
    ("fit data.csv --out new --epoch 3", "No such option"),
    ("fit data.csv --out new --max-epochs 3", "No such option: --max-epochs; did you mean --epochs?"),
    ("fit data.csv --out new --random_state 3", "did you mean --seed?"),
    ("fit data.csv --out new --lr .1", "No such option: --lr; set it with --set learning_rate=VALUE"),
    ("compare data.csv --out new --epochs 3", "set it with --set epochs=VALUE"),
    ("compare data.csv --out new --method pinda", "did you mean --methods?"),
    ("compare data.csv --out new --seed 3", "did you mean --seeds?"),
    ("fit data.csv --out new --methods pinda", "did you mean --method?"),
    ("fit data.csv --out new --gpu", "did you mean --device?"),
    ("discover data.csv --out new --max-parts many", "--max-parts is 'many', expected"),
    ("export run --out encoder.pt", "encoder.pt, expected a name that ends in .onnx or .safetensors, or --format"),
    ("embed run data.csv -o h.npz", "did you mean --out?"),
    ("embed run data.csv --temperature 1", "No such option: --temperature; see"),
    ("fit - --out new", "the data are '-', but standard input is not read: give a file"),
    ("fit none.csv --out=~/none/new --config=~/none.toml", f"no configuration file at {Path.home()}/none.toml"),
    ("fit data.csv --out new --image-size many", "--image-size"),
    ("fit data.csv", "Missing option"),
    ("fit data.csv data.csv --out new", "give one file, or a folder that has all of them"),
    ("fit none.csv --out new", "none.csv does not exist; expected a .csv file"),
    ("fit digit --out new", "unknown data set 'digit'; did you mean digits?"),
    ("fit data.csv --out folder", "folder exists and is not a run"),
    ("fit data.csv --out data.csv", "data.csv exists and is not a run"),
    ("fit data.csv --out new --labels none.tsv", "labels: none.tsv does not exist"),
    ("fit data.csv --out new --config none.toml", "no configuration file at none.toml"),
    ("fit data.csv --out new --config data.csv", "not valid TOML"),
    ("fit data.csv --out new --config nested.toml", "nested.toml is not valid TOML (it is nested too deeply)"),
    ("fit data.csv --out new --set hidden", "--set is 'hidden', expected KEY=VALUE"),
    ("fit data.csv --out new --method pind", "unknown method 'pind' (did you mean 'pinda'?)"),
    ("fit data.csv --out new --method simclr", "(it is a framework: --method contrastive --set framework=simclr)"),
    ("fit data.csv --out new --framework byl", "unknown framework 'byl' (did you mean 'byol'?)"),
    ("fit data.csv --out new --encoder resnet19", "unknown encoder 'resnet19' (did you mean 'resnet18'?)"),
    ("fit data.csv --out new --views noise+mixin", "unknown view maker 'mixin'"),
    ("fit data.csv --out new --set epoks=3", "Contrastive has no option 'epoks': did you mean epochs?"),
    ("fit data.csv --out new --set epochs=many", "Contrastive: epochs is 'many', expected integer"),
    ("fit data.csv --out new --method pinda --set noise.strength=-1", "PiNDA: strength is '-1', expected greater"),
    ("fit data.csv --out new --method pinda --set noise.strenth=1", "noise has no option 'strenth': did you mean stre"),
    ("fit data.csv --out new --set strength=1", "which is one of diffaug, pinda: choose"),
    ("fit data.csv --out new --framework vicreg --set temperature=1", "an option that the framework 'vicreg' does not"),
    ("fit data.csv --out new --framework lejepa --set n_knots=1", "n_knots is '1', expected greater than or"),
    ("fit data.csv --out new --views mask --set mask_rate=2", "mask_rate is '2', expected less than or equal to 1"),
    ("fit data.csv --out new --encoder mlp --set backbone_output=conv", "but the encoder 'split-alexnet' has"),
    ("fit data.csv --out new --method linear-contrast --set centers=1", "centers is '1', expected greater than or"),
    ("fit data.csv --out new --set reduced_to=2", "reduced_to is '2', expected greater than or equal to 4"),
    ("fit data.csv --out new --config named.toml", "PiNDA has no option 'epoks'"),
    ("fit data.csv --out new --config parts.toml", "strength is 'much'"),
    ("fit data.csv --out new --config options.toml", "view_options has the unknown option 'turn', expected mask_rate"),
    ("fit data.csv --out new --method metaug --preset paper --set dino=1", "MetAug has no option 'dino'"),
    ("compare data.csv --out new --methods pinda --set epoks=3", "PiNDA has no option 'epoks'"),
    ("tune data.csv --out new --set epochs=0", "epochs is '0', expected greater than"),
    ("tune data.csv --out new --search epoks=1..3", "Contrastive has no option 'epoks'"),
    ("embed none data.csv --out h.npz", "no run at none (it is not a folder)"),
    ("embed folder data.csv --out h.npz", "no run at folder (it has no config.toml)"),
    ("embed data.csv run --out h.npz", "run is a run, expected data: give the run first, then the data"),
    ("fit run --out new", "run is a run, expected data"),
    ("embed run none.csv --out h.npz", "none.csv does not exist"),
    ("embed run data.csv --out h.txt", "expected one of .npz .npy .csv .parquet .h5ad"),
    ("embed run data.csv --out none/h.npz", "does not exist: create it first"),
    ("embed run data.csv --out data.csv", "the data themselves"),
    ("embed run data.csv --labels labels.csv --out labels.csv", "the labels themselves"),
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
    ("locate --crops run none.csv --out crops", "none.csv does not exist"),
    ("export none --out e.safetensors", "no run at none"),
    ("export run --out none/e.safetensors", "does not exist: create it first"),
    ("push none new", "no run at none"),
    ("report none", "no run at none"),
    ("report run --data none.csv", "none.csv does not exist"),
    ("fit data.csv --out new --epochs many", "--epochs is 'many', expected a whole number above 0"),
    ("fit data.csv --out new --epochs 0", "--epochs is '0', expected a whole number above 0"),
    ("fit data.csv --out new --minutes -1", "--minutes is -1.0, expected a number above 0"),
    ("fit data.csv --out new --batch-size 1", "--batch-size is 1, expected a whole number of at least 2"),
    ("fit data.csv --out new --device tpu", "--device is 'tpu', expected 'auto', 'cpu', 'cuda' or 'cuda:N'"),
    ("fit data.csv --out new --precision 8", "--precision is '8', expected '32' or 'bf16'"),
    ("fit data.csv --out new --checkpoint-every -1", "--checkpoint-every is -1.0, expected"),
    ("fit data.csv --out new --modality sound", "unknown modality 'sound'"),
    ("fit data.csv --out new --preset papper", "unknown preset 'papper'"),
    ("fit data.csv --out new --log nosuch", "unknown logger (--log) 'nosuch'"),
    ("fit data.csv --out new --impute mean", "impute is 'mean', expected none or median"),
    ("fit data.csv --out new --label a --supervise b", "give the same column, or one of them"),
    ("fit data.csv --out new --image-size 3", "image_size is 3, expected at least 4"),
    ("embed run data.csv --out h.npz --output nonsense", "--output is 'nonsense', expected 'representation'"),
    ("embed run data.csv --out h.npz --inference best", "--inference is 'best', expected 'expectation'"),
    ("plot run data.csv --by nonsense", "--by is 'nonsense', expected 'tsne'"),
    ("plot run data.csv --out x.gif", "expected a name that ends in .png, .svg or .pdf"),
    ("evaluate run data.csv --protocols svn", "unknown protocol 'svn'"),
    ("evaluate run data.csv --target x", "target is 'x', expected auto, class or number"),
    ("views run data.csv --out v.npz --split half", "--split is 'half', expected 'train' or 'test'"),
    ("export run --out e --format exe", "--format is 'exe', expected 'timm'"),
    ("export run --out e.onnx --format safetensors", "e.onnx is named as onnx, and --format is safetensors"),
    ("export run --out e.safetensors --format onnx", "e.safetensors is named as safetensors, and --format is onnx"),
    ("compare data.csv --out new --protocols svn", "unknown protocol 'svn'"),
    ("tune data.csv --out new --search hidden=5", "the range of hidden is '5'"),
    ("locate run data.csv --out l.csv --max-q 2", "--max-q is 2.0, expected a number in (0, 1]"),
    ("locate run data.csv --out l.csv --max-q 1", "run is no run of discover"),
    ("locate --crops run data.csv --out c --unjudged", "--unjudged is for a run of discover"),
    ("discover folder --out new --max-q 3", "--max-q is 3.0, expected a number from 0 to 1"),
    ("discover folder --out new --modality sound", "--modality is 'sound', expected auto, images, dna"),
    ("generate data.csv --out new --noise loud", "noise is 'loud', expected adaptive"),
    ("generate data.csv --out new --steps 0", "steps is 0, expected at least 1"),
    ("generate data.csv --merge folder --out new", "no view cache at folder"),
    ("push run hf://bad", "the repository is 'hf://bad'"),
    ("fit wine --out new --views noise+", "unknown view maker ''"),
    ("fit wine --out new --epochs 1.5", "epochs is '1.5', expected a whole number above 0"),
    ("fit wine --out new --batch-size many", "--batch-size is 'many', expected a valid integer"),
    ("fit wine --out new --minutes nan", "minutes is nan"),
    ("fit wine --out new --minutes soon", "--minutes is 'soon', expected a valid number"),
    ("fit wine --out new --seed -1", "--seed is '-1', expected greater than or equal to 0"),
    ("fit wine --out new --seed x", "--seed is 'x', expected a valid integer"),
    ("fit wine --out new --threads 0", "--threads is '0'"),
    ("fit wine --out new --set hidden=big", "hidden is 'big'"),
    ("fit wine --out new --set kernel=rbf", "kernel is 'rbf', expected 'auto', 'cauchy' or 'cosine'"),
    ("fit wine --out new --set corruption_rate=2", "corruption_rate is '2', expected less than or equal to 1"),
    ("fit wine --out new --set domain=dna", "Contrastive has no option 'domain': it is called modality now"),
    ("fit wine --out new --framework dino --set prototypes=9", "no option 'prototypes': it is called out_dim now"),
    ("fit wine --out new --set freeze_first_layers=1", "'freeze_first_layers': it is called freeze now"),
    ("fit wine --out new --set skip_components=4", "no option 'skip_components': it is called appended_pca now"),
    ("train wine", "No such command 'train'; did you mean fit?"),
    ("version", "No such command 'version'; did you mean --version?"),
    ("fit", "Missing argument 'DATA'"),
    ("methods --yaml", "No such option: --yaml"),
    ("methods pnda", "nothing is called 'pnda'; did you mean pinda?"),
]

CODE = """
import contextlib, functools, io, json, sys
import typer.main
from viewsmith.cli import main
typer.main.get_command = functools.cache(typer.main.get_command)
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


def outcomes(lines, place, slow):
    """Exit code and message of each command line in a new process in a folder, and what it imported of `slow`."""
    command = [sys.executable, "-c", CODE, json.dumps(lines), json.dumps(sorted(slow))]
    run = subprocess.run(command, capture_output=True, text=True, cwd=place)
    assert run.returncode == 0, run.stderr
    return dict(zip(lines, map(json.loads, run.stdout.splitlines()), strict=True))


@pytest.fixture
def place(tmp_path, monkeypatch):
    (tmp_path / "data.csv").write_text("a,b\n1,2\n3,4\n")
    (tmp_path / "labels.csv").write_text("name,y\n0,a\n")
    (tmp_path / "nested.toml").write_text("a = " + "[" * 9000 + "]" * 9000)
    (tmp_path / "named.toml").write_text('method = "pinda"\nepoks = 3\n')
    (tmp_path / "parts.toml").write_text('method = "pinda"\n[noise]\nstrength = "much"\n')
    (tmp_path / "options.toml").write_text('view_maker = "mask"\n[view_options]\nturn = 1\n')
    for folder, file in (("folder", "note.txt"), ("run", "config.toml"), ("run", "initial.safetensors")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / file).write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_faults_of_a_command_line_are_found_without_slow_imports(place):
    before = sorted(place.rglob("*"))
    found = outcomes([line for line, _ in FAULTS], place, SLOW)
    for line, part in FAULTS:
        code, err, imported = found[line]
        assert code == 2 and err.startswith("error: ") and err.count("\n") == 1 and part in err, (line, err)
        assert imported == [], line
    assert sorted(place.rglob("*")) == before


#: Faults of data of every kind, each with a part of its message.
FAULTY = [
    ("fit one.csv --out new", "expected at least 2"),
    ("fit one.csv --out new --epochs 3 --framework byol --threads 1 --set hidden=20", "expected at least 2"),
    ("fit data.csv --out new --label c", "no column 'c'"),
    ("fit data.csv --out new --groups c --method pinda", "no column 'c'"),
    ("fit data.csv --out new --encoder resnet18", "encoder is 'resnet18', expected auto, mlp for vectors"),
    ("fit data.csv --out new --views crop", "unknown view maker 'crop'"),
    ("fit infinite.csv --out new", "1 infinite value"),
    ("fit ragged.csv --out new", "cannot read ragged.csv"),
    ("fit text.csv --out new --label c", "no column 'c'"),
    ("fit long.csv --out new --modality series", "long format"),
    ("fit damaged.h5ad --out new", "cannot read damaged.h5ad"),
    ("fit one.npy --out new", "expected at least 2"),
    ("fit missing.npy --out new", "1 missing value"),
    ("fit five.npy --out new", "5 dimensions"),
    ("fit first.npy --out new", "put the channels last"),
    ("fit whole.npy --out new", "int64 of shape (10, 16, 16)"),
    ("fit damaged.npy --out new", "damaged.npy"),
    ("fit other.npz --out new", "expected X_train"),
    ("fit short.npy --out new --modality series", "at least 8 points in time"),
    ("fit wrong.fa --out new", "position 3 is '1'"),
    ("fit sizes --out new", "16 x 3 pixels, expected at least 4"),
    ("fit broken --out new", "cannot read broken/0.png"),
    ("fit wrong.wav --out new", "cannot read wrong.wav"),
    ("fit wrong.ts --out new", "line 2"),
    ("compare one.csv --out new", "expected at least 2"),
    ("tune data.csv --out new --label c", "no column 'c'"),
    ("symmetries one.npy", "expected at least 2"),
    ("views-table one.npy", "expected at least 2"),
    ("generate one.csv --out new", "expected at least 2"),
    ("discover wrong.fa --out new", "position 3 is '1'"),
    ("discover one.npy --out new", "expected at least 2"),
]


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    """What each command says, and which slow packages it has imported, by its line."""
    place = tmp_path_factory.mktemp("faulty")
    texts = {
        "one.csv": "a,b\n1,2\n",
        "data.csv": "a,b\n1,2\n3,4\n",
        "infinite.csv": "a,b\n1,2\n3,inf\n5,6\n",
        "ragged.csv": "a,b\n1,2\n3,4,5\n",
        "text.csv": "name,b\n" + "".join(f"word{i} other{7 * i},{i}\n" for i in range(40)),
        "long.csv": "id,time,value\n" + "".join(f"{i // 20},{i % 20},{i % 7}\n" for i in range(100)),
        "damaged.h5ad": "none",
        "damaged.npy": "none",
        "wrong.fa": ">a\nACGT\n>b\nAC1T\n",
        "wrong.wav": "RIFF",
        "wrong.ts": "@data\n1,2:a\n",
    }
    for name, text in texts.items():
        (place / name).write_text(text)
    arrays = {
        "one": np.ones((1, 3)),
        "missing": np.array([[1, np.nan], [2, 3]]),
        "five": np.ones((3, 2, 2, 2, 2)),
        "first": np.zeros((10, 3, 16, 16), np.uint8),
        "whole": np.arange(2560).reshape(10, 16, 16),
        "short": np.ones((4, 2, 5)),
    }
    for name, array in arrays.items():
        np.save(place / f"{name}.npy", array)
    np.savez(place / "other.npz", a=np.ones(3), b=np.ones(3))
    for folder in ("sizes", "broken"):
        (place / folder).mkdir()
    for number, side in enumerate((16, 3)):
        Image.new("RGB", (side, 16)).save(place / "sizes" / f"{number}.png")
    (place / "broken" / "0.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    return outcomes([line for line, _ in FAULTY], place, ("torch", "sklearn"))


@pytest.mark.parametrize(("line", "part"), FAULTY)
def test_faults_of_data_are_found_before_torch_is_imported(faulty, line, part):
    code, err, imported = faulty[line]
    assert code == 2 and err.splitlines()[-1].startswith("error: ") and part in err and imported == [], err


#: Faults of data for the runs `trained`, on a table of numbers, `mixed`, on one with categories, and `parts`.
OF_RUNS = [
    ("embed trained wrong.npz --out h.npz", "5 features per row, but the run was fitted on 3"),
    ("embed trained gaps.csv --out h.npz", "1 missing value"),
    ("embed trained other.csv --out h.npz", "column"),
    ("embed mixed other.csv --out h.csv", "lacks 2 columns that the model was fitted on: c, kind"),
    ("plot trained wrong.npz", "5 features per row"),
    ("plot trained table.csv --color shade", "no column 'shade'"),
    ("plot trained table.csv --out table.csv", "expected a name that ends in .png"),
    ("plot trained table.csv --out trained/report.html", "expected a name that ends in .png"),
    ("evaluate trained wrong.npz", "5 features per row"),
    ("evaluate trained table.csv --label shade", "no column 'shade'"),
    ("evaluate trained unlabeled.npz", "the data have no labels"),
    ("evaluate mixed other.csv", "lacks 2 columns"),
    ("views trained wrong.npz --out v.npz", "5 features per row"),
    ("report trained --data wrong.npz", "5 features per row"),
    ("report trained --label shade", "no column 'shade'"),
    ("locate trained wrong.npz --out l.csv", "5 features per row"),
    ("locate trained wrong.npz --out l.txt", "a file name that ends in '.csv'"),
    ("locate --crops trained wrong.npz --out c", "which have no crops"),
    ("locate parts wrong.fa --out l.csv", "position 3 is '1'"),
    ("locate parts letters.fa --out l.txt", "expected a file that ends in .csv, or for sequences .bed"),
    ("locate --crops parts letters.fa --out c.txt", "expected a file that ends in .fasta"),
]


@pytest.fixture(scope="module")
def of_runs(tmp_path_factory):
    """What each command says, and which slow packages it has imported, by its line."""
    place = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    numbers, kinds = rng.normal(size=(40, 3)), rng.choice(list("abc"), 40)
    rows = [",".join(f"{value:.3f}" for value in row) for row in numbers]
    texts = {
        "table.csv": "a,b,c,label\n" + "".join(f"{row},{i % 2}\n" for i, row in enumerate(rows)),
        "mixed.csv": "a,b,c,kind,label\n" + "".join(f"{row},{kinds[i]},{i % 2}\n" for i, row in enumerate(rows)),
        "other.csv": "a,b,d,label\n" + "".join(f"{row},{i % 2}\n" for i, row in enumerate(rows)),
        "gaps.csv": "a,b,c\n1,2,3\n4,,6\n",
        "wrong.fa": ">a\nACGT\n>b\nAC1T\n",
        "letters.fa": "".join(f">{i}\n{''.join(rng.choice(list('ACGT'), 60))}\n" for i in range(8)),
    }
    for name, text in texts.items():
        (place / name).write_text(text)
    np.savez(place / "wrong.npz", X=np.ones((9, 5)), y=np.arange(9) % 3)
    np.savez(place / "unlabeled.npz", X=numbers)
    for name, data in (("trained", "table.csv"), ("mixed", "mixed.csv")):
        options = ("--method", "contrastive", "--epochs", 1, "--label", "label", "--out", place / name)
        good("fit", place / data, *options)
    with smaller():
        good("discover", place / "letters.fa", "--out", place / "parts")
    config = place / "trained" / "config.toml"  # of data in the folder where the commands run
    config.write_text(config.read_text().replace(f"{place}/", ""))
    return outcomes([line for line, _ in OF_RUNS], place, ("torch", "sklearn"))


@pytest.mark.parametrize(("line", "part"), OF_RUNS)
def test_faults_of_data_for_a_run_are_found_before_its_model_is_loaded(of_runs, line, part):
    code, err, imported = of_runs[line]
    assert code == 2 and err.splitlines()[-1].startswith("error: ") and part in err and imported == [], err


def test_what_is_checked_early_is_what_is_known():
    """Lists that stand in `early`, because where they are declared torch is imported."""
    from typing import get_args

    from viewsmith.evaluation.protocol import NUMBER_PROTOCOLS, OPTIONAL, PROTOCOLS
    from viewsmith.methods.crl_tac.options import Inference
    from viewsmith.methods.loading import estimators
    from viewsmith.training.callbacks import STORES
    from viewsmith.training.run import RunFolder
    from viewsmith.workflows.export import Format

    assert early.PROTOCOLS.split(", ") == [*PROTOCOLS, *OPTIONAL, *NUMBER_PROTOCOLS]
    assert early.CHOICES["inference"] == get_args(Inference) and early.CHOICES["format"] == get_args(Format)
    assert early.TRACKERS.split(", ") == list(STORES)
    presets = {name.partition("-")[0] for cls in estimators().values() for name in cls.presets}
    assert sorted(early.PRESETS.split(", ")) == sorted(presets)
    outputs = {name for cls in estimators().values() for name in cls.outputs.values()}
    assert all(re.fullmatch(early.OUTPUTS, name) for name in outputs)
    assert {file.name for file in RunFolder("run").files} >= {"model.safetensors", "report.html"}


@pytest.mark.parametrize("value", ["1", "007", "auto", "2000"])
def test_values_of_flags_that_are_taken(value):
    early.check_values(epochs=value, minutes=0.01, batch_size=2, device="cuda:1", checkpoint_every=0.0, max_q=1.0)


def test_what_is_read_in_little_time(place, monkeypatch):
    assert reads_quickly("digits") and reads_quickly("data.csv") and reads_quickly("data.csv::table")
    assert reads_quickly("folder")
    monkeypatch.setattr("viewsmith.cli.early.QUICK_FILES", 1)
    monkeypatch.setattr("viewsmith.cli.early.QUICK_BYTES", 3)
    assert not reads_quickly("data.csv")
    (place / "folder" / "second.txt").write_text("")
    assert not reads_quickly("folder")


def test_threads_are_set_for_torch_before_and_after_it_is_imported():
    code = """
import os
from viewsmith.cli.options import set_threads
set_threads(None)
set_threads(1)
import torch
print(torch.get_num_threads())
set_threads(3)
print(torch.get_num_threads())
"""
    given = os.environ | {"OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=given)
    assert done.stdout.split() == ["1", "3"], done.stderr


def test_parts_that_others_registered_are_checked_as_they_are(place):
    from viewsmith.cli.early import parts_declared
    from viewsmith.frameworks import VICReg

    class Toy(VICReg):
        depth: int = 1

    registry.register("framework", "toy-of-this-test", help="a test")(Toy)
    try:
        early.check_names("framework", ["toy-of-this-test", None])
        line = ("fit", "data.csv", "--out", "new", "--framework", "toy-of-this-test", "--set")
        assert call(*line, "depth=many").refused("depth is 'many', expected integer")
        assert call(*line, "length=2").refused("no option 'length'")
    finally:
        registry._entries["framework"] = [e for e in registry._entries["framework"] if e.build is not Toy]
    with parts_declared():
        assert registry.get("framework", "toy-of-this-test") is None
        for kind in ("method", "encoder", "view maker", "baseline", "modality"):
            early.check_names(kind, [each.replace("NAME", "x").replace("RUN", "x") for each in registry.names(kind)])


def test_endings_of_representations_are_those_that_have_a_writer():
    assert tuple(_WRITERS) == REPRESENTATIONS
