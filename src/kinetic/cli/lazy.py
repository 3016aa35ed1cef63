"""Groups that know what their commands are called, and import one only when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Mapping


class LazyGroup(click.Group):
    """A group whose command `name` is `command` in the module `package.name`."""

    def __init__(self, *, package: str, summaries: Mapping[str, str], **attributes: Any) -> None:
        super().__init__(**attributes)
        self.summaries = summaries
        self._package = package

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names, in the order that reads best."""
        return list(self.summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command itself, imported now."""
        if cmd_name not in self.summaries:
            return None
        command: click.Command = import_module(f"{self._package}.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The commands as `--help` shows them, which imports none."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Called without anything, a group says what it can do."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that was meant, or an error that names the nearest."""
        if not ctx.resilient_parsing and args[0] not in self.summaries:
            raise self.unknown(ctx, args[0])
        return super().resolve_command(ctx, args)

    def unknown(self, ctx: click.Context, name: str) -> click.UsageError:
        """What to say about a command that there is not."""
        meant = self._meant(ctx, name)
        suggestion = f"; did you mean `{ctx.command_path} {meant}`?" if meant else ""
        return click.UsageError(f"there is no `{ctx.command_path} {name}`{suggestion}", ctx)

    def _meant(self, ctx: click.Context, name: str) -> str | None:
        """The nearest name here, or else one level down."""
        import difflib

        close = difflib.get_close_matches(name, self.summaries, n=1)
        if close:
            return close[0]
        groups = {own: self.get_command(ctx, own) for own in self.summaries}
        for own, group in groups.items():
            if isinstance(group, LazyGroup) and (below := group._meant(ctx, name)):
                return f"{own} {below}"
        return None
