"""The `kinetic` command, run as people and scripts run it."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import kinetic
from kinetic.backends.local.agent.queue import Queue
from kinetic.backends.local.home import Home
from kinetic.backends.local.messages import Request, encode
from kinetic.cli import ages, output, table
from kinetic.cli.jobs.list import rendered
from kinetic.job_status import JobStatus
from tests import agents
from tests.conformance.gates import Gate

KINETIC = str(Path(sys.executable).with_name("kinetic"))
NOBODY = "cpu-nobody-20260101-000000-0000000"

cpu = kinetic.run(accelerator="cpu")


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


def call(*args: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end; neither of its outputs is a terminal."""
    return subprocess.run(
        [KINETIC, *args],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        cwd=cwd,
        env={**os.environ, **env},
        timeout=agents.PATIENCE,
        check=False,
    )


def told(*args: str, code: int = 0, **env: str) -> str:
    """What the command printed; its exit code must be `code`."""
    done = call(*args, cwd=None, **env)
    assert done.returncode == code, done.stderr
    assert "Traceback (most recent call last)" not in done.stderr
    return done.stdout if code == 0 else done.stdout + done.stderr


@contextmanager
def started(*args: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command beside the test."""
    process = subprocess.Popen(
        [KINETIC, *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def lines_of(process: subprocess.Popen[bytes], count: int) -> list[bytes]:
    """Its next lines, as they come."""
    assert process.stdout
    return [process.stdout.readline() for _ in range(count)]


def open_in(process: subprocess.Popen[bytes]) -> list[str]:
    """The names of what it has open."""
    found: list[str] = []
    for fd in Path(f"/proc/{process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found.append(str(fd.readlink()))
    return found


def interrupted(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Press Ctrl-C; the exit code, and what was said on stderr."""
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=agents.PATIENCE)
    return process.returncode, err.decode()


