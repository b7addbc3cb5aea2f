"""The code in docs/which_method.md runs."""

import re
from pathlib import Path

import torch

import viewsmith.frameworks as frameworks
from viewsmith.networks import MLP

PAGE = (Path(__file__).parents[2] / "docs/which_method.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.S)


LOOP = next(block for block in BLOCKS if "for step in range" in block)
BUILDING = [block for block in BLOCKS if block.startswith("framework = ")]


def test_the_training_loop_runs():
    torch.manual_seed(0)
    found = {}
    exec(LOOP, found)
    assert found["h"].shape == (1000, 32)
    assert float(found["loss"].detach()) < 0.5  # 2 - 2 cos: about 2 at the start


def test_the_docs_build_every_framework():
    known = vars(frameworks) | {"torch": torch, "MLP": MLP, "encoder": MLP(8, [8]), "head": MLP(8, [4])}
    built = []
    for block in BUILDING:
        exec(block, known)
        built.append(type(known["framework"]).__name__)
    classes = [value for value in vars(frameworks).values() if isinstance(value, type)]
    expected = [c.__name__ for c in classes if issubclass(c, frameworks.Framework) and c is not frameworks.Framework]
    assert sorted(built) == sorted(expected)
