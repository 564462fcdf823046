"""Endpoints of the thread protocol: commands, and a thread's events as a stream (langgraph_api.md section 7)."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from jsonschema_rs import is_valid
from starlette.requests import Request
from starlette.responses import Response

from toolweave.api.errors import status_of
from toolweave.api.langgraph.answers import EventStream, json_answer
from toolweave.api.langgraph.auth import rules
from toolweave.api.langgraph.components import COMPONENTS
from toolweave.api.langgraph.endpoints import SSE, Endpoints
from toolweave.api.langgraph.requests import checked_body, path_uuid, read_json
from toolweave.api.langgraph.run_requests import STATEFUL_RUN, check_run_fields, run_request
from toolweave.api.langgraph.services import ApiServices, get_services
from toolweave.api.langgraph.thread_states import require_start_checkpoint
from toolweave.errors import BadRequest, InvalidRequest, NotFound, ToolweaveError
from toolweave.runtime.codec import loads
from toolweave.runtime.events.channel import CHANNELS, PROTOCOL_MODES, EventFilter, is_channel
from toolweave.runtime.models import TERMINAL_STATUSES, JsonObject, NewRun, Run, StreamEvent
from toolweave.runtime.persistence.search import AuthFilter, current_filter, is_allowed

COMMANDS, EVENTS = "/threads/{thread_id}/commands", "/threads/{thread_id}/stream/events"
MALFORMED = "Protocol commands must include an integer id and string method."
NOT_JSON = "Protocol commands must be valid JSON."

endpoints = Endpoints("Thread Protocol", "disable_runs")
# Authorizes clients of the WebSocket on the path of the events; not published, as OpenAPI has no WebSockets.
sockets = Endpoints("Thread Protocol", "disable_runs")
MAX_FILTER_ENTRIES = 500
MAX_LISTED_ENTRIES = 10
MAX_SEQ = 2**63 - 1
ALLOWED_CHANNELS = f"{', '.join(CHANNELS)}, or any `custom:<name>`"
# Params that commands may set on a run.
START_FIELDS = ("assistant_id", "input", "config", "context", "metadata", "multitask_strategy", "langsmith_tracer")
RESPOND_FIELDS = ("config", "context", "metadata", "strict_resume")
COMMAND_FIELDS = ("update", "goto")
MAX_ACTIVE_RUNS = 1000
NO_RUN = "No active run is bound to this thread."


class CommandError(BadRequest):
    """A command cannot be executed; `code` is one of the protocol's error codes."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class ProtocolCommand:
    """One command of a client; the response has the same id."""

    id: int
    method: str
    params: JsonObject


def parse_command(value: object) -> ProtocolCommand | None:
    """Parse a decoded envelope {id, method, params?}; return None if it is invalid."""
    fields = value if isinstance(value, dict) else {}
    command_id, method, params = fields.get("id"), fields.get("method"), fields.get("params")
    if not isinstance(command_id, int) or isinstance(command_id, bool) or not isinstance(method, str):
        return None
    return ProtocolCommand(command_id, method, params if isinstance(params, dict) else {})


def success_response(command: ProtocolCommand, result: JsonObject) -> JsonObject:
    """Return the response to an executed command, on a connection without events yet."""
    return {"type": "success", "id": command.id, "result": result, "meta": {"applied_through_seq": 0}}


def malformed_response(value: object, message: str = MALFORMED) -> JsonObject:
    """Return the error response to a malformed command, with its id if it has one."""
    return error_response(value.get("id") if isinstance(value, dict) else None, "invalid_argument", message)


def command_error_response(command: ProtocolCommand, error: ToolweaveError) -> JsonObject:
    """Return the error response to a command; errors without a protocol code show their HTTP status."""
    if isinstance(error, CommandError):
        return error_response(command.id, error.code, str(error))
    return error_response(command.id, "unknown_error", f"{status_of(error)}: {error}")


def error_response(command_id: Any, code: str, message: str) -> JsonObject:
    """Return the envelope of an error."""
    return {"type": "error", "id": command_id, "error": code, "message": message}


def requested_channels(params: Mapping[str, Any]) -> list[Any] | None:
    """Return the requested channels; None if there is no list, or an empty one."""
    channels = params.get("channels")
    return channels if isinstance(channels, list) and channels else None


