"""Training recipes, and the framework that reads labels, on the command line."""

import numpy as np
from cli_tools import call, good

from viewsmith.training.run import RunFolder

EPOCHS = ("--epochs", 2)


def sets(**options):
    return [part for name, value in options.items() for part in ("--set", f"{name}={value}")]


def test_a_recipe_by_set(tmp_path):
    recipe = {
        "optimizer": "lars",
        "trust_coefficient": "0.02",
        "final_weight_decay": "0.4",
        "exclude_norm_and_bias": "false",
        "freeze": "1",
        "freeze_last_layer": "0.5",
        "queue_start": "0.5",
        "queue_size": "178",
    }
    good("fit", "wine", "--framework", "swav", "--out", tmp_path / "run", *EPOCHS, *sets(**recipe))
    saved = RunFolder(tmp_path / "run").read_config()
    given, fitted = saved["parameters"], saved["fitted"]
    assert (given["optimizer"], given["trust_coefficient"], given["final_weight_decay"]) == ("lars", 0.02, 0.4)
    assert given["exclude_norm_and_bias"] is False and given["freeze"] == 1
    assert fitted["framework_options"]["queue_start"] == 0.5 and fitted["learning_rate"] == 0.3


def test_supcon_is_refused_without_labels_and_with_those_of_test_rows(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(40, 5)))
    options = ("--framework", "supcon", "--out", tmp_path / "run", *EPOCHS)
    assert call("fit", tmp_path / "x.npy", *options).refused("framework is 'supcon', which reads labels, but no labels")
    assert call("fit", "wine", "--transductive", *options).refused("fit would read the labels of the test rows")
    assert not (tmp_path / "run").exists()
