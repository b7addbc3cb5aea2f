"""Labeled sequences of letters, for `linear_contrast`; similar ones are in one part of a split.

They do not lie with the data. Folders of VIEWSMITH_DATA: peptides (`gdelrioifc/EmbeddedAMP`) has positives.fasta.gz and
negatives.fasta.gz; transcripts (`liguowang/cpat`) Human_test_coding_mRNA.fa.gz and Human_test_noncoding_RNA.fa.gz;
gene_families (`ss1910singh/DNA-Sequencing-Classifier`) chimp_data.txt and dog_data.txt; localization
(`HannesStark/protein-localization`) deeploc_our_val_set.fasta, for training, and deeploc_test_set.fasta.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.common.data import Data, data_folder
from viewsmith.data import load_dataset
from viewsmith.modalities import modality_of

EACH = 2000  # transcripts of a kind
TRANSCRIPTS, GENES, PROTEINS = (300, 3000), (100, 5000), 1000  # letters


def groups(texts: Sequence[str], k: int, part: float) -> np.ndarray:
    """Groups of similar sequences, (n,), as CD-HIT makes them: from the first, longest one on, a sequence joins the
    first group of whose first member it shares `part` of its words of `k` letters, or it begins one."""
    from scipy.sparse import csr_array

    words: dict[str, int] = {}
    of = [sorted({words.setdefault(t[i : i + k], len(words)) for i in range(max(1, len(t) - k + 1))}) for t in texts]
    ends = np.cumsum([0, *map(len, of)])
    has = csr_array((np.ones(ends[-1]), np.concatenate(of), ends), shape=(len(texts), len(words)))
    shared, group = has @ has.T, np.full(len(texts), -1)
    for i in range(len(texts)):
        if group[i] < 0:
            like, count = (
                getattr(shared, each)[shared.indptr[i] : shared.indptr[i + 1]] for each in ("indices", "data")
            )
            like = like[count >= part * np.diff(ends)[like]]
            group[like[(group[like] < 0) & (like >= i)]] = i
            group[i] = i
    return group


def divided(known: Mapping[str, Any], modality: str, k: int, part: float, folds: int, fold: int = 0) -> Data:
    """Sequences and their classes; one of so many folds of groups of similar ones is held out."""
    from sklearn.model_selection import StratifiedGroupKFold

    texts = sorted(known, key=lambda letters: (-len(letters), letters))
    y = np.array([known[letters] for letters in texts])
    split = StratifiedGroupKFold(folds, shuffle=True, random_state=0).split(texts, y, groups(texts, k, part))
    test = np.isin(np.arange(len(texts)), list(split)[fold][1])
    return parts(texts, y, test, modality)


def parts(texts: Sequence[str], y: np.ndarray, test: np.ndarray, modality: str) -> Data:
    x, codes = np.asarray(modality_of(modality).read(list(texts))), np.unique(y, return_inverse=True)[1]
    return Data(x[~test], codes[~test], x[test], codes[test])


def peptides(fold: int, folds: int = 5) -> Data:
    """Antimicrobial peptides and other ones, without copies."""
    data = load_dataset(data_folder() / "peptides")
    assert data.y is not None
    known = {bytes(row).rstrip(b"\0").decode(): kind for row, kind in zip(data.x, data.y, strict=True)}
    return divided(known, "proteins", 3, 0.4, folds, fold)


def transcripts() -> Data:
    """Human messenger RNA and long RNA that codes for no protein, 2,000 each; a third is held out."""
    random, known = np.random.default_rng(0), {}
    for kind in ("coding_mRNA", "noncoding_RNA"):
        file = data_folder() / "transcripts" / f"Human_test_{kind}.fa.gz"
        records = gzip.decompress(file.read_bytes()).decode().upper().split(">")[1:]
        texts = ["".join(record.split("\n")[1:]) for record in records]
        texts = [text for text in texts if TRANSCRIPTS[0] <= len(text) <= TRANSCRIPTS[1] and set(text) <= set("ACGTN")]
        known |= {texts[i]: kind for i in random.permutation(len(texts))[:EACH]}
    return divided(known, "dna", 12, 0.3, 3)


def gene_families() -> Data:
    """Coding sequences of chimpanzee and dog, of seven families of proteins; a third is held out."""
    tables = [pd.read_table(data_folder() / "gene_families" / f"{kind}_data.txt") for kind in ("chimp", "dog")]
    rows = pd.concat(tables).dropna().drop_duplicates("sequence")
    rows = rows[rows["sequence"].str.fullmatch("[ACGTN]+") & rows["sequence"].str.len().between(*GENES)]
    return divided(dict(zip(rows["sequence"], rows["class"], strict=True)), "dna", 12, 0.3, 3)


def localization() -> Data:
    """Proteins and where in a cell they are, ten places (DeepLoc's test set, similar to no protein of the other); of
    long ones both ends."""
    texts, places, test = [], [], []
    for name, held in (("our_val", False), ("test", True)):
        for record in (data_folder() / "localization" / f"deeploc_{name}_set.fasta").read_text().split(">")[1:]:
            header, *lines = record.split("\n")
            text, half = "".join(lines), PROTEINS // 2
            texts.append(text if len(text) <= PROTEINS else text[:half] + text[-half:])
            places.append(header.split()[1].rpartition("-")[0])
            test.append(held)
    return parts(texts, np.array(places), np.array(test), "proteins")
