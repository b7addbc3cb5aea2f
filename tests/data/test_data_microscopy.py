"""Image files of instruments: TIFF of any depth and channels, OME, 16-bit PNG; axes, channels, what is refused."""

import re

import numpy as np
import pytest
from PIL import Image

from tests.refusals import refusal
from viewsmith.core.errors import MissingExtra
from viewsmith.data import load_dataset
from viewsmith.data.readers import tiff

tifffile = pytest.importorskip("tifffile")
RNG = np.random.default_rng(0)


def planes(*shape, dtype="uint16"):
    return RNG.integers(0, 4000, shape).astype(dtype)


@pytest.fixture
def put(tmp_path):
    def write(name, x, **options):
        path = tmp_path / "set" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        tifffile.imwrite(path, x, **options)
        return path

    return write


def test_channels_of_16_bits_in_class_folders(put, tmp_path, capsys):
    given = [planes(3, 8, 10) for _ in range(6)]
    for i, x in enumerate(given):
        put(f"{'ab'[i % 2]}/{i}.tif", x, photometric="minisblack", planarconfig="separate", compression="zlib")
    data = load_dataset(tmp_path / "set")
    assert data.modality == "images" and data.x.dtype == np.uint16 and data.x.shape == (6, 8, 10, 3)
    np.testing.assert_array_equal(data.x, np.stack([given[i] for i in (0, 2, 4, 1, 3, 5)]).transpose(0, 2, 3, 1))
    assert data.y.tolist() == list("aaabbb") and data.row_names[0] == "a/0.tif"
    said = capsys.readouterr().err
    assert "6 files SYX 3 x 8 x 10 uint16: 6 images of 3 channels" in said
    again = load_dataset(tmp_path / "set", schema=data.schema)
    np.testing.assert_array_equal(again.x, data.x)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("dtype", "kept"), [("float32", "float32"), ("int16", "float32"), ("uint8", "uint8")])
def test_types_keep_their_values(put, tmp_path, dtype, kept):
    given = [planes(2, 8, 8, dtype=dtype) for _ in range(3)]
    for i, x in enumerate(given):
        put(f"{i}.tif", x, photometric="minisblack")
    data = load_dataset(tmp_path / "set", modality="images")
    assert data.x.dtype == kept and data.x.shape == (3, 8, 8, 2)  # pages without a meaning are channels
    np.testing.assert_array_equal(data.x, np.stack(given).transpose(0, 2, 3, 1))


def test_gray_of_16_bits_and_bigtiff_and_png(put, tmp_path):
    x = planes(8, 9)
    put("a.tif", x, bigtiff=True)
    put("b.tif", x)
    np.testing.assert_array_equal(load_dataset(tmp_path / "set").x[0, ..., 0], x)
    (tmp_path / "png").mkdir()
    for name in "ab":
        Image.fromarray(x).save(tmp_path / "png" / f"{name}.png")
    data = load_dataset(tmp_path / "png")
    assert data.x.dtype == np.uint16
    np.testing.assert_array_equal(data.x[1, ..., 0], x)


def test_colors_of_16_bits_in_png(tmp_path):
    codecs = pytest.importorskip("imagecodecs")
    (tmp_path / "set").mkdir()
    x = planes(8, 9, 3)
    for name in "ab":
        (tmp_path / "set" / f"{name}.png").write_bytes(codecs.png_encode(x))
    np.testing.assert_array_equal(load_dataset(tmp_path / "set").x[1], x)


def test_names_of_channels_and_their_choice(put, tmp_path):
    given = [planes(4, 8, 8) for _ in range(3)]
    metadata = {"axes": "CYX", "Channel": {"Name": ["DNA", "ER", "AGP", "Mito"]}, "PhysicalSizeX": 0.65}
    for i, x in enumerate(given):
        put(f"{i}.ome.tif", x, metadata=metadata | {"PhysicalSizeY": 0.65})
    data = load_dataset(tmp_path / "set")
    assert data.schema["signal"] == {"channel_names": ["DNA", "ER", "AGP", "Mito"], "micrometers": 0.65}
    some = load_dataset(tmp_path / "set", channels=["AGP", "0"])
    np.testing.assert_array_equal(some.x, data.x[..., [2, 0]])
    assert some.schema["signal"]["channel_names"] == ["AGP", "DNA"]
    np.testing.assert_array_equal(load_dataset(tmp_path / "set", schema=some.schema).x, some.x)
    assert "given as channels; did you mean DNA" in refusal(load_dataset, tmp_path / "set", channels=["DNB"])
    assert "it has 4" in refusal(
        load_dataset, put("x/1.tif", planes(6, 4, 8, 8), metadata={"axes": "ZCYX"}), channels=["9"]
    )


