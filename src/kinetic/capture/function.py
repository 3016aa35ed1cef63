"""A function and its arguments as bytes that a job can call."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

from kinetic.errors import NotPicklable
from kinetic.pickling import FunctionReference, dumps

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def pickle_function(function: Callable[..., object], name: str) -> bytes:
    """The function: by name where the job can import it, by value where it cannot."""
    return dumps(reference_to(function) or function, f"the function `{name}`")


def pickle_arguments(args: tuple[object, ...], kwargs: dict[str, object]) -> bytes:
    """The arguments of one call; an error names the argument."""
    try:
        return dumps((args, kwargs), "the arguments")
    except NotPicklable:
        for position, value in enumerate(args, start=1):
            dumps(value, f"argument {position}")
        for name, value in kwargs.items():
            dumps(value, f"argument `{name}`")
        raise


def reference_to(function: Callable[..., object]) -> FunctionReference | None:
    """How a job finds `function` by import, or None where it must travel by value."""
    qualname = getattr(function, "__qualname__", "<locals>")
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if module is None or "<locals>" in qualname or not _is_importable(module):
        return None
    found: object = module
    for part in qualname.split("."):
        found = vars(found).get(part) if hasattr(found, "__dict__") else None
    if found is function or getattr(found, "__wrapped__", None) is function:
        return FunctionReference(module.__name__, qualname)
    return None


def _is_importable(module: ModuleType) -> bool:
    """Whether `import` in a process with our sys.path gives this very module."""
    if module.__name__ == "__main__" or module.__spec__ is None:
        return False
    top = module.__name__.partition(".")[0]
    spec = getattr(sys.modules.get(top), "__spec__", None)
    if spec is None or spec.origin in ("built-in", "frozen"):
        return spec is not None
    found = PathFinder.find_spec(top)
    return found is not None and found.origin == spec.origin
