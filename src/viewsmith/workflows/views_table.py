"""Views judged in seconds: what each view maker does to samples in fixed features, and what a contrast of it is worth.

The features of a modality are fitted once. Each row of the table has the features of a few views of each sample, from
which all its numbers follow: distances, the closed form of the contrast (`viewsmith.methods.linear_contrast.training`),
and with labels the accuracy of its representation.
"""

import dataclasses
import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError, check
from viewsmith.core.progress import html_table
from viewsmith.core.registry import entries, find
from viewsmith.core.rows import RowSource
from viewsmith.core.tensors import stream
from viewsmith.data.labels import Target, missing_labels, numbers_of, without_label
from viewsmith.estimator.fitting import scale
from viewsmith.estimator.inputs import given_to_fit, signal_of
from viewsmith.estimator.model import choose_features, make_views, named_features, shrinks, shrunken, shrunken_rows
from viewsmith.estimator.options import check_options
from viewsmith.estimator.plan import BuildContext, Facts, TrainingData, unscaled
from viewsmith.estimator.resolve import resolved, view_entries
from viewsmith.evaluation.protocol import score_embedding
from viewsmith.evaluation.symmetries import FeatureSpace, kinds_of, nearest, ratio_of_medians
from viewsmith.methods.linear_contrast.estimator import LinearContrast
from viewsmith.methods.linear_contrast.training import FOLDS, RIDGES, Sums, choose, solve
from viewsmith.modalities import Modality, detect
from viewsmith.networks.features import Features
from viewsmith.networks.scaling import rotation
from viewsmith.views.base import PairMaker

N_VIEWS = 4
#: Rows of the table use so many samples at most; with labels a third is held out, and at most so many are scored.
SAMPLES = (1000, 500, 250, 125, 60)
SCORED = 1000
FEWEST = 20  # samples
DIRECTIONS = 512  # that features are reduced to: those that views of random samples span
WIDEST = 256  # columns
COPIES, KEPT = 8, 2**26  # copies of a sample, if views are mirrored and turned; their features that are kept
DRAWS = 100  # of samples, for standard errors
SAME = 1e-3  # part of the distance to the nearest other sample by which a view differs
SECONDS, PART = 20.0, 0.6  # of a row, and the part of them for features

WHAT_IT_SAYS = (
    "ratio: distance of a view to the nearest other sample over that of samples; moved: distance from its own sample, "
    "in the same unit. Mirrors and turns with a ratio of 1.25 or more harmed on every set; below, they help or harm. "
    "For crops, light, noise and the like no number without labels was found to tell which view helps."
)

Use = Literal["features", "set", "alone", "left out", "added"]
USES: tuple[Use, ...] = ("alone", "left out", "added")


@dataclass(frozen=True)
class ViewRow:
    """A row of the table; numbers that cannot be computed are NaN."""

    #: "features": no views; "set": of views; "alone", "left out" of it, "added" to it (or at this setting in it)
    use: Use
    view: str  #: a view maker, or a part of one
    setting: str = ""
    ratio: float = math.nan  #: median distance of a view to the nearest other sample, over that of samples
    ratio_error: float = math.nan  #: its standard error
    moved: float = math.nan  #: median distance of a view from its sample, over that of samples to the nearest other one
    moved_error: float = math.nan
    correlation: float = math.nan  #: of two views of a sample: part of their variance that is between samples
    columns: float = math.nan  #: sum of the correlations of held-out views over the columns of the closed form
    nats: float = math.nan  #: that views of held-out samples tell about each other, by the best ridge
    knn: float = math.nan  #: score for held-out samples, if there are labels (of numbers: R^2)
    knn_gain: float = math.nan  #: over the features without a contrast, paired by sample
    knn_error: float = math.nan  #: standard error of the gain
    linear: float = math.nan
    linear_gain: float = math.nan
    linear_error: float = math.nan
    seconds: float = math.nan
    note: str = ""  #: why there are no numbers

    def as_dict(self) -> dict[str, Any]:
        """Plain values; None for those that are missing."""
        values = dataclasses.asdict(self)
        return {name: None if isinstance(v, float) and math.isnan(v) else v for name, v in values.items()}


