"""Error messages of commands, one line each, and exit codes."""

import contextlib
import errno
import os
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import typer

from viewsmith.core.errors import HABITS, InputError, StoppedEarly, TrainingError, printable

#: What gloo, NCCL and the store of torch.distributed report when a process of the group is gone.
GONE = "Connection (closed|reset) by peer|Broken pipe|Timed out waiting .*(recv|send|operat)|nccl(Remote|System)Error"


def explain(error: BaseException) -> tuple[int, str]:
    """Exit code and message of an error; the message has one line."""
    if isinstance(error, typer.Exit):
        return error.exit_code, ""
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return 130, "interrupted"
    if isinstance(error, BrokenPipeError):
        # The reader has closed the pipe (`| head`); without this, Python reports it again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1, ""
    if isinstance(error, typer.TyperException):
        return 2, usage(error)
    text = " ".join(str(error).split())
    for kind, code in ((InputError, 2), (TrainingError, 1), (StoppedEarly, 130)):
        if isinstance(error, kind):
            return code, text
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        file = error.filename or "a file"
        return 2, f"no space left to write {file}: existing files are unchanged; free some space"
    if isinstance(error, OSError) and error.filename is not None:
        return 2, f"cannot use {error.filename}: {error.strerror}; choose another path"
    if isinstance(error, RuntimeError) and re.search(GONE, text):
        from viewsmith.core.distributed import LOST

        return 1, LOST
    if isinstance(error, MemoryError) or re.search("(not enough|can't allocate|out of) memory", text):
        return (
            2,
            f"not enough memory ({text}): use a smaller batch_size, image_size, hidden or n_components, or fewer rows",
        )
    raised_in = [frame.filename.replace(os.sep, "/") for frame in traceback.extract_tb(error.__traceback__)[-1:]]
    if type(error) is ValueError and raised_in and raised_in[0].endswith("sklearn/utils/validation.py"):
        return 2, text  # messages of scikit-learn's input validation are for users
    return 1, f"{type(error).__name__}: {text or _unwritten(error)}; {_whose(error)}"


def _unwritten(error: BaseException) -> str:
    """What stands for a missing message: of a call of an abstract method, the class that lacks it."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if not isinstance(error, NotImplementedError) or not frames:
        return "no message"
    return f"{type(frames[-1].f_locals.get('self')).__name__} has no {frames[-1].f_code.co_name}"


def _whose(error: BaseException) -> str:
    """Where an unexpected error is from: a plug-in in which it was raised, or from which that was called, or us."""
    registry = sys.modules.get("viewsmith.core.registry")
    packages = registry.others() if registry else []
    for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package in packages:
            return f"raised in the plug-in {package}, {frame.f_code.co_filename}, line {line}: --debug shows all"
    if packages:
        return f"a bug in a plug-in ({', '.join(packages)}) or in viewsmith: --debug shows where"
    return "a bug in viewsmith: report it with the output of --debug"


def leave(code: int) -> NoReturn:
    """End the process; if it was forked, or is in a group left by an error, at once: what ends a program would wait for
    processes that have died, and write to all objects, so that a forked process would copy what it shares."""
    distributed = sys.modules.get("viewsmith.core.distributed")
    if distributed is not None and (distributed.forked or distributed.is_distributed()):
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(code)
    raise SystemExit(code)


def echo(text: str, *, err: bool = False) -> None:
    """Print a text; for people, without control characters, which names of files may have; for programs as it is."""
    plain = err or (sys.stdout is not None and sys.stdout.isatty())
    print(printable(text) if plain else text, file=sys.stderr if err else sys.stdout, flush=True)


#: What other programs call a command, by its name here.
_ELSEWHERE = {
    "fit": "train pretrain run",
    "embed": "transform encode predict",
    "evaluate": "test score",
    "compare": "benchmark",
    "views": "augment",
    "methods": "list info",
    "--help": "help",
    "--version": "version",
}
COMMANDS = {name: ours for ours, theirs in _ELSEWHERE.items() for name in theirs.split()}


def usage(error: typer.TyperException) -> str:
    """Message of a usage error: what is wrong, and which help to read."""
    text = error.format_message()
    if (unknown := re.match(r"No such command '(\w+)'", text)) and (meant := COMMANDS.get(unknown[1])):
        text = f"{unknown[0]}; did you mean {meant}?"
    cause: Any = error.__cause__
    if hasattr(cause, "errors"):  # typer's message does not have the given value
        detail = cause.errors()[0]
        option = error.param.get_error_hint().strip("'")  # type: ignore[attr-defined]
        text = f"{option} is {str(detail['input'])!r}, expected {detail['msg'].removeprefix('Input should be ')}"
        text = text.split(", unable")[0]
    if getattr(error, "option_name", None) and (hint := _meant(error)):
        text = f"No such option: {error.option_name}; {hint}"  # type: ignore[attr-defined]
    extra = re.search(r"extra argument\S* \(([^ )]+)", text)
    if extra and os.path.exists(extra[1].rstrip(")")):
        text = f"{text.rstrip('.')}; give one file, or a folder that has all of them"
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "viewsmith"
    return f"{' '.join(text.split()).rstrip('.')}; see `{path} --help`"


def _meant(error: Any) -> str | None:
    """Hint for an unknown flag: a flag by the name that it has in other libraries, or an option that `--set` sets."""
    from viewsmith.cli import early

    params = error.ctx.command.params if error.ctx else []
    flags = {p.name: p.opts[0] for p in params} | {p.opts[0].lstrip("-"): p.opts[0] for p in params}
    name = str(error.option_name).lstrip("-").replace("-", "_")
    habit = HABITS.get(name, name)
    for meant in (f"{name}s", name.removesuffix("s"), habit):
        if flag := flags.get(meant):
            return f"did you mean {flag}?"
    options = {option for each in early.content()["classes"].values() for option in each["options"]}
    return f"set it with --set {habit}=VALUE" if "set_" in flags and habit in options else None


def cut(message: str, limit: int = 600) -> str:
    """Remove the middle of a very long message, such as one with all columns of a table; a line of code stays whole."""
    whole = len(message) <= limit or "python -c" in message
    return message if whole else f"{message[: limit - 200]} ... {message[-200:]}"


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name `path`, not a temporary file beside it, in system errors while it is written."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        # safetensors reports the system error only as text; numpy reports an incomplete write without a reason.
        found = re.search(r"\(os error (\d+)\)", str(error))
        code = int(found[1]) if found else getattr(error, "errno", None)
        if type(error) is OSError and code is None:
            code = errno.ENOSPC
        if not isinstance(code, int):
            raise
        raise OSError(code, os.strerror(code), str(path)) from error


def show_warning(message: Any, *_: Any, said: set[str], **__: Any) -> None:
    """Print a warning as a line, once. All processes of torchrun read the same data: the first one warns for all."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and os.environ.get("RANK", "0") != "0":
        return
    line = printable(" ".join(str(message).split()))
    if line not in said:
        said.add(line)
        print(f"warning: {line}", file=sys.stderr)
