"""Run a graph as a stream: the named events of the LangGraph API (6.1), or announcements of the newer protocol (7)."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
from langchain_core._api import suppress_langchain_beta_warning
from langchain_core.messages import AIMessageChunk, BaseMessage, BaseMessageChunk, message_chunk_to_message
from langgraph.pregel import Pregel
from langgraph.stream import ProtocolEvent, StreamChannel, StreamTransformer
from langgraph.types import Interrupt

from toolweave.message_chunks import ChunkJoiner
from toolweave.runtime.codec import dumps
from toolweave.runtime.events.announcements import RunAnnouncer
from toolweave.runtime.graphs import Graph
from toolweave.runtime.models import Namespace
from toolweave.runtime.persistence.checkpointer import FORKED_FROM, HEADERS_KEY, without_headers
from toolweave.runtime.persistence.events import NAMED
from toolweave.runtime.runs.graph_call import GraphCall, context_for

TEXT_FIRST = b'{"content":"'


@dataclass(frozen=True, slots=True)
class StreamPart:
    """One event of a stream: its name, with the subgraph namespace after `|`, and its payload."""

    event: str
    payload: object


class MessageParts:
    """Give the `messages` mode's events; what is kept of a message lives as long as the run."""

    def __init__(self) -> None:
        self._so_far: dict[str, MessageSoFar] = {}
        self._announced: set[str] = set()

    def parts(self, payload: tuple[BaseMessage, dict[str, Any]], suffix: str) -> list[StreamPart]:
        """Name the events for one message or message chunk."""
        message, metadata = payload
        key = str(message.id)
        parts = []
        if key not in self._announced:
            self._announced.add(key)
            parts.append(StreamPart(f"messages/metadata{suffix}", {key: {"metadata": metadata}}))
        if isinstance(message, BaseMessageChunk):
            so_far = self._so_far.setdefault(key, MessageSoFar())
            parts.append(StreamPart(f"messages/partial{suffix}", [so_far.with_chunk(message)]))
        else:
            parts.append(StreamPart(f"messages/complete{suffix}", [message]))
        return parts


class MessageSoFar:
    """A message that grows chunk by chunk, as JSON.

    Every event repeats the whole message. A chunk that only adds text, as nearly all do, therefore adds to the JSON of
    the one before: making it anew each time from objects takes most of a stream's time.
    """

    def __init__(self) -> None:
        self._joiner = ChunkJoiner()
        self._added: list[str] = []
        self._text = bytearray()
        self._rest = b""

    def with_chunk(self, chunk: BaseMessageChunk) -> object:
        """Add a chunk; gives what is there now, ready for the encoder."""
        if self._rest and _only_text(chunk):
            try:
                self._text += orjson.dumps(chunk.content)[1:-1]
            except TypeError:
                # Half a character: the slow way knows what to do.
                return self._merged(chunk)
            self._added.append(str(chunk.content))
            return orjson.Fragment(b"".join((TEXT_FIRST, self._text, self._rest)))
        return self._merged(chunk)

    def _merged(self, chunk: BaseMessageChunk) -> object:
        if not isinstance(chunk, AIMessageChunk):
            self._joiner, self._rest = ChunkJoiner(), b""
            self._added.clear()
            return message_chunk_to_message(chunk)
        if added := "".join(self._added):
            self._joiner.add(AIMessageChunk(content=added))
        self._added.clear()
        self._joiner.add(chunk)
        message = message_chunk_to_message(self._joiner.whole())
        self._split(message)
        return message

    def _split(self, message: BaseMessage) -> None:
        """Take the message's JSON apart behind its text, if text is what it begins with."""
        self._text, self._rest = bytearray(), b""
        if isinstance(message.content, str):
            text, data = dumps(message.content)[1:-1], dumps(message)
            begins = TEXT_FIRST + text
            if data.startswith(begins + b'"'):
                self._text += text
                self._rest = data[len(begins) :]


def _only_text(chunk: BaseMessageChunk) -> bool:
    return (
        type(chunk) is AIMessageChunk
        and isinstance(chunk.content, str)
        and chunk.chunk_position is None
        and chunk.usage_metadata is None
        and not (chunk.tool_call_chunks or chunk.tool_calls or chunk.invalid_tool_calls)
        and not (chunk.additional_kwargs or chunk.response_metadata)
    )


INTERRUPT = "__interrupt__"
NATIVE_MODES = ("values", "updates", "custom", "tasks", "checkpoints", "debug")
# "values" is always asked for: its last event is the run's result. "updates" tells of breakpoints.
ALWAYS = ("values", "updates")
Chunk = tuple[tuple[str, ...], str, Any]


