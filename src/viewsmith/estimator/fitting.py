"""Steps of `fit`: seed, device, scaling, and training with its metrics, warnings and summary."""

import contextlib
import copy
import dataclasses
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor, nn

from viewsmith.core import distributed
from viewsmith.core.distributed import time_limit
from viewsmith.core.errors import InputError, pluralize, say, warn
from viewsmith.core.rows import PREPARATION, RowSource, return_blocks
from viewsmith.core.samples import Rows
from viewsmith.core.schedule import Method
from viewsmith.core.tensors import load_weights, stream
from viewsmith.data.reading import is_table
from viewsmith.estimator.inputs import described
from viewsmith.estimator.plan import BuildContext, TrainingData, row_hashes, training_rows, unscaled
from viewsmith.evaluation.label_free import below_untrained, neighbor_r2
from viewsmith.frameworks.supervision import supervised_phases
from viewsmith.modalities import Modality
from viewsmith.modalities.checks import warn_columns
from viewsmith.modalities.tables import table_of
from viewsmith.modalities.tables.roles import Role, describe_roles
from viewsmith.networks.base import batch_norm_momentum
from viewsmith.networks.scaling import Scaler
from viewsmith.training.callbacks import (
    Diagnostics,
    EarlyWarnings,
    FreeMemory,
    History,
    ProgressBar,
    collapse_warnings,
    with_trackers,
)
from viewsmith.training.engine import Callback, Trainer
from viewsmith.training.run import RunFolder, environment
from viewsmith.views.base import PrecomputedGraph


@dataclass(frozen=True)
class Given:
    """What a training is given beside its rows."""

    options: Any  # checked
    folder: RunFolder | None  # of the run
    resume: bool
    epochs: int | None  # length of a run that is resumed, as asked for now
    callbacks: Sequence[Callback]
    context: Any  # origin of the data, as saved with the run; before the rows are read it may be None
    device: torch.device
    began: float  # of the monotonic clock

    @classmethod
    def of(cls, options: Any, run: Any, resume: bool, context: Any) -> "Given":
        """With checked options; those of a run that is resumed choose what they chose when it was started."""
        began, folder, epochs = time.monotonic(), None if run is None else RunFolder(run), None
        return_blocks(PREPARATION)
        if resume and folder is not None and folder.exists():
            started, epochs = folder.resumed_epochs(options.epochs)
            options = dataclasses.replace(options, epochs=started)
            if options.random_state is None:
                seed = folder.read_config().get("parameters", {}).get("random_state")
                options = dataclasses.replace(options, random_state=seed)
        device = find_device(options.device)
        if options.compile and device.type != "cuda":
            raise InputError(f"compile is on and the device is {device.type}, expected a GPU: leave compile out")
        return cls(options, folder, resume, epochs, with_trackers(options.callbacks), context, device, began)

    @property
    def spent(self) -> float:
        """Seconds since the call of fit."""
        return time.monotonic() - self.began

    def limit(self) -> contextlib.AbstractContextManager[None]:
        """Within it, preparations end when the time of the whole training is over."""
        minutes = self.options.minutes
        return time_limit(None if minutes is None else minutes * 60 - self.spent, self.device)


@dataclass(frozen=True)
class Outcome:
    """Result of a training."""

    status: str  # "finished", "interrupted" or "time limit"
    metrics: list[dict[str, Any]]
    warnings: list[str]
    summary: dict[str, Any]  # versions, seeds, hardware, durations


def scale(
    modality: Modality,
    rows: np.ndarray | RowSource,
    scaling: str,
    device: torch.device,
    seed: int,
    labels: Any,
    neighbors: PrecomputedGraph | None = None,
    normalization: str = "none",
    signal: Mapping[str, Any] = MappingProxyType({}),
) -> TrainingData:
    """Fit the input layer to the rows and scale them."""
    layer = modality.layer_for(rows.shape[1:], {"dtype": rows.dtype.name} | dict(signal))
    raw, table = unscaled(rows), table_of(rows)
    if table is None:
        used, statistics = modality.fit_input(layer, raw, scaling)
    else:
        used, statistics = modality.fit_table(layer, raw, scaling, table)
    x, statistics = modality.scaled(raw, layer), statistics | dict(signal)
    return TrainingData(
        modality, rows, layer, x, used, statistics, device, seed, labels, neighbors, normalization=normalization
    )


