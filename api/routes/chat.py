"""Chat with an assistant over server-sent events: POST /chat/stream (T-02, U-01)."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from typing import Annotated, Any, Self, cast
from uuid import UUID

import httpx
from fastapi import APIRouter, Depends, Request
from fastapi.responses import StreamingResponse
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIStatusError, LangGraphError
from langgraph_sdk.schema import StreamPart
from loguru import logger
from pydantic import BaseModel, ConfigDict, Field, model_validator

from toolweave.api.langgraph_client import api_client, default_assistant, graph_names
from toolweave.api.request_bodies import StrictJsonRoute
from toolweave.errors import BadRequest
from toolweave.nodes.agent import UNATTENDED_KEY
from toolweave.servers.connections.plane import ToolPlane

ChatEvent = tuple[str, dict[str, Any]]
RUN_FAILED = "Something went wrong while answering. Please try again."
NO_ANSWER = "The assistant ended without an answer. Please try again."
NOTHING_PENDING = "This chat has no pending question: it was answered already, or none was asked. Send a message."
# Passed to `translate` after the API's last event.
STREAM_END = "end"
TURN_END_EVENTS = ("message", "interrupt", "error")
router = APIRouter(tags=["chat"], route_class=StrictJsonRoute)
UNREACHABLE = "The assistant cannot be reached right now. Please try again later."


class ChatEventTranslator:
    """Translate the API's events of one run: tokens as they arrive, tool calls and results as nodes finish, the end.

    `is_resume`: the turn answers an interrupt. `with_details`: errors have their own text, for the operator's terminal.
    """

    def __init__(self, thread_id: str | None, *, is_resume: bool = False, with_details: bool = False) -> None:
        self.thread_id = thread_id
        self._error_text = run_error_details if with_details else run_error_text
        self._resume_unused = is_resume
        self._run_id: str | None = None
        self._metadata_sent = False
        self._ended = False
        self._answer: str | None = None
        self._status = "success"

    def translate(self, event: str, data: Any) -> Iterator[ChatEvent]:
        """Translate one event of the API, or `STREAM_END`; most yield no chat event, and none follows the last one."""
        if event == "metadata":
            self._run_id = data.get("run_id")
        elif event == "messages":
            # The id of a generated thread comes with the first message.
            self.thread_id = self.thread_id or data[1].get("thread_id")
        events = [] if self._ended else list(self._translate_event(event, data))
        if not self._metadata_sent and (events or self.thread_id is not None):
            self._metadata_sent = True
            yield "metadata", {"run_id": self._run_id, "thread_id": self.thread_id}
        for chat_event in events:
            self._ended = chat_event[0] in TURN_END_EVENTS
            yield chat_event

    def _translate_event(self, event: str, data: Any) -> Iterator[ChatEvent]:
        if event == "error":
            yield "error", {"message": self._error_text(data)}
        elif event == "messages":
            if data[0].get("type") == "AIMessageChunk" and (text := message_text(data[0].get("content"))):
                yield "token", {"text": text}
        elif event == "updates":
            self._resume_unused = False
            yield from self._translate_updates(data)
        elif event == STREAM_END and self._answer is None:
            yield "error", {"message": NOTHING_PENDING if self._resume_unused else NO_ANSWER}
        elif event == STREAM_END:
            yield "message", {"content": self._answer, "status": self._status}

    def _translate_updates(self, data: dict[str, Any]) -> Iterator[ChatEvent]:
        if interrupts := data.get("__interrupt__"):
            yield "interrupt", {"interrupts": interrupts}
            return
        for update in data.values():
            for part in update if isinstance(update, list) else [update]:
                if isinstance(part, dict):
                    yield from self._translate_node_update(part)

    def _translate_node_update(self, update: dict[str, Any]) -> Iterator[ChatEvent]:
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
                        "content": message_text(message.get("content")),
                    },
                )
            elif message.get("type") == "ai":
                for call in message.get("tool_calls") or []:
                    yield "tool_call", {"id": call["id"], "name": call["name"], "args": call["args"]}
                if not message.get("tool_calls"):
                    self._answer = message_text(message.get("content"))


def message_text(content: Any) -> str:
    """Return the text of a message's content, which is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "".join(block if isinstance(block, str) else block.get("text", "") for block in blocks)


