"""Data read as the configuration of a run says, before its model is loaded."""

import numpy as np
import pandas as pd
import pytest

from refusals import refusal
from viewsmith import Contrastive
from viewsmith.core.files import read_toml, write_text_atomic
from viewsmith.data import load_dataset
from viewsmith.data.sources import read_for_run
from viewsmith.workflows.runs import data_record


def run_on(table, tmp_path, **options):
    """The folder of a run, with its configuration alone, on a table."""
    import tomli_w

    from viewsmith.training.run import to_toml

    table.to_csv(tmp_path / "t.csv", index=False)
    dataset = load_dataset(tmp_path / "t.csv", **options)
    fitted = {} if dataset.x.table is None else {"table": dataset.x.table.as_dict()}
    (tmp_path / "run").mkdir()
    config = data_record(dataset) | {"fitted": fitted, "method": Contrastive.name}
    write_text_atomic(tmp_path / "run" / "config.toml", tomli_w.dumps(to_toml(config)))
    return dataset


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.normal(size=30), "kind": rng.choice(list("xyz"), 30)})


def test_rows_of_a_table_are_those_that_the_model_would_read(table, tmp_path):
    dataset = run_on(table, tmp_path)
    found = read_for_run(tmp_path / "run", tmp_path / "t.csv", {})
    np.testing.assert_array_equal(np.asarray(found.x), np.asarray(dataset.x))
    assert found.x.table.features == dataset.x.table.features
    table.drop(columns="kind").to_csv(tmp_path / "new.csv", index=False)
    assert "lacks 1 column" in refusal(read_for_run, tmp_path / "run", tmp_path / "new.csv", {})


def test_a_table_with_text_is_read_with_its_model_whose_weights_have_the_encoder(table, tmp_path):
    words = [f"word{i} and {7 * i} others, in a sentence of its own" for i in range(30)]
    dataset = run_on(table.assign(said=words), tmp_path, columns={"said": "text"})
    assert dataset.x.table.roles["said"] == "text"
    assert read_for_run(tmp_path / "run", tmp_path / "t.csv", {}) is None


@pytest.mark.parametrize("damage", ["data", "fitted", "none"])
def test_a_damaged_configuration_is_left_to_the_model(table, tmp_path, damage):
    run_on(table, tmp_path)
    config = tmp_path / "run" / "config.toml"
    assert "fitted" in read_toml(config)
    config.write_text("" if damage == "none" else config.read_text().replace(f"[{damage}", "[other"))
    assert read_for_run(tmp_path / "run", tmp_path / "t.csv", {}) is None
