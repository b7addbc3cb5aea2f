"""What frameworks share: small functions, each used by two or more of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import gather, local_rows
from viewsmith.core.errors import InputError
from viewsmith.core.registry import entries
from viewsmith.frameworks.base import DataFacts
from viewsmith.losses.nt_xent import nt_xent, unit
from viewsmith.networks.momentum import cosine_momentum, update_copy
from viewsmith.views.pair import Pair


def check_no_local_views(pair: Pair, framework: str) -> None:
    """Refuse multi-crop views where nothing is defined for them.

    Raises
    ------
    InputError
        `pair` has local views.
    """
    if pair.local is not None:
        takes = ", ".join(entry.name for entry in entries("framework") if entry.trait("local_views"))
        raise InputError(f"multi-crop views need one of the frameworks {takes}, got {framework}")


def check(holds: bool, setting: str, given: object, expected: str) -> None:
    """Refuse a setting: an InputError with what was given and what was expected unless it `holds`."""
    if not holds:
        raise InputError(f"{setting} is {given}, expected {expected}")


def check_temperature(setting: str, given: float) -> None:
    """Refuse temperatures that are not above 0 and finite."""
    check(0 < given < float("inf"), setting, given, "a number above 0")


def check_momentum(setting: str, given: float) -> None:
    """Refuse momenta outside 0 to 1."""
    check(0 <= given <= 1, setting, given, "a number from 0 to 1")


def check_weight(setting: str, given: float) -> None:
    """Refuse weights of a term that are below 0 or not finite."""
    check(0 <= given < float("inf"), setting, given, "a number from 0 on")


def check_predictor(p: Tensor, z: Tensor) -> None:
    """Refuse predictions of another width than the projections they predict."""
    check(p.shape == z.shape, "the predictor's output width", p.shape[-1], f"that of the projections, {z.shape[-1]}")


def head_width(head: nn.Module, width: int | None) -> int:
    """Width of the projections that `head` gives: `width` where given, else what the head says of itself.

    Raises
    ------
    InputError
        Neither says it.
    """
    found = getattr(head, "n_components", None) if width is None else width
    if not isinstance(found, int):
        raise InputError(f"the head, a {type(head).__name__}, has no attribute n_components: give its output width")
    return found


def updates_state(framework: nn.Module) -> bool:
    """Whether a forward is a training step; all others leave copies, queues and centers as they are."""
    return framework.training and torch.is_grad_enabled()


def move_copies(framework: Any, momentum: float, names: Sequence[str] = ("encoder", "head")) -> bool:
    """In a training step, let the copies ``NAME_copy`` follow; returns whether it is one (`updates_state`)."""
    moves = updates_state(framework)
    if moves:
        for name in names:
            update_copy(getattr(framework, f"{name}_copy"), getattr(framework, name), momentum)
    return moves


def predictions_and_targets(framework: Any, name: str, pair: Pair, progress: float) -> tuple[Tensor, Tensor]:
    """What an online network predicts of the first and the second views, and what its copies say of them, (2 B, d).

    The copies move before, in a training step, by a momentum that rises to 1.

    Parameters
    ----------
    framework : nn.Module
        With ``encoder``, ``head``, ``predictor``, ``encoder_copy``, ``head_copy``, ``momentum`` and
        ``separate_batch_norm`` (`in_views`).
    name : str
        Its name, in messages.
    pair : Pair
    progress : float
        Fraction of training done, 0 to 1.

    Raises
    ------
    InputError
        The pair has local views, or the predictor's width is not the head's.
    """
    check_no_local_views(pair, name)
    move_copies(framework, cosine_momentum(framework.momentum, progress))
    views, separate = torch.cat([pair.first, pair.second]), framework.separate_batch_norm
    p = in_views(lambda x: framework.predictor(framework.head(framework.encoder(x))), views, separate)
    with torch.no_grad():
        z = in_views(lambda x: framework.head_copy(framework.encoder_copy(x)), views, separate)
    p, z = full_precision(p), full_precision(z)
    check_predictor(p, z)
    return p, z


def in_views(network: Callable[[Tensor], Tensor], views: Tensor, separate: bool) -> Tensor:
    """A network's output for the first and the second views, (2 B, ...) each.

    In one forward pass, in which they share their BatchNorm statistics, or `separate`: one after the other.
    """
    return torch.cat([network(part) for part in views.chunk(2)]) if separate else network(views)


def two_way_info_nce(
    anchors: Tensor, candidates: Tensor, ids: tuple[Tensor, Tensor] | None, temperature: float
) -> tuple[Tensor, Tensor]:
    """InfoNCE, (B,), of the first views' anchors with the second views' candidates, and the other way round.

    Parameters
    ----------
    anchors, candidates : Tensor, shape (2 B, d)
        Of the first views, then of the second. Candidates come from all processes, with gradient.
    ids : pair of int64 Tensor, each (B,), or None
        Rows that the views show: candidates that show one of the anchor's are no negatives.
    temperature : float
    """
    a, c = anchors.chunk(2), candidates.chunk(2)
    everywhere = gather(c[0]), gather(c[1])
    all_ids = None if ids is None else (gather(ids[0]), gather(ids[1]))

    def direction(side: int) -> Tensor:
        return nt_xent(
            a[side],
            c[1 - side],
            temperature=temperature,
            negatives="cross",
            ids=None if ids is None else (ids[side], ids[1 - side]),
            gathered=(everywhere[side], everywhere[1 - side]),
            gathered_ids=None if all_ids is None else (all_ids[side], all_ids[1 - side]),
            offset=local_rows(len(a[0])).start,
        )

    return direction(0), direction(1)


def resolve_queue(options: dict[str, Any], facts: DataFacts, largest: int) -> dict[str, Any]:
    """Options with a queue of half of the rows, at most `largest`, at least a batch, in place of "auto".

    Raises
    ------
    InputError
        The queue is smaller than a batch.
    """
    size, batch = options.get("queue_size", "auto"), min(facts.batch_size, facts.n_rows)
    if size == "auto":
        size = min(largest, max(facts.batch_size, facts.n_rows // 2))
    if size < batch:
        raise InputError(
            f"queue_size is {size}, expected at least the {batch} rows of a batch: raise it, or lower batch_size"
        )
    return options | {"queue_size": size}


def replace_oldest(pointer: Tensor, count: int, length: int) -> Tensor:
    """Places in a ring of `length` features for `count` new ones; `pointer`, where the oldest lies, moves on.

    Raises
    ------
    InputError
        There are more than places.
    """
    if count > length:
        raise InputError(f"the queue has {length} keys and the batch {count}: expected a queue of a batch or more")
    places = (pointer + torch.arange(count, device=pointer.device)) % length
    pointer.add_(count).remainder_(length)
    return places


def random_directions(n: int, width: int, generator: torch.Generator | None) -> Tensor:
    """Rows of length 1 that fill a queue at first, (n, width); by default from a generator with seed 0."""
    draws = torch.Generator().manual_seed(0) if generator is None else generator
    return unit(torch.randn(n, width, generator=draws, device=draws.device))


def full_precision(z: Tensor) -> Tensor:
    """`z` in float32 at least; float64 stays."""
    return z if z.dtype == torch.float64 else z.float()


def represent_views(encoder: nn.Module, pair: Pair) -> Tensor:
    """Representations of all views, ((2 + V) * B, n): first views, second views, then crop by crop.

    Views of one size go through one forward, so that they share their BatchNorm statistics.

    Raises
    ------
    InputError
        `pair.local` is not (B, V, ...).
    """
    full = torch.cat([pair.first, pair.second])
    if pair.local is None:
        return encoder(full)
    local = pair.local
    check(
        local.ndim == full.ndim + 1 and len(local) == len(pair.first),
        "the shape of the multi-crop views",
        tuple(local.shape),
        f"({len(pair.first)}, views, ...) with samples of {full.ndim - 1} dimensions",
    )
    crops = local.transpose(0, 1).flatten(0, 1)
    if crops.shape[1:] == full.shape[1:]:
        return encoder(torch.cat([full, crops]))
    return torch.cat([encoder(full), encoder(crops)])


def prototype_scores(z: Tensor, prototypes: nn.Linear) -> Tensor:
    """Cosines of projections (n, d) and prototypes (K, d), shape (n, K), in float32 at least."""
    with torch.autocast(z.device.type, enabled=False):
        return unit(full_precision(z)) @ unit(full_precision(prototypes.weight)).T
