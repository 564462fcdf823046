"""Endpoints of the newer protocol: commands, and a thread's events as a stream (langgraph_api.md section 7)."""

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
from toolweave.runtime.persistence.search import MetadataFilter, current_filter, is_allowed

COMMANDS, EVENTS = "/threads/{thread_id}/commands", "/threads/{thread_id}/stream/events"
MALFORMED = "Protocol commands must include an integer id and string method."
NOT_JSON = "Protocol commands must be valid JSON."

endpoints = Endpoints("Thread Protocol", "disable_runs")
# Lets clients in to the WebSocket on the path of the events; not published, as OpenAPI knows no WebSockets.
sockets = Endpoints("Thread Protocol", "disable_runs")
MOST_ENTRIES = 500
SHOWN_ENTRIES = 10
LARGEST_SEQ = 2**63 - 1
ALLOWED = f"{', '.join(CHANNELS)}, or any `custom:<name>`"
# What a client may say of a run beside its input.
START_FIELDS = ("assistant_id", "input", "config", "context", "metadata", "multitask_strategy", "langsmith_tracer")
RESPOND_FIELDS = ("config", "context", "metadata", "strict_resume")
COMMAND_FIELDS = ("update", "goto")
ACTIVE_RUNS_SHOWN = 1000
NO_RUN = "No active run is bound to this thread."


