"""Give values the JSON form of the newer protocol: messages without what they do not have."""

from collections.abc import Mapping
from typing import Any

import orjson
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from toolweave.runtime.models import JsonObject
from toolweave.runtime.streaming.codec import OPTIONS, dumps, plain

MALFORMED = "Malformed args."
WRITTEN_OUT = frozenset({"type", "content", "id", "tool_calls", "invalid_tool_calls", "artifact"})
# Of a message that is still being streamed.
PARTIAL = frozenset({"chunk_position", "tool_call_chunks"})


def wire_json(value: object) -> bytes:
    """Encode a value as JSON; like `codec.dumps` it never raises."""
    try:
        return orjson.dumps(value, default=_form, option=OPTIONS)
    except TypeError:
        return dumps(_rebuilt(value))


def wire_message(message: BaseMessage) -> JsonObject:
    """Give a message's type, content and id, and what else it has; tool results always with their artifact."""
    kind = message.type.removesuffix("MessageChunk").lower()
    wired: JsonObject = {"type": kind, "content": message.content, "id": message.id}
    if isinstance(message, AIMessage):
        wired |= _calls(message)
    for name, value in message.model_dump(exclude={*WRITTEN_OUT, *PARTIAL}).items():
        if value not in (None, {}, [], False, ""):
            wired[name] = value
    if isinstance(message, ToolMessage):
        wired["artifact"] = message.artifact
    return wired


def _calls(message: AIMessage) -> JsonObject:
    calls: JsonObject = {}
    if message.tool_calls:
        calls["tool_calls"] = [
            {"type": "tool_call", "name": call["name"], "args": call["args"], "id": call["id"]}
            for call in message.tool_calls
        ]
    if message.invalid_tool_calls:
        calls["invalid_tool_calls"] = [
            {**call, "error": call.get("error") or MALFORMED} for call in message.invalid_tool_calls
        ]
    return calls


def _form(value: object) -> object:
    return wire_message(value) if isinstance(value, BaseMessage) else plain(value)


def _rebuilt(value: Any, depth: int = 0) -> Any:
    """Replace the messages of a value that orjson refuses; the slow way."""
    if isinstance(value, BaseMessage):
        return wire_message(value)
    if depth < 100 and isinstance(value, Mapping):
        return {key: _rebuilt(item, depth + 1) for key, item in value.items()}
    if depth < 100 and isinstance(value, list | tuple):
        return [_rebuilt(item, depth + 1) for item in value]
    return value
