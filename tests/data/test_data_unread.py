"""Files and folders that are not read: the line that converts them is run as it stands, and its result is read."""

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.io
from advised_lines import LINE, advised, follow
from PIL import Image
from safetensors.numpy import save_file

from refusals import refusal
from viewsmith.data import load_dataset, unread
from viewsmith.data.reading import by_ending

rng = np.random.default_rng(0)


def test_what_is_read_is_not_refused():
    assert not set(unread.formats()) & set(by_ending())


def test_every_line_is_python(tmp_path):
    for suffix, form in unread.formats().items():
        file = tmp_path / f"some_file{suffix}"
        message = f"x: {unread.command(file, form, 'rna')}"
        _, code, out, _ = advised(message)
        compile(code, suffix, "exec")
        assert "{" not in code and out.endswith(form.suffix), code


@pytest.mark.parametrize("name", ['a"b.sav', "a$HOME.sav", "a`b.sav", "a'b.sav", "a\\b.sav", "a!b.sav"])
def test_names_that_a_shell_would_change_are_left_out(tmp_path, name):
    (tmp_path / name).write_bytes(b"RIFF")
    assert "'FILE'" in advised(refusal(load_dataset, tmp_path / name))[1]


def test_the_line_in_a_shell(tmp_path):
    (tmp_path / "a.svm").write_text("1 1:1.5 2:1\n0 1:2 2:2\n1 1:3 2:4\n")
    line = LINE.search(refusal(load_dataset, tmp_path / "a.svm"))[2]
    subprocess.run(["sh", "-c", line.replace("python", sys.executable, 1)], cwd=tmp_path, check=True)
    assert load_dataset(tmp_path / "a.npz").x.shape == (3, 2)


@pytest.mark.parametrize(
    ("files", "part"),
    [
        (("a/matrix.mtx.gz", "a/genes.tsv.gz", "labels.csv"), "a 10x folder without barcodes.tsv"),
        (("a/barcodes.tsv.gz", "a/genes.tsv.gz", "labels.csv"), "a is a 10x folder without matrix.mtx or matrix.mtx"),
        (("a.set", "b.set", "events.csv"), "2 files .set, each a recording of EEG"),
        (("a.fasta", "b.sto", "labels.csv"), "a.fasta is empty"),
        (("labels.csv", "readme.md"), "give one of its files: labels.csv"),
        (("labels.csv", "tiles/a/1.tif", "tiles/b/2.tif"), "its 2 files .tif are in a folder of their own; give "),
        ((".hidden.wav",), "folder without images"),
    ],
)
def test_folders_without_images(tmp_path, files, part):
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(b"")
    assert part in refusal(load_dataset, tmp_path)


@pytest.mark.parametrize(
    ("name", "beside", "part"),
    [
        ("100.dat", "100.hea", "belongs to the record 100.hea: give {0}/100.hea"),
        ("100.dat", None, "100.dat is not a table: expected lines with"),
        ("a.fdt", "a.set", "belongs to a.set: "),
        ("matrix.mtx.gz", "barcodes.tsv", "read as a whole: give {0}"),
        ("genes.tsv", "barcodes.tsv matrix.mtx", "read as a whole: give {0}"),
        ("a.mat", "a.hea", "belongs to the record a.hea: give"),
        ("a.fif", None, "mne.io.read_raw('{0}/a.fif')"),
    ],
)
def test_recordings_of_other_formats(tmp_path, name, beside, part):
    for file in (name, *(beside or "").split()):
        (tmp_path / file).write_text(name if file.endswith(".hea") else "")
    assert part.replace("{0}", str(tmp_path)) in refusal(load_dataset, tmp_path / name)


def test_files_that_are_not_there_do_not_exist(tmp_path):
    for name in ("a.wav", "a.xyz", "a.h5mu", "a.tif"):
        assert f"{name} does not exist" in refusal(load_dataset, tmp_path / name)


def test_tables_of_other_programs(tmp_path, monkeypatch):
    save_file({"X": rng.normal(size=(20, 3)), "y": np.arange(20) % 2}, tmp_path / "t.safetensors")
    data = follow(refusal(load_dataset, tmp_path / "t.safetensors"), tmp_path, monkeypatch)
    assert data.x.shape == (20, 3) and data.y.tolist() == [0, 1] * 10


