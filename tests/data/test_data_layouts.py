"""Tables whose rows are no samples: events of cases, moments with text as dates, several rows of a subject."""

import numpy as np
import pandas as pd
import pytest
from advised_lines import advised

from refusals import refusal
from viewsmith.data import load_dataset

rng = np.random.default_rng(0)
CASES = 12


@pytest.fixture
def log():
    """Events of cases: their activities, in order of time, cases mixed."""
    rows = [
        {"case:concept:name": f"c{i}", "concept:name": name, "due": f"2020-03-{i + 1:02d}", "cost": float(k)}
        for i in range(CASES)
        for k, name in enumerate(["open", *["check"] * (1 + i % 2), "close"])
    ]
    frame = pd.DataFrame(rows).assign(at=pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(len(rows)), unit="h"))
    return frame.sample(frac=1, random_state=0)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_events_of_cases_are_told(tmp_path, monkeypatch, log, suffix):
    path = tmp_path / f"log{suffix}"
    if suffix == ".parquet":
        log.to_parquet(path)
    else:
        log.to_csv(path, index=False, sep="\t" if suffix == ".tsv" else ",")
    with pytest.warns(UserWarning, match="12 values in 42 rows.* may be events of cases") as said:
        load_dataset(path)
    _, code, out, _ = advised(next(str(w.message) for w in said if "events" in str(w.message)))
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    found = pd.read_csv(out).set_index("case")
    assert len(found) == CASES and found["check"].tolist() == [1 + int(name[1:]) % 2 for name in found.index]
    assert set(found) == {"open", "check", "close", "open > check", "check > check", "check > close"}
    assert (found["check > check"] == found["check"] - 1).all() and (found["open > check"] == 1).all()


def test_dates_that_are_text_are_moments(tmp_path, recwarn):
    at = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.tile(np.arange(20), 3), unit="h")
    for name in ("at", "self"):
        frame = pd.DataFrame({"site": np.repeat(["b", "a", "c"], 20), name: at, "v": rng.normal(size=60)})
        frame.to_csv(tmp_path / "m.csv")
        load_dataset(tmp_path / "m.csv")
        assert any(f"--modality series --time {name} --id site" in str(w.message) for w in recwarn)


@pytest.mark.parametrize(("values", "left_out"), [("s", True), (0, False)])
def test_rows_of_subjects_are_told(tmp_path, recwarn, values, left_out):
    subject = rng.permutation(np.repeat(np.arange(10), 8))
    frame = pd.DataFrame(rng.normal(size=(80, 3)), columns=list("abc"))
    frame["income per person"], frame["customer"] = np.arange(80) % 5, rng.choice(["gold", "silver", "bronze"], 80)
    frame["income per person"], frame["customer"] = np.arange(80) % 5, rng.choice(["gold", "silver", "bronze"], 80)
    frame["Subject ID"] = [f"s{i}" for i in subject] if values else subject
    frame["subject"] = rng.choice(["Law", "Art", "Music", "History"], 80)
    frame.to_csv(tmp_path / "t.csv", index=False)
    load_dataset(tmp_path / "t.csv")
    (said,) = [str(w.message) for w in recwarn if "--split-groups" in str(w.message)]
    assert "Subject ID has 10 values in 80 rows" in said and "--groups 'Subject ID' --split-groups" in said
    recwarn.clear()
    load_dataset(tmp_path / "t.csv", groups="Subject ID", split_by_groups=True)
    load_dataset(tmp_path / "t.csv", drop=["Subject ID"])
    frame.iloc[::8].to_csv(tmp_path / "t.csv", index=False)
    load_dataset(tmp_path / "t.csv", columns={"a": "numeric"})
    assert not any("Subject ID" in str(w.message) for w in recwarn)


