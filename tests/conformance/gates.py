"""A gate that a job waits at until the test opens it: no sleeping, no polling."""

from __future__ import annotations

import os
from pathlib import Path


class Gate:
    """A pair of named pipes: the job says it has arrived, the test says it may pass."""

    def __init__(self, directory: Path, name: str = "gate") -> None:
        self.arrived = str(directory / f"{name}.arrived")
        self.passed = str(directory / f"{name}.passed")
        os.mkfifo(self.arrived)
        os.mkfifo(self.passed)

    def wait(self) -> None:
        """In the job: say that we are here, and wait."""
        with open(self.arrived, "w"):
            pass
        with open(self.passed):
            pass

    def await_arrival(self) -> None:
        """In the test: return once the job is at the gate."""
        with open(self.arrived):
            pass

    def open(self) -> None:
        """In the test: let the job pass."""
        with open(self.passed, "w"):
            pass
