"""Chat with the todo agent over server-sent events: POST /chat/stream (T-02)."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
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

from toolweave.api.clients import api_client
from toolweave.api.routes.callers import REFUSED
from toolweave.api.routes.chat_events import ChatEvents
from toolweave.nodes.human_in_the_loop import UNATTENDED

router = APIRouter(tags=["chat"])

ASSISTANT = "todo_agent"
UNREACHABLE = "The assistant cannot be reached right now. Please try again later."


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
