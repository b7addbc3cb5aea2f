"""Options of training recipes are passed to the optimizer, or refused if they have no effect."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from refusals import refusal
from viewsmith import CRLTAC, Contrastive, DiffAug, GenView, MetAug, PiNDA, load
from viewsmith.core import Optimizer
from viewsmith.core.errors import join_names
from viewsmith.core.rows import ArrayRows
from viewsmith.estimator.model import freeze_layers
from viewsmith.estimator.options import with_role
from viewsmith.frameworks import SimCLR
from viewsmith.methods.contrastive import estimator as contrastive
from viewsmith.modalities.base import modality_of
from viewsmith.modalities.vectors.modality import Vectors
from viewsmith.networks import MLP
from viewsmith.networks.scaling import SkipAxes, variance_kept

TINY = {"epochs": 1, "hidden": (6,), "n_components": 5, "batch_size": 64, "random_state": 0}
RECIPE = {
    "optimizer": "lars",
    "weight_decay": 0.04,
    "final_weight_decay": 0.4,
    "trust_coefficient": 0.02,
    "constant_predictor_rate": True,
}


def optimizer_of(model):
    return model.method_.phases()[0].updates[0].optimizer


def test_recipe_options_are_passed_to_the_optimizer(wine):
    model = Contrastive(**TINY, framework="simsiam", projector_dims=(4, 3), **RECIPE).fit(wine)
    assert optimizer_of(model) == Optimizer(
        "lars", 0.3 * 64 / 256, weight_decay=0.04, final_weight_decay=0.4, exclude_norm_and_bias=True,
        trust_coefficient=0.02, constant_predictor_rate=True,
    )  # fmt: skip
    assert not optimizer_of(Contrastive(**TINY).fit(wine)).exclude_norm_and_bias
    assert optimizer_of(Contrastive(**TINY, exclude_norm_and_bias=True).fit(wine)).exclude_norm_and_bias
    assert not optimizer_of(
        Contrastive(**TINY, optimizer="lars", exclude_norm_and_bias=False).fit(wine)
    ).exclude_norm_and_bias


@pytest.mark.parametrize("cls", [PiNDA, GenView, MetAug])
def test_recipes_serve_every_method_with_frameworks(cls, wine, tmp_path):
    given = TINY | {"epochs": 2, "framework": "swav", "prototypes": 5, "projector_dims": (4, 3)}
    if cls is GenView:
        given |= {"generator_epochs": 1, "sampler_steps": 2}
    model = cls(**given, freeze_last_layer=1.0, freeze=1, weight_decay=0.1).fit(wine, run=tmp_path / "run")
    trained, start = model.weights(), model.initial_
    matrices = [name for name in trained if name.startswith("method.framework") and trained[name].ndim == 2]
    first = next(name for name in matrices if ".encoder." in name and name.endswith("weight"))
    still = {name for name in matrices if torch.equal(trained[name], start[name])}
    assert still == {first, "method.framework.prototypes.weight"}
    again = load(tmp_path / "run")
    assert np.array_equal(again.transform(wine), model.transform(wine))


def test_metaugs_generators_have_a_plain_recipe(wine):
    given = {"framework": "simsiam", "projector_dims": (4, 3), "constant_predictor_rate": True}
    _, features = MetAug(**TINY, **given, exclude_norm_and_bias=True).fit(wine).method_.phases()[0].updates
    assert not features.optimizer.constant_predictor_rate and features.optimizer.exclude_norm_and_bias


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"trust_coefficient": 0.1}, "trust_coefficient is 0.1, an option of the optimizer lars, not of adamw"),
        (
            {"constant_predictor_rate": True},
            f"constant_predictor_rate is True, but the framework 'simclr' has no predictor: take one of "
            f"{join_names(with_role('predictor'))}, or leave it out",
        ),
        ({"freeze_last_layer": 0.1, "framework": "byol"}, "but the framework 'byol' has no last layer"),
        ({"freeze": 2}, "freeze is 2, and the encoder has 2 layers: expected fewer"),
        ({"freeze": "all"}, "freeze is 'all', but the encoder mlp starts from random weights"),
        ({"encoder_weights": "pretrained"}, "encoder_weights is 'pretrained', and no library has weights"),
    ],
)
def test_recipes_for_missing_parts_are_refused(options, part, wine):
    assert part in refusal(Contrastive(**TINY | options).fit, wine)


@pytest.mark.parametrize(
    ("framework", "option", "value"), [("simsiam", "temperature", 0.1), ("byol", "queue_size", 64)]
)
def test_options_that_a_framework_does_not_have_are_refused(framework, option, value, wine):
    message = refusal(Contrastive(**TINY | {"framework": framework, option: value}).fit, wine)
    assert message.startswith(
        f"{option} is {value}, an option that the framework {framework!r} does not have: its options "
    )


def test_methods_without_a_framework_option_name_no_framework(wine):
    message = refusal(DiffAug(**TINY, freeze_last_layer=0.5).fit, wine)
    assert message == "freeze_last_layer is 0.5, but the framework 'soft' has no last layer: leave it out"
    assert "has no predictor: leave it out" in refusal(CRLTAC(**TINY, constant_predictor_rate=True).fit, wine)


def test_a_custom_framework_names_its_training_roles(wine):
    class WithPredictor(SimCLR):
        training_roles = {"predictor": "extra"}  # noqa: RUF012

        def __init__(self):
            super().__init__(MLP(13, [5]), MLP(5, [3]))
            self.extra = nn.Linear(3, 3)

        def forward(self, pair, progress=0.0):
            return super().forward(pair, progress) + self.extra.weight.square().sum()

    model = Contrastive(**TINY | {"n_components": "auto"}, framework=WithPredictor(), constant_predictor_rate=True)
    assert optimizer_of(model.fit(wine)).constant_predictor_rate
    model = Contrastive(**TINY | {"n_components": "auto"}, framework=WithPredictor(), freeze_last_layer=0.5)
    assert "the framework 'WithPredictor' has no last layer: take one of 'dino' or 'swav'" in refusal(model.fit, wine)


def test_the_first_layer_is_the_first_with_weights():
    embedded = nn.Sequential(
        nn.Embedding(4, 3), nn.BatchNorm1d(3), nn.ModuleList([nn.Conv1d(3, 2, 1), nn.Linear(2, 2)])
    )
    freeze_layers(embedded, 2)
    assert [p.requires_grad for p in embedded.parameters()] == [False] * 5 + [True] * 2


NEIGHBOR_RECIPE = {"hidden": (6,), "n_components": 5, "batch_size": 64, "random_state": 0}


@pytest.fixture
def few_steps(monkeypatch):
    monkeypatch.setattr(contrastive, "SHORTEST", (4, 0.006))
    monkeypatch.setattr(contrastive, "SHORT", (6, 0.0045))
    monkeypatch.setattr(Vectors, "steps", 8)
    monkeypatch.setattr(Vectors, "steps_on_gpu", 8)


def training_of(model):
    return model.summary_["steps"], optimizer_of(model).learning_rate, optimizer_of(model).head_lr_scale


def test_the_neighbor_recipe_on_few_rows_trains_briefly(wine, few_steps, tmp_path):
    model = Contrastive(**NEIGHBOR_RECIPE).fit(wine, run=tmp_path / "run")
    assert training_of(model) == (4, 0.006, pytest.approx(0.3))
    assert training_of(load(tmp_path / "run")) == training_of(model)
    assert training_of(Contrastive(**NEIGHBOR_RECIPE, learning_rate=0.01).fit(wine)) == (4, 0.01, pytest.approx(0.3))
    given = Contrastive(**NEIGHBOR_RECIPE, head_learning_rate=0.003).fit(wine)
    assert training_of(given) == (4, 0.006, pytest.approx(0.5))


PLAIN = {"hidden": (6,), "n_components": 5, "random_state": 0}


def batch_of(model):
    return model.options_.batch_size, optimizer_of(model).learning_rate


def test_the_batch_of_few_rows_is_small_unless_it_is_given(wine, few_steps, monkeypatch, tmp_path):
    model = Contrastive(**PLAIN).fit(wine, run=tmp_path / "run")
    assert training_of(model) == (4, 0.0045, pytest.approx(0.3)) and batch_of(model) == (128, 0.0045)
    assert training_of(load(tmp_path / "run")) == training_of(model) and model.batch_size == "auto"
    assert batch_of(load(tmp_path / "run")) == batch_of(model)
    assert batch_of(Contrastive(**PLAIN, learning_rate=0.01).fit(wine)) == (128, 0.01)
    assert batch_of(Contrastive(**PLAIN, batch_size=100).fit(wine)) == (100, 0.006)
    assert batch_of(Contrastive(**PLAIN, epochs=2).fit(wine)) == (256, 0.003)
    assert batch_of(Contrastive(**PLAIN, view_maker="noise").fit(wine)) == (256, 0.003)
    monkeypatch.setattr(contrastive, "FEW_ROWS", len(wine) - 1)
    assert batch_of(Contrastive(**PLAIN).fit(wine)) == (256, 0.0045)


@pytest.mark.parametrize(
    ("shape", "batch"),
    [((128, 128, 3), 256), ((160, 96), 256), ((224, 224, 3), 83), ((256, 256, 3), 64), ((512, 512, 3), 32)],
)
def test_batches_of_large_images_have_the_memory_of_others(shape, batch):
    x = np.zeros((4, *shape), np.uint8)
    adapted = Contrastive()._adapt(Contrastive(), modality_of("images"), x, {})
    assert adapted.batch_size == batch
    assert Contrastive()._adapt(Contrastive(batch_size=100), modality_of("images"), x, {}).batch_size == 100
    for kind in (PiNDA, DiffAug, GenView, MetAug, CRLTAC):
        assert kind()._adapt(kind(), modality_of("images"), x, {}).batch_size == batch


@pytest.mark.parametrize(
    "options",
    [
        {"view_maker": "neighbors+noise"},
        {"framework": "byol"},
        {"kernel": "cosine"},
        {"projector_dims": (2,)},
        {"optimizer": "sgd"},
        {"encoder": nn.Linear(13, 5), "n_components": "auto"},
        {"epochs": 4},
    ],
)
def test_every_other_training_is_the_long_one(options, wine, few_steps):
    assert training_of(Contrastive(**NEIGHBOR_RECIPE | options).fit(wine)) == (8, 0.003, 1.0)


def test_more_rows_need_more_steps(wine, few_steps, monkeypatch):
    monkeypatch.setattr(contrastive, "FEW_ROWS", len(wine) - 1)
    assert training_of(Contrastive(**NEIGHBOR_RECIPE).fit(wine)) == (6, 0.0045, pytest.approx(0.3))


def test_many_rows_train_long(wine, few_steps, monkeypatch):
    monkeypatch.setattr(contrastive, "SHORT_ROWS", len(wine) - 1)
    assert training_of(Contrastive(**NEIGHBOR_RECIPE).fit(wine)) == (8, 0.003, 1.0)


def brief(**options):
    return Contrastive(**{"hidden": (6,), "epochs": 1, "batch_size": 64, "random_state": 0} | options)


@pytest.mark.parametrize(
    ("options", "given", "expected"),
    [
        ({"n_components": 20}, {"appended_pca": 50, "appended_length": 2.0}, 13),  # all features
        ({"input_components": 5}, {"appended_pca": 4, "appended_length": 2.0}, 4),
        ({"input_components": 5}, {"appended_pca": 9, "appended_length": 2.0}, 9),
        ({"framework": "byol"}, {"appended_pca": 7, "appended_length": 2.0}, 7),
        ({"view_maker": "noise", "representation_noise": 0.1}, {"appended_pca": 7, "appended_length": 2.0}, 7),
    ],
)
def test_columns_that_are_not_learned(options, given, expected, wine, tmp_path):
    model = brief(**options, encoder_options=given).fit(wine, run=tmp_path / "run")
    h = model.transform(wine)
    np.testing.assert_array_equal(load(tmp_path / "run").transform(wine), h)
    kept = h[:, -expected:]
    assert np.sqrt(np.square(kept).sum(axis=1).mean()) == pytest.approx(2.0, rel=0.2)  # few axes have more variance
    np.testing.assert_array_equal(model.untrained(wine).transform(wine)[:, -expected:], kept)


def test_skipped_columns_do_not_change_the_learned_ones(wine):
    with_skip = brief(n_components=30, encoder_options={"appended_pca": 10}).fit(wine)
    without = brief(n_components=20).fit(wine)
    np.testing.assert_array_equal(with_skip.transform(wine)[:, :20], without.transform(wine))
    projections = [model.transform(wine, output="projection") for model in (with_skip, without)]
    np.testing.assert_array_equal(*projections)


def test_skip_without_learned_columns_is_refused(wine):
    said = refusal(brief(n_components=5, encoder_options={"appended_pca": 5}).fit, wine)
    assert said == (
        "appended_pca is 5, so that none of the 5 columns of the representation (n_components) would be learned: "
        "give fewer"
    )


def test_a_rate_for_a_head_of_another_framework_is_refused(wine):
    said = refusal(Contrastive(**TINY, framework="byol", head_learning_rate=0.001).fit, wine)
    assert said == (
        "head_learning_rate is 0.001, but the framework 'byol' has no head of its own rate: take 'simclr', or leave it "
        "out"
    )


@pytest.mark.parametrize("kind", ["images", "dna"])
def test_default_on_images_and_dna_has_columns_that_are_not_learned(kind, tmp_path):
    rng = np.random.default_rng(0)
    x = {
        "images": rng.integers(0, 255, (70, 16, 16), dtype=np.uint8),
        "dna": np.frombuffer(b"ACGT", np.uint8)[rng.integers(0, 4, (70, 30))],
    }[kind]
    brief = partial(Contrastive, epochs=1, batch_size=64, random_state=0)
    model = brief().fit(x, run=tmp_path / "run")
    h, learned = model.transform(x), brief(encoder_options={"appended_pca": 0}).fit(x).transform(x)
    assert h.shape == (70, 256 + {"images": 64, "dna": 96}[kind])
    np.testing.assert_array_equal(h[:, :256], learned)
    for columns, length in {"images": [((256, 320), 6.0)], "dna": [((256, 320), 24.0), ((320, 352), 9.6)]}[kind]:
        assert np.square(h[:, slice(*columns)]).sum(axis=1).mean() == pytest.approx(length**2, rel=0.01)
    np.testing.assert_array_equal(model.untrained(x).transform(x)[:, 256:], h[:, 256:])
    np.testing.assert_array_equal(load(tmp_path / "run").transform(x), h)
    for options in ({"view_maker": "identity"}, {"n_components": 8}):
        assert brief(**options).fit(x).transform(x).shape == (70, options.get("n_components", 256))


@pytest.fixture
def wide():
    """Rows whose variance is along many axes."""
    return np.random.default_rng(0).normal(size=(400, 270)).astype(np.float32)


SHORTLY = partial(Contrastive, epochs=1, batch_size=400, random_state=0)


@pytest.mark.parametrize("width", [240, 270])
def test_default_on_wide_vectors_has_coordinates_on_further_axes(width, wide, tmp_path):
    x = wide[:, :width]
    model = SHORTLY().fit(x, run=tmp_path / "run")
    h, learned = model.transform(x), SHORTLY(encoder_options={"appended_pca": 0}).fit(x).transform(x)
    assert h.shape == (400, 256 + min(width, 256))
    np.testing.assert_array_equal(h[:, :256], learned)
    assert np.square(h[:, 256:]).sum(axis=1).mean() == pytest.approx(36, rel=0.01)  # length 6
    np.testing.assert_array_equal(model.untrained(x).transform(x)[:, 256:], h[:, 256:])
    np.testing.assert_array_equal(load(tmp_path / "run").transform(x), h)


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        ({"view_maker": "noise"}, slice(None)),
        ({"n_components": 8}, slice(None)),
        ({"input_components": 50}, slice(None)),
        ({}, slice(100)),  # few features
    ],
)
def test_other_trainings_on_vectors_have_learned_columns_alone(options, columns, wide):
    x = wide[:, columns]
    assert SHORTLY(**options).fit(x).transform(x).shape == (400, options.get("n_components", 256))


def test_coordinates_of_sparse_rows_of_one_length_have_one_length(wide, tmp_path):
    x = np.maximum(wide - 1, 0)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    model = SHORTLY().fit(x, run=tmp_path / "run")
    h = model.transform(x)
    np.testing.assert_allclose(np.linalg.norm(h[:, 256:], axis=1), 24, rtol=1e-4)
    np.testing.assert_array_equal(load(tmp_path / "run").transform(x), h)
    given = SHORTLY(encoder_options={"appended_length": 3.0}).fit(x).transform(x)
    np.testing.assert_allclose(given[:, 256:], h[:, 256:] / 8, rtol=1e-4, atol=1e-5)
    lengths = np.linalg.norm(SHORTLY().fit(x * np.linspace(1, 2, 400)[:, None]).transform(x)[:, 256:], axis=1)
    assert lengths.std() > 0.1


@pytest.mark.parametrize("few_rows", [399, 400])
def test_vectors_with_few_axes_have_learned_columns_alone_unless_rows_are_few(wide, few_rows, monkeypatch):
    monkeypatch.setattr(contrastive, "FEW_ROWS", few_rows)
    x = wide * np.linspace(1, 0, 270, dtype=np.float32) ** 8
    x *= x.std() / x.std(axis=0)[0]  # one scale for all features
    assert variance_kept(torch.from_numpy(x), 50) > 0.5
    assert SHORTLY(scaling="none").fit(x).transform(x).shape == (400, 256 if few_rows < 400 else 512)


def test_momentum_encoder_has_the_same_coordinates(wide):
    model = SHORTLY(framework="byol").fit(wide)
    skips = [m for m in model.method_.modules() if isinstance(m, SkipAxes)]
    assert len(skips) == 2 and skips[0].axes.any()
    assert torch.equal(skips[0].axes, skips[1].axes) and torch.equal(skips[0].mean, skips[1].mean)


def test_wide_rows_on_disk_have_further_axes_if_asked(wide):
    rows = ArrayRows(wide)
    assert SHORTLY().fit(rows).transform(wide).shape == (400, 256)
    asked = SHORTLY(n_components=356, encoder_options={"appended_pca": 100})
    on_disk, in_memory = (asked.fit(given).transform(wide)[:, 256:] for given in (rows, wide))
    assert np.square(on_disk).sum(axis=1).mean() == pytest.approx(36, rel=0.01)
    np.testing.assert_allclose(on_disk @ on_disk.T, in_memory @ in_memory.T, atol=0.05)
