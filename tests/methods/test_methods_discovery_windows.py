"""Windows without boxes: how much the best one stands out, and objects whose cells look like all others."""

import dataclasses
import itertools

import numpy as np
import pytest
from scipy.ndimage import zoom
from sklearn.datasets import load_digits

from viewsmith import Discovery
from viewsmith.data.any_size import as_images
from viewsmith.methods.discovery import image_parts, images
from viewsmith.methods.discovery.acceptance import Evidence
from viewsmith.methods.discovery.image_parts import as_windows, shares_below, stands_out

pytestmark = pytest.mark.usefixtures("small_searches")

TILE, SIDE = 8, 24


def tiles(n, seed, objects):
    """Gray images (n, 64, 64) of tiles cut from digits, with a whole digit in each if `objects`, and its corners."""
    rng = np.random.default_rng(seed)
    whole = np.clip(zoom(load_digits().images, (1, 3, 3), order=1) * 16, 0, 255).astype(np.uint8)
    pieces = whole[:, TILE // 2 : -TILE // 2, TILE // 2 : -TILE // 2]
    pieces = pieces.reshape(-1, 2, TILE, 2, TILE).transpose(0, 1, 3, 2, 4).reshape(-1, TILE, TILE)
    x = pieces[rng.integers(0, len(pieces), (n, 8, 8))].transpose(0, 1, 3, 2, 4).reshape(n, 64, 64).copy()
    corners = rng.integers(0, 64 - SIDE + 1, (n, 2))
    for image, (top, left) in zip(x, corners, strict=True):
        if objects:
            image[top : top + SIDE, left : left + SIDE] = whole[rng.integers(len(whole))]
    return x, corners


def test_stands_out_against_a_loop():
    score = np.random.default_rng(0).normal(size=(9, 30))
    score[:, 4] = -np.inf
    first, second = [], []
    for image in score.reshape(9, 5, 6):
        places = list(itertools.product(range(5), range(6)))
        best = max(places, key=lambda place: image[place])
        first.append(image[best])
        second.append(max(image[p] for p in places if abs(p[0] - best[0]) >= 2 or abs(p[1] - best[1]) >= 2))
    expected = np.mean([a > b for a in first for b in second])
    assert stands_out(score, 2, 6).mean() == pytest.approx(expected)
    assert np.isnan(stands_out(score, 6, 6)).all()  # no window apart from any other
    assert shares_below(np.array([1.0, 2, 3]), np.array([2.0, 2, 1, 4])).tolist() == [0.125, 0.5, 0.75]  # equal: half


@pytest.mark.parametrize(("columns", "outside", "share"), [(10, 0.6, 0.0), (4, 0.1, (40 / 46 - 0.4) / 0.6)])
def test_what_a_box_as_large_holds_by_chance_does_not_count(monkeypatch, columns, outside, share):
    maps, valid = np.random.default_rng(0).normal(size=(12, 10, 10, 3)).astype(np.float32), np.ones((12, 10, 10), bool)
    posterior = np.where(np.arange(10) < columns, 0.6 if columns == 10 else 1.0, outside) * valid
    plain = image_parts.cell_posteriors
    monkeypatch.setattr(image_parts, "cell_posteriors", lambda *given: (posterior, plain(*given)[1]))
    (part,) = image_parts.discover(maps, valid, windows=[4])
    assert part.consistency == pytest.approx(0.6 if columns == 10 else 40 / 46)
    assert part.shares == pytest.approx(np.full(12, share))


@pytest.mark.slow
def test_whole_digits_among_tiles_of_digits(tmp_path):
    x, corners = tiles(300, 0, objects=True)
    model = Discovery(windows=[5]).fit(x)
    assert "one kind of thing recurs, about 20 pixels" in model.describe() and "the size of the w" in model.describe()
    parts = model.search_.candidates(x)
    middle = np.stack([parts["top"] + parts["bottom"], parts["left"] + parts["right"]], 1) / 2 - corners
    assert ((middle >= 0) & (middle < SIDE)).all(1).mean() > 0.8
    model.save(tmp_path / "run")
    assert (Discovery.load(tmp_path / "run").locate(x) == model.locate(x)).all()
    maps, _ = model.search_._maps(as_images(x), np.arange(20))
    chances = model.parts_[0].posteriors(maps).repeat(4, 1).repeat(4, 2)
    for chance, part in zip(chances, parts, strict=False):
        inside = chance[part["top"] : part["bottom"], part["left"] : part["right"]]
        assert inside.min() == pytest.approx(chance.max())  # every cell of the best window has its probability


def test_features_of_larger_patches_are_also_those_of_random_phases(monkeypatch):
    """A second kind is sought in the patches that the first was found with, and compared with such ones."""
    seen = []
    plain = images.fit_patches
    monkeypatch.setattr(images, "fit_patches", lambda *a: seen.append(a[5]) or plain(*a))
    compared = iter([Evidence(0.0), Evidence(9.0, 0.0)])  # the second one is of larger patches
    monkeypatch.setattr(
        image_parts,
        "as_windows",
        lambda *pair: dataclasses.replace(as_windows(*pair), evidence=next(compared, Evidence())),
    )
    model = Discovery(windows=[5], kinds=2).fit(tiles(40, 0, objects=True)[0])
    assert int(model.search_.dense.reduction) == 2 and not model.parts_[0].boxed
    assert seen[:4] == [1, 1, 2, 2] or seen[:5] == [1, 1, 1, 2, 2]
    assert set(seen[-1:]) == {2} and "about 20 pixels large" in model.describe()


@pytest.mark.slow
def test_nothing_recurs_in_tiles_of_digits():
    with pytest.warns(UserWarning, match="nothing recurs"):
        assert not Discovery(windows=[5]).fit(tiles(300, 0, objects=False)[0]).recurs_
