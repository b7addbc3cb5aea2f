"""Files of formats that are not read: what to do with them."""

import re
import subprocess

import pytest

from refusals import refusal
from viewsmith.data import load_dataset


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("reads.fastq", "convert it to FASTA"),
        ("reads.FQ.gz", "convert it to FASTA"),
        ("a.txt", "rename it to .csv or .tsv"),
        ("a.xlsx", "save it as .csv"),
        ("a.pkl", "never unpickled"),
        ("a.rds", "write an .h5ad file"),
        ("a.xml", "annotations rather than samples"),
        ("a.czi", "save it as OME-TIFF"),
    ],
)
def test_what_to_do_with_known_files_that_are_not_read(tmp_path, name, part):
    (tmp_path / name).write_text("@r1\nACGT\n+\nIIII\n")
    said = refusal(load_dataset, tmp_path / name)
    assert f"the extension {name[name.index('.') :]!r}" in said and part in said and len(said.splitlines()) == 1


def test_the_way_to_convert_fastq_works(tmp_path):
    fastq = tmp_path / "reads.fastq"
    fastq.write_text("".join(f"@read{i} length=8\nACGTACG{base}\n+\n@IIIIII>\n" for i, base in enumerate("ACGT")))
    command = re.search("awk .* reads.fasta", refusal(load_dataset, fastq).replace(str(tmp_path) + "/", ""))[0]
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    data = load_dataset(tmp_path / "reads.fasta")
    assert data.modality == "dna" and data.row_names == [f"read{i}" for i in range(4)]
    assert bytes(data.x[3]).decode() == "ACGTACGT"
