"""The options that commands about jobs share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

_PLACES = {
    "project": "The cloud project.",
    "zone": "The cloud zone.",
    "cluster": "The cluster.",
    "namespace": "The Kubernetes namespace.",
}

job_id = click.argument("job_id", metavar="JOB_ID")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")


def places(*names: str) -> Callable[[F], F]:
    """Options that say where the jobs are; what is left out comes from the settings."""

    def decorate(function: F) -> F:
        for name in reversed(names):
            function = click.option(f"--{name}", metavar="NAME", help=_PLACES[name])(function)
        return function

    return decorate


def one_job(function: F) -> F:
    """A command about one job, wherever it is."""
    return job_id(places("project", "cluster")(function))
