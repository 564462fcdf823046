"""The A2A endpoints: assistants as agents, and the cards that describe them (langgraph_api.md section 8)."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from toolweave.api.langgraph.answers import EventStream, SlowJson, empty_answer, json_answer
from toolweave.api.langgraph.endpoint import Endpoint, Query
from toolweave.api.langgraph.graph_description import input_schema
from toolweave.api.langgraph.json_rpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RequestId,
    RpcError,
    error_message,
    params_of,
    request_id_of,
    result_message,
)
from toolweave.api.langgraph.json_schema import STRING, one_of
from toolweave.api.langgraph.requests import checked_body, is_uuid, read_json, uuid_of
from toolweave.api.langgraph.routes.a2a_tasks import (
    METHODS,
    TERMINAL_STATES,
    Incoming,
    Operation,
    Revision,
    State,
    Task,
    TaskName,
    artifacts_of,
    cancel_task,
    checked_length,
    find_task,
    get_task,
    incoming,
    latest,
    list_tasks,
    parts_of,
    questions_of,
)
from toolweave.api.langgraph.routes.system import API_VERSION
from toolweave.api.langgraph.run_requests import STATEFUL, run_request
from toolweave.api.langgraph.served import Served, served
from toolweave.api.langgraph.wire import timestamp
from toolweave.errors import InvalidRequest, NotFound, RequestError
from toolweave.runtime.codec import loads, utc_now
from toolweave.runtime.events.channel import LoggedEvent
from toolweave.runtime.models import Assistant, JsonObject, NewRun
from toolweave.runtime.runs.engine import StartedRun

MODES = ["application/json", "text/plain"]
HISTORY_SCOPE_HEADER = "LangGraph-A2A-History-Scope"
SCOPES = ("context", "task")
HISTORY_SCOPE: JsonObject = {
    "uri": "https://langchain.com/a2a/extensions/history-scope/v1",
    "description": "Choose task-only or full-context response history",
    "required": False,
    "params": {
        "header": HISTORY_SCOPE_HEADER,
        "values": list(SCOPES),
        "default": SCOPES[0],
        "methods": ["SendMessage", "GetTask", "ListTasks"],
    },
}


def agent_card(assistant: Assistant, schema: JsonObject, *, base_url: str, version: str) -> JsonObject:
    """Give the card; `schema` is that of the graph's input, `base_url` where this server was asked."""
    url = f"{base_url.rstrip('/')}/a2a/{assistant.assistant_id}"
    description = assistant.description or f"{assistant.name} assistant"
    fields = sorted(schema.get("properties", {}))
    return {
        "name": assistant.name,
        "description": description,
        "url": url,
        "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "capabilities": {
            "streaming": True,
            "pushNotifications": False,
            "stateTransitionHistory": False,
            "extensions": [HISTORY_SCOPE],
        },
        "defaultInputModes": MODES,
        "defaultOutputModes": MODES,
        "skills": [
            {
                "id": f"{assistant.assistant_id}-main",
                "name": f"{assistant.name} Capabilities",
                "description": description,
                "tags": ["assistant", "langgraph"],
                "examples": [],
                "inputModes": MODES,
                "outputModes": MODES,
                "metadata": {
                    "inputSchema": {
                        "required": schema.get("required", []),
                        "properties": fields,
                        "supportsA2A": "messages" in fields,
                    }
                },
            }
        ],
        "version": version,
    }


UNSUPPORTED = -32004
SPOKEN = ("messages/partial", "messages/complete")


