"""Kinds of parts in images after the first: places that fill them, and small ones in some of the images."""

import dataclasses

import numpy as np
import pytest

from viewsmith import Discovery
from viewsmith.data.any_size import as_images
from viewsmith.methods.discovery import image_parts
from viewsmith.methods.discovery.contrast import choose_windows, folds
from viewsmith.methods.discovery.images import PARTS, Rest, random_phases
from viewsmith.methods.discovery.report import SHOWN, _spread, _summary, write_parts_report


def noise(n, seed, shape=(20, 20), d=6):
    return np.random.default_rng(seed).normal(size=(n, *shape, d)).astype(np.float32)


def planted(maps, side, count, seed, some=1.0):
    """Adds squares apart from each other that look alike, and returns their corners: one array (count, 2) an image."""
    rng, places = np.random.default_rng(seed), []
    for i, image in enumerate(maps):
        corners = np.zeros((0, 2), int)
        while len(corners) < (count if i < some * len(maps) else 0):
            new = rng.integers(0, image.shape[0] - side + 1, 2)
            if (abs(corners - new).max(1, initial=0) >= side).all():
                corners = np.vstack([corners, new])
                image[new[0] : new[0] + side, new[1] : new[1] + side] += [4, -4, 4, 0, 0, 0]
        places.append(corners)
    return places


@pytest.mark.parametrize(("border", "apart"), [(0.0, 3), (0.5, 4)])
def test_windows_apart_against_a_loop(border, apart):
    scores = np.random.default_rng(0).normal(size=(5, 6, 7))
    scores[0] = -np.inf
    found = image_parts.windows_apart(scores, 3, 4, border)
    for i, image in enumerate(scores):
        left = {(r, c): image[r, c] for r in range(6) for c in range(7) if np.isfinite(image[r, c])}
        for boxes, best in found:
            if not left:
                assert best[i] == -np.inf and (boxes[i] == 0).all()
                continue
            row, column = max(left, key=left.__getitem__)
            assert best[i] == left[row, column] and list(boxes[i]) == [row, column, row + 3, column + 3]
            left = {(r, c): v for (r, c), v in left.items() if abs(r - row) >= apart or abs(c - column) >= apart}


def test_agreement_against_a_loop():
    rng = np.random.default_rng(0)
    held, inside = rng.uniform(size=(3, 4, 5)), rng.uniform(size=(3, 4, 5)) < 0.3
    held[2], inside[2] = 0, False  # an image without anything
    shares = []
    for p, box in zip(held[:2], inside[:2], strict=True):
        shares.append(p[box].sum() / (box.sum() + p[~box].sum()))
    assert image_parts.agreement(held, inside) == pytest.approx([*shares, 0])


def test_only_the_share_of_the_samples_with_the_best_windows_is_fitted():
    """With half of the samples present, windows of the others have no weight in the density of the chosen ones."""
    z, rng = noise(16, 0, (1, 30), 4).reshape(16, 30, 4), np.random.default_rng(1)
    z[:8, 3] = [9, 0, 0, 0] + rng.normal(size=(8, 4)) / 9
    whole, fold = np.ones((16, 30), bool), folds(16, 0)
    score, contrast = choose_windows(z, whole, fold, count=1, present=0.5)
    assert (score[:8].argmax(1) == 3).all()
    np.testing.assert_allclose(contrast.chosen.mean, z[:8, 3].mean(0), atol=1e-5)
    _, everywhere = choose_windows(z, whole, fold, count=1)
    assert abs(everywhere.chosen.mean - contrast.chosen.mean).max() > 1


