"""Store many tools of one request, all or none, and say what became of each (W-01)."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
from toolweave.api.tool_secrets import JsonObject, left_hidden, plain, shown
from toolweave.config.variables import ToolVariables
from toolweave.errors import Conflict
from toolweave.servers.registry.repository import OnConflict, RegisteredTools
from toolweave.servers.registry.stored_tools import RegisteredTool, listed, slug
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


@dataclass(frozen=True, slots=True)
class _Read:
    """Tools that may be stored, those that are to be left as they are, and what is wrong with others by position.

    `revisions` names those that got secrets of stored ones: these must still be the same when they are replaced.
    """

    tools: list[ToolConfig] = field(default_factory=list)
    left: list[ToolConfig] = field(default_factory=list)
    wrong: dict[int, list[Problem]] = field(default_factory=dict)
    revisions: dict[str, int] = field(default_factory=dict)


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
        Conflict: ids are taken, and `on_conflict` is "error"; or tools whose secrets are kept were changed meanwhile.
    """
    read = await _read_all(registry, given, variables, on_conflict)
    if read.wrong:
        wrong = read.wrong.items()
        found = [(("tools", number, *place), text) for number, problems in wrong for place, text in problems]
        raise refused_body(found[:MOST_PROBLEMS])
    return await _store(registry, read, on_conflict)


async def store_usable(
    registry: RegisteredTools, made: Sequence[ToolConfig], variables: ToolVariables, on_conflict: OnConflict
) -> StoredAnswer:
    """Store those of the tools that may be stored, all or none of these, and say why the others are not.

    Raises:
        Conflict: ids are taken, and `on_conflict` is "error".
    """
    read = await _read_all(registry, made, variables, on_conflict)
    answer = await _store(registry, read, on_conflict)
    for number, problems in read.wrong.items():
        answer["skipped"].append(_skipped(made[number], " ".join(text for _, text in problems)))
    return answer


async def _read_all(
    registry: RegisteredTools, given: Sequence[ToolConfig], variables: ToolVariables, on_conflict: OnConflict
) -> _Read:
    """Read tools with what is stored under their ids."""
    ids = [tool.tool_id or slug(tool.name) for tool in given]
    there = await registry.registered(ids)
    if there and on_conflict == "error":
        raise Conflict(f"There are tools registered already as {listed(list(there))}.")
    # On a thread: thousands of tools would keep everybody else from the event loop.
    return await asyncio.to_thread(_read_each, list(zip(ids, given, strict=True)), there, variables, on_conflict)


def _read_each(
    given: Sequence[tuple[str, ToolConfig]],
    there: Mapping[str, RegisteredTool],
    variables: ToolVariables,
    on_conflict: OnConflict,
) -> _Read:
    read = _Read()
    for number, (tool_id, tool) in enumerate(given):
        stored = there.get(tool_id)
        try:
            if stored is None:
                read.tools.append(new_tool(tool, tool_id, variables))
            elif on_conflict == "skip":
                read.left.append(stored.config)
            else:
                read.tools.append(changed_tool(tool, stored.config, variables))
                if left_hidden(plain(tool)):
                    read.revisions[tool_id] = stored.revision
        except RequestValidationError as error:
            read.wrong[number] = problems_of(error)
    return read


async def _store(registry: RegisteredTools, read: _Read, on_conflict: OnConflict) -> StoredAnswer:
    report = await registry.import_all(read.tools, on_conflict=on_conflict, revisions=read.revisions)
    late = set(report.skipped)
    stored = [tool for tool in read.tools if tool.tool_id not in late]
    left = [*read.left, *(tool for tool in read.tools if tool.tool_id in late)]
    return {
        "tools": await asyncio.to_thread(lambda: [shown(tool) for tool in stored]),
        "created": report.created,
        "replaced": report.replaced,
        "skipped": [_skipped(tool, ALREADY_THERE) for tool in left],
        "warnings": [],
    }


def _skipped(tool: ToolConfig, reason: str) -> SkippedOperation:
    return {"operation": f"{tool.api.method} {tool.api.path}", "reason": reason}
