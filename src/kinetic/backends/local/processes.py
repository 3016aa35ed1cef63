"""Processes by identity rather than by number, and process trees by every trace they leave."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import signal

_ON_LINUX = sys.platform.startswith("linux")
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
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

    def is_alive(self) -> bool:
        """Whether it still runs; a zombie does not."""
        return _started(self.pid) == self.started and _state(self.pid) != "Z"

    def is_unreaped(self) -> bool:
        """Whether it has ended, but its parent has not looked yet."""
        return _started(self.pid) == self.started and _state(self.pid) == "Z"


@cache
def boot_id() -> str:
    """What tells one run of this machine from the next."""
    if _ON_LINUX:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return _output("sysctl", "-n", "kern.boottime").strip()


def become_subreaper() -> None:
    """Inherit orphaned descendants instead of letting them escape to init."""
    if _ON_LINUX:
        _libc().prctl(_SUBREAPER, 1, 0, 0, 0)


@cache
def _libc() -> Any:
    import ctypes

    return ctypes.CDLL(None)


def signal_tree(leader: int, job_id: str, number: signal.Signals) -> bool:
    """Signal every process of a job; whether there was any."""
    members = tree(leader, job_id)
    for pid in members:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    return bool(members)


def tree(leader: int, job_id: str) -> list[int]:
    """Who belongs to a job: its session, its descendants, and whoever carries its name."""
    table = _table()
    mine = _with_descendants({leader}, leader, table)
    if _ON_LINUX:
        mark = f"KINETIC_JOB_ID={job_id}".encode()
        marked = {pid for pid in table if pid not in mine and mark in _environ(pid)}
        mine |= _with_descendants(marked, leader, table)
    return sorted(mine - {os.getpid()})


def descendants(leader: int) -> list[int]:
    """A job's own process and everything below it or in its session."""
    return sorted(_with_descendants({leader}, leader, _table()))


def _with_descendants(roots: set[int], session: int, table: dict[int, tuple[int, int]]) -> set[int]:
    found = {pid for pid, (_, sid) in table.items() if sid == session or pid in roots}
    while more := {pid for pid, (parent, _) in table.items() if parent in found} - found:
        found |= more
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
        rows = (
            line.split() for line in _output("ps", "-axo", "pid=,ppid=,sess=,stat=").splitlines()
        )
        return {int(r[0]): (int(r[1]), os.getsid(int(r[0]))) for r in rows if _visible(r)}
    found = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  # ten times a second, so no objects
        if name.isdigit() and (fields := _stat(int(name))) and fields[_STATE] != "Z":
            found[int(name)] = int(fields[_PARENT]), int(fields[_SESSION])
    return found


def _visible(row: list[str]) -> bool:
    try:
        os.getsid(int(row[0]))
    except OSError:
        return False
    return not row[-1].startswith("Z")


def _environ(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


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
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
