"""Everything the local backend keeps below KINETIC_HOME, and who may read it: the user alone.

store/          the store
agent.db        the queue
agent.sock      where the agent listens (elsewhere if the path is too long for a socket)
agent.lock      held by the agent for as long as it lives
agent.log       what the agent says
signing.key     what results are authenticated with
run/            claims of running attempts, and how ended ones exited
workspaces/     jobs' copies of source trees
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from kinetic.backends.local import claims
from kinetic.errors import BackendUnavailable
from kinetic.stores.local import LocalStore

_SOCKET_PATH_LIMIT = 100  # bytes; Linux takes 107, macOS 103
_SHORT = Path("/tmp")  # noqa: S108  # below it a directory that is checked to be ours alone
_KEY_BYTES = 32
_OURS_ALONE = 0o700


@dataclass(frozen=True, slots=True)
class Home:
    """The directory of one user's agent."""

    root: Path

    @property
    def store(self) -> LocalStore:
        return LocalStore(self.root / "store")

    @property
    def database(self) -> Path:
        return self.root / "agent.db"

    @property
    def lock(self) -> Path:
        return self.root / "agent.lock"

    @property
    def starting_lock(self) -> Path:
        return self.root / "agent.starting"

    @property
    def agent_log(self) -> Path:
        return self.root / "agent.log"

    @property
    def runs(self) -> Path:
        return self.root / "run"

    @property
    def workspaces(self) -> Path:
        return self.root / "workspaces"

    @property
    def socket(self) -> Path:
        """Where the agent listens; a deep home has its socket in a private temporary directory."""
        path = self.root / "agent.sock"
        if len(os.fsencode(path)) <= _SOCKET_PATH_LIMIT:
            return path
        # Not TMPDIR: every client of a home must find the same place, whatever its environment.
        name = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:16]
        return _SHORT / f"kinetic-{os.getuid()}" / f"{name}.sock"

    def prepare(self) -> None:
        """Make the home, or say why it cannot be used."""
        if sys.platform == "win32":
            raise BackendUnavailable(
                "the local backend does not run on Windows itself",
                hint="install WSL (`wsl --install`) and run kinetic inside it",
            )
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            for directory in (self.runs, self.workspaces, self.socket.parent):
                if directory != self.root:
                    _private(directory)
            (self.runs / claims.TOKEN).touch(mode=0o600)
        except OSError as error:
            raise BackendUnavailable(
                f"KINETIC_HOME cannot be used: {self.root}: {error.strerror}",
                hint="point KINETIC_HOME at a directory that you may write to",
            ) from error

    def signing_key(self) -> bytes:
        """The key that results are authenticated with, made on first use."""
        path = self.root / "signing.key"
        try:
            key = path.read_bytes()
        except FileNotFoundError:
            LocalStore(self.root).put_if_absent(path.name, os.urandom(_KEY_BYTES))
            key = path.read_bytes()
        if len(key) != _KEY_BYTES:
            raise BackendUnavailable(
                f"{path} is damaged: it has {len(key)} bytes instead of {_KEY_BYTES}",
                hint="restore it; if it is lost, delete it, and results made with it with it",
            )
        return key

    def agent_command(self, ready: str, restarts: int) -> list[str]:
        """What starts an agent of this home; `ready` is where it reports, or `-`."""
        module = "kinetic.backends.local.agent"
        return [sys.executable, "-P", "-m", module, str(self.root), ready, str(restarts)]

    def claim(self, uid: str) -> str:
        """The name by which one process claims an attempt."""
        return f"{self.runs}/{uid}"


def _private(directory: Path) -> Path:
    """`directory`, made if need be and closed to others; an error if it is someone else's."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise BackendUnavailable(
            f"{directory} belongs to someone else",
            hint="point KINETIC_HOME at a directory of your own",
        )
    if stat.S_IMODE(status.st_mode) != _OURS_ALONE:
        directory.chmod(_OURS_ALONE)
    return directory