@dataclass(frozen=True, slots=True)
class Talk:
    """What a message led to: its task, the run, and how the client wants to be told."""

    here: Served
    assistant: Assistant
    revision: Revision
    message: Incoming
    name: TaskName
    since: str | None
    history_length: int | None
    started: StartedRun

    async def finished(self) -> JsonObject:
        """Wait for the run and give the task as it stands then."""
        state, values, text = await self.outcome()
        status = self.name.status(self.revision, state, text)
        if state in ("failed", "canceled"):
            return self.name.task(status, [])
        history = self.name.history(self.revision, values, since=self.since)
        return self.name.task(status, latest(history, self.history_length), artifacts=self.artifacts(state, values))

    def begun(self) -> JsonObject:
        """Give the task before anything has happened."""
        shown = self.message.shown
        said = self.name.message(
            self.revision.role(user=self.message.from_user), shown["parts"], self.message.message_id
        )
        return self.name.task(self.name.status(self.revision, "submitted"), [said])

    async def updates(self, request_id: RequestId) -> AsyncGenerator[Sequence[LoggedEvent]]:
        """Give the stream's events: the task, what is said meanwhile, its artifacts, and how it ended."""
        yield self._event(request_id, self.revision.task_answer(self.begun()))
        assert self.started.events is not None  # noqa: S101 - asked for
        async with self.started.events as events:
            async for said in spoken(events):
                status = {
                    "state": self.revision.state("working"),
                    "message": self.name.message(self.revision.role(user=False), said),
                    "timestamp": timestamp(utc_now()),
                }
                yield self._event(request_id, self._status_update(status, final=False))
        state, values, text = await self.outcome()
        for artifact in self.artifacts(state, values):
            update = {**self.name.ids(), "kind": "artifact-update", "artifact": artifact}
            yield self._event(request_id, {**update, "append": False, "lastChunk": True})
        yield self._event(request_id, self._status_update(self.name.status(self.revision, state, text), final=True))

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
    here: Served, assistant: Assistant, revision: Revision, params: JsonObject, *, task_only: bool, listen: bool = False
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
    return Talk(here, assistant, revision, message, name, since, history_length, started)


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
    if task.state in TERMINAL_STATES:
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


STREAM_NOT_ACCEPTED = "Accept header must include text/event-stream for streaming"


async def message(request: Request) -> ASGIApp:
    """Take one JSON-RPC message for an assistant; errors are JSON-RPC errors in a 200."""
    request_id: RequestId = None
    try:
        received = await _object(request)
        request_id = request_id_of(received)
        _check_version(received)
        if "method" not in received and ("result" in received or "error" in received):
            return empty_answer(202)
        return await _called(request, request_id, _method_of(received), params_of(received))
    except RpcError as error:
        return _answer(error_message(request_id, error))
    except RequestError as error:
        # Of the run that was asked for: its thread, its assistant, its graph.
        return _answer(error_message(request_id, RpcError(INVALID_PARAMS, str(error))))


async def card(request: Request) -> Response:
    """Describe the assistant as an agent; refusals have a JSON-RPC error in a 400."""
    assistant_id = request.path_params.get("assistant_id") or request.query_params.get("assistant_id")
    here = served(request)
    try:
        if not assistant_id:
            raise RpcError(INVALID_PARAMS, "Missing required query parameter: assistant_id")
        assistant = await _assistant(here, assistant_id, f"Failed to get assistant '{assistant_id[:200]}': ")
    except RpcError as error:
        return json_answer({"error": {"code": error.code, "message": str(error)}}, status=400)
    async with here.graphs.open(assistant.graph_id, access="assistants.read") as graph:
        schema = await asyncio.to_thread(input_schema, graph)
    return json_answer(agent_card(assistant, schema or {}, base_url=str(request.base_url), version=API_VERSION))


async def _called(request: Request, request_id: RequestId, method: str, params: JsonObject) -> ASGIApp:
    if method not in METHODS:
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method[:200]}")
    operation, revision = METHODS[method]
    accepted = request.headers.get("accept", "*/*")
    if operation == "stream" and "text/event-stream" not in accepted and "*/*" not in accepted:
        incoming(params)
        return json_answer({"error": STREAM_NOT_ACCEPTED}, status=400)
    here = served(request)
    assistant = await _assistant(here, request.path_params["assistant_id"])
    task_only = _task_only(request)
    if operation in ("send", "stream"):
        return await _talk(here, assistant, revision, operation, request_id, params, task_only)
    return _answer(
        result_message(request_id, await _ask(here, assistant, revision, operation, params, task_only=task_only))
    )