class ViewsTable(list[ViewRow]):
    """Rows of a table of views; a notebook shows it as a table."""

    def __init__(self, rows: Sequence[ViewRow] = (), *, samples: int = 0, scored: int = 0) -> None:
        super().__init__(rows)
        self.samples, self.scored = samples, scored

    @property
    def labels(self) -> bool:
        """Whether there are scores."""
        return self.scored > 0

    def header(self) -> tuple[str, ...]:
        """Names of the columns."""
        scores = ("kNN", "gain", "linear", "gain") if self.labels else ()
        return ("views", "ratio", "moved", "correlation", "columns", "nats", *scores)

    def cells(self) -> list[tuple[str, ...]]:
        """The cells of the table, a row for each setting."""
        return [self.cells_of(row) for row in self]

    def cells_of(self, row: ViewRow) -> tuple[str, ...]:
        """The cells of a row."""
        name = " ".join(part for part in (row.use if row.use != "features" else "", row.view, row.setting) if part)
        numbers = [_text(row.ratio, row.ratio_error), _text(row.moved), _text(row.correlation)]
        numbers += [_text(row.columns, digits=1), _text(row.nats, digits=1)]
        if self.labels:
            numbers += [_text(row.knn, digits=3), _text(row.knn_gain, row.knn_error, digits=3, sign="+")]
            numbers += [_text(row.linear, digits=3), _text(row.linear_gain, row.linear_error, digits=3, sign="+")]
        return (name, *([row.note] if row.note else numbers))

    def frame(self) -> pd.DataFrame:
        """The table with all numbers, a row for each setting."""
        return pd.DataFrame([row.as_dict() for row in self])

    def about(self) -> str:
        """How the numbers were computed, and what they say."""
        scored = f", scored on {self.scored:,} others; gain: over the features without views" if self.labels else ""
        return f"{self.samples:,} samples, {N_VIEWS} views of each{scored}; in () standard errors.\n{WHAT_IT_SAYS}"

    def _repr_html_(self) -> str:
        return html_table("Views", self.cells(), self.header(), self.about())


def _text(value: float, error: float = math.nan, *, digits: int = 2, sign: str = "") -> str:
    if math.isnan(value):
        return "-"
    return f"{value:{sign}.{digits}f}" + ("" if math.isnan(error) else f" ({error:.{digits}f})")


@dataclass(frozen=True)
class Setting:
    """A set of view makers, joined by "+", with their options, and what it stands for in the table."""

    use: Use
    view: str
    shown: Mapping[str, Any]
    view_maker: str
    view_options: Mapping[str, Any]

    def row(self) -> ViewRow:
        """An empty row of the table."""
        return ViewRow(self.use, self.view, ", ".join(f"{name}={value:g}" for name, value in self.shown.items()))


def settings_of(
    modality: Modality,
    base: str,
    base_options: Mapping[str, Any],
    views: Sequence[str] | None,
    uses: Sequence[str] = USES,
) -> Iterator[Setting]:
    """The set of views, each view maker alone at its strengths, the set without each of its parts, and with each other
    view; `views` names the view makers, or parts of the set, that are asked for."""
    makers = {entry.name: entry for entry in entries("view maker", modality.name) if entry.tag("strengths")}
    names, parts = base.split("+"), dict[str, Setting]()
    for entry in view_entries(base, modality):
        for part, options in entry.tag("left_out", {}).items():
            parts[part] = Setting("left out", part, {}, base, {**base_options, **options})
        if entry.name in makers and len(names) > 1:
            others = "+".join(name for name in names if name != entry.name)
            theirs = {option for each in view_entries(others, modality) for option in each.options}
            options = {name: value for name, value in base_options.items() if name in theirs}
            parts[entry.name] = Setting("left out", entry.name, {}, others, options)
    if unknown := [name for name in views or () if name not in {*makers, *parts}]:
        find("view maker", unknown[0], modality.name)  # says which ones there are
        makers |= {name: find("view maker", name, modality.name) for name in unknown}
    asked = [name for name in makers if views is None or name in views]
    yield Setting("set", base, {}, base, base_options)
    for name in asked if "alone" in uses else ():
        entry = makers[name]
        for options in entry.tag("strengths", ({},)):
            yield Setting("alone", name, _shown(options), name, entry.tag("alone", {}) | options)
    known = {option for entry in view_entries(base, modality) for option in entry.options}
    for name in parts if "left out" in uses else ():
        if views is None or name in views:
            yield parts[name]
    for name in asked if "added" in uses else ():
        for options in makers[name].tag("strengths", ({},)):
            if options and known >= options.keys():
                if any(base_options.get(option) != value for option, value in options.items()):
                    yield Setting("added", name, _shown(options), base, {**base_options, **options})
            elif name not in names:
                both = f"{base}+{name}" if not makers[name].tag("other_samples") else f"{name}+{base}"
                yield Setting("added", name, _shown(options), both, {**base_options, **options})
                break  # one strength of what the set does not have


