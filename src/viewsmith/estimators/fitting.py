"""One training: the engine with its callbacks, and what is told about it afterwards."""

from __future__ import annotations

import re
import time
import warnings
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import torch
from sklearn.utils import check_random_state
from torch import nn

from viewsmith.core import distributed
from viewsmith.core.errors import InputError
from viewsmith.core.method import Method
from viewsmith.core.samples import Rows
from viewsmith.training.callbacks import Diagnostics, EarlyWarnings, History, ProgressBar, collapse_warnings
from viewsmith.training.engine import Trainer
from viewsmith.training.run import RunFolder, environment

if TYPE_CHECKING:
    from viewsmith.estimators.base import ViewsmithEstimator


def train(model: ViewsmithEstimator, x: Rows, device: torch.device, folder: RunFolder | None, *, resume: bool) -> None:
    """Train the model's method on scaled rows and keep what happened on the model and in the run folder."""
    options, began = model.options_, datetime.now(UTC)
    history = History(folder.metrics if folder else None)
    callbacks = [Diagnostics(), history, EarlyWarnings(history)]
    if options.verbose:
        callbacks.append(ProgressBar())
    trainer = Trainer(
        model.method_,
        seed=model.fitted_["seed"],
        batch_size=options.batch_size,
        device=device,
        precision=options.precision,
        callbacks=callbacks,
        minutes=options.minutes,
        checkpoint=folder.checkpoint if folder else None,
        checkpoint_every=options.checkpoint_every,
        interruptible=folder is not None,
    )
    started = time.perf_counter()
    model.scaler_.to(device)  # which scales batches of images and DNA
    model.status_ = trainer.fit(x, resume=resume)
    model.method_.release()
    model.metrics_ = history.rows
    model.warnings_ = collapse_warnings(history.rows, len(x)) + model.method_.warnings()
    for line in model.method_.warnings():
        warnings.warn(line, UserWarning, stacklevel=3)
    if model.status_ != "finished":
        warnings.warn(
            f"training ended early ({model.status_}) after {trainer.epochs_done} of {trainer.epochs} epochs; "
            "the model is usable, and a run folder can be gone on with by resume",
            UserWarning,
            stacklevel=3,
        )
    context: dict[str, Any] = model.context_
    model.summary_ = {
        "method": model.name,
        "status": model.status_,
        "date": began.isoformat(timespec="seconds"),
        "seed": model.fitted_["seed"],
        "epochs": trainer.epochs_done,
        "steps": trainer.steps,
        "rows": len(x),
        "seconds": {"training": round(trainer.age, 3), "this session": round(time.perf_counter() - started, 3)},
        "device": str(device),
        "processes": distributed.world_size(),
        "warnings": model.warnings_,
        **environment(),
        **({"split": context["split"]} if "split" in context else {}),
    }
    model._to_device()
    if folder and distributed.rank() == 0:
        folder.write_model(model._weights())
        folder.write_summary(model.summary_)


def find_seed(random_state: Any) -> int:
    """A seed from what scikit-learn takes for `random_state`."""
    expected = "expected a non-negative integer, a RandomState or None"
    if isinstance(random_state, int):
        if random_state < 0:
            raise InputError(f"random_state is {random_state}, {expected}")
        return random_state
    try:
        return int(check_random_state(random_state).randint(0, 2**31 - 1))
    except ValueError:
        raise InputError(f"random_state is {random_state!r}, {expected}") from None


def find_device(name: str) -> torch.device:
    """The device of a name; "auto" is the GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if re.fullmatch(r"cpu|cuda(:\d+)?", name) is None:
        raise InputError(f"device is {name!r}, expected 'auto', 'cpu', 'cuda' or 'cuda:N'")
    if name != "cpu" and not torch.cuda.is_available():
        raise InputError(f"device is {name!r}, but this machine has no usable GPU: use device='cpu' or 'auto'")
    return torch.device(name)


def check_rows_per_process(n_rows: int, batch_size: int) -> None:
    """Refuse processes that would get less than two rows of a batch: BatchNorm has no statistics of one.

    Raises
    ------
    InputError
    """
    world, batch = distributed.world_size(), min(batch_size, n_rows)
    if world > 1 and batch // world < 2:
        raise InputError(
            f"a batch of {batch} rows over {world} processes leaves less than 2 to each: raise batch_size, give more "
            "rows, or start fewer processes"
        )


@torch.no_grad()
def refresh_batch_norm(method: Method, x: Rows) -> None:
    """BatchNorm statistics as the plain average over one pass of scaled rows."""
    norms = [m for m in method.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # plain average over the pass
    method.train()
    for start in range(0, len(x), 256):
        block = x[start : start + 256]
        if len(block) > 1:
            method.represent(block)
    method.eval()
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
