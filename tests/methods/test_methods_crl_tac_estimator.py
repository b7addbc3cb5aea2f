"""CRL-TAC as an estimator: values of "auto", P(T|x), inference, and its channel as a view maker of other methods."""

import shutil
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import viewsmith
from crl_tac_toys import DATA, TINY, dna, images, vectors
from refusals import refusal
from registered import heads, labels
from viewsmith import CRLTAC, Contrastive, DiffAug, PiNDA
from viewsmith.networks import CropCNN, MaskScores, PositionScores, SmallCNN
from viewsmith.training.run import RunFolder
from viewsmith.views import AugmentationChannel, Crops, Masks, Windows


def channel(model):
    return model.method_.channel


def test_values_of_auto_by_modality():
    models = [CRLTAC(**TINY).fit(make()) for make in (images, vectors, dna)]
    of_images, of_vectors, of_dna = models
    assert isinstance(of_images.method_.encoder, CropCNN) and of_images.method_.encoder.conv3.bias is None
    assert of_images.fitted_["scaling"] == "none" and not of_images.method_.options.centered
    assert all(weight.ndim > 1 for weight in of_images.method_.head.parameters())  # no biases
    assert isinstance(channel(of_images).family, Crops) and channel(of_images).family.grids == [(3, 4)]
    assert of_images.fitted_["effective_target"] == 8.0
    rates = [model.fitted_["learning_rate"] for model in models]
    assert rates == [5e-4, 3e-3, 5e-4]
    widths = [[m.out_features for m in model.method_.head.modules() if isinstance(m, nn.Linear)] for model in models]
    assert widths == [[128], [200, 50], [200, 50]]
    assert CRLTAC(**TINY, learning_rate=0.01).fit(images()).fitted_["learning_rate"] == 0.01
    assert of_vectors.method_.options.centered and isinstance(channel(of_vectors).family, Masks)
    assert isinstance(channel(of_vectors).scores, MaskScores) and of_vectors.fitted_["effective_target"] == 8.0
    assert of_dna.method_.options.centered and isinstance(channel(of_dna).family, Windows)
    assert isinstance(channel(of_dna).scores, PositionScores) and of_dna.fitted_["effective_target"] == 8.0
    small = CRLTAC(**TINY).fit(images()[:, 4:18, :16])
    assert isinstance(small.method_.encoder, SmallCNN) and channel(small).family.crop == 10


def test_default_number_of_steps():
    x, tiny = images(), {name: value for name, value in TINY.items() if name != "epochs"}
    with pytest.warns(UserWarning, match="training ended early"):
        auto = [CRLTAC(**tiny, minutes=1e-9).fit(rows).fitted_["epochs"] for rows in (x, x[:, 4:18, :16])]
    assert auto == [1400, 750]  # of two steps: 2,800 with "crl-cnn", 1,500 with the encoder of small images


def test_effective_target_is_at_most_the_number_of_transformations():
    assert CRLTAC(**TINY, masks=4, effective_target=4).fit(vectors()).method_.effective_target == 4
    message = refusal(CRLTAC(**TINY, masks=4, effective_target=4.5).fit, vectors())
    assert message == "effective_target is 4.5, expected at most 4, the number of transformations: lower it"


def test_a_biased_encoder_is_centered_by_default():
    made = CRLTAC(**TINY, encoder="cnn", n_components=8).fit(images())
    assert made.method_.options.centered
    centered = CRLTAC(**TINY, encoder="crl-cnn", centered=True).fit(images())
    assert centered.method_.options.centered and centered.method_.encoder.conv3.bias is not None


@pytest.mark.parametrize(("make", "bias"), [(images, True), (images, False), (vectors, False), (dna, True)])
def test_encoder_and_head_have_biases_if_they_are_asked_for(make, bias, tmp_path):
    def biases(model):
        """Parameters of layers without a norm that are not weights."""
        return [p for m in model.method_.modules() for p in [getattr(m, "bias", None)] if p is not None]

    default, given = CRLTAC(**TINY).fit(make()), CRLTAC(**TINY, bias=bias).fit(make())
    assert given.method_.options.centered == default.method_.options.centered
    outer = given.method_.head[-1]
    assert all((m.bias is not None) is bias for m in outer.modules() if isinstance(m, nn.Linear))
    assert (len(biases(given)) == len(biases(default))) is (bias is default.method_.options.centered)
    given.save(tmp_path / "run")
    np.testing.assert_array_equal(viewsmith.load(tmp_path / "run").transform(make()), given.transform(make()))


