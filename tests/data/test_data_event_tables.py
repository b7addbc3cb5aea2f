"""Labels of moments of recordings from tables, Raven, Audacity and Praat."""

import numpy as np
import pandas as pd
import pytest
from edfio import Edf, EdfAnnotation, EdfSignal

from refusals import refusal
from viewsmith.data import load_dataset

sf = pytest.importorskip("soundfile")
RATE = 1000
rng = np.random.default_rng(0)
EVENTS = {"a": [(0.0, 1.0, "x"), (2.0, 3.5, "y")], "b": [(0.4, 2.2, "y")]}
#: Labels of windows of half a second.
EXPECTED = ["x", "x", "none", "none", "y", "y", "y", "none", "none", "y", "y", "y", "none", "none", "none", "none"]


@pytest.fixture
def songs(tmp_path):
    """Two recordings of four seconds."""
    (tmp_path / "songs").mkdir()
    for name in EVENTS:
        sf.write(tmp_path / "songs" / f"{name}.wav", rng.normal(0, 0.1, 4 * RATE), RATE)
    return tmp_path / "songs"


def rows():
    return [(name, *event) for name, events in EVENTS.items() for event in events]


def raven(path, events):
    head = "Selection\tView\tChannel\tBegin Time (s)\tEnd Time (s)\tLow Freq (Hz)\tSpecies"
    lines = [f"{i}\tSpectrogram 1\t1\t{a}\t{b}\t100.5\t{text}" for i, (a, b, text) in enumerate(events, 1)]
    path.with_suffix(".Table.1.selections.txt").write_text("\n".join([head, *lines]) + "\n")


def audacity(path, events):
    text = "".join(f"{a:.6f}\t{b:.6f}\t{text}\n\\\t100.0\t200.0\n" for a, b, text in events)
    path.with_suffix(".txt").write_text(text)


def praat(path, events, long=True):
    mark = ("xmin = ", "xmax = ", "text = ", "name = ") if long else ("", "", "", "")
    cells = "".join(f'{mark[0]}{a} \n{mark[1]}{b} \n{mark[2]}"{text}" \n' for a, b, text in events)
    tiers = f'"IntervalTier" \n{mark[3]}"phones" \n0 \n4 \n9 \n{cells}"TextTier" \n"points" \n1.5 \n"z" \n'
    path.with_suffix(".TextGrid").write_text(f'"ooTextFile"\n"TextGrid"\n0\n4\n<exists>\n2\n{tiers}', "utf-16")


def elan(path, events):
    """The words of a second tier refer to those of the first; the end of each is left out, and lies half-way."""
    slots = "".join(
        f'<TIME_SLOT TIME_SLOT_ID="a{i}" TIME_VALUE="{a * 1000:.0f}"/><TIME_SLOT TIME_SLOT_ID="b{i}"/>'
        f'<TIME_SLOT TIME_SLOT_ID="c{i}" TIME_VALUE="{(2 * b - a) * 1000:.0f}"/>'
        for i, (a, b, _) in enumerate(events)
    )
    one = "".join(
        f'<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="n{i}" TIME_SLOT_REF1="a{i}" TIME_SLOT_REF2="b{i}">'
        f"<ANNOTATION_VALUE>x</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION><ANNOTATION><ALIGNABLE_ANNOTATION "
        f'ANNOTATION_ID="m{i}" TIME_SLOT_REF1="b{i}" TIME_SLOT_REF2="c{i}"><ANNOTATION_VALUE/></ALIGNABLE_ANNOTATION>'
        "</ANNOTATION>"
        for i in range(len(events))
    )
    two = "".join(
        f'<ANNOTATION><REF_ANNOTATION ANNOTATION_ID="r{i}" ANNOTATION_REF="n{i}"><ANNOTATION_VALUE>{text}'
        "</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION>"
        for i, (_, _, text) in enumerate(events)
    )
    tiers = f'<TIER TIER_ID="times">{one}</TIER><TIER TIER_ID="words">{two}</TIER>'
    text = f"<ANNOTATION_DOCUMENT><TIME_ORDER>{slots}</TIME_ORDER>{tiers}</ANNOTATION_DOCUMENT>"
    path.with_suffix(".eaf").write_text(text)


WRITERS = {"raven": raven, "audacity": audacity, "praat": praat, "short": lambda p, e: praat(p, e, long=False)}


