"""The unified loss of several views with a memory: losses against loops, and the contents of the memory."""

import itertools

import pytest
import torch
from framework_cases import length_one

from cases import covering
from drawn import draw as generator
from drawn import normal
from refusals import refusal
from viewsmith.frameworks import FeatureContrast, FeatureMemory, Unified
from viewsmith.frameworks.unified import Draw, Views, embed
from viewsmith.losses.oucl import Logits, margins, oucl
from viewsmith.networks import MLP, ViewEncoders, ViewHeads
from viewsmith.views import PositivePair

M, B, D, N = 3, 5, 4, 9
IDS = torch.tensor([[0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [5, 1, 2, 3, 4]])


def memory(kind="bank", **options):
    made = FeatureMemory(M, N, D, **{"negatives": 6, "kind": kind} | options).double()
    made.keys.copy_(torch.nn.functional.normalize(normal(M, N, D, seed=3), dim=-1))
    return made


def cosine(a, b):
    return ((length_one(a) * length_one(b)).sum() + 1) / 2


def slow_pairs(i, variant, z, a, draw, stored_positives=False):
    """Similarities of sample i with its positives and negatives, for per_sample query view m and key view n."""
    positives, negatives = {}, {}
    for m, n in itertools.permutations(range(len(z)), 2):
        query = (a if variant[m] else z)[m, i]
        positives[m, n] = cosine(query, draw.positives[n, i] if stored_positives else z[n, i])
        keys = draw.keys[n] if draw.keys.ndim == 3 else draw.keys[n, i]
        negatives[m, n] = [
            cosine(query, key) for k, key in enumerate(keys) if draw.excluded is None or not draw.excluded[n, i, k]
        ]
    return positives, negatives


def slow_loss(i, variant, z, a, draw, logits, united, stored_positives):
    positives, negatives = slow_pairs(i, variant, z, a, draw, stored_positives)

    def loss(keys):
        near, far = [positives[key] for key in keys], [d for key in keys for d in negatives[key]]
        return oucl(torch.stack(near)[None], torch.stack(far)[None], logits)[0]

    return loss(positives) if united else sum(loss([key]) for key in positives) / len(positives)


BOTH = (False, True)
CASES = itertools.product(BOTH, BOTH, (Logits(), Logits("squared", beta=30.0)), BOTH)


@pytest.mark.parametrize(("united", "per_sample", "logits", "stored_positives"), covering(CASES, drawn=2))
def test_losses_equal_the_loop(united, per_sample, logits, stored_positives):
    contrast = FeatureContrast(memory(per_sample=per_sample), logits, united=united, stored_positives=stored_positives)
    z, raw = normal(M, B, D).requires_grad_(), normal(M, B, D, seed=1).requires_grad_()
    a = torch.nn.functional.normalize(raw, dim=-1)
    draw = contrast.memory.draw(B, IDS, generator())
    original, augmented = contrast.losses(contrast.log_sums(z, draw, a))
    expected = [slow_loss(i, (0, 0, 0), z, a, draw, logits, united, stored_positives) for i in range(B)]
    terms = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)]
    more = [sum(slow_loss(i, t, z, a, draw, logits, united, stored_positives) for t in terms) / 4 for i in range(B)]
    for found, slow in ((original, expected), (augmented, more)):
        slow = torch.stack(slow)
        torch.testing.assert_close(found, slow, rtol=1e-10, atol=1e-12)
        weights = torch.arange(1.0, B + 1, dtype=torch.float64)
        fast = torch.autograd.grad(
            (weights * found).sum(), (z, raw), retain_graph=True, allow_unused=True, materialize_grads=True
        )
        loop = torch.autograd.grad(
            (weights * slow).sum(), (z, raw), retain_graph=True, allow_unused=True, materialize_grads=True
        )
        for one, other in zip(fast, loop, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)
    # Without augmented features there is only the first loss.
    plain, none = contrast.losses(contrast.log_sums(z, draw))
    torch.testing.assert_close(plain, original)
    assert none is None


