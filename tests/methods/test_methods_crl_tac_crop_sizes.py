"""The size of CRL-TAC's crops, chosen without labels."""

import numpy as np
import pytest
import torch

import viewsmith
from crl_tac_toys import TINY
from refusals import refusal
from viewsmith import CRLTAC
from viewsmith.methods.crl_tac import building as crop_search
from viewsmith.methods.crl_tac.building import crop_sizes, drawn_information, information

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
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
        (
            {},
            np.zeros((16, 40, 44), np.uint8),
            "crop_size is 'auto', but images are 40 x 44 pixels, too small to choose among crops of at least 20",
        ),
        ({"crop_scales": (1.0, 0.5)}, scenes(), "crop_size is 'auto' and crop_scales is given: choose one of them"),
        (
            {"crop_stride": "auto"},
            np.zeros((16, 9), np.float32),
            "crop_size is an option of the crops of images without effect for vectors: leave it out",
        ),
    ],
)
def test_data_and_options_without_a_choice_are_refused(options, x, line):
    assert line in refusal(CRLTAC(**SMALL | options, crop_size="auto").fit, x)