@pytest.mark.parametrize("program", WRITERS)
@pytest.mark.parametrize("place", ["songs", "notes"])
def test_a_file_of_each_recording(songs, program, place, capsys):
    (folder := songs.parent / place).mkdir(exist_ok=True)
    for name, events in EVENTS.items():
        WRITERS[program](folder / f"{name}.wav", events)
    labels = {} if place == "songs" else {"labels": folder}
    data = load_dataset(songs, length="0.5s", label="annotations", **labels)
    assert data.y.tolist() == EXPECTED and "3 events of 2 recordings" in capsys.readouterr().err
    assert data.row_names[0] == "a.wav@0 s" and data.schema["label"] == "annotations"
    if program in ("praat", "raven"):
        name = {"praat": "phones", "raven": "Species"}[program]
        assert load_dataset(songs, length="0.5s", label=name, **labels).y.tolist() == EXPECTED
    if place == "songs":
        alone = load_dataset(songs / "a.wav", label="annotations", schema=data.schema)
        assert alone.y.tolist() == EXPECTED[:8]
    assert load_dataset(songs, length="0.5s").y is None


def test_several_labels_of_each_event_have_no_names(songs):
    """As of respiratory sounds: begin, end, crackles, wheezes."""
    for name, events in EVENTS.items():
        lines = [f"{a}\t{b}\t{int(text == 'x')}\t1\n" for a, b, text in events]
        (songs / f"{name}.txt").write_text("".join(lines))
    data = load_dataset(songs, length="0.5s", label="annotations")
    assert data.y.tolist() == [{"x": "1 1", "y": "0 1"}.get(each, each) for each in EXPECTED]
    assert set(load_dataset(songs, length="0.5s", label="3").y) == {"1", "none"}


def test_annotations_of_elan_refer_to_others(songs):
    for name, events in EVENTS.items():
        elan(songs / f"{name}.wav", events)
    assert load_dataset(songs, length="0.5s", label="words").y.tolist() == EXPECTED
    for name in EVENTS:
        (songs / f"{name}.eaf").write_text("<ANNOTATION_DOCUMENT>")
    assert "a.eaf" in refusal(load_dataset, songs, length="0.5s", label="words")


@pytest.mark.parametrize("kind", ["s", "ms", "duration"])
def test_a_table_of_all_recordings(songs, kind):
    table = pd.DataFrame(rows(), columns=["file", "start", "end", "call"]).sample(frac=1, random_state=1)
    table = table.assign(file="/data/" + table.file + ".wav", selection=range(3), channel=1)
    if kind == "ms":
        table = table.assign(start=table.start * 1000, end=table.end * 1000)
        table = table.rename(columns={"start": "Start (ms)", "end": "End (ms)"})
    if kind == "duration":
        table = table.assign(duration=table.end - table.start).drop(columns="end").rename(columns={"start": "onset"})
    table.to_csv(file := songs.parent / "calls.csv", index=False)
    data = load_dataset(songs, length="0.5s", label="call", labels=file)
    assert data.y.tolist() == EXPECTED
    assert load_dataset(songs, labels=file, label="call", schema=data.schema).y.tolist() == EXPECTED
    if kind == "s":
        assert "did you mean call?" in refusal(load_dataset, songs, length="0.5s", label="calls", labels=file)
        table.assign(start=9.0, end=10.0).to_csv(file, index=False)
        assert "begins at 9 s, and the recording ends at 4 s" in refusal(
            load_dataset, songs, length="0.5s", label="call", labels=file
        )
        table.assign(end=0.0).to_csv(file, index=False)
        assert "and ends at 0 s" in refusal(load_dataset, songs, length="0.5s", label="call", labels=file)


@pytest.mark.parametrize(("column", "ending"), [("recording", ""), ("clip", ".wav")])
def test_a_table_of_others_and_one_recording(songs, column, ending):
    table = pd.DataFrame(rows(), columns=[column, "begin", "end", "label"])
    table[column] += ending
    options = {"labels": songs.parent / "events.csv", "label": "label", "length": "500ms"}
    table.to_csv(options["labels"], index=False)
    assert load_dataset(songs / "b.wav", **options).y.tolist() == EXPECTED[8:]  # a third of the events
    table[table[column] == f"a{ending}"].to_csv(options["labels"], index=False)
    assert f"events of other recordings, by its column {column} (a" in refusal(load_dataset, songs / "b.wav", **options)
    table[table[column] == f"b{ending}"].assign(**{column: ""}).to_csv(options["labels"], index=False)  # not filled in
    assert load_dataset(songs / "b.wav", **options).y.tolist() == EXPECTED[8:]


