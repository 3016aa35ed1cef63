"""Processes by identity rather than by number, and process trees by every trace they leave."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import signal

AGENT, FORK_SERVER, JOB = "kinetic-agent", "kinetic-fork", "kinetic-job"

_ON_LINUX = sys.platform.startswith("linux")
HAVE_NAMES = _ON_LINUX  # whether `take_name` can be relied on
_SUBREAPER, _SET_NAME = 36, 15  # PR_SET_CHILD_SUBREAPER, PR_SET_NAME
_STATE, _PARENT, _SESSION, _STARTED = 0, 1, 3, 19  # fields of /proc/PID/stat after the name


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process that can be told from a later one with the same number, on one boot."""

    pid: int
    started: str

    @classmethod
    def current(cls) -> ProcessId:
        """This process."""
        return cls(os.getpid(), _started(os.getpid()) or "")

    def exists(self) -> bool:
        """Whether it is there, be it as a zombie."""
        return _started(self.pid) == self.started

    def is_alive(self) -> bool:
        """Whether it still runs; a zombie does not."""
        return self.exists() and _state(self.pid) != "Z"

    def may_lead(self) -> bool:
        """Whether its number still means it: a session keeps its leader's number from reuse."""
        return _started(self.pid) in (None, self.started)


@cache
def boot_id() -> str:
    """What tells one run of this machine, or of this container, from the next."""
    if not _ON_LINUX:
        return _output("sysctl", "-n", "kern.boottime").strip()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    namespace = Path("/proc/self/ns/pid").readlink()
    return f"{boot} {namespace} {_started(1)}"


def take_name(name: str) -> None:
    """Be told from others in process lists, and by our own kind; only on Linux."""
    if _ON_LINUX:
        _libc().prctl(_SET_NAME, name.encode(), 0, 0, 0)


def become_subreaper() -> None:
    """Inherit orphaned descendants instead of letting them escape to init; only on Linux."""
    if _ON_LINUX:
        _libc().prctl(_SUBREAPER, 1, 0, 0, 0)


@cache
def _libc() -> Any:
    import ctypes

    return ctypes.CDLL(None)


def is_ours(pid: int) -> bool:
    """Whether the process is an agent or a fork server, which no job's end may take along."""
    return _name(pid) in (AGENT, FORK_SERVER)


def is_fork_server(pid: int) -> bool:
    """Whether the process is a fork server."""
    return _name(pid) == FORK_SERVER


def is_job(pid: int) -> bool:
    """Whether the process is a job's, or was forked by one and runs nothing else."""
    return _name(pid) == JOB


def signal_tree(leader: ProcessId, job_id: str, number: signal.Signals) -> None:
    """Signal every process of a job."""
    for pid in tree(leader, job_id):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def tree(leader: ProcessId, job_id: str) -> list[int]:
    """Who belongs to a job: its session, its descendants, and whoever carries its name."""
    table = _table()
    mine = _family({leader.pid}, leader.pid, table) if leader.may_lead() else set()
    if _ON_LINUX:
        mark = f"KINETIC_JOB_ID={job_id}".encode()
        marked = {pid for pid in table if pid not in mine and mark in _environ(pid)}
        mine |= _family(marked, None, table)
    return sorted(mine - {os.getpid()})


def descendants(leader: int) -> list[int]:
    """A job's own process and everything below it or in its session."""
    return sorted(_family({leader}, leader, _table()))


def _family(roots: set[int], session: int | None, table: dict[int, tuple[int, int]]) -> set[int]:
    """Roots, session and all descendants, but no agent, no fork server and none of theirs."""
    found = {pid for pid, (_, sid) in table.items() if sid == session or pid in roots}
    found = {pid for pid in found if not is_ours(pid)}
    grown = found
    while grown:
        below = {pid for pid, (parent, _) in table.items() if parent in grown} - found
        grown = {pid for pid in below if not is_ours(pid)}
        found |= grown
    return found


def resident_bytes(pids: list[int]) -> int:
    """The resident memory of some processes together."""
    if _ON_LINUX:
        page = os.sysconf("SC_PAGE_SIZE")
        return sum(_resident_pages(pid) for pid in pids) * page
    listed = _output("ps", "-o", "rss=", "-p", ",".join(map(str, pids)))
    return sum(int(line) * 1024 for line in listed.split())


def _resident_pages(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0


def _table() -> dict[int, tuple[int, int]]:
    """pid -> (parent, session) of every process that is not a zombie."""
    if not _ON_LINUX:
        listed = _output("ps", "-axo", "pid=,ppid=,stat=").splitlines()
        rows = [line.split() for line in listed]
        return {
            int(pid): (int(parent), session)
            for pid, parent, state in rows
            if not state.startswith("Z") and (session := _session(int(pid)))
        }
    found = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  # ten times a second, so no objects
        if name.isdigit() and (fields := _stat(int(name))) and fields[_STATE] != "Z":
            found[int(name)] = int(fields[_PARENT]), int(fields[_SESSION])
    return found


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _environ(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _stat(pid: int) -> list[str] | None:
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(fd, 4096).decode(errors="replace")
    except ProcessLookupError:
        return None
    finally:
        os.close(fd)
    return text.rpartition(")")[2].split()  # the name may hold spaces and parentheses


def _state(pid: int) -> str:
    if _ON_LINUX:
        fields = _stat(pid)
        return fields[_STATE] if fields else ""
    return _output("ps", "-o", "stat=", "-p", str(pid)).strip()[:1]


def _started(pid: int) -> str | None:
    if _ON_LINUX:
        fields = _stat(pid)
        return fields[_STARTED] if fields else None
    return _output("ps", "-o", "lstart=", "-p", str(pid)).strip() or None


def _output(*command: str) -> str:
    import subprocess  # not on Linux

    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
