"""What the speed cases share: their table, options, interleaved timing, memory, medians, and the results file.

A case is a function with the decorator `case`. It gets the options and yields rows, which go to results/NAME.jsonl.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import multiprocessing
import os
import random
import resource
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.common.runner import RESULTS, append, when
from viewsmith.training.run import environment

Work = Callable[[], object]
Clock = Callable[[], float]
Seconds = dict[str, list[float]]
Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A function that yields rows, and its options: numbers with their defaults, --device, and others by flag."""

    measure: Callable[[argparse.Namespace], Iterable[Row]]
    numbers: dict[str, int]
    device: bool
    options: Mapping[str, Mapping[str, Any]]

    @property
    def parser(self) -> argparse.ArgumentParser:
        """Its options, --threads and --quick; the help is its docstring."""
        name, doc = self.measure.__name__, inspect.getdoc(self.measure)
        made = argparse.ArgumentParser(
            name, description=doc, formatter_class=argparse.RawDescriptionHelpFormatter, add_help=True
        )
        for option, default in ({"threads": 1} | self.numbers).items():
            made.add_argument(f"--{option}", type=int, default=default, help=f"default {default}")
        made.add_argument("--quick", action="store_true", help="test the case: one round of small sizes; no results")
        made.set_defaults(device="cpu")
        if self.device:
            made.add_argument("--device", choices=["cpu", "cuda"])
        for flag, given in self.options.items():
            made.add_argument(flag, **given)
        return made

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse the options, and set the number of threads and the global seed."""
        given = self.parser.parse_args(arguments)
        if given.quick and "rounds" in given:
            given.rounds = 1
        torch.set_num_threads(given.threads)
        torch.manual_seed(0)
        return given


CASES: dict[str, Case] = {}


def case(
    *, device: bool = False, options: Mapping[str, Mapping[str, Any]] | None = None, **numbers: int
) -> Callable[[Callable[[argparse.Namespace], Iterable[Row]]], Callable[[argparse.Namespace], Iterable[Row]]]:
    """Add a function to the table under its own name."""

    def add(measure: Callable[[argparse.Namespace], Iterable[Row]]) -> Callable[[argparse.Namespace], Iterable[Row]]:
        CASES[measure.__name__] = Case(measure, numbers, device, options or {})
        return measure

    return add


def fresh(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a function in a new process, with one thread: what it needs begins at nothing."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        return pool.submit(function, *arguments).result()


def peak() -> int:
    """Largest resident memory of this process so far, in bytes; `getrusage` would include the parent process."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def clock(device: str = "cpu", *, wall: bool = True) -> Clock:
    """Function that returns wall time (on a GPU, after its work is done) or CPU time of this process, in seconds."""
    if device == "cpu":
        return time.perf_counter if wall else time.process_time

    def now() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    return now


def time_interleaved(
    works: Mapping[str, Work],
    rounds: int,
    now: Clock,
    *,
    warm: int = 1,
    shuffle: bool = False,
    repeats: Mapping[str, int] | None = None,
) -> Seconds:
    """Time all functions once in every round; return the seconds of each function by round.

    The first `warm` rounds are not recorded. `shuffle`: each round has a random order, because the memory that one
    function allocates and frees changes the time of the next one. `repeats`: number of calls of a short function in
    each round; their mean is recorded.
    """
    seconds: Seconds = {name: [] for name in works}
    order, rng = list(works), random.Random(0)
    for number in range(warm + rounds):
        if shuffle:
            rng.shuffle(order)
        for name in order:
            calls = (repeats or {}).get(name, 1)
            started = now()
            for _ in range(calls):
                works[name]()
            if number >= warm:
                seconds[name].append((now() - started) / calls)
    return seconds


