"""Take a message: begin a task, continue one or answer its question, and tell how it goes (langgraph_api.md 8)."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from toolweave.api.langgraph.a2a.dialect import TERMINAL, Dialect, State
from toolweave.api.langgraph.a2a.incoming import Incoming, incoming
from toolweave.api.langgraph.a2a.outgoing import TaskName, artifacts_of, parts_of, questions_of
from toolweave.api.langgraph.a2a.task_state import Task, find_task
from toolweave.api.langgraph.graph_description import input_schema
from toolweave.api.langgraph.json_body import checked_body
from toolweave.api.langgraph.json_rpc import INVALID_PARAMS, RequestId, RpcError, result_message
from toolweave.api.langgraph.request_values import is_uuid
from toolweave.api.langgraph.run_request import STATEFUL, run_request
from toolweave.api.langgraph.served import Served
from toolweave.api.langgraph.wire import timestamp
from toolweave.errors import NotFound
from toolweave.runtime.codec import loads, utc_now
from toolweave.runtime.events.channel import LoggedEvent
from toolweave.runtime.models import Assistant, JsonObject, NewRun
from toolweave.runtime.runs.engine import StartedRun

UNSUPPORTED = -32004
SPOKEN = ("messages/partial", "messages/complete")


@dataclass(frozen=True, slots=True)
class Talk:
    """What a message led to: its task, the run, and how the client wants to be told."""

    here: Served
    assistant: Assistant
    dialect: Dialect
    message: Incoming
    name: TaskName
    since: str | None
    history_length: int | None
    started: StartedRun

    async def finished(self) -> JsonObject:
        """Wait for the run and give the task as it stands then."""
        state, values, text = await self.outcome()
        status = self.name.status(self.dialect, state, text)
        if state in ("failed", "canceled"):
            return self.name.task(status, [])
        history = self.name.history(self.dialect, values, since=self.since)
        return self.name.task(status, latest(history, self.history_length), artifacts=self.artifacts(state, values))

    def begun(self) -> JsonObject:
        """Give the task before anything has happened."""
        shown = self.message.shown
        said = self.name.message(
            self.dialect.role(user=self.message.from_user), shown["parts"], self.message.message_id
        )
        return self.name.task(self.name.status(self.dialect, "submitted"), [said])

    async def updates(self, request_id: RequestId) -> AsyncGenerator[Sequence[LoggedEvent]]:
        """Give the stream's events: the task, what is said meanwhile, its artifacts, and how it ended."""
        yield self._event(request_id, self.dialect.task_answer(self.begun()))
        assert self.started.events is not None  # noqa: S101 - asked for
        async with self.started.events as events:
            async for said in spoken(events):
                status = {
                    "state": self.dialect.state("working"),
                    "message": self.name.message(self.dialect.role(user=False), said),
                    "timestamp": timestamp(utc_now()),
                }
                yield self._event(request_id, self._status_update(status, final=False))
        state, values, text = await self.outcome()
        for artifact in self.artifacts(state, values):
            update = {**self.name.ids(), "kind": "artifact-update", "artifact": artifact}
            yield self._event(request_id, {**update, "append": False, "lastChunk": True})
        yield self._event(request_id, self._status_update(self.name.status(self.dialect, state, text), final=True))

    async def outcome(self) -> tuple[State, Any, str | None]:
        """Wait for the run; gives the task's state, the graph's values, and what there is to say about it."""
        try:
            values = loads(await self.started.result())
        except NotFound:
            return "canceled", None, "Task was canceled"
        if isinstance(values, dict) and isinstance(error := values.get("__error__"), dict):
            return "failed", None, f"Error executing assistant: {error.get('error')}: {error.get('message')}"
        run = await self.here.persistence.runs.find(self.started.run.run_id)
        if run is None or run.status == "interrupted":
            return "canceled", None, "Task was canceled"
        asks = isinstance(values, dict) and bool(values.get("__interrupt__"))
        return "input-required" if asks else "completed", values, None

    def artifacts(self, state: State, values: Any) -> list[JsonObject]:
        """Give the task's result, or the questions it waits with."""
        if state == "input-required":
            return questions_of(values["__interrupt__"])
        return artifacts_of(values, self.assistant.assistant_id) if state == "completed" else []

    def _status_update(self, status: JsonObject, *, final: bool) -> JsonObject:
        return {**self.name.ids(), "kind": "status-update", "status": status, "final": final}

    def _event(self, request_id: RequestId, result: object) -> Sequence[LoggedEvent]:
        return (LoggedEvent(0, "message", result_message(request_id, result), None),)


