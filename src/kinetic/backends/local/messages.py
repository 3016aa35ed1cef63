"""What clients, the agent and its fork servers say to each other: JSON, a line a message."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from kinetic.spec import plain

PROTOCOL = 1

Message = dict[str, Any]


def encode(message: Message) -> bytes:
    """The bytes of one message on a stream."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


class Lines:
    """Messages out of a stream that arrives in pieces."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Message]:
        """The messages that `data` completes."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in whole]


@dataclass(frozen=True, slots=True)
class Request:
    """A job as the agent queues it: what scheduling and starting need, and nothing of the rest."""

    job_id: str
    spec_digest: str
    source_digest: str
    interpreter: str  # the Python that submitted, which is the one that runs it
    startup: dict[str, str]  # the variables that interpreter must be started with
    env: dict[str, str]
    handle: dict[str, Any]
    spec: str  # its text, from which the store's copy can be made again
    umask: int = 0o022
    open_files: int = 1024  # the soft limit
    slots: int = 1
    gpus: int = 0
    memory: int | None = None
    timeout: float | None = None

    def to_message(self) -> Message:
        """This request, ready to encode."""
        return plain(self)

    @classmethod
    def from_message(cls, message: Message) -> Request:
        """Read a request back."""
        return cls(**message)


@dataclass(frozen=True, slots=True)
class Launch:
    """One attempt as a fork server starts it."""

    assignment: str  # JSON of kinetic.spec.Assignment
    log: str
    claim: str
    umask: int
    open_files: int
    env: dict[str, str] = field(default_factory=dict)
    cgroup: str | None = None

    @property
    def uid(self) -> str:
        """The attempt's uid, after which its claim is named."""
        return self.claim.rpartition("/")[2]

    def to_message(self) -> Message:
        """This launch, ready to encode."""
        return plain(self)

    @classmethod
    def from_message(cls, message: Message) -> Launch:
        """Read a launch back."""
        return cls(**message)
