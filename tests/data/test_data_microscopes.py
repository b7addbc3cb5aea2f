"""Files of microscopes under names of their makers: CZI, LIF and ND2, written here as small ones are."""

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refusals import refusal
from viewsmith.core.errors import InputError
from viewsmith.data import load_dataset
from viewsmith.data.image_files import image_file

pytest.importorskip("tifffile")


def planes(*shape: int, seed: int = 0) -> np.ndarray:
    """Images of 16 bits in which every value has its own place."""
    return np.random.default_rng(seed).integers(0, 60_000, shape).astype(np.uint16)


def check_windows(path: Path, x: np.ndarray) -> None:
    """Check that all pixels and windows of a file are those of an array (images..., channels, rows, columns)."""
    file = image_file(path).with_axes(None, alone=True)
    want = np.moveaxis(x.reshape(-1, *x.shape[-3:]), 1, -1)
    np.testing.assert_array_equal(file.images(), want)
    opened = file.open()
    for number in (0, len(want) - 1):
        window = file.window(opened, number, 3, 5, 7, 6)
        np.testing.assert_array_equal(window, want[number, 3:10, 5:11])


# CZI


def write_czi(path: Path, x: np.ndarray, *, scenes: Sequence[tuple[int, int]] = ((0, 0),), names: bool = True) -> None:
    """Write images (Z, C, rows, columns) at the places (left, top) of scenes."""
    czi = pytest.importorskip("pylibCZIrw.czi")
    with czi.create_czi(str(path)) as file:
        for scene, place in enumerate(scenes):
            for z, c in np.ndindex(*x.shape[:2]):
                plane = {"T": 0, "Z": z, "C": c}
                file.write(np.ascontiguousarray(x[z, c] + scene)[..., None], plane=plane, location=place, scene=scene)
        channels = {0: "DNA", 1: "actin"} if names else None
        file.write_metadata(document_name="a", channel_names=channels, scale_x=0.5e-6, scale_y=0.5e-6)


def test_planes_of_a_czi_file_are_images_with_named_channels(tmp_path: Path) -> None:
    x = planes(3, 2, 20, 30)
    write_czi(tmp_path / "a.czi", x)
    file = image_file(tmp_path / "a.czi")
    assert (file.axes, file.names, file.micrometers) == ("ZCYX", ("DNA", "actin"), 0.5)
    check_windows(tmp_path / "a.czi", x)
    data = load_dataset(tmp_path / "a.czi", channels=["actin"])
    np.testing.assert_array_equal(data.x[..., 0], x[:, 1])


def test_scenes_of_one_size_are_images(tmp_path: Path) -> None:
    x = planes(1, 2, 20, 30)
    write_czi(tmp_path / "a.czi", x, scenes=[(0, 0), (500, 100)])
    check_windows(tmp_path / "a.czi", np.concatenate([x, x + 1]))


