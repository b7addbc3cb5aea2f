"""Images and DNA at the limits of what is allowed."""

import copy
import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from modality_edge_processes import fit_rows

import viewsmith
from cases import covering, slow
from refusals import refusal
from registered import ENCODERS, FRAMEWORKS, GENERATORS, TRAINED, labels
from viewsmith import Contrastive, LinearContrast, PiNDA
from viewsmith.data import image_squares
from viewsmith.training.callbacks import collapse_warnings

TINY = {"epochs": 1, "batch_size": 8, "n_components": 8, "random_state": 0, "checkpoint_every": 0}


def images(n=12, *shape):
    return np.random.default_rng(0).integers(0, 256, (n, *(shape or (12, 12, 3)))).astype(np.uint8)


def dna(n=12, length=30):
    return np.frombuffer(b"ACGT", np.uint8)[np.random.default_rng(0).integers(0, 4, (n, length))].copy()


DATA = {"images": images, "dna": dna}


# ---- unsuitable data are refused before anything is written


@pytest.mark.parametrize(("size", "encoder", "parts"), [
    (4, "auto", "4 x 4 pixels, but the encoder cnn needs at least 8 x 8"),
    (7, "resnet18", "the encoder resnet18 needs at least 8 x 8"),
    (12, "crl-cnn", "12 x 12 pixels, but the encoder crl-cnn needs at least 20 x 20"),
])  # fmt: skip
def test_images_too_small_for_an_encoder(size, encoder, parts, tmp_path):
    x = images(4, size, size, 3)
    message = refusal(Contrastive(encoder=encoder, epochs=1).fit, x, run=tmp_path / "run")
    assert parts in message and "enlarge them" in message and "--modality vectors" in message
    assert ("another encoder" in message) == (size == 12)  # if there is such an encoder
    assert not (tmp_path / "run").exists()
    assert Contrastive(**TINY, modality="vectors").fit(x).fitted_["row_shape"] == [size * size * 3]


def test_images_too_small_for_a_generator():
    custom = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten())
    x = images(4, 6, 6, 3)
    assert "the generator resnet18 needs at least 8 x 8" in refusal(PiNDA(encoder=custom, generator="resnet18").fit, x)
    assert PiNDA(encoder=custom, generator="unet", epochs=1, random_state=0).fit(x).transform(x).shape == (4, 12)


def test_small_crops_have_to_fit_the_encoder_too(tmp_path):
    options = {"framework": "swav", "view_maker": "multicrop", "epochs": 1}
    message = refusal(Contrastive(**options, encoder="crl-cnn").fit, images(4, 24, 24, 3), run=tmp_path / "run")
    assert "the small crops of multicrop of images of 24 x 24 pixels have 12 x 12 pixels" in message
    assert "the encoder crl-cnn needs at least 20 x 20" in message
    custom = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(432, 4))
    message = refusal(Contrastive(**options, encoder=custom).fit, images(), run=tmp_path / "run")
    assert "fails on samples of shape (3, 8, 8)" in message
    message = refusal(
        Contrastive(**options | {"view_maker": "multicrop+multicrop"}).fit, images(), run=tmp_path / "run"
    )
    assert "expected multicrop once" in message and not (tmp_path / "run").exists()


def test_sequences_too_long_for_hyena(tmp_path):
    message = refusal(Contrastive(encoder="hyena").fit, ["ACGT" * 257, "AC"], run=tmp_path / "run")
    assert "1028 bases" in message and "at most 1024" in message and "encoder cnn" in message
    assert not (tmp_path / "run").exists()
    model = Contrastive(encoder="hyena", epochs=1, random_state=0).fit(["ACGT", "AC"])
    assert "1028 bases" in refusal(model.transform, ["ACGT" * 257])


def test_a_queue_shorter_than_a_batch(tmp_path):
    moco = Contrastive(**TINY, framework="moco", queue_size=7)
    message = refusal(moco.fit, dna(), run=tmp_path / "run")
    assert "queue_size is 7" in message and "8 rows of a batch" in message and not (tmp_path / "run").exists()
    moco.fit(dna(6))  # a batch is never larger than the data
    message = refusal(moco.set_params(framework="byol").fit, dna())
    assert (
        "queue_size is 7" in message and "'byol' does not have: its options are " in message and "momentum" in message
    )


