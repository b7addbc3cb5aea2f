"""Resolve "auto": settings that depend on the modality, the registered parts and the number of rows.

A view maker names options that may be "auto" in the tag `symmetry`, as in ``symmetry={"flip": ("mirror", 0.5)}``: the
name of a transformation in `viewsmith.evaluation.symmetries`, and its rate without a test. The transformation is used
if it keeps samples among the samples of the data.
"""

import dataclasses
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor, nn

from viewsmith.core import distributed
from viewsmith.core.distributed import check_time, together
from viewsmith.core.errors import InputError, join_names, pluralize, warn
from viewsmith.core.registry import Entry, entries, find, get, names
from viewsmith.core.rows import too_large_for_memory
from viewsmith.core.tensors import derive_seed, stream
from viewsmith.estimator.arguments import Arguments, Views
from viewsmith.estimator.options import (
    FRAMEWORK_OPTIONS,
    MODULE,
    check_framework,
    check_part_options,
    check_recipe,
    encoder_entry,
    given_framework_options,
    known_frameworks,
    lacking,
)
from viewsmith.estimator.plan import TrainingData, check_sample, principal_axes, probe, text_of
from viewsmith.evaluation.label_free import neighbor_r2
from viewsmith.evaluation.symmetries import OFF_THE_DATA, TOLD_APART, symmetries
from viewsmith.frameworks import DataSummary, Framework
from viewsmith.losses.diagnostics import view_distance
from viewsmith.modalities import Modality
from viewsmith.networks.base import EncoderContext
from viewsmith.networks.features import name_of
from viewsmith.views.base import ViewMaker

O = TypeVar("O", bound=Arguments)  # noqa: E741


#: Classes of objects that stand for names of parts, and what these do.
OBJECTS: dict[str, tuple[type[nn.Module], str]] = {
    "view_maker": (ViewMaker, "viewsmith.views.ViewMaker, whose forward(x, *, index=None, generator=None) makes views"),
    "framework": (Framework, "viewsmith.frameworks.Framework, whose forward(pair, progress) returns losses (B,)"),
    "encoder": (nn.Module, "torch.nn.Module from scaled samples (B, ...) to (B, width)"),
}


def check_objects(given: Mapping[str, Any]) -> None:
    """Raise InputError for an argument of an estimator that is neither a name nor an object of the class of a part."""
    for name, (base, expected) in OBJECTS.items():
        value = given.get(name)
        if name == "view_maker" and isinstance(value, list | tuple):
            joined = "+".join(map(str, value)) if all(isinstance(each, str) for each in value) else "NAME+NAME"
            raise InputError(f"view_maker is a {type(value).__name__}, expected names joined by +: {joined!r}")
        is_module = isinstance(value, base) and not isinstance(value, torch.jit.ScriptModule)
        if callable(value) and not is_module:
            kind = "the class" if isinstance(value, type) else "of type"
            named = value.__name__ if isinstance(value, type) else type(value).__name__
            raise InputError(f"{name} is {kind} {named}, expected a name or an object: a {expected}, see extending.md")


def with_batch_size(options: Any, modality: Modality, row_shape: Sequence[int]) -> Any:
    """Options whose batch size, if it is "auto", is that of samples of this shape."""
    size = modality.batch_size(row_shape)
    return dataclasses.replace(options, batch_size=size) if options.batch_size == "auto" else options


