"""`kinetic jobs cancel`."""

from __future__ import annotations

import click

from kinetic import jobs
from kinetic.cli import output
from kinetic.cli.jobs import options
from kinetic.errors import JobNotFound
from kinetic.job_status import JobStatus

_DONE = {
    JobStatus.PENDING: "cancelled `{}` before it ran",
    JobStatus.RUNNING: "cancelled `{}`; what it printed is kept",
    JobStatus.SUCCEEDED: "`{}` had succeeded already; it is off the list, and its result is kept",
    JobStatus.FAILED: "`{}` had failed already; it is off the list, and its log is kept",
}


@click.command("cancel")
@options.one_job
@options.as_json
def command(job_id: str, as_json: bool, project: str | None, cluster: str | None) -> None:
    """End a job and everything it started.

    What is stored of it is kept: its log, and its result if it had one.

    \b
    Examples:
      kinetic jobs cancel JOB_ID
    """
    handle = jobs.attach(job_id, project, cluster)
    was = handle.status()
    if was is JobStatus.NOT_FOUND:
        raise JobNotFound(
            f"there is nothing to cancel: `{job_id}` was cancelled or removed before",
            job_id=job_id,
            hint=f"what is stored of it is kept; `kinetic jobs cleanup {job_id}` removes that too",
        )
    handle.cancel()
    if as_json:
        output.as_json({"job_id": job_id, "was": was.value, "status": JobStatus.NOT_FOUND.value})
    else:
        print(_DONE[was].format(job_id))