def unsupported_channels(channels: list[Any]) -> str | None:
    """Return a text with the entries that are not channels; None if all are."""
    wrong = [entry for entry in channels if not is_channel(entry)]
    if wrong:
        return ", ".join(str(entry)[:64] for entry in wrong[:MAX_LISTED_ENTRIES])
    return f"more than {MAX_FILTER_ENTRIES} of them" if len(channels) > MAX_FILTER_ENTRIES else None


def event_filter(params: Mapping[str, Any], channels: list[Any]) -> EventFilter:
    """Return the event filter; namespaces and depth of the wrong type are ignored, as in the reference server."""
    depth, namespaces = (_valid_param(params, name) for name in ("depth", "namespaces"))
    return EventFilter(frozenset(channels), tuple(map(tuple, (namespaces or ())[:MAX_FILTER_ENTRIES])), depth)


def parse_since(params: Mapping[str, Any]) -> int:
    """Return the sequence number after which events are requested; 0 means from the first stored one."""
    return min(int(_valid_param(params, "since") or 0), MAX_SEQ)


def _valid_param(params: Mapping[str, Any], name: str) -> Any:
    value = params.get(name)
    return value if is_valid(COMPONENTS["EventStreamRequest"]["properties"][name], value) else None


async def start_run(services: ApiServices, thread_id: str, params: JsonObject) -> JsonObject:
    """Execute `run.start`: create the run, and the thread if it is missing.

    On a thread that waits for input, an input resumes it, unless the run forks from a checkpoint.

    Raises:
        CommandError: no assistant is named, or the checkpoint does not exist.
        ToolweaveError: the run cannot be created.
    """
    if not isinstance(params.get("assistant_id"), str):
        raise CommandError("invalid_argument", "run.start requires an assistant_id.")
    fields = _select_fields(params, START_FIELDS)
    if params.get("multitaskStrategy") is not None:
        fields.setdefault("multitask_strategy", params["multitaskStrategy"])
    if "input" in fields and not _is_fork(fields) and await _is_waiting_for_input(services, thread_id):
        fields["command"] = {"resume": fields.pop("input")}
    new = await _build_run(services, thread_id, {**fields, "if_not_exists": "create"})
    return {"run_id": (await services.engine.start_run(new)).run.run_id}


async def respond_to_input(services: ApiServices, thread_id: str, params: JsonObject) -> JsonObject:
    """Execute `input.respond`: resume one or several interrupts, each of them once.

    Raises:
        CommandError: no interrupt is named, it is not pending, or the thread has no run.
        ToolweaveError: the run cannot be created.
    """
    answers = _parse_responses(params)
    # One at a time, so that a second answer to the same interrupt finds the run of the first one.
    async with services.engine.exclusive(f"resume:{thread_id}"):
        newest = await _newest_run(services, thread_id)
        await _require_pending(services, thread_id, answers)
        command = {"resume": answers, **_select_fields(params, COMMAND_FIELDS)}
        fields = {**_select_fields(params, RESPOND_FIELDS), "assistant_id": newest.assistant_id, "command": command}
        await services.engine.start_run(await _build_run(services, thread_id, fields))
    return {}


async def _build_run(services: ApiServices, thread_id: str, values: JsonObject) -> NewRun:
    fields = {name: item for name, item in values.items() if item is not None}
    STATEFUL_RUN.check(fields)
    body = checked_body(fields, STATEFUL_RUN)
    check_run_fields(body, stateless=False)
    assistant = await services.find_assistant(fields["assistant_id"])
    new = (await run_request(services, body, assistant, thread_id)).new_run
    try:
        await require_start_checkpoint(services, new)
    except NotFound as error:
        raise CommandError("no_such_checkpoint", str(error)) from None
    streaming = {"stream_mode": list(PROTOCOL_MODES), "subgraphs": True, "resumable": True}
    return replace(new, kwargs={**new.kwargs, **streaming})


def _select_fields(params: JsonObject, names: Sequence[str]) -> JsonObject:
    return {name: params[name] for name in names if params.get(name) is not None}


def _is_fork(fields: Mapping[str, Any]) -> bool:
    config = fields.get("config")
    configurable = config.get("configurable") if isinstance(config, dict) else None
    return isinstance(configurable, dict) and bool(configurable.get("checkpoint_id"))


