"""Digests of trained models of every method: they show whether a change of the code changes any number.

    python digests.py              # compare with results/digests.json; exit code 1 if a digest differs
    python digests.py --record     # write results/digests.json

Each cell fits one model to small data, on the CPU with one thread and a fixed seed, and computes digests of its weights
(the values of ``model.safetensors``, not their names), its representations and its views. The bits depend on the
processor and on the versions of torch and numpy, which are recorded with the digests. So compare on the machine that
recorded them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

import viewsmith
from viewsmith.training.run import processor

RESULTS = Path(__file__).parent / "results" / "digests.json"
ROWS = 96


def samples(modality: str) -> np.ndarray:
    """Clustered vectors, images with a bright square at a random place, or sequences with a motif."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, ROWS)
    if modality == "vectors":
        return (rng.normal(size=(4, 20))[labels] * 2 + rng.normal(size=(ROWS, 20))).astype(np.float32)
    if modality == "dna":
        letters = rng.choice(np.frombuffer(b"ACGT", np.uint8), (ROWS, 60))
        letters[:, 10:16] = np.frombuffer(b"TATAAAGCGCGCCATCATTTTTTT", np.uint8).reshape(4, 6)[labels]
        return letters
    images = rng.integers(0, 60, (ROWS, 28, 28, 3), dtype=np.uint8)
    for image, label in zip(images, labels, strict=True):
        top, left = rng.integers(0, 18, 2)
        image[top : top + 10, left : left + 10, label % 3] = 250
    return images


def cells() -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Estimator, modality and options of each cell, by its name."""
    found: dict[str, tuple[str, str, dict[str, Any]]] = {}
    modalities = ("vectors", "images", "dna")
    small_generator: dict[str, dict[str, Any]] = {
        "DiffAug": {"epochs": 4, "generator_epochs": 2, "sampler_steps": 3},
        "GenView": {"epochs": 4, "generator_epochs": 2, "sampler_steps": 3},
    }
    for estimator in ("Contrastive", "PiNDA", "DiffAug", "CRLTAC", "MetAug", "GenView"):
        for modality in modalities:
            found[f"{estimator} {modality}"] = (estimator, modality, small_generator.get(estimator, {}))
    for framework in ("moco", "moco-v3", "byol", "simsiam", "swav", "dino"):
        for modality in modalities:
            found[f"{framework} {modality}"] = ("Contrastive", modality, {"framework": framework})
    for estimator in ("PiNDA", "MetAug", "GenView"):
        found[f"{estimator} byol"] = (estimator, "vectors", {"framework": "byol"} | small_generator.get(estimator, {}))
    views = {
        "vectors": ("noise", "corruption", "mixup", "neighbor-mix", "adversarial", "conditional", "neighbors+noise"),
        "images": ("byol", "moco", "grid-crop", "neighbors", "noise+mixup", "adversarial"),
        "dna": ("mutation", "insertion", "deletion", "translocation", "inversion", "reverse-complement", "noise+mixup"),
    }
    for modality, names in views.items():
        for name in names:
            found[f"views {name} {modality}"] = ("Contrastive", modality, {"view_maker": name})
    found["multicrop images"] = ("Contrastive", "images", {"view_maker": "multicrop", "framework": "swav"})
    found["neighbors in h"] = ("Contrastive", "vectors", {"neighbor_space": "encoder", "epochs": 4})
    found["chosen noise"] = ("Contrastive", "vectors", {"view_maker": "noise", "noise_strength": "auto"})
    found["resnet18"] = ("Contrastive", "images", {"encoder": "resnet18", "epochs": 1})
    found["crl-cnn"] = ("CRLTAC", "images", {"encoder": "crl-cnn", "channel_step": "sampled", "inference": "top"})
    found["hyena"] = ("Contrastive", "dna", {"encoder": "hyena", "epochs": 1})
    found["PiNDA shared"] = ("PiNDA", "images", {"generator": "shared", "learn_mean": True})
    found["PiNDA unet"] = ("PiNDA", "images", {"generator": "unet", "level": "free", "penalty": "inverse_norm"})
    found["DiffAug map"] = (
        "DiffAug",
        "vectors",
        small_generator["DiffAug"] | {"condition": "map", "projector_dims": None},
    )
    found["MetAug bank"] = ("MetAug", "vectors", {"memory": "bank", "form": "circle", "encoders": "per-view"})
    found["MetAug color"] = ("MetAug", "images", {"split": "color", "meta": "first-order"})
    return found


def digest(*arrays: np.ndarray) -> str:
    """Short digest of dtypes, shapes and values."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype} {array.shape} ".encode() + np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def run(estimator: str, modality: str, options: dict[str, Any]) -> dict[str, str]:
    """Fit a model; return the digests of its weights, representations and views."""
    X = samples(modality)
    options = {"epochs": 2, "batch_size": 32, "random_state": 0, "device": "cpu"} | options
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
        model = getattr(viewsmith, estimator)(**options).fit(X, run=Path(folder) / "run")
        weights = load_file(Path(folder) / "run" / "model.safetensors")
        values = sorted(digest(value.numpy()) for value in weights.values())
        views = model.views(X[:8], 2, pool=X)
    return {
        "weights": hashlib.sha256("".join(values).encode()).hexdigest()[:16],
        "transform": digest(model.transform(X)),
        "views": digest(views),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--record", action="store_true", help="write the digests instead of comparing")
    parser.add_argument("--only", default="", help="run only the cells whose names contain this text")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    machine = {"torch": torch.__version__, "numpy": np.__version__, "processor": processor()}
    recorded = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"machine": machine, "cells": {}}
    found: dict[str, dict[str, str]] = {}
    began = time.perf_counter()
    for name, cell in cells().items():
        if arguments.only in name:
            found[name] = run(*cell)
            before = recorded["cells"].get(name)
            same = (
                "recorded" if arguments.record or before is None else "same" if before == found[name] else "DIFFERENT"
            )
            print(f"{same:10} {name}", flush=True)
    print(f"{len(found)} cells in {time.perf_counter() - began:.0f} s")
    if arguments.record:
        RESULTS.write_text(json.dumps({"machine": machine, "cells": recorded["cells"] | found}, indent=1) + "\n")
    elif wrong := [name for name, cell in found.items() if recorded["cells"].get(name, cell) != cell]:
        if recorded["machine"] != machine:
            print(f"recorded on another machine: {recorded['machine']}, this is {machine}")
        print(f"{len(wrong)} differ: {', '.join(wrong)}")
        sys.exit(1)


if __name__ == "__main__":
    main()
