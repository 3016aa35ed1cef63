"""`kinetic jobs`: everything one can ask of a job, from a shell."""

from __future__ import annotations

from kinetic.cli.lazy import LazyGroup

command = LazyGroup(
    name="jobs",
    package=__name__,
    summaries={
        "list": "The jobs there are, newest first.",
        "status": "How a job is doing.",
        "logs": "What a job has printed.",
        "result": "Wait for a job and print what it returned.",
        "cancel": "End a job; what is stored of it is kept.",
        "cleanup": "Remove a job and what is stored of it.",
    },
    help="""List, follow, collect and end jobs.

    \b
    Examples:
      kinetic jobs list
      kinetic jobs result JOB_ID
    """,
)
