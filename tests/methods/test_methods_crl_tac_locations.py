"""Located regions: overlaps, refinement, non-maximum suppression, and nearly uniform distributions."""

import math

import pytest
import torch

from crl_tac_toys import overlap
from viewsmith.methods.crl_tac import locations
from viewsmith.methods.crl_tac.transforms import Crops, Windows

DTYPES = [torch.float32, torch.float64]


def crops(**options):
    return Crops(40, 36, crop=12, stride=4, **options)


def slow_locate(p, boxes, n, limit):
    """`locate_boxes` of one sample, one box after another: a list of (box, probability)."""
    m, found, free = len(p), [], set(range(len(p)))
    if math.exp(-sum(q * math.log(q) for q in p if q > 0)) > limit:
        return []
    while len(found) < n and free:
        expected = {i: sum(p[j] * overlap(boxes[i], boxes[j]) for j in free) for i in free}
        peak = min(free, key=lambda i: (-expected[i], i))
        near = [j for j in free if boxes[j][2:] == boxes[peak][2:] and overlap(boxes[j], boxes[peak]) >= locations.SAME]
        total = sum(p[j] for j in near)
        box = [sum(p[j] * boxes[j][k] for j in near) / total for k in range(4)] if total else boxes[peak]
        if any(overlap(box, earlier) > locations.APART for earlier, _ in found):
            box = boxes[peak]
        here = [j for j in range(m) if overlap(box, boxes[j]) >= locations.SAME]
        same = [j for j in here if j in free]
        highest = max((p[j] for j in same), default=0)
        rises = highest > 0 and highest >= locations.CLEAR * sorted(p)[(m - 1) // 2]
        if found and not (rises and highest == max(p[j] for j in here)):
            break
        found.append((box, sum(p[j] for j in same) / sum(p[j] for j in free)))
        free = {j for j in free if overlap(box, boxes[j]) <= locations.APART}
    return found


def peaked(n, m, dtype, sharpness=4.0, seed=0):
    """P(T|x) of n samples, from almost uniform to peaked."""
    logits = torch.randn(n, m, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    return (logits * torch.linspace(0.1, sharpness, n, dtype=dtype)[:, None]).softmax(dim=1)


# ---- boxes of views -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"scales": (1.0, 0.5, 1.7), "flip": True}])
def test_boxes_are_where_crops_are_taken(options):
    family = crops(**options)
    boxes = family.boxes(torch.zeros(1, 1, 40, 36))
    assert boxes.shape == (1, family.size, 4)
    # The channels are the row and the column of each pixel, so the means over a view give its center.
    rows, columns = torch.arange(40.0)[:, None].expand(40, 36), torch.arange(36.0).expand(40, 36)
    x = torch.stack([rows, columns])[None]
    centers = family.all_views(x)[0].mean(dim=(2, 3)) + 0.5
    expected = boxes[0, :, :2] + boxes[0, :, 2:] / 2
    # At the edges of images that were reduced, antialiasing shifts means by parts of a pixel.
    torch.testing.assert_close(centers.double(), expected, atol=0.6 if options else 1e-4, rtol=0)
    assert (boxes[0, :, 2] == (12 if not options else boxes[0, :, 2])).all()


def test_boxes_of_windows_are_their_bounds():
    family = Windows(fraction=0.4, count=7)
    x = torch.zeros(2, 4, 50)
    x[0, 0], x[1, 1, :31] = 1, 1
    starts, widths = family.bounds(x)
    boxes = family.boxes(x)
    assert boxes[..., 1].tolist() == starts.tolist() and boxes[..., 0].eq(0).all() and boxes[..., 2].eq(1).all()
    assert boxes[:, 0, 3].tolist() == widths.tolist() == [20, 12]


# ---- overlaps and refinement ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 10**6])
def test_views_are_near_each_other_if_they_overlap(monkeypatch, limit):
    monkeypatch.setattr("viewsmith.methods.crl_tac.locations.MAX_OVERLAPS", limit)
    boxes = crops(scales=(1.0, 0.8), flip=True).boxes(torch.zeros(1))[0]
    near = locations.near_views(boxes)
    expected = [[overlap(a, b) >= locations.NEAR for b in boxes.tolist()] for a in boxes.tolist()]
    assert near.dtype is torch.bool and near.tolist() == expected
    assert near.diagonal().all() and 0.05 < near.double().mean() < 0.95


@pytest.mark.parametrize("shared", [True, False])
def test_expected_overlaps_equal_a_slow_loop_in_parts_of_any_size(monkeypatch, shared):
    boxes = torch.rand(1 if shared else 3, 9, 4, generator=torch.Generator().manual_seed(0)).double() + 0.05
    p = peaked(3, 9, torch.float64)
    expected = [
        [sum(p[row, j] * overlap(own[i].tolist(), own[j].tolist()) for j in range(9)).item() for i in range(9)]
        for row, own in enumerate(boxes.expand(3, -1, -1))
    ]
    for limit in (1, 40, 2**22):
        monkeypatch.setattr("viewsmith.methods.crl_tac.locations.MAX_OVERLAPS", limit)
        torch.testing.assert_close(locations.expected_overlaps(p, boxes), torch.tensor(expected, dtype=torch.float64))


# ---- boxes and features ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("options", [{}, {"scales": (1.0, 0.5), "flip": True}, None])
def test_boxes_equal_a_slow_search(dtype, options):
    if options is None:  # of windows, which have boxes of their own in each sample
        family, x = Windows(fraction=0.2, count=9), torch.zeros(12, 4, 60)
        x[:, 0], x[6:, 0, 45:] = 1, 0
    else:
        family, x = crops(**options), torch.zeros(1, 1, 40, 36)
    boxes, p = family.boxes(x), peaked(12, family.size, dtype)
    found = locations.locate_boxes(p, boxes, 3, 0.8 * family.size)
    counts = []
    for row in range(12):
        expected = slow_locate(p[row].double().tolist(), boxes[row % len(boxes)].tolist(), 3, 0.8 * family.size)
        counts.append(len(expected))
        assert found.found[row].sum() == len(expected)
        for k, (box, probability) in enumerate(expected):
            assert found.boxes[row, k].tolist() == pytest.approx(box)
            assert found.probability[row, k].item() == pytest.approx(probability)
    assert len(set(counts)) > 1  # from no box to several


def bump(family, size, row, column, weight=1.0):
    """P(T|x) for crops of one size, decreasing with the distance of a crop's corner from (row, column)."""
    boxes = family.boxes(torch.zeros(1, 1, 40, 36))[0]
    far = (boxes[:, 0] - row).square() + (boxes[:, 1] - column).square()
    p = torch.exp(-far / 6) * (boxes[:, 2] == size)
    return weight * p / p.sum()


def test_two_objects_give_two_boxes_and_one_object_gives_one():
    family = crops()
    boxes = family.boxes(torch.zeros(1, 1, 40, 36))
    two = bump(family, 12, 3, 2, 0.6) + bump(family, 12, 25, 22, 0.4)
    found = locations.locate_boxes(torch.stack([two, bump(family, 12, 3, 2)]), boxes, 3, 40.0)
    assert found.found.tolist() == [[True, True, False], [True, False, False]]
    assert found.boxes[0, 0].tolist() == pytest.approx([3, 2, 12, 12], abs=0.7)
    assert found.boxes[0, 1].tolist() == pytest.approx([25, 22, 12, 12], abs=1.5)  # at the edge of the grid
    assert found.probability[0].tolist()[:2] == pytest.approx([0.6, 1], abs=0.05)


def test_a_further_box_may_have_little_probability_but_must_rise():
    family = crops()
    boxes = family.boxes(torch.zeros(1, 1, 40, 36))
    base = torch.full((family.size,), 1e-7 / family.size, dtype=torch.float64)
    first, second, third = (bump(family, 12, *corner) for corner in ((3, 2), (25, 22), (3, 22)))
    rare, flat = first + 1e-4 * second + base, first + 1e-8 * second + base
    found = locations.locate_boxes(torch.stack([rare, flat, first + second + third + base]) / 3, boxes, 4, 1e9)
    assert found.found.sum(dim=1).tolist() == [2, 1, 3]
    assert found.boxes[0, 1].tolist() == pytest.approx([25, 22, 12, 12], abs=1.5)
    assert found.probability[0, 1] > 0.9
    assert found.probability[2].tolist()[:3] == pytest.approx([1 / 3, 0.5, 1], abs=0.05)


def test_nothing_is_found_if_p_is_nearly_uniform():
    m = 50
    limit = locations.largest_effective(m)
    assert not locations.locate_boxes(torch.full((2, m), 1 / m), torch.rand(1, m, 4) + 1, 2, limit).found.any()
    for kept in (10, 40, 41, 50):
        p = torch.zeros(1, m).index_fill(1, torch.arange(kept), 1 / kept)
        assert locations.is_concentrated(p, limit + 1e-3).item() == (kept <= 40)


def test_the_limit_depends_on_the_effective_number_of_training_samples():
    assert locations.largest_effective(289) == pytest.approx(231.2)
    assert locations.largest_effective(289, 8.0) == 32 and locations.largest_effective(16, 8.0) == pytest.approx(12.8)


def test_features_are_those_that_views_keep_more_often():
    masks = torch.tensor([[1.0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1]])
    p = torch.tensor([[0.85, 0.15, 0, 0], [0.25, 0.25, 0.25, 0.25]])
    features, probability, found = locations.locate_features(p, masks, 3, 3.2)
    assert features[0].tolist() == [1, 0, 2] and found.tolist() == [[True, True, False], [False] * 3]
    assert probability[0].tolist() == pytest.approx([1.0, 0.85, 0.15])
    assert locations.locate_features(p, masks, 9, 3.2)[0].shape == (2, 4)


# ---- crops ----------------------------------------------------------------------------------------------------------


def test_crops_of_whole_pixels_are_slices():
    images = torch.randint(0, 256, (3, 20, 18, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    boxes = torch.tensor([[2.2, 3.7, 8, 8], [12.4, 10.4, 8, 8], [0, 0, 8, 8]])
    pixels = locations.crop_boxes(images, boxes, 8)
    assert pixels[0].equal(images[0, 2:10, 4:12]) and pixels[1].equal(images[1, 12:20, 10:18])


def test_crops_of_another_size_are_resized():
    images = torch.full((2, 20, 18, 1), 7, dtype=torch.uint8)
    images[0, 4:16, 2:14] = 200
    pixels = locations.crop_boxes(images, torch.tensor([[4.0, 2, 12, 12], [0, 0, 20, 18]]), 6)
    assert pixels.shape == (2, 6, 6, 1) and pixels[0].eq(200).all() and pixels[1].eq(7).all()
