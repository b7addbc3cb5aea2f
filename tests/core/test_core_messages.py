"""What is said once, on a terminal and in a notebook: lines, warnings, progress, tables."""

import os
import re
import subprocess
import sys
import time
import types
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest
import sklearn
import torch
from sklearn.pipeline import make_pipeline

from viewsmith import Contrastive, Discovery, LinearContrast
from viewsmith.core import progress
from viewsmith.core.errors import InputError, lines_once, printable, quoted, say, warn
from viewsmith.core.progress import with_progress
from viewsmith.data import load_dataset
from viewsmith.evaluation import compare
from viewsmith.evaluation.symmetries import symmetries
from viewsmith.methods.loading import estimators


def test_lines_are_repeated_only_outside_of_the_context(capsys):
    for _ in range(2):
        say("outside")
    with lines_once():
        for line in ("one", "two", "one"):
            say(line)
    assert capsys.readouterr().err.split() == ["outside", "outside", "one", "two"]


def test_a_warning_names_the_line_of_the_user():
    with warnings.catch_warnings(record=True, action="always") as found, torch.no_grad():
        line = sys._getframe().f_lineno + 1
        Contrastive(epochs=1, batch_size=64).fit(np.random.default_rng(0).normal(size=(20, 3)))
    (warning,) = [each for each in found if "fewer than a batch" in str(each.message)]
    assert (warning.filename, warning.lineno) == (__file__, line)


ESCAPES = "a\x1b[31mb\x07\x9b\u202e\udce9.csv"


def test_texts_of_files_do_not_control_the_terminal(capsys):
    plain = r"a\x1b[31mb\x07\x9b\u202e\udce9.csv"
    assert printable(ESCAPES) == printable(printable(ESCAPES)) == plain
    assert printable("größe\tµ\n") == "größe\tµ\n"
    say(ESCAPES)
    assert capsys.readouterr().err == f"{plain}\n"
    assert str(InputError(ESCAPES)) == plain
    with pytest.warns(UserWarning, match="x1b") as found:
        warn(ESCAPES)
    assert str(found[0].message) == plain


@pytest.mark.parametrize(
    "name", ["run", "my run", "-x", "a'b", "$(touch x)", "a\nb", "a\x1b[31m'\\b", "größe", "a;b", "\udce9"]
)
def test_a_path_in_a_command_is_one_word(name, tmp_path):
    word = quoted(name)
    assert word.isprintable()
    shown = subprocess.run(["bash", "-c", f"printf '%s' {word}"], capture_output=True, check=True, cwd=tmp_path).stdout
    assert os.fsdecode(shown) == (f"./{name}" if name.startswith("-") else name)
    assert (word == name) == (name == "run") and not list(tmp_path.iterdir())


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
    with warnings.catch_warnings(action="ignore"):
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
    with warnings.catch_warnings(action="ignore"):
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
    name = type(model).__name__
    assert repr(make_pipeline(model)) == f"Pipeline(steps=[({name.lower()!r}, {model!r})])"


@pytest.mark.skipif(sklearn.__version__ < "1.8", reason="scikit-learn lists attributes since 1.8")
def test_fitted_estimators_have_html_with_what_they_have_found():
    x = np.random.default_rng(0).normal(size=(40, 3))
    for model in (LinearContrast(random_state=0), Contrastive(epochs=1, random_state=0)):
        assert "metrics_" in model.fit(x)._repr_html_()


@pytest.mark.parametrize("cls", [*estimators().values(), Discovery])
def test_documentation_of_estimators_is_complete(cls):
    sections = re.findall(r"^(\w+)\n-+$", cls.__doc__, re.MULTILINE)
    assert len(sections) == len(set(sections)) and sections[:2] == ["Parameters", "Attributes"]
    assert not re.search(r"\{[a-z ]+\}|\[(shared|attributes)\]", cls.__doc__)


def on_terminal(monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")


def plain(text):
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def test_items_are_yielded_and_the_bar_counts_their_sizes(capfd, monkeypatch):
    on_terminal(monkeypatch)
    items = [3, 4, 5]
    assert list(with_progress(iter(items), "embed", 12, "rows", size=lambda n: n, after=0)) == items
    shown = plain(capfd.readouterr().err)
    assert "embed" in shown and "12/12" in shown and "rows" in shown


def test_a_short_loop_shows_no_bar(capfd, monkeypatch):
    on_terminal(monkeypatch)
    assert list(with_progress(range(3), "embed", 3, "rows")) == [0, 1, 2]
    assert capfd.readouterr().err == ""


def test_no_bar_without_a_terminal_or_in_other_processes(capfd, monkeypatch):
    assert list(with_progress(range(3), "embed", 3, "rows", after=0)) == [0, 1, 2]
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("viewsmith.core.distributed.rank", lambda: 1)
    assert list(with_progress(range(3), "embed", 3, "rows", after=0)) == [0, 1, 2]
    assert capfd.readouterr().err == ""


def test_the_bar_stops_when_an_error_is_raised(capfd, monkeypatch):
    on_terminal(monkeypatch)

    def broken():
        yield 1
        yield 2
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        list(with_progress(broken(), "embed", 3, "rows", after=0))
    assert "embed" in plain(capfd.readouterr().err)


def test_the_bar_is_seen_while_the_first_item_takes_long(capfd, monkeypatch):
    on_terminal(monkeypatch)
    loop = with_progress([1, 2], "motifs", 2, "searches", after=0.01)
    assert next(loop) == 1
    deadline = time.monotonic() + 10
    shown = ""
    while "0/2" not in shown and time.monotonic() < deadline:
        time.sleep(0.02)
        shown += plain(capfd.readouterr().err)
    loop.close()
    assert "motifs" in shown and "0/2" in shown


def test_a_search_says_once_how_long_it_will_take_where_there_is_no_terminal(capsys):
    assert list(with_progress([1, 2, 3], "motifs", 6, "searches", size=int, told=0)) == [1, 2, 3]
    said = capsys.readouterr().err
    assert said.startswith("motifs: 1 of 6 searches in 0 s, about ") and said.endswith(" s in all\n")
    assert said.count("\n") == 1 and list(with_progress([1], "motifs", 2, "searches")) == [1]
    assert capsys.readouterr().err == ""
