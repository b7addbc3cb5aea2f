"""Tiles of large images: windows, empty ones, places, coordinates of maps, duplicates at the seams."""

import tracemalloc

import numpy as np
import pytest

from refusals import refusal
from viewsmith.core.rows import RowSource
from viewsmith.data import load_dataset, tiles
from viewsmith.data.dataset import Tiles
from viewsmith.data.readers import folders

tifffile = pytest.importorskip("tifffile")
RNG = np.random.default_rng(0)


def scene(height=70, width=90, channels=2, dtype="uint16"):
    return RNG.integers(100, 4000, (channels, height, width)).astype(dtype)


@pytest.fixture
def put(tmp_path):
    def write(x, name="scene.tif", **options):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        tifffile.imwrite(path, x, **{"photometric": "minisblack", "metadata": {"axes": "CYX"}} | options)
        return path

    return write


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"compression": "zlib", "rowsperstrip": 8},
        {"tile": (32, 32), "compression": "lzw"},
        {"planarconfig": "separate"},
        {"byteorder": ">"},
        {"bigtiff": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("in_memory", [True, False])
def test_windows_are_those_of_the_whole_image(put, capsys, monkeypatch, stored, in_memory):
    if not in_memory:
        monkeypatch.setattr(tiles, "KEPT", 0)
    x = scene()
    data = load_dataset(put(x, **stored), tile=32, overlap=8)
    assert isinstance(data.x, RowSource) != in_memory and data.modality == "images"
    places = [(top, left) for top in (0, 24, 38) for left in (0, 24, 48, 58)]
    assert data.row_names == [f"scene.tif@{left},{top}" for top, left in places]
    expected = np.stack([x[:, top : top + 32, left : left + 32] for top, left in places]).transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(data.x[:], expected)
    for index in ([5], [0, 3, 11], [7, 2]):
        np.testing.assert_array_equal(data.x[np.array(index)], expected[index])
    assert "12 tiles of 32 x 32 pixels" in capsys.readouterr().err
    again = load_dataset(data.source, schema=data.schema)  # as a run reads later scenes
    np.testing.assert_array_equal(again.x[:], expected)
    assert load_dataset(data.source, tile=32).schema["overlap"] == 4


def test_channels_and_several_scenes_with_their_labels(put, tmp_path):
    given = [scene(40, 50), scene(64, 32), scene(40, 40), scene(33, 40)]
    for i, x in enumerate(given):
        put(x, f"set/{'ab'[i % 2]}/{i}.tif")
    data = load_dataset(tmp_path / "set", tile=32, overlap=0, channels=["1"])
    assert data.x.shape[1:] == (32, 32, 1)
    assert [name.partition("@")[0] for name in data.row_names] == data.windows.wholes.tolist()
    assert set(zip(data.windows.wholes, data.y, strict=True)) == {
        *((f"a/{i}.tif", "a") for i in (0, 2)),
        *((f"b/{i}.tif", "b") for i in (1, 3)),
    }
    assert data.split == "groups"  # tiles of a scene are in one part of it
    assert not set(data.windows.wholes[data.train_index]) & set(data.windows.wholes[data.test_index])
    i = data.row_names.index("b/1.tif@0,32")
    np.testing.assert_array_equal(data.x[i, ..., 0], given[1][1, 32:, :32])


def test_empty_tiles_are_left_out_and_said(put, capsys):
    x = np.full((2, 64, 96), 200, np.uint16)
    x[:, :32, :32] = RNG.integers(200, 4000, (2, 32, 32))  # something
    x[:, 32:, :32] += RNG.integers(0, 20, (2, 32, 32)).astype(np.uint16)  # noise of a small part of the range
    x[1, 32:, 64:] = RNG.integers(200, 4000, (32, 32))  # something in one of the channels
    data = load_dataset(put(x), tile=32, overlap=0)
    assert data.row_names == ["scene.tif@0,0", "scene.tif@64,32"]
    assert "2 tiles of 32 x 32 pixels, 4 empty ones left out" in capsys.readouterr().err
    assert "every tile is empty" in refusal(load_dataset, put(np.full((1, 64, 64), 7, np.uint16)), tile=32)


def test_places_without_data_are_left_out(put, capsys):
    x = scene(64, 64, 1, "float32")
    x[0, 40, 40] = np.nan
    data = load_dataset(put(x), tile=32, overlap=0)
    assert len(data.x) == 3 and "1 empty one left out, of which 1 without data" in capsys.readouterr().err
    x = scene(64, 64, 1)
    x[0, :, :30] = 0
    path = put(x, extratags=[(42113, "s", 2, "0", True)])
    assert load_dataset(path, tile=32, overlap=0).row_names == ["scene.tif@32,0", "scene.tif@32,32"]


@pytest.fixture
def slide(tmp_path):
    """A slide: tissue at the top left, glass with noise and a place without it, half of its resolution, and a label."""
    x = RNG.integers(225, 245, (128, 192, 3)).astype(np.uint8)
    x[:64, :64] = RNG.integers(60, 220, (64, 64, 1)) + np.array([30, -60, 10])
    x[96:, 160:] = 255
    path = tmp_path / "slide.svs"
    options = {"photometric": "rgb", "metadata": None, "tile": (32, 32), "compression": "zlib"}
    with tifffile.TiffWriter(path) as file:
        file.write(x, subifds=1, description="Aperio\n|MPP = 0.25", software="", **options)
        half = x.reshape(64, 2, 96, 2, 3).mean((1, 3)).astype(np.uint8)
        file.write(half, subfiletype=1, **options)
        file.write(RNG.integers(0, 255, (30, 40, 3)).astype(np.uint8), photometric="rgb", metadata=None)
    return path, x, half


def test_tissue_of_a_slide(slide, capsys, monkeypatch):
    path, x, half = slide
    data = load_dataset(path, tile=32, overlap=0)
    assert data.row_names == [f"slide.svs@{left},{top}" for top in (0, 32) for left in (0, 32)]
    np.testing.assert_array_equal(data.x[3], x[32:64, 32:64])
    said = capsys.readouterr().err
    assert "smaller ones: --level 1: 64 x 96 pixels; left out: " in said and "(30 x 40 x 3)" in said
    assert "4 tiles of 32 x 32 pixels, 20 empty ones left out, of which 20 of glass" in said
    data = load_dataset(path, tile=16, overlap=0, level=1)
    assert data.row_names == [f"slide.svs@{left},{top}" for top in (0, 16) for left in (0, 16)]
    np.testing.assert_array_equal(data.x[1], half[:16, 16:32])
    assert data.schema["signal"]["micrometers"] == 0.5 and data.schema["signal"]["level"] == 1
    assert data.windows.coordinates(np.array([0]), np.array([24]), np.array([8])) == {"x": ["48"], "y": ["16"]}
    again = load_dataset(path, schema=data.schema)  # at the level of the run
    np.testing.assert_array_equal(again.x[:], data.x[:])
    (path.parent / "two").mkdir()
    for name, of in (("a.svs", b"MPP = 0.25"), ("b.svs", b"MPP = 0.50")):
        (path.parent / "two" / name).write_bytes(path.read_bytes().replace(b"MPP = 0.25", of))
    with pytest.warns(UserWarning, match="a pixel of b.svs has 0.5 .m, and of a.svs 0.25: tiles show things at"):
        load_dataset(path.parent / "two", tile=32)
    monkeypatch.setattr(folders, "LARGE", 64)
    assert "two has whole slides, expected images of one thing each" in refusal(load_dataset, path.parent / "two")
    has = "has no level 2, given as level; it has 0 (128 x 192 pixels), 1 (64 x 96 pixels)"
    assert has in refusal(load_dataset, path, tile=32, level=2)


@pytest.mark.parametrize("what", ["flat", "gray"])
def test_glass_is_judged_slide_by_slide(slide, what):
    path, *_ = slide
    x = np.repeat(RNG.integers(60 if what == "flat" else 200, 240, (64, 64, 1)), 3, 2).astype(np.uint8)
    x[:32] //= 1 if what == "flat" else 2  # an uneven one
    with tifffile.TiffWriter(path.parent / "other.svs") as file:
        file.write(x, subifds=int(what == "gray"), photometric="rgb", metadata=None)
        if what == "gray":
            file.write(x[::2, ::2], subfiletype=1, photometric="rgb", metadata=None)
    names = load_dataset(path.parent, tile=32, overlap=0).row_names
    assert [sum(name.startswith(of) for name in names) for of in ("slide", "other")] == [4, 4]


@pytest.mark.parametrize(("what", "kept"), [("silver", 5), ("opacity", 5), ("gray", 24), ("tissue", 24)])
def test_gray_and_pale_tissue_of_a_slide_is_no_glass(tmp_path, what, kept):
    grain = RNG.integers(-3, 4, (128, 192, 3))
    x = 235 + (3 if what == "opacity" else 1) * grain
    if what in ("silver", "opacity"):  # black grains in two places, and a red mark of a pen
        x[:64, :64] = RNG.integers(60, 200, (64, 64, 1))
    elif what == "gray":
        x = RNG.integers(110, 240, (128, 192, 1)) + 0 * grain
    else:  # without glass, pale at the left
        x = np.array([220, 190, 210]) + grain
        x[:, 96:] = np.array([200, 100, 180]) + grain[:, 96:] * 5
    if what != "tissue":
        x[100:120, 170:190] = [220, 30, 30]
    if what == "opacity":
        x[:64, :64, 0] //= 2  # stained
        x = np.concatenate([x, np.full((128, 192, 1), 255)], 2)
    x = x.clip(0, 255).astype(np.uint8)
    with tifffile.TiffWriter(tmp_path / "slide.tif") as file:
        file.write(x, subifds=1, photometric="rgb", metadata=None)
        file.write(x[::2, ::2], subfiletype=1, photometric="rgb", metadata=None)
    assert len(load_dataset(tmp_path / "slide.tif", tile=32, overlap=0).x) == kept


@pytest.mark.parametrize("what", ["dark", "deep"])
def test_tiles_without_color_are_no_glass_of_other_images(tmp_path, what):
    x = RNG.integers(0, 30, (64, 96, 3)).astype(np.uint8)
    x[:32, :32, 1] += 90
    x = x if what == "dark" else x.astype(np.uint16) * 100
    with tifffile.TiffWriter(tmp_path / "x.tif") as file:
        file.write(x, subifds=1, photometric="rgb", metadata=None)
        file.write(x[::2, ::2], subfiletype=1, photometric="rgb", metadata=None)
    assert len(load_dataset(tmp_path / "x.tif", tile=32, overlap=0).x) == 6


@pytest.mark.parametrize("by", ["scale", "matrix", "point"])
def test_coordinates_of_a_map(put, tmp_path, by):
    keys = (1, 1, 0, 1, 1025, 0, 1, 2 if by == "point" else 1)
    tags = [(34735, "H", 8, keys, True)]
    if by == "matrix":
        tags += [(34264, "d", 16, (10.0, 0, 0, 500000, 0, -10, 0, 4000000, *(0.0,) * 7, 1), True)]
    else:
        tags += [(33550, "d", 3, (10.0, 10.0, 0.0), True), (33922, "d", 6, (0.0, 0, 0, 500000, 4000000, 0), True)]
    data = load_dataset(put(scene(), extratags=tags), tile=32, overlap=8)
    half = 5 if by == "point" else 0
    found = data.windows.coordinates(np.array([0]), np.array([24]), np.array([38]))
    assert found == {"x": [f"{500240 - half}"], "y": [f"{3999620 + half}"]}
    assert data.windows.map_keys[0][3] == keys


def test_pages_of_a_volume_are_scenes_of_their_own(put):
    x = RNG.integers(0, 4000, (3, 2, 40, 40)).astype(np.uint16)
    data = load_dataset(put(x, "a.ome.tif", metadata={"axes": "ZCYX"}), tile=32, overlap=0)
    assert data.row_names[4] == "a.ome.tif#1@0,0"
    np.testing.assert_array_equal(data.x[5], x[1, :, :32, 8:].transpose(1, 2, 0))


def test_a_photograph(tmp_path):
    from PIL import Image

    x = RNG.integers(0, 256, (40, 50, 3)).astype(np.uint8)
    for suffix in (".png", ".bmp"):
        Image.fromarray(x).save(tmp_path / f"a{suffix}")
        data = load_dataset(tmp_path / f"a{suffix}", tile=32, overlap=0)
        np.testing.assert_array_equal(data.x[3], x[8:, 18:])
        assert data.x.dtype == np.uint8


def test_parts_at_the_seams_are_found_once():
    of, lefts = np.zeros(3, int), np.array([0, 24, 48])
    where = Tiles(["a", "b"], [(32, 80), (9, 9)], [None, None], of, lefts, np.zeros(3, int), 32, 24)
    names = ["sample", "kind", "left", "top", "right", "bottom"]
    rows = [
        (0, 0, 24, 4, 32, 14, 2.0),
        (1, 0, 0, 4, 10, 14, 3.0),
        (1, 0, 20, 4, 30, 14, 1.0),
        (1, 0, 22, 4, 32, 14, 0.5),
    ]
    found = np.array(rows, [*((name, int) for name in names), ("score", float)])
    assert where.distinct(found).tolist() == [False, True, True, True]  # of one tile, both are kept
    assert where.placed(found)["left"].tolist() == [24, 24, 44, 46]
    assert where.distinct(found[:0]).tolist() == []


def test_a_scene_takes_little_memory(put, monkeypatch):
    monkeypatch.setattr(tiles, "KEPT", 0)
    path = put(scene(1200, 2400, 2, "uint16"))  # 11 MB
    load_dataset(put(scene(), "small.tif"), tile=32)  # imports
    tracemalloc.start()
    data = load_dataset(path, tile=64)
    data.x.small = True
    for block in data.x.blocks():
        assert len(block) < len(data.x) / 2
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6, peak


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"tile": 128}, "70 x 90 pixels, less than a tile of 128 x 128: give a smaller tile (--tile 70)"),
        ({"tile": 32, "overlap": 32}, "overlap is 32 pixels, expected less than the side of a tile, 32"),
        ({"tile": 32, "image_size": 16}, "leave one of them out"),
        ({"tile": 2}, "tile is 2, expected at least 4"),
        ({"overlap": 8}, "overlap is for tiles: give their side, too (--tile 64)"),
        ({}, "is one image (CYX 2 x 70 x 90 uint16), expected several: cut it into tiles, tile=SIDE (--tile 17)"),
    ],
)
def test_what_is_refused(put, options, part):
    assert part in refusal(load_dataset, put(scene()), **options)


