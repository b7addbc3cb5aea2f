"""The contract of all view makers."""

import numpy as np
import pytest
import torch

from drawn import draw
from registered import VIEWS, taken_by
from viewsmith.core.registry import find
from viewsmith.frameworks import SimCLR
from viewsmith.methods.pinda.views import LowResolutionMap, SequenceMap
from viewsmith.modalities import modality_of
from viewsmith.modalities.dna.networks import real_positions
from viewsmith.networks import MLP, Nucleotides, SequenceCNN, SmallCNN
from viewsmith.views import AdversarialViews, ConditionalCorruption, GaussianNoise, PiNoise, PositivePair
from viewsmith.views.base import ViewContext
from viewsmith.views.neighbors import PrincipalSpace

ROW_SHAPES = {"images": (12, 12, 3), "dna": (40,), "vectors": (6,)}
STATS = {"images": {"pixel_mean": [0.0] * 3, "pixel_scale": [1.0] * 3}, "dna": {}, "vectors": {}}
OPTIONS = {"noise_strength": 0.5, "mixup_minimum": 0.5, "n_neighbors": 3}


def registered_maker(modality, name):
    """The view maker of that name as an estimator builds it."""
    entry, kind = find("view maker", name, modality), modality_of(modality)
    space = None if modality == "vectors" else PrincipalSpace(kind.neighbor_features)
    shape = ROW_SHAPES[modality]
    context = ViewContext(shape, kind.channels(shape), kind, torch.nn.Identity(), STATS[modality], space, name=name)
    return entry.made(context, **{name: value for name, value in OPTIONS.items() if name in entry.options})


KEYS = [(d, n) for d in ("images", "dna") for n in VIEWS[d] if not find("view maker", n, d).tag("changes_shape")]
KEYS += [("vectors", n) for n in VIEWS["vectors"] if n != "conditional"]
MAKERS = {
    **{key: lambda key=key: registered_maker(*key) for key in KEYS},
    ("images", "pi-noise"): lambda: PiNoise(LowResolutionMap(3), strength=0.5),
    ("dna", "pi-noise"): lambda: PiNoise(SequenceMap(4), strength=0.5),
    ("vectors", "conditional"): lambda: ConditionalCorruption(6, hidden=16, steps=20),
    ("vectors", "uniform noise"): lambda: GaussianNoise(0.5, "uniform"),
    ("vectors", "pi-noise"): lambda: PiNoise.for_vectors(6, hidden=(8,), strength=0.5),
    ("vectors", "pi-noise, free"): lambda: PiNoise.for_vectors(6, hidden=(8,), level="free"),
    ("vectors", "pi-noise, uniform"): lambda: PiNoise.for_vectors(6, hidden=(8,), distribution="uniform"),
    ("vectors", "pi-noise, mean"): lambda: PiNoise.for_vectors(6, hidden=(8,), learn_mean=True),
    ("vectors", "pi-noise, adversarial"): lambda: PiNoise.for_vectors(6, hidden=(8,), adversarial=True),
}
NEED_POOL = ("corruption", "mixup", "neighbor-mix", "neighbors")
ENCODERS = {
    "images": lambda: SmallCNN(3, 8),
    "dna": lambda: SequenceCNN(n_components=8),
    "vectors": lambda: MLP(6, [8]),
}
ONE_HOT = {*VIEWS["dna"]} - {"noise", "mixup", "adversarial"}
every_maker = pytest.mark.parametrize(("modality", "name"), MAKERS, ids=lambda part: part)


def samples(modality, name, n, seed, dtype=torch.float32):
    rng = np.random.default_rng(seed)
    if modality == "vectors":
        x = rng.normal(size=(n, 6))
        return torch.from_numpy(taken_by(name, modality, x) if name in VIEWS[modality] else x).to(dtype)
    if modality == "images":
        return torch.from_numpy(rng.uniform(size=(n, 3, 12, 12))).to(dtype)
    letters = np.frombuffer(b"ACGT", np.uint8)[rng.integers(0, 4, (n, 60))].copy()
    letters[::3, 50:], letters[1::3, 7] = 0, ord("N")
    return Nucleotides()(torch.from_numpy(letters)).to(dtype)


def prepared(modality, name, dtype=torch.float32):
    torch.manual_seed(0)
    pool = samples(modality, name, 20, 1, dtype)
    maker = MAKERS[modality, name]().to(dtype)
    maker.prepare(pool)
    assert maker.needs_loss == (name == "adversarial")
    if maker.needs_loss:
        maker = WithLoss(SimCLR(ENCODERS[modality](), MLP(8, [4])).to(dtype).eval())
    return maker, samples(modality, name, 5, 2, dtype)


