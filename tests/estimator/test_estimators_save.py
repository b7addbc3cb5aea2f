"""Models on disk: saved models are loaded bit for bit, damaged files are named in one line."""

import itertools
import json
import resource
import tomllib

import numpy as np
import pandas as pd
import pytest
import tomli_w
import torch
from estimator_processes import load_without_pickle

import viewsmith
from cases import covering, slow
from refusals import refusal
from registered import TRAINED, heads, labels, made
from viewsmith import CRLTAC, Contrastive, DiffAug, GenView, MetAug, PiNDA
from viewsmith.core.tensors import load_tensors, save_tensors
from viewsmith.methods.loading import estimators

pytestmark = pytest.mark.filterwarnings("ignore:training ended early")

TINY = {"epochs": 2, "hidden": (16,), "n_components": 8, "projector_dims": (4,), "batch_size": 64, "random_state": 0}
every_estimator = pytest.mark.parametrize("cls", estimators().values(), ids=estimators())


@pytest.fixture(scope="module")
def fitted(wine):
    return Contrastive(**TINY).fit(wine)


@pytest.fixture
def saved(fitted, tmp_path):
    fitted.save(tmp_path / "run")
    return tmp_path / "run"


def test_a_model_of_other_data_replaces_the_whole_of_a_saved_one(fitted, saved, wine):
    (saved / "evaluation.json").write_text("{}")
    fitted.save(saved)
    assert (saved / "evaluation.json").exists()
    frame = pd.DataFrame(wine[:, :3], columns=list("abc")).assign(kind=np.where(wine[:, 0] > 13, "u", "v"))
    for rows in (wine[:, :5], frame, frame.replace({"kind": {"u": "w"}})):
        model = Contrastive(**TINY).fit(rows)
        model.save(saved)
        assert np.array_equal(viewsmith.load(saved).transform(rows), model.transform(rows))
        assert not (saved / "evaluation.json").exists()


SAVED = [
    {},
    {"view_maker": "noise+corruption", "temperature": 0.3, "norm": "none", "input_components": 5, "scaling": "global"},
    {"view_maker": "neighbors+mixup", "hidden": (), "projector_dims": (), "temperature": 0.3, "impute": "median"},
]


@pytest.mark.parametrize(("cls", "options"), covering(itertools.product(estimators().values(), SAVED), (0,), (1,)))
def test_a_saved_model_is_loaded(cls, options, wine, tmp_path):
    wine = wine.copy()
    if cls is CRLTAC:
        options = {key: value for key, value in options.items() if key not in ("view_maker", "temperature")}
    if "impute" in options:
        wine[::7, 3] = np.nan
    model = made(cls, **TINY | options).fit(pd.DataFrame(wine, columns=[f"f{i}" for i in range(13)]))
    model.save(tmp_path / "run")
    loaded = viewsmith.load(tmp_path / "run")
    assert type(loaded) is cls
    rows = pd.DataFrame(wine, columns=[f"f{i}" for i in range(13)])
    assert np.array_equal(loaded.transform(rows), model.transform(rows))
    assert np.array_equal(loaded.transform(rows, output="projection"), model.transform(rows, output="projection"))
    assert np.array_equal(loaded.views(rows, 2), model.views(rows, 2))
    assert np.array_equal(loaded.untrained(rows).transform(rows), model.untrained(rows).transform(rows))
    assert loaded.fitted_ == model.fitted_ and loaded.metrics_ == model.metrics_
    assert loaded.summary_ == model.summary_ and loaded.status_ == "finished" and loaded.warnings_ == model.warnings_
    assert loaded.feature_names_in_.tolist() == [f"f{i}" for i in range(13)]

    loaded.save(tmp_path / "again")
    files = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert files == ["config.toml", "initial.safetensors", "metrics.jsonl", "model.safetensors", "summary.json"]
    for name in files:
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


