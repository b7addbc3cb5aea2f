"""MoCo v3 against a loop over queries and keys of both directions."""

import pytest
import torch
from framework_cases import assert_value_and_gradient, build, length_one, pair

TAU = 0.3


def slow_moco_v3(framework, batch):
    x = (batch.first, batch.second)
    q, k = [], []
    for view in (0, 1):
        q.append([length_one(row) for row in framework.predictor(framework.head(framework.encoder(x[view])))])
        with torch.no_grad():
            k.append([length_one(row) for row in framework.head_copy(framework.encoder_copy(x[view]))])
    losses = []
    for i in range(len(x[0])):
        directions = []
        for view in (0, 1):
            other, total = 1 - view, 0
            for j in range(len(x[0])):
                if j != i and batch.ids is not None and int(batch.ids[other][j]) in [int(n[i]) for n in batch.ids]:
                    continue
                total = total + torch.exp((q[view][i] * k[other][j]).sum() / TAU)
            attraction = torch.exp((q[view][i] * k[other][i]).sum() / TAU)
            directions.append(-2 * TAU * torch.log(attraction / total))
        losses.append((directions[0] + directions[1]) / 2)
    return losses


@pytest.mark.parametrize("ids", [True, False])
def test_moco_v3_equals_the_loop(ids):
    framework, batch = build("moco-v3"), pair(ids=ids)
    losses = framework(batch)
    assert_value_and_gradient(framework, losses, slow_moco_v3(framework, batch))
