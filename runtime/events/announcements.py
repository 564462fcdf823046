"""Announce what runs do on their threads in the newer protocol, from their first event to the end (section 7)."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.types import Interrupt

from toolweave.runtime.codec import dumps, plain
from toolweave.runtime.events.channel import Channel, speaks_protocol
from toolweave.runtime.events.log import ThreadLog
from toolweave.runtime.models import JsonObject, Namespace, Outcome, Run, StreamEvent

MALFORMED = "Malformed args."
WRITTEN_OUT = frozenset({"type", "content", "id", "tool_calls", "invalid_tool_calls", "artifact"})
# Of a message that is still being streamed.
PARTIAL = frozenset({"chunk_position", "tool_call_chunks"})


def wire_json(value: object) -> bytes:
    """Encode a value as JSON; like `codec.dumps` it never raises."""
    return dumps(value, _form)


def wire_message(message: BaseMessage) -> JsonObject:
    """Give a message's type, content and id, and what else it has; tool results always with their artifact."""
    kind = message.type.removesuffix("MessageChunk").lower()
    wired: JsonObject = {"type": kind, "content": message.content, "id": message.id}
    if isinstance(message, AIMessage):
        wired |= _calls(message)
    for name, value in message.model_dump(exclude={*WRITTEN_OUT, *PARTIAL}).items():
        if value not in (None, {}, [], False, ""):
            wired[name] = value
    if isinstance(message, ToolMessage):
        wired["artifact"] = message.artifact
    return wired


def _calls(message: AIMessage) -> JsonObject:
    calls: JsonObject = {}
    if message.tool_calls:
        calls["tool_calls"] = [
            {"type": "tool_call", "name": call["name"], "args": call["args"], "id": call["id"]}
            for call in message.tool_calls
        ]
    if message.invalid_tool_calls:
        calls["invalid_tool_calls"] = [
            {**call, "error": call.get("error") or MALFORMED} for call in message.invalid_tool_calls
        ]
    return calls


def _form(value: object) -> object:
    return wire_message(value) if isinstance(value, BaseMessage) else plain(value)


ROOT: Namespace = ()
INTERRUPT = "__interrupt__"
# Of a graph that LangGraph stopped so that its process can end; clients know no such word.
DRAINED = "drained"


@dataclass(slots=True)
class RunAnnouncer:
    """Publish a run's protocol events to its thread: all events if `whole`, otherwise status, questions and values."""

    log: ThreadLog
    channel: Channel
    run: Run
    whole: bool
    began_after: int
    questions: set[str] = field(default_factory=set)
    interrupted: bool = False
    graphs: dict[Namespace, str] = field(default_factory=dict)

    def begin(self) -> None:
        """Say that the run is being executed."""
        self._lifecycle(ROOT, "running")

    def values(self, namespace: Namespace, values: object, interrupts: Iterable[Interrupt] = ()) -> None:
        """Announce a graph's state; questions come first, and after the first one that the run is interrupted."""
        for interrupt in interrupts:
            self._ask(namespace, interrupt.id, interrupt.value)
            self._stand_still()
        self.tell("values", namespace, values)

    def state(self, values: object) -> None:
        """Announce the root graph's state in the form of the older API, unless the run announces everything itself."""
        if self.whole:
            return
        asked: Iterable[Interrupt] = ()
        if isinstance(values, dict) and INTERRUPT in values:
            asked = values[INTERRUPT]
            values = {name: value for name, value in values.items() if name != INTERRUPT}
        self.values(ROOT, values, asked)

    def tell(self, channel: str, namespace: Namespace, data: object, *, detail: bool = False) -> None:
        """Announce data on a channel."""
        self.log.write(self.channel, self.run.run_id, channel, namespace, wire_json(data), detail=detail)

    def graph_began(self, namespace: Namespace, began: Mapping[str, Any]) -> None:
        """Say that a subgraph has begun: {event: started, namespace, graph_name, trigger_call_id, cause?}."""
        self.graphs[namespace] = str(began.get("graph_name") or "")
        self.tell("lifecycle", namespace, began)

    def graph_ended(self, namespace: Namespace, event: str, error: str | None = None) -> None:
        """Say how a subgraph has ended."""
        if namespace in self.graphs:
            self._lifecycle(namespace, "interrupted" if event == DRAINED else event, error=error)
            del self.graphs[namespace]

    def end(self, outcome: Outcome) -> StreamEvent | None:
        """Store how the run has ended; the event is delivered by the caller once the run's row says so, too.

        None when everything has been told: a run that asks a human has stood still before.
        """
        for questions in outcome.interrupts.values() if outcome.status == "success" else ():
            for question in questions:
                self._ask(ROOT, question["id"], question["value"])
                self._stand_still()
        if outcome.status == "interrupted":
            for namespace in sorted(self.graphs, key=len, reverse=True):
                self.graph_ended(namespace, "interrupted")
        elif self.interrupted and outcome.status == "success":
            return None
        event = {"success": "completed", "interrupted": "interrupted"}.get(outcome.status, "failed")
        error = (outcome.error or {}).get("message") if outcome.status == "error" else None
        return self._lifecycle(ROOT, event, error=error, held=True)

    def _ask(self, namespace: Namespace, interrupt_id: str, value: object) -> None:
        if interrupt_id in self.questions:
            return
        self.questions.add(interrupt_id)
        asked = dumps({"interrupt_id": interrupt_id, "payload": value})
        event_id = self._synthetic("input", namespace, interrupt_id)
        self.log.write(self.channel, self.run.run_id, "input", namespace, asked, event_id=event_id)

    def _stand_still(self) -> None:
        if not self.interrupted:
            self.interrupted = True
            self._lifecycle(ROOT, "interrupted")

    def _lifecycle(
        self, namespace: Namespace, event: str, *, error: str | None = None, held: bool = False
    ) -> StreamEvent:
        name = self.graphs.get(namespace, self.run.graph_id)
        data: JsonObject = {"event": event, "graph_name": name}
        if error is not None:
            data["error"] = error
        event_id = self._synthetic("lc", namespace, event)
        run_id, encoded = self.run.run_id, wire_json(data)
        return self.log.write(self.channel, run_id, "lifecycle", namespace, encoded, event_id=event_id, held=held)

    def _synthetic(self, kind: str, namespace: Namespace, what: str) -> str:
        """Name an event so that it is the same one when a later attempt of the run tells it again."""
        steps = "\0".join(namespace)
        return f"synth:{self.run.run_id}:{kind}|{steps}|{what}"


