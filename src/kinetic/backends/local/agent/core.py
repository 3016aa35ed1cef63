"""The agent itself: a tick takes what came in, writes it down in one transaction, acts on it."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import sqlite3
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kinetic import layout, records
from kinetic.backends.local import claims, processes
from kinetic.backends.local.agent import endings, memory, schedule
from kinetic.backends.local.agent.endings import Exit, Stop
from kinetic.backends.local.agent.queue import Started
from kinetic.backends.local.agent.running import Running, when_gone
from kinetic.backends.local.agent.schedule import Holding, Machine, Need
from kinetic.backends.local.agent.spaces import Spaces
from kinetic.backends.local.messages import Launch
from kinetic.errors import StoreError
from kinetic.job_status import JobStatus
from kinetic.records import Ending, Facts, Record
from kinetic.spec import Assignment

if TYPE_CHECKING:
    import asyncio

    from kinetic.backends.local.agent.nursery import Nursery
    from kinetic.backends.local.agent.queue import Queue
    from kinetic.backends.local.agent.server import Connection
    from kinetic.backends.local.agent.watchers import Watchers
    from kinetic.backends.local.home import Home
    from kinetic.backends.local.messages import Request
    from kinetic.backends.local.processes import ProcessId

_log = logging.getLogger(__name__)
_RETRY_AFTER = 1.0  # seconds until what could not be written is tried again
_FIRST_ATTEMPT = 1
_SYNC_WITHIN = 0.05  # seconds until what was started is safe from a power failure too
_UID = re.compile(r"[0-9a-f]{12}(?=$|\.)")
_VOID_FOR = 86400.0  # seconds; no process comes this late to the attempt it was forked for


@dataclass
class _Inbox:
    """What has happened since the last tick."""

    submitted: list[tuple[Connection, Request]] = field(default_factory=list)
    removed: list[tuple[Connection, str, bool]] = field(default_factory=list)
    exited: dict[str, Exit] = field(default_factory=dict)
    unstarted: set[str] = field(default_factory=set)


@dataclass
class _Outbox:
    """What a tick's transaction decided, to be done once it is on disk."""

    accepted: list[Connection] = field(default_factory=list)
    changed: list[tuple[str, JobStatus]] = field(default_factory=list)
    put_back: list[Running] = field(default_factory=list)
    removers: list[tuple[str, Connection]] = field(default_factory=list)
    to_end: list[Running] = field(default_factory=list)
    gone: list[Running] = field(default_factory=list)
    launches: list[Running] = field(default_factory=list)