class RefusedCommand(BadRequest):
    """A command that is not carried out; its code is one of the protocol's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class ProtocolCommand:
    """One command of a client; it knows the answer by the id."""

    id: int
    method: str
    params: JsonObject


def read_command(value: object) -> ProtocolCommand | None:
    """Read a decoded envelope {id, method, params?}; None when it is none."""
    given = value if isinstance(value, dict) else {}
    number, method, params = given.get("id"), given.get("method"), given.get("params")
    if not isinstance(number, int) or isinstance(number, bool) or not isinstance(method, str):
        return None
    return ProtocolCommand(number, method, params if isinstance(params, dict) else {})


def success(command: ProtocolCommand, result: JsonObject) -> JsonObject:
    """Answer a command that was carried out, before its connection has been sent an event."""
    return {"type": "success", "id": command.id, "result": result, "meta": {"applied_through_seq": 0}}


def malformed(value: object, message: str = MALFORMED) -> JsonObject:
    """Refuse what is no command, under the id that it has, if any."""
    return refusal(value.get("id") if isinstance(value, dict) else None, "invalid_argument", message)


def refused(command: ProtocolCommand, error: ToolweaveError) -> JsonObject:
    """Refuse a command; errors that the protocol has no code for show their HTTP status."""
    if isinstance(error, RefusedCommand):
        return refusal(command.id, error.code, str(error))
    return refusal(command.id, "unknown_error", f"{status_of(error)}: {error}")


def refusal(command_id: Any, code: str, message: str) -> JsonObject:
    """Give the envelope of an error."""
    return {"type": "error", "id": command_id, "error": code, "message": message}


def listed_channels(params: Mapping[str, Any]) -> list[Any] | None:
    """Give the channels that are asked for; None when there is no list of them, or an empty one."""
    channels = params.get("channels")
    return channels if isinstance(channels, list) and channels else None


def unsupported(channels: list[Any]) -> str | None:
    """Name the entries that are no channels; None when all are."""
    wrong = [entry for entry in channels if not is_channel(entry)]
    if wrong:
        return ", ".join(str(entry)[:64] for entry in wrong[:SHOWN_ENTRIES])
    return f"more than {MOST_ENTRIES} of them" if len(channels) > MOST_ENTRIES else None


def event_filter(params: Mapping[str, Any], channels: list[Any]) -> EventFilter:
    """Build the filter; namespaces and a depth of another shape count as not given, as in the reference server."""
    depth, namespaces = (_fitting(params, name) for name in ("depth", "namespaces"))
    return EventFilter(frozenset(channels), tuple(map(tuple, (namespaces or ())[:MOST_ENTRIES])), depth)


def since(params: Mapping[str, Any]) -> int:
    """Give the number after which events are wanted; 0 is from the first one kept."""
    return min(int(_fitting(params, "since") or 0), LARGEST_SEQ)


def _fitting(params: Mapping[str, Any], name: str) -> Any:
    given = params.get(name)
    return given if is_valid(COMPONENTS["EventStreamRequest"]["properties"][name], given) else None


async def start_run(services: ApiServices, thread_id: str, params: JsonObject) -> JsonObject:
    """Carry out `run.start`: create the run, and the thread when it is missing.

    On a thread that waits for a human, an input is the answer, unless the run forks from a checkpoint.

    Raises:
        RefusedCommand: no assistant is named, or the checkpoint does not exist.
        ToolweaveError: what creating the run refuses.
    """
    if not isinstance(params.get("assistant_id"), str):
        raise RefusedCommand("invalid_argument", "run.start requires an assistant_id.")
    fields = _given(params, START_FIELDS)
    if params.get("multitaskStrategy") is not None:
        fields.setdefault("multitask_strategy", params["multitaskStrategy"])
    if "input" in fields and not _forks(fields) and await _is_asked(services, thread_id):
        fields["command"] = {"resume": fields.pop("input")}
    new = await _new_run(services, thread_id, {**fields, "if_not_exists": "create"})
    return {"run_id": (await services.engine.start_run(new)).run.run_id}


async def respond(services: ApiServices, thread_id: str, params: JsonObject) -> JsonObject:
    """Carry out `input.respond`: resume with the answers to one or several questions, each answered once.

    Raises:
        RefusedCommand: no question is named, nobody waits for an answer to it, or the thread has no run.
        ToolweaveError: what creating the run refuses.
    """
    answers = _answers(params)
    # One at a time, so that the run with the first answer is seen by whoever brings a second one.
    async with services.engine.runtime.publishers.resume_lock:
        newest = await _newest_run(services, thread_id)
        await _require_waiting(services, thread_id, answers)
        command = {"resume": answers, **_given(params, COMMAND_FIELDS)}
        fields = {**_given(params, RESPOND_FIELDS), "assistant_id": newest.assistant_id, "command": command}
        await services.engine.start_run(await _new_run(services, thread_id, fields))
    return {}


async def _new_run(services: ApiServices, thread_id: str, given: JsonObject) -> NewRun:
    fields = {name: item for name, item in given.items() if item is not None}
    STATEFUL_RUN.check(fields)
    body = checked_body(fields, STATEFUL_RUN)
    check_run_fields(body, stateless=False)
    assistant = await services.find_assistant(fields["assistant_id"])
    new = run_request(services, body, assistant, thread_id).new_run
    try:
        await require_start_checkpoint(services, new)
    except NotFound as error:
        raise RefusedCommand("no_such_checkpoint", str(error)) from None
    shown = {"stream_mode": list(PROTOCOL_MODES), "subgraphs": True, "resumable": True}
    return replace(new, kwargs={**new.kwargs, **shown})


def _given(params: JsonObject, names: Sequence[str]) -> JsonObject:
    return {name: params[name] for name in names if params.get(name) is not None}


def _forks(fields: Mapping[str, Any]) -> bool:
    config = fields.get("config")
    configurable = config.get("configurable") if isinstance(config, dict) else None
    return isinstance(configurable, dict) and bool(configurable.get("checkpoint_id"))


async def _is_asked(services: ApiServices, thread_id: str) -> bool:
    # The announcement before the row: a client answers as soon as it is asked, which is before the thread says so.
    if services.engine.runtime.publishers.is_waiting_for_input(thread_id):
        return True
    try:
        thread = await services.persistence.threads.get(thread_id)
    except NotFound:
        return False
    return thread.status == "interrupted" and bool(thread.interrupts)


def _answers(params: JsonObject) -> JsonObject:
    responses = params.get("responses")
    entries: Sequence[Any] = responses if isinstance(responses, list) else (params,)
    if not entries:
        raise RefusedCommand("invalid_argument", "input.respond requires at least one response.")
    answers: JsonObject = {}
    for entry in entries:
        interrupt_id = entry.get("interrupt_id") if isinstance(entry, dict) else None
        if not isinstance(interrupt_id, str) or not interrupt_id:
            raise RefusedCommand("invalid_argument", "input.respond requires an interrupt_id.")
        if not isinstance(entry.get("namespace"), list | None):
            raise RefusedCommand("invalid_argument", "The namespace of an interrupt is a list.")
        answers[interrupt_id] = entry.get("response")
    return answers


async def _newest_run(services: ApiServices, thread_id: str) -> Run:
    try:
        found = await services.persistence.runs.list(thread_id, limit=1)
    except NotFound:
        found = []
    if not found:
        raise RefusedCommand("no_such_run", "No interrupted run is bound to this thread.")
    return found[0]


async def _require_waiting(services: ApiServices, thread_id: str, answers: JsonObject) -> None:
    """Refuse answers to questions that nobody asks, or that a run on its way to them answers already."""
    # In this order, since runs go on meanwhile: what a run that has ended has asked, or answered, is in the thread.
    asking = {number: services.engine.runtime.publishers.find_interrupted_run(thread_id, number) for number in answers}
    runs = await services.persistence.runs.list(thread_id, limit=ACTIVE_RUNS_SHOWN)
    active = [run for run in runs if run.status not in TERMINAL_STATUSES]
    waiting = (await services.persistence.threads.get(thread_id)).interrupts or {}
    questions = {question["id"] for asked in waiting.values() for question in asked}
    for number, asker in asking.items():
        answered = any(number in _answered_by(run) for run in active if run.run_id != asker)
        if answered or (asker is None and number not in questions):
            raise RefusedCommand("no_such_interrupt", f"Unknown or already-consumed interrupt: {number[:200]}")


def _answered_by(run: Run) -> Mapping[str, Any]:
    resume = (run.kwargs.get("command") or {}).get("resume")
    return resume if isinstance(resume, dict) else {}


async def _carry_out(request: Request, command: ProtocolCommand) -> JsonObject:
    """Do what a command says and give its result; one about subscriptions has no connection to send events to.

    Raises:
        RefusedCommand: there is no such command, or it cannot be carried out.
        ToolweaveError: what the runtime refuses.
    """
    match command.method:
        case "subscription.subscribe":
            checked_channels(command)
            return {"subscription_id": str(uuid4()), "replayed_events": 0}
        case "subscription.unsubscribe":
            raise RefusedCommand("no_such_subscription", f"Unknown subscription: {subscription_id(command)[:200]}")
        case "subscription.reconnect":
            raise RefusedCommand("no_such_run", NO_RUN)
    services, thread_id = get_services(request), path_uuid(request, "thread")
    match command.method:
        case "run.start":
            return await start_run(services, thread_id, command.params)
        case "input.respond":
            return await respond(services, thread_id, command.params)
        case "agent.getTree":
            return await _tree(services, thread_id, command.params)
    raise RefusedCommand("unknown_command", f"Unknown protocol command: {command.method[:200]}")


def checked_channels(command: ProtocolCommand) -> list[str]:
    """Give the channels a subscription asks for. Raises RefusedCommand when it names none, or others."""
    channels = listed_channels(command.params)
    if channels is None:
        raise RefusedCommand("invalid_argument", f"{command.method} requires a non-empty channels array.")
    if unsupported(channels) is not None:
        raise RefusedCommand("invalid_argument", f"{command.method} received an unsupported channel.")
    return channels


def subscription_id(command: ProtocolCommand) -> str:
    """Give the subscription that is meant. Raises RefusedCommand when none is named."""
    given = command.params.get("subscription_id")
    if not isinstance(given, str):
        raise RefusedCommand("invalid_argument", f"{command.method} requires a subscription_id.")
    return given


async def _tree(services: ApiServices, thread_id: str, params: JsonObject) -> JsonObject:
    run_id = params.get("run_id")
    told = await services.engine.runtime.publishers.log.lifecycle(
        thread_id, run_id if isinstance(run_id, str) else None
    )
    tree = _agent_tree(told)
    if tree is None:
        raise RefusedCommand("no_such_run", NO_RUN)
    return {"tree": tree}


def _agent_tree(events: Sequence[StreamEvent]) -> JsonObject | None:
    """Return the graphs that a run has run: {namespace, status, graph_name, children?}; None without events."""
    nodes: dict[tuple[str, ...], JsonObject] = {}
    for event in events:
        told = loads(event.data)["params"]["data"]
        node = nodes.setdefault(event.namespace, {"namespace": list(event.namespace), "status": "", "graph_name": ""})
        node |= {"status": told["event"], "graph_name": told.get("graph_name") or node["graph_name"]}
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
async def command(request: Request) -> Response:
    """Send a protocol command.

    Refusals are 200 as well; only what is no command at all is 400.
    """
    value = await _json(request)
    given = read_command(value)
    if given is None:
        return json_answer(malformed(value), status=400)
    try:
        return json_answer(success(given, await _carry_out(request, given)))
    except ToolweaveError as error:
        return json_answer(refused(given, error))


@endpoints(f"POST {EVENTS}", rules.read_events, "EventStreamRequest", read=False, media_type=SSE, errors=(400, 422))
async def events(request: Request) -> EventStream:
    """Stream a thread's protocol events.

    Send events from the first one stored, or after `since`, until the thread is deleted. The thread need not exist yet:
    clients listen first and then start the run that creates it.
    """
    thread_id = path_uuid(request, "thread")
    value = await _json(request)
    params = value if isinstance(value, dict) else {}
    channels = listed_channels(params)
    if channels is None:
        raise BadRequest("channels is required and must be a non-empty array")
    wrong = unsupported(channels)
    if wrong is not None:
        raise BadRequest(f"channels contains unsupported entries: {wrong}. Allowed: {ALLOWED}.")
    log = get_services(request).engine.runtime.publishers.log
    batches = log.replay(thread_id, event_filter(params, channels), since(params))
    wanted = current_filter("threads")
    return EventStream(batches if wanted is None else _shown_to(wanted, get_services(request), thread_id, batches), {})


async def _shown_to(
    wanted: MetadataFilter, services: ApiServices, thread_id: str, batches: AsyncGenerator[list[StreamEvent]]
) -> AsyncGenerator[list[StreamEvent]]:
    """Give the events of a thread that the filter lets through: it may have been created after the client came."""
    async with aclosing(batches):
        shown = False
        async for batch in batches:
            shown = shown or await _shows(wanted, services, thread_id)
            if not shown:
                return
            yield batch


async def _shows(wanted: MetadataFilter, services: ApiServices, thread_id: str) -> bool:
    try:
        return is_allowed(wanted, (await services.persistence.threads.get(thread_id)).metadata)
    except NotFound:
        return False


@sockets(f"GET {EVENTS}", rules.read_events, read=False, status=101)
async def admit(_request: Request) -> Response:
    """Speak the protocol over a WebSocket.

    Let the client in.
    """
    return Response(None, 204)


async def _json(request: Request) -> Any:
    try:
        return await read_json(request)
    except InvalidRequest as error:
        raise BadRequest("Invalid JSON body" if str(error).startswith("Invalid JSON") else str(error)) from None
