"""The program `python -m toolweave.servers.todo`."""

import argparse
import asyncio
import gc
import sys
from collections.abc import Sequence

from toolweave.config.logs import configure_logging
from toolweave.config.settings import Settings, load_settings
from toolweave.errors import ToolweaveError
from toolweave.servers.standalone import quiet_framework_logs, serve_http, serve_stdio
from toolweave.servers.todo.server import open_todo_server

DEFAULT_PORT = 8000


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until stdin ends or a signal comes; return the exit code."""
    # What was imported stays to the end: the collector need not look at it again.
    gc.freeze()
    gc.enable()
    options = _parser().parse_args(arguments)
    try:
        settings = load_settings()
        configure_logging(settings)
        quiet_framework_logs()
        asyncio.run(_serve(options, settings))
    except ToolweaveError as error:
        sys.stderr.write(f"toolweave.servers.todo: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def database_url(settings: Settings) -> str:
    """Return the setting, or the SQLite file in the data folder."""
    return settings.todo_database_url or f"sqlite+aiosqlite:///{settings.data_dir.absolute() / 'todo.db'}"


async def _serve(options: argparse.Namespace, settings: Settings) -> None:
    async with open_todo_server(database_url(settings)) as server:
        if options.transport == "stdio":
            await serve_stdio(server)
        else:
            await serve_http(server, transport=options.transport, host=options.host, port=options.port)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m toolweave.servers.todo",
        description="Serve a todo list over MCP. It is kept in TOOLWEAVE_TODO_DATABASE_URL, by default a SQLite file "
        "in the data folder.",
    )
    parser.add_argument("--transport", choices=("stdio", "sse", "http"), default="stdio")
    parser.add_argument("--host", default="127.0.0.1", help="loopback address to listen on (sse, http)")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="port to listen on, 0 for any (sse, http)")
    return parser
