"""What notebooks show: progress in place, data sets, scores and estimators as HTML."""

import re
import sys
import types
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest

from viewsmith import Contrastive, Discovery
from viewsmith.core import progress
from viewsmith.core.progress import with_progress
from viewsmith.data import load_dataset
from viewsmith.evaluation import compare
from viewsmith.evaluation.symmetries import symmetries


@pytest.fixture
def shown(monkeypatch):
    """Takes the place of a notebook: what it shows, in order."""
    found = []

    class Handle:
        def update(self, data, raw):
            found.append(data)

    ipython = types.ModuleType("IPython")
    ipython.get_ipython = type("ZMQInteractiveShell", (), {})
    display = types.ModuleType("IPython.display")
    display.display = lambda data, raw, display_id: Handle()
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return found


def text_of(html):
    """The text of HTML whose elements are closed."""
    opened, texts = [], []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attributes):
            opened.append(tag)

        def handle_endtag(self, tag):
            assert opened.pop() == tag

        def handle_data(self, data):
            texts.append(data)

    Reader().feed(html)
    assert not opened
    return " ".join(texts)


def test_a_terminal_is_no_notebook(monkeypatch):
    assert not progress.in_notebook()
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = type("TerminalInteractiveShell", (), {})
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert not progress.in_notebook()


def test_a_training_shows_a_bar_in_place(shown, digits):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Contrastive(epochs=2, random_state=0, verbose=True).fit(digits[:100])
    last = shown[-1]
    assert re.match(r'<progress value="2" max="2"></progress> finished after \d+ s, loss \d', last["text/html"])
    assert last["text/html"].endswith(last["text/plain"])


def test_long_loops_show_a_bar_in_place(shown):
    assert list(with_progress([3, 4], "read <x>", 7, "rows", size=int, after=0)) == [3, 4]
    assert shown[-1]["text/html"] == '<progress value="7" max="7"></progress> read &lt;x&gt;: 7 of 7 rows'


def test_a_data_set_is_a_table():
    data = load_dataset("wine")
    text = text_of(data._repr_html_())
    assert (
        "Dataset wine" in text and "vectors" in text and "178" in text and "3 classes: 0 (59), 1 (71), 2 (48)" in text
    )
    assert "alcohol" in text and len(data._repr_html_()) < 2000


def test_scores_are_a_table_and_a_dict(wine):
    data = load_dataset("wine")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Contrastive(epochs=1, random_state=0).fit(data.x_train)
    result = compare(model, data, protocols=["linear", "knn"])
    assert isinstance(result, dict)
    text = text_of(result._repr_html_())
    best = max(scores["linear"] for scores in result["embeddings"].values())
    assert f"{best:.3f}*" in text and "untrained" in text and "scored on 36 test rows" in text


def test_symmetries_are_a_table_and_a_list():
    x = np.random.default_rng(0).normal(size=(80, 6)).astype("f4")
    found = symmetries(x, "vectors")
    text = text_of(found._repr_html_())
    assert isinstance(found, list) and len(found) == 2
    for test in found:
        assert test.name in text and test.verdict in text and f"{test.ratio:.2f} (" in text


@pytest.mark.parametrize("model", [Contrastive(n_neighbors=3), Discovery(kinds=2)])
def test_estimators_have_scikit_learns_html(model):
    html = model._repr_html_()
    assert type(model).__name__ in html and "sk-estimator" in html and len(html) < 60_000
    assert repr(model) in (f"{type(model).__name__}(n_neighbors=3)", f"{type(model).__name__}(kinds=2)")
    assert hash(model) and model != type(model)()
