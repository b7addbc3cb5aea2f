"""Sequences of an own alphabet: declared once, read, refused, fitted, embedded, searched."""

import numpy as np
import pytest

from refusals import refusal
from viewsmith import Contrastive, Discovery, LinearContrast, PiNDA, load
from viewsmith.core.errors import InputError
from viewsmith.core.registry import names
from viewsmith.data import load_dataset
from viewsmith.data.any_size import read_samples
from viewsmith.modalities import detect, modality_of

pytestmark = pytest.mark.usefixtures("small_searches")

HEC = "letters:HEC"
rng = np.random.default_rng(0)
TEXTS = ["".join(rng.choice([*"HEC"], rng.integers(20, 40))) for _ in range(40)]


def test_an_alphabet_is_given_by_its_letters():
    kind = modality_of("letters:hec")
    assert kind.name == HEC and str(kind.alphabet) == "H E C X" and kind.channels((10,)) == 3
    assert modality_of("letters:XN").alphabet.unknown == "?"
    assert detect(TEXTS, HEC).name == HEC and detect(TEXTS).name != HEC
    for letters in ("H", "HH", "H E", "hH", "é1"):
        with pytest.raises(InputError, match="expected at least two different letters in a row, such as HEC"):
            modality_of(f"letters:{letters}")


def test_other_letters_are_named_with_their_place(tmp_path):
    message = refusal(LinearContrast(modality=HEC).fit, [*TEXTS, "HEZ"])
    assert "row 40, position 2 (counted from 0) is 'Z', expected H E C X" in message
    (tmp_path / "x.fa").write_text(">a\nHECHEC\n>b\nHE\nCU\n")
    assert "record 'b', position 4 is 'U', expected H E C X" in refusal(load_dataset, tmp_path / "x.fa", alphabet="HEC")
    assert "leave one of them out" in refusal(load_dataset, tmp_path / "x.fa", alphabet="HEC", modality="dna")


def test_parts_are_those_of_letters_without_another_strand():
    assert {"window", "mask", "deletion", "identity"} <= {*names("view maker", HEC)}
    assert not {"dna", "proteins", "reverse-complement", "substitution"} & {*names("view maker", HEC)}
    assert "cnn" in names("encoder", HEC) and names("features", HEC) == ["kmers"]
    assert list(modality_of(HEC).transformations((10,))) == ["reversal"]


@pytest.mark.parametrize("estimator", [LinearContrast, Contrastive, PiNDA])
def test_models_fit_embed_and_come_back(estimator, tmp_path):
    options = {} if estimator is LinearContrast else {"epochs": 1}
    model = estimator(modality=HEC, random_state=0, **options).fit(TEXTS)
    h = model.transform(TEXTS)
    assert h.shape[0] == 40 and np.isfinite(h).all()
    assert {*np.unique(model.views(TEXTS[:3], n_views=2))} <= {0, *b"HECX"}
    model.save(tmp_path / "run")
    np.testing.assert_array_equal(load(tmp_path / "run").transform(TEXTS), h)


def test_files_name_the_alphabet_once(tmp_path):
    path = tmp_path / "x.fa"
    path.write_text("".join(f">s{i}\n{text}\n" for i, text in enumerate(TEXTS)))
    data = load_dataset(path, alphabet="hec")
    assert data.modality == HEC and data.schema["modality"] == HEC
    assert load_dataset(path, schema=data.schema).modality == HEC
    assert read_samples(str(path), alphabet="HEC")[2] == read_samples(str(path), HEC)[2] == HEC


def test_motifs_of_an_own_alphabet(tmp_path):
    word = "HHECCEEHCEHEHH"
    texts = [text[:3] + word + text[17:] for text in TEXTS]
    model = Discovery(modality=HEC, windows=[14]).fit(texts)
    assert model.parts_[0].consensus == word and model.parts_[0].pattern.startswith("H(2)-E-C(2)")
    model.save(tmp_path / "run")
    np.testing.assert_array_equal(Discovery.load(tmp_path / "run").locate(texts), model.locate(texts))
    assert "expected auto, images" in refusal(Discovery(modality="vectors").fit, texts)
