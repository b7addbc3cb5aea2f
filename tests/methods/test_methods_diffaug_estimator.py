"""DiffAug as an estimator: its phases, its generator's settings and its presets."""

from types import SimpleNamespace

import numpy as np
import pytest

from viewsmith import DiffAug
from viewsmith.methods.diffaug.training import parse_phases

TINY = {"epochs": 4, "hidden": (8,), "n_components": 6, "batch_size": 64, "random_state": 0}


@pytest.mark.parametrize(("schedule", "rates"), [("constant", 1), ("cosine", 2)])
def test_the_generator_follows_the_schedule(wine, schedule, rates):
    model = DiffAug(**TINY, generator_epochs=3, schedule=schedule).fit(wine)
    found = {row["learning_rate"] for row in model.metrics_ if row["phase"] == "B1"}
    assert min(len(found), 2) == rates


@pytest.mark.parametrize(
    ("options", "epochs"),
    [
        ({}, [2, 3, 4]),
        ({"epochs": 12}, [4, 6, 8]),
        ({"epochs": 12, "generator_epochs": 5}, [4, 5, 8]),
        ({"generator_epochs": 5}, [2, 5, 4]),
    ],
)
def test_epochs_of_the_phases_can_be_set_and_scaled(wine, options, epochs):
    model = DiffAug(**TINY | {"epochs": "auto"} | options, phases="A2 B3 A4").fit(wine)
    names = [row["phase"] for row in model.metrics_]
    assert [names.count(name) for name in ("A1", "B1", "A2")] == epochs
    assert model.options_.epochs == epochs[0] + epochs[2] and model.options_.generator_epochs == epochs[1]


@pytest.mark.parametrize(
    ("name", "phases"), [("paper", (330, 330, 340)), ("paper2d", (330, 330, 340)), ("paper-images", (200, 400, 800))]
)
def test_the_presets_have_the_papers_phases(name, phases):
    found = parse_phases(DiffAug.presets[name]["phases"])
    assert [letter for letter, _ in found] == ["A", "B", "A"] and tuple(n for _, n in found) == phases


def test_the_generator_of_the_image_preset_is_conditioned_on_128_dimensions():
    x = np.random.default_rng(0).integers(0, 256, (8, 16, 16, 3)).astype(np.uint8)
    small = {"encoder": "cnn", "phases": "A", "epochs": 1, "batch_size": 8, "random_state": 0}
    model = DiffAug(**DiffAug.presets["paper-images"] | small).fit(x)
    assert model.method_.generated.generator.condition_mean.shape == (128,)
    assert model.transform(x, output="map").shape == (8, 128)


@pytest.mark.parametrize("modality", ["images", "dna"])
def test_the_report_compares_generated_views_with_common_ones(modality):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (24, 8, 8), dtype=np.uint8) if modality == "images" else rng.choice([*b"ACGT"], (24, 16))
    x = x.astype(np.uint8)
    model = DiffAug(**TINY | {"epochs": 1}, generator_epochs=1).fit(x)
    data = SimpleNamespace(x_test=None, x_train=x, y_train=None, y_test=None, modality=modality)
    similarities = model.figures(data)[-1].data["similarities"]
    assert {"generated", "neighbors"} <= set(similarities)
    assert all(len(values) == 24 for values in similarities.values())


@pytest.mark.parametrize(("name", "y", "z"), [("paper", 300, 80), ("paper2d", 80, 2)])
def test_the_presets_of_vectors_are_both_readings_of_the_published_encoder(name, y, z, wine):
    small = {"phases": "A", "epochs": 1, "batch_size": 64, "random_state": 0}
    model = DiffAug(**DiffAug.presets[name] | small).fit(wine)
    assert model.transform(wine).shape == (len(wine), y)
    assert model.transform(wine, output="map").shape == (len(wine), z)
    layers = [tuple(layer.weight.shape) for layer in model.method_.framework.modules() if hasattr(layer, "in_features")]
    assert layers == [
        (500, wine.shape[1]),
        *([(300, 500), (80, 300)] if y == 300 else [(300, 500), (80, 300), (2, 80)]),
    ]


def test_the_preset_of_dna_trains_hyena():
    x = np.random.default_rng(0).choice([*b"ACGT"], (12, 16)).astype(np.uint8)
    small = {"epochs": 2, "generator_epochs": 1, "sampler_steps": 2, "batch_size": 6, "random_state": 0}
    model = DiffAug(**DiffAug.presets["paper-dna"] | small).fit(x)
    assert model.options_.encoder == "hyena" and model.transform(x).shape == (12, 128)
    assert model.generates and model.views(x[:3], 2).shape == (3, 2, 16)
