"""`kinetic jobs logs`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from kinetic import backends, jobs
from kinetic.backends.base import LogBytes
from kinetic.cli import output, report
from kinetic.cli.jobs import options
from kinetic.job_status import JobStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinetic.backends.base import Backend


@click.command("logs")
@options.one_job
@click.option("-f", "--follow", is_flag=True, help="Go on until the job is over.")
@click.option("-n", "--tail", type=click.IntRange(min=0), metavar="N", help="The last N lines.")
def command(
    job_id: str, follow: bool, tail: int | None, project: str | None, cluster: str | None
) -> int:
    """Print what a job has printed, byte for byte.

    \b
    Examples:
      kinetic jobs logs JOB_ID
      kinetic jobs logs JOB_ID --tail 20
      kinetic jobs logs -f JOB_ID
    """
    handle = jobs.attach(job_id, project, cluster)
    backend = backends.open_for_handle(handle.to_dict())
    if follow:
        return _follow(backend, job_id, tail)
    output.show(backend.log(job_id) if tail is None else [backend.tail(job_id, tail)])
    return 0


def _follow(backend: Backend, job_id: str, tail: int | None) -> int:
    output.leave_when_unread()
    try:
        # What is printed between the two looks at the log is behind `start`, so it is shown.
        start = 0 if tail is None else output.start_of_last_lines(backend.log(job_id), tail)
        output.show(output.skipping(_printed(backend, job_id), start))
    except KeyboardInterrupt:
        return report.stopped_waiting(job_id)
    return 0


def _printed(backend: Backend, job_id: str) -> Iterator[bytes]:
    for event in backend.watch(job_id, log=True):
        if isinstance(event, LogBytes):
            yield event.data
        elif event.status is JobStatus.PENDING and sys.stderr.isatty():
            report.note(f"`{job_id}` is PENDING; what it prints comes once it runs")
