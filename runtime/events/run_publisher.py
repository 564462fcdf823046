"""Announce what runs do on their threads in the newer protocol, from their first event to the end (section 7)."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.types import Interrupt

from toolweave.runtime.codec import dumps, to_jsonable
from toolweave.runtime.events.channel import Channel, uses_protocol
from toolweave.runtime.events.log import ThreadLog
from toolweave.runtime.models import JsonObject, Namespace, Outcome, Run, StreamEvent

MALFORMED_ARGS_ERROR = "Malformed args."
EXPLICIT_FIELDS = frozenset({"type", "content", "id", "tool_calls", "invalid_tool_calls", "artifact"})
# Of a message that is still being streamed.
CHUNK_FIELDS = frozenset({"chunk_position", "tool_call_chunks"})


def wire_json(value: object) -> bytes:
    """Encode a value as JSON; like `codec.dumps` it never raises."""
    return dumps(value, _to_wire)


def wire_message(message: BaseMessage) -> JsonObject:
    """Give a message's type, content and id, and what else it has; tool results always with their artifact."""
    kind = message.type.removesuffix("MessageChunk").lower()
    wired: JsonObject = {"type": kind, "content": message.content, "id": message.id}
    if isinstance(message, AIMessage):
        wired |= _wire_tool_calls(message)
    for name, value in message.model_dump(exclude={*EXPLICIT_FIELDS, *CHUNK_FIELDS}).items():
        if value not in (None, {}, [], False, ""):
            wired[name] = value
    if isinstance(message, ToolMessage):
        wired["artifact"] = message.artifact
    return wired


def _wire_tool_calls(message: AIMessage) -> JsonObject:
    calls: JsonObject = {}
    if message.tool_calls:
        calls["tool_calls"] = [
            {"type": "tool_call", "name": call["name"], "args": call["args"], "id": call["id"]}
            for call in message.tool_calls
        ]
    if message.invalid_tool_calls:
        calls["invalid_tool_calls"] = [
            {**call, "error": call.get("error") or MALFORMED_ARGS_ERROR} for call in message.invalid_tool_calls
        ]
    return calls


def _to_wire(value: object) -> object:
    return wire_message(value) if isinstance(value, BaseMessage) else to_jsonable(value)


ROOT_NAMESPACE: Namespace = ()
INTERRUPT_KEY = "__interrupt__"
# Of a graph that LangGraph stopped so that its process can end; clients know no such word.
DRAINED = "drained"


@dataclass(slots=True)
class RunPublisher:
    """Publish a run's protocol events to its thread: all events if `whole`, otherwise status, questions and values."""

    log: ThreadLog
    channel: Channel
    run: Run
    publishes_all: bool
    start_seq: int
    interrupt_ids: set[str] = field(default_factory=set)
    interrupted: bool = False
    subgraph_names: dict[Namespace, str] = field(default_factory=dict)

    def publish_start(self) -> None:
        """Say that the run is being executed."""
        self._publish_lifecycle(ROOT_NAMESPACE, "running")

    def publish_values(self, namespace: Namespace, values: object, interrupts: Iterable[Interrupt] = ()) -> None:
        """Announce a graph's state; questions come first, and after the first one that the run is interrupted."""
        for interrupt in interrupts:
            self._publish_interrupt(namespace, interrupt.id, interrupt.value)
            self._publish_interrupted()
        self.publish("values", namespace, values)

    def publish_state(self, values: object) -> None:
        """Announce the root graph's state in the form of the older API, unless the run announces everything itself."""
        if self.publishes_all:
            return
        interrupts: Iterable[Interrupt] = ()
        if isinstance(values, dict) and INTERRUPT_KEY in values:
            interrupts = values[INTERRUPT_KEY]
            values = {name: value for name, value in values.items() if name != INTERRUPT_KEY}
        self.publish_values(ROOT_NAMESPACE, values, interrupts)

    def publish(self, channel: str, namespace: Namespace, data: object, *, detail: bool = False) -> None:
        """Announce data on a channel."""
        self.log.publish(self.channel, self.run.run_id, channel, namespace, wire_json(data), detail=detail)

    def publish_graph_start(self, namespace: Namespace, data: Mapping[str, Any]) -> None:
        """Say that a subgraph has begun: {event: started, namespace, graph_name, trigger_call_id, cause?}."""
        self.subgraph_names[namespace] = str(data.get("graph_name") or "")
        self.publish("lifecycle", namespace, data)

    def publish_graph_end(self, namespace: Namespace, event: str, error: str | None = None) -> None:
        """Say how a subgraph has ended."""
        if namespace in self.subgraph_names:
            self._publish_lifecycle(namespace, "interrupted" if event == DRAINED else event, error=error)
            del self.subgraph_names[namespace]

    def store_end(self, outcome: Outcome) -> StreamEvent | None:
        """Store how the run has ended; the event is delivered by the caller once the run's row says so, too.

        None when everything has been told: a run that asks a human has stood still before.
        """
        for questions in outcome.interrupts.values() if outcome.status == "success" else ():
            for question in questions:
                self._publish_interrupt(ROOT_NAMESPACE, question["id"], question["value"])
                self._publish_interrupted()
        if outcome.status == "interrupted":
            for namespace in sorted(self.subgraph_names, key=len, reverse=True):
                self.publish_graph_end(namespace, "interrupted")
        elif self.interrupted and outcome.status == "success":
            return None
        event = {"success": "completed", "interrupted": "interrupted"}.get(outcome.status, "failed")
        error = (outcome.error or {}).get("message") if outcome.status == "error" else None
        return self._publish_lifecycle(ROOT_NAMESPACE, event, error=error, deferred=True)

    def _publish_interrupt(self, namespace: Namespace, interrupt_id: str, value: object) -> None:
        if interrupt_id in self.interrupt_ids:
            return
        self.interrupt_ids.add(interrupt_id)
        data = dumps({"interrupt_id": interrupt_id, "payload": value})
        event_id = self._stable_event_id("input", namespace, interrupt_id)
        self.log.publish(self.channel, self.run.run_id, "input", namespace, data, event_id=event_id)

    def _publish_interrupted(self) -> None:
        if not self.interrupted:
            self.interrupted = True
            self._publish_lifecycle(ROOT_NAMESPACE, "interrupted")

    def _publish_lifecycle(
        self, namespace: Namespace, event: str, *, error: str | None = None, deferred: bool = False
    ) -> StreamEvent:
        name = self.subgraph_names.get(namespace, self.run.graph_id)
        data: JsonObject = {"event": event, "graph_name": name}
        if error is not None:
            data["error"] = error
        event_id = self._stable_event_id("lc", namespace, event)
        run_id, raw = self.run.run_id, wire_json(data)
        return self.log.publish(self.channel, run_id, "lifecycle", namespace, raw, event_id=event_id, deferred=deferred)

    def _stable_event_id(self, kind: str, namespace: Namespace, detail: str) -> str:
        """Name an event so that it is the same one when a later attempt of the run tells it again."""
        steps = "\0".join(namespace)
        return f"synth:{self.run.run_id}:{kind}|{steps}|{detail}"


