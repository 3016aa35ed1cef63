"""One attempt of one job, from its spec's address to its record."""

from __future__ import annotations

import hashlib
import os
import pickle
import signal
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinetic import layout, records
from kinetic.errors import SetupFailed, StoreError
from kinetic.pickling import FunctionReference
from kinetic.runner import outputs, workspace
from kinetic.runner.call import Interrupted, call, python_version, setup_failed
from kinetic.spec import JobSpec
from kinetic.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from kinetic.records import Record
    from kinetic.spec import Assignment, Payload
    from kinetic.stores.base import Store

FAILED = 1
INTERRUPTED = 128 + signal.SIGTERM
_STORE_WITHIN = 600.0  # seconds a finished job waits for a store that does not take its record
_STORE_AGAIN = 1.0
UNRECORDED = 74  # sysexits' EX_IOERR: the attempt ended, but its record could not be stored


def run(assignment: Assignment, key: bytes) -> int:
    """Run the attempt and store its record; returns the exit code its process should end with."""
    store = open_store(assignment.store_url)
    me = os.getpid()
    try:
        with _interruptible() as was_interrupted:
            record = _attempt(assignment, store, key)
            if record and not record.is_success and was_interrupted():
                return INTERRUPTED  # how it reacted to being ended is not how it ended
    except Interrupted:
        return INTERRUPTED
    if os.getpid() != me:
        return 0  # a child that the function forked and did not end: its value is nobody's
    if record is None:
        return 0  # settled before; the function is never called again
    stored = _stored(record, assignment, store, key)
    _show(record)
    if not stored:
        return UNRECORDED
    return 0 if record.is_success else (record.facts.exit_code or FAILED) & 0xFF or FAILED


def _attempt(assignment: Assignment, store: Store, key: bytes) -> Record | None:
    root = Path(assignment.workspace) / "tree"
    phase = "spec"
    try:
        spec = _read_spec(assignment, store)
        if records.find_final(store, spec.job_id, key, spec.retries):
            return None
        phase = "source"
        space, untouched = Path(assignment.workspace), assignment.untouched
        root = workspace.prepare(space, spec.source, store, untouched=untouched)
        _enter(root, spec)
        outputs.make(spec.output_dir, assignment)
        phase = "function"
        function = _load(spec.function, store)
        if isinstance(function, FunctionReference):
            function = function.load()
        _be_main(function)
        phase = "arguments"
        args, kwargs = _load(spec.arguments, store)
    except Interrupted:
        raise
    except BaseException as error:  # noqa: BLE001  # user modules run here: anything can be raised
        return _told_from(root, "", setup_failed(phase, error, assignment))
    record = call(function, args, kwargs, assignment)
    outputs.take_back(spec.output_dir, assignment)
    return _told_from(root, spec.source.root, record)


def _stored(record: Record, assignment: Assignment, store: Store, key: bytes) -> bool:
    """Store the record. A store that is full or away is given time: the work is done and dear."""
    object_key = layout.record(assignment.job_id, assignment.attempt, assignment.uid)
    sealed = records.seal(record, key)
    deadline = time.monotonic() + _STORE_WITHIN
    while True:
        try:
            store.put_if_absent(object_key, sealed)
            return True
        except StoreError as error:
            if time.monotonic() > deadline:
                _print(f"kinetic: the job ended, but its result is lost: {error}\n")
                return False
            time.sleep(_STORE_AGAIN)


def _read_spec(assignment: Assignment, store: Store) -> JobSpec:
    data = store.get(layout.spec(assignment.job_id))
    if hashlib.sha256(data).hexdigest() != assignment.spec_digest:
        raise StoreError(f"the spec of `{assignment.job_id}` is not the one that was submitted")
    spec = JobSpec.from_json(data)
    if spec.python != python_version():
        raise SetupFailed(
            f"the client runs Python {spec.python}, this job runs Python {python_version()}",
            hint="use the same minor version in both; pickled functions do not cross versions",
        )
    return spec


def _load(payload: Payload, store: Store) -> Any:
    data = payload.inline_bytes()
    if data is None:
        data = store.get(layout.blob(payload.digest))
    if hashlib.sha256(data).hexdigest() != payload.digest:
        raise StoreError("what the job was to call is not what was submitted")
    return pickle.loads(data)


def _enter(root: Path, spec: JobSpec) -> None:
    """Stand where the caller stood: working directory, import path, script name."""
    os.chdir(root / spec.source.cwd)
    below = [
        os.path.normpath(f"{root}/{entry}") if entry[:2] == "./" else entry
        for entry in spec.source.sys_path
    ]
    sys.path[:] = list(dict.fromkeys(below))
    sys.argv = [spec.job_id]


def _be_main(function: Any) -> None:
    """Let the caller's script be found as `__main__`, as far as the function brought it along."""
    scope = getattr(function, "__globals__", {})
    if getattr(function, "__module__", None) == "__main__":
        names = {name: value for name, value in scope.items() if name[:2] != "__"}
        vars(sys.modules["__main__"]).update(names)


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Turn SIGTERM into `Interrupted`, so that `finally` blocks run; a user's own handler wins.

    Yields a question: has SIGTERM arrived, whoever handled it?
    """

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise Interrupted

    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    before = signal.signal(signal.SIGTERM, interrupt), signal.set_wakeup_fd(writer)

    def restore() -> None:
        if signal.getsignal(signal.SIGTERM) is interrupt:
            signal.signal(signal.SIGTERM, before[0])
        with suppress(ValueError, OSError):
            signal.set_wakeup_fd(before[1])

    def become_a_child() -> None:
        restore()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})

    # What the function forks is not the job: its SIGTERM is neither raised nor counted here.
    os.register_at_fork(
        before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}),
        after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM}),
        after_in_child=become_a_child,
    )
    try:
        yield lambda: bool(signal.SIGTERM in _drain(reader))
    finally:
        restore()
        for fd in (reader, writer):
            with suppress(OSError):  # a function may close what it finds open
                os.close(fd)


def _drain(reader: int) -> bytes:
    try:
        return os.read(reader, 4096)
    except OSError:
        return b""


def _told_from(root: Path, origin: str, record: Record) -> Record:
    """The record with the user's own paths in its traceback instead of the copy's."""
    if not origin or not record.facts.traceback:
        return record
    text = record.facts.traceback
    for spelling in {str(root), os.path.realpath(root)}:
        text = text.replace(spelling, origin)
    return replace(record, facts=replace(record.facts, traceback=text))


def _show(record: Record) -> None:
    """Failures go to the log too: that is where people look first."""
    if not record.is_success:
        _print(record.facts.traceback or f"kinetic: {record.facts.message}\n")


def _print(text: str) -> None:
    """To the log, whatever the function has done to its streams."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    with suppress(OSError):
        os.write(2, text.encode(errors="backslashreplace"))
