"""Stream a graph as the named events of the LangGraph API (langgraph_api.md section 6.1)."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from langgraph.pregel import Pregel

from toolweave.runtime.persistence.checkpointer import FORKED_FROM, HEADERS_KEY, without_headers
from toolweave.runtime.runs.graph_context import context_for
from toolweave.runtime.runs.graph_input import GraphCall
from toolweave.runtime.runs.message_parts import MessageParts, Part

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

    async def parts(self) -> AsyncGenerator[Part, None]:
        """Give the parts in the order in which LangGraph makes them."""
        source = self._with_events() if "events" in self._wanted else self._chunks()
        async with aclosing(source) as items:
            async for item in items:
                if isinstance(item, Part):
                    yield item
                    continue
                self._notice(item)
                for part in self._named(item):
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

    async def _chunks(self) -> AsyncGenerator[Chunk | Part, None]:
        stream = self._graph.astream(self._call.input, self._call.config, **self._arguments())
        async for chunk in stream:
            yield chunk if self._call.subgraphs else ((), *chunk)

    async def _with_events(self) -> AsyncGenerator[Chunk | Part, None]:
        root = str(self._call.config["run_id"])
        stream = self._graph.astream_events(self._call.input, self._call.config, version="v2", **self._arguments())
        async for event in stream:
            if event["event"] == "on_chain_stream" and event["run_id"] == root:
                chunk = event["data"]["chunk"]
                yield chunk if self._call.subgraphs else ((), *chunk)
            else:
                yield Part("events", event)

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

    def _named(self, chunk: Chunk) -> Sequence[Part]:
        namespace, mode, payload = chunk
        suffix = "".join(f"|{step}" for step in namespace)
        if mode == "messages":
            if "messages-tuple" in self._wanted:
                return (Part(f"messages{suffix}", payload),)
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
        return (Part(f"{mode}{suffix}", payload),)

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