def test_labels_without_events_or_without_a_column_are_refused(songs):
    pd.DataFrame(rows(), columns=["file", "start", "end", "call"]).to_csv(
        file := songs.parent / "calls.csv", index=False
    )
    message = refusal(load_dataset, songs, length="0.5s", labels=file)
    assert "no effect without the column of the labels: --label file or start or end or call" in message
    (songs.parent / "empty").mkdir()
    message = refusal(load_dataset, songs, length="0.5s", labels=songs.parent / "empty", label="call")
    assert "empty has no file with the events of a recording: expected one for each, such as a.txt" in message
    file.with_name("t.csv").write_text("a,b\n1,2\n2,3\n")
    message = refusal(load_dataset, file.with_name("t.csv"), labels=file)
    assert "no effect without the column of the labels: --label file or start or end or call" in message


def test_a_table_in_the_folder_and_one_with_a_row_for_each(songs):
    pd.DataFrame(rows(), columns=["file", "start", "end", "call"]).to_csv(songs / "calls.csv", index=False)
    assert load_dataset(songs, length="0.5s", label="call").y.tolist() == EXPECTED
    # A row for each recording has its label, whatever begins there.
    table = pd.DataFrame({"file": ["b.wav", "a.wav"], "start": [70.0, 80.0], "species": ["u", "v"]})
    table.to_csv(songs.parent / "about.csv", index=False)
    found = load_dataset(songs, length="0.5s", label="species", labels=songs.parent / "about.csv")
    assert found.y.tolist() == ["v"] * 8 + ["u"] * 8
    pd.DataFrame({"u": [1, 2]}).to_csv(songs.parent / "about.csv", index=False)
    assert "no column with the names of all samples" in refusal(
        load_dataset, songs, length="0.5s", label="species", labels=songs.parent / "about.csv"
    )


def test_a_data_set_of_bids(tmp_path, capsys):
    """Folders are subjects and no labels; these are those of the table of participants, or of the events."""
    for i in range(6):
        folder = tmp_path / f"sub-{i:02d}" / "eeg"
        folder.mkdir(parents=True)
        name = f"sub-{i:02d}_task-rest"
        noted = [EdfAnnotation(1.0, 1.0, "blink")]
        Edf([EdfSignal(rng.normal(size=800), 100, label="Cz")], annotations=noted).write(folder / f"{name}_eeg.edf")
        (folder / f"{name}_channels.tsv").write_text("name\ttype\nCz\tEEG\n")
        (folder / f"{name}_events.tsv").write_text("onset\tduration\ttrial_type\n1.5\t0\tgo\n4\tn/a\tstop\n")
    people = "".join(f"sub-{i:02d}\t{40 + i}\t{('patient', 'control')[i % 2]}\n" for i in range(7))
    (tmp_path / "participants.tsv").write_text("participant_id\tage\tgroup\n" + people)
    assert load_dataset(tmp_path, length="2s").y is None
    groups = {"groups": "participant_id", "split_by_groups": True}
    data = load_dataset(tmp_path, length="2s", label="group", **groups)
    assert data.y.tolist() == (["patient"] * 4 + ["control"] * 4) * 3 and len(set(data.groups)) == 6
    data = load_dataset(tmp_path, length="2s", label="trial_type", **groups)
    assert data.y.tolist() == ["go", "stop"] * 6 and data.row_names[0].endswith("@1.5 s")
    said = capsys.readouterr().err.splitlines()
    assert "12 events of 6 recordings" in " ".join(said) and len(set(said[-3:])) == 3
    assert "labels are not given" not in said[-1]
    assert "'colour'" in refusal(load_dataset, tmp_path, length="2s", label="colour")


def test_labels_that_no_table_has_are_told(tmp_path, recwarn):
    for i in range(20):
        (tmp_path / "uv"[i % 2]).mkdir(exist_ok=True)
        Edf([EdfSignal(rng.normal(size=400), 100, label="Cz")]).write(tmp_path / "uv"[i % 2] / f"{i}.edf")
    assert set(load_dataset(tmp_path, label="word").y) == {"u", "v"}
    assert any("no table has a column 'word': labels are the names of folders" in str(each.message) for each in recwarn)
