"""CRL-TAC with custom transformations: a list of functions, or a Family."""

import functools
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

import viewsmith
from crl_tac_toys import dna, vectors
from quick_reports import with_drawings
from refusals import refusal
from viewsmith import CRLTAC, Contrastive, PiNDA
from viewsmith.cli import main
from viewsmith.methods.crl_tac.figures import channel_figures
from viewsmith.networks import ImageScores, MaskScores, SequenceScores
from viewsmith.views import Crops, Family
from viewsmith.workflows import runs as sessions
from viewsmith.workflows.runs import report_content

TINY = {"epochs": 2, "batch_size": 8, "random_state": 0, "draws": 2, "channel_rows": 4}


def images(n=16, shape=(20, 24)):
    return np.random.default_rng(0).integers(0, 256, (n, *shape)).astype(np.uint8)


def left(x):
    return x[..., : x.shape[-1] // 2]


def right(x):
    return x[..., x.shape[-1] - x.shape[-1] // 2 :]


def mirrored(x):
    return x.flip(-1)


def same(x):
    return x


class Powers(Family):
    """sign(x) |x|^k for k = 1 ... M."""

    def __init__(self, size=3):
        super().__init__()
        self.size = size

    def take(self, x, t):
        power = (t + 1).view(*t.shape, *[1] * (x.ndim - 1))
        return x[:, None].sign() * x[:, None].abs() ** power


DATA = {"images": images, "vectors": vectors, "dna": dna}
FAMILIES = {
    "functions": {
        "images": [left, right, lambda x: left(mirrored(x))],
        "vectors": [same, mirrored],
        "dna": [left, right],
    },
    "family": {"images": Powers(), "vectors": Powers(), "dna": Powers()},
}


@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("modality", DATA)
def test_fit_transform_views_save_and_load(modality, kind, tmp_path):
    x, family = DATA[modality](), FAMILIES[kind][modality]
    size = family.size if kind == "family" else len(family)
    model = CRLTAC(family=family, **TINY).fit(x, run=tmp_path / "run")
    channel = model.method_.channel
    assert channel.family.size == size and channel.family is not family and model.family is family
    scores = {"images": ImageScores, "vectors": MaskScores, "dna": SequenceScores}[modality]
    assert isinstance(channel.scores, scores) and model.method_.options.centered
    assert model.fitted_["effective_target"] == pytest.approx(0.9 * size)
    p = model.distribution(x)
    assert p.shape == (16, size) and np.allclose(p.sum(1), 1, atol=1e-5)
    assert (np.ptp(p, axis=1) > 0).all() or (modality, kind) == ("dna", "family")  # powers of one-hot bases are equal
    h, z, views = model.transform(x), model.transform(x, output="projection"), model.views(x, 3)
    assert np.isfinite(h).all() and np.isfinite(model.metrics_[-1]["loss"])
    half = kind == "functions" and modality != "vectors"
    assert views.shape == (16, 3, *x.shape[1:-1], x.shape[-1] // 2 if half else x.shape[-1])
    assert views.dtype == x.dtype
    loaded = viewsmith.load(tmp_path / "run", family=family)
    assert np.array_equal(loaded.transform(x), h) and np.array_equal(loaded.distribution(x), p)
    assert np.array_equal(loaded.transform(x, output="projection"), z) and np.array_equal(loaded.views(x, 3), views)
    loaded.save(tmp_path / "again")
    again = viewsmith.load(tmp_path / "again", family=family)
    assert np.array_equal(again.transform(x), h)


def test_a_channel_learns_the_informative_function():
    """Two of three functions remove all information: P moves to the third, up to the effective target."""
    x = np.random.default_rng(0).normal(size=(128, 9)).astype(np.float32)
    family = [torch.zeros_like, same, torch.zeros_like]
    options = {"epochs": 15, "batch_size": 32, "channel_learning_rate": 0.03, "effective_target": 1.5}
    p = CRLTAC(**TINY | options, family=family).fit(x).distribution(x)
    assert p[:, 1].mean() > 0.7


def test_a_copy_by_scikit_learn_has_the_same_functions():
    functions = [same, mirrored]
    model = CRLTAC(family=functions, **TINY)
    copied = clone(model)
    assert copied.get_params()["family"] == functions and "family=" in repr(copied)
    family = clone(CRLTAC(family=Powers(4), **TINY))
    np.testing.assert_array_equal(family.fit(vectors()).transform(vectors()), clone(family).fit_transform(vectors()))


def test_resume_takes_the_same_configuration(tmp_path):
    x, options = vectors(), {"family": [same, mirrored], **TINY}
    CRLTAC(**options).fit(x, run=tmp_path / "run")
    assert CRLTAC(**options).fit(x, run=tmp_path / "run", resume=True).status_ == "finished"
    for other in (Powers(), [same, mirrored, torch.neg]):
        message = refusal(CRLTAC(**options | {"family": other}).fit, x, run=tmp_path / "run", resume=True)
        assert "another configuration" in message and "family is 'family:2 functions' there" in message


def test_a_custom_encoder_accepts_the_views(tmp_path):
    encoder = nn.Sequential(nn.AdaptiveAvgPool1d(3), nn.Linear(3, 5))
    custom = {"encoder": encoder, "family": [lambda x: x[:, :4], lambda x: x[:, 4:8]]}
    model = CRLTAC(**custom, **TINY).fit(vectors(), run=tmp_path / "run")
    assert model.transform(vectors()).shape == (16, 5)
    assert np.array_equal(viewsmith.load(tmp_path / "run", **custom).transform(vectors()), model.transform(vectors()))


def test_a_grid_of_crops_as_custom_transforms(tmp_path):
    x, family = images(), Crops(20, 24, crop=12, stride=4)
    model = CRLTAC(family=family, **TINY).fit(x, run=tmp_path / "run")
    default = CRLTAC(crop_size=12, crop_stride=4, encoder="cnn", **TINY).fit(x)
    np.testing.assert_allclose(model.distribution(x), default.distribution(x), atol=1e-6)
    assert model.views(x, 1).shape == (16, 1, 12, 12)


# ---- reports -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_report_has_bars_with_the_names_of_the_functions(tmp_path):
    x = images()
    family = [same, mirrored, functools.partial(torch.roll, shifts=2, dims=-1), nn.ReLU()]
    model = CRLTAC(family=family, scaling="none", **TINY).fit(x, run=tmp_path / "run")
    with pytest.warns(UserWarning, match=r"viewsmith.report\('.*run', X, family=family\)"):
        viewsmith.report(tmp_path / "run", x)
    with warnings.catch_warnings(action="error"):
        html = with_drawings(viewsmith.report(tmp_path / "run", x, np.arange(16) % 2, family=family).read_text())
    assert all(name in html for name in (">0 same<", ">1 mirrored<", ">2 roll<", ">3 ReLU<", "t-SNE of 16"))
    p = model.distribution(x)[0]
    assert f"Sample 1: effectively {np.exp(-(p * np.log(p)).sum()):.3g} of 4" in html
    data = SimpleNamespace(x_train=x, x_test=None, y_train=None, modality="images", partly_labeled=False)
    figure = channel_figures(model, data)[0]
    most = p.argsort()[::-1][:3]
    views = [[x[0], x[0, :, ::-1], np.roll(x[0], 2, -1), x[0]][k] for k in most]
    assert np.array_equal(figure.data["views"][0], views)


def test_views_of_another_shape_have_no_units_and_no_pictures(tmp_path):
    custom_parts = {"encoder": nn.Sequential(nn.AdaptiveAvgPool1d(3), nn.Linear(3, 5)), "family": [left, right]}
    model = CRLTAC(**custom_parts, **TINY).fit(vectors(), run=tmp_path / "run")
    assert "views of the custom family have shape (4,), unlike samples (9,)" in refusal(model.views, vectors())
    html = with_drawings(viewsmith.report(tmp_path / "run", vectors(), **custom_parts).read_text())
    assert ">0 left<" in html and "six views of each" not in html


# ---- without the transforms -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("custom") / "run"
    CRLTAC(family=[same, mirrored], **TINY).fit(vectors(), run=folder)
    return folder


def test_loading_needs_the_same_custom_transforms(run, tmp_path):
    assert "is custom (2 functions): give it, as in viewsmith.load(run, family=family)" in refusal(viewsmith.load, run)
    message = refusal(viewsmith.load, run, family=[same, mirrored, torch.neg])
    assert "the family has 3 transformations, but the model was trained with 2" in message
    assert "leave encoder out" in refusal(viewsmith.load, run, encoder=nn.Identity(), family=[same, mirrored])
    CRLTAC(**TINY).fit(vectors(), run=tmp_path / "auto")
    assert "is 'auto', which is not custom" in refusal(viewsmith.load, tmp_path / "auto", family=[same, mirrored])
    PiNDA(epochs=1, batch_size=8).fit(vectors(), run=tmp_path / "pinda")
    assert "leave family out" in refusal(viewsmith.load, tmp_path / "pinda", family=[same, mirrored])


def test_commands_refuse_runs_with_custom_transforms(run, tmp_path, capsys):
    np.save(tmp_path / "x.npy", vectors())
    with pytest.raises(SystemExit, match="2"):
        main(["embed", str(run), str(tmp_path / "x.npy"), "--out", str(tmp_path / "h.npz")])
    message = capsys.readouterr().err
    assert (
        "is custom, which commands cannot load" in message and f"viewsmith.load({str(run)!r}, family=family)" in message
    )
    with pytest.warns(UserWarning, match="no maps and galleries: the family is custom"):
        report_content(sessions.RunFolder(run), data=str(tmp_path / "x.npy"), pictures=True)


def test_other_methods_refuse_a_channel_with_custom_transforms(run):
    message = refusal(Contrastive(epochs=1, view_maker=f"channel:{run}").fit, vectors())
    assert "has custom transformations" in message


# ---- errors -------------------------------------------------------------------------------------------------------


class Wrong(Powers):
    def take(self, x, t):
        return super().take(x, t)[:, :1]


class Named(Powers):
    def __init__(self, names):
        super().__init__()
        self.names = names


class Random(Powers):
    def take(self, x, t):
        views = super().take(x, t)
        return views + torch.rand_like(views)


class Failing(Powers):
    def take(self, x, t):
        raise KeyError("scale")


class Sizeless(Family):
    def take(self, x, t):
        return x[:, None].expand(-1, t.shape[1], *x.shape[1:])


@pytest.mark.parametrize(
    ("family", "part"),
    [
        ([same, lambda x: x / 0], "transformation 1 (<lambda>) returned values that are not finite"),
        ([same, torch.rand_like], "returns different views of the same samples in a second call"),
        ([left, right], "the encoder mlp expects samples of shape (9,), but the views of the family have shape (4,)"),
        ([same, 3], "expected string or an instance of Family or callable"),
        ("crops", "family is 'crops', expected 'auto', or in Python a viewsmith.views.Family or a list of functions"),
        ("family:Powers", "give it, as in viewsmith.load(run, family=family)"),
        (3, "expected string or an instance of Family or a list"),
        (same, "instance of Family"),
        (Named("three"), "the family Named has the names 'three', expected 3 strings or None"),
        (Named(["one", "two"]), "the family Named has the names ['one', 'two'], expected 3 strings"),
        (Powers(1), "the family Powers has size 1, expected at least 2"),
        (Sizeless(), "the family Sizeless has size None, expected at least 2"),
        (Wrong(), "the family Wrong returns (16, 1, 9), expected (16, 3, ...)"),
        (Random(), "the family Random returns different views of the same samples"),
        (Failing(), "the family Failing fails on samples (16, 9): KeyError: 'scale'"),
        (Powers(400), "the family Powers returned values that are not finite"),
    ],
)
def test_invalid_transforms_are_refused_before_anything_is_written(family, part, tmp_path):
    assert part in refusal(CRLTAC(family=family, **TINY).fit, vectors(), run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        ([lambda x: x[..., :6, :6], lambda x: x[..., -6:, -6:]], "have 6 x 6 pixels, but the encoder cnn needs"),
        ([lambda x: x.flatten(1), lambda x: -x.flatten(1)], "but the views of the family have shape (480,)"),
        ([lambda x: x.repeat(1, 3, 1, 1)] * 2, "but the views of the family have shape (3, 20, 24)"),
    ],
)
def test_views_that_the_encoder_does_not_accept_are_refused(family, expected):
    assert expected in refusal(CRLTAC(family=family, **TINY).fit, images())


def test_a_function_that_fails_on_a_later_sample_is_named():
    x = vectors(600)
    x[599] = -50.0
    message = refusal(CRLTAC(family=[same, lambda x: (x + 30).sqrt()], scaling="none", **TINY).fit, x)
    assert "transformation 1 (<lambda>) returned values that are not finite" in message