def test_a_kind_that_fills_the_images_agrees_with_its_squares():
    maps = noise(24, 0)
    places = planted(maps, 4, 6, 0)
    free = np.ones(maps.shape[:3], bool)
    part, nothing = image_parts.filling(maps, free, 4, 0), image_parts.filling(noise(24, 1), free, 4, 0)
    assert part.consistency > 0.8 > nothing.consistency + 0.3
    found, near = image_parts.boxes_of(part, maps, free, part.count), []
    assert part.count == image_parts.COUNT == len(found)
    for i, corners in enumerate(places):
        boxes = np.array([boxes[i] for boxes, scores in found if np.isfinite(scores[i])])
        middles = (boxes[:, None, :2] + boxes[:, None, 2:]) / 2 - corners - 2
        near.extend((abs(middles).max(-1) <= 1.5).any(0))
    assert np.mean(near) > 0.9


def test_a_kind_fills_the_images_if_its_squares_agree_or_its_windows_are_alike():
    maps, free = noise(24, 0), np.ones((24, 20, 20), bool)
    planted(maps, 4, 6, 0)
    part, nothing = image_parts.filling(maps, free, 4, 0), image_parts.filling(noise(24, 1), free, 4, 0)
    assert (
        image_parts.fills(part, nothing)
        and not image_parts.fills(nothing, nothing)
        and not image_parts.fills(image_parts.filling(noise(24, 2), free, 4, 0), nothing)
    )
    less = dataclasses.replace(part, consistency=nothing.consistency + 0.11)
    assert image_parts.fills(less, nothing) == (less.consistency >= 0.38)
    assert not image_parts.fills(
        dataclasses.replace(less, consistency=0.5, objective=1.3), dataclasses.replace(less, objective=1)
    )
    assert image_parts.fills(
        dataclasses.replace(less, consistency=0.5, objective=1.5), dataclasses.replace(less, objective=1)
    )
    assert not image_parts.fills(
        dataclasses.replace(part, consistency=0.37), dataclasses.replace(nothing, consistency=0.1)
    )


def test_a_small_kind_of_some_images_is_clear_and_noise_is_not():
    maps, other = noise(60, 0), noise(40, 1)
    places = planted(maps, 1, 1, 0, some=0.5)
    free = np.ones(maps.shape[:3], bool)
    free[places[0][0][0], places[0][0][1]] = False  # taken by another kind in all images
    part, null = image_parts.small(maps, free, 1, 0, other)
    assert part.evidence.recurs(3) and null.shape == (40, 1)
    ((boxes, scores),) = image_parts.boxes_of(part, maps, free, 1)
    hits = [list(boxes[i, :2]) == list(places[i][0]) for i in range(1, 30)]
    assert np.mean(hits) > 0.9 and np.median(scores[1:30]) > null.max() > np.median(scores[30:])
    assert not image_parts.small(noise(60, 2), np.ones(maps.shape[:3], bool), 1, 0, other)[0].evidence.recurs(3)


def test_cells_of_a_place_are_no_other_kinds():
    maps, free, null = noise(5, 0), np.ones((5, 20, 20), bool), np.arange(-100.0, 1.0)[:, None]
    places = [[5, 6, 9, 10]] * 3 + [[0, 0, 0, 0]], [[0, 12, 4, 16]] * 3 + [[0, 0, 0, 0]]
    scores = [[1.0, -4.0, -6.0, -np.inf], [1.0, -4.0, -6.0, -np.inf]]
    pairs = zip(places, scores, strict=True)
    found = [(np.array([*boxes, [12, 1, 16, 5]]), np.array([*own, 2.0])) for boxes, own in pairs]

    def taken(part):
        left = image_parts.without(free, found, part, null)
        assert not left[0, 5:9, 6:10].any() and left[3].all()
        return (~left).sum((1, 2)).tolist()

    many = image_parts.filling(maps, free, 4, 0)
    assert taken(many) == [32, 32, 32, 0, 16]
    # The first place is one whatever its score is, the second only with a high one: 8 x 8 and 6 x 8 cells, of which
    # 3 x 2 are common; the last one at an edge.
    one = dataclasses.replace(many, count=1)
    assert taken(one) == [64 + 48 - 3 * 2, 64 + 48 - 3 * 2, 64, 0, 8 * 7]
    # A window without a box may be in the middle of what it shows: 4 cells on each side.
    assert taken(dataclasses.replace(one, boxed=False))[2:] == [144, 0, 12 * 9]
    assert taken(image_parts.small(maps, free, 2, 0, maps)[0]) == [64 + 48 - 3 * 2, 64 + 48 - 3 * 2, 0, 0, 8 * 7]


