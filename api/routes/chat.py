"""Chat with the todo agent over server-sent events: POST /chat/stream (T-02)."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from typing import Annotated, Any, Self, cast
from uuid import UUID

import httpx
from fastapi import APIRouter, Depends
from fastapi.responses import StreamingResponse
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import LangGraphError
from langgraph_sdk.schema import StreamPart
from loguru import logger
from pydantic import BaseModel, ConfigDict, Field, model_validator

from toolweave.api.langgraph_client import api_client
from toolweave.api.request_bodies import StrictJsonRoute
from toolweave.nodes.agent import UNATTENDED_KEY

ChatEvent = tuple[str, dict[str, Any]]
FAILED = "Something went wrong while answering. Please try again."
NO_ANSWER = "The assistant ended without an answer. Please try again."
NOTHING_ASKED = "Nothing in this chat waits for an answer: it was given already, or nothing was asked. Send a message."
# What follows the API's last event.
END = "end"
# The events that end a turn.
ENDS = ("message", "interrupt", "error")
router = APIRouter(tags=["chat"], route_class=StrictJsonRoute)
ASSISTANT = "todo_agent"
UNREACHABLE = "The assistant cannot be reached right now. Please try again later."


class ChatEvents:
    """Translate one run: tokens as the model writes them, tool calls and results as nodes finish, then the end.

    `resumes`: the turn answers an interrupt.
    """

    def __init__(self, thread_id: str | None, *, resumes: bool = False) -> None:
        self.thread_id = thread_id
        self._idle_resume = resumes
        self._run_id: str | None = None
        self._announced = False
        self._ended = False
        self._answer: str | None = None
        self._status = "success"

    def translate(self, event: str, data: Any) -> Iterator[ChatEvent]:
        """Translate one event of the API, or its `END`: most give no chat event, and none follows the last one."""
        if event == "metadata":
            self._run_id = data.get("run_id")
        elif event == "messages":
            # Without a thread of its own, a chat learns the generated one's id from its first message.
            self.thread_id = self.thread_id or data[1].get("thread_id")
        found = [] if self._ended else list(self._translated(event, data))
        if not self._announced and (found or self.thread_id is not None):
            self._announced = True
            yield "metadata", {"run_id": self._run_id, "thread_id": self.thread_id}
        for chat_event in found:
            self._ended = chat_event[0] in ENDS
            yield chat_event

    def _translated(self, event: str, data: Any) -> Iterator[ChatEvent]:
        if event == "error":
            yield "error", {"message": friendly(data)}
        elif event == "messages":
            if data[0].get("type") == "AIMessageChunk" and (text := text_of(data[0].get("content"))):
                yield "token", {"text": text}
        elif event == "updates":
            self._idle_resume = False
            yield from self._updates(data)
        elif event == END and self._answer is None:
            yield "error", {"message": NOTHING_ASKED if self._idle_resume else NO_ANSWER}
        elif event == END:
            yield "message", {"content": self._answer, "status": self._status}

    def _updates(self, data: dict[str, Any]) -> Iterator[ChatEvent]:
        if interrupts := data.get("__interrupt__"):
            yield "interrupt", {"interrupts": interrupts}
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


class ChatRequest(BaseModel):
    """One turn of a chat: a message, or the answer to an interrupt of an earlier turn."""

    model_config = ConfigDict(extra="forbid")

    message: Annotated[str, Field(min_length=1, max_length=100_000)] | None = None
    thread_id: UUID | None = None
    user_id: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    resume: Any = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.message is None) == (self.resume is None):
            raise ValueError("give either message or resume")
        if self.resume is not None and self.thread_id is None:
            raise ValueError("resume needs the thread_id of the interrupted chat")
        return self


@router.post("/chat/stream", responses={401: {}, 403: {}})
async def chat_stream(chat: ChatRequest, client: Annotated[LangGraphClient, Depends(api_client)]) -> StreamingResponse:
    """Stream one turn: metadata, then tokens, tool calls and results, ending with message, interrupt or error.

    Without a thread_id the turn leaves nothing behind (D-7), so that nobody can be asked; an unknown thread_id is
    created. An `interrupt` event has what a person is asked; the turn goes on with `resume` on the same thread (S-07).
    """
    return StreamingResponse(
        _frames(chat, client), media_type="text/event-stream", headers={"cache-control": "no-store"}
    )


async def _frames(chat: ChatRequest, client: LangGraphClient) -> AsyncIterator[bytes]:
    translation = ChatEvents(str(chat.thread_id) if chat.thread_id else None, resumes=chat.resume is not None)
    try:
        # Read to the end even after the last event: leaving earlier would cancel a run that is about to be stored.
        async with client, aclosing(_run(chat, client)) as parts:
            async for part in parts:
                for event in translation.translate(part.event, part.data):
                    yield _frame(*event)
    except (httpx.HTTPError, LangGraphError) as error:
        logger.bind(thread_id=translation.thread_id).opt(exception=error).error("chat: the LangGraph API failed")
        yield _frame("error", {"message": UNREACHABLE})
        return
    for event in translation.translate(END, None):
        yield _frame(*event)


def _frame(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode("utf-8", "replace")


def _run(chat: ChatRequest, client: LangGraphClient) -> AsyncGenerator[StreamPart, None]:
    fields: dict[str, Any] = {"stream_mode": ["messages-tuple", "updates"], "on_disconnect": "cancel"}
    configurable: dict[str, Any] = {} if chat.user_id is None else {"user_id": chat.user_id}
    if chat.thread_id is None:
        # Nothing is kept that an answer could go to: calls that need a person are refused instead (S-07).
        configurable[UNATTENDED_KEY] = True
    else:
        fields |= {"if_not_exists": "create", "multitask_strategy": "enqueue"}
    fields["config"] = {"configurable": configurable}
    if chat.message is not None:
        fields["input"] = {"messages": [{"role": "user", "content": chat.message}]}
    else:
        fields["command"] = {"resume": chat.resume}
    stream = cast("Callable[..., AsyncGenerator[StreamPart, None]]", client.runs.stream)
    return stream(str(chat.thread_id) if chat.thread_id else None, ASSISTANT, **fields)
