"""Jobs on the local backend."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.jobs import JobConformance


class TestLocalJobs(JobConformance):
    """The local backend passes what every backend must."""

    @pytest.fixture
    def configured(self, home: Path) -> None:
        """Jobs go to an agent of this test session's own."""


class TestColdStartedJobs(JobConformance):
    """Where forking is unsafe, jobs start cold; nothing else differs."""

    @pytest.fixture
    def configured(
        self, shared_cold_home: Path, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Jobs go to an agent that was told not to fork."""
        monkeypatch.setenv("KINETIC_HOME", str(shared_cold_home))
        monkeypatch.setenv("KINETIC_JOB_START", "cold")
