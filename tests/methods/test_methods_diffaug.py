"""DiffAug's phases, positives and cache of generated views, with a small denoiser."""

import warnings

import pytest
import torch
from diffaug_cases import LABELS, D, M, N, X, batch, changed, diffaug, trained, weights

from refusals import refusal
from stopping import Stop
from viewsmith.core import Optimizer
from viewsmith.core.tensors import derive_seed, stream
from viewsmith.training.engine import Callback, Trainer
from viewsmith.training.run import CheckpointFolder
from viewsmith.views import Identity
from viewsmith.views.generated.diffusion_views import ViewCache
from viewsmith.views.neighbors import outliers


@pytest.mark.parametrize(
    "schedule, names, epochs",
    [
        ("A", ["A1"], [4]),
        ("ABA", ["A1", "B1", "A2"], [2, 3, 2]),
        ("ABABA", ["A1", "B1", "A2", "B2", "A3"], [1, 1, 1, 2, 2]),
        ("J", ["J1"], [4]),
        ("A1 B2A3", ["A1", "B1", "A2"], [1, 3, 3]),
        ("A100 B400 A300 B200 A0400", ["A1", "B1", "A2", "B2", "A3"], [0, 2, 2, 1, 2]),
    ],
)
def test_the_phases_and_their_epochs(schedule, names, epochs):
    phases = diffaug(schedule).phases()
    assert [phase.name for phase in phases] == names
    assert [phase.epochs for phase in phases] == epochs
    assert [[update.name for update in phase.updates] for phase in phases] == [
        {"A": ["encoder"], "B": ["generator"], "J": ["encoder", "generator"]}[name[0]] for name in names
    ]


@pytest.mark.parametrize("text", ["", "B", "AA", "AJ", "A2BA", "A0 B1 A1", "A2 B2 A2.5", "A-1", "a"])
def test_invalid_phases_are_rejected(text):
    said = refusal(diffaug, text)
    assert said.startswith(f"phases is {text!r}, expected A, AB, ABA") and "'A200 B400 A800'" in said


def test_a_generator_in_the_last_phase_is_checked():
    method = diffaug("AB")
    assert [(phase.name, phase.epochs) for phase in method.phases()] == [("A1", 4), ("B1", 3)]
    Trainer(method, batch_size=20).fit(X)
    assert method.generated.trained


def test_the_phases_of_the_encoder_share_one_learning_rate_curve():
    spans = [phase.updates[0].optimizer.lr_span for phase in diffaug("ABABA").phases() if phase.name[0] == "A"]
    assert spans[0][0] == 0 and spans[-1][1] == 1
    assert [b for _, b in spans[:-1]] == [a for a, _ in spans[1:]]


def test_each_phase_trains_its_network():
    method = diffaug()
    method.prepare(X, 0)
    method.train()
    step_a, step_b = (phase.updates[0].step for phase in method.phases()[:2])
    method._begin_b(0)
    for step, moves, stays in ((step_a, "framework", "generated"), (step_b, "generated", "framework")):
        losses, _ = step(batch())
        assert losses.shape == (20,)
        losses.mean().backward()
        touched = {name.split(".")[0] for name, p in method.named_parameters() if p.grad is not None}
        assert touched == {moves} and stays not in touched
        method.zero_grad()


def test_the_generator_is_conditioned_on_a_copy_of_the_encoder():
    method = trained()
    assert changed(weights(method.generated.encoder), method.framework.encoder)
    assert not any(p.requires_grad for p in method.generated.encoder.parameters())
    assert int(method.generated.rounds) == 1 and bool(method.generated.trained)


@pytest.mark.parametrize("condition", ["representation", "map"])
def test_each_generator_phase_copies_the_current_encoder_and_map(condition):
    method = diffaug("AB", condition)
    Trainer(method, seed=1, batch_size=20).fit(X)
    assert not changed(weights(method.framework.encoder), method.generated.encoder)
    if condition == "map":
        assert not changed(weights(method.framework.map_head), method.generated.map_head)


