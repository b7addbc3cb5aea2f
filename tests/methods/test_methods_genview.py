"""GenView's phases, sources of pairs and weights, with a small generator and with precomputed views."""

import itertools

import pytest
import torch
from torch import nn

from stopping import Stop
from viewsmith.core import Batch, Optimizer
from viewsmith.frameworks import BYOL, SimCLR
from viewsmith.losses.quality import quality_weights
from viewsmith.methods import ContrastiveMethod, GenViewMethod
from viewsmith.methods.genview.parts import ViewQuality
from viewsmith.modalities.vectors.networks import VectorLatents
from viewsmith.networks import MLP
from viewsmith.networks.base import cosine_momentum
from viewsmith.networks.features import FrozenMaps
from viewsmith.training.engine import Callback, Trainer
from viewsmith.training.run import CheckpointFolder
from viewsmith.views import GaussianNoise, Identity, Neighbors, PairMaker
from viewsmith.views.generated import noise_level
from viewsmith.views.generated.diffusion import ConditionalDiffusion
from viewsmith.views.generated.diffusion_views import GeneratedViews

N, D, M = 60, 4, 5
X = torch.randn(N, D, generator=torch.Generator().manual_seed(0))


class Denoiser(nn.Module):
    """A small denoiser that depends on noise, time and condition."""

    def __init__(self):
        super().__init__()
        self.layers = MLP(D + 1 + M, [16, D], activation="gelu")

    def forward(self, x, t, condition):
        return self.layers(torch.cat([x, t[:, None] / 1000, condition], 1))


def genview(*, generated=True, quality=True, maker=None, noise="adaptive", seed=0, **options):
    torch.manual_seed(seed)
    encoder = MLP(D, [8, M], norm="batch", last="activated")
    generator = ConditionalDiffusion(Denoiser(), VectorLatents(D), condition=M, steps=3, prediction="v", strength=0.5)
    settings = {
        "alpha": 1.0,
        "gamma": 1.0,
        "on_top": False,
        "first_fraction": 0.5,
        "epochs": 4,
        "generator_epochs": 3,
        "optimizer": Optimizer(learning_rate=1e-3),
        "generator_optimizer": Optimizer(learning_rate=1e-2),
    }
    return GenViewMethod(
        SimCLR(encoder, MLP(M, [3])),
        PairMaker([maker or Identity()]),
        GeneratedViews(
            generator,
            encoder,
            nn.Identity(),
            n_components=M,
            strengths=noise_level.AdaptiveStrength(noise, noise_level.NoiseTolerance(references=(N, M))),
        )
        if generated
        else None,
        ViewQuality(encoder, X) if quality else None,
        **settings | options,
    )


def batch(rows=20, seed=0):
    index = torch.arange(rows)
    return Batch(X[index], index, torch.Generator().manual_seed(seed))


def with_precomputed(**options):
    """A method with two precomputed views per sample, which are the sample plus 100 and plus 200."""
    method = genview(generated=False, precomputed=[100 + X, 200 + X], **options)
    method.prepare(X, 0)
    return method


@pytest.mark.parametrize(
    ("options", "phases"),
    [
        ({}, [("first", 2), ("generator", 3), ("train", 2)]),
        ({"first_fraction": 0.25}, [("first", 1), ("generator", 3), ("train", 3)]),
        ({"first_fraction": 0.0}, [("generator", 3), ("train", 4)]),
        ({"generated": False}, [("first", 2), ("train", 2)]),
        ({"generated": False, "quality": False}, [("train", 4)]),
    ],
)
def test_the_phases_and_their_epochs(options, phases):
    found = genview(**options).phases()
    assert [(phase.name, phase.epochs) for phase in found] == phases
    spans = [phase.updates[0].optimizer.lr_span for phase in found if phase.name != "generator"]
    assert spans[0][0] == 0 and spans[-1][1] == 1 and all(a[1] == b[0] for a, b in itertools.pairwise(spans))


def test_schedules_of_the_framework_cover_all_phases():
    """The momentum of a copy does not restart in the second phase of the encoder."""
    method = genview()
    encoder = method.framework.encoder
    method.framework = BYOL(encoder, MLP(M, [3]), MLP(3, [4, 3]), momentum=0.6)
    seen, momenta, forward = [], [], method.framework.forward

    def watched(pair, progress):
        before = method.framework.head_copy[0].weight.clone()
        losses = forward(pair, progress)
        moved, distance = (
            method.framework.head_copy[0].weight - before,
            method.framework.head[0].weight.detach() - before,
        )
        seen.append(progress)
        if distance.abs().max() > 1e-6:  # not in the first step, where both are equal
            momenta.append(1 - float((moved * distance).sum() / distance.square().sum()))
        return losses

    method.framework.forward = watched
    Trainer(method, seed=0, batch_size=10).fit(X[:20])
    steps = 4 * 2  # of the encoder, in two phases
    assert seen == pytest.approx([step / steps for step in range(steps)])
    expected = [cosine_momentum(0.6, step / steps) for step in range(1, steps)]
    assert momenta == pytest.approx(expected, abs=1e-3)