def test_random_phases_of_what_is_left():
    """The places of kinds before have the mean of the other pixels before phases are drawn."""
    x = np.random.default_rng(0).integers(0, 256, (5, 32, 40, 3), np.uint8)
    valid = np.ones((5, 8, 10), bool)
    free = valid.copy()
    free[:, 2:4, 5:9] = False
    drawn = Rest(as_images(x), np.arange(5), valid, free, 3).drawn(2)
    some = np.sort(np.random.default_rng(3).permutation(5)[:2])
    for i, at in enumerate(some):
        filled, covered = x[at].copy(), np.zeros((32, 40), bool)
        covered[8:16, 20:36] = True
        filled[covered] = filled[~covered].mean(0).round()
        expected = random_phases(filled, np.random.default_rng((3, i)))
        np.testing.assert_array_equal(drawn.read(i, (32, 40)), expected)
    untouched = Rest(as_images(x), np.arange(5), valid, valid, 3).drawn(1).read(0, (32, 40))
    one = np.random.default_rng(3).permutation(5)[0]
    np.testing.assert_array_equal(untouched, random_phases(x[one], np.random.default_rng((3, 0))))


def test_the_report_shows_each_image_once_those_of_the_first_kind_first():
    rows = [(4, 1, 9.0), (3, 0, 8.0), (2, 1, 7.0), (3, 0, 6.0), (1, 0, 5.0), (1, 1, 4.0)]
    ranked = np.array([(sample, kind, 0, 0, 0, 0, score, 0.01, False) for sample, kind, score in rows], PARTS)
    assert _spread(ranked).tolist() == [3, 1, 4, 2] and _spread(ranked[:0]).tolist() == []
    many = np.repeat(ranked[:1], 100)
    many["sample"] = np.arange(100)
    assert _spread(many).tolist() == np.linspace(0, 99, SHOWN).astype(int).tolist()
    assert _summary(ranked[[1, 3]]) == "8.0 (q 0.010), 6.0 (q 0.010)"
    assert _summary(ranked[4:]) == "1 of kind 0, 1 of kind 1"


def scene(n, seed, many_alone=False):
    """Images (n, 96, 128, 3): a large blue disc each, 14 pink discs, a small green one in half of the images; or only
    the pink ones."""
    rng = np.random.default_rng(seed)
    row, column = np.mgrid[:96, :128]
    x = np.full((n, 96, 128, 3), 210.0)
    taken = [np.zeros((0, 3)) for _ in range(n)]

    def disc(i, radius, color):
        for _ in range(200):
            y, z = rng.integers(radius, 96 - radius), rng.integers(radius, 128 - radius)
            if (np.hypot(taken[i][:, 0] - y, taken[i][:, 1] - z) > taken[i][:, 2] + radius + 3).all():
                x[i][np.hypot(row - y, column - z) <= radius] = np.array(color) + rng.normal(size=3) * 4
                taken[i] = np.vstack([taken[i], [y, z, radius]])
                return

    for i in range(n):
        if not many_alone:
            disc(i, 15, (60, 50, 170))
        for _ in range(14):
            disc(i, 8, (205, 150, 160))
        if i % 2 and not many_alone:
            disc(i, 4, (60, 160, 60))
    return np.clip(x + rng.normal(size=x.shape) * 5, 0, 255).astype(np.uint8), taken