def test_the_average_of_the_weights_is_reset_in_each_generator_phase():
    method = diffaug()
    method.prepare(X, 0)
    generator = method.generated.generator
    with torch.no_grad():
        for p in generator.denoiser.parameters():
            p.add_(1)
    generator.updates.fill_(7)
    method._begin_b(0)
    assert not changed(weights(generator.denoiser), generator.averaged) and int(generator.updates) == 0


def test_the_average_of_the_weights_includes_the_last_step():
    """Each of n steps updates the average with the weights after that step."""
    seen = []

    class Watch(Callback):
        def step(self, trainer):
            if trainer.phase.name == "B1":
                generator = trainer.method.generated.generator
                seen.append([generator.denoiser.layers[0].weight.clone(), generator.averaged.layers[0].weight.clone()])

    method = diffaug("AB")
    first = method.generated.generator.denoiser.layers[0].weight.detach().clone()
    Trainer(method, seed=1, batch_size=20, callbacks=[Watch()]).fit(X)
    expected = first
    for n, (weight, average) in enumerate(seen):
        decay = min(0.999, (1 + n) / (10 + n))
        expected = decay * expected + (1 - decay) * weight
        torch.testing.assert_close(average, expected)
    assert len(seen) == 9 == int(method.generated.generator.updates)


def test_positives_are_replaced_with_probability_lambda():
    method = trained(replacement=0.3)
    method.prepare(X, 0)
    taken = torch.cat([method.positives(batch(seed))[1] for seed in range(100)])
    assert float(taken.float().mean()) == pytest.approx(0.3, abs=0.03)
    assert trained(replacement=0.0).positives(batch()) is None


def test_a_generated_positive_replaces_the_second_view(monkeypatch):
    method = trained(replacement=1.0, n_views=1)
    method.prepare(X, 0)
    seen = []
    monkeypatch.setattr(method.framework, "forward", lambda pair, progress: seen.append(pair) or pair.first.sum(1))
    step = method.phases()[2].updates[0].step
    step(batch())
    (pair,) = seen
    made = method.generated._current_cache(0).take(torch.arange(20), torch.zeros(20, dtype=torch.int64))
    assert torch.equal(pair.second, made) and torch.equal(pair.first, X[:20])
    assert torch.equal(pair.ids[1], torch.arange(20))
    assert not torch.equal(pair.second, X[:20])


def test_fixed_views_on_top_of_generated_samples(monkeypatch):
    class Shift(Identity):
        def forward(self, x, *, index=None, generator=None):
            return x + 10

    method = trained(replacement=1.0, n_views=1, on_top=True, makers=[Shift()])
    method.prepare(X, 0)
    seen = []
    monkeypatch.setattr(method.framework, "forward", lambda pair, progress: seen.append(pair) or pair.first.sum(1))
    method.phases()[2].updates[0].step(batch())
    made = method.generated._current_cache(0).take(torch.arange(20), torch.zeros(20, dtype=torch.int64))
    assert torch.equal(seen[0].second, made + 10) and torch.equal(seen[0].first, X[:20] + 10)


def test_without_a_generator_positives_are_fixed():
    method = trained("A")
    assert method.positives(batch()) is None and method.needs_pool
    method.prepare(X, 0)
    view = method.view(X[:5], index=torch.arange(5), generator=torch.Generator().manual_seed(0))
    assert all((row == X).all(1).any() for row in view)  # neighbors: rows of the data


def test_the_cache_is_refreshed_after_some_epochs():
    method = trained(refresh=2, n_views=1)
    method.prepare(X, 0)
    views = [method.positives(batch(epoch=epoch))[0] for epoch in (0, 1, 2)]
    assert torch.equal(views[0], views[1]) and not torch.equal(views[0], views[2])


def test_fresh_views_differ_from_batch_to_batch():
    method = trained(fresh=True, replacement=1.0)
    method.prepare(X, 0)
    (one, taken), (other, _) = method.positives(batch(0)), method.positives(batch(1))
    assert taken.all() and not torch.equal(one, other)
    again, _ = method.positives(batch(0))
    assert torch.equal(one, again)


