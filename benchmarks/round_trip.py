"""A blocking call of a trivial function on a warm local backend.

`python -m benchmarks.round_trip`

The function belongs to this repository, so each job works in a copy of the whole of it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import submitit

import kinetic
from benchmarks.measure import Result, against, interleaved, process, run, scratch, temporary_home

_SAMPLES = 41
_CALLS = 5  # of ours for each of submitit's, whose process is still ending during the first
_SUBMITIT_SAMPLES = 5  # about a second each: submitit looks for results once a second


def increment(number: int) -> int:
    """As little as a job can do."""
    return number + 1


_as_job = kinetic.run("cpu")(increment)


def measured() -> Iterator[Result]:
    """Against a cold start of what pickles functions, and against submitit."""
    with temporary_home():
        cold = interleaved(
            _SAMPLES,
            {"cold": process(sys.executable, "-c", "import cloudpickle"), "kinetic": _kinetic},
        )
        yield Result(
            'blocking call / python -c "import cloudpickle"',
            cold["kinetic"].median / cold["cold"].median,
            0.6,
            detail=against(cold["kinetic"], cold["cold"]),
        )
        other = interleaved(_SUBMITIT_SAMPLES, {"submitit": _submitit, "kinetic": _kinetic_calls})
        yield Result(
            "submitit's blocking call / ours",
            other["submitit"].median / other["kinetic"].median * _CALLS,
            25,
            at_least=True,
            detail=f"{other['submitit']} against {other['kinetic']} for {_CALLS} of ours;"
            f" median [quartiles] of {_SUBMITIT_SAMPLES}",
        )


def _kinetic() -> None:
    assert _as_job(1) == 2


def _kinetic_calls() -> None:
    for _ in range(_CALLS):
        _kinetic()


def _submitit() -> None:
    job = submitit.LocalExecutor(scratch()).submit(increment, 1)
    assert job.result() == 2


if __name__ == "__main__":
    run(measured)
