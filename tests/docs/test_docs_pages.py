"""Pages of methods, frameworks and modalities have the same sections; pages of methods have a picture from a script."""

import re
import types
from pathlib import Path

import numpy as np
import pytest
import torch

from viewsmith import Contrastive
from viewsmith.core.registry import entries, register
from viewsmith.views import ViewMaker

DOCS = Path(__file__).parents[2] / "docs"
SECTIONS = ["When to use it", "Example", "Options", "How it works", "Measured", "Limits"]
GUIDES = ["which-method", "tables", "images", "dna", "recordings", "labels-and-groups"]
PICTURES = sorted(path.stem for path in (DOCS / "_static").glob("*.png"))
PAGES = [*sorted(DOCS.glob("*.md")), *sorted((DOCS / "results").glob("*.md"))]


def page(name):
    return (DOCS / f"{name.replace('-', '_')}.md").read_text(encoding="utf-8")


def methods():
    return [entry.name for entry in entries("method") if entry.origin == "viewsmith"]


@pytest.mark.parametrize("name", [*methods(), *GUIDES])
def test_a_page_has_the_sections_in_order(name):
    found = [line for line in re.findall(r"^## (.+)$", page(name), re.MULTILINE) if line in SECTIONS]
    assert found == SECTIONS


def test_there_are_few_pages_and_those_of_methods_are_short():
    assert len(list(DOCS.glob("*.md"))) <= 24
    written = re.compile(r"<!-- written by .*?<!-- end of tables -->", re.DOTALL)  # tables grow with their results
    own = {name: written.sub("", page(name)) for name in methods() if name != "discovery"}
    assert [name for name, text in own.items() if text.count("\n") > 150] == []
    assert (DOCS.parent / "CHANGELOG.md").read_text(encoding="utf-8").count("\n") <= 150


@pytest.mark.parametrize("name", methods())
def test_the_example_of_a_method_shows_its_picture(name):
    example = page(name).split("## Example")[1].split("\n## ")[0]
    assert f"](_static/{name.replace('-', '_')}.png)" in example


def test_pictures_and_pages_that_are_linked_exist():
    for path in [*PAGES, DOCS.parent / "README.md"]:
        links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
        assert not [link for link in links if not (path.parent / link).exists()], path


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_small_and_made_by_a_script(name):
    limit = 130_000 if name.endswith("_report") else 60_000  # screenshots
    assert (DOCS / "_static" / f"{name}.png").stat().st_size <= limit
    assert f'save(figure, "{name}"' in (DOCS / "pictures" / f"{name}.py").read_text(encoding="utf-8")


def test_make_makes_every_picture():
    makefile = (DOCS.parent / "Makefile").read_text(encoding="utf-8")
    assert sorted(re.search(r"^PICTURES := (.+)$", makefile, re.MULTILINE)[1].split()) == PICTURES


def test_a_second_build_of_the_docs_does_not_read_the_first():
    # Executed notebooks are copied beside the folder of a build; only docs/_build is excluded and ignored.
    made = re.findall(r"-b \w+ docs (\S+)$", (DOCS.parent / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(made) == 2 and {Path(folder).parent for folder in made} == {Path("docs/_build")}


def lengths(text):
    """Words of every sentence outside of code, tables, headings and formulas."""
    text = re.sub(r"^```.*?^```|<!--.*?-->|^\s*\|.*?$|^#.*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"\$+[^$]*\$+", "", re.sub(r"`[^`]*`", "Code", text)))
    for block in re.split(r"\n\s*\n|^\s*(?:[-*]|\d+\.)\s", text, flags=re.MULTILINE):
        for sentence in re.split(r"(?<=[.!?])[*\"')]*\s+(?=viewsmith|[A-Z*\"(\d-])", block.strip()):
            yield sum(bool(re.search(r"\w", word)) for word in sentence.split())


def test_sentences_are_short():
    pages = [DOCS.parent / "README.md", *DOCS.glob("*.md")]
    found = [words for path in pages for words in lengths(path.read_text(encoding="utf-8")) if words]
    assert sum(found) / len(found) <= 15
    assert max(found) <= 25


def test_transforms_of_torchvision_are_views_as_the_page_says(own_parts):
    code = next(
        text for text in re.findall(r"^```py\n(.*?)^```", page("extending"), re.DOTALL | re.MULTILINE) if "v2" in text
    )

    class Cropped(torch.nn.Module):
        def __init__(self, size):
            super().__init__()
            self.size = size

        def forward(self, image):
            assert image.shape[0] == 3
            return torch.nn.functional.interpolate(image[None, :, 1:], self.size)[0]

    v2 = types.SimpleNamespace(
        RandomResizedCrop=Cropped,
        RandomHorizontalFlip=torch.nn.Identity,
        Compose=lambda each: torch.nn.Sequential(*each),
    )
    names = {"v2": v2, "torch": torch, "ViewMaker": ViewMaker, "register": register, "Contrastive": Contrastive}
    exec(code, names)
    images = np.random.default_rng(0).integers(0, 256, (20, 8, 10, 3), dtype=np.uint8)
    model = Contrastive(views="transformed", epochs=1, random_state=0).fit(images)
    assert model.views(images[:2], n_views=3).shape == (2, 3, 8, 10, 3)