def test_the_preset_has_biases_and_an_empty_crop_has_a_projection_of_its_own():
    preset = CRLTAC(**CRLTAC.presets["paper-images"] | {**TINY, "batch_size": 16}).fit(images())
    assert preset.method_.encoder.conv1.bias is not None and not preset.method_.options.centered
    with torch.no_grad():
        empty = torch.zeros(1, 1, 20, 20)
        assert preset.method_.project(empty).norm() == pytest.approx(1)
        assert CRLTAC(**TINY).fit(images()).method_.project(empty).norm() == 0


@pytest.mark.parametrize("modality", DATA)
def test_probabilities_of_transformations(modality):
    x = DATA[modality]()
    model = CRLTAC(**TINY).fit(x)
    p = model.distribution(x)
    assert p.dtype == np.float32 and p.shape == (16, channel(model).family.size)
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(model.distribution(x[3:4])[0], p[3], rtol=1e-5)


def test_inference_by_expectation_top_and_uniform():
    x = images()
    models = {how: CRLTAC(**TINY, inference=how).fit(x) for how in ("expectation", "top", "uniform")}
    assert all(model.method_.options.inference_count is None for model in models.values())
    for how, model in models.items():
        np.testing.assert_array_equal(models["expectation"].transform(x, inference=how), model.transform(x))
    uniform = models["uniform"]
    every = channel(uniform).family.embed(uniform.method_.encoder, torch.from_numpy(uniform.scaled(x))).detach().numpy()
    np.testing.assert_allclose(uniform.transform(x), every.mean(1), atol=1e-6)
    expected = np.einsum("bt,btn->bn", models["expectation"].distribution(x), every)
    np.testing.assert_allclose(models["expectation"].transform(x), expected, atol=1e-5)
    rows = [model.transform(x) for model in models.values()]
    assert not np.allclose(rows[0], rows[1]) and not np.allclose(rows[1], rows[2])


def test_the_uniform_channel_learns_nothing(tmp_path):
    model = CRLTAC(**TINY, channel="uniform").fit(images())
    np.testing.assert_allclose(model.distribution(images()), 1 / 12, rtol=1e-6)
    assert model.warnings_ == [] and "entropy" in model.metrics_[-1]
    model.save(tmp_path / "run")
    assert np.array_equal(viewsmith.load(tmp_path / "run").transform(images()), model.transform(images()))


@pytest.mark.parametrize("shape", [(28, 32), (28, 32, 1), (28, 32, 3)])
def test_views_of_images_are_crops_of_them(shape):
    x = images(shape=shape)
    views = CRLTAC(**TINY).fit(x).views(x, 3)
    assert views.shape == (16, 3, 20, 20, *shape[2:]) and views.dtype == np.uint8
    for view in views[5]:
        assert any(np.array_equal(view, x[5, r : r + 20, c : c + 20]) for r in (0, 4, 8) for c in (0, 4, 8, 12))


@pytest.mark.parametrize("step", ["exact", "sampled"])
@pytest.mark.parametrize("modality", DATA)
def test_exact_and_sampled_steps_on_every_modality(step, modality):
    options = {"encoder_step": step, "channel_step": step, "distinct": step == "exact"}
    model = CRLTAC(**TINY, **options, importance_weights="normalized").fit(DATA[modality]())
    assert model.summary_["steps"] == 2 and np.isfinite(model.metrics_[-1]["loss"])


def test_the_published_settings():
    x = images(shape=(84, 84))
    model = CRLTAC(**CRLTAC.presets["paper-images"] | {"epochs": 1, "random_state": 0}).fit(x)
    assert model.distribution(x[:2]).shape == (2, 289) and model.transform(x[:2]).shape == (2, 200)
    assert model.transform(x[:2], output="projection").shape == (2, 50)


# ---- nonempty views -------------------------------------------------------------------------------------------------


def spots(n=16):
    """Black images, 44 x 44 pixels, with a small object in the upper left: most crops are empty."""
    x = np.zeros((n, 44, 44), np.uint8)
    x[:, :12, :12] = np.random.default_rng(0).integers(1, 256, (n, 12, 12))
    return x


def test_probability_of_nonempty_crops():
    x = spots()
    model = CRLTAC(**TINY).fit(x)
    shows = [(x[0, r : r + 20, c : c + 20] > 0).any() for r in range(0, 25, 4) for c in range(0, 25, 4)]
    assert sum(shows) == 9
    expected = model.distribution(x)[:, shows].sum(1)
    mass = model.nonempty_mass(x)
    assert mass.dtype == np.float32 and mass.shape == (16,)
    np.testing.assert_allclose(mass, expected, rtol=1e-5)
    assert model.metrics_[-1]["nonempty_mass"] == pytest.approx(expected.mean(), rel=1e-5)
    uniform = CRLTAC(**TINY, channel="uniform").fit(x)
    assert uniform.metrics_[-1]["nonempty_mass"] == pytest.approx(9 / 49)


