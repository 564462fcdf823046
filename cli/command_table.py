"""Have commands by name that are imported only to be run or to show their own help, so that --help is quick."""

import importlib
from collections.abc import Mapping
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from toolweave.cli.commands import uncollected

Row = tuple[str, str]
"""Where a command is (module:function, or module alone if the function has the command's name), and what it does."""


def table_of(commands: Mapping[str, Row]) -> type[TyperGroup]:
    """Make the group of these commands, in their order; one that is a `typer.Typer` has commands of its own."""

    class CommandTable(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
            return list(commands)

        def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:  # noqa: ARG002
            row = commands.get(cmd_name)
            return TyperCommand(cmd_name, help=row[1]) if row else None

        def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
            name, _, rest = super().resolve_command(ctx, args)
            return name, typer.main.get_command(_app(str(name), commands[str(name)][0])), rest

    return CommandTable


def _app(name: str, place: str) -> typer.Typer:
    module, _, function = place.partition(":")
    with uncollected():
        found = getattr(importlib.import_module(module), function or name)
    if isinstance(found, typer.Typer):
        return found
    app = typer.Typer(add_completion=False)
    app.command(name)(found)
    return app
