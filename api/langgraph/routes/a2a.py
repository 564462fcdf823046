"""The A2A endpoints: assistants as agents, and the cards that describe them (langgraph_api.md section 8)."""

from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from toolweave.api.langgraph import json_rpc
from toolweave.api.langgraph.answers import EventStream, SlowJson, json_answer
from toolweave.api.langgraph.auth import rules
from toolweave.api.langgraph.auth.authorization import AuthRequest, checked_id
from toolweave.api.langgraph.endpoints import Endpoints, QueryParam
from toolweave.api.langgraph.graph_description import input_schema
from toolweave.api.langgraph.json_schema import STRING, one_of
from toolweave.api.langgraph.requests import checked_body, is_uuid, uuid_of
from toolweave.api.langgraph.routes import a2a_tasks as tasks
from toolweave.api.langgraph.routes.system import API_VERSION
from toolweave.api.langgraph.run_requests import STATEFUL, run_request
from toolweave.api.langgraph.served import Served, served
from toolweave.errors import InvalidRequest, NotFound, RequestError
from toolweave.runtime.codec import loads, utc_now
from toolweave.runtime.models import Assistant, JsonObject, NewRun, StreamEvent, timestamp
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

STREAM_NOT_ACCEPTED = "Accept header must include text/event-stream for streaming"
TASK_OPERATIONS = {"get": tasks.get_task, "cancel": tasks.cancel_task, "list": tasks.list_tasks}

endpoints = Endpoints("A2A", "disable_a2a")
_SCOPE = QueryParam(HISTORY_SCOPE_HEADER, one_of(*SCOPES), "header")


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
class SentMessage:
    """A message that a client sent, the task it belongs to and the run that it started."""

    call: tasks.AgentCall
    message: tasks.Incoming
    name: tasks.TaskName
    since: str | None
    history_length: int | None
    started: StartedRun

    async def finished(self) -> JsonObject:
        """Wait for the run and give the task as it stands then."""
        state, values, text = await self.outcome()
        status = self.name.status(self.call.revision, state, text)
        if state in ("failed", "canceled"):
            return self.name.task(status, [])
        history = self.name.history(self.call.revision, values, since=self.since)
        return self.name.task(
            status, tasks.latest(history, self.history_length), artifacts=self.artifacts(state, values)
        )

    def submitted(self) -> JsonObject:
        """Give the task before anything has happened."""
        shown = self.message.shown
        said = self.name.message(
            self.call.revision.role(user=self.message.from_user), shown["parts"], self.message.message_id
        )
        return self.name.task(self.name.status(self.call.revision, "submitted"), [said])

    async def updates(self, request_id: json_rpc.RequestId) -> AsyncGenerator[Sequence[StreamEvent]]:
        """Give the stream's events: the task, what is said meanwhile, its artifacts, and how it ended."""
        yield self._event(request_id, self.call.revision.task_answer(self.submitted()))
        assert self.started.events is not None  # noqa: S101 - asked for
        async with aclosing(self.started.events.batches()) as batches:
            async for said in spoken(batches):
                status = {
                    "state": self.call.revision.state("working"),
                    "message": self.name.message(self.call.revision.role(user=False), said),
                    "timestamp": timestamp(utc_now()),
                }
                yield self._event(request_id, self._status_update(status, final=False))
        state, values, text = await self.outcome()
        for artifact in self.artifacts(state, values):
            update = {**self.name.ids(), "kind": "artifact-update", "artifact": artifact}
            yield self._event(request_id, {**update, "append": False, "lastChunk": True})
        yield self._event(
            request_id, self._status_update(self.name.status(self.call.revision, state, text), final=True)
        )

    async def outcome(self) -> tuple[tasks.State, Any, str | None]:
        """Wait for the run; gives the task's state, the graph's values, and what there is to say about it."""
        try:
            values = loads(await self.started.result())
        except NotFound:
            return "canceled", None, "Task was canceled"
        if isinstance(values, dict) and isinstance(error := values.get("__error__"), dict):
            return "failed", None, f"Error executing assistant: {error.get('error')}: {error.get('message')}"
        run = await self.call.here.persistence.runs.find(self.started.run.run_id)
        if run is None or run.status == "interrupted":
            return "canceled", None, "Task was canceled"
        asks = isinstance(values, dict) and bool(values.get("__interrupt__"))
        return "input-required" if asks else "completed", values, None

    def artifacts(self, state: tasks.State, values: Any) -> list[JsonObject]:
        """Give the task's result, or the questions it waits with."""
        if state == "input-required":
            return tasks.questions_of(values["__interrupt__"])
        return tasks.artifacts_of(values, self.call.assistant.assistant_id) if state == "completed" else []

    def _status_update(self, status: JsonObject, *, final: bool) -> JsonObject:
        return {**self.name.ids(), "kind": "status-update", "status": status, "final": final}

    def _event(self, request_id: json_rpc.RequestId, result: object) -> Sequence[StreamEvent]:
        return (StreamEvent(0, "message", json_rpc.result_message(request_id, result), None),)


