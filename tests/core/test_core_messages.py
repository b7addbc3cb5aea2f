"""Lines that are said once, and the line of code that a warning names."""

import sys
import warnings

import numpy as np
import torch

from viewsmith import Contrastive
from viewsmith.core.errors import lines_once, say


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
