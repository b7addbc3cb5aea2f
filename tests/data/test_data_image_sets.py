"""Data sets of images as they are published: the line that is said for each is run, and its result is read."""

import json
import tarfile
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.io
from PIL import Image
from test_data_unread import follow

from refusals import refusal
from viewsmith.data import load_dataset

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


@pytest.mark.parametrize(("write", "kind"), [(coco, "k{}"), (voc, "k{}"), (yolo, "class {}")])
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


def test_frames_of_microscopes_and_detectors(tmp_path, monkeypatch):
    """Their libraries are stood in for."""
    import sys

    tifffile = pytest.importorskip("tifffile")
    frame = rng.normal(size=(24, 24)).astype("float32")
    read = {
        "mrcfile": SimpleNamespace(read=lambda _: frame),
        "fabio": SimpleNamespace(open=lambda _: SimpleNamespace(data=frame)),
        "ncempy": SimpleNamespace(),
        "ncempy.io": SimpleNamespace(dm=SimpleNamespace(dmReader=lambda _: {"data": frame})),
    }
    for name, module in read.items():
        monkeypatch.setitem(sys.modules, name, module)
    for suffix, package in ((".mrc", "mrcfile"), (".cbf", "fabio"), (".dm4", "ncempy")):
        (tmp_path / f"a{suffix}").write_bytes(b"0")
        said = refusal(load_dataset, tmp_path / f"a{suffix}")
        assert f"pip install {package} 'viewsmith[microscopy]', then " in said
        said = said.replace(f"{package} 'vie", "'vie").replace(" --tile 128", "")
        assert len(follow(said, tmp_path, monkeypatch, tile=8, overlap=0).x) == 9
        np.testing.assert_array_equal(tifffile.imread(tmp_path / "a.tif").squeeze(), frame)
