"""Memory and time limits, and what happens at them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kinetic
from kinetic import errors
from kinetic.backends.local.agent import memory
from kinetic.backends.local.agent.queue import Started
from kinetic.backends.local.agent.running import Running
from kinetic.backends.local.agent.schedule import Holding
from kinetic.backends.local.messages import Request
from kinetic.backends.local.processes import ProcessId, boot_id
from kinetic.job_status import JobStatus
from kinetic.records import Ending
from tests import agents
from tests.conformance.gates import Gate

HOG = "import time; held = bytearray(200_000_000); print('held', flush=True); time.sleep(600)"


def test_a_job_that_uses_too_much_memory_is_ended(home: Path) -> None:
    """With `memory=`, a job that outgrows it ends as out of memory, with limit and hint."""

    @kinetic.run(accelerator="cpu", memory="96Mi")
    def hog() -> int:
        print("growing", flush=True)
        return len(bytearray(os.urandom(1_000_000) * 400))

    job = hog.run_async()
    with pytest.raises(errors.JobOutOfMemory, match="96") as caught:
        job.result()
    assert "raise memory=" in str(caught.value)
    assert "growing" in caught.value.__notes__[0]
    assert job.status() is JobStatus.FAILED
    job.cleanup()


def test_a_job_within_its_memory_is_left_alone(home: Path) -> None:
    """Reserved address space, of which JAX and CUDA take plenty, does not count."""

    @kinetic.run(accelerator="cpu", memory="256Mi", cpu="500m")
    def modest() -> int:
        import mmap

        with mmap.mmap(-1, 8 << 30) as reserved:
            return len(reserved)

    assert modest() == 8 << 30


def test_where_there_is_no_cgroup_resident_memory_is_watched(tmp_path: Path) -> None:
    """The agent ends a job whose processes together are larger than `memory=`."""
    with subprocess.Popen(
        [sys.executable, "-c", HOG], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        attempt = attempt_of(process.pid, tmp_path / "claim", memory=100_000_000)

        async def watch() -> None:
            attempt.limit(asyncio.get_running_loop())
            while process.poll() is None:
                await asyncio.sleep(0.01)
            attempt.released()

        asyncio.run(watch())
    assert attempt.stop is not None
    assert attempt.stop.ending is Ending.OUT_OF_MEMORY
    assert "95.4 MiB" in attempt.stop.message


def attempt_of(pid: int, claim: Path, memory: int) -> Running:
    """A running attempt without a cgroup whose process is `pid`."""
    started = agents.eventually(lambda: _identity(pid), "the process starts")
    claim.touch()
    Path(f"{claim}.{pid}.{started.started}.0.1").touch()
    request = Request("job", "", "", "", {}, {}, {}, "", memory=memory)
    started_at = Started(1, "uid", boot_id(), "")
    return Running(request, started_at, Holding(1, (), None), str(claim))


def _identity(pid: int) -> ProcessId | None:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    identity = ProcessId(pid, fields[19])
    return identity if identity.is_alive() else None


def test_a_memory_group_is_given_back(tmp_path: Path) -> None:
    """Where cgroups can be made, ours is removed after use; where not, there is none."""
    group = memory.make_group("test-group", 10_000_000)
    if group is None:
        pytest.skip("this machine lends us no cgroup")
    assert group.path.is_dir()
    assert not group.ran_out()
    group.remove()
    assert not group.path.exists()


def test_a_stubborn_job_is_killed_after_its_grace(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM first, SIGKILL when that does not help; cancel returns when it is gone."""
    monkeypatch.setenv("KINETIC_GRACE", "0.3")
    gate = Gate(tmp_path)

    @kinetic.run(accelerator="cpu")
    def stubborn() -> None:
        import signal

        signal.signal(signal.SIGTERM, lambda *_: print("no", flush=True))
        gate.wait()
        while True:
            signal.pause()

    job = stubborn.run_async()
    gate.await_arrival()
    gate.open()
    job.cancel()
    assert job.status() is JobStatus.NOT_FOUND
    with pytest.raises(errors.JobCancelled):
        job.result()


def test_how_a_job_reacts_to_being_ended_is_not_its_outcome(own_home: Path, tmp_path: Path) -> None:
    """A SIGTERM handler of the user's own may checkpoint and exit: the job was still ended."""
    gate = Gate(tmp_path)

    @kinetic.run(accelerator="cpu")
    def checkpoint() -> None:
        import signal

        def save(*_: object) -> None:
            (tmp_path / "checkpoint").touch()
            sys.exit(0)

        signal.signal(signal.SIGTERM, save)
        gate.wait()

    job = checkpoint.run_async()
    gate.await_arrival()
    job.cancel()
    with pytest.raises(errors.JobCancelled):
        job.result()
    assert (tmp_path / "checkpoint").exists()


def test_a_time_limit_is_kept_across_agents(own_home: Path, tmp_path: Path) -> None:
    """A new agent counts from when the attempt started, not from when it took over."""
    gate = Gate(tmp_path)

    @kinetic.run(accelerator="cpu", timeout=2.5)
    def held() -> None:
        gate.wait()

    job = held.run_async()
    gate.await_arrival()
    agents.kill(own_home)
    with pytest.raises(errors.JobTimedOut):
        job.result()
