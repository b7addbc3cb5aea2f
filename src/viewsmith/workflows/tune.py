"""Search of the options of a method: ranges and choices, trainings on train rows, scores on validation rows."""

import contextlib
import dataclasses
import itertools
import json
import math
import shutil
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from viewsmith.core.errors import InputError, MissingExtra, StoppedEarly, TrainingError, require
from viewsmith.core.files import locked_folder, read_json, write_json_atomic, write_text_atomic
from viewsmith.core.progress import html_table, with_progress
from viewsmith.core.registry import find, parse_range
from viewsmith.core.tensors import derive_seed
from viewsmith.data import Dataset
from viewsmith.data.dataset import validation_split
from viewsmith.data.options import ModelDataOptions
from viewsmith.estimator.base import ViewsmithEstimator
from viewsmith.estimator.inputs import codes_digest
from viewsmith.estimator.options import KINDS
from viewsmith.estimator.plan import fingerprint
from viewsmith.evaluation.differences import LOWER_IS_BETTER
from viewsmith.evaluation.leaderboard import WIDTH, aligned, beside
from viewsmith.evaluation.protocol import check_protocols, evaluate_embedding, scored_rows
from viewsmith.training.run import to_toml
from viewsmith.workflows.runs import data_record, fit_dataset, warnings_once

Values = dict[str, int | float | str]

# Positive ends that differ by such a factor are of a scale on which factors are equally likely, not differences.
LOGARITHMIC = 10

# Draws that are tried for a setting that is new; then a space of choices and whole numbers counts as exhausted.
DRAWS = 100

#: The space of a method that declares none, by option.
DEFAULT_SPACE = {"learning_rate": "0.0005..0.02"}


#: Dimensions by option: optuna's distributions of whole numbers, numbers or choices as text.
Space = dict[str, Any]


def read_space(texts: Mapping[str, str]) -> Space:
    """The space from ``LOW..HIGH`` or ``A,B,...`` by option."""
    return {name: _read(name, text) for name, text in texts.items()}


def _read(name: str, text: str) -> Any:
    distributions, found = check_optuna().distributions, parse_range(name, text)
    if isinstance(found, list):
        return distributions.CategoricalDistribution(found)
    first, last = found
    whole = isinstance(first, int) and isinstance(last, int)
    kind = distributions.IntDistribution if whole else distributions.FloatDistribution
    return kind(first, last, log=first > 0 and last >= LOGARITHMIC * first)


def examples(dimension: Any) -> tuple[Any, ...]:
    """Choices, or the ends and, unless only whole numbers are drawn, a number between them that is not whole."""
    if hasattr(dimension, "choices"):
        return tuple(dimension.choices)
    low, high = dimension.low, dimension.high
    return (low, high) if isinstance(low, int) else (low, high, low + (high - low) / math.e)


def shown(dimension: Any) -> str:
    """A dimension in words: ``5 to 50 (whole numbers, logarithmic)``, ``a, b or c``."""
    if hasattr(dimension, "choices"):
        return ", ".join(dimension.choices[:-1]) + f" or {dimension.choices[-1]}"
    whole = ["whole numbers"] if isinstance(dimension.low, int) else []
    kinds = [*whole, *(["logarithmic"] if dimension.log else [])]
    return f"{dimension.low:.12g} to {dimension.high:.12g}" + (f" ({', '.join(kinds)})" if kinds else "")


def default_space(method: str, modality: str) -> dict[str, str]:
    """Ranges by option that a method searches by default in a modality: its tag ``search``, of the modality or
    ``*``."""
    declared: Mapping[str, Mapping[str, str]] = find("method", method).tag("search", {})
    return dict(declared.get(modality) or declared.get("*") or DEFAULT_SPACE)


def check_optuna() -> Any:
    """The package optuna."""
    require("optuna", "tune", "the search of options")
    import optuna

    return optuna


def next_values(space: Space, tried: Sequence[tuple[Values, float | None]], seed: int) -> Values | None:
    """The values to try next by optuna's tree-structured Parzen estimator (Bergstra et al. 2011), the first ten random,
    a failure worse than all: a function of those tried and the seed alone."""
    optuna = check_optuna()
    complete, failed = optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED
    past = [
        optuna.trial.create_trial(
            params=values, distributions=space, value=score, state=failed if score is None else complete
        )
        for values, score in tried
    ]
    for draw in range(DRAWS):
        # A sampler of its own for each trial, because the state of a sampler is not saved.
        sampler = optuna.samplers.TPESampler(seed=derive_seed(seed, "tune", len(past), draw) % 2**32)
        with _quiet(optuna):
            study = optuna.create_study(direction="maximize", sampler=sampler)
            study.add_trials(past)
            values = dict(study.ask(space).params)
        if all(values != other for other, _ in tried):
            return values
    return None


