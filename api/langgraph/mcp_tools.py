"""Offer assistants as MCP tools: their names, what they take, and how an answer reads (langgraph_api.md section 8)."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from orjson import Fragment

from toolweave.api.langgraph.graph_description import input_schema
from toolweave.api.langgraph.served import Served
from toolweave.runtime.codec import loads
from toolweave.runtime.models import Assistant, JsonObject

# Characters and length that every MCP client and every model API takes in a tool's name.
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")
NAME_LENGTH = 64
ID_LENGTH = 8
PAGE = 1000
MESSAGES: JsonObject = {
    "type": "string",
    "title": "Messages",
    "description": "The user message to send to the agent.",
}
# A graph's effects are not known here.
ANNOTATIONS = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": True}


async def named_assistants(here: Served) -> dict[str, Assistant]:
    """Give all assistants by tool name, newest first; graphs come first to their names."""
    found: list[Assistant] = []
    while page := await here.persistence.assistants.search(limit=PAGE, offset=len(found)):
        found.extend(page)
    return tool_names(found)


def tool_names(assistants: Sequence[Assistant]) -> dict[str, Assistant]:
    """Name tools after assistants, as far as MCP allows; one whose name is taken gets part of its id with it."""
    taken: dict[str, str] = {}
    by_right = sorted(assistants, key=lambda one: (one.metadata.get("created_by") != "system", one.created_at))
    for assistant in by_right:
        plain = NOT_IN_NAMES.sub("_", assistant.name)[:NAME_LENGTH] or "assistant"
        unique = f"{plain[: NAME_LENGTH - ID_LENGTH - 1]}_{assistant.assistant_id[-ID_LENGTH:]}"
        taken[next(name for name in (plain, unique, assistant.assistant_id) if name not in taken)] = (
            assistant.assistant_id
        )
    names = {assistant_id: name for name, assistant_id in taken.items()}
    return {names[assistant.assistant_id]: assistant for assistant in assistants}


async def tool_listing(here: Served) -> list[JsonObject]:
    """Describe every tool."""
    named = await named_assistants(here)
    graph_ids = {assistant.graph_id for assistant in named.values()} & set(here.graphs.names())
    inputs = {graph_id: await input_of_graph(here, graph_id) for graph_id in graph_ids}
    return [
        {
            "name": name,
            "title": assistant.name,
            "description": assistant.description or f"Tool based on the {assistant.name} assistant",
            "inputSchema": inputs[assistant.graph_id].schema,
            "annotations": ANNOTATIONS,
        }
        for name, assistant in named.items()
        if assistant.graph_id in inputs
    ]


@dataclass(frozen=True, slots=True)
class ToolInput:
    """What a tool takes: its schema, and how arguments become the graph's input."""

    schema: JsonObject
    wrapped: bool = False
    takes_text: bool = False

    def graph_input(self, arguments: JsonObject) -> Any:
        """Give the graph's input."""
        if self.wrapped:
            return arguments.get("input")
        text = arguments.get("messages")
        if self.takes_text and isinstance(text, str):
            return {**arguments, "messages": [{"role": "user", "content": text}]}
        return arguments


async def input_of_graph(here: Served, graph_id: str) -> ToolInput:
    """Say what a graph takes as a tool."""
    async with here.graphs.open(graph_id, access="assistants.read") as graph:
        # Making schemas takes pydantic longer than the event loop has.
        return tool_input(await asyncio.to_thread(input_schema, graph))


def tool_input(schema: JsonObject | None) -> ToolInput:
    """Make an object of a graph's input schema, whatever it is; a list of messages becomes one text."""
    if schema is None:
        return ToolInput({"type": "object"})
    if schema.get("type") != "object":
        inner = {name: part for name, part in schema.items() if name != "$defs"}
        whole = {"type": "object", "properties": {"input": inner}, "required": ["input"]}
        return ToolInput(_with_used_definitions(whole, schema.get("$defs", {})), wrapped=True)
    properties: JsonObject = schema.get("properties", {})
    takes_text = properties.get("messages", {}).get("type") == "array"
    if takes_text:
        schema = {**schema, "properties": {**properties, "messages": MESSAGES}}
    return ToolInput(_with_used_definitions(schema, schema.get("$defs", {})), takes_text=takes_text)


def tool_result(body: bytes) -> JsonObject:
    """Give a tool's result for a run's: its JSON as text and, when it is an object, as it is; or its error."""
    value = loads(body)
    if isinstance(value, dict) and isinstance(error := value.get("__error__"), dict):
        return failed_result(f"{error.get('error')}: {error.get('message')}")
    result: JsonObject = {"content": [{"type": "text", "text": body.decode()}]}
    if isinstance(value, dict):
        result["structuredContent"] = Fragment(body)
    return result


def failed_result(text: str) -> JsonObject:
    """Give a failed tool's result."""
    return {"isError": True, "content": [{"type": "text", "text": text}]}


def _with_used_definitions(schema: JsonObject, definitions: JsonObject) -> JsonObject:
    """Keep only the definitions that something still points to."""
    schema = {name: part for name, part in schema.items() if name != "$defs"}
    used: dict[str, Any] = {}
    waiting = list(_references(schema))
    while waiting:
        name = waiting.pop()
        if name in definitions and name not in used:
            used[name] = definitions[name]
            waiting.extend(_references(definitions[name]))
    return {**schema, "$defs": used} if used else schema


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(target := schema.get("$ref"), str):
            yield target.removeprefix("#/$defs/")
        for part in schema.values():
            yield from _references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _references(part)