@pytest.mark.parametrize(("modality", "option", "given", "most"), [
    ("images", "color_strength", 5.1, "5"), ("dna", "mutation_rate", 0.8, "0.75"),
])  # fmt: skip
def test_a_refusal_names_the_option_as_the_user_knows_it(modality, option, given, most):
    message = refusal(Contrastive(**TINY, **{option: given}).fit, DATA[modality]())
    assert f"{option} is {given}" in message and most in message
    view = {"images": "simclr", "dna": "mutation"}[modality]
    Contrastive(**TINY, **{option: float(most)}, view_maker=view).fit(DATA[modality]())


def test_invalid_initial_weights_are_refused(tmp_path):
    (tmp_path / "junk.safetensors").write_bytes(b"junk")
    torch.save({"a": torch.zeros(1)}, tmp_path / "w.pt")
    for name, part in (("absent.safetensors", "no weights at"), ("junk.safetensors", "not a safetensors file"),
                       ("w.pt", "pickled weights are never read"), ("", "no weights at")):  # fmt: skip
        message = refusal(Contrastive(**TINY, encoder_weights=str(tmp_path / name)).fit, images())
        assert (
            part in message
            and str(tmp_path / name) in message
            and "encoder_weights" in message
            and "train again" not in message
        )
    viewsmith.training.run.save_tensors(tmp_path / "other.safetensors", {"a": torch.zeros(1)})
    message = refusal(Contrastive(**TINY, encoder_weights=str(tmp_path / "other.safetensors")).fit, images())
    assert "does not fit the encoder cnn" in message and "unknown 'a'" in message


def test_a_named_encoder_is_not_replaced_on_loading(tmp_path):
    Contrastive(**TINY).fit(images(), run=tmp_path / "run")
    message = refusal(viewsmith.load, tmp_path / "run", encoder=torch.nn.Flatten())
    assert "leave encoder out" in message and str(tmp_path / "run") in message


# ---- kinds of input


def test_lists_of_images_are_images():
    from PIL import Image

    x = images()
    expected = Contrastive(**TINY).fit(x).transform(x)
    for given in (list(x), [Image.fromarray(each) for each in x], torch.from_numpy(x)):
        model = Contrastive(**TINY).fit(given)
        assert model.fitted_["modality"] == "images" and np.array_equal(model.transform(given), expected)
        assert model.views(given, 1).shape == (12, 1, 12, 12, 3)


def test_lists_of_pillow_images_of_any_mode():
    image = pytest.importorskip("PIL.Image")
    x = images()
    pictures = [image.fromarray(each) for each in x]
    given = [pictures[0], pictures[1].convert("P"), pictures[2].convert("L"), *pictures[3:]]
    expected = np.stack([np.asarray(each.convert("RGB")) for each in given])
    model = Contrastive(**TINY).fit(given)
    np.testing.assert_array_equal(model.transform(given), model.transform(expected))
    np.testing.assert_array_equal(model.transform(given[2:3]), model.transform(expected[2:3]))
    assert model.views(given[1:3], 1).shape == (2, 1, 12, 12, 3)
    ghost = image.fromarray(np.dstack([x[0], x[1][..., :1]]))
    assert "image 1 has transparency (mode RGBA)" in refusal(model.transform, [pictures[0], ghost])
    assert "is one image" in refusal(model.transform, pictures[0])
    assert "is one image" in refusal(Contrastive(**TINY).fit, pictures[0])
    assert "that of one sample, expected several: give X[None]" in refusal(model.transform, x[0])


def test_pixels_as_floats_are_warned_of():
    with pytest.warns(UserWarning, match=r"8-bit pixels / 255.*astype\('uint8'\)"):
        Contrastive(**TINY).fit(images() / 255)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_lists_of_images_of_different_sizes_are_squares(dtype, capsys):
    rng = np.random.default_rng(0)
    given = [(255 * rng.random((10 + i % 5, 14 + i % 3, 2))).astype(dtype) for i in range(12)]
    model = LinearContrast(n_components=4, random_state=0).fit(given)
    assert capsys.readouterr().err.count("their center squares are resized to 11 x 11") == 1
    assert tuple(model.fitted_["row_shape"]) == (11, 11, 2)
    h = model.transform(given)
    np.testing.assert_allclose(model.transform(given[:1]), h[:1], atol=1e-5)
    np.testing.assert_allclose(model.transform(image_squares(given, 11)), h, atol=1e-5)
    views = model.views(given, 1)
    assert views.dtype == dtype and views.shape == (12, 1, 11, 11, 2)
    assert "fitted on" in refusal(model.transform, np.zeros((2, 9, 9, 2), dtype))
    assert "image 1 is" in refusal(LinearContrast().fit, [given[0], given[1][..., 0]])


