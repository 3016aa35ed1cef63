"""What a job is on every backend. A backend's tests inherit this and provide `configured`.

Written against the public API and the Backend protocol alone: nothing here knows which backend
runs the jobs, only that they run on this machine's file system.
"""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kinetic
from kinetic import backends, errors, layout
from kinetic.backends.base import Backend, LogBytes, StatusChanged
from kinetic.job_status import JobStatus
from tests.conformance.gates import Gate

cpu = kinetic.run(accelerator="cpu")


class Colour(enum.Enum):
    """A user's own enum."""

    RED = "red"


@dataclasses.dataclass
class Point:
    """A user's own dataclass."""

    x: int
    y: int = 2


class Broken(Exception):
    """A user's own exception, with state."""

    def __init__(self, code: int) -> None:
        super().__init__(f"broken with {code}")
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return Broken, (self.code,)


class NeedsTwo(Exception):
    """An exception that pickles, but cannot be rebuilt."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first}-{second}")


def backend_of(job: kinetic.JobHandle[Any]) -> Backend:
    """The backend through which a handle speaks."""
    return backends.open_for_handle(job.to_dict())


def stored_keys(job: kinetic.JobHandle[Any]) -> list[str]:
    """Every object stored of a job."""
    return [key for key, _ in backend_of(job).store.list(layout.job(job.job_id))]


@pytest.mark.usefixtures("configured")
class JobConformance:
    """Inherited by the tests of each backend."""

    @pytest.fixture
    def gate(self, tmp_path: Path) -> Gate:
        return Gate(tmp_path)

    # Calling.

    def test_a_call_returns_what_the_function_returns(self) -> None:
        """A blocking call gives the value, for any arguments."""

        @cpu
        def add(a: int, b: int = 10, *rest: int, scale: int = 1) -> int:
            return (a + b + sum(rest)) * scale

        assert add(1) == 11
        assert add(1, 2, 3, 4, scale=2) == 20

    def test_a_blocking_call_shows_what_the_job_prints(
        self, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """Both output streams of the job, and of its children, appear on stdout as they came."""

        @cpu
        def talk() -> None:
            print("from stdout")
            print("from stderr", file=sys.stderr)
            subprocess.run(["echo", "from a child"], check=True)

        talk()
        assert capfd.readouterr().out.splitlines() == ["from stdout", "from stderr", "from a child"]

    def test_wrong_arguments_fail_before_anything_is_submitted(self) -> None:
        """A call that could never work raises TypeError here, not in a job."""

        @cpu
        def one(a: int) -> int:
            return a

        before = len(kinetic.list_jobs())
        with pytest.raises(TypeError, match="too many positional"):
            one(1, 2)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="missing a required"):
            one.run_async()  # type: ignore[call-arg]
        assert len(kinetic.list_jobs()) == before

    def test_closures_and_lambdas_travel(self) -> None:
        """What a function closes over goes with it."""
        offset = [40]

        @cpu
        def apply(f: Callable[[int], int], x: int) -> int:
            return f(x) + offset[0]

        assert apply(lambda x: x * 2, 1) == 42
        offset[0] = 0
        assert apply(lambda x: x * 2, 1) == 2

    def test_the_users_own_types_travel_both_ways(self) -> None:
        """Dataclasses, enums and exceptions are themselves as arguments, results and errors."""

        @cpu
        def swap(point: Point, colour: Colour) -> tuple[Point, Colour, list[str]]:
            return Point(point.y, point.x), colour, [f.name for f in dataclasses.fields(point)]

        assert swap(Point(1, 2), Colour.RED) == (Point(2, 1), Colour.RED, ["x", "y"])

        @dataclasses.dataclass
        class Local:
            value: int

        class LocalColour(enum.Enum):
            BLUE = 1

        @cpu
        def local(item: Local) -> tuple[Local, LocalColour]:
            return dataclasses.replace(item, value=item.value + 1), LocalColour.BLUE

        item, colour = local(Local(1))
        assert item == Local(2)
        assert isinstance(item, Local)
        assert colour is LocalColour.BLUE

    def test_a_large_argument_and_result_travel(self) -> None:
        """Payloads too large to ride in the spec are stored beside it."""

        @cpu
        def double(data: bytes) -> bytes:
            return data * 2

        assert double(b"x" * 1_000_000) == b"x" * 2_000_000

    def test_a_method_can_be_a_job(self) -> None:
        """Decorated methods are bound, with their instance as the first argument."""

        class Model:
            def __init__(self, scale: int) -> None:
                self.scale = scale

            @cpu
            def predict(self, x: int) -> int:
                """Scale x."""
                return self.scale * x

        model = Model(3)
        assert model.predict(2) == 6
        assert model.predict.run_async(x=5).result() == 15

    def test_a_job_can_submit_jobs(self) -> None:
        """Nested jobs run, deeper than there are slots, without deadlock."""

        @cpu
        def countdown(n: int) -> list[int]:
            return [n, *(countdown(n - 1) if n else [])]

        assert countdown(6) == [6, 5, 4, 3, 2, 1, 0]

    # Handles.

    def test_a_detached_job_is_pending_or_running_then_succeeded(self, gate: Gate) -> None:
        """`run_async` returns at once; the status follows the job."""

        @cpu
        def work() -> str:
            gate.wait()
            return "done"

        job = work.run_async()
        assert job.status() in (JobStatus.PENDING, JobStatus.RUNNING)
        gate.await_arrival()
        assert job.status() is JobStatus.RUNNING
        gate.open()
        assert job.result(cleanup=False) == "done"
        assert job.status() is JobStatus.SUCCEEDED

    def test_a_handle_holds_what_the_reference_says(self) -> None:
        """Every field is there, is JSON, and comes back the same; None is left out."""

        @cpu
        def named() -> None: ...

        job = named.run_async()
        stored = job.to_dict()
        assert json.loads(json.dumps(stored)) == stored
        assert kinetic.JobHandle.from_dict({**stored, "from_the_future": 1}) == job
        assert pickle.loads(pickle.dumps(job)) == job
        assert job.func_name == "named"
        assert job.accelerator == "cpu"
        assert job.k8s_name
        assert not job.debug
        assert job.job_id.startswith("cpu-named-2")
        assert time.strptime(job.created_at, "%Y-%m-%dT%H:%M:%SZ")
        assert {"group_id", "group_kind", "group_index"}.isdisjoint(stored)
        job.result()

    def test_attach_finds_a_job_from_another_process(self) -> None:
        """An id is enough to collect a job elsewhere."""

        @cpu
        def value() -> dict[str, int]:
            return {"answer": 42}

        job = value.run_async()
        code = "import kinetic, sys; print(kinetic.attach(sys.argv[1]).result())"
        ran = subprocess.run(
            [sys.executable, "-c", code, job.job_id], capture_output=True, text=True, check=True
        )
        assert ran.stdout == "{'answer': 42}\n"

    def test_attach_to_nothing_is_explained(self) -> None:
        """An unknown id is an error that says where to look; a malformed one is a ValueError."""
        with pytest.raises(errors.JobNotFound, match="no job `cpu-nothing-1`") as caught:
            kinetic.attach("cpu-nothing-1")
        assert "kinetic jobs list" in str(caught.value)
        with pytest.raises(ValueError, match="is not a job id"):
            kinetic.attach("../../etc")

    def test_list_jobs_is_newest_first(self, gate: Gate) -> None:
        """Live and finished jobs are listed until they are cleaned up."""

        @cpu
        def held() -> None:
            gate.wait()

        @cpu
        def quick() -> None: ...

        first = held.run_async()
        gate.await_arrival()
        second = quick.run_async()
        second.result(cleanup=False)
        listed = [job.job_id for job in kinetic.list_jobs()]
        assert listed.index(second.job_id) < listed.index(first.job_id)
        assert kinetic.list_jobs()[listed.index(second.job_id)] == second
        gate.open()
        first.result()
        second.cleanup()
        left = {job.job_id for job in kinetic.list_jobs()}
        assert {first.job_id, second.job_id}.isdisjoint(left)

    def test_the_store_cannot_steer_a_handle_elsewhere(self) -> None:
        """A handle read from the store keeps the place that our own settings name."""

        @cpu
        def quick() -> int:
            return 1

        job = quick.run_async()
        job.result(cleanup=False)
        forged = {**job.to_dict(), "cluster_name": "/elsewhere", "bucket_name": "file:///evil"}
        backend_of(job).store.put(layout.handle(job.job_id), json.dumps(forged).encode())
        assert kinetic.attach(job.job_id) == job
        job.cleanup()

    def test_two_handles_and_many_threads_share_a_job(self) -> None:
        """Anyone may wait; everyone gets the value."""

        @cpu
        def value() -> int:
            return 7

        job = value.run_async()
        seen: list[int] = []
        threads = [
            threading.Thread(target=lambda: seen.append(job.result(cleanup=False)))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == [7] * 8
        job.cleanup()

    def test_threads_can_submit_at_once(self) -> None:
        """Submitting is safe from many threads."""

        @cpu
        def square(x: int) -> int:
            return x * x

        results: dict[int, int] = {}
        threads = [
            threading.Thread(
                target=lambda n=n: results.__setitem__(n, square.run_async(n).result())
            )
            for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == {n: n * n for n in range(8)}

    def test_a_handle_can_be_awaited(self, gate: Gate) -> None:
        """`await handle` gives the value; giving up waiting leaves the job running."""

        @cpu
        def value(x: int) -> int:
            return x

        @cpu
        def held() -> str:
            gate.wait()
            return "held"

        async def main() -> list[int]:
            slow = held.run_async()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(slow, 0.05)
            return [*await asyncio.gather(*(value.run_async(n) for n in range(3)))]

        assert asyncio.run(main()) == [0, 1, 2]
        gate.await_arrival()
        gate.open()

    # Results.

    def test_a_timeout_leaves_the_job_running(self, gate: Gate) -> None:
        """`result(timeout=)` raises TimeoutError; the handle stays good."""

        @cpu
        def held() -> int:
            gate.wait()
            return 5

        job = held.run_async()
        gate.await_arrival()
        with pytest.raises(TimeoutError, match="is not over yet"):
            job.result(timeout=0.05)
        assert job.status() is JobStatus.RUNNING
        gate.open()
        assert job.result(timeout=60) == 5

    def test_a_success_is_cleaned_up_by_default(self) -> None:
        """After `result()` the backend knows nothing of the job, and nothing is stored of it."""

        @cpu
        def quick() -> int:
            return 1

        job = quick.run_async()
        assert job.result() == 1
        assert job.status() is JobStatus.NOT_FOUND
        assert stored_keys(job) == []
        with pytest.raises(RuntimeError, match=r"not found.*jobs/.*attempts"):
            job.result()

    def test_a_success_is_kept_when_asked(self) -> None:
        """`cleanup=False` keeps everything; `cleanup(k8s=True, gcs=False)` keeps the artifacts."""

        @cpu
        def quick() -> int:
            return 1

        job = quick.run_async()
        assert job.result(cleanup=False) == 1
        assert job.status() is JobStatus.SUCCEEDED
        job.cleanup(k8s=True, gcs=False, cleanup_timeout=30, cleanup_poll_interval=0.1)
        assert job.status() is JobStatus.NOT_FOUND
        assert job.result(cleanup=False) == 1, "a stored result outlives the backend's resource"
        job.cleanup(k8s=False, gcs=True)
        assert stored_keys(job) == []

    def test_a_failure_is_kept_by_default(self) -> None:
        """A failed job keeps its logs until `cleanup=True` is passed."""

        @cpu
        def fail() -> None:
            print("evidence")
            raise ValueError("no")

        job = fail.run_async()
        with pytest.raises(ValueError, match="no"):
            job.result()
        assert job.status() is JobStatus.FAILED
        assert job.tail().startswith("evidence\n")
        with pytest.raises(ValueError, match="no"):
            job.result(cleanup=True)
        assert job.status() is JobStatus.NOT_FOUND
        assert stored_keys(job) == []

    def test_status_changes_are_reported(self, gate: Gate) -> None:
        """The callback hears the first and the last status; what it raises is swallowed."""

        @cpu
        def held() -> None:
            gate.wait()

        job = held.run_async()
        seen: list[JobStatus] = []

        def note(status: JobStatus) -> None:
            seen.append(status)
            raise RuntimeError("a callback's own trouble")

        waiting = threading.Thread(
            target=lambda: job.result(cleanup=False, on_status_change=note), daemon=True
        )
        waiting.start()
        gate.await_arrival()
        gate.open()
        waiting.join()
        assert seen[-1] is JobStatus.SUCCEEDED
        assert len(seen) == len(set(seen))
        again: list[JobStatus] = []
        job.result(on_status_change=again.append)
        assert again == [JobStatus.SUCCEEDED]

    def test_result_streams_logs_when_asked(self, capfd: pytest.CaptureFixture[str]) -> None:
        """`stream_logs=None` prints nothing; `stream_logs=True` prints everything."""

        @cpu
        def talk() -> None:
            print("hello")

        job = talk.run_async()
        job.result(cleanup=False)
        assert capfd.readouterr().out == ""
        job.result(stream_logs=True)
        assert capfd.readouterr().out == "hello\n"

    # Failures.

    def test_an_exception_comes_back_as_itself(self) -> None:
        """With its type, its state, and the remote traceback as a note."""

        @cpu
        def fail() -> None:
            raise Broken(7)

        with pytest.raises(Broken, match="broken with 7") as caught:
            fail.run_async().result(cleanup=True)
        assert caught.value.code == 7
        note = caught.value.__notes__[0]
        assert note.startswith("Remote traceback:\nTraceback (most recent call last):")
        assert "raise Broken(7)" in note
        assert "runner" not in note, "the user's frames, and none of ours"

    def test_a_chained_exception_tells_its_cause(self) -> None:
        """`raise … from …` is whole in the remote traceback."""

        @cpu
        def fail() -> None:
            try:
                json.loads("{")
            except ValueError as error:
                raise KeyError("config") from error

        with pytest.raises(KeyError) as caught:
            fail.run_async().result(cleanup=True)
        assert "JSONDecodeError" in caught.value.__notes__[0]

    def test_an_exception_that_cannot_come_back_is_told(self) -> None:
        """Unpicklable, or not to be rebuilt: a RemoteError with type, message and traceback."""

        @cpu
        def unpicklable() -> None:
            error = ValueError("holds a lock")
            error.lock = threading.Lock()  # type: ignore[attr-defined]
            raise error

        @cpu
        def not_to_be_rebuilt() -> None:
            raise NeedsTwo("a", "b")

        with pytest.raises(errors.RemoteError, match="ValueError: holds a lock") as caught:
            unpicklable.run_async().result(cleanup=True)
        assert caught.value.__notes__[0].startswith("Remote traceback:")
        with pytest.raises(errors.RemoteError, match=r"NeedsTwo: a-b \(it could not be rebuilt"):
            not_to_be_rebuilt.run_async().result(cleanup=True)

    def test_a_keyboard_interrupt_in_the_job_does_not_interrupt_the_caller(self) -> None:
        """Exceptions that would end the caller arrive as a RemoteError."""

        @cpu
        def interrupt() -> None:
            raise KeyboardInterrupt

        with pytest.raises(errors.RemoteError, match="KeyboardInterrupt"):
            interrupt.run_async().result(cleanup=True)

    def test_an_unpicklable_result_names_the_culprit(self) -> None:
        """The error says which attribute, of which type, and what the value was."""

        class Holder:
            def __init__(self) -> None:
                self.fine = 1
                self.lock = threading.Lock()

            def __repr__(self) -> str:
                return "Holder(lock)"

        @cpu
        def hold() -> dict[str, Holder]:
            return {"model": Holder()}

        with pytest.raises(errors.ResultNotPicklable) as caught:
            hold.run_async().result(cleanup=True)
        assert "['model'].lock" in str(caught.value)
        assert "Holder(lock)" in str(caught.value)

    @pytest.mark.parametrize(
        ("argument", "code"), [(3, 3), (0, 0), (None, 0), ("a reason", 1)], ids=str
    )
    def test_sys_exit_has_a_name(self, argument: Any, code: int) -> None:
        """`sys.exit` is an ending of its own, never a silent None, and never ends the caller."""

        @cpu
        def leave() -> None:
            sys.exit(argument)

        job = leave.run_async()
        with pytest.raises(errors.JobExited, match=r"sys\.exit") as caught:
            job.result()
        assert caught.value.code == code
        assert job.status() is JobStatus.FAILED
        job.cleanup()

    def test_os_exit_has_a_name(self) -> None:
        """A process that ends itself is told with its code and the last lines it printed."""

        @cpu
        def vanish() -> None:
            print("last words", flush=True)
            os._exit(9)

        with pytest.raises(errors.JobExited, match="code 9") as caught:
            vanish.run_async().result(cleanup=True)
        assert caught.value.code == 9
        assert "last words" in caught.value.__notes__[0]

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
    def test_a_signal_has_a_name(self, number: signal.Signals) -> None:
        """A job that is killed says by what."""

        @cpu
        def die() -> None:
            os.kill(os.getpid(), number)

        job = die.run_async()
        with pytest.raises(errors.JobKilled, match=number.name):
            job.result(cleanup=True)

    def test_a_job_that_runs_too_long_is_ended(self) -> None:
        """`timeout=` is enforced by the backend; the error says so and `finally` blocks run."""

        @kinetic.run(accelerator="cpu", timeout=0.3)
        def forever() -> None:
            try:
                signal.pause()
            finally:
                print("tidied up")

        job = forever.run_async()
        with pytest.raises(errors.JobTimedOut, match=r"timeout=0\.3") as caught:
            job.result()
        assert not isinstance(caught.value, TimeoutError), "that one says the job goes on"
        assert job.status() is JobStatus.FAILED
        assert "tidied up" in job.tail()
        job.cleanup()

    def test_a_failing_import_in_the_job_is_a_set_up_failure(self) -> None:
        """What goes wrong before the function is called says in which phase."""

        class Trap:
            def __reduce__(self) -> tuple[Any, ...]:
                return _explode, ("while unpickling",)

        @cpu
        def take(trap: Trap) -> None: ...

        with pytest.raises(errors.SetupFailed, match=r"arguments.*while unpickling") as caught:
            take.run_async(Trap()).result(cleanup=True)
        assert caught.value.phase == "arguments"

    def test_what_cannot_travel_is_refused_at_submit(self) -> None:
        """An unpicklable argument or closure is a TypeError here that names it."""
        lock = threading.Lock()

        @cpu
        def take(**config: Any) -> None: ...

        @cpu
        def close_over() -> None:
            lock.acquire()

        with pytest.raises(TypeError, match=r"argument `config`.*\['b'\]` is a lock"):
            take(config={"a": 1, "b": lock})
        with pytest.raises(TypeError, match=r"function `close_over`.*`lock` is a lock"):
            close_over()

    # Cancelling.

    def test_cancel_ends_the_whole_tree(self, gate: Gate, tmp_path: Path) -> None:
        """Children go too, even one in a session of its own; artifacts stay; status NOT_FOUND."""
        pids = tmp_path / "pids"

        @cpu
        def spawn() -> None:
            print("started", flush=True)
            own = subprocess.Popen(["sleep", "600"], start_new_session=True)
            child = subprocess.Popen(["sleep", "600"])
            pids.write_text(f"{os.getpid()} {own.pid} {child.pid}")
            gate.wait()

        job = spawn.run_async()
        gate.await_arrival()
        job.cancel(cleanup_timeout=60, cleanup_poll_interval=0.1)
        assert job.status() is JobStatus.NOT_FOUND
        for pid in pids.read_text().split():
            with pytest.raises(ProcessLookupError):
                os.kill(int(pid), 0)
        assert job.tail() == "started\n"
        with pytest.raises(errors.JobCancelled, match="cancelled"):
            job.result()
        job.cleanup()

    def test_cancelling_what_is_over_forgets_it(self) -> None:
        """The result is still stored."""

        @cpu
        def quick() -> int:
            return 3

        job = quick.run_async()
        job.result(cleanup=False)
        job.cancel()
        assert job.status() is JobStatus.NOT_FOUND
        assert job.result() == 3

    # Logs.

    def test_logs_are_bytes(self) -> None:
        """Invalid UTF-8, brackets, escapes, carriage returns and endless lines are kept."""
        written = (
            b"[red]not markup[/red] \x1b[1mbold\x1b[0m \xff\xfe\r50%\r100%\n" + b"x" * 3_000_000
        )

        @cpu
        def talk() -> None:
            os.write(1, written)

        job = talk.run_async()
        job.result(cleanup=False)
        backend = backend_of(job)
        assert b"".join(backend.log(job.job_id)) == written
        assert backend.tail(job.job_id, 1) == b"x" * 3_000_000
        assert backend.tail(job.job_id, 2) == written
        assert job.logs() == written.decode(errors="replace")
        job.cleanup()

    def test_tail_gives_the_last_lines(self) -> None:
        """`tail(n)` counts lines, with or without a final newline; `tail()` gives a hundred."""

        @cpu
        def talk() -> None:
            print("\n".join(str(n) for n in range(500)))
            print("unfinished", end="", flush=True)

        job = talk.run_async()
        job.result(cleanup=False)
        assert job.tail(3) == "498\n499\nunfinished"
        assert job.tail(1) == "unfinished"
        assert job.tail(0) == ""
        assert job.tail().splitlines() == [*map(str, range(401, 500)), "unfinished"]
        job.cleanup()

    def test_following_a_log_sees_it_grow(self, gate: Gate) -> None:
        """Bytes arrive while the job runs, from the first one; the status comes with them."""

        @cpu
        def talk() -> None:
            print("before", flush=True)
            gate.wait()
            print("after", flush=True)

        job = talk.run_async()
        seen, statuses = b"", []
        for event in backend_of(job).watch(job.job_id, log=True):
            if isinstance(event, LogBytes):
                seen += event.data
                if seen == b"before\n":
                    gate.await_arrival()
                    gate.open()
            elif isinstance(event, StatusChanged):
                statuses.append(event.status)
        assert seen == b"before\nafter\n"
        assert statuses[-1] is JobStatus.SUCCEEDED
        job.cleanup()

    def test_logs_follow_prints_until_the_end(self, capfd: pytest.CaptureFixture[str]) -> None:
        """`logs(follow=True)` returns None when the job is over, having printed it all."""

        @cpu
        def talk() -> None:
            for n in range(100):
                print(n)

        job = talk.run_async()
        assert job.logs(follow=True) is None
        assert capfd.readouterr().out.splitlines() == [str(n) for n in range(100)]
        job.cleanup()

    # The job's world.

    def test_the_job_knows_itself(self) -> None:
        """Its id, attempt and output directory are in its environment; the directory exists."""

        @cpu
        def look() -> dict[str, str]:
            out = Path(os.environ["KINETIC_OUTPUT_DIR"])
            (out / "weights").write_text("1.0")
            return {n: os.environ[n] for n in ("KINETIC_JOB_ID", "KINETIC_ATTEMPT")} | {
                "out": str(out)
            }

        job = look.run_async()
        seen = job.result()
        assert seen["KINETIC_JOB_ID"] == job.job_id
        assert seen["KINETIC_ATTEMPT"] == "1"
        assert (Path(seen["out"]) / "weights").read_text() == "1.0", "outputs outlive cleanup"

    def test_the_signing_key_is_not_the_jobs_to_see(self) -> None:
        """Nothing in the job's environment lets it sign records of other jobs."""

        @cpu
        def look() -> list[str]:
            return [name for name in os.environ if "KEY" in name or "ASSIGNMENT" in name]

        assert look() == []

    def test_captured_variables_arrive_and_others_do_not(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Exact names and prefixes are captured; the rest of the client's environment stays."""
        for name in ("WANDB_API_KEY", "WANDB_MODE", "EXACT", "NOT_CAPTURED"):
            monkeypatch.setenv(name, f"value of {name}")

        @kinetic.run(accelerator="cpu", capture_env_vars=["EXACT", "WANDB_*"])
        def look() -> dict[str, str]:
            return {n: v for n, v in os.environ.items() if v.startswith("value of")}

        job = look.run_async()
        names = {"WANDB_API_KEY", "WANDB_MODE", "EXACT"}
        assert job.result(cleanup=False) == {name: f"value of {name}" for name in names}
        for key in stored_keys(job):
            if "/attempts/" not in key:  # this function returned them itself
                assert b"value of" not in backend_of(job).store.get(key), key
        job.cleanup()

    def test_a_forged_record_is_never_unpickled(self, tmp_path: Path) -> None:
        """A record that was not written with the key is ignored, and cannot block the real one."""
        marker = tmp_path / "ran"

        class Evil:
            def __reduce__(self) -> tuple[Any, ...]:
                return Path.touch, (marker,)

        @cpu
        def value() -> int:
            return 8

        job = value.run_async()
        store = backend_of(job).store
        forged = b'kinetic-record-1\n00\n{"ending":"returned"}\n' + pickle.dumps(Evil())
        store.put(layout.record(job.job_id, 1, "000"), forged)
        assert job.result() == 8
        assert not marker.exists()


def _explode(message: str) -> None:
    raise ImportError(message)
