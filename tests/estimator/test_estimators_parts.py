"""Options are passed to the modules that they configure."""

import numpy as np
import pytest
import torch

import viewsmith
from registered import TRAINED
from viewsmith import CRLTAC, Contrastive, DiffAug, GenView, PiNDA
from viewsmith.core import Optimizer
from viewsmith.estimator.resolve import default_epochs
from viewsmith.modalities import modality_of
from viewsmith.networks import PrincipalAxes
from viewsmith.views import Corruption, GaussianNoise, Identity, Mixup, NeighborMix, Neighbors

TINY = {"epochs": 1, "hidden": (6,), "n_components": 5, "projector_dims": (4, 3), "batch_size": 64, "random_state": 0}
every_estimator = pytest.mark.parametrize("cls", TRAINED.values(), ids=TRAINED)


@pytest.mark.parametrize("cls", [Contrastive, PiNDA])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"kernel": "cauchy"}, ("cauchy", 1.0, "cross")),
        ({"kernel": "cosine"}, ("cosine", 0.1, "all")),
        ({"kernel": "cauchy", "temperature": 0.5}, ("cauchy", 0.5, "cross")),
        ({"kernel": "cosine", "temperature": 1.0}, ("cosine", 1.0, "all")),
    ],
)
def test_a_kernel_sets_temperature_and_negatives(cls, options, expected, wine):
    framework = cls(**TINY, **options).fit(wine).method_.framework
    assert (framework.kernel, framework.temperature, framework.negatives) == expected


@every_estimator
def test_widths_and_norm_make_encoder_and_head(cls, wine):
    def shapes(network):
        return [tuple(p.shape) for p in network.parameters() if p.ndim == 2]

    for norm in ("batch", "none"):
        method = cls(**TINY, norm=norm).fit(wine).method_
        framework = getattr(method, "framework", method)
        assert shapes(framework.encoder) == [(6, 13), (5, 6)] and shapes(framework.head) == [(4, 5), (3, 4)]
        names = [type(layer).__name__ for layer in framework.encoder[-1]]
        block = ["Linear", "BatchNorm1d", "ReLU"]
        assert names == (block * 2 if norm == "batch" else ["Linear", "ReLU", "Linear"])


@pytest.mark.parametrize("cls", [cls for cls in TRAINED.values() if cls is not CRLTAC])
def test_view_makers_are_built_in_order_with_their_settings(cls, wine):
    model = cls(
        **TINY,
        view_maker="identity+noise+corruption+mixup+neighbor-mix+neighbors",
        noise_strength=0.25,
        noise_distribution="uniform",
        corruption_rate=0.1,
        mixup_minimum=0.8,
        neighbor_mix_minimum=0.7,
        n_neighbors=3,
    ).fit(wine)
    makers = list(model.method_.views.makers)
    assert [type(m) for m in makers] == [Identity, GaussianNoise, Corruption, Mixup, NeighborMix, Neighbors]
    _, noise, corruption, mixup, mix, neighbors = makers
    assert (noise.strength, noise.distribution) == (0.25, "uniform") and corruption.rate == 0.1
    assert mixup.minimum == 0.8 and (mix.minimum, mix.k) == (0.7, 3) and neighbors.k == 3


@every_estimator
def test_the_schedule_has_the_values_of_the_options(cls, wine):
    given = {"optimizer": "sgd", "learning_rate": 0.01, "weight_decay": 0.1, "warmup": 0.2, "schedule": "constant"}
    extra = {DiffAug: {"phases": "A"}, GenView: {"alpha": 0.0, "quality": False}}.get(cls, {})
    (phase,) = cls(**TINY, **given, **extra, gradient_clip=2.0).fit(wine).method_.phases()
    expected = Optimizer("sgd", learning_rate=0.01, weight_decay=0.1, warmup=0.2, schedule="constant", clip=2.0)
    assert phase.epochs == 1 and phase.updates[0].optimizer == expected


