"""A2A endpoints: assistants as agents, and their agent cards (langgraph_api.md section 8)."""

from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from toolweave.api.langgraph import json_rpc
from toolweave.api.langgraph.answers import EventStream, KeepAliveJson, json_answer
from toolweave.api.langgraph.auth import rules
from toolweave.api.langgraph.auth.authorization import AuthRequest, parse_id
from toolweave.api.langgraph.endpoints import Endpoints
from toolweave.api.langgraph.graph_description import input_schema
from toolweave.api.langgraph.json_schema import STRING, one_of
from toolweave.api.langgraph.requests import QueryParam, checked_body, is_uuid, parse_uuid
from toolweave.api.langgraph.routes import a2a_tasks as tasks
from toolweave.api.langgraph.routes.system import API_VERSION
from toolweave.api.langgraph.run_requests import STATEFUL_RUN, run_request
from toolweave.api.langgraph.services import ApiServices, get_services
from toolweave.errors import InvalidRequest, NotFound, RequestError
from toolweave.runtime.codec import loads
from toolweave.runtime.models import Assistant, JsonObject, StreamEvent
from toolweave.runtime.runs.engine import StartedRun

CONTENT_TYPES = ["application/json", "text/plain"]
HISTORY_SCOPE_HEADER = "LangGraph-A2A-History-Scope"
HISTORY_SCOPES = ("context", "task")
HISTORY_SCOPE_EXTENSION: JsonObject = {
    "uri": "https://langchain.com/a2a/extensions/history-scope/v1",
    "description": "Choose task-only or full-context response history",
    "required": False,
    "params": {
        "header": HISTORY_SCOPE_HEADER,
        "values": list(HISTORY_SCOPES),
        "default": HISTORY_SCOPES[0],
        "methods": ["SendMessage", "GetTask", "ListTasks"],
    },
}

STREAM_NOT_ACCEPTED = "Accept header must include text/event-stream for streaming"
TASK_OPERATIONS = {"get": tasks.get_task, "cancel": tasks.cancel_task, "list": tasks.list_tasks}

endpoints = Endpoints("A2A", "disable_a2a")
_ERRORS = {400: "PlainError"}
_SCOPE_PARAM = QueryParam(HISTORY_SCOPE_HEADER, one_of(*HISTORY_SCOPES), "header")


