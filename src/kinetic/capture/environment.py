"""Which environment variables a job gets, and where each comes from."""

from __future__ import annotations

import difflib
import os
import re
from typing import TYPE_CHECKING

from kinetic import notices
from kinetic.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?")

# What a process on this machine needs to find its programs, libraries, language and network.
_BASELINE = frozenset(
    """
    PATH HOME USER LOGNAME SHELL TMPDIR TZ LANG LANGUAGE
    VIRTUAL_ENV CONDA_PREFIX CONDA_DEFAULT_ENV PYTHONPATH PYTHONHASHSEED PYTHONUTF8
    PYTHONDONTWRITEBYTECODE LD_LIBRARY_PATH DYLD_LIBRARY_PATH
    CUDA_HOME CUDA_PATH CUDA_DEVICE_ORDER NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES
    HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY http_proxy https_proxy no_proxy all_proxy
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE
    KINETIC_HOME KINETIC_BACKEND KINETIC_PROFILE KINETIC_PROFILES_FILE KINETIC_PROJECT
    KINETIC_ZONE KINETIC_CLUSTER KINETIC_NAMESPACE KINETIC_STORE KINETIC_LOG_LEVEL
    GOOGLE_CLOUD_PROJECT
    """.split()
)

# A wildcard never takes what describes this machine or this session rather than the work.
_NEVER_BY_WILDCARD = frozenset(
    """
    PATH HOME PYTHONPATH LD_LIBRARY_PATH LD_PRELOAD VIRTUAL_ENV SHELL TMPDIR TEMP TMP HOSTNAME
    USER LOGNAME SSH_AUTH_SOCK KUBERNETES_SERVICE_HOST KERAS_BACKEND
    """.split()
)


def baseline(environ: Mapping[str, str]) -> dict[str, str]:
    """What every local job gets from the client that submits it."""
    names = [name for name in environ if name in _BASELINE or name.startswith("LC_")]
    return {name: environ[name] for name in names}


def check_patterns(patterns: Iterable[object] | None) -> tuple[str, ...]:
    """The patterns, if each is a variable's name or a prefix that ends in `*`."""
    if isinstance(patterns, str):
        raise OptionError(
            f"capture_env_vars takes a list of names, not the string `{patterns}`",
            hint=f'write capture_env_vars=["{patterns}"]',
        )
    if patterns is not None and not isinstance(patterns, list | tuple | set | frozenset):
        raise OptionError(f"capture_env_vars takes a list of names, not {patterns!r}")
    checked = []
    for pattern in patterns or ():
        if not isinstance(pattern, str) or not (_NAME.fullmatch(pattern) or pattern == "*"):
            raise OptionError(
                f"`{pattern}` in capture_env_vars is not the name of an environment variable",
                hint='give exact names or prefixes that end in `*`, such as "WANDB_*"',
            )
        checked.append(pattern)
    return tuple(checked)


def captured(patterns: Iterable[str], environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that `patterns` name; a missing exact name is a warning, never an error."""
    environ = os.environ if environ is None else environ
    taken: dict[str, str] = {}
    for pattern in patterns:
        if pattern.endswith("*"):
            prefix = pattern[:-1]
            taken |= {n: v for n, v in environ.items() if n.startswith(prefix) and _may_match(n)}
        elif pattern in environ:
            taken[pattern] = environ[pattern]
        else:
            _warn_missing(pattern, environ)
    return taken


def _may_match(name: str) -> bool:
    return name not in _NEVER_BY_WILDCARD and not name.startswith("CONDA_")


def _warn_missing(name: str, environ: Mapping[str, str]) -> None:
    close = difflib.get_close_matches(name, environ, n=3)
    like = f"; set here: {', '.join(f'`{n}`' for n in close)}" if close else ""
    notices.warn(f"capture_env_vars names `{name}`, which is not set{like}")
