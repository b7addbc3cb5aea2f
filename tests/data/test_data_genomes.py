"""Sequences beside FASTA: reads, GenBank, intervals of a genome; letters that are lower case or not known."""

import gzip

import numpy as np
import pytest

from refusals import refusal
from viewsmith.data import load_dataset

RECORD = """LOCUS       AB{0}                       24 bp    DNA     linear   PLN 05-JUL-1999
DEFINITION  Some gene {0}.
ACCESSION   AB{0}
VERSION     AB{0}.1
FEATURES             Location/Qualifiers
     source          1..24
                     /organism="Zea mays"
ORIGIN
        1 acgtacgtac gtacgtaaaa ttt{1}
//
"""


def texts(data):
    return [bytes(row[row > 0]).decode() for row in data.x]


def test_reads_without_their_qualities(tmp_path):
    pytest.importorskip("Bio")
    lines = "".join(f"@read{i} length=8\nACGTACG{base}\n+\n@IIIIII>\n" for i, base in enumerate("ACGT"))
    with gzip.open(tmp_path / "reads.FQ.gz", "wt") as file:
        file.write(lines)
    with pytest.warns(UserWarning, match="the qualities of the bases are not used"):
        data = load_dataset(tmp_path / "reads.FQ.gz")
    assert data.modality == "dna" and data.row_names == [f"read{i}" for i in range(4)]
    assert texts(data) == [f"ACGTACG{base}" for base in "ACGT"]
    (tmp_path / "cut.fastq").write_text(lines[:-6])
    assert "cannot read" in refusal(load_dataset, tmp_path / "cut.fastq")
    (tmp_path / "empty.fastq").write_text("")
    assert "has no record" in refusal(load_dataset, tmp_path / "empty.fastq")


def test_records_of_genbank(tmp_path):
    pytest.importorskip("Bio")
    (tmp_path / "x.gb").write_text("".join(RECORD.format(i, "acgt"[i % 4]) for i in range(10)))
    (tmp_path / "kinds.tsv").write_text("".join(f"AB{i}.1\t{'uv'[i % 2]}\n" for i in range(10)))
    data = load_dataset(tmp_path / "x.gb", labels=tmp_path / "kinds.tsv")
    assert data.row_names == [f"AB{i}.1" for i in range(10)] and data.y.tolist() == ["u", "v"] * 5
    assert texts(data)[1] == "ACGTACGTACGTACGTAAAATTTC"
    assert load_dataset(tmp_path / "x.gb", label="organism").y.tolist() == ["Zea_mays"] * 10
    assert "no feature has /gene=, but organism" in refusal(load_dataset, tmp_path / "x.gb", label="gene")
    without = RECORD.format(0, "a").split("ORIGIN")[0] + "CONTIG      join(AB123456.1:1..24)\n//\n"
    (tmp_path / "y.gb").write_text(without)
    assert "1 record of 1 without letters, such as AB0.1: download" in refusal(load_dataset, tmp_path / "y.gb")


GENOME = """LOCUS       NC_1                      60 bp    DNA     circular BCT 05-JUL-1999
DEFINITION  A plasmid.
ACCESSION   NC_1
VERSION     NC_1.1
FEATURES             Location/Qualifiers
     source          1..60
                     /organism="Zea mays"
     CDS             1..12
                     /locus_tag="a1"
                     /product="some enzyme"
                     /translation="MKP"
     CDS             complement(join(13..18,25..30))
                     /gene="b"
                     /product="other"
     CDS             31..42
                     /pseudo
     CDS             join(AB1.1:1..9,43..48)
                     /locus_tag="away"
     tRNA            49..60
ORIGIN
        1 atgaaaccat aattaacccg ggggttgcat atgtaaaaac ccacgtacgt aaaccgttga
//
"""


def test_features_of_a_genome(tmp_path):
    pytest.importorskip("Bio")
    path = tmp_path / "x.gb"
    path.write_text(GENOME)
    assert "samples (--feature TYPE), it has CDS (4), tRNA (1)" in refusal(load_dataset, path)
    assert "has DNA, expected proteins: take its" in refusal(load_dataset, path, modality="proteins")
    with pytest.warns(UserWarning, match="1 feature of 4 left out: parts in other records or beyond"):
        data = load_dataset(path, feature=["cds"])
    assert texts(data) == ["ATGAAACCATAA", "ATGCAAGGTTAA", "ATGTAAAAACCC"]
    assert data.row_names == ["a1", "b", "NC_1.1:30-42"]
    with pytest.warns(UserWarning, match="2 features of 4 left out: pseudogenes"):
        data = load_dataset(path, feature="CDS", modality="proteins")
    assert data.modality == "proteins" and texts(data) == ["MKP", "MQG"]
    with pytest.warns(UserWarning, match="left out"):
        assert texts(load_dataset(path, schema=data.schema)) == ["MKP", "MQG"]  # features and modality of the run
    for label, labels in {"type": ["CDS", "tRNA"], "organism": ["Zea_mays"], "strand": ["+", "-"]}.items():
        with pytest.warns(UserWarning, match="left out"):
            y = load_dataset(path, feature=["CDS", "tRNA"], label=label, few_labels=True).y
        assert np.unique(y).tolist() == labels
    assert "of the type exon, but CDS, source, tRNA" in refusal(load_dataset, path, feature=["exon"])
    assert "feature is empty, expected types" in refusal(load_dataset, path, feature=" ,")
    head, letters = GENOME.split("ORIGIN")
    path.write_text(f"{head.split('     source')[0]}ORIGIN{letters}")
    assert "of the type cds, it has none at all" in refusal(load_dataset, path, feature="CDS")
    path.write_text(
        f"{head}ORIGIN\n        1 atgaaaccat aattaacccg ggggttgcat atgtaa\n//\n"
    )  # the third ends beyond it
    with pytest.warns(UserWarning) as said:
        assert texts(load_dataset(path, feature="CDS")) == ["ATGAAACCATAA", "ATGCAAGGTTAA"]
    assert {str(each.message).split(": ")[1][:28] for each in said} == {
        "Expected sequence length 60,",
        "2 features of 4 left out",
    }
    with gzip.open(tmp_path / "x.gbff.gz", "wt") as file:
        file.write(GENOME)
    with pytest.warns(UserWarning, match="left out"):
        assert load_dataset(tmp_path / "x.gbff.gz", feature="CDS").row_names == ["a1", "b", "NC_1.1:30-42"]
    assert "type tRNA have no proteins" in refusal(load_dataset, path, feature=["tRNA"], modality="proteins")
    assert "no feature has /x=, but gene" in refusal(load_dataset, path, feature=["CDS"], label="x")