def test_cached_outliers_are_rejected():
    method = trained(keep_outliers=False, replacement=1.0)
    method.prepare(X, 0)
    taken = torch.cat([method.positives(batch(seed))[1] for seed in range(20)]).float().mean()
    assert float(method.generated.drift) > 0  # this small generator makes outliers
    assert float(taken) == pytest.approx(1 - float(method.generated._outliers[:20].float().mean()), abs=0.08)


@pytest.mark.parametrize("condition", ["representation", "map", "labels", "random"])
def test_every_condition_trains_and_makes_views(condition):
    method = trained(condition=condition)
    views = method.view(X[:7], generator=torch.Generator().manual_seed(0))
    again = method.view(X[:7], generator=torch.Generator().manual_seed(0))
    assert views.shape == (7, D) and torch.isfinite(views).all() and torch.equal(views, again)


def test_conditions_of_the_generator():
    method = diffaug(condition="labels")
    method.prepare(X, 0)
    method.eval()._begin_b(0)
    y = method.framework.encoder(X).detach()
    means = torch.stack([y[label == LABELS].mean(0) for label in range(3)])
    torch.testing.assert_close(method.generated._condition(y, torch.arange(N), None), means[LABELS])
    method.release()
    # New rows belong to the class whose mean is nearest.
    torch.testing.assert_close(method.generated._condition(means[[2, 0]] + 1e-4, None, None), means[[2, 0]])

    mapped = diffaug(condition="map")
    mapped.generated.copy_encoder(mapped.framework.encoder, mapped.framework.map_head)
    torch.testing.assert_close(mapped.generated._condition(y, None, None), mapped.framework.map_head(y).detach())

    random = diffaug(condition="random")
    drawn = [random.generated._condition(y, None, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)]
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2]) and drawn[0].shape == y.shape


def test_joint_training_copies_the_encoder_in_every_epoch():
    method = trained("J", epochs=3)
    assert int(method.generated.rounds) == 3
    assert bool(method.generated.trained)


@pytest.mark.parametrize("rate, value", [(1e9, None), (1e-2, float("nan"))], ids=["diverges", "NaN"])
def test_a_generator_that_diverges_is_not_used(rate, value):
    method = diffaug(generator_optimizer=Optimizer(name="sgd", learning_rate=rate))
    if value is not None:
        with torch.no_grad():
            method.generated.generator.denoiser.layers[0].weight.fill_(value)
    with warnings.catch_warnings(action="ignore"):
        assert Trainer(method, seed=1, batch_size=20).fit(X) == "finished"
    assert not method.generated.trained and method.positives(batch()) is None
    (line,) = method.warnings([])
    assert "the generator diverged" in line and "fixed views" in line
    assert torch.isfinite(method.eval().represent(X)).all()


def test_a_generator_that_is_stopped_early_makes_the_views(tmp_path):
    whole, folder = trained(), CheckpointFolder(tmp_path)
    stopped = diffaug()
    Trainer(stopped, seed=1, batch_size=20, checkpoint=folder, callbacks=[Stop(12)]).fit(X)
    assert stopped.generated.trained and stopped.warnings([]) == [] and not stopped.needs_pool
    generated = [method.view(X[:5], generator=torch.Generator().manual_seed(0)) for method in (stopped, whole)]
    assert not torch.equal(*generated) and not (generated[0] == X[:5]).any()
    # The check does not change the resumed training.
    resumed = diffaug()
    assert Trainer(resumed, seed=1, batch_size=20, checkpoint=folder).fit(X, resume=True) == "finished"
    assert not changed(weights(whole), resumed)


