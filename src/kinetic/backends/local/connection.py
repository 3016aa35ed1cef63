"""A client's way to the agent: connect, or start it and connect."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import kinetic
from kinetic import settings
from kinetic.backends.local.messages import PROTOCOL, Lines, Message, encode
from kinetic.errors import BackendError, BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinetic.backends.local.home import Home

_START_WITHIN = 60.0  # seconds; a loaded machine may take a while to start an interpreter
_LOSSES_IN_A_ROW = 20
_AGENT_ENVIRONMENT = (
    "PATH HOME USER LOGNAME LANG LC_ALL TMPDIR PYTHONPATH LD_LIBRARY_PATH CUDA_VISIBLE_DEVICES"
    " KINETIC_SLOTS KINETIC_AGENT_IDLE KINETIC_GRACE KINETIC_JOB_START"
).split()


class LostContact(ConnectionError):
    """The agent went away; whoever asked may ask again."""


class Patience:
    """Ride out lost contact, but not an agent that dies of the very thing it is asked."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._losses = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        if kind is None or not issubclass(kind, LostContact):
            return False
        self._losses += 1
        if self._losses > _LOSSES_IN_A_ROW:
            raise BackendUnavailable(
                f"the agent of {self._home.root} went away {self._losses} times in a row",
                hint="`kinetic agent logs` says why",
            )
        return True

    def reset(self) -> None:
        """The agent answered."""
        self._losses = 0


class Channel:
    """One conversation with the agent. Cheap: each operation has its own, in any thread or fork."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._lines = Lines()
        self._received: list[Message] = []

    def close(self) -> None:
        """End the conversation."""
        self._link.close()

    def __del__(self) -> None:
        self._link.close()

    def send(self, message: dict[str, Any]) -> None:
        """Say something."""
        try:
            self._link.sendall(encode({"protocol": PROTOCOL, **message}))
        except OSError as error:
            raise LostContact from error

    def receive(self, deadline: float | None = None) -> Message:
        """The next thing the agent says; `TimeoutError` after `deadline` on the monotonic clock."""
        while not self._received:
            self._wait(deadline)
            try:
                data = self._link.recv(1 << 20)
            except OSError as error:
                raise LostContact from error
            if not data:
                raise LostContact
            self._received = self._lines.feed(data)
        message = self._received.pop(0)
        if "error" in message:
            raise BackendError(message["error"], hint=message["hint"] or None)
        return message

    def _wait(self, deadline: float | None) -> None:
        if not _readable(self._link.fileno(), deadline):
            raise TimeoutError


def _readable(fd: int, deadline: float | None) -> bool:
    """Whether there is something to read before the deadline. Not select: it stops at fd 1023."""
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    left = None if deadline is None else max(deadline - time.monotonic(), 0) * 1000
    return bool(waiting.poll(left))


@contextmanager
def channel(home: Home, *, start: bool = True) -> Iterator[Channel]:
    """A conversation with the home's agent, which is started if there is none."""
    link = _connect(home) or (_start_and_connect(home) if start else None)
    if link is None:
        raise LostContact
    conversation = Channel(link)
    try:
        yield conversation
    finally:
        conversation.close()


def ask(home: Home, message: dict[str, Any], deadline: float | None = None) -> Message:
    """One request and its answer, asked again when the agent goes away in between."""
    patience = Patience(home)
    while True:
        with patience, _kept(home) as conversation:
            conversation.send(message)
            answer = conversation.receive(deadline)
            if "protocol" not in answer:
                return answer
            retire_other_version(home, answer)


_connections = threading.local()  # one conversation a thread, kept while all goes well


@contextmanager
def _kept(home: Home) -> Iterator[Channel]:
    """The conversation that this thread had before, if it is still its own; else a new one."""
    whose = os.getpid(), home.root
    before, conversation = getattr(_connections, "kept", (None, None))
    _connections.kept = None, None
    if conversation is not None and before != whose:
        conversation.close()
        conversation = None
    if conversation is None:
        conversation = Channel(_connect(home) or _start_and_connect(home))
    try:
        yield conversation
    except BaseException:
        conversation.close()
        raise
    _connections.kept = whose, conversation


