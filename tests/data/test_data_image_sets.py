"""Data sets of images as they are published: the line that is said for each is run, and its result is read."""

import json
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.io
from advised_lines import advised, follow
from PIL import Image

from refusals import refusal
from viewsmith.data import load_dataset
from viewsmith.data.any_size import read_samples

rng = np.random.default_rng(0)
X, Y = rng.integers(0, 256, (12, 32, 32, 3), np.uint8), np.arange(12, dtype=np.uint8) % 3
PARTS = {"train": slice(8), "test": slice(8, 12)}


def cifar_100(folder):
    for part, rows in PARTS.items():
        pixels = X[rows].transpose(0, 3, 1, 2).reshape(-1, 3072)
        np.column_stack([Y[rows] * 0, Y[rows], pixels]).tofile(folder / f"{part}.bin")
    (folder / "fine_label_names.txt").write_text("a\nb\nc\n")


def stl10(folder):
    for part, rows in PARTS.items():
        X[rows].repeat(3, 1).repeat(3, 2).transpose(0, 3, 2, 1).tofile(folder / f"{part}_X.bin")
        Y[rows].tofile(folder / f"{part}_y.bin")


def svhn(folder):
    for part, rows in PARTS.items():
        arrays = {"X": X[rows].transpose(1, 2, 3, 0), "y": Y[rows][:, None]}
        scipy.io.savemat(folder / f"{part}_32x32.mat", arrays)


def camelyon(folder):
    h5py = pytest.importorskip("h5py")
    for part, rows in PARTS.items():
        for name, array in (("x", X[rows]), ("y", Y[rows].reshape(-1, 1, 1, 1))):
            with h5py.File(folder / f"camelyonpatch_level_2_split_{part}_{name}.h5", "w") as file:
                file[name] = array


def kuzushiji(folder):
    for part, rows in PARTS.items():
        np.savez(folder / f"kmnist-{part}-imgs.npz", X[rows])
        np.savez(folder / f"kmnist-{part}-labels.npz", Y[rows])


@pytest.mark.parametrize("write", [cifar_100, stl10, svhn, camelyon, kuzushiji])
def test_arrays_in_several_files(tmp_path, monkeypatch, write):
    folder = tmp_path / "set"
    folder.mkdir()
    write(folder)
    said = refusal(load_dataset, folder).replace(".npz;", ".npz ;").replace("pip install h5py, then ", "")
    data = follow(said, tmp_path, monkeypatch)
    step = data.x.shape[1] // 32
    np.testing.assert_array_equal(data.x[:, ::step, ::step], X)
    assert data.y.tolist() == Y.tolist() and data.split == "given" and len(data.train_index) == 8


def saved(folder):
    """The images in a folder of files 00.png to 11.png."""
    folder.mkdir(parents=True)
    for i, image in enumerate(X):
        Image.fromarray(image).save(folder / f"{i:02d}.png")
    return folder


def test_archives_and_classes_beside_images(tmp_path, monkeypatch, recwarn):
    """Of a web data set: a folder of archives, and of what is in them."""
    files = saved(tmp_path / "files")
    for i, y in enumerate(Y):
        (files / f"{i:02d}.cls").write_text(f"{y}\n")
    (tmp_path / "set").mkdir()
    with tarfile.open(tmp_path / "set" / "train-000000.tar", "w") as file:
        for each in sorted(files.iterdir()):
            file.add(each, each.name)
    data = follow(refusal(load_dataset, tmp_path / "set"), tmp_path, monkeypatch)
    np.testing.assert_array_equal(data.x, X)
    assert data.y is None
    said = str(recwarn.pop().message)
    assert "12 entries that are not images, ignored: 00.cls" in said
    assert follow(said, tmp_path, monkeypatch).y.tolist() == Y.tolist()


def coco(folder, boxes):
    found = saved(folder / "images")
    annotations = [{"image_id": i, "category_id": int(y), "bbox": [4, 8, 20, 10]} for i, y in enumerate(Y)]
    images = [{"id": i, "file_name": file.name} for i, file in enumerate(sorted(found.iterdir()))]
    names = [{"id": i, "name": f"k{i}"} for i in range(3)]
    (folder / "annotations").mkdir()
    (folder / "annotations" / "captions.json").write_text("[]")
    about = {"images": images, "annotations": annotations, "categories": names}
    (folder / "annotations" / "instances.json").write_text(json.dumps(about))


