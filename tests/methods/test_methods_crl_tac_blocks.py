"""Steps of CRL-TAC that compute without gradient in blocks of samples, so that memory does not grow with the batch."""

import torch
from test_methods_crl_tac import crops, squares
from torch import nn

from viewsmith.core import Batch


def test_a_channel_step_in_blocks_equals_one_in_one_pass(monkeypatch):
    x, generator = squares(24), torch.Generator()
    results = []
    for limit in (2**40, 64 * 64 * 5):
        monkeypatch.setattr("viewsmith.methods.crl_tac.transforms.MAX_PIXELS", limit)
        monkeypatch.setattr("viewsmith.methods.crl_tac.channel.VALUES", limit)
        method, sizes = crops(False, False), []
        real = method.encoder.dense
        method.encoder.dense = lambda x, real=real, sizes=sizes: sizes.append(len(x)) or real(x)
        nn.init.normal_(method.channel.scores.conv3.weight, generator=generator.manual_seed(0))
        with torch.no_grad():
            drawn = method.channel.draw(x, 3, generator.manual_seed(0))
        losses, _ = method.channel_step(Batch(x, torch.arange(24), generator))
        losses.mean().backward()
        results.append((drawn, losses.detach(), *(weight.grad for weight in method.channel.parameters())))
        assert sizes == ([24] if limit == 2**40 else [5, 5, 5, 5, 4])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