def check_longer(folder: RunFolder | None, epochs: int | None, method: Method) -> None:
    """Raise InputError for a run that is resumed for another number of `epochs`, and has several phases."""
    if folder is None or epochs is None:
        return
    before, phases = folder.read_config()["fitted"].get("epochs"), len(method.phases())
    if epochs != before and phases > 1:
        raise InputError(
            f"{folder.path} has a run of {before} epochs in {phases} phases, which cannot become longer: train for "
            f"{epochs} epochs in another folder"
        )


@contextlib.contextmanager
def opened(
    folder: RunFolder | None,
    configuration: dict[str, Any],
    initial: dict[str, Tensor],
    device: torch.device,
    *,
    resume: bool,
) -> Iterator[bool]:
    """Hold a run folder with configuration and initial weights, by the first process; yields whether it resumes."""
    written = folder if distributed.rank() == 0 else None
    with written.locked() if written else contextlib.nullcontext():
        resumes = written.open_for(configuration, resume=resume) if written else False
        resumes = distributed.broadcast_flag(resumes, device)
        if written and not written.has_initial():
            written.write_initial(initial)
        yield resumes


def _trainer(
    name: str, method: Method, data: TrainingData, plan: BuildContext[Any], given: Given, callbacks: Sequence[Callback]
) -> Trainer:
    """The loop of a training with its options."""
    options, folder, few = plan.options, given.folder, plan.few_labels
    return Trainer(
        method,
        seed=data.seed,
        batch_size=options.batch_size,
        device=data.device,
        precision=options.precision,
        compile=options.compile,
        callbacks=callbacks,
        minutes=options.minutes,
        spent=given.spent,
        checkpoint=folder.checkpoint if folder else None,
        checkpoint_every=options.checkpoint_every,
        interruptible=folder is not None,
        phases=() if few is None else supervised_phases(method, data.x, few, data.device),
        settings={"method": name} | options.get_params(deep=False) | plan.facts.as_dict(),
    )


