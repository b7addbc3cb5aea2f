"""Discovery searches images on a GPU, or a simulated one, and finds what it finds on a CPU."""

import numpy as np
import pytest
import torch
from torch import nn

from located_discs import with_discs
from viewsmith import Discovery
from viewsmith.methods.discovery.contrast import Contrast
from viewsmith.methods.discovery.image_parts import boxes_of, filling, small

pytestmark = pytest.mark.usefixtures("small_searches")


class Colors(nn.Module):
    """A network of one layer, maps of a quarter of the size."""

    def __init__(self):
        super().__init__()
        self.mixed = nn.Conv2d(3, 12, 1)
        self.maps = nn.AvgPool2d(4)

    def forward(self, x):
        return self.maps(self.mixed(x).relu())


@pytest.mark.parametrize("device", ["simulated", pytest.param("gpu", marks=pytest.mark.gpu)], indirect=True)
@pytest.mark.parametrize("features", ["patches", "network"])
def test_the_same_parts_as_on_a_cpu(features, device, tmp_path, monkeypatch):
    searched, scores = [], Contrast.__call__
    monkeypatch.setattr(Contrast, "__call__", lambda self, z: searched.append(type(z)) or scores(self, z))
    torch.manual_seed(0)
    x, _ = with_discs(40)
    chosen = "patches" if features == "patches" else Colors()
    options = {"features": chosen, "windows": (3, 4), "max_q": 1}
    here = Discovery(device="cpu", **options).fit(x)
    assert set(searched) == {np.ndarray}
    searched.clear()
    there = Discovery(device=device, **options).fit(x)
    assert np.ndarray not in searched and len(searched) > 10  # nothing is copied back to be scored
    assert here.recurs_ and there.search_.device.type == device
    found, expected = there.locate(x), here.locate(x)
    boxes = [np.stack([part[side] for side in ("left", "top", "right", "bottom")], 1) for part in (found, expected)]
    assert len(found)
    # Rounding may move the side of a box by a cell.
    assert found["sample"].tolist() == expected["sample"].tolist() and np.abs(boxes[0] - boxes[1]).max() <= 4
    assert np.median(np.abs(boxes[0] - boxes[1])) == 0
    if features == "patches":
        there.save(tmp_path / "found")
        loaded = Discovery.load(tmp_path / "found").locate(x)
        assert loaded["sample"].tolist() == found["sample"].tolist()
        np.testing.assert_allclose(loaded["score"], found["score"], atol=1e-2)


@pytest.mark.parametrize("kind", [small, filling])
def test_further_kinds_too(kind, simulated):
    rng = np.random.default_rng(0)
    maps, nothing = rng.normal(size=(2, 24, 16, 16, 6)).astype(np.float32)
    for image, corners in zip(maps, rng.integers(0, 13, (24, 2)), strict=True):
        image[corners[0] : corners[0] + 3, corners[1] : corners[1] + 3] += [4, -4, 4, 0, 0, 0]
    free, found = np.ones(maps.shape[:3], bool), []
    for of in (torch.Tensor.numpy, lambda x: x.to(simulated)):
        own, other = (of(torch.from_numpy(each)) for each in (maps, nothing))
        part = small(own, free, 3, 0, other)[0] if kind is small else filling(own, free, 3, 0)
        ((boxes, scores),) = boxes_of(part, own, free, 1)
        found.append((boxes, scores, part.features(own, free, boxes)))
    for here, there in zip(*found, strict=True):
        np.testing.assert_allclose(here, there, atol=1e-3)


def test_a_function_may_give_maps_on_the_device(simulated):
    x, _ = with_discs(20)

    def colors(images):
        pixels = torch.from_numpy(images).to(simulated).permute(0, 3, 1, 2).float()
        return nn.functional.avg_pool2d(pixels, 4)

    assert len(Discovery(features=colors, device=simulated, windows=(4,), max_q=1).fit(x).tried_[0]) == 1
