"""The values that a search of options draws from: ranges and choices in text, and the next setting to try."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viewsmith.core.errors import InputError, MissingExtra
from viewsmith.core.messages import duplicates
from viewsmith.core.random import derive_seed
from viewsmith.core.registry import find

Values = dict[str, int | float | str]

# Positive ends that differ by such a factor are of a scale on which factors are equally likely, not differences.
LOGARITHMIC = 10
# Draws that are tried for a setting that is new; then a space of choices and whole numbers counts as exhausted.
DRAWS = 100
#: The space of a method that declares none, by option.
DEFAULT_SPACE = {"learning_rate": "0.0005..0.02"}


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included: whole numbers if both are."""

    low: int | float
    high: int | float

    @property
    def whole(self) -> bool:
        """Whether only whole numbers are drawn."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def logarithmic(self) -> bool:
        """Whether logarithms are drawn: the ends are positive and differ by a factor of at least 10."""
        return self.low > 0 and self.high >= LOGARITHMIC * self.low

    @property
    def examples(self) -> tuple[int | float, ...]:
        """The ends and, unless only whole numbers are drawn, a number between them that is not whole."""
        return (
            (self.low, self.high) if self.whole else (self.low, self.high, self.low + (self.high - self.low) / math.e)
        )

    def __str__(self) -> str:
        kinds = [*(["whole numbers"] if self.whole else []), *(["logarithmic"] if self.logarithmic else [])]
        return f"{self.low} to {self.high}" + (f" ({', '.join(kinds)})" if kinds else "")


@dataclass(frozen=True)
class Choices:
    """One of several values, as text."""

    examples: tuple[str, ...]

    def __str__(self) -> str:
        return ", ".join(self.examples[:-1]) + f" or {self.examples[-1]}"


Space = dict[str, Range | Choices]


def read_space(texts: Mapping[str, str]) -> Space:
    """The space from ``LOW..HIGH`` or ``A,B,...`` by option.

    Raises
    ------
    InputError
        A text that is neither; the message names the option.
    """
    return {name: _read(name, text) for name, text in texts.items()}


def _read(name: str, text: str) -> Range | Choices:
    low, dots, high = (part.strip() for part in text.partition(".."))
    if dots:
        found = _number(name, text, low), _number(name, text, high)
        if found[0] >= found[1]:
            raise InputError(f"the range of {name} is {text!r}, expected LOW..HIGH with LOW below HIGH")
        return Range(*found)
    choices = [part.strip() for part in text.split(",")]
    if len(choices) < 2 or not all(choices):
        raise InputError(f"the range of {name} is {text!r}, expected LOW..HIGH, or two or more choices, A,B")
    if twice := duplicates(choices):
        raise InputError(f"the range of {name} has {twice[0]!r} twice: leave one out")
    return Choices(tuple(choices))


def _number(name: str, text: str, end: str) -> int | float:
    if re.fullmatch(r"[+-]?\d+", end):
        return int(end)
    with contextlib.suppress(ValueError):
        if math.isfinite(number := float(end)):
            return number
    raise InputError(f"the range of {name} is {text!r}, but {end!r} is not a finite number: expected LOW..HIGH")


def default_space(method: str, domain: str) -> dict[str, str]:
    """Ranges by option that a method searches by default in a domain: its trait ``search``, of the domain or ``*``."""
    declared: Mapping[str, Mapping[str, str]] = find("method", method).trait("search", {})
    return dict(declared.get(domain) or declared.get("*") or DEFAULT_SPACE)


def check_optuna() -> Any:
    """The package optuna.

    Raises
    ------
    MissingExtra
        It is not installed.
    """
    try:
        import optuna
    except ImportError as error:
        raise MissingExtra("optuna", "tune", "the search of options") from error
    return optuna


def next_values(space: Space, tried: Sequence[tuple[Values, float | None]], seed: int) -> Values | None:
    """The values to try next: a function of those tried, their scores and the seed alone, so that a search resumes.

    A tree-structured Parzen estimator (Bergstra et al. 2011), by optuna: the first ten settings are random. A setting
    that failed is worse than all others.

    Parameters
    ----------
    space : dict
        From `read_space`.
    tried : sequence of (dict, float or None)
        Values and score (higher is better) of each setting; None: it failed.
    seed : int

    Returns
    -------
    dict or None
        Values by option. None: 100 draws were settings that have been tried.

    Raises
    ------
    MissingExtra
        optuna is not installed.
    """
    optuna = check_optuna()
    distributions = {name: _distribution(optuna, dimension) for name, dimension in space.items()}
    complete, failed = optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED
    past = [
        optuna.trial.create_trial(
            params=values, distributions=distributions, value=score, state=failed if score is None else complete
        )
        for values, score in tried
    ]
    for draw in range(DRAWS):
        # A sampler of its own for each trial, because the state of a sampler is not saved.
        sampler = optuna.samplers.TPESampler(seed=derive_seed(seed, "tune", len(past), draw) % 2**32)
        with _quiet(optuna):
            study = optuna.create_study(direction="maximize", sampler=sampler)
            study.add_trials(past)
            values = dict(study.ask(distributions).params)
        if all(values != other for other, _ in tried):
            return values
    return None


def _distribution(optuna: Any, dimension: Range | Choices) -> Any:
    if isinstance(dimension, Choices):
        return optuna.distributions.CategoricalDistribution(dimension.examples)
    kind = optuna.distributions.IntDistribution if dimension.whole else optuna.distributions.FloatDistribution
    return kind(dimension.low, dimension.high, log=dimension.logarithmic)


@contextlib.contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """No lines of optuna about its studies."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
