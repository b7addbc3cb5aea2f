"""Every method, framework and domain on a GPU: trains, saves, loads, resumes, and embeds as a CPU does."""

import contextlib

import numpy as np
import pytest
import torch
from gpu_cases import DATA, cases, options_of

import viewsmith
from registered import taken_by
from viewsmith.estimators import estimators
from viewsmith.training.engine import Trainer

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::UserWarning")]

# Largest difference of representations from those of a CPU with the same weights, in their standard deviations.
TOLERANCE = {"32": 1e-3, "bf16": 1e-3}
# Of a resumed run from an uninterrupted one: atomic additions on a GPU have no fixed order.
RESUMED = {"32": 2e-2, "bf16": 0.3}


@pytest.fixture
def watched(monkeypatch, device):
    """Every step but the first of an epoch raises where it would wait for the GPU or copy between it and the CPU."""
    step = Trainer._update

    @contextlib.contextmanager
    def strict():
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")

    def update(self, run, batch):
        with strict() if self.step and device == "cuda" else contextlib.nullcontext():
            step(self, run, batch)

    monkeypatch.setattr(Trainer, "_update", update)


def fit(name, domain, framework, view, precision, device, x, run=None, resume=False, **more):
    """A tiny model that was trained on the device."""
    options = {"device": device, "precision": precision, "checkpoint_every": 0, "epochs": 2} | more
    model = estimators()[name](**options_of(name, domain, framework, view) | options)
    return model.fit(x, np.arange(len(x)) % 2 if model.reads_labels() else None, run=run, resume=resume)


def distance(one, other):
    """Largest difference of two representations, in standard deviations of the first."""
    return float(np.abs(one - other).max() / max(one.std(), 1e-6))


@pytest.mark.parametrize("precision", ["32", "bf16"])
@pytest.mark.parametrize(("name", "domain", "framework", "view"), cases())
def test_it_trains_saves_loads_resumes_and_embeds(name, domain, framework, view, precision, device, watched, tmp_path):
    x = taken_by(view, domain, DATA[domain]())
    whole = fit(name, domain, framework, view, precision, device, x, tmp_path / "whole")
    assert np.isfinite(whole.metrics_[-1]["loss"]) and whole.summary_["device"].startswith(device)
    h = whole.transform(x)
    assert np.isfinite(h).all()
    loaded = viewsmith.load(tmp_path / "whole")
    loaded.scaler_.cpu()
    loaded.method_.cpu()
    assert distance(h, loaded.transform(x)) < TOLERANCE[precision]

    fit(name, domain, framework, view, precision, device, x, tmp_path / "cut", minutes=1e-9)
    resumed = fit(name, domain, framework, view, precision, device, x, tmp_path / "cut", resume=True)
    assert resumed.summary_["steps"] == whole.summary_["steps"]
    assert distance(h, resumed.transform(x)) < RESUMED[precision]
