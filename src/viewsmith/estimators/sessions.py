"""Between a model, its run folder and a data set: what the commands need and scripts may call."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from viewsmith.core.errors import InputError
from viewsmith.data import Dataset, load_dataset
from viewsmith.estimators.base import ViewsmithEstimator
from viewsmith.reports import EmbeddingMap, FeatureProfile, Gallery, ReportContent, two_dimensional_map
from viewsmith.training.run import RunFolder


@contextlib.contextmanager
def process_group() -> Iterator[None]:
    """Join the other processes when started by torchrun; nothing otherwise."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or torch.distributed.is_initialized():
        yield
        return
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        backend = "nccl"
    torch.distributed.init_process_group(backend)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def data_record(dataset: Dataset, transductive: bool = False) -> dict[str, Any]:
    """What a run keeps of its data: the part of the configuration, and the split."""
    split: dict[str, Any] = {"kind": dataset.split, "train": len(dataset.train_index), "transductive": transductive}
    if dataset.test_index is not None:
        split["test"] = len(dataset.test_index)
    if dataset.split == "stratified":
        split |= {"train_index": dataset.train_index.tolist(), "test_index": np.asarray(dataset.test_index).tolist()}
    return {
        "data": {
            "source": dataset.source,
            "domain": dataset.domain,
            "transductive": transductive,
            "fingerprint": hashlib.sha256(np.ascontiguousarray(dataset.x).data).hexdigest()[:16],
            "schema": json.dumps(dataset.schema),
        },
        "split": split,
        "feature_names": dataset.feature_names,
    }


def load_for(model: ViewsmithEstimator, data: str, label: str | None) -> Dataset:
    """DATA as the model's training data were read: same columns, same order, same domain."""
    record = model.context_.get("data")
    if record is None:
        return load_dataset(data, label=label, impute=model.options_.impute)
    schema = json.loads(record["schema"])
    if label is not None:
        schema["label"] = label
    return load_dataset(data, schema=schema)


def part(dataset: Dataset, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows of one side of the split, and their numbers in the array or table they came from."""
    if split not in ("train", "test"):
        raise InputError(f"--split is {split!r}, expected train or test")
    if split == "test" and dataset.test_index is None:
        raise InputError(f"{dataset.source} has no test rows: use --split train")
    index = dataset.train_index if split == "train" else dataset.test_index
    assert index is not None
    start = index[0] if dataset.split == "given" else 0
    return dataset.x[index], index - start


def report_content(
    folder: RunFolder, *, data: str | None = None, label: str | None = None, pictures: bool = False
) -> ReportContent:
    """Everything a report shows of a run; maps, profiles and galleries need its data and are made on request."""
    config, summary = folder.read_config(), folder.read_summary()
    content: dict[str, Any] = {
        "title": f"{config.get('method', 'run')} on {Path(config.get('data', {}).get('source', 'arrays')).name}",
        "method": str(config.get("method")),
        "config": config,
        "summary": summary,
        "metrics": folder.read_metrics(),
        "warnings": list(summary.get("warnings", [])),
        "evaluation": folder.read_evaluation(),
    }
    if pictures:
        content |= _pictures(folder, data or config.get("data", {}).get("source"), label)
    return ReportContent(**content)


def _pictures(folder: RunFolder, data: str | None, label: str | None) -> dict[str, Any]:
    from viewsmith.estimators import load

    if data is None:
        warnings.warn("the run names no data: give --data for maps and galleries", UserWarning, stacklevel=2)
        return {}
    model = load(folder.path)
    try:
        dataset = load_for(model, data, label)
    except InputError as error:
        warnings.warn(f"no maps and galleries: {error}", UserWarning, stacklevel=2)
        return {}
    held = dataset.test_index is not None
    x, y = (dataset.x_test, dataset.y_test) if held else (dataset.x_train, dataset.y_train)
    assert x is not None
    side = "test" if held else "training"
    maps = []
    for name, h in (("raw", model.scaled(x)), ("representation", model.transform(x))):
        xy, index = two_dimensional_map(h)
        caption = f"t-SNE of {len(index)} {side} rows"
        maps.append(EmbeddingMap(name, xy, None if y is None else y[index], caption))
    samples = x[:4]
    views = model.views(samples, 6, pool=dataset.x_train)
    gallery = Gallery("Views", f"Four {side} rows and six views of each", samples, views, "vectors")
    profiles = []
    if hasattr(model, "noise_profile"):
        mean, _ = model.noise_profile(dataset.x_train)
        profiles.append(
            FeatureProfile(
                "Learned noise",
                mean / model.scaler_.scale.cpu().numpy(),
                dataset.feature_names,
                "mean standard deviation of the noise over the training rows",
                "standard deviations of the data",
            )
        )
    return {"maps": maps, "galleries": [gallery], "profiles": profiles}
