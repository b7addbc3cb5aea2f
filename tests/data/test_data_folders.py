"""Folders of images: labels from folders, channels, sizes, files that are not images; arrays as images."""

import json
import sys
import warnings

import numpy as np
import pytest
from PIL import Image, JpegImagePlugin, features

from refusals import refusal
from viewsmith.core import rows as core_rows
from viewsmith.core.errors import MissingExtra
from viewsmith.data import load_dataset
from viewsmith.data.any_size import read_samples
from viewsmith.data.places import INSTRUMENTS
from viewsmith.data.readers import folders
from viewsmith.modalities.images.modality import image_rows

rng = np.random.default_rng(0)


def pixels(*shape):
    return rng.integers(0, 256, size=shape, dtype=np.uint8)


@pytest.fixture
def put(tmp_path):
    """Save pixels as an image below the folder."""

    def save(name, image=None, **options):
        path = tmp_path / "set" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        image = pixels(6, 5) if image is None else image
        (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(path, **options)
        return image

    (tmp_path / "set").mkdir()
    return save


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "set"


# --- arrays


@pytest.mark.parametrize("shape", [(5, 4, 6), (5, 4, 6, 1), (5, 4, 6, 3)])
def test_images_have_channels_last(shape):
    given = pixels(*shape)
    rows = image_rows(given)
    assert rows.shape == (*shape[:3], 3 if shape[3:] == (3,) else 1) and rows.flags.c_contiguous
    np.testing.assert_array_equal(rows.reshape(shape), given)
    np.testing.assert_array_equal(image_rows(list(given)), rows)


@pytest.mark.parametrize(
    ("given", "part"),
    [
        (pixels(5, 8, 8).astype(int), "int64 of shape (5, 8, 8); images are uint8, uint16 or float32"),
        (pixels(5, 3, 8), "at least 4 pixels"),
        (pixels(5, 64), "reshape them"),
        (pixels(0, 8, 8), "no images"),
        (np.uint8(3), "images are uint8"),
        ([pixels(8, 8), pixels(9, 8)], "images with different shapes"),
    ],
)
def test_image_arrays_refused(given, part):
    message = refusal(image_rows, given, "mine")
    assert part in message and message.startswith("mine: ")


# --- layouts


def test_class_folders_are_labels_in_the_order_of_names(put, folder, recwarn):
    made = {}
    for name in ("b a/2.png", "b a/10.PNG", "b a/3.bmp", "ünï/z.tif", "ünï/a.pgm", "ünï/b.png"):
        made[name] = put(name)
    for hidden in (".hidden/x.png", "b a/.y.png", ".z.png"):
        put(hidden)
    data = load_dataset(str(folder) + "/")
    order = ["b a/10.PNG", "b a/2.png", "b a/3.bmp", "ünï/a.pgm", "ünï/b.png", "ünï/z.tif"]
    assert data.modality == "images" and data.x.shape == (6, 6, 5, 1) and data.x.dtype == np.uint8
    np.testing.assert_array_equal(data.x[..., 0], [made[name] for name in order])
    assert data.y.tolist() == ["b a"] * 3 + ["ünï"] * 3 and data.split == "stratified"
    assert not recwarn.list and data.schema["row_shape"] == [6, 5, 1]


@pytest.mark.parametrize("train", ["train", "Train"])
def test_train_and_test_folders_are_a_given_split(put, folder, train):
    for name in (f"{train}/x/1.png", f"{train}/y/2.png", f"{train}/y/3.png", "test/y/1.png", "test/x/2.png"):
        put(name)
    data = load_dataset(folder)
    assert data.split == "given" and data.y_train.tolist() == ["x", "y", "y"] and data.y_test.tolist() == ["x", "y"]


def test_flat_folders_have_no_labels(put, folder):
    first, second = put("b.png"), put("a.png")
    data = load_dataset(folder)
    assert data.y is None and data.split == "none"
    np.testing.assert_array_equal(data.x[..., 0], [second, first])


def test_the_folder_one_is_in(put, folder, monkeypatch):
    put("a.png"), put("b.png")
    monkeypatch.chdir(folder)
    assert load_dataset(".").x.shape == load_dataset("./").x.shape == (2, 6, 5, 1)


def test_flat_train_and_test_folders(put, folder):
    for name in ("train/1.png", "train/2.png", "test/1.png"):
        put(name)
    data = load_dataset(folder)
    assert data.split == "given" and data.y is None and len(data.x_train) == 2


def test_train_may_be_a_class(put, folder):
    for i in range(5):
        put(f"train/{i}.png")
        put(f"bus/{i}.png")
    assert load_dataset(folder).y.tolist() == ["bus"] * 5 + ["train"] * 5


def test_a_folder_named_like_a_file(put, folder, tmp_path):
    put("1.png")
    put("2.png")
    assert load_dataset(folder.rename(tmp_path / "set.v2")).x.shape == (2, 6, 5, 1)


def test_other_files_are_ignored_in_one_warning(put, folder):
    for name in ("train/x/1.png", "train/x/2.png", "train/x/deeper/3.png", "test/x/1.png", "val/x/1.png"):
        put(name)
    (folder / "README.md").write_text("")
    (folder / "test" / "empty").mkdir()
    (folder / "train" / "x" / "labels.csv").write_text("")
    with pytest.warns(UserWarning) as caught:
        data = load_dataset(folder)
    assert len(data.x) == 3 and len(caught) == 2
    assert str(caught[0].message) == f"{folder}: val is left out: the split is that of train and test"
    expected = "4 entries that are not images, ignored: README.md, train/x/deeper, train/x/labels.csv, test/empty"
    assert expected in str(caught[1].message)


@pytest.mark.parametrize("name", ["val/{}.png", "Valid/x/{}.png"])
def test_validation_is_the_test_split_if_there_is_no_other(put, folder, name):
    for number in range(3):
        put(name.format(number))
        put("train" + name[name.index("/") :].format(number + 3))
    with pytest.warns(UserWarning, match="is taken for the test split"):
        data = load_dataset(folder)
    assert data.split == "given" and data.y is None and data.x_test.shape == data.x_train.shape == (3, 6, 5, 1)


@pytest.mark.parametrize(
    ("names", "part"),
    [
        ([], "is a folder without images (.jpg .jpeg .png"),
        (["x/y/z/1.png", "x/y/z/2.png"], "its 2 files .png are in a folder of their own; give"),
        (["a/images/1.png", "b/images/2.png", "b/masks/3.png"], "has its 2 images deeper than in folders of classes"),
        ([".hidden.png"], "is a folder without images"),
        (["1.png"], "is one image (YX 6 x 5 uint8), expected several: cut it into tiles"),
        (["images/1.png", "images/2.png", "masks/1.png"], "which would be two classes of samples: give"),
        (["x/1.png", "2.png"], "has both images (2.png) and class folders (x)"),
        (["train/x/1.png", "train/y/1.png"], "has train without test; expected both"),
        (["train/1.png", "train/2.png"], "has train without test"),
        (["test/x/1.png", "val/x/1.png"], "has test without train"),
        (["train/x/1.png", "train/x/2.png", "test/1.png"], "test has no class folders, but the other split"),
        (["train/1.png", "train/2.png", "test/x/1.png"], "train has no class folders"),
        (["train/1.png", "train/2.png", "test/x/y/z/1.png"], "test is a folder without images"),
    ],
)
def test_layouts_refused(put, folder, names, part):
    for name in names:
        put(name)
    assert part in refusal(load_dataset, folder)


def test_a_folder_of_images_in_each_class_is_no_class(put, folder):
    for i in range(6):
        put(f"train/{'ab'[i % 2]}/images/{i}.png")
    assert load_dataset(folder / "train").y.tolist() == ["a"] * 3 + ["b"] * 3
    put("test/images/6.png")
    message = refusal(load_dataset, folder)
    assert "test has no class folders, but the other split" in message and "or give" in message
    put("others/images/7.png")
    put("others/images/8.png")
    assert load_dataset(folder / "others").y is None


def test_options_that_do_not_fit_a_folder(put, folder):
    put("1.png")
    put("2.png")
    assert "has no table of labels for label=x" in refusal(load_dataset, folder, label="x")
    assert "is not a table" in refusal(load_dataset, folder, drop=["x"])
    assert "is not an .h5ad file" in refusal(load_dataset, folder, layer="x")
    assert load_dataset(folder, modality="vectors").x.shape == (2, 30)


# --- what is in a file


@pytest.mark.parametrize("suffix", sorted(set(folders.SUFFIXES) - {".webp", ".avif", *INSTRUMENTS}))
def test_every_format_in_gray(put, folder, suffix):
    smooth = np.add.outer(np.arange(6, dtype=np.uint8) * 9, np.arange(5, dtype=np.uint8) * 9)
    put(f"1{suffix}", smooth)
    put(f"2{suffix}", smooth)
    data = load_dataset(folder)
    assert data.x.shape == (2, 6, 5, 1)
    np.testing.assert_allclose(data.x[1, ..., 0].astype(int), smooth, atol=6 if "j" in suffix else 0)


@pytest.mark.skipif(not features.check("webp"), reason="pillow was built without webp")
def test_webp(put, folder):
    color = pixels(6, 5, 3)
    put("1.webp", color, lossless=True)
    put("2.webp", color, lossless=True)
    np.testing.assert_array_equal(load_dataset(folder).x[0], color)


@pytest.mark.skipif(not features.check("avif"), reason="pillow was built without avif")
def test_avif(put, folder):
    four = np.array([[[160, 110, 100], [100, 140, 110]], [[110, 120, 160], [160, 150, 110]]], np.uint8)
    color = np.kron(four, np.ones((16, 16, 1), np.uint8))
    put("1.avif", color, quality=95)
    put("2.avif", color, quality=95)
    assert abs(load_dataset(folder).x[0].astype(int) - color).mean() < 3


def test_one_image_in_color_makes_all_rgb(put, folder):
    gray, color, palette = pixels(6, 5), pixels(6, 5, 3), Image.fromarray(pixels(6, 5, 3)).quantize(16)
    bits = Image.fromarray(pixels(6, 5) // 128 * 255).convert("1")
    put("1.png", gray)
    put("4.png", bits)
    assert load_dataset(folder).x.shape == (2, 6, 5, 1)
    put("2.png", color)
    put("3.png", palette)
    data = load_dataset(folder)
    expected = [np.stack([gray] * 3, -1), color, palette.convert("RGB"), bits.convert("RGB")]
    np.testing.assert_array_equal(data.x, [np.asarray(image) for image in expected])


def test_images_in_color_with_equal_channels_are_gray(put, folder, capsys, tmp_path):
    gray = [put(f"{i:02}.png", np.stack([pixels(6, 5)] * 3, -1)) for i in range(20)]
    data = load_dataset(folder)
    np.testing.assert_array_equal(data.x, np.stack(gray)[..., :1])
    assert "images in color whose channels are equal, read as gray" in capsys.readouterr().err
    for options in ({"schema": data.schema}, {"cache": tmp_path / "cache"}):
        assert load_dataset(folder, **options).x.shape == (20, 6, 5, 1)
    capsys.readouterr()
    colored = gray[1].copy()
    colored[5, 4, 2] += 1
    put("01.png", colored)  # not among those that are looked at first
    for options in ({}, {"cache": tmp_path / "cache"}):
        with warnings.catch_warnings(action="ignore"):  # that it has changed
            np.testing.assert_array_equal(load_dataset(folder, **options).x[1], colored)
    assert "read as gray" not in capsys.readouterr().err


def sixteen_bit_color(path):
    """A PNG with 16 bits a channel, which Pillow reads but does not write."""
    import struct
    import zlib

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", 5, 6, 16, 2, 0, 0, 0)
    lines = zlib.compress((b"\0" + bytes(5 * 3 * 2)) * 6)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", lines) + chunk(b"IEND", b""))


@pytest.mark.parametrize(
    ("name", "image", "options", "part"),
    [
        ("deep.png", Image.fromarray(pixels(6, 5).astype(np.uint16) * 256), {}, "more than 8 bits per channel"),
        (
            "deep.tif",
            Image.fromarray(pixels(6, 5).astype(np.uint16) * 256),
            {},
            "and 0.png 8 bits: expected files of one depth",
        ),
        ("float.tiff", Image.fromarray(pixels(6, 5) / np.float32(255)), {}, "floating-point values"),
        ("lab.tif", Image.fromarray(pixels(6, 5, 3), mode="LAB"), {}, "has the color mode LAB"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_kinds_of_images_refused(put, folder, name, image, options, part):
    put("0.png")
    put(name, image, **options)
    message = refusal(load_dataset, folder)
    assert part in message and name in message


def test_an_alpha_channel_without_transparency_is_left_out(put, folder):
    color, gray = pixels(6, 5, 3), pixels(6, 5)
    put("a.png", Image.fromarray(np.dstack([color, np.full((6, 5), 255, np.uint8)])))
    put("b.png", Image.fromarray(color))
    found = load_dataset(folder).x
    np.testing.assert_array_equal(found, [color, color])
    put("a.png", Image.fromarray(gray).convert("LA"))
    put("b.png", Image.fromarray(gray))
    np.testing.assert_array_equal(load_dataset(folder).x, [gray[..., None], gray[..., None]])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_transparent_pixels_are_white_and_inks_are_colors(put, folder):
    see_through, color, gray = pixels(6, 5, 4), pixels(6, 5, 3), pixels(6, 5, 2)
    see_through[0, :, 3], see_through[1:, :, 3] = 0, 255
    gray[0, :, 1], gray[1:, :, 1] = 0, 255
    put("0.png", Image.fromarray(see_through))
    put("1.png", color, transparency=tuple(int(v) for v in color[2, 2]))
    put("2.png", Image.fromarray(gray, mode="LA"))
    put("3.jpg", Image.fromarray(np.full((6, 5, 4), (0, 0, 255, 0), np.uint8), mode="CMYK"))
    x = load_dataset(folder).x
    assert (x[0, 0] == 255).all() and (x[1, 2, 2] == 255).all() and (x[2, 0] == 255).all()
    np.testing.assert_array_equal(x[0, 1:], see_through[1:, :, :3])
    np.testing.assert_array_equal(x[2, 1:, :, 1], gray[1:, :, 0])
    assert abs(x[3].astype(int) - (255, 255, 0)).max() < 20  # yellow
    np.testing.assert_array_equal(read_samples(folder).rows.read(0, None), x[0])


@pytest.mark.parametrize("shape", [(32, 32), (32, 32, 3)])
def test_all_files_that_cannot_be_read_are_named_at_once(put, folder, shape):
    for i in range(6):
        put(f"{i}.png", pixels(*shape))
    for i in (1, 3, 4):
        (folder / f"{i}.png").write_bytes(b"<html>")
    assert (
        "1.png as an image" in (said := refusal(load_dataset, folder)) and "2 further files of 6: 3.png, 4.png" in said
    )
    for i in (1, 3, 4):
        put(f"{i}.png", pixels(*shape))
    for i in (0, 5):
        content = (folder / f"{i}.png").read_bytes()
        (folder / f"{i}.png").write_bytes(content[: len(content) // 2])
    assert "0.png as an image" in (said := refusal(load_dataset, folder)) and "1 further file of 6: 5.png" in said


@pytest.mark.parametrize("mask", ["{}.png", "{}_mask.png", "{}_Segmentation_1.bmp"])
def test_masks_beside_images_are_no_samples(put, folder, mask):
    for kind in "ab":
        for i in range(3):
            put(f"{kind}/x{i}.jpg", pixels(32, 32))
            put(f"{kind}/{mask.format(f'x{i}')}", pixels(32, 32) // 128)
    with pytest.warns(UserWarning, match="6 images with the name of another one beside, left out as its mask: x0"):
        data = load_dataset(folder)
    assert data.row_names == [f"{kind}/x{i}.jpg" for kind in "ab" for i in range(3)]
    assert data.y.tolist() == ["a"] * 3 + ["b"] * 3
    with pytest.warns(UserWarning, match="left out as its mask"):
        assert len(read_samples(folder).rows) == 6


def test_a_picture_beside_many_images_in_class_folders_is_left_out(put, folder):
    for i in range(folders.LOOSE):
        put(f"{'ab'[i % 2]}/{i}.png")
    put("overview.png", pixels(9, 9))
    with pytest.warns(UserWarning, match="1 image beside the class folders, left out: overview.png"):
        assert len(load_dataset(folder).x) == folders.LOOSE
    (folder / "a" / "0.png").unlink()
    assert "has both images (overview.png) and class folders (a)" in refusal(load_dataset, folder)


def test_a_few_images_of_one_name_are_all_samples(put, folder):
    for name in ("0.jpg", "0.png", "1.jpg", "2.jpg", "gt.png", "x_mask.png"):
        put(name)
    assert len(load_dataset(folder).x) == 6


@pytest.mark.parametrize("shape", [(32, 32, 3), (32, 32), (30, 32)])
def test_other_pictures_of_one_name_are_samples(put, folder, shape):
    for i in range(6):
        put(f"{i}.jpg", pixels(32, 32))
        put(f"{i}.png", pixels(*shape) // (1 if shape[0] == 32 else 128))
    assert len(load_dataset(folder, image_size=16).x) == 12


@pytest.mark.parametrize("names", [("Training", "Testing"), ("train2017", "val2017"), ("train_images", "test_images")])
def test_folders_of_a_split_under_other_names(put, folder, names):
    for name, n in zip(names, (3, 2), strict=True):
        for i in range(n):
            put(f"{name}/{i}.png")
    with warnings.catch_warnings(action="ignore"):  # that the validation is for testing
        data = load_dataset(folder)
    assert data.split == "given" and len(data.train_index) == 3 and len(data.test_index) == 2 and data.y is None


def test_folders_that_may_be_of_a_split(put, folder):
    for i in range(6):
        for name in ("Training", "Cycling", "Testing"):
            put(f"{name}/{i}.png")
        for name in ("train2014/a", "train2017/a", "test2017/a"):
            put(f"years/{name}/{i}.png")
            put(f"exact/{name.replace('2014', '')}/{i}.png")
    years, exact = ((folder / each).rename(folder.parent / each) for each in ("years", "exact"))
    assert sorted(set(load_dataset(folder).y)) == ["Cycling", "Testing", "Training"]
    assert "several folders for train, train2014, train2017: expected one" in refusal(load_dataset, years)
    with pytest.warns(UserWarning, match="ignored: train2017"):
        assert load_dataset(exact).row_names[0].startswith("train/")


def test_colors_of_16_bits_are_refused(put, folder):
    put("0.png")
    sixteen_bit_color(folder / "deep.png")
    with Image.open(folder / "deep.png") as image:
        assert image.mode == "RGB"
    assert "deep.png has more than 8 bits per channel" in refusal(load_dataset, folder)


@pytest.mark.parametrize("suffix", [".gif", ".tif", ".png", ".webp"])
def test_animations_and_pages_are_refused(put, folder, suffix):
    if suffix == ".webp" and not features.check("webp"):
        pytest.skip("pillow was built without webp")
    put("0.png")
    more = [Image.fromarray(pixels(6, 5)) for _ in range(2)]
    put(f"1{suffix}", Image.fromarray(pixels(6, 5)), save_all=True, append_images=more)
    said = "3 pages or channels, and 0.png one" if suffix == ".tif" else "3 frames, expected one"
    assert f"1{suffix} has {said}" in refusal(load_dataset, folder)


def test_broken_files_are_named(put, folder):
    put("0.png", pixels(60, 50))
    put("1.png", pixels(60, 50))
    whole = (folder / "1.png").read_bytes()
    for content in (b"", b"no image", whole[:30], whole[: len(whole) // 2]):
        (folder / "1.png").write_bytes(content)
        message = refusal(load_dataset, folder)
        assert "1.png as an image; is it damaged" in message
    (folder / "1.png").unlink()
    (folder / "1.png").symlink_to(folder / "gone.png")
    assert "1.png as an image" in refusal(load_dataset, folder)


def test_large_photos_are_decoded_in_part(put, folder, monkeypatch):
    x, sizes, draft = pixels(9, 11), [], JpegImagePlugin.JpegImageFile.draft
    images = [np.kron(x, np.ones((side, side), np.uint8)) for side in (64, 48)]
    for number, image in enumerate(images):
        put(f"{number}.jpg", image, quality=95)

    def noted(image, *args):
        draft(image, *args)
        sizes.append(image.size)

    monkeypatch.setattr(JpegImagePlugin.JpegImageFile, "draft", noted)
    found = load_dataset(folder, image_size=18).x[..., 0].astype(float)
    assert sizes == [(88, 72), (66, 54)]  # an eighth, at least twice as many pixels as are left
    for small, image in zip(found, images, strict=True):
        square = Image.fromarray(image[:, len(image) // 9 : len(image) // 9 * 10])
        assert abs(small - np.asarray(square.resize((18, 18), Image.Resampling.BILINEAR))).mean() < 3


def test_photos_are_rotated_by_their_exif_orientation(put, folder):
    image = Image.fromarray(np.repeat(np.repeat(pixels(3, 2), 8, 0), 8, 1))
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees to the right to show it
    put("1.jpg", image, exif=exif, quality=95)
    put("2.jpg", image.rotate(-90, expand=True), quality=95)
    data = load_dataset(folder)
    assert data.x.shape == (2, 16, 24, 1)
    np.testing.assert_allclose(data.x[0].astype(int), data.x[1], atol=8)


@pytest.mark.parametrize("count", [1, 22])
@pytest.mark.parametrize("saved", ["L", "RGB"])
def test_colors_among_gray_images_of_a_run_are_named(put, folder, count, saved):
    for i in range(25):
        put(f"a/{i:02d}.png", Image.fromarray(pixels(6, 5)).convert(saved))
    fitted = load_dataset(folder)
    for i in range(count):
        put(f"a/{i:02d}.png", pixels(6, 5, 3))
    message = refusal(load_dataset, folder, schema=fitted.schema)
    assert f"{count} image{'s' * (count > 1)} of 25 in color, and the run was fitted on gray ones: a/00.png" in message
    exec(message.split('python -c "')[1].split('"')[0], {})  # the line that makes a copy
    data = load_dataset(f"{folder}_gray", schema=fitted.schema)
    assert data.x.shape == (25, 6, 5, 1) and np.array_equal(data.x[count:], fitted.x[count:])


# --- sizes


def test_images_of_different_sizes_are_squares_of_their_median_side(put, folder, capsys, tmp_path):
    for number, shape in enumerate([(9, 5), (6, 12), (8, 8)]):
        put(f"{number}.png", pixels(*shape))
    data = load_dataset(folder)
    assert data.x.shape == (3, 6, 6, 1) and data.schema["image_size"] == 6
    said = ": images of 3 sizes, 9 x 5 pixels to 8 x 8 pixels: their center squares are resized to 6 x 6 (another"
    assert said in capsys.readouterr().err
    np.testing.assert_array_equal(data.x, load_dataset(folder, image_size=6).x)
    for _ in range(2):  # the second time from the cache
        cached = load_dataset(folder, cache=tmp_path / "cache")
        assert cached.schema["image_size"] == 6 and np.array_equal(cached.x, data.x)
    put("3.png", pixels(30, 20))
    assert load_dataset(folder, schema=data.schema).x.shape == (4, 6, 6, 1)
    for number in range(4):
        put(f"{number}.png", pixels(200 + number, 300))
    assert load_dataset(folder).x.shape == (4, 128, 128, 1)


def test_images_of_different_sizes_for_a_run_of_one_size_are_refused(put, folder):
    put("1.png", pixels(6, 5))
    put("2.png", pixels(6, 5))
    schema = load_dataset(folder).schema
    assert "image_size" not in schema
    put("2.png", pixels(7, 5))
    message = refusal(load_dataset, folder, schema=schema)
    assert ": images of 2 sizes, 6 x 5 pixels to 7 x 5 pixels, expected the one size" in message
    assert "--image-size" in message


def test_small_images_are_refused(put, folder):
    put("1.png", pixels(8, 8))
    put("2.png", pixels(3, 8))
    for size in (None, 8):
        assert "2.png has 3 x 8 pixels, expected at least 4" in refusal(load_dataset, folder, image_size=size)


def test_image_size_crops_the_middle_and_resizes(put, folder):
    wide = np.zeros((8, 24), dtype=np.uint8)
    wide[:, 8:16] = 200
    put("1.png", wide)
    put("2.png", wide.T)
    data = load_dataset(folder, image_size=4)
    assert data.x.shape == (2, 4, 4, 1) and (data.x == 200).all()
    assert data.schema["image_size"] == 4


def test_folders_larger_than_memory_are_refused_before_they_are_read(put, folder, monkeypatch):
    put("1.png", pixels(10, 10))
    put("2.png", pixels(10, 10))
    monkeypatch.setattr(core_rows, "memory_limit", lambda: 199)
    assert "2 images would take" in refusal(load_dataset, folder)
    assert load_dataset(folder, image_size=9).x.shape == (2, 9, 9, 1)


# --- a later folder


def test_a_later_folder_has_the_shape_of_the_first(put, folder, tmp_path):
    put("1.png", pixels(6, 5, 3))
    put("2.png", pixels(6, 5, 3))
    schema = json.loads(json.dumps(load_dataset(folder).schema))
    assert "image_size" not in schema
    gray = put("1.png", pixels(6, 5))
    put("2.png", pixels(6, 5))
    later = load_dataset(folder, schema=schema)
    np.testing.assert_array_equal(later.x[0], np.stack([gray] * 3, -1))
    put("1.png", pixels(8, 5))
    put("2.png", pixels(8, 5))
    assert "but the run was fitted on (6, 5, 3)" in refusal(load_dataset, folder, schema=schema)
    np.save(tmp_path / "x.npy", pixels(3, 6, 5, 3))
    assert load_dataset(tmp_path / "x.npy", schema=schema).x.shape == (3, 6, 5, 3)


def test_a_later_folder_is_resized_to_the_image_size_of_the_run(put, folder, tmp_path):
    put("1.png", pixels(9, 9))
    put("2.png", pixels(12, 10))
    schema = json.loads(json.dumps(load_dataset(folder, image_size=8).schema))
    put("2.png", pixels(7, 30))
    assert load_dataset(folder, schema=schema).x.shape == (2, 8, 8, 1)
    assert "fitted on (8, 8, 1)" in refusal(load_dataset, folder, schema=schema, image_size=9)
    np.save(tmp_path / "x.npy", pixels(3, 8, 8))
    schema_of_arrays = load_dataset(tmp_path / "x.npy").schema
    assert load_dataset(tmp_path / "x.npy", schema=schema).x.shape == (3, 8, 8)
    assert load_dataset(folder, schema=schema_of_arrays, image_size=8).x.shape == (2, 8, 8, 1)


def test_without_pillow(put, folder, monkeypatch):
    put("1.png")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtra, match=r"viewsmith\[image\]"):
        load_dataset(folder)
