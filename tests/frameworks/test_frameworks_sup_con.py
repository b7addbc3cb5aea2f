"""SupCon against a loop over anchors, and its labels."""

import pytest
import torch
from framework_cases import LABELS, assert_value_and_gradient, build, length_one, pair
from torch import nn

from refusals import refusal
from viewsmith.frameworks import SupCon
from viewsmith.views import PositivePair

TAU = 0.1


def slow_sup_con(framework, batch):
    z = [length_one(row) for x in (batch.first, batch.second) for row in framework.head(framework.encoder(x))]
    classes = [int(LABELS[row]) for part in batch.ids for row in part]
    anchors = []
    for i in range(len(z)):
        others = [j for j in range(len(z)) if j != i]
        total = sum(torch.exp((z[i] * z[j]).sum() / TAU) for j in others)
        positives = [
            -torch.log(torch.exp((z[i] * z[j]).sum() / TAU) / total) for j in others if classes[j] == classes[i]
        ]
        anchors.append(sum(positives) / len(positives))
    half = len(batch.first)
    return [(anchors[i] + anchors[half + i]) / 2 for i in range(half)]


def test_sup_con_equals_the_loop():
    framework, batch = build("supcon"), pair()
    assert_value_and_gradient(framework, framework(batch), slow_sup_con(framework, batch))


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
