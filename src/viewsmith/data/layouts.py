"""Tables of other layouts: rows that are genes, proteins, moments or events, and the line of code or options that makes
samples of them."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

from viewsmith.core.errors import InputError, one_line, quoted, warn
from viewsmith.data.places import TEXT_TABLES, extension_of, open_packed
from viewsmith.data.text_lines import lines_of_text
from viewsmith.data.unread import Format, command, named, quoted_path, sentence

_TRANSPOSED = {
    ".csv": "import pandas as pd; pd.read_csv({path}, index_col='{key}').T.to_csv({out})",
    ".tsv": "import pandas as pd; pd.read_csv({path}, sep='\\t', index_col='{key}').T.to_csv({out})",
    # Its header may be a comment, of which the name of the column is without its mark.
    ".txt": "import pandas as pd; pd.read_csv({path}, sep='\\t', index_col=0).T.to_csv({out})",
    ".parquet": "import pandas as pd; pd.read_parquet({path}).set_index('{key}').T.to_csv({out})",
    ".h5ad": "import anndata; anndata.read_h5ad({path}).T.write_h5ad({out})",
}
MOST_DROPPED = 12  # columns that a line leaves out by their names
DETECTION = re.compile("[Dd]etection.?[Pp]")  # in names of columns of p-values, one beside each sample (Illumina)


def transposing(
    source_name: str,
    key: str = "",
    counts: bool = True,
    read: str | None = None,
    others: Sequence[str] = (),
    repeated: bool = False,
) -> str:
    """The line that exchanges rows and columns of a file of counts, or other values, whose column `key` has the names
    of its rows, some `repeated`, and `others` are about these; with code that reads it, if that is known."""
    path = Path(source_name)
    suffix = "." + extension_of(path).lower().lstrip(".").split(".")[0]
    code, detected = _TRANSPOSED.get(suffix), len(others)
    others = [name for name in others if not DETECTION.search(name)]
    kept = f".filter(regex='^(?!.*{DETECTION.pattern})')" if len(others) < detected else ""
    plain = all(quoted_path(name) == f"'{name}'" and not {*"{}"} & {*name} for name in (key, *others))
    if code is None or not plain or len(others) > MOST_DROPPED:
        return "exchange rows and columns (.T of a DataFrame or an AnnData)"
    if suffix == ".h5ad":
        return command(path, Format("", code, suffix="_cells.h5ad"))
    if read is not None:
        code = f"import pandas as pd; {read}.set_index('{{key}}').T.to_csv({{out}})"
    dropped = f".drop(columns={others})" if others else ""
    joined = f".groupby(level=0).{'sum' if counts else 'mean'}()" * repeated
    code = code.replace(".T.", f"{dropped}{kept}{joined}.T.")
    return command(path, Format("", code, suffix="_cells.csv", options=" --normalization log" * counts), key)


_OF_GENES = {"Geneid", "Chr", "Start", "End", "Strand", "Length"}  # columns of featureCounts
_TESTED = ({"log2foldchange", "logfc"}, {"padj", "fdr", "adj.p.val"})  # of DESeq2, edgeR and limma


def refuse_features(path: Path, columns: Collection[str]) -> None:
    """Raise InputError for a table of MaxQuant or featureCounts, whose rows are proteins or genes, beside columns that
    are no samples; warn of one of tests of genes."""
    if {*columns} >= _OF_GENES:
        raise InputError(sentence(path, named("featurecounts")))
    if all({str(name).lower() for name in columns} & names for names in _TESTED):
        warn(f"{path}: rows are genes with the results of a test, and no samples: give the table of counts")
    # Dots are blanks, as R writes names. Totals of channels stand beside those of each experiment.
    names = {name.replace(".", " ") for name in map(str, columns)}
    kinds = ("LFQ.intensity", "Reporter.intensity.corrected.[0-9]+", "Reporter.intensity.corrected", "Intensity")
    found = [kind for kind in kinds if any(re.match(rf"{kind} .", name) for name in names)]
    if "Protein IDs" in names and found:
        raise InputError(sentence(path, named("maxquant"), found[0]))


READ = "read"  # in `attrs` of a table of text with a header: the code that reads it, of ``{path}``
_LONG = Format(  # a column for each name; numbers that are not there are 0, other values missing
    "",
    "import pandas as pd; d = READ; d['{key}'] = pd.to_numeric(d['{key}']COMMAS, errors='coerce'); "
    "d.pivot_table('{key}', 'SAMPLE', 'NAME')FILLED.to_csv({out})",
    suffix="_wide.csv",
)
_NAMES = re.compile(
    r"(?i)(.*[\W_])?(gene|target|protein|peptide|metabolite|compound|analyte|marker|species|taxon|otu|asv|feature|variable|"
    r"parameter|measure(ment)?|item|question|assay|test)([\W_]*(id|name|symbol|code))?"
)
_VALUES = re.compile(
    r"(?i)(.*[\W_])?(value|counts?|reads|abundance|intensity|expression|level|conc(entration)?|amount|c[tq]|[tf]pkm|tpm|"
    r"result|score|signal|area|response|answer|cover|number)"
)
REPLICATES = 4  # rows at most, in the mean, of one sample and name


def warn_long(frame: Any, source_name: str) -> bool:
    """Warn of a table with a row for each value, of a sample and a name of what is measured; whether so."""
    ids = [name for name in map(str, frame.columns) if frame[name].dtype.kind not in "fbM"]
    values = [name for name in map(str, frame.columns) if _VALUES.fullmatch(name) and _numeric(frame[name].dropna())]
    kinds = [name for name in ids if _NAMES.fullmatch(name) and frame[name].nunique() > 2]
    for name in kinds if values else ():
        for sample in sorted({*ids} - {name, *values}, key=lambda other: -frame[other].nunique()):
            pairs = frame[[sample, name]].dropna().drop_duplicates()
            each = pairs.groupby(sample)[name].size()
            few = 2 * each.median() < max(6, frame[name].nunique())
            if few or len(each) < 2 or REPLICATES * len(pairs) < frame[name].notna().sum():
                continue
            way, read = "make a column of each (pivot_table of a DataFrame)", frame.attrs.get(READ)
            if read is not None and all(quoted_path(each) == f"'{each}'" for each in (sample, name, values[0])):
                filled = ".fillna(0)" if frame[values[0]].dtype.kind in "iu" else ""
                code = _LONG.code.replace("SAMPLE", sample).replace("NAME", name).replace("FILLED", filled)
                commas = ".replace(',', '.', regex=True)" if "decimal" in read else ""  # in a column with text, too
                form = replace(_LONG, code=code.replace("COMMAS", commas).replace("READ", read))
                way = command(Path(source_name), form, values[0])
            warn(f"{source_name}: rows are values of {name}, several of each {sample}, and no samples: {way}")
            return True
    return False


_WELLS = Format(
    "",
    "import pandas as pd; READ.filter(regex='^[A-P][0-9]+$').T.to_csv({out}, index_label='well')",
    suffix="_wells.csv",
    options=" --modality series --drop well",
)
FEWEST_WELLS = 8  # columns
SMOOTH = 0.5  # of the variance: differences of neighbors; 2 of rows in any order


def warn_wells(frame: Any, source_name: str) -> bool:
    """Warn of a table of a plate reader with a column for each well and a row for each moment; whether so."""
    wells = [name for name in map(str, frame.columns) if re.fullmatch(r"[A-P](0?[1-9]|1\d|2[0-4])", name)]
    lines = sorted({ord(name[0]) for name in wells})
    if len(wells) < max(FEWEST_WELLS, 0.8 * frame.shape[1]) or len(frame) < FEWEST_MOMENTS:
        return False
    # Bands (B1 to B12) and questions (A1 to A5, C1 to C5) have such names, too; what grows is smooth.
    x = frame[wells].select_dtypes("number")
    if len(lines) < 2 or lines[-1] - lines[0] >= len(lines) or not (x.diff().var() < SMOOTH * x.var()).mean() > 0.5:
        return False
    way, read = "exchange rows and columns (.T of a DataFrame)", frame.attrs.get(READ)
    if read is not None:
        way = command(Path(source_name), replace(_WELLS, code=_WELLS.code.replace("READ", read)))
    warn(f"{source_name}: columns are wells of a plate, by their names, and rows moments, but samples are rows: {way}")
    return True


_TAXA = Format(  # also below lines of comments, without what is said of the taxa
    "",
    "import pandas as pd; pd.read_csv({path}, sep={key}, index_col=0).select_dtypes('number').T"
    ".to_csv({out}, index_label='sample')",
    suffix="_samples.csv",
    options=" --normalization log",
)
_OF_TAXA = re.compile(r"(?i)#?\W*(otu|asv|feature)[\W_]*ids?|#?taxonomy|lineage|confidence")
_LINEAGE = re.compile(r"(.*;\s*)?([kdpcofgs]|D_\d)__\w*.*")
MOST_COMMENTS = 20  # lines above the names of the columns


def warn_taxa(frame: Any, source_name: str) -> bool:
    """Warn of a table of counts whose rows are taxa (OTU, ASV), by the name of a column or lineages; whether so."""
    named = [str(name) for name in frame.columns if _OF_TAXA.fullmatch(str(name))]
    samples = [name for name in frame.columns if str(name) not in named]
    some = frame[samples].head(100)
    lineages = [name for name in named if frame[name].map(str).map(_LINEAGE.fullmatch).notna().mean() > 0.5]
    if not (named and named[0] == str(frame.columns[0])) and not lineages:
        return False
    if len(samples) < 3 or not all(some[name].dtype.kind in "iuf" for name in samples):
        return False
    path = Path(source_name)
    way = "exchange rows and columns (.T of a DataFrame)"
    if (text := lines_of_text(path)) is not None:
        with open_packed(path) as file:
            heads = [file.readline().decode("utf-8", "replace") for _ in range(MOST_COMMENTS)]
        above = next((i for i, line in enumerate(heads) if len(text.split(line)) == frame.shape[1]), 0)
        key = f"{text.separator!r}" + f", skiprows={above}" * bool(above)
        way = command(path, _TAXA, key)
    warn(f"{source_name}: rows are taxa, by {one_line((lineages or named)[0], 40)}, and columns samples: {way}")
    return True


_OF_PEAK = r"(?i)(row|average|mean|median)?[\W_]*({})[\W_]*(med(ian)?|mean|average)?"
_MASS = re.compile(_OF_PEAK.format(r"m[\W_]?z"))
_TIME = re.compile(
    _OF_PEAK.format(r"r[\W_]?t|retention[\W_]?time") + r"[\W_]*((in )?(m(in(utes?)?)?|s(ec(onds?)?)?)\W*)?"
)
_ABOUT_PEAKS = re.compile(  # other columns of numbers about a peak, of MZmine, XCMS, CAMERA and MS-DIAL
    r"(?i)(mz|rt|row\W|npeaks|isotope|adduct|pcgroup|charge|ccs|mobility|alignment.id|fill|reference|(feature|peak|compound).?id"
    r"|(correlation|annotation).(group|network)|s.n.average|.*score$|unnamed).*"
)
FEWEST_PEAKED, ONE_SCALE = 4, 1e4  # samples in columns, and the most that the mean of one is above that of another
LOGARITHMS = 50  # at most, of intensities


def warn_peaks(frame: Any, source_name: str) -> bool:
    """Warn of a table of LC-MS whose rows are peaks, by columns of mass and retention time; whether so."""
    names = [*map(str, frame.columns)]
    mass, time = (next(filter(kind.fullmatch, names), None) for kind in (_MASS, _TIME))
    if mass is None or time is None or not _numeric(frame[mass]) or not _numeric(frame[time]):
        return False
    most = frame["npeaks"] if "npeaks" in names else -1  # of XCMS, beside numbers of peaks for each class of samples
    places = [
        i
        for i, name in enumerate(names)
        if name not in (mass, time) and not _ABOUT_PEAKS.fullmatch(name) and frame.iloc[:, i].dtype.kind in "iuf"
        if not (frame.iloc[:, i].fillna(0) <= most).all() and frame.iloc[:, i].notna().any()
    ]
    means = (x := frame.iloc[:, places]).mean().abs()
    if len(places) < FEWEST_PEAKED or len(x) < 2 or means.max() > ONE_SCALE * means[means > 0].min():
        return False
    way, read = "exchange rows and columns (.T of a DataFrame)", frame.attrs.get(READ)
    if read is not None and places[-1] - places[0] < len(places):
        scaled = "np.log2(x.where(x > 0))" if (x.fillna(0) >= 0).all(None) and means.max() > LOGARITHMS else "x"
        code = (  # intensities of zero are missing
            f"import numpy as np, pandas as pd; d = {read}; x = d.iloc[:, {places[0]}:{places[-1] + 1}]; "
            f"x.index = d.iloc[:, {names.index(mass)}].round(4).map(str) + '_' + "
            f"d.iloc[:, {names.index(time)}].round(2).map(str); x = {scaled}.T; "
            "x[x.columns[x.notna().mean() > .7]].to_csv({out}, index_label='sample')"
        )
        way = command(Path(source_name), Format("", code, suffix="_samples.csv", options=" --drop sample"))
    said = f"{source_name}: rows are peaks, by {one_line(mass, 40)} and {one_line(time, 40)}, and columns samples"
    warn(f"{said}, but samples are rows: {way}")
    return True


_PLATES = {12: "ABCDEFGH", 24: "ABCDEFGHIJKLMNOP"}  # lines of wells, by their number in each


def warn_plates(frame: Any, source_name: str) -> bool:
    """Warn of values as they lie on plates, a line of wells for each row; whether so."""
    lines = "".join(each for each in frame.iloc[:, 0].map(str).str.strip() if re.fullmatch("[A-P]", each))
    rest = frame.select_dtypes("number").dropna(axis=1, how="all").shape[1]
    for wells, of_one in _PLATES.items():
        if wells <= rest <= wells + 2 and lines and lines == of_one * (len(lines) // len(of_one)):
            said = f"{source_name}: rows are lines of wells, as they lie on a plate, and are taken as samples"
            warn(f"{said}: give a table with a row for each well, and a column for each of its values")
            return True
    return False


_FORMS = Format(  # the rows of the form with the most values, with what is said once of each record
    "",
    "import pandas as pd; d = READ; k = d['{key}'].fillna(''); "
    "f = d.notna().sum(axis=1).groupby(k).sum().drop('', errors='ignore').idxmax(); "
    "p = lambda v: d[k == v].dropna(axis=1, how='all').filter(regex='^(?!redcap_)'); "
    "a, b, i = p(f), p(''), d.columns[0]; "
    "(a.merge(b[[i, *b.columns.difference(a.columns)]], on=i) if len(b) else a).to_csv({out}, index=False)",
    suffix="_rows.csv",
)


def warn_forms(frame: Any, source_name: str) -> bool:
    """Warn of an export of REDCap whose rows are of several forms or events, with different columns; whether so."""
    for name in ("redcap_repeat_instrument", "redcap_event_name"):
        if name not in frame.columns or frame[name].fillna("").nunique() < 2:
            continue
        way, read, record = "give those of one of them", frame.attrs.get(READ), str(frame.columns[0])
        if read is not None and quoted_path(record) == f"'{record}'":
            form = replace(_FORMS, code=_FORMS.code.replace("READ", read))
            way = command(Path(source_name), replace(form, options=f" --groups {quoted(record)} --split-groups"), name)
        warn(f"{source_name}: rows are of several forms, by {name}, and each has the columns of its own alone: {way}")
        return True
    return False


_TIMES = (
    *("time", "date", "datetime", "timestamp", "t", "day", "month", "year", "hour", "second", "seconds"),
    *("sample", "step"),
)
MOST_PARTS = 4  # columns, of which two may tell recordings together
FEWEST_MOMENTS, MOST_COLUMNS = 10, 200  # of a recording in the mean, and of a table in which they are sought


def moments_of(frame: Any) -> tuple[str, str] | None:
    """The columns of time and recording of a table with a row for each moment: blocks of rows have one value of the
    one, and numbers or dates of the other rise in every block and begin anew; None for other tables."""
    import numpy as np
    import pandas as pd

    if frame.shape[1] > MOST_COLUMNS or len(frame) < 2 * FEWEST_MOMENTS:
        return None
    for name in frame.columns:
        column = frame[name]
        if column.dtype.kind in "fbM" or column.isna().any():
            continue
        begins = (column != column.shift()).to_numpy(bool, na_value=True)  # the first row of a type with gaps has none
        if not 2 <= begins.sum() <= len(frame) / FEWEST_MOMENTS or column.nunique() < begins.sum():
            continue
        inside, first = ~begins[1:], int(begins[1:].argmax()) + 1  # rows of the first block
        for time in frame.columns:
            moments = frame[time]
            if time == name or moments.dtype.kind not in "iufM":
                continue
            some = moments.iloc[:first]  # in which most columns do not rise
            if not some.is_monotonic_increasing or not some.is_unique or moments.isna().any():
                continue
            whole = moments.astype("int64") if moments.dtype.kind == "M" else moments
            steps = np.diff(whole.to_numpy(np.float64))
            if (steps[inside] > 0).all() and (steps[~inside] < 0).any():
                return str(time), str(name)
    for name in frame.columns:  # which may name channels, that have the same moments
        if not _CHANNEL.fullmatch(str(name)) or not 2 <= frame[name].nunique() <= MOST_CHANNELS:
            continue
        if found := moments_of(frame[frame[name] == frame[name].iloc[0]].drop(columns=name)):
            return found
    named = names_of_times(map(str, frame.columns))
    kinds = [each for each in frame.columns if each not in named and frame[each].dtype.kind not in "fbM"]
    kinds = [each for each in kinds[:MOST_PARTS] if 1 < frame[each].nunique() <= len(frame) / FEWEST_MOMENTS]
    for one, two in combinations(kinds if named else (), 2):  # which only together tell recordings
        joined = frame[one].map(str) + "," + frame[two].map(str)
        if found := moments_of(pd.DataFrame({f"{one},{two}": joined, named[0]: frame[named[0]]})):
            return found
    return None


def warn_rows(frame: Any, roles: Mapping[str, str], source_name: str) -> None:
    """Warn of a table whose rows are moments of recordings, events of cases, or several of a subject, and which is
    read as one of samples."""
    import pandas as pd

    dates = [name for name, role in roles.items() if role == "date"]
    text = [name for name in dates if frame[name].dtype.kind not in "iufM"]
    known = {name: pd.to_datetime(frame[name], format="ISO8601", errors="coerce", utc=True) for name in text}
    dated = frame.drop(columns=text).join(pd.DataFrame(known))[[*frame.columns]] if text else frame
    if (found := moments_of(dated)) is not None:
        time, name = (quoted(one_line(each, 40)) for each in found)
        warn(
            f"{source_name}: rows are taken as samples, but they may be moments of recordings, by {found[1]} and "
            f"{found[0]}: --modality series --time {time} --id {name} takes recordings as samples"
        )
        return
    if (case := _case_of(frame)) is None:
        for name in dates:
            days = known[name] if name in known else pd.to_datetime(frame[name], errors="coerce", utc=True)
            if (points := _points_of_clock(days)) is not None:
                time = quoted(one_line(name, 40))
                warn(
                    f"{source_name}: rows are taken as samples, but they may be moments of one recording, by {name}: "
                    f"--modality series --time {time} --length {points} takes {points} rows in turn as samples"
                )
                return
        return
    said = f"{source_name}: {one_line(case, 40)} has {frame[case].nunique():,} values in {len(frame):,} rows"
    kinds = [name for name, role in roles.items() if role == "category" and _ACTIVITY.fullmatch(name)]
    if dates and kinds:
        time = max(dates, key=lambda name: len(frame[[case, name]].drop_duplicates()))
        warn(
            f"{said}: rows are taken as samples, but they may be events of cases, which numbers of "
            f"{one_line(kinds[0], 40)} and of what follows it tell: {_counting(source_name, case, kinds[0], time)}"
        )
        return
    name, left_out = quoted(one_line(case, 40)), roles[case] in ("identifier", "drop")
    leave = "" if left_out else f", --drop {name} leaves it out"
    warn(
        f"{said}, and is {'left out' if left_out else 'a feature'}: --groups {name} --split-groups keeps the rows of "
        f"each on one side of the split{leave}"
    )


FEWEST_OF_CLOCK = 200  # moments of one recording
EVEN = 0.7  # of the steps, at least, as of business days, that are equal


def _points_of_clock(moments: Any) -> int | None:
    """How many moments, in order and at mostly equal steps, a sample may have: those of a day, or a month of days;
    None for others."""
    import numpy as np

    if len(moments) < FEWEST_OF_CLOCK or moments.isna().any() or not moments.is_monotonic_increasing:
        return None
    steps = np.diff(moments.to_numpy("datetime64[s]").astype(np.int64))
    step = int(np.median(steps))
    if step <= 0 or (steps == step).mean() < EVEN or (steps == 0).any():
        return None
    a_day = 86_400 // step
    return a_day if 8 <= a_day <= len(moments) // FEWEST_OF_DAYS else 30


FEWEST_OF_DAYS = 10  # days, from which on each may be a sample


_CASE = re.compile(
    r"(?i)(.*[\W_])?(case|session|trace|visitor|user|customer|client|subject|patient|person|participant|respondent|"
    r"household|donor|animal|mouse|volunteer|individual)([\W_]*(id|no|nr|num|number|name|concept.name))?"
)
_ACTIVITY = re.compile(r"(?i)(.*[\W_])?(activity|event|action|task|page)([\W_]?(name|type))?|concept.name")
_KINDS = ("case", "session", "visitor", "user", "customer", "client", "person", "household", "animal", "individual")
LEAST_EVENTS = 2  # of a case in the mean
FEWEST_CASES = 10  # of unequal numbers of rows, where a name may be that of a kind or number, too


def _case_of(frame: Any) -> str | None:
    """The column of a table that is named as cases or subjects are, and tells them in several rows each; numbers such
    as income per household are none, nor few kinds such as of an animal, unless rows are as many of each."""
    for name in frame.columns:
        found, kind = _CASE.fullmatch(str(name)), frame[name].dtype.kind
        if found is None or kind in "fbM" or (kind in "iu" and found[1] and not found[3]):
            continue
        different = frame[name].nunique()
        if found[2].lower() == "subject" and kind not in "iu" and not frame[name].astype(str).str.contains(r"\d").any():
            continue  # of books or lessons
        kinds = different < FEWEST_CASES and found[2].lower() in _KINDS and not found[3]
        if kinds and frame[name].value_counts().nunique() > 1:
            continue
        if 2 < different <= len(frame) / LEAST_EVENTS:
            return str(name)
    return None


def _counting(source_name: str, case: str, activity: str, time: str) -> str:
    """The line that writes a table of cases: how often values of a column are in each, and follow one another."""
    path, names = Path(source_name), (case, activity, time)
    text = None if path.suffix == ".parquet" else lines_of_text(path)
    if any(quoted_path(name) != f"'{name}'" for name in names) or (text is None and path.suffix != ".parquet"):
        return "count them for each case (pandas.crosstab)"
    read = "parquet({path})" if text is None else f"csv({{path}}, sep={text.separator!r})"
    case, activity, time = (name.replace("{", "{{").replace("}", "}}") for name in names)
    code = (
        f"import pandas as pd; d = pd.read_{read}; w = pd.to_datetime(d['{time}'], utc=True, format='mixed'); "
        f"d = d.iloc[w.argsort(kind='stable')]; c, a = d['{case}'], d['{activity}'].astype(str); "
        "p = a + ' > ' + a.groupby(c).shift(-1); pd.crosstab(c, a).join(pd.crosstab(c, p)).fillna(0)"
        ".to_csv({out}, index_label='case')"
    )
    return command(path, Format("", code, suffix="_cases.csv"))


_CHANNEL = re.compile(
    r"(?i)(.*[\W_])?((pass)?band|filter|fid|channel|sensor|electrode|lead|signal|variable|param(eter)?|feature|measure"
    r"(ment)?|metric|item|analyte|test|axis|quantity)([\W_]?(id|no|nr|num|name|code))?"
)
MOST_CHANNELS = 64
MOST_REPEATED = 0.05  # of the rows of a channel, that have a moment of another one
TOGETHER = 0.3  # of the rows, at least, that have the moment of another channel, if channels are at the same moments
#: Of whole numbers at moments of their own: values of a sensor are no numbers of sensors.
_NUMBERED = re.compile(r"(?i)(.*[\W_])?((pass)?band|filter|fid|channel|\w*[\W_]?(id|no|nr|num|name|code))")
SPANNED = 0.5  # of the time of a recording, by most of its channels: phases of a test are one after the other


def channel_column(frame: Any, names: Sequence[str], time: str | None, recording: str | None) -> str | None:
    """Which of some columns names the channel of each row, of a table with a row for each channel at each moment: it is
    named so, or tells rows of a recording at one moment apart; and most recordings have several of its values. Channels
    with moments of their own have them all along, and their numbers a name of numbers."""
    for name in names if time is not None else ():
        column, named = frame[name], _CHANNEL.fullmatch(str(name)) is not None
        if (column.dtype.kind in "biufM" and not (named and column.dtype.kind in "iu")) or column.isna().any():
            continue
        if not 2 <= column.nunique() <= MOST_CHANNELS:
            continue
        moment = [each for each in (recording, time) if each is not None]
        repeated, left = (frame.duplicated(keys).mean() for keys in (moment, [*moment, name]))
        several = column.nunique() if recording is None else frame.groupby(recording)[name].nunique().median()
        if left > MOST_REPEATED or several < 2 or not (named or (recording is not None and repeated > 0.5)):
            continue
        numbers = column.dtype.kind in "iu" and _NUMBERED.fullmatch(str(name)) is None
        if repeated >= TOGETHER or not (numbers or _spanned(frame, str(name), str(time), recording) < SPANNED):
            return name
    return None


def _spanned(frame: Any, name: str, time: str, recording: str | None) -> float:
    """The part of the time of a recording from the first to the last row of one value of a column, in the median."""
    import pandas as pd

    at = pd.Series(pd.factorize(frame[time], sort=True)[0], frame.index)
    of = pd.Series(0, frame.index) if recording is None else frame[recording]
    spans = (at.groupby(keys).agg(["min", "max"]).diff(axis=1)["max"] for keys in ([of, frame[name]], [of]))
    inner, whole = spans
    return float((inner / whole.reindex(inner.index.get_level_values(0)).to_numpy()).median())


MOST_KINDS, LONG = 40, 50  # of labels of moments, and how many rows each stays in the mean


def like_labels(frame: Any, columns: Sequence[str]) -> str | None:
    """The last of some columns of numbers that are probably labels of moments: few whole numbers, each for long."""
    import numpy as np

    for name in columns[::-1] if len(columns) > 1 else ():
        values = frame[name].to_numpy(np.float64)
        changes = int((np.diff(values) != 0).sum())
        few = len(np.unique(values[:: max(1, len(values) // 10_000)])) <= MOST_KINDS
        if 0 < changes <= len(values) / LONG and few and (values == np.round(values)).all():
            return name
    return None


def warn_like_labels(frame: Any, channels: Sequence[str], request: Any, source_name: str) -> bool:
    """Warn of a channel that is probably a label of moments, for a new run without one; whether there is one."""
    new = request.schema is None and request.label is None and request.channels is None
    if name := like_labels(frame, channels) if new else None:
        column = quoted(one_line(name, 40))
        warn(
            f"{source_name}: column {one_line(name, 40)} has few values that stay for long, as labels do, and is "
            f"taken as a channel: --label {column} makes it the label, --drop {column} leaves it out"
        )
    return bool(name)


def names_of_times(names: Iterable[str]) -> list[str]:
    """The columns that are named as times are."""
    return [name for name in names if name.lower().removesuffix("_s").removesuffix("_ms") in _TIMES]


def refuse_table_of_recordings(path: Path, frame: Any) -> None:
    """Raise InputError for a table in long format that was given as recordings without its columns."""
    names = list(map(str, frame.columns))
    times = names_of_times(names)
    if not times:
        if (found := moments_of(frame)) is not None:
            raise InputError(
                f"{path} is a table in long format, a row for each moment: say which columns are time and recording "
                f"(--time {quoted(found[0])} --id {quoted(found[1])})"
            )
        return
    _refuse_split_times(path, frame, names)
    text = [name for name in names if frame[name].dtype.kind not in "biuf"]
    ids = [name for name in names if name not in times and 1 < frame[name].nunique() <= len(frame) / LEAST_EVENTS]
    ids = [name for name in ids if name not in text or not _numeric(frame[name])]
    named = [name for name in ids if re.search("(?i)id$|user|subject|patient|person|session|trial|record|series", name)]
    ids = named or [name for name in ids if name in text]
    flags = f"--time {quoted(one_line(times[0], 40))}" + (f" --id {quoted(one_line(ids[0], 40))}" if ids else "")
    raise InputError(
        f"{path} is a table in long format, a row for each moment ({one_line(times[0], 40)}): say which columns are "
        f"time and recording ({flags}); if each row is a recording, leave the column out (--drop {quoted(times[0])})"
    )


_JOINED = Format(
    "",
    "import pandas as pd; d = pd.read_csv({path}, sep=SEP); d.insert(0, 'moment', pd.to_datetime(d.pop('DATE')"
    ".astype(str) + ' ' + d.pop('CLOCK').astype(str), dayfirst={key})); d.to_csv({out}, index=False)",
    suffix="_moments.csv",
    options=" --modality series --time moment",
)


def _refuse_split_times(path: Path, frame: Any, names: Sequence[str]) -> None:
    """Raise InputError for a table with a column of days and one of times of day, with the line that joins them."""
    forms = (r"\s*\d?\d:\d\d(:\d\d(\.\d+)?)?\s*", r"\s*\d+[-/.]\d+[-/.]\d+\s*")
    clock, date = (next((n for n in names if frame[n].astype(str).str.fullmatch(f).all()), None) for f in forms)
    text = lines_of_text(path) if clock and date and extension_of(path).lower() in TEXT_TABLES else None
    if clock is None or date is None or frame[date].is_unique:
        return
    way = "join them to one (pandas.to_datetime), and give it as --time"
    if text is not None and quoted_path(clock) == f"'{clock}'" and quoted_path(date) == f"'{date}'":
        code = _JOINED.code.replace("SEP", repr(text.separator)).replace("DATE", date).replace("CLOCK", clock)
        way = command(path, replace(_JOINED, code=code), str(not frame[date].astype(str).str.match(r"\s*\d{4}").any()))
    raise InputError(f"{path} has the moments of its rows in two columns, {date} and {clock}: {way}")


def _numeric(column: Any) -> bool:
    """Whether most cells of a text column are numbers."""
    from viewsmith.modalities import frames

    return bool(frames.to_numbers(column).notna().mean() > 0.5)


_MATRICES = Format(  # at the points of the first axis, with the name of each folder, and its part before a number
    "",
    "import numpy as np, pandas as pd, pathlib, re; r = lambda f: pd.read_csv(f, header=None, sep=SEP)"
    ".to_numpy(float); f = sorted(pathlib.Path({path}).rglob('MATRIX')); "
    "b = np.sort(r(f[0].with_name('AXIS')).ravel()); t = []; "
    "[t.append(pd.DataFrame([np.interp(b, np.sort(a), v[np.argsort(a)]) for v in (x if x.shape[1] == len(a) else "
    "x.T)], columns=b).assign(folder=n, kind=(re.match('[^0-9]*[^0-9_ .]', n) or [n])[0])) for q in f "
    "for n, x, a in [(q.parent.name, r(q), r(q.with_name('AXIS')).ravel())]]; pd.concat(t).to_csv({out}, index=False)",
    suffix="_spectra.csv",
    options=" --modality spectra --label kind --groups folder",
)


def refuse_matrices(folder: Path, axis_names: re.Pattern[str]) -> None:
    """Raise InputError for folders that have a matrix of spectra and a file of their axis each, with the line that
    makes one table of them."""
    folders = [place for place in sorted(folder.rglob("*")) if place.is_dir()]
    tables = [{file.name: file for file in place.iterdir() if file.suffix in (".csv", ".txt")} for place in folders]
    tables = [found for found in tables if found]
    shared = set.intersection(*map(set, tables)) if len(tables) > 1 else set()
    for axis in sorted(name for name in shared if axis_names.fullmatch(Path(name).stem)):
        for matrix in sorted(shared - {axis}):
            values, along = _matrix(tables[0][matrix]), _matrix(tables[0][axis])
            if values is None or along is None or 1 not in along[1] or max(along[1]) not in values[1]:
                continue
            if min(values[1]) < 2 or any(quoted_path(name) != f"'{name}'" for name in (axis, matrix)):
                continue
            code = _MATRICES.code.replace("MATRIX", matrix).replace("AXIS", axis).replace("SEP", repr(values[0]))
            raise InputError(
                f"{folder}: its folders have several spectra in {matrix} at the points of {axis} each; one table of "
                f"them: {command(folder, replace(_MATRICES, code=code))}"
            )


def _matrix(path: Path) -> tuple[str, tuple[int, int]] | None:
    """The separator and shape of a text of numbers alone; None for another."""
    import numpy as np

    lines = path.read_bytes().decode("utf-8", "replace").splitlines()
    mark = next((each for each in (",", ";", "\t") if lines and each in lines[0]), ",")
    try:
        x = np.loadtxt(lines, delimiter=mark, ndmin=2)
    except ValueError:
        return None
    return mark, (x.shape[0], x.shape[1])
