"""Many detached jobs: how many a second, and whether that holds as they get more.

`python -m benchmarks.throughput`

The function belongs to this repository, so each job works in a copy of the whole of it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import submitit

import kinetic
from benchmarks.measure import Result, Samples, run, scratch, seconds, temporary_home, timed

_ROUNDS = 3
_FEW, _MANY, _SUBMITIT = 1_000, 4_000, 40


def increment(number: int) -> int:
    """As little as a job can do."""
    return number + 1


_as_job = kinetic.run("cpu")(increment)


def measured() -> Iterator[Result]:
    """Each pair in turn, so that a slow moment of the machine slows both."""
    yield _rates([(_submitit_rate(), _FEW / _seconds_for(_FEW)) for _ in range(_ROUNDS)])
    yield _growth([(_seconds_for(_FEW), _seconds_for(_MANY)) for _ in range(_ROUNDS)])


def _rates(rounds: list[tuple[float, float]]) -> Result:
    """The best round of each: whatever else the machine does can only take away from a rate."""
    theirs, ours = (Samples(rates) for rates in zip(*rounds, strict=True))
    return Result(
        f"rate of {_FEW:,} detached jobs / submitit's",
        max(ours.values) / max(theirs.values),
        30,
        at_least=True,
        detail=f"{_rate(ours)} against {_rate(theirs)} of {_ROUNDS} rounds",
    )


def _growth(rounds: list[tuple[float, float]]) -> Result:
    return Result(
        f"time for {_MANY:,} / time for {_FEW:,}",
        statistics.median(many / few for few, many in rounds),
        4.4,
        detail="; ".join(f"{seconds(many)} against {seconds(few)}" for few, many in rounds),
    )


def _seconds_for(count: int) -> float:
    """The time from the first submission to the last result, with the agent up and warm."""
    with temporary_home():
        _as_job(0)
        return timed(lambda: _submit_and_collect(count))


def _submit_and_collect(count: int) -> None:
    handles = [_as_job.run_async(number) for number in range(count)]
    assert [handle.result() for handle in handles] == list(range(1, count + 1))


def _submitit_rate() -> float:
    executor = submitit.LocalExecutor(scratch())
    return _SUBMITIT / timed(lambda: _submit_and_collect_with(executor))


def _submit_and_collect_with(executor: submitit.LocalExecutor) -> None:
    jobs = [executor.submit(increment, number) for number in range(_SUBMITIT)]
    assert [job.result() for job in jobs] == list(range(1, _SUBMITIT + 1))


def _rate(samples: Samples) -> str:
    low, high = samples.quartiles
    best = max(samples.values)
    return f"{best:.1f} jobs/s (median {samples.median:.1f} [{low:.1f}..{high:.1f}])"


if __name__ == "__main__":
    run(measured)
