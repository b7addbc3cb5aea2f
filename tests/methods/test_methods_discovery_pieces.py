"""Discovery of things apart on a plain background: found ones, any depth and number, nothing, files, the choice."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from cases import slow
from refusals import refusal
from viewsmith import Discovery
from viewsmith.data.any_size import as_images
from viewsmith.methods.discovery import pieces
from viewsmith.methods.discovery.pieces import Pieces, PieceSearch, otsu_boxes, plain_range
from viewsmith.methods.discovery.report import write_parts_report

pytestmark = pytest.mark.usefixtures("small_searches")


def nuclei(counts, seed=0, side=200, radius=9):
    """Images uint8 (n, side, side) with as many soft discs of different brightness, and their centers, x and y."""
    rng, row, column = np.random.default_rng(seed), *np.mgrid[:side, :side]
    x, centers = np.zeros((len(counts), side, side)), []
    for image, count in zip(x, counts, strict=True):
        places = rng.permutation(list(itertools.product(range(16, side - 15, 26), repeat=2)))[:count]
        places = places + rng.integers(-2, 3, (count, 2))
        for across, down in places:
            away = np.hypot(row - down, (column - across) * rng.uniform(0.9, 1.1))
            image += rng.uniform(30, 120) / (1 + np.exp(away - radius))
        centers.append(places)
    return np.clip(x + 20 + rng.normal(0, 2, x.shape), 0, 255).astype(np.uint8), centers


def hits(parts, centers):
    """Parts, and centers, that are one in the middle of the other."""
    found = 0
    for i, own in enumerate(centers):
        of = parts[parts["sample"] == i]
        middle = np.stack([of["left"] + of["right"], of["top"] + of["bottom"]], 1) / 2
        found += (np.abs(middle[None] - own[:, None]).max(2) <= 3).sum() if len(own) else 0
    return found


@pytest.mark.parametrize("counts", [[40], slow([1] * 20), [0, 3, 40, 12, 25]])
def test_things_on_a_plain_background_are_found_whole_in_any_number(counts):
    x, centers = nuclei(counts)
    model = Discovery().fit(list(x))
    parts = model.locate(list(x))
    assert isinstance(model.search_, PieceSearch)
    if len(counts) == 5:
        np.testing.assert_array_equal(Discovery().fit(list(x[::-1])).locate(list(x)), parts)  # in any order
    assert hits(parts, centers) >= 0.9 * sum(counts) and hits(parts, centers) >= 0.9 * len(parts)
    assert 15 <= np.median(parts["right"] - parts["left"]) <= 21
    # With eight images of random phases no q of one thing each in small noisy images is below 1/9 times the noise.
    assert len(model.search_.null[0]) == pieces.CHECKED * 512**2 // 200**2


def test_two_that_touch_are_two():
    row, column = np.mgrid[:200, :200]
    x, _ = nuclei([30])
    pair = [1 / (1 + np.exp(np.hypot(row - 100, column - across) - 9)) for across in (90, 109)]
    x = np.maximum(x[0], (20 + 90 * np.maximum(*pair)).astype(np.uint8))
    x[75:125, 70:80] = x[75:125, 120:130] = x[75:85, 70:130] = x[115:125, 70:130] = 20
    parts = Discovery().fit([x]).locate([x])
    middle = (parts["left"] + parts["right"]) / 2, (parts["top"] + parts["bottom"]) / 2
    assert all(((abs(middle[0] - across) < 4) & (abs(middle[1] - 100) < 4)).any() for across in (90, 109))


def test_the_same_pixels_at_another_depth_have_the_same_parts():
    x, _ = nuclei([10, 30])
    parts = Discovery().fit(x).locate(x)
    for deep in (x.astype(np.uint16) * 257, x.astype(np.uint16)):
        assert len(parts) > 30 and (Discovery().fit(deep).locate(deep) == parts).all()


def test_dark_things_and_one_channel_of_many():
    x, centers = nuclei([20, 30])
    dark = 255 - x
    assert hits(Discovery().fit(dark).locate(dark), centers) >= 45
    many = np.random.default_rng(0).normal(100, 5, (2, 200, 200, 4)).astype(np.float32)
    many[..., 2] = x
    model = Discovery().fit(many)
    assert model.search_.channel == 2 and hits(model.locate(many), centers) >= 45


def test_at_most_as_many_as_asked_and_the_best_first():
    x, _ = nuclei([20, 30, 2])
    few, every = (Discovery(max_parts=n).fit(x).locate(x) for n in (5, None))
    assert np.bincount(few["sample"]).tolist() == [5, 5, 2]
    assert set(few["score"]) <= set(every["score"])


def test_strokes_noise_and_photographs_have_no_plain_background():
    rng = np.random.default_rng(0)
    noise = rng.normal(100, 20, (8, 64, 64)).clip(0, 255).astype(np.uint8)
    strokes = np.zeros((8, 128, 128), np.uint8)
    for image in strokes:
        for _ in range(6):
            down, across = rng.integers(8, 90, 2)
            image[down : down + 30, across : across + 4] = image[down : down + 4, across : across + 30] = 200
    assert not PieceSearch().plain(noise) and not PieceSearch().plain(strokes)
    assert not PieceSearch().plain(np.zeros((4, 64, 64), np.uint8))
    assert "no things apart on a plain background" in refusal(Discovery(features="pieces").fit, noise)


def test_an_outlier_is_not_the_best_part():
    x, _ = nuclei([40], seed=3)
    x[0, :60, :60] = 20
    x[0, 5:55, 5:55] = 250
    parts = Discovery(max_q=1).fit(list(x)).locate(list(x))
    large = parts["right"] - parts["left"] > 40
    assert large.sum() == 1 and parts["score"][large][0] < np.median(parts["score"])
    assert parts["q"][large][0] > 0.1 and parts["outlier"][large][0]
    assert (np.diff(parts["outlier"].astype(int)) >= 0).all() and parts["outlier"].sum() <= 3


def test_the_choice_is_the_best_one():
    rng, parent = np.random.default_rng(0), np.array([-1, 0, 0, 1, 1, 2, -1, 6, 6, 7])
    for _ in range(20):
        area, z, p = rng.uniform(1, 9, 10), rng.normal(size=(10, 4)), rng.random(10)
        above = np.zeros((10, 10), bool)
        for i in np.flatnonzero(parent >= 0):
            above[i] = above[parent[i]]
            above[i, parent[i]] = True
        sets = np.array(list(itertools.product([False, True], repeat=10)))
        apart = [not (above & s[:, None] & s).any() for s in sets]
        value = area * np.exp(z[:, 3]) * p
        made = Pieces(parent, np.zeros((10, 4)), area, area, z, *np.zeros((2, 10), bool))
        best = sets[apart][(sets[apart] @ value).argmax()]
        assert made.apart(p).tolist() == best.tolist()
        assert made.widest.tolist() == [0, 1, 2, 3, 4, 2, 6, 7, 8, 7]  # 5 and 9 have no other piece beside them
        things = [np.flatnonzero(made.widest == made.widest[i]) for i in np.flatnonzero(best)]
        sharpest = [int(own[(np.exp(z[own, 3]) * p[own]).argmax()]) for own in things]
        assert np.flatnonzero(made.choose(p)).tolist() == sorted(sharpest)


def test_what_is_far_on_either_side_is_not_more_probable_as_one_of_the_kind():
    z = np.random.default_rng(0).normal(0, 0.1, (200, 5))
    z[:20] *= 5  # the chosen ones vary more than all
    each = Pieces(np.full(200, -1), np.zeros((200, 4)), *np.ones((2, 200)), z, *np.zeros((2, 200), bool))
    kind = pieces.Kind.of([each], [np.arange(200) < 20], np.zeros((1, 5)))
    far = [kind(kind.center + side * 20 * np.eye(5)) for side in (-1, 1)]
    assert (np.minimum(*far) <= kind(kind.center[None])).all()


def test_the_border_of_a_small_blurred_thing_is_at_half_its_height():
    x, row, column = np.full((200, 200), 20.0), *np.mgrid[:200, :200]
    for down, across in itertools.product(range(20, 181, 40), repeat=2):
        x += 100 / (1 + np.exp((np.hypot(row - down, column - across) - 5) / 1.5))
    parts = Discovery().fit([x.astype(np.uint8)]).locate([x.astype(np.uint8)])
    assert len(parts) == 25 and np.median(parts["right"] - parts["left"]) <= 12


def test_what_the_border_of_the_image_cuts_is_as_sharp_as_the_whole():
    x, _ = nuclei([64] * 2, side=220)
    x = x[:, 16:-10, 16:-10]
    each = pieces.pieces_of(PieceSearch()._plane(x[0][..., None])[0])
    sharp = [np.median(each.z[each.choose(each.roundness()) & cut, 3]) for cut in (each.cut, ~each.cut)]
    assert abs(sharp[0] - sharp[1]) <= 0.1
    model = Discovery().fit(x)
    parts, less = model.locate(x), model.search_.parts[0].cut
    half = (parts["top"] == 0) | (parts["left"] == 0)
    assert half.sum() == 30 and less[0] < -0.1 and less[2] > 0.1  # smaller and longer


def test_images_have_a_size_and_sharpness_of_their_own_and_dim_things_are_less_sure():
    (large, places), (small, others) = nuclei([25] * 5), nuclei([25] * 2, 1, radius=5)
    x = np.concatenate([large, small])
    model = Discovery().fit(x)
    assert hits(model.locate(x), places + others) >= 170
    (kind,), planes = model.search_.parts, [model.search_._plane(image[..., None])[0] for image in x]
    own = [kind.own(each, kind.choose(each)[0])[0] for each in map(pieces.pieces_of, planes)]
    assert abs(np.mean(own[:5]) - np.mean(own[5:]) - np.log(9.5 / 5.5)) <= 0.25
    z = np.tile(kind.center, (3, 1))
    z[:, pieces.HIGH] += [0, 1, -1]
    same = pieces.Pieces(np.full(3, -1), np.zeros((3, 4)), np.ones(3), np.ones(3), z, *np.zeros((2, 3), bool))
    middle, bright, dim = kind.choose(same, np.zeros(5))[1]
    assert middle == bright > dim


def test_searches_in_halves_of_images_or_of_tiles_agree_or_the_report_says_so(tmp_path):
    (large, _), (small, _) = nuclei([30]), nuclei([30], 1, radius=4)
    x = np.concatenate([large, small])
    model = Discovery().fit(x)  # both find all, a search in one finds its own kind
    parts = model.locate(x)
    says = "not steady: searches in two halves of the images agree on 0% of what they list"
    said = model.describe(parts, 2)
    assert len(parts) >= 55 and "; how many of these are wrong is not known" in said and said.endswith(says)
    write_parts_report(tmp_path / "page.html", model, as_images(x), parts, None, title="nuclei")
    assert says in (tmp_path / "page.html").read_text()
    alone = Discovery().fit(large)
    assert alone.search_.steady >= 0.95 and "steady" not in alone.describe(alone.locate(large), 1)
    one, _ = nuclei([1])
    model = Discovery().fit(one)
    model.save(tmp_path / "run")
    for each in (model, Discovery.load(tmp_path / "run")):
        assert "whether that is steady is not known" in each.describe(each.locate(one), 1)


def test_pieces_of_a_half_lie_in_the_next_larger_ones_of_it():
    parent, kept = np.array([-1, 0, 1, 2, 1, -1, 5]), np.array([True, False, True, True, True, False, True])
    boxes, neither = np.arange(28).reshape(7, 4), np.zeros((2, 7), bool)
    of = Pieces(parent, boxes, *np.ones((2, 7)), np.ones((7, 5)), *neither).among(kept)
    assert of.inside.tolist() == [False, True, True, True, True]  # of what lies in one that is not kept
    assert of.parent.tolist() == [-1, 0, 1, 0, -1] and of.boxes[:, 0].tolist() == [0, 8, 12, 16, 24]


def test_random_phases_of_the_same_planes_are_drawn_once(monkeypatch):
    planes = [np.random.default_rng(i).normal(size=(40, 50)) for i in range(2)]
    made, pieces_of = [], pieces.pieces_of
    monkeypatch.setattr(pieces, "pieces_of", lambda plane: made.append(plane) or pieces_of(plane))
    every = pieces.Fields(planes, [pieces_of(plane) for plane in planes], 5, 0)
    drawn = every.drawn
    other = replace(every, planes=[planes[0].copy(), planes[1] + 1])
    again = other.drawn  # the second and fourth are of another plane
    assert len(made) == 7 and [a is b for a, b in zip(drawn, again, strict=True)] == [True, False] * 2 + [True]
    alone = pieces.Fields(other.planes, every.candidates, 5, 0).drawn
    assert all((a.z == b.z).all() and (a.boxes == b.boxes).all() for a, b in zip(again, alone, strict=True))


def test_the_report_the_file_and_the_threshold(tmp_path):
    x, centers = nuclei([9, 12])
    model = Discovery().fit(x)
    parts = model.locate(x)
    said = model.describe(parts, len(x))
    assert "Otsu's threshold with connected pieces finds nearly the same" in said
    assert "x = filters.gaussian(an image); measure.label(x > filters.threshold_otsu(x))" in said
    assert abs(len(otsu_boxes(model.search_._read(as_images(x), 0)[0])) - len(centers[0])) <= 1
    write_parts_report(tmp_path / "page.html", model, as_images(x), parts, None, title="nuclei")
    assert "pieces" in (tmp_path / "page.html").read_text()
    model.save(tmp_path / "run")
    again = Discovery.load(tmp_path / "run")
    assert (again.locate(x) == parts).all() and again.describe() == model.describe()


def test_dark_tiles_of_a_scene_have_no_parts():
    x, _ = nuclei([20, 20, 20, 0, 0, 0, 0, 0])
    parts = Discovery().fit(x).locate(x)
    assert parts["sample"].max() == 2


def test_what_is_there_once_is_left_out(monkeypatch):
    """A dish is larger than all that lies beside it, and recurs nowhere."""
    monkeypatch.setattr(pieces, "CHECKED", 8)
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:400, :400]
    image = np.where((y - 120) ** 2 + (x - 130) ** 2 < 90**2, 150.0, 20.0)
    places = [(row, column) for row in range(250, 390, 35) for column in range(25, 390, 35)]
    for row, column in places:
        image[(y - row - rng.integers(5)) ** 2 + (x - column) ** 2 < 8**2] = 200
    image = gaussian_filter(image, 1) + rng.normal(0, 3, image.shape)
    images = image.clip(0, 255).astype(np.uint8)[None]
    parts = Discovery().fit(images).locate(images)
    assert len(parts) == len(places) and (parts["bottom"] - parts["top"] < 25).all()


def composed(dishes, discs=3, side=256, seed=0):
    """Images uint8 of small discs, in those with a dish (row, column, radius) inside of it, and their centers."""
    rng, images, centers = np.random.default_rng(seed), [], []
    y, x = np.mgrid[:side, :side]
    for dish in dishes:
        image, own = rng.normal(20, 3, (side, side)), np.zeros((0, 2))
        row, column, radius = dish or (side / 2, side / 2, side)
        image[np.hypot(y - row, x - column) <= radius] += 60 if dish else 0
        while len(own) < discs:
            at = rng.uniform(20, side - 20, 2)
            away = np.hypot(*(own - at).T).min(initial=side)
            if away > 30 and np.hypot(*(at - (row, column))) < radius - 20:
                image[np.hypot(y - at[0], x - at[1]) <= rng.uniform(9, 13)] += 80
                own = np.vstack([own, at])
        images.append(image.clip(0, 255).astype(np.uint8))
        centers.append(own[:, ::-1])
    return images, centers


@pytest.mark.parametrize(
    ("dishes", "discs", "found"),
    [
        ([None, None, (128, 128, 80), None, None, None], 3, 18),  # it had the fit of the kind
        ([(128, 128, 80), (128, 128, 70), None, None, None, None], 3, 17),  # two hid what is in all
        ([(128, 128, 115)], 12, 12),  # it is the background, and what is around it no noise
    ],
)
def test_dishes_do_not_hide_what_recurs(dishes, discs, found, monkeypatch):
    monkeypatch.setattr(pieces, "CHECKED", 8)
    images, centers = composed(dishes, discs, seed=1)
    parts = Discovery().fit(images).locate(images)
    assert len(parts) <= hits(parts, centers) + 1 and hits(parts, centers) >= found


def test_one_thing_alone_is_listed_if_nothing_else_recurs(monkeypatch):
    monkeypatch.setattr(pieces, "CHECKED", 8)
    images, _ = composed([(120, 110, 60)], 0)
    parts = Discovery().fit(images).locate(images)
    assert len(parts) == 1 and 110 < parts["right"][0] - parts["left"][0] < 130


def test_the_noise_of_images_of_whole_numbers():
    plane = np.random.default_rng(0).normal(30, 1, (256, 256))
    for height in (6, 10, 20, 50):
        plane[100:120, 100 : 100 + height] += height
        assert 0.8 < plain_range(plane.round())[1] < 1.6 and 0.8 < plain_range(plane)[1] < 1.2
