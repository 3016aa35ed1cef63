"""The agent's side of its fork servers: one for each interpreter that submits jobs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Protocol

from kinetic.backends.local.messages import Launch, Lines, Message, encode

if TYPE_CHECKING:
    import asyncio

    from kinetic.backends.local.agent.endings import Exit
    from kinetic.backends.local.home import Home
    from kinetic.backends.local.messages import Request

_MOST = 4  # fork servers kept; beyond that the one idle for longest goes


class Parent(Protocol):
    """Who hears what becomes of launches."""

    def exited(self, uid: str, exited: Exit) -> None:
        """The attempt's process has ended."""
        ...

    def orphaned(self, uids: set[str], trouble: str | None) -> None:
        """A fork server died; with `trouble`, before it could start anything, and why."""
        ...


@dataclass(eq=False)
class _Server:
    key: str
    process: subprocess.Popen[bytes]
    link: socket.socket
    errors: IO[bytes]
    lines: Lines = field(default_factory=Lines)
    ready: bool = False
    uids: set[str] = field(default_factory=set)
    outgoing: bytearray = field(default_factory=bytearray)


class Nursery:
    """Starts fork servers when they are first needed, and passes launches and exits along."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, parent: Parent, home: Home, restart: list[str]
    ) -> None:
        self._loop = loop
        self._parent = parent
        self._hello: Message = {
            "key": home.signing_key().hex(),
            "runs": str(home.runs),
            "restart": {"command": restart, "env": dict(os.environ)} if restart else {},
        }
        self._servers: dict[str, _Server] = {}
        self._exited: dict[str, _Server] = {}
        self._retired: list[subprocess.Popen[bytes]] = []

    def launch(self, uid: str, request: Request, launch: Launch) -> None:
        """Start an attempt under the interpreter that submitted it."""
        key = repr((request.interpreter, sorted(request.startup.items())))
        try:
            server = self._servers.pop(key, None) or self._start(key, request)
        except OSError as error:
            self._loop.call_soon(self._parent.orphaned, {uid}, str(error))
            return
        self._servers[key] = server  # last used, last in line to go
        server.uids.add(uid)
        self._send(server, launch.to_message())

    def settled(self, uid: str) -> None:
        """How the attempt exited is written down: its fork server may forget it."""
        server = self._exited.pop(uid, None)
        if server and server.key in self._servers:
            self._send(server, {"settled": uid})

    def close(self) -> None:
        """Part from the fork servers; those with jobs stay until these are noted."""
        for server in self._servers.values():
            self._loop.remove_reader(server.link)
            self._loop.remove_writer(server.link)
            server.link.setblocking(True)
            server.link.sendall(bytes(server.outgoing) + encode({"bye": True}))
            server.link.close()

    def _start(self, key: str, request: Request) -> _Server:
        self._retire()
        ours, theirs = socket.socketpair()
        errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed when the server has gone
        module, fd = "kinetic.backends.local.forkserver", theirs.fileno()
        with theirs:
            process = subprocess.Popen(
                [request.interpreter, "-P", "-m", module, str(fd), _how_to_start()],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                env=request.startup,
                pass_fds=[fd],
                cwd="/",
                start_new_session=True,
            )
        ours.setblocking(False)
        server = _Server(key, process, ours, errors)
        self._loop.add_reader(ours, self._receive, server)
        self._send(server, self._hello)
        return server

    def _retire(self) -> None:
        self._retired = [process for process in self._retired if process.poll() is None]
        idle = [server for server in self._servers.values() if not server.uids]
        if len(self._servers) >= _MOST and idle:
            self._send(idle[0], {"bye": True})
            self._drop(idle[0])
            self._retired.append(idle[0].process)

    def _send(self, server: _Server, message: Message) -> None:
        server.outgoing += encode(message)
        self._flush(server)

    def _flush(self, server: _Server) -> None:
        try:
            sent = server.link.send(server.outgoing)
            del server.outgoing[:sent]
        except BlockingIOError:
            pass
        except OSError:
            return  # its end is seen by the reader
        if server.outgoing:
            self._loop.add_writer(server.link, self._flush, server)
        else:
            self._loop.remove_writer(server.link)

    def _receive(self, server: _Server) -> None:
        from kinetic.backends.local.agent.endings import Exit

        try:
            data = server.link.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lost(server)
            return
        for message in server.lines.feed(data):
            if "exited" in message:
                server.uids.discard(message["exited"])
                self._exited[message["exited"]] = server
                self._parent.exited(message["exited"], Exit(message["code"], message["signalled"]))
            elif "unstarted" in message:
                server.uids.discard(message["unstarted"])
                self._parent.orphaned({message["unstarted"]}, message["trouble"])
            else:
                server.ready = True

    def _lost(self, server: _Server) -> None:
        self._drop(server)
        server.process.wait()
        trouble = None
        if not server.ready:
            server.errors.seek(0)
            trouble = server.errors.read()[-2000:].decode(errors="replace").strip()
        server.errors.close()
        self._parent.orphaned(server.uids, trouble)

    def _drop(self, server: _Server) -> None:
        self._servers.pop(server.key, None)
        self._loop.remove_reader(server.link)
        self._loop.remove_writer(server.link)
        server.link.close()


def _how_to_start() -> str:
    """Fork where that is safe; elsewhere, or where the user says so, start cold."""
    default = "fork" if sys.platform.startswith("linux") else "cold"
    return os.environ.get("KINETIC_JOB_START") or default
