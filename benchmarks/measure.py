"""What the benchmarks share: interleaved timing, budgets with verdicts, and a home of their own."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from kinetic.backends.local import processes
from kinetic.backends.local.connection import LostContact, ask, channel
from kinetic.backends.local.home import Home

COMMAND = Path(sys.executable).with_name("kinetic")
BARE = (sys.executable, "-c", "pass")
RESULTS = "results.json"

_CALM = 0.25  # a baseline whose quartiles are further apart than this part of its median is noisy
_TRIES = 3
_GONE_WITHIN = 30.0  # seconds a stopped agent has to end


@dataclass(frozen=True, slots=True)
class Samples:
    """Repeated measurements of one thing."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle value."""
        return statistics.median(self.values)

    @property
    def quartiles(self) -> tuple[float, float]:
        """Where the middle half begins and ends."""
        if len(self.values) == 1:
            return self.values[0], self.values[0]
        low, _, high = statistics.quantiles(self.values, n=4, method="inclusive")
        return low, high

    @property
    def unrest(self) -> float:
        """How far apart the quartiles are, as a part of the median."""
        low, high = self.quartiles
        return (high - low) / self.median

    def __str__(self) -> str:
        low, high = self.quartiles
        return f"{seconds(self.median)} [{seconds(low)}..{seconds(high)}]"


@dataclass(frozen=True, slots=True)
class Result:
    """One budget line: what was measured, what it may be, and how the number came about."""

    what: str
    measured: float | None  # None: there was nothing to measure yet
    limit: float
    unit: str = "x"
    at_least: bool = False
    binding: bool = True
    detail: str = ""

    @property
    def verdict(self) -> str:
        """PASS, MISS or MISSING."""
        if self.measured is None:
            return "MISSING"
        met = self.measured >= self.limit if self.at_least else self.measured <= self.limit
        return "PASS" if met else "MISS"

    @property
    def failed(self) -> bool:
        """Whether a budget that binds is not shown to be kept."""
        return self.binding and self.verdict != "PASS"

    def __str__(self) -> str:
        measured = "-" if self.measured is None else f"{self.measured:.2f} {self.unit}"
        budget = f"{'at least' if self.at_least else 'at most'} {self.limit:g} {self.unit}"
        remark = "" if self.binding else " (informative)"
        return f"{self.what:<52} {measured:>11}   {budget:<17} {self.verdict}{remark}"


def seconds(value: float) -> str:
    """A duration in the unit that suits it."""
    return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.1f} ms"


def megabytes(value: float) -> str:
    """A size as the budgets count it."""
    return f"{value:.1f} MB"


def timed(action: Callable[[], object]) -> float:
    """How long one call takes."""
    before = time.perf_counter()
    action()
    return time.perf_counter() - before


def interleaved(samples: int, subjects: dict[str, Callable[[], object]]) -> dict[str, Samples]:
    """Time the subjects in turn, so that a slow moment of the machine slows them all.

    The first subject is the baseline. A set in which it is noisy is taken again, at most twice; the
    set with the calmest baseline counts, whatever the others did in it.
    """
    for action in subjects.values():
        action()  # caches are warm for all or for none
    sets = []
    for _ in range(_TRIES):
        sets.append(_one_set(samples, subjects))
        if _baseline(sets[-1]).unrest <= _CALM:
            break
    return min(sets, key=lambda taken: _baseline(taken).unrest)


def _one_set(samples: int, subjects: dict[str, Callable[[], object]]) -> dict[str, Samples]:
    taken: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(samples):
        for name, action in subjects.items():
            taken[name].append(timed(action))
    return {name: Samples(tuple(values)) for name, values in taken.items()}


def _baseline(taken: dict[str, Samples]) -> Samples:
    return next(iter(taken.values()))


def against(subject: Samples, baseline: Samples) -> str:
    """How a ratio of two medians came about."""
    return f"{subject} against {baseline}; median [quartiles] of {len(subject.values)}"


def process(*command: str | Path) -> Callable[[], object]:
    """An action that runs a command to its end, quietly."""
    return lambda: subprocess.run(command, check=True, capture_output=True)


def has_command() -> bool:
    """Whether the installed `kinetic` command works."""
    if not COMMAND.exists():
        return False
    return subprocess.run([COMMAND, "--version"], capture_output=True, check=False).returncode == 0


def scratch() -> Path:
    """A fresh directory. It is deleted after the last measurement, because deleting costs too.

    Some file systems are slow to create files for as long as a minute after many were deleted.
    """
    return Path(tempfile.mkdtemp(dir=_scratch_root()))


@cache
def _scratch_root() -> Path:
    if len(sys.argv) > 1:
        return Path(sys.argv[1]).resolve()
    root = Path(tempfile.mkdtemp(prefix="kinetic-bench-")).resolve()
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return root


@contextmanager
def temporary_home(**settings: str) -> Iterator[Home]:
    """A fresh KINETIC_HOME for the local backend; its agent is gone when this ends."""
    home = Home(scratch())
    with _environment(KINETIC_HOME=str(home.root), **settings):
        try:
            yield home
        finally:
            _stop_agent(home)


@contextmanager
def _environment(**settings: str) -> Iterator[None]:
    """Kinetic configured by `settings` and by nothing that the user has set."""
    before = {name: os.environ.pop(name) for name in [*os.environ] if name[:8] == "KINETIC_"}
    os.environ.update(KINETIC_BACKEND="local", KINETIC_LOG_LEVEL="WARNING", **settings)
    try:
        yield
    finally:
        for name in [*os.environ]:
            if name[:8] == "KINETIC_":
                del os.environ[name]
        os.environ.update(before)


def agent_pid(home: Home) -> int:
    """The process id of the home's agent."""
    if has_command():
        status = subprocess.run(
            [COMMAND, "agent", "status", "--json"], capture_output=True, check=True
        )
        return int(json.loads(status.stdout)["pid"])
    return int(ask(home, {"op": "info"})["pid"])


def _stop_agent(home: Home) -> None:
    """Stop the agent, then end what it had running."""
    with suppress(LostContact), channel(home, start=False) as conversation:
        conversation.send({"op": "info"})
        agent = int(conversation.receive()["pid"])
        servers = _below({agent})
        try:
            conversation.send({"op": "stop"})
            conversation.receive()  # it may go without a word
        finally:
            _wait_until_gone(agent)
            _end({*servers, *_below(servers)})  # they may have started jobs since


def _below(ancestors: set[int]) -> set[int]:
    """Every descendant of some processes."""
    listed = subprocess.run(
        ["ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout
    pairs = [tuple(map(int, line.split())) for line in listed.splitlines()]
    found, grown = set[int](), ancestors
    while grown:
        grown = {pid for pid, parent in pairs if parent in grown}
        found |= grown
    return found


def _end(pids: set[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for pid in pids:
        _wait_until_gone(pid)


def _wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + _GONE_WITHIN
    while time.monotonic() < deadline and processes.resident_bytes([pid]) > 0:
        time.sleep(0.01)


def run(benchmark: Callable[[], Iterator[Result]]) -> None:
    """Print each result as it comes; exit with 1 if a budget is missed.

    With a directory as the first argument, the results and everything temporary are left there.
    """
    # Jobs and commands start from bytecode, as they do where the package is installed.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    results = []
    for result in benchmark():
        results.append(result)
        print(result, f"    {result.detail}", sep="\n", flush=True)
    if len(sys.argv) > 1:
        text = json.dumps([asdict(result) for result in results])
        Path(sys.argv[1], RESULTS).write_text(text)
    sys.exit(any(result.failed for result in results))
