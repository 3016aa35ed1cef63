"""`kinetic jobs list`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from kinetic import jobs
from kinetic.cli import ages, report, table, terminal
from kinetic.cli.jobs import options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinetic.job_status import JobStatus
    from kinetic.jobs import JobHandle

    Listed = tuple[JobHandle[Any], JobStatus]

_SCREENFUL = 50  # rows that a person gets without asking for more
COLUMNS = (
    table.Column("ID"),
    table.Column("FUNCTION", least=8),  # the id has it too, shortened
    table.Column("ACCELERATOR", least=6),  # likewise
    table.Column("STATUS", paint=terminal.painted_status),
    table.Column("AGE"),
)


@click.command("list")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice(["PENDING", "RUNNING", "SUCCEEDED", "FAILED"], case_sensitive=False),
    help="Only jobs in this status; may be given more than once.",
)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"At most N jobs; 0 is all. A terminal shows {_SCREENFUL} unless told otherwise.",
)
@options.places("project", "zone", "cluster", "namespace")
@options.as_json
def command(
    statuses: tuple[str, ...], limit: int | None, as_json: bool, **where: str | None
) -> None:
    """List jobs, newest first.

    \b
    Examples:
      kinetic jobs list
      kinetic jobs list --status RUNNING
      kinetic jobs list --json | jq -r '.[].job_id'
    """
    everything = jobs.listed_jobs(**where)
    found = [job for job in everything if not statuses or job[1].value in statuses]
    width = terminal.width()
    most = _SCREENFUL if limit is None and width is not None and not as_json else limit
    listed = found[:most] if most else found
    if as_json:
        print(_as_json(listed))
    elif listed:
        print("\n".join(rendered(listed, datetime.now(UTC), width)))
    else:
        _say_nothing_found(statuses, len(everything))
    if limit is None and len(listed) < len(found):
        more = len(found) - len(listed)
        report.note(f"{more} older jobs are not shown; `kinetic jobs list --limit 0` shows all")


def rendered(listed: Sequence[Listed], now: datetime, width: int | None) -> list[str]:
    """The table of `listed`, no line wider than `width`."""
    rows = [
        (
            str(handle.job_id),
            str(handle.func_name),
            str(handle.accelerator),
            status.value,
            _age(handle.created_at, now),
        )
        for handle, status in listed
    ]
    return table.lines(COLUMNS, rows, width)


def _age(created_at: str, now: datetime) -> str:
    try:
        return ages.brief((now - datetime.fromisoformat(created_at)).total_seconds())
    except (TypeError, ValueError):  # not written by us
        return "?"


def _as_json(listed: Sequence[Listed]) -> str:
    """A JSON array with a job a line, so that line tools can read it too."""
    rows = [json.dumps({**handle.to_dict(), "status": status.value}) for handle, status in listed]
    return "[\n" + ",\n".join(rows) + "\n]" if rows else "[]"


def _say_nothing_found(statuses: Sequence[str], total: int) -> None:
    if statuses and total:
        report.note(f"no job is {' or '.join(statuses)}; `kinetic jobs list` shows all {total}")
    else:
        report.note(
            "there are no jobs yet; a function decorated with `@kinetic.run()` becomes one"
            " when it is called"
        )