@pytest.fixture
def genome(tmp_path):
    pytest.importorskip("pyfaidx")
    letters = np.random.default_rng(0).choice([*"ACGT"], 200)
    path = tmp_path / "hg.fa"
    path.write_text(">chr1 first\n" + "\n".join("".join(letters[i : i + 50]) for i in range(0, 200, 50)) + "\n")
    return path, "".join(letters)


def test_intervals_of_a_genome(tmp_path, genome):
    path, letters = genome
    bed = tmp_path / "peaks.bed"
    bed.write_text("track name=x\nchr1\t10\t30\tone\t0\t-\nchr1\t50\t90\nchr1\t195\t200\n")
    data = load_dataset(bed, genome=path)
    other = letters[10:30].translate(str.maketrans("ACGT", "TGCA"))[::-1]
    assert texts(data) == [other, letters[50:90], letters[195:200]]
    assert data.row_names == ["one", "chr1:50-90(+)", "chr1:195-200(+)"]
    with pytest.warns(UserWarning, match="1 interval of 3 left out, over the end of a chromosome"):
        data = load_dataset(bed, genome=path, width=12)
    assert data.x.shape == (2, 12) and texts(data)[1] == letters[64:76]
    with pytest.warns(UserWarning, match="left out"):
        assert texts(load_dataset(bed, schema=data.schema)) == texts(data)  # genome and width of the run
    assert not (tmp_path / "genome.fai").exists() and (tmp_path / "hg.fa.fai").exists()


def test_lower_case_letters_of_a_genome_are_hidden_in_the_genome(tmp_path, genome):
    path, letters = genome
    path.write_text(f">chr1\n{letters[:100].lower()}{letters[100:]}\n")
    (tmp_path / "x.bed").write_text("chr1\t10\t30\nchr1\t110\t130\n")
    with pytest.warns(UserWarning, match=f"NNNNN/' {path} > hg_masked.fasta"):
        load_dataset(tmp_path / "x.bed", genome=path)


def test_summits_of_peaks(tmp_path, genome):
    path, letters = genome
    (tmp_path / "x.narrowPeak").write_text("".join(f"chr1\t{i}\t{i + 50}\t.\t0\t.\t1\t1\t1\t9\n" for i in (20, 60)))
    data = load_dataset(tmp_path / "x.narrowPeak", genome=path, width=10)
    assert texts(data) == [letters[24:34], letters[64:74]]


def test_intervals_that_cannot_be_read(tmp_path, genome):
    bed = tmp_path / "x.bed"
    bed.write_text("chr1\t5\t9\nchr2\t5\t9\n")
    assert "give the genome that they are of (--genome hg38.fa)" in refusal(load_dataset, bed)
    assert "its own are chr1; write them with" in refusal(load_dataset, bed, genome=genome[0])
    assert "genome: no.fa does not exist" in refusal(load_dataset, bed, genome="no.fa")
    bed.write_text("chr1\t5\t9\nchr1 5 9\n")
    assert "line 2 is 'chr1 5 9', expected a chromosome" in refusal(load_dataset, bed, genome=genome[0])
    assert "so genome=hg.fa has no effect" in refusal(load_dataset, "wine", genome="hg.fa")


def test_lower_case_letters_are_said_with_what_hides_them(tmp_path):
    path = tmp_path / "x.fa"
    path.write_text(">a\nACGTacgtACGT\n>b\nACGTACGTACGT\n")
    with pytest.warns(UserWarning, match="17% of the letters are lower case, which often marks repeats.*sed"):
        load_dataset(path)
    with pytest.warns(UserWarning, match="those of DNA, and are read as proteins: leave --modality out"):
        load_dataset(path, modality="proteins")
    path.write_text(">a\nACGTACGT\n>b\nACGT*CGT\n")
    assert "record 'b', position 5 is '*', expected A C G T N" in refusal(load_dataset, path)