def test_large_images_may_be_cut_or_made_smaller(put, tmp_path, capsys):
    for name in "ab":
        put(f"{name}.tif", planes(1, 512, 520))
    hint = "2 images of 1 channel; parts of them as samples: --tile 128; at a smaller size: --image-size 128"
    for options, said in (({}, True), ({"tile": 128}, False), ({"image_size": 128}, False)):
        load_dataset(tmp_path / "set", **options)
        assert (hint in capsys.readouterr().err) == said


def test_images_with_an_empty_channel_are_named(put, tmp_path):
    for i in range(4):
        x = planes(3, 8, 8)
        x[2] *= i != 1
        put(f"{i}.tif", x, photometric="minisblack")
    with pytest.warns(UserWarning, match=r"1 image of 4 with one value everywhere in a channel: 1.tif \(channel 2\)"):
        load_dataset(tmp_path / "set")


def test_axes_that_are_no_channels_count_images(put, tmp_path, capsys):
    x = planes(5, 2, 8, 10)
    path = put("a.ome.tif", x, metadata={"axes": "ZCYX"})
    data = load_dataset(path)
    np.testing.assert_array_equal(data.x, x.transpose(0, 2, 3, 1))
    assert data.row_names[1] == "a.ome.tif#1"
    flat = put("b.tif", planes(7, 8, 10), photometric="minisblack")
    capsys.readouterr()
    assert load_dataset(flat).x.shape == (7, 8, 10, 1)  # of one file pages are images
    assert re.search("each of [QI] an image; if they are channels: --axes CYX", capsys.readouterr().err)
    load_dataset(flat, axes="QYX")
    assert "if they are channels" not in capsys.readouterr().err
    assert load_dataset(flat, axes="XZY").x.shape == (8, 10, 7, 1)


def test_given_axes(put, tmp_path):
    x = planes(3, 8, 10)
    for name in "ab":
        put(f"{name}.tif", x, photometric="minisblack")
    np.testing.assert_array_equal(load_dataset(tmp_path / "set", axes="ZYX").x[:3, ..., 0], x)
    names = load_dataset(tmp_path / "set", axes="ZYX").row_names
    assert names == [f"{name}.tif#{i}" for name in "ab" for i in range(3)]
    for axes in ("YX", "CCYX", "CZT", "CYY"):
        assert "give a letter for each, Y for rows" in refusal(load_dataset, tmp_path / "set", axes=axes)


def test_labels_and_groups_of_a_table(put, tmp_path):
    for i in range(6):
        put(f"{i}.tif", planes(2, 8, 8), photometric="minisblack")
    (tmp_path / "set" / "labels.csv").write_text(
        "file,phase,plate\n" + "".join(f"{i}.tif,{'MG'[i % 2]},p{i // 3}\n" for i in range(6))
    )
    data = load_dataset(tmp_path / "set", label="phase", groups="plate")
    assert data.y.tolist() == list("MGMGMG") and data.groups.tolist() == ["p0"] * 3 + ["p1"] * 3
    assert data.label_name == "phase"
    assert "given as label; did you mean phase" in refusal(load_dataset, tmp_path / "set", label="phas")
    (tmp_path / "set" / "labels.csv").unlink()
    later = load_dataset(tmp_path / "set", schema=data.schema)
    assert later.y is None and later.groups is None  # new images may have no labels


def test_a_table_of_files(put, tmp_path):
    given = [planes(2, 8, 8) for _ in range(6)]
    for i, x in enumerate(given):
        put(f"{'ab'[i % 2]}/{i}.tif", x, photometric="minisblack")
    table = tmp_path / "set" / "cells.csv"
    rows = [f"{'MG'[i % 2]},{'ab'[i % 2]}/{i}.tif\n" for i in range(6)]
    table.write_text("phase,path\n" + "".join(rows))
    data = load_dataset(table, modality="images", label="phase")
    np.testing.assert_array_equal(data.x, np.stack(given).transpose(0, 2, 3, 1))
    assert data.y.tolist() == list("MGMGMG") and data.row_names[1] == "b/1.tif"
    again = load_dataset(table, schema=data.schema)
    assert again.y.tolist() == data.y.tolist()
    table.write_text("phase,path\n" + "".join(rows) + "M,a/9.tif\n")
    assert "1 file of the column path does not exist, such as" in refusal(load_dataset, table, modality="images")
    table.write_text("phase,size\nM,1\nG,2\n")
    assert "has no column with names of image files" in refusal(load_dataset, table, modality="images")


