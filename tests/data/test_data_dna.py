"""DNA: strings and letters as rows, k-mers, and FASTA files with labels and split."""

import gzip
import itertools
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from properties import examples
from refusals import refusal
from viewsmith.core import rows as core_rows
from viewsmith.data import load_dataset
from viewsmith.modalities.dna import letters as letters_module
from viewsmith.modalities.dna import modality as dna
from viewsmith.modalities.dna.letters import NUCLEOTIDES
from viewsmith.modalities.dna.modality import dna_rows, kmer_frequencies

rng = np.random.default_rng(0)
RECORDS = {"a": "ACGTN", "b two": "acgtnACG", "c": "TT"}


@pytest.fixture
def fasta(tmp_path):
    def write(text, name="reads.fa"):
        content = text if isinstance(text, bytes) else text.encode()
        path = tmp_path / name
        path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
        return path

    return write


def texts(x):
    return [bytes(row).rstrip(b"\0").decode() for row in x]


# --- rows


@pytest.mark.parametrize(
    "given",
    [
        ["ACGT", "n", "tac"],
        ("ACGT", "n", "tac"),
        [b"ACGT", "n", b"tac"],
        np.array(["ACGT", "n", "tac"]),
        np.array([b"ACGT", b"n", b"tac"]),
        np.array(["ACGT", "n", "tac"], dtype=object),
        pd.Series(["ACGT", "n", "tac"]),
        np.array([[*b"ACGT"], [*b"n\0\0\0"], [*b"tac\0"]], dtype=np.uint8),
    ],
    ids=["list", "tuple", "bytes", "U", "S", "object", "series", "uint8"],
)
def test_rows_of_letters_padded_at_the_end(given):
    rows = dna_rows(given)
    assert rows.dtype == np.uint8 and rows.flags.c_contiguous
    assert rows.tolist() == [[*b"ACGT"], [*b"n\0\0\0"], [*b"tac\0"]]


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ("ACGT", "give it in a list"),
        ([], "no sequences"),
        (np.zeros((0, 4), np.uint8), "no sequences"),
        (["ACGT", ""], "row 1 (counted from 0) is an empty string"),
        (["ACGT", None], "row 1 (counted from 0) is None, expected a sequence as a string"),
        (["ACXT"], "row 0, position 2 (counted from 0) is 'X', expected A C G T N, upper or lower case; write N for"),
        ([b"AC-T"], "position 2 (counted from 0) is '-', expected A C G T N, upper or lower case; remove gaps"),
        (["ACG\u00e9T"], "position 3 (counted from 0) is '\u00e9'"),
        (["A\u4e2d\u4e2d", "C"], "row 0, position 1 (counted from 0) is '\u4e2d'"),
        (["MKEL"], "position 2 (counted from 0) is 'E'"),
        (["AC\nGT"], "position 2 (counted from 0) is the code 10"),
        (["EL"], "is it a protein"),
        (["ACGT", "MSTK", "ACSEL"], "row 2, position 3 (counted from 0) is 'E', expected A C G T N"),
        (["MSKEL"], "is 'E', expected A C G T N, upper or lower case; is it a protein"),
        ([b"MSKEL"], "is it a protein"),
        (np.array([[77, 83, 69]], np.uint8), "is it a protein"),
        (np.array([["A"], ["C"]]), "strings of shape (2, 1), expected one string per row"),
        (np.array([[65, 67], [65, 88]], np.uint8), "row 1, position 1 (counted from 0) is 'X'"),
        (np.array([[65, 67], [65, 3]], np.uint8), "row 1, position 1 (counted from 0) is the code 3"),
        (np.array([[65, 67], [0, 0]], np.uint8), "row 1 (counted from 0) has no letter"),
        (np.array([[65, 0, 67], [65, 0, 0]], np.uint8), "row 0, position 1 (counted from 0) is 0, which is padding"),
        (np.array([[65, 67]]), "int64 of shape (1, 2); DNA is uint8 (n, L)"),
        (np.zeros((2, 3, 4), np.uint8), "DNA is uint8 (n, L)"),
    ],
)
def test_rows_refused(given, part):
    message = refusal(dna_rows, given, "mine")
    assert part in message and message.startswith("mine: ")


