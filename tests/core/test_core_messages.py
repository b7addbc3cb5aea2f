"""Lines that are said once, and the line of code that a warning names."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

from viewsmith import Contrastive
from viewsmith.core.errors import InputError, lines_once, printable, quoted, say, warn


def test_lines_are_repeated_only_outside_of_the_context(capsys):
    for _ in range(2):
        say("outside")
    with lines_once():
        for line in ("one", "two", "one"):
            say(line)
    assert capsys.readouterr().err.split() == ["outside", "outside", "one", "two"]


def test_a_warning_names_the_line_of_the_user():
    with warnings.catch_warnings(record=True) as found, torch.no_grad():
        warnings.simplefilter("always")
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
