"""Name what the LangGraph API speaks of: assistants, threads, runs and the words their fields take."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

JsonObject = dict[str, Any]

RunStatus = Literal["pending", "running", "success", "error", "interrupted", "timeout"]
ThreadStatus = Literal["idle", "busy", "interrupted", "error"]
MultitaskStrategy = Literal["reject", "enqueue", "interrupt", "rollback"]
CancelAction = Literal["interrupt", "rollback"]
IfNotExists = Literal["create", "reject"]
OnCompletion = Literal["delete", "keep"]

TERMINAL: frozenset[RunStatus] = frozenset({"success", "error", "interrupted", "timeout"})


@dataclass(frozen=True, slots=True)
class Assistant:
    """One configuration of a graph (langgraph_api.md section 4)."""

    assistant_id: str
    graph_id: str
    config: JsonObject
    context: JsonObject
    metadata: JsonObject
    name: str
    description: str | None
    version: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Thread:
    """One conversation; `values`, `interrupts` and `error` mirror its newest checkpoint.

    `interrupts` is None until the thread's first run has ended: the wire form then has neither
    `interrupts` nor `error` (langgraph_api.md section 4).
    """

    thread_id: str
    created_at: datetime
    updated_at: datetime
    state_updated_at: datetime
    metadata: JsonObject
    status: ThreadStatus
    config: JsonObject
    values: JsonObject | None
    interrupts: JsonObject | None
    error: JsonObject | None


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of an assistant's graph on a thread.

    `kwargs` holds the RunCreate fields as the API shows them. `attempt` counts executions (1 is the first);
    it is also the fence: only the holder of the current attempt may finalise. `not_before` is when a delayed
    run becomes due. `cancel` is set from the moment somebody asked for cancellation.
    """

    run_id: str
    thread_id: str
    assistant_id: str
    graph_id: str
    status: RunStatus
    metadata: JsonObject
    kwargs: JsonObject
    multitask_strategy: MultitaskStrategy
    created_at: datetime
    updated_at: datetime
    not_before: datetime | None
    attempt: int
    cancel: CancelAction | None


@dataclass(frozen=True, slots=True)
class NewRun:
    """What create_run needs; ids and times are made by the caller so that tests can fix them."""

    run_id: str
    thread_id: str
    assistant_id: str
    graph_id: str
    metadata: JsonObject
    kwargs: JsonObject
    multitask_strategy: MultitaskStrategy
    if_not_exists: IfNotExists
    created_at: datetime
    not_before: datetime | None = None
    temporary: bool = False
    thread_metadata: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedRun:
    """A created run; `due` says that it may start now, `superseded` which runs its strategy cancels."""

    run: Run
    due: bool
    superseded: tuple[tuple[str, CancelAction], ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an execution ended, written by finalise in one transaction.

    `values` are the thread's new values as JSON text (None leaves them), `interrupts` maps task ids to
    lists of {id, value}.
    """

    status: RunStatus
    thread_status: ThreadStatus
    values_json: bytes | None = None
    interrupts: JsonObject = field(default_factory=dict)
    error: JsonObject | None = None
    thread_config: JsonObject = field(default_factory=dict)
    rolled_back: bool = False
