"""Memory limits: a cgroup where this machine lends us one, else resident memory, watched.

Never RLIMIT_AS: it counts address space, of which JAX and CUDA reserve far more than they use.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """One job's memory cgroup."""

    path: Path

    def ran_out(self) -> bool:
        """Whether the kernel ended something in here for want of memory."""
        for name in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError):
                for line in (self.path / name).read_text().splitlines():
                    key, _, count = line.partition(" ")
                    if key == "oom_kill":
                        return int(count) > 0
        return False

    def remove(self) -> None:
        """Give it back; the kernel refuses while anything still runs in it."""
        with contextlib.suppress(OSError):
            self.path.rmdir()


def make_group(name: str, limit: int) -> MemoryGroup | None:
    """A cgroup with a memory limit, or None where we may not make one."""
    for parent, limit_file in _parents():
        group = parent / f"kinetic-{name}"
        try:
            group.mkdir(exist_ok=True)
            (group / limit_file).write_text(str(limit))
        except OSError:
            with contextlib.suppress(OSError):
                group.rmdir()
            continue
        for extra, value in (("memory.oom.group", "1"), ("memory.swap.max", "0")):
            with contextlib.suppress(OSError):
                (group / extra).write_text(value)
        return MemoryGroup(group)
    return None


def find_group(name: str) -> MemoryGroup | None:
    """The group that an earlier agent made."""
    for parent, _ in _parents():
        if (group := parent / f"kinetic-{name}").is_dir():
            return MemoryGroup(group)
    return None


def _parents() -> list[tuple[Path, str]]:
    """Where groups with a memory limit could be made: below our own, on either cgroup version."""
    found = []
    for line in _own_groups():
        _, controllers, path = line.split(":", 2)
        below = path.lstrip("/")
        if not controllers:
            found += [(_ROOT / below, "memory.max"), (_ROOT / "unified" / below, "memory.max")]
        elif "memory" in controllers.split(","):
            found.append((_ROOT / "memory" / below, "memory.limit_in_bytes"))
    return [(parent, name) for parent, name in found if os.access(parent, os.W_OK)]


def _own_groups() -> list[str]:
    try:
        return Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
