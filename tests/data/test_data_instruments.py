"""Images of other fields by their libraries: DICOM, NIfTI, FITS, OME-Zarr; files of one channel each."""

import json
import re
import warnings

import numpy as np
import pytest

from refusals import refusal
from viewsmith.core.errors import MissingExtra
from viewsmith.data import image_squares, load_dataset
from viewsmith.data.any_size import read_samples
from viewsmith.data.readers import instruments

RNG = np.random.default_rng(0)


def dicom_of(path, x, **tags):
    """Write an image, (rows, columns) or (frames, rows, columns), as a DICOM file."""
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

    data, data.file_meta = Dataset(), FileMetaDataset()
    data.file_meta.TransferSyntaxUID, data.file_meta.MediaStorageSOPClassUID = ExplicitVRLittleEndian, CTImageStorage
    data.file_meta.MediaStorageSOPInstanceUID = generate_uid()
    data.Rows, data.Columns = x.shape[-2:]
    data.SamplesPerPixel, data.PhotometricInterpretation = 1, "MONOCHROME2"
    data.BitsAllocated, data.BitsStored, data.HighBit = 16, 12, 11
    data.PixelRepresentation = int(x.dtype.kind == "i")
    if x.ndim == 3:
        data.NumberOfFrames = len(x)
    data.PixelData = x.tobytes()
    for name, value in tags.items():
        setattr(data, name, value)
    path.parent.mkdir(parents=True, exist_ok=True)
    data.save_as(path, enforce_file_format=True)
    return path


def test_dicom_in_units_of_the_scanner(tmp_path, monkeypatch):
    pydicom = pytest.importorskip("pydicom")
    given = [RNG.integers(0, 4000, (8, 10)).astype("uint16") for _ in range(6)]
    for i, x in enumerate(given):
        dicom_of(tmp_path / "set" / "ab"[i % 2] / f"{i}.dcm", x, PixelSpacing=[0.5, 0.5])
    data = load_dataset(tmp_path / "set")
    np.testing.assert_array_equal(data.x[..., 0], np.stack([given[i] for i in (0, 2, 4, 1, 3, 5)]))
    assert data.x.dtype == np.uint16 and data.y.tolist() == list("aaabbb")
    assert data.schema["signal"]["micrometers"] == 500
    frames = RNG.integers(-100, 4000, (3, 8, 10)).astype("int16")
    hounsfield = load_dataset(
        dicom_of(tmp_path / "a.dcm", frames, BitsStored=16, HighBit=15, RescaleSlope=2, RescaleIntercept=-1024)
    )
    assert hounsfield.x.dtype == np.float32 and hounsfield.row_names[1] == "a.dcm#1"
    np.testing.assert_array_equal(hounsfield.x[..., 0], 2.0 * frames - 1024)
    dark = load_dataset(dicom_of(tmp_path / "b.dcm", np.stack(given), PhotometricInterpretation="MONOCHROME1"))
    np.testing.assert_array_equal(dark.x[..., 0], 4095 - np.stack(given))  # black is 0
    for i in range(14):
        dicom_of(tmp_path / "export" / f"{i}.dcm", given[i % 6])
    report = dicom_of(tmp_path / "export" / "report.dcm", given[0])
    found = pydicom.dcmread(report)
    del found.PixelData, found.Rows, found.Columns
    found.Modality = "SR"
    found.save_as(report)
    with pytest.warns(UserWarning, match=r"1 file of 15 .* left out, .*: report.dcm \(no image: SR\)"):
        assert len(load_dataset(tmp_path / "export").x) == 14
    (tmp_path / "no" / "ending").mkdir(parents=True)
    for i in range(2):
        (tmp_path / "b.dcm").rename(name := tmp_path / "no" / "ending" / f"IM{i}")
        dicom_of(tmp_path / "b.dcm", given[0])
    assert "without its ending: rename it to IM1.dcm" in refusal(load_dataset, name)
    code = re.search('python -c "(.*)"', refusal(load_dataset, tmp_path / "no"))[1]
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert load_dataset(tmp_path / "no_dcm" / "ending").x.shape == (7, 8, 10, 1)
    (tmp_path / "c.dcm").write_bytes((tmp_path / "a.dcm").read_bytes()[:200])
    assert "c.dcm" in refusal(load_dataset, tmp_path / "c.dcm")


