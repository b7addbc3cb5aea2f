"""The simulated device refuses what a GPU refuses, and gives what a CPU gives."""

import json

import numpy as np
import pytest
import torch
from gpu_cases import DATA, TINY, vectors
from simulated import MixedDevices, no_waiting
from synchronization import Synchronized

from cases import slow
from viewsmith import Contrastive
from viewsmith.data import load_dataset
from viewsmith.modalities.images.modality import Images
from viewsmith.modalities.images.views import ImageViews
from viewsmith.training.engine import Trainer
from viewsmith.views.base import PositivePair
from viewsmith.workflows.generate import generate_cache


@pytest.fixture
def pair(simulated):
    """A tensor (3, 2) of the CPU, and the same on the device."""
    x = torch.arange(6.0).view(3, 2)
    return x, x.to(simulated)


def test_operations_give_what_a_cpu_gives(pair):
    x, there = pair
    there.requires_grad_()
    (there @ there.mT).logsumexp(1).sum().backward()
    here = x.clone().requires_grad_()
    (here @ here.mT).logsumexp(1).sum().backward()
    assert there.grad.device.type == "simulated" and torch.equal(there.grad.cpu(), here.grad)
    assert (there * 2 + torch.tensor(1.0)).tolist() == (x * 2 + 1).tolist()


@pytest.mark.parametrize(
    "mix",
    [
        lambda x, there: x + there,
        lambda x, there: torch.cat([x, there]),
        lambda x, there: x[torch.tensor([0]).to(there.device)],
        lambda x, there: there.index_put_((torch.tensor([0]).to(there.device),), x[:1]),
        lambda x, there: torch.randn(3, generator=torch.Generator(there.device)),
        lambda x, there: torch.randn(3, generator=torch.Generator(), device=there.device),
        lambda x, there: there.clone().normal_(generator=torch.Generator()),
    ],
)
def test_mixed_devices_are_refused(mix, pair):
    with pytest.raises(MixedDevices):
        mix(*pair)


@pytest.mark.parametrize(
    "wait",
    [
        lambda x, there: there.cpu(),
        lambda x, there: x.to(there.device),
        lambda x, there: there.copy_(x),
        lambda x, there: there.sum().item(),
        lambda x, there: there.tolist(),
        lambda x, there: there[[0, 2]],
        lambda x, there: there[torch.tensor([0])],
        lambda x, there: there.nonzero(),
        lambda x, there: torch.tensor([1.0], device=there.device),
        lambda x, there: there.new_tensor([1.0]),
        lambda x, there: torch.as_tensor(np.ones(2), device=there.device),
    ],
)
def test_waiting_is_refused_where_it_is_forbidden(wait, pair):
    wait(*pair)
    with pytest.raises(Synchronized), no_waiting():
        wait(*pair)


def test_neighbors_in_the_space_of_the_encoder(simulated, monkeypatch):
    step = Trainer._update

    def update(self, run, batch):
        if not self.step:
            return step(self, run, batch)
        with no_waiting():
            return step(self, run, batch)

    monkeypatch.setattr(Trainer, "_update", update)
    found = []
    for device in ("cpu", simulated):
        model = Contrastive(**TINY | {"epochs": 4}, neighbor_space="encoder", device=device).fit(vectors())
        found.append(model.metrics_[-1]["loss"])
    np.testing.assert_allclose(*found, rtol=0.5)  # each device draws its own numbers
    assert model.summary_["device"].startswith(simulated)


@pytest.mark.parametrize("modality", ["vectors", slow("images"), slow("dna")])
def test_a_generator_is_trained_and_makes_views(modality, simulated, tmp_path, monkeypatch):
    monkeypatch.setattr(Images, "default_encoder_on_gpu", "cnn")  # a residual network takes longer
    np.save(tmp_path / "x.npy", DATA[modality]())
    data = load_dataset(tmp_path / "x.npy", modality=modality)
    options = {"epochs": 1, "batch_size": 8, "candidates": 2, "steps": 2, "device": simulated}
    cache = generate_cache(data, tmp_path / "cache", noise="adaptive", **options)
    trained = json.loads((cache.path / "generator" / "summary.json").read_text())
    assert trained["device"].startswith(simulated)
    views = cache.read("views")
    assert views.shape == (16, 1, *data.x.shape[1:]) and views.device.type == "cpu" and not cache.missing()


def test_both_views_of_a_pair_are_made_at_once_with_their_own_crops(simulated):
    columns = (torch.arange(24.0) + 0.5).expand(8, 1, 24, 24)
    first, second = columns.to(simulated), (100 + columns).to(simulated)
    ids = torch.arange(8).to(simulated)
    maker = ImageViews(jitter=0, gray=0, scale=(0.2, 0.5))
    pair = maker.pair(PositivePair(first, second, (ids, ids)), generator=torch.Generator(simulated).manual_seed(0))
    for view, crops, least in ((pair.first, pair.crops[0], 0), (pair.second, pair.crops[1], 100)):
        left, width = crops.boxes[:, 1].cpu() * 24, crops.boxes[:, 3].cpu() * 24
        torch.testing.assert_close(view.cpu().mean((1, 2, 3)), least + left + width / 2)
    assert not torch.equal(pair.crops[0].boxes.cpu(), pair.crops[1].boxes.cpu())
