"""Options are checked when fit is called, converted if that is safe, and refused by name."""

import inspect

import numpy as np
import pytest

from registered import FRAMEWORKS
from viewsmith import CRLTAC, Contrastive, DiffAug, GenView, LinearContrast, MetAug, PiNDA
from viewsmith.core.errors import InputError, join_names
from viewsmith.core.registry import registered
from viewsmith.estimator.options import check_options, schema
from viewsmith.methods.loading import estimators

# Option, given value, expected part of the message. Options of the first block belong to both estimators.
REFUSED = [
    ("modality", "text", join_names(["auto", *registered("modality")])),
    ("framework", "barlow", join_names(FRAMEWORKS)),
    ("kernel", "gauss", "'auto', 'cauchy' or 'cosine'"),
    ("momentum", 1.5, "less than or equal to 1"),
    ("queue_size", 0, "greater than or equal to 1"),
    ("prototypes", -3, "greater than or equal to 1"),
    ("out_dim", 0, "greater than or equal to 1"),
    ("encoder", "resnet18", "auto, mlp for vectors"),
    ("encoder", 3, "string"),
    ("encoder_weights", 3, "string"),
    ("stem", "large", "'auto', 'small' or 'standard'"),
    ("predictor_dims", 8, "tuple"),
    ("representation_noise", -1, "greater than or equal to 0"),
    ("neighbor_space", "pixels", "'input' or 'encoder'"),
    ("adversarial_strength", 0, "greater than 0"),
    ("crop_minimum", 2, "less than or equal to 1"),
    ("crop_minimum", 0, "greater than 0"),
    ("flip", -0.5, "greater than or equal to 0"),
    ("color_strength", -1, "greater than or equal to 0"),
    ("local_crops", 0, "greater than or equal to 1"),
    ("max_edits", 0, "greater than or equal to 1"),
    ("mutation_rate", 1.1, "less than or equal to 1"),
    ("strand", 1.5, "less than or equal to 1"),
    ("temperature", 0, "greater than 0"),
    ("temperature", -1.0, "greater than 0"),
    ("temperature", float("nan"), "a finite number"),
    ("temperature", float("inf"), "a finite number"),
    ("temperature", "warm", "number"),
    ("temperature", [0.5], "number"),
    ("n_components", 0, "greater than or equal to 1"),
    ("n_components", 2.5, "integer"),
    ("n_components", None, "integer"),
    ("hidden", 8, "tuple"),
    ("hidden", (8, 0), "greater than or equal to 1"),
    ("hidden", (8, "wide"), "integer"),
    ("hidden", "8,x", "integer"),
    ("norm", "layer", "'batch' or 'none'"),
    ("norm", None, "'batch' or 'none'"),
    ("projector_dims", (-1,), "greater than or equal to 1"),
    ("framework_options", 3, "dictionary"),
    ("view_options", 3, "dictionary"),
    ("encoder_options", 3, "dictionary"),
    ("input_components", 0, "greater than or equal to 1 or 'auto'"),
    ("input_components", "all", "integer or 'auto'"),
    ("max_rows", 0, "greater than or equal to 1"),
    ("n_neighbors", 0, "greater than or equal to 1"),
    ("noise_strength", 0.0, "greater than 0"),
    ("noise_distribution", "cauchy", "'gaussian' or 'uniform'"),
    ("corruption_rate", 1.1, "less than or equal to 1"),
    ("corruption_rate", -0.1, "greater than or equal to 0"),
    ("mixup_minimum", 2, "less than or equal to 1"),
    ("neighbor_mix_minimum", -1, "greater than or equal to 0"),
    ("supervision", "some", "'none', 'labels' or 'numbers'"),
    ("supervision_weight", 0, "greater than 0"),
    ("group_mode", "mix", "'none' or 'align'"),
    ("scaling", "minmax", "'auto', 'standard', 'global' or 'none'"),
    ("impute", "mean", "'none' or 'median'"),
    ("epochs", 0, "greater than or equal to 1 or 'auto'"),
    ("epochs", "many", "integer or 'auto'"),
    ("batch_size", 0, "greater than or equal to 2"),
    ("optimizer", "lion", "'adamw', 'adam', 'sgd' or 'lars'"),
    ("learning_rate", 0, "greater than 0"),
    ("learning_rate", float("inf"), "a finite number"),
    ("weight_decay", -1e-3, "greater than or equal to 0"),
    ("final_weight_decay", -1, "greater than or equal to 0"),
    ("exclude_norm_and_bias", "perhaps", "boolean or 'auto'"),
    ("trust_coefficient", 0, "greater than 0"),
    ("constant_predictor_rate", "perhaps", "boolean"),
    ("freeze", -1, "greater than or equal to 0"),
    ("freeze_last_layer", 1.5, "less than or equal to 1"),
    ("warmup", 1.5, "less than or equal to 1"),
    ("schedule", "linear", "'cosine' or 'constant'"),
    ("gradient_clip", 0, "greater than 0"),
    ("precision", "16", "'32' or 'bf16'"),
    ("device", "tpu", "'auto', 'cpu', 'cuda' or 'cuda:N'"),
    ("device", 0, "string"),
    ("minutes", 0, "greater than 0"),
    ("checkpoint_every", -1, "greater than or equal to 0"),
    ("callbacks", 7, "a list of viewsmith.training.Callback or of names: tensorboard, mlflow, wandb"),
    ("verbose", "loud", "boolean"),
    ("compile", "loud", "boolean"),
    ("random_state", -1, "a non-negative integer, a RandomState or None"),
    ("random_state", "luck", "a non-negative integer, a RandomState or None"),
    ("random_state", 0.5, "a non-negative integer, a RandomState or None"),
    ("view_maker", 3, "string"),
    ("layer", 3, "string"),
    ("use_rep", 3, "string"),
    ("normalization", "sqrt", "'auto', 'log' or 'none'"),
    ("columns", 3, "dictionary"),
    ("strict", "maybe", "boolean"),
]
REFUSED_BY_PINDA = [
    ("strength", 0, "greater than 0"),
    ("strength", "strong", "number or 'auto'"),
    ("noise_strength", "auto", "number"),
    ("level", "loose", "'fixed', 'drawn' or 'free'"),
    ("algorithm", 3, "less than or equal to 2"),
    ("distribution", "laplace", "'gaussian' or 'uniform'"),
    ("learn_mean", "perhaps", "boolean"),
    ("two_sided", 2, "boolean"),
    ("penalty", "l2", "'log_barrier', 'inverse_norm' or 'none'"),
    ("penalty_weight", -1, "greater than or equal to 0"),
    ("objective", "hostile", "'cooperative' or 'adversarial'"),
    ("random_fraction", 1.01, "less than or equal to 1"),
    ("generator", "transformer", "'auto' or 'mlp' for vectors"),
    ("generator_hidden", "wide", "tuple"),
]
REFUSED_BY_DIFFAUG = [
    ("framework", "moco", "'soft' or 'simclr'"),
    ("kernel", "gauss", "'auto', 'paper', 'plain', 'published', 'cauchy' or 'cosine'"),
    ("normalize", "perhaps", "boolean"),
    ("directions", "perhaps", "boolean or 'auto'"),
    ("nu", 0, "greater than 0"),
    ("nu_map", 0, "greater than 0"),
    ("nu_target", -1, "greater than 0"),
    ("target_distance", 0, "greater than 0"),
    ("targets", "labels", "'samples' or 'views'"),
    ("beta", 2, "less than or equal to 1"),
    ("negative_weight", 0, "greater than 0"),
    ("detach_targets", "perhaps", "boolean"),
    ("map_components", 0, "greater than or equal to 1"),
    ("map_hidden", 8, "tuple"),
    ("map_gradient", 2, "less than or equal to 1"),
    ("phases", 3, "string"),
    ("phases", "BA", "A, AB, ABA, ABABA and so on, or J"),
    ("replacement", 1.5, "less than or equal to 1"),
    ("generator_epochs", 0, "greater than or equal to 1 or 'auto'"),
    ("generator_learning_rate", 0, "greater than 0"),
    ("cached_views", 0, "greater than or equal to 1"),
    ("refresh", -1, "greater than or equal to 0 or 'batch'"),
    ("keep_outliers", "perhaps", "boolean"),
    ("condition", "none", "'representation', 'map', 'labels' or 'random'"),
    ("denoiser", "unet", "'fast', 'small' or 'published'"),
    ("predicts", "noise", "'auto', 'eps', 'v' or 'x0'"),
    ("noise_schedule", "sigmoid", "'auto', 'linear' or 'cosine'"),
    ("sampler", "euler", "'auto', 'ddim', 'ddpm' or 'dpm'"),
    ("sampler_steps", 0, "greater than or equal to 1 or 'auto'"),
    ("strength", 0, "greater than 0"),
    ("strength", 1.5, "less than or equal to 1"),
    ("guidance", -1, "greater than or equal to 0"),
    ("condition_drop", 1, "less than 1"),
    ("condition_blur", -1, "greater than or equal to 0"),
    ("average", 1, "less than 1"),
]
REFUSED_BY_CRLTAC = [
    ("framework", "moco", "'info-max'"),
    ("view_maker", "noise", "'auto'"),
    ("kernel", "gauss", "'auto', 'cauchy' or 'cosine'"),
    ("family", 3, "string or an instance of Family or an instance of Sequence"),
    ("channel", "random", "'learned' or 'uniform'"),
    ("crop_size", 0, "greater than or equal to 1 or 'auto'"),
    ("crop_stride", 0, "greater than or equal to 1 or 'auto'"),
    ("crop_scales", (0,), "greater than 0"),
    ("crop_flips", "perhaps", "boolean"),
    ("masks", 0, "greater than or equal to 2"),
    ("mask_fraction", 1, "less than 1"),
    ("windows", 1, "greater than or equal to 2"),
    ("window_fraction", 0, "greater than 0"),
    ("detrend", "cubic", "'none', 'constant' or 'linear'"),
    ("beta", 0, "greater than 0"),
    ("channel_beta", 0, "greater than 0"),
    ("draws", 1, "greater than or equal to 2"),
    ("encoder_step", "all", "'exact' or 'sampled'"),
    ("objective", "most", "'bound' or 'information'"),
    ("channel_step", "all", "'exact' or 'sampled'"),
    ("channel_rows", 0, "greater than or equal to 1"),
    ("distinct", "perhaps", "boolean"),
    ("importance_weights", "none", "'plain' or 'normalized'"),
    ("start", "middle", "'auto', 'discovery' or 'none'"),
    ("place_weight", -1, "greater than or equal to 0"),
    ("start_steps", -1, "greater than or equal to 0 or 'auto'"),
    ("recurrence_weight", -1, "greater than or equal to 0 or 'auto'"),
    ("entropy_weight", -1, "greater than or equal to 0"),
    ("effective_target", 0.5, "greater than or equal to 1"),
    ("centered", "perhaps", "boolean or 'auto'"),
    ("bias", "perhaps", "boolean or 'auto'"),
    ("channel_learning_rate", 0, "greater than 0"),
    ("inference", "mode", "'expectation', 'top' or 'uniform'"),
    ("inference_count", 0, "greater than or equal to 1"),
    ("nonempty", "bright", "'auto' or None, or in Python a function of views"),
    ("noise_strength", "strong", "number or 'auto'"),
]
REFUSED_BY_METAUG = [
    ("framework", "soft", join_names(["oucl", *FRAMEWORKS])),
    ("n_views", 1, "greater than or equal to 2"),
    ("encoders", "two", "'shared' or 'per-view'"),
    ("split", "gray", "'none', 'color', 'l-ab' or 'ydbdr'"),
    ("meta", "third-order", "'second-order', 'first-order', 'frozen' or 'none'"),
    ("feature_weight", 0, "greater than 0"),
    ("augmented_contrast", "sum", "'mean' or 'joint'"),
    ("inner_rate", -1, "greater than or equal to 0"),
    ("margin", "huge", "'large', 'medium' or 'small'"),
    ("margin_weight", -1, "greater than or equal to 0"),
    ("margin_scope", "run", "'batch' or 'sample'"),
    ("feature_hidden", "wide", "tuple"),
    ("residual", "perhaps", "boolean"),
    ("feature_learning_rate", 0, "greater than 0"),
    ("feature_every", 0, "greater than or equal to 1"),
    ("united", "perhaps", "boolean"),
    ("form", "cubic", "'linear', 'circle' or 'squared'"),
    ("beta", 0, "greater than 0"),
    ("loss_margin", -1, "greater than or equal to 0"),
    ("gamma", -1, "greater than or equal to 0"),
    ("detach_weights", "perhaps", "boolean"),
    ("attenuation", 0, "greater than 0"),
    ("memory", "none", "'queue' or 'bank'"),
    ("memory_size", 16, "at least the 178 rows of a batch"),
    ("negatives", 1000, "at most the 256 features"),
    ("negative_draws", "row", "'batch' or 'sample'"),
    ("positives", "keys", "'views' or 'memory'"),
    ("memory_momentum", 2, "less than or equal to 1"),
]
REFUSED_BY_GENVIEW = [
    ("view_cache", 3, "string"),
    ("alpha", 2, "less than or equal to 1"),
    ("quality", "perhaps", "boolean"),
    ("quality_diversity", "perhaps", "boolean"),
    ("candidates", 0, "greater than or equal to 1"),
    ("features", 3, "string"),
    ("quality_features", "clip", "'views', 'encoder' or 'cached'"),
    ("gamma", -1, "greater than or equal to 0"),
    ("noise", "loud", "adaptive"),
    ("foreground", "clip", "'projection' or 'min-max'"),
    ("first_fraction", 2, "less than or equal to 1"),
    ("cached_views", 0, "greater than or equal to 1"),
    ("generator_epochs", 0, "greater than or equal to 1 or 'auto'"),
    ("generator_learning_rate", 0, "greater than 0"),
    ("sampler_steps", 0, "greater than or equal to 1 or 'auto'"),
]
CASES = [(cls, *case) for cls in (Contrastive, PiNDA, GenView) for case in REFUSED]
CASES += [
    (Contrastive, "head_learning_rate", 0, "greater than 0 or 'auto'"),
    (Contrastive, "closed_form", 3, "boolean"),
]
CASES += [(MetAug, *case) for case in REFUSED if case[0] != "framework"]
CASES += [(MetAug, *case) for case in REFUSED_BY_METAUG]
CASES += [(DiffAug, *case) for case in REFUSED if case[0] not in ("framework", "kernel")]
CASES += [(DiffAug, *case) for case in REFUSED_BY_DIFFAUG]
CASES += [(CRLTAC, *case) for case in REFUSED if case[0] not in ("framework", "view_maker", "kernel")]
CASES += [(CRLTAC, *case) for case in REFUSED_BY_CRLTAC]
CASES += [(cls, "noise_strength", "strong", "number or 'auto'") for cls in (Contrastive, DiffAug, MetAug, GenView)]
CASES += [(PiNDA, *case) for case in REFUSED_BY_PINDA]
CASES += [(GenView, *case) for case in REFUSED_BY_GENVIEW]
REFUSED_BY_LINEAR_CONTRAST = [
    ("appended_pca", -1, "greater than or equal to 0 or 'auto'"),
    ("encoder", 5, "string or an instance of Module"),
    ("features", 5, "a name, the folder of a run, a fitted model, a module or a function"),
    ("features_options", 3, "dictionary"),
    ("framework", "barlow", "'linear-contrast'"),
    ("max_samples", 0, "greater than or equal to 1"),
    ("n_views", 1, "greater than or equal to 2"),
    ("ridge", 0, "greater than 0 or 'auto'"),
]
CASES += [(LinearContrast, *case) for case in REFUSED if case[0] not in ("framework", "encoder")]
CASES += [(LinearContrast, *case) for case in REFUSED_BY_LINEAR_CONTRAST]