def test_large_folders_are_decoded_into_a_cache(put, tmp_path):
    given = [planes(2, 8, 8) for _ in range(3)]
    for i, x in enumerate(given):
        put(f"{i}.tif", x, photometric="minisblack")
    for _ in range(2):
        data = load_dataset(tmp_path / "set", cache=tmp_path / "cache")
        assert data.x.dtype == np.uint16
        np.testing.assert_array_equal(np.asarray(data.x[:]), np.stack(given).transpose(0, 2, 3, 1))


@pytest.mark.parametrize(("unit", "side"), [("micron", 0.25), ("\\u00B5m", 0.25), ("nm", 0.00025), ("pixel", None)])
def test_the_side_of_a_pixel_is_read_of_imagej(tmp_path, unit, side):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, planes(3, 8, 9), imagej=True, resolution=(4, 4), metadata={"unit": unit, "axes": "ZYX"})
    assert load_dataset(path).schema["signal"].get("micrometers") == side


def test_stacks_of_metamorph_have_the_ending_of_alignments(tmp_path):
    x = planes(4, 12, 14)
    tifffile.imwrite(tmp_path / "a.stk", x, photometric="minisblack")
    np.testing.assert_array_equal(load_dataset(tmp_path / "a.stk").x[..., 0], x)
    (tmp_path / "b.stk").write_text("# STOCKHOLM 1.0\nseq1 ACGU\n//\n")
    said = refusal(load_dataset, tmp_path / "b.stk")
    assert "is an alignment, which is not read yet: pip install biopython, then" in said


FEI = "[Scan]\r\nPixelWidth=2e-09\r\nPixelHeight=2e-09\r\n\r\n[Image]\r\nResolutionY=40\r\n"


def test_the_data_bar_of_an_electron_microscope_is_left_out(tmp_path, capsys):
    x = planes(45, 40)
    tifffile.imwrite(tmp_path / "a.tif", x, metadata=None, extratags=[(34682, 2, None, FEI, True)])
    data = load_dataset(tmp_path / "a.tif", tile=20, overlap=0)
    np.testing.assert_array_equal(data.x[-1, ..., 0], x[20:40, 20:])
    assert len(data.x) == 4 and data.schema["signal"]["micrometers"] == pytest.approx(0.002)
    assert "left out: the data bar, 5 rows" in capsys.readouterr().err
    (tmp_path / "set").mkdir()
    for i in range(2):  # of 8 bits, as photographs have
        tifffile.imwrite(
            tmp_path / "set" / f"{i}.tif", x.astype("uint8"), metadata=None, extratags=[(34682, 2, None, FEI, True)]
        )
    whole = x[:40].astype("uint8")
    tifffile.imwrite(tmp_path / "set" / "0.tif", whole, metadata=None, extratags=[(34682, 2, None, FEI, True)])
    assert load_dataset(tmp_path / "set").x.shape == (2, 40, 40, 1)
    assert "left out of 1.tif: the data bar, 5 rows" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "header"),
    [
        (34682, FEI.replace("2e-09", "?")),
        (34682, FEI.replace("=40", "=?")),
        (34682, FEI.replace("=40", "=20")),  # of an image that was made larger
        (34118, "0\r\n0\r\n0\r\nAP_IMAGE_PIXEL_SIZE\r\nImage Pixel Size = 5,0 nm\r\n"),
    ],
)
def test_headers_of_electron_microscopes_that_are_odd_are_no_obstacle(tmp_path, code, header):
    tifffile.imwrite(tmp_path / "a.tif", planes(40, 40), metadata=None, extratags=[(code, 2, None, header, True)])
    assert load_dataset(tmp_path / "a.tif", tile=20, overlap=0).x.shape == (4, 20, 20, 1)


