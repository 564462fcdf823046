"""Publish the events of runs to their threads in the newer protocol (langgraph_api.md section 7)."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.types import Interrupt

from toolweave.runtime.codec import dumps, json_default
from toolweave.runtime.events.channel import Channel, uses_protocol
from toolweave.runtime.events.log import ThreadLog
from toolweave.runtime.models import JsonObject, Namespace, Outcome, Run, StreamEvent
from toolweave.runtime.persistence.events import append_last_event
from toolweave.runtime.persistence.runs import ExtraWork

MALFORMED_ARGS_ERROR = "Malformed args."
EXPLICIT_FIELDS = frozenset({"type", "content", "id", "tool_calls", "invalid_tool_calls", "artifact"})
# Fields that only message chunks have.
CHUNK_FIELDS = frozenset({"chunk_position", "tool_call_chunks"})


def wire_json(value: object) -> bytes:
    """Encode a value as JSON; like `codec.dumps` it never raises."""
    return dumps(value, _to_wire)


def wire_message(message: BaseMessage) -> JsonObject:
    """Return a message's type, content, id and other non-empty fields; tool results always include their artifact."""
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
    return wire_message(value) if isinstance(value, BaseMessage) else json_default(value)


ROOT_NAMESPACE: Namespace = ()
INTERRUPT_KEY = "__interrupt__"
# LangGraph's event for a graph that it stopped so that the process can exit; the protocol has no such event.
DRAINED = "drained"


@dataclass(slots=True)
class RunPublisher:
    """Publish a run's protocol events to its thread.

    If `publishes_all` is false, only lifecycle, interrupts and values are published.
    """

    log: ThreadLog
    channel: Channel
    run: Run
    publishes_all: bool
    start_seq: int
    interrupt_ids: set[str] = field(default_factory=set)
    interrupted: bool = False
    subgraph_names: dict[Namespace, str] = field(default_factory=dict)

    def publish_start(self) -> None:
        """Publish that the run is executing."""
        self._publish_lifecycle(ROOT_NAMESPACE, "running")

    def publish_values(self, namespace: Namespace, values: object, interrupts: Iterable[Interrupt] = ()) -> None:
        """Publish a graph's state after its interrupts, of which the first is followed by the run's interruption."""
        for interrupt in interrupts:
            self._publish_interrupt(namespace, interrupt.id, interrupt.value)
            self._publish_interrupted()
        self.publish("values", namespace, values)

    def publish_state(self, values: object) -> None:
        """Publish the root graph's state in the form of the older API, unless the run publishes all its events."""
        if self.publishes_all:
            return
        interrupts: Iterable[Interrupt] = ()
        if isinstance(values, dict) and INTERRUPT_KEY in values:
            interrupts = values[INTERRUPT_KEY]
            values = {name: value for name, value in values.items() if name != INTERRUPT_KEY}
        self.publish_values(ROOT_NAMESPACE, values, interrupts)

    def publish(self, channel: str, namespace: Namespace, data: object, *, detail: bool = False) -> None:
        """Publish data on a channel."""
        self.log.publish(self.channel, self.run.run_id, channel, namespace, wire_json(data), detail=detail)

    def publish_graph_start(self, namespace: Namespace, data: Mapping[str, Any]) -> None:
        """Publish that a subgraph has started: {event: started, namespace, graph_name, trigger_call_id, cause?}."""
        self.subgraph_names[namespace] = str(data.get("graph_name") or "")
        self.publish("lifecycle", namespace, data)

    def publish_graph_end(self, namespace: Namespace, event: str, error: str | None = None) -> None:
        """Publish how a subgraph has ended."""
        if namespace in self.subgraph_names:
            self._publish_lifecycle(namespace, "interrupted" if event == DRAINED else event, error=error)
            del self.subgraph_names[namespace]

    def last_event(self, outcome: Outcome) -> StreamEvent | None:
        """Return the event of the run's end, which the caller stores and delivers.

        Return None if the run's interrupt has been published already: then there is no other end event.
        """
        for interrupts in outcome.interrupts.values() if outcome.status == "success" else ():
            for interrupt in interrupts:
                self._publish_interrupt(ROOT_NAMESPACE, interrupt["id"], interrupt["value"])
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
        """Return an event id that stays the same when a later attempt of the run publishes the event again."""
        steps = "\0".join(namespace)
        return f"synth:{self.run.run_id}:{kind}|{steps}|{detail}"


class Publishers:
    """The publishers of the executing runs.

    A run that the newer protocol started always has one. A run of the older endpoints has one if its thread has a
    listener when the run starts, and publishes only status and values.
    """

    def __init__(self, log: ThreadLog) -> None:
        self.log = log
        self._publishers: dict[str, RunPublisher] = {}

    async def start_run(self, run: Run) -> RunPublisher | None:
        """Open the publisher of a run that is about to execute and publish its start; None if the run has none."""
        publishes_all = uses_protocol(run)
        if not publishes_all and not self.log.is_followed(run):
            return None
        publisher = await self._open_publisher(run, publishes_all=publishes_all)
        publisher.publish_start()
        return publisher

    def find_interrupted_run(self, thread_id: str, interrupt_id: str) -> str | None:
        """Return the id of the run that published this interrupt and has not ended yet."""
        publishers = (each for each in self._publishers.values() if each.run.thread_id == thread_id)
        return next((each.run.run_id for each in publishers if interrupt_id in each.interrupt_ids), None)

    def is_waiting_for_input(self, thread_id: str) -> bool:
        """Return whether a run that has not ended yet has published that it is interrupted."""
        return any(each.interrupted and each.run.thread_id == thread_id for each in self._publishers.values())

    @asynccontextmanager
    async def publish_end(self, run: Run, outcome: Outcome) -> AsyncIterator[ExtraWork | None]:
        """Yield the work that stores the run's end event, for the transaction of the run's end; then deliver the event.

        A client that receives it finds the run ended.
        """
        publisher = self._publishers.get(run.run_id)
        if publisher is None and uses_protocol(run):
            publisher = await self._open_publisher(run, publishes_all=True)
        if publisher is None:
            yield None
            return
        try:
            last = publisher.last_event(outcome)
            self.log.flush()
            yield (
                None
                if last is None
                else partial(append_last_event, thread_id=run.thread_id, event=last, is_rolled_back=outcome.rolled_back)
            )
            if last is not None:
                publisher.channel.deliver(last)
            self.log.prune_old(publisher.channel, publisher.start_seq)
        finally:
            self._publishers.pop(run.run_id, None)
            self.log.release(publisher.channel)

    async def _open_publisher(self, run: Run, *, publishes_all: bool) -> RunPublisher:
        channel = await self.log.open_channel(run.thread_id)
        channel.attempt = run.attempt
        earlier = self._publishers.pop(run.run_id, None)
        if earlier is not None:
            # An earlier attempt whose end could not be stored.
            self.log.release(earlier.channel)
        publisher = self._publishers[run.run_id] = RunPublisher(self.log, channel, run, publishes_all, channel.last_seq)
        return publisher