def test_a_custom_function_selects_nonempty_views(tmp_path):
    x = vectors()

    def first_kept(views):
        return views[:, 0] != 0

    model = CRLTAC(**TINY, nonempty=first_kept).fit(x, run=tmp_path / "run")
    selected = channel(model).family.masks[:, 0].numpy() > 0
    expected = model.distribution(x)[:, selected].sum(1)
    np.testing.assert_allclose(model.nonempty_mass(x), expected, rtol=1e-5)
    assert model.metrics_[-1]["nonempty_mass"] == pytest.approx(expected.mean(), rel=1e-5)
    loaded = viewsmith.load(tmp_path / "run")
    np.testing.assert_allclose(loaded.nonempty_mass(x, first_kept), expected, rtol=1e-5)
    assert "give nonempty, from views" in refusal(loaded.nonempty_mass, x)


@pytest.mark.parametrize(
    ("make", "options"), [(vectors, {}), (dna, {}), (spots, {"scaling": "standard"}), (spots, {"nonempty": None})]
)
def test_nonempty_mass_is_not_logged_for_other_data_and_options(make, options):
    model = CRLTAC(**TINY, **options).fit(make())
    assert "nonempty_mass" not in model.metrics_[-1]
    refusal(model.nonempty_mass, make())
    assert (model.nonempty_mass(make(), lambda views: torch.ones(len(views), dtype=torch.bool)) > 0.999).all()