@pytest.mark.parametrize("ending", [".nii", ".nii.gz"])
def test_slices_of_nifti(tmp_path, ending):
    nibabel = pytest.importorskip("nibabel")
    x = RNG.integers(0, 4000, (8, 10, 5)).astype("uint16")
    image = nibabel.Nifti1Image(x, np.diag([2.0, 2, 3, 1]))
    nibabel.save(image, tmp_path / f"a{ending}")
    data = load_dataset(tmp_path / f"a{ending}")
    assert data.x.shape == (5, 10, 8, 1) and data.x.dtype == np.uint16 and data.row_names[2] == f"a{ending}#2"
    np.testing.assert_array_equal(data.x[3, ..., 0], x[:, :, 3].T)
    assert data.schema["signal"]["micrometers"] == 2000
    sagittal = load_dataset(tmp_path / f"a{ending}", axes="ZYX")
    np.testing.assert_array_equal(sagittal.x[3, ..., 0], x[3])
    scaled = nibabel.Nifti1Image(x.astype("int16"), np.eye(4))
    scaled.header.set_slope_inter(0.5, 3)
    nibabel.save(scaled, tmp_path / f"b{ending}")
    assert load_dataset(tmp_path / f"b{ending}").x.dtype == np.float32
    with_tiles = load_dataset(tmp_path / f"a{ending}", tile=4, overlap=0)
    assert len(with_tiles.x) == 5 * 3 * 2
    np.testing.assert_array_equal(with_tiles.x[1, ..., 0], x[4:, :4, 0].T)


def test_extensions_of_fits_of_one_name_are_images(tmp_path, capsys):
    pytest.importorskip("astropy")
    from astropy.io import fits as library

    x = RNG.normal(100, 9, (2, 20, 24)).astype("float32")
    flags = np.zeros((20, 24), "int16")
    parts = [library.ImageHDU(x[0], name="SCI"), library.ImageHDU(flags, name="DQ")]
    parts += [library.ImageHDU(x[1], name="SCI", ver=2), library.ImageHDU(flags, name="DQ", ver=2)]
    library.HDUList([library.PrimaryHDU(), *parts]).writeto(tmp_path / "a.fits")
    data = load_dataset(tmp_path / "a.fits")
    np.testing.assert_array_equal(data.x[..., 0], x)
    assert "left out: DQ,1 (20 x 24 pixels), DQ,2 (20 x 24 pixels)" in capsys.readouterr().err
    tiles = load_dataset(tmp_path / "a.fits::SCI,2", tile=8, overlap=0)
    np.testing.assert_array_equal(tiles.x[4, ..., 0], x[1, 8:16, 8:16])


def test_fits_and_its_tiles(tmp_path):
    pytest.importorskip("astropy")
    from astropy.io import fits as library

    x = RNG.normal(100, 10, (40, 50)).astype("float32")
    library.HDUList([library.PrimaryHDU(), library.ImageHDU(x)]).writeto(tmp_path / "a.fits")
    data = load_dataset(tmp_path / "a.fits", tile=16, overlap=0)
    assert data.x.dtype == np.float32 and data.x.dtype.isnative and data.row_names[3] == "a.fits@34,0"
    np.testing.assert_array_equal(data.x[1, ..., 0], x[:16, 16:32])
    cube = RNG.integers(0, 60000, (3, 8, 9)).astype("uint16")
    for name in ("a.fits", "b.fits"):
        (tmp_path / "set").mkdir(exist_ok=True)
        library.PrimaryHDU(cube).writeto(tmp_path / "set" / name)
    folder = load_dataset(tmp_path / "set")
    assert folder.x.shape == (2, 8, 9, 3) and folder.x.dtype == np.uint16
    np.testing.assert_array_equal(folder.x[0], cube.transpose(1, 2, 0))
    assert len(load_dataset(tmp_path / "set" / "a.fits").x) == 3  # of one file, planes are images
    library.BinTableHDU.from_columns([library.Column("a", "E", array=[1.0])]).writeto(tmp_path / "t.fits")
    assert "without an image of two axes" in refusal(load_dataset, tmp_path / "t.fits")


