"""Callbacks: metrics on disk, label-free diagnostics, warnings, memory."""

import json
import warnings

import pytest
import torch
from training_toys import BATCH, SEED, make_contrastive, make_pinda, rows

from viewsmith.core import Optimizer
from viewsmith.losses import alignment, effective_rank, feature_std, uniformity
from viewsmith.training import Callback, Diagnostics, History, ProgressBar, Trainer, callbacks
from viewsmith.training.callbacks import EarlyWarnings, FreeMemory, collapse_warnings

NUMBERS = {"feature_std", "effective_rank", "uniformity", "alignment"}


def trained(method, *callbacks, **options):
    trainer = Trainer(method, seed=SEED, batch_size=BATCH, callbacks=callbacks, **options)
    trainer.fit(rows())
    return trainer


class Weights(Callback):
    def __init__(self):
        self.after = []

    def epoch(self, trainer, row):
        assert trainer.method.training
        self.after.append({key: value.clone() for key, value in trainer.method.state_dict().items()})


@pytest.mark.parametrize(("points", "epochs", "expected"), [(3, 10, [3, 6, 9, 10]), (12, 5, [1, 2, 3, 4, 5])])
def test_diagnostics_are_computed_about_points_times_and_at_the_end(points, epochs, expected):
    trained(make_contrastive(epochs=epochs), Diagnostics(points), history := History())
    assert [row["epoch"] for row in history.rows if row.keys() >= NUMBERS] == expected


def test_diagnostics_use_the_current_weights_and_do_not_change_the_training():
    plain, watched = Weights(), Weights()
    trained(make_contrastive(), plain)
    trained(make_contrastive(), Diagnostics(rows=20), watched, history := History())
    for one, other in zip(plain.after, watched.after, strict=True):
        assert all(torch.equal(value, other[key]) for key, value in one.items())

    method = make_contrastive()
    seen = []
    method.view = lambda x, *, index, generator: seen.append(index) or x + 1
    trained(method, Diagnostics(rows=20), history := History())
    index = seen[-1]
    assert len(index) == len(set(index.tolist())) == 20 and all(torch.equal(index, other) for other in seen)
    x = rows()[index]
    with torch.no_grad():
        h, moved = method.represent(x), method.represent(x + 1)
    last = history.rows[-1]
    assert last["feature_std"] == float(feature_std(h)) and last["effective_rank"] == float(effective_rank(h))
    assert last["uniformity"] == float(uniformity(h)) and last["alignment"] == float(alignment(h, moved))


def test_diagnostics_of_large_samples_are_of_fewer(monkeypatch):
    seen, method = [], make_contrastive()
    method.view = lambda x, *, index, generator: seen.append(len(index)) or x + 1
    monkeypatch.setattr(callbacks, "FEWEST_TOLD_APART", 3)
    monkeypatch.setattr(callbacks, "LARGEST", 7 * rows()[0].numel())
    trained(method, Diagnostics(rows=20))
    monkeypatch.setattr(callbacks, "LARGEST", 0)
    trained(method, Diagnostics(rows=20))
    assert set(seen) == {7, 3}


def run_with_warnings(signs, *, epochs=6, points=12, start=None):
    """Train with a method that reports ``signs[i]`` after epoch i; return warnings, calls and state of the callback."""
    method, calls = make_contrastive(epochs=epochs), []

    def early_warnings(rows, progress):
        calls.append((len(rows), progress))
        return signs[len(rows) - 1]

    method.early_warnings = early_warnings
    watch = EarlyWarnings(history := History())
    if start is not None:
        watch.restore(start)
    with warnings.catch_warnings(record=True, action="always") as caught:
        trained(method, Diagnostics(points), history, watch)
    return [str(each.message) for each in caught], calls, watch.state()


BAD, WORSE = {"a": "bad"}, {"a": "worse", "b": "new"}


def test_early_warnings_are_issued_once():
    messages, calls, _ = run_with_warnings([{}, BAD, BAD, WORSE, WORSE, WORSE])
    assert messages == ["epoch 2 of 6: bad", "epoch 4 of 6: new"]
    assert calls == [(n, n / 6) for n in range(1, 6)] + [(6, 1.0)]


def test_early_warnings_that_no_longer_apply_are_reported_at_the_end():
    messages, *_ = run_with_warnings([BAD, WORSE, {}, BAD, BAD, BAD])
    assert messages == [
        "epoch 1 of 6: bad",
        "epoch 2 of 6: new",
        "no longer true when training ended: epoch 2 of 6: new",
    ]
    assert run_with_warnings([{}, {}, {}, {}, {}, BAD])[0] == []  # problems at the end are reported elsewhere
    assert run_with_warnings([{}] * 6)[0] == []


def test_early_warnings_are_computed_only_with_diagnostics():
    _, calls, _ = run_with_warnings([{}] * 6, points=2)
    assert calls == [(3, 0.5), (6, 1.0)]


