"""Sequences in a column of a table."""

import numpy as np
import pandas as pd
import pytest
from advised_lines import advised

from viewsmith.core.errors import InputError
from viewsmith.data import load_dataset

rng = np.random.default_rng(0)
LETTERS = {"dna": [*"ACGT"], "proteins": [*"ACDEFGHIKLMNPQRSTVWY"]}


@pytest.fixture
def table(tmp_path):
    def write(modality, name="x.csv", **columns):
        texts = ["".join(rng.choice(LETTERS[modality], rng.integers(10, 20))) for _ in range(20)]
        frame = pd.DataFrame({"id": [f"s{i}" for i in range(20)], "seq": texts, "family": ["a", "c"] * 10} | columns)
        frame.to_csv(tmp_path / name, index=False)
        return tmp_path / name, texts

    return write


@pytest.mark.parametrize("modality", LETTERS)
def test_the_column_of_letters_is_read_and_said(table, modality):
    path, texts = table(modality)
    with pytest.warns(UserWarning, match="the sequences are those of the column seq"):
        data = load_dataset(path, modality=modality, label="family")
    assert data.modality == modality and bytes(data.x[3]).rstrip(b"\0").decode() == texts[3]
    assert set(data.y) == {"a", "c"}
    later, texts = table(modality, "later.csv", other=["ACDEFGHIKL" * 9] * 20)
    found = load_dataset(later, schema=data.schema)
    assert bytes(found.x[0]).rstrip(b"\0").decode() == texts[0] and found.label_name == "family"


def test_tables_without_sequences_are_refused(table, tmp_path, monkeypatch):
    path, _ = table("proteins")
    with pytest.raises(InputError, match=r"no column has letters A C G T N alone.* id, seq"):
        load_dataset(path, modality="dna", label="family")
    path, _ = table("dna", seq=["ACGT-ACGTA"] * 20)
    with pytest.raises(InputError, match=r"row 0, position 4 .* is '-', .*remove gaps"):
        load_dataset(path, modality="dna", label="family")
    path, _ = table("dna", seq=["ACGT", None] * 10)
    with pytest.raises(InputError, match=r"row 1 .* has no sequence") as caught:
        load_dataset(path, modality="dna", label="family")
    monkeypatch.chdir(tmp_path)
    _, code, out, _ = advised(str(caught.value))
    exec(code, {"__name__": "line"})
    assert len(load_dataset(tmp_path / out, modality="dna").x) == 10
    fitted = load_dataset(table("dna")[0], modality="dna").schema
    pd.DataFrame({"other": ["ACGT"] * 4}).to_csv(tmp_path / "later.csv", index=False)
    with pytest.raises(InputError, match="no column seq, in which the run has its sequences"):
        load_dataset(tmp_path / "later.csv", schema=fitted)


def test_proteins_beside_their_genes(tmp_path):
    rng = np.random.default_rng(0)
    genes = ["".join(rng.choice([*"ACGT"], 60)) for _ in range(20)]
    proteins = ["".join(rng.choice([*"ACDEFGHIKLMNPQRSTVWY"], 20)) for _ in range(20)]
    frame = pd.DataFrame({"sequence": genes, "junction": [text[:30] for text in genes], "junction_aa": proteins})
    frame.to_csv(tmp_path / "airr.tsv", sep="\t", index=False)
    with pytest.warns(UserWarning, match=r"those of the column sequence, not of junction \(--drop sequence leaves"):
        assert load_dataset(tmp_path / "airr.tsv", modality="dna").x.shape == (20, 60)
    with pytest.warns(UserWarning, match="those of the column junction_aa$"):
        assert load_dataset(tmp_path / "airr.tsv", modality="proteins").x.shape == (20, 20)


@pytest.mark.parametrize(
    ("form", "label"), [("s{} {}", "1"), ("s{}|{}", "1"), ("s{} score={} x", "score"), ("s{} label={}", None)]
)
def test_scores_of_headers_are_numbers(tmp_path, capsys, form, label):
    scores = rng.normal(size=40).round(3)
    records = (f">{form.format(i, s)}\n{''.join(rng.choice(list('ACGT'), 30))}\n" for i, s in enumerate(scores))
    (tmp_path / "a.fa").write_text("".join(records))
    load_dataset(tmp_path / "a.fa")
    assert label is None or "the headers is a number (" in capsys.readouterr().err
    data = load_dataset(tmp_path / "a.fa", label=label)
    assert data.y.dtype.kind == "f" and data.y.tolist() == scores.tolist()


def test_classes_and_groups_of_headers_that_look_like_numbers_stay_apart(tmp_path):
    kinds = ["1.1", "1.10", "2.40", "3.30"] * 10
    records = (f">s{i} fold={k} own={k}0\n{''.join(rng.choice(list('ACGT'), 30))}\n" for i, k in enumerate(kinds))
    (tmp_path / "a.fa").write_text("".join(records))
    data = load_dataset(tmp_path / "a.fa", label="fold", groups="own")
    assert data.y.tolist() == kinds and data.groups.tolist() == [f"{kind}0" for kind in kinds]
    (tmp_path / "b.fa").write_text((tmp_path / "a.fa").read_text().replace("1.10", "1.20"))
    data = load_dataset(tmp_path / "b.fa", label="fold", target="class")
    assert data.y.tolist() == [kind.replace("1.10", "1.20") for kind in kinds]
