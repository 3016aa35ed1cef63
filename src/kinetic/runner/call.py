"""Call the user's function and say, in a record, how that went."""

from __future__ import annotations

import sys
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kinetic.errors import NotPicklable
from kinetic.pickling import dumps
from kinetic.records import Ending, Facts, Record

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from kinetic.spec import Assignment


class Interrupted(BaseException):
    """SIGTERM arrived: leave, and leave no outcome, so that another attempt may run."""


def call(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    assignment: Assignment,
) -> Record:
    """Call, and turn whatever happens into a record. Only an interruption passes through."""
    try:
        value = function(*args, **kwargs)
    except Interrupted:
        raise
    except SystemExit as error:
        return _exited(error, assignment)
    except BaseException as error:  # noqa: BLE001  # every other ending is the job's outcome
        return raised(error, assignment)
    return _returned(value, assignment)


def raised(error: BaseException, assignment: Assignment) -> Record:
    """The record of an exception, with its traceback told from the user's function on."""
    text = "".join(traceback.format_exception(type(error), error, _from_user_code(error)))
    facts = Facts(
        message=_safely(str, error),
        type_name=_type_name(error),
        traceback=text,
        python=python_version(),
    )
    record = Record(assignment.job_id, assignment.attempt, Ending.RAISED, facts)
    try:
        return replace(record, body=dumps(error, "the exception"))
    except NotPicklable:
        return record  # its type, message and traceback still come back


def setup_failed(phase: str, error: BaseException, assignment: Assignment) -> Record:
    """The record of a job that never came to call its function."""
    text = "".join(traceback.format_exception(error))
    message = f"{_type_name(error)}: {_safely(str, error)}"
    facts = Facts(message, _type_name(error), text, phase=phase, python=python_version())
    return Record(assignment.job_id, assignment.attempt, Ending.SETUP_FAILED, facts)


def python_version() -> str:
    """major.minor, which is what pickled code depends on."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _returned(value: object, assignment: Assignment) -> Record:
    job_id, attempt = assignment.job_id, assignment.attempt
    try:
        body = dumps(value, "the result")
    except NotPicklable as error:
        message = f"{error.args[0]}. It was {_shortened(_safely(repr, value))}"
        facts = Facts(message, type(value).__qualname__, python=python_version())
        return Record(job_id, attempt, Ending.UNPICKLABLE_RESULT, facts)
    return Record(job_id, attempt, Ending.RETURNED, Facts(python=python_version()), body)


def _exited(error: SystemExit, assignment: Assignment) -> Record:
    code = error.code if isinstance(error.code, int) else int(error.code is not None)
    said = f"sys.exit({error.code!r})" if error.code is not None else "sys.exit()"
    text = "".join(traceback.format_exception(type(error), error, _from_user_code(error)))
    facts = Facts(f"the function called {said}", "SystemExit", text, exit_code=code)
    return Record(assignment.job_id, assignment.attempt, Ending.EXITED, facts)


def _from_user_code(error: BaseException) -> TracebackType | None:
    """The traceback without the frame of `call` at its head."""
    return error.__traceback__.tb_next if error.__traceback__ else None


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def _safely(describe: Callable[[object], str], value: object) -> str:
    try:
        return describe(value)
    except Exception as error:  # noqa: BLE001  # a user's broken __str__ must not hide the rest
        return f"<{type(value).__qualname__} whose description raised {type(error).__name__}>"


def _shortened(text: str, limit: int = 200) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
