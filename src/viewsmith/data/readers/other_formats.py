"""What to do with files of formats that are not read."""

from __future__ import annotations

from pathlib import Path

# The quality of bases has no place in what is read, so that leaving it out is the user's choice.
_FASTQ = "convert it to FASTA: awk 'NR%4==1{{print \">\" substr($0,2)}} NR%4==2' {0} > reads.fasta"
_CELLS = "write an .h5ad file (anndata, scanpy)"
_ADVICE = {
    **dict.fromkeys((".fastq", ".fq"), _FASTQ),
    **dict.fromkeys((".fastq.gz", ".fq.gz"), _FASTQ.replace("{0}", "<(zcat {0})")),
    **dict.fromkeys((".txt", ".txt.gz", ".dat"), "rename it to .csv or .tsv if it is a table with a header line"),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "save it as .csv"),
    **dict.fromkeys((".pkl", ".pickle", ".joblib"), "files are never unpickled; save an .npz file"),
    **dict.fromkeys((".rds", ".mtx", ".mtx.gz", ".loom", ".h5"), _CELLS),
}


def advice(extension: str, path: Path) -> str:
    """What to do with a file of this extension; empty if nothing is known."""
    return _ADVICE.get(extension.lower(), "").format(path)
