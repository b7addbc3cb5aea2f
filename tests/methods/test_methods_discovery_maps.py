"""Features of images that are kept in a file: a damaged one is computed again, and no link is followed."""

import numpy as np
import pytest
import torch
from torch import nn

from located_discs import noise
from refusals import refusal
from viewsmith import Discovery
from viewsmith.methods.discovery import network_maps
from viewsmith.methods.discovery.network_maps import MapCache
from viewsmith.modalities.images.features import Patches

MAPS = np.random.default_rng(0).normal(size=(6, 4, 5, 3)).astype(np.float32)


@pytest.fixture
def cache(tmp_path):
    made = MapCache(tmp_path / "cache", "key", 6, (4, 5))
    made.write(np.arange(3), MAPS[:3])
    made.write(np.arange(3, 6), MAPS[3:, :2])
    return made


def test_maps_are_read_as_they_were_written(cache):
    np.testing.assert_array_equal(cache.read(np.array([2, 0]), 4, 5), MAPS[[2, 0]])
    np.testing.assert_array_equal(cache.read(np.array([3, 5]), 2, 5), MAPS[[3, 5], :2])
    assert MapCache(cache.folder, "key", 7, (4, 5)).read(np.arange(3), 4, 5) is None
    assert MapCache(cache.folder, "other", 6, (4, 5)).read(np.arange(3), 4, 5) is None


def swap(content):
    whole = len(content) // 6
    return content[whole : 2 * whole] + content[:whole] + content[2 * whole :]


@pytest.mark.parametrize(
    "change",
    [
        swap,
        lambda content: content[:8] + b"\1\2\3\4" + content[12:],
        lambda content: content[: 4 * 4 * 5 * 3] + bytes(16) + content[4 * 4 * 5 * 3 + 16 :],  # no digest
        lambda content: content[:-8],
        lambda content: content[: len(content) // 2],
        lambda content: b"",
    ],
)
def test_damage_is_noticed_and_mended(cache, change):
    file = cache.folder / "key.maps"
    file.write_bytes(change(file.read_bytes()))
    rows = np.array([0, 1])
    assert cache.read(rows, 4, 5) is None
    cache.write(rows, MAPS[rows])
    np.testing.assert_array_equal(cache.read(rows, 4, 5), MAPS[rows])


def test_maps_are_not_written_through_a_link(tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "mine").write_bytes(b"mine")
    (tmp_path / "cache" / "key.maps").symlink_to(tmp_path / "mine")
    cache = MapCache(tmp_path / "cache", "key", 6, (4, 5))
    assert cache.read(np.arange(6), 4, 5) is None
    cache.write(np.arange(6), MAPS)
    np.testing.assert_array_equal(cache.read(np.arange(6), 4, 5), MAPS)
    assert (tmp_path / "mine").read_bytes() == b"mine" and not (tmp_path / "cache" / "key.maps").is_symlink()


def test_memory_of_a_network_is_known_before(monkeypatch):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 24, 3, 2, 1), nn.BatchNorm2d(24), nn.ReLU(), nn.Conv2d(24, 8, 8, 8))
    made = network_maps.network_maps(network, torch.zeros(3), torch.ones(3), layer="3")
    assert made.stride == 16 and made.bytes_per_pixel == 1.5 * 4 * 2 * 24 / 4
    monkeypatch.setattr(network_maps, "AT_ONCE", 72 * 3 * 64**2 + 1)
    assert [made.most((side, side), 16) for side in (16, 64, 65, 999)] == [16, 3, 2, 1]
    x = np.random.default_rng(0).integers(0, 256, (40, 64, 64, 3), np.uint8)
    found = Discovery(features=network, feature_layer="3", image_size=32, windows=[2])
    few = found.fit(x).search_.dense.axes
    monkeypatch.setattr(network_maps, "AT_ONCE", 2**40)
    torch.testing.assert_close(found.fit(x).search_.dense.axes.abs(), few.abs(), rtol=0, atol=1e-4)
    monkeypatch.setattr(network_maps, "memory_limit", lambda: 72 * 130**2)
    monkeypatch.setattr("viewsmith.core.rows.memory_limit", lambda: 72 * 130**2)
    message = refusal(Discovery(features=network, feature_layer="3", image_size=48).fit, x)
    assert "it sees images of 192 x 192 pixels with image_size=48" in message and "--image-size 32" in message
    Discovery(features=network, feature_layer="3", image_size=32, windows=[2]).fit(x)


def test_features_of_larger_patches_are_kept_too(tmp_path, monkeypatch):
    x, cache, counted = noise(12), str(tmp_path / "cache"), []
    plain = Patches.__call__
    monkeypatch.setattr(Patches, "__call__", lambda self, x: counted.append(len(x)) or plain(self, x))
    with pytest.warns(UserWarning, match="nothing recurs"):
        Discovery(windows=[4], cache=cache).fit(x)
    first = sum(counted)
    counted.clear()
    with pytest.warns(UserWarning, match="nothing recurs"):
        Discovery(windows=[4], cache=cache).fit(x)
    assert sum(counted) == first - 2 * len(x)
