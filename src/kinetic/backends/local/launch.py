"""Turn a fresh process into a job's process, and run the runner in it.

A forked process comes here directly. Where forking is unsafe, `python -m
kinetic.backends.local.launch` comes here from a cold start and reads the same launch from stdin.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import signal
import sys
import time
import types
from pathlib import Path
from typing import NoReturn

from kinetic.backends.local import claims, processes
from kinetic.backends.local.messages import Launch
from kinetic.runner.attempt import run
from kinetic.runner.leave import leave
from kinetic.spec import Assignment

NOT_MINE = 75  # sysexits' EX_TEMPFAIL: another process has claimed this attempt


def become_job(launch: Launch, key: bytes) -> NoReturn:
    """Be the job: its own session, log and environment; then run it and exit."""
    with contextlib.suppress(PermissionError):  # a cold start is a session leader already
        os.setsid()
    processes.become_subreaper()
    processes.take_name(processes.JOB)
    if not claims.claim(launch.claim):
        os._exit(NOT_MINE)
    _redirect(launch.log)
    _reset_signals()
    os.umask(launch.umask)
    _limit_open_files(launch.open_files)
    _take_environment(launch.env)
    if launch.cgroup:
        with contextlib.suppress(OSError):  # the agent watches resident memory as well
            Path(launch.cgroup, "cgroup.procs").write_text("0")
    _forget_parent()
    leave(run(Assignment.from_json(launch.assignment), key))


def clean_signals() -> None:
    """Undo what a parent blocked or ignored; jobs get what a fresh program gets."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _limit_open_files(soft: int) -> None:
    current, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != current:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def prepare_streams() -> None:
    """Once a process, before any job: nothing to read, and text that is out when its line is."""
    sys.stdin = io.TextIOWrapper(io.FileIO(os.open(os.devnull, os.O_RDONLY)))
    for stream in (sys.stdout, sys.stderr):
        # Line buffering also flushes at a carriage return, so progress bars move.
        assert isinstance(stream, io.TextIOWrapper)
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)


def _redirect(log: str) -> None:
    """Be the writer of the log, under the streams that are there already."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(os.path.dirname(log), 0o700)  # noqa: PTH102, PTH120  # a hot path
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _take_environment(env: dict[str, str]) -> None:
    """Exactly `env`; only what differs is touched, for every touched page is a copied one."""
    for name in [name for name in os.environ if name not in env]:
        del os.environ[name]
    for name, value in env.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
    if "TZ" in env:
        time.tzset()


def _forget_parent() -> None:
    """No trace of the fork server in what user code can see."""
    sys.modules["__main__"] = types.ModuleType("__main__")


def main() -> NoReturn:
    """The cold start: one message on stdin says everything."""
    message = json.loads(sys.stdin.readline())
    os.close(0)
    clean_signals()
    prepare_streams()
    become_job(Launch.from_message(message["launch"]), bytes.fromhex(message["key"]))


if __name__ == "__main__":
    main()
