"""docs/which_method.md builds every framework; its code runs in tests/cli/test_cli_documents.py."""

import re
from pathlib import Path

from viewsmith import frameworks

PAGE = (Path(__file__).parents[2] / "docs/which_method.md").read_text("utf-8")


def test_the_docs_build_every_framework():
    built = re.findall(r"```python\nframework = (\w+)\(", PAGE)
    classes = [value for value in vars(frameworks).values() if isinstance(value, type)]
    expected = [c.__name__ for c in classes if issubclass(c, frameworks.Framework) and c is not frameworks.Framework]
    assert sorted(built) == sorted(expected)