def test_rna_is_read_with_t_for_u_and_ambiguous_bases_as_n(fasta):
    said = r"U \(3 letters\) read as T; R Y \(2 letters\) read as N"
    with pytest.warns(UserWarning, match=said):
        assert [bytes(row) for row in dna_rows(["ACUuR", "ACGUy"])] == [b"ACTtN", b"ACGTn"]
    with pytest.warns(UserWarning, match=said):
        x = load_dataset(fasta(">a\nACUuR\n>b\nACGUy\n")).x
    assert [bytes(row) for row in x] == [b"ACTtN", b"ACGTn"]


def test_invalid_letters_are_found_in_any_block(monkeypatch):
    monkeypatch.setattr(letters_module, "BLOCK", 7)
    letters = ["ACGTACGT"] * 9
    letters[5] = "ACGTACXT"
    assert "row 5, position 6" in refusal(dna_rows, letters)
    assert "row 5, position 6" in refusal(dna_rows, np.array([[*text.encode()] for text in letters], np.uint8))


@examples(100)
@given(st.lists(st.text("ACGTNacgtnUr\0X", min_size=3, max_size=3), min_size=1, max_size=4))
def test_an_array_is_dna_when_every_row_is_letters_then_zeros(rows):
    x = np.array([[*row.encode()] for row in rows], dtype=np.uint8)
    expected = all(row.rstrip("\0") and not set(row.rstrip("\0")) - set("ACGTNacgtnUr") for row in rows)
    assert letters_module.has_letters(x, NUCLEOTIDES) == expected
    if not expected:
        refusal(dna_rows, x)


# --- words


def slow_frequencies(text, k):
    words = ["".join(letters) for letters in itertools.product("ACGT", repeat=k)]
    found = [text[i : i + k].upper() for i in range(len(text) - k + 1)]
    counts = np.array([found.count(word) for word in words], dtype=float)
    return counts / max(counts.sum(), 1)


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("block", [1, 4_000_000])
def test_words_against_a_loop(monkeypatch, k, block):
    monkeypatch.setattr(dna, "BLOCK", block)
    given = ["".join(rng.choice([*"ACGTNacgtn"], size=rng.integers(1, 30))) for _ in range(20)] + ["N", "ACGT" * 5]
    frequencies = kmer_frequencies(dna_rows(given), k)
    assert frequencies.dtype == np.float32 and frequencies.shape == (22, 4**k)
    np.testing.assert_allclose(frequencies, [slow_frequencies(text, k) for text in given], rtol=1e-6)
    assert set(np.unique(frequencies.sum(axis=1).round(5))) == {0.0, 1.0}


def test_words_by_hand():
    x = dna_rows(["AACNAA", "GG"])
    frequencies = kmer_frequencies(x, 2)  # AA AC | AA, GG; CN and NA are not counted
    assert frequencies[0, :2] == pytest.approx([2 / 3, 1 / 3]) and frequencies[1, 10] == 1
    assert not kmer_frequencies(x, 7).any()
    assert "k is 0, expected the length of a word" in refusal(kmer_frequencies, x, 0)


# --- FASTA


@pytest.mark.parametrize(
    "name", ["r.fa", "r.fasta", "r.fna", "r.FA", "r.fa.gz", "r.fasta.gz", "r.fna.gz", "r.FA.GZ", "r.faa", "r.ffn.gz"]
)
def test_records_plain_and_compressed(fasta, name):
    path = fasta("".join(f">{header}\n{sequence}\n" for header, sequence in RECORDS.items()), name.lower())
    data = load_dataset(path.rename(path.with_name(name)))
    assert (data.modality, data.split, data.y, data.schema["row_shape"]) == ("dna", "none", None, [None])
    assert data.x.shape == (3, 8) and texts(data.x) == list(RECORDS.values())


def test_compression_is_detected_from_the_content(fasta):
    assert texts(load_dataset(fasta(gzip.compress(b">a\nAC\n>b\nG\n"), "plain.fa")).x) == ["AC", "G"]
    assert texts(load_dataset(fasta(b">a\nAC\n>b\nG\n", "x.fa").rename(fasta("", "x.fa.gz"))).x) == ["AC", "G"]


def test_fasta_files_with_any_line_ends_case_and_blank_lines(fasta):
    text = "\ufeff>a\r\nACG \t\r\n\r\n  T AC\r\n\r\n>a\r\nG\r\n>\r\nNN"
    assert texts(load_dataset(fasta(text)).x) == ["ACGTAC", "G", "NN"]


