"""What the command line says on stderr, and the exit codes it ends with."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kinetic import notices
from kinetic.cli import terminal
from kinetic.errors import LOG_NOTE, TRACEBACK_NOTE

if TYPE_CHECKING:
    import click

    from kinetic.errors import KineticError

FAILED = 1
NOT_RUNNING = 3
TIMED_OUT = 124  # as `timeout` has it
INTERRUPTED = 130  # as shells have it: 128 + SIGINT
UNREAD = 141  # 128 + SIGPIPE


def note(text: str) -> None:
    """Something a person may want to know; a script need not."""
    print(text, file=sys.stderr)


def error(message: str, *hints: str | None) -> None:
    """What happened, and what to type next."""
    print(terminal.painted("error:", "red", sys.stderr), message, file=sys.stderr)
    for hint in filter(None, hints):
        print(terminal.painted("hint:", "cyan", sys.stderr), hint, file=sys.stderr)


def failure(problem: KineticError) -> None:
    """An error of ours, without its stack."""
    error(str(problem.args[0]), problem.hint)


def misuse(problem: click.ClickException) -> None:
    """A command line that cannot be understood."""
    context = getattr(problem, "ctx", None)
    hint = f"`{context.command_path} --help` shows what it takes" if context else None
    error(problem.format_message(), hint)


def close_line() -> None:
    """Leave the line on which the terminal shows `^C`."""
    if sys.stderr.isatty():
        print(file=sys.stderr)


def stopped_waiting(job_id: str) -> int:
    """For someone who pressed Ctrl-C; returns the exit code."""
    close_line()
    note(notices.stopped_waiting(job_id))
    return INTERRUPTED


def is_from_job(problem: BaseException, job_id: str) -> bool:
    """Whether this is what became of the job, rather than of our asking for it."""
    from kinetic.errors import JobFailed

    ours = isinstance(problem, JobFailed) and problem.job_id == job_id
    return ours or bool(_evidence(problem))


def job_failure(problem: BaseException, job_id: str) -> int:
    """A job's last lines, its traceback, and its error, in the order they came about."""
    from kinetic.errors import JobError

    for text in _evidence(problem):
        print(text.rstrip(), file=sys.stderr)
    kept = f"`kinetic jobs logs {job_id}` shows all it printed, `kinetic jobs cleanup {job_id}`"
    if isinstance(problem, JobError) and problem.job_id == job_id:
        error(str(problem.args[0]), problem.hint, f"{kept} removes it")
    else:
        error(f"`{job_id}` raised {_in_words(problem)}", f"{kept} removes it")
    return FAILED


def _evidence(problem: BaseException) -> list[str]:
    """The notes that a job's error comes with; those it raised itself are in its traceback."""
    notes = [text for text in getattr(problem, "__notes__", ()) if isinstance(text, str)]
    kinds = (LOG_NOTE, TRACEBACK_NOTE)
    found = ([text for text in notes if text.startswith(kind)][-1:] for kind in kinds)
    return [text for last in found for text in last]


def _in_words(problem: BaseException) -> str:
    name = type(problem).__qualname__
    try:
        text = str(problem)
    except Exception:  # noqa: BLE001  # the exception's class is the user's
        text = "(it cannot be shown)"
    return f"{name}: {text}" if text else name