@pytest.mark.parametrize("modality", DATA)
def test_data_that_are_not_an_array_are_refused(modality):
    assert "csr_matrix" in refusal(Contrastive(modality=modality).fit, scipy.sparse.csr_matrix((3, 4)))
    assert "NoneType" in refusal(Contrastive(modality=modality).fit, None)


@pytest.mark.parametrize("fitted", [(12, 12), (12, 12, 1)])
def test_views_have_the_shape_that_was_given(fitted):
    model = PiNDA(**TINY).fit(images(12, *fitted))
    for shape in ((12, 12), (12, 12, 1)):
        x = images(3, *shape)
        assert model.views(x, 2).shape == (3, 2, *shape) and model.noise_parts(x)["view"].shape == x.shape
        assert np.array_equal(model.transform(x), model.transform(x.reshape(3, *fitted)))


def test_a_new_fit_removes_feature_names():
    model = Contrastive(**TINY).fit(pd.DataFrame(np.eye(12), columns=list("abcdefghijkl")))
    assert model.fitted_["named"]
    model.fit(images())
    assert not model.fitted_["named"] and not hasattr(model, "feature_names_in_")


SEQUENCES = (["A", "C"], ["N" * 9, "NN"], ["ACGTT"] * 4, ["A", "ACGT" * 15, "gattaca"])
EVERY_SEQUENCE = list(itertools.product(TRAINED, ENCODERS["dna"], SEQUENCES))


@pytest.mark.parametrize(
    ("name", "encoder", "given"),
    [
        # With the larger encoder, steps and windows of other methods take long.
        *covering([c for c in EVERY_SEQUENCE if c[1] != "hyena" or c[0] == "contrastive"], (0,), (1,), (2,), drawn=8),
        *(slow(name, "hyena", SEQUENCES[-1]) for name in TRAINED if name != "contrastive"),
    ],
)
def test_short_unknown_equal_and_unequal_sequences(name, encoder, given):
    model = TRAINED[name](epochs=1, random_state=0, encoder=encoder).fit(given)
    for x in (given, ["acgt" * 20, "A"]):  # longer than any in training
        assert np.isfinite(model.transform(x)).all() and np.isfinite(model.untrained(given).transform(x)).all()
        views = model.input_views if name == "metaug" else model.views
        made, real = views(x, 2), np.array([len(text) for text in x])
        fraction = 0.5 if name == "crl-tac" else 1  # windows of half a sequence, of one base at least
        assert ((made != 0).sum(2) == np.maximum(1, np.round(fraction * real))[:, None]).all()


