"""Run assistants for AG-UI clients, and translate the runs' events to AG-UI's (S-10)."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, cast

import httpx
from ag_ui import core
from ag_ui.core.version import PROTOCOL_VERSION
from ag_ui.encoder import EventEncoder
from fastapi import HTTPException, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import LangGraphError, NotFoundError
from pydantic import ValidationError

from toolweave.api.routes.client_runs import (
    CallResult,
    ClientRun,
    Custom,
    RunEvent,
    RunReader,
    Step,
    Text,
    ToolCall,
    api_refusal,
    as_uuid,
    find_chat_assistant,
    graph_messages,
    start_run,
)
from toolweave.errors import BadRequest, InvalidRequest

CUSTOM_NAME = "custom"
NO_THREAD_ID = "threadId must be a UUID."
UNANSWERED = (
    "This thread waits for a person: resume must have an answer for each open interrupt, and no others. Open: {}"
)
NO_PARAMETERS = {"type": "object", "properties": {}}
MEDIA_TYPES = {"image": "image", "audio": "audio", "video": "video", "document": "file"}


async def answer_run(assistant_id: str, body: dict[str, Any], client: LangGraphClient) -> Response:
    """Answer POST /agui/{assistant_id}.

    Raises:
        RequestValidationError: the body is no RunAgentInput.
        BadRequest, NotFound, HTTPException: the run cannot be started.
    """
    try:
        given = core.RunAgentInput.model_validate(body)
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from None
    if as_uuid(given.thread_id) is None:
        raise InvalidRequest(NO_THREAD_ID)
    assistant = await find_chat_assistant(client, assistant_id)
    state = await _thread_state(given.thread_id, client)
    writer = EventWriter(given, client)
    open_interrupts = {each["id"]: each["value"] for each in state.get("interrupts") or ()}
    resumed = {entry.interrupt_id: entry for entry in given.resume or ()}
    if open_interrupts.keys() != resumed.keys():
        return _event_stream(writer.refusal(UNANSWERED.format(", ".join(open_interrupts) or "none")))
    values = state.get("values") or {}
    sent_state = given.state if isinstance(given.state, dict) else {}
    run = ClientRun(
        assistant,
        graph_messages(_new_messages(given.messages, values.get("messages") or [])),
        given.thread_id,
        {each: _answer(entry, open_interrupts[each]) for each, entry in resumed.items()},
        [_openai_tool(tool) for tool in given.tools or ()],
        {
            name: value
            for name, value in sent_state.items()
            if name in assistant.input_fields and name != "messages" and values.get(name) != value
        },
    )
    reader = RunReader(run.client_tools)
    return _event_stream(writer.frames(await start_run(run, client, reader), reader))


def _event_stream(frames: AsyncIterator[str]) -> Response:
    return StreamingResponse(frames, media_type="text/event-stream", headers={"cache-control": "no-store"})


async def _thread_state(thread_id: str, client: LangGraphClient) -> Mapping[str, Any]:
    try:
        return cast("Mapping[str, Any]", await client.threads.get_state(thread_id))
    except NotFoundError:
        return {}
    except (httpx.HTTPError, LangGraphError) as error:
        raise api_refusal(error) from None


def _openai_tool(tool: core.Tool) -> dict[str, Any]:
    named = {"name": tool.name, "description": tool.description}
    return {"type": "function", "function": {**named, "parameters": tool.parameters or NO_PARAMETERS}}


def _new_messages(messages: Sequence[core.Message], stored: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages that the thread does not have; of the assistant only those of a new thread."""
    known = {message.get("id") for message in stored} | {message.get("tool_call_id") for message in stored}
    return [
        {
            **message.model_dump(include={"id", "role", "name", "tool_calls", "tool_call_id"}),
            "content": _content(message),
        }
        for message in messages
        if message.role not in ("activity", "reasoning")
        and message.id not in known
        and not (message.role == "tool" and message.tool_call_id in known)
        and not (message.role == "assistant" and stored)
    ]


def _content(message: core.Message) -> Any:
    content = message.content or ""
    return [_content_block(part) for part in content] if isinstance(content, list) else content


def _content_block(part: Any) -> dict[str, Any]:
    """Return a part as a content block of LangChain.

    Raises:
        BadRequest: the part names a file of a provider.
    """
    if part.type == "text":
        return {"type": "text", "text": part.text}
    if part.source.type == "file":
        raise BadRequest("Content that names a provider's file is not supported: send its data or its URL.")
    source = {"base64" if part.source.type == "data" else "url": part.source.value}
    return {"type": MEDIA_TYPES[part.type], "mime_type": part.source.mime_type, **source}


def _answer(entry: core.ResumeEntry, value: Any) -> Any:
    """Return the answer to an interrupt: the payload; a cancelled approval is a rejection."""
    if entry.status == "resolved":
        return entry.payload
    return [{"type": "ignore"} for _ in value] if _is_human_interrupt(value) else {"status": "cancelled"}


def _is_human_interrupt(value: Any) -> bool:
    """Return whether the value is a list of requests in the format of Agent Inbox."""
    return isinstance(value, list) and all(isinstance(each, dict) and "action_request" in each for each in value)


