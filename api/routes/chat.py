"""Chat with the todo agent over server-sent events: POST /chat/stream (T-02)."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from typing import Annotated, Any, Self, cast
from uuid import UUID

import httpx
import orjson
from fastapi import APIRouter, Depends
from fastapi.responses import StreamingResponse
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import LangGraphError
from langgraph_sdk.schema import StreamPart
from loguru import logger
from pydantic import BaseModel, ConfigDict, Field, model_validator

from toolweave.api.clients import REFUSED, api_client
from toolweave.nodes.agent import UNATTENDED

ChatEvent = tuple[str, dict[str, Any]]
FAILED = "Something went wrong while answering. Please try again."
NO_ANSWER = "The assistant ended without an answer. Please try again."
NOTHING_ASKED = "Nothing in this chat waits for an answer: it was given already, or nothing was asked. Send a message."
router = APIRouter(tags=["chat"])
ASSISTANT = "todo_agent"
UNREACHABLE = "The assistant cannot be reached right now. Please try again later."


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
        try:
            orjson.dumps(self.resume)
        except TypeError as error:
            raise ValueError("resume is nested too deeply, or holds text that is not valid Unicode") from error
        return self


@router.post("/chat/stream", responses={status: {"description": text} for status, text in REFUSED.items()})
async def chat_stream(chat: ChatRequest, client: Annotated[LangGraphClient, Depends(api_client)]) -> StreamingResponse:
    """Stream one turn: metadata, then tokens, tool calls and results, ending with message, interrupt or error.

    Without a thread_id the turn leaves nothing behind (D-7), so that nobody can be asked; an unknown thread_id is
    created. An `interrupt` event has what a person is asked; the turn goes on with `resume` on the same thread (S-07).
    """
    return StreamingResponse(
        _frames(chat, client), media_type="text/event-stream", headers={"cache-control": "no-store"}
    )


async def _frames(chat: ChatRequest, client: LangGraphClient) -> AsyncIterator[bytes]:
    async with client, aclosing(_events(chat, client)) as events:
        async for name, data in events:
            yield f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode("utf-8", "replace")


async def _events(chat: ChatRequest, client: LangGraphClient) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
    translation = ChatEvents(str(chat.thread_id) if chat.thread_id else None, resumes=chat.resume is not None)
    try:
        # Read to the end even after the last event: leaving earlier would cancel a run that is about to be stored.
        async with aclosing(_run(chat, client)) as parts:
            async for part in parts:
                for event in translation.translate(part.event, part.data):
                    yield event
    except (httpx.HTTPError, LangGraphError) as error:
        logger.bind(thread_id=translation.thread_id).opt(exception=error).error("chat: the LangGraph API failed")
        yield "error", {"message": UNREACHABLE}
        return
    for event in translation.finish():
        yield event


def _run(chat: ChatRequest, client: LangGraphClient) -> AsyncGenerator[StreamPart, None]:
    fields: dict[str, Any] = {"stream_mode": ["messages-tuple", "updates"], "on_disconnect": "cancel"}
    configurable: dict[str, Any] = {} if chat.user_id is None else {"user_id": chat.user_id}
    if chat.thread_id is None:
        # Nothing is kept that an answer could go to: calls that need a person are refused instead (S-07).
        configurable[UNATTENDED] = True
    fields["config"] = {"configurable": configurable}
    if chat.message is not None:
        fields["input"] = {"messages": [{"role": "user", "content": chat.message}]}
    else:
        fields["command"] = {"resume": chat.resume}
    stream = cast("Callable[..., AsyncGenerator[StreamPart, None]]", client.runs.stream)
    if chat.thread_id is None:
        return stream(None, ASSISTANT, **fields)
    return stream(str(chat.thread_id), ASSISTANT, if_not_exists="create", multitask_strategy="enqueue", **fields)
