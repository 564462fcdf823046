"""The program `python -m toolweave.servers.todo`."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, suppress

from fastmcp import FastMCP

from toolweave.config.settings import Settings
from toolweave.private_files import make_data_folder
from toolweave.servers.program import ServerProgram
from toolweave.servers.todo.server import open_todo_server


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until stdin ends or a signal comes; return the exit code."""
    return ServerProgram(
        module="toolweave.servers.todo",
        description="Serve a todo list over MCP. It is kept in TOOLWEAVE_TODO_DATABASE_URL, by default a SQLite file "
        "in the data folder.",
        default_port=8000,
        open_server=_open,
    ).run(arguments)


def database_url(settings: Settings) -> str:
    """Return the setting, or the SQLite file in the data folder."""
    return settings.todo_database_url or f"sqlite+aiosqlite:///{settings.data_dir.absolute() / 'todo.db'}"


def _open(settings: Settings) -> AbstractAsyncContextManager[FastMCP[None]]:
    if settings.todo_database_url is None:
        # Opening the database names what is wrong with the folder.
        with suppress(OSError):
            make_data_folder(settings.data_dir)
    return open_todo_server(database_url(settings))
