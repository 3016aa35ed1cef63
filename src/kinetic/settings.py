"""Where a value comes from: argument, KINETIC_* variable, active profile, default, in that order.

Every entry point resolves through here, so that the library and the command agree.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kinetic.errors import OptionError

BACKENDS = ("local", "gke", "kubernetes", "pathways")
_PROFILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_AGENT_VARIABLES = {
    "KINETIC_SLOTS": (r"0*[1-9][0-9]{0,5}", "a whole number above zero"),
    "KINETIC_AGENT_IDLE": (
        r"[0-9]*\.?[0-9]*[1-9][0-9]*\.?[0-9]*",
        "a number of seconds above zero",
    ),
    "KINETIC_GRACE": (r"[0-9]+\.?[0-9]*|\.[0-9]+", "a number of seconds"),
    "KINETIC_JOB_START": (r"fork|cold", "`fork` or `cold`"),
}
_DEFAULTS = {"zone": "us-central1-a", "cluster": "kinetic-cluster", "namespace": "default"}


@dataclass(frozen=True, slots=True)
class Settings:
    """One resolved answer to "where does this job go?"."""

    home: Path
    project: str | None
    zone: str
    cluster: str
    namespace: str
    backend: str | None  # None: nobody chose one
    profile: str | None


def home_directory() -> Path:
    """`KINETIC_HOME`, by default `~/.kinetic`."""
    named = os.environ.get("KINETIC_HOME") or "~/.kinetic"
    try:
        expanded = Path(named).expanduser()
    except RuntimeError:
        expanded = Path("~")  # HOME is not set, and nobody knows this user
    if str(expanded)[:1] == "~" or (named[0] == "~" and not os.environ.get("HOME", "x")):
        raise OptionError(
            "there is no home directory to keep jobs in: HOME is not set",
            hint="set HOME, or point KINETIC_HOME at a directory of your own",
        )
    return expanded.absolute()


def check_agent_variables() -> None:
    """Refuse nonsense in the variables that an agent reads when it starts."""
    for name, (pattern, what) in _AGENT_VARIABLES.items():
        value = os.environ.get(name, "")
        if value and not re.fullmatch(pattern, value):
            raise OptionError(f"{name} takes {what}, not `{value}`")


def resolve(
    *,
    project: str | None = None,
    zone: str | None = None,
    cluster: str | None = None,
    namespace: str | None = None,
    backend: str | None = None,
) -> Settings:
    """Resolve every setting in the one order that all entry points share."""
    name, profile = active_profile()

    def pick(key: str, argument: str | None) -> str | None:
        return argument or os.environ.get(f"KINETIC_{key.upper()}") or profile.get(key)

    chosen = pick("backend", backend)
    return Settings(
        home=home_directory(),
        project=pick("project", project) or os.environ.get("GOOGLE_CLOUD_PROJECT"),
        zone=pick("zone", zone) or _DEFAULTS["zone"],
        cluster=pick("cluster", cluster) or _DEFAULTS["cluster"],
        namespace=pick("namespace", namespace) or _DEFAULTS["namespace"],
        backend=check_backend(chosen) if chosen else None,
        profile=name,
    )


def check_backend(name: object) -> str:
    """`name` if it is a backend's, else an error with the nearest one that is."""
    if isinstance(name, str) and name in BACKENDS:
        return name
    close = difflib.get_close_matches(str(name).lower(), BACKENDS, n=1)
    hint = f"did you mean `{close[0]}`?" if close else f"backends are {', '.join(BACKENDS)}"
    raise OptionError(f"there is no backend `{name}`", hint=hint)


def active_profile() -> tuple[str | None, dict[str, str]]:
    """The active profile's name and values: `KINETIC_PROFILE`, else the file's `current`."""
    path = profiles_file()
    asked = os.environ.get("KINETIC_PROFILE")
    known, current = _read_profiles(path)
    if asked and asked not in known:
        listed = ", ".join(f"`{name}`" for name in sorted(known)) or "none"
        raise OptionError(
            f"there is no profile `{asked}` in {path}",
            hint=f"profiles there: {listed}; unset KINETIC_PROFILE or leave out --profile",
        )
    name = asked or (current if current in known else None)
    return (name, known[name]) if name else (None, {})


def profiles_file() -> Path:
    """`KINETIC_PROFILES_FILE`, by default `profiles.json` in the home directory."""
    named = os.environ.get("KINETIC_PROFILES_FILE")
    return Path(named).expanduser() if named else home_directory() / "profiles.json"


def _read_profiles(path: Path) -> tuple[dict[str, dict[str, str]], str | None]:
    try:
        content: Any = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}, None
    except (OSError, ValueError) as error:
        raise _unreadable(path, str(error)) from error
    if not isinstance(content, dict) or not isinstance(content.get("profiles", {}), dict):
        raise _unreadable(path, "it does not hold an object with `current` and `profiles`")
    profiles = {
        name: {key: str(value) for key, value in values.items() if value is not None}
        for name, values in content.get("profiles", {}).items()
        if _PROFILE_NAME.fullmatch(name) and isinstance(values, dict)
    }
    current = content.get("current")
    return profiles, current if isinstance(current, str) else None


def _unreadable(path: Path, reason: str) -> OptionError:
    return OptionError(
        f"the profiles in {path} cannot be read: {reason}",
        hint="mend the file or move it away; kinetic never overwrites what it cannot read",
    )