def test_images_of_several_sizes_in_a_file_are_read_by_number(put, tmp_path, capsys):
    small, large = planes(20, 24), planes(20, 30)
    preview = planes(10, 8, 3, dtype="uint8")
    path = tmp_path / "several.tif"
    with tifffile.TiffWriter(path) as writer:
        for x in (preview, small, large, large + 1):
            writer.write(x, photometric="rgb" if x is preview else "minisblack", metadata=None)
    data = load_dataset(path)
    np.testing.assert_array_equal(data.x[..., 0], [large, large + 1])
    assert "left out: 0 (10 x 8 pixels), 1 (20 x 24 pixels), each of which several.tif::NAME" in capsys.readouterr().err
    tiles = load_dataset(tmp_path / "several.tif::1", tile=8, overlap=0)
    np.testing.assert_array_equal(tiles.x[4, ..., 0], small[8:16, 8:16])
    assert load_dataset(tmp_path / "several.tif::0", tile=5).x.dtype == np.uint8
    assert "has no image '7'; its images are: 0, 1, 2" in refusal(load_dataset, tmp_path / "several.tif::7", tile=8)


def test_what_is_refused(put, tmp_path, monkeypatch):
    good = put("a/0.tif", planes(3, 8, 8), photometric="minisblack")
    put("a/1.tif", planes(3, 8, 8, dtype="uint8"), photometric="minisblack")
    assert "1.tif is uint8, and 0.tif uint16: expected one depth" in refusal(load_dataset, tmp_path / "set")
    put("a/1.tif", planes(3, 8, 8), photometric="minisblack")
    assert "0.tif has 3 x 8 pixels (YXC 3 x 8 x 8 uint16)" in refusal(load_dataset, tmp_path / "set", axes="YXC")
    put("a/1.tif", planes(2, 8, 8), photometric="minisblack")
    assert "1.tif has 2 channels" in refusal(load_dataset, tmp_path / "set")
    (tmp_path / "set" / "a" / "1.tif").write_bytes(good.read_bytes()[:300])
    assert "1.tif ends within its pages" in refusal(load_dataset, tmp_path / "set")
    x = planes(3, 8, 8, dtype="float32")
    x[0, 0, 0] = np.nan
    for name in ("b/0.tif", "b/1.tif"):
        put(name, x, photometric="minisblack")
    assert "values that are not finite (NaN) in 2 images of 2: 0.tif" in refusal(load_dataset, tmp_path / "set" / "b")
    single = put("c.tif", planes(130, 130))
    assert "is one image (YX 130 x 130 uint16), expected several: cut it" in refusal(load_dataset, single)
    # Photographs first, then what is none.
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(tmp_path / "set" / "b" / "0.png")
    (tmp_path / "set" / "b" / "0.tif").unlink()
    (tmp_path / "set" / "b" / "1.tif").unlink()
    put("b/1.tif", planes(8, 8))
    assert "1.tif has more than 8 bits per channel, and 0.png 8 bits" in refusal(load_dataset, tmp_path / "set" / "b")


@pytest.mark.parametrize(
    "fault",
    [
        ValueError("<COMPRESSION.LZW: 5> requires the 'imagecodecs' package"),
        ModuleNotFoundError("No module named 'compression'"),  # of ZSTD without imagecodecs
    ],
)
def test_a_missing_codec_and_a_missing_package_name_the_extra(put, tmp_path, monkeypatch, fault):
    path = put("z.tif", planes(3, 8, 8), metadata={"axes": "ZYX"})

    def fails(self, *args, **options):
        raise fault

    monkeypatch.setattr(tifffile.TiffPageSeries, "asarray", fails)
    with pytest.raises(MissingExtra, match=r"'imagecodecs'.*viewsmith\[microscopy\]"):
        load_dataset(path)

    def missing(package, extra, purpose):
        raise MissingExtra(package, extra, purpose)

    monkeypatch.setattr(tiff, "require", missing)
    with pytest.raises(MissingExtra, match=r"TIFF files of instruments needs the package 'tifffile'"):
        load_dataset(path)


def test_a_table_of_images_in_another_encoding(tmp_path):
    for i in range(6):
        Image.new("L", (16, 16), i).save(tmp_path / f"größe{i}.png")
    table = tmp_path / "t.csv"
    rows = "".join(f"größe{i}.png,{'süß' if i % 2 else 'herb'}\n" for i in range(6))
    table.write_text(f"datei,geschmack\n{rows}", "latin-1")
    assert "give its encoding (--encoding latin-1)" in refusal(load_dataset, table, modality="images")
    data = load_dataset(table, modality="images", label="geschmack", encoding="latin-1")
    assert data.x.shape == (6, 16, 16, 1) and data.y.tolist() == ["herb", "süß"] * 3
