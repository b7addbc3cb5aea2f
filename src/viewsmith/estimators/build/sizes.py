"""Whether samples, and smaller views of them, can be given to a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.registry import Entry
from viewsmith.domains import Domain
from viewsmith.estimators.arguments import Arguments
from viewsmith.estimators.build.plan import TrainingData
from viewsmith.networks.encoders.cnn import SMALLEST


def check_sample(
    entry: Entry | None,
    encoder: str,
    views: Sequence[Entry],
    facts: dict[str, Any],
    options: Arguments,
    data: TrainingData,
) -> None:
    """Refuse samples, and smaller views of them, that the encoder cannot take."""
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
            f"the longest sequence has {data.row_shape[0]} bases, and the encoder {encoder} takes at most {longest}: "
            "cut sequences into pieces, or take the encoder cnn"
        )
    for what, pixels in smaller:
        check_crops(what, pixels, entry, encoder, data.domain, data.row_shape[:2])


def check_least(part: str, name: str, entry: Entry, data: TrainingData) -> None:
    """Refuse samples that are too small for a network."""
    size, smallest = data.row_shape[:2], entry.trait("smallest", 1)
    smaller = f"take another {part}, " if min(size) >= SMALLEST else ""
    data.domain.check_size(
        f"the images have {{have}}, and the {part} {name} takes {{least}} or more",
        size,
        smallest,
        f"{smaller}enlarge them, or take every row as a flat vector with domain='vectors' (--domain vectors)",
    )


def check_crops(
    what: str,
    pixels: Sequence[int],
    entry: Entry,
    encoder: str,
    domain: Domain,
    size: Sequence[int],
    todo: str = "take other views",
) -> None:
    """Refuse crops of images of `size` that are too small for the encoder; `todo` is what to do about the crops."""
    if len(size) < 2:  # only images have sizes
        return
    least = entry.trait("smallest", 1)
    others = min(pixels) >= SMALLEST and least > SMALLEST
    enlarge = "" if min(size) > SMALLEST else ", enlarge the images, or take rows as vectors (--domain vectors)"
    domain.check_size(
        f"of images of {size[0]} x {size[1]} pixels the {what} have {{have}}, and the encoder {encoder} takes "
        "{least} or more",
        pixels,
        least,
        f"{todo}{', or another encoder' if others else ''}{enlarge}",
    )


def _no_size(row_shape: tuple[int, ...], facts: dict[str, Any]) -> None:
    return None


def probe(module: nn.Module, name: str, sample: Tensor) -> int:
    """Width of what an encoder makes of two samples.

    Raises
    ------
    InputError
        It fails on them, or gives something else than a row for each sample.
    """
    training = module.training
    name = name.removeprefix("module:")
    try:
        device = next((p.device for p in module.parameters()), sample.device)
        with torch.no_grad():
            h = module.eval()(sample.to(device))
    except Exception as error:
        raise InputError(
            f"the encoder {name} fails on samples of shape {tuple(sample.shape[1:])}: "
            f"{type(error).__name__}: {' '.join(str(error).split())}"
        ) from error
    finally:
        module.train(training)
    if not isinstance(h, Tensor) or h.shape[:1] != (2,) or h.ndim != 2:
        shape = tuple(h.shape) if isinstance(h, Tensor) else type(h).__name__
        raise InputError(f"the encoder {name} gives {shape} for 2 samples, expected (2, width)")
    return h.shape[1]
