"""CRL-TAC's crops: their size chosen without labels, encoders of all in one pass, the start of the channel."""

import numpy as np
import pytest
import torch

import viewsmith
from crl_tac_toys import TINY, dna, images, vectors
from refusals import refusal
from viewsmith import CRLTAC
from viewsmith.methods.crl_tac import building as crop_search
from viewsmith.methods.crl_tac.building import crop_sizes, drawn_information, information
from viewsmith.views import Crops

SMALL = TINY | {"epochs": 1, "crop_stride": 4}


def scenes(n=16, side=48):
    """Images with a random square of 20 pixels on black."""
    draw = np.random.default_rng(0)
    x = np.zeros((n, side, side), np.uint8)
    for image in x:
        top, left = draw.integers(0, side - 20, 2)
        image[top : top + 20, left : left + 20] = draw.integers(0, 256, (20, 20))
    return x


@pytest.fixture
def brief(monkeypatch):
    monkeypatch.setattr(crop_search, "TRIAL_STEPS", 2)
    monkeypatch.setattr(crop_search, "TRIAL_BATCH", 8)


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((84, 84), [20, 28, 40]),
        ((64, 90, 3), [20, 32]),
        ((300, 224), [56, 72, 112]),
        ((48, 48), [20, 24]),
        ((40, 40), [20]),
        ((39, 80), []),
    ],
)
def test_sizes_are_fractions_of_the_shorter_side(shape, sizes):
    assert crop_sizes(shape) == sizes


def test_information_equals_a_loop():
    torch.manual_seed(0)
    n, m, d = 5, 9, 4
    z = torch.nn.functional.normalize(torch.randn(n, m, d, dtype=torch.float64), dim=2)
    p = torch.rand(n, m, dtype=torch.float64)
    t = torch.multinomial(p, crop_search.DRAWS, replacement=True, generator=torch.Generator().manual_seed(3))
    total = 0.0
    for i in range(n):
        for one in t[i]:
            own = np.mean([np.exp(5 * float(z[i, one] @ z[i, other])) for other in t[i]])
            every = np.mean([np.exp(5 * float(z[i, one] @ z[j, other])) for j in range(n) for other in t[j]])
            total += np.log(own / every) / n / crop_search.DRAWS
    assert drawn_information(z, p, torch.Generator().manual_seed(3)) == pytest.approx(total, rel=1e-12)


def test_the_size_with_the_largest_information_is_chosen(brief, tmp_path, capsys):
    x = scenes()
    model = CRLTAC(**SMALL | {"verbose": True}, crop_size="auto").fit(x, run=tmp_path / "run")
    scores = model.facts_.crop_size_scores
    best = max(scores, key=scores.get)
    assert list(scores) == ["20", "24"] and scores["20"] != scores["24"]
    assert model.facts_.family_options["crop_size"] == int(best) == model.crops(x)[0].shape[1]
    assert (
        f"crop_size: {best} pixels (information: 20 {scores['20']:.2f}, 24 {scores['24']:.2f})"
        in capsys.readouterr().err
    )

    loaded = viewsmith.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.transform(x), model.transform(x))
    assert loaded.facts_.crop_size_scores == pytest.approx(scores)
    given = CRLTAC(**SMALL, crop_size=int(best)).fit(x)  # the same training as with this number
    np.testing.assert_array_equal(given.transform(x), model.transform(x))
    assert given.facts_.crop_size_scores == {}
    CRLTAC(**SMALL, crop_size="auto").fit(x, run=tmp_path / "run", resume=True)  # the search finds the same size


def test_trials_see_crops_of_20_pixels_on_resized_images(brief, monkeypatch):
    seen = []
    monkeypatch.setattr(
        crop_search,
        "information",
        lambda method, x, generator: seen.append(method.channel.family.grids) or float(len(seen)),
    )
    model = CRLTAC(**SMALL, crop_size="auto").fit(scenes())
    assert seen == [[(8, 8)], [(6, 6)]]  # images of 48 and of 40 pixels
    assert model.facts_.family_options["crop_size"] == 24


