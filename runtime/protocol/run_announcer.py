"""Tell what one execution of a run does, in the order and form of the newer protocol."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from langgraph.types import Interrupt

from toolweave.runtime.models import JsonObject, Outcome, Run
from toolweave.runtime.protocol.thread_channel import ThreadChannel
from toolweave.runtime.protocol.thread_event import Namespace, NewEvent, ThreadEvent
from toolweave.runtime.protocol.thread_log import ThreadLog
from toolweave.runtime.protocol.wire import wire_json
from toolweave.runtime.streaming.codec import dumps

ROOT: Namespace = ()
INTERRUPT = "__interrupt__"
# Of a graph that LangGraph stopped so that its process can end; clients know no such word.
DRAINED = "drained"


@dataclass(slots=True)
class RunAnnouncer:
    """The voice of one run on its thread; `whole` runs tell everything, others only how they stand."""

    log: ThreadLog
    channel: ThreadChannel
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
        """Tell a graph's state; questions to a human come first, and that the run stands still after the first."""
        for interrupt in interrupts:
            self._ask(namespace, interrupt.id, interrupt.value)
            self._stand_still()
        self.tell("values", namespace, values)

    def state(self, values: object) -> None:
        """Tell the root graph's state in the form of the older API, which has the questions in it."""
        asked: Iterable[Interrupt] = ()
        if isinstance(values, dict) and INTERRUPT in values:
            asked = values[INTERRUPT]
            values = {name: value for name, value in values.items() if name != INTERRUPT}
        self.values(ROOT, values, asked)

    def tell(self, channel: str, namespace: Namespace, data: object, *, detail: bool = False) -> None:
        """Tell something on a channel."""
        self._write(NewEvent(self.run.run_id, channel, namespace, wire_json(data), detail=detail))

    def graph_began(self, namespace: Namespace, began: Mapping[str, Any]) -> None:
        """Say that a subgraph has begun: {event: started, namespace, graph_name, trigger_call_id, cause?}."""
        self.graphs[namespace] = str(began.get("graph_name") or "")
        self.tell("lifecycle", namespace, began)

    def graph_ended(self, namespace: Namespace, event: str, error: str | None = None) -> None:
        """Say how a subgraph has ended."""
        if namespace in self.graphs:
            self._lifecycle(namespace, "interrupted" if event == DRAINED else event, error=error)
            del self.graphs[namespace]

    def end(self, outcome: Outcome) -> ThreadEvent | None:
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
        self._write(NewEvent(self.run.run_id, "input", namespace, asked, event_id))

    def _stand_still(self) -> None:
        if not self.interrupted:
            self.interrupted = True
            self._lifecycle(ROOT, "interrupted")

    def _lifecycle(
        self, namespace: Namespace, event: str, *, error: str | None = None, held: bool = False
    ) -> ThreadEvent:
        name = self.graphs.get(namespace, self.run.graph_id)
        data: JsonObject = {"event": event, "graph_name": name}
        if error is not None:
            data["error"] = error
        event_id = self._synthetic("lc", namespace, event)
        return self._write(NewEvent(self.run.run_id, "lifecycle", namespace, wire_json(data), event_id), held=held)

    def _synthetic(self, kind: str, namespace: Namespace, what: str) -> str:
        """Name an event so that it is the same one when a later attempt of the run tells it again."""
        steps = "\0".join(namespace)
        return f"synth:{self.run.run_id}:{kind}|{steps}|{what}"

    def _write(self, new: NewEvent, *, held: bool = False) -> ThreadEvent:
        return self.log.write(self.channel, new, held=held)
