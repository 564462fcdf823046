"""Run the todo server: `python -m toolweave.servers.todo`."""

import gc
import sys

# Imports create some 200 000 permanent objects; garbage collection meanwhile takes a third of the start time (T-01).
gc.disable()

from contextlib import AbstractAsyncContextManager, suppress  # noqa: E402

from fastmcp import FastMCP  # noqa: E402

from toolweave.config.settings import Settings  # noqa: E402
from toolweave.files import make_data_folder  # noqa: E402
from toolweave.servers.program import run_server  # noqa: E402
from toolweave.servers.todo.database import database_url  # noqa: E402
from toolweave.servers.todo.server import open_todo_server  # noqa: E402


def _open_server(settings: Settings) -> AbstractAsyncContextManager[FastMCP[None]]:
    if settings.todo_database_url is None:
        # On failure, opening the database raises an error that names the folder.
        with suppress(OSError):
            make_data_folder(settings.data_dir)
    return open_todo_server(database_url(settings))


sys.exit(
    run_server(
        module="toolweave.servers.todo",
        description="Serve a todo list over MCP. It is stored in TOOLWEAVE_TODO_DATABASE_URL, else in "
        "TOOLWEAVE_DATABASE_URL, else in a SQLite file in the data folder.",
        default_port=8000,
        open_server=_open_server,
    )
)
