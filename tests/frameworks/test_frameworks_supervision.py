"""The supervised term: its value and gradient against a loop, its draws, and what it leaves unchanged."""

import pytest
import torch
from torch import nn

from refusals import refusal
from viewsmith.core.schedule import Batch, Method, Optimizer
from viewsmith.frameworks import SimCLR
from viewsmith.frameworks.supervision import FewLabels, SupervisedTerm, draw_weights, supervised_phases
from viewsmith.losses.sup_con import rank_n_contrast
from viewsmith.methods.contrastive.training import ContrastiveMethod
from viewsmith.networks.base import batch_norm_momentum
from viewsmith.views import Identity
from viewsmith.views.base import PairMaker

CPU = torch.device("cpu")
CODES = torch.tensor([0, -1, 1, 0, -1, 2, 1, 2])


def batch(n=4, width=3, dtype=torch.float32):
    x = torch.randn(n, width, dtype=dtype, generator=torch.Generator().manual_seed(1))
    return Batch(x, torch.arange(n), torch.Generator().manual_seed(2))


def framework(dtype=torch.float32):
    torch.manual_seed(0)
    return SimCLR(nn.Linear(3, 5), nn.Linear(5, 4)).to(dtype)


def slow_term(net, rows, codes, tau=0.1):
    """Mean over all views of -1/|P| sum of log softmax; both views of a row are equal."""
    z = [v / v.norm() for v in net.head(net.encoder(torch.cat([rows, rows])))]
    y = [*codes, *codes]
    total = 0
    for i in range(len(z)):
        others = [j for j in range(len(z)) if j != i]
        below = sum(torch.exp(z[i] @ z[j] / tau) for j in others)
        positives = [j for j in others if y[j] == y[i]]
        total = total - sum(torch.log(torch.exp(z[i] @ z[j] / tau) / below) for j in positives) / len(positives)
    return total / len(z)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 2e-5)])
def test_the_term_equals_the_loop(dtype, tolerance):
    x, net = torch.randn(8, 3, dtype=dtype, generator=torch.Generator().manual_seed(3)), framework(dtype)
    term = SupervisedTerm(net, PairMaker([Identity()]), x, FewLabels(CODES), CPU)
    known = (CODES >= 0).nonzero()[:, 0]
    fast, slow = term(batch(dtype=dtype)), slow_term(net, x[known], CODES[known].tolist())
    torch.testing.assert_close(fast, slow, rtol=tolerance, atol=tolerance)
    weights = list(net.parameters())
    pairs = zip(torch.autograd.grad(fast, weights), torch.autograd.grad(slow, weights), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other, rtol=10 * tolerance, atol=10 * tolerance)


def test_draws_are_without_repetition_and_balanced():
    codes = torch.tensor([0] * 90 + [1] * 10)
    torch.testing.assert_close(draw_weights(codes), torch.tensor([1 / 90] * 90 + [1 / 10] * 10, dtype=torch.float64))
    seen = []

    class Rows(Identity):
        def pair(self, pair, *, generator=None):
            seen.append(pair.ids[0])
            return pair

    term = SupervisedTerm(framework(), PairMaker([Rows()]), torch.randn(100, 3), FewLabels(codes), CPU, drawn=20)
    term(batch())
    assert len(seen[0]) == 20 == len(seen[0].unique())
    assert int((codes[seen[0]] == 1).sum()) >= 5  # all of the few are likely; of 20 uniform ones it would be 2


def method_of(encoder):
    views, optimizer = PairMaker([Identity()]), Optimizer()
    return ContrastiveMethod(SimCLR(encoder, nn.Linear(5, 4)), views, epochs=1, optimizer=optimizer)


def test_losses_have_the_weighted_term_and_the_statistics_stay():
    torch.manual_seed(0)
    x = torch.randn(8, 3)
    method = method_of(nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5)))
    plain, _ = method.encoder_step(batch())
    term = SupervisedTerm(method.framework, method.views, x, FewLabels(CODES), CPU)
    norm = method.framework.encoder[1]
    before = norm.running_mean.clone()
    value = term(batch())
    torch.testing.assert_close(norm.running_mean, before, rtol=0, atol=0)
    assert norm.momentum == 0.1
    (phase,) = supervised_phases(method, x, FewLabels(CODES, weight=2.0), CPU)
    losses, logs = phase.updates[0].step(batch())
    torch.testing.assert_close(losses, plain + 2 * value)
    torch.testing.assert_close(logs["supervised"], value.detach())
    assert [update.name for update in phase.updates] == ["encoder"]


def test_statistics_are_put_back_after_an_error():
    norm = nn.BatchNorm1d(3, momentum=0.3)
    with pytest.raises(RuntimeError), batch_norm_momentum([norm], 0.0):
        raise RuntimeError
    assert norm.momentum == 0.3


def test_a_method_without_framework():
    assert "has no framework" in refusal(supervised_phases, Method(), torch.randn(8, 3), FewLabels(CODES), CPU)


def test_the_term_of_numbers_is_rank_n_contrast():
    numbers = torch.tensor([0.5, float("nan"), 2.0, 0.75, float("nan"), 2.0, -3.0, 1.0], dtype=torch.float64)
    x, net = (
        torch.randn(8, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3)),
        framework(torch.float64),
    )
    labels = FewLabels(numbers)
    known = labels.rows
    assert known.tolist() == [0, 2, 3, 5, 6, 7]
    z = net.head(net.encoder(x[known]))
    expected = rank_n_contrast(z, z, numbers[known]).mean()
    found = SupervisedTerm(net, PairMaker([Identity()]), x, labels, CPU)(batch(dtype=torch.float64))
    torch.testing.assert_close(found, expected)
    assert draw_weights(numbers[known]).tolist() == [1] * 6
