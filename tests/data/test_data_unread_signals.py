"""Recordings, counts and alignments of formats that are not read: their lines are run, and the results are read."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from advised_lines import advised, follow

from refusals import refusal
from viewsmith.data import load_dataset

rng = np.random.default_rng(0)


ACTIWARE = """"Actiware Export File  (Version 05.00 )"

"-------------------- Statistics--------------------"

"Interval Type","Interval#","Start Date","Start Time",
"REST","1","28/07/2015","21:05:00",


"-------------------- Epoch-by-Epoch Data -------------------"

"Column Title","Notes"
"Line:","Line Number"

"Line","Date","Time","Activity","White Light","Sleep/Wake","Interval Status",

"""


def test_the_last_table_of_a_report_is_converted(tmp_path, monkeypatch):
    start = pd.Timestamp("2015-07-31 23:00")
    moments = [(start + pd.Timedelta(i, "min")).strftime("%d/%m/%Y,%H:%M:%S").replace(",", '","') for i in range(120)]
    rows = [f'"{i + 1}","{at}","{i % 7}","{i},5","NaN","ACTIVE",\n' for i, at in enumerate(moments)]
    (tmp_path / "a.csv").write_text("\ufeff" + ACTIWARE + "".join(rows))
    said = refusal(load_dataset, tmp_path / "a.csv", modality="series")
    assert "a.csv is a report of several tables (Actiware)" in said
    with pytest.warns(UserWarning, match="columns of text are no channels, left out: Interval Status"):
        data = follow(said, tmp_path, monkeypatch, length="10", drop=["Sleep/Wake"])
    assert data.x.shape == (12, 2, 10) and data.x[1, :, 0].tolist() == [10 % 7, 10.5]
    assert data.schema["signal"]["rate"] == pytest.approx(1 / 60, rel=1e-4)


@pytest.mark.parametrize("line", ["", "#9\t1\n"])
def test_insertions_of_an_alignment_are_letters(tmp_path, monkeypatch, line):
    (tmp_path / "a.a3m").write_text(f"{line}>s1 first\nMKVLa-GHW\n>s2\nMKRL--GHW\n")
    monkeypatch.chdir(tmp_path)
    exec(advised(refusal(load_dataset, tmp_path / "a.a3m"))[1], {})
    assert (tmp_path / "a.fasta").read_text() == ">s1 first\nMKVLAGHW\n>s2\nMKRLGHW\n"


def test_the_largest_signal_of_neurophysiology(tmp_path, monkeypatch):
    h5py = pytest.importorskip("h5py")
    x = rng.normal(size=(400, 3))
    monkeypatch.chdir(tmp_path)
    with h5py.File("a.nwb", "w") as file:
        file["acquisition/small/data"], file["processing/ecephys/lfp/data"] = x[:9], x
        for name, rows in (("acquisition/small", 9), ("processing/ecephys/lfp", 400)):
            file[f"{name}/timestamps"] = np.arange(rows) / 100
            file[name].attrs["neurodata_type"] = "ElectricalSeries"
    exec(advised(refusal(load_dataset, "a.nwb"))[1], {})
    data = load_dataset("a.npz", modality="series", length="1s")
    assert data.x.shape == (4, 3, 100) and data.schema["signal"]["rate"] == pytest.approx(100)
    with h5py.File("s.nwb", "w") as file:
        file["units/spike_times"], file["units/spike_times_index"] = np.tile(np.arange(0, 8, 0.02), 2), [400, 800]
    said = refusal(load_dataset, "s.nwb")
    assert "s.nwb is a file of spikes (NWB)" in said
    exec(advised(said)[1], {})
    assert load_dataset("s.npz", modality="series", length="2s").x.shape[1:] == (2, 100)


def test_recordings_in_dicom(tmp_path, monkeypatch):
    pydicom = pytest.importorskip("pydicom")
    file = Path(pydicom.__file__).parent / "data" / "test_files" / "waveform_ecg.dcm"
    (tmp_path / "e.dcm").write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    exec(advised(refusal(load_dataset, "e.dcm"))[1], {})
    data = load_dataset("e.npz", modality="series", length="1s")
    assert data.x.shape == (10, 12, 1000) and data.schema["signal"]["rate"] == 1000


def test_a_folder_of_recordings_in_dicom(tmp_path, monkeypatch, capsys):
    """Classes by folders, gaps after the end of shorter ones; those of other rates are left out, which is said."""
    pydicom = pytest.importorskip("pydicom")
    given = pydicom.dcmread(Path(pydicom.__file__).parent / "data" / "test_files" / "waveform_ecg.dcm")
    for i in range(5):
        (folder := tmp_path / "ecgs" / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        group = given.WaveformSequence[0]
        group.WaveformData = group.WaveformData[: 24 * (10_000 - 1_000 * i)]
        group.NumberOfWaveformSamples = 10_000 - 1_000 * i
        group.SamplingFrequency = 500 if i == 4 else 1000
        given.save_as(folder / f"{i}.dcm")
    said = refusal(load_dataset, tmp_path / "ecgs")
    assert "ecgs has 5 files .dcm, each a recording in a DICOM file" in said
    data = follow(said.replace("pip install pydicom, then ", ""), tmp_path, monkeypatch, length="5s")
    assert "1 of 5 left out, which have other channels or rates" in capsys.readouterr().out
    assert data.x.shape[1:] == (12, 5000) and set(data.y) == {"a", "b"} and data.schema["signal"]["rate"] == 1000


def test_counts_of_salmon_are_joined(tmp_path, monkeypatch):
    for sample in ("b", "a"):
        (tmp_path / "q" / sample).mkdir(parents=True)
        counts = pd.DataFrame({"Name": ["t2", "t1"], "TPM": 1.0, "NumReads": [3.2, 4.0 + ord(sample)]})
        counts.to_csv(tmp_path / "q" / sample / "quant.sf", sep="\t", index=False)
    monkeypatch.chdir(tmp_path)
    exec(advised(refusal(load_dataset, Path("q")))[1], {})
    assert pd.read_csv("q.csv").to_numpy().tolist() == [["a", 3, 101], ["b", 3, 102]]


def test_electrocardiograms_of_hl7(tmp_path, monkeypatch):
    """In a folder: leads in units of the file, classes by folders, gaps after the end of a shorter one."""
    lead = "<sequence><value><origin value='0'/><scale value='2.5'/><digits>{}</digits></value></sequence>".format
    time = "<sequence><value><head value='1'/><increment value='{}' unit='{}'/></value></sequence>".format
    x = rng.integers(-99, 99, (4, 2, 300))
    for i, (leads, unit) in enumerate(zip(x, [("0.004", "s"), ("4", "ms")] * 2, strict=True)):
        (folder := tmp_path / "ecgs" / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        cut = [" ".join(map(str, v[: 300 - 50 * (i == 3)])) for v in leads]
        text = f"<sequenceSet>{time(*unit)}{''.join(map(lead, cut))}</sequenceSet>"
        (folder / f"{i}.xml").write_text(f"<AnnotatedECG xmlns='urn:hl7-org:v3'>{text * 2}</AnnotatedECG>")
    said = refusal(load_dataset, tmp_path / "ecgs", length="1s")
    assert "ecgs has 4 files .xml, each an electrocardiogram (aECG of HL7)" in said
    data = follow(said, tmp_path, monkeypatch)
    assert data.x.shape == (4, 2, 250) and data.schema["signal"]["rate"] == 250 and set(data.y) == {"a", "b"}
    np.testing.assert_array_equal(data.x[0], x[0, :, :250] * np.float32(2.5))
    assert "a/0.xml is an electrocardiogram (aECG of HL7)" in refusal(load_dataset, tmp_path / "ecgs" / "a" / "0.xml")


@pytest.mark.parametrize("given", ["glx", "glx/a.imec0.ap.bin"])
def test_recordings_of_spikeglx(tmp_path, monkeypatch, given):
    x = rng.integers(-99, 99, (900, 4)).astype("<i2")
    (tmp_path / "glx").mkdir()
    x.tofile(tmp_path / "glx" / "a.imec0.ap.bin")
    (tmp_path / "glx" / "a.imec0.ap.meta").write_text("imSampRate=300\nnSavedChans=4\nsnsApLfSy=3,0,1\n~map=(1)\n")
    said = refusal(load_dataset, tmp_path / given, length="1s")
    assert "a.imec0.ap.bin is a recording of SpikeGLX" in said
    data = follow(said, tmp_path, monkeypatch)
    np.testing.assert_array_equal(data.x[1], x[300:600, :3].T)
    assert data.schema["signal"]["rate"] == 300


def test_markers_of_motion_have_gaps(tmp_path, monkeypatch):
    x = rng.normal(size=(400, 6)).round(4)
    cells = [["" if 50 <= i < 60 and k < 3 else str(v) for k, v in enumerate(row)] for i, row in enumerate(x)]
    head = (
        "PathFileType\t4\nDataRate\tCameraRate\tNumFrames\tNumMarkers\n100.0\t100.0\t400\t2\nFrame#\tTime\tA\t\t\tB\n"
    )
    rows = "".join("\t".join([str(i + 1), str(i / 100), *row]) + "\n" for i, row in enumerate(cells))
    (tmp_path / "a.trc").write_text(f"{head}\t\tX1\tY1\n\n{rows}")
    with pytest.warns(UserWarning, match="with gaps"):
        data = follow(refusal(load_dataset, tmp_path / "a.trc"), tmp_path, monkeypatch)
    np.testing.assert_array_equal(data.x[1], np.float32(x[100:200].T))
    assert np.isnan(data.x[0][:3, 50:60]).all() and data.schema["signal"]["rate"] == 100


@pytest.mark.parametrize(
    ("name", "start", "said"),
    [
        ("a.plx", b"", "neo.io.PlexonIO("),
        ("a.ns5", b"", "neo.io.BlackrockIO("),
        ("a.trc", b"* MICROMED  Brain-Quick file *", "neo.io.MicromedIO("),
        ("a.nev", b"", "it has times of spikes: give the recording beside it, such as a.ns5"),
        ("a.eaf", b"", "give their recordings, with --labels"),
        ("a.mff/signal1.bin", b"", "mne.io.read_raw_egi("),
    ],
)
def test_recordings_of_makers_have_a_line(tmp_path, name, start, said):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(start)
    assert said in refusal(load_dataset, tmp_path / name.partition("/")[0], length="1s")


def test_spectra_of_grams_are_converted_together(tmp_path, monkeypatch):
    """Endings in any case, several spectra of a file, and axes of their own, which folders tell apart."""

    class SPC:
        """Of spc_io: as many spectra as the file has letters."""

        @staticmethod
        def from_bytes_io(file):
            points = np.linspace(400, 900, 60)
            return [SimpleNamespace(xarray=points + i, yarray=np.sin(points / 30)) for i in range(len(file.read()))]

    monkeypatch.setitem(sys.modules, "spc_io", SimpleNamespace(SPC=SPC))
    for name, content in (("a/1.SPC", b"x" * 5), ("a/2.spc", b"xx"), ("b/1.spc", b"x"), ("b/2.SPC", b"x" * 4)):
        (file := tmp_path / "spectra" / name).parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    said = refusal(load_dataset, tmp_path / "spectra").replace("pip install spc-io, then ", "")
    assert "spectra has 4 files .spc, each a file of spectra of GRAMS" in said
    assert follow(said, tmp_path, monkeypatch).y.tolist() == [*"a" * 7, *"b" * 5]
    one = refusal(load_dataset, tmp_path / "spectra" / "a" / "2.spc").replace("pip install spc-io, then ", "")
    assert len(follow(one, tmp_path, monkeypatch).x) == 2


def test_streams_keep_names_of_channels_and_markers(tmp_path, monkeypatch):
    """Of the largest stream; markers lie at its samples, also behind a gap in its time."""
    pytest.importorskip("edfio")
    x, at = rng.normal(size=(1030, 2)), 50 + np.arange(1030) / 100
    at[500:] += 7
    channels = [{"channels": [{"channel": [{"label": ["Cz"]}, {"label": ["Oz"]}]}]}]
    eeg = {"info": {"nominal_srate": ["100"], "desc": channels}, "time_series": x, "time_stamps": at}
    texts = {
        "info": {},
        "time_series": [[v] for v in "ab" * 5 + "c"],
        "time_stamps": [51, 52, 53, 54, 55, 64, 65, 66, 66.5, 67.1, 99],
    }
    monkeypatch.setitem(sys.modules, "pyxdf", SimpleNamespace(load_xdf=lambda file: ([texts, eeg], {})))
    (tmp_path / "a.xdf").write_bytes(b"XDF:")
    said = refusal(load_dataset, tmp_path / "a.xdf").replace("pip install pyxdf 'viewsmith[signals]', then ", "")
    data = follow(said, tmp_path, monkeypatch, label="annotations")
    assert data.schema["signal"]["channels"] == ["Cz", "Oz"] and data.y.tolist() == [*"abababab"]
    np.testing.assert_allclose(data.x[[0, 5], 0], [x[100:200, 0], x[700:800, 0]], atol=1e-3)


@pytest.mark.parametrize(("name", "said"), [("a.edf", "has no recordings"), ("a.spc", "is a folder without images")])
@pytest.mark.parametrize("pipe", [False, True])
def test_links_to_nothing_and_pipes_are_no_files(tmp_path, name, said, pipe):
    if pipe:
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).symlink_to("nothing")
    assert said in refusal(load_dataset, tmp_path)