def retire_other_version(home: Home, answer: Message) -> None:
    """An agent of another version is asked to go; ours takes its jobs over."""
    if answer["protocol"] > PROTOCOL:
        raise BackendUnavailable(
            f"the agent of {home.root} belongs to kinetic {answer['version']}, which is newer",
            hint="upgrade this kinetic, or point KINETIC_HOME elsewhere",
        )
    with suppress(LostContact), channel(home, start=False) as conversation:
        conversation.send({"op": "stop"})
        conversation.receive()
        with suppress(LostContact):
            conversation.receive()  # nothing more is said; this returns when it has gone


def _connect(home: Home) -> socket.socket | None:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        link.connect(str(home.socket))
    except (FileNotFoundError, ConnectionRefusedError):
        link.close()
        return None
    except OSError as error:
        link.close()
        raise BackendUnavailable(f"the agent of {home.root} cannot be reached: {error}") from error
    return link


def _start_and_connect(home: Home) -> socket.socket:
    """Start the agent; of clients that do so at once, one does and the others wait for it."""
    home.prepare()
    settings.check_agent_variables()
    deadline = time.monotonic() + _START_WITHIN
    pause = 0.02
    with _only_one(home):
        while time.monotonic() < deadline:
            if link := _connect(home):
                return link
            if not _start(home, deadline):
                time.sleep(pause)  # another one starts or stops right now; it will not say when
                pause = min(pause * 2, 1.0)
    raise BackendUnavailable(
        f"the agent of {home.root} did not start within {_START_WITHIN:g} seconds",
        hint=f"see {home.agent_log}",
    )


@contextmanager
def _only_one(home: Home) -> Iterator[None]:
    import fcntl  # not there on Windows, which hears of that earlier and more kindly

    try:
        lock = os.open(home.starting_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BackendUnavailable(
            f"KINETIC_HOME cannot be used: {home.root}: {error.strerror}",
            hint="point KINETIC_HOME at a directory that you may write to",
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _start(home: Home, deadline: float) -> bool:
    """Start an agent; True once it serves, False if it gave way to another."""
    reader, writer = os.pipe()
    env = {name: os.environ[name] for name in _AGENT_ENVIRONMENT if name in os.environ}
    env = with_own_package(env)
    process = subprocess.Popen(
        home.agent_command(str(writer), 0),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=env,
        cwd="/",
        pass_fds=[writer],
        start_new_session=True,
    )
    os.close(writer)
    assert process.stderr
    with process, process.stderr:
        try:
            said = _first_line(reader, deadline)
        finally:
            os.close(reader)
        if said is None:
            raise BackendUnavailable(
                f"the agent of {home.root} could not start",
                hint=process.stderr.read().decode(errors="replace").strip() or None,
            )
    if "error" in said:
        raise BackendUnavailable(said["error"], hint=said["hint"])
    return "ready" in said


def with_own_package(env: dict[str, str]) -> dict[str, str]:
    """`env` for an interpreter that must find this very kinetic, wherever it was imported from."""
    ours = str(Path(kinetic.__file__).parent.parent)
    if ours.endswith(("site-packages", "dist-packages")):
        return env
    search = os.pathsep.join(filter(None, (ours, env.get("PYTHONPATH"))))
    return {**env, "PYTHONPATH": search}


def _first_line(reader: int, deadline: float) -> Message | None:
    """What the agent reports; None if it died without a word."""
    lines, said = Lines(), b""
    while not said.endswith(b"\n"):
        if not _readable(reader, deadline):
            return {}  # it may still come; the caller looks at the clock
        piece = os.read(reader, 65536)
        if not piece:
            return None
        said += piece
    return lines.feed(said)[0]