def run_error_text(error: Any) -> str:
    """Return the sentence that a user reads about a failed run; the log has the details."""
    kind = error.get("error") if isinstance(error, dict) else None
    if kind in {"ModelError", "ConfigError", "IterationLimitError"} and error.get("message"):
        return str(error["message"])
    return RUN_FAILED


def run_error_details(error: Any) -> str:
    """Return the text of a failed run's error."""
    return str(error.get("message") or error.get("error")) if isinstance(error, dict) else str(error)


class ChatRequest(BaseModel):
    """One turn of a chat: a message, or the answer to an interrupt of an earlier turn."""

    model_config = ConfigDict(extra="forbid")

    message: Annotated[str, Field(min_length=1, max_length=100_000)] | None = None
    assistant_id: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    thread_id: UUID | None = None
    user_id: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    resume: Any = None

    @model_validator(mode="after")
    def _check_alternatives(self) -> Self:
        if (self.message is None) == (self.resume is None):
            raise ValueError("give either message or resume")
        if self.resume is not None and self.thread_id is None:
            raise ValueError("resume needs the thread_id of the interrupted chat")
        return self


@router.post("/chat/stream", responses={401: {}, 403: {}})
async def chat_stream(
    chat: ChatRequest, request: Request, client: Annotated[LangGraphClient, Depends(api_client)]
) -> StreamingResponse:
    """Stream one turn: metadata, then tokens, tool calls and results, ending with message, interrupt or error.

    Without an `assistant_id` the application's only graph answers (U-01); with several, an `error` event lists them.
    Without a thread_id nothing of the turn is stored (D-7), and it cannot wait for a user; an unknown thread_id is
    created. An `interrupt` event has the questions to the user; `resume` on the same thread continues the turn (S-07).
    """
    return StreamingResponse(
        _sse_frames(chat, request.app.state.plane, client),
        media_type="text/event-stream",
        headers={"cache-control": "no-store"},
    )


async def _sse_frames(chat: ChatRequest, plane: ToolPlane, client: LangGraphClient) -> AsyncIterator[bytes]:
    translator = ChatEventTranslator(str(chat.thread_id) if chat.thread_id else None, is_resume=chat.resume is not None)
    try:
        # Read to the end even after the last event: closing earlier would cancel a run that is about to be stored.
        async with client:
            assistant = chat.assistant_id or await _default_assistant(client, plane)
            async with aclosing(_stream_run(chat, assistant, client)) as parts:
                async for part in parts:
                    for event in translator.translate(part.event, part.data):
                        yield _sse_frame(*event)
    except BadRequest as error:
        yield _sse_frame("error", {"message": f"{error} (assistant_id)"})
        return
    except (httpx.HTTPError, LangGraphError) as error:
        if isinstance(error, APIStatusError) and error.status_code == httpx.codes.UNPROCESSABLE_ENTITY:
            yield _sse_frame("error", {"message": error.message})
            return
        logger.bind(thread_id=translator.thread_id).opt(exception=error).error("chat: the LangGraph API failed")
        yield _sse_frame("error", {"message": UNREACHABLE})
        return
    for event in translator.translate(STREAM_END, None):
        yield _sse_frame(*event)


def _sse_frame(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode("utf-8", "replace")


async def _default_assistant(client: LangGraphClient, plane: ToolPlane) -> str:
    enabled = [name for name, server in plane.health().items() if server["state"] != "disabled"]
    return default_assistant(await graph_names(client), enabled)


def _stream_run(chat: ChatRequest, assistant: str, client: LangGraphClient) -> AsyncGenerator[StreamPart, None]:
    fields: dict[str, Any] = {"stream_mode": ["messages-tuple", "updates"], "on_disconnect": "cancel"}
    configurable: dict[str, Any] = {} if chat.user_id is None else {"user_id": chat.user_id}
    if chat.thread_id is None:
        # No thread is stored that could be resumed: calls that need a user are refused instead (S-07).
        configurable[UNATTENDED_KEY] = True
    else:
        fields |= {"if_not_exists": "create", "multitask_strategy": "enqueue"}
    fields["config"] = {"configurable": configurable}
    if chat.message is not None:
        fields["input"] = {"messages": [{"role": "user", "content": chat.message}]}
    else:
        fields["command"] = {"resume": chat.resume}
    stream = cast("Callable[..., AsyncGenerator[StreamPart, None]]", client.runs.stream)
    return stream(str(chat.thread_id) if chat.thread_id else None, assistant, **fields)
