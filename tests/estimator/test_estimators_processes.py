"""Estimators in a group of two processes: one run folder, which the first writes and both read."""

import json

import numpy as np
import pytest
import torch
from estimator_processes import fit

import viewsmith
from cases import slow
from viewsmith.core.tensors import load_tensors
from viewsmith.data import load_dataset
from viewsmith.workflows.generate import generate_cache


@pytest.fixture
def group(in_pair, tmp_path):
    """Fits in two processes and returns their representations."""

    def run(name, folder, resume=False, **options):
        in_pair(fit, str(tmp_path), name, folder, options, resume)
        return [np.load(tmp_path / f"{rank}.npy") for rank in (0, 1)]

    return run


@pytest.mark.parametrize("name", ["contrastive", slow("pinda"), slow("metaug"), slow("crl-tac")])
def test_a_run_of_two_processes_is_resumed(group, tmp_path, wine, name):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    group(name, whole)
    group(name, parts, minutes=1e-9)
    summary = json.loads((parts / "summary.json").read_text())
    assert summary["status"] == "time limit" and summary["processes"] == 2 and summary["steps"] == 1
    h, _ = group(name, parts, resume=True)
    assert json.loads((parts / "summary.json").read_text())["status"] == "finished"
    for file in ("model.safetensors", "initial.safetensors", "config.toml"):
        assert (parts / file).read_bytes() == (whole / file).read_bytes(), file
    assert len((parts / "metrics.jsonl").read_text().splitlines()) == 3
    assert np.array_equal(viewsmith.load(parts).transform(wine), h)


@pytest.fixture
def cache(tmp_path, wine):
    """A view cache of wine: two noisy copies of each row."""
    noise = np.random.default_rng(0).normal(size=(len(wine), 2, wine.shape[1])) * wine.std(0)
    np.savez(tmp_path / "x.npz", X=wine)
    np.savez(tmp_path / "views.npz", views=(wine[:, None] + 0.3 * noise).astype(np.float32))
    generate_cache(load_dataset(tmp_path / "x.npz"), tmp_path / "cache", generator=f"folder:{tmp_path / 'views.npz'}")
    return str(tmp_path / "cache")


WITH_COPIES = [
    ("genview", {"view_cache": "", "gamma": 8.0}),  # weights of pairs from a copy of the encoder, from the first epoch
    ("genview", {"generator_epochs": 1, "gamma": 8.0}),  # and generates views between the phases
    ("diffaug", {"phases": "ABA", "generator_epochs": 1}),
    ("diffaug", {"phases": "J"}),
]


# Momentum copies, queues, banks and neighbors that follow the encoder: state that differs from process to process.
WITH_STATE = [
    ("pinda", {"framework": "moco-v3", "norm": "batch"}),
    ("contrastive", {"view_maker": "neighbors", "neighbor_space": "encoder", "norm": "batch"}),
    ("contrastive", {"framework": "moco", "framework_options": {"queue_size": 64}}),
    ("contrastive", {"framework": "swav", "framework_options": {"queue_size": 64, "prototypes": 8}}),
    ("contrastive", {"framework": "dino", "framework_options": {"out_dim": 8}}),
    ("metaug", {"framework": "nnclr", "framework_options": {"queue_size": 64}}),
    # Running statistics of BatchNorm in a step.
    ("contrastive", {"view_maker": "noise+adversarial", "framework": "simclr", "norm": "batch"}),
    ("crl-tac", {"norm": "batch"}),
    ("pinda", {"modality": "images", "encoder": "cnn", "generator": "shared", "view_maker": "identity"}),
]


def with_copies(options, cache):
    options = {"epochs": 3, "norm": "batch", **options}
    if "gamma" in options:
        options["first_fraction"] = 0.34
    return options | ({"view_cache": cache} if "view_cache" in options else {})


@pytest.mark.parametrize(("name", "options"), [WITH_COPIES[0], *(slow(*case) for case in WITH_COPIES[1:])])
def test_frozen_copies_with_batch_norm_are_equal_in_two_processes(group, tmp_path, cache, name, options):
    one, other = group(name, None, **with_copies(options, cache))
    assert np.array_equal(one, other)
    means = [load_tensors(tmp_path / f"{rank}.means.safetensors") for rank in (0, 1)]
    # Statistics of BatchNorm differ between processes until the end.
    assert any(not torch.equal(value, means[1][key]) for key, value in means[0].items() if "framework" in key)
    mine, others = (load_tensors(tmp_path / f"{rank}.copies.safetensors") for rank in (0, 1))
    assert any("running_mean" in key for key in mine)
    torch.testing.assert_close(mine, others, rtol=0, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), WITH_COPIES)
def test_trainings_with_frozen_copies_are_resumed(group, tmp_path, cache, name, options):
    options = with_copies(options, cache)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    group(name, whole, **options)
    while not parts.exists() or json.loads((parts / "summary.json").read_text())["status"] != "finished":
        group(name, parts, resume=True, minutes=1e-9, **options)  # one step
    for file in ("model.safetensors", "config.toml"):
        assert (parts / file).read_bytes() == (whole / file).read_bytes(), file


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), WITH_STATE)
def test_trainings_with_state_stop_and_resume(group, tmp_path, name, options):
    options = {"projector_dims": (8, 4)} | options
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    group(name, whole, **options)
    for limit in (1e-9, 1e-9, 1e-9, None):  # after a step, an epoch, a step of the next one, and to the end
        group(name, parts, resume=True, minutes=limit, **options)
    assert json.loads((parts / "summary.json").read_text())["status"] == "finished"
    for file in ("model.safetensors", "config.toml"):
        assert (parts / file).read_bytes() == (whole / file).read_bytes(), file


def test_a_random_seed_is_the_same_in_all_processes(group, tmp_path):
    group("contrastive", None, random_state=None, norm="none")
    seeds = [int((tmp_path / f"{rank}.seed").read_text()) for rank in (0, 1)]
    assert seeds[0] == seeds[1]
