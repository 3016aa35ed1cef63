"""How an attempt ended: records that are written once, and authenticated before they are trusted.

A record is a line of magic, a line of HMAC, a line of JSON facts and, where a value came back,
its pickle. The HMAC covers the job, the attempt and every byte after it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from kinetic import layout
from kinetic.errors import KineticError, ObjectNotFound
from kinetic.spec import plain

if TYPE_CHECKING:
    from kinetic.stores.base import Store

_MAGIC = b"kinetic-record-1"
_log = logging.getLogger(__name__)


class Ending(Enum):
    """Every way an attempt can end, by name."""

    RETURNED = "returned"
    RAISED = "raised"
    UNPICKLABLE_RESULT = "unpicklable-result"
    SETUP_FAILED = "setup-failed"
    EXITED = "exited"
    KILLED = "killed"
    OUT_OF_MEMORY = "out-of-memory"
    TIMED_OUT = "timed-out"
    CANCELLED = "cancelled"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Facts:
    """What can be said of an ending without unpickling anything."""

    message: str = ""
    type_name: str = ""
    traceback: str = ""
    phase: str = ""
    exit_code: int | None = None
    python: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """One attempt's ending; `body` is the pickled value or exception, if there is one."""

    job_id: str
    attempt: int
    ending: Ending
    facts: Facts = field(default_factory=Facts)
    body: bytes = b""

    @property
    def is_success(self) -> bool:
        """Whether the function returned and its value is in `body`."""
        return self.ending is Ending.RETURNED


class NotAuthentic(KineticError):
    """A record was not written by someone who holds the signing key."""


def seal(record: Record, key: bytes) -> bytes:
    """The bytes to store."""
    facts = {"ending": record.ending.value, **plain(record.facts)}
    text = json.dumps(facts, separators=(",", ":")).encode() + b"\n" + record.body
    return b"\n".join((_MAGIC, _signature(record.job_id, record.attempt, text, key), text))


def unseal(data: bytes, job_id: str, attempt: int, key: bytes) -> Record:
    """The record in `data`; `NotAuthentic` unless it is this very job and attempt's."""
    magic, _, rest = data.partition(b"\n")
    signature, _, text = rest.partition(b"\n")
    expected = _signature(job_id, attempt, text, key)
    if magic != _MAGIC or not hmac.compare_digest(signature, expected):
        raise NotAuthentic(f"a record of `{job_id}` is damaged or was not written by its job")
    line, _, body = text.partition(b"\n")
    facts = json.loads(line)
    ending = Ending(facts.pop("ending"))
    return Record(job_id, attempt, ending, Facts(**facts), body)


def find_final(store: Store, job_id: str, key: bytes, retries: int = 0) -> Record | None:
    """The record that settles the job: any success, else a failure past the last retry.

    What does not authenticate is left where it is and never counts.
    """
    final = None
    for object_key, _ in store.list(layout.attempts(job_id)):
        record = _read(store, object_key, job_id, key)
        if record is None:
            continue
        if record.is_success:
            return record
        if final is None and record.attempt > retries:
            final = record
    return final


def _read(store: Store, object_key: str, job_id: str, key: bytes) -> Record | None:
    attempt = layout.attempt_of(object_key)
    if attempt is None:
        return None
    try:
        return unseal(store.get(object_key), job_id, attempt, key)
    except ObjectNotFound:
        return None  # cleaned up while we looked
    except NotAuthentic as error:
        _log.warning("ignored `%s`: %s", object_key, error)
        return None


def _signature(job_id: str, attempt: int, text: bytes, key: bytes) -> bytes:
    mac = hmac.new(key, f"{job_id}\0{attempt}\0".encode(), hashlib.sha256)
    mac.update(text)
    return mac.hexdigest().encode()
