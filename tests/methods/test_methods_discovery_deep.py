"""Discovery in images of 16 bits and of many channels: the boxes of the same pixels at 8 bits, files, refusals."""

import numpy as np
import pytest
from PIL import Image

from located_discs import with_discs
from refusals import refusal
from small_searches import smaller
from viewsmith import Discovery
from viewsmith.data.any_size import Samples, as_images, by_content, read_samples
from viewsmith.modalities.images.features import unit_of
from viewsmith.workflows.discover import discover_to

pytestmark = pytest.mark.usefixtures("small_searches")


@pytest.fixture(scope="module")
def discs():
    """Images of 8 bits with a disc each, their centers, and the places of its parts."""
    x, centers = with_discs(40)
    with smaller():
        return x, centers[:, 0], Discovery().fit(x).locate(x)


def places(found):
    return np.stack([found[name] for name in ("sample", "kind", "left", "top", "right", "bottom")], 1)


def test_the_same_pixels_at_16_bits_have_the_same_boxes(discs, tmp_path):
    x, _, expected = discs
    deep = x.astype(np.uint16) * np.uint16(257)
    model = Discovery().fit(deep)
    found = model.locate(deep)
    np.testing.assert_array_equal(places(found), places(expected))
    np.testing.assert_allclose(found["score"], expected["score"], rtol=0.05)
    crops, _ = model.crops(deep, 18)
    assert crops.dtype == np.uint16 and crops.max() > 200 * 257
    model.save(tmp_path / "run")
    again = Discovery.load(tmp_path / "run")
    np.testing.assert_array_equal(places(again.locate(deep)), places(found))
    assert "images are uint8, but the model was fitted on uint16" in refusal(again.locate, x)


def test_the_order_of_images_does_not_matter(discs):
    x, _, expected = discs
    np.testing.assert_array_equal(Discovery().fit(x[::-1]).locate(x), expected)
    assert by_content([x[0], x[1], x[0]]).tolist() in ([0, 2, 1], [1, 0, 2])


def test_floats_and_channels_of_different_ranges():
    x, centers = with_discs(40)
    many = np.stack([x[..., 1], x[..., 0] * 0.01, np.zeros_like(x[..., 0]), 40 * x[..., 2], x[..., 1]], 3).astype("f4")
    found = Discovery().fit(many).locate(many)
    middle = np.stack([found["top"] + found["bottom"], found["left"] + found["right"]], 1) / 2
    assert len(found) > 30 and np.median(np.abs(middle - centers[found["sample"], 0])) < 4
    unit = unit_of([many])
    assert unit.shape == (5,) and unit[2] == 1 and unit[3] > 100 * unit[1]
    gray = Discovery().fit(list(x[:12, ..., 1].astype("f4") / 255))
    assert gray.search_.dtype == "float32"


def test_files_of_16_bits_are_taken_in_the_order_of_those_of_8(tmp_path):
    x, _ = with_discs(12)
    for i, image in enumerate(x[..., 0]):
        for depth, pixels in ((8, image), (16, image.astype(np.uint16) * 257)):
            (tmp_path / str(depth)).mkdir(exist_ok=True)
            Image.fromarray(pixels).save(tmp_path / str(depth) / f"{i:02d}.png")
    order = [read_samples(str(tmp_path / depth))[0].order for depth in ("8", "16")]
    np.testing.assert_array_equal(*order)


def test_a_folder_of_files_of_several_sizes(tmp_path):
    tifffile = pytest.importorskip("tifffile")
    x, _ = with_discs(24)
    (tmp_path / "set").mkdir()
    for i, image in enumerate(x):
        planes = image.astype(np.uint16).transpose(2, 0, 1)[:, : 64 - i % 2]
        tifffile.imwrite(tmp_path / "set" / f"{i:02d}.tif", planes, photometric="minisblack", planarconfig="separate")
    images, names, modality, *_ = read_samples(str(tmp_path / "set"))
    assert modality == "images" and images.dtype == "uint16" and images.shapes[:2] == [(64, 64), (63, 64)]
    np.testing.assert_array_equal(images.read(0, None), x[0])
    assert images.read(0, (32, 32)).shape == (32, 32, 3) and names[1] == "01.tif"
    some = read_samples(str(tmp_path / "set"), channels=["2", "0"])[0]
    np.testing.assert_array_equal(some.read(1, None), x[1][:63, :, [2, 0]])
    samples = Samples(images, names, modality)
    discover_to(tmp_path / "found", samples, {}, 20)
    crops = sorted((tmp_path / "found" / "crops").iterdir())
    first = tifffile.imread(crops[0])
    assert first.shape == (3, 20, 20) and first.dtype == np.uint16
    assert (tmp_path / "found" / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("x", "part"),
    [
        (np.zeros((8, 64, 64), np.float32), "expected images of uint8, uint16 or floats"),
        (
            [np.zeros((64, 64), np.uint16), np.zeros((64, 64), np.uint8)],
            "sample 1 is uint8 of shape (64, 64), and the first",
        ),
        ([np.zeros((64, 64, 2), np.uint16), np.zeros((64, 64, 4), np.uint16)], "the images have 2 and 4 channels"),
        (np.zeros((8, 64, 64), np.int32), "sample 0 is int32"),
    ],
)
def test_refused_arrays(x, part):
    assert part in refusal(as_images, x)


def test_a_list_of_images_of_pillow_is_read():
    x = np.random.default_rng(0).integers(0, 256, (3, 20, 30, 3), dtype=np.uint8)
    read = as_images([Image.fromarray(each) for each in x]).read
    np.testing.assert_array_equal(np.stack([read(i, None) for i in range(3)]), x)


def test_missing_values_and_networks_for_photographs_are_refused():
    x = np.random.default_rng(0).random((20, 64, 64, 2), np.float32)
    x[3, 4, 5, 1] = np.nan
    assert "1 image of 20 with missing (NaN) or infinite values (counted from 0): 3" in refusal(Discovery().fit, x)
