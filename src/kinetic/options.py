"""What `kinetic.run(...)` was given, checked at decoration: the earliest moment a typo can show."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from kinetic import accelerators, quantities
from kinetic.capture.environment import check_patterns
from kinetic.errors import OptionError
from kinetic.settings import check_backend

if TYPE_CHECKING:
    from kinetic.accelerators import Accelerator


@dataclass(frozen=True, slots=True)
class JobOptions:
    """One decorated function's options, each known to be possible."""

    accelerator: Accelerator
    accelerator_name: str  # as the user spelled it
    container_image: str | None = None
    base_image_repo: str | None = None
    zone: str | None = None
    project: str | None = None
    capture_env_vars: tuple[str, ...] = ()
    cluster: str | None = None
    backend: str | None = None
    namespace: str | None = None
    output_dir: str | None = None
    debug: bool = False
    timeout: float | None = None
    cpu: float | None = None
    memory: int | None = None


def check_options(
    *,
    accelerator: str,
    container_image: str | None,
    base_image_repo: str | None,
    zone: str | None,
    project: str | None,
    capture_env_vars: list[str] | None,
    cluster: str | None,
    backend: str | None,
    namespace: str | None,
    volumes: Mapping[str, object] | None,
    spot: bool,
    output_dir: str | None,
    debug: bool,
    timeout: float | None,
    cpu: float | str | None,
    memory: int | str | None,
) -> JobOptions:
    """The options, or an error that says which one is wrong and how to write it."""
    for name, value in (("spot", spot), ("debug", debug)):
        if not isinstance(value, bool):
            raise OptionError(f"{name}= takes True or False, not {value!r}")
    names = {
        "container_image": container_image,
        "base_image_repo": base_image_repo,
        "zone": zone,
        "project": project,
        "cluster": cluster,
        "namespace": namespace,
        "output_dir": output_dir,
    }
    for name, text in names.items():
        _check_text(name, text)
    _check_volumes(volumes)
    if backend is not None:
        check_backend(backend)
    return JobOptions(
        accelerator=accelerators.parse(accelerator, spot=spot, pathways=backend == "pathways"),
        accelerator_name=accelerator.strip(),
        capture_env_vars=check_patterns(capture_env_vars),
        backend=backend,
        debug=debug,
        timeout=_check_timeout(timeout),
        cpu=None if cpu is None else quantities.parse_cpu(cpu),
        memory=None if memory is None else quantities.parse_memory(memory),
        **names,
    )


def _check_text(name: str, text: object) -> None:
    if text is not None and not (isinstance(text, str) and text.strip()):
        raise OptionError(f"{name}= takes a non-empty string, not {text!r}")


def _check_timeout(timeout: object) -> float | None:
    if timeout is None:
        return None
    if (
        isinstance(timeout, int | float)
        and not isinstance(timeout, bool)
        and 0 < timeout < math.inf
    ):
        return float(timeout)
    raise OptionError(
        f"timeout= takes a positive number of seconds, not {timeout!r}",
        hint="leave it out to let the job run for as long as it takes",
    )


def _check_volumes(volumes: object) -> None:
    if volumes is None:
        return
    if not isinstance(volumes, Mapping):
        raise OptionError(
            f"volumes= takes a dict of mount paths, not {volumes!r}",
            hint='write volumes={"/data": kinetic.Data("./dataset/")}',
        )
    for path in volumes:
        _check_mount_path(path)
    if volumes:
        raise OptionError(
            "this version of kinetic cannot mount volumes yet",
            hint="pass the data as an argument, or keep it in the project's directory",
        )


def _check_mount_path(path: object) -> None:
    if not isinstance(path, str) or not path.startswith("/"):
        raise OptionError(
            f"`{path}` in volumes= is not an absolute path",
            hint=f"mount paths start with a slash: `/{str(path).lstrip('./')}`",
        )
    parts = PurePosixPath(path).parts
    if len(parts) == 1 or ".." in parts:
        raise OptionError(
            f"`{path}` in volumes= cannot be mounted over",
            hint="name a directory of its own, such as `/data`",
        )