def default_epochs(n_rows: int, batch_size: int, steps: int) -> int:
    """Epochs that take about `steps` steps."""
    return math.ceil(steps / max(1, n_rows // min(batch_size, n_rows)))


def resolved(
    given: O,
    data: TrainingData,
    frameworks: Sequence[str],
    *,
    with_encoder: bool = True,
    asked: Arguments | None = None,
) -> tuple[O, dict[str, Any]]:
    """The options of all methods without "auto", where the parts have them, and `Facts` by name; a method may have no
    encoder. Of options that were `asked` for those without an effect are warned of."""
    modality, options = data.modality, given
    if options.view_maker == "auto":
        options = dataclasses.replace(options, view_maker=modality.default_views)
    views = view_entries(options.view_maker, modality)
    if asked is not None:
        _warn_unused(asked, views, text_of(options.view_maker))
    options, used = resolved_framework(options, data, frameworks, views), [find("modality", modality.name), *views]
    encoder: Entry | None = None
    if with_encoder:
        options, encoder = resolved_encoder(options, data)
    _check_local_views(views, options)
    options, tests = resolved_views(options, views, data)
    derived = {
        name: value for view in views for name, value in view.tag("derive", lambda *_: {})(options, data).items()
    }
    _check_neighbors(options, views, data)
    if with_encoder:
        check_sample(encoder, views, derived, options, data)
        axes, width = principal_axes(options, data, views), n_components(options, encoder, data)
        options = dataclasses.replace(options, input_components=axes, n_components=width)
    framework = None if isinstance(options.framework, nn.Module) else find("framework", options.framework)
    used += [part for part in (encoder, framework) if part is not None]
    changes: dict[str, Any] = {"scaling": data.scaling}
    return dataclasses.replace(resolved_training(options, data), **changes), {
        "modality": modality.name,
        "row_shape": data.row_shape,
        "seed": data.seed,
        "normalization": data.normalization,
        "statistics": data.statistics,
        "view_derived": derived,
        "symmetries": tests,
        "packages": packages_of(used),
    }


def with_own(options: O, found: Mapping[str, Any]) -> O:
    """Options of the estimator that are "auto", with what was found for the parts that have them."""
    known = vars(options)
    return dataclasses.replace(options, **{n: value for n, value in found.items() if known.get(n) == "auto"})


def resolved_training(options: O, data: TrainingData) -> O:
    """With the length of the training, its learning rate, and the settings of lars."""
    modality, n, lars = data.modality, len(data.x), options.optimizer == "lars"
    steps = modality.default_steps(data.row_shape, on_cpu=data.device.type == "cpu")
    on_disk = too_large_for_memory(data.rows) and len(data.row_shape) == 1
    trained = min(n, options.max_rows or n) if on_disk else n
    found = {
        "epochs": default_epochs(trained, int(options.batch_size), steps),
        # With lars that of SimCLR, proportional to the batch size (section 2.1).
        "learning_rate": 0.3 * int(options.batch_size) / 256 if lars else 3e-3,
        "exclude_norm_and_bias": lars,
        "trust_coefficient": 1e-3,
    }
    return with_own(options, found)


def packages_of(parts: Sequence[Entry]) -> dict[str, str]:
    """Parts registered by other packages, ``KIND NAME``, and the package of each."""
    return {f"{part.kind} {part.name}": part.origin for part in parts if part.origin != "viewsmith"}


def check_modality(method: str, modality: Modality) -> None:
    """Raise InputError if a method does not support a modality."""
    entry = get("method", method)
    if entry is not None and not entry.serves(modality.name):
        raise InputError(
            f"the method {method!r} is for {' and '.join(entry.modalities)}, but the data are {modality.name}: use "
            "another method, or set modality= (--modality) if this is the wrong type"
        )


# ---- view makers ----------------------------------------------------------------------------------------------------
def view_entries(view_maker: str | nn.Module, modality: Modality) -> list[Entry]:
    """Registry entries of the view makers joined by "+"; empty for a custom view maker."""
    if isinstance(view_maker, nn.Module) or view_maker.startswith(MODULE):
        return []
    found = [find("view maker", name, modality.name) for name in view_maker.split("+")]
    for name, entry in zip(view_maker.split("+"), found, strict=True):
        if entry.name[-1] == ":" and name == entry.name:
            written = f"{entry.name}{entry.tag('argument')}, {entry.tag('argument_help')}"
            raise InputError(f"view_maker is {view_maker!r}, expected {written}")
    for entry in found[:-1]:
        if entry.tag("changes_shape"):
            raise InputError(
                f"view_maker is {view_maker!r}: {entry.name.rstrip(':')} changes the shape of a sample, put it last"
            )
    local = [entry.name for entry in found if entry.tag("local_views")]
    if len(local) > 1:
        raise InputError(f"view_maker is {view_maker!r}, expected {local[0]} once: leave the others out")
    return found


def part_options(
    options: Arguments,
    parts: Sequence[Entry],
    further: dict[str, Any] | None,
    argument: str,
    owner: type[Arguments] = Arguments,
) -> dict[str, Any]:
    """Options of parts: arguments of the estimator with the same names, and further options."""
    further, found = further or {}, dict[str, Any]()
    shared = {field.name for field in dataclasses.fields(owner)}
    for part in parts:
        common = {name: getattr(options, name) for name in part.options if name in shared}
        found |= common | check_part_options(part, {n: v for n, v in further.items() if n in part.options})
        _check_required(part, found, argument)
    if unknown := sorted(further.keys() - found.keys()):
        raise lacking(parts, unknown[0], argument)
    return found


def _check_required(part: Entry, found: Mapping[str, Any], argument: str) -> None:
    for name, option in part.options.items():
        if option.default is option.REQUIRED and name not in found:
            raise InputError(
                f"the {part.kind} {part.name!r} needs the option {name!r}, which has no default: give it in {argument} "
                f"(--set {name}=VALUE)"
            )


def _check_neighbors(options: Arguments, views: Sequence[Entry], data: TrainingData) -> None:
    """Raise InputError for a graph that no view maker uses; warn about rows without neighbors."""
    if data.neighbors is None:
        return
    if not any(view.tag("neighbors") for view in views):
        with_graph = sorted({e.name for e in entries("view maker", data.modality.name) if e.tag("neighbors")})
        raise InputError(
            f"neighbors is given, but the views {text_of(options.view_maker)!r} use no neighbor graph: choose "
            f"{join_names(with_graph)} (view_maker, --views), or leave neighbors out"
        )
    if options.neighbor_space == "encoder":
        raise InputError(
            "neighbors is given, and neighbor_space='encoder' would replace it during training: leave one of them out"
        )
    if alone := int((data.neighbors.degrees == 0).sum()):
        warn(
            f"neighbors: {pluralize(alone, 'row')} of {len(data.x):,} without neighbors: the second view of such a row "
            "is the row itself"
        )


def _check_local_views(views: Sequence[Entry], options: Arguments) -> None:
    local = [view.name for view in views if view.tag("local_views")]
    framework = options.framework
    if not local or isinstance(framework, nn.Module) or find("framework", framework).tag("local_views"):
        return
    takes = [name for name in names("framework") if find("framework", name).tag("local_views")]
    others = ", ".join(name for name in names("view maker", "images") if name != local[0])
    raise InputError(
        f"{local[0]} views are for the frameworks {join_names(takes, 'and')}, not {framework!r}: choose one of them, "
        f"or the views {others}"
    )


# ---- frameworks -----------------------------------------------------------------------------------------------------
def resolved_framework(options: O, data: TrainingData, allowed: Sequence[str], views: Sequence[Entry]) -> O:
    """With all options of the framework, for "auto" by the data; options that it does not have raise InputError."""
    if isinstance(options.framework, nn.Module):
        if options.framework_options:
            raise InputError(
                "framework_options need a framework name: set options of a custom framework in its constructor"
            )
        for option in FRAMEWORK_OPTIONS:
            # A framework without a head gets an MLP head with the estimator's projector_dims.
            headless = option == "projector_dims" and "head" not in options.framework._modules
            if getattr(options, option) not in (None, "auto") and not headless:
                raise InputError(
                    f"{option} needs a framework name: set options of a custom framework in its constructor"
                )
        if encoder_of(options.framework) is not None and (options.encoder != "auto" or options.encoder_options):
            other = text_of(options.encoder).removeprefix(MODULE) if options.encoder != "auto" else "its options"
            raise InputError(
                f"encoder is given ({other}), and the framework {name_of(options.framework)} has an encoder: give one "
                "of them"
            )
        check_recipe(options, "", known_frameworks(allowed))
        return options
    check_framework(options.framework, allowed)
    entry = find("framework", options.framework)
    given = given_framework_options(options, entry)
    summary = DataSummary(
        data.modality.defaults, len(data.x), int(options.batch_size), any(view.tag("other_samples") for view in views)
    )
    resolve = getattr(entry.build, "resolve", None)
    # Defaults are saved, too, so that a run does not depend on the defaults of a later version.
    defaults = {n: o.default for n, o in entry.options.items() if o.default not in (None, "auto", o.REQUIRED)}
    found = defaults | (given if resolve is None else resolve(given, summary))
    _check_required(entry, found, "framework_options")
    check_recipe(options, options.framework, known_frameworks(allowed))
    return dataclasses.replace(with_own(options, found), framework_options=found)


# ---- encoders -------------------------------------------------------------------------------------------------------
def encoder_of(framework: str | nn.Module) -> nn.Module | None:
    """The encoder that a framework object has already; None for a name, and one that is connected to another."""
    return framework.encoder if isinstance(framework, Framework) and framework.connected else None


def resolved_encoder(options: O, data: TrainingData) -> tuple[O, Entry | None]:
    """With the encoder and all its options, and its registry entry (None for a custom module)."""
    encoder, modality = options.encoder, data.modality
    if isinstance(encoder, nn.Module):
        if options.encoder_options:
            raise InputError("encoder_options need an encoder name: set options of a custom encoder in its constructor")
        return options, None
    if encoder == "auto":
        encoder = modality.default_encoder if data.device.type == "cpu" else modality.default_encoder_on_gpu
    entry = encoder_entry(encoder, modality.name)
    found = part_options(options, [entry], options.encoder_options, "encoder_options")
    return dataclasses.replace(options, encoder=encoder, encoder_options=found), entry


def n_components(options: Arguments, entry: Entry | None, data: TrainingData) -> int:
    """Width of the representation."""
    wanted, x, further = options.n_components, data.x, options.encoder_options or {}
    encoder = text_of(options.encoder)
    own = encoder_of(options.framework)
    fixed = None if entry is None else entry.tag("fixed_width", lambda row_shape, **options: None)
    if fixed is not None and (width := fixed(data.row_shape, **further)) is not None:
        if wanted not in ("auto", width):
            line = f"n_components is {wanted}, but the encoder {encoder} with these options has width {width}"
            raise InputError(f"{line}: leave n_components out, or 'auto'")
        return int(width)
    if entry is None or own is not None:
        module = options.encoder if own is None else own
        assert isinstance(module, nn.Module)
        width, encoder = probe(module, name_of(module), x[:2]), name_of(module)
    elif (width := entry.tag("default_width")) is not None:
        return int(width if wanted == "auto" else wanted)
    elif (width := entry.tag("width")) is None:
        context = EncoderContext(data.row_shape, data.modality.channels(data.row_shape), 0, name=encoder)
        module = entry.build(context, **further)
        width = getattr(module, "num_features", None) or probe(module, encoder, x[:2])
    if wanted not in ("auto", width):
        raise InputError(
            f"n_components is {wanted}, but the encoder {encoder} has width {width}: leave n_components out"
        )
    return int(width)


def default_skip(given: Arguments, options: Arguments, data: TrainingData, with_default_views: bool = False) -> Any:
    """Options of an encoder that keeps columns of the input beside the learned ones, by its tag `keeps_input` or with
    the default views; empty if the user chose the number of columns, or another network or framework."""
    chosen = given.n_components != "auto" or "appended_pca" in (given.encoder_options or {})
    if chosen or isinstance(options.encoder, nn.Module) or isinstance(options.framework, nn.Module):
        return {}
    entry = find("encoder", str(options.encoder), data.modality.name)
    by_views = with_default_views and options.view_maker == data.modality.default_views
    columns = entry.tag("default_skip", 0) if by_views or entry.tag("keeps_input") else 0
    return {"appended_pca": int(columns)} if columns else {}


def with_skip(estimator: Any, given: Arguments, options: O, data: TrainingData) -> O:
    """With the columns of the input that the method keeps, which the representation has beside the learned ones."""
    if not estimator.trains or not (skip := estimator._skip(given, options, data)):
        return options
    further, width = skip | (options.encoder_options or {}), int(options.n_components) + skip["appended_pca"]
    return dataclasses.replace(options, encoder_options=further, n_components=width)


# ---- beside the loss: rates of views, the learning rate ----
RATE = 0.5  # of a transformation that is used
FEWEST_GROUPS = 10  # whole groups are held out, if there are so many


def resolved_views(options: O, views: Sequence[Entry], data: TrainingData) -> tuple[O, dict[str, dict[str, Any]]]:
    """With all options of the view makers, and what the test of each transformation has shown that is "auto"."""
    found = part_options(options, views, options.view_options, "view_options")
    rates, tests = tested_rates(views, found, data)
    found |= rates
    for view in views:
        if check := view.tag("check"):
            check({name: value for name, value in found.items() if name in view.options}, data.row_shape)
    return dataclasses.replace(with_own(options, rates), view_options=found), tests


def _warn_unused(asked: Arguments, views: Sequence[Entry], named: str) -> None:
    """Warn of options of views that none of the chosen ones has."""
    used = {name for view in views for name in view.options} | {Views.lead, Views.further}
    if any(view.tag("neighbors") for view in views):
        used |= {"n_neighbors", "neighbor_space"}
    defaults = {field.name: field.default for field in dataclasses.fields(type(asked))}
    for name in [field.name for field in dataclasses.fields(Views) if field.name not in used]:
        if (value := getattr(asked, name)) != defaults[name]:
            of = f"the views {named!r}" if views else "a view maker that is an object"
            warn(f"{name}={value} has no effect on {of}: leave it out, or choose views that have it (view_maker)")


def tested_rates(
    views: Sequence[Entry], options: Mapping[str, Any], data: TrainingData
) -> tuple[dict[str, float], dict[str, dict[str, Any]]]:
    """Rates of the options that are "auto", and what the test of each transformation has shown; with too few samples,
    the reason and the rates without a test."""
    asked = {
        option: symmetry
        for view in views
        for option, symmetry in view.tag("symmetry", {}).items()
        if options.get(option, view.options[option].default) == "auto"
    }
    groups = data.group_codes
    if groups is not None and groups.max() + 1 < FEWEST_GROUPS:
        groups = None
    rates: dict[str, float] = {}
    tests: dict[str, dict[str, Any]] = {}
    for option, (name, untested) in asked.items():
        with together():
            check_time()
        transformations = data.modality.transformations_of(data.rows)
        try:
            if name not in transformations:
                raise InputError(f"not of samples of shape {data.row_shape}")
            one = {name: transformations[name]}
            (test,) = symmetries(data.rows, data.modality.name, one, groups=groups, seed=data.seed)
        except InputError as error:
            untested = untested if name in transformations else 0.0
            verdict = f"{name}: {'on' if untested else 'off'}, not tested: {error}"
            rates[option], tests[name] = untested, {"rate": untested, "verdict": verdict}
            continue
        # All processes of a training have to make the same views.
        used = distributed.broadcast_flag(test.on_the_data, data.device)
        rates[option] = RATE if used else 0.0
        tests[name] = {
            "rate": rates[option],
            "told_apart": round(test.told_apart, 3),
            "told_apart_interval": [round(end, 3) for end in test.told_apart_interval],
            "distance_ratio": round(test.ratio, 3),
            "distance_ratio_interval": [round(end, 3) for end in test.ratio_interval],
            "verdict": f"{name}: {'on' if used else 'off'}, told apart in at least {test.told_apart_interval[0]:.0%} "
            f"of held-out samples, distance ratio {test.ratio:.2f} (off from {TOLD_APART:.0%} and {OFF_THE_DATA} on)",
        }
    return rates, tests


# ---- the strength of noise -------------------------------------------------------------------------------------------
# Vectors: noisy rows are so many times as far from the nearest other row as rows are. Chosen from 1.05 to 1.3 on six
# sets (docs, contrastive), on which it is better than short trainings.
DISTANCE = 1.1
STRENGTHS = tuple(round(0.05 * 2 ** (k / 2), 3) for k in range(13))  # 0.05 to 3.2
COMPARED, FEWEST = 1000, 25  # rows
GRID = (0.25, 0.5, 1.0, 2.0)
TRIAL_STEPS = 300
TRIAL_ROWS = 5000
AS_READ = {"layer": None, "use_rep": None, "normalization": "none"}  # the rows of trials are arrays


def train_briefly(estimator: Any, data: TrainingData, index: np.ndarray, purpose: str, **changes: Any) -> Any:
    """A clone with other arguments (`changes`), trained on the rows at `index` without messages."""
    trial = clone(estimator).set_params(
        modality=data.modality.name,
        supervision="none",
        group_mode="none",
        **AS_READ,
        random_state=derive_seed(data.seed, purpose),
        minutes=None,
        callbacks=None,
        verbose=False,
        **changes,
    )
    with warnings.catch_warnings(action="ignore"):  # a trial that fails has a low score
        return trial.fit(data.rows[index], np.asarray(data.labels)[index] if trial.reads_labels() else None)


def mean_of_processes(score: float, device: torch.device) -> float:
    """The mean of a score over the processes, which differ in BatchNorm statistics; with it, all choose the same."""
    return float(distributed.gather(torch.tensor([score], device=device)).mean())


def strength_at_distance(x: Tensor, seed: int) -> tuple[float, dict[str, float]]:
    """The strength of Gaussian noise at which rows get the distance `DISTANCE` from the data, and all distances."""
    x = x.flatten(1).float().unique(dim=0)
    noise = torch.randn(x.shape, generator=stream(seed, "strength", device=x.device), device=x.device)
    distances = {value: float(view_distance(x, x + value * noise)) for value in STRENGTHS}
    best = min(STRENGTHS, key=lambda value: abs(math.log(distances[value] / DISTANCE)))
    return best, {str(value): distance for value, distance in distances.items()}


def choose_strength(
    estimator: Any, name: str, changes: Mapping[str, Any], data: TrainingData, batch_size: int
) -> tuple[float, dict[str, float]]:
    """Choose the strength from `GRID` by brief trainings on 80 % of at most 5,000 rows, scored on the others by
    `viewsmith.evaluation.label_free.neighbor_r2`; returns it and all scores."""
    rows = data.rows
    order = torch.randperm(len(rows), generator=stream(data.seed, "strength"))[:TRIAL_ROWS].numpy()
    cut = max(1, len(order) // 5)
    held, kept = rows[order[:cut]], rows[order[cut:]]
    if len(held) < 5 or len(kept) < 20:
        warn(f"{len(rows)} rows are too few to choose {name}: using 1.0")
        return 1.0, {}
    epochs = max(1, TRIAL_STEPS // max(1, len(kept) // batch_size))
    scores = {}
    for value in GRID:
        with together():
            check_time()
        tried = {name: value, **changes, "epochs": epochs}
        trial = train_briefly(estimator, data, order[cut:], "strength trial", **tried)
        x_kept, x_held = (list(trial.raw_features(part).values())[-1] for part in (kept, held))
        score = neighbor_r2(trial.transform(kept), trial.transform(held), x_kept, x_held)
        scores[str(value)] = mean_of_processes(score, data.device)
    return max(GRID, key=lambda value: scores[str(value)]), scores


def with_strengths(
    estimator: Any, option: str, changes: Mapping[str, Any], options: O, data: TrainingData
) -> tuple[O, dict[str, float]]:
    """With the strengths of noise, and the scores of one that is "auto" and used: it is chosen without labels
    (`choose_strength`)."""
    chosen = {name: getattr(options, name) for name in sorted({"noise_strength", option})}
    automatic, scores = chosen[option] == "auto", dict[str, float]()
    chosen = {name: 1.0 if value == "auto" else value for name, value in chosen.items()}
    views = view_entries(options.view_maker, data.modality)
    if automatic and (option != "noise_strength" or any(view.tag("searches") == option for view in views)):
        if not data.modality.named_features:
            chosen[option], scores = choose_strength(estimator, option, changes, data, int(options.batch_size))
        elif len(data.x) < FEWEST:
            warn(f"{len(data.x)} rows are too few to choose {option}: using 1.0")
        else:
            order = torch.randperm(len(data.x), generator=stream(data.seed, "strength"))[:COMPARED]
            chosen[option], scores = strength_at_distance(data.x[order], data.seed)
    return dataclasses.replace(options, **chosen), scores