def test_each_phase_trains_its_network():
    method = genview()
    first, generator, train = method.phases()

    def names(phase):
        moving = {id(p) for p in phase.updates[0].parameters()}
        return {name.split(".")[0] for name, p in method.named_parameters() if id(p) in moving}

    assert names(first) == names(train) == {"framework"} and names(generator) == {"generated"}


@pytest.mark.parametrize("on_top", [False, True])
def test_one_of_the_two_sources_is_generated(on_top):
    method = with_precomputed(on_top=on_top)
    pair, sources = method.pair(batch(60))
    made = [(view > 50).all(1) for view in (pair.first, pair.second)]
    assert torch.equal(made[0], ~made[1])  # alpha 1: one of them, never both
    assert 15 < int(made[0].sum()) < 45
    for view, generated, source in ((pair.first, made[0], sources[0]), (pair.second, made[1], sources[1])):
        assert torch.equal(view[~generated], X[~generated])
        number = (view[generated] > 150).all(1)
        torch.testing.assert_close(view[generated], X[generated] + 100 + 100 * number[:, None])
        assert torch.equal(source[generated], 1 + number.long()) and not source[~generated].any()
        assert 0 < int(number.sum()) < len(number)  # each of the two views is used
    assert torch.equal(pair.ids[0], torch.arange(60)) and torch.equal(pair.ids[1], torch.arange(60))


def test_alpha_is_the_fraction_of_pairs():
    taken = [bool((pair > 50).any()) for pair in _rows(with_precomputed(alpha=0.3), 60)]
    assert 0.1 < sum(taken) / len(taken) < 0.5
    assert not any((pair > 50).any() for pair in _rows(with_precomputed(alpha=0.0), 60))


def _rows(method, rows):
    pair, _ = method.pair(batch(rows))
    return torch.cat([pair.first, pair.second], 1)


def test_fixed_views_are_applied_to_generated_samples_with_on_top():
    noise = GaussianNoise(1.0)
    on_top = with_precomputed(on_top=True, maker=noise).pair(batch(60))[0]
    instead = with_precomputed(on_top=False, maker=noise).pair(batch(60))[0]
    for pair, moved in ((on_top, True), (instead, False)):
        made = (pair.second > 50).all(1)
        whole = ((pair.second - X)[made] % 100).abs()
        whole = torch.minimum(whole, 100 - whole).amax(1) > 1e-3
        assert bool(whole.all()) is moved


def test_a_generated_view_has_the_id_of_its_own_sample():
    """A view of a neighbor has the neighbor's id; a generated sample that replaces it does not."""
    method = with_precomputed(alpha=0.5, quality=False, maker=Neighbors(1))
    given = batch(rows=N)
    pair, sources = method.pair(given)
    of_neighbors = method.views.for_batch(given, method.framework).ids
    assert (of_neighbors[1] != given.index).all()
    for ids, source, others in zip(pair.ids, sources, of_neighbors, strict=True):
        assert 0 < (source > 0).sum() < N
        assert torch.equal(ids, torch.where(source > 0, given.index, others))


def test_alpha_zero_without_quality_equals_the_framework():
    torch.manual_seed(0)
    encoder = MLP(D, [8, M], norm="batch", last="activated")
    ConditionalDiffusion(Denoiser(), VectorLatents(D), condition=M)  # draws the same weights
    plain = ContrastiveMethod(
        SimCLR(encoder, MLP(M, [3])), PairMaker([GaussianNoise()]), epochs=4, optimizer=Optimizer(learning_rate=1e-3)
    )
    method = genview(generated=False, quality=False, alpha=0.0, maker=GaussianNoise())
    for each in (plain, method):
        Trainer(each, batch_size=20, seed=3).fit(X)
    for name, weights in plain.framework.state_dict().items():
        assert torch.equal(method.framework.state_dict()[name], weights), name


def test_losses_are_weighted_by_quality():
    method = with_precomputed(gamma=4.0)
    step = method.phases()[-1].updates[0].step
    plain, logs = step(batch())
    assert logs == {}  # not before the encoder was copied
    method.phases()[-1].start(0)
    method.eval()
    weighted, logs = step(batch())
    pair, _ = method.pair(batch())
    q = method.quality(pair.first, pair.second)
    torch.testing.assert_close(weighted, quality_weights(q, 4.0) * method.framework(pair, 0.0))
    torch.testing.assert_close(logs["quality"], q.mean())
    assert not torch.allclose(weighted, plain)


