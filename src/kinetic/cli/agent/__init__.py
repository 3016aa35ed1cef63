"""`kinetic agent`: the process that queues and runs jobs on this machine."""

from __future__ import annotations

from kinetic.cli.lazy import LazyGroup

command = LazyGroup(
    name="agent",
    package=__name__,
    summaries={
        "status": "Whether it runs, and what it does.",
        "stop": "Stop it; running jobs go on.",
        "logs": "What it has logged.",
    },
    help="""Look after the agent that runs jobs on this machine.

    It starts with the first job and stops when it has been idle for a while, so there is rarely
    anything to do here.

    \b
    Examples:
      kinetic agent status
      kinetic agent logs -n 20
    """,
)
