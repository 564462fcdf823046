"""Build the run to create from a checked RunCreate body (langgraph_api.md section 4.1)."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from langchain_core.utils.uuid import uuid7

from toolweave.api.langgraph.answers import OnDisconnect
from toolweave.api.langgraph.components import body_schema
from toolweave.api.langgraph.requests import Body, ignored_header, parse_uuid
from toolweave.api.langgraph.run_schemas import RUNS
from toolweave.api.langgraph.services import ApiServices
from toolweave.errors import BadRequest, NotFound
from toolweave.runtime.caller import AUTH_KEYS, current_caller
from toolweave.runtime.models import IDENTITY_FIELDS, Assistant, JsonObject, NewRun, Run, run_identity
from toolweave.runtime.runs.engine import RunEngine

STATEFUL_RUN = body_schema("RunCreateStateful")
STATELESS_RUN = body_schema("RunCreateStateless")
# LangSmith fields, which are checked like all others but have no effect.
IGNORED_FIELDS = ("feedback_keys", "langsmith_tracer")
# LangGraph's own key: a resume value for no pending interrupt fails the run before anything is written.
STRICT_RESUME_KEY = "__pregel_strict_resume"
CONTEXT_CONFLICT = (
    "Cannot specify both configurable and context. Give the values as context; configurable is the older way."
)
NO_THREAD_TO_RESUME = "You must provide a thread_id when resuming."
# LangGraph uses such keys internally; clients must not set them.
RESERVED_PREFIX = "__"
# Except this one: RemoteGraph sends it when the graph around it resumes, so that the run continues.
RESUMING_KEY = "__pregel_resuming"
CONFIG_FIELDS = frozenset(RUNS["Config"]["properties"])
THREAD_CONFIG_FIELDS = CONFIG_FIELDS - {"configurable"}
CHECKPOINT_FIELDS = ("checkpoint_id", "checkpoint_ns", "checkpoint_map")
# Keys of configurable that identify the run or its checkpoint, which the graph's context does not contain.
RUN_KEYS = frozenset({*IDENTITY_FIELDS, "user_id", RESUMING_KEY, *CHECKPOINT_FIELDS})
# The official server's text in webhooks, by which receivers distinguish the cases.
CLIENT_DISCONNECTED = "client disconnected from the run stream (on_disconnect=cancel)"


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run to create, with the options of its connection and the names of ignored fields."""

    new_run: NewRun
    cancel_on_disconnect: bool
    ignored: tuple[str, ...] = ()

    @property
    def headers(self) -> dict[str, str]:
        """Return the header that names the ignored fields."""
        return ignored_header(self.ignored)


def check_run_fields(body: Body, *, stateless: bool) -> None:
    """Check the rules that the schema cannot express, before the endpoint looks anything up.

    Raises:
        BadRequest: the body has both `context` and `config.configurable`, or resumes without a thread.
        InvalidRequest: `checkpoint_id` is not a UUID.
    """
    if stateless and body.get("command", {}).get("resume") is not None:
        raise BadRequest(NO_THREAD_TO_RESUME)
    if (body.get("config", {}).get("configurable") or {}) and body.get("context"):
        raise BadRequest(CONTEXT_CONFLICT)
    _checkpoint_config(body)


def run_request(services: ApiServices, body: Body, assistant: Assistant, thread_id: str | None) -> RunRequest:
    """Build the run; without a `thread_id` it gets its own thread, temporary unless `on_completion` is `keep`.

    Its metadata is merged in this order: the graph's, the assistant's, the caller's (of the config, then of the body),
    the authorization's.
    """
    stateless = thread_id is None
    now = datetime.now(UTC)
    identity = {"graph_id": assistant.graph_id, "assistant_id": assistant.assistant_id}
    run_ids = {"assistant_id": assistant.assistant_id} if stateless else identity
    own = {**body.get("metadata", {}), **current_caller().run_metadata}
    in_config: JsonObject = body.get("config", {}).get("metadata") or {}
    metadata = {**services.graphs.metadata(assistant.graph_id), **assistant.metadata, **in_config, **own, **run_ids}
    temporary = stateless and body.get("on_completion") != "keep"
    after = max(0, body.get("after_seconds", 0))
    new_run = NewRun(
        run_id=str(uuid7()),
        thread_id=thread_id or str(uuid7()),
        assistant_id=assistant.assistant_id,
        graph_id=assistant.graph_id,
        metadata=metadata,
        kwargs=_run_kwargs(body, assistant, metadata, temporary),
        multitask_strategy=body.get("multitask_strategy", "enqueue"),
        if_not_exists="create" if stateless else body.get("if_not_exists", "reject"),
        created_at=now,
        not_before=now + timedelta(seconds=after) if after else None,
        temporary=temporary,
        thread_metadata={**in_config, **own} if stateless else {**in_config, **own, **identity},
        thread_filter=current_caller().thread_filter,
        credentials=current_caller().credentials(),
        thread_config={name: item for name, item in body.get("config", {}).items() if name in THREAD_CONFIG_FIELDS},
    )
    new_run.kwargs["config"]["configurable"] |= run_identity(new_run)
    return RunRequest(new_run, body.get("on_disconnect") == "cancel", (*body.ignored, *_ignored_fields(body)))