@pytest.mark.parametrize("version", [2, 3])
def test_ome_zarr_and_arrays_alone(tmp_path, version):
    zarr = pytest.importorskip("zarr")
    x = RNG.integers(0, 4000, (2, 3, 40, 50)).astype("uint16")
    group = zarr.create_group(tmp_path / "a.ome.zarr", zarr_format=version)
    group.create_array("0", data=x, chunks=(1, 1, 16, 16))
    group.create_array("1", data=x[..., ::2, ::2], chunks=(1, 1, 16, 16))
    axes = [{"name": name, "type": "space", "unit": "micrometer"} for name in "zcyx"]
    scale = {"type": "scale", "scale": [1, 1, 0.5, 0.5]}
    metadata = {
        "multiscales": [
            {"axes": axes, "datasets": [{"path": "0", "coordinateTransformations": [scale]}, {"path": "1"}]}
        ],
        "omero": {"channels": [{"label": name} for name in ("DNA", "ER", "AGP")]},
    }
    group.attrs.update(metadata if version == 2 else {"ome": metadata})
    data = load_dataset(tmp_path / "a.ome.zarr")
    np.testing.assert_array_equal(data.x, x.transpose(0, 2, 3, 1))
    assert data.schema["signal"] == {"channel_names": ["DNA", "ER", "AGP"], "micrometers": 0.5}
    some = load_dataset(tmp_path / "a.ome.zarr", tile=16, overlap=0, channels=["ER"])
    np.testing.assert_array_equal(some.x[1, ..., 0], x[0, 1, :16, 16:32])
    half = load_dataset(tmp_path / "a.ome.zarr", level=1)
    np.testing.assert_array_equal(half.x, x.transpose(0, 2, 3, 1)[:, ::2, ::2])
    assert half.schema["signal"]["micrometers"] == 1.0
    zarr.create_array(tmp_path / "b.zarr", data=x[0], zarr_format=version)
    assert load_dataset(tmp_path / "b.zarr").x.shape == (3, 40, 50, 1)
    zarr.create_group(tmp_path / "p.zarr", zarr_format=version, attributes={"plate": {"wells": [{"path": "B/2"}]}})
    assert "give " + str(tmp_path / "p.zarr" / "B" / "2" / "0") in refusal(load_dataset, tmp_path / "p.zarr")
    assert json.dumps(data.schema)


def test_a_missing_library_names_its_extra(tmp_path, monkeypatch):
    def missing(package, extra, purpose):
        raise MissingExtra(package, extra, purpose)

    monkeypatch.setattr(instruments, "require", missing)
    for name, extra in (("a.dcm", "medical"), ("a.nii", "medical"), ("a.fits", "astronomy")):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(MissingExtra, match=rf"viewsmith\[{extra}\]"):
            load_dataset(tmp_path / name)
    with pytest.raises(MissingExtra, match=r"viewsmith\[microscopy\]"):
        instruments.zarr_file(tmp_path)


@pytest.fixture
def wells(tmp_path):
    """Files of two channels of six wells."""
    tifffile = pytest.importorskip("tifffile")
    given = RNG.integers(0, 4000, (6, 2, 12, 12)).astype("uint16")
    (tmp_path / "plate").mkdir()
    for well, planes in zip(("A1", "A2", "A3", "B1", "B2", "B3"), given, strict=True):
        for channel, plane in zip(("1", "10"), planes, strict=True):
            tifffile.imwrite(tmp_path / "plate" / f"{well}_w{channel}.tif", plane)
    return tmp_path / "plate", given


PATTERN = "{well}_w{channel}.tif"