def voc(folder, boxes):
    saved(folder / "JPEGImages")
    (folder / "Annotations").mkdir()
    box = "".join(f"<{name}>{at}</{name}>" for name, at in zip(("xmin", "ymin", "xmax", "ymax"), boxes, strict=True))
    for i, y in enumerate(Y):
        (folder / "Annotations" / f"{i:02d}.xml").write_text(
            f"<annotation><object><name>k{y}</name><bndbox>{box}</bndbox></object></annotation>"
        )


def yolo(folder, boxes):
    saved(folder / "images" / "train")
    (folder / "labels" / "train").mkdir(parents=True)
    left, top, right, bottom = (at / 32 for at in boxes)
    line = f"{(left + right) / 2} {(top + bottom) / 2} {right - left} {bottom - top}"
    for i, y in enumerate(Y):
        (folder / "labels" / "train" / f"{i:02d}.txt").write_text(f"{y} {line}\n{y} .5 .5 .01 .01\n")


def table(folder, boxes, per=1, name="{:02d}.png"):
    saved(folder)
    lines = [",".join([name.format(i), f"k{y}", *(str(at / per) for at in boxes)]) for i, y in enumerate(Y)]
    rows = ["image_id,class,x_min,y_min,x_max,y_max", *lines, "none.png,,,,,"]
    (folder / "boxes.csv").write_text("\n".join(rows))


def table_of_parts(folder, boxes):
    table(folder, boxes, 32, "x/{:02d}")


@pytest.mark.parametrize(
    ("write", "kind"), [(coco, "k{}"), (voc, "k{}"), (yolo, "class {}"), (table, "k{}"), (table_of_parts, "k{}")]
)
def test_objects_in_boxes_become_samples(tmp_path, monkeypatch, recwarn, write, kind):
    """With their classes and, as groups, their images; boxes below four pixels are left out."""
    write(tmp_path / "set", (4, 8, 24, 18))
    load_dataset(tmp_path / "set")
    said = str(recwarn.pop().message)
    assert "there are boxes of objects" in said and said.endswith(" --label label --groups image --split-groups")
    data = follow(said.removesuffix(" --split-groups"), tmp_path, monkeypatch, image_size=10)
    order = [int(name[:-4]) for name in data.row_names]
    assert data.y.tolist() == [kind.format(Y[i]) for i in order] and data.groups.tolist() == [f"{i:02d}" for i in order]
    np.testing.assert_array_equal(data.x, X[order, 8:18, 9:19])


def test_a_table_of_boxes_that_is_given_as_labels_is_told(tmp_path, monkeypatch, recwarn):
    table(tmp_path / "set", (4, 8, 24, 18))
    (tmp_path / "set" / "boxes.csv").rename(tmp_path / "boxes.csv")
    data = load_dataset(tmp_path / "set", labels=tmp_path / "boxes.csv", label="class")
    said = str(recwarn.pop().message)
    assert len(data.x) == len(Y) and "whole images are the samples; there are boxes of objects in a table" in said
    assert follow(said.removesuffix(" --split-groups"), tmp_path, monkeypatch, image_size=10).x.shape[1:3] == (10, 10)


def test_frames_of_microscopes_and_detectors(tmp_path, monkeypatch):
    """Their libraries are stood in for."""
    import sys

    tifffile = pytest.importorskip("tifffile")
    frame = rng.normal(size=(24, 24)).astype("float32")
    signals = [
        {"data": np.ones((40, 24)), "axes": [{"navigate": True}, {"navigate": False}]},
        {"data": frame, "axes": [{}, {}]},
    ]
    read = {
        "fabio": SimpleNamespace(open=lambda _: SimpleNamespace(data=frame)),
        "rsciio": SimpleNamespace(),
        "rsciio.digitalmicrograph": SimpleNamespace(file_reader=lambda _: signals),
    }
    for name, module in read.items():
        monkeypatch.setitem(sys.modules, name, module)
    for suffix, package in ((".cbf", "fabio"), (".dm4", "rosettasciio scikit-image h5py")):
        (tmp_path / f"a{suffix}").write_bytes(b"0")
        said = refusal(load_dataset, tmp_path / f"a{suffix}")
        assert f"pip install {package} 'viewsmith[microscopy]', then " in said
        said = said.replace(f"{package} 'vie", "'vie").replace(" --tile 128", "").replace(" --tile 64", "")
        assert len(follow(said, tmp_path, monkeypatch, tile=8, overlap=0).x) == 9
        np.testing.assert_array_equal(tifffile.imread(tmp_path / "a.tif").squeeze(), frame)