class Announcements:
    """The runs that are being executed and announce something.

    These are all runs that the newer protocol has started, and those of the older endpoints whose thread has a listener
    when they begin: these announce their status and values only. A request that answers a question holds `answering`.
    """

    def __init__(self, log: ThreadLog) -> None:
        self.log = log
        self.answering = asyncio.Lock()
        self._announcers: dict[str, RunAnnouncer] = {}

    async def begin(self, run: Run) -> RunAnnouncer | None:
        """Make the announcer of a run that is about to be executed; None when the run announces nothing."""
        whole = speaks_protocol(run)
        if not whole and not self.log.has_listeners(run.thread_id):
            return None
        announcer = await self._open(run, whole=whole)
        announcer.begin()
        return announcer

    def asking(self, thread_id: str, interrupt_id: str) -> str | None:
        """Name the run that has asked this question and has not ended yet."""
        of_thread = (each for each in self._announcers.values() if each.run.thread_id == thread_id)
        return next((each.run.run_id for each in of_thread if interrupt_id in each.questions), None)

    def stands_still(self, thread_id: str) -> bool:
        """Say whether a run that has not ended yet has announced that it waits for a human."""
        return any(each.interrupted and each.run.thread_id == thread_id for each in self._announcers.values())

    @asynccontextmanager
    async def ending(self, run: Run, outcome: Outcome) -> AsyncIterator[None]:
        """Store how a run ends before the block writes its row, and tell it afterwards.

        A process that dies in between has told nobody; a client that is told finds the run ended.
        """
        announcer = self._announcers.get(run.run_id)
        if announcer is None and speaks_protocol(run):
            announcer = await self._open(run, whole=True)
        if announcer is None:
            yield
            return
        try:
            last = announcer.end(outcome)
            self.log.flush()
            yield
            if last is not None:
                announcer.channel.deliver(last)
            self.log.forget_old(announcer.channel, announcer.began_after)
        finally:
            self._announcers.pop(run.run_id, None)
            self.log.release(announcer.channel)

    async def _open(self, run: Run, *, whole: bool) -> RunAnnouncer:
        channel = await self.log.open(run.thread_id)
        earlier = self._announcers.pop(run.run_id, None)
        if earlier is not None:
            # Of an attempt whose end could not be written.
            self.log.release(earlier.channel)
        announcer = self._announcers[run.run_id] = RunAnnouncer(self.log, channel, run, whole, channel.seq)
        return announcer
