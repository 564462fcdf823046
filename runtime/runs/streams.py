"""Run a graph as a stream: events of the LangGraph API (6.1), or published events of the newer protocol (7)."""

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
from toolweave.runtime.events.run_publisher import RunPublisher
from toolweave.runtime.graphs import Graph
from toolweave.runtime.models import Namespace
from toolweave.runtime.persistence.checkpoints.saver import FORKED_FROM, HEADERS_KEY, remove_headers
from toolweave.runtime.persistence.events import CUSTOM_PREFIX
from toolweave.runtime.runs.graph_call import GraphCall, build_context

TEXT_PREFIX = b'{"content":"'


@dataclass(frozen=True, slots=True)
class StreamPart:
    """One event of a stream: its name, with the subgraph namespace after `|`, and its payload."""

    event: str
    payload: object


class MessageParts:
    """Build the events of the `messages` mode from message chunks; it holds partial messages until the run ends."""

    def __init__(self) -> None:
        self._partial_messages: dict[str, PartialMessage] = {}
        self._announced_ids: set[str] = set()

    def parts(self, payload: tuple[BaseMessage, dict[str, Any]], suffix: str) -> list[StreamPart]:
        """Return the events for one message or message chunk."""
        message, metadata = payload
        key = str(message.id)
        parts = []
        if key not in self._announced_ids:
            self._announced_ids.add(key)
            parts.append(StreamPart(f"messages/metadata{suffix}", {key: {"metadata": metadata}}))
        if isinstance(message, BaseMessageChunk):
            partial_message = self._partial_messages.setdefault(key, PartialMessage())
            parts.append(StreamPart(f"messages/partial{suffix}", [partial_message.add_chunk(message)]))
        else:
            parts.append(StreamPart(f"messages/complete{suffix}", [message]))
        return parts


class PartialMessage:
    """The JSON of a message that grows chunk by chunk.

    Each event repeats the whole message. Most chunks only add text, which is appended to the previous JSON, because
    encoding the whole message each time takes most of a stream's time.
    """

    def __init__(self) -> None:
        self._joiner = ChunkJoiner()
        self._unmerged_texts: list[str] = []
        self._text = bytearray()
        self._json_tail = b""

    def add_chunk(self, chunk: BaseMessageChunk) -> object:
        """Add a chunk and return the message so far, ready for the encoder."""
        if self._json_tail and _is_text_only(chunk):
            try:
                self._text += orjson.dumps(chunk.content)[1:-1]
            except TypeError:
                # Half a surrogate pair: the slow path handles it.
                return self._merge_chunk(chunk)
            self._unmerged_texts.append(str(chunk.content))
            return orjson.Fragment(b"".join((TEXT_PREFIX, self._text, self._json_tail)))
        return self._merge_chunk(chunk)

    def _merge_chunk(self, chunk: BaseMessageChunk) -> object:
        if not isinstance(chunk, AIMessageChunk):
            self._joiner, self._json_tail = ChunkJoiner(), b""
            self._unmerged_texts.clear()
            return message_chunk_to_message(chunk)
        if added := "".join(self._unmerged_texts):
            self._joiner.add(AIMessageChunk(content=added))
        self._unmerged_texts.clear()
        self._joiner.add(chunk)
        message = message_chunk_to_message(self._joiner.joined_chunk())
        self._split_json(message)
        return message

    def _split_json(self, message: BaseMessage) -> None:
        """Split the message's JSON after its text, if it begins with text."""
        self._text, self._json_tail = bytearray(), b""
        if isinstance(message.content, str):
            text, data = dumps(message.content)[1:-1], dumps(message)
            start = TEXT_PREFIX + text
            if data.startswith(start + b'"'):
                self._text += text
                self._json_tail = data[len(start) :]


def _is_text_only(chunk: BaseMessageChunk) -> bool:
    return (
        type(chunk) is AIMessageChunk
        and isinstance(chunk.content, str)
        and chunk.chunk_position is None
        and chunk.usage_metadata is None
        and not (chunk.tool_call_chunks or chunk.tool_calls or chunk.invalid_tool_calls)
        and not (chunk.additional_kwargs or chunk.response_metadata)
    )


INTERRUPT_KEY = "__interrupt__"
NATIVE_MODES = ("values", "updates", "custom", "tasks", "checkpoints", "debug")
# The last "values" event is the run's result; "updates" reports breakpoints.
REQUIRED_MODES = ("values", "updates")
GraphChunk = tuple[tuple[str, ...], str, Any]


