"""Noise levels: foreground fractions against a direct computation, levels by hand, density."""

import weakref

import pytest
import torch

from refusals import refusal
from viewsmith.views.generated import noise_level


def scene(n=60, side=8, width=6, seed=0, sign=1.0):
    """Maps with a square object, brighter along one direction; that direction; and where the object is."""
    generator = torch.Generator().manual_seed(seed)
    direction = torch.nn.functional.normalize(torch.randn(width, generator=generator, dtype=torch.float64), dim=0)
    maps = 0.1 * torch.randn(n, side, side, width, generator=generator, dtype=torch.float64) + 3.0
    size = torch.randint(2, side - 1, (n,), generator=generator)
    position = torch.arange(side)
    inside = (position >= 1) & (position[None] < 1 + size[:, None])
    inside = inside[:, :, None] & inside[:, None, :]
    return maps + sign * inside[..., None] * direction, direction, inside


def blocks(maps, size=7):
    return lambda: iter(maps.split(size))


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_axis_and_fractions_equal_a_direct_computation(sign, dtype):
    maps, direction, inside = scene(sign=sign)
    found = noise_level.fit_foreground(blocks(maps.to(dtype)))
    patches = maps.flatten(0, 2)
    slow = torch.pca_lowrank(patches, q=4, niter=20)[2][:, 0]
    assert abs(float(slow @ found.axis)) > 1 - 1e-6
    assert sign * float(direction @ found.axis) > 0.9  # towards the object, whatever the sign of eigh
    s = patches @ found.axis
    expected = s.sort(descending=True).values[int(0.4 * len(s))]
    assert found.threshold == pytest.approx(float(expected), abs=2 * float(patches.norm(dim=1).max()) / (1 << 15))
    assert float((s > found.threshold).double().mean()) == pytest.approx(0.4, abs=0.01)
    fractions = found.fraction(maps.to(dtype))
    assert fractions.dtype == torch.float64
    by_hand = [sum(float(patch @ found.axis) > found.threshold for patch in image.flatten(0, 1)) / 64 for image in maps]
    torch.testing.assert_close(fractions, torch.tensor(by_hand, dtype=torch.float64), atol=0.02, rtol=0)
    # More object, more foreground.
    assert torch.corrcoef(torch.stack([fractions, inside.flatten(1).double().mean(1)]))[0, 1] > 0.9


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_min_max_of_each_image_equals_a_slow_loop(sign, dtype):
    maps, _, _ = scene(sign=sign)
    maps = maps * torch.linspace(0.5, 3, len(maps), dtype=torch.float64)[:, None, None, None]  # of unequal contrast
    found = noise_level.fit_foreground(blocks(maps.to(dtype)), min_max=True)
    degrees = []
    for image in maps:
        s = [float(patch @ found.axis) for patch in image.flatten(0, 1)]
        degrees.append([(value - min(s)) / (max(s) - min(s)) for value in s])
    flat = sorted((value for each in degrees for value in each), reverse=True)
    assert found.min_max and found.threshold == pytest.approx(flat[int(0.4 * len(flat))], abs=1e-3)
    expected = torch.tensor([sum(a > found.threshold for a in each) / len(each) for each in degrees]).double()
    torch.testing.assert_close(found.fraction(maps.to(dtype)), expected, atol=0.02, rtol=0)
    assert float(expected.mean()) == pytest.approx(0.4, abs=0.01)
    raw = noise_level.fit_foreground(blocks(maps.to(dtype)))
    # Raw projections call bright images foreground; fractions of min-max do not depend on the contrast of an image.
    other = maps * 5 + 1
    torch.testing.assert_close(found.fraction(other), found.fraction(maps))
    assert (raw.fraction(maps) - expected).abs().max() > 0.2


def test_a_previous_axis_determines_the_sign():
    maps, direction, inside = scene(width=3)
    first = noise_level.fit_foreground(blocks(maps))
    # The same features with the objects at the border: without a previous axis, the border rule flips the sign.
    other = maps + (~inside)[..., None] * direction - inside[..., None] * direction
    assert float(first.axis @ noise_level.fit_foreground(blocks(other)).axis) < -0.9
    again = noise_level.fit_foreground(blocks(other), previous=first.axis.float())
    assert float(first.axis @ again.axis) > 0.9
    assert float(again.fraction(other).mean()) == pytest.approx(0.4, abs=0.01)  # the threshold belongs to this sign
    assert float(noise_level.fit_foreground(blocks(maps), previous=-first.axis).axis @ first.axis) < -0.9
    # A previous axis whose projections are uncorrelated with the new ones, or constant, has no effect.
    across = torch.linalg.cross(first.axis, torch.eye(3, dtype=torch.float64)[0])
    for previous in (across / across.norm(), torch.zeros(3)):
        assert float(noise_level.fit_foreground(blocks(other), previous=previous).axis @ first.axis) < -0.9


