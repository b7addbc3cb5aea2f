"""Data passed between the stages of `fit`: training data, resolved settings, and the plan to build from."""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import pydantic
import torch
from torch import Tensor, nn

from viewsmith.core.row_source import RowSource
from viewsmith.core.samples import Rows
from viewsmith.domains import Domain
from viewsmith.estimators.arguments import Arguments
from viewsmith.methods.supervision import FewLabels
from viewsmith.views.neighbor_graph import PrecomputedGraph

O = TypeVar("O", bound=Arguments)  # noqa: E741
R = TypeVar("R", bound="Resolved")


@dataclass(frozen=True)
class TrainingData:
    """Training rows as read, checked and scaled.

    Attributes
    ----------
    domain : Domain
    rows : ndarray, shape (n, ...), or RowSource
        As read: float32 vectors, uint8 images or letters.
    layer : nn.Module
        The input layer, fitted on them.
    x : Rows
        Scaled rows, or samples that are scaled, and if on disk read, when they are indexed.
    scaling : str
        Name of the scaling, with "auto" resolved.
    stats : dict
        Statistics of the input layer that view makers need.
    device : torch.device
        Device of the training.
    seed : int
        Seed of the run.
    labels : array-like or None
        As given to fit; used only by methods that need them (`reads_labels`).
    neighbors : PrecomputedGraph or None
        Neighbor graph of the rows, as given to fit or with mutual neighbors in other groups.
    groups : dict
        Facts about the groups of the rows, for the summary; empty if there are none.
    group_codes : ndarray of int, shape (n,), or None
        The group of each row, as given to fit.
    normalization : {"log", "none"}
        Whether the rows are counts that were log-normalized.
    """

    domain: Domain
    rows: np.ndarray | RowSource
    layer: nn.Module
    x: Rows
    scaling: str
    stats: dict[str, Any]
    device: torch.device
    seed: int
    labels: Any = None
    neighbors: PrecomputedGraph | None = None
    groups: dict[str, Any] = field(default_factory=dict)
    group_codes: np.ndarray | None = None
    normalization: str = "none"

    @property
    def row_shape(self) -> tuple[int, ...]:
        return self.rows.shape[1:]


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """A value for every setting that may be "auto": plain values, saved with the model.

    Attributes
    ----------
    domain : str
    row_shape : tuple of int
    seed : int
    scaling : str
    stats : dict
        See `TrainingData`.
    framework : str
        Its name, or ``module:CLASS`` for a custom object; `framework_options` are its options.
    view_maker : str
        Names joined by "+"; `view_options` are their options, `view_facts` what they derived from options and data.
    encoder : str
        As for `framework`; `encoder_options` are its options.
    input_components : int
        Principal axes before the encoder of vectors; 0: none.
    n_components : int
        Width of the representation.
    epochs : int
    learning_rate, noise_strength : float
    strength_scores : dict
        By strength, if it was chosen automatically: the distance of views from the data, or label-free scores.
    symmetries : dict
        By transformation: whether views use it, and what a test of the samples has shown, if that decided.
    table : dict or None
        Plain values of the encoder of a table (`TableEncoder.as_dict`); None for plain numbers.
    named : bool
        Whether the features have names from a DataFrame; `feature_names` are these names, or those of a file or an
        AnnData.
    normalization : {"log", "none"}
        Whether the rows are counts that were log-normalized when they were read.
    packages : dict
        Parts registered by other packages, ``KIND NAME``, and the package of each.
    labeled_rows : str
        Digests of the rows whose labels were used (``supervision="labels"``), joined: they are not scored.
    given : str
        Digest of the labels and groups that the training used, which a resumed training needs again.
    """

    domain: str
    row_shape: tuple[int, ...]
    seed: int
    scaling: str
    stats: dict[str, Any] = field(default_factory=dict)
    framework: str
    framework_options: dict[str, Any]
    view_maker: str
    view_options: dict[str, Any]
    view_facts: dict[str, Any] = field(default_factory=dict)
    encoder: str
    encoder_options: dict[str, Any]
    input_components: int
    n_components: int
    epochs: int
    learning_rate: float
    noise_strength: float = 1.0
    strength_scores: dict[str, float] = field(default_factory=dict)
    symmetries: dict[str, dict[str, Any]] = field(default_factory=dict)
    table: dict[str, Any] | None = None
    named: bool = False
    feature_names: list[str] = field(default_factory=list)
    normalization: Literal["log", "none"] = "none"
    packages: dict[str, str]
    labeled_rows: str = ""
    given: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain values by name."""
        return {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}

    @classmethod
    def from_dict(cls: type[R], content: dict[str, Any]) -> R:
        """Inverse of `as_dict`; accepts the string "none" for None.

        Raises
        ------
        KeyError
            A name is missing.
        ValueError
            A value is of another type.
        """
        hints = typing.get_type_hints(cls)
        given = {}
        for f in dataclasses.fields(cls):
            required = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
            if f.name not in content and not required:
                continue
            value = content[f.name]
            given[f.name] = None if value == "none" and type(None) in typing.get_args(hints[f.name]) else value
        return pydantic.TypeAdapter(cls).validate_python(given)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items() if each is not None}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class Plan(Generic[O, R]):
    """Everything that a model is built from.

    Attributes
    ----------
    options : Arguments
        The estimator's arguments, validated.
    resolved : Resolved
    inputs : object, optional
        Inputs that only a new model needs and that a configuration cannot describe, such as the views of a view cache:
        a dataclass of the method.
    fresh : bool
        Whether the model is new, so that files of initial weights are read; otherwise weights come from a run.
    labels : Tensor of int64, shape (n,), or None
        Classes of the training rows, for a new model whose framework reads labels.
    neighbors : PrecomputedGraph or None
        Neighbor graph of the training rows, for a new model.
    few_labels : FewLabels or None
        Labels of some training rows, for a new model with ``supervision="labels"``.
    layer : nn.Module or None
        The input layer; for a new model fitted to the training rows.
    """

    options: O
    resolved: R
    inputs: Any = None
    fresh: bool = False
    labels: Tensor | None = None
    neighbors: PrecomputedGraph | None = None
    few_labels: FewLabels | None = None
    layer: nn.Module | None = None

    @classmethod
    def of_new(cls, options: O, resolved: R, data: TrainingData, **given: Any) -> Plan[O, R]:
        """The plan of a new model for training rows; `given` are `inputs`, `labels` and `few_labels`."""
        return cls(options, resolved, fresh=True, neighbors=data.neighbors, layer=data.layer, **given)