def test_scenes_are_images_in_folders_too_and_no_channels(tmp_path: Path) -> None:
    pytest.importorskip("liffile")
    x = planes(1, 1, 20, 30)
    for name in ("czi/a.czi", "czi/b.czi", "lif/a.lif", "lif/b.lif"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        if name.endswith("czi"):
            write_czi(tmp_path / name, x, scenes=[(0, 0), (500, 100)], names=False)
        else:
            write_lif(tmp_path / name, {"first": x, "second": x + 1})
    for kind in ("czi", "lif"):
        found = load_dataset(tmp_path / kind).x
        np.testing.assert_array_equal(found[..., 0], np.concatenate([x[0], x[0] + 1] * 2))


def test_the_only_scene_has_a_number(tmp_path: Path) -> None:
    x = planes(2, 1, 20, 30)
    write_czi(tmp_path / "a.czi", x, names=False)
    check_windows(tmp_path / "a.czi::0", x)
    with pytest.raises(InputError, match=r"has no image '1'; its images are: 0$"):
        load_dataset(tmp_path / "a.czi::1")


def test_illuminations_are_no_scenes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    czi = pytest.importorskip("pylibCZIrw.czi")
    x = planes(1, 2, 20, 30)
    write_czi(tmp_path / "a.czi", x, names=False)

    def lit(self: Any, *, roi: tuple[int, ...], plane: dict[str, int], **_: Any) -> np.ndarray:
        left, top, width, height = roi
        return x[0, plane["I"], top : top + height, left : left + width, None]

    bounds = {"C": (0, 1), "I": (0, 2), "X": (0, 30), "Y": (0, 20)}
    monkeypatch.setattr(czi.CziReader, "total_bounding_box", property(lambda self: bounds))
    monkeypatch.setattr(czi.CziReader, "read", lit)
    check_windows(tmp_path / "a.czi", x.transpose(1, 0, 2, 3))


def test_colors_of_a_czi_file_are_red_first(tmp_path: Path) -> None:
    czi = pytest.importorskip("pylibCZIrw.czi")
    colors = planes(20, 30, 3).astype(np.uint8)
    with czi.create_czi(str(tmp_path / "a.czi")) as file:
        file.write(np.ascontiguousarray(colors[..., ::-1]), plane={"T": 0, "Z": 0, "C": 0})
    found = image_file(tmp_path / "a.czi")
    assert (found.axes, found.dtype) == ("YXS", np.uint8)
    np.testing.assert_array_equal(found.images()[0], colors)


def test_large_scenes_have_smaller_resolutions(tmp_path: Path) -> None:
    x = np.zeros((1, 1, 2400, 300), np.uint16) + np.arange(2400, dtype=np.uint16)[:, None] % 1000
    write_czi(tmp_path / "a.czi", x, names=False)
    file = image_file(tmp_path / "a.czi")
    assert [each.sides for each in file.smaller] == [(1200, 150)]
    half = file.smaller[0].images()[0, :400, :, 0].astype(int)
    assert np.abs(half - 2 * np.arange(400)[:, None]).max() <= 1
    data = load_dataset(tmp_path / "a.czi", tile=100, overlap=0)
    np.testing.assert_array_equal(data.x[3, :, :, 0], x[0, 0, 100:200, :100])


# LIF


def write_lif(path: Path, images: dict[str, np.ndarray], *, ids: Sequence[int] = (1, 2, 3)) -> None:
    """Write images (Z, C, rows, columns) by name; `ids` are Leica's numbers of the axes: columns, rows and planes."""
    elements, blocks = "", b""
    for i, (name, x) in enumerate(images.items()):
        strides = [x.strides[-1], x.strides[-2], x.strides[0]]
        dimensions = "".join(
            f'<DimensionDescription DimID="{kind}" NumberOfElements="{size}" Origin="0" Length="{(size - 1) * 2e-7}" '
            f'Unit="m" BitInc="0" BytesInc="{stride}"/>'
            for kind, size, stride in zip(ids, (*x.shape[:1:-1], len(x)), strides, strict=True)
        )
        channels = "".join(
            '<ChannelDescription DataType="0" ChannelTag="0" Resolution="16" NameOfMeasuredQuantity="" Min="0" '
            f'Max="1" Unit="" LUTName="Gray" IsLUTInverted="0" BytesInc="{c * x.strides[1]}" BitInc="0"/>'
            for c in range(x.shape[1])
        )
        elements += (
            f'<Element Name="{name}" UniqueID="{i}"><Data><Image><ImageDescription><Channels>{channels}</Channels>'
            f"<Dimensions>{dimensions}</Dimensions></ImageDescription></Image></Data>"
            f'<Memory Size="{x.nbytes}" MemoryBlockID="MemBlock_{i}"/></Element>'
        )
        named = f"MemBlock_{i}".encode("utf-16-le")
        head = struct.pack("<BQBI", 0x2A, x.nbytes, 0x2A, len(named) // 2) + named
        blocks += struct.pack("<II", 0x70, len(head)) + head + x.tobytes()
    root = f'<Element Name="p" UniqueID="p"><Children>{elements}</Children></Element>'
    text = f'<LMSDataContainerHeader Version="2">{root}</LMSDataContainerHeader>'.encode("utf-16-le")
    path.write_bytes(struct.pack("<IIBI", 0x70, len(text) + 5, 0x2A, len(text) // 2) + text + blocks)


def test_images_of_one_shape_in_a_lif_file_are_read_together(tmp_path: Path) -> None:
    pytest.importorskip("liffile")
    x = planes(2, 3, 2, 20, 30)
    write_lif(tmp_path / "a.lif", {"first": x[0], "large": planes(1, 2, 40, 50), "second": x[1]})
    file = image_file(tmp_path / "a.lif")
    assert file.axes == "PZCYX"
    assert file.left_out == "large (40 x 50 pixels), each of which a.lif::NAME gives"
    assert file.micrometers == pytest.approx(0.2)
    check_windows(tmp_path / "a.lif", x)
    check_windows(tmp_path / "a.lif::second", x[1])
    write_lif(tmp_path / "b.lif", {"a/first": x[0], "b/first": x[1]})
    check_windows(tmp_path / "b.lif::b:first", x[1])
    with pytest.raises(InputError, match="has no image 'third'; its images are: first, large, second"):
        load_dataset(tmp_path / "a.lif::third")


def test_a_section_across_planes_has_rows(tmp_path: Path) -> None:
    pytest.importorskip("liffile")
    x = planes(4, 2, 20, 30)
    write_lif(tmp_path / "a.lif", {"xzy": x}, ids=(1, 3, 2))
    assert image_file(tmp_path / "a.lif").axes == "ZCYX"
    check_windows(tmp_path / "a.lif", x)


def test_lines_of_times_are_no_images_unless_axes_say_so(tmp_path: Path) -> None:
    pytest.importorskip("liffile")
    x = planes(1, 1, 20, 30)
    write_lif(tmp_path / "a.lif", {"xt": x}, ids=(1, 4, 3))
    with pytest.raises(InputError, match=r"a.lif is TX 20 x 30 uint16, expected rows \(Y\) and columns \(X\)"):
        load_dataset(tmp_path / "a.lif", tile=8)
    assert load_dataset(tmp_path / "a.lif", tile=8, axes="YX").x.shape[1:] == (8, 8, 1)


# ND2


def variant(name: str, value: Any) -> str:
    """A value as Nikon writes it in XML."""
    if isinstance(value, dict):
        return f'<{name} runtype="CLxListVariant">{"".join(variant(k, v) for k, v in value.items())}</{name}>'
    kind = {int: "lx_uint32", float: "double", bool: "bool", str: "CLxStringW"}[type(value)]
    return f'<{name} runtype="{kind}" value="{str(value).lower() if kind == "bool" else value}"/>'


def write_nd2(path: Path, x: np.ndarray) -> None:
    """Write images (T, C, rows, columns): pieces with names, and a map of them at the end."""
    frames, channels, height, width = x.shape
    attributes = {
        "uiWidth": width,
        "uiWidthBytes": width * channels * 2,
        "uiHeight": height,
        "uiComp": channels,
        "uiBpcInMemory": 16,
        "uiBpcSignificant": 16,
        "uiSequenceCount": frames,
        "eCompression": 2,
    }
    plane = {
        "sDescription": "x",
        "uiCompCount": 1,
        "uiSampleIndex": 0,
        "uiColor": 255,
        "pFluorescentProbe": {"uiColor": 1},
    }
    each = {f"a{i}": plane | {"sDescription": name} for i, name in enumerate(["DNA", "actin"][:channels])}
    metadata = {"dCalibration": 0.25, "bCalibrated": True, "sPicturePlanes": {"uiCount": channels, "sPlaneNew": each}}
    loop = {"eType": 1, "uLoopPars": {"uiCount": frames, "dStart": 0.0, "dPeriod": 1.0, "dDuration": 1.0}}
    texts = {"ImageAttributes!": attributes, "ImageMetadataSeq|0!": metadata, "ImageMetadata!": loop}
    root = "<variant version='1.0'>{}</variant>"
    pieces = [(name.encode(), root.format(variant("no_name", value)).encode()) for name, value in texts.items()]
    frame = [np.ascontiguousarray(np.moveaxis(each, 0, -1)).tobytes() for each in x]
    pieces += [(f"ImageDataSeq|{i}!".encode(), struct.pack("<d", 0.0) + each) for i, each in enumerate(frame)]

    def piece(name: bytes, data: bytes, named: int) -> bytes:
        return struct.pack("<IIQ", 0x0ABECEDA, named, len(data)) + name.ljust(named, b"\0") + data

    written, places = piece(b"ND2 FILE SIGNATURE CHUNK NAME01!", b"Ver2.1".ljust(64, b"\0"), 32), b""
    for name, data in pieces:
        places += name + struct.pack("<QQ", len(written), len(data))
        written += piece(name, data, 4072 if name.startswith(b"ImageDataSeq") else len(name))
    end = b"ND2 CHUNK MAP SIGNATURE 0000001!"
    start = len(written)
    written += piece(b"ND2 FILEMAP SIGNATURE NAME 0001!", places + end + struct.pack("<Q", start), 32)
    path.write_bytes(written)


def test_frames_of_an_nd2_file_are_images_with_named_channels(tmp_path: Path) -> None:
    pytest.importorskip("nd2")
    x = planes(3, 2, 20, 30)
    write_nd2(tmp_path / "a.nd2", x)
    file = image_file(tmp_path / "a.nd2")
    assert (file.axes, file.names, file.micrometers) == ("TCYX", ("DNA", "actin"), 0.25)
    check_windows(tmp_path / "a.nd2", x)
    write_nd2(tmp_path / "b.nd2", x[:1, :1])
    check_windows(tmp_path / "b.nd2", x[:1, :1])
    with pytest.raises(InputError, match=r"b.nd2 has no images with names, expected no ::a"):
        load_dataset(tmp_path / "b.nd2::a")


@pytest.mark.parametrize(("ending", "package"), [("czi", "pylibCZIrw"), ("lif", "liffile"), ("nd2", "nd2")])
def test_what_is_no_such_file_is_one_line(tmp_path: Path, ending: str, package: str) -> None:
    pytest.importorskip(package)
    (tmp_path / f"a.{ending}").write_bytes(b"no image" * 100)
    with pytest.raises(InputError, match=f"cannot read .*a.{ending} as an? {ending.upper()} file"):
        load_dataset(tmp_path / f"a.{ending}")


# MRC


@pytest.mark.parametrize("name", ["a.mrc", "a.map.gz", "a.mrc.bz2"])
def test_planes_of_an_mrc_file_are_images(tmp_path: Path, name: str) -> None:
    mrcfile = pytest.importorskip("mrcfile")
    x = planes(3, 20, 30)
    compression = {".gz": "gzip", ".bz2": "bzip2"}.get(Path(name).suffix)
    with mrcfile.new(tmp_path / name, x, compression=compression) as file:
        file.set_extended_header(np.zeros(96, "V1"))
        file.voxel_size = 5.2
    file = image_file(tmp_path / name)
    assert (file.axes, file.dtype, file.micrometers) == ("ZYX", np.dtype(np.uint16), 0.00052)
    check_windows(tmp_path / name, x[:, None])
    np.testing.assert_array_equal(load_dataset(tmp_path / name).x[..., 0], x)
    assert load_dataset(tmp_path / name, tile=10, overlap=0).row_names[-1] == f"{name}#2@20,10"


def test_an_mrc_file_of_one_image_or_of_none(tmp_path: Path) -> None:
    mrcfile = pytest.importorskip("mrcfile")
    x = np.random.default_rng(0).normal(size=(40, 50)).astype(">f4")
    with mrcfile.new(tmp_path / "a.mrc", x):
        pass
    assert "is one image (YX 40 x 50 float32), expected several: cut it" in refusal(load_dataset, tmp_path / "a.mrc")
    assert load_dataset(tmp_path / "a.mrc", tile=10, overlap=0).x.shape == (20, 10, 10, 1)
    with mrcfile.new(tmp_path / "b.mrc", x.astype("complex64")):
        pass
    assert "has numbers complex64 of shape (40, 50), expected an image" in refusal(load_dataset, tmp_path / "b.mrc")
    (tmp_path / "b.mrc").write_bytes((tmp_path / "a.mrc").read_bytes()[:4000])
    assert "it ends before its pixels do" in refusal(load_dataset, tmp_path / "b.mrc", tile=10)
    content = bytearray((tmp_path / "a.mrc").read_bytes())
    content[15] = 101  # the last byte of the mode
    (tmp_path / "b.mrc").write_bytes(content)
    assert "mode 101 is not read" in refusal(load_dataset, tmp_path / "b.mrc", tile=10)
    assert refusal(load_dataset, tmp_path / "a.mrc::1", tile=10).endswith(
        "no images by name; give " + str(tmp_path / "a.mrc")
    )