def test_result_does_not_depend_on_the_block_size():
    maps, _, _ = scene()
    one, other = noise_level.fit_foreground(blocks(maps, 60)), noise_level.fit_foreground(blocks(maps, 1))
    torch.testing.assert_close(one.axis, other.axis, rtol=1e-9, atol=1e-9)
    assert one.threshold == pytest.approx(other.threshold, rel=1e-9)


def test_covariance_is_precise_far_from_zero():
    maps, direction, _ = scene()
    assert float(direction @ noise_level.fit_foreground(blocks(maps + 1e5)).axis) > 0.9


def test_identical_images_have_no_foreground():
    maps = torch.ones(4, 5, 5, 3)
    assert noise_level.fit_foreground(blocks(maps)).fraction(maps).tolist() == [0.0] * 4


def test_fractions_of_all_images_with_an_axis_fitted_to_some():
    maps, _, _ = scene(40)
    requested = []

    def features(index):
        requested.extend(index.tolist())
        return maps[index]

    fractions, axis = noise_level.foreground_fractions(features, 40, max_images=10, block=7)
    chosen = torch.linspace(0, 39, 10, dtype=torch.float64).long()
    found = noise_level.fit_foreground(blocks(maps[chosen]))
    torch.testing.assert_close(fractions, found.fraction(maps))
    torch.testing.assert_close(axis, found.axis)
    assert requested == [*chosen.tolist(), *chosen.tolist(), *range(40)]
    assert fractions.nbytes <= 8 * len(fractions)
    fractions, _ = noise_level.foreground_fractions(features, 40, max_images=10, block=7, min_max=True)
    torch.testing.assert_close(fractions, noise_level.fit_foreground(blocks(maps[chosen]), min_max=True).fraction(maps))


def test_blocks_are_freed():
    passed = []

    def stream():
        generator = torch.Generator().manual_seed(0)
        for _ in range(20):
            block = torch.randn(10, 4, 4, 8, generator=generator)
            passed.append(weakref.ref(block))
            yield block
            del block
            assert sum(ref() is not None for ref in passed) <= 1

    noise_level.fit_foreground(stream)
    assert len(passed) == 40


def test_bad_maps_are_refused():
    assert "no images" in refusal(noise_level.fit_foreground, lambda: iter(()))
    assert "at least 3" in refusal(noise_level.fit_foreground, blocks(torch.ones(2, 2, 4, 3)))
    assert "below 1" in refusal(noise_level.fit_foreground, blocks(torch.ones(2, 4, 4, 3)), 1.0)


def test_levels_by_hand():
    fractions = [0.0, 0.1, 0.2, 0.2 + 1e-9, 0.4, 0.5, 0.6, 0.8, 0.81, 1.0]
    expected = [0, 0, 0, 100, 100, 200, 200, 300, 400, 400]
    assert noise_level.adaptive_levels(torch.tensor(fractions, dtype=torch.float64)).tolist() == expected
    # Fractions of 25 patches fall exactly on the edges.
    counts = torch.arange(26, dtype=torch.float64) / 25
    assert noise_level.adaptive_levels(counts).tolist() == [100 * min(4, max(0, (c - 1) // 5)) for c in range(26)]


def test_random_levels_are_uniform_and_can_be_replayed():
    levels = noise_level.random_levels(1000, torch.Generator().manual_seed(3))
    assert torch.equal(levels, noise_level.random_levels(1000, torch.Generator().manual_seed(3)))
    assert torch.bincount(levels // 100).tolist() == pytest.approx([200] * 5, abs=60)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_density_equals_a_slow_loop(dtype):
    points = torch.randn(30, 4, generator=torch.Generator().manual_seed(0), dtype=dtype)
    means = []
    for row in range(30):
        others = sorted(float((points[row] - points[i]).norm()) for i in range(30) if i != row)
        means.append(sum(others[:3]) / 3)
    slow = [sum(other >= mean for other in means) / 30 for mean in means]
    fast = noise_level.fit_density(points, k=3).quantile(points, k=3)
    assert fast.dtype == torch.float64
    assert fast.tolist() == pytest.approx(slow)
