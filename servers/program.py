"""Make a program of an MCP server of ours: its arguments, settings, log and exit code (C-01, T-07)."""

import argparse
import asyncio
import gc
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from fastmcp import FastMCP

from toolweave.config.logs import configure_logging
from toolweave.config.settings import Settings, load_settings
from toolweave.errors import ToolweaveError
from toolweave.servers.standalone import quiet_framework_logs, serve_http, serve_stdio


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """What one of our servers is as a program: `python -m <module>`."""

    module: str
    description: str
    default_port: int
    open_server: Callable[[Settings], AbstractAsyncContextManager[FastMCP[Any]]]

    def run(self, arguments: Sequence[str] | None = None) -> int:
        """Serve until stdin ends or a signal comes; return the exit code."""
        # What was imported stays to the end: the collector need not look at it again.
        gc.freeze()
        gc.enable()
        options = self._parser().parse_args(arguments)
        try:
            settings = load_settings()
            configure_logging(settings)
            quiet_framework_logs()
            asyncio.run(self._serve(options, settings))
        except ToolweaveError as error:
            sys.stderr.write(f"{self.module}: {error}\n")
            return 1
        except KeyboardInterrupt:
            return 130
        return 0

    async def _serve(self, options: argparse.Namespace, settings: Settings) -> None:
        async with self.open_server(settings) as server:
            if options.transport == "stdio":
                await serve_stdio(server)
            else:
                await serve_http(server, transport=options.transport, host=options.host, port=options.port)

    def _parser(self) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(prog=f"python -m {self.module}", description=self.description)
        parser.add_argument("--transport", choices=("stdio", "sse", "http"), default="stdio")
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on, by default loopback (sse, http)")
        parser.add_argument("--port", type=int, default=self.default_port, help="port, 0 for any free one (sse, http)")
        return parser