def test_acquisitions_of_imaging_mass_cytometry(tmp_path, monkeypatch):
    """Its library is stood in for."""
    import sys

    pytest.importorskip("tifffile")
    parts = [SimpleNamespace(id=i, channel_labels=["DNA", ""], channel_names=["Ag107", "Ir191"]) for i in (1, 2)]
    pixels = rng.normal(size=(2, 24, 16)).astype("float32")

    class MCDFile:
        def __init__(self, path):
            self.path, self.slides = Path(path), [SimpleNamespace(acquisitions=parts)]

        def __enter__(self):
            return self

        def read_acquisition(self, part):
            return pixels * part.id

    monkeypatch.setitem(sys.modules, "readimc", SimpleNamespace(MCDFile=MCDFile))
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "a.mcd").write_bytes(b"0")
    for given in (tmp_path / "set" / "a.mcd", tmp_path / "set"):
        said = refusal(load_dataset, given).replace("readimc 'vie", "'vie").replace(" --tile 32", "")
        data = follow(said, tmp_path, monkeypatch, tile=8, overlap=0)
        assert data.schema["signal"]["channel_names"] == ["DNA", "Ir191"] and data.schema["signal"]["micrometers"] == 1
        np.testing.assert_array_equal(data.x[6], 2 * pixels[:, :8, :8].transpose(1, 2, 0))


def test_frames_with_the_ending_of_recordings(tmp_path, monkeypatch):
    """Of ESRF, whose header is a text in braces."""
    import sys

    pytest.importorskip("tifffile")
    frame = rng.normal(size=(24, 24)).astype("float32")
    monkeypatch.setitem(sys.modules, "fabio", SimpleNamespace(open=lambda _: SimpleNamespace(data=frame)))
    (tmp_path / "set").mkdir()
    for name in ("a", "b"):
        (tmp_path / "set" / f"{name}.edf").write_bytes(b"{\nHeaderID = EH:000001:000000:000000 ;\n}\n")
    assert "a.edf is a frame of a detector" in refusal(load_dataset, tmp_path / "set" / "a.edf")
    said = refusal(load_dataset, tmp_path / "set").replace("fabio 'vie", "'vie")
    np.testing.assert_array_equal(follow(said, tmp_path, monkeypatch).x, [frame[..., None]] * 2)


def test_pixels_in_the_cells_of_a_column(tmp_path, capsys, recwarn):
    """As in FER2013, whose column of the split is not read."""
    gray = rng.integers(0, 256, (20, 8, 8))
    lines = [f"{i % 2},{' '.join(map(str, x.ravel()))},Training" for i, x in enumerate(gray)]
    (tmp_path / "x.csv").write_text("\n".join(["emotion,pixels,Usage", *lines]) + "\n")
    data = load_dataset(tmp_path / "x.csv", label="emotion", modality="images")
    np.testing.assert_array_equal(data.x, gray)
    assert data.y.tolist() == [0, 1] * 10 and "not used: Usage" in capsys.readouterr().err
    load_dataset(tmp_path / "x.csv", label="emotion")
    assert "square images: --modality images" in str(recwarn.pop().message)
    (tmp_path / "x.csv").write_text(f"i,pixels\n0,[{' 1' * 64}]\n1,[1 2 3 4]\n")
    assert "has 4 to 64 numbers in a cell" in refusal(load_dataset, tmp_path / "x.csv", modality="images")


def test_folders_of_a_split_whose_names_have_more(tmp_path):
    """As of ISIC: they would be two classes."""
    for name in ("ISIC_2019_Training_Input", "ISIC_2019_Test_Input"):
        saved(tmp_path / "set" / name)
    data = load_dataset(tmp_path / "set")
    assert data.y is None and data.split == "given" and data.row_names[0].startswith("ISIC_2019_Training")


def test_a_column_for_each_class(tmp_path, monkeypatch):
    """As of ISIC: the line makes one column of them."""
    folder = saved(tmp_path / "set")
    lines = [f"{i:02d},{','.join(str(float(y == kind)) for kind in range(3))}" for i, y in enumerate(Y)]
    (tmp_path / "truth.csv").write_text("\n".join(["image,a,b,c", *lines]) + "\n")
    said = refusal(load_dataset, folder, labels=tmp_path / "truth.csv")
    assert said.endswith("and give --labels truth_classes.csv --label label")
    monkeypatch.chdir(tmp_path)
    exec(advised(said.replace("give --labels ", "give "))[1], {"__name__": "line"})
    assert load_dataset(folder, labels=tmp_path / "truth_classes.csv", label="label").y.tolist() == ["a", "b", "c"] * 4


