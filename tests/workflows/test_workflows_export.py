"""Encoders in formats of other libraries."""

import json
import logging
import sys

import numpy as np
import pandas as pd
import pytest
import torch

from cases import slow
from refusals import refusal
from viewsmith import CRLTAC, Contrastive, LinearContrast
from viewsmith.core.tensors import load_tensors
from viewsmith.networks import resnet18
from viewsmith.workflows.export import export_encoder

TINY = {"epochs": 1, "batch_size": 8, "random_state": 0}


@pytest.fixture(scope="module")
def models():
    """By name: a fitted model and its rows."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (16, 16, 16, 3), dtype=np.uint8)
    vectors = rng.normal(size=(16, 5)).astype(np.float32)
    letters = rng.choice(np.frombuffer(b"ACGT", np.uint8), (16, 40))
    found = {
        "cnn": (images, {}),
        "resnet18": (images, {"encoder": "resnet18"}),
        "standard": (images[..., 0], {"encoder": "resnet18", "stem": "standard"}),
        "mlp": (vectors, {}),
        "dna": (letters, {}),
    }
    return {name: (Contrastive(**TINY, **options).fit(x), x) for name, (x, options) in found.items()}


@pytest.mark.parametrize("form", ["timm", slow("torchvision"), "safetensors"])
def test_an_exported_resnet_has_the_names_of_torchvision_and_timm(models, form, tmp_path):
    model, x = models["resnet18"]
    hint = export_encoder(model, tmp_path / "file", form)
    weights = load_tensors(tmp_path / "file")
    network = resnet18()
    network.load_state_dict({name: value for name, value in weights.items() if not name.startswith("scaler.")})
    with torch.no_grad():
        h = network.eval()(torch.from_numpy(model.scaled(x)))
    np.testing.assert_allclose(h, model.transform(x), atol=1e-5)
    if form != "safetensors":
        # The names of torchvision and timm; if torchvision is not installed, the names in its published weights.
        assert {"conv1.weight", "bn1.running_mean", "layer1.0.conv1.weight", "layer4.1.bn2.bias"} <= weights.keys()
        assert {"layer2.0.downsample.0.weight", "layer2.0.downsample.1.weight"} <= weights.keys()
        assert "nn.Conv2d(3, 64, 3, 1, 1, bias=False)" in hint and "pixel / 255" in hint
    assert len(hint.splitlines()) == 1


def test_the_message_about_other_stems_and_channels(models, tmp_path):
    hint = export_encoder(models["standard"][0], tmp_path / "file", "timm")
    assert "in_chans=1" in hint and "maxpool" not in hint
    assert "of 1 channel" in export_encoder(models["standard"][0], tmp_path / "file", "torchvision")


def test_safetensors_contain_the_scaling(models, tmp_path):
    model, _ = models["mlp"]
    hint = export_encoder(model, tmp_path / "file", "safetensors")
    weights = load_tensors(tmp_path / "file")
    assert torch.equal(weights["scaler.center"], model.scaler_.center)
    learned = {name: weights[name] for name in weights if not name.startswith("scaler.")}
    model.encoder_.load_state_dict(learned)  # as the message says
    assert list(model.encoder_.state_dict()) and "encoder_" in hint


def test_the_encoder_of_crl_tac_is_that_of_its_views(models, tmp_path):
    model = CRLTAC(**TINY).fit(models["mlp"][1])
    hint = export_encoder(model, tmp_path / "file", "safetensors")
    weights = load_tensors(tmp_path / "file")
    assert all(torch.equal(weights[name], value) for name, value in model.method_.encoder.state_dict().items())
    assert "views" in hint and len(hint.splitlines()) == 1
    # A graph of the encoder alone would give other representations than `transform`.
    assert "--format safetensors" in refusal(export_encoder, model, tmp_path / "onnx", "onnx")


@pytest.mark.parametrize("form", ["timm", "torchvision"])
@pytest.mark.parametrize("name", ["cnn", "mlp", "dna"])
def test_libraries_without_such_an_encoder(models, form, name, tmp_path):
    assert f"{form} has no encoder like" in refusal(export_encoder, models[name][0], tmp_path / "file", form)
    assert not (tmp_path / "file").exists()


def test_unknown_formats(models, tmp_path):
    assert "expected timm, torchvision, onnx or safetensors" in refusal(
        export_encoder, models["mlp"][0], tmp_path / "f", "keras"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cnn", "standard", "mlp", "dna"])
def test_onnx_gives_the_same_representations_of_any_batch(models, name, tmp_path):
    import onnxruntime

    model, x = models[name]
    export_encoder(model, tmp_path / "file.onnx", "onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["file.onnx"]  # plain numbers have no columns to describe
    session = onnxruntime.InferenceSession(str(tmp_path / "file.onnx"), providers=["CPUExecutionProvider"])
    for rows in (x[:1], x[:2], x[:7], x):
        (h,) = session.run(None, {"samples": model.scaled(rows) if name == "dna" else rows})
        np.testing.assert_allclose(h, model.transform(rows), atol=1e-4)


CLOSED = {
    "vectors": np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32),
    "series": np.random.default_rng(0).normal(size=(40, 2, 120)).astype(np.float32),
    "images": np.random.default_rng(0).integers(0, 255, (40, 24, 24, 3), dtype=np.uint8),
}


@pytest.mark.parametrize("modality", ["vectors", slow("series"), slow("images")])
def test_onnx_of_the_closed_form_has_the_mean_over_its_copies(modality, tmp_path, caplog):
    import onnxruntime

    x = CLOSED[modality]
    # Without parts, of two copies: a graph of all takes long to write.
    views = {"view_options": {"flip": 0.0, "upside_down": 0.5, "turn": 0.0}} if modality == "images" else {}
    model = LinearContrast(modality=modality, random_state=0, **views).fit(x)
    export_encoder(model, tmp_path / "file.onnx", "onnx")
    assert all(record.levelno < logging.WARNING for record in caplog.records)  # of onnxscript, in the middle of ours
    assert "timm has no encoder like linear-contrast" in refusal(export_encoder, model, tmp_path / "file", "timm")
    session = onnxruntime.InferenceSession(str(tmp_path / "file.onnx"), providers=["CPUExecutionProvider"])
    for rows in (x[:1], x[:7], x):
        (h,) = session.run(None, {"samples": rows})
        np.testing.assert_allclose(h, model.transform(rows), atol=1e-4)


def test_onnx_needs_its_extra(models, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    assert "viewsmith[export]" in refusal(export_encoder, models["mlp"][0], tmp_path / "file.onnx", "onnx")


def test_the_encoding_of_a_table_is_written_beside_its_graph(tmp_path):
    """Features computed from the JSON alone, by hand, are those of the model; the graph takes them."""
    import onnxruntime

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": np.where(np.arange(60) % 7, rng.integers(1, 90, 60), np.nan),
            "color": rng.choice(["red", "green", "blue"], 60),
            "bought": pd.date_range("2020-01-01", periods=60, freq="11D").strftime("%Y-%m-%d"),
            "weight": rng.normal(size=60),
        }
    )
    model = Contrastive(**TINY).fit(frame)
    hint = export_encoder(model, tmp_path / "table.onnx", "onnx")
    assert "table.columns.json says how columns become the" in hint
    content = json.loads((tmp_path / "table.columns.json").read_text())
    columns = {each["name"]: each for each in content["columns"]}
    encoded = np.asarray(model.table_.encode(frame))
    assert content["n_features"] == encoded.shape[1] == sum(len(each["features"]) for each in columns.values())
    assert set(content["roles"]) == {each["role"] for each in columns.values()} == {"numeric", "category", "date"}

    def block(name):
        start = columns[name]["first_feature"]
        return encoded[:, start : start + len(columns[name]["features"])]

    age = frame["age"].fillna(columns["age"]["median"])
    np.testing.assert_allclose(block("age"), np.column_stack([age, frame["age"].isna()]))
    values = columns["color"]["values"]
    np.testing.assert_allclose(
        block("color")[:, : len(values)], [[v == each for each in values] for v in frame["color"]]
    )
    elapsed = (pd.to_datetime(frame["bought"]) - pd.Timestamp(columns["bought"]["origin"])).dt.days
    np.testing.assert_allclose(block("bought")[:, columns["bought"]["parts"].index("elapsed")], elapsed)
    session = onnxruntime.InferenceSession(str(tmp_path / "table.onnx"), providers=["CPUExecutionProvider"])
    (h,) = session.run(None, {"samples": encoded[:5]})
    np.testing.assert_allclose(h, model.transform(frame[:5]), atol=1e-4)


def test_the_columns_of_a_table_replace_no_other_file(tmp_path):
    frame = pd.DataFrame({"a": np.arange(60.0), "color": ["red", "green"] * 30})
    model, out = Contrastive(**TINY).fit(frame), tmp_path / "table.safetensors"
    export_encoder(model, out, "safetensors")
    export_encoder(model, out, "safetensors")  # its own
    before = out.read_bytes()
    (tmp_path / "table.columns.json").write_text('["mine"]')
    assert "table.columns.json" in refusal(export_encoder, model, out, "safetensors")
    assert (tmp_path / "table.columns.json").read_text() == '["mine"]' and out.read_bytes() == before
