"""MetAug's updates: the meta gradient against plain differentiation, what each changes; generators of features."""

import itertools

import pytest
import torch
from metaug_cases import SHARED, H, N, X, Z, batch, build, gradients, two_steps, update, work

from refusals import refusal
from viewsmith.core import Optimizer
from viewsmith.frameworks import moco
from viewsmith.losses import info_nce
from viewsmith.methods.metaug.objective import BatchLosses, batch_statistics, inner_gradient, mean
from viewsmith.networks import ColorSplit, SmallCNN, ViewEncoders, ViewHeads
from viewsmith.training.engine import Callback, Trainer
from viewsmith.views import AdversarialViews, MetaFeatures, Neighbors

IMAGES = torch.randn(N, 3, 16, 16, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def state(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


def plain_moco_info_nce(queries, keys, queue, *, temperature, ids, queue_ids):
    candidates, positive = torch.cat([keys, queue]), torch.arange(len(keys))
    rows = torch.cat([torch.full((len(keys),), -2), queue_ids])
    excluded = (rows == ids[0][:, None]) | (rows == ids[1][:, None])
    excluded[:, : len(keys)] = positive[:, None] != positive
    return info_nce(queries, candidates, positive, temperature=temperature, excluded=excluded)


def plain_meta_losses(forward, inner, outer, *, weights, rate, weight=None):
    """`meta_losses` by differentiating through the whole retained graph of the inner step."""
    theta = {name: value.detach().requires_grad_() for name, value in weights.items()}
    own, z = forward(theta)
    first = mean(inner(z) if own is None else own + inner(z), weight)
    found = torch.autograd.grad(first, list(theta.values()), create_graph=True, allow_unused=True)
    ahead = {
        name: value if slope is None else value - rate * slope
        for (name, value), slope in zip(theta.items(), found, strict=True)
    }
    own, z = forward(ahead)
    losses = outer(z)
    return losses if own is None else own + losses


def plain(method, inner, given):
    """The generators' losses and gradients by differentiating through the whole inner step."""
    terms = method.terms
    batch_losses = BatchLosses(terms, inner.state, inner.pair, inner.views, given.progress)
    theta = {name: inner.state[name] for name in inner.theta}
    first, second = terms.of_projections(inner.draw), terms.of_projections(inner.draw, regularized=True)
    with batch_statistics(method.framework, method.features):
        losses = plain_meta_losses(
            batch_losses.at, first, second, weights=theta, rate=method.options.inner_rate, weight=given.weight
        )
    losses = losses / method.options.feature_weight
    total = (losses if given.weight is None else given.weight * losses).mean()
    found = torch.autograd.grad(total, list(method.features.parameters()))
    return losses.detach(), dict(zip(dict(method.features.named_parameters()), found, strict=True))


CASES = [
    ("oucl", {}),
    ("oucl", {"norm": "none"}),
    ("oucl", {"views": 3, "united": False}),
    ("oucl", {"kind": "bank", "stored_positives": True, "margin_scope": "sample"}),
    ("oucl", {"margin": "small", "makers": [Neighbors(2)]}),
    ("oucl", {"optimizer": Optimizer("sgd", learning_rate=0.05, clip=0.01)}),
    ("per-view", {"views": 3}),
    ("images", {}),
    ("simclr", {}),
    ("moco", {}),
    ("simsiam", {}),
    ("nnclr", {}),
    ("dino", {}),
]


@pytest.mark.parametrize(
    ("name", "options", "weighted"),
    [*((*case, number % 2 == 1) for number, case in enumerate(CASES)), ("oucl", {}, True), ("simclr", {}, True)],
    ids=str,
)
def test_the_meta_gradient_equals_plain_differentiation(name, options, weighted, monkeypatch):
    monkeypatch.setattr(moco, "moco_info_nce", plain_moco_info_nce)  # the chunked form can be differentiated once
    method = build(name, **options)
    method.prepare(X, 0)
    x = IMAGES if name == "images" else X
    weight = torch.linspace(0.2, 2, 12, dtype=torch.float64) if weighted else None
    update(method, 0, batch(slice(12, 24), x=x))  # fills the memory
    given = batch(weight=weight, x=x)
    update(method, 0, given)
    inner = method.inner
    cut = method.optimizer.clip is not None
    expected_losses, expected = plain(method, inner, given)
    if not cut:
        # The gradient of the encoder's update is the inner gradient.
        batch_losses = BatchLosses(method.terms, inner.state, inner.pair, inner.views, 0.0)
        theta = {name: inner.state[name] for name in inner.theta}
        with batch_statistics(method.framework, method.features):
            slopes = inner_gradient(batch_losses.at, method.terms.of_projections(inner.draw), theta, weight)
        for key, p in method.framework.named_parameters():
            if key in slopes and p.grad is not None:
                torch.testing.assert_close(p.grad, slopes[key], rtol=1e-9, atol=1e-12)
    before = state(method)
    losses, _ = update(method, 1, given)
    found = gradients(method.features)
    torch.testing.assert_close(losses, expected_losses, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)
    # BatchNorm statistics, copies, queues and memory have not changed.
    assert all(torch.equal(value, before[key]) for key, value in method.state_dict().items())
    assert method.inner is None
    # Without the mixed derivative, the gradient is different.
    method.inner, method.options.meta = inner, "first-order"
    first_losses, _ = update(method, 1, given)
    if method.added is None:  # the loss of another framework is not included
        torch.testing.assert_close(first_losses, expected_losses, rtol=1e-9, atol=1e-10)
    first = gradients(method.features)
    assert max(float((first[key] - expected[key]).abs().max()) for key in expected) > 1e-6


def test_the_meta_gradient_equals_finite_differences():
    method = build(norm="none", views=3, margin_weight=0.0)  # margins are constants in the gradient
    update(method, 0, batch())
    inner, given = method.inner, batch()
    _, expected = plain(method, inner, given)
    name, p = "networks.1.0.weight", method.features.networks[1][0].weight
    with torch.no_grad():
        values = []
        for step in (1e-5, -1e-5):
            p[2, 1] += step
            with torch.enable_grad():
                values.append(float(plain(method, inner, given)[0].mean()))
            p[2, 1] -= step
    assert (values[0] - values[1]) / 2e-5 == pytest.approx(float(expected[name][2, 1]), rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("name", ["oucl", "simclr", "moco", "nnclr"])
def test_each_update_trains_its_modules(name):
    method = build(name)
    updates = method.phases()[0].updates
    assert [u.name for u in updates] == ["encoder", "features"]
    before = state(method)
    Trainer(method, seed=0, batch_size=12).fit(X)
    after = method.state_dict()
    learned = [key for key, p in method.named_parameters() if p.requires_grad]
    assert all(not torch.equal(after[key], before[key]) for key in learned)
    fresh = build(name)
    update(fresh, 0, batch())
    assert not gradients(fresh.features) and gradients(fresh.framework)
    left = gradients(fresh.framework)
    update(fresh, 1, batch())
    assert gradients(fresh.features) and all(
        torch.equal(value, left[k]) for k, value in gradients(fresh.framework).items()
    )


def test_the_loss_is_the_sum_of_its_terms():
    method = build(feature_weight=0.25).eval()
    given = batch()
    losses, logs = method.phases()[0].updates[0].step(given)
    pair, views = method.views_of(given.x, given.index, torch.Generator().manual_seed(0))
    draw = method.terms.contrast.memory
    z = method.terms.projections(pair, views)
    fresh = build(feature_weight=0.25).terms.contrast.memory.draw(12, views.ids)
    contrast = method.terms.contrast
    original, added = contrast.losses(contrast.log_sums(z, fresh, method.features(z)))
    torch.testing.assert_close(losses, original + 0.25 * added)
    torch.testing.assert_close(logs["augmented"], added.mean())
    assert draw.pointer == 12


@pytest.mark.parametrize("meta", ["second-order", "first-order", "frozen", "none"])
@pytest.mark.parametrize("name", ["oucl", "simclr"])
def test_settings_of_meta_learning(name, meta):
    method = build(name, meta=meta)
    before = state(method)
    trainer = Trainer(method, seed=0, batch_size=12)
    trainer.fit(X)
    moved = {key for key, value in method.state_dict().items() if not torch.equal(value, before[key])}
    weights = {f"features.{k}" for k, _ in method.features.named_parameters()} if meta != "none" else set()
    assert weights <= moved if meta in ("second-order", "first-order") else not weights & moved
    assert {k for k in moved if k.startswith("framework.encoder")}
    assert len(method.phases()[0].updates) == (2 if method.learns else 1)
    if meta == "none" and name == "simclr":
        assert not [key for key in before if key.startswith("added")]


def test_generators_are_updated_in_every_second_step():
    method = build(feature_every=2)
    seen = []

    class Watch(Callback):
        def step(self, trainer):
            seen.append(next(method.features.parameters()).detach().clone())

    Trainer(method, seed=0, batch_size=8, callbacks=[Watch()]).fit(X)
    moves = [not torch.equal(one, other) for one, other in itertools.pairwise(seen)]
    assert moves == [False, True, False, True, False]


def test_a_large_alpha_lowers_the_margin_regularization():

    def trained(weight):
        method = build(margin_weight=weight, norm="none")
        for _ in range(30):
            update(method, 0, batch())
            _, logs = update(method, 1, batch())
            with torch.no_grad():
                for p in method.features.parameters():
                    p -= 0.5 * p.grad
        return logs["margin"].item()

    assert trained(5.0) < 0.5 * trained(1e-9)


# ---- views


def test_views_of_a_sample():
    method = build(views=4)
    pair, views = method.views_of(X, torch.arange(N), torch.Generator().manual_seed(0))
    assert len(views.x) == 4 and views.ids.shape == (4, N) and views.x[0] is pair.first and views.x[1] is pair.second
    assert len({v.sum().item() for v in views.x}) == 4


@torch.no_grad()
def test_feature_views_and_outputs():
    method = build("per-view", views=3).eval()
    z, a = method.feature_views(X[:1], generator=torch.Generator().manual_seed(0))
    assert z.shape == a.shape == (3, 1, Z)
    torch.testing.assert_close(a.norm(dim=-1), torch.ones(3, 1, dtype=torch.float64))
    h = method.represent(X)
    assert h.shape == (N, 3 * H) and method.represent(X, "projection").shape == (N, 3 * Z)
    for j in range(3):
        assert torch.equal(method.represent(X, f"view-{j + 1}"), h[:, H * j : H * j + H])
    assert build().eval().represent(X).shape == (N, H)


def test_color_views_are_parts_of_one_sample():
    torch.manual_seed(0)
    split = ColorSplit((0.5,) * 3, (0.25,) * 3)
    method = build(views=3)
    encoder = ViewEncoders([SmallCNN(c, H, widths=(4, 4)) for c in split.channels], split)
    framework = method.framework
    framework.encoder, framework.head = (
        encoder.double(),
        ViewHeads(list(build("per-view", views=3).framework.head.networks)),
    )
    pair, views = method.views_of(IMAGES, torch.arange(N), torch.Generator().manual_seed(0))
    assert len(views.x) == 1 and views.ids.shape == (3, N)
    assert method.terms.projections(pair, views).shape == (3, N, Z)
    losses, _ = update(method, 0, batch(x=IMAGES))
    update(method, 1, batch(x=IMAGES))
    assert torch.isfinite(losses).all() and gradients(method.features)


def test_adversarial_views_do_not_change_memory_and_statistics():
    method = build(makers=[AdversarialViews(0.1)])
    before = state(method)
    method.views_of(X, torch.arange(N), torch.Generator().manual_seed(0))
    assert all(torch.equal(value, before[key]) for key, value in method.state_dict().items())


# ---- a whole training


def test_sync_batch_norm_is_rejected():
    for part in ("framework", "features"):
        method = build()
        update(method, 0, batch())
        setattr(method, part, torch.nn.SyncBatchNorm.convert_sync_batchnorm(getattr(method, part)))
        said = refusal(method.phases()[0].updates[1].step, batch())
        assert "use meta='first-order', norm='none' (vectors), or one GPU" in said


def test_invalid_input_is_rejected():
    method = build()
    said = refusal(method.phases()[0].updates[0].step, batch(slice(0, 1)))
    assert "the batch has 1 sample, expected at least 2" in said
    assert "n_views is 3, expected 2 with another framework than oucl" in refusal(build, "simclr", views=3)
    assert "expected at least 2" in refusal(MetaFeatures, 1, 4)


@pytest.fixture(scope="module")
def of_two(tensors_of_pair):
    """The results of each of two processes."""
    return tensors_of_pair(work)


@pytest.mark.parametrize("name", SHARED)
def test_two_processes_equal_one_on_the_whole_batch(of_two, name):
    expected = two_steps(name)
    assert any("features: gradient" in key for key in expected)
    for found in of_two:
        torch.testing.assert_close(found[name], expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(*(found[name] for found in of_two), rtol=0, atol=0)


def projections(dtype=torch.float64, views=3):
    return torch.randn(views, 8, 6, generator=torch.Generator().manual_seed(0), dtype=dtype)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_each_view_has_its_generator(residual, dtype):
    torch.manual_seed(0)
    generators = MetaFeatures(3, 6, hidden=(10, 10), residual=residual).to(dtype)
    z = projections(dtype)
    a = generators(z)
    assert a.shape == z.shape and a.dtype == dtype
    torch.testing.assert_close(a.norm(dim=-1), torch.ones(3, 8, dtype=dtype))
    for j, network in enumerate(generators.networks):
        direction = z[j] / z[j].norm(dim=1, keepdim=True)
        expected = direction + network(direction) / 6**0.5 if residual else network(direction)
        torch.testing.assert_close(a[j], expected / expected.norm(dim=1, keepdim=True))
    # The length of a projection has no effect.
    torch.testing.assert_close(generators(2 * z), a)


@pytest.mark.parametrize("width", [32, 128])
def test_residual_generators_start_close_to_the_projection(width):
    torch.manual_seed(0)
    z = torch.randn(2, 200, width)
    cosine = torch.cosine_similarity(MetaFeatures(2, width)(z), z, dim=-1)
    assert 0.85 < cosine.mean() < 0.97
    assert MetaFeatures(2, width, residual=False)(z).mul(torch.nn.functional.normalize(z, dim=-1)).sum(-1).mean() < 0.3


def test_published_widths():
    shapes = [tuple(p.shape) for p in MetaFeatures(3, 128, hidden=(2048, 2048)).parameters() if p.ndim == 2]
    assert shapes == [(2048, 128), (2048, 2048), (128, 2048)] * 3
    assert sum(p.numel() for p in MetaFeatures(2, 128, hidden=(2048, 2048)).parameters()) // 2 == pytest.approx(
        4.73e6, rel=0.002
    )


def test_rows_of_zeros_are_finite():
    torch.manual_seed(0)
    for residual in (False, True):
        z = torch.zeros(2, 4, 6, dtype=torch.float64, requires_grad=True)
        a = MetaFeatures(2, 6, residual=residual).double()(z)
        (gradient,) = torch.autograd.grad(a.sum(), z)
        assert torch.isfinite(a).all() and torch.isfinite(gradient).all()


def test_one_view_is_refused():
    assert "1 view of each sample, expected at least 2" in refusal(MetaFeatures, 1, 6)


def test_no_hook_is_left_on_the_head_of_another_framework():
    method = build("simclr")
    update(method, 0, batch())
    assert not method.framework.head._forward_hooks
