"""Run a graph by LangGraph's own event streaming (version 3) and announce what it tells."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from langchain_core._api import suppress_langchain_beta_warning
from langgraph.stream import ProtocolEvent, StreamChannel, StreamTransformer
from langgraph.types import Interrupt

from toolweave.runtime.graphs import Graph
from toolweave.runtime.protocol.run_announcer import RunAnnouncer
from toolweave.runtime.protocol.thread_event import Namespace
from toolweave.runtime.runs.graph_context import context_for
from toolweave.runtime.runs.graph_input import GraphCall
from toolweave.runtime.runs.message_parts import Part
from toolweave.runtime.runs.stream_parts import INTERRUPT

NAMED = "custom:"
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

    async def parts(self) -> AsyncGenerator[Part, None]:
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
                        yield Part("values", event["params"]["data"])
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