def on_terminal(*args: str, columns: int = 80, **env: str) -> tuple[str, str]:
    """What the command shows on a terminal of that width, and what it says on stderr."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    size = {n: v for n, v in os.environ.items() if n not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        [KINETIC, *args],
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=subprocess.PIPE,
        env={**size, "TERM": "xterm", **env},
    )
    os.close(slave)
    shown = b""
    with open(master, "rb", buffering=0) as screen:
        try:
            while piece := screen.read(65536):
                shown += piece
        except OSError:  # Linux's word for the end of a terminal
            pass
    _, err = process.communicate(timeout=agents.PATIENCE)
    assert process.returncode == 0, err
    return shown.decode().replace("\r\n", "\n"), err.decode()


def handle(index: int = 0, **fields: Any) -> kinetic.JobHandle[Any]:
    """The handle of a job that nobody submitted."""
    job_id = f"cpu-train-model-20260417-153012-{index:07x}"
    known: dict[str, Any] = {
        "job_id": job_id,
        "backend": "local",
        "project": "",
        "cluster_name": "",
        "zone": "",
        "namespace": "",
        "bucket_name": "",
        "k8s_name": job_id,
        "image_uri": "",
        "accelerator": "cpu",
        "func_name": "train_model",
        "display_name": "train_model on cpu",
        "created_at": "2026-04-17T15:30:12Z",
    }
    return kinetic.JobHandle.from_dict({**known, **fields})


def queue_up(home: Path, handles: list[kinetic.JobHandle[Any]]) -> None:
    """Put jobs that are over into the queue of an agent that does not run yet."""
    Home(home).prepare()
    queue = Queue(Home(home).database)
    with queue.transaction():
        for job in handles:
            queue.add(Request(job.job_id, "", "", "", {}, {}, job.to_dict(), ""))
            queue.settle(job.job_id, JobStatus.SUCCEEDED)
    queue.close()


# The command itself.


@pytest.mark.parametrize("words", [("--help",), ("-h",), (), ("jobs",), ("agent", "--help")])
def test_help_names_the_commands_with_an_example(words: tuple[str, ...]) -> None:
    """A group says what it can do, whether or not it is asked for help."""
    text = told(*words)
    assert "Commands:" in text
    assert "Examples:\n    kinetic " in text


@pytest.mark.parametrize(
    "words",
    [
        *(("jobs", name) for name in "list status logs result cancel cleanup".split()),
        *(("agent", name) for name in "status stop logs".split()),
    ],
    ids=" ".join,
)
def test_every_command_has_an_example(words: tuple[str, ...]) -> None:
    """The help of a command ends in something to type."""
    assert f"kinetic {' '.join(words)}" in told(*words, "--help").partition("Examples:")[2]


@pytest.mark.parametrize("words", [["--help"], ["jobs", "--help"], ["--version"]], ids=" ".join)
def test_help_loads_nothing_it_does_not_need(words: list[str]) -> None:
    """Asking for help imports no command, no job code and no pickling."""
    code = (
        "import sys; from kinetic.cli import main; main();"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
    )
    loaded = set(done.stderr.split())
    groups = {"kinetic.cli.jobs"} if words[0] == "jobs" else set()
    allowed = {
        "kinetic",
        "kinetic.cli",
        "kinetic.cli.lazy",
        "kinetic.cli.report",
        "kinetic.cli.terminal",
        "kinetic.errors",
        "kinetic.notices",
    }
    assert {name for name in loaded if name.startswith("kinetic")} <= allowed | groups
    assert not loaded & {"cloudpickle", "pickle", "asyncio", "json", "socket", "rich", "logging"}


def test_the_version_is_the_packages() -> None:
    """`--version` prints it, for people and for scripts; the module is the command too."""
    assert told("--version") == f"kinetic {kinetic.__version__}\n"
    command = [sys.executable, "-m", "kinetic.cli", "--version"]
    assert subprocess.check_output(command, text=True) == f"kinetic {kinetic.__version__}\n"


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (["jbos"], "did you mean `kinetic jobs`?"),
        (["jobs", "lsit"], "did you mean `kinetic jobs list`?"),
        (["cancel", NOBODY], "did you mean `kinetic jobs cancel`?"),
        (["xyzzy"], "there is no `kinetic xyzzy`\n"),
        (["init"], "this version of kinetic has no `init` yet; jobs run on this machine without"),
        (["jobs", "logs"], "`kinetic jobs logs --help`"),
        (["jobs", "logs", NOBODY, "-n", "-1"], "-1"),
        (["jobs", "cleanup", NOBODY, "--keep-artifacts", "--keep-resource"], "leave nothing"),
    ],
    ids=str,
)
def test_a_command_line_that_cannot_be_right_says_what_could_be(
    words: list[str], suggestion: str
) -> None:
    """A slip gets the nearest command, or the help to look at, and exit code 2."""
    text = told(*words, code=2)
    assert text.startswith("error: ")
    assert suggestion in text


def test_a_profile_says_where_jobs_are(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--profile` chooses one for this call; one that there is not is an error that lists them."""
    monkeypatch.delenv("KINETIC_BACKEND")
    profiles = {"near": {"backend": "local"}, "far": {"backend": "gke", "project": "p"}}
    content = json.dumps({"current": "far", "profiles": profiles})
    (own_home / "profiles.json").write_text(content)
    assert told("--profile", "near", "jobs", "list", "--json") == "[]\n"
    assert "backend `gke`" in told("jobs", "list", code=1)
    assert "error: there is no profile `fra`" in told("--profile", "fra", "jobs", "list", code=1)


@pytest.mark.parametrize("command", ["status", "logs", "result", "cancel", "cleanup"])
@pytest.mark.usefixtures("home")
def test_an_unknown_job_is_an_error_that_says_where_to_look(command: str) -> None:
    """No command about a job takes an id that nobody has, nor a text that is no id."""
    text = told("jobs", command, NOBODY, code=1)
    assert text.startswith(f"error: there is no job `{NOBODY}`")
    assert "hint: " in text
    assert "`kinetic jobs list`" in text
    assert "is not a job id" in told("jobs", command, "../../etc", code=1)


def test_an_error_of_ours_comes_without_a_stack(tmp_path: Path) -> None:
    """A home that cannot be used is said in two lines."""
    (tmp_path / "file").write_text("")
    text = told(
        "jobs", "list", code=1, KINETIC_HOME=str(tmp_path / "file"), KINETIC_BACKEND="local"
    )
    assert [line.partition(" ")[0] for line in text.splitlines()] == ["error:", "hint:"]


# Listing.


