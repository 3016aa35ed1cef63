"""`python -m kinetic.backends.local.agent HOME READY_FD RESTARTS`: be the agent of a home.

READY_FD is where to report how the start went, or `-`; RESTARTS is how often it was started again.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from kinetic.backends.local import processes
from kinetic.backends.local.agent import devices, tidy
from kinetic.backends.local.agent.core import Agent
from kinetic.backends.local.agent.filewatch import open_watch
from kinetic.backends.local.agent.nursery import Nursery
from kinetic.backends.local.agent.queue import Queue
from kinetic.backends.local.agent.schedule import Machine
from kinetic.backends.local.agent.server import Connection, Door
from kinetic.backends.local.agent.watchers import Watchers
from kinetic.backends.local.home import Home
from kinetic.backends.local.launch import clean_signals
from kinetic.backends.local.messages import encode
from kinetic.errors import KineticError

_log = logging.getLogger("kinetic.agent")
_LOOK_AROUND_EVERY = 2.0  # seconds between looks at whether anyone still needs us
_LOG_LIMIT = 4 << 20
_SWEEP_AFTER = 20.0  # seconds of idleness; the next jobs may be a moment away
_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_RESTARTS = 20  # how often an agent that dies is started again before a client must ask


def main() -> None:
    """Serve until stopped, idle for long, or the home is gone."""
    _start_clean()
    directory, fd, restarts = sys.argv[1:]
    home = Home(Path(directory))
    ready = None if fd == "-" else int(fd)
    if ready is not None and os.fork():
        os._exit(0)  # be nobody's child, so that no client has to bury us
    try:
        lock = _take_lock(home)
        if lock is None:
            _report(ready, {"running": True})
            return
        _start_log(home)
        queue = Queue(home.database)
    except (KineticError, OSError) as error:
        _log.error("cannot start: %s", error)
        _report(ready, {"error": str(error.args[0]), "hint": getattr(error, "hint", None)})
        return
    asyncio.run(_serve(home, queue, ready, int(restarts)))
    queue.close()
    os.close(lock)


async def _serve(home: Home, queue: Queue, ready: int | None, restarts: int) -> None:
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, done.set)
    loop.set_exception_handler(_crash)
    machine = Machine(_slots(), devices.find_gpus())
    agent = Agent(loop, home, queue, machine)
    restart = home.agent_command("-", restarts + 1) if restarts < _RESTARTS else []
    agent.nursery = Nursery(loop, agent, home, restart)
    agent.watchers = Watchers(loop, open_watch(loop))
    door = Door(agent, queue, done.set)
    home.socket.unlink(missing_ok=True)
    server = await loop.create_unix_server(lambda: Connection(door), home.socket, backlog=1024)
    home.socket.chmod(0o600)
    agent.recover()
    tidy.prune(home, agent.workspaces_in_use())
    _log.info("serving %s with %d slots and %d GPUs", home.root, machine.slots, len(machine.gpus))
    _report(ready, {"ready": os.getpid()})
    await _until_done(done, home, door)
    server.close()
    with suppress(OSError):
        home.socket.unlink(missing_ok=True)
    agent.nursery.close()
    _log.info("stopped")


async def _until_done(done: asyncio.Event, home: Home, door: Door) -> None:
    patience = float(os.environ.get("KINETIC_AGENT_IDLE") or 300)
    mine = home.lock.stat().st_ino
    idle = 0.0
    every = min(_LOOK_AROUND_EVERY, patience)
    while idle < patience:
        with suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), every)
            return
        if not home.lock.exists() or home.lock.stat().st_ino != mine:
            _log.info("%s is gone", home.root)
            return
        needed = not door.agent.is_idle()
        idle = 0.0 if needed else idle + every
        if idle >= min(_SWEEP_AFTER, patience / 2):
            tidy.sweep(home)


def _take_lock(home: Home) -> int | None:
    """The lock that makes this the only agent of its home; None if there is one already."""
    home.prepare()
    lock = os.open(home.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _start_log(home: Home) -> None:
    """Log to the home's file, and send there whatever else would be printed."""
    if home.agent_log.exists() and home.agent_log.stat().st_size > _LOG_LIMIT:
        home.agent_log.replace(home.agent_log.with_suffix(".log.1"))
    output = os.open(home.agent_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    logging.basicConfig(
        level=logging.INFO,
        format=f"%(asctime)s [{os.getpid()}] %(levelname)s %(message)s",
        stream=sys.stderr,
    )


def _crash(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """An error nobody foresaw: go, and let the next agent start from what is on disk."""
    error = context.get("exception")
    accepting = context["message"].startswith("socket.accept()")
    if accepting and isinstance(error, OSError) and error.errno in _OUT_OF_RESOURCES:
        _log.error("%s: %s", context["message"], error)  # asyncio tries again in a second
        return
    _log.critical("crashed: %s", context["message"], exc_info=context.get("exception"))
    os._exit(os.EX_SOFTWARE)


def _start_clean() -> None:
    """Nothing of whoever happened to start us: no name, signals, affinity or small limits."""
    processes.take_name(processes.AGENT)
    clean_signals()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hasattr(os, "sched_setaffinity"):
        with suppress(OSError):
            os.sched_setaffinity(0, range(os.cpu_count() or 1))
    os.umask(0o077)


def _slots() -> int:
    named = os.environ.get("KINETIC_SLOTS")
    if named:
        return int(named)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _report(ready: int | None, message: dict[str, object]) -> None:
    """Tell whoever started us how that went."""
    if ready is not None:
        with suppress(OSError):  # it may not have waited
            os.write(ready, encode(message))
            os.close(ready)


if __name__ == "__main__":
    main()