async def _talk(
    here: Served,
    assistant: Assistant,
    revision: Revision,
    operation: Operation,
    request_id: RequestId,
    params: JsonObject,
    task_only: bool,
) -> ASGIApp:
    streams = operation == "stream"
    talk = await begin_talk(here, assistant, revision, params, task_only=task_only, listen=streams)
    if streams:
        return EventStream(talk.updates(request_id), {})
    configuration = params.get("configuration") or {}
    if configuration.get("blocking") is False or configuration.get("returnImmediately") is True:
        return _answer(result_message(request_id, revision.task_answer(talk.begun())))
    return SlowJson(_finished(request_id, revision, talk.finished()), {})


async def _ask(
    here: Served, assistant: Assistant, revision: Revision, operation: Operation, params: JsonObject, *, task_only: bool
) -> JsonObject:
    if operation == "cancel":
        return await cancel_task(here, assistant, revision, params)
    asked = get_task if operation == "get" else list_tasks
    return await asked(here, assistant, revision, params, task_only=task_only)


async def _finished(request_id: RequestId, revision: Revision, task: Awaitable[JsonObject]) -> bytes:
    return result_message(request_id, revision.task_answer(await task))


async def _object(request: Request) -> JsonObject:
    try:
        received = await read_json(request)
    except InvalidRequest:
        raise RpcError(PARSE_ERROR, "Invalid JSON payload") from None
    if not isinstance(received, dict):
        raise RpcError(INVALID_REQUEST, "Invalid message format: expected object")
    return received


def _check_version(received: JsonObject) -> None:
    if received.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, "Invalid JSON-RPC message: missing or invalid jsonrpc version")


def _method_of(received: JsonObject) -> str:
    method = received.get("method")
    if method is None:
        raise RpcError(INVALID_REQUEST, "Invalid JSON-RPC request: missing 'method' field")
    if not isinstance(method, str):
        raise RpcError(METHOD_NOT_FOUND, "Method not found: method must be a string")
    return method


def _task_only(request: Request) -> bool:
    scope = request.headers.get(HISTORY_SCOPE_HEADER, SCOPES[0])
    if scope not in SCOPES:
        raise RpcError(INVALID_PARAMS, "historyScope must be 'context' or 'task'")
    return scope == "task"


async def _assistant(here: Served, assistant_id: str, doing: str = "") -> Assistant:
    try:
        assistant = await here.persistence.assistants.get(uuid_of(assistant_id, "assistant"))
    except InvalidRequest as error:
        raise RpcError(INVALID_PARAMS, f"{doing}{error}") from None
    except NotFound:
        raise RpcError(INVALID_PARAMS, f"Assistant '{assistant_id}' not found") from None
    if assistant.graph_id not in here.graphs.names():
        raise RpcError(INTERNAL_ERROR, f"Graph '{assistant.graph_id[:200]}' is not served any more")
    return assistant


def _answer(body: bytes) -> Response:
    return Response(body, 200, media_type="application/json")


_TAG = "A2A"
_AGENT = "/a2a/{assistant_id}"
_CARD = ".well-known/agent-card.json"
_REFUSED = {400: "PlainError"}
_SCOPE = Query(HISTORY_SCOPE_HEADER, one_of(*SCOPES), "header")
ENDPOINTS = (
    Endpoint(
        "POST",
        _AGENT,
        message,
        "Send a message to an assistant, or ask about a task",
        _TAG,
        "JsonRpcMessage",
        "JsonRpcAnswer",
        errors=(202, 400),
        query=(_SCOPE,),
        error_answers=_REFUSED,
    ),
    Endpoint("GET", _AGENT, card, "Describe an agent", _TAG, answer="AgentCard", errors=(400,), error_answers=_REFUSED),
    Endpoint(
        "GET",
        f"{_AGENT}/{_CARD}",
        card,
        "Describe an agent",
        _TAG,
        answer="AgentCard",
        errors=(400,),
        error_answers=_REFUSED,
    ),
    Endpoint(
        "GET",
        f"/{_CARD}",
        card,
        "Describe an agent",
        _TAG,
        answer="AgentCard",
        errors=(400,),
        query=(Query("assistant_id", STRING),),
        error_answers=_REFUSED,
    ),
)
