"""What a program pays for `import kinetic`, and a person for the command, before anything happens.

`python -m benchmarks.startup`
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from benchmarks.measure import (
    BARE,
    COMMAND,
    Result,
    against,
    has_command,
    interleaved,
    process,
    run,
    temporary_home,
)

_SAMPLES = 21
_IMPORT = "import kinetic"
_RUN = "import kinetic; kinetic.run"
_HELP = "kinetic --help"
_LIST = "kinetic jobs list"
_LIMITS = {_IMPORT: 3.0, _RUN: 12.0, _HELP: 6.0, _LIST: 12.0}
_BINDING = (_IMPORT, _HELP)


def measured() -> Iterator[Result]:
    """Each way to start, against a bare interpreter."""
    with temporary_home():
        taken = interleaved(_SAMPLES, {"bare": process(*BARE), **_subjects()})
    bare = taken.pop("bare")
    for name, limit in _LIMITS.items():
        subject = taken.get(name)
        yield Result(
            f"{name} / python -c pass",
            subject.median / bare.median if subject else None,
            limit,
            binding=name in _BINDING,
            detail=against(subject, bare) if subject else "the command is not installed, or fails",
        )


def _subjects() -> dict[str, Callable[[], object]]:
    found = {name: process(sys.executable, "-c", name) for name in (_IMPORT, _RUN)}
    if has_command():
        found[_HELP] = process(COMMAND, "--help")
        found[_LIST] = process(COMMAND, "jobs", "list")  # the first one starts the agent
    return found


if __name__ == "__main__":
    run(measured)
