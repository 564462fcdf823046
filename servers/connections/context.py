"""Carry who asks for a tool call, and write it as the `_meta` the server gets (T-03)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, Self
from uuid import uuid4

from opentelemetry import propagate, trace
from typing_extensions import TypedDict

if TYPE_CHECKING:
    from mcp.types import CallToolResult

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"

META_PREFIX = "toolweave/"
"""How those keys of a result's `_meta` begin that only we set."""
FAILURE_KEY = "toolweave/failure"
"""Where a failed result's `_meta` has the kind of its failure."""

QUESTIONS_KEY = "toolweave/questions"
"""Where a result's `_meta`, and the artifact of a tool message, hold the unanswered questions."""
UNCLEAR_KEY = "toolweave/doubt"
"""Where a result's `_meta` says that a question of this call, or of another one, was cancelled."""
OnProgress = Callable[[float, float | None, str | None], None]
"""Called with a call's progress: how far, of how much if that is known, and the server's words."""
AUTH_USER = "langgraph_auth_user"
"""The key of a run's `configurable` for what the application's auth handler returned; only the server sets it."""
AUTH_USER_ID = "langgraph_auth_user_id"


class Elicitation(TypedDict):
    """What a server wants to know, and the JSON schema of the flat object that answers it."""

    message: str
    requestedSchema: dict[str, Any]


class ElicitedAnswer(Elicitation):
    """A question with its answer; `content` fits the schema, and is None for a question declined."""

    action: Literal["accept", "decline"]
    content: dict[str, Any] | None


def questions_in(result: "CallToolResult") -> list[Elicitation]:
    """Return the questions of a call that were answered `cancel`."""
    return list((result.meta or {}).get(QUESTIONS_KEY, ()))


def has_unclear_question(result: "CallToolResult") -> bool:
    """Return whether a cancelled question may have been this call's."""
    return bool((result.meta or {}).get(UNCLEAR_KEY))


def unanswered_text(questions: list[Elicitation], why: str, answered: str) -> str:
    """Write what the model reads instead of the result of a call whose questions no person can answer."""
    asked = "; ".join(f"“{question['message'][:500]}”" for question in questions)
    instead = f" Without an answer it said: {answered[:1_000]}" if answered else ""
    return f"During this call the tool's server asked: {asked}. {why}{instead}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """Who makes one call and what they want beside its result; a retry of the call is the same call and keeps it.

    `configurable` is what the run was given, for header templates; it holds secrets and is never logged. `answers` are
    a person's to what the server asked when this call was issued before (S-07).
    """

    thread_id: str | None = None
    run_id: str | None = None
    user_id: str | None = None
    tool_call_id: str | None = None
    configurable: Mapping[str, Any] = field(default_factory=dict, repr=False)
    on_progress: OnProgress | None = field(default=None, repr=False)
    answers: tuple[ElicitedAnswer, ...] = field(default=(), repr=False)
    correlation_id: str = field(default_factory=lambda: uuid4().hex)

    @classmethod
    def from_configurable(
        cls,
        configurable: Mapping[str, Any],
        tool_call_id: str | None,
        answers: tuple[ElicitedAnswer, ...] = (),
        on_progress: OnProgress | None = None,
    ) -> Self:
        """Pick the ids out of a RunnableConfig's `configurable`, which also holds live objects of LangGraph."""

        def known(key: str) -> str | None:
            return str(configurable[key]) if configurable.get(key) else None

        return cls(
            thread_id=known("thread_id"),
            run_id=known("run_id"),
            user_id=user_identity(configurable),
            tool_call_id=tool_call_id,
            configurable=configurable,
            answers=answers,
            on_progress=on_progress,
        )

    def ids(self) -> dict[str, str]:
        """Return the ids that are known."""
        known = {name: getattr(self, name) for name in ("thread_id", "run_id", "user_id", "correlation_id")}
        return {name: value for name, value in known.items() if value is not None}

    def meta(self) -> dict[str, str]:
        """Return the `_meta` object of a request that leaves now.

        `idempotency_key` is there only within a run: without one, equal calls are not the same call. Nor is a call
        issued anew with answers: what a server keeps under the first key is what it did without them. `traceparent`
        and `tracestate` are there within a trace.
        """
        meta = self.ids() | {"timestamp": datetime.now(UTC).isoformat()} | trace_fields()
        if self.run_id and self.tool_call_id:
            answered = f":{len(self.answers)}" if self.answers else ""
            meta["idempotency_key"] = f"{self.run_id}:{self.tool_call_id}{answered}"
        return meta


def trace_fields() -> dict[str, str]:
    """Return `traceparent` and `tracestate` of the current span, for a request that leaves now; none without a trace.

    Baggage is not passed on: it is meant for the application's own services.
    """
    if not trace.get_current_span().get_span_context().is_valid:
        return {}
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return {name: carrier[name] for name in (TRACEPARENT, TRACESTATE) if name in carrier}


def user_identity(configurable: Mapping[str, Any]) -> str | None:
    """Return who is signed in, as the server found out; without an auth handler, the `user_id` the caller gives."""
    known = configurable.get(AUTH_USER_ID) or read_member(configurable.get(AUTH_USER), "identity")
    return str(known or configurable.get("user_id") or "") or None


def read_member(holder: Any, name: str) -> Any:
    """Read a member of a mapping, or of a user object, which has items or attributes."""
    if isinstance(holder, Mapping):
        return holder.get(name)
    try:
        return holder[name]
    except (KeyError, TypeError, IndexError, AttributeError):
        return None if name.startswith("_") else getattr(holder, name, None)