def test_a_file_for_each_channel(wells, tmp_path, capsys):
    folder, given = wells
    load_dataset(folder)
    hint = "if _w1, _w10 are channels of an image: --channel-files '{name}_w{channel}.tif'"
    assert hint in capsys.readouterr().err
    data = load_dataset(folder, channel_files=PATTERN)
    np.testing.assert_array_equal(data.x, given.transpose(0, 2, 3, 1))
    assert data.row_names == ["A1", "A2", "A3", "B1", "B2", "B3"]
    assert data.schema["signal"] == {"channel_files": PATTERN, "channel_names": ["1", "10"]}
    np.testing.assert_array_equal(load_dataset(folder, schema=data.schema).x, data.x)
    np.testing.assert_array_equal(load_dataset(folder, channel_files=PATTERN, channels=["10"]).x, data.x[..., [1]])
    (folder / "layout.csv").write_text("well,drug\n" + "".join(f"{w},{w[0]}\n" for w in data.row_names))
    with warnings.catch_warnings(action="error"):  # the table is no file that is ignored
        labeled = load_dataset(folder, channel_files=PATTERN, label="drug")
        assert labeled.y.tolist() == load_dataset(folder, schema=labeled.schema).y.tolist() == list("AAABBB")
        load_dataset(folder, channel_files=PATTERN, label="drug", labels=folder / "layout.csv")
    found = read_samples(str(folder), channel_files=PATTERN)
    np.testing.assert_array_equal(found[0].read(4, None), data.x[4])
    (folder.parent / "one").mkdir()
    for channel in ("1", "10"):
        (folder.parent / "one" / f"w{channel}.tif").write_bytes((folder / f"A2_w{channel}.tif").read_bytes())
    one = read_samples(str(folder.parent / "one"), "images", True, {"channel_files": "w{channel}.tif"})
    np.testing.assert_array_equal(one.rows.read(0, None), data.x[1])
    alone = load_dataset(folder.parent / "one", channel_files="w{channel}.tif", tile=8, overlap=4)
    assert alone.row_names[0] == "one@0,0"
    tiled = load_dataset(folder, channel_files=PATTERN, tile=8, overlap=4)
    assert tiled.row_names[1] == "A1@4,0"
    np.testing.assert_array_equal(tiled.x[1], data.x[0, :8, 4:])


def test_the_name_of_a_channel_is_short(wells, capsys):
    folder, _ = wells
    for file in list(folder.iterdir()):
        file.rename(folder / f"01_{file.name}")
    assert load_dataset(folder, channel_files="{site}_{channel}.tif").schema["signal"]["channel_names"] == ["w1", "w10"]
    for file in list(folder.iterdir()):
        file.rename(folder / file.name.replace("w10", "DNA").replace("w1", "ER"))
    load_dataset(folder)
    assert "if _DNA, _ER are channels of an image: --channel-files '{name}_{channel}.tif'" in capsys.readouterr().err
    for file in list(folder.iterdir()):  # as CellProfiler has them: a number that goes with the channel
        well, channel = file.stem.split("_")[1:]
        file.rename(folder / f"{well}_{len(channel)}_{channel}_001.tif")
    assert "give * for a part of a name" in refusal(load_dataset, folder, channel_files="{well}_{n}_{channel}_001.tif")
    data = load_dataset(folder, channel_files="{well}_*_{channel}_001.tif")
    assert data.row_names[:2] == ["A1", "A2"] and data.schema["signal"]["channel_names"] == ["ER", "DNA"]
    assert "are the same channel" in refusal(load_dataset, folder, channel_files="*_{n}_{channel}_001.tif")
    for file in list(folder.iterdir()):  # as Harmony has them
        well, _, channel = file.stem.split("_")[:3]
        file.rename(folder / f"r01{well}f01p01-ch{len(channel)}sk1fk1fl1.tiff")
    load_dataset(folder)
    hint = "if -ch2, -ch3 are channels of an image: --channel-files '{name}-ch{channel}sk1fk1fl1.tiff'"
    assert hint in capsys.readouterr().err
    for file in list(folder.iterdir()):
        file.rename(folder / f"01_{file.name[3:5]}_{file.name.split('ch')[1][0]}.tif")
    for file in folder.glob("01_[AB][23]_*.tif"):
        file.unlink()
    refused = refusal(load_dataset, folder, channel_files="01_A{n}_{channel}.tif")
    assert "plate is one image" in refused and "expected several: cut it into tiles" in refused


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("AS_09047_050428030001_{well}f00d{channel}.TIF", "{name}d{channel}.TIF"),
        ("{well}_s1_w{channel}247376DD-6ADD-442D-AE47-F54A05F3EA9{channel}.tif", "{name}_w{channel}*.tif"),
        ("plate_{well}_T0001F001L01A0{channel}Z01C0{channel}.tif", "{name}A*Z{plane}C{channel}.tif"),
        ("img_00000000{channel_less}_DAPI{channel}_000.tif", "{name}_{channel}_000.tif"),
    ],
)
def test_names_of_screening_microscopes_have_a_pattern_that_reads_them(put_wells, capsys, name, pattern):
    folder, given = put_wells(name)
    small = [folder / f"A01_s1_w{c}_thumb0247376D-6ADD-442D-AE47-F54A05F3EA91.tif" for c in (1, 2)]
    for file in small:
        pytest.importorskip("tifffile").imwrite(file, given[0, ::3, ::3, 0])
    with pytest.warns(UserWarning, match="2 entries .* ignored: A01_s1_w1_thumb0247376D"):
        load_dataset(folder)
    for file in small:
        file.unlink()
    assert f"are channels of an image: --channel-files '{pattern}'" in capsys.readouterr().err
    np.testing.assert_array_equal(load_dataset(folder, channel_files=pattern).x, given)


