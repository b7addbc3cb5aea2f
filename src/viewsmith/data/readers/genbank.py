"""Reader of GenBank: whole records, or their features, as DNA or translated."""

import dataclasses
import io
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from viewsmith.core.errors import InputError, name_list, one_line, pluralize, require, warn
from viewsmith.data.options import DataOptions
from viewsmith.data.readers.sequences import alphabet_given, of_records, record_contents
from viewsmith.data.reading import FileContents, open_text, reading
from viewsmith.modalities.dna.letters import AMINO_ACIDS

# What features are called by, the first one that they have.
NAMES = ("locus_tag", "protein_id", "gene", "label", "standard_name")
TRANSLATED = ("cds", "mat_peptide", "sig_peptide")  # types, in lower case


@of_records(
    "genbank",
    *(".gb", ".gbk", ".gbff", ".genbank", ".gp", ".gb.gz", ".gbk.gz", ".gbff.gz"),
    help="records of GenBank, their sequences, or the features that `--feature` names",
    noun="a GenBank file",
    modality=("dna", "proteins"),
    options=("labels", "feature"),
    example="genome.gb --feature CDS --label product",
)
def read_genbank(path: Path, request: DataOptions) -> FileContents:
    """Sequences of records, or of features of them, as ASCII letters, uint8 (n, L), padded with 0; `label` and `groups`
    may name what features say: each of itself, and of a whole record the first one that has it."""
    require("Bio", "dna", "reading GenBank files")
    from Bio import BiopythonWarning, SeqIO

    with warnings.catch_warnings(record=True) as caught, reading(str(path), "a GenBank file"):
        warnings.simplefilter("always")
        with open_text(path, "give fewer records") as file:
            lines = io.TextIOWrapper(cast(BinaryIO, file), "utf-8", "replace")
            found = list(SeqIO.parse(lines, "genbank"))
    if faults := [
        each for each in caught if issubclass(each.category, BiopythonWarning)
    ]:  # of Biopython, often one for each record
        more = f", and {len(faults) - 1:,} more of them" if len(faults) > 1 else ""
        warn(f"{path}: {one_line(' '.join(str(faults[0].message).split()), 120)}{more}")
    if absent := [record.id for record in found if not record.seq.defined]:
        raise InputError(
            f"{path}: {pluralize(len(absent), 'record')} of {len(found):,} without letters, such as "
            f"{one_line(absent[0], 40)}: download them with their sequences (of NCBI: format 'GenBank (full)')"
        )
    wanted = sorted({request.or_fitted("label"), request.or_fitted("groups")} - {None})
    types = request.or_fitted("feature")
    if types is not None:
        chosen = list(_features(found, types, path))
        sources = [feature for record in found for feature in record.features if feature.type == "source"]
        _check_known(path, request, wanted, [*sources, *(feature for _, feature in chosen)], of_features=True)
        contents = record_contents(path, request, list(_samples(path, request, chosen, wanted)))
        return dataclasses.replace(contents, options={"feature": types})
    every = [feature for record in found for feature in record.features]
    _check_known(path, request, wanted, every)
    counts = Counter(feature.type for feature in every if feature.type != "source")
    listed = ", ".join(f"{kind} ({number:,})" for kind, number in counts.most_common(6))
    if alphabet_given(request) is AMINO_ACIDS and not all(map(_is_protein, found)):
        raise InputError(f"{path} has DNA, expected proteins: take its coding features, translated (--feature CDS)")
    if len(found) == 1 and request.schema is None and counts:
        raise InputError(
            f"{path} has one record, expected at least 2 for training: take its features as samples (--feature TYPE), "
            f"it has {listed}"
        )
    records = [(" ".join([r.id, r.description, *_said(r.features, wanted)]), str(r.seq)) for r in found]
    return record_contents(path, request, records)


def _is_protein(record: Any) -> bool:
    return record.annotations.get("molecule_type", "").lower() == "protein"


