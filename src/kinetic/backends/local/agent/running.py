"""A running attempt, as the agent sees it: who it is, what limits it, and how to end it."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kinetic.backends.local import claims, processes
from kinetic.backends.local.agent import endings

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from kinetic.backends.local.agent.endings import Stop
    from kinetic.backends.local.agent.memory import MemoryGroup
    from kinetic.backends.local.agent.queue import Started
    from kinetic.backends.local.agent.schedule import Holding
    from kinetic.backends.local.claims import Claimant
    from kinetic.backends.local.messages import Request
    from kinetic.backends.local.processes import ProcessId

_GRACE = float(os.environ.get("KINETIC_GRACE") or 10)  # seconds between SIGTERM and SIGKILL
_LOOK_EVERY = 0.1  # seconds between looks at a job's memory, where no cgroup does it


@dataclass(eq=False)
class Running:
    """One attempt that was handed to a fork server, or found running by a new agent."""

    request: Request
    started: Started
    holding: Holding
    claim: str
    group: MemoryGroup | None = None
    stop: Stop | None = None
    removed: bool = False  # to be forgotten once it has ended
    timers: list[asyncio.TimerHandle] = field(default_factory=list)

    @property
    def job_id(self) -> str:
        return self.request.job_id

    @property
    def uid(self) -> str:
        return self.started.uid

    def process(self) -> ProcessId | None:
        """Who claimed the attempt, if anybody has yet."""
        claimant = claims.claimant(self.claim)
        return claimant.process if claimant else None

    def limit(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the timers that end it when it runs too long or grows too large."""
        if self.request.timeout is not None:
            self._watch_time(loop, self.request.timeout)
        if self.request.memory is not None and self.group is None:
            self._watch_memory(loop, self.request.memory)

    def end(self, loop: asyncio.AbstractEventLoop, reason: Stop) -> None:
        """SIGTERM to the whole tree now, SIGKILL after the grace; the first reason counts."""
        if self.stop is None:
            self.stop = reason
            self._signal(signal.SIGTERM)
            self.timers.append(loop.call_later(_GRACE, self._kill, loop))

    def released(self) -> None:
        """It has ended: no more timers, no more cgroup."""
        for timer in self.timers:
            timer.cancel()
        if self.group:
            self.group.remove()

    def _signal(self, number: signal.Signals) -> None:
        # A process that has not claimed the attempt yet finds the claim void, and goes.
        process = self.process()
        if process is None and not claims.void(self.claim):
            process = self.process()
        if process:
            processes.signal_tree(process, self.job_id, number)

    def _kill(self, loop: asyncio.AbstractEventLoop) -> None:
        self._signal(signal.SIGKILL)
        self.timers.append(loop.call_later(1.0, self._kill, loop))  # until it is seen to be gone

    def _watch_time(self, loop: asyncio.AbstractEventLoop, limit: float) -> None:
        """Count from when the process claimed the attempt: starting an interpreter is our time."""

        def look() -> None:
            claimant = claims.claimant(self.claim)
            left = claimant.at + limit - time.monotonic() if claimant else limit
            if left <= 0:
                self.end(loop, endings.timed_out(self.request))
            else:
                self.timers.append(loop.call_later(left, look))

        look()

    def _watch_memory(self, loop: asyncio.AbstractEventLoop, limit: int) -> None:
        def look() -> None:
            process = self.process()
            used = processes.resident_bytes(processes.descendants(process.pid)) if process else 0
            if used > limit and self.stop is None:
                self.stop = endings.out_of_memory(self.request, used)
                self._kill(loop)
            else:
                self.timers[:] = [t for t in self.timers if t.when() > loop.time()]
                self.timers.append(loop.call_later(_LOOK_EVERY, look))

        look()


def when_gone(
    loop: asyncio.AbstractEventLoop, claimant: Claimant, note: str, gone: Callable[[], None]
) -> None:
    """Call `gone` once a process that is not our child has ended, and all is said about it."""

    def look() -> None:
        if claimant.process.is_alive():
            loop.call_later(_LOOK_EVERY, look)
        elif claimant.may_be_noted() and not os.path.exists(note):  # noqa: PTH110
            loop.call_later(_LOOK_EVERY / 10, look)
        else:
            gone()

    try:
        watch = os.pidfd_open(claimant.process.pid)
    except (AttributeError, OSError):
        loop.call_soon(look)  # no pidfds here, or it went before we could hold it
        return
    if not claimant.process.is_alive():
        os.close(watch)
        loop.call_soon(look)
        return

    def ended() -> None:
        loop.remove_reader(watch)
        os.close(watch)
        look()

    loop.add_reader(watch, ended)