async def send_message(call: tasks.AgentCall, *, listen: bool) -> SentMessage:
    """Check a message and start its run.

    Raises:
        RpcError: the message is malformed, its task is unknown or has ended, or the graph takes no messages.
    """
    configuration = call.params.get("configuration") or {}
    if not isinstance(configuration, dict):
        raise json_rpc.RpcError(json_rpc.INVALID_PARAMS, "Invalid params: 'configuration' must be an object")
    history_length = tasks.checked_length(configuration)
    message = tasks.incoming(call.params)
    task = None if message.task_id is None else await _open_task(call, message)
    if message.content is not None and (task is None or not task.questions):
        await _require_messages(call)
    new = _new_run(call, message, task, streams=listen)
    name = tasks.TaskName(new.thread_id, new.run_id) if task is None else task.name
    begins_with = message.message_id if task is None else task.first_message_id
    started = await call.here.engine.start(new, listen=listen)
    return SentMessage(call, message, name, begins_with if call.task_only else None, history_length, started)


async def spoken(batches: AsyncIterable[Sequence[StreamEvent]]) -> AsyncGenerator[list[JsonObject]]:
    """Give the parts of every message, as far as it has come, each time more of it is there."""
    async for batch in batches:
        for event in batch:
            for message in loads(event.data) if event.event in SPOKEN else ():
                if message.get("type") != "human" and (parts := tasks.parts_of(message)):
                    yield parts


async def _require_messages(call: tasks.AgentCall) -> None:
    assistant = call.assistant
    fields = (await input_schema(call.here, assistant.graph_id) or {}).get("properties", {})
    if "messages" not in fields:
        raise json_rpc.RpcError(
            json_rpc.INVALID_PARAMS,
            f"Assistant '{assistant.assistant_id}' (graph '{assistant.graph_id}') does not support A2A conversational "
            "messages. Graph input schema must include a 'messages' field to accept text or file parts. "
            f"Available input fields: {list(fields)}",
        )


async def _open_task(call: tasks.AgentCall, message: tasks.Incoming) -> tasks.Task:
    task = await tasks.find_task(call, message.task_id or "")
    if message.context_id not in (None, task.name.context_id):
        raise json_rpc.RpcError(json_rpc.INVALID_PARAMS, "contextId does not match the task's context")
    if task.state in tasks.TERMINAL_STATES:
        raise json_rpc.RpcError(UNSUPPORTED, "A terminal task cannot accept another message")
    return task


def _new_run(call: tasks.AgentCall, message: tasks.Incoming, task: tasks.Task | None, *, streams: bool) -> NewRun:
    context_id = task.name.context_id if task is not None else message.context_id or str(uuid4())
    if not is_uuid(context_id):
        raise json_rpc.RpcError(json_rpc.INVALID_PARAMS, "Failed to create run: Invalid thread ID")
    marks: JsonObject = {"message_id": message.message_id}
    fields: JsonObject = {"assistant_id": call.assistant.assistant_id, "if_not_exists": "create"}
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
    return run_request(call.here, checked_body(fields, STATEFUL), call.assistant, context_id.lower()).new


async def permit_message(asked: AuthRequest) -> None:
    """assistants.read, threads.create_run for a message, threads.read or search for what is asked about."""
    await rules.read_assistant(asked)
    named = await rules.see_named_threads(asked, "read")
    operation, _ = tasks.METHODS.get(str(asked.fields.get("method")), (None, None))
    if operation in ("send", "stream"):
        fields: JsonObject = {"assistant_id": asked.request.path_params["assistant_id"]}
        # Who may read a thread need not be allowed to talk on it.
        threads: list[str | None] = []
        for known in named:
            with suppress(NotFound):
                threads.append((await asked.served.persistence.threads.get(known)).thread_id)
        for thread_id in threads or [None]:
            await rules.permit_run(asked, fields, thread_id)
        asked.run_metadata = fields.get("metadata") or {}
    elif operation == "cancel":
        await rules.see_named_threads(asked, "update")
    elif operation == "list":
        asked.filters["threads"] = await asked.permit("threads", "search", {"metadata": {}})


async def permit_card(asked: AuthRequest) -> None:
    """assistants.read."""
    given = asked.request.path_params.get("assistant_id") or asked.request.query_params.get("assistant_id")
    await asked.permit_one("assistants", "read", checked_id(given))


