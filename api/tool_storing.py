"""Store many tools of one request, all or none, and say what became of each (W-01)."""

import asyncio
from collections.abc import Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field

from toolweave.api.tool_requests import Problem, ToolRequest, changed_tool, new_tool, problems_of, refused_body
from toolweave.api.tool_secrets import shown
from toolweave.config.tool_variables import ToolVariables
from toolweave.errors import Conflict
from toolweave.servers.registry.importing import OnConflict
from toolweave.servers.registry.repository import RegisteredTools
from toolweave.servers.registry.tool_ids import slug
from toolweave.tool_config import ToolConfig

ALREADY_THERE = "there is a tool of this tool_id already"
MOST_PROBLEMS = 100
_AT_ONCE = 25
_MOST_NAMED = 20


class SkippedOperation(BaseModel):
    """An operation, such as `GET /pets/{id}`, that was not stored, and why."""

    operation: str
    reason: str


class StoredTools(BaseModel):
    """What became of the tools: those stored, secrets hidden, and the ids of new and of replaced ones."""

    tools: list[ToolConfig]
    created: list[str]
    replaced: list[str]
    skipped: list[SkippedOperation] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)


async def store_given(
    registry: RegisteredTools, given: Sequence[ToolRequest], variables: ToolVariables, on_conflict: OnConflict
) -> dict[str, Any]:
    """Store the tools of a request, all or none, and give the answer; to replace one, `***` keeps its secrets.

    Raises:
        RequestValidationError: what is wrong with all of them.
        Conflict: ids are taken, and `on_conflict` is "error".
    """
    ids = [tool.tool_id or slug(tool.name) for tool in given]
    there = await registry.find(ids)
    if there and on_conflict == "error":
        raise Conflict(f"There are tools registered already as {_listed(list(there))}.")
    read: list[ToolConfig] = []
    problems: list[Problem] = []
    for number, (tool_id, tool) in enumerate(zip(ids, given, strict=True)):
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)
        if tool_id in there and on_conflict == "skip":
            read.append(there[tool_id])
            continue
        try:
            read.append(_read(tool, tool_id, there.get(tool_id), variables))
        except RequestValidationError as error:
            problems += [(("tools", number, *place), problem) for place, problem in problems_of(error)]
    if problems:
        raise refused_body(problems[:MOST_PROBLEMS])
    return await store_all(registry, read, on_conflict)


async def store_all(registry: RegisteredTools, tools: Sequence[ToolConfig], on_conflict: OnConflict) -> dict[str, Any]:
    """Store tools, all or none, and give the answer; raises Conflict."""
    report = await registry.import_all(tools, on_conflict=on_conflict)
    left = set(report.skipped)
    return {
        "tools": [shown(tool) for tool in tools if tool.tool_id not in left],
        "created": report.created,
        "replaced": report.replaced,
        "skipped": [skipped(tool, ALREADY_THERE) for tool in tools if tool.tool_id in left],
        "warnings": [],
    }


def skipped(tool: ToolConfig, reason: str) -> dict[str, str]:
    """Say that a tool is not stored, and why."""
    return {"operation": f"{tool.api.method} {tool.api.path}", "reason": reason}


def _read(tool: ToolRequest, tool_id: str, there: ToolConfig | None, variables: ToolVariables) -> ToolConfig:
    return new_tool(tool, tool_id, variables) if there is None else changed_tool(tool, there, variables)


def _listed(tool_ids: Sequence[str]) -> str:
    rest = len(tool_ids) - _MOST_NAMED
    return ", ".join(tool_ids[:_MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")
