"""Recordings, counts and alignments of formats that are not read: their lines are run, and the results are read."""

from pathlib import Path

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


def test_counts_of_salmon_are_joined(tmp_path, monkeypatch):
    for sample in ("b", "a"):
        (tmp_path / "q" / sample).mkdir(parents=True)
        counts = pd.DataFrame({"Name": ["t2", "t1"], "TPM": 1.0, "NumReads": [3.2, 4.0 + ord(sample)]})
        counts.to_csv(tmp_path / "q" / sample / "quant.sf", sep="\t", index=False)
    monkeypatch.chdir(tmp_path)
    exec(advised(refusal(load_dataset, Path("q")))[1], {})
    assert pd.read_csv("q.csv").to_numpy().tolist() == [["a", 3, 101], ["b", 3, 102]]