class GraphStream:
    """Run a graph and give its stream parts; afterwards `values` and `interrupted` say where it stands.

    `values` is the last output that the root graph emitted (None when it emitted none), all of its state unless it
    has an output schema; `interrupted` is true when it stopped at an interrupt() or a breakpoint.
    """

    def __init__(self, graph: "Pregel[Any, Any, Any, Any]", call: GraphCall) -> None:
        self._graph = graph
        self._call = call
        self._wanted = frozenset(call.modes)
        self._messages = MessageParts()
        self.values: Any = None
        self.interrupted = False

    async def parts(self) -> AsyncGenerator[StreamPart, None]:
        """Give the parts in the order in which LangGraph makes them."""
        call, arguments = self._call, self._arguments()
        source = (
            self._with_events(arguments)
            if "events" in self._wanted
            else self._graph.astream(call.input, call.config, **arguments)
        )
        async with aclosing(source) as items:  # type: ignore[type-var]  # LangGraph declares an iterator
            async for item in items:
                if isinstance(item, StreamPart):
                    yield item
                    continue
                chunk = item if call.subgraphs else ((), *item)
                self._notice(chunk)
                for part in self._named(chunk):
                    yield part

    def _arguments(self) -> dict[str, Any]:
        modes = [mode for mode in NATIVE_MODES if mode in self._wanted or mode in ALWAYS]
        if self._wanted & {"messages", "messages-tuple"}:
            modes.append("messages")
        call = self._call
        return {
            "context": context_for(self._graph, call.context),
            "stream_mode": modes,
            # What the graph says it gives, not all that it keeps.
            "output_keys": self._graph.output_channels,
            "subgraphs": call.subgraphs,
            "interrupt_before": call.interrupt_before or None,
            "interrupt_after": call.interrupt_after or None,
            "durability": call.durability,
        }

    async def _with_events(self, arguments: dict[str, Any]) -> AsyncGenerator[Any, None]:
        root = str(self._call.config["run_id"])
        stream = self._graph.astream_events(self._call.input, self._call.config, version="v2", **arguments)
        async for event in stream:
            if event["event"] == "on_chain_stream" and event["run_id"] == root:
                yield event["data"]["chunk"]
            else:
                yield StreamPart("events", event)

    def _notice(self, chunk: Chunk) -> None:
        namespace, mode, payload = chunk
        if namespace:
            return
        if mode == "values":
            # What tasks beside an interrupted one still write is no step's state yet.
            if not self.interrupted or (isinstance(payload, dict) and INTERRUPT in payload):
                self.values = payload
        elif mode == "updates" and isinstance(payload, dict) and INTERRUPT in payload:
            self.interrupted = True

    def _named(self, chunk: Chunk) -> Sequence[StreamPart]:
        namespace, mode, payload = chunk
        suffix = "".join(f"|{step}" for step in namespace)
        if mode == "messages":
            if "messages-tuple" in self._wanted:
                return (StreamPart(f"messages{suffix}", payload),)
            return self._messages.parts(payload, suffix)
        if mode not in self._wanted:
            return ()
        is_debug_checkpoint = mode == "debug" and payload.get("type") == "checkpoint"
        if (is_debug_checkpoint or mode == "checkpoints") and not self._call.shows_checkpoints:
            return ()
        if is_debug_checkpoint:
            payload = {**payload, "payload": with_checkpoint_ids(self._shown_checkpoint(payload["payload"]))}
        elif mode == "checkpoints":
            payload = self._shown_checkpoint(payload)
        return (StreamPart(f"{mode}{suffix}", payload),)

    def _shown_checkpoint(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Return a checkpoint's event as it may be stored and sent, without the request headers of its config."""
        headers = self._call.config["configurable"].get(HEADERS_KEY)
        configs = {name: payload[name] for name in ("config", "parent_config") if payload.get(name)}
        shown = {name: without_headers(config, headers) for name, config in configs.items()}
        return with_stored_metadata({**payload, **shown})


def with_stored_metadata(payload: dict[str, Any]) -> dict[str, Any]:
    """Show the metadata of a checkpoint that a run began from, which has been stored, as a thread's state does."""
    metadata = payload.get("metadata") or {}
    if "run_id" not in metadata:
        return payload
    return {**payload, "metadata": shown_metadata(metadata, payload["config"]["configurable"])}


def shown_metadata(metadata: Mapping[str, Any], configurable: Mapping[str, Any]) -> dict[str, Any]:
    """Give a stored checkpoint's metadata the form that the API shows; `configurable` says where it is."""
    shown = {**metadata, "thread_id": configurable["thread_id"]}
    namespace = configurable.get("checkpoint_ns")
    if namespace and "run_id" in shown:
        # What the run that wrote it was configured with, as the reference server shows it.
        shown |= {"checkpoint_ns": namespace, "checkpoint_map": shown.get("parents", {})}
    if FORKED_FROM in shown:
        shown["checkpoint_id"] = shown.pop(FORKED_FROM)
    return shown


def with_checkpoint_ids(payload: dict[str, Any]) -> dict[str, Any]:
    """Add `checkpoint` and `parent_checkpoint` to a debug checkpoint, as the API shows it."""
    return {
        **payload,
        "checkpoint": checkpoint_ids(payload.get("config")),
        "parent_checkpoint": checkpoint_ids(payload.get("parent_config")),
        "tasks": [_with_checkpoint(task) for task in payload.get("tasks", ())],
    }


def _with_checkpoint(task: dict[str, Any]) -> dict[str, Any]:
    """Show where a subgraph keeps its state as the task's `checkpoint`."""
    if not task.get("state"):
        return task
    shown = {name: item for name, item in task.items() if name != "state"}
    return {**shown, "checkpoint": checkpoint_ids(task["state"])}


def checkpoint_ids(config: Any) -> dict[str, Any] | None:
    """Pick {thread_id, checkpoint_ns, checkpoint_id, checkpoint_map?} out of a config; None without one."""
    if not config:
        return None
    configurable = config.get("configurable") or {}
    names = ("checkpoint_id", "thread_id", "checkpoint_ns", "checkpoint_map")
    return {name: configurable[name] for name in names if name in configurable}


TASKS = "toolweave_tasks"
# LangGraph hands these to those who ask for them only; a graph asks by the transformers it is compiled with.
ASKED_FOR = frozenset({"updates", "custom"})


class EveryMode(StreamTransformer):
    """Have LangGraph stream everything there is a channel for; it would keep the tasks' events to itself."""

    _native = True
    required_stream_modes = ("values", "updates", "messages", "custom", "tasks", "checkpoints", "tools")

    def init(self) -> dict[str, Any]:
        """Open the channel that brings the tasks' events out."""
        self.tasks: StreamChannel[Any] = StreamChannel(TASKS)
        return {TASKS: self.tasks}

    def process(self, event: ProtocolEvent) -> bool:
        """Copy a task's event, its namespace inside, and let every event pass."""
        if event["method"] == "tasks":
            self.tasks.push(event["params"])
        return True


class ProtocolStream:
    """Run a graph, announce its events and give its values as parts; used like `GraphStream`."""

    def __init__(self, graph: Graph, call: GraphCall, announcer: RunAnnouncer) -> None:
        self._graph = graph
        self._call = call
        self._announcer = announcer
        self._asked = asked_for(graph)
        self._waiting: tuple[Namespace, Any] | None = None
        self._messages = MessageRoutes()
        # What is not here, such as `debug`, has no channel.
        self._tellers: Mapping[str, Callable[[Namespace, Any], None]] = {
            "lifecycle": self._lifecycle,
            "messages": self._message,
            "custom": self._custom,
            "updates": self._updates,
            "tasks": partial(announcer.tell, "tasks", detail=True),
            "tools": partial(announcer.tell, "tools"),
        }
        self.values: Any = None
        self.interrupted = False

    async def parts(self) -> AsyncGenerator[StreamPart, None]:
        """Give the root graph's values; all else is announced only."""
        call = self._call
        with suppress_langchain_beta_warning():
            stream = await self._graph.astream_events(
                call.input,
                call.config,
                version="v3",
                transformers=[EveryMode],
                context=context_for(self._graph, call.context),
                interrupt_before=call.interrupt_before or None,
                interrupt_after=call.interrupt_after or None,
                durability=call.durability,
            )
        try:
            async with stream:
                async for event in stream:
                    self._announce(event["method"], event["params"])
                    if event["method"] == "values" and not event["params"]["namespace"]:
                        yield StreamPart("values", event["params"]["data"])
        finally:
            self._release()

    def _announce(self, method: str, params: Mapping[str, Any]) -> None:
        if method == TASKS:
            method, params = "tasks", params["data"]
        namespace, data = tuple(params["namespace"]), params["data"]
        if method == "checkpoints":
            self._checkpoint(namespace, data)
            return
        self._release()
        if method == "values":
            self._values(namespace, data, params.get("interrupts") or ())
        elif method.startswith(NAMED):
            payload = {"name": method.removeprefix(NAMED), "payload": data}
            self._announcer.tell(custom_channel(payload), namespace, payload)
        elif tell := self._tellers.get(method):
            tell(namespace, data)

    def _values(self, namespace: Namespace, data: Any, interrupts: Sequence[Interrupt]) -> None:
        if not namespace:
            self.interrupted = self.interrupted or bool(interrupts)
            # What tasks beside an interrupted one still write is no step's state yet.
            if not self.interrupted or self.values is None:
                self.values = data
        if interrupts:
            self._announcer.values(namespace, data, interrupts)
        else:
            self._waiting = (namespace, data)

    def _checkpoint(self, namespace: Namespace, data: Mapping[str, Any]) -> None:
        # Clients expect a checkpoint right before the values that it holds; LangGraph gives it right after them.
        waits = self._waiting
        if waits is not None and waits[0] != namespace:
            self._release()
        self._announcer.tell("checkpoints", namespace, checkpoint_envelope(data), detail=True)
        self._release()

    def _release(self) -> None:
        waits, self._waiting = self._waiting, None
        if waits is not None:
            self._announcer.values(*waits)

    def _custom(self, namespace: Namespace, data: Any) -> None:
        self._announcer.tell(custom_channel(data), namespace, data, detail="custom" not in self._asked)

    def _updates(self, namespace: Namespace, data: Any) -> None:
        self.interrupted = self.interrupted or (not namespace and isinstance(data, dict) and INTERRUPT in data)
        self._announcer.tell("updates", namespace, data, detail="updates" not in self._asked)

    def _lifecycle(self, _mine: Namespace, data: Mapping[str, Any]) -> None:
        namespace = tuple(data["namespace"])
        if data["event"] == "started":
            self._announcer.graph_began(namespace, data)
        else:
            self._announcer.graph_ended(namespace, data["event"], data.get("error"))

    def _message(self, namespace: Namespace, data: Any) -> None:
        told, metadata = data
        # Whole messages, which no model has streamed, are in the values.
        if isinstance(told, dict) and "event" in told:
            self._announcer.tell("messages", namespace, self._messages.routed(namespace, told, metadata))


class MessageRoutes:
    """Say to which message an event belongs, as long as several are streamed in one graph at a time."""

    def __init__(self) -> None:
        self._open: dict[Namespace, dict[str, Any]] = {}

    def routed(self, namespace: Namespace, told: dict[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Give the event, with its message's id where it could be another one's."""
        streamed = self._open.setdefault(namespace, {})
        model_run = str(metadata.get("run_id"))
        if told["event"] == "message-start":
            streamed[model_run] = told.get("id")
        elif len(streamed) > 1 and "id" not in told and model_run in streamed:
            told = {**told, "id": streamed[model_run]}
        if told["event"] in ("message-finish", "error"):
            streamed.pop(model_run, None)
        return told


def asked_for(graph: Graph) -> frozenset[str]:
    """Name the modes that the graph itself asks for, by the transformers it is compiled with."""
    modes: set[str] = set()
    for factory in graph.stream_transformers or ():
        made = factory if isinstance(factory, type) else factory(())
        modes.update(getattr(made, "required_stream_modes", ()))
    return frozenset(modes & ASKED_FOR)


def custom_channel(data: object) -> str:
    """Give the channel of what a node has written: its own when it gives a name."""
    name = data.get("name") if isinstance(data, dict) else None
    return f"{NAMED}{name}" if isinstance(name, str) and is_text(name) else "custom"


def is_text(name: str) -> bool:
    """Say whether a name can be stored and sent: half characters cannot."""
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False


def checkpoint_envelope(data: Mapping[str, Any]) -> dict[str, Any]:
    """Give what clients need to fork from a checkpoint: {id, parent_id?, step, source}."""
    metadata = data.get("metadata") or {}
    envelope = {
        "id": _checkpoint_id(data.get("config")),
        "step": metadata.get("step"),
        "source": metadata.get("source"),
    }
    parent = _checkpoint_id(data.get("parent_config"))
    return envelope if parent is None else {**envelope, "parent_id": parent}


def _checkpoint_id(config: Mapping[str, Any] | None) -> Any:
    return ((config or {}).get("configurable") or {}).get("checkpoint_id")
