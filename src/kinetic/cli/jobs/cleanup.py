"""`kinetic jobs cleanup`."""

from __future__ import annotations

import click

from kinetic import jobs
from kinetic.cli import output
from kinetic.cli.jobs import options


@click.command("cleanup")
@options.one_job
@click.option("--keep-artifacts", is_flag=True, help="Keep what is stored: result, log, code.")
@click.option("--keep-resource", is_flag=True, help="Keep the backend's own entry, and the list's.")
@options.as_json
def command(
    job_id: str,
    keep_artifacts: bool,
    keep_resource: bool,
    as_json: bool,
    project: str | None,
    cluster: str | None,
) -> None:
    """Remove a job: the backend's entry, and what is stored of it.

    A job that is not over is ended first. What it wrote to KINETIC_OUTPUT_DIR always stays.

    \b
    Examples:
      kinetic jobs cleanup JOB_ID
      kinetic jobs cleanup JOB_ID --keep-artifacts
    """
    if keep_artifacts and keep_resource:
        raise click.UsageError(
            "`--keep-artifacts` and `--keep-resource` together leave nothing to remove"
        )
    jobs.attach(job_id, project, cluster).cleanup(k8s=not keep_resource, gcs=not keep_artifacts)
    if as_json:
        removed = {"resource": not keep_resource, "artifacts": not keep_artifacts}
        output.as_json({"job_id": job_id, "removed": removed})
    elif keep_artifacts:
        print(f"removed `{job_id}` from the list; what is stored of it is kept")
    elif keep_resource:
        print(f"removed what was stored of `{job_id}`; it stays on the list")
    else:
        print(f"removed `{job_id}` and what was stored of it; its outputs are kept")
