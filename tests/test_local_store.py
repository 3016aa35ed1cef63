"""The store in a directory."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kinetic.errors import OptionError, StoreError
from kinetic.stores import open_store
from kinetic.stores.base import Store
from kinetic.stores.local import LocalStore
from tests.conformance.stores import StoreConformance


class TestLocalStore(StoreConformance):
    """The directory store passes what every store must."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return LocalStore(tmp_path / "a store with spaces, and ünïcode")

    def test_objects_are_private(self, store: LocalStore) -> None:
        """Nobody but the user can read an object or list a directory."""
        store.put("a/b", b"secret")
        assert stat.S_IMODE(store.path("a/b").stat().st_mode) == 0o600
        assert stat.S_IMODE(store.path("a").stat().st_mode) == 0o700

    def test_a_killed_writer_leaves_nothing_visible(self, store: LocalStore) -> None:
        """A writer that is killed half-way leaves no object and nothing that is listed."""
        writer = subprocess.Popen(
            [sys.executable, "-c", _WRITE_FOREVER, str(store.root)], stdout=subprocess.PIPE
        )
        assert writer.stdout
        with writer.stdout as out:
            out.readline()  # it has written half of its object
            writer.send_signal(signal.SIGKILL)
            writer.wait()
        assert not store.exists("k/half")
        assert list(store.list("k/")) == []

    def test_a_place_that_cannot_be_written_is_explained(self, tmp_path: Path) -> None:
        """The error names the object, the reason and what to do."""
        (tmp_path / "file").write_text("")
        with pytest.raises(StoreError, match=r"could not write `k`.*Not a directory") as caught:
            LocalStore(tmp_path / "file").put("k", b"x")
        assert "KINETIC_HOME" in str(caught.value)


_WRITE_FOREVER = """
import os, sys
from pathlib import Path
from kinetic.stores import local

real = os.fsync
def stall(fd):
    print("half", flush=True)
    sys.stdin.read()
    os.pause() if hasattr(os, "pause") else __import__("signal").pause()
os.fsync = stall
local.LocalStore(Path(sys.argv[1])).put("k/half", b"x" * 1000)
"""


def test_an_unknown_store_is_refused() -> None:
    """A store URL this version cannot open is an error that says which it can."""
    with pytest.raises(OptionError, match="ftp://x") as caught:
        open_store("ftp://x")
    assert "file://" in str(caught.value)


def test_deleting_survives_what_is_already_gone(tmp_path: Path) -> None:
    """Deleting in a store that does not exist is no error."""
    store = LocalStore(tmp_path / "never-made")
    store.delete("a/")
    store.delete("a")
    assert not os.path.exists(store.root)
