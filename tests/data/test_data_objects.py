"""Objects of masks as samples: squares around cells, numbers, sides, what is refused."""

import numpy as np
import pytest

from refusals import refusal
from viewsmith.data import load_dataset
from viewsmith.data.tiles import objects_of

tifffile = pytest.importorskip("tifffile")
rng = np.random.default_rng(0)


def mask():
    """Three objects, of 4, 10 and 6 pixels; the last one is at the edge."""
    found = np.zeros((40, 50), np.uint16)
    found[5:9, 6:9], found[20:28, 20:30], found[34:40, 46:50] = 7, 2, 9
    return found


@pytest.fixture
def folder(tmp_path):
    """Two images of two channels of 16 bits, and their masks as Cellpose names them."""
    for name in ("a", "b"):
        for place in ("images", "masks"):
            (tmp_path / place).mkdir(exist_ok=True)
        image = rng.integers(0, 4000, (2, 40, 50), dtype=np.uint16)
        tifffile.imwrite(tmp_path / "images" / f"{name}.tif", image, photometric="minisblack", metadata={"axes": "CYX"})
        tifffile.imwrite(tmp_path / "masks" / f"{name}_cp_masks.tif", mask())
    return tmp_path


def test_places_are_around_objects_and_within_the_image():
    found = objects_of([mask(), mask()[:, ::-1]], 12, "masks")
    assert (
        found.places[:3].tolist() == [[0, 18, 19], [0, 1, 1], [0, 28, 38]] and found.numbers.tolist() == [2, 7, 9] * 2
    )
    assert objects_of([mask()], None, "masks").side == 16
    parts = objects_of([(mask() > 0) * 255], None, "masks")  # one number alone: connected parts
    assert len(parts.numbers) == 3
    alone = np.where(mask() == 7, 7, 0)
    assert objects_of([alone], None, "masks").numbers.tolist() == [7]


def test_each_object_is_a_sample(folder, capsys):
    images, masks = folder / "images", folder / "masks"
    data = load_dataset(images, masks=masks)
    assert "6 objects of 4 to 10 pixels, each in a square of 16 (another side: --tile)" in capsys.readouterr().err
    assert data.x.shape == (6, 16, 16, 2) and data.row_names == [f"{n}.tif#{i}" for n in "ab" for i in (2, 7, 9)]
    whole = tifffile.imread(images / "a.tif").transpose(1, 2, 0)
    np.testing.assert_array_equal(data.x[0], whole[16:32, 17:33])
    later = load_dataset(images / "b.tif", masks=masks / "b_cp_masks.tif", schema=data.schema)
    np.testing.assert_array_equal(later.x[:], data.x[3:])
    assert load_dataset(images, masks=masks, tile=8).x.shape == (6, 8, 8, 2)
    np.save(folder / "a.npy", whole)
    assert load_dataset(folder / "a.npy", axes="YXC", masks=masks / "a_cp_masks.tif").x.shape == (3, 16, 16, 2)


def test_masks_that_do_not_fit_are_refused(folder):
    images, masks = folder / "images", folder / "masks"
    schema = load_dataset(images, masks=masks).schema
    assert "give those of these (--masks)" in refusal(load_dataset, images, schema=schema)
    assert "expected a folder with a mask for each" in refusal(load_dataset, images, masks=masks / "a_cp_masks.tif")
    assert "does not exist" in refusal(load_dataset, images, masks=folder / "nothing")
    assert "overlap is for tiles of a grid" in refusal(load_dataset, images, masks=masks, overlap=2)
    (masks / "b_cp_masks.tif").rename(masks / "c.tif")
    assert "has no mask of b.tif: expected an image b.tif or .png" in refusal(load_dataset, images, masks=masks)
    tifffile.imwrite(masks / "b.tif", mask()[:30])
    assert "expected a mask of its size" in refusal(load_dataset, images, masks=masks)
    tifffile.imwrite(masks / "b.tif", np.zeros((40, 50), np.uint16))
    tifffile.imwrite(masks / "a_cp_masks.tif", np.zeros((40, 50), np.uint16))
    assert "the masks have no objects" in refusal(load_dataset, images, masks=masks)
    tifffile.imwrite(masks / "a_cp_masks.tif", np.full((40, 50), 0.5, np.float32))
    assert "a mask has" in refusal(load_dataset, images, masks=masks)