def test_the_generator_has_the_values_of_the_options(wine):
    method = PiNDA(
        **TINY, generator_hidden=(7,), strength=0.3, level="free", distribution="uniform", learn_mean=True,
        objective="adversarial", two_sided=True, penalty="inverse_norm", penalty_weight=0.5, random_fraction=0.2,
    ).fit(wine).method_  # fmt: skip
    noise = method.noise
    assert [tuple(p.shape) for p in noise.parameters() if p.ndim == 2] == [(7, 13), (26, 7)]
    assert (noise.strength, noise.level, noise.distribution, noise.random_fraction) == (0.3, "free", "uniform", 0.2)
    assert noise.adversarial and noise.learn_mean and method.options.two_sided
    assert (method.options.penalty, method.options.penalty_weight) == ("inverse_norm", 0.5)


@pytest.mark.parametrize("view_maker", ["neighbors", "neighbor-mix"])
def test_neighbors_are_searched_in_the_input_of_the_encoder(digits, view_maker):
    x = digits[:150]
    model = Contrastive(**TINY, input_components=3, n_neighbors=1, view_maker=view_maker).fit(x)
    axes = model.method_.framework.encoder[0]
    assert isinstance(axes, PrincipalAxes)
    scaled = torch.from_numpy(model.scaled(x))
    places = axes(scaled)
    nearest = torch.cdist(places, places).fill_diagonal_(torch.inf).argmin(1)
    elsewhere = torch.cdist(scaled, scaled).fill_diagonal_(torch.inf).argmin(1)
    assert (nearest != elsewhere).any()
    model.method_.prepare(scaled, 0)
    assert torch.equal(model.method_.views.makers[0].edges[:, 0], nearest)
    # The principal axes belong to the encoder and are saved once.
    assert sum(key.endswith(".axes") for key in model.weights()) == 1


@pytest.mark.parametrize(
    ("rows", "batch_size", "epochs"),
    [(10_000, 256, 52), (256, 256, 2000), (100, 256, 2000), (1000, 500, 1000), (2, 1, 1000)],
)
def test_default_epochs_take_about_two_thousand_steps(rows, batch_size, epochs):
    assert default_epochs(rows, batch_size, modality_of("vectors").steps) == epochs
    assert epochs * max(1, rows // min(batch_size, rows)) == pytest.approx(2000, rel=0.02)


@pytest.mark.parametrize(("letters", "steps"), [(41, 1500), (256, 1500), (2000, 192), (100_000, 100)])
def test_long_sequences_are_trained_in_fewer_steps_on_a_cpu(letters, steps):
    assert modality_of("dna").default_steps((letters,), on_cpu=True) == steps
    assert modality_of("dna").default_steps((letters,), on_cpu=False) == 10_000


def test_scaling_is_chosen_and_reported(digits, wine):
    assert Contrastive(**TINY).fit(digits[:99]).fitted_["scaling"] == "standard"  # 49 % zeros
    assert Contrastive(**TINY).fit(np.where(digits[:99] < 3, 0, digits[:99])).fitted_["scaling"] == "global"
    model = Contrastive(**TINY, scaling="global").fit(wine)
    assert model.fitted_["scaling"] == "global"
    np.testing.assert_allclose(model.scaled(wine), wine / np.sqrt(wine.var(0, dtype=np.float64).mean()), rtol=1e-5)


def test_options_of_a_fit_are_of_the_same_class_without_auto_and_saved(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (40, 16, 16)).astype(np.uint8)
    model = Contrastive(epochs=1, random_state=0).fit(images, run=tmp_path)
    options, loaded = model.options_, vars(viewsmith.load(tmp_path).options_)
    assert type(options) is Contrastive and vars(options) == loaded and model.encoder == "auto"
    left = {name for name, value in vars(options).items() if isinstance(value, str) and value == "auto"}
    # The machine says the device and the reading of the data the others; the rest are of parts that were not chosen.
    assert not left & {
        "view_maker",
        "encoder",
        "n_components",
        "epochs",
        "learning_rate",
        "batch_size",
        "scaling",
        "flip",
    }
    others = {"momentum", "queue_size", "prototypes", "out_dim", "projector_dims", "predictor_dims", "stem", "strand"}
    assert left <= others | {"device", "modality", "normalization", "crop_minimum"}