def agent_card(assistant: Assistant, schema: JsonObject, *, base_url: str, version: str) -> JsonObject:
    """Return the agent card; `schema` is the graph's input schema, `base_url` this server's URL in the request."""
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
            **dict.fromkeys(("pushNotifications", "stateTransitionHistory"), False),
            "extensions": [HISTORY_SCOPE_EXTENSION],
        },
        **dict.fromkeys(("defaultInputModes", "defaultOutputModes"), CONTENT_TYPES),
        "skills": [
            {
                "id": f"{assistant.assistant_id}-main",
                "name": f"{assistant.name} Capabilities",
                "description": description,
                "tags": ["assistant", "langgraph"],
                "examples": [],
                **dict.fromkeys(("inputModes", "outputModes"), CONTENT_TYPES),
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


UNSUPPORTED_OPERATION = -32004
MESSAGE_EVENTS = ("messages/partial", "messages/complete")


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message from a client, its task and the run that it started."""

    call: tasks.AgentCall
    ref: tasks.TaskRef
    first_message_id: str | None
    started_run: StartedRun

    async def wait_for_task(self) -> bytes:
        """Wait for the run; return the encoded task with its final state."""
        state, values, text = await self.wait_for_outcome()
        interrupts = _pending_interrupts(values)
        return self._encode_task(self.call.task(self.ref, self.first_message_id, state, values, interrupts, text=text))

    def submitted_task(self) -> bytes:
        """Return the encoded task in the state `submitted`."""
        message = self.call.params.fields["message"]
        history = self.ref.message(message["parts"], message["messageId"], user=_is_from_user(message))
        return self._encode_task(self.ref.task(self.ref.status("submitted"), [history]))

    async def stream_updates(self) -> AsyncGenerator[Sequence[StreamEvent]]:
        """Yield the stream's events: the task, its messages as they grow, its artifacts, and its final status."""
        yield _stream_event(self.submitted_task())
        assert self.started_run.events is not None  # noqa: S101 - started with listen
        async with aclosing(self.started_run.events.batches()) as batches:
            async for parts in stream_message_parts(batches):
                status = {**self.ref.status("working"), "message": self.ref.message(parts)}
                yield self._encode_update("status", status=status, final=False)
        state, values, text = await self.wait_for_outcome()
        for artifact in self.call.artifacts(state, values, _pending_interrupts(values)):
            yield self._encode_update("artifact", artifact=artifact, append=False, lastChunk=True)
        yield self._encode_update("status", status=self.ref.status(state, text), final=True)

    async def wait_for_outcome(self) -> tuple[tasks.TaskState, Any, str | None]:
        """Wait for the run; return the task's state, the graph's values, and a status text."""
        try:
            values = loads(await self.started_run.result())
        except NotFound:
            return "canceled", None, tasks.CANCELED_TEXT
        if isinstance(values, dict) and isinstance(error := values.get("__error__"), dict):
            return "failed", None, f"Error executing assistant: {error.get('error')}: {error.get('message')}"
        run = await self.call.services.persistence.runs.find(self.started_run.run.run_id)
        if run is None or run.status == "interrupted":
            return "canceled", None, tasks.CANCELED_TEXT
        return "input-required" if _pending_interrupts(values) else "completed", values, None

    def _encode_task(self, task: JsonObject) -> bytes:
        """Encode a task; revision 1.0 wraps it in `{"task": …}`."""
        return self.call.encode_result({"task": task} if self.call.is_v1 else task)

    def _encode_update(self, kind: str, **fields: object) -> Sequence[StreamEvent]:
        return _stream_event(self.call.encode_result({**self.ref.id_fields(), "kind": f"{kind}-update", **fields}))


async def send_message(call: tasks.AgentCall, *, listen: bool) -> SentMessage:
    """Start the run of a message.

    Raises:
        RpcError: a part is neither text nor data, or the task is unknown or has ended.
        InvalidRequest: the graph's input has no messages, or the context is not the task's.
    """
    message = call.params.fields["message"]
    text, data = tasks.parse_parts(message["parts"])
    task = await _find_open_task(call, message)
    fields: JsonObject = {"assistant_id": call.assistant.assistant_id, "if_not_exists": "create"}
    if listen:
        fields["stream_mode"] = ["messages"]
    if task is not None and task.interrupts:
        # The task waits for input: the message resumes it.
        fields["command"] = {"resume": text if data is None else data}
    else:
        fields["input"] = data or {}
        if text is not None:
            await _require_text_input(call)
            entry = {"role": "human" if _is_from_user(message) else "ai", "content": text, "id": message["messageId"]}
            fields["input"] = {"messages": [entry], **fields["input"]}
    context_id = task.ref.context_id if task is not None else message.get("contextId") or str(uuid4())
    task_marks = {"message_id": message["messageId"], **({} if task is None else {"task_id": task.ref.task_id})}
    fields["metadata"] = {"a2a": task_marks}
    body, thread_id = checked_body(fields, STATEFUL_RUN), parse_uuid(context_id, "thread")
    new = (await run_request(call.services, body, call.assistant, thread_id)).new_run
    ref = tasks.TaskRef(call.is_v1, new.thread_id, new.run_id) if task is None else task.ref
    first_message_id = message["messageId"] if task is None else task.first_message_id
    return SentMessage(
        call, ref, first_message_id, await call.services.engine.start_run(new, listen=listen, awaited=True)
    )


async def stream_message_parts(batches: AsyncIterable[Sequence[StreamEvent]]) -> AsyncGenerator[list[JsonObject]]:
    """Yield the parts that each message has so far, whenever it grows."""
    async for batch in batches:
        for event in batch:
            for message in loads(event.data) if event.event in MESSAGE_EVENTS else ():
                if message.get("type") != "human" and (parts := tasks.message_parts(message)):
                    yield parts


def _stream_event(answer: bytes) -> Sequence[StreamEvent]:
    return (StreamEvent(0, "message", answer, None),)


def _pending_interrupts(values: Any) -> Sequence[JsonObject]:
    return values.get("__interrupt__", ()) if isinstance(values, dict) else ()


def _is_from_user(message: JsonObject) -> bool:
    return message["role"] in ("user", "ROLE_USER")


async def _require_text_input(call: tasks.AgentCall) -> None:
    fields = (await input_schema(call.services, call.assistant.graph_id) or {}).get("properties", {})
    if "messages" not in fields:
        raise InvalidRequest(
            f"The graph {call.assistant.graph_id} takes no text: its input must include a 'messages' field. "
            f"It has: {', '.join(fields)}."
        )


async def _find_open_task(call: tasks.AgentCall, message: JsonObject) -> tasks.Task | None:
    if not message.get("taskId"):
        return None
    task = await tasks.find_task(call, message["taskId"])
    if message.get("contextId") not in (None, "", task.ref.context_id):
        raise InvalidRequest("contextId does not match the task's context")
    if task.state in tasks.TERMINAL_STATES:
        raise json_rpc.RpcError(UNSUPPORTED_OPERATION, "A terminal task cannot accept another message")
    return task


async def permit_message(auth: AuthRequest) -> None:
    """Require assistants.read; threads.create_run for a message; threads.read, update or search for tasks."""
    await rules.read_assistant(auth)
    thread_ids = await rules.permit_named_threads(auth, "read")
    operation, _ = tasks.METHODS.get(str(auth.fields.get("method")), (None, None))
    if operation in ("send", "stream"):
        fields: JsonObject = {"assistant_id": auth.request.path_params["assistant_id"]}
        # Permission to read a thread does not include permission to run on it.
        threads: list[str | None] = []
        for known_id in thread_ids:
            with suppress(NotFound):
                threads.append((await auth.services.persistence.threads.get(known_id)).thread_id)
        for thread_id in threads or [None]:
            await rules.permit_run(auth, fields, thread_id)
        auth.run_metadata = fields.get("metadata") or {}
    elif operation == "cancel":
        await rules.permit_named_threads(auth, "update")
    elif operation == "list":
        auth.filters["threads"] = await auth.permit("threads", "search", {"metadata": {}})


async def permit_card(auth: AuthRequest) -> None:
    """Require assistants.read."""
    assistant_id = auth.request.path_params.get("assistant_id") or auth.request.query_params.get("assistant_id")
    await auth.permit_row("assistants", "read", parse_id(assistant_id))


card_at = partial(endpoints, rule=permit_card, answer="AgentCard", read=False, errors=(400,), error_answers=_ERRORS)


@endpoints(
    "POST /a2a/{assistant_id}",
    permit_message,
    "JsonRpcMessage",
    "JsonRpcAnswer",
    read=False,
    errors=(202, 400),
    query=(_SCOPE_PARAM,),
    error_answers=_ERRORS,
)
async def handle_message(request: Request) -> ASGIApp:
    """Send a message to an assistant, or query a task.

    The body is one JSON-RPC message; errors are JSON-RPC errors with status 200.
    """
    request_id: json_rpc.RequestId = None
    try:
        received = await json_rpc.read_message(request)
        request_id = json_rpc.parse_request_id(received)
        json_rpc.require_version(received)
        if "method" not in received and ("result" in received or "error" in received):
            return Response(None, 202)
        return await _dispatch(request, request_id, received)
    except RequestError as error:
        # JSON-RPC errors, and errors of the run's thread, assistant or graph.
        return json_rpc.error_answer(request_id, error)


@card_at("GET /.well-known/agent-card.json", query=(QueryParam("assistant_id", STRING),))
@card_at("GET /a2a/{assistant_id}/.well-known/agent-card.json")
@card_at("GET /a2a/{assistant_id}")
async def get_card(request: Request) -> Response:
    """Describe an agent.

    Errors are JSON-RPC errors with status 400.
    """
    assistant_id = request.path_params.get("assistant_id") or request.query_params.get("assistant_id")
    services = get_services(request)
    try:
        if not assistant_id:
            raise InvalidRequest("Missing required query parameter: assistant_id")
        if not is_uuid(assistant_id):
            reason = f"Failed to get assistant '{assistant_id[:200]}'"
            raise InvalidRequest(f"{reason}: Invalid assistant ID: must be a UUID")
        assistant = await _find_assistant(services, assistant_id)
    except RequestError as error:
        return json_answer({"error": {"code": json_rpc.INVALID_PARAMS, "message": str(error)}}, status=400)
    schema = await input_schema(services, assistant.graph_id) or {}
    return json_answer(agent_card(assistant, schema, base_url=str(request.base_url), version=API_VERSION))


async def _dispatch(request: Request, request_id: json_rpc.RequestId, received: JsonObject) -> ASGIApp:
    if received.get("method") is None:
        raise json_rpc.RpcError(json_rpc.INVALID_REQUEST, "Invalid JSON-RPC request: missing 'method' field")
    method = str(received["method"])
    if method not in tasks.METHODS:
        raise json_rpc.RpcError(json_rpc.METHOD_NOT_FOUND, f"Method not found: {method[:200]}")
    operation, is_v1 = tasks.METHODS[method]
    params, schema = json_rpc.params_of(received), tasks.PARAMS_SCHEMAS[operation]
    schema.check(params)
    accepted = request.headers.get("accept", "*/*")
    if operation == "stream" and "text/event-stream" not in accepted and "*/*" not in accepted:
        return json_answer({"error": STREAM_NOT_ACCEPTED}, status=400)
    scope = request.headers.get(HISTORY_SCOPE_HEADER, HISTORY_SCOPES[0])
    if scope not in HISTORY_SCOPES:
        raise InvalidRequest("historyScope must be 'context' or 'task'")
    services = get_services(request)
    assistant = await _find_assistant(services, request.path_params["assistant_id"])
    call = tasks.AgentCall(services, assistant, request_id, is_v1, checked_body(params, schema), scope == "task")
    if operation in TASK_OPERATIONS:
        return json_rpc.rpc_answer(call.encode_result(await TASK_OPERATIONS[operation](call)))
    sent = await send_message(call, listen=operation == "stream")
    if operation == "stream":
        return EventStream(sent.stream_updates(), {})
    configuration = call.params.get("configuration", {})
    if configuration.get("blocking") is False or configuration.get("returnImmediately") is True:
        return json_rpc.rpc_answer(sent.submitted_task())
    return KeepAliveJson(sent.wait_for_task(), {})


async def _find_assistant(services: ApiServices, assistant_id: str) -> Assistant:
    try:
        assistant = await services.persistence.assistants.get(parse_uuid(assistant_id, "assistant"))
    except NotFound:
        raise NotFound(f"Assistant '{assistant_id}' not found") from None
    services.require_graph(assistant.graph_id)
    return assistant
