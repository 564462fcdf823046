"""Find a task by its id and say how it stands (langgraph_api.md section 8)."""

from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig

from toolweave.api.langgraph.a2a.dialect import State
from toolweave.api.langgraph.a2a.outgoing import TaskName
from toolweave.api.langgraph.json_rpc import RpcError
from toolweave.api.langgraph.request_values import is_uuid
from toolweave.api.langgraph.served import Served
from toolweave.errors import NotFound
from toolweave.runtime.codec import dumps, loads
from toolweave.runtime.models import Assistant, JsonObject, Run, Thread
from toolweave.runtime.runs.refused_writes import readable_history

TASK_NOT_FOUND = -32001
MOST_RUNS = 1000
# In a thread's metadata: the waiting tasks that were cancelled, which leaves no other trace.
CANCELED = "a2a_canceled"


@dataclass(frozen=True, slots=True)
class Task:
    """A task: what names it, its runs from the newest to the one that began it, and its thread."""

    name: TaskName
    runs: tuple[Run, ...]
    thread: Thread
    newest_on_thread: bool

    @property
    def run(self) -> Run:
        """Give the run that says how the task stands."""
        return self.runs[0]

    @property
    def first_message_id(self) -> str | None:
        """Name the message that began the task."""
        begun: JsonObject = self.runs[-1].metadata.get("a2a") or {}
        found = begun.get("message_id")
        return found if isinstance(found, str) else None

    @property
    def questions(self) -> list[JsonObject]:
        """Give what the task waits to be answered; only the thread's newest run can wait."""
        waiting = self.thread.interrupts if self.newest_on_thread and self.thread.status == "interrupted" else None
        return [interrupt for interrupts in (waiting or {}).values() for interrupt in interrupts]

    @property
    def state(self) -> State:
        """Say how it stands."""
        if self.name.task_id in self.thread.metadata.get(CANCELED, ()):
            return "canceled"
        if self.run.status == "success":
            return "input-required" if self.questions else "completed"
        states: dict[str, State] = {"pending": "submitted", "running": "working", "interrupted": "canceled"}
        return states.get(self.run.status, "failed")


async def find_task(here: Served, assistant: Assistant, task_id: str, context_id: str | None = None) -> Task:
    """Find one of the assistant's tasks. Raises RpcError when there is none, or not in this context."""
    thread_id, _, run_id = task_id.partition(":")
    where = f" in context '{context_id}'" if context_id is not None else ""
    missing = RpcError(TASK_NOT_FOUND, f"Task not found: {task_id}{where}")
    if not is_uuid(thread_id) or not is_uuid(run_id) or context_id not in (None, thread_id):
        raise missing
    try:
        thread = await here.persistence.threads.get(thread_id)
        on_thread = await here.persistence.runs.list(thread_id, limit=MOST_RUNS)
    except NotFound:
        raise missing from None
    for task in tasks_on(assistant, thread, on_thread):
        if task.name.task_id == task_id:
            return task
    raise missing


def tasks_on(assistant: Assistant, thread: Thread, runs: list[Run]) -> list[Task]:
    """Gather the assistant's runs on a thread (newest first) into tasks, the newest first."""
    by_id: dict[str, list[Run]] = {}
    for run in runs:
        if run.assistant_id == assistant.assistant_id:
            marks: Any = run.metadata.get("a2a")
            continued = marks.get("task_id") if isinstance(marks, dict) else None
            by_id.setdefault(continued or f"{run.thread_id}:{run.run_id}", []).append(run)
    return [
        Task(TaskName(thread.thread_id, task_id.rpartition(":")[2]), tuple(mine), thread, mine[0] is runs[0])
        for task_id, mine in by_id.items()
    ]


async def values_after(here: Served, run: Run) -> Any:
    """Give the state that a run left, or has reached; None when it has written none."""
    config: RunnableConfig = {"configurable": {"thread_id": run.thread_id, "checkpoint_ns": ""}}
    async with here.graphs.open(run.graph_id, config) as graph:
        states = await readable_history(graph, config, limit=1, filters={"run_id": run.run_id})
    return loads(dumps(states[0].values)) if states else None
