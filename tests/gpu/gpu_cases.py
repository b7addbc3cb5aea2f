"""What is trained on a GPU, and on a CPU as if it were one: every method with every framework on every modality."""

from __future__ import annotations

from typing import Any

import numpy as np

from cases import covering
from registered import DEFAULT_VIEWS, FRAMEWORKS, VIEWS, heads
from viewsmith.core.registry import find

TINY = {"epochs": 1, "batch_size": 8, "n_components": 8, "random_state": 0, "hidden": (8,)}
SMALL_HEADS = {"projector_dims": (8, 6), "predictor_dims": (8,), "prototypes": 10, "out_dim": 10, "queue_size": 16}


def vectors() -> np.ndarray:
    """16 rows of 9 features."""
    return np.random.default_rng(0).normal(size=(16, 9)).astype(np.float32)


def images() -> np.ndarray:
    """16 color images of 24 x 24 pixels."""
    coarse = np.random.default_rng(0).integers(0, 256, (16, 4, 4, 3))
    return np.repeat(np.repeat(coarse, 6, 1), 6, 2).astype(np.uint8)


def dna() -> np.ndarray:
    """16 sequences of up to 41 bases, one of them shorter, one with an unknown base."""
    x = np.frombuffer(b"ACGT", np.uint8)[np.random.default_rng(0).integers(0, 4, (16, 41))].copy()
    x[0, 3], x[1, 30:] = ord("N"), 0
    return x


DATA = {"vectors": vectors, "images": images, "dna": dna}


def cases(*axes: tuple[int, ...], drawn: int | None = None) -> list[Any]:
    """(method, modality, framework, view maker): frameworks with the modality's views, view makers with SimCLR; a few
    of them are quick, and so many others are drawn (`covering`)."""
    general = ("contrastive", "pinda", "genview", "metaug")
    found = [(m, d, f, DEFAULT_VIEWS[d]) for m in general for d in DATA for f in FRAMEWORKS]
    found += [("metaug", d, "oucl", DEFAULT_VIEWS[d]) for d in DATA]
    found += [("diffaug", d, "soft", DEFAULT_VIEWS[d]) for d in DATA]
    found += [("crl-tac", d, None, None) for d in DATA]
    found += [("contrastive", d, "simclr", v) for d in DATA for v in VIEWS[d] if v not in ("multicrop", "channel:RUN")]
    local = [f for f in FRAMEWORKS if find("framework", f).tag("local_views")]
    found += [("contrastive", "images", f, "multicrop") for f in local]
    return covering(dict.fromkeys(found), *axes, drawn=drawn)


def options_of(name: str, modality: str, framework: str | None, view: str | None) -> dict[str, Any]:
    """Options of a tiny model, which both the default encoder on a CPU and that on a GPU accept."""
    made = TINY | ({} if framework is None else heads(framework, **SMALL_HEADS))
    if view == "multicrop":
        made["local_crops"] = 1
    if name in ("diffaug", "genview"):
        made["sampler_steps"] = 2
    if modality == "images":
        del made["n_components"]  # the default on a GPU, resnet18, has a fixed width
    return made | ({} if view is None else {"view_maker": view})
