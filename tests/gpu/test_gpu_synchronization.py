"""No step of any method waits for the device: a GPU would stand still meanwhile."""

import contextlib

import numpy as np
import pytest
import torch
from gpu_cases import DATA, cases, options_of
from synchronization import NoSynchronization, Synchronized

from cases import slow
from registered import DEFAULT_VIEWS, taken_by
from viewsmith.methods.crl_tac.transforms import Crops, Windows
from viewsmith.methods.loading import estimators
from viewsmith.modalities import modality_of
from viewsmith.modalities.dna.networks import SequenceCNN
from viewsmith.modalities.images.views import _blur_some
from viewsmith.training.engine import Trainer


@pytest.fixture
def watched(monkeypatch, no_host):
    """A step of a training raises where it would wait for the device; the first of an epoch may prepare views."""
    step = Trainer._update

    def update(self, run, batch):
        with NoSynchronization() if self.step else contextlib.nullcontext():
            step(self, run, batch)

    monkeypatch.setattr(Trainer, "_update", update)


@pytest.mark.parametrize(("name", "modality", "framework", "view"), cases((0, 1), (2,), drawn=60))
def test_no_step_waits_for_the_device(name, modality, framework, view, watched):
    model = estimators()[name](**options_of(name, modality, framework, view))
    model.fit(taken_by(view, modality, DATA[modality]()), np.arange(16) % 2 if model.reads_labels() else None)
    assert model.summary_["steps"] > len(
        {row["epoch"] for row in model.metrics_}
    )  # steps beyond the first were watched


@pytest.mark.parametrize("modality", ["vectors", slow("images"), "dna"])
def test_the_cases_of_a_gpu_fit_its_default_encoder(modality):
    options = options_of("contrastive", modality, "simclr", DEFAULT_VIEWS[modality])
    model = estimators()["contrastive"](**options, encoder=modality_of(modality).default_encoder_on_gpu)
    assert np.isfinite(model.fit(DATA[modality]()).transform(DATA[modality]())).all()


def test_what_waits_is_found():
    x, repeats, rows = torch.arange(4.0), torch.tensor([1, 2, 0, 1]), torch.tensor([0, 2])
    waits = [
        lambda: x.sum().item(),
        lambda: bool((x > 0).all()),
        lambda: x[x > 1],
        lambda: x.nonzero(),
        lambda: x.unique(),
        lambda: x.clone().index_put_((x > 1,), x.new_zeros(())),
        lambda: torch.repeat_interleave(x, repeats),
        lambda: x.tolist(),
        lambda: torch.tensor(4.0, device=x.device),
        lambda: x.new_tensor([1, 2]),
        lambda: x[[0, -1]],
    ]
    for wait in waits:
        with pytest.raises(Synchronized), NoSynchronization():
            wait()
    with NoSynchronization():
        torch.where(x > 1, x, 0).sum() + x[rows].sum() + x.new_full((2,), 3.0).sum()


def both(work):
    """What a function gives where values of tensors may be looked at, and where not."""
    from viewsmith.core import tensors

    found = []
    for host in ({"cpu"}, set()):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tensors, "HOST", host)
            found.append(work())
    return found


def test_blur_of_some_images_is_the_same():
    x, sigma = torch.rand(5, 3, 12, 12), torch.tensor([0, 1.5, 0, 0.3, 0])
    one, other = both(lambda: _blur_some(x, sigma))
    torch.testing.assert_close(one, other)
    assert torch.equal(other[0], x[0])


@pytest.mark.parametrize("scales", [(1.0,), (1.0, 0.75)])
def test_crops_are_the_same(scales):
    crops, x = Crops(16, 16, crop=8, stride=4, scales=scales, flip=True), torch.rand(3, 1, 16, 16)
    t = torch.randint(crops.size, (3, 6), generator=torch.Generator().manual_seed(0))
    one, other = both(lambda: crops.take(x, t))
    assert torch.equal(one, other)


def test_windows_are_the_same_but_for_padding():
    x = torch.nn.functional.one_hot(torch.arange(60).view(3, 20) % 4, 4).float().mT.contiguous()
    x[1, :, 9:] = 0
    windows, t = Windows(count=5), torch.arange(5).expand(3, 5)
    one, other = both(lambda: windows.take(x, t))
    assert torch.equal(one, other[..., : one.shape[3]]) and not other[..., one.shape[3] :].any()


def test_an_encoder_of_sequences_is_the_same():
    bases = torch.randint(4, (3, 40), generator=torch.Generator().manual_seed(1))
    x = torch.nn.functional.one_hot(bases, 4).float().mT.contiguous()
    for padded in (False, True):
        if padded:
            x[1, :, 9:] = 0
        torch.manual_seed(0)
        encoder = SequenceCNN((4, 6), n_components=5).train()
        one, other = both(lambda: encoder(x))  # noqa: B023
        np.testing.assert_allclose(one.detach(), other.detach(), rtol=1e-4, atol=1e-5)