@pytest.mark.parametrize(
    ("form", "stored_positives", "per_sample", "dtype"),
    covering(itertools.product(("linear", "squared", "circle"), BOTH, BOTH, (torch.float64, torch.float32)), drawn=2),
)
def test_the_joint_contrast_of_all_features_equals_the_loop(form, stored_positives, per_sample, dtype):
    """Equation 11: one loss of the pairs of original and augmented features, all combined with each other."""
    logits = Logits(form, beta=7.0, detach=False)
    options = {"stored_positives": stored_positives, "joint": True}
    contrast = FeatureContrast(memory(per_sample=per_sample), logits, **options).to(dtype)
    z, raw = (normal(M, B, D, seed=s).to(dtype).requires_grad_() for s in (0, 1))
    draw = contrast.memory.draw(B, IDS, generator())
    original, joint = contrast.losses(contrast.log_sums(z, draw, torch.nn.functional.normalize(raw, dim=-1)))
    slow_z, slow_raw = (part.detach().double().requires_grad_() for part in (z, raw))
    a = torch.nn.functional.normalize(slow_raw, dim=-1)
    exact = Draw(draw.keys.double(), draw.excluded, draw.positives.double())
    rows, expected = [0, 2], []
    for i in rows:
        total = torch.tensor(1.0, dtype=torch.float64)
        pairs = [slow_pairs(i, variant, slow_z, a, exact, stored_positives) for variant in ((0,) * M, (1,) * M)]
        far = [d for _, negatives in pairs for group in negatives.values() for d in group]
        near = [d for positives, _ in pairs for d in positives.values()]
        for d_far, d_near in itertools.product(far, near):
            total = total + torch.exp(logits.negative(d_far) + logits.positive(d_near))
        expected.append(total.log() / logits.beta)
    expected = torch.stack(expected)
    close = {"rtol": 1e-9, "atol": 1e-11} if dtype == torch.float64 else {"rtol": 1e-3, "atol": 1e-5}
    torch.testing.assert_close(joint[rows].double(), expected, **close)
    weights = torch.arange(1.0, 3)
    fast = torch.autograd.grad((weights.to(dtype) * joint[rows]).sum(), (z, raw))
    for one, other in zip(fast, torch.autograd.grad((weights * expected).sum(), (slow_z, slow_raw)), strict=True):
        assert other.abs().max() > 1e-4
        torch.testing.assert_close(one.double(), other, **close)
    # The losses of original features are those of the program; the mean of its terms is another number.
    program = FeatureContrast(contrast.memory, logits, stored_positives=stored_positives)
    sums = program.log_sums(z, draw, torch.nn.functional.normalize(raw, dim=-1))
    torch.testing.assert_close(program.losses(sums)[0], original)
    assert (program.losses(sums)[1] - joint).abs().min() > 1e-3


def test_a_joint_contrast_is_united():
    assert "united losses" in refusal(FeatureContrast, memory(), united=False, joint=True)


def test_two_views_and_one_positive_give_info_nce():
    contrast = FeatureContrast(FeatureMemory(2, N, D, negatives=N).double(), Logits(beta=10.0), united=False)
    z = normal(2, B, D)
    draw = contrast.memory.draw(B, None)
    losses = 10 * contrast.losses(contrast.log_sums(z, draw))[0]
    unit = torch.nn.functional.normalize
    for i in range(B):
        both = []
        for m in (0, 1):
            query, keys = unit(z[m, i], dim=0), draw.keys[1 - m]
            logits = torch.cat([(query * unit(z[1 - m, i], dim=0)).sum()[None], keys @ query]) * 5
            both.append(torch.logsumexp(logits, 0) - logits[0])
        torch.testing.assert_close(losses[i], sum(both) / 2)


