"""Proteins: recognized, read, refused, fitted, embedded, compared; and what they cannot do."""

import numpy as np
import pytest

from refusals import refusal
from viewsmith import CRLTAC, Contrastive, DiffAug, Discovery, LinearContrast, PiNDA
from viewsmith.core.errors import InputError
from viewsmith.data import load_dataset
from viewsmith.data.any_size import read_samples
from viewsmith.evaluation.symmetries import symmetries
from viewsmith.modalities import detect, modality_of
from viewsmith.modalities.dna.networks import LONGEST_SKIP

rng = np.random.default_rng(0)
LETTERS = [*"ACDEFGHIKLMNPQRSTVWY"]
TEXTS = ["".join(rng.choice(LETTERS, rng.integers(20, 40))) for _ in range(40)]


@pytest.fixture
def fasta(tmp_path):
    path = tmp_path / "proteins.fasta"
    path.write_text("".join(f">p{i} label={'ab'[i % 2]}\n{text}\n" for i, text in enumerate(TEXTS)))
    return path


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (TEXTS, "proteins"),
        (np.array(TEXTS), "proteins"),
        ([text.lower() for text in TEXTS], "proteins"),
        (["ACGTNACGT", "GGGTTTAA"], "dna"),
        (["GATTACA", "TACAGAT"], "dna"),
        ([b"MSKELPRT"], "proteins"),
        (np.array([[*b"MSKEL"], [*b"PQRS\0"]], np.uint8), "proteins"),
    ],
)
def test_letters_tell_the_modality(given, name):
    assert detect(given).name == name


def test_files_are_read_and_aliases_are_said(tmp_path, fasta):
    data = load_dataset(fasta)
    assert data.modality == "proteins" and data.x.shape == (40, max(map(len, TEXTS)))
    path = tmp_path / "x.npy"
    np.save(path, np.array(["MSKELBZ", "uPQRSVW"]))
    with pytest.warns(UserWarning, match=r"B Z U \(3 letters\) read as X"):
        x = load_dataset(path).x
    assert bytes(x[0]) == b"MSKELXX" and bytes(x[1]) == b"xPQRSVW"


def test_a_given_modality_decides(fasta):
    with pytest.raises(InputError, match=r"record 'p0', position \d+ is .*proteins \(--modality proteins\)"):
        load_dataset(fasta, modality="dna")


def test_gaps_are_refused_with_the_way_on(tmp_path):
    path = tmp_path / "aligned.fasta"
    path.write_text(">a\nMSKEL-PQR\n>b\nMSKELAPQR\n")
    with pytest.raises(InputError, match=r"record 'a', position 6 is '-', .*remove gaps and stops: sed"):
        load_dataset(path)
    with pytest.raises(InputError, match=r"row 1, position 2 .* is '\*', .*remove gaps and stops"):
        Contrastive(epochs=1).fit(["MSKEL", "PQ*RS"])


@pytest.mark.parametrize("cls", [Contrastive, LinearContrast, PiNDA, CRLTAC, DiffAug])
def test_models_fit_embed_and_come_back(cls, tmp_path):
    options = {} if cls is LinearContrast else {"epochs": 1, "batch_size": 16}
    model = cls(random_state=0, **options).fit(TEXTS)
    H = model.transform([*TEXTS[:4], "MSKEL"])
    assert H.shape[0] == 5 and np.isfinite(H).all()
    model.save(tmp_path / "run")
    loaded = cls.load(tmp_path / "run") if hasattr(cls, "load") else __import__("viewsmith").load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.transform(TEXTS[:4]), model.transform(TEXTS[:4]))
    views = model.views(TEXTS[:2], 2)
    assert views.dtype == np.uint8 and views.shape[:2] == (2, 2)


def test_raw_features_are_words_of_two_letters_and_places():
    model = Contrastive(epochs=1, batch_size=16, random_state=0).fit(TEXTS)
    found = model.raw_features(TEXTS)
    assert {name: rows.shape[1] for name, rows in found.items()} == {
        "one-hot letters": 20 * max(map(len, TEXTS)),
        "2-mer frequencies": 400,
    }


def test_letters_that_are_left_out_of_a_baseline_are_said():
    texts = [text * 30 for text in TEXTS]
    found = modality_of("proteins").raw_features(
        modality_of("proteins").read(texts), modality_of("proteins").input_layer((9,))
    )
    assert list(found) == [f"one-hot letters (the first {LONGEST_SKIP})", "2-mer frequencies"]


def test_proteins_have_no_other_strand():
    assert [
        test.name
        for test in symmetries(modality_of("proteins").read(TEXTS + [text[::-1] for text in TEXTS]), "proteins")
    ] == ["reversal"]
    assert "reverse-complement" in refusal(Contrastive(view_maker="reverse-complement").fit, TEXTS)


def test_discovery_reads_proteins_and_has_no_other_strand(fasta):
    assert read_samples(str(fasta))[2] == "proteins"
    with pytest.raises(InputError, match="both_strands is an option for dna, and the data are proteins"):
        Discovery(both_strands=False).fit(TEXTS)
