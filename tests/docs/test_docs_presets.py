"""The table of published settings on a method's page has every setting of its presets, and no other."""

import ast
import re

import pytest
from test_docs_pages import methods, page

from viewsmith.methods.loading import estimators

HEADING = "## Published settings"
WITH_TABLE = [name for name in methods() if HEADING in page(name)]


def settings(name):
    """Settings of each preset as the table says: {preset: {setting: value}}."""
    rows = [line for line in page(name).split(HEADING)[1].split("\n## ")[0].splitlines() if line.startswith("|")]
    (head, _, *body) = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]
    columns = {re.fullmatch("`(.+)`", cell)[1]: at for at, cell in enumerate(head) if cell.startswith("`")}
    found = {preset: {} for preset in columns}
    for row in body:
        assert len(row) == len(head), row
        for preset, at in columns.items():
            if row[at] != "default":
                found[preset][row[0].strip("`")] = ast.literal_eval(row[at].strip("`"))
    return found


@pytest.mark.parametrize("name", WITH_TABLE)
def test_the_table_of_published_settings_is_the_presets(name):
    presets = estimators()[name].presets
    found = settings(name)
    assert set(found) == set(presets)
    for preset, given in presets.items():
        assert found[preset] == given
        assert all(type(found[preset][key]) is type(value) for key, value in given.items())


@pytest.mark.parametrize("name", WITH_TABLE)
def test_every_setting_of_the_table_is_an_option_with_its_source(name):
    rows = page(name).split(HEADING)[1].split("\n## ")[0]
    options = set(estimators()[name].__dataclass_fields__)
    found = re.findall(r"^\| `(\w+)` \| (.*?) \|", rows, re.MULTILINE)
    assert found and all(setting in options and source for setting, source in found)


def test_these_methods_have_a_table():
    assert {"metaug", "pinda", "crl-tac", "diffaug", "genview"} <= set(WITH_TABLE)