@pytest.mark.parametrize("kind", ["large", "medium", "small"])
@pytest.mark.parametrize("per_sample", [False, True])
@pytest.mark.parametrize("own_keys", [False, True])
def test_the_regularization_compares_augmented_with_original_pairs(kind, per_sample, own_keys):
    contrast = FeatureContrast(memory(per_sample=own_keys))
    z, a = normal(M, B, D), torch.nn.functional.normalize(normal(M, B, D, seed=1), dim=-1)
    draw = contrast.memory.draw(B, IDS, generator())
    found = contrast.regularization(z, draw, a, kind, per_sample=per_sample)
    original = [slow_pairs(i, (0,) * M, z, a, draw) for i in range(B)]
    low = [min(pairs[0].values()) for pairs in original]
    high = [max(itertools.chain(*pairs[1].values())) for pairs in original]
    for i in range(B):
        near, far = margins(low[i], high[i], kind) if per_sample else margins(min(low), max(high), kind)
        positives, negatives = slow_pairs(i, (1,) * M, z, a, draw)
        close = [max(float(d - near), 0) for d in positives.values()]
        apart = [max(float(far - d), 0) for d in itertools.chain(*negatives.values())]
        assert found[i].item() == pytest.approx(sum(close) / len(close) + sum(apart) / len(apart), rel=1e-9)


# ---- memory


@pytest.mark.parametrize("per_sample", [False, True])
@pytest.mark.parametrize("kind", ["bank", "queue"])
def test_keys_of_the_rows_of_a_sample_are_excluded(per_sample, kind):
    made = memory(kind, per_sample=per_sample, negatives=N)
    if kind == "queue":
        made.write(normal(M, B, D, seed=2), IDS)
    draw = made.draw(B, IDS, generator())
    for m, i in itertools.product(range(M), range(B)):
        keys = draw.keys[m, i] if per_sample else draw.keys[m]
        positions = [int((made.keys[m] == key).all(1).nonzero()[0, 0]) for key in keys]
        expected = [int(made.ids[m, position]) in IDS[:, i].tolist() for position in positions]
        assert draw.excluded[m, i].tolist() == expected
    assert draw.excluded.any() and not draw.excluded.all(-1).any()


def test_draws_are_reproducible_and_shared_or_per_sample():
    made, separate = memory(), memory(per_sample=True)
    assert made.draw(B, IDS, generator()).keys.shape == (M, 6, D)
    assert separate.draw(B, IDS, generator()).keys.shape == (M, B, 6, D)
    for drawn in (made, separate):
        keys = [drawn.draw(B, IDS, generator(seed)).keys for seed in (0, 0, 1)]
        assert torch.equal(keys[0], keys[1]) and not torch.equal(keys[0], keys[2])
    assert torch.equal(memory(negatives=N).draw(B, IDS).keys, made.keys)  # all keys, so nothing is drawn
    assert len(made.draw(B, IDS, generator()).keys[0].unique(dim=0)) == 6


@pytest.mark.parametrize("momentum", [0.5, 0.8, 1.0])
def test_a_bank_stores_running_averages_of_rows(momentum):
    made, z = memory(momentum=momentum), normal(M, B, D, seed=2)
    before = made.keys.clone()
    assert torch.equal(made.draw(B, IDS).positives[2, 0], before[2, 5])
    made.write(z, IDS)
    for m, i in itertools.product(range(M), range(B)):
        row = IDS[m, i]
        mixed = momentum * before[m, row] + (1 - momentum) * length_one(z[m, i])
        torch.testing.assert_close(made.keys[m, row], length_one(mixed))
    assert torch.equal(made.keys[0, 5:], before[0, 5:]) and torch.equal(made.keys[2, 0], before[2, 0])


def test_a_queue_stores_the_newest_features():
    made = memory("queue")
    first, second = normal(M, B, D, seed=2), normal(M, B, D, seed=4)
    made.write(first, IDS)
    made.write(second, None)
    unit = torch.nn.functional.normalize
    torch.testing.assert_close(made.keys[:, 5:], unit(second[:, :4], dim=-1))
    torch.testing.assert_close(made.keys[:, 0], unit(second[:, 4], dim=-1))
    torch.testing.assert_close(made.keys[:, 1:5], unit(first[:, 1:], dim=-1))
    assert made.ids[2].tolist() == [-1, 1, 2, 3, 4, -1, -1, -1, -1] and made.pointer == 1