def process(*arguments: object, limit: int | None = None) -> dict[str, float]:
    """Run a process; its wall and CPU seconds and peak memory, in GB of 10^9 bytes.

    A process that needs more than `limit` CPU seconds is ended; `more_than` is then what it used, at most the limit.

    Raises
    ------
    RuntimeError
        It failed.
    """
    given, (_, hard) = [str(each) for each in arguments], resource.getrlimit(resource.RLIMIT_CPU)
    started = time.perf_counter()
    number = os.posix_spawn(given[0], given, dict(os.environ))
    if limit is not None:
        resource.prlimit(number, resource.RLIMIT_CPU, (limit, hard))
    peak, ended = 0, 0
    # The largest memory that wait4 returns is at least that of this process, so the child's own is read meanwhile.
    while not ended:
        time.sleep(0.05)
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{number}/status").read_text(encoding="ascii", errors="replace").splitlines()
            peak = max([peak, *(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))])
        ended, status, used = os.wait4(number, os.WNOHANG)
    late = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU
    if status and not late:
        raise RuntimeError(f"{' '.join(given[1:4])} ended with {os.waitstatus_to_exitcode(status)}")
    found = {
        "wall": round(time.perf_counter() - started, 1),
        "cpu": round(used.ru_utime + used.ru_stime, 1),
        "peak_gb": round(peak * 1024 / 1e9, 2),
    }
    return found | {"more_than": min(limit, found["cpu"])} if late and limit is not None else found


def processes_below(parent: int) -> dict[int, tuple[int, float]]:
    """By number, the parents and CPU seconds of all processes that a process, or one of these, has started."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            found[int(entry.name)] = int(fields[1]), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    below, more = {parent}, True
    while more:
        new = {number for number, (above, _) in found.items() if above in below} - below
        below, more = below | new, bool(new)
    return {number: found[number] for number in below - {parent}}


@contextlib.contextmanager
def watched(found: dict[str, Any]) -> Iterator[None]:
    """Put CPU seconds and the largest memory of the processes that this one starts into `found`.

    They are looked at four times a second. ``cpu_of`` has the CPU seconds by the name of a program. ``peak_gb`` is the
    sum of proportional set sizes, in which shared pages count once; ``private_gb`` is what no other process has of
    them, ``started_gb`` that of the processes that this one started itself, which with torchrun do not train.
    """
    ended, peak, cpu, names = threading.Event(), [(0.0, 0.0, 0.0)], dict[int, float](), dict[int, str]()

    def watch() -> None:
        while not ended.wait(0.25):
            total = started = private = 0
            for number, (above, seconds) in processes_below(os.getpid()).items():
                cpu[number] = seconds
                with contextlib.suppress(OSError):
                    names[number] = Path(f"/proc/{number}/comm").read_text().strip()
                    lines = Path(f"/proc/{number}/smaps_rollup").read_text().splitlines()[1:]
                    sizes = {line.split()[0]: int(line.split()[1]) * 1024 for line in lines}
                    total, started = total + sizes["Pss:"], started + sizes["Pss:"] * (above == os.getpid())
                    private += sizes["Private_Clean:"] + sizes["Private_Dirty:"]
            peak[0] = max(peak[0], (total / 1e9, private / 1e9, started / 1e9))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        found["peak_gb"], found["private_gb"], found["started_gb"] = (round(each, 3) for each in peak[0])
        found["cpu"] = round(sum(cpu.values()), 2)
        found["cpu_of"] = dict.fromkeys(names.values(), 0.0)
        for number, name in names.items():
            found["cpu_of"][name] = round(found["cpu_of"][name] + cpu[number], 2)


def milliseconds(seconds: Mapping[str, list[float]], digits: int = 2) -> dict[str, float]:
    """Median over the rounds, in milliseconds."""
    return {name: round(1e3 * statistics.median(taken), digits) for name, taken in seconds.items()}


def ratio(base: list[float], taken: list[float], digits: int = 3) -> float:
    """Median over the rounds of `taken` divided by `base`."""
    return round(statistics.median(b / a for a, b in zip(base, taken, strict=True)), digits)


def ratios(seconds: Mapping[str, list[float]], base: str, digits: int = 3) -> dict[str, float]:
    """`ratio` of every entry to the entry `base`."""
    return {name: ratio(seconds[base], taken, digits) for name, taken in seconds.items()}


def record(name: str, row: Mapping[str, Any], given: argparse.Namespace) -> None:
    """Print a row and append it to results/NAME.jsonl or NAME_cuda.jsonl, with options, date, commit and machine."""
    numbers = {key: value for key, value in vars(given).items() if type(value) is int}
    device = given.device if given.device == "cpu" else torch.cuda.get_device_name()
    line = {**numbers, "device": device, **row}
    print(json.dumps(line, indent=2), flush=True)
    if not given.quick:
        name += "" if given.device == "cpu" else "_cuda"
        append({**line, **when(), **environment()}, RESULTS / f"{name}.jsonl")
