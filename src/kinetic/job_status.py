"""The five states a job can be seen in."""

from __future__ import annotations

from enum import Enum


class JobStatus(Enum):
    """Observable status of a job, as its backend sees it."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    NOT_FOUND = "NOT_FOUND"

    @property
    def is_terminal(self) -> bool:
        """Whether the backend will never report anything else for this attempt."""
        return self not in (JobStatus.PENDING, JobStatus.RUNNING)
