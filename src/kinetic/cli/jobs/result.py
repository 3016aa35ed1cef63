"""`kinetic jobs result`."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from kinetic import jobs, notices
from kinetic.cli import report
from kinetic.cli.jobs import options
from kinetic.errors import OptionError, ResultTimeout

if TYPE_CHECKING:
    from kinetic.jobs import JobHandle


@click.command("result")
@options.one_job
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Wait this long at most; then exit with 124, and the job goes on.",
)
@click.option("--no-cleanup", is_flag=True, help="Keep the job and what is stored of it.")
@options.as_json
def command(
    job_id: str,
    timeout: float | None,
    no_cleanup: bool,
    as_json: bool,
    project: str | None,
    cluster: str | None,
) -> int:
    """Wait for a job, and print what it returned.

    A string is printed as it is, anything else as Python shows it. A job that succeeded is then
    removed; one that failed is kept, its error printed, and the exit code is 1.

    \b
    Examples:
      kinetic jobs result JOB_ID
      kinetic jobs result JOB_ID --timeout 60 --no-cleanup
      kinetic jobs result JOB_ID --json | jq .loss
    """
    # A value may be of a class from the project that one stands in; nothing installed is hidden.
    sys.path.append(os.getcwd())  # noqa: PTH109
    handle = jobs.attach(job_id, project, cluster)
    try:
        value = handle.result(timeout=timeout, cleanup=False)
    except KeyboardInterrupt:
        return report.stopped_waiting(job_id)
    except Exception as error:
        code = _told(error, job_id, timeout)
        if code is None:
            raise
        return code
    _print(value, handle, as_json)
    if not no_cleanup and not handle.debug:
        jobs.tidy_up(handle)  # only now that the value is safely out
    return 0


def _told(error: Exception, job_id: str, timeout: float | None) -> int | None:
    """Say why there is no value; the exit code, or None if this is not the place to say it."""
    if report.is_from_job(error, job_id):
        return report.job_failure(error, job_id)
    if isinstance(error, ResultTimeout):
        message = f"`{job_id}` is not over after {timeout:g} seconds; the job goes on"
        report.error(message, notices.ways_back(job_id))
        return report.TIMED_OUT
    return None


def _print(value: Any, handle: JobHandle[Any], as_json: bool) -> None:
    if not as_json:
        print(value if type(value) is str else repr(value), flush=True)
        return
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise OptionError(
            f"what `{handle.job_id}` returned cannot be written as JSON: {error}",
            hint=f"`kinetic jobs result {handle.job_id}` prints it as Python shows it; it is kept",
        ) from error
    print(text, flush=True)
