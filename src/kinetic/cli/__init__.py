"""The `kinetic` command. Naming the commands costs nothing; a command loads when it is called."""

from __future__ import annotations

import io
import os
import sys

import click

from kinetic import __version__
from kinetic.cli import report
from kinetic.cli.lazy import LazyGroup
from kinetic.errors import KineticError

_COMMANDS = {
    "jobs": "List, follow, collect and end jobs.",
    "agent": "Look after the agent that runs jobs on this machine.",
}
_NOT_YET = {"init": "jobs run on this machine without it"}


class _Root(LazyGroup):
    """The top of the command line, where what went wrong becomes words and an exit code."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; the answer is its exit code."""
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except KineticError as error:
            report.failure(error)
            return report.FAILED
        except BrokenPipeError:
            return _unread()
        except KeyboardInterrupt:
            report.close_line()
            return report.INTERRUPTED
        return code

    def unknown(self, ctx: click.Context, name: str) -> click.UsageError:
        """What to say about a command that there is not, or not yet."""
        if name in _NOT_YET:
            return click.UsageError(
                f"this version of kinetic has no `{name}` yet; {_NOT_YET[name]}"
            )
        return super().unknown(ctx, name)


@click.group(
    cls=_Root,
    package=__name__,
    summaries=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="kinetic %(version)s")
@click.option("--profile", metavar="NAME", help="Use this profile instead of the active one.")
def _root(profile: str | None) -> None:
    """Run Python functions as durable jobs, and look after them.

    \b
    Examples:
      kinetic jobs list
      kinetic jobs logs -f JOB_ID
      kinetic --profile research jobs list
    """
    if profile is not None:
        from kinetic import settings

        os.environ["KINETIC_PROFILE"] = profile
        settings.active_profile()


def main() -> int:
    """Run the command line; returns the exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name is no reason to fail
    try:
        code = _root.main(prog_name="kinetic", standalone_mode=False)
    except click.ClickException as error:
        report.misuse(error)
        return error.exit_code
    except click.Abort:
        return report.INTERRUPTED
    return code if isinstance(code, int) else 0


def _unread() -> int:
    """Whoever read our output has left; nothing is wrong, and nothing is to be said."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    return report.UNREAD
