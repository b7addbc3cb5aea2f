"""Functions that tests of estimators run in other processes."""

import pickle
import warnings
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits, load_wine

from registered import TRAINED
from viewsmith import load
from viewsmith.core.tensors import save_tensors
from viewsmith.training import Callback

OPTIONS = {"epochs": 3, "hidden": (8,), "n_components": 4, "projector_dims": (4,), "batch_size": 64, "random_state": 0}


def fit(rank, out, name, run, options, resume):
    """Fit in a group of two processes and save the representation of this process."""
    warnings.simplefilter("ignore")
    np.random.seed(rank)  # noqa: NPY002 - random_state=None draws from it
    x = load_wine().data.astype(np.float32)
    if options.get("modality") == "images":
        x = (load_digits().images[:128] * 15).astype(np.uint8)
    model = TRAINED[name](**OPTIONS | options, callbacks=[before := State()])
    model.fit(x, run=run, resume=resume)
    np.save(f"{out}/{rank}.npy", model.transform(x))
    save_tensors(Path(f"{out}/{rank}.copies.safetensors"), copies(before.tensors))
    means = {name: value for name, value in before.tensors.items() if "encoder" in name and "running_mean" in name}
    save_tensors(Path(f"{out}/{rank}.means.safetensors"), means)
    Path(out, f"{rank}.seed").write_text(str(model.fitted_["seed"]))


class State(Callback):
    """Weights and buffers after the last step, before all processes get those of the first."""

    def __init__(self):
        self.tensors = {}

    def step(self, trainer):
        self.tensors = {name: value.clone() for name, value in trainer.method.state_dict().items()}


def copies(state):
    """Weights and buffers of the frozen copies in the state of a method, and of modules fitted to them."""
    return {name: value for name, value in state.items() if name.startswith(("quality.", "generated."))}


def load_without_pickle(run, out):
    """Load a model in a process in which unpickling fails."""

    def refuse(*args, **kwargs):
        raise AssertionError("something was unpickled")

    pickle.load = pickle.loads = pickle.Unpickler = torch.load = refuse
    np.save(out, load(run).initial_["scaler.center"], allow_pickle=False)