@pytest.fixture
def put_wells(tmp_path):
    """Write three wells of two channels under names of a form."""
    tifffile = pytest.importorskip("tifffile")

    def put(name):
        given = RNG.integers(0, 4000, (3, 12, 12, 2)).astype("uint16")
        for well, number, channel in ((w, i, c) for i, w in enumerate(("A01", "A02", "B01")) for c in (0, 1)):
            file = name.format(well=well, channel_less=number, channel=channel + 1)
            tifffile.imwrite(tmp_path / file, given[number, ..., channel])
        return tmp_path, given

    return put


def test_coarser_channels_are_enlarged(tmp_path, capsys):
    codecs = pytest.importorskip("imagecodecs")
    given = {"B02": 1, "B05": 2, "B01": 6}
    bands = {name: RNG.integers(0, 9000, (24 // n, 36 // n)).astype("uint16") for name, n in given.items()}
    for name, band in bands.items():
        (tmp_path / f"T32_{name}.jp2").write_bytes(codecs.jpeg2k_encode(band, level=0))
    whole = [np.kron(bands[name], np.ones((n, n), "uint16")) for name, n in sorted(given.items())]
    data = load_dataset(tmp_path, channel_files="{tile}_{channel}.jp2", tile=10, overlap=0)
    assert "channels B01 (4 x 6 pixels), B05 (12 x 18 pixels) are enlarged to 24 x 36 pixels" in capsys.readouterr().err
    assert data.schema["signal"]["channel_names"] == ["B01", "B02", "B05"]
    places = list(zip(data.windows.tops, data.windows.lefts, strict=True))
    assert len(places) == 12 and (14, 26) in places
    for x, (top, left) in zip(data.x, places, strict=True):
        np.testing.assert_array_equal(x, np.stack(whole, -1)[top : top + 10, left : left + 10])
    (tmp_path / "T32_B05.jp2").write_bytes(codecs.jpeg2k_encode(bands["B05"][:, :17].copy(), level=0))
    assert "a whole number of times smaller" in refusal(load_dataset, tmp_path, channel_files="{tile}_{channel}.jp2")


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16"])
def test_colors_and_types_of_jpeg_2000(tmp_path, dtype):
    codecs = pytest.importorskip("imagecodecs")
    x = RNG.integers(-90 if dtype == "int16" else 0, 250, (20, 30, 3)).astype(dtype)
    (tmp_path / "a.jp2").write_bytes(codecs.jpeg2k_encode(x, level=0))
    data = load_dataset(tmp_path / "a.jp2", tile=10, overlap=0)
    np.testing.assert_array_equal(data.x[0], x[:10, :10])
    assert data.x.dtype == ("float32" if dtype == "int16" else dtype)


def test_files_of_channels_in_folders_of_classes(wells, tmp_path):
    folder, given = wells
    for kind, letter in (("dead", "A"), ("live", "B")):
        (tmp_path / "set" / kind).mkdir(parents=True)
        for file in folder.glob(f"{letter}*.tif"):
            file.rename(tmp_path / "set" / kind / file.name)
    data = load_dataset(tmp_path / "set", channel_files=PATTERN)
    assert data.y.tolist() == ["dead"] * 3 + ["live"] * 3 and data.row_names[3] == "live_B1"
    np.testing.assert_array_equal(data.x, given.transpose(0, 2, 3, 1))


def test_files_of_channels_that_do_not_fit(wells):
    import tifffile

    folder, given = wells
    for pattern in ("{well}.tif", "{channel}{channel}.tif", "w1.tif"):
        assert "with {channel} and other fields" in refusal(load_dataset, folder, channel_files=pattern)
    assert "has no file such as" in refusal(load_dataset, folder, channel_files="{well}-{channel}.tif")
    tifffile.imwrite(folder / "B3_w10.tif", given[0, 0, :10])
    assert "B3_w10.tif is YX 10 x 12 uint16, and B3_w1.tif" in refusal(load_dataset, folder, channel_files=PATTERN)
    (folder / "B3_w10.tif").unlink()
    assert "B3 has no file of channel 10, expected 1, 10" in refusal(load_dataset, folder, channel_files=PATTERN)
    (folder / "B3_w1.tif").rename(folder / "thumb.tif")
    with pytest.warns(UserWarning, match="1 file of another name than"):
        assert len(load_dataset(folder, channel_files=PATTERN).x) == 5


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32", "float64"])
def test_arrays_of_different_sizes_as_squares(dtype):
    given = [np.full(shape, 7 * i, dtype) for i, shape in enumerate([(8, 9, 2), (16, 12, 2), (5, 30, 2)])]
    given[0][:, 0] = given[0][:, -1] = 99  # the first column is in the center square, the last one is not
    squares = image_squares(given, 8)
    assert squares.shape == (3, 8, 8, 2) and squares.dtype == ("float32" if dtype == "float64" else dtype)
    np.testing.assert_array_equal(squares[0], given[0][:, :8])
    assert set(squares[2].ravel()) == {14}
    assert image_squares([image[..., 0] for image in given], 4).shape == (3, 4, 4, 1)
    for wrong in ([given[0], given[1][..., :1]], [given[0], given[1].astype("int8")], [given[0], given[1][0, 0]]):
        assert "image 1 is" in refusal(image_squares, wrong, 8) and "of one type" in refusal(image_squares, wrong, 8)
    assert "no images" in refusal(image_squares, [], 8) and "side is 2" in refusal(image_squares, given, 2)


@pytest.mark.parametrize("dtype", ["uint16", "float32"])
def test_folders_of_instrument_images_of_different_sizes(dtype, tmp_path, capsys):
    tifffile = pytest.importorskip("tifffile")
    (tmp_path / "set").mkdir()
    given = [np.full((2, *shape), 1000 * i, dtype) for i, shape in enumerate([(8, 9), (12, 16), (10, 10)])]
    for number, image in enumerate(given):
        tifffile.imwrite(tmp_path / "set" / f"{number}.tif", image, photometric="minisblack")
    data = load_dataset(tmp_path / "set", axes="CYX")
    assert data.x.shape == (3, 10, 10, 2) and data.x.dtype == dtype and data.schema["image_size"] == 10
    assert [set(each.ravel()) for each in data.x] == [{0}, {1000}, {2000}]
    assert "3 sizes, 8 x 9 pixels to 12 x 16 pixels" in capsys.readouterr().err
    assert load_dataset(tmp_path / "set", schema=data.schema).x.shape == (3, 10, 10, 2)


def test_a_file_that_is_cut_off(tmp_path, caplog):
    tifffile = pytest.importorskip("tifffile")
    x = RNG.integers(0, 4000, (2, 64, 64)).astype("uint16")
    for name, options in (("plain", {}), ("packed", {"compression": "zlib", "rowsperstrip": 8})):
        path = tmp_path / f"{name}.tif"
        tifffile.imwrite(path, x, photometric="minisblack", **options)
        whole = path.read_bytes()
        for part in (0.98, 0.5):
            path.write_bytes(whole[: int(part * len(whole))])
            for given in ({}, {"tile": 32}):
                said = refusal(load_dataset, path, **given)
                assert path.name in said and len(said.splitlines()) == 1, said
    assert not caplog.records


@pytest.mark.parametrize(("interleave", "ending"), [("bsq", ".img"), ("bil", ""), ("bip", ".dat")])
@pytest.mark.parametrize("order", "<>")
def test_a_scene_of_envi(tmp_path, capsys, interleave, ending, order):
    x = RNG.integers(0, 4000, (12, 14, 5)).astype(f"{order}u2")
    header = "ENVI\r\nsamples = 14\nlines=12\nbands = 5\nheader offset = 6\ndata type = 12\nbyte order = "
    header += f"{int(order == '>')}\ninterleave = {interleave}\nband names = {{b 1,\n b 2, b 3, b 4, b 5}}\n"
    header += "map info = {UTM, 1.5, 1.5, 1000, 5000, 2, 2, 16, North}\n"
    (tmp_path / "ip.hdr").write_bytes(header.encode())
    stored = x.transpose({"bsq": (2, 0, 1), "bil": (0, 2, 1), "bip": (0, 1, 2)}[interleave])
    (tmp_path / f"ip{ending}").write_bytes(b"offset" + stored.tobytes())
    data = load_dataset(tmp_path / f"ip{ending}", tile=4, overlap=0, channels=["b 2", "4"])  # or by its header
    np.testing.assert_array_equal(data.x[1], x[:4, 4:8, [1, 4]])
    assert data.x.dtype == np.uint16 and data.x.dtype.isnative
    assert data.windows.transforms == [(999.0, 2.0, 0.0, 5001.0, 0.0, -2.0)]
    np.testing.assert_array_equal(load_dataset(tmp_path / "ip.hdr", schema=data.schema).x, data.x)
    (tmp_path / "map.hdr").write_text("ENVI\nsamples = 14\nlines = 12\nbands = 1\ndata type = 1\n")
    (tmp_path / "map.img").write_bytes((np.arange(12)[:, None] // 3 * np.ones((1, 14)) % 2 + 1).astype("u1").tobytes())
    labeled = load_dataset(tmp_path / "ip.hdr", tile=4, overlap=3, labels=tmp_path / "map.hdr")
    assert set(labeled.y) == {1, 2}
    (tmp_path / f"ip{ending}").write_bytes(b"offset" + stored.tobytes()[:-2])
    assert "ends within its pixels" in refusal(load_dataset, tmp_path / "ip.hdr", tile=4)
    (tmp_path / f"ip{ending}").unlink()
    assert "lies without the file of its pixels: expected ip.img" in refusal(load_dataset, tmp_path / "ip.hdr", tile=4)
    (tmp_path / "ip.hdr").write_text("ENVI\nlines = many\n")
    assert "as a header of ENVI" in refusal(load_dataset, tmp_path / "ip.hdr", tile=4)


def test_positions_of_ome_tiff_are_images_in_folders_too(tmp_path):
    tifffile = pytest.importorskip("tifffile")
    x = np.random.default_rng(0).integers(0, 999, (2, 20, 30)).astype(np.uint16)
    for name in "ab":
        with tifffile.TiffWriter(tmp_path / f"{name}.ome.tif") as file:
            for position in x:
                file.write(position, metadata={"axes": "YX"})
    np.testing.assert_array_equal(load_dataset(tmp_path).x[..., 0], np.concatenate([x, x]))


@pytest.mark.parametrize("tile", [None, 8])
def test_images_of_one_file_are_in_one_part_of_the_split(tmp_path, capsys, tile):
    """Slices and frames are alike: a classifier would know the file."""
    tifffile = pytest.importorskip("tifffile")
    rng = np.random.default_rng(0)
    for i in range(8):
        (folder := tmp_path / "set" / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        x = rng.integers(0, 4000, (5, 16, 16)).astype(np.uint16)
        tifffile.imwrite(folder / f"{i}.tif", x, imagej=True, metadata={"axes": "ZYX"})
    data = load_dataset(tmp_path / "set", tile=tile)
    assert "images of one file are in one part of the split" in capsys.readouterr().err
    parts = [{data.row_names[i].split("#")[0] for i in rows} for rows in (data.train_index, data.test_index)]
    assert not parts[0] & parts[1] and len(parts[0] | parts[1]) == 8 and data.split == "groups"
    assert set(data.y_train) == set(data.y_test) == {"a", "b"}
    for i in range(2, 8):
        (tmp_path / "set" / "ab"[i % 2] / f"{i}.tif").unlink()
    alone = load_dataset(tmp_path / "set")
    assert "all images of a class are of one file" in capsys.readouterr().err and len(alone.y_test) == 2


def test_slices_of_one_patient_are_in_one_part_of_the_split(tmp_path, capsys):
    pytest.importorskip("pydicom")
    for i in range(24):
        x = RNG.integers(0, 4000, (8, 10)).astype("uint16")
        dicom_of(tmp_path / "set" / "ab"[i % 2] / f"{i:02d}.dcm", x, PatientID=f"p{i % 8}")
    data = load_dataset(tmp_path / "set")
    assert "images of one patient are in one part of the split" in capsys.readouterr().err
    parts = [{int(data.row_names[i][2:4]) % 8 for i in rows} for rows in (data.train_index, data.test_index)]
    assert not parts[0] & parts[1] and len(parts[0] | parts[1]) == 8 and set(data.y_test) == {"a", "b"}
