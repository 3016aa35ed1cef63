"""The agent: one of it, durable, private, and replaceable at any moment."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import kinetic
from kinetic import errors, layout
from kinetic.backends.local.home import Home
from kinetic.backends.local.messages import PROTOCOL
from kinetic.job_status import JobStatus
from tests import agents
from tests.conformance.gates import Gate
from tests.conformance.jobs import cpu

ASK_PID = """
import kinetic
from kinetic.backends.local.connection import ask
from kinetic.backends.local.home import Home
from kinetic.settings import home_directory
print(ask(Home(home_directory()), {"op": "info"})["pid"])
"""


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


# One agent, started on demand.


def test_clients_that_start_at_once_start_one_agent(own_home: Path, project: Path) -> None:
    """Six processes that need an agent at the same moment all speak to the same one."""
    clients = [agents.script(project, ASK_PID, own_home, name=f"c{n}.py") for n in range(6)]
    assert len({agents.output(client) for client in clients}) == 1


def test_an_idle_agent_exits_and_the_next_job_starts_another(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left running on a machine that is not used."""
    monkeypatch.setenv("KINETIC_AGENT_IDLE", "0.1")

    @cpu
    def value() -> int:
        return 1

    assert value() == 1
    agents.eventually(lambda: not agents.processes_of(own_home), "the agent exits")
    assert value() == 1