def _run_kwargs(body: Body, assistant: Assistant, metadata: JsonObject, temporary: bool) -> JsonObject:
    config, context = _config_and_context(body, assistant)
    strict = {STRICT_RESUME_KEY: True} if body.get("strict_resume") else {}
    caller = current_caller()
    server_keys = AUTH_KEYS | caller.headers.keys()
    configured = {name: value for name, value in config["configurable"].items() if name not in server_keys}
    config["configurable"] = {**configured, **caller.configurable(), **_checkpoint_config(body), **strict}
    config["metadata"] = metadata
    durability = body.get("durability") or ("async" if body.get("checkpoint_during", True) else "exit")
    modes = body.get("stream_mode") or ["values"]
    return {
        "input": body.get("input"),
        "command": body.get("command"),
        "config": config,
        "context": context,
        "stream_mode": [modes] if isinstance(modes, str) else modes,
        "interrupt_before": body.get("interrupt_before"),
        "interrupt_after": body.get("interrupt_after"),
        "webhook": body.get("webhook"),
        "feedback_keys": body.get("feedback_keys"),
        "temporary": temporary,
        "subgraphs": body.get("stream_subgraphs", False),
        "resumable": body.get("stream_resumable", False),
        "checkpoint_during": body.get("checkpoint_during", True),
        "durability": durability,
    }


def _config_and_context(body: Body, assistant: Assistant) -> tuple[JsonObject, JsonObject]:
    """Merge the request's config and context into the assistant's; configurable and context each contain both."""
    requested: JsonObject = body.get("config", {})
    configurable: JsonObject = requested.get("configurable") or {}
    context: JsonObject = body.get("context", {})
    known = {name: value for name, value in requested.items() if value is not None and name in CONFIG_FIELDS}
    overlaid = configurable or context
    config = {**assistant.config, **known}
    config["configurable"] = {
        **assistant.context,
        **(assistant.config.get("configurable") or {}),
        **{name: value for name, value in overlaid.items() if not _is_reserved(name, value)},
    }
    mirrored = {name: value for name, value in config["configurable"].items() if name not in RUN_KEYS | AUTH_KEYS}
    return config, {**mirrored, **context}


def _checkpoint_config(body: Body) -> JsonObject:
    """Return the checkpoint to start from, as keys of the graph's config."""
    requested: Mapping[str, Any] = body.get("checkpoint", {})
    chosen = {name: requested[name] for name in CHECKPOINT_FIELDS if requested.get(name) is not None}
    if "checkpoint_id" in body.fields:
        chosen["checkpoint_id"] = parse_uuid(body.fields["checkpoint_id"], "checkpoint")
    return chosen


def _ignored_fields(body: Body) -> list[str]:
    config: JsonObject = body.get("config", {})
    configurable: JsonObject = config.get("configurable") or {}
    return [
        *(name for name in IGNORED_FIELDS if name in body.fields),
        *(f"config.{name}" for name in config if name not in CONFIG_FIELDS),
        *(f"config.configurable.{name}" for name, value in configurable.items() if _is_reserved(name, value)),
    ]


def _is_reserved(name: str, value: object) -> bool:
    return name.startswith(RESERVED_PREFIX) and not (name == RESUMING_KEY and isinstance(value, bool))


def disconnect_callback(engine: RunEngine, run: Run, *, enabled: bool = True) -> OnDisconnect | None:
    """Return a callback that cancels a run that has not ended when its client disconnects (5.10), if `enabled`."""

    async def cancel() -> None:
        with suppress(NotFound):
            await engine.cancel_run(run.thread_id, run.run_id, "interrupt", wait=False, reason=CLIENT_DISCONNECTED)

    return cancel if enabled else None
