"""The values that `viewsmith tune` searches."""

import json
import logging

import numpy as np
import pytest

from viewsmith import Contrastive
from viewsmith.core.registry import entries, register
from viewsmith.estimator.options import check_options
from viewsmith.workflows.tune import check_space, default_space, next_values, read_space, shown

optuna = pytest.importorskip("optuna")
Int, Float = optuna.distributions.IntDistribution, optuna.distributions.FloatDistribution
Categorical = optuna.distributions.CategoricalDistribution


@pytest.mark.parametrize(
    ("given", "dimension", "text"),
    [
        ("1e-4..1e-2", Float(1e-4, 1e-2, log=True), "0.0001 to 0.01 (logarithmic)"),
        ("0.1..0.9", Float(0.1, 0.9), "0.1 to 0.9"),
        ("0..1.5", Float(0, 1.5), "0 to 1.5"),
        ("5..50", Int(5, 50, log=True), "5 to 50 (whole numbers, logarithmic)"),
        (" 3 .. 9 ", Int(3, 9), "3 to 9 (whole numbers)"),
        ("-5..5", Int(-5, 5), "-5 to 5 (whole numbers)"),
        ("3.0..9", Float(3, 9), "3 to 9"),
        ("mlp, resmlp", Categorical(("mlp", "resmlp")), "mlp or resmlp"),
        ("1,2,3", Categorical(("1", "2", "3")), "1, 2 or 3"),
    ],
)
def test_ranges_are_read_from_text(given, dimension, text):
    found = read_space({"option": given})["option"]
    assert found == dimension and shown(found) == text


def test_values_are_in_their_ranges_and_logarithms_where_it_is_said():
    space = read_space({"rate": "1e-4..1e-2", "plain": "0.5..1.5", "count": "1..100", "name": "a,b"})
    drawn = [next_values(space, [], seed) for seed in range(300)]
    rates, counts = (np.array([values[name] for values in drawn]) for name in ("rate", "count"))
    assert 1e-4 <= rates.min() < 1.2e-4 and 8e-3 < rates.max() <= 1e-2
    assert abs((rates < 1e-3).mean() - 0.5) < 0.1 and abs((counts < 10).mean() - 0.5) < 0.1
    assert counts.min() == 1 and counts.max() > 90 and all(isinstance(values["count"], int) for values in drawn)
    assert abs(np.mean([values["plain"] < 1 for values in drawn]) - 0.5) < 0.1
    assert abs(np.mean([values["name"] == "a" for values in drawn]) - 0.5) < 0.1


def searched(space, score, n):
    tried = []
    for _ in range(n):
        values = next_values(space, tried, 0)
        tried.append((values, score(values)))
    return tried


def test_the_search_finds_a_good_setting_and_avoids_failures():
    space = read_space({"rate": "1e-4..1e-2", "count": "5..50"})

    def score(values):
        return (
            None if values["rate"] > 3e-3 else -abs(np.log(values["rate"] / 1e-3)) - abs(np.log(values["count"] / 10))
        )

    tried = searched(space, score, 40)
    first, later = tried[:10], tried[20:]
    assert np.mean([value or -3 for _, value in later]) > np.mean([value or -3 for _, value in first]) + 0.5
    assert sum(value is None for _, value in later) <= 2
    assert len({json.dumps(values) for values, _ in tried}) == 40


def test_the_next_values_depend_on_what_was_tried_and_the_seed_alone():
    space = read_space({"rate": "1e-4..1e-2", "name": "a,b"})
    tried = searched(space, lambda values: values["rate"], 12)
    again = json.loads(json.dumps(tried))
    assert next_values(space, tried, 0) == next_values(space, again, 0) != next_values(space, tried, 1)


def test_settings_are_new_until_none_is_left():
    space = read_space({"count": "1..3", "name": "a,b"})
    tried = searched(space, lambda values: values["count"], 6)
    assert len({json.dumps(values) for values, _ in tried}) == 6
    assert next_values(space, tried, 0) is None


def test_optuna_says_nothing_and_keeps_its_settings(capfd):
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(logging.INFO)
    try:
        next_values(read_space({"rate": "1..2"}), [], 0)
        assert optuna.logging.get_verbosity() == logging.INFO
    finally:
        optuna.logging.set_verbosity(before)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("entry", entries("method"), ids=lambda entry: entry.name)
def test_every_method_has_a_default_search(entry):
    for modality in ("vectors", "images", "dna"):
        space = read_space(default_space(entry.name, modality))
        check_space(space, lambda values: check_options(entry.build, dict(values)), modality)
        assert 1 <= len(space) <= 4
    assert set(entry.tag("search", {})) <= {"*", *(e.name for e in entries("modality"))}


def test_a_method_of_another_package_has_the_search_it_declares(own_parts):
    ranges = {"images": {"crop_minimum": "0.1..0.5"}, "*": {"temperature": "0.05..1"}}
    register("method", "stranger", help="a test", search=ranges)(type("Stranger", (Contrastive,), {"name": "stranger"}))
    register("method", "silent", help="a test")(type("Silent", (Contrastive,), {"name": "silent"}))
    assert default_space("stranger", "images") == ranges["images"] and default_space("stranger", "dna") == ranges["*"]
    assert list(default_space("silent", "vectors")) == ["learning_rate"]