def test_pictures_and_volumes(tmp_path, monkeypatch):
    import nibabel
    import tifffile

    x = rng.integers(0, 60_000, (8, 9), dtype=np.uint16)
    Image.fromarray(x).save(tmp_path / "a.j2k")
    follow(refusal(load_dataset, tmp_path / "a.j2k"), tmp_path, monkeypatch, tile=8, overlap=0)
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "a.tif"), x)
    Image.fromarray((x >> 8).astype("u1")).save(tmp_path / "p.tga")
    message = refusal(load_dataset, tmp_path / "p.tga")
    follow(message, tmp_path, monkeypatch, tile=8, overlap=0)
    np.testing.assert_array_equal(Image.open(tmp_path / "p.png"), x >> 8)
    nibabel.save(nibabel.MGHImage(rng.normal(size=(9, 8, 6)).astype("f4"), np.eye(4)), tmp_path / "v.mgz")
    assert follow(refusal(load_dataset, tmp_path / "v.mgz"), tmp_path, monkeypatch).x.shape == (6, 8, 9, 1)
    (tmp_path / "s.hdr").write_bytes(bytes(348))  # Analyze, not ENVI
    assert "is a volume, which is not read yet" in refusal(load_dataset, tmp_path / "s.hdr")


def test_files_of_other_fields(tmp_path, monkeypatch):
    (tmp_path / "g.gct").write_text("#1.2\n2\t3\nNAME\tDescription\ta\tb\tc\ng1\tna\t1\t2\t5\ng2\tna\t3\t4\t7\n")
    message = refusal(load_dataset, tmp_path / "g.gct")
    assert follow(message, tmp_path, monkeypatch, drop=["sample"]).x.tolist() == [[1, 3], [2, 4], [5, 7]]
    x = rng.normal(size=(3, 900)).astype("float32")
    with pytest.importorskip("h5py").File(tmp_path / "n.nwb", "w") as file:
        file["acquisition/lfp/data"], file["acquisition/lfp/starting_time"] = x.T, 0.0
        file["acquisition/lfp/starting_time"].attrs["rate"] = 30.0
    message = refusal(load_dataset, tmp_path / "n.nwb").replace("pip install h5py", "pip install nibabel")
    np.testing.assert_array_equal(follow(message, tmp_path, monkeypatch).x[1], x[:, 60:120])
    (tmp_path / "snps.bed").write_bytes(b"\x6c\x1b\x01\x00")
    part = "genotypes (PLINK), which is not read yet: pip install bed-reader"
    assert part in refusal(load_dataset, tmp_path / "snps.bed")


def test_motion_tracks_and_taxa(tmp_path, monkeypatch):
    x = rng.normal(size=(300, 6)).round(2)
    rows = "\n".join(" ".join(map(str, row)) for row in x)
    (tmp_path / "a.bvh").write_text(f"HIERARCHY\nROOT Hips\n{{\n}}\nMOTION\nFrames: 300\nFrame Time: 0.04\n{rows}\n")
    data = follow(refusal(load_dataset, tmp_path / "a.bvh"), tmp_path, monkeypatch)
    np.testing.assert_allclose(data.x[1], x[50:100].T, rtol=1e-5)
    for name, package in (("a.gpx", "gpxpy"), ("a.biom", "biom-format")):
        (tmp_path / name).write_text("")
        assert f"not read yet: pip install {package}, then" in refusal(load_dataset, tmp_path / name)


