"""Run chat assistants for clients of other protocols, and read the events of the runs (S-09, S-10)."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, NamedTuple, TypeVar, cast
from uuid import UUID

import httpx
from fastapi import Depends, HTTPException, Request
from langchain_core.messages import AIMessage, convert_to_messages
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIStatusError, LangGraphError, NotFoundError
from langgraph_sdk.schema import Assistant, StreamPart
from loguru import logger

from toolweave.api.langgraph_client import api_client
from toolweave.api.request_bodies import run_until_first, wait_for_disconnect
from toolweave.api.routes.chat import UNREACHABLE, message_text, run_error_text
from toolweave.errors import BadRequest, NotFound
from toolweave.nodes.agent import CLIENT_TOOLS_KEY, UNATTENDED_KEY

T = TypeVar("T")
MAX_ASSISTANTS = 1_000
PASSED_STATUSES = frozenset({400, 401, 403, 404, 409, 422, 429})
STREAM_MODES = ["messages-tuple", "updates", "custom"]
CLIENT_CLOSED_REQUEST = 499
CANCELLED = "The run was cancelled."
NO_ASSISTANT = "There is no assistant {!r} to chat with."
NO_MESSAGES = "There is no new message to run the assistant on."
UNREADABLE = "The messages cannot be read: this one has no known role, tool_call_id or complete tool_calls: {}"
NO_CLIENT_TOOLS = (
    "The graph of {} takes no tools of a client: its context schema has no field client_tools, "
    "as that of agent_loop has."
)


async def open_client(request: Request) -> AsyncIterator[LangGraphClient]:
    """Open a client of the LangGraph API until the response has been sent.

    Raises:
        HTTPException: the API refused the route's request, or failed.
    """
    async with api_client(request) as client:
        with api_refusals():
            yield client


Client = Annotated[LangGraphClient, Depends(open_client)]


class ChatAssistant(NamedTuple):
    """An assistant whose graph takes messages; `name` is what requests call it."""

    name: str
    assistant_id: str
    created: int
    input_fields: Collection[str]
    takes_client_tools: bool


async def chat_assistants(client: LangGraphClient) -> list[ChatAssistant]:
    """Return all assistants that a client may chat with: of each graph under its name, others under their id."""
    assistants = await client.assistants.search(limit=MAX_ASSISTANTS)
    of_graphs = {each["graph_id"]: each["assistant_id"] for each in assistants}
    schemas = {graph_id: await client.assistants.get_schemas(each) for graph_id, each in of_graphs.items()}
    found = [_chat_assistant(each, schemas[each["graph_id"]]) for each in assistants]
    return sorted(each for each in found if each is not None)


async def find_chat_assistant(client: LangGraphClient, name: str) -> ChatAssistant:
    """Return the assistant of a graph by the graph's name, or any assistant by its id.

    Raises:
        NotFound: there is none, or its graph takes no messages.
    """
    try:
        if (assistant_id := as_uuid(name)) is not None:
            assistant = await client.assistants.get(assistant_id)
        else:
            system = {"created_by": "system"}
            assistant = (await client.assistants.search(graph_id=name, metadata=system, limit=1))[0]
        found = _chat_assistant(assistant, await client.assistants.get_schemas(assistant["assistant_id"]))
    except (NotFoundError, IndexError):
        found = None
    if found is None:
        raise NotFound(NO_ASSISTANT.format(name[:100]))
    return found


def _chat_assistant(assistant: Assistant, schemas: Mapping[str, Any]) -> ChatAssistant | None:
    fields = _properties(schemas, "input_schema")
    if "messages" not in fields:
        return None
    of_graph = (assistant.get("metadata") or {}).get("created_by") == "system"
    # The SDK's types have a datetime where the API sends text.
    created = datetime.fromisoformat(str(assistant["created_at"]))
    return ChatAssistant(
        name=assistant["graph_id"] if of_graph else assistant["assistant_id"],
        assistant_id=assistant["assistant_id"],
        created=int(created.timestamp()),
        input_fields=fields,
        takes_client_tools=CLIENT_TOOLS_KEY in _properties(schemas, "context_schema"),
    )


def _properties(schemas: Mapping[str, Any], name: str) -> Collection[str]:
    return (schemas.get(name) or {}).get("properties") or {}


def as_uuid(text: str) -> str | None:
    """Return a UUID in its canonical form, None for any other text."""
    try:
        return str(UUID(text))
    except ValueError:
        return None


def graph_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message in the OpenAI format as LangChain's, in JSON.

    Raises:
        BadRequest: it is malformed.
    """
    try:
        calls = list(message.get("tool_calls") or ())
        for function in (call["function"] for call in calls):
            function["arguments"] = function.get("arguments") or "{}"
        raw_calls = {"tool_calls": calls} if calls else {}
        [read] = convert_to_messages([{"content": "", **message, "tool_calls": None, "additional_kwargs": raw_calls}])
    except (ValueError, TypeError, LookupError, AttributeError, RuntimeError):
        raise BadRequest(UNREADABLE.format(str(message)[:200])) from None
    # From JSON, LangChain reads calls with invalid arguments only in their raw form, and only if there is no other.
    unread = {"tool_calls" if read.invalid_tool_calls else "additional_kwargs"} if isinstance(read, AIMessage) else None
    return read.model_dump(exclude_none=True, exclude=unread)


