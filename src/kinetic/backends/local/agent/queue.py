"""The durable queue: every job the agent has accepted, in SQLite. Accepted means on disk."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kinetic.backends.local.messages import Request
from kinetic.errors import BackendUnavailable
from kinetic.job_status import JobStatus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_APPLICATION = 0x4B4E5451  # "KNTQ", so that a foreign database is never taken for ours
_VERSION = 1
_SCHEMA = """
CREATE TABLE jobs (
  seq     INTEGER PRIMARY KEY AUTOINCREMENT,
  job_id  TEXT NOT NULL UNIQUE,
  status  TEXT NOT NULL,
  slots   INTEGER NOT NULL,
  gpus    INTEGER NOT NULL,
  handle  TEXT NOT NULL,
  request TEXT NOT NULL,
  started TEXT,
  ending  INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE machine (boot TEXT NOT NULL);
CREATE INDEX jobs_by_status ON jobs (status, gpus > 0, seq);
"""


@dataclass(frozen=True, slots=True)
class Started:
    """How a running attempt was started: enough for another agent to take it over."""

    attempt: int
    uid: str
    boot: str
    workspace: str
    devices: tuple[int, ...] = ()
    borrowed_from: str | None = None


class Queue:
    """One connection to the queue; every write happens inside `transaction`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = _open(path)
        self._log: int | None = None

    def close(self) -> None:
        """Close the database; the last one to do so leaves a single file behind."""
        if self._log is not None:
            os.close(self._log)
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing. Once it ends, only a power failure can take it back; see `sync`."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def sync(self) -> None:
        """Put every transaction so far where not even a power failure can take it back.

        It is what `synchronous = FULL` does within each commit; here, jobs are started in between.
        """
        if self._log is None:
            self._log = os.open(f"{self._path}-wal", os.O_RDONLY | os.O_CLOEXEC)
        os.fsync(self._log)

    def add(self, request: Request) -> bool:
        """Queue a job; False if it was queued before."""
        values = (request.job_id, JobStatus.PENDING.value, request.slots, request.gpus)
        texts = json.dumps(request.handle), json.dumps({**request.to_message(), "handle": {}})
        added = self._db.execute(
            "INSERT OR IGNORE INTO jobs (job_id, status, slots, gpus, handle, request)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (*values, *texts),
        )
        return added.rowcount == 1

    def start(self, job_id: str, started: Started) -> None:
        """The job runs now."""
        text = json.dumps({name: getattr(started, name) for name in Started.__slots__})
        self._db.execute(
            "UPDATE jobs SET status = ?, started = ? WHERE job_id = ?",
            (JobStatus.RUNNING.value, text, job_id),
        )

    def end(self, job_id: str) -> None:
        """The job is to be ended and forgotten, whoever the agent is by then."""
        self._db.execute("UPDATE jobs SET ending = 1 WHERE job_id = ?", (job_id,))

    def put_back(self, job_id: str) -> None:
        """The job did not come to run after all; it keeps its place."""
        self._db.execute(
            "UPDATE jobs SET status = ?, started = NULL WHERE job_id = ?",
            (JobStatus.PENDING.value, job_id),
        )

    def settle(self, job_id: str, status: JobStatus) -> None:
        """The job is over; its environment, which may hold secrets, is forgotten."""
        self._db.execute(
            "UPDATE jobs SET status = ?, request = '{}' WHERE job_id = ?", (status.value, job_id)
        )

    def remove(self, job_id: str) -> None:
        """Forget the job."""
        self._db.execute("DELETE FROM jobs WHERE job_id = ?", (job_id,))

    def status(self, job_id: str) -> JobStatus:
        """The job's status; NOT_FOUND for one that is not here."""
        row = self._db.execute("SELECT status FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
        return JobStatus(row[0]) if row else JobStatus.NOT_FOUND

    def request(self, job_id: str) -> Request | None:
        """The job's request, while it is not over."""
        row = self._db.execute("SELECT request FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
        fields = json.loads(row[0]) if row else {}
        return Request.from_message(fields) if fields else None

    def any_pending(self) -> bool:
        """Whether any job waits."""
        query = "SELECT EXISTS (SELECT 1 FROM jobs WHERE status = ?)"
        return bool(self._db.execute(query, (JobStatus.PENDING.value,)).fetchone()[0])

    def first_pending(self, *, with_gpus: bool) -> tuple[int, str, int, int] | None:
        """(seq, job_id, slots, gpus) of the oldest job that waits, with or without GPUs."""
        row: tuple[int, str, int, int] | None = self._db.execute(
            "SELECT seq, job_id, slots, gpus FROM jobs"
            " WHERE status = ? AND (gpus > 0) = ? ORDER BY seq LIMIT 1",
            (JobStatus.PENDING.value, int(with_gpus)),
        ).fetchone()
        return row

    def running(self) -> list[tuple[Request, Started, bool]]:
        """Every job that was running when this was last written, and whether it is to be ended."""
        rows = self._db.execute(
            "SELECT request, started, ending FROM jobs WHERE status = ? ORDER BY seq",
            (JobStatus.RUNNING.value,),
        ).fetchall()
        return [
            (Request.from_message(json.loads(request)), _started(json.loads(started)), bool(ending))
            for request, started, ending in rows
        ]

    def boot(self) -> str | None:
        """The boot of the machine on which this was last used."""
        row = self._db.execute("SELECT boot FROM machine").fetchone()
        return row[0] if row else None

    def set_boot(self, boot: str) -> None:
        """This is the boot on which it is used now."""
        self._db.execute("DELETE FROM machine")
        self._db.execute("INSERT INTO machine VALUES (?)", (boot,))

    def pending(self) -> Iterator[tuple[Request, str]]:
        """Every job that waits, with the text of its handle."""
        cursor = self._db.execute(
            "SELECT request, handle FROM jobs WHERE status = ?", (JobStatus.PENDING.value,)
        )
        for request, handle in cursor:
            yield Request.from_message(json.loads(request)), handle

    def pages(self, size: int = 500) -> Iterator[list[tuple[str, str]]]:
        """(handle, status) of every job, newest first, a page at a time."""
        cursor = self._db.execute("SELECT handle, status FROM jobs ORDER BY seq DESC")
        while page := cursor.fetchmany(size):
            yield page

    def counts(self) -> dict[str, int]:
        """How many jobs there are in each status."""
        rows = self._db.execute("SELECT status, count(*) FROM jobs GROUP BY status")
        return dict(rows.fetchall())


def _started(fields: dict[str, Any]) -> Started:
    return Started(**{**fields, "devices": tuple(fields["devices"])})


def _open(path: Path) -> sqlite3.Connection:
    try:
        db = sqlite3.connect(path, isolation_level=None, timeout=5)
        path.chmod(0o600)
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
        tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables == 0:
            _create(db)
        elif application != _APPLICATION or version != _VERSION:
            raise _foreign(path, application, version)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("SELECT count(*) FROM jobs WHERE status = ''").fetchone()
    except sqlite3.Error as error:
        raise BackendUnavailable(
            f"the queue in {path} cannot be used: {error}",
            hint="nothing was changed. If it is damaged, move it away"
            f" (`mv {path} {path}.damaged`); finished jobs keep their results in the store",
        ) from error
    return db


def _create(db: sqlite3.Connection) -> None:
    db.execute("BEGIN IMMEDIATE")
    for statement in filter(str.strip, _SCHEMA.split(";")):
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {_APPLICATION}")
    db.execute(f"PRAGMA user_version = {_VERSION}")
    db.execute("COMMIT")


def _foreign(path: Path, application: int, version: int) -> BackendUnavailable:
    if application != _APPLICATION:
        message = f"{path} is not a queue of kinetic's"
    else:
        message = f"the queue in {path} has version {version}; this kinetic reads {_VERSION}"
    return BackendUnavailable(
        message,
        hint="nothing was changed. Use the kinetic that made it, or point KINETIC_HOME elsewhere",
    )