@pytest.mark.parametrize("ending", ["npy", "mat"])
def test_a_scene_in_an_array(tmp_path, capsys, ending):
    import scipy.io

    x, path = scene(40, 50, 30).transpose(1, 2, 0), tmp_path / f"scene.{ending}"
    np.save(path, x) if ending == "npy" else scipy.io.savemat(path, {"scene": x, "gt": x[:, :, 0]})
    assert load_dataset(path).x.shape == (40, 50, 30)
    hint = "40 images of 50 x 30 pixels and one channel; if it is one scene of 30 channels: --axes YXC --tile 5"
    assert hint in capsys.readouterr().err
    data = load_dataset(path, tile=16, overlap=0, channels=["3", "7"])
    np.testing.assert_array_equal(data.x[5], x[16:32, 16:32, [3, 7]])
    np.testing.assert_array_equal(load_dataset(path, schema=data.schema).x, data.x)
    assert "overlap is for tiles" in refusal(load_dataset, path, overlap=4)
    several = load_dataset(path, axes="IYX")
    np.testing.assert_array_equal(several.x[..., 0], x)
    assert "is one image (YXC 40 x 50 x 30 uint16), expected several" in refusal(load_dataset, path, axes="YXC")
    scipy.io.savemat(tmp_path / "text.mat", {"note": "text"})
    assert "text.mat has note, expected an array of numbers" in refusal(load_dataset, tmp_path / "text.mat", tile=8)
    np.save(tmp_path / "many.npy", x.reshape(4, 10, 10, 150))
    data = load_dataset(tmp_path / "many.npy", channels=["149"])
    np.testing.assert_array_equal(data.x, x.reshape(4, 10, 10, 150)[..., [149]])
    np.testing.assert_array_equal(load_dataset(tmp_path / "many.npy", schema=data.schema).x, data.x)


