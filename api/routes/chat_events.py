"""Translate the LangGraph API's stream into the events of a chat (T-02)."""

from collections.abc import Iterator
from typing import Any

ChatEvent = tuple[str, dict[str, Any]]

FAILED = "Something went wrong while answering. Please try again."
NO_ANSWER = "The assistant ended without an answer. Please try again."
NOTHING_ASKED = "Nothing in this chat waits for an answer: it was given already, or nothing was asked. Send a message."


class ChatEvents:
    """Translate one run: tokens as the model writes them, tool calls and results as nodes finish, then the end.

    `ended` turns true with the event that ends the chat turn. `resumes`: the turn answers an interrupt.
    """

    def __init__(self, thread_id: str | None, *, resumes: bool = False) -> None:
        self.thread_id = thread_id
        self.ended = False
        self._idle_resume = resumes
        self._run_id: str | None = None
        self._announced = False
        self._answer: str | None = None
        self._status = "success"

    def translate(self, event: str, data: Any) -> Iterator[ChatEvent]:
        """Give the chat events that one event of the API stands for; none for most, and none after the end."""
        if self.ended:
            return
        if event == "metadata":
            self._run_id = data.get("run_id")
            if self.thread_id is not None:
                yield from self._announce()
        elif event == "error":
            yield from self._announce()
            yield from self._end("error", {"message": friendly(data)})
        elif event == "messages":
            # Without a thread of its own, a chat learns the generated one's id from its first message.
            self.thread_id = self.thread_id or data[1].get("thread_id")
            yield from self._announce()
            yield from self._token(data[0])
        elif event == "updates":
            self._idle_resume = False
            yield from self._updates(data)

    def finish(self) -> Iterator[ChatEvent]:
        """Give the last event, when the stream has ended and none was the last yet."""
        if self.ended:
            return
        yield from self._announce()
        if self._answer is None:
            yield from self._end("error", {"message": NOTHING_ASKED if self._idle_resume else NO_ANSWER})
        else:
            yield from self._end("message", {"content": self._answer, "status": self._status})

    def _announce(self) -> Iterator[ChatEvent]:
        if not self._announced:
            self._announced = True
            yield "metadata", {"run_id": self._run_id, "thread_id": self.thread_id}

    def _end(self, name: str, data: dict[str, Any]) -> Iterator[ChatEvent]:
        self.ended = True
        yield name, data

    def _token(self, message: dict[str, Any]) -> Iterator[ChatEvent]:
        if message.get("type") == "AIMessageChunk" and (text := text_of(message.get("content"))):
            yield "token", {"text": text}

    def _updates(self, data: dict[str, Any]) -> Iterator[ChatEvent]:
        interrupts = data.get("__interrupt__")
        if interrupts:
            yield from self._end("interrupt", {"interrupts": interrupts})
            return
        for update in data.values():
            for part in update if isinstance(update, list) else [update]:
                if isinstance(part, dict):
                    yield from self._node_update(part)

    def _node_update(self, update: dict[str, Any]) -> Iterator[ChatEvent]:
        self._status = update.get("status") or self._status
        messages = update.get("messages") or []
        for message in messages if isinstance(messages, list) else [messages]:
            if message.get("type") == "tool":
                yield (
                    "tool_result",
                    {
                        "id": message.get("tool_call_id"),
                        "name": message.get("name"),
                        "status": message.get("status", "success"),
                        "content": text_of(message.get("content")),
                    },
                )
            elif message.get("type") == "ai":
                for call in message.get("tool_calls") or []:
                    yield "tool_call", {"id": call["id"], "name": call["name"], "args": call["args"]}
                if not message.get("tool_calls"):
                    self._answer = text_of(message.get("content"))


def text_of(content: Any) -> str:
    """Give the text of a message's content, whether it is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "".join(block if isinstance(block, str) else block.get("text", "") for block in blocks)


def friendly(error: Any) -> str:
    """Give the sentence a user reads for a failed run; what went wrong in detail is in the log."""
    kind = error.get("error") if isinstance(error, dict) else None
    if kind in {"ModelError", "ConfigError", "IterationLimitError"} and error.get("message"):
        return str(error["message"])
    return FAILED