@contextlib.contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """No lines of optuna about its studies."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


#: Options that a search neither draws nor gives to its trainings, with what is used instead.
RESERVED = {"random_state": "--seed", "minutes": "--budget, or epochs"}

#: Options with which the data are read, once for all trainings.
OF_DATA = ("modality", "supervision", *(field.name for field in dataclasses.fields(ModelDataOptions)))

#: Scores that are fractions of the validation rows.
ACCURACIES = ("linear", "knn", "svm", "softmax_50")
FILE, BEST = "tune.json", "best.toml"
Make = Callable[[Mapping[str, Any]], ViewsmithEstimator]


def tune(
    dataset: Dataset,
    out: Path,
    make: Make,
    search: Mapping[str, str],
    *,
    trials: int = 20,
    budget: float | None = None,
    metric: str | None = None,
    seed: int = 0,
) -> "Search":
    """Train with several settings, score each on validation rows, and write ``tune.json`` and ``best.toml``.

    Validation rows are a fifth of the labeled train rows (`viewsmith.data.dataset.validation_split`). The other
    train rows, with or without a label, are trained on. Test rows are not read. The first training has the default
    settings. The same call resumes, and gives what an uninterrupted one gives.

    Parameters
    ----------
    dataset : Dataset
        With labels. Of rows on disk a random sample is used (`Dataset.in_memory`).
    out : Path
        A new or empty folder, or that of the search to resume.
    make : callable
        From values of options by name to an estimator that is not fitted.
    search : mapping
        Ranges ``LOW..HIGH`` or choices ``A,B,...`` by option, see `viewsmith.workflows.tune`.
    trials : int
        Number of settings, the default settings included.
    budget : float, optional
        Minutes of all trainings and scores. A training that this ends is not scored; with more minutes it is resumed.
    metric : str, optional
        The score: a name from `viewsmith.evaluation.protocol.PROTOCOLS`, of numbers from `NUMBER_PROTOCOLS`; default:
        knn, of numbers knn_r2. It is fitted on the labeled rows among those that are trained on.
    seed : int
        Of the validation rows, of all trainings and of the search.

    Returns
    -------
    Search
        A dict of plain values, as in ``tune.json``: ``trials`` (for each: ``values``, ``score`` or ``failed``,
        ``seconds``), ``best`` (number of a trial; None if none has a score), ``status`` ("finished", "time limit" or
        "exhausted": no new setting was found), ``rows`` (numbers), and what the search is of.

    Raises
    ------
    InputError
        Unknown options, ranges or metrics, data without labels, a folder with another search, default settings that do
        not work with the data. Other settings that do not work, or diverge, are trials that failed.
    MissingExtra
        optuna is not installed.
    StoppedEarly
        A signal has stopped a training; the same call resumes.
    """
    check_optuna()
    metric = metric or ("knn" if dataset.target == "class" else "knn_r2")
    check_protocols([metric], dataset.target)
    space, default = read_space(search), make({})
    check_space(space, make, dataset.modality)
    by_groups = dataset.groups is not None and (dataset.split == "groups" or default.group_mode == "none")
    n_rows, dataset = len(dataset.x), dataset.in_memory()
    split = validation_split(dataset, seed, whole_groups=by_groups)
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file: choose an empty or new folder")
    with locked_folder(out):
        sampled = {} if len(dataset.x) == n_rows else {"sampled_from": n_rows}
        state = _opened(out, _record(split, default, search, metric, seed, sampled))
        try:
            state["status"] = _search(state, split, out, make, space, trials, budget)
        except InputError:
            if not state["trials"]:  # the default settings do not work
                _remove(out / FILE, out / "trial-0")
            raise
        if state["best"] is not None:
            found = settings(make(state["trials"][state["best"]]["values"]))
            write_text_atomic(out / BEST, tomli_w.dumps({"method": default.name} | found))
        write_json_atomic(out / FILE, state)
    return Search(state)


def check_space(space: Space, make: Make, modality: str) -> None:
    """Raise InputError unless all options exist, if need be in a searched part, and take the ends or choices."""
    if not space:
        raise InputError("no option is searched: give --search KEY=LOW..HIGH or --search KEY=A,B")
    for name in space:
        if name in RESERVED:
            raise InputError(f"{name} cannot be searched: use {RESERVED[name]}")
        if name in OF_DATA:
            raise InputError(f"{name} cannot be searched, because the data are read once: leave it out of --search")
    parts = {name: examples(dimension) for name, dimension in space.items() if name in KINDS}
    for part, values in parts.items():
        for each in itertools.chain(*(str(value).split("+") for value in values)):
            if each != "auto":
                find(KINDS[part], each, modality)
    for name, dimension in space.items():
        others = {part: values for part, values in parts.items() if part != name}
        chosen = [{}, *(dict(zip(others, each, strict=True)) for each in itertools.product(*others.values()))]
        for value in examples(dimension):
            _check_one(make, [given | {name: value} for given in chosen])


def _check_one(make: Make, settings: Sequence[Values]) -> None:
    """Raise the error of the first settings, unless some of them work."""
    errors = []
    for values in settings:
        try:
            make(values)
            return
        except InputError as error:
            errors.append(error)
    raise errors[0]


def _search(
    state: dict[str, Any], split: Dataset, out: Path, make: Make, space: Space, trials: int, budget: float | None
) -> str:
    """Add trials to the state, each of which is written; returns why the search ended."""
    done, warned = state["trials"], set[str]()
    _remove(out / f"trial-{len(done) - 1}")  # of a process that was killed after it had written the trial
    for number in with_progress(range(len(done), trials), "tune", trials - len(done), "trials"):
        left = None if budget is None else budget - sum(trial["seconds"] for trial in done) / 60
        if left is not None and left <= 0:
            return "time limit"
        tried = [(trial["values"], trial["score"]) for trial in done[1:]]
        values = {} if number == 0 else next_values(space, tried, state["seed"])
        if values is None:
            return "exhausted"
        run = out / f"trial-{number}"
        with warnings_once(warned):
            trial = _trial(partial(make, values), split, run, state["metric"], left, must_work=number == 0)
        if trial is None:
            return "time limit"
        done.append({"number": number, "values": values} | trial)
        scored = [each for each in done if each["score"] is not None]
        best = min if state["metric"] in LOWER_IS_BETTER else max
        state["best"] = best(scored, key=lambda each: each["score"])["number"] if scored else None
        write_json_atomic(out / FILE, state)
        _remove(run)
    return "finished"


def _trial(
    make: Callable[[], ViewsmithEstimator],
    split: Dataset,
    run: Path,
    metric: str,
    minutes: float | None,
    *,
    must_work: bool,
) -> dict[str, Any] | None:
    """Score, or why there is none, and seconds of a training; None if its time is over."""
    started = time.monotonic()
    try:
        model = make().set_params(minutes=minutes)
        used = split if model.group_mode != "none" else dataclasses.replace(split, groups=None)
        fit_dataset(model, used, run=run, resume=True, context=data_record(split))
        if model.status_ == "interrupted":
            raise StoppedEarly(f"interrupted in {run.parent}: the same command resumes")
        if model.status_ == "time limit":
            return None
        scoring = time.monotonic()
        score = _score(model, split, metric)
        return {"score": score, "seconds": model.summary_["seconds"]["training"] + time.monotonic() - scoring}
    except (InputError, TrainingError) as error:
        if isinstance(error, MissingExtra) or (must_work and isinstance(error, InputError)):
            raise
        return {"score": None, "failed": str(error), "seconds": time.monotonic() - started}


def _score(model: ViewsmithEstimator, split: Dataset, metric: str) -> float:
    """The score of the validation rows, by a classifier that is fitted on the labeled train rows."""
    fitted = scored_rows(split, None).train
    y, y_test, groups = split.y_train, split.y_test, split.groups_train
    assert y is not None and y_test is not None
    train, test = model.transform(split.x_train[fitted]), model.transform(split.x_test)
    options: Any = {"name": "the representation", "groups": None if groups is None else groups[fitted]}
    options["target"] = split.target
    score = evaluate_embedding(train, y[fitted], test, y_test, protocols=[metric], **options)[metric]
    if not math.isfinite(score):
        raise InputError(
            f"{metric} of {len(y_test)} validation rows is not a number: take another --metric, such as knn"
        )
    return score


def _record(
    split: Dataset,
    model: ViewsmithEstimator,
    search: Mapping[str, str],
    metric: str,
    seed: int,
    sampled: dict[str, int],
) -> dict[str, Any]:
    """What a search is of; another search in the same folder is refused."""
    fitted, y, y_test = scored_rows(split, None).train, split.y_train, split.y_test
    assert y is not None and y_test is not None
    classes, codes = np.unique(np.concatenate([y[fitted], y_test]), return_inverse=True)
    rows = {"train": len(y), "fitted": int(fitted.sum()), "validation": len(y_test)}
    rows |= {"classes": len(classes)} if split.target == "class" else {}
    content = codes if split.target == "class" else np.concatenate([y[fitted], y_test])
    return {
        "method": model.name,
        "settings": settings(model),
        "search": dict(search),
        "metric": metric,
        "seed": seed,
        "data": split.source.encode("utf-8", "replace").decode("utf-8"),
        "content": f"{fingerprint(split.x)} {codes_digest(content)}",
        "rows": rows | sampled,
    }


def settings(model: ViewsmithEstimator) -> dict[str, Any]:
    """Options of a model that differ from the defaults of its method, as `viewsmith fit --config` takes them."""
    defaults = {field.name: field.default for field in dataclasses.fields(model)}
    given = model.configuration()["parameters"]
    return {name: to_toml(value) for name, value in given.items() if name != "random_state" and value != defaults[name]}


def _opened(out: Path, record: dict[str, Any]) -> dict[str, Any]:
    """The search in a folder, to be resumed; a new one in an empty folder."""
    file = out / FILE
    if not file.exists():
        # The lock, and a temporary file of a process that was killed, are not files of the user.
        if any(not path.name.startswith((".lock", f".{file.stem}-")) for path in out.iterdir()):
            raise InputError(f"{out} exists and is not a search of viewsmith: choose an empty or new folder")
        state = record | {"trials": [], "best": None}
        write_json_atomic(file, state)
        return state
    try:
        state = read_json(file)
        before = {name: state[name] for name in record}
        if not all({"number", "values", "score", "seconds"} <= trial.keys() for trial in state["trials"]):
            raise KeyError("trials")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{file} is damaged ({type(error).__name__}: {error}): restore it or delete {out}") from error
    for name, now in json.loads(json.dumps(record)).items():
        if name != "data" and before[name] != now:
            differs = name not in ("content", "rows")
            difference = f"{name} is {before[name]!r} there, {now!r} now" if differs else "of other rows or labels"
            raise InputError(f"{out} has another search ({difference}): choose another folder, or delete this one")
    return state


def _remove(*paths: Path) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


class Search(dict[str, Any]):
    """The result of `tune`, a dict; a notebook shows it as a table."""

    def _repr_html_(self) -> str:
        header, *rows = _lines(self)
        return html_table("Search of options", rows, header, " ".join(_notes(self)))


def _lines(result: Mapping[str, Any]) -> list[list[str]]:
    """The cells of the table of trials, with its header; the best is marked with ``*``."""
    searched, metric, best = list(result["search"]), result["metric"], result["best"]
    lines = [["trial", metric, *searched, "seconds"]]
    for trial in result["trials"]:
        failed = trial["score"] is None
        score = "failed" if failed else f"{trial['score']:.3f}" + ("*" if trial["number"] == best else "")
        values = [trial["values"].get(name, "default") for name in searched]
        values = [f"{value:.4g}" if isinstance(value, float) else str(value) for value in values]
        lines.append([str(trial["number"]), score, *values, f"{trial['seconds']:.0f}"])
    return lines


def format_search(result: Mapping[str, Any]) -> str:
    """The trials of `tune` as plain text, and what their scores are of."""
    table = beside([aligned(column) for column in zip(*_lines(result), strict=True)])
    failures = [f"trial {each['number']} failed: {each['failed']}" for each in result["trials"] if each.get("failed")]
    notes = [textwrap.fill(note, WIDTH, subsequent_indent="    ") for note in _notes(result)]
    return "\n".join([table, "", *notes, *failures])


def _notes(result: Mapping[str, Any]) -> list[str]:
    rows, trials, metric = result["rows"], result["trials"], result["metric"]
    of_more = f" (all a random sample of {rows['sampled_from']:,} rows)" if "sampled_from" in rows else ""
    searched = "; ".join(f"{name} {shown(dimension)}" for name, dimension in read_space(result["search"]).items())
    notes = [
        f"Searched for {result['method']}: {searched}.",
        f"Scored on {rows['validation']:,} of {rows['fitted'] + rows['validation']:,} labeled train rows (seed "
        f"{result['seed']}), trained on {rows['train']:,} other rows{of_more}; test rows were not used.",
    ]
    if result["status"] == "time limit":
        notes.append("The time of --budget is over: the same command with more minutes resumes.")
    if result["status"] == "exhausted":
        notes.append("No new setting was found: the ranges allow few.")
    if result["best"] is None:
        return notes
    score, default = trials[result["best"]]["score"], trials[0]["score"]
    error = math.sqrt(score * (1 - score) / rows["validation"]) if metric in ACCURACIES else 0.0
    precision = f"; the standard error of a score is {error:.3f}" if error else ""
    if result["best"] == 0:
        return [*notes, f"No setting was better than the default: {metric} {score:.3f}{precision}."]
    gain = "the default failed" if default is None else f"{default:.3f} with the default, +{score - default:.3f}"
    chance = "Such a gain can be chance, and it" if default is not None and score - default < 2 * error else "This gain"
    return [
        *notes,
        f"Best: trial {result['best']}, {metric} {score:.3f} ({gain}{precision}).",
        f"{chance} is optimistic, because the best was chosen on these rows. Test rows tell what remains of it.",
    ]
