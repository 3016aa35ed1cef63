"""What ten thousand waiting jobs cost, and what one running job costs before it does anything.

`python -m benchmarks.queue_depth`
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import kinetic
from benchmarks.measure import (
    BARE,
    COMMAND,
    Result,
    Samples,
    against,
    agent_pid,
    has_command,
    interleaved,
    megabytes,
    process,
    run,
    seconds,
    temporary_home,
    timed,
)

_DEPTH = 10_000
_JOBS_MEASURED = 5
_SAMPLES = 7
_LOOK = "print(open('/proc/self/status').read())"


def hold() -> None:
    """Keep a slot busy without keeping a core busy."""
    import time

    time.sleep(3600)


def increment(number: int) -> int:
    """What waits."""
    return number + 1


def own_memory() -> str:
    """What the kernel says of this process, before it has imported anything of the user's."""
    with open("/proc/self/status") as status, open("/proc/self/smaps_rollup") as rollup:  # noqa: PTH123
        return status.read() + rollup.read()


def measured() -> Iterator[Result]:
    """One job alone; then one that holds the only slot and thousands that wait for it."""
    with temporary_home(KINETIC_SLOTS="1") as home:
        bare = _bare_memory()
        yield _job_memory(bare)
        kinetic.run("cpu")(hold).run_async()
        waiting = kinetic.run("cpu")(increment)
        queueing = timed(lambda: [waiting.run_async(number) for number in range(_DEPTH)])
        assert len(kinetic.list_jobs()) == _DEPTH + 1
        yield _agent_memory(agent_pid(home), bare, queueing)
        yield _listing()


def _job_memory(bare: float) -> Result:
    """The worst reading of any job, by whatever way of counting gives the most."""
    reports = [kinetic.run("cpu")(own_memory)() for _ in range(_JOBS_MEASURED)]
    resident = Samples(tuple(_field(report, "VmRSS") for report in reports))
    share = Samples(tuple(_field(report, "Pss") for report in reports))
    private = Samples(
        tuple(_field(r, "Private_Clean") + _field(r, "Private_Dirty") for r in reports)
    )
    worst = max(*resident.values, *share.values, *private.values)
    return Result(
        "memory of a job's own process",
        worst,
        40,
        "MB",
        detail=f"resident {megabytes(max(resident.values))}, proportional share"
        f" {megabytes(max(share.values))}, private {megabytes(max(private.values))};"
        f" {worst / bare:.1f} x a bare python's {megabytes(bare)}; worst of {_JOBS_MEASURED} jobs",
    )


def _agent_memory(pid: int, bare: float, queueing: float) -> Result:
    resident = _field(Path(f"/proc/{pid}/status").read_text(), "VmRSS")
    return Result(
        f"memory of the agent with {_DEPTH:,} jobs queued",
        resident,
        80,
        "MB",
        detail=f"resident; {resident / bare:.1f} x a bare python's {megabytes(bare)};"
        f" queueing them took {seconds(queueing)}",
    )


def _listing() -> Result:
    what = f"kinetic jobs list with {_DEPTH:,} jobs queued"
    if not has_command():
        return Result(what, None, 1, "s", detail="the command is not installed, or fails")
    taken = interleaved(
        _SAMPLES, {"bare": process(*BARE), "list": process(COMMAND, "jobs", "list")}
    )
    listing, bare = taken["list"], taken["bare"]
    return Result(
        what,
        listing.median,
        1,
        "s",
        detail=f"{listing.median / bare.median:.1f} x python -c pass: {against(listing, bare)}",
    )


def _bare_memory() -> float:
    looked = subprocess.run(
        [sys.executable, "-c", _LOOK], capture_output=True, text=True, check=True
    )
    return _field(looked.stdout, "VmRSS")


def _field(report: str, name: str) -> float:
    """A `Name:  123 kB` line of the kernel's, in MB."""
    for line in report.splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise LookupError(f"the kernel does not tell `{name}`")


if __name__ == "__main__":
    run(measured)