@dataclass(frozen=True, slots=True)
class ClientRun:
    """A run of an assistant: new messages, answers to interrupts by their id, the client's tools, further input.

    Without a thread nothing is stored (D-7): calls that need a person are refused instead (S-07).
    """

    assistant: ChatAssistant
    messages: Sequence[Mapping[str, Any]]
    thread_id: str | None = None
    answers: Mapping[str, Any] = field(default_factory=dict)
    client_tools: Sequence[Mapping[str, Any]] = ()
    more_input: Mapping[str, Any] = field(default_factory=dict)

    async def stream(self, client: LangGraphClient) -> AsyncGenerator[StreamPart]:
        """Start the run and yield its events; closing the generator cancels the run.

        Raises:
            BadRequest: the graph takes no client tools.
            HTTPException: the API refused or failed.
        """
        if self.client_tools and not self.assistant.takes_client_tools:
            raise BadRequest(NO_CLIENT_TOOLS.format(self.assistant.name))
        start = cast("Callable[..., AsyncGenerator[StreamPart, None]]", client.runs.stream)
        with api_refusals():
            async with aclosing(start(self.thread_id, self.assistant.assistant_id, **self._fields())) as parts:
                async for part in parts:
                    yield part

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"stream_mode": STREAM_MODES, "on_disconnect": "cancel"}
        configurable: dict[str, Any] = {CLIENT_TOOLS_KEY: list(self.client_tools)} if self.client_tools else {}
        if self.thread_id is None:
            configurable[UNATTENDED_KEY] = True
        else:
            fields |= {"if_not_exists": "create", "multitask_strategy": "enqueue"}
        values = {**self.more_input, "messages": list(self.messages)}
        if self.answers:
            command: dict[str, Any] = {"resume": dict(self.answers)}
            fields["command"] = command | {"update": values} if self.messages or self.more_input else command
        else:
            fields["input"] = values
        return {**fields, "config": {"configurable": configurable}}


async def thread_state(thread_id: str, client: LangGraphClient) -> Mapping[str, Any]:
    """Return the state of a thread, empty if it does not exist.

    Raises:
        HTTPException: the API refused or failed.
    """
    with api_refusals(), suppress(NotFoundError):
        return cast("Mapping[str, Any]", await client.threads.get_state(thread_id))
    return {}