def test_tracks_and_days_of_watches(tmp_path, monkeypatch):
    point = "<Trackpoint><Time>2020-01-01T10:{:02d}:{:02d}.000Z</Time><Position><LatitudeDegrees>{}</LatitudeDegrees>"
    point += "</Position><HeartRateBpm>\n<Value>{}</Value></HeartRateBpm></Trackpoint>"
    points = "".join(point.format(i // 60, i % 60, 45 + i / 1e4, 120 + i % 9) for i in range(180))
    (tmp_path / "a.tcx").write_text(f'<T xmlns="http://garmin.com/v2"><Track>{points}</Track></T>')
    data = follow(refusal(load_dataset, tmp_path / "a.tcx"), tmp_path, monkeypatch)
    np.testing.assert_allclose(data.x[1, 1], 120 + np.arange(60, 120) % 9)
    day = '<Record type="{}" startDate="2020-03-{:02d} 10:00:00 -0800" value="{}"/>'
    days = "".join(day.format(kind, i % 20 + 1, i + n) for i in range(50) for n, kind in enumerate(("Rate", "Steps")))
    (tmp_path / "export.xml").write_text(f"<!DOCTYPE HealthData []>\n<HealthData>{days}</HealthData>")
    message = refusal(load_dataset, tmp_path / "export.xml")
    assert advised(message)[3].pop("drop") == "day"
    data = follow(message.replace(" --drop day", ""), tmp_path, monkeypatch, drop=["day"])
    assert data.feature_names == ["mean Rate", "mean Steps", "sum Rate", "sum Steps"]
    assert data.x[0].tolist() == [20, 21, 60, 63]
    (tmp_path / "a.fit").write_bytes(b"\x0e\x10\x43\x08\x00\x00\x00\x00.FIT" + bytes(99))
    assert "a recording of a watch (FIT), which is not read yet: pip install fitparse" in refusal(
        load_dataset, tmp_path / "a.fit"
    )


def test_maps_libraries_and_logs(tmp_path, monkeypatch):
    x = rng.normal(size=(20, 4)).round(3)
    features = [
        {"properties": {"size": a, "kind": "uv"[i % 2]}, "geometry": {"type": "Point", "coordinates": place}}
        for i, (a, *place) in enumerate(x.tolist())
    ]
    (tmp_path / "a.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    data = follow(refusal(load_dataset, tmp_path / "a.geojson"), tmp_path, monkeypatch, label="kind")
    assert data.feature_names == ["size", "lon", "lat", "height"] and np.allclose(data.x, x)
    (tmp_path / "a.msp").write_text(
        'Name: one\nNum Peaks: 3\n41 10\n43.2 20 "C3H7/0.1 5 5"\n55 1\n\nNAME: 2 9\nnum peaks: 2\n41 5; 99 7;\n\n'
    )
    data = follow(refusal(load_dataset, tmp_path / "a.msp"), tmp_path, monkeypatch)
    where = [(int(data.feature_names[j]), value) for row in data.x for j, value in enumerate(row) if value]
    assert where == [(41, 10), (43, 20), (55, 1), (41, 5), (99, 7)]
    head = "#separator \\x09\n#path\tconn\n#fields\tts\tbytes\tproto\n#types\ttime\tcount\tenum\n"
    rows = "".join(f"{i}.5\t{'-' if i % 7 == 0 else i}\t{'tcp' if i % 2 else 'udp'}\n" for i in range(30))
    for name in ("conn.log", "conn.txt"):
        (tmp_path / name).write_text(head + rows + "#close\t2020\n")
        message = refusal(load_dataset, tmp_path / name)
        assert "a log of Zeek" in message
        data = follow(message, tmp_path, monkeypatch)
        assert len(data.x) == 30 and data.feature_names[:2] == ["ts", "bytes"]
    (tmp_path / "dns.log").write_text('{"ts": 1, "n": 2}\n{"ts": 2, "n": 3}\n')
    assert "rename it to dns.jsonl" in refusal(load_dataset, tmp_path / "dns.log")


@pytest.mark.parametrize("header", [True, False])
def test_columns_of_fixed_width_with_empty_cells(tmp_path, monkeypatch, header):
    lines = [f"S{i:02d} {'' if i == 3 else i * 1.5 + 2:>6} {'uv'[i % 2]:>4}" for i in range(30)]
    (tmp_path / "a.txt").write_text("\n".join([" id    bmi kind"] * header + lines) + "\n")
    message = refusal(load_dataset, tmp_path / "a.txt")
    assert "of 3 columns of fixed width: python -c" in message
    data = follow(message, tmp_path, monkeypatch, label="kind" if header else "2")
    assert data.y.tolist() == list("uv") * 15 and data.x[1, 0] == 3.5


def test_files_whose_content_says_what_they_are(tmp_path):
    (tmp_path / "nmr/10/pdata/1").mkdir(parents=True)
    (tmp_path / "nmr/10/pdata/1/1r").write_bytes(bytes(40))
    parts = {
        "nmr": "NMR spectra of Bruker, which is not read yet: pip install nmrglue",
        "s-epo.fif": "mne.read_epochs(",
    }
    for name in ("s-epo.fif", "a.eeg"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "a.vhdr").write_text("Brain Vision")
    scipy.io.savemat(tmp_path / "s.set", {"EEG": {"trials": 5, "data": np.zeros((2, 3, 5))}})
    with scipy.io.netcdf_file(tmp_path / "buoy.nc", "w") as file:
        file.createDimension("time", 5)
        file.createVariable("heat", "f8", ("time",))[:] = np.arange(5)
    (tmp_path / "scan.las").write_bytes(b"LASF" + bytes(9))
    parts |= {"a.eeg": "belongs to a.vhdr", "s.set": "mne.read_epochs_eeglab(", "buoy.nc": "--time at --length 100"}
    for name, part in (parts | {"scan.las": "a cloud of points"}).items():
        assert part in refusal(load_dataset, tmp_path / name), name


@pytest.mark.parametrize("packed", [False, True])
def test_a_log_of_events(tmp_path, monkeypatch, packed):
    traces = "".join(
        f'<trace><string key="kind" value="{"uv"[i % 2]}"/>'
        + "".join(f'<event><string key="concept:name" value="{name}"/></event>' for name in ("a", *"bb"[: i % 3], "c"))
        + "</trace>"
        for i in range(12)
    )
    text = f'<log xmlns="http://www.xes-standard.org/">{traces}</log>'.encode()
    path = tmp_path / f"log.xes{'.gz' * packed}"
    path.write_bytes(gzip.compress(text) if packed else text)
    data = follow(refusal(load_dataset, path), tmp_path, monkeypatch, label="case:kind")
    assert data.feature_names[:5] == ["a", "c", "a > c", "b", "a > b"] and data.x.shape == (12, 7)
    assert data.x[:, 3].tolist() == [0, 1, 2] * 4 and data.y.tolist() == ["u", "v"] * 6


def test_a_series_of_geo_keeps_what_is_said_of_its_samples(tmp_path, monkeypatch):
    rows = [f"cg{i}\t" + "\t".join(map(str, rng.normal(size=20).round(2))) for i in range(30)]
    said = (
        '!Series_title\t"s"\n!Sample_title'
        + '\t"x"' * 20
        + "\n"
        + "".join(
            "!Sample_characteristics_ch1\t" + "\t".join(f'"{key}: {value}"' for value in values) + "\n"
            for key, values in (("tissue", "lk" * 10), ("age", [30 + i % 7 for i in range(20)]))
        )
    )
    text = (
        f"{said}!series_matrix_table_begin\nID_REF\t" + "\t".join(f"G{i}" for i in range(20)) + "\n" + "\n".join(rows)
    )
    (tmp_path / "g.txt.gz").write_bytes(gzip.compress(f"{text}\n!series_matrix_table_end\n".encode()))
    data = follow(refusal(load_dataset, tmp_path / "g.txt.gz"), tmp_path, monkeypatch, label="tissue")
    assert data.y.tolist() == [*"lk"] * 10 and data.feature_names == [f"cg{i}" for i in range(30)]
    assert load_dataset("g.csv", labels="g_samples.csv", label="age", target="number").y.tolist() == [
        30 + i % 7 for i in range(20)
    ]


def test_keypoints_in_hdf5_of_other_programs(tmp_path, monkeypatch):
    h5py = pytest.importorskip("h5py")
    x = rng.normal(size=(2, 2, 3, 120))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["tracks"], file["node_names"] = x, [b"a", b"b", b"c"]
    message = refusal(load_dataset, tmp_path / "a.h5")
    assert "keypoints of SLEAP" in message
    data = follow(message.replace("pip install h5py", "pip install nibabel"), tmp_path, monkeypatch)
    np.testing.assert_allclose(data.x[1], x.reshape(12, 120)[:, 60:], rtol=1e-5)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["df_with_missing/table"] = np.zeros(3, [("index", "i8"), ("values", "f8", 6)])
    assert "pip install tables, then" in refusal(load_dataset, tmp_path / "b.h5")


def test_files_of_cytometry_are_converted_together(tmp_path, monkeypatch, capsys):
    class FlowData:
        """Of flowio: two cells, whose names tell mass from fluorescence."""

        def __init__(self, file, ignore_offset_error):
            self.pnn_labels, self.pns_labels = (
                (["Time", "FSC-A", "B1", "B2-A", "B2-H"] if "f" in file.stem else ["Time", "C", "B1", "B2-A", "B2-H"]),
                [" ", " ", "CD4", "CD8", "CD8"],  # names of several columns are those of their channels, too
            )

        def as_array(self):
            return np.array([[1.0, 300, 150, 1, 2], [2, 500, 0, 1, 2]])

    monkeypatch.setitem(sys.modules, "flowio", SimpleNamespace(FlowData=FlowData))
    for name in ("a.fcs", "b.FCS"):
        (tmp_path / "set" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "set" / name).write_bytes(b"FCS3.1")
    (tmp_path / "f.fcs").write_bytes(b"FCS3.1")
    monkeypatch.chdir(tmp_path)
    for path, markers, k in (("set", ["C", "CD4"], 5), ("f.fcs", ["CD4"], 150)):
        _, code, out, options = advised(refusal(load_dataset, tmp_path / path))
        exec(code, {"__name__": "line"})
        found = pd.read_csv(out)
        assert options == ({"groups": "file"} if path == "set" else {"drop": "file"})
        assert found["file"].tolist() == (["a", "a", "b", "b"] if path == "set" else ["f", "f"])
        np.testing.assert_allclose(found["CD4"][:2], np.arcsinh([150 / k, 0]))
        assert found["Time"].tolist()[:2] == [1, 2] and ("FSC-A" not in found or found["FSC-A"][0] == 300)
        assert {*markers, "CD8 B2-A", "CD8 B2-H"} <= set(found)
    capsys.readouterr()
    for name in ("u/m1.fcs", "u/m2.fcs", "v/m1.fcs", "v/f.fcs"):
        (tmp_path / "kinds" / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / "kinds" / name).write_bytes(b"FCS3.1")
    exec(advised(refusal(load_dataset, tmp_path / "kinds"))[1], {"__name__": "line"})
    said = "left out, as not all files have them: C, FSC-A\nof folders as labels: --label folder --split-groups"
    assert said in capsys.readouterr().out
    found = pd.read_csv("kinds.csv")
    assert found.folder.tolist() == [*"uuuuvvvv"] and found.file.tolist()[::2] == ["u/m1", "u/m2", "v/f", "v/m1"]


def test_mass_spectra_of_a_folder_are_converted_together(tmp_path, monkeypatch):
    masses = {"a": [100.2, 100.9], "b": [300.5, 1999.5]}

    def read(file):
        """Of pyteomics: two spectra of each file."""
        return [
            {"m/z array": np.array(masses[Path(file).stem]), "intensity array": np.array([2.0, 3.0 + k])}
            for k in (0, 1)
        ]

    monkeypatch.setitem(sys.modules, "pyteomics", SimpleNamespace(mzml=SimpleNamespace(read=read)))
    monkeypatch.chdir(tmp_path)
    for name in ("set/a.mzML", "set/b.mzML", "b.mzML"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("<mzML/>")
    for path, files in (("set", ["a", "a", "b", "b"]), ("b.mzML", ["b", "b"])):
        message = refusal(load_dataset, tmp_path / path)
        _, code, out, _ = advised(message.removesuffix(" --split-groups"))
        exec(code, {"__name__": "line"})
        found = pd.read_csv(out)
        assert message.endswith(" --groups file --split-groups" if path == "set" else " --drop file")
        assert found.file.tolist() == files and found["1999"].tolist()[-2:] == [3, 4] and found["300"].iloc[-1] == 2
        assert path != "set" or found["100"].tolist() == [5, 6, 0, 0]


def test_a_study_of_metabolomics_workbench(tmp_path, monkeypatch):
    samples = range(20)
    rows = [
        ["Samples", *(f"S{i}" for i in samples)],
        ["Factors", *(f"Diet:{['low', 'high'][i % 2]} | Sex:F" for i in samples)],
        *(
            [name, *(str(2.0 ** (i % 5)) if i or name == "urea" else "" for i in samples)]
            for name in ("urea", "lactate")
        ),
        ["rare", *("1" if i == 3 else "" for i in samples)],
    ]
    lines = ["#METABOLOMICS WORKBENCH STUDY_ID:ST1", "VERSION\t1", "MS_METABOLITE_DATA_START", *map("\t".join, rows)]
    (tmp_path / "ST1.txt").write_text("\n".join([*lines, "MS_METABOLITE_DATA_END", "#END"]) + "\n")
    data = follow(refusal(load_dataset, tmp_path / "ST1.txt"), tmp_path, monkeypatch, label="Diet")
    assert data.y.tolist() == ["low", "high"] * 10 and np.allclose(data.x[:5, 0], range(5))


class Trace:
    """Of obspy."""

    def __init__(self, data, begin):
        self.data, self.stats = data, SimpleNamespace(starttime=begin, sampling_rate=100.0)

    def __len__(self):
        return len(self.data)


class Stream(list):
    """Of obspy: traces, which begin at different points."""

    def merge(self, fill_value):
        return self

    def sort(self):
        return self

    def trim(self, start):
        for trace in self:
            trace.data = trace.data[start - trace.stats.starttime :]


def test_seismograms_are_converted_together(tmp_path, monkeypatch):
    def read(path, dtype):
        i = int(Path(path).stem)
        return Stream([Trace(np.arange(60 + i, dtype="i4"), 0), Trace(np.arange(50.0), 2)])

    monkeypatch.setitem(sys.modules, "obspy", SimpleNamespace(read=read))
    for i in range(4):
        (tmp_path / f"set/{'qn'[i % 2]}").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"set/{'qn'[i % 2]}/{i}.mseed").write_bytes(b"0")
    monkeypatch.chdir(tmp_path)
    _, code, out, options = advised(refusal(load_dataset, tmp_path / "set"))
    exec(code, {"__name__": "line"})
    with np.load(out) as found:
        assert found["X"].shape == (4, 2, 61) and found["y"].tolist() == ["n", "n", "q", "q"] and found["fs"] == 100
        assert found["X"][0, 0, 0] == 2 and np.isnan(found["X"][0, 1, 50:]).all() and found["X"][1, 0, 60] == 62
    assert options == {"modality": "series"}
    _, code, out, options = advised(refusal(load_dataset, tmp_path / "set/q/0.mseed"))
    exec(code, {"__name__": "line"})
    with np.load(out) as found:
        assert found["X"].shape == (1, 2, 58) and "y" not in found and options["length"] == "10s"


@pytest.mark.parametrize("kinds", [("a", "b"), (".",)])
def test_a_folder_of_documents(tmp_path, monkeypatch, kinds):
    words, rng = ["rain", "wind", "goal", "team", "vote", "law,"], np.random.default_rng(0)
    for i in range(12):
        file = tmp_path / "docs" / kinds[i % len(kinds)] / f"{i}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(" ".join(rng.choice(words, n)) for n in (9, 14, 5)))
    data = follow(refusal(load_dataset, tmp_path / "docs"), tmp_path, monkeypatch)
    assert data.x.shape == (12, 6) and (data.y is None) == (len(kinds) == 1)


def test_a_table_of_proteins_of_maxquant(tmp_path, monkeypatch):
    x = np.exp2(rng.normal(20, 1, (30, 4))).round()
    x[0, 1] = x[3] = 0  # missing; and a protein that nobody has
    frame = pd.DataFrame(x, columns=[f"LFQ intensity s{i}" for i in range(4)]).assign(Reverse="")
    frame.insert(0, "Protein IDs", [f"P{i};Q{i}" for i in range(30)])
    frame.insert(1, "Peptide counts (all)", ["1;2", *"3" * 29])
    frame.loc[5, "Reverse"] = "+"
    frame.assign(**{"Intensity s0": 1.0}).to_csv(tmp_path / "proteinGroups.txt", sep="\t", index=False)
    data = follow(refusal(load_dataset, tmp_path / "proteinGroups.txt"), tmp_path, monkeypatch)
    found = pd.read_csv(tmp_path / "proteinGroups.csv", index_col="sample")
    assert found.shape == (4, 28) and list(found.columns[:4]) == ["P0;Q0", "P1;Q1", "P2;Q2", "P4;Q4"]
    np.testing.assert_allclose(found.iloc[:, 1], np.log2(x[1]))
    assert np.isnan(found.iloc[1, 0]) and data.x.shape[0] == 4
    assert len(load_dataset(tmp_path / "proteinGroups.txt", columns={"Peptide counts (all)": "drop"}).x) == 30


@pytest.mark.parametrize(
    ("file", "head", "tail"),
    [
        ("{}.txt", "", "__no_feature\t9\n__ambiguous\t9\n"),
        ("{}ReadsPerGene.out.tab", "N_unmapped\t9\nN_noFeature\t9\n", ""),
        ("{}/abundance.tsv", "target_id\tlength\teff_length\test_counts\ttpm\n", ""),
        ("{}.genes.results", "gene_id\ttranscript_id(s)\tlength\teffective_length\texpected_count\tTPM\n", ""),
    ],
)
def test_counts_of_a_sample_in_each_file(tmp_path, monkeypatch, file, head, tail):
    x = rng.poisson(20, (5, 30))
    for name, row in zip("abcde", x, strict=True):
        (path := tmp_path / "counts" / file.format(name)).parent.mkdir(parents=True, exist_ok=True)
        skipped = {"t": "1\t1\t", "g": "x\t1\t1\t"}.get(head[:1], "")
        path.write_text(head + "".join(f"g{i}\t{skipped}{v}\n" for i, v in enumerate(row)) + tail)
    said = refusal(load_dataset, tmp_path / "counts")
    assert "has counts of genes, a file for each of 5 samples" in said and "recording" not in said
    monkeypatch.chdir(tmp_path)
    exec(advised(said)[1], {})
    found = pd.read_csv(tmp_path / "counts_counts.csv", index_col="sample")
    assert [name[0] for name in found.index] == [*"abcde"] and found.to_numpy().tolist() == x.tolist()


@pytest.mark.parametrize("dot", [" ", "."])
def test_reporter_ions_of_maxquant_are_samples(tmp_path, monkeypatch, dot):
    """Of each experiment, without totals; R writes dots for blanks."""
    names = ["Reporter intensity corrected 1", *(f"Reporter intensity corrected {i} a" for i in (1, 2, 3))]
    frame = pd.DataFrame(np.exp2(rng.normal(20, 1, (30, 4))), columns=names).assign(Intensity=1.0)
    frame.insert(0, "Protein IDs", [f"P{i}" for i in range(30)])
    frame = frame.assign(**{"Only identified by site": ["+", *[""] * 29]})
    frame.columns = [name.replace(" ", dot) for name in frame.columns]
    frame.to_csv(tmp_path / "proteinGroups.txt", sep="\t", index=False)
    assert follow(refusal(load_dataset, tmp_path / "proteinGroups.txt"), tmp_path, monkeypatch).x.shape == (3, 29)


def test_damaged_files_are_named_all_the_same(tmp_path):
    for name in ("a.h5", "a.h5mu", "a.mat", "a.wav", "a.tif", "a.loom"):
        (tmp_path / name).write_bytes(b"nothing of the kind")
        assert name in refusal(load_dataset, tmp_path / name)


# --- counts with genes in rows


# --- letters


def test_gaps_of_proteins(tmp_path):
    (tmp_path / "p.fasta").write_text("".join(f">p{i}\nMKFLI-LPQ{'AFLE'[i]}*\nEFKL\n" for i in range(4)))
    line = re.search("sed .*", refusal(load_dataset, tmp_path / "p.fasta"))[0]
    subprocess.run(["sh", "-c", line], cwd=tmp_path, check=True)
    assert bytes(load_dataset(tmp_path / "p_letters.fasta").x[1]) == b"MKFLILPQFEFKL"


@pytest.mark.parametrize(
    ("name", "text", "shape"),
    [
        ("a.tbl", "x\ty\nc1\t1\t2\nc2\t3\t4.5\n", (2, 2)),  # names of rows without a name, as R writes them
        ("a.cat", "#  1 NUMBER\n#  2 X\n  1  2.5 3\n  2  4.5 -1\n 3 1 1\n", (3, 3)),
        ("a", "u v\n1 2\n3 1\n", (2, 2)),
    ],
)
def test_tables_of_text(tmp_path, monkeypatch, name, text, shape):
    (tmp_path / name).write_text(text)
    data = follow(refusal(load_dataset, tmp_path / name), tmp_path, monkeypatch)
    assert len(data.x) == shape[0] and data.x.shape[1] >= shape[1]


def test_texts_that_are_told_by_their_first_lines(tmp_path, monkeypatch):
    path = tmp_path / "a1a.txt"
    path.write_text("-1 3:1 11:0.5 14:1 19:1\n+1 2:1 5:1 9:3\n" * 10)
    assert follow(refusal(load_dataset, path), tmp_path, monkeypatch).x.shape == (20, 19)
    path.write_text("1 10:30 11:45 12:50\n2 10:30 11:45 10:50\n" * 10)  # times of day
    assert len(load_dataset(path, header="no").x) == 20
    series = '!Series_title\t"a"\n\n!series_matrix_table_begin\n"ID_REF"\t"GSM1"\t"GSM2"\t"GSM3"\n'
    series += "".join(f'"{i}_at"\t{i}.5\t{i * i}\t3\n' for i in range(6)) + "!series_matrix_table_end\n"
    path = tmp_path / "GSE1_series_matrix.txt.gz"
    path.write_bytes(gzip.compress(series.encode()))
    found = follow(refusal(load_dataset, path), tmp_path, monkeypatch, labels=None, label=None)
    assert len(found.x) == 3 and {"0_at", "5_at"} < set(found.feature_names)


@pytest.mark.parametrize("content", [b"", b"one line", b"a b\nc\nd e f\n", b"\xff\xfe\0\1\n\0\n", b"a b\n"])
def test_other_text_is_no_table(tmp_path, content):
    (tmp_path / "a.xyz").write_bytes(content)
    message = refusal(load_dataset, tmp_path / "a.xyz")
    assert "if it is a table" not in message and "the extension '.xyz'" in message


@pytest.mark.parametrize(("entries", "rows"), [(1, 5), (3, 3)])
def test_proteins_of_uniprot_are_told_by_their_first_line(tmp_path, monkeypatch, entries, rows):
    letters = "".join(f"     {'MKFLILPQAE ' * 6}\n" for _ in range(5))
    entry = f"ID   7LESS_DROME             Reviewed;         300 AA.\nSQ   SEQUENCE   300 AA;\n{letters}//\n"
    (tmp_path / "7LESS_DROME").write_text(entries * entry)
    found = follow(refusal(load_dataset, tmp_path / "7LESS_DROME"), tmp_path, monkeypatch).x
    assert found.shape == (rows, 100 if entries == 1 else 300) and bytes(found[0][:10]) == b"MKFLILPQAE"


def test_folders_of_cifar(tmp_path, monkeypatch):
    folder = tmp_path / "cifar"
    folder.mkdir()
    pixels, kinds = rng.integers(0, 256, (12, 3072), dtype=np.uint8), np.arange(12, dtype=np.uint8) % 2
    for name, part in (("data_batch_1.bin", slice(8)), ("test_batch.bin", slice(8, 12))):
        np.column_stack([kinds[part], pixels[part]]).tofile(folder / name)
    data = follow(refusal(load_dataset, folder), tmp_path, monkeypatch)
    np.testing.assert_array_equal(data.x.transpose(0, 3, 1, 2).reshape(12, 3072), pixels)
    assert len(data.train_index) == 8 and data.y.tolist() == kinds.tolist()
    (folder / "data_batch_1.bin").rename(folder / "batches.meta")
    assert "pickles of CIFAR, which are never opened" in refusal(load_dataset, folder)


def test_places_of_electrodes_name_the_recording_beside_them(tmp_path):
    (tmp_path / "chan32.locs").write_text("1 0 0.5 FPz\n2 23 0.7 EOG1\n")
    assert "give the recording (.set, .edf, .bdf)" in refusal(load_dataset, tmp_path / "chan32.locs")
    (tmp_path / "a.set").write_bytes(b"0")
    assert "mne.io.read_raw" in advised(refusal(load_dataset, tmp_path / "chan32.locs"))[1]
    (tmp_path / "b.edf").write_bytes(b"0")
    assert f"give the recording {tmp_path / 'b.edf'}" in refusal(load_dataset, tmp_path / "chan32.locs")