def test_an_invalid_result_of_nonempty_is_refused_before_anything_is_written(tmp_path):
    for nonempty, message in (
        (lambda views: views, "nonempty returned torch.float32 (128, 9) for views (128, 9), expected bool (128,)"),
        ("function", "nonempty is 'function', expected 'auto' or None, or in Python a function of views"),
        ("bright", "nonempty is 'bright', expected 'auto' or None, or in Python a function of views"),
    ):
        assert message in refusal(CRLTAC(**TINY, nonempty=nonempty).fit, vectors(), run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


# ---- early warnings -----------------------------------------------------------------------------------------------


def channel_warnings(fit, *args, **options):
    with warnings.catch_warnings(record=True, action="always") as caught:
        model = fit(*args, **options)
    return [str(each.message) for each in caught if "the channel" in str(each.message)], model


def test_a_collapse_is_reported_once_during_training_and_at_the_end():
    options = {"effective_target": None, "entropy_weight": 0.0, "channel_learning_rate": 0.1, "epochs": 4, "masks": 9}
    message, model = channel_warnings(CRLTAC(**TINY | options).fit, vectors(64))
    early, last = message
    epoch = next(row["epoch"] for row in model.metrics_ if row["effective"] < 1.5)
    assert epoch < 4 and early.startswith(f"epoch {epoch} of 4: the channel is collapsing: it draws from 1")
    assert last.startswith("the channel has collapsed: it draws from 1") and model.warnings_[-1] == last


# ---- the channel as a view maker ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for modality, make in DATA.items():
        CRLTAC(**TINY | {"epochs": 6}).fit(make(), run=folder / modality)
    Contrastive(epochs=1, batch_size=8).fit(vectors(), run=folder / "other")
    CRLTAC(**TINY, crop_size=10).fit(images(), run=folder / "small crops")
    return folder


@pytest.mark.parametrize(
    ("cls", "modality"), [(Contrastive, "images"), (PiNDA, "vectors"), (DiffAug, "dna"), (DiffAug, "images")]
)
def test_a_trained_channel_serves_other_methods(cls, modality, runs, tmp_path):
    x, copied = DATA[modality](), shutil.copytree(runs / modality, tmp_path / "channel")
    options = {"epochs": 1, "batch_size": 8, "n_components": 8, "random_state": 0, "hidden": (8,)}
    model = cls(**options, view_maker=f"channel:{copied}").fit(x)
    (maker,) = model.method_.views.makers
    assert isinstance(maker, AugmentationChannel)
    teacher = channel(viewsmith.load(copied))
    for key, value in teacher.state_dict().items():
        assert torch.equal(maker.state_dict()[key], value), key
    assert model.fitted_["scaling"] == viewsmith.load(copied).fitted_["scaling"]
    model.save(tmp_path / "run")
    shutil.rmtree(copied)  # the model has a copy
    loaded = viewsmith.load(tmp_path / "run")
    assert np.array_equal(loaded.transform(x), model.transform(x))
    assert np.array_equal(loaded.views(x, 2), model.views(x, 2))


def test_a_channel_accepts_gray_images_with_and_without_a_channel_dimension(runs):
    x, options = images(), {"epochs": 1, "batch_size": 8, "random_state": 0, "view_maker": f"channel:{runs / 'images'}"}
    plain, gray = Contrastive(**options).fit(x), Contrastive(**options).fit(x[..., None])
    views = gray.views(x[..., None], 2)
    assert views.shape == (16, 2, 20, 20, 1) and np.array_equal(views[..., 0], plain.views(x, 2))
    assert np.array_equal(gray.transform(x), plain.transform(x[..., None]))


def test_the_run_of_a_channel_is_read_once(runs, monkeypatch):
    read = []
    for name in ("read_config", "read_weights"):
        original = getattr(RunFolder, name)
        monkeypatch.setattr(
            RunFolder, name, lambda self, original=original, name=name: (read.append(name), original(self))[1]
        )
    Contrastive(epochs=1, batch_size=8, hidden=(8,), view_maker=f"channel:{runs / 'vectors'}").fit(vectors())
    assert read.count("read_weights") == 1 and set(read) == {"read_config", "read_weights"}


def test_a_channel_whose_run_is_damaged_or_unfinished_is_refused(runs, tmp_path):
    def message():
        return refusal(Contrastive(epochs=1, view_maker=f"channel:{copied}").fit, vectors(), run=tmp_path / "new")

    copied = shutil.copytree(runs / "vectors", tmp_path / "channel")
    config = (copied / "config.toml").read_text()
    (copied / "config.toml").write_text(config.replace("family_options", "options_of_family"))
    assert "is incomplete: it has no 'family_options'" in message()
    (copied / "config.toml").write_text(config.replace("masks = 64", "masks = 63"))
    assert "does not fit its configuration" in message()
    (copied / "config.toml").write_text(config)
    (copied / "model.safetensors").unlink()
    assert "has no model yet" in message()
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("framework", ["moco", "swav", "supcon"])
def test_a_trained_channel_serves_other_frameworks(framework, runs):
    small = heads(framework, projector_dims=(8, 6), prototypes=10, out_dim=10, queue_size=16)
    options = {"epochs": 1, "batch_size": 8, "n_components": 8, "random_state": 0, "encoder": "cnn", **small}
    model = Contrastive(**options, view_maker=f"channel:{runs / 'images'}").fit(images(), labels(framework, images()))
    assert np.isfinite(model.metrics_[-1]["loss"]) and model.views(images(), 2).shape == (16, 2, 20, 20)


def test_channels_that_do_not_fit_are_refused(runs):
    def message(x, run="images", maker="channel:{}", **options):
        return refusal(Contrastive(epochs=1, view_maker=maker.format(runs / run), **options).fit, x)

    other = images(shape=(30, 30))
    assert "was trained on images of shape (28, 32), but the data are images of shape (30, 30)" in message(other)
    assert "the data are vectors of shape (9,)" in message(vectors())
    assert "the data are vectors of shape (8,)" in message(vectors()[:, :8], "vectors")
    assert "the data are images of shape (28, 32, 3)" in message(images(shape=(28, 32, 3)))
    assert "the data are dna" in message(dna())
    assert "is a run of contrastive, which has no augmentation channel" in message(vectors(), "other")
    whole = nn.Sequential(nn.Flatten(), nn.Linear(28 * 32, 5))
    assert "the encoder Sequential fails on samples of shape (1, 20, 20)" in message(images(), encoder=whole)
    assert "28 x 32 pixels have 10 x 10 pixels" in message(images(), "small crops", encoder="crl-cnn")
    assert "was trained with 'none': leave scaling out" in message(images(), scaling="standard")
    assert "nowhere" in message(images(), "nowhere")
    assert "expected channel:RUN, the folder of a crl-tac run" in message(images(), maker="channel:")
    assert "unknown view maker 'chanel:" in (typo := message(images(), maker="chanel:{}")) and "channel:RUN" in typo
    assert "changes the shape of a sample, put it last" in message(images(), maker="channel:{}+noise")
    assert "grid-crop changes the shape of a sample" in message(images(), maker="grid-crop+mixup")
    assert "10 x 10 pixels have 7 x 7 pixels" in message(np.zeros((8, 10, 10), np.uint8), maker="grid-crop")
