"""Python objects as bytes, with errors that name the part that cannot travel."""

from __future__ import annotations

import importlib
import io
import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cloudpickle

from kinetic.errors import NotPicklable

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class FunctionReference:
    """A function named rather than shipped: the job imports it from its copy of the source."""

    module: str
    qualname: str

    def find(self) -> Any:
        """Import what goes by this name, decorated as it may be."""
        found: Any = importlib.import_module(self.module)
        for part in self.qualname.split("."):
            # Not getattr: a decorated method must be found as itself, not bound to its class.
            found = vars(found)[part]
        return found

    def load(self) -> Callable[..., Any]:
        """Import the function itself, from under Kinetic's decorator."""
        found = self.find()
        function: Callable[..., Any] = found.__wrapped__ if hasattr(found, "run_async") else found
        return function


def dumps(value: object, what: str) -> bytes:
    """`value` as bytes, classes and functions that cannot be imported elsewhere included."""
    try:
        return bytes(cloudpickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))
    except Exception as error:  # pickling runs the user's own __reduce__
        culprit = find_culprit(value)
        where = f" ({culprit})" if culprit else ""
        raise NotPicklable(
            f"{what} cannot be pickled{where}: {error}",
            hint="open files, locks, sockets and clients inside the function, and pass plain data",
        ) from error


def find_culprit(value: object, path: str = "", depth: int = 4) -> str | None:
    """The innermost part of `value` that cannot be pickled, as a path a person can follow."""
    for label, part in _parts(value):
        try:
            cloudpickle.Pickler(io.BytesIO()).dump(part)
        except Exception:  # noqa: BLE001  # as above: whatever the user's objects raise
            where = path + label
            deeper = find_culprit(part, where, depth - 1) if depth else None
            return deeper or f"`{where.lstrip('.')}` is a {type(part).__qualname__}"
    return None


def _parts(value: Any) -> list[tuple[str, Any]]:
    if hasattr(value, "__code__") and hasattr(value, "__globals__"):
        return _free_variables(value)
    if isinstance(value, dict):
        return [(f"[{key!r}]", item) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [(f"[{index}]", item) for index, item in enumerate(value)]
    return [(f".{name}", item) for name, item in getattr(value, "__dict__", {}).items()]


def _free_variables(function: Any) -> list[tuple[str, Any]]:
    code, scope = function.__code__, function.__globals__
    closed = zip(code.co_freevars, function.__closure__ or (), strict=True)
    named = [(name, scope[name]) for name in code.co_names if name in scope]
    return [(f".{name}", cell.cell_contents) for name, cell in closed] + [
        (f".{name}", value) for name, value in named
    ]
