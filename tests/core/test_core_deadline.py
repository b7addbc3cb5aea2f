"""The time limit of preparations."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import viewsmith
from viewsmith.core import distributed
from viewsmith.core.distributed import OutOfTime, check_time, time_limit, together
from viewsmith.core.progress import with_progress
from viewsmith.estimator.resolve import choose_strength
from viewsmith.training.run import RunFolder

SMALL = {"hidden": (8,), "n_components": 4, "random_state": 0, "epochs": 2}


def rows(n=60):
    return np.random.default_rng(0).normal(size=(n, 5)).astype(np.float32)


def test_time_is_checked_within_a_limit_alone(monkeypatch):
    check_time()
    with time_limit(0):
        check_time()  # within the grace
        monkeypatch.setattr(distributed, "LEAST_LIMIT", 0.0)
        with time_limit(-1.0), pytest.raises(OutOfTime, match="nothing was trained"):
            check_time()
        with time_limit(None):
            check_time()
        check_time()
    with time_limit(-1.0), time_limit(None), pytest.raises(OutOfTime):  # no limit of its own
        check_time()
    check_time()


def test_loops_with_progress_are_within_the_limit(monkeypatch):
    monkeypatch.setattr(distributed, "LEAST_LIMIT", 0.0)
    assert list(with_progress(range(3), "steps", 3, "steps")) == [0, 1, 2]
    with time_limit(-1.0), pytest.raises(OutOfTime):
        list(with_progress(range(3), "steps", 3, "steps"))


@pytest.mark.parametrize("views", ["neighbors", "conditional"])
def test_a_preparation_is_stopped_and_it_is_said_that_nothing_was_trained(tmp_path, monkeypatch, views):
    monkeypatch.setattr(distributed, "LEAST_LIMIT", 0.0)
    run = tmp_path / "run"
    model = viewsmith.Contrastive(**SMALL, view_maker=views, minutes=1e-9)
    with pytest.warns(UserWarning, match="nothing was trained: the time limit ended while .* initial weights"):
        model.fit(rows(), run=run)
    assert model.status_ == "time limit" and model.summary_["steps"] == 0 and model.metrics_ == []
    trained, initial = RunFolder(run).read_weights()
    of_encoder = {name: value for name, value in initial.items() if ".framework." in name}
    assert of_encoder and all((trained[name] == value).all() for name, value in of_encoder.items())
    assert viewsmith.load(run).transform(rows()).shape == (60, 4)
    monkeypatch.undo()
    whole = viewsmith.Contrastive(**SMALL, view_maker=views).fit(rows())
    resumed = viewsmith.Contrastive(**SMALL, view_maker=views).fit(rows(), run=run, resume=True)
    assert (resumed.transform(rows()) == whole.transform(rows())).all()


def test_what_was_trained_before_is_kept(tmp_path, monkeypatch):
    run = tmp_path / "run"
    viewsmith.Contrastive(**SMALL).fit(rows(), run=run)
    before = (run / "model.safetensors").read_bytes()
    monkeypatch.setattr(distributed, "LEAST_LIMIT", 0.0)
    with pytest.warns(UserWarning, match="training ended early"):
        longer = viewsmith.Contrastive(**SMALL | {"epochs": 4}, minutes=1e-9).fit(rows(), run=run, resume=True)
    assert longer.summary_["epochs"] == 2 and (run / "model.safetensors").read_bytes() == before
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 2
    assert json.loads((run / "summary.json").read_text())["status"] == "time limit"


def test_the_choice_of_a_strength_is_stopped(monkeypatch):
    monkeypatch.setattr(distributed, "LEAST_LIMIT", 0.0)
    data = SimpleNamespace(rows=rows(), seed=0)
    with time_limit(-1.0), pytest.raises(OutOfTime, match=r"give more minutes \(--minutes\)"):
        choose_strength(None, "strength", {}, data, 8)


def test_the_test_of_symmetries_is_stopped(monkeypatch):
    monkeypatch.setattr(distributed, "LEAST_LIMIT", 0.0)
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
    with pytest.raises(OutOfTime, match=r"give more minutes \(--minutes\)"):
        viewsmith.Contrastive(epochs=1, random_state=0, minutes=1e-9).fit(images)


def test_a_training_that_has_no_limit_stops_with_the_preparation_that_needs_it(monkeypatch):
    monkeypatch.setattr(distributed, "LEAST_LIMIT", 0.0)
    with time_limit(0), pytest.raises(OutOfTime):
        viewsmith.Contrastive(**SMALL, view_maker="noise").fit(rows())


def test_preparation_counts_as_time_of_the_training(monkeypatch):
    from viewsmith.training import Trainer

    seen = []
    fit = Trainer.fit
    monkeypatch.setattr(
        Trainer, "fit", lambda self, *a, **k: (seen.append((self.spent, self.seconds_left)), fit(self, *a, **k))[1]
    )
    viewsmith.Contrastive(**SMALL, minutes=5).fit(rows())
    assert 0 < seen[0][0] < 300


def in_group(rank, out):
    """One of two processes: both stop together, although the time is over for one alone."""
    distributed.LEAST_LIMIT = 0.0
    said = []
    with time_limit(-1.0):
        check_time()  # outside of `together` nobody stops: others may wait for a message
    for seconds in (60.0, 60.0 if rank else -1.0):
        with time_limit(seconds):
            try:
                with together():
                    check_time()
                said.append("in time")
            except OutOfTime as error:
                said.append(str(error).partition(":")[0])
    model = viewsmith.Contrastive(**SMALL, view_maker="neighbors", minutes=60 if rank else 1e-9).fit(rows(300))
    said += [model.status_, model.summary_["steps"]]
    (out / f"{rank}.json").write_text(json.dumps(said))


@pytest.mark.filterwarnings("ignore")
def test_processes_stop_a_preparation_together(in_pair, tmp_path):
    in_pair(in_group, tmp_path)
    for rank in (0, 1):
        said = json.loads((tmp_path / f"{rank}.json").read_text())
        assert said == ["in time", "nothing was trained", "time limit", 0]
