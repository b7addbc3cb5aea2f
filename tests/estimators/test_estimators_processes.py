"""Estimators in a group of two processes: one run folder, written by the first, read by both."""

import json

import numpy as np
import pytest
from estimator_processes import fit

import viewsmith
from cases import slow


@pytest.fixture
def group(in_pair, tmp_path):
    """Fits in two processes and returns their representations."""

    def run(name, folder, resume=False, **options):
        (tmp_path / "meet").unlink(missing_ok=True)
        in_pair(fit, str(tmp_path / "meet"), str(tmp_path), name, folder, options, resume)
        return [np.load(tmp_path / f"{rank}.npy") for rank in (0, 1)]

    return run


@pytest.mark.parametrize("name", ["contrastive", slow("pinda"), "metaug", slow("crl-tac")])
def test_a_run_of_two_processes_stops_and_goes_on(group, tmp_path, wine, name):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    group(name, whole)
    group(name, parts, minutes=1e-9)
    summary = json.loads((parts / "summary.json").read_text())
    assert summary["status"] == "time limit" and summary["processes"] == 2 and summary["epochs"] == 1
    h, _ = group(name, parts, resume=True)
    assert json.loads((parts / "summary.json").read_text())["status"] == "finished"
    for file in ("model.safetensors", "initial.safetensors", "config.toml"):
        assert (parts / file).read_bytes() == (whole / file).read_bytes(), file
    assert len((parts / "metrics.jsonl").read_text().splitlines()) == 3
    assert np.array_equal(viewsmith.load(parts).transform(wine), h)


def test_a_seed_left_to_chance_is_the_same_everywhere(group, tmp_path):
    # Without BatchNorm, whose statistics are each process's own, both end with one model.
    one, other = group("contrastive", None, random_state=None, norm="none")
    assert np.array_equal(one, other)
    seeds = [int((tmp_path / f"{rank}.seed").read_text()) for rank in (0, 1)]
    assert seeds[0] == seeds[1]
