"""Labels of tiles from a map of classes, an image of the size of the scene, or from polygons (GeoJSON, also of QuPath);
and the fields that a split keeps whole."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, name_list, one_line, pluralize, say
from viewsmith.data.reading import reading


def classes_of_tiles(classes: np.ndarray, places: np.ndarray, side: int, path: Path) -> np.ndarray:
    """The class of the center of each tile on the map of a scene, float64 (n,), NaN without one; `places`, (n, 3), has
    the row and column of the first pixel of each tile."""
    _, tops, lefts = places.T
    y = classes[tops + side // 2, lefts + side // 2].astype(np.float64)
    y[y == 0] = np.nan
    known = y[~np.isnan(y)]
    if not len(known):
        raise InputError(f"{path}: no tile has its center where the map has a class (0 is none)")
    if not (known == np.round(known)).all():
        raise InputError(
            f"{path} has {known[known != np.round(known)][0]:g}, expected whole numbers, which are classes; 0 or NaN "
            "where there is none"
        )
    say(
        f"{path}: {pluralize(len(np.unique(known)), 'class', 'classes')} for {len(known):,} of "
        f"{pluralize(len(y), 'tile')}, by their centers; 0 is no class"
    )
    return y


GEOJSON = (".geojson", ".json")
_OF_CLASS = ("class", "classification", "label", "category", "type", "name")  # properties that may have the class


def classes_in_polygons(path: Path, label: str | None, centers: np.ndarray) -> np.ndarray:
    """The class of the first polygon that has the center of each tile, (n, 2) coordinates x and y, in it; "" without
    one. The class is a property of the polygon."""
    with reading(str(path), "a GeoJSON file"):
        features = json.loads(path.read_text(encoding="utf-8-sig"))
        features = features["features"] if isinstance(features, dict) else features
        polygons = [(each.get("properties") or {}, list(_rings(each["geometry"]))) for each in features]
    polygons = [each for each in polygons if each[1]]
    known = sorted({name for properties, _ in polygons for name in properties})
    name = label or next((each for each in _OF_CLASS if each in known), None)
    if name is None or name not in known:
        given = "of a class" if label is None else f"{one_line(label, 40)!r}, given as label"
        raise InputError(
            f"{path}: no polygon has the property {given}: give one (--label); there are {name_list(known)}"
        )
    found = np.full(len(centers), "", object)
    for properties, rings in polygons[::-1]:
        inside = np.zeros(len(centers), dtype=bool)
        for ring in rings:  # a hole is crossed twice
            inside ^= _inside(ring, centers)
        value = properties.get(name)
        found[inside] = str(value.get("name", "") if isinstance(value, dict) else "" if value is None else value)
    if not (found != "").any():
        corners = np.concatenate([ring for _, rings in polygons for ring in rings]) if polygons else np.zeros((1, 2))
        low, high, first, last = corners.min(0), corners.max(0), centers.min(0), centers.max(0)
        raise InputError(
            f"{path}: no tile has its center in a polygon: these are at x {low[0]:.9g} to {high[0]:.9g}, y "
            f"{low[1]:.9g} to {high[1]:.9g}, and the scene at x {first[0]:.9g} to {last[0]:.9g}, y {first[1]:.9g} to "
            f"{last[1]:.9g}: give them in its coordinates (ogr2ogr -t_srs), or take smaller tiles"
        )
    of = np.unique(found[found != ""].astype(str))
    say(
        f"{path}: {pluralize(len(of), 'class', 'classes')} for {int((found != '').sum()):,} of "
        f"{pluralize(len(found), 'tile')}, by their centers, of the property {name}"
    )
    return found.astype(str)


def _rings(geometry: dict[str, Any] | None) -> Iterator[np.ndarray]:
    """Corners (k, 2) of the rings of a geometry, outlines and holes; of none but polygons."""
    kind, places = (geometry or {}).get("type"), (geometry or {}).get("coordinates", [])
    for part in {"Polygon": [places], "MultiPolygon": places}.get(str(kind), []):
        yield from (np.array(ring, np.float64)[:, :2] for ring in part)


def _inside(ring: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Which points a ring has in it: a line to the right crosses it an odd number of times."""
    x, y = points.T
    inside = np.zeros(len(points), dtype=bool)
    for (x0, y0), (x1, y1) in zip(ring, np.roll(ring, -1, axis=0), strict=True):
        if y0 != y1:
            inside ^= ((y0 > y) != (y1 > y)) & (x < x0 + (y - y0) / (y1 - y0) * (x1 - x0))
    return inside


def fields_of_tiles(y: np.ndarray, places: np.ndarray, side: int, step: int) -> np.ndarray:
    """Number of the field of each tile of a scene, int64 (n,), -1 without a class: tiles of a class that share pixels
    or are neighbors are of one field."""
    from scipy.ndimage import label, maximum_filter

    rows, columns = (np.unique(places[:, axis], return_inverse=True)[1] for axis in (1, 2))
    grid = np.full((rows.max() + 1, columns.max() + 1), np.nan)
    grid[rows, columns] = y
    fields, count = np.full(grid.shape, -1, np.int64), 0
    for kind in np.unique(y[~np.isnan(y)]):
        # Of tiles that lie this many apart, the windows around them meet.
        near, number = label(maximum_filter(grid == kind, -(-side // step)), np.ones((3, 3)))
        of_kind = grid == kind
        fields[of_kind] = near[of_kind] - 1 + count
        count += number
    return fields[rows, columns]


def split_fields(
    y: np.ndarray,
    absent: np.ndarray,
    fields: np.ndarray,
    source_name: str,
    seed: int,
    fraction: float,
    noun: str = "field",
) -> tuple[np.ndarray, np.ndarray | None]:
    """Train rows, and test rows (None: no class has two fields): of each class random whole fields, until they have a
    fraction of its tiles; one field of each stays for training. Fields may also be files of images, the `noun`."""
    test, alone = np.zeros(len(y), dtype=bool), []
    rng = np.random.default_rng(seed)
    for kind in np.unique(y[~absent]):
        members = ~absent & (y == kind)
        names, counts = np.unique(fields[members], return_counts=True)
        if len(names) < 2:
            alone.append(str(kind))
            continue
        order = rng.permutation(len(names))
        enough = int(np.searchsorted(counts[order].cumsum(), fraction * counts.sum())) + 1
        test |= members & np.isin(fields, names[order[: min(enough, len(names) - 1)]])
    if alone:
        one, held = len(alone) == 1, f"whole {noun}s are" if test.any() else "nothing is"
        say(
            f"{source_name}: {'class' if one else 'classes'} {name_list(alone, 8)} {'has' if one else 'have'} one "
            f"{noun} {'' if one else 'each '}and {'is' if one else 'are'} not scored; {held} held out"
        )
    rows = np.arange(len(y))
    return (rows[~test], rows[test]) if test.any() else (rows, None)
