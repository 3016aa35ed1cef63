"""Homes with real agents, and patience that is told rather than slept."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import agents

_CLEAN = [name for name in os.environ if name.startswith(("KINETIC_", "GOOGLE_CLOUD_"))]


@pytest.fixture(autouse=True)
def _no_test_hangs() -> Iterator[None]:
    """A job that never comes to its gate fails the test that waits for it."""

    def give_up(*_: object) -> None:
        raise AssertionError("this test has waited for too long")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(int(agents.PATIENCE))
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def shared_home() -> Iterator[Path]:
    """One agent for every test that does no harm to it."""
    with agents.temporary_home() as home:
        yield home


@pytest.fixture(scope="session")
def shared_cold_home() -> Iterator[Path]:
    """One agent that starts every job cold."""
    with agents.temporary_home() as home:
        yield home


@pytest.fixture
def home(shared_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shared home, configured for this process."""
    _configure(shared_home, monkeypatch)
    return shared_home


@pytest.fixture
def own_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home that this test may kill, corrupt or fill."""
    with agents.temporary_home() as home:
        _configure(home, monkeypatch)
        yield home


def _configure(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _CLEAN:
        monkeypatch.delenv(name, raising=False)
    for name, value in agents.environment(home).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty project directory of its own."""
    # Not tmp_path: its name grows with the test's, and tracebacks are compared by eye.
    directory = Path(tempfile.mkdtemp(prefix="kn-project-")).resolve()
    (directory / "pyproject.toml").write_text("")
    yield directory
    shutil.rmtree(directory)
