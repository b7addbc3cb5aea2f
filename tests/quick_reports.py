"""Fast reports for tests of other things."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import pytest
from matplotlib.figure import Figure

from viewsmith.reports import figure, report


def with_drawings(html: str) -> str:
    """The page with the text of its SVG pictures in place of their data."""
    pattern = r"data:image/svg\+xml;base64,([\w+/=]+)"
    return re.sub(pattern, lambda found: base64.b64decode(found[1]).decode(), html)


class Nothing:
    """Axes on which everything may be drawn, and nothing is."""

    def __getattr__(self, name: str) -> Nothing:
        return self

    def __call__(self, *args: Any, **options: Any) -> Nothing:
        return self

    def __getitem__(self, index: Any) -> Nothing:
        return self

    def __iter__(self) -> Iterator[Nothing]:
        return iter(())


def without_pictures(patch: pytest.MonkeyPatch) -> None:
    """Draw no pictures: matplotlib takes most of the time of a short training on the command line."""
    axes = Nothing()

    def blank(drawing: Figure, file: BinaryIO, *, format: str, **options: Any) -> None:
        file.write(b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"/>' if format == "svg" else b"\x89PNG")

    plain, first = report._curve, []

    def same(key: str, title: str, *rest: Any) -> Any:
        """The first curve with another title."""
        first[:] = first or [plain(key, title, *rest)]
        return dataclasses.replace(first[0], title=title)

    patch.setattr(Figure, "savefig", blank)
    patch.setattr(Figure, "add_subplot", lambda *_, **__: axes)
    patch.setattr(figure, "style", contextlib.nullcontext)
    patch.setattr(report, "_curve", same)


class FirstAxes:
    """The first two features, in place of t-SNE."""

    def __init__(self, **options: Any) -> None:
        pass

    def fit_transform(self, x: np.ndarray) -> np.ndarray:
        return x[:, :2]


def quick_reports() -> None:
    """Reports without maps and pictures, in a process of its own."""
    patch = pytest.MonkeyPatch()
    patch.setattr("sklearn.manifold.TSNE", FirstAxes)
    without_pictures(patch)