@pytest.mark.parametrize(("schedule", "options"), [("ABA", {"fresh": True}), ("J", {"epochs": 3})])
def test_drift_is_measured_without_a_cache(schedule, options):
    method = trained(schedule, condition="random", **options)
    diagnostics = method.diagnose(X, torch.Generator())
    assert set(diagnostics) == {"drift", "generated_similarity"} and diagnostics["drift"] > 0.5
    assert method.warnings([])[0].startswith("generated views drift")
    # Drift is measured in the representations that condition the generator.
    method.prepare(X, 1)
    generated, index = method.generated, torch.arange(N)
    rng = stream(derive_seed(1, "drift", int(generated.rounds)))
    y, pool = (generated.encoder(x) for x in (generated.generate(X, index, rng), X))
    if schedule == "ABA":  # in joint training the generator has changed since
        assert diagnostics["drift"] == pytest.approx(float(outliers(y, index, pool).float().mean()))
        assert diagnostics["generated_similarity"] == pytest.approx(
            float(torch.cosine_similarity(y, pool).mean()), abs=1e-5
        )


def test_fresh_outliers_are_rejected():
    method = trained(keep_outliers=False, fresh=True, replacement=1.0)
    method.prepare(X, 0)
    pool = method.generated.encoder(X)
    for seed in range(5):
        views, taken = method.positives(batch(seed))
        outside = outliers(method.generated.encoder(views), torch.arange(20), pool)
        assert torch.equal(taken, ~outside)
    assert not taken.all()


def test_release_deletes_the_training_rows():
    method = trained()
    method.release()
    held = [value for value in vars(method.generated).values() if isinstance(value, torch.Tensor | ViewCache)]
    assert held == [] and method.generated.rows is None
    assert all(value.numel() < N * M for name, value in method.generated.state_dict().items() if "classes" in name)
    with pytest.raises(RuntimeError, match="call prepare"):
        method.generated.fit_scales(0)


@pytest.mark.parametrize(
    ("schedule", "after"), [("ABA", 2), ("ABA", 11), ("ABA", 17), ("J", 4)], ids=["A1", "B1", "A2", "J1, second epoch"]
)
def test_a_resumed_training_equals_an_uninterrupted_one(schedule, after, tmp_path):
    options = {"refresh": 1, "keep_outliers": False}
    whole = trained(schedule, **options)
    folder = CheckpointFolder(tmp_path)
    stopped = Trainer(diffaug(schedule, **options), seed=1, batch_size=20, checkpoint=folder, callbacks=[Stop(after)])
    assert stopped.fit(X) == "interrupted" and stopped.steps == after
    resumed = diffaug(schedule, **options)
    assert Trainer(resumed, seed=1, batch_size=20, checkpoint=folder).fit(X, resume=True) == "finished"
    assert not changed(weights(whole), resumed)


@pytest.mark.parametrize(("replacement", "generated"), [(0.0, False), (0.5, True)])
def test_diagnostics_are_of_views_that_the_encoder_learns_from(replacement, generated, monkeypatch):
    method = trained(replacement=replacement, makers=[Identity()])
    monkeypatch.setattr(method.generated, "view", lambda x, index, generator: x + 1)
    rows, index = X[:20], torch.arange(20)
    rng = torch.Generator().manual_seed(0)
    torch.testing.assert_close(method.view_of_training(rows, index, rng), rows + generated, rtol=0, atol=0)
    torch.testing.assert_close(method.view(rows, index=index, generator=rng), rows + 1, rtol=0, atol=0)


def test_without_generated_positives_the_phases_are_one_training():
    """The control of generated positives, replacement 0, differs from phase A alone by the order of rows only."""
    options = {"replacement": 0.0, "epochs": 12, "makers": [Identity()]}
    alone, control, longer = (
        diffaug(schedule, generator_epochs=epochs, **options) for schedule, epochs in (("A", 1), ("ABA", 1), ("ABA", 5))
    )
    for method in (alone, control, longer):
        Trainer(method, seed=1, batch_size=N).fit(X)
    assert not changed(weights(control.framework), longer.framework)  # whatever the generator learns
    torch.testing.assert_close(control.represent(X), alone.represent(X), rtol=0, atol=1e-4)