@pytest.mark.parametrize(("cls", "option", "given", "expected"), CASES)
def test_invalid_values_are_refused_in_one_line(wine, cls, option, given, expected):
    with pytest.raises(InputError) as caught:
        cls(**{option: given}).fit(wine)
    message = str(caught.value)
    assert f"{option} is " in message and f"expected {expected}" in message and "\n" not in message
    inner = given[-1] if isinstance(given, tuple) else given
    assert repr(inner) in message or repr(inner).strip("'").split(",")[-1] in message


@pytest.mark.parametrize("name", ["magic", "", "noise+", "noise+magic", "Noise"])
def test_unknown_view_makers_are_refused_with_the_known_ones(wine, name):
    unknown = name.split("+")[-1]
    with pytest.raises(
        InputError, match=f"unknown view maker {unknown!r}.*expected one of adversarial, .*identity, mask, mixup"
    ):
        Contrastive(view_maker=name).fit(wine)


def test_every_restricted_option_has_an_invalid_value_above():
    for cls in estimators().values():
        assert cls().get_params().keys() == {case[1] for case in CASES if case[0] is cls}


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_missing_gpu_is_refused(wine, device, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(InputError, match=f"device is '{device}', but this machine has no usable GPU"):
        Contrastive(device=device).fit(wine)


@pytest.mark.parametrize(
    ("option", "given", "value"),
    [
        ("epochs", np.int64(3), 3),
        ("epochs", "3", 3),
        ("epochs", "auto", "auto"),
        ("learning_rate", np.float32(0.5), 0.5),
        ("learning_rate", "1e-3", 1e-3),
        ("learning_rate", 1, 1.0),
        ("hidden", "256,64", (256, 64)),
        ("hidden", "(256, 64)", (256, 64)),
        ("hidden", "[256]", (256,)),
        ("hidden", "256", (256,)),
        ("hidden", "", ()),
        ("hidden", [8, np.int64(4)], (8, 4)),
        ("hidden", np.array([8, 4]), (8, 4)),
        ("temperature", "none", None),
        ("temperature", None, None),
        ("temperature", "0.2", 0.2),
        ("input_components", "none", None),
        ("input_components", "auto", "auto"),
        ("input_components", "20", 20),
        ("minutes", "none", None),
        ("verbose", "true", True),
        ("verbose", np.bool_(True), True),
        ("impute", "none", "none"),
        ("scaling", "none", "none"),
        ("norm", "none", "none"),
        ("noise_strength", "auto", "auto"),
        ("noise_strength", "0.5", 0.5),
        ("random_state", np.int64(5), 5),
    ],
)
def test_texts_and_numpy_scalars_are_converted(option, given, value):
    found = getattr(check_options(Contrastive, {option: given}), option)
    assert found == value and type(found) is type(value)


def test_defaults_pass_their_own_check_and_are_filled_in():
    for cls in estimators().values():
        assert vars(check_options(cls, {})) == cls().get_params()
        for preset in cls.presets.values():
            options = check_options(cls, preset)
            assert all(getattr(options, name) == value for name, value in preset.items())
        assert list(schema(cls).model_fields) == list(inspect.signature(cls).parameters)


def test_messages_about_unknown_options_have_similar_names():
    with pytest.raises(InputError, match=r"CRLTAC has no option 'mask': did you mean masks\?"):
        check_options(CRLTAC, {"mask": 3})


def test_unknown_options_are_refused_with_the_known_ones():
    with pytest.raises(
        InputError, match="Contrastive has no option 'lr': its options are layer, use_rep, normalization"
    ):
        check_options(Contrastive, {"lr": 1})


def test_converted_options_train(wine):
    tiny = {"hidden": "8", "n_components": "4", "projector_dims": "4", "epochs": "1", "random_state": np.int64(0)}
    plain = {"hidden": (8,), "n_components": 4, "projector_dims": (4,), "epochs": 1, "random_state": 0}
    one, other = Contrastive(**tiny).fit(wine), Contrastive(**plain).fit(wine)
    assert np.array_equal(one.transform(wine), other.transform(wine))


@pytest.mark.parametrize("name", estimators())
def test_every_option_and_attribute_is_documented_once(name):
    doc = inspect.getdoc(estimators()[name])
    entries = [entry for line in doc.splitlines() if " : " in line for entry in line.split(" : ")[0].split(", ")]
    options = list(inspect.signature(estimators()[name]).parameters)
    attributes = ["fitted_", "metrics_", "summary_", "status_", "warnings_"]
    assert sorted(entry for entry in entries if entry in options + attributes) == sorted(options + attributes)
    assert "[shared]" not in doc and "[attributes]" not in doc