def train(
    name: str,
    method: Method,
    data: TrainingData,
    plan: BuildContext[Any],
    given: Given,
    *,
    initial: Mapping[str, Tensor],
    resume: bool,
) -> Outcome:
    """Train on scaled rows, and write metrics and checkpoints to the run folder, if there is one; `initial` are the
    weights before."""
    began, options, folder = datetime.now(UTC), plan.options, given.folder
    context: Mapping[str, Any] = given.context
    columns, split = _columns(data, plan, context), context.get("split")
    if isinstance(data.layer, Scaler) and table_of(data.rows) is None and "source" not in context.get("data", {}):
        varies = data.layer.varies.cpu().numpy()  # of rows of a file, `load_dataset` has warned
        warn_columns(data.rows, plan.facts.feature_names or None, ranges=(np.zeros_like(varies), varies))
    labels = _labels_used(plan)
    history = History(folder.metrics if folder else None)
    # Those given come before the history, which saves what they add to the metrics.
    watching = [Diagnostics(), *given.callbacks, history, EarlyWarnings(history), FreeMemory()]
    trainer = _trainer(name, method, data, plan, given, [*watching, ProgressBar()] if options.verbose else watching)
    tested = plan.facts.symmetries
    _say(plan, *columns.values(), *labels.values(), *(test["verdict"] for test in tested.values()))
    started = time.perf_counter()
    max_rows = options.max_rows if plan.labels is None and plan.neighbors is None else None
    x = training_rows(method, data.x, folder.rows if folder else None, max_rows=max_rows, seed=data.seed)
    sampled = {} if len(x) == len(data.x) else {"rows_on_disk": len(data.x)}
    if sampled:
        _say(plan, f"training on {len(x):,} random rows of {len(data.x):,} (max_rows)")
    data.layer.to(data.device)  # it scales batches of images and DNA
    status = trainer.fit(x, resume=resume)
    summary = method.describe() if trainer.prepared else {}
    if "chosen" in summary:
        _say(plan, f"{name} has chosen, without labels: {summary['chosen']}")
    method.release()
    if folder and distributed.rank() == 0:
        if status == "finished":
            folder.rows.unlink(missing_ok=True)
        if (hashes := row_hashes(data.rows)) is not None:
            folder.write_row_hashes(hashes)
    found = method.warnings(history.rows)
    if plan.labels is plan.few_labels is None and not data.groups:  # labels and groups change what are neighbors
        found += compared_with_untrained(method, initial, trainer.x, data.seed)
    for line in found:
        warn(line)
    if status != "finished":
        warn(_ended_early(trainer, status))
    all_warnings = collapse_warnings(history.rows, len(x)) + found
    facts = {"groups": data.groups, "symmetries": tested}
    of_data = sampled | columns | labels | {key: value for key, value in facts.items() if value}
    summary = {
        "method": name,
        "status": status,
        "date": began.isoformat(timespec="seconds"),
        "seed": data.seed,
        "epochs": trainer.epochs_done,
        "steps": trainer.steps,
        "rows": len(x),
        "seconds": {"training": round(trainer.elapsed, 3), "this process": round(time.perf_counter() - started, 3)},
        "device": str(data.device),
        "processes": distributed.world_size(),
        **of_data,
        "warnings": all_warnings,
        **summary,
        **environment(),
        **({} if split is None else {"split": split}),
    }
    return Outcome(status, history.rows, all_warnings, summary)


#: Rows on which the trained encoder is compared with the untrained one: those among which neighbors are searched, and
#: all; fewer than the last number are not compared.
PREDICTING, COMPARED, FEWEST_COMPARED = 600, 1000, 200
COMPARED_VALUES = 4_000_000  # of wide rows fewer are compared


