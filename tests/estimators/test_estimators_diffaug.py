"""DiffAug as an estimator: its phases, its generator's settings and its presets."""

import pytest

from viewsmith import DiffAug

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

TINY = {"epochs": 4, "hidden": (8,), "n_components": 6, "batch_size": 64, "random_state": 0}


@pytest.mark.parametrize(("schedule", "rates"), [("constant", 1), ("cosine", 2)])
def test_the_generator_follows_the_schedule(wine, schedule, rates):
    model = DiffAug(**TINY, generator_epochs=3, schedule=schedule).fit(wine)
    found = {row["learning_rate"] for row in model.metrics_ if row["phase"] == "B1"}
    assert min(len(found), 2) == rates
