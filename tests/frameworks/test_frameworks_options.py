"""Options of frameworks: separate BatchNorm statistics, SwAV's queue, DINO's teacher."""

import numpy as np
import pytest
import torch
from framework_cases import B, assert_value_and_gradient, build, length_one, pair, state, trainable
from test_frameworks_dino import swav_scores_of as scores_of

from refusals import refusal
from viewsmith import Contrastive, GenView, load
from viewsmith.core.tensors import load_tensors
from viewsmith.losses.self_distillation import sinkhorn
from viewsmith.views import PositivePair
from viewsmith.workflows.export import export_encoder

SEPARATE = ("byol", "simsiam", "moco-v3", "nnclr")
TINY = {"epochs": 1, "hidden": (6,), "n_components": 5, "batch_size": 64, "random_state": 0, "projector_dims": (5, 4)}


# --- separate BatchNorm


@pytest.mark.parametrize("name", SEPARATE)
def test_views_have_separate_statistics(name):
    """Statistics are computed for each view, and the running statistics are updated twice."""
    framework, batch = build(name, norm="batch", separate_batch_norm=True), pair()
    norm = framework.encoder[1]
    framework(batch)
    assert int(norm.num_batches_tracked) == 2
    means = [framework.encoder[0](x).mean(0) for x in (batch.first, batch.second)]
    torch.testing.assert_close(norm.running_mean, 0.1 * means[1] + 0.9 * 0.1 * means[0])
    # The first views do not depend on the second views.
    shifted = PositivePair(batch.first, 5 + 3 * batch.second, batch.ids)
    assert not torch.allclose(framework(batch), framework(shifted))
    joint = build(name, norm="batch")
    assert not torch.allclose(joint(batch), build(name, norm="batch", separate_batch_norm=True)(batch))


@pytest.mark.parametrize("name", ["byol", "simsiam"])
def test_separate_statistics_equal_the_loop_over_views(name):
    framework, batch = build(name, norm="batch", separate_batch_norm=True), pair()
    losses = framework(batch)
    again = build(name, norm="batch")
    if name == "byol":  # the copies are updated before
        again.load_state_dict(state(framework))
    views = (batch.first, batch.second)
    z = [again.head(again.encoder(x)) for x in views]
    p = [again.predictor(each) for each in z]
    with torch.no_grad():
        copied = [again.head_copy(again.encoder_copy(x)) for x in views] if name == "byol" else z
    expected = []
    for i in range(B):
        cosines = [(length_one(p[s][i]) * length_one(copied[1 - s][i].detach())).sum() for s in (0, 1)]
        expected.append(2 - sum(cosines) if name == "byol" else -sum(cosines) / 2)
    torch.testing.assert_close(losses, torch.stack(expected))
    weights = torch.arange(1, B + 1, dtype=torch.float64)
    found = torch.autograd.grad((weights * losses).sum(), trainable(framework))
    slow = torch.autograd.grad((weights * torch.stack(expected)).sum(), trainable(again))
    for one, other in zip(found, slow, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-11)


def test_quality_from_separate_passes_compares_both_views():
    """GenView computes quality from the feature maps of the framework's passes; here there are two of them."""
    images = np.random.default_rng(0).integers(0, 256, (16, 16, 16, 3), dtype=np.uint8)
    given = {
        "epochs": 2,
        "batch_size": 8,
        "random_state": 0,
        "generator_epochs": 1,
        "sampler_steps": 2,
        "n_components": 8,
    }
    found = []
    for separate in (False, True):
        model = GenView(
            **given, framework="byol", framework_options={"separate_batch_norm": separate}, quality_features="encoder"
        )
        found.append(model.fit(images).metrics_[-1]["quality"])
    assert abs(found[0] - found[1]) < 0.2 and found[0] != found[1]


# --- SwAV's queue


def slow_swav_with_queue(framework, batch, past):
    """`past`: projections of first and second views in the queue, (2, Q, d), or None."""
    scores = [scores_of(framework, x) for x in (batch.first, batch.second)]
    prototypes = torch.stack([length_one(row) for row in framework.prototypes.weight])
    targets = []
    for t in (0, 1):
        rows = scores[t].detach()
        if past is not None:
            rows = torch.cat([rows, past[t] @ prototypes.detach().T])
        targets.append(sinkhorn(rows, 0.05, 3)[: len(batch.first)])
    losses = []
    for i in range(len(batch.first)):
        log_p = [torch.log(torch.softmax(scores[s][i] / 0.1, 0)) for s in (0, 1)]
        losses.append(-((targets[0][i] * log_p[1]).sum() + (targets[1][i] * log_p[0]).sum()) / 2)
    return losses