def test_information_is_of_whole_parts(brief, monkeypatch):
    model, generators = CRLTAC(**SMALL).fit(scenes()), [torch.Generator().manual_seed(1) for _ in "ab"]
    x = model.samples(scenes())[:]
    monkeypatch.setattr(crop_search, "SCORED_AT_ONCE", 6)
    z, p = model.method_.every_projection(x), model.method_.channel.log_p(x).exp()
    expected = [drawn_information(z[part], p[part], generators[0]) for part in (slice(0, 6), slice(6, 12))]
    assert information(model.method_, x, generators[1]) == pytest.approx(np.mean(expected), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(
    ("options", "x", "line"),
    [
        ({}, np.zeros((16, 40, 44), np.uint8), "crop_size is 'auto', but images are 40 x 44 pixels, too small"),
        ({"crop_scales": (1.0, 0.5)}, scenes(), "crop_size is 'auto' and crop_scales is given: choose one of them"),
        ({"crop_stride": "auto"}, np.zeros((16, 9), np.float32), "crop_size is an option of the crops of images"),
    ],
)
def test_data_and_options_without_a_choice_are_refused(options, x, line):
    assert line in refusal(CRLTAC(**SMALL | options, crop_size="auto").fit, x)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"crop_size": 24, "crop_flips": True}, {"precision": "bf16"}])
def test_a_residual_network_that_encodes_all_crops_in_one_pass(tmp_path, options):
    x = images(shape=(28, 32, 3))
    model = CRLTAC(**TINY | {"epochs": 2}, encoder="resnet18-dense", **options).fit(x)
    method, family = model.method_, model.method_.channel.family
    assert method.options.centered and model.fitted_["n_components"] == 512 and family.is_dense(method.encoder)
    model.save(tmp_path / "run")
    h = viewsmith.load(tmp_path / "run").transform(x, inference="uniform")
    views = family.all_views(torch.from_numpy(model.scaled(x))).flatten(0, 1)
    with torch.no_grad():
        one_by_one = method.encoder(views).unflatten(0, (16, -1)).mean(dim=1).numpy()
    np.testing.assert_allclose(h, one_by_one, atol=1e-5, rtol=1e-4)


def test_a_residual_network_with_a_standard_stem_takes_larger_crops():
    x = images(shape=(48, 56))
    options = {"encoder": "resnet18-dense", "stem": "standard"}
    model = CRLTAC(**TINY, **options, crop_size=40, crop_stride=8).fit(x)
    assert model.method_.channel.family.is_dense(model.method_.encoder) and model.distribution(x).shape == (16, 6)
    message = refusal(CRLTAC(**TINY, **options).fit, x)
    assert (
        message
        == "images are 20 x 20 pixels, expected at least 39 x 39: enlarge them, or take larger crops (crop_size)"
    )


@pytest.mark.parametrize(
    ("crops", "encoder", "centered"),
    [
        ({}, "crl-cnn", False),
        ({"crop_size": 27}, "crl-cnn", False),
        ({"crop_size": 24, "crop_stride": 8}, "crl-cnn", False),
        ({"crop_stride": 6}, "cnn", True),
        ({"crop_size": 16}, "cnn", True),
    ],
)
def test_the_default_encoder_encodes_all_crops_in_one_pass_where_it_can(crops, encoder, centered):
    model = CRLTAC(**TINY, **crops).fit(images(shape=(32, 40)))
    assert (model.fitted_["encoder"], model.method_.options.centered) == (encoder, centered)
    assert model.method_.channel.family.is_dense(model.method_.encoder) is not centered


