"""A process that has the runner imported and forks for each job: a job costs a fork, not a start.

It belongs to an agent and serves one interpreter. It reaps its jobs, tells how each exited, and
ends what they left behind. When its agent dies it notes on disk what that one may not
have heard, starts another, stays until its last job has been noted, and goes.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import time
import traceback

from kinetic.backends.local import claims, processes
from kinetic.backends.local.launch import become_job, clean_signals, prepare_streams
from kinetic.backends.local.messages import Launch, Lines, Message, encode
from kinetic.stores import local as _local  # noqa: F401  # what jobs need is loaded before they fork

_FORK_TRIES, _FORK_PAUSE = 20, 0.25  # a machine that is out of processes is given five seconds


class ForkServer:
    """The loop: launches in, exits out."""

    def __init__(self, agent: socket.socket, *, cold: bool) -> None:
        self._agent: socket.socket | None = agent
        self._cold = cold
        self._key = b""
        self._restart: Message = {}
        self._runs = ""
        self._lines = Lines()
        self._jobs: dict[int, Launch] = {}
        self._successor: int | None = None
        self._unsettled: dict[str, Message] = {}  # exits that the agent has not written down yet
        self._wake_reader, self._wake_writer = socket.socketpair()
        for end in (self._wake_reader, self._wake_writer):
            end.setblocking(False)

    def serve(self) -> None:
        """Serve until the agent is gone and the last job has been noted."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_writer.fileno())
        processes.take_name(processes.FORK_SERVER)
        processes.become_subreaper()
        prepare_streams()
        sys.path_importer_cache.clear()  # jobs look at the disk as it is by then
        gc.collect()
        gc.freeze()  # forked children never touch, and so never copy, what is here already
        self._say({"ready": os.getpid()})
        while self._agent or self._jobs:
            readers = [self._wake_reader] + ([self._agent] if self._agent else [])
            ready, _, _ = select.select(readers, [], [])
            if self._wake_reader in ready:
                with contextlib.suppress(BlockingIOError):
                    self._wake_reader.recv(4096)
                self._reap()
            if self._agent in ready:
                self._listen()

    def _listen(self) -> None:
        assert self._agent
        try:
            data = self._agent.recv(1 << 20)
        except ConnectionError:
            data = b""
        if not data:
            self._lost_agent()
            return
        for message in self._lines.feed(data):
            if "key" in message:
                self._key = bytes.fromhex(message["key"])
                self._restart = message["restart"]
                self._runs = message["runs"]
            elif "bye" in message:
                self._restart = {}
            elif "settled" in message:
                self._unsettled.pop(message["settled"], None)
            else:
                self._launch(Launch.from_message(message))

    def _lost_agent(self) -> None:
        assert self._agent
        self._agent.close()
        self._agent = None
        self._write_notes()
        if self._restart:
            import subprocess  # needed once in a lifetime, and then there is time

            successor = subprocess.Popen(
                self._restart["command"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=self._restart["env"],
                start_new_session=True,
            )
            self._successor = successor.pid  # it has no name of its own yet
            successor.returncode = 0  # `_reap` waits for it, not Popen

    def _launch(self, launch: Launch) -> None:
        try:
            pid = self._spawn(launch) if self._cold else self._fork(launch)
        except OSError as error:
            self._say({"unstarted": launch.uid, "trouble": f"no process could be had: {error}"})
        else:
            self._jobs[pid] = launch

    def _fork(self, launch: Launch) -> int:
        pid = _patient_fork()
        if pid == 0:
            try:
                self._close()
                become_job(launch, self._key)
            except BaseException:  # noqa: BLE001  # the log is the last place where it can be told
                traceback.print_exc()
            finally:
                os._exit(os.EX_SOFTWARE)  # never unwind into the server's loop
        return pid

    def _spawn(self, launch: Launch) -> int:
        import subprocess

        message = encode({"launch": launch.to_message(), "key": self._key.hex()})
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "kinetic.backends.local.launch"],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        process.returncode = 0  # `_reap` waits for it, not Popen
        assert process.stdin
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(message)
            process.stdin.close()
        return process.pid

    def _close(self) -> None:
        signal.set_wakeup_fd(-1)
        for end in (self._agent, self._wake_reader, self._wake_writer):
            if end:
                end.close()

    def _reap(self) -> None:
        while ended := _first_ended():
            launch = self._jobs.pop(ended.si_pid, None)
            uid = launch.uid if launch else claims.claimed_by(ended.si_pid, self._runs)
            note = {"code": ended.si_status, "signalled": ended.si_code != os.CLD_EXITED}
            if uid:
                self._unsettled[uid] = note
                if self._agent is None or not processes.HAVE_NAMES:
                    self._write_notes()  # before the zombie goes, so that no one can find neither
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(ended.si_pid, signal.SIGKILL)  # its group: the zombie keeps the name
            os.waitpid(ended.si_pid, 0)
            if uid:
                self._end_orphans()
            if launch:
                self._say({"exited": uid, **note})

    def _write_notes(self) -> None:
        """Leave what the agent may not have heard where the next one looks for it."""
        for uid, note in self._unsettled.items():
            _write(claims.note_path(f"{self._runs}/{uid}"), json.dumps(note).encode())
        self._unsettled.clear()

    def _end_orphans(self) -> None:
        """End what ended jobs left running: on Linux it is ours now, and not in our books."""
        while orphans := [pid for pid in _children() if self._is_orphan(pid)]:
            for pid in orphans:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)

    def _is_orphan(self, pid: int) -> bool:
        """Not ours to end: our jobs, agents, fork servers, and jobs of a fork server that died."""
        if pid in self._jobs or pid == self._successor or processes.is_ours(pid):
            return False
        return not (processes.is_job(pid) and claims.claimed_by(pid, self._runs))

    def _say(self, message: Message) -> None:
        if self._agent:
            with contextlib.suppress(OSError):  # its end will be seen by the next read
                self._agent.sendall(encode(message))


def _patient_fork() -> int:
    for _ in range(_FORK_TRIES):
        try:
            return os.fork()
        except BlockingIOError:
            time.sleep(_FORK_PAUSE)
    return os.fork()


def _first_ended() -> os.waitid_result | None:
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None


def _children() -> list[int]:
    try:
        fd = os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []  # not Linux, or a kernel without it: then a job's process group has to do
    try:
        return [int(pid) for pid in os.read(fd, 1 << 16).split()]
    finally:
        os.close(fd)


def _write(path: str, data: bytes) -> None:
    """Write a note that nobody reads before the process it is about is gone."""
    with contextlib.suppress(OSError):  # a full disk: the agent still hears it from us
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)


def main() -> None:
    """`python -m kinetic.backends.local.forkserver FD fork|cold`."""
    clean_signals()
    agent = socket.socket(fileno=int(sys.argv[1]))
    ForkServer(agent, cold=sys.argv[2] == "cold").serve()


if __name__ == "__main__":
    main()
