"""Groups of the rows (batches, subjects, plates): read from what a user gives, and aligned by mutual neighbors."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch
from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.core.messages import pluralize
from viewsmith.core.samples import apply_in_blocks
from viewsmith.domains.groups import group_codes
from viewsmith.estimators.arguments import Arguments
from viewsmith.estimators.build.plan import TrainingData
from viewsmith.estimators.build.resolve import view_entries
from viewsmith.estimators.build.sizes import AXES, WIDE
from viewsmith.estimators.given.labels import codes_digest
from viewsmith.networks.inputs.scaling import PrincipalAxes
from viewsmith.views.group_neighbors import aligned_graph, mutual_neighbors
from viewsmith.views.neighbor_graph import PrecomputedGraph
from viewsmith.views.neighbor_search import NeighborSearch


def with_groups(data: TrainingData, options: Arguments, groups: Any) -> TrainingData:
    """The training data with the graph of ``group_mode="align"``, and facts about the groups for the summary.

    Raises
    ------
    InputError
        Groups are needed and missing, invalid, fewer than two or of one row; or the views use no neighbors.
    """
    if groups is None:
        if options.group_mode == "none":
            return data
        raise InputError("group_mode is 'align', but no groups were given: call fit(X, groups=...) (--groups COLUMN)")
    # Neighbors are sought in other groups for each group, which says nothing for a group of one row.
    aligned = options.group_mode == "align"
    codes = torch.from_numpy(group_codes(groups, len(data.rows), alone=not aligned))
    facts: dict[str, Any] = {"groups": int(codes.max()) + 1, "mode": options.group_mode}
    if aligned:
        _check_views(data, options)
        graph, mutual = _aligned(data, codes, options.n_neighbors)
        partners = len(mutual[0].unique())
        facts |= {"digest": codes_digest(codes.numpy())}
        facts |= {"mutual_edges": mutual.shape[1], "rows_with_mutual_neighbors": partners}
        data = dataclasses.replace(data, neighbors=graph)
    return dataclasses.replace(data, groups=facts, group_codes=codes.numpy())


def _check_views(data: TrainingData, options: Arguments) -> None:
    if not isinstance(data.rows, np.ndarray):
        raise InputError(
            f"group_mode is 'align', but the {len(data.rows):,} rows stay on disk: give fewer rows, in memory, or "
            "leave group_mode out"
        )
    view_maker = data.domain.default_views if options.view_maker == "auto" else options.view_maker
    if not any(view.trait("neighbors") for view in view_entries(view_maker, data.domain)):
        raise InputError(
            f"group_mode is 'align', but the views {view_maker!r} use no neighbors: choose the views neighbors or "
            "neighbor-mix (view_maker, --views), or leave group_mode out"
        )
    if options.neighbor_space == "encoder":
        raise InputError(
            "group_mode is 'align', and neighbor_space='encoder' would replace its neighbors during training: leave "
            "one of them out"
        )


def _aligned(data: TrainingData, groups: Tensor, k: int) -> tuple[PrecomputedGraph, Tensor]:
    """The graph of ordinary and mutual neighbors, and the mutual ones, (2, pairs)."""
    x = _coordinates(data)
    mutual = mutual_neighbors(x, groups, k)
    if not mutual.numel():
        raise InputError(
            f"group_mode is 'align', but no two of the {pluralize(int(groups.max()) + 1, 'group')} have mutual nearest "
            "neighbors: raise n_neighbors, or leave group_mode out"
        )
    return aligned_graph(len(x), _usual_edges(data.neighbors, x, k), mutual), mutual


def _usual_edges(given: PrecomputedGraph | None, x: Tensor, k: int) -> Tensor:
    """Edges of the graph given to fit, or to the k nearest rows, (2, edges)."""
    if given is not None:
        return torch.stack([torch.arange(len(given)).repeat_interleave(given.degrees), given.ends])
    near = NeighborSearch(x, k).graph()
    return torch.stack([torch.arange(len(x))[:, None].expand_as(near).flatten(), near.flatten()])


def _coordinates(data: TrainingData) -> Tensor:
    """Rows in the space in which neighbors are searched: 50 principal axes if there are more than 200 features."""
    features = data.domain.neighbor_features
    if isinstance(data.x, Tensor):
        x = data.x
    elif features(data.x[:1]) is None:
        x = apply_in_blocks(torch.nn.Flatten(), data.x)
    else:
        x = apply_in_blocks(features, data.x)  # type: ignore[arg-type]
    if x.shape[1] <= WIDE:
        return x
    axes = PrincipalAxes(x.shape[1], min(AXES, *x.shape)).to(x)
    axes.fit(x, weighted="columns" not in data.stats)
    found: Tensor = axes(x)
    return found