def test_the_list_is_newest_first_with_what_one_looks_for(own_home: Path, gate: Gate) -> None:
    """People get a table, scripts get JSON with the handle's fields and the status."""

    @cpu
    def finish() -> None:
        pass

    @cpu
    def stay() -> None:
        gate.wait()

    first, second = finish.run_async(), stay.run_async()
    first.result(cleanup=False)
    gate.await_arrival()
    heading, *rows = told("jobs", "list").splitlines()
    assert heading.split() == ["ID", "FUNCTION", "ACCELERATOR", "STATUS", "AGE"]
    assert [row.split()[:4] for row in rows] == [
        [second.job_id, "stay", "cpu", "RUNNING"],
        [first.job_id, "finish", "cpu", "SUCCEEDED"],
    ]
    found = json.loads(told("jobs", "list", "--json"))
    assert found[0] == {**second.to_dict(), "status": "RUNNING"}

    def ids(*flags: str) -> list[str]:
        return [job["job_id"] for job in json.loads(told("jobs", "list", "--json", *flags))]

    where = "--project p --zone z --cluster c --namespace n".split()
    assert ids(*where) == [second.job_id, first.job_id]
    assert ids("--status", "succeeded") == [first.job_id]
    assert ids("--status", "RUNNING", "--status", "SUCCEEDED") == [second.job_id, first.job_id]
    assert ids("--limit", "1") == [second.job_id]
    assert ids("-n", "0") == [second.job_id, first.job_id]
    nothing = call("jobs", "list", "--status", "FAILED")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert nothing.stderr == "no job is FAILED; `kinetic jobs list` shows all 2\n"
    gate.open()
    second.result()


@pytest.mark.usefixtures("own_home")
def test_an_empty_list_says_how_to_get_a_job() -> None:
    """Nothing is on stdout, so that scripts see nothing; people get a sentence."""
    nothing = call("jobs", "list")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "`@kinetic.run()`" in nothing.stderr
    assert told("jobs", "list", "--json") == "[]\n"


def test_the_list_fits_the_terminal(own_home: Path) -> None:
    """On a terminal no line wraps, the newest fifty show, and names cannot move the cursor."""
    odd = {0: "x\x1b[2Jy", 1: "学習" * 20, 2: "a" * 60}
    queue_up(own_home, [handle(i, func_name=odd.get(i % 3, "f")) for i in range(60)])
    shown, err = on_terminal("jobs", "list", columns=80, NO_COLOR="1")
    assert "\x1b" not in shown
    assert all(table.columns_of(line) <= 80 for line in shown.splitlines())
    assert "…" in shown
    assert len(shown.splitlines()) == 1 + 50
    assert err == "10 older jobs are not shown; `kinetic jobs list --limit 0` shows all\n"
    shown, err = on_terminal("jobs", "list", "--limit", "0", columns=60, NO_COLOR="1")
    assert all(table.columns_of(line) <= 60 for line in shown.splitlines())
    assert all(handle(i).job_id in shown for i in range(60))
    assert err == ""
    piped = told("jobs", "list")
    assert len(piped.splitlines()) == 1 + 60
    assert "a" * 60 in piped
    assert "x\\x1b[2Jy" in piped


def test_colour_is_for_terminals_that_want_it(own_home: Path) -> None:
    """A status has its colour on a terminal, unless NO_COLOR is set or the terminal is dumb."""
    queue_up(own_home, [handle()])
    assert "\x1b[32mSUCCEEDED" in on_terminal("jobs", "list")[0]
    assert "\x1b" not in on_terminal("jobs", "list", NO_COLOR="1")[0]
    assert "\x1b" not in on_terminal("jobs", "list", TERM="dumb")[0]
    assert "\x1b" not in told("jobs", "list")


# Status.


@pytest.mark.usefixtures("home")
def test_a_status_is_one_word(gate: Gate) -> None:
    """Scripts compare it; a job that was cancelled but is stored still is known."""

    @cpu
    def stay() -> None:
        gate.wait()

    job = stay.run_async()
    gate.await_arrival()
    assert told("jobs", "status", job.job_id) == "RUNNING\n"
    assert on_terminal("jobs", "status", job.job_id, NO_COLOR="1") == ("RUNNING\n", "")
    asked = told("jobs", "status", job.job_id, "--json", "--project", "p", "--cluster", "c")
    assert json.loads(asked) == {**job.to_dict(), "status": "RUNNING"}
    job.cancel()
    assert told("jobs", "status", job.job_id) == "NOT_FOUND\n"
    job.cleanup()
    told("jobs", "status", job.job_id, code=1)