class Publishers:
    """The runs that are being executed and announce something.

    These are all runs that the newer protocol has started, and those of the older endpoints whose thread has a listener
    when they begin: these announce their status and values only. A request that answers a question holds `answering`.
    """

    def __init__(self, log: ThreadLog) -> None:
        self.log = log
        self.resume_lock = asyncio.Lock()
        self._publishers: dict[str, RunPublisher] = {}

    async def start_run(self, run: Run) -> RunPublisher | None:
        """Make the announcer of a run that is about to be executed; None when the run announces nothing."""
        publishes_all = uses_protocol(run)
        if not publishes_all and not self.log.has_listeners(run.thread_id):
            return None
        publisher = await self._open_publisher(run, publishes_all=publishes_all)
        publisher.publish_start()
        return publisher

    def find_interrupted_run(self, thread_id: str, interrupt_id: str) -> str | None:
        """Name the run that has asked this question and has not ended yet."""
        of_thread = (each for each in self._publishers.values() if each.run.thread_id == thread_id)
        return next((each.run.run_id for each in of_thread if interrupt_id in each.interrupt_ids), None)

    def is_waiting_for_input(self, thread_id: str) -> bool:
        """Say whether a run that has not ended yet has announced that it waits for a human."""
        return any(each.interrupted and each.run.thread_id == thread_id for each in self._publishers.values())

    @asynccontextmanager
    async def publish_end(self, run: Run, outcome: Outcome) -> AsyncIterator[None]:
        """Store how a run ends before the block writes its row, and tell it afterwards.

        A process that dies in between has told nobody; a client that is told finds the run ended.
        """
        publisher = self._publishers.get(run.run_id)
        if publisher is None and uses_protocol(run):
            publisher = await self._open_publisher(run, publishes_all=True)
        if publisher is None:
            yield
            return
        try:
            last = publisher.store_end(outcome)
            self.log.flush()
            yield
            if last is not None:
                publisher.channel.deliver(last)
            self.log.prune_old(publisher.channel, publisher.start_seq)
        finally:
            self._publishers.pop(run.run_id, None)
            self.log.release(publisher.channel)

    async def _open_publisher(self, run: Run, *, publishes_all: bool) -> RunPublisher:
        channel = await self.log.open(run.thread_id)
        earlier = self._publishers.pop(run.run_id, None)
        if earlier is not None:
            # Of an attempt whose end could not be written.
            self.log.release(earlier.channel)
        publisher = self._publishers[run.run_id] = RunPublisher(self.log, channel, run, publishes_all, channel.last_seq)
        return publisher