class GraphStream:
    """Run a graph and yield its stream parts; afterwards `values` and `interrupted` hold the result.

    `values` is the last output of the root graph (None without one): its whole state unless it has an output schema.
    `interrupted` is true if the graph stopped at an interrupt() or a breakpoint.
    """

    def __init__(self, graph: "Pregel[Any, Any, Any, Any]", call: GraphCall) -> None:
        self._graph = graph
        self._call = call
        self._requested_modes = frozenset(call.modes)
        self._messages = MessageParts()
        self.values: Any = None
        self.interrupted = False

    async def parts(self) -> AsyncGenerator[StreamPart, None]:
        """Yield the parts in LangGraph's order."""
        call, arguments = self._call, self._stream_arguments()
        source = (
            self._stream_with_events(arguments)
            if "events" in self._requested_modes
            else self._graph.astream(call.input, call.config, **arguments)
        )
        async with aclosing(source) as items:  # type: ignore[type-var]  # LangGraph declares an iterator
            async for item in items:
                if isinstance(item, StreamPart):
                    yield item
                    continue
                chunk = item if call.subgraphs else ((), *item)
                self._record_result(chunk)
                for part in self._to_parts(chunk):
                    yield part

    def _stream_arguments(self) -> dict[str, Any]:
        modes = [mode for mode in NATIVE_MODES if mode in self._requested_modes or mode in REQUIRED_MODES]
        if self._requested_modes & {"messages", "messages-tuple"}:
            modes.append("messages")
        call = self._call
        return {
            "context": build_context(self._graph, call.context),
            "stream_mode": modes,
            # The graph's output schema, not its whole state.
            "output_keys": self._graph.output_channels,
            "subgraphs": call.subgraphs,
            "interrupt_before": call.interrupt_before or None,
            "interrupt_after": call.interrupt_after or None,
            "durability": call.durability,
        }

    async def _stream_with_events(self, arguments: dict[str, Any]) -> AsyncGenerator[Any, None]:
        root = str(self._call.config["run_id"])
        stream = self._graph.astream_events(self._call.input, self._call.config, version="v2", **arguments)
        async for event in stream:
            if event["event"] == "on_chain_stream" and event["run_id"] == root:
                yield event["data"]["chunk"]
            else:
                yield StreamPart("events", event)

    def _record_result(self, chunk: GraphChunk) -> None:
        namespace, mode, payload = chunk
        if namespace:
            return
        if mode == "values":
            # Writes of tasks beside an interrupted one are not part of a step's state yet.
            if not self.interrupted or (isinstance(payload, dict) and INTERRUPT_KEY in payload):
                self.values = payload
        elif mode == "updates" and isinstance(payload, dict) and INTERRUPT_KEY in payload:
            self.interrupted = True

    def _to_parts(self, chunk: GraphChunk) -> Sequence[StreamPart]:
        namespace, mode, payload = chunk
        suffix = "".join(f"|{step}" for step in namespace)
        if mode == "messages":
            if "messages-tuple" in self._requested_modes:
                return (StreamPart(f"messages{suffix}", payload),)
            return self._messages.parts(payload, suffix)
        if mode not in self._requested_modes:
            return ()
        is_debug_checkpoint = mode == "debug" and payload.get("type") == "checkpoint"
        if (is_debug_checkpoint or mode == "checkpoints") and not self._call.streams_checkpoints:
            return ()
        if is_debug_checkpoint:
            payload = {**payload, "payload": add_checkpoint_ids(self._public_checkpoint(payload["payload"]))}
        elif mode == "checkpoints":
            payload = self._public_checkpoint(payload)
        return (StreamPart(f"{mode}{suffix}", payload),)

    def _public_checkpoint(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Return a checkpoint's event without the request headers of its config, so that it can be stored and sent."""
        headers = self._call.config["configurable"].get(HEADERS_KEY)
        configs = {name: payload[name] for name in ("config", "parent_config") if payload.get(name)}
        shown = {name: remove_headers(config, headers) for name, config in configs.items()}
        return convert_stored_metadata({**payload, **shown})


def convert_stored_metadata(payload: dict[str, Any]) -> dict[str, Any]:
    """Convert the metadata of the stored checkpoint that a run started from, as in a thread's state."""
    metadata = payload.get("metadata") or {}
    if "run_id" not in metadata:
        return payload
    return {**payload, "metadata": api_metadata(metadata, payload["config"]["configurable"])}


def api_metadata(metadata: Mapping[str, Any], configurable: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored checkpoint's metadata in the API's form; `configurable` identifies the checkpoint."""
    shown = {**metadata, "thread_id": configurable["thread_id"]}
    namespace = configurable.get("checkpoint_ns")
    if namespace and "run_id" in shown:
        # The configuration of the run that wrote it, as the reference server shows it.
        shown |= {"checkpoint_ns": namespace, "checkpoint_map": shown.get("parents", {})}
    if FORKED_FROM in shown:
        shown["checkpoint_id"] = shown.pop(FORKED_FROM)
    return shown


def add_checkpoint_ids(payload: dict[str, Any]) -> dict[str, Any]:
    """Add `checkpoint` and `parent_checkpoint` to a debug checkpoint, as the API shows it."""
    return {
        **payload,
        "checkpoint": checkpoint_ids(payload.get("config")),
        "parent_checkpoint": checkpoint_ids(payload.get("parent_config")),
        "tasks": [_add_task_checkpoint(task) for task in payload.get("tasks", ())],
    }


def _add_task_checkpoint(task: dict[str, Any]) -> dict[str, Any]:
    """Replace a task's subgraph state by the ids of the subgraph's `checkpoint`."""
    if not task.get("state"):
        return task
    shown = {name: item for name, item in task.items() if name != "state"}
    return {**shown, "checkpoint": checkpoint_ids(task["state"])}


def checkpoint_ids(config: Any) -> dict[str, Any] | None:
    """Return {thread_id, checkpoint_ns, checkpoint_id, checkpoint_map?} of a config; None without a config."""
    if not config:
        return None
    configurable = config.get("configurable") or {}
    names = ("checkpoint_id", "thread_id", "checkpoint_ns", "checkpoint_map")
    return {name: configurable[name] for name in names if name in configurable}


TASKS_CHANNEL = "toolweave_tasks"
# LangGraph only streams these modes on request; a graph requests them by the transformers it is compiled with.
OPT_IN_MODES = frozenset({"updates", "custom"})


class AllModesTransformer(StreamTransformer):
    """Make LangGraph stream all modes that have a channel; without it the tasks' events stay internal."""

    _native = True
    required_stream_modes = ("values", "updates", "messages", "custom", "tasks", "checkpoints", "tools")

    def init(self) -> dict[str, Any]:
        """Open the channel for the tasks' events."""
        self.tasks: StreamChannel[Any] = StreamChannel(TASKS_CHANNEL)
        return {TASKS_CHANNEL: self.tasks}

    def process(self, event: ProtocolEvent) -> bool:
        """Copy a task's event with its namespace to the channel; let all events pass."""
        if event["method"] == "tasks":
            self.tasks.push(event["params"])
        return True


class ProtocolStream:
    """Run a graph, publish its events, and yield its values as parts; used like `GraphStream`."""

    def __init__(self, graph: Graph, call: GraphCall, publisher: RunPublisher) -> None:
        self._graph = graph
        self._call = call
        self._publisher = publisher
        self._opt_in_modes = requested_opt_in_modes(graph)
        self._pending_values: tuple[Namespace, Any] | None = None
        self._router = MessageRouter()
        # Modes that are not listed, such as `debug`, have no channel.
        self._handlers: Mapping[str, Callable[[Namespace, Any], None]] = {
            "lifecycle": self._publish_lifecycle,
            "messages": self._publish_message,
            "custom": self._publish_custom,
            "updates": self._publish_updates,
            "tasks": partial(publisher.publish, "tasks", detail=True),
            "tools": partial(publisher.publish, "tools"),
        }
        self.values: Any = None
        self.interrupted = False

    async def parts(self) -> AsyncGenerator[StreamPart, None]:
        """Yield the root graph's values; all other events are only published."""
        call = self._call
        with suppress_langchain_beta_warning():
            stream = await self._graph.astream_events(
                call.input,
                call.config,
                version="v3",
                transformers=[AllModesTransformer],
                context=build_context(self._graph, call.context),
                interrupt_before=call.interrupt_before or None,
                interrupt_after=call.interrupt_after or None,
                durability=call.durability,
            )
        try:
            async with stream:
                async for event in stream:
                    self._publish(event["method"], event["params"])
                    if event["method"] == "values" and not event["params"]["namespace"]:
                        yield StreamPart("values", event["params"]["data"])
        finally:
            self._flush_values()

    def _publish(self, method: str, params: Mapping[str, Any]) -> None:
        if method == TASKS_CHANNEL:
            method, params = "tasks", params["data"]
        namespace, data = tuple(params["namespace"]), params["data"]
        if method == "checkpoints":
            self._publish_checkpoint(namespace, data)
            return
        self._flush_values()
        if method == "values":
            self._publish_values(namespace, data, params.get("interrupts") or ())
        elif method.startswith(CUSTOM_PREFIX):
            payload = {"name": method.removeprefix(CUSTOM_PREFIX), "payload": data}
            self._publisher.publish(custom_channel(payload), namespace, payload)
        elif handler := self._handlers.get(method):
            handler(namespace, data)

    def _publish_values(self, namespace: Namespace, data: Any, interrupts: Sequence[Interrupt]) -> None:
        if not namespace:
            self.interrupted = self.interrupted or bool(interrupts)
            # Writes of tasks beside an interrupted one are not part of a step's state yet.
            if not self.interrupted or self.values is None:
                self.values = data
        if interrupts:
            self._publisher.publish_values(namespace, data, interrupts)
        else:
            self._pending_values = (namespace, data)

    def _publish_checkpoint(self, namespace: Namespace, data: Mapping[str, Any]) -> None:
        # Clients expect a checkpoint right before its values; LangGraph emits it right after them.
        pending = self._pending_values
        if pending is not None and pending[0] != namespace:
            self._flush_values()
        self._publisher.publish("checkpoints", namespace, checkpoint_envelope(data), detail=True)
        self._flush_values()

    def _flush_values(self) -> None:
        pending, self._pending_values = self._pending_values, None
        if pending is not None:
            self._publisher.publish_values(*pending)

    def _publish_custom(self, namespace: Namespace, data: Any) -> None:
        self._publisher.publish(custom_channel(data), namespace, data, detail="custom" not in self._opt_in_modes)

    def _publish_updates(self, namespace: Namespace, data: Any) -> None:
        self.interrupted = self.interrupted or (not namespace and isinstance(data, dict) and INTERRUPT_KEY in data)
        self._publisher.publish("updates", namespace, data, detail="updates" not in self._opt_in_modes)

    def _publish_lifecycle(self, _namespace: Namespace, data: Mapping[str, Any]) -> None:
        namespace = tuple(data["namespace"])
        if data["event"] == "started":
            self._publisher.publish_graph_start(namespace, data)
        else:
            self._publisher.publish_graph_end(namespace, data["event"], data.get("error"))

    def _publish_message(self, namespace: Namespace, data: Any) -> None:
        event, metadata = data
        # Whole messages, which were not streamed, are in the values.
        if isinstance(event, dict) and "event" in event:
            self._publisher.publish("messages", namespace, self._router.route(namespace, event, metadata))


class MessageRouter:
    """Add message ids to events while several messages are streamed in one graph at a time."""

    def __init__(self) -> None:
        self._streamed_ids: dict[Namespace, dict[str, Any]] = {}

    def route(self, namespace: Namespace, event: dict[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Return the event, with its message's id if it could belong to another message."""
        streamed = self._streamed_ids.setdefault(namespace, {})
        model_run = str(metadata.get("run_id"))
        if event["event"] == "message-start":
            streamed[model_run] = event.get("id")
        elif len(streamed) > 1 and "id" not in event and model_run in streamed:
            event = {**event, "id": streamed[model_run]}
        if event["event"] in ("message-finish", "error"):
            streamed.pop(model_run, None)
        return event


def requested_opt_in_modes(graph: Graph) -> frozenset[str]:
    """Return the opt-in modes that the transformers of the compiled graph require."""
    modes: set[str] = set()
    for factory in graph.stream_transformers or ():
        transformer = factory if isinstance(factory, type) else factory(())
        modes.update(getattr(transformer, "required_stream_modes", ()))
    return frozenset(modes & OPT_IN_MODES)


def custom_channel(data: object) -> str:
    """Return the channel of custom data: a named one if the data has a name."""
    name = data.get("name") if isinstance(data, dict) else None
    return f"{CUSTOM_PREFIX}{name}" if isinstance(name, str) and is_encodable(name) else "custom"


def is_encodable(name: str) -> bool:
    """Return whether a name can be stored and sent; lone surrogates cannot."""
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False


def checkpoint_envelope(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what clients need to fork from a checkpoint: {id, parent_id?, step, source}."""
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
