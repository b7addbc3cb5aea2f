"""The noise a sample can bear: foreground shares against the plain way, levels by hand, density."""

import weakref

import pytest
import torch

from refusals import refusal
from viewsmith.views.generated.noise_level import (
    adaptive_levels,
    fit_density,
    fit_foreground,
    foreground_fractions,
    random_levels,
)


def scene(n=60, side=8, width=6, seed=0, sign=1.0):
    """Maps whose inner square is an object, somewhat brighter along one direction; and that direction."""
    generator = torch.Generator().manual_seed(seed)
    direction = torch.nn.functional.normalize(torch.randn(width, generator=generator, dtype=torch.float64), dim=0)
    maps = 0.1 * torch.randn(n, side, side, width, generator=generator, dtype=torch.float64) + 3.0
    size = torch.randint(2, side - 1, (n,), generator=generator)
    place = torch.arange(side)
    inside = (place >= 1) & (place[None] < 1 + size[:, None])
    inside = inside[:, :, None] & inside[:, None, :]
    return maps + sign * inside[..., None] * direction, direction, inside


def blocks(maps, size=7):
    return lambda: iter(maps.split(size))


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_axis_and_shares_are_those_of_the_plain_way(sign, dtype):
    maps, direction, inside = scene(sign=sign)
    found = fit_foreground(blocks(maps.to(dtype)))
    patches = maps.flatten(0, 2)
    slow = torch.pca_lowrank(patches, q=4, niter=20)[2][:, 0]
    assert abs(float(slow @ found.axis)) > 1 - 1e-6
    assert sign * float(direction @ found.axis) > 0.9  # towards the object, whichever way eigh turned it
    s = patches @ found.axis
    wanted = s.sort(descending=True).values[int(0.4 * len(s))]
    assert found.threshold == pytest.approx(float(wanted), abs=2 * float(patches.norm(dim=1).max()) / (1 << 15))
    assert float((s > found.threshold).double().mean()) == pytest.approx(0.4, abs=0.01)
    shares = found.fraction(maps.to(dtype))
    assert shares.dtype == torch.float64
    by_hand = [sum(float(patch @ found.axis) > found.threshold for patch in image.flatten(0, 1)) / 64 for image in maps]
    torch.testing.assert_close(shares, torch.tensor(by_hand, dtype=torch.float64), atol=0.02, rtol=0)
    # More object, more foreground.
    assert torch.corrcoef(torch.stack([shares, inside.flatten(1).double().mean(1)]))[0, 1] > 0.9


def test_an_axis_found_before_keeps_its_sign():
    maps, direction, inside = scene(width=3)
    first = fit_foreground(blocks(maps))
    # The same features of images whose objects lie at the border: the border rule alone turns the axis round.
    other = maps + (~inside)[..., None] * direction - inside[..., None] * direction
    assert float(first.axis @ fit_foreground(blocks(other)).axis) < -0.9
    again = fit_foreground(blocks(other), previous=first.axis.float())
    assert float(first.axis @ again.axis) > 0.9
    assert float(again.fraction(other).mean()) == pytest.approx(0.4, abs=0.01)  # the threshold is that of this sign
    assert float(fit_foreground(blocks(maps), previous=-first.axis).axis @ first.axis) < -0.9
    # One on which patches do not vary with the new one, or not at all, says nothing.
    across = torch.linalg.cross(first.axis, torch.eye(3, dtype=torch.float64)[0])
    for former in (across / across.norm(), torch.zeros(3)):
        assert float(fit_foreground(blocks(other), previous=former).axis @ first.axis) < -0.9


def test_blocks_do_not_matter():
    maps, _, _ = scene()
    one, other = fit_foreground(blocks(maps, 60)), fit_foreground(blocks(maps, 1))
    torch.testing.assert_close(one.axis, other.axis, rtol=1e-9, atol=1e-9)
    assert one.threshold == pytest.approx(other.threshold, rel=1e-9)


def test_far_from_zero_the_covariance_keeps_its_digits():
    maps, direction, _ = scene()
    assert float(direction @ fit_foreground(blocks(maps + 1e5)).axis) > 0.9


def test_images_that_are_all_alike_have_no_foreground():
    maps = torch.ones(4, 5, 5, 3)
    assert fit_foreground(blocks(maps)).fraction(maps).tolist() == [0.0] * 4


def test_shares_of_all_from_some():
    maps, _, _ = scene(40)
    asked = []

    def look(index):
        asked.extend(index.tolist())
        return maps[index]

    shares, axis = foreground_fractions(look, 40, max_images=10, block=7)
    chosen = torch.linspace(0, 39, 10, dtype=torch.float64).long()
    found = fit_foreground(blocks(maps[chosen]))
    torch.testing.assert_close(shares, found.fraction(maps))
    torch.testing.assert_close(axis, found.axis)
    assert asked == [*chosen.tolist(), *chosen.tolist(), *range(40)]
    assert shares.nbytes <= 8 * len(shares)


def test_blocks_are_let_go_of():
    passed = []

    def stream():
        generator = torch.Generator().manual_seed(0)
        for _ in range(20):
            block = torch.randn(10, 4, 4, 8, generator=generator)
            passed.append(weakref.ref(block))
            yield block
            del block
            assert sum(ref() is not None for ref in passed) <= 1

    fit_foreground(stream)
    assert len(passed) == 40


def test_bad_maps_are_refused():
    assert "no images" in refusal(fit_foreground, lambda: iter(()))
    assert "at least 3" in refusal(fit_foreground, blocks(torch.ones(2, 2, 4, 3)))
    assert "below 1" in refusal(fit_foreground, blocks(torch.ones(2, 4, 4, 3)), 1.0)


def test_levels_by_hand():
    shares = [0.0, 0.1, 0.2, 0.2 + 1e-9, 0.4, 0.5, 0.6, 0.8, 0.81, 1.0]
    expected = [0, 0, 0, 100, 100, 200, 200, 300, 400, 400]
    assert adaptive_levels(torch.tensor(shares, dtype=torch.float64)).tolist() == expected
    # Shares that are counts of patches fall on the edges exactly.
    counts = torch.arange(26, dtype=torch.float64) / 25
    assert adaptive_levels(counts).tolist() == [100 * min(4, max(0, (c - 1) // 5)) for c in range(26)]


def test_random_levels_are_all_five_and_replayed():
    levels = random_levels(1000, torch.Generator().manual_seed(3))
    assert torch.equal(levels, random_levels(1000, torch.Generator().manual_seed(3)))
    assert torch.bincount(levels // 100).tolist() == pytest.approx([200] * 5, abs=60)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_density_is_the_loop(dtype):
    places = torch.randn(30, 4, generator=torch.Generator().manual_seed(0), dtype=dtype)
    means = []
    for row in range(30):
        others = sorted(float((places[row] - places[i]).norm()) for i in range(30) if i != row)
        means.append(sum(others[:3]) / 3)
    slow = [sum(other >= mean for other in means) / 30 for mean in means]
    fast = fit_density(places, k=3).quantile(places, k=3)
    assert fast.dtype == torch.float64
    assert fast.tolist() == pytest.approx(slow)


def test_density_by_hand():
    # Three rows close together, and one far away, which bears least.
    places = torch.tensor([[0.0], [1.0], [3.0], [100.0]])
    assert fit_density(places, k=1).quantile(places, k=1).tolist() == [1.0, 1.0, 0.5, 0.25]
    assert adaptive_levels(fit_density(places, k=1).quantile(places, k=1)).tolist() == [400, 400, 200, 100]
