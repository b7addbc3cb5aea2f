"""Checks that networks accept the sizes of samples and of smaller views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.messages import error_text
from viewsmith.core.registry import Entry
from viewsmith.core.row_source import RowSource, too_large_for_memory
from viewsmith.domains import Domain
from viewsmith.estimators.arguments import Arguments
from viewsmith.estimators.build.plan import TrainingData
from viewsmith.networks.encoders.cnn import SMALLEST

# Features from which vectors are projected to their principal axes, and the number of axes.
WIDE, AXES = 200, 50


def check_sample(
    entry: Entry | None,
    encoder: str,
    views: Sequence[Entry],
    facts: dict[str, Any],
    options: Arguments,
    data: TrainingData,
) -> None:
    """Raise InputError unless the encoder accepts samples, and smaller views of them."""
    sizes = (view.trait("smaller", _no_size)(data.row_shape, facts) for view in views)
    smaller = [size for size in sizes if size is not None]
    if entry is None:
        assert isinstance(options.encoder, nn.Module)
        for _, pixels in smaller:
            x = data.x[:2]
            probe(options.encoder, encoder, x.new_zeros(*x.shape[:2], *pixels))
        return
    check_least("encoder", encoder, entry, data)
    longest = entry.trait("longest")
    if longest is not None and data.row_shape[0] > longest:
        raise InputError(
            f"the longest sequence has {data.row_shape[0]} bases, but the encoder {encoder} accepts at most {longest}: "
            "split the sequences, or use the encoder cnn"
        )
    for what, pixels in smaller:
        check_crops(what, pixels, entry, encoder, data.domain, data.row_shape[:2])


def check_least(part: str, name: str, entry: Entry, data: TrainingData) -> None:
    """Raise InputError unless samples are large enough for a network."""
    size, smallest = data.row_shape[:2], entry.trait("smallest", 1)
    smaller = f"use another {part}, " if min(size) >= SMALLEST else ""
    data.domain.check_size(
        f"the images have {{have}}, but the {part} {name} needs at least {{least}}",
        size,
        smallest,
        f"{smaller}enlarge them, or use every row as a flat vector with domain='vectors' (--domain vectors)",
    )


def check_crops(
    what: str,
    pixels: Sequence[int],
    entry: Entry,
    encoder: str,
    domain: Domain,
    size: Sequence[int],
    todo: str = "use other views",
) -> None:
    """Raise InputError if crops of images of `size` are too small for the encoder; `todo` is advice on the crops."""
    if len(size) < 2:  # only images have sizes
        return
    least = entry.trait("smallest", 1)
    others = min(pixels) >= SMALLEST and least > SMALLEST
    enlarge = "" if min(size) > SMALLEST else ", enlarge the images, or use rows as vectors (--domain vectors)"
    domain.check_size(
        f"the {what} of images of {size[0]} x {size[1]} pixels have {{have}}, but the encoder {encoder} needs at least "
        "{least}",
        pixels,
        least,
        f"{todo}{', or another encoder' if others else ''}{enlarge}",
    )


def _no_size(row_shape: tuple[int, ...], facts: dict[str, Any]) -> None:
    return None


def probe(module: nn.Module, name: str, sample: Tensor) -> int:
    """Width of the output of an encoder for two samples.

    Raises
    ------
    InputError
        The encoder fails, or does not return one row for each sample.
    """
    training = module.training
    name = name.removeprefix("module:")
    try:
        device = next((p.device for p in module.parameters()), sample.device)
        with torch.no_grad():
            h = module.eval()(sample.to(device))
    except Exception as error:
        raise InputError(
            f"the encoder {name} fails on samples of shape {tuple(sample.shape[1:])}: {error_text(error)}"
        ) from error
    finally:
        module.train(training)
    if not isinstance(h, Tensor) or h.shape[:1] != (2,) or h.ndim != 2:
        shape = tuple(h.shape) if isinstance(h, Tensor) else type(h).__name__
        raise InputError(f"the encoder {name} returns {shape} for 2 samples, expected (2, width)")
    return h.shape[1]


def principal_axes(options: Arguments, data: TrainingData, views: Sequence[Entry]) -> int:
    """Number of principal components that the encoder of vectors gets; 0: it gets the features."""
    on_disk = isinstance(data.rows, RowSource) and len(data.row_shape) == 1
    if not (on_disk or isinstance(data.x, Tensor)):
        return 0
    n, d = data.rows.shape
    axes = options.input_components
    if axes == "auto":
        # Neighbors are searched in memory, which rows on disk do not fit into.
        wide = d > (AXES if too_large_for_memory(data.rows) else WIDE)
        axes = AXES if wide and any(view.trait("neighbors") for view in views) else None
    return min(axes or 0, d, n)
