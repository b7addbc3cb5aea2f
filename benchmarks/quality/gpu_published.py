"""Trainings with the published sizes on a GPU. They take hours and run in parts, each of which ends with a checkpoint.

simclr, pinda   CIFAR-10 with a ResNet-18, 1,000 epochs (PiNDA's table 3), seed 0
random alone    the same without other views: Gaussian noise on both views
pinda alone     the same with learned noise on one of two equal views
crl-tac         MNIST digits at one of nine places of 84 x 84 pixels, all 60,000 (table 1), seeds 0 to 3, 30 epochs
diffaug         MNIST as 60,000 vectors of 784 with the published settings, seed 0

--epochs 60 trains a shorter schedule, recorded as "simclr, 60 epochs". A call trains the first unfinished row for
--minutes; the next call resumes from the checkpoint. A finished row is scored (linear probe and 5 nearest neighbors,
all test rows). --folder has the runs.

    VIEWSMITH_DATA=folder python -m benchmarks.quality.gpu_published [row ...] [--epochs N] [--minutes 8] [--quick]
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.common.data import DataSet, data_folder, load
from benchmarks.common.runner import RESULTS, append, done, when
from benchmarks.common.tiny import tiny_data
from benchmarks.quality.crl_tac.crl_tac_mnist import SETS
from benchmarks.quality.suite import score
from viewsmith.methods.loading import estimators
from viewsmith.training.run import environment

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Published:
    """A row: name of the method, data, preset (None: the defaults), seeds, further options, and those of --quick."""

    method: str
    data: DataSet
    preset: str | None = None
    seeds: tuple[int, ...] = (0,)
    options: dict[str, Any] = field(default_factory=dict)
    quick: dict[str, Any] = field(default_factory=dict)


CIFAR = DataSet("cifar10", "images", test_rows=None)
ALONE = {"view_maker": "noise", "noise_strength": 1.0}
ROWS = {
    "simclr": Published("contrastive", CIFAR, "paper-images", quick={"encoder": "cnn"}),
    "pinda": Published("pinda", CIFAR, "paper-images", quick={"encoder": "cnn", "generator": "low-resolution"}),
    "random alone": Published("contrastive", CIFAR, "paper-images", options=ALONE, quick={"encoder": "cnn"}),
    "pinda alone": Published(
        "pinda",
        CIFAR,
        "paper-images",
        options={"view_maker": "identity"},
        quick={"encoder": "cnn", "generator": "low-resolution"},
    ),
    "crl-tac": Published("crl-tac", SETS["84 x 84"], seeds=(0, 1, 2, 3), options={"epochs": 30, "encoder": "crl-cnn"}),
    "diffaug": Published(
        "diffaug", DataSet("mnist", test_rows=None), "paper", quick={"sampler": "ddim", "sampler_steps": 2}
    ),
}


def train(name: str, row: Published, seed: int, folder: Path, minutes: float, device: str, quick: bool) -> Any:
    """Train the next part of a row; return the model and its data."""
    few = {"train_rows": 16, "test_rows": 16} if quick else {}
    data, cls = load(replace(row.data, **few)), estimators()[row.method]
    options = {**(cls.presets[row.preset] if row.preset else {}), **row.options, "random_state": seed, "device": device}
    if quick:
        options |= {"epochs": 1, "batch_size": 8, **row.quick}
    run = folder / f"{name}-{seed}{'-quick' if quick else ''}"
    summary = json.loads((run / "summary.json").read_text()) if (run / "summary.json").exists() else {}
    # The limit of minutes includes earlier parts of the training.
    before = summary.get("seconds", {}).get("training", 0.0) / 60
    model = cls(**options, minutes=before + minutes, checkpoint_every=60, verbose=True)
    return model.fit(data.x, run=run, resume=True), data


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="row", help=", ".join(ROWS))
    parser.add_argument("--epochs", type=int, help="instead of the published number")
    parser.add_argument("--minutes", type=float, default=8.0, help="of a part; default 8")
    parser.add_argument("--device", help="default: cuda, with --quick cpu")
    parser.add_argument("--folder", type=Path, help="folder of the runs; default: build/published")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results file")
    parser.add_argument("--quick", action="store_true", help="an epoch of 16 tiny samples; writes no results")
    given = parser.parse_args(arguments)
    if unknown := set(given.names) - set(ROWS):
        parser.error(f"no such row: {', '.join(sorted(unknown))}; expected some of {', '.join(ROWS)}")
    with tiny_data(given.quick):
        if given.folder is None:
            given.folder = data_folder() if given.quick else ROOT / "build" / "published"
        run(given)


def run(given: argparse.Namespace) -> None:
    """Train the next part of the first unfinished row; with --quick, all rows."""
    path, device = given.results / "gpu_published.jsonl", given.device or ("cpu" if given.quick else "cuda")
    for name in given.names or ROWS:
        row = ROWS[name]
        if given.epochs:
            row, name = replace(row, options=row.options | {"epochs": given.epochs}), f"{name}, {given.epochs} epochs"
        for seed in row.seeds[:1] if given.quick else row.seeds:
            if not given.quick and (row.data.file, name, seed) in done(path):
                continue
            with warnings.catch_warnings(action="ignore"):
                model, data = train(name, row, seed, given.folder, given.minutes, device, given.quick)
            summary = model.summary_
            seconds = summary["seconds"]["training"]
            print(f"{name} seed {seed}: {summary['status']}, {summary['epochs']} epochs, {seconds} s")
            if summary["status"] != "finished":
                return
            found = score(model.transform(data.x), model.transform(data.x_test), data, ("linear", "knn"))
            result = {"dataset": row.data.file, "method": name, "seed": seed, **found, "steps": summary["steps"]}
            result |= {"seconds_fit": seconds, **when(), **environment()}
            print(json.dumps({key: result[key] for key in ("dataset", "method", "seed", *found)}))
            if not given.quick:
                append(result, path)


if __name__ == "__main__":
    main()