# Logs.


@pytest.mark.usefixtures("home")
def test_logs_come_byte_for_byte() -> None:
    """Brackets, escapes, carriage returns and invalid UTF-8 arrive as they were printed."""
    raw = b"[bold]x[/bold]\r50%\r" + bytes(range(256)) + b"\x1b[31mred\xff\xfe no newline"

    @cpu
    def talk() -> None:
        sys.stdout.buffer.write(raw)

    job = talk.run_async()
    job.result(cleanup=False)
    command = [KINETIC, "jobs", "logs", job.job_id]
    last = raw.rpartition(b"\n")[2]
    assert subprocess.check_output(command) == raw
    assert subprocess.check_output([*command, "--follow"]) == raw
    assert subprocess.check_output([*command, "--tail", "1"]) == last
    assert subprocess.check_output([*command, "-f", "-n", "1"]) == last
    assert subprocess.check_output([*command, "-n", "0"]) == b""


@pytest.mark.usefixtures("home")
def test_following_ends_with_the_job(gate: Gate) -> None:
    """`-f` shows what comes as it comes; with `-n` it starts at the last lines."""

    @cpu
    def count() -> None:
        print(*range(10), sep="\n", flush=True)
        gate.wait()
        print("later")

    job = count.run_async()
    gate.await_arrival()
    with (
        started("jobs", "logs", "-f", job.job_id) as everything,
        started("jobs", "logs", job.job_id, "--follow", "--tail", "2") as end,
    ):
        assert lines_of(everything, 10)[::9] == [b"0\n", b"9\n"]
        assert lines_of(end, 2) == [b"8\n", b"9\n"]
        gate.open()
        assert [p.communicate(timeout=agents.PATIENCE) for p in (everything, end)] == [
            (b"later\n", b""),
            (b"later\n", b""),
        ]
        assert (everything.returncode, end.returncode) == (0, 0)


@pytest.mark.usefixtures("home")
def test_ctrl_c_leaves_the_job_alone(gate: Gate) -> None:
    """Whoever stops following or waiting hears that the job goes on, and how to find it."""

    @cpu
    def stay() -> str:
        print("here", flush=True)
        gate.wait()
        return "done"

    job = stay.run_async()
    gate.await_arrival()
    with (
        started("jobs", "logs", "-f", job.job_id) as follower,
        started("jobs", "result", job.job_id) as waiter,
    ):
        lines_of(follower, 1)
        agents.eventually(
            lambda: any(name.startswith("socket:") for name in open_in(waiter)),
            "it speaks to the agent",
        )
        for process in (follower, waiter):
            code, err = interrupted(process)
            assert code == 130
            assert err.startswith("you stopped waiting; the job goes on.")
            assert f"`kinetic jobs result {job.job_id}` collects it" in err
            assert "Traceback" not in err
    gate.open()
    assert told("jobs", "result", job.job_id) == "done\n"


@pytest.mark.usefixtures("home")
def test_a_reader_that_leaves_ends_the_command_quietly(gate: Gate) -> None:
    """`| head` is no error, and `| grep -m1` need not wait for one more line."""

    @cpu
    def talk() -> None:
        sys.stdout.buffer.write(b"x" * 79 + b"\n" + b"y" * (1 << 20))
        sys.stdout.flush()
        gate.wait()

    job = talk.run_async()
    gate.await_arrival()
    with (
        started("jobs", "logs", job.job_id) as short,
        started("jobs", "logs", "-f", job.job_id, "-n", "2") as following,
    ):
        for process in (short, following):
            lines_of(process, 1)
            assert process.stdout
            process.stdout.close()
            assert process.wait(agents.PATIENCE) == 141
            assert process.stderr
            assert process.stderr.read() == b""
    gate.open()
    job.result()


