"""Agents and scripts for tests: started, found, killed and waited for."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kinetic.backends.local.connection import LostContact, ask, channel
from kinetic.backends.local.home import Home

PATIENCE = 120.0  # seconds; only a broken product makes a test wait this long


@contextmanager
def temporary_home() -> Iterator[Path]:
    """A home whose agent is gone, with everything it started, when the test is over."""
    root = Path(tempfile.mkdtemp(prefix="kn-"))
    try:
        yield root
    finally:
        stop(root)
        for pid in processes_of(root):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(root, ignore_errors=True)


def environment(home: Path) -> dict[str, str]:
    """What a process needs to use that home."""
    return {
        "KINETIC_HOME": str(home),
        "KINETIC_BACKEND": "local",
        "KINETIC_LOG_LEVEL": "WARNING",
        "KINETIC_AGENT_IDLE": "60",
    }


def info(home: Path) -> dict[str, Any]:
    """What the agent says of itself; it is started if need be."""
    return ask(Home(home), {"op": "info"})


def stop(home: Path) -> None:
    """Stop the agent, if there is one, and wait until it has let go."""
    with suppress(LostContact, TimeoutError), channel(Home(home), start=False) as conversation:
        conversation.send({"op": "stop"})
        while True:
            conversation.receive(time.monotonic() + 10)


def kill(home: Path) -> int | None:
    """SIGKILL the agent, if there is one; returns its pid."""
    with suppress(LostContact), channel(Home(home), start=False) as conversation:
        conversation.send({"op": "info"})
        pid = int(conversation.receive()["pid"])
        os.kill(pid, signal.SIGKILL)
        return pid
    return None


def processes_of(home: Path) -> list[int]:
    """Every process that has the home in its command line or environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                if os.fsencode(home) in text:
                    found.append(int(entry.name))
    return found


def eventually(condition: Callable[[], Any], what: str) -> Any:
    """Wait for something that nobody can tell us about, such as another process's end."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if value := condition():
            return value
        select.select([], [], [], 0.01)
    raise AssertionError(f"never happened: {what}")


def script(
    directory: Path, text: str, home: Path, *, name: str = "script.py", **env: str
) -> subprocess.Popen[str]:
    """Start a script as a user would, and leave it running."""
    (directory / name).write_text(text)
    return subprocess.Popen(
        [sys.executable, name],
        cwd=directory,
        env={**base_environment(), **environment(home), **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(process: subprocess.Popen[str]) -> str:
    """What a script printed, if it ended well."""
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, f"{out}\n{err}"
    return out


def answer(process: subprocess.Popen[str]) -> Any:
    """The JSON that a script printed last."""
    return json.loads(output(process).splitlines()[-1])


def base_environment() -> dict[str, str]:
    """This process's environment without anything of ours."""
    return {n: v for n, v in os.environ.items() if not n.startswith(("KINETIC_", "GOOGLE_CLOUD"))}