def test_moments_in_two_columns_are_told(tmp_path, monkeypatch):
    """The line runs as it stands; cells of text that are mostly numbers tell no recordings."""
    monkeypatch.chdir(tmp_path)
    at = pd.Series(pd.date_range("2006-12-16 17:24", periods=2000, freq="min"))
    power = pd.Series(rng.normal(size=2000).round(1).astype(str)).where(np.arange(2000) % 90 > 0, "none")
    frame = pd.DataFrame({"Date": at.dt.strftime("%d/%m/%Y"), "Time": at.dt.strftime("%H:%M:%S"), "v": range(2000)})
    frame.assign(power=power).to_csv("house.txt", sep=";", index=False)
    message = refusal(load_dataset, "house.txt", modality="series", length="1h")
    assert "house.txt has the moments of its rows in two columns, Date and Time: " in message
    code, _, way = message.partition('python -c "')[2].partition('", and give ')
    exec(code, {})
    assert way == "house_moments.csv --modality series --time moment"
    data = load_dataset("house_moments.csv", modality="series", time="moment", length="1h", drop=["power"])
    assert data.x.shape == (33, 1, 60) and data.x[1, 0, 0] == 60
    frame.drop(columns="Time").assign(power=power, Date=at).to_csv("at.csv", index=False)
    assert "(--time Date);" in refusal(load_dataset, "at.csv", modality="series", length="1h")


@pytest.mark.parametrize(("step", "points"), [("B", 30), ("h", 24), ("15min", 96), ("s", 30)])
def test_moments_of_one_recording_are_told(tmp_path, recwarn, step, points):
    at = pd.Series(pd.date_range("2015-01-01", periods=1000, freq=step))
    frame = pd.DataFrame({"at": at.dt.strftime("%Y-%m-%d %H:%M:%S"), "open": np.cumsum(rng.normal(size=1000))})
    for name, told in (("a", True), ("b", False)):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        load_dataset(tmp_path / f"{name}.csv")
        said = [str(w.message) for w in recwarn if "moments of one recording" in str(w.message)]
        assert bool(said) == told
        if told:
            assert f"--modality series --time at --length {points} takes" in said[0]
            load_dataset(tmp_path / "a.csv", modality="series", time="at", length=points)
            frame = frame.assign(at=rng.permutation(frame["at"]))
            recwarn.clear()


@pytest.mark.parametrize("above", ["", "# of two sites\n"])
def test_rows_that_are_taxa_are_told(tmp_path, monkeypatch, recwarn, above):
    """The line runs as it stands."""
    monkeypatch.chdir(tmp_path)
    counts = pd.DataFrame(rng.integers(0, 9, (30, 12)), columns=[f"s{i}" for i in range(12)])
    table = counts.assign(taxonomy="Root;p__Firmicutes;c__Bacilli").to_csv(sep="\t", index_label="#OTU ID")
    (tmp_path / "otu.txt").write_text(above + table)
    load_dataset("otu.txt")
    (said,) = [str(w.message) for w in recwarn if "rows are taxa, by taxonomy, and columns samples" in str(w.message)]
    code, _, way = said.partition('python -c "')[2].partition('", and give ')
    exec(code, {})
    assert way == "otu_samples.csv --normalization log"
    np.testing.assert_array_equal(load_dataset("otu_samples.csv", drop=["sample"]).x, counts.to_numpy().T)


def test_short_sequences_of_one_length_are_told(tmp_path, recwarn):
    letters = np.array(list("ACDEFGHIKLMNPQRSTVWY"))
    windows = ["".join(row) for row in letters[rng.integers(0, 20, (40, 9))]]
    around = ["__" + text[:2] + text[2].lower() + text[3:] for text in windows]
    words = ["PLANET", "DRIVER", "BOUGHS"] * 13 + ["JUMPED"]
    codes = ["TVC" + "".join(row) for row in np.array(list("ABCEFRSTUY"))[rng.integers(0, 10, (40, 4))]]
    for name, texts in (("w", windows), ("s", around), ("t", words), ("c", codes)):
        pd.DataFrame({"site": texts, "v": rng.normal(size=40)}).to_csv(tmp_path / f"{name}.csv", index=False)
    for name, told in (("w", True), ("s", True), ("t", False), ("c", False)):
        recwarn.clear()
        load_dataset(tmp_path / f"{name}.csv")
        assert any("--modality proteins takes them" in str(w.message) for w in recwarn) == told