def _check_known(
    path: Path, request: DataOptions, wanted: Iterable[str], features: Sequence[Any], *, of_features: bool = False
) -> None:
    """Raise InputError for a given qualifier that no feature has."""
    known = {key for feature in features for key in feature.qualifiers} | ({"type", "strand"} if of_features else set())
    for key in wanted:
        given = key in (request.label, request.groups)
        if given and not (key in known or key.isdecimal() or request.labels is not None or request.few_labels):
            raise InputError(f"{path}: no feature has /{one_line(key, 40)}=, but {name_list(sorted(known), 12)}")


def _said(features: Iterable[Any], wanted: Iterable[str]) -> Iterator[str]:
    """``KEY=VALUE`` of qualifiers of features, such as organism, gene and product, as headers of FASTA have them."""
    for key in wanted:
        if value := next((feature.qualifiers[key][0] for feature in features if key in feature.qualifiers), ""):
            yield f"{key}={'_'.join(value.split())}"


def _features(found: Iterable[Any], types: Sequence[str], path: Path) -> Iterator[tuple[Any, Any]]:
    """Records with their features of the types, upper or lower case, in the order of the file."""
    given = {kind.lower() for kind in types}
    if not given:
        raise InputError("feature is empty, expected types of features, such as CDS or CDS,tRNA")
    known = {feature.type for record in found for feature in record.features}
    if unknown := sorted(given - {kind.lower() for kind in known}):
        has = f"but {name_list(sorted(known), 12)}" if known else "it has none at all: download them with the sequence"
        raise InputError(f"{path}: no feature is of the type {name_list(unknown)}, {has}")
    return ((record, feature) for record in found for feature in record.features if feature.type.lower() in given)


def _samples(
    path: Path, request: DataOptions, chosen: Sequence[tuple[Any, Any]], wanted: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Headers and letters of features, read from their strand and joined; what cannot be read is left out, and said."""
    proteins, left_out = alphabet_given(request) is AMINO_ACIDS, 0
    for record, feature in chosen:
        if proteins and not _is_protein(record) and feature.type.lower() not in TRANSLATED:
            raise InputError(
                f"{path}: features of the type {one_line(feature.type, 40)} have no proteins: give --feature CDS"
            )
        letters = _letters(record, feature, proteins)
        left_out += not letters
        if letters:
            place = f"{record.id}:{feature.location.start}-{feature.location.end}"
            name = next((feature.qualifiers[key][0] for key in NAMES if key in feature.qualifiers), place)
            said = [f"type={feature.type}"]
            if "strand" in wanted:
                said.append(f"strand={ {1: '+', -1: '-'}.get(feature.location.strand, '') }")
            whole = [each for each in record.features if each.type == "source"]
            said += _said([feature, *whole], [key for key in wanted if key not in ("type", "strand")])
            yield " ".join(["_".join(name.split()), *said]), letters
    if left_out:
        why = "pseudogenes, stops inside, or parts" if proteins else "parts"
        warn(
            f"{path}: {pluralize(left_out, 'feature')} of {len(chosen):,} left out: {why} in other records or beyond "
            "the end of theirs"
        )


def _letters(record: Any, feature: Any, proteins: bool) -> str:
    """The letters of a feature; empty if it is in another record or has no protein."""
    try:
        if not proteins or _is_protein(record):
            # Biopython ends those beyond the record at its end.
            return "" if feature.location.end > len(record.seq) else str(feature.extract(record.seq))
        if found := feature.qualifiers.get("translation"):
            return "".join(found[0].split())
        if feature.qualifiers.keys() & {"pseudo", "pseudogene"}:
            return ""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of codons that are cut
            letters = str(feature.translate(record.seq, cds=False)).removesuffix("*")
    except (ValueError, TypeError, LookupError):  # of Biopython: places in other records, or unknown ones
        return ""
    return "" if "*" in letters else letters