@pytest.mark.usefixtures("home")
def test_a_million_lines_cost_no_memory() -> None:
    """However much was printed, showing it takes no more than a piece at a time."""

    @cpu
    def talk() -> None:
        sys.stdout.buffer.write(
            b"step 1234: the loss is 0.1234 and falling, so it is said\n" * 1_000_000
        )

    job = talk.run_async()
    job.result(cleanup=False)
    measure = (
        "import resource, subprocess, sys;"
        "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    for flags in ([], ["-f"], ["-f", "-n", "3"], ["-n", "3"]):
        command = [sys.executable, "-c", measure, KINETIC, "jobs", "logs", job.job_id, *flags]
        kilobytes = int(subprocess.check_output(command))
        assert kilobytes < 48 << 10  # the log has 57 megabytes


# Results.


@pytest.mark.usefixtures("home")
def test_a_result_is_printed_once_and_kept_on_request() -> None:
    """A string as it is, anything else as Python shows it; after that the job is gone."""

    @cpu
    def text() -> str:
        return "plain [text]\nété"

    @cpu
    def data() -> dict[str, Any]:
        return {"loss": 0.5, "steps": (1, 2)}

    job = text.run_async()
    assert told("jobs", "result", job.job_id) == "plain [text]\nété\n"
    told("jobs", "result", job.job_id, code=1)
    other = data.run_async()
    kept = told("jobs", "result", other.job_id, "--timeout", "60", "--no-cleanup")
    assert kept == "{'loss': 0.5, 'steps': (1, 2)}\n"
    assert json.loads(told("jobs", "result", other.job_id, "--json")) == {
        "loss": 0.5,
        "steps": [1, 2],
    }
    told("jobs", "status", other.job_id, code=1)


@pytest.mark.usefixtures("home")
def test_a_result_that_is_no_json_is_not_lost() -> None:
    """`--json` says that it cannot, and the job stays until its value was printed."""

    @cpu
    def unordered() -> set[int]:
        return {1}

    job = unordered.run_async()
    text = told("jobs", "result", job.job_id, "--json", code=1)
    assert "cannot be written as JSON: Object of type set" in text
    assert told("jobs", "result", job.job_id) == "{1}\n"


@pytest.mark.usefixtures("home")
def test_a_failed_job_tells_its_story_in_order() -> None:
    """Its last lines, its own traceback, the error, what to type next; and it is kept."""

    @cpu
    def fail() -> None:
        print("halfway there")
        raise TimeoutError("too slow")  # not to be taken for our own

    job = fail.run_async()
    done = call("jobs", "result", job.job_id)
    assert (done.returncode, done.stdout) == (1, "")
    story = ["halfway there", "Remote traceback:", "test_cli.py", f"error: `{job.job_id}` raised"]
    places = [done.stderr.index(part) for part in (*story, "TimeoutError: too slow\nhint: ")]
    assert places == sorted(places)
    assert "kinetic/jobs.py" not in done.stderr
    assert told("jobs", "status", job.job_id) == "FAILED\n"


@pytest.mark.usefixtures("home")
def test_a_job_without_an_exception_still_has_a_reason() -> None:
    """A process that just vanished is named, with how to read what it printed."""

    @cpu
    def vanish() -> None:
        os._exit(3)

    job = vanish.run_async()
    text = told("jobs", "result", job.job_id, code=1)
    assert f"error: `{job.job_id}`: " in text
    assert f"hint: `kinetic jobs logs {job.job_id}`" in text


@pytest.mark.usefixtures("home")
def test_a_wait_that_is_too_short_leaves_the_job_running(gate: Gate) -> None:
    """Exit code 124, and the ways to find the job again."""

    @cpu
    def stay() -> int:
        gate.wait()
        return 7

    job = stay.run_async()
    gate.await_arrival()
    text = told("jobs", "result", job.job_id, "--timeout", "0.05", code=124)
    assert f"error: `{job.job_id}` is not over after 0.05 seconds; the job goes on" in text
    assert f"`kinetic jobs logs -f {job.job_id}` follows it" in text
    gate.open()
    assert told("jobs", "result", job.job_id) == "7\n"


def test_a_value_of_the_projects_own_class_needs_the_project(home: Path, project: Path) -> None:
    """It is shown to whoever stands in the project; elsewhere the job is kept for them."""
    (project / "shapes.py").write_text(
        "import dataclasses\n@dataclasses.dataclass\nclass Point:\n    x: int\n"
    )
    submit = (
        "import kinetic, shapes\n"
        "@kinetic.run(accelerator='cpu')\n"
        "def point():\n    return shapes.Point(3)\n"
        "print(point.run_async().job_id)\n"
    )
    job_id = agents.output(agents.script(project, submit, home)).strip()
    assert "its result cannot be read here" in told("jobs", "result", job_id, code=1)
    assert call("jobs", "result", job_id, cwd=project).stdout == "Point(x=3)\n"


# Endings.


@pytest.mark.usefixtures("home")
def test_cancel_says_what_it_did(gate: Gate) -> None:
    """A running job is ended, a finished one leaves the list, a cancelled one is an error."""

    @cpu
    def stay() -> None:
        gate.wait()

    @cpu
    def finish() -> int:
        return 5

    running, finished = stay.run_async(), finish.run_async()
    gate.await_arrival()
    assert told("jobs", "cancel", running.job_id).startswith(f"cancelled `{running.job_id}`")
    assert "nothing to cancel" in told("jobs", "cancel", running.job_id, code=1)
    finished.result(cleanup=False)
    assert json.loads(told("jobs", "cancel", finished.job_id, "--json")) == {
        "job_id": finished.job_id,
        "was": "SUCCEEDED",
        "status": "NOT_FOUND",
    }
    assert told("jobs", "result", finished.job_id) == "5\n"


@pytest.mark.usefixtures("home")
def test_cleanup_removes_what_it_is_told_to() -> None:
    """Everything, or all but what is stored, or all but the backend's entry."""

    @cpu
    def finish() -> int:
        return 5

    jobs = [finish.run_async() for _ in range(4)]
    for job in jobs:
        job.result(cleanup=False)
    everything, stored, listed, scripted = jobs
    assert "and what was stored of it" in told("jobs", "cleanup", everything.job_id)
    told("jobs", "status", everything.job_id, code=1)
    assert "is kept" in told("jobs", "cleanup", stored.job_id, "--keep-artifacts")
    assert told("jobs", "status", stored.job_id) == "NOT_FOUND\n"
    assert told("jobs", "result", stored.job_id) == "5\n"
    assert "stays on the list" in told("jobs", "cleanup", listed.job_id, "--keep-resource")
    assert listed.status() is JobStatus.SUCCEEDED
    listed.cleanup()
    answer = json.loads(told("jobs", "cleanup", scripted.job_id, "--json"))
    assert answer["removed"] == {"resource": True, "artifacts": True}


# The agent.


def test_looking_at_the_agent_starts_nothing(own_home: Path) -> None:
    """Where none runs, exit code 3 says so, and nothing is made."""
    assert told("agent", "status", code=3).startswith("not running")
    facts = json.loads(told("agent", "status", "--json", code=3))
    assert facts["running"] is False
    assert facts["pid"] is None
    assert told("agent", "stop") == f"no agent runs for {own_home}\n"
    assert "no agent has run here yet" in told("agent", "logs", code=1)
    assert list(own_home.iterdir()) == []


def test_the_agent_says_who_it_is_and_stops(own_home: Path, gate: Gate) -> None:
    """Its status is there for people and scripts; a job that runs outlives it."""

    @cpu
    def stay() -> str:
        gate.wait()
        return "survived"

    job = stay.run_async()
    gate.await_arrival()
    facts = json.loads(told("agent", "status", "--json"))
    pid = agents.info(own_home)["pid"]
    assert facts.pop("uptime") >= 0
    assert facts.pop("slots") >= 1
    assert facts.pop("gpus") >= 0
    assert facts == {
        "running": True,
        "pid": pid,
        "version": kinetic.__version__,
        "jobs": {"RUNNING": 1, "PENDING": 0, "SUCCEEDED": 0, "FAILED": 0},
        "home": str(own_home),
        "socket": str(Home(own_home).socket),
    }
    text = told("agent", "status")
    assert text.startswith(f"running, pid {pid}, kinetic {kinetic.__version__}, up ")
    assert "1 RUNNING" in text
    assert told("agent", "stop").startswith(f"stopped the agent (pid {pid}); running jobs go on")
    assert "not running" in told("agent", "status", code=3)
    gate.open()
    assert told("jobs", "result", job.job_id) == "survived\n"


def test_the_agents_log_can_be_followed(own_home: Path) -> None:
    """All of it, its last lines, or what comes, across the log's replacement, until Ctrl-C."""
    agents.info(own_home)
    log = Home(own_home).agent_log
    assert "serving" in told("agent", "logs")
    with started("agent", "logs", "-f") as follower:
        assert b"serving" in lines_of(follower, 1)[0]
        told("agent", "stop")
        assert b"stopped" in lines_of(follower, 1)[0]
        with started("agent", "logs", "-f", "-n", "0") as late:
            agents.eventually(lambda: str(log) in open_in(late), "it reads the log")
            log.replace(log.with_suffix(".log.1"))
            log.write_bytes(b"\xff another\n")
            assert lines_of(late, 1) == [b"\xff another\n"]
            assert lines_of(follower, 1) == [b"\xff another\n"]
        assert interrupted(follower) == (130, "")
    assert told("agent", "logs", "--tail", "0") == ""
    assert subprocess.check_output([KINETIC, "agent", "logs", "-n", "1"]) == b"\xff another\n"


def test_an_agent_of_another_version_is_recognised(own_home: Path) -> None:
    """It cannot say much that we understand, but it runs, and its version is told."""
    socket_path = Home(own_home).socket
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(socket_path))
        door.listen()
        with started("agent", "status", "--json") as asked:
            link, _ = door.accept()
            with link:
                link.recv(65536)
                link.sendall(encode({"protocol": 99, "version": "9.9"}))
                out, _ = asked.communicate(timeout=agents.PATIENCE)
    facts = json.loads(out)
    assert (asked.returncode, facts["running"], facts["version"]) == (0, True, "9.9")
    assert (facts["pid"], facts["jobs"]) == (None, None)


