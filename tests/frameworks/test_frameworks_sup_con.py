"""SupCon against its loss, and its labels."""

import pytest
import torch
from framework_cases import LABELS, assert_value_and_gradient, build, pair
from torch import nn

from refusals import refusal
from viewsmith.frameworks import SupCon
from viewsmith.losses import sup_con
from viewsmith.views import PositivePair


def test_it_equals_the_loss_of_the_classes_of_the_rows():
    framework, batch = build("supcon"), pair()
    z = [framework.head(framework.encoder(x)) for x in (batch.first, batch.second)]
    expected = sup_con(*z, tuple(LABELS[rows] for rows in batch.ids), temperature=0.1)
    assert_value_and_gradient(framework, framework(batch), list(expected))


def test_labels_are_required_and_not_saved():
    framework = build("supcon")
    assert not [name for name in framework.state_dict() if "labels" in name]
    said = refusal(framework, pair(ids=False))
    assert said == "supcon needs the rows that the views show, and the pair has no ids: give index"
    fresh = SupCon(nn.Identity(), nn.Identity())
    x = torch.zeros(2, 3)
    rows = torch.arange(2)
    assert (
        refusal(fresh, PositivePair(x, x, (rows, rows)))
        == "supcon has no labels: give y to fit, or labels to the framework"
    )
    fresh.read_labels(torch.tensor([0, 0]))
    assert fresh(PositivePair(torch.eye(3)[:2], torch.eye(3)[:2], (rows, rows))).shape == (2,)
    said = refusal(fresh, PositivePair(x, x, (rows, rows + 1)))
    assert said == "the largest of ids is 2, expected a row of the 2 labels"


def test_settings_out_of_range_are_rejected():
    assert refusal(build, "supcon", temperature=0) == "temperature is 0, expected a number above 0"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_loss_is_lower_if_classes_are_close(dtype):
    framework = SupCon(nn.Identity(), nn.Identity(), torch.tensor([0, 0, 1, 1]), temperature=0.5)
    rows = torch.arange(4)
    together = torch.tensor([[1.0, 0], [1, 0.1], [0, 1], [0.1, 1]], dtype=dtype)
    apart = together[[0, 2, 1, 3]]
    near, far = (framework(PositivePair(x, x, (rows, rows))).mean() for x in (together, apart))
    assert near < far - 0.5