async def _is_waiting_for_input(services: ApiServices, thread_id: str) -> bool:
    # Check the announcement before the row: a client may answer the event before the thread's row is written.
    if await services.engine.is_waiting_for_input(thread_id):
        return True
    try:
        thread = await services.persistence.threads.get(thread_id)
    except NotFound:
        return False
    return thread.status == "interrupted" and bool(thread.interrupts)


def _parse_responses(params: JsonObject) -> JsonObject:
    responses = params.get("responses")
    entries: Sequence[Any] = responses if isinstance(responses, list) else (params,)
    if not entries:
        raise CommandError("invalid_argument", "input.respond requires at least one response.")
    answers: JsonObject = {}
    for entry in entries:
        interrupt_id = entry.get("interrupt_id") if isinstance(entry, dict) else None
        if not isinstance(interrupt_id, str) or not interrupt_id:
            raise CommandError("invalid_argument", "input.respond requires an interrupt_id.")
        if not isinstance(entry.get("namespace"), list | None):
            raise CommandError("invalid_argument", "The namespace of an interrupt is a list.")
        answers[interrupt_id] = entry.get("response")
    return answers


async def _newest_run(services: ApiServices, thread_id: str) -> Run:
    try:
        found = await services.persistence.runs.list(thread_id, limit=1)
    except NotFound:
        found = []
    if not found:
        raise CommandError("no_such_run", "No interrupted run is bound to this thread.")
    return found[0]


async def _require_pending(services: ApiServices, thread_id: str, answers: JsonObject) -> None:
    """Reject answers to interrupts that are not pending, or that an active run already answers."""
    # In this order, since runs continue meanwhile: the interrupts and answers of a finished run are in the thread.
    asking = {each: await services.engine.find_interrupted_run(thread_id, each) for each in answers}
    runs = await services.persistence.runs.list(thread_id, limit=MAX_ACTIVE_RUNS)
    active = [run for run in runs if run.status not in TERMINAL_STATUSES]
    waiting = (await services.persistence.threads.get(thread_id)).interrupts or {}
    pending = {interrupt["id"] for interrupts in waiting.values() for interrupt in interrupts}
    for interrupt_id, asker in asking.items():
        answered = any(interrupt_id in _resume_answers(run) for run in active if run.run_id != asker)
        if answered or (asker is None and interrupt_id not in pending):
            raise CommandError("no_such_interrupt", f"Unknown or already-consumed interrupt: {interrupt_id[:200]}")


def _resume_answers(run: Run) -> Mapping[str, Any]:
    resume = (run.kwargs.get("command") or {}).get("resume")
    return resume if isinstance(resume, dict) else {}


async def _execute_command(request: Request, command: ProtocolCommand) -> JsonObject:
    """Execute a command and return its result; by HTTP a subscription has no connection for its events.

    Raises:
        CommandError: the command is unknown, or cannot be executed.
        ToolweaveError: the runtime refuses it.
    """
    match command.method:
        case "subscription.subscribe":
            require_channels(command)
            return {"subscription_id": str(uuid4()), "replayed_events": 0}
        case "subscription.unsubscribe":
            raise CommandError("no_such_subscription", f"Unknown subscription: {subscription_id(command)[:200]}")
        case "subscription.reconnect":
            raise CommandError("no_such_run", NO_RUN)
    services, thread_id = get_services(request), path_uuid(request, "thread")
    match command.method:
        case "run.start":
            return await start_run(services, thread_id, command.params)
        case "input.respond":
            return await respond_to_input(services, thread_id, command.params)
        case "agent.getTree":
            return await _get_agent_tree(services, thread_id, command.params)
    raise CommandError("unknown_command", f"Unknown protocol command: {command.method[:200]}")


def require_channels(command: ProtocolCommand) -> list[str]:
    """Return the channels of a subscription. Raises CommandError if it has none, or invalid ones."""
    channels = requested_channels(command.params)
    if channels is None:
        raise CommandError("invalid_argument", f"{command.method} requires a non-empty channels array.")
    if unsupported_channels(channels) is not None:
        raise CommandError("invalid_argument", f"{command.method} received an unsupported channel.")
    return channels