# The parts.


def test_a_table_of_hundreds_gives_way_column_by_column() -> None:
    """Functions shorten first, then accelerators; the id is whole for as long as it can be."""
    listed = [(handle(i, func_name="f" * 30), JobStatus.RUNNING) for i in range(300)]
    now = datetime(2026, 4, 17, 16, 0, tzinfo=UTC)

    def shown(width: int | None) -> list[str]:
        lines = rendered(listed, now, width)
        assert len(lines) == 301
        assert width is None or max(map(len, lines)) <= width
        return lines

    whole = listed[0][0].job_id
    assert shown(None)[1] == f"{whole}  {'f' * 30}  cpu          RUNNING  29m"
    assert shown(80)[1] == f"{whole}  fffffffffff…  cpu          RUNNING  29m"
    assert shown(71)[:2] == [
        f"{'ID':39}  FUNCTION  ACCEL…  STATUS   AGE",
        f"{whole}  fffffff…  cpu     RUNNING  29m",
    ]
    assert shown(60)[:2] == [f"{'ID':39}  STATUS   AGE", f"{whole}  RUNNING  29m"]
    assert shown(50)[1] == f"{whole}  RUNNING"
    assert shown(39)[1] == whole
    assert shown(10)[1] == f"{whole[:9]}…"
    for width in range(1, 100):
        shown(width)


