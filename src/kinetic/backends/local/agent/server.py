"""The agent's door: a private socket, a line a request."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING

import kinetic
from kinetic.backends.local.agent.watchers import Watcher
from kinetic.backends.local.messages import PROTOCOL, Lines, Message, Request, encode
from kinetic.job_status import JobStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinetic.backends.local.agent.core import Agent
    from kinetic.backends.local.agent.queue import Queue


class Door:
    """What clients may ask."""

    def __init__(self, agent: Agent, queue: Queue, stop: Callable[[], None]) -> None:
        self.agent = agent
        self._queue = queue
        self._stop = stop
        self._since = time.time()

    def answer(self, connection: Connection, message: Message) -> None:
        """Do what one request asks."""
        operation = message.get("op")
        if operation == "stop":  # understood by every version, so that upgrades can take over
            connection.send({"stopping": os.getpid()})
            self._stop()
        elif message.get("protocol") != PROTOCOL:
            connection.send({"protocol": PROTOCOL, "version": kinetic.__version__})
        elif operation == "submit":
            self.agent.submit(connection, Request.from_message(message["job"]))
        elif operation == "remove":
            self.agent.remove(connection, message["job_id"], message["end"])
        elif operation == "watch":
            self._watch(connection, message)
        elif operation == "status":
            self._status(connection, message)
        elif operation == "list":
            self._list(connection)
        elif operation == "info":
            connection.send(self._info())
        else:
            connection.fail(f"the agent does not know `{operation}`", "")

    def _watch(self, connection: Connection, message: Message) -> None:
        job_id = message["job_id"]
        status = self._queue.status(job_id)
        if not status.is_terminal:
            watcher = Watcher(connection, job_id, bool(message["log"]), message["waiter"])
            # Before the status is sent: what is printed from here on is told, what was is read.
            self.agent.watchers.add(watcher, self.agent.started_log(job_id))
            if watcher.waiter:
                self.agent.wake()
        connection.send({"status": status.value})

    def _status(self, connection: Connection, message: Message) -> None:
        job_id, waiter = message["job_id"], message["waiter"]
        status = self._queue.status(job_id)
        if waiter and status is JobStatus.PENDING:
            self.agent.watchers.polled(waiter, job_id)  # it waits in its own way
            self.agent.wake()
        connection.send({"status": status.value})

    def _list(self, connection: Connection) -> None:
        for page in self._queue.pages():
            # Handles are JSON already; ten thousand of them are not worth parsing here.
            rows = (f'{{"handle":{handle},"status":"{status}"}}' for handle, status in page)
            connection.send_line(f'{{"jobs":[{",".join(rows)}]}}')
        connection.send({"end": True})

    def _info(self) -> Message:
        return {
            "pid": os.getpid(),
            "version": kinetic.__version__,
            "uptime": round(time.time() - self._since, 1),
            "slots": self.agent.machine.slots,
            "gpus": len(self.agent.machine.gpus),
            "jobs": self._queue.counts(),
        }


class Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._lines = Lines()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for message in self._lines.feed(data):
            self._door.answer(self, message)

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        self._door.agent.watchers.drop(self)

    def send(self, message: Message) -> None:
        """Tell the client something, if it is still there."""
        if self._transport:
            self._transport.write(encode(message))

    def send_line(self, text: str) -> None:
        """Tell the client something that is encoded already."""
        if self._transport:
            self._transport.write(text.encode() + b"\n")

    def fail(self, error: str, hint: str) -> None:
        """Tell the client that what it asked for cannot be done."""
        self.send({"error": error, "hint": hint})

    def backlog(self) -> int:
        """How many bytes the client has not read yet."""
        return self._transport.get_write_buffer_size() if self._transport else 0
