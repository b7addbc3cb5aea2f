"""Files of formats that are not read: what to do with them."""

import pytest

from refusals import refusal
from viewsmith.data import load_dataset


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("a.asc", "rename it to .txt, .csv or .tsv"),
        ("a.xls", "save it as .xlsx or .csv"),
        ("a.pkl", "never unpickled"),
        ("a.xml", "annotations rather than samples"),
        ("a.vsi", "save it as OME-TIFF"),
        ("a.m4a", "a.wav, and give"),
        ("a.bam", "samtools fasta"),
        ("a.gtf", "give a .bed file (--genome)"),
    ],
)
def test_what_to_do_with_known_files_that_are_not_read(tmp_path, name, part):
    (tmp_path / name).write_text("@r1\nACGT\n+\nIIII\n")
    said = refusal(load_dataset, tmp_path / name)
    assert f"the extension {name[name.index('.') :]!r}" in said and part in said and len(said.splitlines()) == 1
