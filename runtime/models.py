"""Define the resources of the LangGraph API (assistants, threads, runs, crons) and the values of their fields."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import IntFlag
from typing import Any, Literal, NamedTuple

JsonObject = dict[str, Any]
Namespace = tuple[str, ...]
RunStatus = Literal["pending", "running", "success", "error", "interrupted", "timeout"]
ThreadStatus = Literal["idle", "busy", "interrupted", "error"]
MultitaskStrategy = Literal["reject", "enqueue", "interrupt", "rollback"]
CancelAction = Literal["interrupt", "rollback"]
IfNotExists = Literal["create", "reject"]
OnCompletion = Literal["delete", "keep"]
TtlStrategy = Literal["delete", "keep_latest"]
TERMINAL_STATUSES: frozenset[RunStatus] = frozenset({"success", "error", "interrupted", "timeout"})


@dataclass(frozen=True, slots=True)
class Page:
    """The part of a search's results to return, and their order; without one, the resource's default order."""

    limit: int = 10
    offset: int = 0
    sort_by: str | None = None
    sort_order: Literal["asc", "desc"] | None = None


@dataclass(frozen=True, slots=True)
class Assistant:
    """A configuration of a graph (langgraph_api.md section 4); in a list of versions `updated_at` is None."""

    assistant_id: str
    graph_id: str
    config: JsonObject
    context: JsonObject
    metadata: JsonObject
    name: str
    description: str | None
    version: int
    created_at: datetime
    updated_at: datetime | None


@dataclass(frozen=True, slots=True)
class AssistantPatch:
    """A change of an assistant; a field that is None, or an empty `config`, stays unchanged.

    `context` and `config.configurable` hold the same values (langgraph_api.md section 4): setting one sets the other. A
    new config replaces the old one; metadata is merged key by key.
    """

    graph_id: str | None = None
    config: JsonObject | None = None
    context: JsonObject | None = None
    metadata: JsonObject | None = None
    name: str | None = None
    description: str | None = None

    def apply_to(self, assistant: Assistant) -> Assistant:
        """Return the changed assistant; the caller sets its version and times."""
        config, context = mirror_context(self.config or {}, self.context or {})
        return replace(
            assistant,
            graph_id=self.graph_id or assistant.graph_id,
            config=config or assistant.config,
            context=assistant.context if self.context is None and not context else context,
            metadata={**assistant.metadata, **(self.metadata or {})},
            name=assistant.name if self.name is None else self.name,
            description=assistant.description if self.description is None else self.description,
        )


def mirror_context(config: JsonObject, context: JsonObject) -> tuple[JsonObject, JsonObject]:
    """Copy `context` to `config.configurable` or back if only one of them has values."""
    configurable: JsonObject = config.get("configurable") or {}
    if context and not configurable:
        return {**config, "configurable": context}, context
    return config, context or configurable


@dataclass(frozen=True, slots=True)
class Cron:
    """A schedule that creates runs (langgraph_api.md section 4).

    Each firing creates a run from the request fields in `payload`. `next_run_at` is None when no firing is left before
    `end_time`. If `thread_id` is None, each firing creates a thread, which `on_run_completed` deletes or keeps. `user`
    holds the public fields of the user who created the cron. The other fields are in `credentials` until the cron is
    stored, and encrypted in `sealed` afterwards.
    """

    cron_id: str
    assistant_id: str
    thread_id: str | None
    user_id: str
    schedule: str
    timezone: str | None
    end_time: datetime | None
    payload: JsonObject
    metadata: JsonObject
    on_run_completed: OnCompletion | None
    enabled: bool
    next_run_at: datetime | None
    created_at: datetime
    updated_at: datetime
    user: JsonObject | None = None
    credentials: JsonObject = field(default_factory=dict, repr=False)
    sealed: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ThreadTtl:
    """The time to live of a thread after its last change; `strategy` deletes the thread or only its history."""

    minutes: float
    strategy: TtlStrategy = "delete"


@dataclass(frozen=True, slots=True)
class Thread:
    """One conversation; `values`, `interrupts` and `error` mirror its newest checkpoint.

    `interrupts` is None until the thread's first run has ended: until then the wire form has neither `interrupts` nor
    `error` (langgraph_api.md section 4). `expires_at` is None if the thread does not expire before its next change.
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
    ttl: ThreadTtl | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of an assistant's graph on a thread.

    `kwargs` holds the RunCreate fields as the API shows them. `attempt` counts executions from 1 and is the fencing
    token: only the current attempt may finalise the run. A delayed run becomes due at `not_before`. `cancel` is set
    when a cancellation has been requested. `sealed` holds the caller's encrypted credentials until the run has ended.
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
    cancel_reason: str | None = None
    urgency: int = 0
    watch: int = 0
    sealed: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class NewRun:
    """The input of `create_run`; its caller chooses ids and times so that tests can set them.

    The metadata of an existing thread must match `thread_filter`; None matches any. `priority`, from
    -5 (first) to 5, and `fairness_group` are stored on a thread that has none; a stored priority replaces that of the
    run. Nothing is stored if `fairness_group` is None. `watch` says what other processes need of the run (`Watch`).
    `credentials` are encrypted before they are stored. `sealed` holds the credentials of the cron that fires, which are
    encrypted already.
    """

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
    thread_config: JsonObject = field(default_factory=dict)
    thread_filter: Mapping[str, Any] | None = None
    priority: int = 0
    fairness_group: str | None = None
    watch: int = 0
    credentials: JsonObject = field(default_factory=dict, repr=False)
    sealed: bytes | None = field(default=None, repr=False)


