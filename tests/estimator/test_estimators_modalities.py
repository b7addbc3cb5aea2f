"""Images and DNA: allowed combinations of framework, view maker and modality train; other combinations are refused."""

import numpy as np
import pytest
import torch

import viewsmith
from cases import covering, slow
from refusals import refusal
from registered import DEFAULT_VIEWS, ENCODERS, FRAMEWORKS, TRAINED, VIEWS, heads, labels, taken_by
from viewsmith import Contrastive, PiNDA
from viewsmith.core.registry import find
from viewsmith.core.samples import block_size

TINY = {"epochs": 1, "batch_size": 8, "n_components": 8, "random_state": 0, "hidden": (8,)}
SMALL_HEADS = {"projector_dims": (8, 6), "predictor_dims": (8,), "prototypes": 10, "out_dim": 10, "queue_size": 16}


def images(n=16, shape=(16, 16, 3), seed=0):
    coarse = np.random.default_rng(seed).integers(0, 256, (n, 4, 4, *shape[2:]))
    return np.repeat(np.repeat(coarse, shape[0] // 4, 1), shape[1] // 4, 2).astype(np.uint8)


def dna(n=16, length=41, seed=0):
    x = np.frombuffer(b"ACGT", np.uint8)[np.random.default_rng(seed).integers(0, 4, (n, length))].copy()
    x[0, 3], x[1, 30:] = ord("N"), 0
    return x


DATA = {
    "vectors": lambda: np.random.default_rng(0).normal(size=(16, 9)).astype(np.float32),
    "images": images,
    "dna": dna,
}


def possible(modality, framework, view):
    return view != "multicrop" or find("framework", framework).tag("local_views")


PAIRS = [(d, f, v) for d in VIEWS for f in FRAMEWORKS for v in VIEWS[d]]


def default_pair(modality, framework, view):
    """Whether GenView is tested with a pair: all view makers with SimCLR, and default views with all frameworks."""
    return possible(modality, framework, view) and (
        framework == "simclr" or view in (DEFAULT_VIEWS[modality], "multicrop")
    )


ALLOWED = [
    (name, *p) for name in TRAINED if name not in ("diffaug", "crl-tac", "genview") for p in PAIRS if possible(*p)
]
ALLOWED += [("metaug", d, "oucl", v) for d in VIEWS for v in VIEWS[d] if v != "multicrop"]
ALLOWED += [("genview", *p) for p in PAIRS if default_pair(*p)]
ALLOWED += [
    ("diffaug", modality, "soft", view) for modality in VIEWS for view in VIEWS[modality] if view != "multicrop"
]


@pytest.mark.parametrize(("name", "modality", "framework", "view"), covering(ALLOWED, (0, 1), (2,), (1, 3), drawn=46))
def test_every_allowed_combination_trains_two_steps(name, modality, framework, view):
    x = taken_by(view, modality, DATA[modality]())
    model = TRAINED[name](**TINY, **heads(framework, **SMALL_HEADS), view_maker=view, local_crops=1)
    model.fit(x, labels(framework, x))
    phases = {row["phase"] for row in model.metrics_}
    assert model.fitted_["modality"] == modality and model.summary_["steps"] == 2 * len(phases)
    assert np.isfinite(model.metrics_[-1]["loss"])
    h = model.transform(x)
    assert h.shape == (16, 8) and np.isfinite(h).all()
    made = model.input_views(x, 1) if name == "metaug" else model.views(x, 1)
    # Crops have another size than samples; noise that is added and views that are generated have the size of samples.
    shape = (11, 11, 3) if view == "grid-crop" and name in ("contrastive", "metaug") else x.shape[1:]
    assert made.shape == (16, 1, *shape) and made.dtype == x.dtype


@pytest.mark.parametrize(("modality", "framework", "view"), [p for p in PAIRS if not possible(*p)][:2])
def test_multicrop_is_refused_if_the_framework_has_no_multicrop_loss(modality, framework, view):
    message = refusal(Contrastive(**TINY, **heads(framework, **SMALL_HEADS), view_maker=view).fit, DATA[modality]())
    assert (
        "'lejepa' and 'swav'" in message
        and repr(framework) in message
        and "adversarial, background, blur, byol" in message
    )


@pytest.mark.parametrize("modality", VIEWS)
def test_views_of_other_modalities_are_refused_with_the_possible_ones(modality):
    for view in {v for makers in VIEWS.values() for v in makers} - set(VIEWS[modality]):
        message = refusal(Contrastive(**TINY, view_maker=view).fit, DATA[modality]())
        assert f"unknown view maker {view!r}" in message and all(name in message for name in VIEWS[modality])


@pytest.mark.parametrize("framework", ["byol", "moco"])
def test_the_cauchy_kernel_is_refused_by_other_frameworks(framework):
    message = refusal(Contrastive(**TINY, **heads(framework, **SMALL_HEADS), kernel="cauchy").fit, DATA["vectors"]())
    assert "kernel is 'cauchy'" in message and repr(framework) in message


def test_head_widths_that_a_framework_cannot_take_are_refused():
    options = {**heads("byol"), "projector_dims": (8,)}
    assert "projector_dims is (8,), expected" in refusal(Contrastive(**TINY, **options).fit, DATA["vectors"]())


@pytest.mark.parametrize(
    ("modality", "encoder"), [slow(d, e) if e.startswith("resnet") else (d, e) for d in ENCODERS for e in ENCODERS[d]]
)
def test_every_encoder_trains_saves_and_loads(modality, encoder, tmp_path):
    x = images(8, (24, 24, 3)) if modality == "images" else DATA[modality]()[:8]
    model = Contrastive(encoder=encoder, epochs=1, batch_size=4, random_state=0).fit(x)
    h = model.transform(x)
    assert h.shape == (8, model.fitted_["n_components"]) and np.isfinite(h).all()
    model.save(tmp_path / "run")
    loaded = viewsmith.load(tmp_path / "run")
    assert np.array_equal(loaded.transform(x), h) and np.array_equal(loaded.views(x[:3], 2), model.views(x[:3], 2))
    untrained = loaded.untrained(x).transform(x)
    assert np.array_equal(untrained, model.untrained(x).transform(x)) and not np.array_equal(untrained, h)


MADE_BY = [
    ("vectors", "mlp"), ("images", "low-resolution"), ("images", "unet"), ("images", "shared"),
    ("dna", "sequence"), ("dna", "shared"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("modality", "generator", "level"),
    [
        *covering([(*made, level) for made in MADE_BY for level in ("fixed", "free")], (0, 1), (0, 2)),
        slow("images", "resnet18", "fixed"),
        slow("images", "resnet50", "free"),
    ],
)
def test_every_generator_of_noise(modality, generator, level, tmp_path):
    x = DATA[modality]()
    model = PiNDA(**TINY, generator=generator, level=level, strength=0.3, penalty="inverse_norm").fit(x)
    made = model.noise_parts(x)
    scaled = model.scaled(x)
    assert made["sigma"].shape == made["noise"].shape == scaled.shape and made["view"].shape == x.shape
    assert made["view"].dtype == x.dtype and np.array_equal(made["view"], model.views(x, 1)[:, 0])
    real = np.broadcast_to((scaled != 0).any(1, keepdims=True), scaled.shape) if modality == "dna" else scaled == scaled
    assert (made["noise"][~real] == 0).all() and (made["sigma"][real] > 0).all()
    if level == "fixed":
        rms = [np.sqrt((s[r] ** 2).mean()) for s, r in zip(made["sigma"], real, strict=True)]
        np.testing.assert_allclose(rms, 0.3, rtol=1e-4)
    model.save(tmp_path / "run")
    assert np.array_equal(viewsmith.load(tmp_path / "run").views(x, 2), model.views(x, 2))


def test_strings_and_letter_arrays_give_the_same_result():
    letters = dna()
    texts = ["".join(chr(c) for c in row if c) for row in letters]
    model = Contrastive(**TINY).fit(letters)
    assert np.array_equal(model.transform(texts), model.transform(letters))
    assert np.array_equal(model.transform([t.lower() for t in texts]), model.transform(letters))
    other = Contrastive(**TINY).fit(texts)
    assert np.array_equal(other.transform(letters), model.transform(letters))
    assert np.array_equal(other.transform(np.array(texts)), model.transform(letters))


def test_a_custom_module_as_encoder(tmp_path):
    x = images()
    custom = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(12, 5))
    before = custom[2].weight.detach().clone()
    model = Contrastive(encoder=custom, epochs=1, batch_size=8, random_state=0).fit(x)
    assert model.transform(x).shape == (16, 5)
    assert torch.equal(custom[2].weight, before) and not torch.equal(model.method_.framework.encoder[2].weight, before)
    model.save(tmp_path / "run")
    assert "viewsmith.load(run, encoder=...)" in refusal(viewsmith.load, tmp_path / "run")
    assert np.array_equal(viewsmith.load(tmp_path / "run", encoder=custom).transform(x), model.transform(x))
    refusal(viewsmith.load, tmp_path / "run", encoder=torch.nn.Flatten())
    compiled = Contrastive(encoder=torch.compile(custom, backend="eager"), epochs=1, batch_size=8, random_state=0).fit(
        x
    )
    compiled.save(tmp_path / "compiled")
    assert np.array_equal(viewsmith.load(tmp_path / "compiled", encoder=custom).transform(x), model.transform(x))


@pytest.mark.parametrize("module", [torch.nn.Linear(3, 2), torch.nn.Identity()])
def test_a_module_that_does_not_fit_is_refused(module):
    message = refusal(Contrastive(encoder=module, epochs=1).fit, images())
    assert type(module).__name__ in message


@pytest.mark.slow
def test_weights_to_start_from(tmp_path):
    from safetensors.torch import save_file

    x = images(8)
    first = Contrastive(encoder="resnet18", epochs=1, batch_size=4, random_state=3).fit(x)
    weights = {k: v.contiguous() for k, v in first.method_.framework.encoder.state_dict().items()}
    save_file(weights | {"fc.weight": torch.zeros(10, 512), "fc.bias": torch.zeros(10)}, tmp_path / "w.safetensors")
    options = {"encoder": "resnet18", "epochs": 1, "batch_size": 4, "random_state": 0}
    model = Contrastive(**options, encoder_weights=str(tmp_path / "w.safetensors")).fit(x)
    name = "method.framework.encoder.conv1.weight"
    assert torch.equal(model.initial_[name], weights["conv1.weight"])
    model.save(tmp_path / "run")
    (tmp_path / "w.safetensors").unlink()  # a saved model does not need it
    assert np.array_equal(viewsmith.load(tmp_path / "run").transform(x), model.transform(x))
    save_file({"conv1.weight": torch.zeros(2)}, tmp_path / "other.safetensors")
    message = refusal(Contrastive(**options, encoder_weights=str(tmp_path / "other.safetensors")).fit, x)
    assert "other.safetensors" in message and "missing" in message
    assert "no weights at" in refusal(Contrastive(**options, encoder_weights="nowhere.safetensors").fit, x)


def test_neighbors_in_the_encoders_space_are_resumed_exactly(tmp_path):
    x = DATA["vectors"]()
    options = TINY | {"epochs": 8, "view_maker": "neighbors", "neighbor_space": "encoder", "n_neighbors": 2}
    whole = Contrastive(**options, checkpoint_every=0).fit(x, run=tmp_path / "whole")
    assert int(whole.method_.views.quarter) == 3
    assert not any("edges" in name for name in whole.weights())
    plain = Contrastive(**options | {"neighbor_space": "input"}).fit(x)
    assert not np.array_equal(plain.transform(x), whole.transform(x))

    steps = iter(range(11))

    class Stop(Exception):
        pass

    from viewsmith.training.engine import Trainer

    original = Trainer._update

    def update(self, run, batch):
        if next(steps, None) is None:
            raise Stop
        original(self, run, batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_update", update)
        with pytest.raises(Stop):
            Contrastive(**options, checkpoint_every=0).fit(x, run=tmp_path / "cut")
    resumed = Contrastive(**options, checkpoint_every=0).fit(x, run=tmp_path / "cut", resume=True)
    assert np.array_equal(resumed.transform(x), whole.transform(x))


def test_a_momentum_copy_uses_the_same_principal_axes(digits):
    model = Contrastive(**TINY, **heads("byol"), input_components=4).fit(digits[:40])
    framework = model.method_.framework
    assert framework.encoder[0].axes.abs().sum() > 0
    assert torch.equal(framework.encoder_copy[0].axes, framework.encoder[0].axes)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((9,), 1024), ((10_000,), 400), ((3, 32, 32), 64), ((3, 224, 224), 4), ((4, 200), 64), ((4, 20_000), 5)],
)
def test_the_block_size_depends_on_the_size_of_rows(shape, expected):
    assert block_size(torch.zeros(1, *shape)) == expected