class WithLoss(AdversarialViews):
    """Adversarial views with a fixed loss, so that they are called like all other makers."""

    def __init__(self, loss):
        super().__init__()
        self.loss = loss

    def pair(self, pair, *, generator=None, loss=None):
        return super().pair(pair, generator=generator, loss=self.loss)


@every_maker
def test_a_view_is_valid_and_replayed_without_side_effects(modality, name):
    maker, x = prepared(modality, name, torch.float64)
    assert maker(x, generator=draw(0)).dtype == torch.float64
    maker, x = prepared(modality, name)
    before, state = x.clone(), torch.get_rng_state()
    view, again, other = (maker(x, generator=draw(seed)) for seed in (0, 0, 1))
    assert torch.equal(view, again) and torch.equal(view, other) == (name == "identity")
    assert torch.equal(x, before) and torch.equal(torch.get_rng_state(), state)
    assert maker(x[:1], generator=draw(0)).shape == x[:1].shape
    assert view.shape == x.shape and view.dtype == torch.float32 and view.isfinite().all()
    if modality == "dna":
        if name not in ("neighbors", "window"):  # another row, or a part of it, has another length
            assert torch.equal(real_positions(view), real_positions(x))
        if name in ONE_HOT:
            columns = view.movedim(1, 2)[real_positions(view)]
            one_hot = (columns.max(1).values == 1) & (columns.sum(1) == 1)
            assert (one_hot | (columns == 0.25).all(1)).all()
    if name in ("simclr", "crop", "moco", "byol", "multicrop"):
        assert view.min() >= -1e-5 and view.max() <= 1 + 1e-5


@every_maker
def test_pairs_keep_ids_and_local_views(modality, name):
    maker, x = prepared(modality, name)
    index = torch.arange(5)
    pair = maker.pair(PositivePair(x, x, (index, index)), generator=draw(0))
    assert pair.first.shape == pair.second.shape == x.shape
    assert pair.ids is not None and torch.equal(pair.ids[0], index)
    assert (name == "neighbors") != torch.equal(pair.ids[1], index)
    if maker.views_made == 1:
        assert torch.equal(pair.first, x)
    elif name != "identity":
        assert not torch.equal(pair.first, pair.second)
    assert (pair.local is not None) == (name == "multicrop")
    # Local views of an earlier maker are kept.
    if name != "multicrop":
        local = torch.zeros(5, 2, 3)
        if name != "adversarial":  # its loss would be computed with them
            assert maker.pair(PositivePair(x, x, None, local), generator=draw(0)).local is local


@every_maker
def test_released_makers_hold_no_rows(modality, name):
    maker, _ = prepared(modality, name)
    weights = {key: value.clone() for key, value in maker.state_dict().items()}
    maker.release()
    assert maker.pool is None
    assert weights.keys() == maker.state_dict().keys()
    assert not any(value.shape[:1] == (20,) for value in weights.values())


@pytest.mark.parametrize("name", [n for m, n in MAKERS if m == "vectors" and n not in ("adversarial", "conditional")])
def test_views_of_rows_of_the_pool_are_drawn_independently_and_share_no_memory(name):
    maker, _ = prepared("vectors", name)
    assert (maker.pool is not None) == (name in NEED_POOL)
    pool, index = samples("vectors", name, 20, 1), torch.tensor([3, 0, 19, 7, 7])
    view = maker(x := pool[index], index=index, generator=draw(0))
    assert torch.equal(view, maker(x, index=index, generator=draw(0)))
    if name != "identity":
        view += 1
        assert torch.equal(x, pool[index]) and (maker.pool is None or torch.equal(maker.pool, pool))
    views = maker(x[:1].expand(64, -1), index=index[:1].expand(64), generator=draw(0))
    distinct = {tuple(view.tolist()) for view in views}
    # A row mixed with itself does not change; of few columns few choices are different.
    fewest, most = {"identity": (1, 1), "neighbors": (3, 3), "mixup": (50, 64)}.get(name, (20, 64))
    assert fewest <= len(distinct) <= most


@pytest.mark.parametrize("name", NEED_POOL)
def test_a_missing_pool_is_an_error(name):
    x = samples("vectors", name, 5, 2)
    for index in (None, torch.arange(5)):
        with pytest.raises(RuntimeError, match=r"needs a pool of rows: call prepare\(rows\) first"):
            MAKERS["vectors", name]()(x, index=index, generator=draw(0))