def test_moments_of_images_are_channels(tmp_path):
    x = rng.integers(0, 9000, (6, 4, 8, 8, 2)).astype("uint16")
    np.savez(tmp_path / "x.npz", X=x)
    line = refusal(load_dataset, tmp_path / "x.npz").split("these are channels: ")[1]
    n, h, w = 6, 8, 8
    np.savez(tmp_path / "y.npz", X=eval(line, {"X": x, "n": n, "H": h, "W": w}))
    assert load_dataset(tmp_path / "y.npz").x.shape == (6, 8, 8, 8)


def test_bands_of_satellites_are_channels(tmp_path, capsys):
    """Not samples, as each of them is a file; folders of one image each are no classes."""
    tifffile = pytest.importorskip("tifffile")
    for place in ("set/{}", "flat"):
        for i in range(12):
            folder = tmp_path / place.format(i)
            folder.mkdir(parents=True, exist_ok=True)
            for band in ("B02", "B8A"):
                tifffile.imwrite(folder / f"p{i}_{band}.tif", rng.integers(0, 9000, (8, 8)).astype("u2"))
    load_dataset(tmp_path / "flat")
    assert "if _B02, _B8A are channels of an image: --channel-files '{name}_B{channel}.tif'" in capsys.readouterr().err
    for place in ("set", "flat"):
        data = load_dataset(tmp_path / place, channel_files="{name}_B{channel}.tif")
        assert data.x.shape == (12, 8, 8, 2) and data.y is None


def run_line(message, folder, monkeypatch):
    """Run the line of a message in a folder; what it has written."""
    monkeypatch.chdir(folder)
    _, code, out, _ = advised(message)
    exec(code, {"__name__": "line"})
    return Path(out)


def test_bands_of_sentinel_2_are_read_and_not_the_preview(tmp_path, monkeypatch):
    imagecodecs = pytest.importorskip("imagecodecs")
    bands = tmp_path / "S2A.SAFE" / "GRANULE" / "L2A_T31" / "IMG_DATA"
    for name, sides in {"B02_10m": 60, "B02_20m": 30, "B11_20m": 30, "TCI_10m": 60}.items():
        path = bands / f"R{name[-3:]}" / f"T31UFS_20200101T000000_{name}.jp2"
        path.parent.mkdir(parents=True, exist_ok=True)
        plane = rng.integers(0, 4000, (sides, sides)).astype("uint16")
        path.write_bytes(imagecodecs.jpeg2k_encode(plane, level=0))
    Image.fromarray(X[0]).save(tmp_path / "S2A.SAFE" / "preview.jpg")
    (tmp_path / "S2A.SAFE" / "MTD_MSIL2A.xml").write_text("<a/>")
    said = refusal(load_dataset, tmp_path / "S2A.SAFE", tile=16)
    assert "S2A.SAFE has the bands of Sentinel-2" in said and said.endswith("--channel-files '{channel}.jp2' --tile 64")
    out = run_line(said, tmp_path, monkeypatch)
    assert load_dataset(out, channel_files="{channel}.jp2", tile=16).x.shape == (25, 16, 16, 2)
    assert "S2A.SAFE has the bands" in refusal(read_samples, str(tmp_path / "S2A.SAFE"))


def test_images_of_sentinel_1(tmp_path, monkeypatch):
    tifffile = pytest.importorskip("tifffile")
    (tmp_path / "S1A.SAFE" / "measurement").mkdir(parents=True)
    for name in ("vv", "vh"):
        file = tmp_path / "S1A.SAFE" / "measurement" / f"s1a-iw-grd-{name}-20200101t055000-001.tiff"
        tifffile.imwrite(file, rng.integers(0, 900, (40, 40)).astype("uint16"))
    out = run_line(refusal(load_dataset, tmp_path / "S1A.SAFE"), tmp_path, monkeypatch)
    assert load_dataset(out, channel_files="{channel}.tiff", tile=20, overlap=0).x.shape == (4, 20, 20, 2)


def test_complex_numbers_are_not_their_real_part(tmp_path, monkeypatch):
    tifffile = pytest.importorskip("tifffile")
    x = (rng.normal(size=(40, 40)) + 1j * rng.normal(size=(40, 40))).astype("complex64")
    tifffile.imwrite(tmp_path / "slc.tif", x)
    np.save(tmp_path / "slc.npy", x)
    out = run_line(refusal(load_dataset, tmp_path / "slc.tif", tile=20), tmp_path, monkeypatch)
    np.testing.assert_allclose(load_dataset(out, tile=20).x[0, :, :, 0], abs(x)[:20, :20], rtol=1e-6)
    assert "complex" in refusal(load_dataset, tmp_path / "slc.npy", tile=20)


