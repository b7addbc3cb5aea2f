"""Discovery computes the features of images on a GPU, or a simulated one, and finds what it finds on a CPU."""

import numpy as np
import pytest
import torch
from torch import nn

from located_discs import with_discs
from viewsmith import Discovery

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
def test_the_same_parts_as_on_a_cpu(features, device, tmp_path):
    torch.manual_seed(0)
    x, _ = with_discs(40)
    chosen = "patches" if features == "patches" else Colors()
    options = {"features": chosen, "windows": (3, 4), "max_q": 1}
    here, there = (Discovery(device=name, **options).fit(x) for name in ("cpu", device))
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


def test_a_function_may_give_maps_on_the_device(simulated):
    x, _ = with_discs(20)

    def colors(images):
        pixels = torch.from_numpy(images).to(simulated).permute(0, 3, 1, 2).float()
        return nn.functional.avg_pool2d(pixels, 4)

    assert len(Discovery(features=colors, device=simulated, windows=(4,), max_q=1).fit(x).tried_[0]) == 1