@pytest.mark.parametrize(
    ("modality", "framework", "n", "batch"),
    covering(
        [(d, f, *rows) for d in DATA for f in FRAMEWORKS for rows in ((2, 256), (3, 2), (7, 3))],
        *((0,), (1,), (2, 3)),
        drawn=12,
    ),
)
def test_two_rows_and_odd_batches(modality, framework, n, batch):
    x = DATA[modality](n)
    model = PiNDA(**TINY | {"batch_size": batch}, framework=framework).fit(x, labels(framework, x))
    assert np.isfinite(model.transform(x)).all() and np.isfinite(model.metrics_[-1]["loss"])
    assert model.summary_["steps"] == max(1, n // batch)


def test_few_rows_are_not_a_collapse():
    assert collapse_warnings([{"effective_rank": 1.0}], 2) == []
    assert "collapsed" in collapse_warnings([{"effective_rank": 0.1}], 2)[0]
    assert "collapsed" in collapse_warnings([{"effective_rank": 1.9}], 5)[0]
    assert Contrastive(**TINY).fit(images(2)).warnings_ == []
    assert "collapsed" in Contrastive(**TINY).fit(np.full((6, 12, 12), 7, np.uint8)).warnings_[0]


# ---- state


@pytest.mark.parametrize(
    ("name", "modality", "view"),
    covering(itertools.product(TRAINED, DATA, ("neighbors", "mixup", "adversarial")), (0,), (1, 2), drawn=8),
)
def test_a_fitted_model_stores_no_rows(name, modality, view):
    x = DATA[modality]()
    options = {**TINY, "view_maker": "auto" if name == "crl-tac" else view, "encoder": ENCODERS[modality][0]}
    many = TRAINED[name](**options | {"batch_size": 80}).fit(np.concatenate([x] * 20))
    few = TRAINED[name](**options).fit(x)
    few.views(x, 1)
    pickled = pickle.dumps(few)
    # The log of the epochs, and no rows or their axes. GenView compares new rows with representations of training rows.
    references = [
        sum(
            value.nbytes
            for tensors in (m.weights(), m.initial_)
            for key, value in tensors.items()
            if "tolerance" in key
        )
        for m in (few, many)
    ]
    assert abs(len(pickled) - len(pickle.dumps(many)) - references[0] + references[1]) < 4000
    for other in (pickle.loads(pickled), copy.deepcopy(few)):
        assert np.array_equal(other.transform(x), few.transform(x))
        assert np.array_equal(other.views(x, 2), few.views(x, 2))


CUT = [(d, f, {}) for d in DATA for f in FRAMEWORKS]
CUT += [(d, "moco", {"generator": g}) for d in DATA for g in GENERATORS[d] if "resnet" not in g]
CUT += [(d, "simclr", {"view_maker": v}) for d in DATA for v in ("neighbors", "mixup", "adversarial")]
CUT += [("images", "dino", {"view_maker": "multicrop+noise"}), ("dna", "simclr", {"view_maker": "noise+dna"})]


@pytest.mark.parametrize(("modality", "framework", "options"), covering(CUT, (0,), (2,), drawn=10))
def test_a_resumed_run_ends_with_the_same_weights(modality, framework, options, tmp_path):
    x = DATA[modality]()
    options = {**TINY, "batch_size": 4, "framework": framework, "representation_noise": 0.1, **options}
    y = labels(framework, x)
    whole = PiNDA(**options).fit(x, y)
    assert PiNDA(**options, minutes=1e-9).fit(x, y, run=tmp_path / "run").summary_["steps"] == 1
    resumed = PiNDA(**options).fit(x, y, run=tmp_path / "run", resume=True)
    assert resumed.summary_["steps"] == 3 and resumed.metrics_[-1]["loss"] == whole.metrics_[-1]["loss"]
    torch.testing.assert_close(resumed.weights(), whole.weights(), rtol=0, atol=0)
    assert np.array_equal(viewsmith.load(tmp_path / "run").views(x, 1), whole.views(x, 1))


# ---- presets


# ---- several processes


@pytest.fixture
def two(in_pair, tmp_path):
    """Fits on rows in two processes; returns the result or error of each."""

    def run(x, **options):
        np.save(tmp_path / "x.npy", x)
        in_pair(fit_rows, str(tmp_path), options)
        return [(tmp_path / f"{rank}.txt").read_text() for rank in (0, 1)]

    return run


def test_one_row_for_each_process_is_refused(two):
    for message in two(images(3), framework="moco"):
        assert "a batch of 3 rows has less than 2 for each of 2 processes" in message and "fewer processes" in message


@pytest.mark.slow
def test_processes_choose_the_same_strength(two):
    one, other = two(dna(25), strength="auto")
    assert one == other and "strength_scores" in one


def test_tables_with_text_and_anndata_objects_are_one_line():
    """Both were refused by messages of the libraries beneath, about floats and 64 dimensions."""
    frame = pd.DataFrame({"size": np.arange(20.0), "type": pd.Categorical(["a", "b"] * 10), "note": ["text"] * 20})
    said = refusal(Contrastive(strict=True, **TINY).fit, frame)
    assert "2 columns that are not numbers: type (contains 'a'), note" in said and "pandas.get_dummies(X)" in said
    model = Contrastive(**TINY).fit(pd.get_dummies(frame))
    assert model.transform(pd.get_dummies(frame)).shape == (20, 8)

    class AnnData:
        obs = obsm = layers = None

    said = refusal(Contrastive(**TINY).fit, AnnData())
    assert said.startswith("the data are of type AnnData, expected a matrix: give adata.X or adata.obsm['X_pca']")