def test_lists_of_unequal_lengths_are_told_once(tmp_path, recwarn, monkeypatch):
    lists = [str(rng.normal(size=rng.integers(8, 12)).round(3).tolist()) for _ in range(30)]
    table = pd.DataFrame({"mag": lists, "err": lists, "v": rng.normal(size=30)})
    table.to_csv(tmp_path / "t.csv", index=False)
    load_dataset(tmp_path / "t.csv")
    (said,) = [str(w.message) for w in recwarn if "lists" in str(w.message)]
    assert "columns mag and 1 more have lists of 8 to 11 numbers, and are read as text" in said and said.endswith(
        "x.npz --modality series"
    )
    monkeypatch.chdir(tmp_path)
    exec(said[said.index("np.savez") : said.index(", and give")], {"np": np, "pd": pd, "table": table})
    data = load_dataset("x.npz", modality="series")
    assert data.x.shape[:2] == (30, 1) and np.isnan(data.x).sum() == sum(data.x.shape[2] - len(eval(x)) for x in lists)


def test_forms_of_redcap_are_told(tmp_path, monkeypatch):
    visits = pd.DataFrame({"redcap_repeat_instance": [1, 2, 3] * CASES, "pulse": rng.normal(size=3 * CASES)})
    visits["id"], visits["redcap_repeat_instrument"] = np.repeat(np.arange(CASES), 3), "visit"
    people = pd.DataFrame({"id": np.arange(CASES), "age": np.arange(CASES) + 20})
    pd.concat([people, visits]).to_csv(tmp_path / "r.csv", index=False)
    with pytest.warns(UserWarning, match="rows are of several forms, by redcap_repeat_instrument") as said:
        load_dataset(tmp_path / "r.csv")
    _, code, out, options = advised(next(str(w.message) for w in said if "forms" in str(w.message)))
    assert options["groups"] == "id"
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    found = pd.read_csv(out)
    assert len(found) == 3 * CASES and {*found} == {"id", "age", "pulse"} and (found.age == found.id + 20).all()
    # Of events, the one with the most values.
    people["redcap_event_name"], visits["redcap_event_name"] = "enrolled", "visits"
    events = pd.concat([people, visits[::3].drop(columns=["redcap_repeat_instrument", "redcap_repeat_instance"])])
    events.assign(weight=np.where(events.age.isna(), 1.5, np.nan)).to_csv(tmp_path / "r.csv", index=False)
    with pytest.warns(UserWarning, match="rows are of several forms, by redcap_event_name") as said:
        load_dataset(tmp_path / "r.csv")
    exec(advised(next(str(w.message) for w in said if "forms" in str(w.message)))[1], {})
    assert {*pd.read_csv(out)} == {"id", "pulse", "weight"}


def test_rows_of_values_are_told(tmp_path, monkeypatch):
    """The tables of PCR have a row for each well, below 46 lines of titles and above some of settings."""
    rows = [f"{i},GM{i // 6},CHR{i % 3},{20 + i % 3}.5" for i in range(60)]
    titles = "".join(f"Calibration {i} performed on,11-12-2018,,\n" for i in range(46))
    text = titles + "Well,Sample Name,Target Name,CT\n" + "\n".join(rows) + "\n,,,\n" * 80
    (tmp_path / "q.csv").write_text(text.replace("21.5", "Undetermined", 1))
    with pytest.warns(UserWarning, match="rows are values of Target Name, several of each Sample Name") as said:
        load_dataset(tmp_path / "q.csv", columns={"CT": "numeric"})
    _, code, out, _ = advised(next(str(w.message) for w in said if "several of each" in str(w.message)))
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    found = pd.read_csv(out, index_col="Sample Name")
    assert found.shape == (10, 3) and (found.CHR2 == 22.5).all()