async def begin_talk(
    here: Served, assistant: Assistant, dialect: Dialect, params: JsonObject, *, task_only: bool, listen: bool = False
) -> Talk:
    """Check a message and start its run.

    Raises:
        RpcError: the message is malformed, its task is unknown or has ended, or the graph takes no messages.
    """
    configuration = params.get("configuration") or {}
    if not isinstance(configuration, dict):
        raise RpcError(INVALID_PARAMS, "Invalid params: 'configuration' must be an object")
    history_length = checked_length(configuration)
    message = incoming(params)
    task = None if message.task_id is None else await _open_task(here, assistant, message)
    if message.content is not None and (task is None or not task.questions):
        await _require_messages(here, assistant)
    new = _new_run(here, assistant, message, task, streams=listen)
    name = TaskName(new.thread_id, new.run_id) if task is None else task.name
    begins_with = message.message_id if task is None else task.first_message_id
    started = await here.engine.start(new, listen=listen)
    since = begins_with if task_only else None
    return Talk(here, assistant, dialect, message, name, since, history_length, started)


def checked_length(fields: JsonObject) -> int | None:
    """Read `historyLength`: how many messages to show, None for all. Raises RpcError."""
    length = fields.get("historyLength")
    if length is not None and (not isinstance(length, int) or isinstance(length, bool) or length < 0):
        raise RpcError(INVALID_PARAMS, "historyLength must be a non-negative integer")
    return length


def latest(history: list[JsonObject], length: int | None) -> list[JsonObject] | None:
    """Keep the newest messages; none at all when none are wanted."""
    if length is None:
        return history
    return history[-length:] if length else None


async def spoken(events: AsyncIterator[LoggedEvent]) -> AsyncGenerator[list[JsonObject]]:
    """Give the parts of every message, as far as it has come, each time more of it is there."""
    async for event in events:
        if event.event in SPOKEN:
            for message in loads(event.data):
                if message.get("type") != "human" and (parts := parts_of(message)):
                    yield parts


async def _require_messages(here: Served, assistant: Assistant) -> None:
    fields = await input_fields(here, assistant)
    if "messages" not in fields:
        raise RpcError(
            INVALID_PARAMS,
            f"Assistant '{assistant.assistant_id}' (graph '{assistant.graph_id}') does not support A2A conversational "
            "messages. Graph input schema must include a 'messages' field to accept text or file parts. "
            f"Available input fields: {list(fields)}",
        )


async def input_fields(here: Served, assistant: Assistant) -> JsonObject:
    """Give the fields of what the assistant's graph takes, by name."""
    async with here.graphs.open(assistant.graph_id, access="assistants.read") as graph:
        schema = input_schema(graph) or {}
    properties: JsonObject = schema.get("properties", {})
    return properties


async def _open_task(here: Served, assistant: Assistant, message: Incoming) -> Task:
    task = await find_task(here, assistant, message.task_id or "")
    if message.context_id not in (None, task.name.context_id):
        raise RpcError(INVALID_PARAMS, "contextId does not match the task's context")
    if task.state in TERMINAL:
        raise RpcError(UNSUPPORTED, "A terminal task cannot accept another message")
    return task


def _new_run(here: Served, assistant: Assistant, message: Incoming, task: Task | None, *, streams: bool) -> NewRun:
    context_id = task.name.context_id if task is not None else message.context_id or str(uuid4())
    if not is_uuid(context_id):
        raise RpcError(INVALID_PARAMS, "Failed to create run: Invalid thread ID")
    marks: JsonObject = {"message_id": message.message_id}
    fields: JsonObject = {"assistant_id": assistant.assistant_id, "if_not_exists": "create"}
    if streams:
        fields["stream_mode"] = ["messages"]
    if task is not None:
        marks["task_id"] = task.name.task_id
    if task is not None and task.questions:
        # The task waits: what comes is the answer.
        fields["command"] = {"resume": message.answer()}
    else:
        fields["input"] = message.graph_input()
    fields["metadata"] = {"a2a": marks}
    return run_request(
        checked_body(fields, STATEFUL), assistant, context_id.lower(), here.graphs.metadata(assistant.graph_id)
    ).new