def subscription_id(command: ProtocolCommand) -> str:
    """Return the id of the command's subscription. Raises CommandError if it is missing."""
    value = command.params.get("subscription_id")
    if not isinstance(value, str):
        raise CommandError("invalid_argument", f"{command.method} requires a subscription_id.")
    return value


async def _get_agent_tree(services: ApiServices, thread_id: str, params: JsonObject) -> JsonObject:
    run_id = params.get("run_id")
    events = await services.engine.runtime.publishers.log.lifecycle(
        thread_id, run_id if isinstance(run_id, str) else None
    )
    tree = _build_agent_tree(events)
    if tree is None:
        raise CommandError("no_such_run", NO_RUN)
    return {"tree": tree}


def _build_agent_tree(events: Sequence[StreamEvent]) -> JsonObject | None:
    """Return the tree of a run's graphs, {namespace, status, graph_name, children?}; None without events."""
    nodes: dict[tuple[str, ...], JsonObject] = {}
    for event in events:
        data = loads(event.data)["params"]["data"]
        node = nodes.setdefault(event.namespace, {"namespace": list(event.namespace), "status": "", "graph_name": ""})
        node |= {"status": data["event"], "graph_name": data.get("graph_name") or node["graph_name"]}
    for namespace, node in nodes.items():
        parent = nodes.get(namespace[:-1]) if namespace else None
        if parent is not None:
            parent.setdefault("children", []).append(node)
    return nodes.get(())


@endpoints(
    f"POST {COMMANDS}",
    rules.send_command,
    "ProtocolCommand",
    "ProtocolAnswer",
    read=False,
    errors=(400,),
    error_answers={400: "ProtocolRefusal"},
)
async def post_command(request: Request) -> Response:
    """Send a protocol command.

    Errors have status 200, too; only a malformed command has 400.
    """
    value = await _read_json(request)
    command = parse_command(value)
    if command is None:
        return json_answer(malformed_response(value), status=400)
    try:
        return json_answer(success_response(command, await _execute_command(request, command)))
    except ToolweaveError as error:
        return json_answer(command_error_response(command, error))


@endpoints(f"POST {EVENTS}", rules.read_events, "EventStreamRequest", read=False, media_type=SSE, errors=(400, 422))
async def stream_events(request: Request) -> EventStream:
    """Stream a thread's protocol events.

    Send events from the first stored one, or after `since`, until the thread is deleted. The thread need not exist yet:
    clients subscribe first and then start the run that creates it.
    """
    thread_id = path_uuid(request, "thread")
    value = await _read_json(request)
    params = value if isinstance(value, dict) else {}
    channels = requested_channels(params)
    if channels is None:
        raise BadRequest("channels is required and must be a non-empty array")
    unsupported = unsupported_channels(channels)
    if unsupported is not None:
        raise BadRequest(f"channels contains unsupported entries: {unsupported}. Allowed: {ALLOWED_CHANNELS}.")
    log = get_services(request).engine.runtime.publishers.log
    batches = log.replay(thread_id, event_filter(params, channels), parse_since(params))
    # The response starts when the stream misses nothing.
    await anext(batches)
    access = current_filter("threads")
    return EventStream(batches if access is None else _visible(access, get_services(request), thread_id, batches), {})


async def _visible(
    access: AuthFilter, services: ApiServices, thread_id: str, batches: AsyncGenerator[list[StreamEvent]]
) -> AsyncGenerator[list[StreamEvent]]:
    """Yield a thread's events if the access filter allows it; the thread may be created after the subscription."""
    async with aclosing(batches):
        is_visible = False
        async for batch in batches:
            is_visible = is_visible or await _is_visible(access, services, thread_id)
            if not is_visible:
                return
            yield batch


async def _is_visible(access: AuthFilter, services: ApiServices, thread_id: str) -> bool:
    try:
        return is_allowed(access, (await services.persistence.threads.get(thread_id)).metadata)
    except NotFound:
        return False


@sockets(f"GET {EVENTS}", rules.read_events, read=False, status=101)
async def authorize_websocket(_request: Request) -> Response:
    """Return 204: the rule of this endpoint has authorized the WebSocket client before."""
    return Response(None, 204)


async def _read_json(request: Request) -> Any:
    try:
        return await read_json(request)
    except InvalidRequest as error:
        raise BadRequest("Invalid JSON body" if str(error).startswith("Invalid JSON") else str(error)) from None