def test_names_are_measured_as_terminals_show_them() -> None:
    """Wide characters take two columns, accents none, and controls are written out."""
    assert [table.columns_of(text) for text in ("abc", "学習", "e\u0301")] == [3, 4, 1]
    assert [table.cut("学習する", width) for width in (8, 7, 6, 1)] == [
        "学習する",
        "学習す…",
        "学習…",
        "…",
    ]
    assert table.shown("a\x1b[31m\n\u202eb\udc80") == "a\\x1b[31m\\n\\u202eb\\udc80"


def test_ages_are_one_short_word() -> None:
    """The largest unit that fits, and nothing below zero when clocks disagree."""
    spans = (-5, 0.9, 59, 60, 3599, 3600, 86399, 86400, 10**7)
    assert [ages.brief(span) for span in spans] == "0s 0s 59s 1m 59m 1h 23h 1d 115d".split()


@pytest.mark.parametrize("text", [b"", b"\n", b"a", b"a\nb", b"a\n\nbc\n", b"\n\n\n", b"x\r\ny"])
@pytest.mark.parametrize("size", [1, 2, 100])
def test_the_last_lines_start_where_lines_start(text: bytes, size: int) -> None:
    """However the stream is cut into pieces, the offset found is that of the last lines."""
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    lines = text.splitlines(keepends=True) if b"\r" not in text else [b"x\r\n", b"y"]
    for count in range(len(lines) + 2):
        start = output.start_of_last_lines(pieces, count)
        last = b"".join(lines[len(lines) - count if count < len(lines) else 0 :])
        assert text[start:] == last
        assert b"".join(output.skipping(pieces, start)) == last