@pytest.mark.parametrize("whole", [True, False])
def test_counts_of_species_at_places(tmp_path, monkeypatch, whole, recwarn):
    frame = pd.DataFrame({"site": np.repeat(np.arange(12), 8), "species": np.tile([*"abcdefgh"], 12)})
    frame["abundance"] = frame.index % 5 + (0 if whole else 0.5)
    frame[frame.index % 7 > 0].to_csv(tmp_path / "e.csv", index=False)
    load_dataset(tmp_path / "e.csv")
    monkeypatch.chdir(tmp_path)
    exec(advised(next(str(w.message) for w in recwarn if "rows are values of species" in str(w.message)))[1], {})
    assert pd.read_csv("e_wide.csv").isna().any().any() == (not whole)
    recwarn.clear()
    load_dataset(tmp_path / "e.csv", drop=["site"])
    assert not any("rows are values" in str(w.message) for w in recwarn)


@pytest.mark.parametrize("undetermined", [False, True])
def test_commas_in_numbers_of_long_tables(tmp_path, monkeypatch, recwarn, undetermined):
    frame = pd.DataFrame({"sample": np.repeat(np.arange(12), 8), "gene": np.tile([*"abcdefgh"], 12)})
    frame["Ct"] = [f"2{i % 7},5" for i in frame.index]
    if undetermined:
        frame.loc[3, "Ct"] = "Undetermined"
    frame.to_csv(tmp_path / "e.csv", index=False, sep=";")
    load_dataset(tmp_path / "e.csv", columns={"Ct": "numeric"})
    monkeypatch.chdir(tmp_path)
    exec(advised(next(str(w.message) for w in recwarn if "rows are values of gene" in str(w.message)))[1], {})
    found = pd.read_csv("e_wide.csv", index_col="sample")
    assert found.shape == (12, 8) and found.iloc[0, 1] == 21.5 and found.isna().sum().sum() == undetermined
    frame.assign(reads=[f"{1 + i % 7},500" for i in frame.index]).drop(columns="Ct").to_csv("f.csv", index=False)
    load_dataset("f.csv")
    exec(advised([str(w.message) for w in recwarn if "rows are values of gene" in str(w.message)][-1])[1], {})
    assert pd.read_csv("f_wide.csv", index_col="sample").iloc[0, 1] == 2500


def test_wells_of_a_plate_are_told(tmp_path, monkeypatch):
    wells = pd.DataFrame(rng.random((40, 12)).cumsum(0), columns=[f"{line}{i + 1}" for line in "AB" for i in range(6)])
    wells.insert(0, "Time", np.arange(40) * 600)
    wells.to_csv(tmp_path / "w.csv", index=False)
    with pytest.warns(UserWarning, match="columns are wells of a plate") as said:
        load_dataset(tmp_path / "w.csv")
    _, code, out, options = advised(next(str(w.message) for w in said if "wells" in str(w.message)))
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert load_dataset(out, modality=options["modality"], drop=[options["drop"]]).x.shape == (12, 1, 40)


@pytest.mark.parametrize(
    "names", ["B1 B2 B3 B4 B5 B6 B7 B8 B8A B9 B11 B12", "A1 A2 A3 B1 B2 B3 C1 C2 C3", "A1 A2 A3 A4 C1 C2 C3 C4"]
)
def test_bands_and_questions_are_no_wells(tmp_path, recwarn, names):
    smooth = "B8A" in names or "C4" in names  # neighbors in a scene
    values = rng.random((40, len(names.split())))
    pd.DataFrame(values.cumsum(0) if smooth else values, columns=names.split()).to_csv(tmp_path / "b.csv", index=False)
    load_dataset(tmp_path / "b.csv")
    assert not [w for w in recwarn if "wells" in str(w.message)]