def test_temperatures_beside_a_picture_in_false_colors_are_named(tmp_path, monkeypatch, recwarn):
    pytest.importorskip("tifffile")
    for i in range(3):
        Image.fromarray(X[i]).save(tmp_path / f"{i}.jpg")
    assert load_dataset(tmp_path).x.shape == (3, 32, 32, 3) and not recwarn.list
    for file in (tmp_path / "1.jpg", tmp_path / "2.jpg"):  # some cameras write a plain photograph first
        file.write_bytes(file.read_bytes()[:2] + b"\xff\xe1\x00\x08FLIR\0\x01" + file.read_bytes()[2:])
    assert load_dataset(tmp_path).x.shape == (3, 32, 32, 3)
    said = str(recwarn.pop().message)
    assert "1.jpg, 2.jpg have temperatures of a FLIR camera, and pictures in false colors are read" in said
    unpacked = SimpleNamespace(unpack=lambda file: SimpleNamespace(celsius=np.full((12, 16), 21.5)))
    monkeypatch.setitem(sys.modules, "flyr", unpacked)
    assert load_dataset(run_line(said, tmp_path.parent, monkeypatch)).x.dtype == np.float32


def test_folders_of_persons_are_groups(tmp_path, capsys):
    rng = np.random.default_rng(0)
    for i in range(12):
        (tmp_path / f"patient_{i // 3}").mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (8, 8), dtype="uint8")).save(tmp_path / f"patient_{i // 3}" / f"{i}.png")
    message = refusal(load_dataset, tmp_path)
    assert "folders of images as groups: --groups folder" in message
    assert "folders such as patient_0 are labels; if they are of persons: --groups folder" in capsys.readouterr().err
    data = load_dataset(tmp_path, groups="folder", split_by_groups=True)
    assert data.y is None and set(data.groups_test).isdisjoint(data.groups_train)
    (tmp_path / "labels.csv").write_text("file,kind\n" + "".join(f"{i}.png,{'ab'[i % 2]}\n" for i in range(12)))
    labeled = load_dataset(tmp_path, groups="folder", split_by_groups=True, label="kind")
    assert set(labeled.y) == {"a", "b"} and set(labeled.groups_train) < {f"patient_{i}" for i in range(4)}
    again = load_dataset(tmp_path, schema=labeled.schema)
    np.testing.assert_array_equal(again.groups_train, labeled.groups_train)


def test_attributes_below_their_number(tmp_path):
    for i in range(10):
        Image.fromarray(np.full((8, 8), 20 * i, "uint8")).save(tmp_path / f"{i:06d}.jpg")
    rows = "".join(f"{i:06d}.jpg {1 - i % 2 * 2:>2} -1\n" for i in range(10))
    (tmp_path / "list_attr_celeba.txt").write_text(f"10\nSmiling Male \n{rows}")
    data = load_dataset(tmp_path, labels=tmp_path / "list_attr_celeba.txt", label="Smiling")
    np.testing.assert_array_equal(data.y, [1, -1] * 5)


def test_tiles_of_gray_photographs_beside_ones_in_color(tmp_path, capsys):
    pytest.importorskip("tifffile")
    rng = np.random.default_rng(0)
    gray = [rng.integers(0, 255, (24, 24), dtype="uint8") for _ in range(4)]
    for i, x in enumerate(gray):
        Image.fromarray(x if i % 2 else np.stack([x] * 3, -1)).save(tmp_path / f"{i}.png")
    data = load_dataset(tmp_path, tile=24, overlap=0)
    np.testing.assert_array_equal(data.x[..., 0], gray)
    assert data.x.shape[3] == 1 and "read as gray" in capsys.readouterr().err
    Image.fromarray(rng.integers(0, 255, (24, 24, 3), dtype="uint8")).save(tmp_path / "4.png")
    data = load_dataset(tmp_path, tile=12, overlap=0)
    np.testing.assert_array_equal(data.x[4], np.stack([gray[1][:12, :12]] * 3, -1))


def test_a_picture_in_color_beside_bands_is_no_channel(tmp_path, capsys):
    tifffile = pytest.importorskip("tifffile")
    rng = np.random.default_rng(0)
    for tile in "ab":
        for band in ("B02", "B03", "TCI"):
            shape = (16, 16, 3) if band == "TCI" else (16, 16)
            tifffile.imwrite(tmp_path / f"{tile}_{band}.tif", rng.integers(0, 255, shape, dtype="uint8"))
    data = load_dataset(tmp_path, channel_files="{tile}_{channel}.tif")
    assert data.x.shape == (2, 16, 16, 2) and data.schema["signal"]["channel_names"] == ["B02", "B03"]
    assert "TCI of {tile}_{channel}.tif is a picture in color, and no channel: left out" in capsys.readouterr().err
