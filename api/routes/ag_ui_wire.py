"""Run assistants for AG-UI clients, and translate the runs' events to AG-UI's (S-10)."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from ag_ui import core
from ag_ui.core.version import PROTOCOL_VERSION
from ag_ui.encoder import EventEncoder
from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from langgraph_sdk.client import LangGraphClient
from pydantic import ValidationError

from toolweave.api.routes.client_runs import (
    CANCELLED,
    NO_MESSAGES,
    CallResult,
    ClientRun,
    Custom,
    RunEvent,
    RunReader,
    Step,
    Text,
    ToolCall,
    as_uuid,
    find_chat_assistant,
    graph_message,
    open_interrupts,
    start_run,
    thread_state,
    while_connected,
)
from toolweave.errors import BadRequest, InvalidRequest

CUSTOM_NAME = "custom"
NO_THREAD_ID = "threadId must be a UUID."
UNANSWERED = "resume must have an answer for each open interrupt of this thread, and no others. Open: {}"
REPEATED = "Each message needs its own id, and each interrupt has one answer in resume."
NO_PARAMETERS = {"type": "object", "properties": {}}
MEDIA_TYPES = {"image": "image", "audio": "audio", "video": "video", "document": "file"}


async def answer_run(assistant_id: str, body: dict[str, Any], request: Request, client: LangGraphClient) -> Response:
    """Answer POST /agui/{assistant_id}.

    Raises:
        RequestValidationError: the body is no RunAgentInput.
        BadRequest, NotFound, HTTPException: the run cannot be started.
    """
    try:
        given = core.RunAgentInput.model_validate(body)
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from None
    thread_id = as_uuid(given.thread_id)
    if thread_id is None:
        raise InvalidRequest(NO_THREAD_ID)
    resumed = {entry.interrupt_id: entry for entry in given.resume or ()}
    if len(resumed) < len(given.resume or ()) or len({each.id for each in given.messages}) < len(given.messages):
        raise BadRequest(REPEATED)
    assistant = await find_chat_assistant(client, assistant_id)
    state = await thread_state(thread_id, client)
    writer = EventWriter(given, thread_id, client)
    waiting = open_interrupts(state)
    if waiting.keys() != resumed.keys():
        return _event_stream(writer.refusal(UNANSWERED.format(", ".join(waiting) or "none")))
    values = state.get("values") or {}
    messages = _new_messages(given.messages, values.get("messages") or [])
    if not messages and not values:
        raise BadRequest(NO_MESSAGES)
    sent_state = given.state if isinstance(given.state, dict) else {}
    run = ClientRun(
        assistant,
        [graph_message(each) for each in messages],
        thread_id,
        {each: _answer(entry, waiting[each]) for each, entry in resumed.items()},
        [_openai_tool(tool) for tool in given.tools or ()],
        {
            name: value
            for name, value in sent_state.items()
            if name in assistant.input_fields and name != "messages" and values.get(name) != value
        },
    )
    reader = RunReader(run.client_tools)
    events = await while_connected(request, start_run(run, client, reader))
    return _event_stream(writer.frames(events, reader))


def _event_stream(frames: AsyncIterator[str]) -> Response:
    return StreamingResponse(frames, media_type="text/event-stream", headers={"cache-control": "no-store"})


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

    def __init__(self, given: core.RunAgentInput, thread_id: str, client: LangGraphClient) -> None:
        self._thread_id = thread_id
        self._client = client
        self._encode = EventEncoder().encode
        self._ids = {"thread_id": given.thread_id, "run_id": given.run_id}
        self._node = ""
        # The open text message of each node, and open steps.
        self._messages: dict[str, str] = {}
        self._steps: set[str] = set()

    async def refusal(self, text: str) -> AsyncIterator[str]:
        """Yield the events of a run that is refused."""
        yield self._encode(self._started())
        yield self._encode(core.RunErrorEvent(message=text, code="INVALID_RESUME"))

    async def frames(self, events: AsyncGenerator[RunEvent], reader: RunReader) -> AsyncIterator[str]:
        """Yield the frames of a run, from RUN_STARTED to RUN_FINISHED or RUN_ERROR."""
        yield self._encode(self._started())
        last: list[core.BaseEvent]
        try:
            async with aclosing(events):
                async for event in events:
                    for translated in self._translate(event):
                        yield self._encode(translated)
            state = await thread_state(self._thread_id, self._client)
        except HTTPException as failed:
            if failed.detail == CANCELLED:
                last = [core.RunFinishedEvent(**self._ids, outcome=core.RunFinishedCancelledOutcome())]
            else:
                last = [core.RunErrorEvent(message=str(failed.detail), code=str(failed.status_code))]
        else:
            values = {name: value for name, value in (state.get("values") or {}).items() if name != "messages"}
            last = [core.StateSnapshotEvent(snapshot=values), self._finished(reader)]
        for each in [*(event for step in list(self._steps) for event in self._finish_step(step)), *last]:
            yield self._encode(each)

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
                if self._messages.get(self._node) != message_id:
                    yield from self._end_message(self._node)
                    self._messages[self._node] = message_id
                    yield core.TextMessageStartEvent(message_id=message_id, role="assistant")
                yield core.TextMessageContentEvent(message_id=message_id, delta=text)
            case ToolCall(message_id, call_id, name, arguments):
                yield from self._end_message(self._node)
                yield core.ToolCallStartEvent(
                    tool_call_id=call_id, tool_call_name=name, parent_message_id=message_id or None
                )
                yield core.ToolCallArgsEvent(tool_call_id=call_id, delta=arguments)
                yield core.ToolCallEndEvent(tool_call_id=call_id)
            case CallResult(message_id, call_id, text):
                yield core.ToolCallResultEvent(message_id=message_id, tool_call_id=call_id, content=text, role="tool")
            case Custom(data):
                yield core.CustomEvent(name=CUSTOM_NAME, value=data)

    def _end_message(self, node: str) -> Iterator[core.BaseEvent]:
        if (message_id := self._messages.pop(node, None)) is not None:
            yield core.TextMessageEndEvent(message_id=message_id)

    def _finish_step(self, node: str) -> Iterator[core.BaseEvent]:
        yield from self._end_message(node)
        self._steps.discard(node)
        yield core.StepFinishedEvent(step_name=node)