def test_early_warnings_are_not_repeated_after_a_resume():
    state = run_with_warnings([BAD] * 6)[2]
    assert json.loads(json.dumps(state)) == state
    assert run_with_warnings([BAD] * 6, start=state)[0] == []
    assert run_with_warnings([{}] * 6, start=state)[0] == ["no longer true when training ended: epoch 1 of 6: bad"]


def test_methods_have_no_early_warnings_by_default():
    assert make_pinda().early_warnings([{"effective": 1.0}], 0.5) == {}


def test_diagnostics_of_the_method_are_in_the_metrics():
    trained(make_pinda(), Diagnostics(), history := History())
    assert history.rows[-1]["noise_level"] == pytest.approx(1) and history.rows[-1]["noise_spread"] >= 0


def test_history_writes_each_row_immediately(tmp_path):
    path = tmp_path / "folder" / "metrics.jsonl"
    lines = []

    class Count(Callback):
        def epoch(self, trainer, row):
            lines.append(len(path.read_text().splitlines()))

    history = History(path)
    trained(make_contrastive(epochs=3), history, Count())
    assert lines == [1, 2, 3]
    assert [json.loads(line) for line in path.read_text().splitlines()] == history.rows


def test_history_removes_rows_after_the_checkpoint(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"epoch": 1}\n{"epoch": 2}\n')
    history = History(path)
    history.restore({"rows": [{"epoch": 1}]})
    history.start(None)
    assert path.read_text() == '{"epoch": 1}\n' and history.state() == {"rows": [{"epoch": 1}]}


def test_the_progress_bar_prints_nothing_without_a_terminal(capfd):
    trained(make_contrastive(epochs=1), ProgressBar())
    assert capfd.readouterr() == ("", "")


def test_the_progress_bar_has_phase_and_loss_on_a_terminal(capfd, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    bar = ProgressBar()
    trained(make_contrastive(epochs=2, optimizer=Optimizer()), bar)
    out, err = capfd.readouterr()
    assert out == "" and "train" in err and "loss" in err and "samples/s" in err and "nan" not in err


def test_without_a_terminal_lines_have_the_time_left(capfd):
    trained(make_contrastive(epochs=2), ProgressBar(interval=0.0))
    out, err = capfd.readouterr()
    lines = err.splitlines()
    assert out == "" and lines[0].startswith("train: epoch 1 of 2, about ") and lines[-1].endswith("0 min left")
    assert all("min left" in line for line in lines)


def test_the_time_limit_is_said_where_it_comes_first(capfd):
    trained(make_contrastive(epochs=100_000), ProgressBar(interval=0.0), minutes=0.01)
    lines = capfd.readouterr().err.splitlines()
    assert all("the time limit in " in line for line in lines[5:])


HEALTHY = {"effective_rank": 10.0}


def test_a_collapse_is_one_line_and_one_warning():
    rows = [{"epoch": 1, **HEALTHY}, {"epoch": 2, "effective_rank": 1.2}, {"epoch": 3, "loss": 1.0}]
    with pytest.warns(UserWarning) as caught:
        found = collapse_warnings(rows)
    assert found == [str(warning.message) for warning in caught]
    assert len(found) == 1 and found[0].startswith("the representation has collapsed: its effective rank is 1.2")
    assert "\n" not in found[0]


@pytest.mark.filterwarnings("error")
def test_a_training_without_collapse_gives_no_warning():
    assert collapse_warnings([{"epoch": 1, **HEALTHY}]) == []
    assert collapse_warnings([{"epoch": 1, "loss": 1.0}]) == []
    assert collapse_warnings([]) == []
    # The method itself reports problems with its diagnostics.
    assert collapse_warnings([{"epoch": 1, **HEALTHY, "noise_level": 0.0, "noise_spread": 9.0}]) == []


def test_memory_is_given_back_when_the_process_has_grown(monkeypatch):
    sizes, given = iter([100, 150, 199, 200, 120, 219, 220, 110]), []
    monkeypatch.setattr("viewsmith.training.callbacks.resident_bytes", lambda: next(sizes, 0))
    monkeypatch.setattr("viewsmith.training.callbacks.return_freed_memory", lambda: given.append(trainer.steps))
    trainer = Trainer(make_contrastive(epochs=1), seed=SEED, batch_size=BATCH)
    callback = FreeMemory(growth=100, interval=2)
    callback.start(trainer)
    for trainer.steps in range(1, 16):
        callback.step(trainer)
    assert given == [6, 10]  # 200 - 100, 220 - 120


def test_memory_is_not_given_back_if_its_size_is_unknown(monkeypatch):
    monkeypatch.setattr("viewsmith.training.callbacks.resident_bytes", lambda: None)
    monkeypatch.setattr("viewsmith.training.callbacks.return_freed_memory", lambda: pytest.fail("it is unknown"))
    trained(make_contrastive(epochs=2), FreeMemory(growth=1, interval=1))
