"""Where jobs run: one small protocol, and a registry that loads an engine when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kinetic.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinetic.backends.base import Backend
    from kinetic.settings import Settings

_ENGINES = {"local": "kinetic.backends.local.backend"}


def open_backend(name: str, settings: Settings) -> Backend:
    """The backend called `name`, for what `settings` resolved."""
    backend: Backend = _engine(name).from_settings(settings)
    return backend


def open_for_handle(handle: Mapping[str, Any]) -> Backend:
    """The backend that a handle of ours says its job was submitted to."""
    backend: Backend = _engine(handle["backend"]).from_handle(handle)
    return backend


def _engine(name: str) -> Any:
    if name not in _ENGINES:
        raise BackendUnavailable(
            f"this version of kinetic has no engine for the backend `{name}` yet",
            hint='use backend="local" or set KINETIC_BACKEND=local;'
            " where a project is configured, `gke` is the default",
        )
    return import_module(_ENGINES[name])
