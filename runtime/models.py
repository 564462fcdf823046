"""Name what the LangGraph API speaks of: assistants, threads, runs and the words their fields take."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
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
class Assistant:
    """One configuration of a graph (langgraph_api.md section 4); one of its versions has no `updated_at`."""

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
    """A change of an assistant; None leaves a field as it is, and so does an empty `config`.

    `context` and `config.configurable` are two names of the same values (langgraph_api.md section 4): giving one sets
    the other. A new config replaces the old one, metadata is merged key by key.
    """

    graph_id: str | None = None
    config: JsonObject | None = None
    context: JsonObject | None = None
    metadata: JsonObject | None = None
    name: str | None = None
    description: str | None = None

    def apply_to(self, assistant: Assistant) -> Assistant:
        """Give the assistant as this change leaves it; version and times are the caller's."""
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
    """Let context and `config.configurable` say the same when only one of them says something."""
    configurable: JsonObject = config.get("configurable") or {}
    if context and not configurable:
        return {**config, "configurable": context}, context
    return config, context or configurable


@dataclass(frozen=True, slots=True)
class Cron:
    """A run at set times (langgraph_api.md section 4).

    `payload` holds the request's fields, from which each firing makes its run; `next_run_at` is None when nothing is
    left to fire before `end_time`. `thread_id` None means a thread of its own for every firing, which
    `on_run_completed` deletes or keeps. `user` is what the API shows of the user for whom it fires; what else is known
    of the user is in `credentials` until the cron is stored, and then encrypted in `sealed`.
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
    """How long a thread stays after its last change, and what happens then: it goes, or only its history."""

    minutes: float
    strategy: TtlStrategy = "delete"


@dataclass(frozen=True, slots=True)
class Thread:
    """One conversation; `values`, `interrupts` and `error` mirror its newest checkpoint.

    `interrupts` is None until the thread's first run has ended: the wire form then has neither
    `interrupts` nor `error` (langgraph_api.md section 4). `expires_at` is None when nothing is to happen before the
    thread's next change.
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

    `kwargs` holds the RunCreate fields as the API shows them. `attempt` counts executions (1 is the first);
    it is also the fence: only the holder of the current attempt may finalise. `not_before` is when a delayed
    run becomes due. `cancel` is set from the moment somebody asked for cancellation. `sealed` are the encrypted
    credentials of the caller, until the run has ended.
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
    sealed: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class NewRun:
    """What create_run needs; ids and times are made by the caller so that tests can fix them.

    `on_threads` is the filter that an existing thread's metadata must pass, None for any.
    `credentials` are encrypted before they are stored; `sealed` already are, being those of the cron that fires.
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
    credentials: JsonObject = field(default_factory=dict, repr=False)
    sealed: bytes | None = field(default=None, repr=False)


# What identifies a run to its graph and to clients: both find it in `configurable`, and no caller can override it.
IDENTITY_FIELDS = ("run_id", "thread_id", "graph_id", "assistant_id")


def run_identity(run: Run | NewRun) -> JsonObject:
    """Give the ids of a run, its thread, its graph and its assistant."""
    return {name: getattr(run, name) for name in IDENTITY_FIELDS}


@dataclass(frozen=True, slots=True)
class CreatedRun:
    """A created run; `due` says that it may start now, `superseded` which runs its strategy cancels."""

    run: Run
    is_due: bool
    superseded_runs: tuple[tuple[str, CancelAction], ...] = ()


class StreamEvent(NamedTuple):
    """One event of a run or a thread, as it is stored and as listeners get it.

    `seq` counts within a run, or, for the newer protocol, within a thread; `event` is its name, `data` JSON, `id` the
    SSE id (None: the stream cannot be resumed). Events of the newer protocol have the channel and the namespace that
    subscriptions name, the whole envelope as `data`, and `detail` where the reference server has none.
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
    """How an execution ended, written by finalise in one transaction.

    `values` are the thread's new values as JSON text (None leaves them), `interrupts` maps task ids to
    lists of {id, value}. `run_metadata` is merged into the run's metadata key by key.
    """

    status: RunStatus
    thread_status: ThreadStatus
    values_json: bytes | None = None
    interrupts: JsonObject = field(default_factory=dict)
    error: JsonObject | None = None
    rolled_back: bool = False
    run_metadata: JsonObject = field(default_factory=dict)


CANCELLED_TEXT = "The run was cancelled."
# Where a failed job's metadata hold the text of its failure.
JOB_ERROR_KEY = "error"


def timestamp(moment: datetime) -> str:
    """Write a UTC moment as ISO-8601, always with microseconds and `+00:00`."""
    return moment.isoformat(timespec="microseconds")


def cancellation_error(action: CancelAction, reason: str | None) -> JsonObject:
    """Describe a cancellation as the official server does in a thread's error and in webhooks."""
    return {"error": "UserRollback" if action == "rollback" else "UserInterrupt", "message": reason or CANCELLED_TEXT}


def run_json(run: Run) -> JsonObject:
    """Give a run's JSON form."""
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
