"""Check the registered HTTP tools: their database, the variables they refer to, the hosts they call (W-01, W-08)."""

import asyncio
from collections.abc import Iterator, Sequence

from toolweave.cli.doctor import Finding, failure
from toolweave.config.settings import Settings
from toolweave.errors import ConfigError, OutboundRefused, ToolweaveError
from toolweave.nodes.http_tools.api_calls import credentials_of
from toolweave.outbound import OutboundPolicy
from toolweave.servers.databases.engine import file_of, parse_url
from toolweave.servers.databases.opening import has_schema
from toolweave.servers.registry.repository import database_url, open_tool_registry
from toolweave.servers.registry.stored_tools import TOOLS_DATABASE, listed
from toolweave.tool_config import ToolConfig

SUBJECT = "registered tools"
MOST_NAMED = 3


def check_registered_tools(settings: Settings) -> Iterator[Finding]:
    """Read the registry, if there is one, and say why calls of its tools could not be sent; none is called."""
    try:
        url = parse_url(database_url(settings), TOOLS_DATABASE)
        file = file_of(url)
        if file is not None and not file.exists():
            return
        if file is None and not asyncio.run(has_schema(url, TOOLS_DATABASE)):
            yield Finding("ok", SUBJECT, f"none; the first server makes their tables in the {TOOLS_DATABASE.name}.")
            return
        tools = asyncio.run(_all(settings))
    except ToolweaveError as error:
        yield failure(SUBJECT, error)
        return
    problems: dict[tuple[str, str | None], list[str]] = {}
    for tool in tools:
        for problem in _problems(tool, settings):
            problems.setdefault(problem, []).append(tool.tool_id)
    yield Finding("ok", SUBJECT, f"{len(tools)} in the {TOOLS_DATABASE.name}.")
    for (text, fix), tool_ids in problems.items():
        yield Finding("warn", SUBJECT, f"{listed(tool_ids, MOST_NAMED)} cannot be called: {text}", fix)


async def _all(settings: Settings) -> Sequence[ToolConfig]:
    async with open_tool_registry(settings) as registry:
        return await registry.all()


def _problems(tool: ToolConfig, settings: Settings) -> Iterator[tuple[str, str | None]]:
    try:
        credentials_of(tool, settings.tool_env)
    except ConfigError as error:
        yield error.message, error.fix
    try:
        OutboundPolicy(settings.outbound_allow).check_written(tool.api.base_url)
    except OutboundRefused as error:
        yield str(error), None
