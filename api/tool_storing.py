"""Store many tools of one request, all or none, and say what became of each (W-01)."""

import asyncio
from collections.abc import Mapping, Sequence

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from typing_extensions import TypedDict

from toolweave.api.tool_requests import (
    MOST_PROBLEMS,
    Problem,
    ToolRequest,
    changed_tool,
    new_tool,
    problems_of,
    refused_body,
)
from toolweave.api.tool_secrets import JsonObject, shown
from toolweave.config.tool_variables import ToolVariables
from toolweave.errors import Conflict
from toolweave.servers.registry.importing import OnConflict
from toolweave.servers.registry.repository import RegisteredTools
from toolweave.servers.registry.tool_ids import listed, slug
from toolweave.tool_config import ToolConfig

ALREADY_THERE = "there is a tool of this tool_id already"


class SkippedOperation(TypedDict):
    """An operation, such as `GET /pets/{id}`, that was not stored, and why."""

    operation: str
    reason: str


class StoredAnswer(TypedDict):
    """What became of the tools: those stored as they are shown, and the ids of new and of replaced ones."""

    tools: list[JsonObject]
    created: list[str]
    replaced: list[str]
    skipped: list[SkippedOperation]
    warnings: list[str]


class StoredTools(BaseModel):
    """The same for OpenAPI documents, with the form of tools."""

    tools: list[ToolConfig]
    created: list[str]
    replaced: list[str]
    skipped: list[SkippedOperation]
    warnings: list[str]


async def store_given(
    registry: RegisteredTools, given: Sequence[ToolRequest], variables: ToolVariables, on_conflict: OnConflict
) -> StoredAnswer:
    """Store the tools of a request, all or none, and give the answer; to replace one, `***` keeps its secrets.

    Raises:
        RequestValidationError: what is wrong with all of them.
        Conflict: ids are taken, and `on_conflict` is "error".
    """
    read, wrong = await _read_all(registry, given, variables, on_conflict)
    if wrong:
        found = [(("tools", number, *place), text) for number, problems in wrong.items() for place, text in problems]
        raise refused_body(found[:MOST_PROBLEMS])
    return await _store(registry, read, on_conflict)


async def store_usable(
    registry: RegisteredTools, made: Sequence[ToolConfig], variables: ToolVariables, on_conflict: OnConflict
) -> StoredAnswer:
    """Store those of the tools that may be stored, all or none of these, and say why the others are not.

    Raises:
        Conflict: ids are taken, and `on_conflict` is "error".
    """
    read, wrong = await _read_all(registry, made, variables, on_conflict)
    answer = await _store(registry, read, on_conflict)
    for number, problems in wrong.items():
        answer["skipped"].append(_skipped(made[number], " ".join(text for _, text in problems)))
    return answer


async def _read_all(
    registry: RegisteredTools, given: Sequence[ToolConfig], variables: ToolVariables, on_conflict: OnConflict
) -> tuple[list[ToolConfig], dict[int, list[Problem]]]:
    """Read tools with what is stored under their ids; give also, by position, what is wrong with the others."""
    ids = [tool.tool_id or slug(tool.name) for tool in given]
    there = await registry.find(ids)
    if there and on_conflict == "error":
        raise Conflict(f"There are tools registered already as {listed(list(there))}.")
    # On a thread: thousands of tools would keep everybody else from the event loop.
    return await asyncio.to_thread(_read_each, given, ids, there, variables, on_conflict)


def _read_each(
    given: Sequence[ToolConfig],
    ids: Sequence[str],
    there: Mapping[str, ToolConfig],
    variables: ToolVariables,
    on_conflict: OnConflict,
) -> tuple[list[ToolConfig], dict[int, list[Problem]]]:
    read: list[ToolConfig] = []
    wrong: dict[int, list[Problem]] = {}
    for number, (tool_id, tool) in enumerate(zip(ids, given, strict=True)):
        stored = there.get(tool_id)
        try:
            if stored is None:
                read.append(new_tool(tool, tool_id, variables))
            else:
                read.append(stored if on_conflict == "skip" else changed_tool(tool, stored, variables))
        except RequestValidationError as error:
            wrong[number] = problems_of(error)
    return read, wrong


async def _store(registry: RegisteredTools, tools: Sequence[ToolConfig], on_conflict: OnConflict) -> StoredAnswer:
    report = await registry.import_all(tools, on_conflict=on_conflict)
    left = set(report.skipped)
    return {
        "tools": await asyncio.to_thread(lambda: [shown(tool) for tool in tools if tool.tool_id not in left]),
        "created": report.created,
        "replaced": report.replaced,
        "skipped": [_skipped(tool, ALREADY_THERE) for tool in tools if tool.tool_id in left],
        "warnings": [],
    }


def _skipped(tool: ToolConfig, reason: str) -> SkippedOperation:
    return {"operation": f"{tool.api.method} {tool.api.path}", "reason": reason}