def _shown(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options that are not 0, unless all are."""
    return {name: value for name, value in options.items() if value} or dict(options)


@dataclass
class Judge:
    """Samples in fixed features, and the numbers of a setting of views."""

    data: TrainingData  # whose views are drawn
    options: Any  # of all settings
    space: FeatureSpace  # fitted to the samples
    kinds: np.ndarray  # (n,): equal for equal samples
    scored: Tensor | None  # scaled, and shrunken
    labels: tuple[np.ndarray, np.ndarray] | None  # of the samples, and of those that are scored
    target: Target
    seed: int
    shrunk: int  # by how much images are shrunk for the features
    x: Tensor = field(init=False)  # scaled samples, shrunken
    own: np.ndarray = field(init=False)
    standard_scored: Tensor | None = field(init=False)
    baseline: dict[str, np.ndarray] = field(init=False, default_factory=dict)
    copies: dict[bytes, Tensor] = field(init=False, default_factory=dict)  # features by the content of images

    def __post_init__(self) -> None:
        self.x = shrunken_rows(self.data.x, self.shrunk)[:]
        self.own = nearest(self.space.coordinates, self.space.coordinates, self.kinds)
        self.standard_scored = None if self.scored is None else self.space.standardized(self.scored)

    def features_alone(self) -> ViewRow:
        """The row of the features without views, with which the others are compared."""
        row, began = ViewRow("features", "features"), time.process_time()
        if self.standard_scored is not None:
            scores = self.scores_of(self.space.standard, self.standard_scored)
            row = dataclasses.replace(row, knn=scores["knn"], linear=scores["linear"])
        return dataclasses.replace(row, ratio=1.0, moved=0.0, seconds=time.process_time() - began)

    def judge(self, setting: Setting) -> ViewRow:
        """The row of a setting; its note says why there are no numbers."""
        began, row = time.process_time(), setting.row()
        try:
            numbers: dict[str, Any] = self.numbers(setting)
            row = dataclasses.replace(row, **numbers)
        except InputError as error:
            row = dataclasses.replace(row, note=str(error))
        return dataclasses.replace(row, seconds=time.process_time() - began)

    def numbers(self, setting: Setting) -> dict[str, float]:
        """All numbers of a setting by name."""
        maker = self.maker(setting)
        drawn = self.views(maker)
        found = self.distances(self.space.projected(drawn[:, 0]))
        coordinates = torch.from_numpy(self.space.projected(drawn.flatten(0, 1))).view(*drawn.shape[:2], -1)
        within, total = coordinates.var(1).mean(0).sum(), coordinates.flatten(0, 1).var(0).sum()
        found["correlation"] = float(1 - within / total)
        basis = self.directions(drawn)
        sums = Sums.empty(basis.shape[1])
        for number, block in enumerate((drawn @ basis).split(max(1, len(drawn) // FOLDS))):
            sums.folds[number % FOLDS].add(block)
        most = min(WIDEST, basis.shape[1], len(drawn) - 1)
        choice = choose(sums, RIDGES, most)
        found |= {"columns": choice.shared, "nats": choice.information.get(choice.ridge, math.nan)}
        if self.scored is not None and self.standard_scored is not None:
            solution = solve(*sums.all_but(None).covariances(), choice.ridge, choice.n_components)
            weights = basis @ solution.weights().float() @ rotation(len(solution.signal))
            pair = (self.x, self.space.standard), (self.scored, self.standard_scored)
            found |= self.scores_of(*(self.represented(maker, x, standard, weights) for x, standard in pair))
        return found

    def maker(self, setting: Setting) -> PairMaker:
        """The view makers of a setting."""
        plan = resolved_plan(self.data, self.options, setting.view_maker, setting.view_options)
        return make_views(plan, nn.Identity())

    def views(self, maker: PairMaker) -> Tensor:
        """Standardized features of views of all samples, (n, `N_VIEWS`, d)."""
        if any(each.needs_loss for each in maker.makers):
            raise InputError("these views depend on a loss that is trained, and none is trained here")
        small = maker if self.shrunk == 1 else maker.of_reduced(1 / self.shrunk)
        generator, x = stream(self.seed, "views"), self.data.x[:] if small is None else self.x
        maker = small or maker
        maker.prepare(self.data.x)
        drawn = maker.several(x, N_VIEWS, index=torch.arange(len(x)), generator=generator)
        maker.release()
        if drawn[0].shape != x.shape:
            raise InputError("these views have another shape than samples")
        drawn = drawn if small else [shrunken(view, self.shrunk) for view in drawn]
        # The second view first: of makers that leave the first one unchanged, it is the view.
        return torch.stack([self.space.standardized(view) for view in (*drawn[1:], drawn[0])], 1)

    def distances(self, view: np.ndarray) -> dict[str, float]:
        """Ratio and moved, with standard errors from resampled samples, of a view of each sample that differs from
        it."""
        moved = np.linalg.norm(view - self.space.coordinates, axis=1)
        differs = moved > SAME * np.median(self.own)
        other, own = nearest(view, self.space.coordinates, self.kinds)[differs], self.own[differs]
        if not differs.any():
            raise InputError("the views change nothing that the features see: take others")
        rng, n = np.random.default_rng(self.seed), len(own)
        drawn, found = rng.integers(0, n, (DRAWS, n)), dict[str, float]()
        for name, distance in (("ratio", other), ("moved", moved[differs])):
            found[name] = ratio_of_medians(distance, own)
            found[f"{name}_error"] = float(np.std([ratio_of_medians(distance[r], own[r]) for r in drawn]))
        return found

    def directions(self, drawn: Tensor) -> Tensor:
        """Orthonormal directions (d, p) that the first views of samples span."""
        chosen = torch.randperm(len(drawn), generator=stream(self.seed, "directions"))[:DIRECTIONS]
        spanning = drawn[chosen, : max(1, min(N_VIEWS, -(-DIRECTIONS // len(chosen))))].flatten(0, 1)[:DIRECTIONS]
        return torch.linalg.qr(spanning.T)[0]

    def represented(self, maker: PairMaker, x: Tensor, standard: Tensor, weights: Tensor) -> Tensor:
        """Representation of samples, the mean over their symmetric copies; `standard` has their own features."""
        copies = maker.symmetric_copies(x[:1])
        found = standard @ weights
        for number in range(1, len(copies)):
            for start in range(0, len(x), 256):
                block = slice(start, start + 256)
                each = maker.symmetric_copies(x[block])[number]
                found[block] += self.of_copies(each) @ weights
        return found / len(copies)

    def of_copies(self, x: Tensor) -> Tensor:
        """Standardized features of a block of copies, of which mirror images are the same in most rows."""
        key = hashlib.blake2b(x.contiguous().numpy().data, digest_size=16).digest()
        found = self.copies.get(key)
        if found is None:
            found = self.space.standardized(x)
            if sum(each.numel() for each in self.copies.values()) < KEPT:
                self.copies[key] = found
        return found

    def scores_of(self, train: Tensor, test: Tensor) -> dict[str, float]:
        """Scores of representations, and differences to those of the features with standard errors."""
        assert self.labels is not None
        names = ("knn_r2", "r2") if self.target == "number" else ("knn", "linear")
        arrays = train.numpy(), self.labels[0], test.numpy(), self.labels[1]
        scored = score_embedding(*arrays, protocols=names, target=self.target)
        found: dict[str, float] = {}
        for name, protocol in zip(("knn", "linear"), names, strict=True):
            values = scored.rows[protocol].mean(0) if protocol in scored.rows else np.array([math.nan])
            difference = values - self.baseline.setdefault(name, values)
            found |= {name: scored.scores[protocol], f"{name}_gain": float(difference.mean())}
            found[f"{name}_error"] = float(difference.std() / math.sqrt(len(difference))) if difference.any() else 0.0
        return found


def resolved_plan(
    data: TrainingData, options: Any, view_maker: str, view_options: Mapping[str, Any]
) -> BuildContext[Any]:
    """The plan of view makers with these options, "auto" resolved by the samples."""
    options = dataclasses.replace(options, view_maker=view_maker, view_options=dict(view_options))
    options, facts = resolved(options, data, LinearContrast.frameworks)
    strength = options.view_options.get("noise_strength", 1.0)
    if strength == "auto":
        raise InputError('noise_strength is "auto", expected a number')
    options = dataclasses.replace(options, noise_strength=strength)
    return BuildContext.of_new(options, Facts(**facts), data)


def views_table(
    X: Any,
    y: Any = None,
    *,
    modality: str = "auto",
    views: Sequence[str] | None = None,
    base: str | None = None,
    uses: Sequence[str] = USES,
    samples: int | None = None,
    seconds: float = SECONDS,
    target: Target | None = None,
    groups: np.ndarray | None = None,
    seed: int = 0,
    context: Mapping[str, Any] | None = None,
    each: Callable[[ViewsTable, ViewRow], None] = lambda table, row: None,
) -> ViewsTable:
    """Judge the views of a kind of data in fixed features: alone, left out of a set of views, and added to it.

    Parameters
    ----------
    X : array-like, n samples
        As in `LinearContrast.fit`; at least 20.
    y : array-like, shape (n,), optional
        Classes or numbers, -1 or NaN where they are missing. A third of the samples is then held out, and at most
        1,000 of the others are scored.
    modality : str
        As in `LinearContrast`.
    views : sequence of str, optional
        View makers to judge, or parts of the set to leave out. Default: those that are registered with strengths.
    base : str, optional
        The set of views, joined by "+". Default: that of `LinearContrast`.
    uses : sequence of str
        Some of "alone", "left out" and "added": the rows of the table, beside the features and the set.
    samples : int, optional
        Samples whose views are drawn. Default: at most 1,000, and fewer if a row would take longer than `seconds`.
    seconds : float
        CPU seconds of a row, about.
    target : {"class", "number"}, optional
        What labels are. Default: numbers if a label has a fraction.
    groups : array-like, shape (n,), optional
        Speakers, patients, plates: of labeled samples whole groups are held out, about a third of the samples.
    seed : int
    context : mapping, optional
        Origin of the data, as in `LinearContrast.fit`.
    each : callable
        Called with the table and each row as soon as it is there.

    Returns
    -------
    ViewsTable
        A list of `ViewRow`.

    Raises
    ------
    InputError
        Fewer samples, unknown views, labels of one class.

    Notes
    -----
    Distances are those of Euclidean nearest neighbors in 64 principal components of standardized features. What these
    numbers say, and what not, is measured in docs/evaluation.md.
    """
    check(seconds > 0, "seconds", seconds, "a number above 0")
    if unknown := [use for use in uses if use not in USES]:
        raise InputError(f"uses has {unknown[0]!r}, expected some of {', '.join(USES)}")
    check(samples is None or samples >= FEWEST, "samples", samples, f"at least {FEWEST}")
    if isinstance(X, RowSource):
        chosen = np.sort(np.random.default_rng(seed).permutation(len(X))[: 4 * (samples or SAMPLES[0])])
        X, y, groups = np.asarray(X[chosen]), *(None if g is None else np.asarray(g)[chosen] for g in (y, groups))
    estimator = LinearContrast(modality=modality, random_state=seed, view_maker=base or "auto")
    kind, rows, options = _read(X, estimator, context)
    names = kind.default_views if options.view_maker == "auto" else options.view_maker
    view_entries(names, kind)
    order, labels = np.random.default_rng(seed).permutation(len(rows)), None if y is None else np.asarray(y)
    if labels is not None:
        order, target = _labeled(order, labels, target)
    n, held_out = len(order) if labels is None else round(2 * len(order) / 3), np.empty(0, np.int64)
    if labels is not None and groups is not None:
        order, held_out = _by_groups(order, np.asarray(groups), seed)
        n = len(order)
    n = min(samples or SAMPLES[0], n)
    if n < FEWEST:
        raise InputError(f"{n} samples whose views are drawn, expected at least {FEWEST}: give more samples")
    data = scale(kind, rows[order[:n]], "auto", torch.device("cpu"), seed, None, signal=signal_of(context))
    features, shrunk = _fitted(kind, data)
    if samples is None:
        more = 0 if labels is None else min(SCORED, len(held_out) or len(order) - n)
        n = affordable(features, shrunken_rows(data.x, shrunk)[:64], n, more, seconds)
        few = data.rows[:n]
        data = dataclasses.replace(data, rows=few, x=kind.scaled(unscaled(few), data.layer))
    scored = None if labels is None else held_out[:SCORED] if len(held_out) else order[n : n + SCORED]
    judge = Judge(
        data,
        options,
        FeatureSpace(features, shrunken_rows(data.x, shrunk)[:]),
        kinds_of(np.asarray(data.rows)),
        None if scored is None else shrunken_rows(kind.scaled(unscaled(rows[scored]), data.layer), shrunk)[:],
        None if labels is None or scored is None else (labels[order[:n]], labels[scored]),
        target or "class",
        seed,
        shrunk,
    )
    table = ViewsTable(samples=n, scored=0 if scored is None else len(scored))
    base_options = resolved_plan(data, options, names, options.view_options or {}).options.view_options
    for setting in (None, *settings_of(kind, names, base_options, views, uses)):
        table.append(judge.features_alone() if setting is None else judge.judge(setting))
        each(table, table[-1])
    return table


def _read(X: Any, estimator: Any, context: Mapping[str, Any] | None) -> tuple[Modality, np.ndarray, Any]:
    """Modality and rows of samples, and the options of an estimator for them."""
    X = given_to_fit(X, estimator, context).X
    kind = detect(X, estimator.modality)
    if not kind.default_features:
        raise InputError(f"{kind.name} have no fixed features, in which views are judged: use another modality")
    rows = estimator._read(X, kind, None)
    options = check_options(type(estimator), estimator.get_params(deep=False))
    return kind, rows, estimator._adapt(options, kind, rows, signal_of(context))


def _by_groups(order: np.ndarray, groups: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows in their order, parted by groups: random ones with at most a third of the rows, one at least, are the second
    part."""
    names, codes = np.unique(groups[order], return_inverse=True)
    if len(names) < 2:
        raise InputError(
            f"all labeled samples have the group {names[0]}, expected two groups or more: leave groups out"
        )
    shuffled = np.random.default_rng((seed, 1)).permutation(len(names))
    rows = np.bincount(codes)[shuffled].cumsum()
    held_out = np.isin(codes, shuffled[: max(1, np.searchsorted(rows, len(order) / 3, side="right"))])
    return order[~held_out], order[held_out]


def _labeled(order: np.ndarray, labels: np.ndarray, target: Target | None) -> tuple[np.ndarray, Target]:
    """Those rows that have a label, and what labels are."""
    if labels.shape != order.shape:
        raise InputError(f"y has shape {labels.shape}, expected one label of each of {len(order)} samples")
    target = target or ("class" if numbers_of(labels, "y") is None else "number")
    missing = without_label(labels) if target == "number" else missing_labels(labels)
    return order[~missing[order]], target


def _fitted(kind: Modality, data: TrainingData) -> tuple[Features, int]:
    """The modality's default features, fitted to samples, and by how much images are shrunk for them."""
    name, options, _ = choose_features("auto", None, data)
    by = shrinks(name, kind, data.row_shape, options)
    features = named_features(name, kind, data.row_shape, data.layer, options, by)
    features.fit(shrunken_rows(data.x, by)[:], stream(data.seed, "features"))
    return features, by


def affordable(features: Features, x: Tensor, n: int, scored: int, seconds: float) -> int:
    """The number of samples, at most n, whose features a row has time for, by the time of those of a few: one of
    `SAMPLES`, so that it hardly depends on the time."""
    features(x[:8])
    began = time.process_time()
    with torch.no_grad():
        features(x)
    of_one = (time.process_time() - began) / len(x)

    def enough(number: int) -> bool:
        copies = (COPIES - 1) * (number + scored) if scored else 0
        return of_one * (N_VIEWS * number + copies) <= PART * seconds

    return next((each for each in (n, *(size for size in SAMPLES if size < n)) if enough(each)), min(n, SAMPLES[-1]))