def test_images_are_centered_unless_most_of_their_pixels_are_black():
    dark = images()
    bright = np.maximum(dark, 1)
    bright[:, : bright.shape[1] // 2 - 1] = 0  # almost half
    scaling = [CRLTAC(**TINY).fit(x).fitted_["scaling"] for x in (dark, bright)]
    assert scaling == ["none", "standard"]
    assert CRLTAC(**TINY, scaling="none").fit(bright).fitted_["scaling"] == "none"
    uniform = CRLTAC(**TINY).fit(bright)
    assert abs(uniform.scaled(bright).mean()) < 1e-4


def test_crops_near_each_other_start_the_channel():
    x = images()
    assert [CRLTAC(**TINY, start_steps=n).fit(x).method_.start_steps for n in (0, 7)] == [0, 7]
    assert CRLTAC(**TINY).fit(x).method_.start_steps == 0  # mostly black
    method = CRLTAC(**TINY, scaling="standard").fit(x).method_
    assert method.start_steps == 50 and method.near.shape == (12, 12) and "near" not in method.state_dict()
    assert CRLTAC(**TINY, scaling="standard", channel="uniform").fit(x).method_.start_steps == 0
    assert CRLTAC(**TINY).fit(vectors()).method_.start_steps == 0
    given = CRLTAC(**TINY, start_steps=7, family=Crops(*x.shape[1:], crop=20, stride=4), encoder="cnn")
    assert given.fit(x).method_.start_steps == 7
    for make, options in ((vectors, {}), (dna, {}), (images, {"family": [torch.neg, torch.abs]})):
        message = refusal(CRLTAC(**TINY, start_steps=7, **options).fit, make())
        assert "start_steps is an option of crops without effect" in message


def test_the_channel_of_crops_prefers_what_recurs():
    x = images()  # mostly black
    weights = [CRLTAC(**TINY, recurrence_weight=weight).fit(x).method_.chosen_views.weight for weight in ("auto", 2)]
    assert weights == [3, 2]
    plain = ({"recurrence_weight": 0}, {"scaling": "standard"})
    uniform = ({"channel": "uniform"}, {"channel": "uniform", "recurrence_weight": 2})
    for options in (*plain, *uniform):
        assert CRLTAC(**TINY, **options).fit(x).method_.chosen_views is None
    for make in (vectors, dna):
        assert CRLTAC(**TINY).fit(make()).method_.chosen_views is None
        assert CRLTAC(**TINY, recurrence_weight=2).fit(make()).method_.chosen_views.weight == 2


def clutter(n=192, side=44):
    """Images of random tiles, 4 x 4 pixels, with an object of 24 x 24: stripes, different in each; and its corner."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (n, side // 4, side // 4)).repeat(4, 1).repeat(4, 2)
    corners = rng.integers(0, side - 24 + 1, (n, 2))
    phase, ways = rng.uniform(0, 6.3, (n, 1, 1)), rng.normal(0, 0.25, (n, 2, 1, 1))
    waves = np.sin(phase + ways[:, 0] * np.arange(24)[:, None] + ways[:, 1] * np.arange(24))
    for image, wave, (top, left) in zip(x, waves, corners, strict=True):
        image[top : top + 24, left : left + 24] = 127.5 + 127.5 * wave
    return x.astype(np.uint8), corners


@pytest.mark.slow
def test_the_channel_finds_an_object_in_clutter_in_few_steps():
    x, corners = clutter()
    found = {}
    for name, options in {"default": {"start_steps": 30}, "before": {"start_steps": 0, "scaling": "none"}}.items():
        boxes = CRLTAC(batch_size=32, epochs=5, random_state=0, **options).fit(x).locate(x)
        centers = np.stack([boxes["top"] + boxes["height"] / 2, boxes["left"] + boxes["width"] / 2], 1)
        off = np.abs(centers - corners[boxes["sample"]] - 12).max(1)
        found[name] = (off < 8).sum() / len(x)
    assert found["default"] > 0.7 and found["before"] < 0.5, found