class Agent:
    """Accepts, starts, watches and settles jobs."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, home: Home, queue: Queue, machine: Machine
    ) -> None:
        self.machine = machine
        self.nursery: Nursery
        self.watchers: Watchers
        self._loop = loop
        self._home = home
        self._store = home.store
        self._key = home.signing_key()
        self._queue = queue
        self._running: dict[str, Running] = {}  # by uid
        self._inbox = _Inbox()
        self._spaces = Spaces(home.workspaces)
        self._removers: dict[str, list[Connection]] = {}
        self._tick_at: asyncio.Handle | None = None
        self._sync_at: asyncio.TimerHandle | None = None

    # What comes in.

    def submit(self, connection: Connection, request: Request) -> None:
        """Accept a job; the client hears of it when it is on disk."""
        self._inbox.submitted.append((connection, request))
        self._soon()

    def remove(self, connection: Connection, job_id: str, end: bool) -> None:
        """Forget the job once it is over; with `end`, end it. The client hears when it is gone."""
        self._inbox.removed.append((connection, job_id, end))
        self._soon()

    def exited(self, uid: str, exited: Exit) -> None:
        """An attempt's process has ended."""
        self._inbox.exited[uid] = exited
        self._soon()

    def orphaned(self, uids: set[str], trouble: str | None) -> None:
        """A fork server died: some of its attempts run on, some may never have started."""
        for uid in uids & self._running.keys():
            running = self._running[uid]
            if trouble is not None and claims.void(running.claim):
                message = f"{running.request.interpreter} could not start: {trouble}"
                running.stop = running.stop or Stop(Ending.SETUP_FAILED, message, "interpreter")
                self.exited(uid, Exit(None))
            else:
                self._adopt(running)

    def started_log(self, job_id: str) -> Path | None:
        """Where a running job prints."""
        for running in self._running.values():
            if running.job_id == job_id:
                return self._log_of(running)
        return None

    def workspaces_in_use(self) -> set[str]:
        """The names of the workspaces that running jobs work in."""
        return {running.started.workspace for running in self._running.values()}

    def is_idle(self) -> bool:
        """Whether nothing runs, nothing waits, and nobody waits for anything."""
        if self.watchers.any() or self._removers:
            return False
        return not self._running and not self._queue.any_pending() and self._tick_at is None

    def recover(self) -> None:
        """Take over what an earlier agent left: adopt what runs, settle what ended."""
        for request, started, ending in self._queue.running():
            holding = Holding(request.slots, started.devices, started.borrowed_from)
            claim = self._home.claim(started.uid)
            group = memory.find_group(started.uid) if request.memory else None
            running = Running(request, started, holding, claim, group, removed=ending)
            self._running[started.uid] = running
            if started.boot != processes.boot_id():
                running.stop = endings.RESTARTED
                self.exited(started.uid, Exit(None))
                continue
            self._adopt(running)
            running.limit(self._loop)
            if ending:
                running.end(self._loop, endings.CANCELLED)
        self._sweep_runs()
        if self._queue.boot() != processes.boot_id():
            self._restore_pending()
        self.wake()

    def _restore_pending(self) -> None:
        """After a restart of the machine, make again what a power failure took from the store."""
        for request, handle in self._queue.pending():
            self._store.put(layout.spec(request.job_id), request.spec.encode(), durable=False)
            self._store.put(layout.handle(request.job_id), handle.encode(), durable=False)
        with self._queue.transaction():
            self._queue.set_boot(processes.boot_id())

    def wake(self) -> None:
        """Something that scheduling depends on has changed."""
        self._soon()

    # One tick.

    def _soon(self, after: float = 0.0) -> None:
        if self._tick_at is None:
            self._tick_at = (
                self._loop.call_later(after, self._tick)
                if after
                else self._loop.call_soon(self._tick)
            )

    def _tick(self) -> None:
        self._tick_at = None
        inbox, self._inbox = self._inbox, _Inbox()
        running = dict(self._running)
        outbox = _Outbox()
        try:
            with self._queue.transaction():
                self._accept(inbox, outbox)
                self._settle_all(inbox, running, outbox)
                self._remove_all(inbox, running, outbox)
                self._start_all(running, outbox)
        except (sqlite3.Error, StoreError, OSError) as error:
            self._put_back(inbox, error)
            return
        self._running = running
        for attempt in outbox.gone:
            self._spaces.rested(attempt.started.workspace)  # before the next one starts there
        for attempt in outbox.launches:
            self._launch(attempt)
        if inbox.submitted or any(end for _, _, end in inbox.removed):
            self._sync()  # before anyone is told, but not before jobs start
        elif outbox.launches and self._sync_at is None:
            self._sync_at = self._loop.call_later(_SYNC_WITHIN, self._sync)
        self._act(outbox)

    def _sync(self) -> None:
        self._queue.sync()
        if self._sync_at:
            self._sync_at.cancel()
            self._sync_at = None

    def _put_back(self, inbox: _Inbox, error: Exception) -> None:
        """Nothing was written: clients are told; what happened to jobs waits for the next tick."""
        _log.error("could not write to the queue: %s", error)
        for connection, _ in inbox.submitted:
            connection.fail(f"the job was not accepted: {error}", "check the disk of KINETIC_HOME")
        self._inbox.exited = inbox.exited | self._inbox.exited
        self._inbox.unstarted |= inbox.unstarted
        self._inbox.removed = inbox.removed + self._inbox.removed
        self._soon(_RETRY_AFTER)

    def _accept(self, inbox: _Inbox, outbox: _Outbox) -> None:
        for connection, request in inbox.submitted:
            if self._queue.add(request):
                outbox.changed.append((request.job_id, JobStatus.PENDING))
            outbox.accepted.append(connection)

    def _settle_all(self, inbox: _Inbox, running: dict[str, Running], outbox: _Outbox) -> None:
        for uid in inbox.unstarted & running.keys():
            if running[uid].removed:
                inbox.exited[uid] = Exit(None)
                continue
            # Its claim stays, void: a process that was forked for it may still come.
            outbox.put_back.append(running.pop(uid))
            self._queue.put_back(outbox.put_back[-1].job_id)
        for uid in inbox.exited.keys() & running.keys():
            attempt = running.pop(uid)
            status = self._settle(attempt, inbox.exited[uid])
            outbox.gone.append(attempt)
            outbox.changed.append((attempt.job_id, status))

    def _settle(self, attempt: Running, exited: Exit) -> JobStatus:
        """Write down how an attempt ended."""
        status = self._outcome(attempt, exited)
        if attempt.removed:
            self._queue.remove(attempt.job_id)
            return JobStatus.NOT_FOUND
        self._queue.settle(attempt.job_id, status)
        return status

    def _outcome(self, attempt: Running, exited: Exit) -> JobStatus:
        """Whether it succeeded; where the runner left no record, we do."""
        key = layout.record(attempt.job_id, attempt.started.attempt, attempt.uid)
        if exited == Exit(0) and self._store.exists(key):
            return JobStatus.SUCCEEDED  # the runner exits so only after storing a success
        final = records.find_final(self._store, attempt.job_id, self._key)
        if final is None:
            final = self._outside_record(attempt, exited)
            self._store.put_if_absent(key, records.seal(final, self._key))
        return JobStatus.SUCCEEDED if final.is_success else JobStatus.FAILED

    def _outside_record(self, attempt: Running, exited: Exit) -> Record:
        stop = attempt.stop
        if stop is None and attempt.group and attempt.group.ran_out():
            stop = endings.out_of_memory(attempt.request)
        if stop:
            ending, facts = stop.ending, Facts(stop.message, phase=stop.phase)
        else:
            ending, facts = endings.explain(exited)
        return Record(attempt.job_id, attempt.started.attempt, ending, facts)

    def _remove_all(self, inbox: _Inbox, running: dict[str, Running], outbox: _Outbox) -> None:
        by_job = {attempt.job_id: attempt for attempt in running.values()}
        for connection, job_id, end in inbox.removed:
            outbox.removers.append((job_id, connection))
            if job_id in by_job:
                by_job[job_id].removed = True
                if end:
                    self._queue.end(job_id)
                    outbox.to_end.append(by_job[job_id])
                continue
            if self._queue.status(job_id) is JobStatus.PENDING:
                key = layout.record(job_id, _FIRST_ATTEMPT, "cancelled")
                stop = endings.CANCELLED
                record = Record(job_id, _FIRST_ATTEMPT, stop.ending, Facts(stop.message))
                self._store.put_if_absent(key, records.seal(record, self._key))
            self._queue.remove(job_id)
            outbox.changed.append((job_id, JobStatus.NOT_FOUND))

    def _start_all(self, running: dict[str, Running], outbox: _Outbox) -> None:
        while chosen := self._choose(running):
            need, holding = chosen
            request = self._queue.request(need.job_id)
            assert request is not None
            attempt = self._prepare(request, holding, running)
            self._queue.start(need.job_id, attempt.started)
            running[attempt.uid] = attempt
            outbox.launches.append(attempt)
            outbox.changed.append((need.job_id, JobStatus.RUNNING))

    def _choose(self, running: dict[str, Running]) -> tuple[Need, Holding] | None:
        held = {attempt.job_id: attempt.holding for attempt in running.values()}
        full = schedule.free_slots(self.machine, held) <= 0
        for waiter, job_id in self.watchers.waiting():
            if waiter in held and self._queue.status(job_id) is JobStatus.PENDING:
                request = self._queue.request(job_id)
                assert request is not None
                need = Need(0, job_id, request.slots, request.gpus)
                if holding := schedule.lend(self.machine, held, waiter, need):
                    return need, holding
        return None if full else schedule.next_in_line(self.machine, held, self._waiting_heads())

    def _waiting_heads(self) -> list[Need]:
        heads = (self._queue.first_pending(with_gpus=gpus) for gpus in (False, True))
        return [Need(*head) for head in heads if head]

    def _prepare(self, request: Request, holding: Holding, running: dict[str, Running]) -> Running:
        uid = os.urandom(6).hex()
        taken = {attempt.started.workspace for attempt in running.values()}
        started = Started(
            attempt=_FIRST_ATTEMPT,
            uid=uid,
            boot=processes.boot_id(),
            workspace=schedule.free_workspace(request.source_digest, taken),
            devices=holding.devices,
            borrowed_from=holding.borrowed_from,
        )
        return Running(request, started, holding, self._home.claim(uid))

    # What a tick leads to.

    def _act(self, outbox: _Outbox) -> None:
        for attempt in outbox.put_back:
            attempt.released()
        for attempt in outbox.gone:
            attempt.released()
            claims.forget(attempt.claim)
            self.nursery.settled(attempt.uid)
        for connection in outbox.accepted:
            connection.send({"accepted": True, "gpus": len(self.machine.gpus)})
        for job_id, connection in outbox.removers:
            self._removers.setdefault(job_id, []).append(connection)
        for attempt in outbox.to_end:
            attempt.end(self._loop, endings.CANCELLED)
        for job_id, status in outbox.changed:
            self.watchers.tell(job_id, status)
            if status is JobStatus.NOT_FOUND:
                for connection in self._removers.pop(job_id, ()):
                    connection.send({"removed": True})

    def _launch(self, attempt: Running) -> None:
        request, started = attempt.request, attempt.started
        if request.memory is not None:
            attempt.group = memory.make_group(attempt.uid, request.memory)
        assignment = Assignment(
            store_url=self._store.url,
            job_id=request.job_id,
            attempt=started.attempt,
            uid=started.uid,
            spec_digest=request.spec_digest,
            workspace=f"{self._home.workspaces}/{started.workspace}",
            untouched=self._spaces.is_untouched(started.workspace),
        )
        launch = Launch(
            assignment=assignment.to_json(),
            log=str(self._log_of(attempt)),
            claim=attempt.claim,
            umask=request.umask,
            open_files=request.open_files,
            env=self._environment(attempt),
            cgroup=str(attempt.group.path) if attempt.group else None,
        )
        self.watchers.started(request.job_id, self._log_of(attempt))
        self.nursery.launch(attempt.uid, request, launch)
        attempt.limit(self._loop)

    def _environment(self, attempt: Running) -> dict[str, str]:
        env = {**attempt.request.env, "KINETIC_ATTEMPT": str(attempt.started.attempt)}
        if self.machine.gpus:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, attempt.holding.devices))
        return env

    def _log_of(self, attempt: Running) -> Path:
        return self._store.path(layout.log_chunk(attempt.job_id, attempt.started.attempt))

    def _adopt(self, attempt: Running) -> None:
        """Watch an attempt that is nobody's child of ours, or find that it never started."""
        claimant = claims.claimant(attempt.claim)
        if claimant is None and claims.void(attempt.claim):
            self._inbox.unstarted.add(attempt.uid)
            self._soon()
            return
        claimant = claimant or claims.claimant(attempt.claim)
        assert claimant is not None
        process, note = claimant.process, claims.note_path(attempt.claim)
        when_gone(self._loop, claimant, note, lambda: self._found_gone(attempt, process))

    def _found_gone(self, attempt: Running, process: ProcessId) -> None:
        # Its fork server, which would have done this, may be gone.
        processes.signal_tree(process, attempt.job_id, signal.SIGKILL)
        self.exited(attempt.uid, _noted_exit(claims.note_path(attempt.claim)))

    def _sweep_runs(self) -> None:
        """Remove what attempts of no concern to anyone left in `run/`, void claims last."""
        now = time.time()
        for path in self._home.runs.iterdir():
            uid = _UID.match(path.name)
            if uid and uid[0] not in self._running:
                with suppress(OSError):
                    if now - path.stat().st_mtime > _VOID_FOR:
                        path.unlink()


def _noted_exit(note: str) -> Exit:
    try:
        noted = json.loads(Path(note).read_bytes())
    except (FileNotFoundError, ValueError):
        return Exit(None)
    return Exit(noted["code"], noted["signalled"])
