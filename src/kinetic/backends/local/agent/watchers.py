"""Who wants to hear about which job."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator
    from pathlib import Path

    from kinetic.backends.local.agent.filewatch import FileWatch
    from kinetic.backends.local.agent.server import Connection
    from kinetic.job_status import JobStatus

_NUDGE_EVERY = 0.02  # seconds; a job that prints a million lines is told of fifty times a second
_POLL_COUNTS_FOR = 5.0  # seconds
_BACKLOG = 1 << 16  # bytes; a client that does not read is not nudged


@dataclass(frozen=True, slots=True)
class Watcher:
    """One client's interest in one job; `waiter` is the job that the client itself runs in."""

    connection: Connection
    job_id: str
    log: bool
    waiter: str | None


class Watchers:
    """Every interest of every client."""

    def __init__(self, loop: asyncio.AbstractEventLoop, files: FileWatch) -> None:
        self._loop = loop
        self._files = files
        self._by_job: dict[str, set[Watcher]] = {}
        self._by_connection: dict[Connection, set[Watcher]] = {}
        self._waiting: set[Watcher] = set()
        self._polled: dict[tuple[str, str], float] = {}  # until when it counts as waiting
        self._logs: dict[str, Path] = {}
        self._resting: dict[str, bool] = {}  # told a moment ago; has it grown since?

    def add(self, watcher: Watcher, log: Path | None) -> None:
        """Start telling; `log` is where the job prints, once it runs."""
        self._by_job.setdefault(watcher.job_id, set()).add(watcher)
        self._by_connection.setdefault(watcher.connection, set()).add(watcher)
        if watcher.waiter:
            self._waiting.add(watcher)
        if log is not None:
            self.started(watcher.job_id, log)

    def any(self) -> bool:
        """Whether anybody waits for a job."""
        return bool(self._by_job)

    def drop(self, connection: Connection) -> None:
        """The client has gone."""
        for watcher in self._by_connection.pop(connection, set()):
            self._waiting.discard(watcher)
            others = self._by_job.get(watcher.job_id, set())
            others.discard(watcher)
            if not others:
                self._forget(watcher.job_id)

    def started(self, job_id: str, log: Path) -> None:
        """The job runs: watch its log if anybody wants it."""
        if job_id not in self._logs and any(w.log for w in self._by_job.get(job_id, ())):
            log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
            self._logs[job_id] = log
            self._files.add(str(log), lambda: self._nudge(job_id))

    def tell(self, job_id: str, status: JobStatus) -> None:
        """The job's status has changed."""
        for watcher in self._by_job.get(job_id, ()):
            watcher.connection.send({"status": status.value})
        if status.is_terminal:
            self._forget(job_id)

    def polled(self, waiter: str, job_id: str) -> None:
        """A job asks for another's status, again and again: for a while that counts as waiting."""
        self._polled[waiter, job_id] = self._loop.time() + _POLL_COUNTS_FOR

    def waiting(self) -> Iterator[tuple[str, str]]:
        """(waiter, job) for every job that waits for another."""
        now = self._loop.time()
        self._polled = {pair: until for pair, until in self._polled.items() if until > now}
        yield from self._polled
        for watcher in self._waiting:
            if watcher.waiter:
                yield watcher.waiter, watcher.job_id

    def _nudge(self, job_id: str) -> None:
        if job_id in self._resting:
            self._resting[job_id] = True  # say it when the rest is over
            return
        self._resting[job_id] = False
        for watcher in self._by_job.get(job_id, ()):
            if watcher.log and watcher.connection.backlog() < _BACKLOG:
                watcher.connection.send({"log": True})
        self._loop.call_later(_NUDGE_EVERY, self._rested, job_id)

    def _rested(self, job_id: str) -> None:
        if self._resting.pop(job_id):
            self._nudge(job_id)

    def _forget(self, job_id: str) -> None:
        self._waiting -= self._by_job.pop(job_id, set())
        log = self._logs.pop(job_id, None)
        if log is not None:
            self._files.remove(str(log))