# Graphs and clients find these ids in `configurable`; callers cannot override them.
IDENTITY_FIELDS = ("run_id", "thread_id", "graph_id", "assistant_id")


def run_identity(run: Run | NewRun) -> JsonObject:
    """Return the ids of a run, its thread, its graph and its assistant."""
    return {name: getattr(run, name) for name in IDENTITY_FIELDS}


@dataclass(frozen=True, slots=True)
class CreatedRun:
    """A created run; `is_due` if it may start now. Its multitask strategy cancels `superseded_runs`."""

    run: Run
    is_due: bool
    superseded_runs: tuple[tuple[str, CancelAction], ...] = ()


class Watch(IntFlag):
    """What processes that do not execute a run need of it: its result, its events, or its thread's protocol events.

    The events of a run that is STORED can be replayed after its end.
    """

    RESULT = 1
    EVENTS = 2
    THREAD = 4
    STORED = 8
    # The worker that executes the run stores its events.
    ACKNOWLEDGED = 16


class StreamEvent(NamedTuple):
    """One event of a run or a thread, as stored and as sent to listeners.

    `seq` counts within a run, or within a thread for the newer protocol. `event` is the name, `data` JSON, `id` the SSE
    id (None: the stream cannot be resumed). For events of the newer protocol, `channel` and `namespace` are those that
    clients subscribe to, `data` is the whole envelope, and `detail` marks events that the reference server does not
    send.
    """

    seq: int
    event: str
    data: bytes
    id: str | None = None
    run_id: str = ""
    channel: str = ""
    namespace: Namespace = ()
    detail: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an execution ended; `finalise` stores it in one transaction.

    `values_json` holds the thread's new values (None leaves them unchanged). `interrupts` maps task ids to lists of
    {id, value}. `run_metadata` is merged into the run's metadata key by key.
    """

    status: RunStatus
    thread_status: ThreadStatus
    values_json: bytes | None = None
    interrupts: JsonObject = field(default_factory=dict)
    error: JsonObject | None = None
    rolled_back: bool = False
    run_metadata: JsonObject = field(default_factory=dict)


CANCELLED_TEXT = "The run was cancelled."
# The metadata key of a failed job's error message.
JOB_ERROR_KEY = "error"


def timestamp(moment: datetime) -> str:
    """Format a UTC time as ISO-8601, always with microseconds and `+00:00`."""
    return moment.isoformat(timespec="microseconds")


def cancellation_error(action: CancelAction, reason: str | None) -> JsonObject:
    """Return the error of a cancelled run, as the official server puts it in a thread's error and in webhooks."""
    return {"error": "UserRollback" if action == "rollback" else "UserInterrupt", "message": reason or CANCELLED_TEXT}


def run_json(run: Run) -> JsonObject:
    """Return a run's JSON form."""
    return {
        "run_id": run.run_id,
        "thread_id": run.thread_id,
        "assistant_id": run.assistant_id,
        "metadata": run.metadata,
        "status": run.status,
        "kwargs": run.kwargs,
        "multitask_strategy": run.multitask_strategy,
        "created_at": timestamp(run.created_at),
        "updated_at": timestamp(run.updated_at),
        "langsmith_session_name": None,
    }
