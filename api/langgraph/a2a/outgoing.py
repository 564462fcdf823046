"""Show what a graph says: its messages as A2A parts, its result as artifacts, its questions as interrupts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from toolweave.api.langgraph.a2a.dialect import Dialect, State
from toolweave.api.langgraph.wire import timestamp
from toolweave.runtime.codec import dumps, utc_now
from toolweave.runtime.models import JsonObject


@dataclass(frozen=True, slots=True)
class TaskName:
    """Which task is spoken of: its thread, and the run that began it."""

    context_id: str
    run_id: str

    @property
    def task_id(self) -> str:
        """Give the id that clients know."""
        return f"{self.context_id}:{self.run_id}"

    def ids(self) -> JsonObject:
        """Give the fields that name the task in everything about it."""
        return {"taskId": self.task_id, "contextId": self.context_id}

    def task(self, status: JsonObject, history: Sequence[JsonObject] | None, **also: object) -> JsonObject:
        """Give the task itself; a history of None is left out."""
        shown: JsonObject = {"kind": "task", "id": self.task_id, "contextId": self.context_id}
        if history is not None:
            shown["history"] = list(history)
        return {**shown, "status": status, **also}

    def message(self, role: str, parts: Sequence[JsonObject], message_id: str | None = None) -> JsonObject:
        """Give one message of the task."""
        message_id = message_id or str(uuid4())
        return {"kind": "message", "role": role, "parts": list(parts), "messageId": message_id, **self.ids()}

    def status(self, dialect: Dialect, state: State, text: str | None = None, at: str | None = None) -> JsonObject:
        """Say how the task stands, now unless a moment is given."""
        status: JsonObject = {"state": dialect.state(state)}
        if text is not None:
            status["message"] = self.message(dialect.role(user=False), [text_part(text)])
        return {**status, "timestamp": at or timestamp(utc_now())}

    def history(self, dialect: Dialect, values: Any, *, since: str | None = None) -> list[JsonObject]:
        """Give the messages of a state; `since` names the one that begins the task, when only its own are wanted."""
        messages = messages_of(values)
        begins = [place for place, message in enumerate(messages) if since is not None and message.get("id") == since]
        shown = []
        for message in messages[begins[-1] if begins else 0 :]:
            if parts := parts_of(message):
                role = dialect.role(user=message.get("type") == "human")
                shown.append(self.message(role, parts, message.get("id")))
        return shown


def text_part(text: str) -> JsonObject:
    """Give a text part."""
    return {"kind": "text", "text": text}


def messages_of(values: Any) -> list[JsonObject]:
    """Give the chat messages of a state, if it has any."""
    messages = values.get("messages") if isinstance(values, dict) else None
    return [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []


def parts_of(message: JsonObject) -> list[JsonObject]:
    """Give a message's content as parts; none when it only calls tools."""
    content = message.get("content")
    if message.get("type") == "tool":
        outcome = {
            "toolCallId": message.get("tool_call_id"),
            "content": content,
            "name": message.get("name"),
            "status": message.get("status"),
        }
        return [{"kind": "data", "data": {"tool_results": [outcome]}}]
    if isinstance(content, str):
        return [text_part(content)] if content else []
    return [_part(block) for block in content] if isinstance(content, list) else []


def artifacts_of(values: Any, assistant_id: str) -> list[JsonObject]:
    """Give a finished task's artifact: the last thing an assistant said, or the whole result as JSON."""
    spoken = [message for message in messages_of(values) if message.get("type") in ("ai", "AIMessageChunk")]
    parts = parts_of(spoken[-1]) if spoken else []
    return [
        {
            "artifactId": str(uuid4()),
            "name": "Assistant Response",
            "description": f"Response from assistant {assistant_id}",
            "parts": parts or [text_part(dumps(values).decode())],
        }
    ]


def questions_of(interrupts: Sequence[JsonObject]) -> list[JsonObject]:
    """Give one artifact for each question that a task waits with."""
    return [
        {
            "artifactId": str(uuid4()),
            "name": "Interrupt",
            "description": "Agent requires input to continue",
            "parts": [{"kind": "data", "data": {"id": interrupt.get("id"), "value": interrupt.get("value")}}],
        }
        for interrupt in interrupts
    ]


def _part(block: Any) -> JsonObject:
    if isinstance(block, str):
        return text_part(block)
    if block.get("type") == "text":
        return text_part(str(block.get("text")))
    source = {"uri": "url", "bytes": "base64"}
    file = {name: block[key] for name, key in source.items() if key in block}
    if not file:
        return {"kind": "data", "data": block}
    if "mime_type" in block:
        file["mimeType"] = block["mime_type"]
    if name := (block.get("extras") or {}).get("filename"):
        file["name"] = name
    return {"kind": "file", "file": file}