@pytest.mark.parametrize("separator", [",", "\t"])
def test_genes_beside_their_places_are_no_samples(tmp_path, monkeypatch, separator):
    names = [f"ENSG{i:011d}" for i in range(50)]
    frame = pd.DataFrame({"Geneid": names, "Chr": "chr1", "Start": 1, "End": 9, "Strand": "+", "Length": 9})
    frame = frame.assign(**{f"s{i}.bam": rng.poisson(9, 50) for i in range(8)})
    (tmp_path / "f.txt").write_text("# Program:featureCounts v2.0.1\n" + frame.to_csv(index=False, sep=separator))
    monkeypatch.chdir(tmp_path)
    exec(advised(refusal(load_dataset, tmp_path / "f.txt"))[1], {})
    assert load_dataset("f.csv", drop=["sample"], normalization="log").x.shape == (8, 50)
    frame[["Geneid", "Chr", "s0.bam", "s1.bam"]].rename(columns={"s0.bam": "logFC", "s1.bam": "FDR"}).to_csv("t.csv")
    with pytest.warns(UserWarning, match="rows are genes with the results of a test"):
        load_dataset("t.csv")


def peaks(names):
    """Intensities of 40 peaks in 9 samples, below names of columns of mass and time."""
    x = pd.DataFrame(rng.lognormal(12, 1, (40, 9)), columns=[f"s{i}" for i in range(9)])
    for i, name in enumerate(names):
        x.insert(i, name, rng.uniform(80, 900, 40).round(4))
    return x


@pytest.mark.parametrize("names", ["mz rt", "row m/z|row retention time", "Average Rt(min)|Average Mz", "mzmed rtmed"])
def test_rows_that_are_peaks_are_told(tmp_path, monkeypatch, names):
    """The line runs as it stands; peaks of each class of samples are no sample."""
    names = names.split("|") if "|" in names else names.split()
    frame = peaks(names)
    if "mzmed" in names:
        frame.insert(2, "npeaks", 9)
        frame.insert(3, "control", 5)
    monkeypatch.chdir(tmp_path)
    frame.assign(charge=1.5).to_csv("p.csv", index_label="row ID")
    with pytest.warns(UserWarning, match="rows are peaks") as said:
        load_dataset("p.csv")
    _, code, out, options = advised(next(str(w.message) for w in said if "peaks" in str(w.message)))
    exec(code, {})
    expected = np.log2(frame[[f"s{i}" for i in range(9)]].to_numpy().T)
    np.testing.assert_allclose(load_dataset(out, drop=[options["drop"]]).x, expected, rtol=1e-5)


def test_peaks_of_one_sample_are_samples(tmp_path, recwarn):
    frame = peaks(["mz", "rt"])[["mz", "rt", "s0", "s1"]].assign(width=rng.random(40), error=rng.random(40) * 1e-3)
    frame.to_csv(tmp_path / "p.csv", index=False)
    load_dataset(tmp_path / "p.csv")
    assert not [w for w in recwarn if "peaks" in str(w.message)]


@pytest.mark.parametrize("count", [1, 3])
def test_values_as_they_lie_on_a_plate_are_told(tmp_path, count):
    plate = pd.DataFrame(rng.random((8 * count, 12)), columns=range(1, 13), index=[*"ABCDEFGH"] * count)
    plate.to_csv(tmp_path / "plate.csv")
    with pytest.warns(UserWarning, match="rows are lines of wells, as they lie on a plate"):
        load_dataset(tmp_path / "plate.csv")


def test_a_row_of_classes_is_no_row_of_units(tmp_path, monkeypatch):
    """As MetaboAnalyst takes tables: samples in columns, and their classes below the names."""
    monkeypatch.chdir(tmp_path)
    x = rng.random((30, 12))
    lines = [",".join(["Sample", *(f"s{i}" for i in range(12))]), ",".join(["Label", *["case", "control"] * 6])]
    lines += [",".join([f"m{i}", *map(str, row)]) for i, row in enumerate(x)]
    (tmp_path / "m.csv").write_text("\n".join(lines))
    with pytest.warns(
        UserWarning, match="the first row, Label, has classes .case, control., so columns are samples"
    ) as said:
        load_dataset("m.csv")
    _, code, out, options = advised(next(str(w.message) for w in said if "classes" in str(w.message)))
    exec(code, {})
    found = load_dataset(out, label=options["label"])
    np.testing.assert_allclose(found.x, x.T)
    assert [*found.y] == ["case", "control"] * 6