def open_interrupts(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the interrupts that a thread's state waits at, by id."""
    return {each["id"]: each["value"] for each in state.get("interrupts") or ()}


@contextmanager
def api_refusals() -> Iterator[None]:
    """Raise an HTTPException if the LangGraph API refuses a request of the block or cannot serve it."""
    try:
        yield
    except (httpx.HTTPError, LangGraphError) as error:
        if isinstance(error, APIStatusError) and error.status_code in PASSED_STATUSES:
            raise HTTPException(error.status_code, error.message) from None
        logger.opt(exception=error).error("the LangGraph API failed")
        raise HTTPException(503, UNREACHABLE) from None


class Text(NamedTuple):
    """A piece of a message's text."""

    message_id: str
    text: str


class ToolCall(NamedTuple):
    """A complete tool call; `arguments` is JSON."""

    message_id: str
    id: str
    name: str
    arguments: str


class CallResult(NamedTuple):
    """The result of a call that the server executed."""

    message_id: str
    call_id: str
    text: str


class Step(NamedTuple):
    """A node that sends the next events, or has finished."""

    node: str
    is_finished: bool


class Custom(NamedTuple):
    """Data that a node writes to the stream."""

    data: Any


RunEvent = Text | ToolCall | CallResult | Step | Custom


class RunReader:
    """Read the events of one run; its fields have what is known when the run has ended."""

    def __init__(self, client_tools: Sequence[Mapping[str, Any]] = ()) -> None:
        self.run_id = ""
        self.interrupts: list[dict[str, Any]] = []
        self.input_tokens = self.output_tokens = 0
        self.status = ""
        # Calls of client tools without a result.
        self.client_calls: dict[str, ToolCall] = {}
        self._client_tools = {tool["function"]["name"] for tool in client_tools}
        self._streamed: set[str] = set()
        self._known: set[str] = set()

    def read(self, part: StreamPart) -> Iterator[RunEvent]:
        """Yield the events of one part of the API's stream.

        Raises:
            HTTPException: 502, the run failed.
        """
        data: Any = part.data
        if part.event == "metadata":
            self.run_id = data.get("run_id", self.run_id)
        elif part.event == "error":
            raise HTTPException(502, run_error_text(data))
        elif part.event == "custom":
            yield Custom(data)
        elif part.event == "messages":
            yield from self._read_message(*data)
        elif part.event == "updates":
            self.interrupts += data.get("__interrupt__") or ()
            for node, update in data.items():
                if not node.startswith("__"):
                    yield Step(node, is_finished=False)
                    yield from self._read_update(update)
                    yield Step(node, is_finished=True)

    def _read_message(self, message: dict[str, Any], metadata: dict[str, Any]) -> Iterator[RunEvent]:
        """Read a chunk, or a whole message of which no chunk was sent."""
        message_id, text = str(message.get("id") or ""), message_text(message.get("content"))
        is_chunk = message.get("type") == "AIMessageChunk"
        if text and (is_chunk or (message.get("type") == "ai" and message_id not in self._streamed)):
            self._streamed.add(message_id)
            yield Step(metadata.get("langgraph_node", ""), is_finished=False)
            yield Text(message_id, text)

    def _read_update(self, update: Any) -> Iterator[RunEvent]:
        for part in update if isinstance(update, list) else [update]:
            if not isinstance(part, dict):
                continue
            self.status = part.get("status") or self.status
            messages = part.get("messages") or []
            for message in messages if isinstance(messages, list) else [messages]:
                if isinstance(message, dict):
                    yield from self._read_complete(message)

    def _read_complete(self, message: dict[str, Any]) -> Iterator[RunEvent]:
        message_id = str(message.get("id") or "")
        if message.get("type") == "tool" and (call_id := message.get("tool_call_id")):
            self.client_calls.pop(call_id, None)
            yield CallResult(message_id or f"result_{call_id}", call_id, message_text(message.get("content")))
        elif message.get("type") == "ai":
            if message_id not in self._known and (usage := message.get("usage_metadata")):
                self.input_tokens += usage.get("input_tokens", 0)
                self.output_tokens += usage.get("output_tokens", 0)
            self._known.add(message_id)
            for call in message.get("tool_calls") or []:
                if call["id"] not in self._known:
                    self._known.add(call["id"])
                    yield (made := ToolCall(message_id, call["id"], call["name"], json.dumps(call["args"])))
                    if call["name"] in self._client_tools:
                        self.client_calls[call["id"]] = made


async def start_run(run: ClientRun, client: LangGraphClient, reader: RunReader) -> AsyncGenerator[RunEvent]:
    """Start the run, wait for its first part, so that a refusal precedes the response, and return all its events.

    Raises:
        BadRequest, HTTPException: as `ClientRun.stream` and `RunReader.read`, which the generator raises, too. The
            generator also raises 409 if the run was cancelled.
    """
    parts = run.stream(client)
    part = await anext(parts, None)
    first = [] if part is None else list(reader.read(part))

    async def events() -> AsyncGenerator[RunEvent]:
        async with aclosing(parts):
            for event in first:
                yield event
            async for part in parts:
                for event in reader.read(part):
                    yield event
        if run.thread_id is not None:
            # The stream does not show that a run was cancelled. One that is also rolled back is deleted.
            status = "interrupted"
            with api_refusals(), suppress(NotFoundError):
                status = (await client.runs.get(run.thread_id, reader.run_id))["status"]
            if status == "interrupted":
                raise HTTPException(409, CANCELLED)

    return events()


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of the work; cancel it if the client disconnects before.

    Raises:
        HTTPException: 499, the client has disconnected.
    """
    async with run_until_first(work, wait_for_disconnect(request.receive)) as (working, _):
        if working.done():
            return cast("T", working.result())
    raise HTTPException(CLIENT_CLOSED_REQUEST, "The client has disconnected.")