def compared_with_untrained(method: Method, initial: Mapping[str, Tensor], x: Rows, seed: int) -> list[str]:
    """One line if rows of features are told from their neighbors clearly worse than before training; on images the
    measure does not tell (docs/results/label_free.md)."""
    if len(x) < FEWEST_COMPARED or distributed.is_distributed() or x[:1].ndim != 2:
        return []
    most = max(FEWEST_COMPARED, min(COMPARED, COMPARED_VALUES // x[:1].shape[1]))
    order = torch.randperm(len(x), generator=stream(seed, "compared"))[:most].to(x.device)
    rows, first = x[order], PREDICTING * len(order) // COMPARED
    before = copy.deepcopy(method)
    own = {name.removeprefix("method."): value for name, value in initial.items() if name.startswith("method.")}
    load_weights(before, own, "the initial weights")
    with torch.random.fork_rng([rows.device] if rows.device.type == "cuda" else []):
        refresh_batch_norm(before, rows)
    raw = rows.cpu().numpy()
    if np.ptp(raw[first:], axis=0).max() == 0:
        return []
    trained, untrained = (neighbor_r2_of(encoder, rows, raw, first) for encoder in (method.eval(), before.eval()))
    if not below_untrained(trained, untrained):
        return []
    return [
        "the trained encoder is below the untrained one: neighbors in the representation predict "
        f"{max(trained, 0):.0%} of the variance of the features, {untrained:.0%} before training; train for fewer "
        "epochs or with other views, and compare with --method contrastive"
    ]


@torch.no_grad()
def neighbor_r2_of(method: Method, rows: Tensor, raw: np.ndarray, first: int) -> float:
    """`neighbor_r2` of the representations of rows; the first ones predict the others."""
    h = method.represent(rows).float().cpu().numpy()
    return neighbor_r2(h[:first], h[first:], raw[:first], raw[first:])


def _ended_early(trainer: Trainer, status: str) -> str:
    """What a training that ended early has done, and what its model is good for."""
    done, least = f"{trainer.epochs_done} of {pluralize(trainer.epochs, 'epoch')}", trainer.steps_per_epoch
    if trainer.epochs_done:
        return f"training ended early ({status}) after {done}; the model is usable, and a run folder can be resumed"
    if not trainer.steps:
        return (
            f"nothing was trained: the time limit ended while the training was prepared, after {trainer.elapsed:.0f} "
            "seconds; the model has its initial weights: give more minutes (--minutes), or fewer rows"
        )
    return (
        f"training ended early ({status}) after {pluralize(trainer.steps, 'step')}, and the first of {trainer.epochs} "
        f"epochs has {least:,}: the model has hardly been trained; resume the run, or give more minutes (--minutes)"
    )


def _say(plan: BuildContext[Any], *lines: str) -> None:
    """Print lines on stderr, in the first process, if the training is verbose."""
    if plan.options.verbose and distributed.rank() == 0:
        for line in lines:
            say(line)


def _columns(data: TrainingData, plan: BuildContext[Any], context: Mapping[str, Any]) -> dict[str, str]:
    """A line about the roles of the columns of a table, for the summary; empty for other rows."""
    if (table := table_of(data.rows)) is not None:
        return {"columns": table.describe()}
    of_file = is_table(str(context.get("data", {}).get("source", "")))
    if not (of_file or plan.facts.named) or not isinstance(data.layer, Scaler):
        return {}
    roles: dict[str, Role] = {}
    for name, varies in zip(plan.facts.feature_names, data.layer.varies.tolist(), strict=True):
        roles[name] = "numeric" if varies else "constant"
    return {"columns": describe_roles(roles)}


def _labels_used(plan: BuildContext[Any]) -> dict[str, str]:
    """A line about the labels that the training uses, for the summary; empty if it uses none."""
    if plan.few_labels is not None:
        return {"labels": described(plan.few_labels)}
    if plan.labels is None:
        return {}
    framework, labels = plan.options.framework, plan.labels
    name = framework if isinstance(framework, str) else type(framework).__name__
    return {"labels": f"the framework {name} reads the labels of {len(labels)} rows ({int(labels.max()) + 1} classes)"}


def find_seed(random_state: Any) -> int:
    """A seed from scikit-learn's `random_state`; raises InputError for anything else."""
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
    """The device with this name; "auto" is the GPU if there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if re.fullmatch(r"cpu|cuda(:\d+)?", name) is None:
        raise InputError(f"device is {name!r}, expected 'auto', 'cpu', 'cuda' or 'cuda:N'")
    if name != "cpu" and not torch.cuda.is_available():
        raise InputError(f"device is {name!r}, but this machine has no usable GPU: use device='cpu' or 'auto'")
    return torch.device(name)


def check_batch(n_rows: int, batch_size: int, *, chosen: bool) -> None:
    """Warn about fewer rows than a batch whose size was chosen, and check that each process gets two rows of a batch,
    as BatchNorm needs."""
    if chosen and n_rows < batch_size:
        warn(f"{n_rows} rows are fewer than a batch of {batch_size}: every step takes all of them")
    world, batch = distributed.world_size(), min(batch_size, n_rows)
    if world > 1 and batch // world < 2:
        raise InputError(
            f"a batch of {batch} rows has less than 2 for each of {world} processes: raise batch_size, give more rows, "
            "or start fewer processes"
        )


@torch.no_grad()
def refresh_batch_norm(method: Method, x: Rows) -> None:
    """Set BatchNorm statistics but those of given weights to their plain average over one pass of scaled rows."""
    norms = [
        m
        for m in method.modules()
        if isinstance(m, nn.modules.batchnorm._BatchNorm) and not m.num_batches_tracked  # None: without statistics
    ]
    if not norms:
        return
    for norm in norms:
        norm.reset_running_stats()
    method.train()
    with batch_norm_momentum(norms, None):
        for start in range(0, len(x), 256):
            block = x[start : start + 256]
            if len(block) > 1:
                method.represent(block)
    method.eval()
