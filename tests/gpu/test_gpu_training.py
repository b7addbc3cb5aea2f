"""Every method, framework and modality on a GPU, or a simulated one: trains, saves, loads, resumes, embeds as a CPU."""

import contextlib

import numpy as np
import pytest
import torch
from gpu_cases import DATA, cases, options_of
from simulated import no_waiting

import viewsmith
from registered import taken_by
from viewsmith.methods.loading import estimators
from viewsmith.training.engine import Trainer

# Largest difference of representations from those of a CPU with the same weights, in their standard deviations; with
# TensorFloat-32, which convolutions use by default, and without.
TF32, TOLERANCE = 1e-2, 1e-3
# Of a resumed run from an uninterrupted one, with PyTorch's deterministic algorithms.
RESUMED = 1e-3


@pytest.fixture
def repeatable(device):
    """Deterministic algorithms where there are some: atomic additions of a GPU have no fixed order, and the first steps
    of Adam enlarge small differences (to 0.19 standard deviations on an H100)."""
    torch.use_deterministic_algorithms(device == "cuda", warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def watched(monkeypatch, device):
    """Every step but the first of an epoch or run raises where it would wait for the GPU or copy to it."""
    step, begun = Trainer._update, set()

    @contextlib.contextmanager
    def on_gpu():
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")

    def update(self, run, batch):
        strict = {"cuda": on_gpu, "simulated": no_waiting}.get(device, contextlib.nullcontext)
        with strict() if self.step and self in begun else contextlib.nullcontext():
            step(self, run, batch)
        begun.add(self)

    monkeypatch.setattr(Trainer, "_update", update)


def fit(name, modality, framework, view, precision, device, x, run=None, resume=False, **more):
    """A tiny model that was trained on the device."""
    options = {"device": device, "precision": precision, "epochs": 2} | more
    if device == "simulated" and modality == "images":
        options["encoder"] = "cnn"  # the default on a GPU, resnet18, takes minutes
    model = estimators()[name](**options_of(name, modality, framework, view) | options)
    return model.fit(x, np.arange(len(x)) % 2 if model.reads_labels() else None, run=run, resume=resume)


def distance(one, other):
    """Largest difference of two representations, in standard deviations of the first."""
    return float(np.abs(one - other).max() / max(one.std(), 1e-6))


def runs():
    """Cases with a device and a precision; the simulation has no autocast and no `torch.func`, which MetAug uses."""
    for case in cases((0, 1), (2,)):
        values, marks = (case.values, case.marks) if hasattr(case, "values") else (case, ())
        for precision in ("32", "bf16"):
            yield pytest.param(*values, "gpu", precision, marks=[*marks, pytest.mark.gpu])
    for case in cases((0,), (1,), drawn=30):
        values, marks = (case.values, case.marks) if hasattr(case, "values") else (case, ())
        if values[0] != "metaug":
            yield pytest.param(*values, "simulated", "32", marks=marks)


@pytest.mark.parametrize(("name", "modality", "framework", "view", "device", "precision"), runs(), indirect=["device"])
def test_it_trains_saves_loads_resumes_and_embeds(
    name, modality, framework, view, precision, device, watched, repeatable, tmp_path
):
    x = taken_by(view, modality, DATA[modality]())
    whole = fit(name, modality, framework, view, precision, device, x, tmp_path / "whole")
    assert np.isfinite(whole.metrics_[-1]["loss"]) and whole.summary_["device"].startswith(device)
    h = whole.transform(x)
    assert np.isfinite(h).all()
    exact = h
    if device == "cuda":
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            exact = whole.transform(x)
    loaded = viewsmith.load(tmp_path / "whole")
    loaded.scaler_.cpu()
    loaded.method_.cpu()
    on_cpu = loaded.transform(x)
    assert distance(on_cpu, exact) < TOLERANCE and distance(on_cpu, h) < TF32

    if device == "simulated" and name != "contrastive":
        return  # what resumes is the same for all, and slow there
    fit(name, modality, framework, view, precision, device, x, tmp_path / "cut", minutes=1e-9)
    resumed = fit(name, modality, framework, view, precision, device, x, tmp_path / "cut", resume=True)
    assert resumed.summary_["steps"] == whole.summary_["steps"]
    assert distance(h, resumed.transform(x)) < RESUMED
