"""Turn a checked RunCreate body into the run to create (langgraph_api.md section 4.1)."""

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
from toolweave.runtime.models import IDENTITY, Assistant, JsonObject, NewRun, Run, run_identity
from toolweave.runtime.runs.engine import EmbeddedEngine

STATEFUL = body_schema("RunCreateStateful")
STATELESS = body_schema("RunCreateStateless")
# Checked like every field, and without effect: they belong to LangSmith.
IGNORED_FIELDS = ("feedback_keys", "langsmith_tracer")
# LangGraph's own switch: an answer that fits no waiting question fails the run before anything is written.
STRICT_RESUME_KEY = "__pregel_strict_resume"
CONTEXT_CONFLICT = (
    "Cannot specify both configurable and context. Give the values as context; configurable is the older way."
)
NO_THREAD_TO_RESUME = "You must provide a thread_id when resuming."
# LangGraph keeps its own working parts under such names; a client must not reach them.
RESERVED_PREFIX = "__"
# All but one: with it RemoteGraph says that the graph around it resumes, so the run goes on instead of starting over.
RESUMING_KEY = "__pregel_resuming"
CONFIG_FIELDS = frozenset(RUNS["Config"]["properties"])
THREAD_CONFIG_FIELDS = CONFIG_FIELDS - {"configurable"}
CHECKPOINT_FIELDS = ("checkpoint_id", "checkpoint_ns", "checkpoint_map")
# What tells a run where it is; the graph's context has no part of it.
RUN_KEYS = frozenset({*IDENTITY, "user_id", RESUMING_KEY, *CHECKPOINT_FIELDS})
# What a webhook hears, in the reference server's words: receivers tell the cases apart by them.
CLIENT_DISCONNECTED = "client disconnected from the run stream (on_disconnect=cancel)"


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run to create, and what the connection that asked for it wants."""

    new_run: NewRun
    cancel_on_disconnect: bool
    ignored: tuple[str, ...] = ()

    @property
    def headers(self) -> dict[str, str]:
        """Name the fields that had no effect."""
        return ignored_header(self.ignored)


def check_run_fields(body: Body, *, stateless: bool) -> None:
    """Check what the schema cannot express; endpoints call it before they look up what the fields name.

    Raises:
        BadRequest: both `context` and `config.configurable` are given, or an answer without the thread that asked.
        InvalidRequest: `checkpoint_id` is not a UUID.
    """
    if stateless and body.get("command", {}).get("resume") is not None:
        raise BadRequest(NO_THREAD_TO_RESUME)
    if (body.get("config", {}).get("configurable") or {}) and body.get("context"):
        raise BadRequest(CONTEXT_CONFLICT)
    _checkpoint_config(body)


def run_request(services: ApiServices, body: Body, assistant: Assistant, thread_id: str | None) -> RunRequest:
    """Build the run; without a thread it gets one of its own, temporary unless it is to be kept.

    Its metadata is what the graph says of itself, then the assistant's, then the caller's (in the config and beside
    it), then the authorization's.
    """
    stateless = thread_id is None
    now = datetime.now(UTC)
    identity = {"graph_id": assistant.graph_id, "assistant_id": assistant.assistant_id}
    shown = {"assistant_id": assistant.assistant_id} if stateless else identity
    given = {**body.get("metadata", {}), **current_caller().run_metadata}
    in_config: JsonObject = body.get("config", {}).get("metadata") or {}
    metadata = {**services.graphs.metadata(assistant.graph_id), **assistant.metadata, **in_config, **given, **shown}
    temporary = stateless and body.get("on_completion") != "keep"
    after = max(0, body.get("after_seconds", 0))
    new = NewRun(
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
        thread_metadata={**in_config, **given} if stateless else {**in_config, **given, **identity},
        on_threads=current_caller().run_threads,
        credentials=current_caller().credentials(),
        thread_config={name: item for name, item in body.get("config", {}).items() if name in THREAD_CONFIG_FIELDS},
    )
    new.kwargs["config"]["configurable"] |= run_identity(new)
    return RunRequest(new, body.get("on_disconnect") == "cancel", (*body.ignored, *_ignored_fields(body)))


def _run_kwargs(body: Body, assistant: Assistant, metadata: JsonObject, temporary: bool) -> JsonObject:
    config, context = _config_and_context(body, assistant)
    strict = {STRICT_RESUME_KEY: True} if body.get("strict_resume") else {}
    caller = current_caller()
    theirs = AUTH_KEYS | caller.headers.keys()
    configured = {name: value for name, value in config["configurable"].items() if name not in theirs}
    known = caller.configurable()
    config["configurable"] = {**configured, **known, **_checkpoint_config(body), **strict}
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
    """Lay the request's config and context over the assistant's; each of configurable and context shows the other."""
    given: JsonObject = body.get("config", {})
    configurable: JsonObject = given.get("configurable") or {}
    context: JsonObject = body.get("context", {})
    known = {name: value for name, value in given.items() if value is not None and name in CONFIG_FIELDS}
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
    """Name the checkpoint to go on from, as the graph's config does."""
    given: Mapping[str, Any] = body.get("checkpoint", {})
    chosen = {name: given[name] for name in CHECKPOINT_FIELDS if given.get(name) is not None}
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


def disconnect_callback(engine: EmbeddedEngine, run: Run, *, wanted: bool = True) -> OnDisconnect | None:
    """Cancel the run when its client leaves, if wanted; a run that has ended meanwhile is left alone (5.10)."""

    async def cancel() -> None:
        with suppress(NotFound):
            await engine.cancel(run.thread_id, run.run_id, "interrupt", wait=False, why=CLIENT_DISCONNECTED)

    return cancel if wanted else None
