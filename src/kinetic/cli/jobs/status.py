"""`kinetic jobs status`."""

from __future__ import annotations

import click

from kinetic import jobs
from kinetic.cli import output, terminal
from kinetic.cli.jobs import options


@click.command("status")
@options.one_job
@options.as_json
def command(job_id: str, as_json: bool, project: str | None, cluster: str | None) -> None:
    """Print how a job is doing.

    PENDING, RUNNING, SUCCEEDED or FAILED; NOT_FOUND for one that was cancelled, of which only what
    is stored is left.

    \b
    Examples:
      kinetic jobs status JOB_ID
      kinetic jobs status JOB_ID --json
    """
    handle = jobs.attach(job_id, project, cluster)
    status = handle.status().value
    if as_json:
        output.as_json({**handle.to_dict(), "status": status})
    else:
        print(terminal.painted_status(status, status))