def test_tiles_are_of_images_alone(tmp_path):
    np.savetxt(tmp_path / "a.csv", np.eye(4), delimiter=",", header="a,b,c,d", comments="")
    assert "tile=32 has no effect" in refusal(load_dataset, tmp_path / "a.csv", tile=32)


def mapped(tmp_path, ending=".mat"):
    """A scene of 60 x 60 pixels, and a map of three classes: two fields of the first two, one of the third."""
    import scipy.io

    classes = np.zeros((60, 60), np.uint8)
    for kind, top, left in ((1, 0, 0), (1, 0, 40), (2, 24, 0), (2, 24, 40), (3, 48, 0)):
        classes[top : top + 12, left : left + 20] = kind
    scipy.io.savemat(tmp_path / "scene.mat", {"cube": scene(60, 60, 30).transpose(1, 2, 0)})
    if ending == ".mat":
        scipy.io.savemat(tmp_path / "gt.mat", {"gt": classes})
    elif ending == ".npy":
        np.save(tmp_path / "gt.npy", np.where(classes, classes, np.nan).astype("float32"))
    else:
        tifffile.imwrite(tmp_path / f"gt{ending}", classes)
    return tmp_path / "scene.mat", tmp_path / f"gt{ending}", classes


@pytest.mark.parametrize("ending", [".mat", ".npy", ".tif"])
def test_labels_of_tiles_are_those_of_a_map_at_their_centers(tmp_path, capsys, ending):
    path, labels, classes = mapped(tmp_path, ending)
    with pytest.warns(UserWarning, match="have no label"):
        data = load_dataset(path, axes="YXC", tile=5, overlap=3, labels=labels)
    centers = classes[data.windows.tops + 2, data.windows.lefts + 2]
    np.testing.assert_array_equal(np.where(data.y == -1, 0, data.y), centers)
    said = capsys.readouterr().err
    assert f"3 classes for {(centers > 0).sum()} of {len(centers)} tiles, by their centers; 0 is no class" in said
    assert "class 3 has one field and is not scored; whole fields are held out" in said
    assert data.split == "groups" and set(data.y_test) == {1, 2} and set(data.y_train) == {-1, 1, 2, 3}
    fields = data.windows.fields
    assert not set(fields[data.test_index]) & set(fields[data.train_index]) and len(np.unique(fields)) == 6
    again = load_dataset(path, schema=data.schema, labels=labels)
    np.testing.assert_array_equal(again.y, data.y)
    assert load_dataset(path, schema=data.schema).y is None


