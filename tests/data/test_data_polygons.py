"""Classes of tiles from polygons: GeoJSON in the coordinates of a scene, or in pixels as QuPath writes it."""

import json

import numpy as np
import pytest

from refusals import refusal
from viewsmith.data import load_dataset

tifffile = pytest.importorskip("tifffile")
rng = np.random.default_rng(0)


def feature(corners, *more, **properties):
    rings = [[*ring, ring[0]] for ring in (corners, *more)]
    return {"type": "Feature", "properties": properties, "geometry": {"type": "Polygon", "coordinates": rings}}


def box(left, top, right, bottom):
    return [[left, top], [right, top], [right, bottom], [left, bottom]]


FEATURES = [  # in pixels; the meadow has a hole, and a point is no polygon
    feature(box(0, 0, 40, 40), box(8, 8, 24, 24), kind="meadow"),
    feature(box(32, 64, 96, 96), kind="forest"),
    feature(box(64, 0, 96, 32), kind="forest"),
    feature(box(0, 72, 16, 96), kind=None),
    {"type": "Feature", "properties": {"kind": "meadow"}, "geometry": {"type": "Point", "coordinates": [50, 50]}},
]


@pytest.fixture
def scene(tmp_path):
    """A scene of 96 x 96 pixels of 10 m, whose first corner is at 500,000 and 5,000,000 m."""
    x = rng.integers(100, 4000, (2, 96, 96), dtype=np.uint16)
    tags = [(34735, "H", 8, (1, 1, 0, 1, 1025, 0, 1, 1), True)]
    tags += [(33550, "d", 3, (10.0, 10.0, 0.0), True), (33922, "d", 6, (0, 0, 0, 500000.0, 5000000.0, 0), True)]
    tifffile.imwrite(tmp_path / "plain.tif", x, photometric="minisblack", metadata={"axes": "CYX"})
    tifffile.imwrite(tmp_path / "map.tif", x, photometric="minisblack", metadata={"axes": "CYX"}, extratags=tags)
    return tmp_path


def write(path, features):
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


def expected(left, top):
    x, y = left + 4, top + 4
    if x < 40 and y < 40 and not (8 < x < 24 and 8 < y < 24):
        return "meadow"
    return "forest" if (x > 32 and y > 64) or (x > 64 and y < 32) else ""


@pytest.mark.parametrize("kind", ["plain", "map", "qupath"])
def test_tiles_have_the_class_of_the_polygon_around_their_center(scene, kind, capsys):
    features = json.loads(json.dumps(FEATURES))
    for each in features if kind == "map" else ():
        if each["geometry"]["type"] == "Polygon":
            rings = each["geometry"]["coordinates"]
            each["geometry"]["coordinates"] = [[[500000 + 10 * x, 5000000 - 10 * y] for x, y in r] for r in rings]
    for each in features if kind == "qupath" else ():
        name = each["properties"].pop("kind")
        each["properties"] |= {"objectType": "annotation"} | ({"classification": {"name": name}} if name else {})
    path = scene / f"{'map' if kind == 'map' else 'plain'}.tif"
    label = {} if kind == "qupath" else {"label": "kind"}
    labels = write(scene / "fields.geojson", features)
    data = load_dataset(path, tile=8, overlap=0, labels=labels, **label)
    assert data.y.tolist() == [expected(a, b) for a, b in zip(data.windows.lefts, data.windows.tops, strict=True)]
    assert "2 classes for" in capsys.readouterr().err and set(data.y_test) == {"forest"}  # the other has one field
    assert load_dataset(path, schema=data.schema).y is None
    assert load_dataset(path, schema=data.schema, labels=labels).y.tolist() == data.y.tolist()


def test_polygons_that_do_not_fit_are_refused(scene):
    options = {"tile": 8, "overlap": 0, "labels": write(scene / "fields.geojson", FEATURES)}
    assert "at x 0 to 96, y 0 to 96, and the scene at x 500040" in refusal(
        load_dataset, scene / "map.tif", **options, label="kind"
    )
    assert "no polygon has the property 'use', given as label: give one (--label); there are kind" in refusal(
        load_dataset, scene / "plain.tif", **options, label="use"
    )
    (scene / "fields.geojson").write_text("{")
    assert "as a GeoJSON file" in refusal(load_dataset, scene / "plain.tif", **options)
    options["labels"] = scene / "fields.shp"
    options["labels"].write_bytes(b"")
    assert "ogr2ogr x.geojson x.shp" in refusal(load_dataset, scene / "plain.tif", **options)
