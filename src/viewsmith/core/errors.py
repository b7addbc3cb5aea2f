"""Errors for the user, each one line with what was given, what was expected and what to do; checks and texts for
them."""

import contextlib
import difflib
import importlib.util
import os
import shlex
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any, get_args


def printable(text: object) -> str:
    """`text` with control characters, which a terminal would obey, as escapes such as ``\\x1b``; line breaks stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in str(text))


class InputError(ValueError):
    """Invalid data, option or file given by the user. The command line prints the message and exits with 2."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(printable(each) if isinstance(each, str) else each for each in args))


class InUseError(InputError):
    """Another process writes to the folder now. Nothing in it may be removed."""


class MissingExtra(ImportError, InputError):
    """An optional dependency is not installed; the message names the extra that installs it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed; "
            f"install it with: pip install 'viewsmith[{extra}]'"
        )


def require(package: str, extra: str, purpose: str) -> None:
    """Raise MissingExtra unless an optional package is installed; it is not imported."""
    if importlib.util.find_spec({"pillow": "PIL"}.get(package, package)) is None:
        raise MissingExtra(package, extra, purpose)


class TrainingError(RuntimeError):
    """Training cannot continue, for instance because a loss is not finite. The command line exits with 1."""


class StoppedEarly(RuntimeError):
    """A signal or a time limit stopped work that can be resumed. The command line exits with 130."""


def check(holds: bool, setting: str, given: object, expected: str) -> None:
    """Raise InputError with what was given and what was expected, unless `holds`."""
    if not holds:
        raise InputError(f"{setting} is {given}, expected {expected}")


def check_choice(setting: str, given: object, choices: Any) -> None:
    """Raise InputError unless a setting is one of the values of a Literal type."""
    known = get_args(choices)
    if given not in known:
        raise InputError(f"{setting} is {given!r}, expected {', '.join(known[:-1])} or {known[-1]}")


def check_temperature(setting: str, given: Any) -> None:
    """Raise InputError unless a temperature is above 0 and finite."""
    check(0 < given < float("inf"), setting, given, "a number above 0")


def check_fraction(setting: str, given: float) -> None:
    """Raise InputError unless a number is from 0 to 1."""
    check(0 <= given <= 1, setting, given, "a number from 0 to 1")


def check_weight(setting: str, given: float) -> None:
    """Raise InputError unless the weight of a term is at least 0 and finite."""
    check(0 <= given < float("inf"), setting, given, "a number of at least 0")


def one_line(text: object, limit: int = 300) -> str:
    """`text` without line breaks and control characters, cut at `limit` characters."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."


def error_text(error: BaseException) -> str:
    """Type and message, if it has one, of an exception on one line: ``ValueError: ...``."""
    return " ".join([type(error).__name__ + (":" if str(error).strip() else ""), *str(error).split()])


def name_list(names: Sequence[object], limit: int = 5) -> str:
    """The first `limit` names, separated by commas, and the number of the remaining ones."""
    shown = ", ".join(one_line(name, 60) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def join_names(names: Sequence[str], last: str = "or") -> str:
    """Names in quotes, joined for a sentence: ``'a', 'b' or 'c'``."""
    quoted = [repr(name) for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} {last} {quoted[-1]}"


def pluralize(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun: ``1 column``, ``2 columns``. `many` is the plural; by default `one` with an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


#: What other libraries call an option, by its name here.
_ELSEWHERE = {
    "learning_rate": "lr",
    "weight_decay": "wd",
    "epochs": "max_epochs n_epochs num_epochs max_iter n_iter",
    "random_state": "seed random_seed",
    "temperature": "tau",
    "encoder": "backbone model network arch",
    "framework": "loss objective criterion method",
    "n_components": "embedding_dim embed_dim latent_dim n_latent hidden_dim output_dim feature_dim",
    "projector_dims": "proj_dim projection_dim",
    "views": "augment augmentation augmentations transform transforms",
    "out": "o output output_dir",
    "device": "gpu cuda",
}
HABITS = {name: ours for ours, theirs in _ELSEWHERE.items() for name in theirs.split()}


def similar(name: str, known: Sequence[str]) -> list[str]:
    """Known names that an unknown one may mean: what it is called in other libraries, or up to three like it."""
    habit = HABITS.get(name, name)
    return [habit] if habit in known else difflib.get_close_matches(name, known, n=3, cutoff=0.6)


def suggest(name: str, known: Sequence[str], source_name: str) -> str:
    """Hint for the message about an unknown name: close matches if there are any, else the first known names."""
    close = similar(str(name), known)
    return f"did you mean {name_list(close)}?" if close else f"{source_name}: {name_list(known)}"


def quoted(text: object) -> str:
    """`text`, such as a path, as one word of a shell command that is shown to be copied."""
    word = str(text) if not str(text).startswith("-") else f"./{text}"
    if word.isprintable():
        return shlex.quote(word)
    escaped = (
        c if c.isprintable() and c not in "\\'" else "".join(f"\\x{b:02x}" for b in os.fsencode(c)) for c in word
    )
    return f"$'{''.join(escaped)}'"


def duplicates(names: Sequence[str]) -> list[str]:
    """Names that occur more than once."""
    return [name for name, count in Counter(names).items() if count > 1]


def check_unique(names: Sequence[str], fault: str, advice: str = "rename them") -> None:
    """Raise InputError for names that occur more than once."""
    if twice := duplicates(names):
        raise InputError(f"{fault}: {name_list(twice)}; {advice}")


#: Lines that were said within `lines_once`; None outside of it.
_SAID: ContextVar[set[str] | None] = ContextVar("said", default=None)


def say(line: str) -> None:
    """Print a line on stderr; within `lines_once` only the first time."""
    said = _SAID.get()
    if said is None or line not in said:
        print(printable(line), file=sys.stderr)
    if said is not None:
        said.add(line)


@contextlib.contextmanager
def undamaged(
    file: object, way: str, kinds: type[Exception] | tuple[type[Exception], ...] = ValueError
) -> Iterator[None]:
    """Within the context errors of these kinds say that a file is damaged, and what to do."""
    try:
        yield
    except kinds as error:
        raise InputError(f"{file} is damaged ({error}): {way}") from error


@contextlib.contextmanager
def lines_once() -> Iterator[None]:
    """Within the context, `say` does not repeat a line: several trainings on the same data say the same of them."""
    token = _SAID.set(set() if (said := _SAID.get()) is None else said)
    try:
        yield
    finally:
        _SAID.reset(token)


def warn(message: str) -> None:
    """Warn the user, at the line of the code outside of viewsmith that called it."""
    level, depth, frame = 1, 1, sys._getframe(0)
    while frame.f_back is not None:
        # The outermost frame counts: a user's object may be between frames, and decorators of torch are around some.
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package == "viewsmith" or (package == "torch" and level == depth):
            level = depth + 1
        depth, frame = depth + 1, frame.f_back
    warnings.warn(printable(message), UserWarning, stacklevel=level)
