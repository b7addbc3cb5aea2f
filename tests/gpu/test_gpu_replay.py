"""Steps that a GPU replays as a CUDA graph: the losses, weights and logs are those of steps that Python launches."""

import numpy as np
import pytest
import torch
from gpu_cases import DATA, TINY

from viewsmith import Contrastive, PiNDA
from viewsmith.core.errors import InputError
from viewsmith.training import engine
from viewsmith.training.engine import Trainer
from viewsmith.training.updates import ReplayedPasses

pytestmark = pytest.mark.gpu

CASES = [
    (method, modality, framework)
    for method in (Contrastive, PiNDA)
    for modality in ("vectors", "images")
    for framework in ("simclr", "vicreg", "barlow-twins", "simsiam")
]


@pytest.fixture(autouse=True)
def repeatable(device):
    if device != "cuda":
        pytest.skip(f"the device is {device}, which has no CUDA graphs")
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def replays(monkeypatch):
    """How many steps were replayed; `replays.off` makes trainings launch every kernel."""
    call, init = ReplayedPasses.__call__, Trainer.__init__

    class Counted:
        count, off = 0, False

    def counted(self, batch):
        found = call(self, batch)
        Counted.count += self.replay is not None
        return found

    def create(self, *given, **more):
        init(self, *given, **more | {"replay": not Counted.off})

    monkeypatch.setattr(ReplayedPasses, "__call__", counted)
    monkeypatch.setattr(engine.Trainer, "__init__", create)
    return Counted


def fit(method, modality, framework, **options):
    given = {name: value for name, value in TINY.items() if modality != "images" or name != "n_components"}
    views = {"vectors": "noise", "images": "simclr"}[modality]
    made = given | {"epochs": 4, "device": "cuda", "framework": framework, "view_maker": views} | options
    return method(**made).fit(DATA[modality]())


@pytest.mark.parametrize(("method", "modality", "framework"), CASES)
@pytest.mark.parametrize("precision", ["32", "bf16"])
def test_replayed_steps_equal_launched_ones(method, modality, framework, precision, replays):
    replayed = fit(method, modality, framework, precision=precision)
    assert replays.count == 8 - 2
    replays.off = True
    launched = fit(method, modality, framework, precision=precision)
    assert replays.count == 8 - 2
    tolerance = 1e-4 if precision == "32" else 2e-2
    for one, other in zip(replayed.metrics_, launched.metrics_, strict=True):
        logged = [name for name in one if name not in ("seconds",) and isinstance(one[name], float)]
        assert [one[name] for name in logged] == pytest.approx(
            [other[name] for name in logged], rel=tolerance, abs=1e-4
        )
    h, expected = (model.transform(DATA[modality]()) for model in (replayed, launched))
    assert np.abs(h - expected).max() < 50 * tolerance * expected.std()


def test_a_clipped_gradient_does_not_change_the_next_step(replays):
    """Clipping scales gradients in place, in the memory that the next replay writes to."""
    one = fit(Contrastive, "vectors", "simclr", gradient_clip=1e-3)
    replays.off = True
    other = fit(Contrastive, "vectors", "simclr", gradient_clip=1e-3)
    assert one.metrics_[-1]["loss"] == pytest.approx(other.metrics_[-1]["loss"], rel=1e-5)


def test_compiled_networks_learn_alike(replays):
    one = fit(Contrastive, "images", "simclr", compile=True)
    other = fit(Contrastive, "images", "simclr")
    assert one.metrics_[-1]["loss"] == pytest.approx(other.metrics_[-1]["loss"], rel=2e-2)
    assert one.method_.framework.encoder._compiled_call_impl is None


def test_methods_without_a_network_to_compile_say_so():
    with pytest.raises(InputError, match="names no network to compile"):
        from viewsmith import CRLTAC

        CRLTAC(**TINY, device="cuda", compile=True).fit(DATA["images"]())