def test_tiles_of_a_class_that_share_pixels_are_of_one_field(tmp_path, capsys):
    path, labels, _ = mapped(tmp_path)
    with pytest.warns(UserWarning, match="have no label"):
        data = load_dataset(path, axes="YXC", tile=24, overlap=22, labels=labels)  # fields lie 20 pixels apart
    assert set(data.windows.fields) == {-1, 0, 1} and data.split == "none" and data.test_index is None
    assert "classes 2, 3 have one field each and are not scored; nothing is held out" in capsys.readouterr().err


def test_maps_that_are_refused(tmp_path, put):
    path, labels, classes = mapped(tmp_path)
    given = {"axes": "YXC", "tile": 5}
    assert "for the tiles of a scene: give their side" in refusal(load_dataset, path, axes="YXC", labels=labels)
    assert "for the tiles of a scene: give their side" in refusal(load_dataset, path, labels=labels)
    small = put(classes[:50], "small.tif", metadata={"axes": "YX"})
    assert "a map of its size with a number for each pixel" in refusal(load_dataset, path, labels=small, **given)
    empty = put(classes * 0, "empty.tif", metadata={"axes": "YX"})
    assert "where the map has a class (0 is none)" in refusal(load_dataset, path, labels=empty, **given)
    parts = put(classes / np.float32(2), "parts.tif", metadata={"axes": "YX"})
    assert "expected whole numbers, which are classes" in refusal(load_dataset, path, labels=parts, **given)
    (tmp_path / "gt.csv").write_text("a,b\n")
    message = refusal(load_dataset, path, labels=tmp_path / "gt.csv", **given)
    assert "labels of the tiles of a scene are a map" in message
    assert "no.tif is no image" in refusal(load_dataset, path, labels=tmp_path / "no.tif", **given)
    stack = put(scene(60, 60, 2), "stack.tif", metadata={"axes": "ZYX"})
    assert "expected one scene" in refusal(load_dataset, stack, tile=5, labels=labels)


def test_scenes_in_color_whose_channels_are_equal_are_gray(put, capsys):
    x, rgb = scene(dtype="uint8", channels=1)[0], {"photometric": "rgb", "metadata": None}
    gray = put(np.stack([x] * 3, -1), "gray.tif", **rgb)
    data = load_dataset(gray, tile=32)
    said = capsys.readouterr().err
    assert data.x.shape[3:] == (1,) and "gray.tif: in color, and the channels are equal: read as gray" in said
    np.testing.assert_array_equal(data.x[0, :, :, 0], x[:32, :32])
    np.testing.assert_array_equal(load_dataset(gray, schema=data.schema).x, data.x)
    of_one = load_dataset(put(x, "one.tif", metadata=None), tile=32)  # a run on images of one channel
    np.testing.assert_array_equal(load_dataset(gray, schema=of_one.schema).x, data.x)
    other = np.stack([x] * 3, -1)
    other[50, 50, 1] += 1  # in no tile that is looked at first
    color = put(other, "color.tif", **rgb)
    assert load_dataset(color, tile=32).x.shape[3:] == (3,)
    said = refusal(load_dataset, color, schema=data.schema)
    assert "color.tif is in color, and the run was fitted on gray images: give gray ones" in said
