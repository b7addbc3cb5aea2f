"""MetAug as an estimator: outputs by view, augmented features as an array, and invalid options."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import viewsmith
from cases import slow
from refusals import refusal
from viewsmith import Contrastive, MetAug
from viewsmith.data import Dataset
from viewsmith.frameworks import NNCLR, SimCLR, Unified
from viewsmith.methods.metaug.estimator import resolved_features
from viewsmith.networks import SplitAlexNet, ViewEncoders
from viewsmith.reports import ReportContent, render_report

TINY = {"epochs": 1, "hidden": (8,), "n_components": 6, "projector_dims": (4,), "batch_size": 64, "random_state": 0}


def images(n=12, size=16):
    return np.random.default_rng(0).integers(0, 256, (n, size, size, 3)).astype(np.uint8)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"encoders": "per-view", "n_views": 3},
        {"framework": "moco", "projector_dims": (5, 4)},
        {"memory": "bank", "n_views": 3},
    ],
)
def test_augmented_features_are_an_array(wine, options, tmp_path):
    model = MetAug(**TINY | options).fit(wine)
    count, views = options.get("n_views", 2), 3
    made = model.feature_views(wine[:9], views)
    augmented = model.views(wine[:9], views)
    assert augmented.shape == (9, views, count * 4) and augmented.dtype == np.float32
    assert np.array_equal(augmented, made["augmented"]) and made["features"].shape == augmented.shape
    for found in made.values():
        lengths = np.linalg.norm(found.reshape(9, views, count, 4), axis=-1)
        np.testing.assert_allclose(lengths, 1, rtol=1e-5)
    assert not np.allclose(made["features"], augmented, atol=1e-3)
    assert not np.array_equal(augmented[:, 0], augmented[:, 1])
    # The output of the generators for the features of one draw, view by view.
    z = torch.from_numpy(made["features"][:, 1]).unflatten(1, (count, 4)).transpose(0, 1)
    expected = model.method_.features(z).transpose(0, 1).flatten(1)
    np.testing.assert_allclose(augmented[:, 1], expected.detach().numpy(), atol=1e-5)
    model.save(tmp_path / "run")
    loaded = viewsmith.load(tmp_path / "run")
    assert np.array_equal(loaded.views(wine[:9], views), augmented)
    assert np.array_equal(loaded.transform(wine), model.transform(wine))
    assert model.views(wine[:1], 2, pool=wine).shape == (1, 2, count * 4)


DNA = np.frombuffer(b"ACGT", np.uint8)[np.random.default_rng(0).integers(0, 4, (24, 40))].copy()
SMALL = {"epochs": 2, "batch_size": 8, "feature_every": 1, "random_state": 0, "precision": "bf16"}


@pytest.mark.parametrize(
    ("given", "options"),
    [
        slow("vectors", {}),
        ("vectors", {"encoders": "per-view"}),
        slow("images", {}),
        ("images", {"split": "color", "encoder": "cnn"}),
        slow("images", {"framework": "simclr"}),
        ("dna", {}),
    ],
)
def test_bf16_trains_the_generators_on_every_modality(wine, given, options):
    x = {"vectors": wine[:24], "images": images(24), "dna": DNA}[given]
    model = MetAug(**SMALL | options).fit(x)
    assert model.options_.meta == "second-order" and np.isfinite(model.transform(x)).all()
    moved = [
        not torch.equal(value, model.initial_[name]) for name, value in model.weights().items() if "features" in name
    ]
    assert any(moved) and np.isfinite([row["loss"] for row in model.metrics_]).all()


@pytest.mark.slow
def test_the_published_form_of_images_trains_on_small_ones_without_changing_colors():
    x = images(16, 32)
    preset = MetAug.presets["paper-images"]
    assert preset["view_maker"] == "crop" and "stem" not in preset
    small = {"n_components": 16, "feature_hidden": (16,), "epochs": 1, "batch_size": 8, "random_state": 0}
    model = MetAug(**preset | small).fit(x)
    assert np.isfinite(model.transform(x)).all()
    views = model.input_views(x, 8).astype(int)
    assert not (views.max(-1) == views.min(-1)).all(axis=(2, 3)).any()  # none is gray
    flat = np.full((4, 32, 32, 3), (10, 100, 200), np.uint8)
    assert (model.input_views(flat, 8) == (10, 100, 200)).all()


def test_a_memory_bank_gives_the_published_number_of_negatives():
    options = MetAug(batch_size=256, memory="bank")
    found = [resolved_features(options, options, SimpleNamespace(rows=range(n))).negatives for n in (60, 4000, 60_000)]
    assert found == [60, 4000, 4096]


def test_each_view_encoder_has_an_output(wine):
    model = MetAug(**TINY, encoders="per-view", n_views=3).fit(wine)
    assert model.outputs_ == ("representation", "projection", "view-1", "view-2", "view-3")
    h = model.transform(wine)
    assert h.shape == (178, 18) and len(model.get_feature_names_out()) == 18
    for j in range(3):
        single = model.transform(wine, output=f"view-{j + 1}")
        assert np.array_equal(single, h[:, 6 * j : 6 * j + 6])
    assert "expected one of 'representation'" in refusal(model.transform, wine, output="view-4")
    assert MetAug(**TINY).fit(wine).outputs_ == ("representation", "projection")


@pytest.mark.parametrize(("split", "channels"), [("color", [3, 1, 2]), ("l-ab", [1, 2]), ("ydbdr", [1, 1, 1])])
def test_color_views_have_an_encoder_each(split, channels):
    x = images()
    model = MetAug(epochs=1, batch_size=6, random_state=0, split=split, n_components=5).fit(x)
    encoder = model.method_.framework.encoder
    count = len(channels)
    assert isinstance(encoder, ViewEncoders) and model.options_.n_views == count
    assert [net.stages[0][0].in_channels for net in encoder.networks] == channels
    assert model.transform(x).shape == (12, 5 * count) and model.views(x[:2], 2).shape == (2, 2, count * 128)
    assert model.input_views(x[:2], 2).dtype == np.uint8 and model.input_views(x[:2], 2).shape == (2, 2, 16, 16, 3)


def test_the_conv_backbone_can_be_chosen(tmp_path):
    x = images(12, 16)
    given = {"epochs": 1, "batch_size": 6, "random_state": 0, "encoder": "split-alexnet", "view_maker": "crop"}
    conv = {"encoder_options": {"backbone_output": "conv"}}
    model = MetAug(**given, **conv, split="l-ab").fit(x)
    networks = model.method_.framework.encoder.networks
    assert model.transform(x).shape == (12, 2 * 512) and not hasattr(networks[0].fc6, "weight")
    model.save(tmp_path / "run")
    assert np.array_equal(viewsmith.load(tmp_path / "run").transform(x), model.transform(x))
    message = refusal(MetAug(**given, **conv, n_components=64).fit, x)
    assert message.startswith("n_components is 64, but the encoder split-alexnet with these options has width 512")
    assert MetAug(**given, n_components=64).fit(x).transform(x).shape == (12, 64)


def test_all_features_can_share_one_loss(wine):
    model = MetAug(**TINY, augmented_contrast="joint").fit(wine)
    assert model.method_.framework.contrast.joint and model.method_.learns
    assert not np.array_equal(model.transform(wine), MetAug(**TINY).fit(wine).transform(wine))
    added = MetAug(**TINY, augmented_contrast="joint", framework="simclr").fit(wine)
    assert added.method_.added.joint
    assert "united=False" in refusal(MetAug(**TINY, augmented_contrast="joint", united=False).fit, wine)
    assert {preset["augmented_contrast"] for preset in MetAug.presets.values()} == {"joint"}


@pytest.mark.slow
def test_the_published_form_on_images():
    preset = MetAug.presets["paper-images"]
    x = images(4, 64)
    options = {"epochs": 1, "random_state": 0, "n_components": 16, "feature_hidden": (16,)}
    model = MetAug(**preset | options).fit(x)
    method = model.method_
    assert [type(net) for net in method.framework.encoder.networks] == [SplitAlexNet] * 3
    memory = method.framework.contrast.memory
    assert (memory.kind, memory.per_sample, method.framework.contrast.stored_positives) == ("bank", True, True)
    assert memory.keys.shape == (3, 4, 128) and method.framework.contrast.logits.form == "squared"
    assert model.transform(x).shape == (4, 48) and np.isfinite(model.metrics_[-1]["loss"])


def test_named_configurations(wine):
    def built(**options):
        return MetAug(**TINY, **options).fit(wine).method_

    both, only_oucl, only_mag = built(), built(meta="none"), built(united=False)
    assert isinstance(both.framework, Unified) and both.framework.contrast.united and both.features is not None
    assert only_oucl.features is None and only_oucl.framework.contrast.united
    assert only_mag.features is not None and not only_mag.framework.contrast.united
    added = built(framework="simclr", kernel="cosine")
    assert isinstance(added.framework, SimCLR) and added.added is not None and added.learns
    assert not built(meta="frozen").learns and built(meta="first-order").learns


def test_no_generators_on_another_framework_is_that_framework(wine):
    options = TINY | {"epochs": 2, "kernel": "cosine"}
    alone = Contrastive(**options).fit(wine)
    found = MetAug(**options, framework="simclr", meta="none").fit(wine)
    assert np.array_equal(found.transform(wine), alone.transform(wine))


@pytest.mark.parametrize(
    ("options", "beta"),
    [({}, 16), ({"temperature": 0.1}, 20), ({"beta": 5}, 5), ({"framework": "simclr", "temperature": 0.1}, 16)],
)
def test_beta_follows_the_temperature(wine, options, beta):
    model = MetAug(**TINY | options).fit(wine)
    assert model.method_.terms.contrast.logits.beta == model.fitted_["beta"] == pytest.approx(beta)


def test_margins_are_of_the_batch_or_of_each_sample(wine):
    batch, sample = (MetAug(**TINY, margin_scope=scope, margin_weight=5.0).fit(wine) for scope in ("batch", "sample"))
    assert [each.method_.options.margin_scope for each in (batch, sample)] == ["batch", "sample"]
    assert not np.allclose(batch.metrics_[-1]["margin"], sample.metrics_[-1]["margin"], rtol=1e-3)
    of_generators = [name for name in batch.weights() if name.startswith("method.features") and "weight" in name]
    assert any(not torch.equal(batch.weights()[name], sample.weights()[name]) for name in of_generators)


def test_on_nnclr_it_is_the_papers_second_form(wine, tmp_path):
    """MetAug* of table 3: NNCLR trains the encoder, with generators and their contrast in addition."""
    options = TINY | {"framework": "nnclr", "projector_dims": (5, 4), "epochs": 2, "queue_size": 80}
    model = MetAug(**options).fit(wine, run=tmp_path / "run")
    assert isinstance(model.method_.framework, NNCLR) and model.method_.added is not None
    assert len(model.method_.framework.keys) == 80 and int(model.method_.framework.pointer) == 4 * 64 % 80
    assert {"augmented", "feature_cosine"} <= model.metrics_[-1].keys()
    loaded = viewsmith.load(tmp_path / "run")
    assert np.array_equal(loaded.transform(wine), model.transform(wine))
    assert np.array_equal(loaded.views(wine[:3], 2), model.views(wine[:3], 2))
    alone = Contrastive(**{k: v for k, v in options.items() if k != "framework"}, framework="nnclr").fit(wine)
    assert not np.array_equal(alone.transform(wine), model.transform(wine))


def test_training_logs_how_close_augmented_features_are(wine):
    row = MetAug(**TINY).fit(wine).metrics_[-1]
    assert -1 <= row["feature_cosine"] <= 1 and row["margin"] >= 0 and row["augmented"] > 0
    assert {"loss/encoder", "loss/features"} <= row.keys() and 0.3 < row["features_told_apart"] <= 1


def test_rows_of_zeros_are_legal(wine):
    x = wine.copy()
    x[:20] = 0
    model = MetAug(**TINY, scaling="none", norm="none").fit(x)
    assert np.isfinite(model.transform(x)).all() and np.isfinite(model.views(x, 1)).all()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"memory_size": 100, "negatives": 101}, "negatives is 101, expected at most the 100 features"),
        ({"memory": "bank", "negatives": 179}, "negatives is 179, expected at most the 178 features"),
        ({"memory": "bank", "memory_size": 9}, "a bank has one for each of the 178 rows"),
        ({"memory_size": 60}, "memory_size is 60, expected at least the 64 rows of a batch"),
        ({"positives": "memory"}, "positives is 'memory', which needs a memory bank"),
        ({"split": "color"}, "needs images with three color channels"),
        ({"framework": "simclr", "n_views": 3}, "n_views 3 is for the framework 'oucl', not 'simclr'"),
        ({"framework": "byol", "encoders": "per-view"}, "encoders 'per-view' is for the framework 'oucl'"),
        ({"temperature": 0.1, "beta": 8.0}, "temperature is 0.1 and beta 8.0, but for the framework 'oucl'"),
        ({"kernel": "cauchy"}, "kernel is 'cauchy', an option that the framework 'oucl' does not have"),
        ({"representation_noise": 0.1}, "set meta='first-order', or leave it out"),
    ],
)
def test_invalid_options_are_refused_in_one_line(wine, options, expected):
    message = refusal(MetAug(**TINY | options).fit, wine)
    assert expected in message and "\n" not in message


def test_views_without_generators_are_refused(wine):
    model = MetAug(**TINY, meta="none").fit(wine)
    assert "meta is 'none': there are no generators" in refusal(model.views, wine)
    assert "n_views is 0" in refusal(MetAug(**TINY).fit(wine).views, wine, 0)
    assert "expected at least two rows, got one" in refusal(MetAug(**TINY).fit(wine).views, wine[:1])


def test_gray_images_have_no_color_views():
    assert "shape (16, 16)" in refusal(MetAug(epochs=1, split="color").fit, images()[..., 0])


def test_noise_on_representations_goes_with_first_order(wine):
    model = MetAug(**TINY, meta="first-order", representation_noise=0.1).fit(wine)
    assert np.isfinite(model.transform(wine)).all()


@pytest.mark.parametrize("modality", [slow("vectors"), "images"])
def test_the_report_shows_similarities_of_features(modality, wine):
    x = images(30, 32) if modality == "images" else wine
    data = Dataset(x, None, np.arange(len(x)), None, "none", modality, "rows", None, {}, None)
    model = MetAug(epochs=1, batch_size=16, random_state=0).fit(x)
    *maps, gallery, histogram = model.figures(data)
    similarities = histogram.data["similarities"]
    kinds = ("same sample, augmented", "others, augmented", "same sample, original", "others, original")
    assert tuple(similarities) == kinds
    counts = [len(values) for values in similarities.values()]
    assert counts == [len(x), len(x) * (len(x) - 1)] * 2
    # Views of one sample are closer than views of others.
    medians = [np.median(values) for values in similarities.values()]
    assert medians[2] > medians[3]
    assert gallery.data["views"].shape[2:] == x.shape[1:]
    html = render_report(ReportContent("t", "metaug", metrics=model.metrics_, figures=[*maps, histogram]))
    assert "cosine similarity of features" in html and "Cosine of augmented features" in html
    none = MetAug(epochs=1, batch_size=16, random_state=0, meta="none").fit(x)
    tested = ["Symmetries"] if modality == "images" else []  # too few samples for a test: they are shown
    assert [each.title for each in none.figures(data)] == ["raw", "representation", "Views", *tested]
