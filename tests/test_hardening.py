"""Unkind surroundings and unkind jobs: what once went wrong, and must not again."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import kinetic
from kinetic import errors
from kinetic.backends.local import processes
from kinetic.backends.local.connection import LostContact, channel
from kinetic.backends.local.home import Home
from kinetic.backends.local.processes import ProcessId
from kinetic.job_status import JobStatus
from tests import agents
from tests.conformance.gates import Gate
from tests.conformance.jobs import cpu


@pytest.fixture
def gates(tmp_path: Path) -> list[Gate]:
    return [Gate(tmp_path, name) for name in "abc"]


def held(gate: Gate, answer: str = "done") -> kinetic.JobHandle[str]:
    """A job that waits at a gate, once it is there."""

    @cpu
    def wait() -> str:
        gate.wait()
        return answer

    job = wait.run_async()
    gate.await_arrival()
    return job


def children(pid: int) -> list[int]:
    """A process's children."""
    return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


# Killing agents and fork servers.


def test_a_jobs_end_leaves_later_agents_and_their_jobs_alone(
    own_home: Path, gates: list[Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents killed twice, jobs of three generations: each ends without taking others along."""
    monkeypatch.setenv("KINETIC_SLOTS", "4")
    jobs = []
    for gate in gates:
        jobs.append(held(gate, gate.arrived))
        agents.kill(own_home)
        agents.info(own_home)
    for job, gate in zip(jobs, gates, strict=True):
        gate.open()
        assert job.result() == gate.arrived
    assert agents.info(own_home)["pid"]


def test_an_agent_that_a_job_started_outlives_the_job(own_home: Path, gates: list[Gate]) -> None:
    """Neither a job's end nor its cancellation takes the agent, or other jobs, with it."""
    first, second, third = gates

    @cpu
    def starts_an_agent() -> int:
        first.wait()
        pid: int = agents.info(own_home)["pid"]
        second.wait()
        return pid

    outer = starts_an_agent.run_async()
    first.await_arrival()
    agents.stop(own_home)
    first.open()
    second.await_arrival()
    other = held(third, "other")
    agent = agents.info(own_home)["pid"]
    outer.cancel()
    assert agents.info(own_home)["pid"] == agent
    third.open()
    assert other.result() == "other"


def test_a_late_fork_server_does_not_run_a_job_again(own_home: Path, tmp_path: Path) -> None:
    """A launch that was overtaken by a new agent finds its claim void, however late it comes."""
    runs = tmp_path / "runs"

    @cpu
    def once() -> int:
        with runs.open("a") as file:
            file.write("x")
        return 1

    once()
    agent = agents.info(own_home)["pid"]
    (server,) = children(agent)
    os.kill(server, signal.SIGSTOP)
    job = once.run_async()
    os.kill(agent, signal.SIGKILL)
    assert job.result(cleanup=False) == 1
    os.kill(server, signal.SIGCONT)
    agents.eventually(lambda: not Path(f"/proc/{server}").exists(), "the old fork server goes")
    assert runs.read_text() == "xx", "once to warm up, and once"


def test_a_cancellation_survives_the_agent(
    own_home: Path, gates: list[Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent killed in the grace period: the next one goes on ending the job."""
    monkeypatch.setenv("KINETIC_GRACE", "1")
    gate = gates[0]

    @cpu
    def stubborn() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        gate.wait()

    job = stubborn.run_async()
    gate.await_arrival()
    cancelling = threading.Thread(target=job.cancel)
    cancelling.start()
    agents.eventually(lambda: _is_ending(own_home), "the cancellation is written down")
    agents.kill(own_home)
    cancelling.join()
    assert job.status() is JobStatus.NOT_FOUND
    with pytest.raises(errors.JobCancelled):
        job.result()


def _is_ending(home: Path) -> bool:
    import sqlite3

    db = sqlite3.connect(f"file:{Home(home).database}?mode=ro", uri=True)
    try:
        return bool(db.execute("SELECT max(ending) FROM jobs").fetchone()[0])
    finally:
        db.close()


def test_a_restarted_agent_keeps_its_settings(
    own_home: Path, gates: list[Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that a fork server starts again has the slots that the first one had."""
    monkeypatch.setenv("KINETIC_SLOTS", "7")
    job = held(gates[0])
    before = agents.kill(own_home)
    said = agents.eventually(lambda: _other_agent(own_home, before), "another agent starts")
    assert said["slots"] == 7
    gates[0].open()
    job.result()


def _other_agent(home: Path, before: int | None) -> dict[str, Any] | None:
    """What an agent that nobody of us started says of itself."""
    with suppress(LostContact), channel(Home(home), start=False) as conversation:
        conversation.send({"op": "info"})
        said = conversation.receive()
        return said if said["pid"] != before else None
    return None


def test_a_reused_process_number_is_nobodys_leader() -> None:
    """A stranger that has a job's old number is not taken for the job."""
    me = ProcessId.current()
    assert me.may_lead()
    stranger = ProcessId(me.pid, "0")
    assert not stranger.may_lead()
    assert processes.tree(stranger, "no-such-job") == []


def test_a_queued_job_whose_interpreter_is_gone_fails_alone(
    own_home: Path, gates: list[Gate], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleting a virtual environment fails its queued jobs, and nobody else's."""
    monkeypatch.setenv("KINETIC_SLOTS", "1")
    first = held(gates[0])
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(link))
        doomed = cpu(lambda: 1).run_async()
    link.unlink()
    gates[0].open()
    first.result()
    with pytest.raises(errors.SetupFailed, match="No such file"):
        doomed.result()
    assert cpu(lambda: 2)() == 2


# Awaiting and collecting.


def test_a_result_that_nobody_took_is_not_lost(own_home: Path, gates: list[Gate]) -> None:
    """`wait_for` gives up, the job ends, and `result()` still has the value."""
    job = held(gates[0], "kept")

    async def impatient() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(job, 0.05)
        gates[0].open()
        while job.status() is JobStatus.RUNNING:
            await asyncio.sleep(0.01)

    asyncio.run(impatient())
    assert job.result() == "kept"


def test_awaiting_tidies_up_and_takes_stop_iteration(home: Path) -> None:
    """A delivered result is cleaned up; an exception that no future takes is told."""

    @cpu
    def stop() -> None:
        raise StopIteration("odd")

    async def main() -> kinetic.JobHandle[int]:
        job = cpu(lambda: 3).run_async()
        assert await job == 3
        with pytest.raises(errors.RemoteError, match="StopIteration: odd"):
            await stop.run_async()
        while job.status() is not JobStatus.NOT_FOUND:
            await asyncio.sleep(0.01)
        return job

    asyncio.run(main())


def test_collecting_does_not_cut_off_exit_handlers(
    home: Path, gates: list[Gate], tmp_path: Path
) -> None:
    """What a job does after it returned, in threads or at exit, is waited for."""
    gate, marker = gates[0], tmp_path / "checkpoint"

    @cpu
    def work() -> int:
        def save() -> None:
            gate.wait()
            marker.touch()

        threading.Thread(target=save).start()
        return 1

    job = work.run_async()
    gate.await_arrival()
    opener = threading.Timer(0.2, gate.open)
    opener.start()
    assert job.result() == 1
    assert marker.exists()


def test_a_result_is_returned_even_if_tidying_up_fails(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The value is worth more than the cleanup; the failure is logged."""
    from kinetic.backends.local.backend import LocalBackend

    def fail(*_: object, **__: object) -> None:
        raise errors.BackendUnavailable("gone fishing")

    job = cpu(lambda: 4).run_async()
    monkeypatch.setattr(LocalBackend, "delete", fail)
    assert job.result() == 4
    assert "gone fishing" in caplog.text


# Unkind jobs.


def test_closing_every_file_loses_no_result(home: Path) -> None:
    """A job that closes what it finds open still returns, or fails as what it is."""

    @cpu
    def close_all() -> int:
        os.closerange(3, 256)
        return 42

    @cpu
    def close_streams() -> None:
        sys.stdout = None
        os.close(1)
        os.close(2)
        raise ValueError("still told")

    assert close_all() == 42
    with pytest.raises(ValueError, match="still told"):
        close_streams()


def test_what_a_function_forks_is_not_the_job(home: Path) -> None:
    """A worker's SIGTERM does not pass for the job's, and a stray child's value for its value."""

    @cpu
    def terminates_a_worker() -> None:
        worker = multiprocessing.get_context("fork").Process(target=signal.pause)
        worker.start()
        worker.terminate()
        worker.join()
        raise ValueError("the real reason")

    @cpu
    def falls_through() -> str:
        if os.fork() == 0:
            return "child"
        os.wait()
        return "parent"

    with pytest.raises(ValueError, match="the real reason"):
        terminates_a_worker()
    assert falls_through() == "parent"


def test_main_is_the_script_as_far_as_it_travelled(home: Path, project: Path) -> None:
    """Plain pickle and process pools find a script's own classes and functions in the job."""
    text = (
        "import kinetic, multiprocessing, pickle\n"
        "class Thing:\n    x = 5\n"
        "def double(n):\n    return 2 * n\n"
        "@kinetic.run(accelerator='cpu')\n"
        "def f():\n"
        "    again = pickle.loads(pickle.dumps(Thing()))\n"
        "    with multiprocessing.get_context('fork').Pool(1) as pool:\n"
        "        return [again.x, *pool.map(double, [1, 2])]\n"
        "print(f())\n"
    )
    assert agents.output(agents.script(project, text, home)) == "[5, 2, 4]\n"


@pytest.mark.parametrize(
    "mischief",
    [
        "import shutil; shutil.rmtree(os.getcwd())",
        "os.chmod('sub', 0)",
        "open('sub/file', 'w').write('23'); os.utime('sub/file', ns=(when, when))",
        "os.makedirs('__pycache__', exist_ok=True); open('__pycache__/notes', 'w').close()",
    ],
)
def test_no_job_spoils_the_workspace_for_the_next(
    own_home: Path, project: Path, mischief: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a job does to its copy, the next job finds the project as it was captured.

    Clean jobs come first, until the agent knows the workspace to be untouched and jobs trust it.
    """
    monkeypatch.setenv("KINETIC_SLOTS", "1")
    (project / "sub").mkdir()
    (project / "sub" / "file").write_text("42")
    text = (
        "import kinetic, os, stat\n"
        "@kinetic.run(accelerator='cpu')\n"
        "def look(bad):\n"
        "    seen = [open('sub/file').read(), stat.S_IMODE(os.stat('sub').st_mode),\n"
        "            os.path.exists('__pycache__/notes')]\n"
        "    when = os.stat('sub/file').st_mtime_ns\n"
        "    if bad:\n"
        f"        {mischief}\n"
        "    return seen\n"
        "clean = look(False)\n"
        "for _ in range(5):\n"
        "    assert look(False) == clean\n"
        "for _ in range(2):\n"
        "    assert look(True) == clean\n"
        "print(look(False) == look(False) == clean)\n"
    )
    assert agents.output(agents.script(project, text, own_home, KINETIC_SLOTS="1")) == "True\n"


def test_a_link_into_the_project_leads_to_the_copy(home: Path, project: Path) -> None:
    """Writing through an absolute link of the project's own does not reach the user's file."""
    (project / "real").write_text("untouched")
    (project / "link").symlink_to(project / "real")
    text = (
        "import kinetic\n"
        "@kinetic.run(accelerator='cpu')\n"
        "def write():\n"
        "    open('link', 'w').write('changed')\n"
        "    return open('real').read()\n"
        "print(write())\n"
    )
    assert agents.output(agents.script(project, text, home)) == "changed\n"
    assert (project / "real").read_text() == "untouched"


def test_a_module_that_exits_on_import_is_a_set_up_failure(home: Path, project: Path) -> None:
    """`sys.exit()` at import time, before the function is called, is told as that."""
    (project / "moody.py").write_text(
        "import kinetic, os, sys\n"
        "if 'KINETIC_JOB_ID' in os.environ:\n    sys.exit(3)\n"
        "@kinetic.run(accelerator='cpu')\ndef f(): ...\n"
    )
    process = agents.script(project, "import moody\nmoody.f()\n", home)
    _, err = process.communicate(timeout=agents.PATIENCE)
    assert "SetupFailed" in err
    assert "(function): SystemExit: 3" in err


def test_a_job_that_polls_a_child_does_not_deadlock(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asking for a status again and again counts as waiting: the slot is lent."""
    monkeypatch.setenv("KINETIC_SLOTS", "1")

    @cpu
    def poll() -> int:
        import time

        child = cpu(lambda: 5).run_async()
        while not child.status().is_terminal:
            time.sleep(0.01)
        return int(child.result())

    assert poll() == 5


# Unkind surroundings.


def test_a_client_with_blocked_signals_and_small_limits(own_home: Path, project: Path) -> None:
    """What the first client blocked, ignored or limited does not reach other clients' jobs."""
    start = (
        "import os, resource, signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM})\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "os.umask(0o777)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (50, 4096))\n"
        "if hasattr(os, 'sched_setaffinity'):\n"
        "    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "import kinetic\n"
        "kinetic.run(accelerator='cpu')(lambda: None)()\n"
    )
    agents.output(agents.script(project, start, own_home))
    before = os.umask(0o027)
    try:

        @cpu
        def look() -> list[Any]:
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
            hup = signal.getsignal(signal.SIGHUP)
            mask = os.umask(0)
            return [blocked, hup, mask, resource.getrlimit(resource.RLIMIT_NOFILE)[0]]

        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        assert look()[:3] == [set(), signal.SIG_DFL, 0o027]
        assert look()[3] == min(soft, 4096)
    finally:
        os.umask(before)
    assert agents.info(own_home)["slots"] == os.cpu_count()


def test_more_waiters_than_file_descriptors(own_home: Path, project: Path) -> None:
    """An agent that runs out of descriptors makes clients wait, and crashes for nobody."""
    text = (
        "import json, resource, threading, kinetic\n"
        "from kinetic.backends.local.connection import ask\n"
        "from kinetic.backends.local.home import Home\n"
        "from kinetic.settings import home_directory\n"
        "home = Home(home_directory())\n"
        "soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "pid = ask(home, {'op': 'info'})['pid']\n"
        "resource.prlimit(pid, resource.RLIMIT_NOFILE, (64, hard))\n"
        "job = kinetic.run(accelerator='cpu')(lambda: __import__('time').sleep(1.5)).run_async()\n"
        "seen = []\n"
        "def wait():\n    seen.append(job.result(cleanup=False))\n"
        "threads = [threading.Thread(target=wait) for _ in range(100)]\n"
        "[t.start() for t in threads]\n"
        "[t.join() for t in threads]\n"
        "print(json.dumps([len(seen), ask(home, {'op': 'info'})['pid'] == pid]))\n"
    )
    assert agents.answer(agents.script(project, text, own_home)) == [100, True]


def test_a_client_with_many_open_files(home: Path) -> None:
    """Descriptors above 1023 are no obstacle."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2000:
        pytest.skip("this machine allows too few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2000, hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        assert cpu(lambda: 6)() == 6
    finally:
        for fd in opened:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_directory_with_other_things_in_it_can_be_a_home(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that is not ours is deleted, and nobody else's directory changes its mode."""
    place = own_home / "shared"
    (place / "run").mkdir(parents=True)
    (place / "run" / "important.txt").write_text("x")
    os.utime(place / "run" / "important.txt", (0, 0))
    place.chmod(0o755)
    monkeypatch.setenv("KINETIC_HOME", str(place))
    assert cpu(lambda: 7)() == 7
    agents.stop(place)
    assert (place / "run" / "important.txt").read_text() == "x"
    assert oct(place.stat().st_mode & 0o777) == "0o755"


def test_a_handle_without_a_home_is_refused(home: Path) -> None:
    """An empty or relative place is an error, and never `/`."""
    job = cpu(lambda: 8).run_async()
    job.result()
    astray: kinetic.JobHandle[Any] = kinetic.JobHandle.from_dict(
        {**job.to_dict(), "cluster_name": ""}
    )
    with pytest.raises(ValueError, match="names no home"):
        astray.status()


def test_a_deep_home_is_found_whatever_tmpdir_says(own_home: Path, tmp_path: Path) -> None:
    """Clients with different TMPDIRs speak to the same agent."""
    deep = own_home / ("d" * 100)
    code = (
        "from kinetic.backends.local.connection import ask\n"
        "from kinetic.backends.local.home import Home\n"
        "from kinetic.settings import home_directory\n"
        "print(ask(Home(home_directory()), {'op': 'info'})['pid'])\n"
    )
    pids = []
    try:
        for name in ("t1", "t2"):
            (tmp_path / name).mkdir()
            env = {**agents.base_environment(), **agents.environment(deep)}
            ran = subprocess.run(
                [sys.executable, "-c", code],
                env={**env, "TMPDIR": str(tmp_path / name)},
                capture_output=True,
                text=True,
                check=True,
            )
            pids.append(ran.stdout)
    finally:
        agents.stop(deep)
    assert pids[0] == pids[1]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KINETIC_SLOTS", "abc"),
        ("KINETIC_SLOTS", "0"),
        ("KINETIC_SLOTS", "²"),
        ("KINETIC_AGENT_IDLE", "-5"),
        ("KINETIC_AGENT_IDLE", "0"),
        ("KINETIC_GRACE", "x"),
        ("KINETIC_JOB_START", "warm"),
    ],
)
def test_nonsense_in_a_variable_is_an_error(
    own_home: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """A typo is told by name and value, and starts no agent."""
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=f"{name} takes .*`{value}`"):
        cpu(lambda: None)()
    assert not agents.processes_of(own_home)


def test_mistakes_are_explained(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A vanished working directory, no home at all, odd arguments: each is told with a way out."""
    with pytest.raises(ValueError, match="not a job handle"):
        kinetic.JobHandle.from_dict([])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="list of names, not 5"):
        kinetic.run(capture_env_vars=5)  # type: ignore[arg-type]
    assert kinetic.run("cpu")(max)(3, 4) == 4
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ValueError, match="does not exist any more"):
        cpu(lambda: None)()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KINETIC_HOME")
    monkeypatch.setenv("HOME", "")
    with pytest.raises(ValueError, match="HOME is not set"):
        cpu(lambda: None)()


def test_a_damaged_handle_is_told(home: Path) -> None:
    """`attach` to a handle that is no JSON says so."""
    job = cpu(lambda: 9).run_async()
    job.result(cleanup=False)
    Home(home).store.put(f"jobs/{job.job_id}/handle.json", b"{")
    with pytest.raises(ValueError, match="is damaged"):
        kinetic.attach(job.job_id)
    job.cleanup()


def test_a_function_of_an_installed_package_ships_the_working_directory(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not all of site-packages."""
    from kinetic.capture.source import package_root

    monkeypatch.chdir(project)
    assert package_root(pytest.fixture) == project


def test_what_was_cleaned_up_leaves_the_disk(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Artifacts vanish from the store at once, and from the disk when the agent has time."""
    monkeypatch.setenv("KINETIC_AGENT_IDLE", "2")
    job = cpu(lambda: 1).run_async()
    job.result()
    store = Home(own_home).store
    assert list(store.list("jobs/")) == []
    agents.eventually(lambda: not list(store.root.glob(".trash*/*")), "the trash is emptied")


def test_old_workspaces_are_removed(own_home: Path, project: Path) -> None:
    """An agent that starts keeps the recent ones and those in use."""
    spaces = Home(own_home).workspaces
    spaces.mkdir(parents=True)
    for number in range(30):
        (spaces / f"old.{number}").mkdir()
        os.utime(spaces / f"old.{number}", (number, number))
    agents.info(own_home)
    agents.eventually(lambda: len(list(spaces.iterdir())) == 16, "old workspaces go")
    assert (spaces / "old.29").exists()
