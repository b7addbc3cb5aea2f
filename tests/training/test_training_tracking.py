"""Loggers write to the real local stores of TensorBoard and MLflow; a store that fails does not stop a training."""

import time
import warnings

import numpy as np
import pytest

from refusals import refusal
from viewsmith import CRLTAC, Contrastive
from viewsmith.core.errors import InputError
from viewsmith.estimator.base import ViewsmithEstimator
from viewsmith.evaluation import OnlineProbe
from viewsmith.training import Callback, Tracker, callbacks

SMALL = {"epochs": 3, "batch_size": 64, "random_state": 0}


@pytest.fixture(autouse=True)
def few_pictured(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # MLflow writes pictures to ./mlruns
    monkeypatch.setattr("viewsmith.estimator.base.PICTURED", 40)
    monkeypatch.setattr(callbacks, "PATIENCE", 300.0)  # a new database on a busy machine


def quiet(digits, callbacks, run=None, **options):
    with warnings.catch_warnings(action="ignore"):
        return Contrastive(**SMALL, callbacks=callbacks, **options).fit(digits[:128], run=run)


def equal_weights(one, other):
    a, b = one.weights(), other.weights()
    return a.keys() == b.keys() and all((a[name] == b[name]).all() for name in a)


def test_tensorboard_has_numbers_settings_and_pictures(digits, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    model = quiet(digits, "tensorboard", tmp_path / "run")
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    assert {"loss", "learning_rate", "seconds", "effective_rank"} <= set(events.Tags()["scalars"])
    for name in ("loss", "learning_rate"):
        logged = [(event.step, event.value) for event in events.Scalars(name)]
        assert logged == [(row["step"], np.float32(row[name])) for row in model.metrics_]
    assert {"maps_representation", "views_views_1"} <= set(events.Tags()["images"])
    text = events.Tensors("settings/text_summary")[0].tensor_proto.string_val[0].decode()
    assert "| method | contrastive |" in text and "| batch_size | 64 |" in text


def test_pictures_of_the_channel_are_logged(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    images = np.random.default_rng(0).integers(0, 256, (40, 20, 20), dtype=np.uint8)
    with warnings.catch_warnings(action="ignore"):
        CRLTAC(epochs=1, batch_size=20, random_state=0, callbacks=["tensorboard"]).fit(images, run=tmp_path)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert {"views_where_the_channel_looks", "views_views"} <= set(events.Tags()["images"])


@pytest.mark.slow
def test_a_resumed_run_goes_on_in_tensorboard(digits, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    quiet(digits, ["tensorboard"], tmp_path, minutes=1e-9)
    with warnings.catch_warnings(action="ignore"):
        model = Contrastive(**SMALL, callbacks=["tensorboard"]).fit(digits[:128], run=tmp_path, resume=True)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("loss")] == [row["step"] for row in model.metrics_]


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """Address of a database, which takes a second to make."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/store.db"


@pytest.mark.slow
@pytest.mark.parametrize("status", ["finished", "failed"])
def test_mlflow_has_numbers_settings_pictures_and_the_status(digits, database, status):
    pytest.importorskip("mlflow")
    from mlflow.tracking import MlflowClient

    class Fails(Callback):
        def epoch(self, trainer, row):
            if status == "failed" and trainer.epochs_done == 1:
                raise RuntimeError("stop")

    tracker = Tracker("mlflow", database, project=status, run="first")
    if status == "failed":
        with pytest.raises(RuntimeError, match="stop"):
            quiet(digits, [tracker, Fails()])
    else:
        model = quiet(digits, [tracker])
    client = MlflowClient(database)
    (run,) = client.search_runs([client.get_experiment_by_name(status).experiment_id])
    assert (run.info.run_name, run.info.status) == ("first", status.upper())
    assert run.data.params["batch_size"] == "64" and run.data.params["framework"] == "simclr"
    if status == "finished":
        losses = [(each.step, each.value) for each in client.get_metric_history(run.info.run_id, "loss")]
        assert losses == [(row["step"], row["loss"]) for row in model.metrics_]
        names = [each.path for each in client.list_artifacts(run.info.run_id, "pictures")]
        assert "pictures/maps_representation.png" in names


class Broken:
    """A store whose server stops after the first epoch."""

    packages = ()

    def __init__(self, tracker, folder, name):
        self.id, self.closed = "1", False

    def settings(self, values): ...

    def numbers(self, values, step):
        raise ConnectionError("no route to the server")

    def close(self, status): ...


class Silent(Broken):
    """A store whose server does not answer."""

    def numbers(self, values, step):
        time.sleep(60)


@pytest.mark.parametrize(("store", "reason"), [(Broken, "no route to the server"), (Silent, "no answer in 0 s")])
def test_a_store_that_does_not_answer_is_said_once_and_the_training_goes_on(
    digits, monkeypatch, tmp_path, store, reason
):
    monkeypatch.setitem(callbacks.STORES, "broken", store)
    monkeypatch.setattr(callbacks, "PATIENCE", 0.3)
    plain = quiet(digits, None)
    with warnings.catch_warnings(record=True, action="always") as found:
        model = Contrastive(**SMALL, callbacks=[Tracker("broken")]).fit(digits[:128], run=tmp_path)
    said = [str(each.message) for each in found if "logging to" in str(each.message)]
    assert len(said) == 1 and reason in said[0] and "the training does not need it" in said[0]
    assert model.status_ == "finished" and equal_weights(model, plain)


def test_callbacks_see_the_training_and_add_to_its_metrics(digits, tmp_path):
    calls = []

    class Watch(Callback):
        def start(self, trainer):
            calls.append(("start", trainer.settings["method"]))

        def epoch(self, trainer, row):
            row["mine"] = 2.0 * row["epoch"]

        def end(self, trainer, status):
            calls.append(("end", status))

        def fitted(self, model, rows):
            calls.append(("fitted", model.transform(rows).shape))

        def close(self):
            calls.append(("close",))

    model = quiet(digits, [Watch()], tmp_path)
    assert calls == [("start", "contrastive"), ("end", "finished"), ("fitted", (128, 256)), ("close",)]
    assert [row["mine"] for row in model.metrics_] == [2.0, 4.0, 6.0]
    assert '"mine": 6.0' in (tmp_path / "metrics.jsonl").read_text()
    assert "callbacks" not in (tmp_path / "config.toml").read_text()


def test_the_probe_scores_labels_and_does_not_change_the_training(digits):
    from sklearn.datasets import load_digits

    y = load_digits().target[:128].astype(object)
    y[5] = None
    probed, plain = quiet(digits, [OnlineProbe(y)]), quiet(digits, None)
    assert equal_weights(probed, plain)
    scores = [(row["probe/linear"], row["probe/knn"]) for row in probed.metrics_]
    assert len(scores) == 3 and min(min(pair) for pair in scores) > 0.3
    shuffled = quiet(digits, [OnlineProbe(np.random.default_rng(0).permutation(y))])
    assert shuffled.metrics_[-1]["probe/knn"] < 0.3
    numbers = quiet(digits, [OnlineProbe(digits[:128, 20] + 0.5)])
    assert numbers.metrics_[-1]["probe/r2"] > 0.3 and "probe/knn_r2" in numbers.metrics_[-1]


@pytest.mark.parametrize(
    ("callbacks", "message"),
    [
        ("comet", "callbacks is .comet., expected a list of viewsmith.training.Callback or of names: tensorboard"),
        ([3], "callbacks is \\[3\\], expected"),
        (7, "callbacks is 7"),
        ([OnlineProbe([0, 1])], r"labels of the probe have shape \(2,\), but the training is on 128 rows"),
        ([OnlineProbe([1] * 128)], "128 labels, 1 of them different"),
    ],
)
def test_callbacks_that_cannot_be_used_are_refused(digits, callbacks, message):
    with pytest.raises(InputError, match=message):
        quiet(digits, callbacks)


def test_an_unknown_logger_is_refused():
    assert "the logger is 'comet', expected one of tensorboard, mlflow, wandb" in refusal(Tracker, "comet")


def test_every_method_takes_callbacks():
    from viewsmith.methods.loading import estimators

    assert all("callbacks" in cls().get_params() for cls in estimators().values())
    assert issubclass(Contrastive, ViewsmithEstimator)


def test_wandb_without_an_account_writes_files(digits, tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    quiet(digits, [Tracker("wandb", tmp_path, project="shapes")])
    (file,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    assert all(name in file.read_bytes() for name in (b"shapes", b"batch_size", b"contrastive"))
    assert list(tmp_path.glob("wandb/offline-run-*/files/media/images/maps_representation*.png"))


@pytest.mark.parametrize(("first", "purged"), [(0, None), (7, 8)])
def test_tensorboard_drops_what_was_logged_after_the_checkpoint(tmp_path, monkeypatch, first, purged):
    pytest.importorskip("tensorboard")
    seen = []
    monkeypatch.setattr("torch.utils.tensorboard.SummaryWriter", lambda where, **options: seen.append((where, options)))
    tracker = Tracker("tensorboard")
    tracker._first = first
    callbacks.TensorBoard(tracker, tmp_path, "run")
    assert seen == [(str(tmp_path / "tensorboard"), {"purge_step": purged})]