# ---- the framework


def framework(views=2, kind="queue", **options):
    torch.manual_seed(0)
    contrast = FeatureContrast(FeatureMemory(views, N, 3, negatives=N, kind=kind), **options)
    return Unified(MLP(4, [8, 6], activation="gelu"), MLP(6, [3]), contrast).double()


def pair(seed=0, batch=B):
    x = normal(2, batch, 4, seed=seed)
    return PositivePair(x[0], x[1], (torch.arange(batch), torch.arange(batch).roll(1)))


def test_only_a_training_forward_changes_the_memory():
    made = framework()
    state = {k: v.clone() for k, v in made.state_dict().items()}
    with torch.no_grad():
        expected = made(pair())
    torch.testing.assert_close(made.eval()(pair()), expected)
    assert all(torch.equal(v, state[k]) for k, v in made.state_dict().items())
    losses = made.train()(pair())
    torch.testing.assert_close(losses, expected)
    assert losses.shape == (B,) and made.contrast.memory.pointer == B
    losses.mean().backward()  # the graph contains the keys before the change
    z = embed(made.encoder, made.head, [pair().first, pair().second])
    torch.testing.assert_close(made.contrast.memory.keys[:, :B], torch.nn.functional.normalize(z, dim=-1).detach())
    assert all(p.grad.abs().max() > 0 for p in made.parameters())


def test_each_view_can_have_its_own_encoder():
    torch.manual_seed(0)
    encoder = ViewEncoders([MLP(4, [5]) for _ in range(M)])
    head = ViewHeads([MLP(5, [2]) for _ in range(M)])
    views = [torch.randn(B, 4) for _ in range(M)]
    z = embed(encoder, head, views)
    assert z.shape == (M, B, 2)
    for j in range(M):
        torch.testing.assert_close(z[j], head.networks[j](encoder.networks[j](views[j])))
    shared = embed(MLP(4, [5]), torch.nn.Identity(), views)
    assert shared.shape == (M, B, 5)


def test_rows_of_zeros_have_a_finite_loss():
    made = framework()
    made.head = torch.nn.Identity()
    made.encoder = torch.nn.Linear(4, 3, bias=False).double()
    given = pair()
    given.first[0], given.second[0] = 0, 0
    made(given).mean().backward()
    assert torch.isfinite(made.encoder.weight.grad).all() and torch.isfinite(made.contrast.memory.keys).all()


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: FeatureMemory(1, 8, 4, negatives=4), "the number of views is 1, expected at least 2"),
        (lambda: FeatureMemory(2, 8, 4, negatives=9), "negatives is 9, expected at most the 8 features of the memory"),
        (lambda: FeatureMemory(2, 8, 4, negatives=0), "negatives is 0, expected at least 1"),
        (lambda: FeatureMemory(2, 8, 4, negatives=2, momentum=2), "momentum is 2"),
        (lambda: framework()(pair(batch=1)), "the batch has 1 sample, expected at least 2"),
        (lambda: framework()(pair(batch=N + 1)), "the memory has 9 features, expected at least the 10 samples"),
        (lambda: framework(kind="bank")(PositivePair(*normal(2, B, 4))), "needs the row that each sample shows"),
        (lambda: FeatureContrast(memory("queue"), stored_positives=True), "positives from the memory need a bank"),
    ],
)
def test_invalid_input_is_rejected(call, expected):
    assert expected in refusal(call)


def test_views_of_a_pair():
    views = Views.of(pair())
    assert torch.equal(views.x[1], pair().second) and views.ids.tolist()[1] == [4, 0, 1, 2, 3]
    assert Views.of(PositivePair(*normal(2, B, 4))).ids is None
    assert Draw(normal(M, N, D), None).positives is None
