"""viewsmith plot and model.plot: maps as files, colored by classes or numbers."""

import io
import warnings

import numpy as np
import pandas as pd
import pytest
from cli_tools import call, good
from matplotlib.image import imread

from viewsmith import Contrastive
from viewsmith.core.errors import InputError
from viewsmith.data.sources import column_of


@pytest.fixture(scope="module", autouse=True)
def no_pictures():
    """Real pictures here."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plot")
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=["width", "height", "depth"])
    table["price"] = np.arange(60) * 7 % 97  # whole numbers, which cannot be split by class
    table.insert(0, "kind", np.where(np.arange(60) % 2, "nut", "bolt"))
    table.to_csv(folder / "parts.csv", index=False)
    good("fit", folder / "parts.csv", "--out", folder / "run", "--epochs", 1, "--label", "kind")
    return folder


def test_the_labels_color_the_map_by_default(run):
    result = good("plot", run / "run", run / "parts.csv", "--out", run / "map.svg")
    assert result.out.strip() == str(run / "map.svg")
    svg = (run / "map.svg").read_text()
    assert "nut (30)" in svg and "bolt (30)" in svg and "t-SNE of 60 rows" in svg and ">kind<" in svg


def test_a_feature_colors_the_map_as_a_scale(run):
    good("plot", run / "run", run / "parts.csv", "--out", run / "width.svg", "--color", "width", "--by", "pca")
    svg = (run / "width.svg").read_text()
    assert ">width<" in svg and "nut" not in svg and "Principal components of 60 rows" in svg


def test_whole_numbers_color_the_map(run):
    good("plot", run / "run", run / "parts.csv", "--out", run / "price.svg", "--color", "price", "--by", "pca")
    assert ">price<" in (run / "price.svg").read_text()


def test_the_default_file_is_in_the_run(run):
    good("plot", run / "run", run / "parts.csv")
    assert imread(run / "run" / "map.png").shape[0] > 500


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("--color", "weight"), ("no column 'weight', given as color", "parts.csv")),
        (("--by", "map"), ("output is 'map'",)),
    ],
)
def test_bad_options_are_refused(run, options, parts, monkeypatch):
    monkeypatch.chdir(run)
    assert call("plot", run / "run", run / "parts.csv", *options).refused(*parts)


def test_plot_in_python_returns_what_a_notebook_shows(digits, tmp_path):
    with warnings.catch_warnings(action="ignore"):
        model = Contrastive(epochs=1, random_state=0).fit(digits[:200])
    color = np.array(["a", "", None, "b"], dtype=object)[np.arange(200) % 4]
    drawn = model.plot(digits[:200], color, title="letter")
    assert drawn.xy.shape == (200, 2) and drawn.index.tolist() == list(range(200))
    texts = [text.get_text() for text in drawn.figure.legends[0].get_texts()]
    assert texts == ["a (50)", "b (50)", "unlabeled (100)"]
    again = model.plot(digits[:200], color, title="letter")
    for plot, name in ((drawn, "one.png"), (again, "two.png")):
        plot.save(tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
    assert imread(io.BytesIO(drawn._repr_png_())).ndim == 3
    with pytest.raises(InputError, match="color has 3 values, expected one for each of the 200 samples"):
        model.plot(digits[:200], [1, 2, 3])


def test_a_color_that_is_missing_is_none(tmp_path):
    colors, numbers = ["red", None, "blue"] * 10, [0.5, None, 1.5] * 10
    table = pd.DataFrame({"a": np.arange(30.0), "b": np.arange(30.0) ** 2, "color": colors, "size": numbers})
    table.to_csv(tmp_path / "t.csv", index=False)
    assert column_of(tmp_path / "t.csv", "color").tolist() == colors
    assert column_of(tmp_path / "t.csv", "size").tolist() == numbers