@examples(60)
@given(
    sequences=st.lists(st.text("ACGTNacgtn", min_size=1, max_size=40), min_size=2, max_size=8),
    width=st.integers(1, 50),
    end=st.sampled_from(["\n", "\r\n", "\r", " \n", "\n\n"]),
    last=st.booleans(),
    compressed=st.booleans(),
)
def test_any_sequences_with_any_line_width_are_read(tmp_path_factory, sequences, width, end, last, compressed):
    lines = []
    for i, text in enumerate(sequences):
        lines += [f">r{i}", *(text[at : at + width] for at in range(0, len(text), width))]
    content = (end.join(lines) + end * last).encode()
    path = tmp_path_factory.mktemp("f") / ("r.fa.gz" if compressed else "r.fa")
    path.write_bytes(gzip.compress(content) if compressed else content)
    data = load_dataset(path)
    assert texts(data.x) == sequences and data.x.shape[1] == max(map(len, sequences))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "is empty; expected a FASTA file"),
        ("\n \n", "is empty"),
        ("ACGT\n", "line 1 is 'ACGT', expected a FASTA file"),
        ("\n@r1\nACGT\n+\n!!!!\n", "line 2 is '@r1'"),
        (">a\nACGT\n>b b\n>c\nA\n", "record 'b' has no sequence"),
        (">a\nACGT\n>\n", "record number 2 (without a name) has no sequence"),
        (">a\nACGT\n>b x\nAC\nGX\n", "record 'b', position 4 is 'X', expected A C G T N, upper or lower case; write N"),
        (">a\nAC-T\n>b\nA\n", "remove gaps"),
        (">a\nAC\0T\n>b\nA\n", "record 'a', position 3 is the code 0"),
        (">a\nACGT\n", "one record, expected at least 2 for training; cut a long sequence into windows"),
        (f">a\n{'ACGT' * 9}\n>b\nMSKEL\n", "record 'b', position 4 is 'E', expected A C G T N, upper or lower case"),
        (">a split=train\nA\n>b\nC\n", "record 'b' has no split; expected split=train or split=test for every record"),
        (">a split=train\nA\n>b split=val\nC\n", "record 'b' has split=val; expected"),
        (">a split=train\nA\n>b split=train\nC\n", "every record has split=train; expected both"),
        (">a split=test\nA\n>b split=test\nC\n>c split=train\nG\n", "n_samples=1"),
    ],
)
def test_fasta_refused(fasta, text, part):
    message = refusal(load_dataset, fasta(text))
    assert part in message and "reads.fa" in message


@pytest.mark.parametrize(
    ("places", "labels"),
    [
        (("one.fa", "two.fa.gz"), ["one", "two"]),
        (("x/p.fa", "y/p.fasta"), ["x", "y"]),
        (("test/x.fa", "train/y.fa"), ["y", "x"]),
        (("only.fa",), None),
    ],
)
def test_a_folder_of_fasta_files_has_labels_by_folders_or_files(tmp_path, places, labels):
    for place, letters in zip(places, ("AC", "GT"), strict=False):
        text = "".join(f">{i}\n{letters * (i + 1)}\n" for i in range(5)).encode()
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_bytes(gzip.compress(text) if place.endswith(".gz") else text)
    data = load_dataset(tmp_path)
    assert texts(data.x[:2]) == (["GT", "GTGT"] if data.split == "given" else ["AC", "ACAC"])
    assert (data.split == "given") == ("train/y.fa" in places)
    assert data.y is None if labels is None else list(dict.fromkeys(data.y)) == labels and len(data.y) == 10
    (tmp_path / places[0]).write_text(">a\nAC\n>b\nG-\n>c\nG\n")
    assert f"{places[0]}: record 'b', position 2" in refusal(load_dataset, tmp_path)


def test_damaged_and_missing_fasta_files(fasta, tmp_path):
    whole = gzip.compress(b">a\nACGT\n>b\n" + bytes(rng.choice([*b"ACGT"], 5000).tolist()))
    (tmp_path / "cut.fa.gz").write_bytes(whole[:-200])
    assert "cut.fa.gz as a FASTA file; is it damaged" in refusal(load_dataset, tmp_path / "cut.fa.gz")
    assert "does not exist; expected a .fa.gz file" in refusal(load_dataset, tmp_path / "none.fa.gz")
    path = fasta(">a\nA\n>b\nC\n")
    assert "no header has x=VALUE, given as label" in refusal(load_dataset, path, label="x")
    assert "is not a table" in refusal(load_dataset, path, drop=["x"])
    assert "images are uint8" in refusal(load_dataset, path, modality="images")


