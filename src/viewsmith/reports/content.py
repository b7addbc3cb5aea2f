"""The content of a report as plain data, independent of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from viewsmith.core.errors import InputError


@dataclass(frozen=True, eq=False)
class EmbeddingMap:
    """A two-dimensional map of the rows of a data set."""

    name: str
    xy: np.ndarray
    labels: Sequence[Any] | np.ndarray | None = None
    caption: str = ""

    def __post_init__(self) -> None:
        if np.ndim(self.xy) != 2 or np.shape(self.xy)[1] != 2:
            raise InputError(f"map {self.name!r}: xy has shape {np.shape(self.xy)}; give an (n, 2) array")
        if self.labels is not None and len(self.labels) != len(self.xy):
            raise InputError(f"map {self.name!r}: {len(self.labels)} labels for {len(self.xy)} rows; give one for each")


@dataclass(frozen=True, eq=False)
class FeatureProfile:
    """One number per feature, such as a learned noise level."""

    name: str
    values: np.ndarray
    names: Sequence[str] | None = None
    caption: str = ""
    unit: str = ""

    def __post_init__(self) -> None:
        if np.ndim(self.values) != 1:
            raise InputError(f"profile {self.name!r}: values have shape {np.shape(self.values)}; give a (d,) array")
        if self.names is not None and len(self.names) != len(self.values):
            raise InputError(
                f"profile {self.name!r}: {len(self.names)} names for {len(self.values)} features; give one for each"
            )


@dataclass(frozen=True, eq=False)
class Gallery:
    """Samples beside their views; above them a table of rows of text, its header first."""

    title: str
    caption: str
    samples: np.ndarray
    views: np.ndarray
    kind: Literal["curve", "pixels", "letters", "traces"]
    table: Sequence[Sequence[str]] = ()

    def __post_init__(self) -> None:
        dimensions = {"curve": (2,), "pixels": (3, 4), "letters": (2,), "traces": (3,)}
        if self.kind not in dimensions:
            raise InputError(f"gallery {self.title!r}: kind {self.kind!r}; use one of {', '.join(dimensions)}")
        sample, view = np.shape(self.samples), np.shape(self.views)
        if len(sample) not in dimensions[self.kind] or view[:1] + view[2:] != sample or len(view) != len(sample) + 1:
            raise InputError(
                f"gallery {self.title!r}: samples of shape {sample} with views of shape {view}; "
                f"give (n, ...) samples and (n, k, ...) views for kind {self.kind!r}"
            )


@dataclass(frozen=True, eq=False)
class FeatureViolins:
    """Distributions of the features of samples and, beside them, of their generated views."""

    name: str
    originals: np.ndarray
    views: np.ndarray
    feature_names: Sequence[str] | None = None
    caption: str = ""

    def __post_init__(self) -> None:
        original, view = np.shape(self.originals), np.shape(self.views)
        if len(original) != 2 or len(view) != 2 or original[1] != view[1] or 0 in original + view:
            raise InputError(
                f"violins {self.name!r}: originals of shape {original} with views of shape {view}; "
                "give (n, d) and (m, d) arrays with at least one row and one feature"
            )
        if self.feature_names is not None and len(self.feature_names) != original[1]:
            raise InputError(
                f"violins {self.name!r}: {len(self.feature_names)} names for {original[1]} features; give one for each"
            )
        for source_name, values in (("originals", self.originals), ("views", self.views)):
            if not np.isfinite(values).all():
                raise InputError(
                    f"violins {self.name!r}: the {source_name} have values that are not finite; leave them out"
                )


@dataclass(frozen=True, eq=False)
class SimilarityHistogram:
    """Cosine similarities of samples and their views, by kind of view."""

    name: str
    similarities: Mapping[str, np.ndarray]
    caption: str = ""
    of: str = "sample and view"

    def __post_init__(self) -> None:
        if not self.similarities:
            raise InputError(f"histogram {self.name!r}: no similarities; give at least one kind of view")
        for kind, values in self.similarities.items():
            if np.ndim(values) != 1 or not len(values):
                raise InputError(
                    f"histogram {self.name!r}: similarities of {kind!r} have shape {np.shape(values)}; "
                    "give an (n,) array of at least one"
                )
            # NaN compares as False. By rounding, a cosine in float16 may be a little above 1.
            if not (np.abs(values) <= 1 + 2e-3).all():
                raise InputError(f"histogram {self.name!r}: similarities of {kind!r} are not all cosines in [-1, 1]")


@dataclass(frozen=True, eq=False)
class SortedSimilarities:
    """Absolute cosines of the projections of pairs of different samples, by kind of projection."""

    name: str
    similarities: Mapping[str, np.ndarray]
    caption: str = ""

    def __post_init__(self) -> None:
        if not self.similarities:
            raise InputError(f"sorted similarities {self.name!r}: no similarities; give at least one kind")
        for kind, values in self.similarities.items():
            if np.ndim(values) != 1 or not len(values) or not ((values >= 0) & (values <= 1 + 2e-3)).all():
                raise InputError(
                    f"sorted similarities {self.name!r}: those of {kind!r} have shape {np.shape(values)} or values out "
                    "of range; give an (n,) array of at least one value, all in [0, 1]"
                )


@dataclass(frozen=True, eq=False)
class Projections:
    """Projections of the same rows by several models, in one panel each."""

    name: str
    projections: Mapping[str, np.ndarray]
    labels: Sequence[Any] | np.ndarray | None = None
    caption: str = ""

    def __post_init__(self) -> None:
        if not self.projections:
            raise InputError(f"projections {self.name!r}: none; give those of at least one model")
        n = len(next(iter(self.projections.values())))
        for kind, z in self.projections.items():
            if np.ndim(z) != 2 or len(z) != n or not n or np.shape(z)[1] < 2 or not np.isfinite(z).all():
                raise InputError(
                    f"projections {self.name!r}: those of {kind!r} have shape {np.shape(z)} or values that are not "
                    f"finite; give an (n, d) array with n = {n} in all kinds and d at least 2"
                )
        if self.labels is not None and len(self.labels) != n:
            raise InputError(f"projections {self.name!r}: {len(self.labels)} labels for {n} rows; give one for each")


@dataclass(frozen=True, eq=False)
class TransformProbabilities:
    """Probabilities of the transformations of a finite set, for single samples and on average."""

    title: str
    caption: str
    names: Sequence[str]
    probabilities: np.ndarray
    mean: np.ndarray
    samples: np.ndarray | None = None
    views: np.ndarray | None = None

    def __post_init__(self) -> None:
        m, source_name = len(self.names), f"transform probabilities {self.title!r}"
        given, mean = np.shape(self.probabilities), np.shape(self.mean)
        if len(given) != 2 or given[1] != m or mean != (m,):
            raise InputError(
                f"{source_name}: probabilities of shape {given} and their mean of shape {mean} for {m} names; "
                f"give (n, {m}) and ({m},)"
            )
        for p in (self.probabilities, self.mean):
            if not (np.asarray(p) >= 0).all() or not np.allclose(np.sum(p, axis=-1), 1, atol=1e-3):
                raise InputError(f"{source_name}: not all rows are probabilities with sum 1")
        if (self.samples is None) != (self.views is None):
            raise InputError(f"{source_name}: only one of samples and views is given; give both or none")
        if self.samples is not None and self.views is not None:
            Gallery(self.title, self.caption, self.samples, self.views, "pixels")
            if len(self.samples) != len(self.probabilities) or np.shape(self.views)[1] > m:
                raise InputError(
                    f"{source_name}: views of shape {np.shape(self.views)} for probabilities of shape "
                    f"{given}; give at most {m} views of each sample"
                )


@dataclass(frozen=True, eq=False)
class ReportContent:
    """The content of a report; all parts except title and method may be empty."""

    title: str
    method: str
    config: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)
    metrics: Sequence[Mapping[str, Any]] = ()
    warnings: Sequence[str] = ()
    evaluation: Mapping[str, Any] | None = None
    maps: Sequence[EmbeddingMap] = ()
    profiles: Sequence[FeatureProfile] = ()
    galleries: Sequence[Gallery] = ()
    transform_probabilities: Sequence[TransformProbabilities] = ()
    violins: Sequence[FeatureViolins] = ()
    histograms: Sequence[SimilarityHistogram] = ()
    projections: Sequence[Projections] = ()
    sorted_similarities: Sequence[SortedSimilarities] = ()