def test_weights_are_computed_over_all_processes(monkeypatch):
    method = with_precomputed()
    method.quality.numbers["ready"] = 1
    others = torch.tensor([2.0, -1.0])
    monkeypatch.setattr("viewsmith.methods.genview.training.gather", lambda q: torch.cat([others, q]))
    pair, _ = method.pair(batch())
    q = method.quality(pair.first, pair.second)
    weights, _ = method.weights(batch(), pair, None)
    torch.testing.assert_close(weights, quality_weights(q, gathered=torch.cat([others, q])))


def test_each_row_has_its_noise_level(monkeypatch):
    method = genview()
    Trainer(method, batch_size=20).fit(X)
    method.prepare(X, 0)
    seen = []
    sample = ConditionalDiffusion.sample

    def spy(self, x, condition, generator=None, *, strength=None):
        seen.append(strength)
        return sample(self, x, condition, generator, strength=strength)

    monkeypatch.setattr(ConditionalDiffusion, "sample", spy)
    method.pair(batch())
    expected = noise_level.level_to_strength(
        noise_level.adaptive_levels(noise_level.noise_tolerance(method.generated.encoder, X)[0])
    )
    assert torch.equal(seen[0], expected) and len(expected.unique()) == 5
    for noise, strengths in (("constant:300", {0.7}), ("random", {0.1, 0.3, 0.5, 0.7, 0.9})):
        found = noise_level.AdaptiveStrength(noise)(method.generated.encoder, X, [torch.Generator().manual_seed(0)])
        assert {round(value, 6) for value in found.tolist()} == strengths


def test_a_generator_that_diverges_is_not_used():
    method = genview(generator_optimizer=Optimizer(name="sgd", learning_rate=1e18))
    Trainer(method, batch_size=20).fit(X)
    assert not method.generates and "diverged" in method.warnings([])[0]
    method.prepare(X, 0)
    assert torch.equal(method.pair(batch())[0].second, X[:20])


def test_release_deletes_all_rows():
    method = with_precomputed()
    method.release()
    assert method.precomputed == [] and method.rows is None


def genview_of_images(**options):
    """A method on small images with a pretrained network for quality, and the images."""
    torch.manual_seed(0)
    x = torch.randn(24, 3, 8, 8)
    network = nn.Conv2d(3, 5, 2, 2)
    maps = FrozenMaps(lambda: network, "Conv2d", x=x)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(192, M))
    method = genview(generated=False, on_top=True, **options)
    method.framework = SimCLR(encoder, MLP(M, [3]))
    method.quality = ViewQuality(encoder, x, maps=maps)
    return method, x


def test_a_pretrained_network_weights_pairs_from_the_first_step():
    method, x = genview_of_images()
    assert [(phase.name, phase.epochs) for phase in method.phases()] == [("train", 4)]
    rows = []

    class Keep(Callback):
        def epoch(self, trainer, row):
            rows.append(row)

    Trainer(method, batch_size=12, callbacks=[Keep()]).fit(x)
    assert len(rows) == 4 and all("quality" in row for row in rows)
    # With a generator between the phases, pairs are still weighted, and the axis does not change.
    method, x = genview_of_images()
    method.generated = genview().generated
    first, _, train = method.phases()
    method.rows = x
    first.start(0)
    assert method.quality.ready
    axis, method.quality.cached_maps = method.quality.axis.clone(), [x]
    method.generated = None
    train.start(0)
    assert torch.equal(method.quality.axis, axis) and method.quality.cached_maps == []  # cached maps are computed again


@pytest.mark.parametrize("after", [3, 9, 15])
def test_a_resumed_training_equals_an_uninterrupted_one(after, tmp_path):
    def train(folder, resume=False, callbacks=()):
        method = genview()
        Trainer(method, batch_size=20, seed=2, checkpoint=CheckpointFolder(folder), callbacks=callbacks).fit(
            X, resume=resume
        )
        return method.state_dict()

    whole = train(tmp_path / "whole")
    train(tmp_path / "parts", callbacks=[Stop(after)])
    parts = train(tmp_path / "parts", resume=True)
    assert all(torch.equal(parts[name], value) for name, value in whole.items())


def test_views_are_chosen_among_candidates_and_outliers_are_rejected():
    method = genview()
    method.generated.n_views, method.generated.candidates = 2, 3
    Trainer(method, batch_size=20).fit(X)
    method.prepare(X, 0)
    generated = method.generated
    selected = generated.cached_views()
    assert len(selected) == 2 and float(generated.drift) < 0.2
    method.generated.candidates = 1
    method.prepare(X, 0)
    plain = generated.cached_views()
    assert len(plain) == 2 and not torch.equal(plain[0], selected[0])
    # Each is one of the six candidates, or the sample where all of them are outliers.
    generated.n_views = 6
    method.prepare(X, 0)
    every = torch.stack([X, *generated.cached_views()])
    assert all((view == every).all(2).any(0).all() for view in selected)