def test_padding_that_needs_too_much_memory_is_refused(fasta, monkeypatch):
    monkeypatch.setattr(core_rows, "memory_limit", lambda: 2500)
    path = fasta(">a\nA\n>b\nC\n>c\n" + "G" * 1000)
    message = refusal(load_dataset, path)
    assert "3 sequences, padded to the length" in message and "cut long sequences" in message
    monkeypatch.setattr(core_rows, "memory_limit", lambda: 3000)
    assert load_dataset(path).x.shape == (3, 1000)


def labeled(n=20):
    return "".join(f">r{i} length=4 label={'up' if i % 2 else 'down'} label=not-this\nACGT\n" for i in range(n))


def test_labels_in_headers_make_a_stratified_split(fasta):
    data = load_dataset(fasta(labeled()))
    assert data.split == "stratified" and data.y.tolist() == ["down", "up"] * 10
    assert sorted(data.y_test) == ["down", "down", "up", "up"]


def test_a_split_in_headers_puts_the_train_records_first(fasta):
    sides = ["test", "train", "train", "test", "train"]
    text = "".join(f">r{i} split={side} label=k{i}\n{'ACGTN'[i] * (i + 1)}\n" for i, side in enumerate(sides))
    data = load_dataset(fasta(text))
    assert data.split == "given" and texts(data.x) == ["CC", "GGG", "NNNNN", "A", "TTTT"]
    assert data.y_train.tolist() == ["k1", "k2", "k4"] and data.y_test.tolist() == ["k0", "k3"]


@pytest.mark.parametrize("between", ["\t", ",", " , ", "\t "])
def test_labels_in_a_second_file(fasta, tmp_path, between):
    path = fasta(">a x\nA\n>b\nC\n>a y\nG\n" + labeled(8))
    names = {"a": "one kind", "b": "other", **{f"r{i}": "other" for i in range(8)}}
    (tmp_path / "l.tsv").write_text("\n\n".join(f"{k}{between}{v}" for k, v in names.items()) + "\r\n")
    data = load_dataset(path, labels=str(tmp_path / "l.tsv"))
    assert data.y.tolist() == ["one kind", "other", "one kind"] + ["other"] * 8
    (tmp_path / "l.tsv").write_text((tmp_path / "l.tsv").read_text() + f"name{between}label\n")
    with pytest.warns(UserWarning, match="1 name that .*reads.fa does not have, ignored: name"):
        load_dataset(path, labels=tmp_path / "l.tsv")


@pytest.mark.parametrize("source", ["headers", "file", "file with empty labels"])
def test_records_without_a_label(fasta, tmp_path, source):
    given = {f"r{i}": "" if i % 4 == 0 else "up" if i % 2 else "down" for i in range(40)}
    in_header = {name: f" label={label}" if source == "headers" and label else "" for name, label in given.items()}
    path = fasta("".join(f">{name}{in_header[name]}\nACGT\n" for name in given))
    lines = [f"{name}\t{label}\n" for name, label in given.items() if label or source == "file with empty labels"]
    (tmp_path / "l.tsv").write_text("".join(lines))
    labels = None if source == "headers" else tmp_path / "l.tsv"
    with pytest.warns(UserWarning, match=r"10 of 40 rows have no label \(NaN or empty\), and are not scored"):
        data = load_dataset(path, labels=labels)
    assert data.y.tolist() == list(given.values()) and data.partly_labeled and all(data.y_test)
    few = load_dataset(path, labels=labels, label="y", few_labels=True)  # expected, so without a warning
    assert few.y.tolist() == list(given.values()) and few.schema["few_labels"]


def test_a_label_after_a_tab_may_contain_commas(fasta, tmp_path):
    (tmp_path / "l.tsv").write_text("a\tx, y\nb\tx, y\nc\tx, y\n")
    path = fasta(">a\nA\n>b\nC\n>c\nG\n")
    assert load_dataset(path, labels=tmp_path / "l.tsv").y.tolist() == ["x, y"] * 3


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a\tx\nBx\tx\n", "l.tsv does not contain 1 record of 2 of"),
        ("a\tx\nBx\tx\n", "first record 'b', but 1 name that"),
        ("", "all 2 labels are missing"),
        ("a\t\nb\t\n", "all 2 labels are missing"),
        ("a\tx\nb x\n", "line 2 is 'b x', expected a name and a label, separated by a tab or a comma"),
        ("a\tx\n\tx\n", "line 2 is"),
        ("a,x,1\n", "line 1 is 'a,x,1'"),
        ("a\tx\nb\tx\na\ty\n", "line 3 gives a the label y, an earlier line x"),
        (b"\xff\xfea\0", "as a file of names and labels in UTF-8"),
    ],
)
def test_label_files_refused(fasta, tmp_path, text, part):
    (tmp_path / "l.tsv").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert part in refusal(load_dataset, fasta(">a\nA\n>b\nC\n"), labels=tmp_path / "l.tsv")