@endpoints(
    "POST /a2a/{assistant_id}",
    permit_message,
    "JsonRpcMessage",
    "Any",
    read=False,
    errors=(202, 400),
    query=(_SCOPE,),
)
async def message(request: Request) -> ASGIApp:
    """Send a message to an assistant, or ask about a task.

    Take one JSON-RPC message; errors are JSON-RPC errors in a 200.
    """
    request_id: json_rpc.RequestId = None
    try:
        received = await json_rpc.read_message(request)
        request_id = json_rpc.request_id_of(received)
        json_rpc.require_version(received)
        if "method" not in received and ("result" in received or "error" in received):
            return Response(None, 202)
        return await _called(request, request_id, _method_of(received), json_rpc.params_of(received))
    except json_rpc.RpcError as error:
        return json_rpc.rpc_answer(json_rpc.error_message(request_id, error))
    except RequestError as error:
        # Of the run that was asked for: its thread, its assistant, its graph.
        return json_rpc.rpc_answer(
            json_rpc.error_message(request_id, json_rpc.RpcError(json_rpc.INVALID_PARAMS, str(error)))
        )


@endpoints(
    "GET /.well-known/agent-card.json",
    permit_card,
    answer="Any",
    errors=(400,),
    query=(QueryParam("assistant_id", STRING),),
)
@endpoints("GET /a2a/{assistant_id}/.well-known/agent-card.json", permit_card, answer="Any", errors=(400,))
@endpoints("GET /a2a/{assistant_id}", permit_card, answer="Any", errors=(400,))
async def card(request: Request) -> Response:
    """Describe an agent.

    Refusals have a JSON-RPC error in a 400.
    """
    assistant_id = request.path_params.get("assistant_id") or request.query_params.get("assistant_id")
    here = served(request)
    try:
        if not assistant_id:
            raise json_rpc.RpcError(json_rpc.INVALID_PARAMS, "Missing required query parameter: assistant_id")
        assistant = await _assistant(here, assistant_id, f"Failed to get assistant '{assistant_id[:200]}': ")
    except json_rpc.RpcError as error:
        return json_answer({"error": {"code": error.code, "message": str(error)}}, status=400)
    schema = await input_schema(here, assistant.graph_id) or {}
    return json_answer(agent_card(assistant, schema, base_url=str(request.base_url), version=API_VERSION))


async def _called(request: Request, request_id: json_rpc.RequestId, method: str, params: JsonObject) -> ASGIApp:
    if method not in tasks.METHODS:
        raise json_rpc.RpcError(json_rpc.METHOD_NOT_FOUND, f"Method not found: {method[:200]}")
    operation, revision = tasks.METHODS[method]
    accepted = request.headers.get("accept", "*/*")
    if operation == "stream" and "text/event-stream" not in accepted and "*/*" not in accepted:
        tasks.incoming(params)
        return json_answer({"error": STREAM_NOT_ACCEPTED}, status=400)
    assistant = await _assistant(served(request), request.path_params["assistant_id"])
    call = tasks.AgentCall(served(request), assistant, revision, params, _task_only(request))
    if operation in ("send", "stream"):
        return await _send(call, request_id, streams=operation == "stream")
    return json_rpc.rpc_answer(json_rpc.result_message(request_id, await TASK_OPERATIONS[operation](call)))


async def _send(call: tasks.AgentCall, request_id: json_rpc.RequestId, *, streams: bool) -> ASGIApp:
    sent = await send_message(call, listen=streams)
    if streams:
        return EventStream(sent.updates(request_id), {})
    configuration = call.params.get("configuration") or {}
    if configuration.get("blocking") is False or configuration.get("returnImmediately") is True:
        return json_rpc.rpc_answer(json_rpc.result_message(request_id, call.revision.task_answer(sent.submitted())))
    return SlowJson(_finished(request_id, call.revision, sent.finished()), {})


async def _finished(request_id: json_rpc.RequestId, revision: tasks.Revision, task: Awaitable[JsonObject]) -> bytes:
    return json_rpc.result_message(request_id, revision.task_answer(await task))


def _method_of(received: JsonObject) -> str:
    method = received.get("method")
    if method is None:
        raise json_rpc.RpcError(json_rpc.INVALID_REQUEST, "Invalid JSON-RPC request: missing 'method' field")
    if not isinstance(method, str):
        raise json_rpc.RpcError(json_rpc.METHOD_NOT_FOUND, "Method not found: method must be a string")
    return method


def _task_only(request: Request) -> bool:
    scope = request.headers.get(HISTORY_SCOPE_HEADER, SCOPES[0])
    if scope not in SCOPES:
        raise json_rpc.RpcError(json_rpc.INVALID_PARAMS, "historyScope must be 'context' or 'task'")
    return scope == "task"


async def _assistant(here: Served, assistant_id: str, doing: str = "") -> Assistant:
    try:
        assistant = await here.persistence.assistants.get(uuid_of(assistant_id, "assistant"))
    except InvalidRequest as error:
        raise json_rpc.RpcError(json_rpc.INVALID_PARAMS, f"{doing}{error}") from None
    except NotFound:
        raise json_rpc.RpcError(json_rpc.INVALID_PARAMS, f"Assistant '{assistant_id}' not found") from None
    if assistant.graph_id not in here.graphs.names():
        raise json_rpc.RpcError(json_rpc.INTERNAL_ERROR, f"Graph '{assistant.graph_id[:200]}' is not served any more")
    return assistant
