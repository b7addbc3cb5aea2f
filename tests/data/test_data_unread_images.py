"""Images that are not read: the line that is said for each is run, and its result is read."""

import sys

import numpy as np
import pytest
from advised_lines import advised, follow
from PIL import Image

from refusals import refusal
from viewsmith.data import load_dataset

rng = np.random.default_rng(0)


def tile(path, pixels, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    (pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)).save(path, **options)


def planar_tiff(path, planes):
    """A TIFF of one page with separate planes, uint8 (C, H, W), of which Pillow shows the first."""
    import struct

    count, height, width = planes.shape
    size, entries = height * width, 10
    after = 8 + 2 + 12 * entries + 4
    bits, offsets, sizes, data = after, after + 2 * count, after + 6 * count, after + 10 * count
    tags = [
        (256, 4, 1, width),
        (257, 4, 1, height),
        (258, 3, count, bits),
        (259, 3, 1, 1),
        (262, 3, 1, 1),
        (273, 4, count, offsets),
        (277, 3, 1, count),
        (278, 4, 1, height),
        (279, 4, count, sizes),
        (284, 3, 1, 2),
    ]
    body = b"II*\0" + struct.pack("<IH", 8, entries) + b"".join(struct.pack("<HHII", *tag) for tag in tags)
    body += struct.pack("<I", 0) + struct.pack(f"<{count}H", *[8] * count)
    body += struct.pack(f"<{count}I", *[data + i * size for i in range(count)]) + struct.pack(
        f"<{count}I", *[size] * count
    )
    path.write_bytes(body + planes.tobytes())


@pytest.mark.parametrize("count", [4, 5])
def test_a_page_of_many_channels_is_not_its_first(tmp_path, count):
    (tmp_path / "set").mkdir()
    for name in ("1.tif", "2.tif"):
        planar_tiff(tmp_path / "set" / name, rng.integers(0, 256, (count, 12, 16), np.uint8))
    data = load_dataset(tmp_path / "set")
    assert data.x.shape == (2, 12, 16, count) and data.x.dtype == np.uint8


# --- results in the folder of the data


def test_images_of_a_result_are_no_samples(tmp_path, recwarn):
    from viewsmith.data.readers.folders import image_files

    for i in range(3):
        tile(tmp_path / f"{i}.png", rng.integers(0, 256, (12, 12), np.uint8))
    tile(tmp_path / "found" / "crops" / "0.png", rng.integers(0, 256, (12, 12), np.uint8))
    tile(tmp_path / "found" / "map.png", rng.integers(0, 256, (12, 12), np.uint8))
    assert len(image_files(tmp_path)) == 5 and not recwarn.list
    for name in ("config.toml", "model.safetensors"):
        (tmp_path / "found" / name).write_bytes(b"")
    assert [file.name for file in image_files(tmp_path)] == ["0.png", "1.png", "2.png"]
    assert "has results, whose images are not samples, ignored: found" in str(recwarn.pop().message)
    assert load_dataset(tmp_path).row_names == ["0.png", "1.png", "2.png"]


def test_a_map_of_orientations(tmp_path, monkeypatch):
    header = "Channel Text File\nXCells\t20\nPhases\t1\n3.6;3.6;3.6\tNi\n"
    rows = "".join(f"1\t{i / 10}\t{i / 7}\t{i % 5}\n" for i in range(12))
    (tmp_path / "a.ctf").write_text(f"{header}Phase\tX\tEuler1\tBands\n{rows}")
    assert follow(refusal(load_dataset, tmp_path / "a.ctf"), tmp_path, monkeypatch).x.shape == (12, 4)


RECORDS = """
def tfrecord_loader(path, index):
    for i in range(10):
        size = {"image/height": [8], "image/width": [8]}
        yield {**size, "image/" + NAME: PICTURE, "image/class/label": [i % 2]}
"""


@pytest.mark.parametrize("encoded", [True, False])
def test_records_of_tensorflow_by_file_and_by_parts(tmp_path, monkeypatch, encoded):
    import io
    import types

    from PIL import Image

    picture = io.BytesIO()
    Image.fromarray(np.arange(64, dtype="uint8").reshape(8, 8)).save(picture, "PNG")
    reader = types.ModuleType("tfrecord.reader")
    pixels = (
        {"NAME": "encoded", "PICTURE": picture.getvalue()} if encoded else {"NAME": "raw", "PICTURE": bytes(range(64))}
    )
    exec(RECORDS, pixels, reader.__dict__)
    monkeypatch.setitem(sys.modules, "tfrecord", types.ModuleType("tfrecord"))
    monkeypatch.setitem(sys.modules, "tfrecord.reader", reader)
    for name in ("a/one.tfrecord", "b/mnist-train.tfrecord-00000-of-00002", "b/mnist-train.tfrecord-00001-of-00002"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes(40))
    monkeypatch.chdir(tmp_path)
    for source, count in (("a", 10), ("b", 20), ("b/mnist-train.tfrecord-00001-of-00002", 10)):
        message = refusal(load_dataset, source)
        packages, code, out, _ = advised(message)
        assert packages.startswith("tfrecord") and "records of TensorFlow" in message
        exec(code, {"__name__": "line"})
        data = load_dataset(out)
        assert data.x.shape == (count, 8, 8, 1) and sorted(set(data.y)) == ["0", "1"]
        assert (np.asarray(data.x).reshape(count, -1) == np.arange(64)).all()


def test_a_file_of_an_olympus_microscope(tmp_path, monkeypatch):
    import types

    class OifFile:
        axes = "CYX"

        def __init__(self, path):
            self.number = int(path.stem)

        def asarray(self):
            return np.full((2, 8, 9), self.number, "uint16")

    monkeypatch.setitem(sys.modules, "oiffile", types.SimpleNamespace(OifFile=OifFile))
    monkeypatch.chdir(tmp_path)
    for i in range(2):
        (tmp_path / "set" / "x").mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / "x" / f"{i}.oib").write_bytes(b"\xd0\xcf")
    packages, code, out, _ = advised(refusal(load_dataset, "set"))
    assert packages == "oiffile 'viewsmith[microscopy]'"
    exec(code, {"__name__": "line"})
    data = load_dataset(out)
    assert data.x.shape == (2, 8, 9, 2) and data.x[1].max() == 1


def test_folders_of_formats_for_which_there_is_advice(tmp_path):
    for i in range(3):
        (tmp_path / f"{i}.vsi").write_bytes(b"II*\0")
    assert "has 3 files .vsi: save it as OME-TIFF" in refusal(load_dataset, tmp_path)


def test_channels_of_images_in_an_archive(tmp_path, monkeypatch):
    np.savez(tmp_path / "a.npz", X=np.zeros((10, 8, 8, 3), "uint8"), y=["a", "b"] * 5)
    message = refusal(load_dataset, tmp_path / "a.npz", channels=["0", "2"])
    assert "on which channels=0,2 has no effect: python -c" in message
    assert follow(message, tmp_path, monkeypatch).x.shape == (10, 8, 8, 2)
    assert "give --modality series" in refusal(load_dataset, tmp_path / "a.npz", channels=["DNA"])
