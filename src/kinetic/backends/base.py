"""What a backend must do. Handles and the command line speak to all of them through this alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kinetic.accelerators import Accelerator
    from kinetic.job_status import JobStatus
    from kinetic.options import JobOptions
    from kinetic.spec import JobSpec
    from kinetic.stores.base import Store


@dataclass(frozen=True, slots=True)
class Submission:
    """A job as it is handed to a backend: what is stored of it, and what must not be."""

    spec: JobSpec
    spec_text: bytes  # as it is stored
    handle: Mapping[str, Any]
    accelerator: Accelerator
    captured_env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StatusChanged:
    """The backend sees the job in another state than before."""

    status: JobStatus


@dataclass(frozen=True, slots=True)
class LogBytes:
    """The job printed something."""

    data: bytes


Event = StatusChanged | LogBytes


@dataclass(frozen=True, slots=True)
class ListedJob:
    """One row of a listing: the stored handle, and how the job is doing."""

    handle: Mapping[str, Any]
    status: JobStatus


class Backend(Protocol):
    """An engine that makes a process somewhere run the runner."""

    @property
    def name(self) -> str:
        """The name that `backend=` takes."""
        ...

    @property
    def store(self) -> Store:
        """Where this backend's jobs are kept."""
        ...

    @property
    def signing_key(self) -> bytes:
        """What its records are authenticated with."""
        ...

    def check(self, options: JobOptions) -> None:
        """Raise if this backend cannot do what the options ask for."""
        ...

    def handle_fields(self) -> Mapping[str, str]:
        """Where its jobs live: the handle's project, cluster_name, zone, namespace, bucket_name."""
        ...

    def output_dir(self, job_id: str) -> str:
        """Where a job's outputs go unless the user says otherwise."""
        ...

    def submit(self, job: Submission) -> str | None:
        """Accept the job durably, once however often this is called.

        Returns a sentence about where it runs, if that is not what was asked for.
        """
        ...

    def status(self, job_id: str) -> JobStatus:
        """How the backend sees the job now."""
        ...

    def watch(
        self, job_id: str, *, log: bool = False, deadline: float | None = None
    ) -> Iterator[Event]:
        """What happens to the job, from its status now to its terminal status.

        With `log`, everything it prints as well, from the first byte. Lost contact is ridden out;
        `TimeoutError` once `time.monotonic()` passes `deadline`.
        """
        ...

    def log(self, job_id: str) -> Iterator[bytes]:
        """What the job has printed until now, in pieces."""
        ...

    def tail(self, job_id: str, lines: int) -> bytes:
        """The last lines the job has printed."""
        ...

    def delete(self, job_id: str, timeout: float, *, end: bool = True) -> None:
        """End the job if it is not over, and forget it; returns when it is gone.

        Without `end`, what still runs is waited for: it has its outcome, and is tidying up.
        """
        ...

    def list(self) -> list[ListedJob]:
        """Every job it knows, newest first."""
        ...