def test_what_the_agent_keeps_is_private(own_home: Path) -> None:
    """Others can read neither the queue, which holds environments, nor speak to the socket."""
    agents.info(own_home)
    home = Home(own_home)
    assert stat.S_IMODE(own_home.stat().st_mode) == 0o700
    for path in (home.database, home.socket, home.agent_log, own_home / "signing.key", home.lock):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_a_deep_home_works(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path too long for a socket, with spaces and accents, is no obstacle."""
    deep = own_home / ("très profond " * 8) / ("and deeper " * 8)
    monkeypatch.setenv("KINETIC_HOME", str(deep))

    @cpu
    def value() -> str:
        return os.environ["KINETIC_HOME"]

    try:
        assert value() == str(deep)
    finally:
        agents.stop(deep)


def test_a_stale_socket_is_replaced(own_home: Path) -> None:
    """What a dead agent, or anything else, left at the socket's path is no obstacle."""
    path = Home(own_home).socket
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert agents.info(own_home)["pid"]
    agents.stop(own_home)
    path.write_text("not a socket")
    assert agents.info(own_home)["pid"]


def test_an_agent_whose_home_is_deleted_goes(own_home: Path) -> None:
    """`rm -r ~/.kinetic` leaves no agent behind that serves nobody."""
    pid = agents.info(own_home)["pid"]
    subprocess.run(["rm", "-r", str(own_home)], check=True)
    agents.eventually(lambda: not Path(f"/proc/{pid}").exists(), "the agent notices")


# Dying.


def test_a_job_outlives_its_agent(own_home: Path, gate: Gate, tmp_path: Path) -> None:
    """SIGKILL the agent: a running job goes on, runs once, and its result is collected."""
    runs = tmp_path / "runs"

    @cpu
    def work() -> str:
        with runs.open("a") as file:
            file.write("x")
        gate.wait()
        return "done"

    job = work.run_async()
    gate.await_arrival()
    assert agents.kill(own_home)
    assert job.status() is JobStatus.RUNNING
    gate.open()
    assert job.result() == "done"
    assert runs.read_text() == "x"


def test_how_a_job_ended_is_known_although_the_agent_was_dead(own_home: Path, gate: Gate) -> None:
    """The exit code of a job that a new agent adopted is told."""

    @cpu
    def work() -> None:
        gate.wait()
        os._exit(7)

    job = work.run_async()
    gate.await_arrival()
    agents.kill(own_home)
    gate.open()
    with pytest.raises(errors.JobExited, match="code 7"):
        job.result()


def test_the_queue_goes_on_with_client_and_agent_killed(own_home: Path, project: Path) -> None:
    """With nobody left but a running job, what was queued still runs."""
    client = agents.script(project, QUEUE_AND_WAIT, own_home, KINETIC_SLOTS="1")
    gate = Gate(project)
    gate.await_arrival()
    assert client.stdout
    assert client.stdout.readline() == "queued\n"
    client.kill()
    client.communicate()
    agents.kill(own_home)
    gate.open()
    agents.eventually(lambda: (project / "second").exists(), "the queued job runs")


QUEUE_AND_WAIT = """
import os, pathlib, time
import kinetic
from tests.conformance.gates import Gate

here = pathlib.Path(__file__).parent

@kinetic.run(accelerator="cpu")
def first():
    with open(here / "gate.arrived", "w"): pass
    with open(here / "gate.passed"): pass

@kinetic.run(accelerator="cpu")
def second():
    (here / "second").touch()

first.run_async()
second.run_async()
print("queued", flush=True)
time.sleep(600)
""".replace("from tests.conformance.gates import Gate\n", "")


def test_a_job_outlives_its_fork_server(own_home: Path, gate: Gate, tmp_path: Path) -> None:
    """SIGKILL the process that forked a job: the job goes on, and others start as before."""
    parent = tmp_path / "parent"

    @cpu
    def work() -> str:
        parent.write_text(str(os.getppid()))
        gate.wait()
        return "done"

    @cpu
    def other() -> int:
        return 2

    job = work.run_async()
    gate.await_arrival()
    os.kill(int(parent.read_text()), signal.SIGKILL)
    assert other() == 2
    assert job.status() is JobStatus.RUNNING
    gate.open()
    assert job.result() == "done"


def test_a_job_that_vanished_unseen_is_lost_and_said_to_be(
    own_home: Path, gate: Gate, tmp_path: Path
) -> None:
    """Agent, fork server and job all killed: FAILED, with what is known, and not run again."""
    pids = tmp_path / "pids"

    @cpu
    def work() -> None:
        with pids.open("a") as file:
            file.write(f"{os.getppid()} {os.getpid()}\n")
        print("was here", flush=True)
        gate.wait()

    job = work.run_async()
    gate.await_arrival()
    server, process = map(int, pids.read_text().split())
    agent = agents.info(own_home)["pid"]
    for pid in (server, agent, process):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(errors.JobLost, match="vanished") as caught:
        job.result()
    assert "was here" in caught.value.__notes__[0]
    assert job.status() is JobStatus.FAILED
    assert len(pids.read_text().splitlines()) == 1


def test_a_machine_restart_fails_what_ran_and_runs_what_waited(
    own_home: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another boot id: what ran is FAILED with that reason; what waited runs, its files or not."""
    monkeypatch.setenv("KINETIC_SLOTS", "1")

    @cpu
    def first() -> int:
        gate.wait()
        return os.getpid()

    @cpu
    def second() -> int:
        return 2

    running, queued = first.run_async(), second.run_async()
    gate.await_arrival()
    agents.stop(own_home)
    with sqlite3.connect(Home(own_home).database) as db:
        (text,) = db.execute("SELECT started FROM jobs WHERE started IS NOT NULL").fetchone()
        text = json.dumps({**json.loads(text), "boot": "another"})
        db.execute("UPDATE jobs SET started = ? WHERE started IS NOT NULL", (text,))
        db.execute("UPDATE machine SET boot = 'another'")
    db.close()
    # What a power failure may leave of files that were not yet on disk.
    store = Home(own_home).store
    store.path(layout.spec(queued.job_id)).write_bytes(b"")
    store.path(layout.handle(queued.job_id)).unlink()
    with pytest.raises(errors.JobLost, match="machine restarted"):
        running.result()
    assert running.status() is JobStatus.FAILED
    assert kinetic.attach(queued.job_id).result() == 2
    gate.open()


def test_stopping_the_agent_loses_nothing(own_home: Path, gate: Gate) -> None:
    """A stopped agent leaves jobs running and queued; the next one goes on with both."""

    @cpu
    def held(n: int) -> int:
        if n == 0:
            gate.wait()
        return n

    jobs = [held.run_async(n) for n in range(4)]
    gate.await_arrival()
    agents.stop(own_home)
    gate.open()
    assert [job.result() for job in jobs] == [0, 1, 2, 3]


# Bad surroundings.


@pytest.mark.parametrize("content", [b"garbage" * 1000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_queue_is_reported_and_left_alone(own_home: Path, content: bytes) -> None:
    """A clear error, nothing overwritten, and the way out."""
    Home(own_home).database.write_bytes(content)
    with pytest.raises(errors.BackendUnavailable, match=r"agent\.db") as caught:
        agents.info(own_home)
    assert "mv " in str(caught.value)
    assert Home(own_home).database.read_bytes() == content


@pytest.mark.parametrize(
    ("application", "version", "told"),
    [(0, 1, "not a queue of kinetic's"), (0x4B4E5451, 99, "version 99")],
)
def test_a_foreign_or_newer_queue_is_left_alone(
    own_home: Path, application: int, version: int, told: str
) -> None:
    """Someone else's database, or a later version's, is never touched."""
    path = Home(own_home).database
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE theirs (x)")
        db.execute(f"PRAGMA application_id = {application}")
        db.execute(f"PRAGMA user_version = {version}")
    db.close()
    before = path.read_bytes()
    with pytest.raises(errors.BackendUnavailable, match=told):
        agents.info(own_home)
    assert path.read_bytes() == before


def test_an_unusable_home_is_explained(monkeypatch: pytest.MonkeyPatch, own_home: Path) -> None:
    """The error names the path, the reason and the variable to set."""
    monkeypatch.setenv("KINETIC_HOME", "/proc/kinetic")

    @cpu
    def value() -> None: ...

    with pytest.raises(errors.BackendUnavailable, match="/proc/kinetic") as caught:
        value()
    assert "point KINETIC_HOME at" in str(caught.value)


def test_windows_is_told_of_wsl(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows itself the local backend says what to install instead of failing oddly."""
    monkeypatch.setattr(sys, "platform", "win32")

    @cpu
    def value() -> None: ...

    with pytest.raises(errors.BackendUnavailable, match="Windows") as caught:
        value()
    assert "WSL" in str(caught.value)


@pytest.mark.parametrize("version", [PROTOCOL + 1, PROTOCOL - 1])
def test_an_agent_of_another_version(own_home: Path, version: int) -> None:
    """A newer agent is left alone, with an explanation; an older one is asked to hand over."""
    asked: list[str] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(Home(own_home).socket))
    listener.listen()

    def other_agent() -> None:
        while True:
            link, _ = listener.accept()
            with link:
                message = json.loads(link.makefile().readline() or '{"op": "none"}')
                asked.append(message["op"])
                if message["op"] == "stop":
                    listener.close()
                    Home(own_home).socket.unlink()
                    link.sendall(b'{"stopping": 1}\n')
                    return
                link.sendall(json.dumps({"protocol": version, "version": "9.9"}).encode() + b"\n")
                if version > PROTOCOL:
                    listener.close()
                    return

    thread = threading.Thread(target=other_agent)
    thread.start()
    if version > PROTOCOL:
        with pytest.raises(errors.BackendUnavailable, match=r"kinetic 9\.9, which is newer"):
            agents.info(own_home)
    else:
        assert agents.info(own_home)["pid"]
        assert asked == ["info", "stop"]
    thread.join()


def test_a_full_disk_is_an_error_and_loses_nothing(own_home: Path, project: Path) -> None:
    """Submitting on a full disk says so; a finished job waits for room and then has its result."""
    probe = ["unshare", "-m", "mount", "-t", "tmpfs", "none", str(own_home)]
    if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine lets us mount no small disk")
    (project / "full.py").write_text(FULL_DISK)
    ran = subprocess.run(
        [
            "unshare",
            "-m",
            "sh",
            "-c",
            f'mount -t tmpfs -o size=4m none "{own_home}" && exec "$0" full.py',
            sys.executable,
        ],
        cwd=project,
        env={
            **agents.base_environment(),
            **agents.environment(own_home),
            "PYTHONPATH": str(Path(__file__).parent.parent),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["refused: No space left on device", "result 5"]


FULL_DISK = """
import os, pathlib, sys
import kinetic
from tests import agents

home = pathlib.Path(os.environ["KINETIC_HOME"])
here = pathlib.Path(__file__).parent
for name in ("arrived", "passed"):
    os.mkfifo(here / name)

@kinetic.run(accelerator="cpu")
def held():
    open(here / "arrived", "w").close()
    open(here / "passed").close()
    return 5

job = held.run_async()
open(here / "arrived").close()
with open(home / "ballast", "wb", buffering=0) as ballast:
    try:
        while True:
            ballast.write(b"x" * 4096)
    except OSError:
        pass
try:
    held.run_async()
except RuntimeError as error:
    print("refused:", str(error).splitlines()[0].rpartition(": ")[2])
open(here / "passed", "w").close()
try:
    job.result(timeout=0.5)
except TimeoutError:
    (home / "ballast").unlink()
print("result", job.result())
agents.stop(home)
"""


# Who runs what, where.


def test_jobs_wait_for_a_slot_in_order(
    own_home: Path, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one slot the second job is PENDING, and jobs start in the order they came."""
    monkeypatch.setenv("KINETIC_SLOTS", "1")
    order = tmp_path / "order"

    @cpu
    def note(n: int) -> None:
        if n == 0:
            gate.wait()
        with order.open("a") as file:
            file.write(str(n))

    jobs = [note.run_async(n) for n in range(5)]
    gate.await_arrival()
    assert [job.status() for job in jobs] == [JobStatus.RUNNING] + [JobStatus.PENDING] * 4
    gate.open()
    for job in jobs:
        job.result()
    assert order.read_text() == "01234"


def test_cancelling_a_queued_job_means_it_never_runs(
    own_home: Path, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is gone at once, its siblings are left alone, and its handle says what happened."""
    monkeypatch.setenv("KINETIC_SLOTS", "1")
    marker = tmp_path / "ran"

    @cpu
    def held() -> int:
        gate.wait()
        return 1

    @cpu
    def never() -> None:
        marker.touch()

    running, queued = held.run_async(), never.run_async()
    gate.await_arrival()
    queued.cancel()
    assert queued.status() is JobStatus.NOT_FOUND
    with pytest.raises(errors.JobCancelled):
        queued.result()
    gate.open()
    assert running.result() == 1
    assert not marker.exists()


def test_gpus_are_handed_out_and_waited_for(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two GPUs: two jobs side by side on one each, a third waits, and a CPU job sees none."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "nvidia-smi").write_text("#!/bin/sh\nprintf '0\\n1\\n'\n")
    (tools / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("KINETIC_SLOTS", "8")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    gates = [Gate(tmp_path, f"g{n}") for n in range(2)]

    @kinetic.run(accelerator="gpu-l4")
    def on_gpu(n: int) -> str:
        if n < 2:
            gates[n].wait()
        return os.environ["CUDA_VISIBLE_DEVICES"]

    @cpu
    def on_cpu() -> str:
        return os.environ["CUDA_VISIBLE_DEVICES"]

    jobs = [on_gpu.run_async(n) for n in range(3)]
    for gate in gates:
        gate.await_arrival()
    assert jobs[2].status() is JobStatus.PENDING
    assert on_cpu() == "", "a job that needs no GPU overtakes, and is given none"
    gates[0].open()
    freed = jobs[0].result()
    assert jobs[2].result() == freed
    gates[1].open()
    assert {freed, jobs[1].result()} == {"0", "1"}


def test_what_a_job_leaves_running_is_ended(home: Path, tmp_path: Path) -> None:
    """A background process ends with its job, even a daemon that left session and parent."""
    pids = tmp_path / "pids"

    @cpu
    def leave_behind() -> None:
        ready = os.pipe()
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                pids.write_text(str(os.getpid()))
                os.close(ready[0])
                os.write(ready[1], b"x")
                signal.pause()
            os._exit(0)
        os.read(ready[0], 1)

    leave_behind()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids.read_text()), 0)


def test_a_job_gets_the_clients_environment_not_the_agents(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The baseline comes from whoever submits; nothing comes from whoever started the agent."""
    monkeypatch.setenv("FROM_STARTER", "1")
    monkeypatch.setenv("LANG", "C.UTF-8")
    agents.info(own_home)
    monkeypatch.delenv("FROM_STARTER")
    monkeypatch.setenv("LC_MONETARY", "C")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("SECRET_TOKEN", "x")

    @cpu
    def look() -> dict[str, str]:
        return dict(os.environ)

    seen = look()
    assert seen["LC_MONETARY"] == "C"
    assert seen["https_proxy"] == "http://127.0.0.1:9"
    assert seen["PATH"] == os.environ["PATH"]
    assert {"FROM_STARTER", "SECRET_TOKEN"}.isdisjoint(seen)


def test_a_job_runs_under_the_interpreter_that_submitted_it(
    own_home: Path, project: Path, tmp_path: Path
) -> None:
    """A client in another virtual environment gets its own interpreter, from the same agent."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    agent = agents.info(own_home)["pid"]
    (project / "which.py").write_text(
        "import kinetic, sys\n"
        "@kinetic.run(accelerator='cpu')\n"
        "def which():\n    return sys.prefix\n"
        "print(which())\n"
    )
    libraries = os.pathsep.join(path for path in sys.path if path)
    ran = subprocess.run(
        [venv / "bin" / "python", "which.py"],
        cwd=project,
        env={**agents.base_environment(), **agents.environment(own_home), "PYTHONPATH": libraries},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == f"{venv}\n"
    assert agents.info(own_home)["pid"] == agent


def test_an_interpreter_that_cannot_start_fails_the_job(
    own_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The job says which interpreter and why, instead of waiting forever."""
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho this python is broken >&2\nexit 3\n")
    broken.chmod(0o755)
    agents.info(own_home)
    monkeypatch.setattr(sys, "executable", str(broken))

    @cpu
    def value() -> None: ...

    with pytest.raises(errors.SetupFailed, match="this python is broken") as caught:
        value()
    assert str(broken) in str(caught.value)


def test_forked_and_spawned_callers_work(home: Path, project: Path) -> None:
    """Submitting works from multiprocessing's children, however they were made."""
    text = (
        "import multiprocessing as mp, kinetic\n"
        "@kinetic.run(accelerator='cpu')\n"
        "def square(n):\n    return n * n\n"
        "def call(n):\n    return square(n)\n"
        "if __name__ == '__main__':\n"
        "    square(1)\n"
        "    for how in ('fork', 'spawn'):\n"
        "        with mp.get_context(how).Pool(2) as pool:\n"
        "            print(pool.map(call, range(4)))\n"
    )
    assert agents.output(agents.script(project, text, home)) == "[0, 1, 4, 9]\n[0, 1, 4, 9]\n"