def test_equal_models_are_equal_files(saved, wine, tmp_path):
    Contrastive(**TINY).fit(wine).save(tmp_path / "other")
    for name in ("model.safetensors", "initial.safetensors", "config.toml"):
        assert (saved / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_saving_over_another_model_is_refused(saved, wine):
    other = Contrastive(**TINY | {"n_neighbors": 3}).fit(wine)
    assert "n_neighbors is 5 there, 3 now" in refusal(other.save, saved)
    Contrastive(**TINY).fit(wine).save(saved)


def test_nothing_is_unpickled(saved, processes, tmp_path):
    process = processes.Process(target=load_without_pickle, args=(saved, tmp_path / "loaded.npy"))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert np.array_equal(np.load(tmp_path / "loaded.npy"), viewsmith.load(saved).initial_["scaler.center"])


# --- damaged folders


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *(("model.safetensors", damage) for damage in ("truncated", "flipped bit", "empty", "missing")),
        *(("initial.safetensors", damage) for damage in ("flipped bit", "text", "missing")),
    ],
)
def test_damaged_weights_are_named(saved, name, damage):
    path = saved / name
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        flipped = content[:-99] + bytes([content[-99] ^ 1]) + content[-98:]
        broken = {"truncated": content[:-7], "flipped bit": flipped, "empty": b"", "text": b"not a tensor in sight"}
        path.write_bytes(broken[damage])
    message = refusal(viewsmith.load, saved)
    assert str(saved) in message
    assert ("has no model yet" if (damage, name) == ("missing", "model.safetensors") else name) in message


@pytest.mark.parametrize(
    "change",
    [
        ("hidden = [\n    16,\n]", "hidden = [\n    1000000000,\n]"),
        ("    13,\n]", "    1000000000,\n]"),
        ("projector_dims = [\n    4,\n]", "projector_dims = [\n" + "    4000,\n" * 10_000 + "]"),
    ],
)
def test_a_network_larger_than_its_weights_is_not_allocated(saved, change):
    config = (saved / "config.toml").read_text()
    assert change[0] in config
    (saved / "config.toml").write_text(config.replace(*change))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    message = refusal(viewsmith.load, saved)
    assert "config.toml" in message and "much larger than its weights" in message
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kB


def test_weights_of_another_shape_are_named(saved):
    weights = load_tensors(saved / "model.safetensors")
    name = "method.framework.encoder.0.0.weight"
    save_tensors(saved / "model.safetensors", weights | {name: torch.zeros(16, 12)})
    assert f"{name} has shape (16, 12), expected (16, 13)" in refusal(viewsmith.load, saved)
    save_tensors(saved / "model.safetensors", {key: value for key, value in weights.items() if key != name})
    assert f"missing {name!r}" in refusal(viewsmith.load, saved)


def edit(folder, change):
    config = tomllib.loads((folder / "config.toml").read_text())
    change(config)
    (folder / "config.toml").write_text(tomli_w.dumps(config))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda config: config.update(method="magic"), "method 'magic'"),
        (lambda config: config.pop("method"), "method None"),
        (lambda config: config.pop("fitted"), "does not describe a model"),
        (lambda config: config["fitted"].pop("seed"), None),
        (lambda config: config["fitted"].pop("row_shape"), "incomplete: it has no 'row_shape'"),
        (lambda config: config["fitted"].pop("epochs"), "incomplete: it has no 'epochs'"),
        (lambda config: config["fitted"].update(row_shape=[12]), "has shape"),
        (lambda config: config["fitted"]["encoder_options"].update(hidden=[17]), "has shape"),
        (lambda config: config["encoder"].update(hidden=[-1]), "hidden is -1, expected greater than or equal to 1"),
        (lambda config: config["parameters"].update(magic=1), "Contrastive has no option 'magic'"),
        (lambda config: config.pop("training"), "a table of its parts is missing"),
        (lambda config: config["fitted"].update(view_maker="magic"), "unknown view maker 'magic'"),
    ],
)
def test_an_invalid_configuration_is_refused(saved, change, expected):
    edit(saved, change)
    if expected is not None:
        assert expected in refusal(viewsmith.load, saved)


def test_a_truncated_configuration_is_refused(saved):
    path = saved / "config.toml"
    content = path.read_text()
    end = len(content.rstrip())
    for cut in range(0, end - 1, 37):
        path.write_text(content[:cut])
        refusal(viewsmith.load, saved)
    path.write_bytes(b"\xff\xfe" + content.encode())
    assert str(path) in refusal(viewsmith.load, saved)