def test_assignments_are_balanced_over_the_queue_when_it_is_full():
    framework = build("swav", queue=13, queue_start=0.2)
    past = []
    for step, progress in enumerate((0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)):
        batch = pair(seed=step)
        full = len(past) * B >= 13
        kept = None
        if full:  # the newest 13 of three batches of 6
            kept = torch.cat(past, dim=1)[:, -13:]
        losses = framework(batch, progress)
        assert_value_and_gradient(framework, losses, slow_swav_with_queue(framework, batch, kept), rtol=1e-7)
        if progress >= 0.2:
            z = [framework.head(framework.encoder(x)).detach() for x in (batch.first, batch.second)]
            past.append(torch.stack([torch.stack([length_one(row) for row in part]) for part in z]))
        assert int(framework.filled) == min(13, 6 * len(past)) and int(framework.pointer) == 6 * len(past) % 13
    plain = build("swav")(pair(seed=6))
    assert not torch.allclose(plain, losses, rtol=1e-3)


def test_only_training_fills_the_queue():
    assert not [name for name in build("swav").state_dict() if "keys" in name or "filled" in name]
    framework = build("swav", queue=6, queue_start=0.0)
    framework.eval()(pair())
    with torch.no_grad():
        framework.train()(pair())
    assert int(framework.filled) == 0
    framework(pair(), 0.5)
    assert int(framework.filled) == 6
    before = framework(pair(seed=2), 0.5)
    again = build("swav", queue=6, queue_start=0.0)
    again.load_state_dict(state(framework))
    assert torch.equal(framework(pair(seed=3), 0.5), again(pair(seed=3), 0.5)) and before.isfinite().all()


def test_queues_out_of_range_are_rejected(wine):
    assert refusal(build, "swav", queue_start=2) == "queue_start is 2, expected a number from 0 to 1"
    small = build("swav", queue=5, queue_start=0.0)
    assert refusal(small, pair()) == "the queue has 5 keys, expected at least the 6 samples of a batch: enlarge it"
    said = refusal(Contrastive(**TINY, framework="swav", prototypes=5, queue_size=8).fit, wine)
    assert said == "queue_size is 8, expected at least the 64 rows of a batch: raise it, or lower batch_size"


def test_the_queue_of_an_estimator(wine):
    options = {"framework": "swav", "prototypes": 5, "queue_size": 64, "framework_options": {"queue_start": 0.5}}
    model = Contrastive(**TINY | {"epochs": 4}, **options).fit(wine)
    assert model.summary_["steps"] == 8 and int(model.method_.framework.filled) == 64
    assert model.fitted_["framework_options"]["queue_start"] == 0.5


# --- DINO


def test_the_teacher_can_be_the_output(wine, tmp_path):
    options = {"framework": "dino", "out_dim": 5, "momentum": 0.5}
    student = Contrastive(**TINY, **options).fit(wine)
    teacher = Contrastive(**TINY, **options, framework_options={"teacher_output": True}).fit(wine, run=tmp_path / "run")
    framework, x = student.method_.framework, student.samples(wine)[:]
    with torch.no_grad():
        online, copied = framework.encoder(x), framework.encoder_copy(x)
        projected = framework.head_copy(copied)
    assert torch.equal(torch.from_numpy(student.transform(wine)), online) and not torch.equal(online, copied)
    torch.testing.assert_close(torch.from_numpy(teacher.transform(wine)), copied)
    torch.testing.assert_close(torch.from_numpy(teacher.transform(wine, output="projection")), projected)
    assert (load(tmp_path / "run").transform(wine) == teacher.transform(wine)).all()
    config, _, rest = (tmp_path / "run" / "config.toml").read_text().rpartition("out_dim")
    (tmp_path / "run" / "config.toml").write_text(f"{config}prototypes{rest}")
    assert "no option 'prototypes': it is called out_dim now" in refusal(load, tmp_path / "run")
    export_encoder(teacher, tmp_path / "encoder.safetensors", "safetensors")
    exported = load_tensors(tmp_path / "encoder.safetensors")
    weights = teacher.method_.framework.encoder_copy.state_dict()
    assert all(torch.equal(exported[name], value) for name, value in weights.items())