def _interrupt(interrupt: Mapping[str, Any]) -> core.Interrupt:
    value = interrupt["value"]
    metadata = {"langgraph": {"value": value}}
    if not _is_human_interrupt(value):
        message = value if isinstance(value, str) else None
        return core.Interrupt(id=interrupt["id"], reason="langgraph:interrupt", message=message, metadata=metadata)
    answer = {
        "type": "object",
        "properties": {"type": {"enum": ["accept", "edit", "response", "ignore"]}, "args": {}},
        "required": ["type"],
    }
    return core.Interrupt(
        id=interrupt["id"],
        reason="input_required",
        message="\n\n".join(str(request.get("description", "")) for request in value),
        response_schema={"type": "array", "items": answer, "minItems": len(value), "maxItems": len(value)},
        metadata=metadata,
    )


class EventWriter:
    """Write the AG-UI events of one run."""

    def __init__(self, given: core.RunAgentInput, client: LangGraphClient) -> None:
        self._given = given
        self._client = client
        self._encode = EventEncoder().encode
        self._ids = {"thread_id": given.thread_id, "run_id": given.run_id}
        self._node = ""
        # Open text messages by id, with the node that streams them, and open steps.
        self._messages: dict[str, str] = {}
        self._steps: set[str] = set()

    async def refusal(self, text: str) -> AsyncIterator[str]:
        """Yield the events of a run that is refused."""
        yield self._encode(self._started())
        yield self._encode(core.RunErrorEvent(message=text, code="INVALID_RESUME"))

    async def frames(self, events: AsyncGenerator[RunEvent], reader: RunReader) -> AsyncIterator[str]:
        """Yield the frames of a run, from RUN_STARTED to RUN_FINISHED or RUN_ERROR."""
        yield self._encode(self._started())
        try:
            async with aclosing(events):
                async for event in events:
                    for translated in self._translate(event):
                        yield self._encode(translated)
            state = await _thread_state(self._given.thread_id, self._client)
        except HTTPException as failed:
            if reader.is_cancelled:
                yield self._encode(core.RunFinishedEvent(**self._ids, outcome=core.RunFinishedCancelledOutcome()))
            else:
                yield self._encode(core.RunErrorEvent(message=str(failed.detail), code=str(failed.status_code)))
            return
        for open_step in list(self._steps):
            for translated in self._finish_step(open_step):
                yield self._encode(translated)
        values = {name: value for name, value in (state.get("values") or {}).items() if name != "messages"}
        yield self._encode(core.StateSnapshotEvent(snapshot=values))
        yield self._encode(self._finished(reader))

    def _started(self) -> core.RunStartedEvent:
        return core.RunStartedEvent(**self._ids, protocol_version=PROTOCOL_VERSION)

    def _finished(self, reader: RunReader) -> core.RunFinishedEvent:
        outcome: Any = core.RunFinishedSuccessOutcome(pending_tool_call_ids=list(reader.client_calls) or None)
        if reader.interrupts:
            outcome = core.RunFinishedInterruptOutcome(interrupts=[_interrupt(each) for each in reader.interrupts])
        usage = core.TokenUsage(input_tokens=reader.input_tokens, output_tokens=reader.output_tokens)
        return core.RunFinishedEvent(**self._ids, outcome=outcome, usage=[usage] if usage.input_tokens else None)

    def _translate(self, event: RunEvent) -> Iterator[core.BaseEvent]:
        match event:
            case Step(node, is_finished=False):
                self._node = node
                if node not in self._steps:
                    self._steps.add(node)
                    yield core.StepStartedEvent(step_name=node)
            case Step(node):
                yield from self._finish_step(node)
            case Text(message_id, text):
                if message_id not in self._messages:
                    self._messages[message_id] = self._node
                    yield core.TextMessageStartEvent(message_id=message_id, role="assistant")
                yield core.TextMessageContentEvent(message_id=message_id, delta=text)
            case ToolCall(message_id, call_id, name, arguments):
                yield from self._end_message(message_id)
                yield core.ToolCallStartEvent(
                    tool_call_id=call_id, tool_call_name=name, parent_message_id=message_id or None
                )
                yield core.ToolCallArgsEvent(tool_call_id=call_id, delta=arguments)
                yield core.ToolCallEndEvent(tool_call_id=call_id)
            case CallResult(message_id, call_id, text):
                yield core.ToolCallResultEvent(message_id=message_id, tool_call_id=call_id, content=text, role="tool")
            case Custom(data):
                yield core.CustomEvent(name=CUSTOM_NAME, value=data)

    def _end_message(self, message_id: str) -> Iterator[core.BaseEvent]:
        if self._messages.pop(message_id, None) is not None:
            yield core.TextMessageEndEvent(message_id=message_id)

    def _finish_step(self, node: str) -> Iterator[core.BaseEvent]:
        for message_id in [each for each, its_node in self._messages.items() if its_node == node]:
            yield from self._end_message(message_id)
        self._steps.discard(node)
        yield core.StepFinishedEvent(step_name=node)