# --- run folders


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("framework", ["lejepa", slow("moco"), slow("dino")])
def test_with_lookahead_steps_a_resumed_run_is_the_same(framework, wine, tmp_path):
    options = {name: value for name, value in TINY.items() if name != "projector_dims"} | {"epochs": 3}
    options |= heads(framework, projector_dims=(8, 6), predictor_dims=(8,), queue_size=128)
    y = labels(framework, wine)
    whole = MetAug(**options).fit(wine, y)
    MetAug(**options, minutes=1e-9).fit(wine, y, run=tmp_path / "run")
    resumed = MetAug(**options).fit(wine, y, run=tmp_path / "run", resume=True)
    assert np.array_equal(whole.transform(wine), resumed.transform(wine))


@pytest.mark.parametrize("cls", TRAINED.values(), ids=TRAINED)
def test_a_run_stopped_by_time_is_resumed_to_the_same_files(cls, wine, tmp_path):
    options = TINY | {"epochs": 4}
    made(cls, **options).fit(wine, run=tmp_path / "whole")
    parts = tmp_path / "parts"
    for _ in range(2):
        model = made(cls, **options, minutes=1e-9).fit(wine, run=parts, resume=parts.exists())
        assert model.status_ == "time limit"
        assert np.array_equal(viewsmith.load(parts).transform(wine), model.transform(wine))
    model = made(cls, **options).fit(wine, run=parts, resume=True)
    assert model.status_ == "finished" and model.summary_["steps"] == (12 if cls in (DiffAug, GenView) else 8)
    for name in ("model.safetensors", "initial.safetensors", "config.toml"):
        assert (parts / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    one, other = ([json.loads(line) for line in (tmp_path / run / "metrics.jsonl").read_text().splitlines()]
                  for run in ("whole", "parts"))  # fmt: skip
    assert [row | {"seconds": 0} for row in one] == [row | {"seconds": 0} for row in other]
    assert {path.split("/")[-1].split(".")[-1] for path in files(parts)} == {"toml", "safetensors", "json", "jsonl"}


def test_a_run_has_the_model_that_fit_gives_without_a_run(wine, tmp_path):
    with_run = PiNDA(**TINY).fit(wine, run=tmp_path / "run")
    free = PiNDA(**TINY).fit(wine)
    assert np.array_equal(with_run.transform(wine), free.transform(wine))
    assert np.array_equal(viewsmith.load(tmp_path / "run").transform(wine), free.transform(wine))


def test_a_run_without_a_seed_is_resumed_with_its_random_seed(wine, tmp_path):
    options = TINY | {"random_state": None}
    with pytest.warns(UserWarning, match="ended early"):
        first = Contrastive(**options, minutes=1e-9).fit(wine, run=tmp_path)
    again = Contrastive(**options).fit(wine, run=tmp_path, resume=True)
    assert again.fitted_["seed"] == first.fitted_["seed"] and again.status_ == "finished"


def test_a_single_row_has_views_if_no_pool_is_needed(wine):
    assert PiNDA(**TINY).fit(wine).views(wine[:1], 3).shape == (1, 3, wine.shape[1])
    assert "at least two rows" in refusal(Contrastive(**TINY).fit(wine).views, wine[:1])


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        ("config.toml", "[fitted.encoder_options]\nhidden", "[fitted.encoder_options]\nhiddej", "hiddej"),
        ("config.toml", "row_shape = [\n", "row_shape = [\n1.5,\n", "is damaged"),
        ("metrics.jsonl", '{"phase"', '{"phase', "line 1"),
        ("metrics.jsonl", '{"phase"', '\udcff{"phase"', "line 1"),
        ("metrics.jsonl", "{", "[1]\n{", "line 1"),
    ],
)
def test_a_damaged_text_is_an_error_of_one_line(saved, name, old, new, expected):
    text = (saved / name).read_text()
    assert old in text
    (saved / name).write_bytes(text.replace(old, new, 1).encode(errors="surrogateescape"))
    message = refusal(viewsmith.load, saved)
    assert "is damaged" in message and expected in message and len(message.splitlines()) == 1


def test_a_cut_last_line_of_metrics_is_left_out(saved):
    path = saved / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    assert len(viewsmith.load(saved).metrics_) == 1


@pytest.mark.parametrize(("old", "new"), [("domain", "modality"), ("freeze_first_layers", "freeze")])
def test_a_configuration_with_an_old_name_is_refused_with_the_new_one(saved, old, new):
    path = saved / "config.toml"
    path.write_text(path.read_text().replace(f"\n{new} =", f"\n{old} ="))
    assert f"has no option '{old}': it is called {new} now" in refusal(viewsmith.load, saved)