def test_missing_label_file(fasta, tmp_path):
    path = fasta(">a\nA\n>b\nC\n")
    assert "none.tsv does not exist" in refusal(load_dataset, path, labels=tmp_path / "none.tsv")
    assert "is a folder" in refusal(load_dataset, path, labels=tmp_path)


def test_a_later_file_may_have_any_length_and_a_single_split(fasta):
    first = load_dataset(fasta(labeled()))
    schema = json.loads(json.dumps(first.schema))
    assert load_dataset(fasta(">x\nACGTACGTAC\n"), schema=schema).x.shape == (1, 10)
    with pytest.warns(UserWarning, match="every record has split=test"):
        assert load_dataset(fasta(">x split=test\nA\n>y split=test\nC\n"), schema=schema).split == "none"
    vectors = load_dataset(fasta(">x\nAC\n>y\nGT\n"), modality="vectors")
    assert vectors.schema["row_shape"] == [2] and vectors.x.dtype == np.float32


def test_a_file_that_unpacks_to_more_than_the_memory_is_refused(fasta, monkeypatch):
    path = fasta("".join(f">{i}\n{'ACGT' * 50}\n" for i in range(100)), "reads.fa.gz")
    monkeypatch.setattr(core_rows, "memory_limit", lambda: 10_000)
    said = refusal(load_dataset, path)
    assert said.startswith(f"{path} would take") and said.endswith("give fewer or shorter records")


@pytest.mark.parametrize(
    ("header", "label"), [("s{0}|{1}|training", "1"), ("s{0} {1}", "1"), ("s{0} kind={1}", "kind")]
)
def test_labels_and_groups_are_parts_of_headers(fasta, header, label, capsys):
    kinds = ["enhancer" if i % 2 else "other" for i in range(40)]
    path = fasta("".join(f">{header.format(i % 10, kind)}\nACGT{'ACGT'[i % 4]}\n" for i, kind in enumerate(kinds)))
    assert load_dataset(path).y is None
    assert f"--label {label} makes it the label" in capsys.readouterr().err
    data = load_dataset(path, label=label, groups="0", split_by_groups=True)
    assert data.y.tolist() == kinds and data.schema["label"] == label
    assert len(set(data.groups_test) & set(data.groups[data.train_index])) == 0
    assert load_dataset(path, schema=data.schema).y.tolist() == kinds
    later = load_dataset(
        fasta(">a\nACGTA\n>b\nACGTT\n"), schema=data.schema | {"groups": None, "split_by_groups": None}
    )
    assert later.y is None


def test_labels_are_a_column_of_a_table(fasta, tmp_path):
    path = fasta("".join(f">s{i} x\nACGT{'ACGT'[i % 4]}\n" for i in range(20)))
    names, kinds = [f"s{i}" for i in range(20)], ["a", "b"] * 10
    table = pd.DataFrame({"kind": kinds, "name": names, "person": np.arange(20) // 4}).sample(frac=1, random_state=0)
    table.to_csv(tmp_path / "t.csv", index=False)
    data = load_dataset(path, labels=tmp_path / "t.csv", label="kind", groups="person")
    assert data.y.tolist() == kinds and data.groups.tolist() == [str(i // 4) for i in range(20)]
    assert load_dataset(path, labels=tmp_path / "t.csv", schema=data.schema).y.tolist() == kinds
    assert "--label COLUMN" in refusal(load_dataset, path, labels=tmp_path / "t.csv")


def test_a_record_much_longer_than_all_others_is_refused(fasta):
    path = fasta("".join(f">s{i}\nACGT\n" for i in range(40)) + f">g\n{'ACGTG' * 2001}\n")
    assert "record 'g' has 10,005 letters, and 95% of the records at most 4" in refusal(load_dataset, path)