@pytest.mark.slow
def test_large_small_and_many_discs_are_three_kinds(tmp_path):
    x, discs = scene(60, 0)
    model = Discovery(kinds=3, max_parts=8).fit(x)
    parts = model.locate(x)
    assert set(parts["kind"]) == {0}
    write_parts_report(tmp_path / "first.html", model, as_images(x), parts, None, title="discs")
    assert "2 further kinds were found, but" in (said := model.describe(parts, 60)) and "unjudged=True lists" in said
    model.set_params(unjudged=True)
    parts = model.locate(x)
    assert set(parts["kind"]) == {0, 1, 2} and "further" not in model.describe(parts)
    assert model.describe(parts).count("how many of these are wrong is not known") == 2
    assert [(part.boxed, part.count) for part in model.parts_] == [(True, 1), (False, 1), (True, image_parts.COUNT)]
    assert model.parts_[1].window in image_parts.SMALL
    for words in ("one kind of thing recurs", "one kind of small thing stands out", "fills the images"):
        assert words in model.describe()
    parts = model.search_.candidates(x)
    parts = parts[np.lexsort((-parts["score"], parts["kind"], parts["sample"]))]
    middle = np.stack([parts["top"] + parts["bottom"], parts["left"] + parts["right"]], 1) / 2
    radius = np.array(
        [
            min(discs[p["sample"]], key=lambda disc: np.hypot(disc[0] - m[0], disc[1] - m[1]) - disc[2])[2]
            for p, m in zip(parts, middle, strict=True)
        ]
    )
    first = np.r_[True, (np.diff(parts["sample"]) != 0) | (np.diff(parts["kind"]) != 0)]
    assert (radius[first & (parts["kind"] == 0)] == 15).all()
    of_small = parts[first & (parts["kind"] == 1) & (parts["sample"] % 2 == 1)]
    assert (radius[first & (parts["kind"] == 1) & (parts["sample"] % 2 == 1)] == 4).mean() >= 0.9  # 27 of 30
    # A window of k cells has half a cell around it, as far as that is in the image.
    assert set(of_small["right"] - of_small["left"]) <= {4 * model.parts_[1].window + 2, 4 * model.parts_[1].window + 4}
    assert (radius[parts["kind"] == 2] == 8).mean() > 0.9
    write_parts_report(tmp_path / "page.html", model, as_images(x), parts, None, title="discs")
    page = (tmp_path / "page.html").read_text()
    assert all(
        f"Best parts of kind {kind} ({color} boxes)" in page for kind, color in enumerate(("red", "blue", "green"))
    )
    model.save(tmp_path / "run")
    assert (Discovery.load(tmp_path / "run").locate(x) == model.locate(x)).all()


@pytest.mark.slow
def test_images_full_of_one_kind_of_thing(tmp_path):
    x, discs = scene(24, 0, many_alone=True)
    with pytest.warns(UserWarning, match="for images full of one kind of thing, give max_parts=12"):
        assert not Discovery(features="patches").fit(x).recurs_
    model = Discovery(features="patches", max_parts=14).fit(x)
    assert [(part.boxed, part.count) for part in model.parts_] == [(True, image_parts.COUNT)]
    assert model.describe().startswith("one kind of thing fills the images, about 16 pixels large")
    parts = model.locate(x)
    middle = np.stack([parts["top"] + parts["bottom"], parts["left"] + parts["right"]], 1) / 2
    inside = [(np.hypot(*(discs[p["sample"]][:, :2] - m).T) <= 8).any() for p, m in zip(parts, middle, strict=True)]
    assert np.mean(inside) > 0.9 and len(parts) > 24 * 8
    assert (Discovery.load(model.save(tmp_path / "run") or tmp_path / "run").locate(x) == parts).all()


def test_no_further_kind_where_a_thing_fills_its_small_images():
    rng = np.random.default_rng(0)
    x = np.zeros((30, 40, 40), np.uint8)
    for i, image in enumerate(x):
        image[5 + i % 8 : 20 + i % 8, 8:22] = 200
    x += rng.integers(0, 30, x.shape, dtype=np.uint8)
    model = Discovery(kinds=3, features="patches").fit(x)
    assert len(model.parts_) == 1 == len(model.tried_) and len(np.unique(model.locate(x)["sample"])) == 30
