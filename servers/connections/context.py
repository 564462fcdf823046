"""The context of a tool call: its caller, its elicitation answers, and the `_meta` that the server receives (T-03)."""

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
"""The prefix of the keys in a result's `_meta` that only this client sets."""
FAILURE_KEY = "toolweave/failure"
"""The key of the kind of failure in a failed result's `_meta`."""

QUESTIONS_KEY = "toolweave/questions"
"""The key of the unanswered questions in a result's `_meta` and in a tool message's artifact."""
UNCLEAR_KEY = "toolweave/doubt"
"""The key in a result's `_meta` that marks a cancelled question of this call or of another open call."""
OnProgress = Callable[[float, float | None, str | None], None]
"""Called with the progress of a call, the total if it is known, and the server's message."""
AUTH_USER = "langgraph_auth_user"
"""The key in a run's `configurable` of the auth handler's result; only the server sets it."""
AUTH_USER_ID = "langgraph_auth_user_id"


class Elicitation(TypedDict):
    """A server's question (MCP elicitation) and the JSON schema of the flat object that answers it."""

    message: str
    requestedSchema: dict[str, Any]


class ElicitedAnswer(Elicitation):
    """A question with its answer; `content` matches the schema, or is None if the user declined."""

    action: Literal["accept", "decline"]
    content: dict[str, Any] | None


def questions_in(result: "CallToolResult") -> list[Elicitation]:
    """Return the questions of a call that this client answered with `cancel`."""
    return list((result.meta or {}).get(QUESTIONS_KEY, ()))


def has_unclear_question(result: "CallToolResult") -> bool:
    """Return whether a cancelled question came from this call or from another open call."""
    return bool((result.meta or {}).get(UNCLEAR_KEY))


def unanswered_text(questions: list[Elicitation], why: str, result_text: str) -> str:
    """Return the text for the model that replaces the result of a call whose questions no user can answer."""
    listed = "; ".join(f"“{question['message'][:500]}”" for question in questions)
    ending = f" Without an answer, the server returned: {result_text[:1_000]}" if result_text else ""
    return f"The tool's server asked for input during this call: {listed}. {why}{ending}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """The caller and options of one tool call; retries use the same context.

    `configurable` is the run's, for header templates; it holds secrets and is never logged. `answers` are a user's
    answers to the questions that the server asked when this call was made before (S-07). When the call has ended, the
    plane writes its server, `duration_ms` and attempts to `facts`.
    """

    thread_id: str | None = None
    run_id: str | None = None
    user_id: str | None = None
    tool_call_id: str | None = None
    configurable: Mapping[str, Any] = field(default_factory=dict, repr=False)
    on_progress: OnProgress | None = field(default=None, repr=False)
    answers: tuple[ElicitedAnswer, ...] = field(default=(), repr=False)
    facts: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    correlation_id: str = field(default_factory=lambda: uuid4().hex)

    @classmethod
    def from_configurable(
        cls,
        configurable: Mapping[str, Any],
        tool_call_id: str | None,
        answers: tuple[ElicitedAnswer, ...] = (),
        on_progress: OnProgress | None = None,
    ) -> Self:
        """Build the context from a RunnableConfig's `configurable`, which also holds live objects of LangGraph."""

        def read_id(key: str) -> str | None:
            return str(configurable[key]) if configurable.get(key) else None

        return cls(
            thread_id=read_id("thread_id"),
            run_id=read_id("run_id"),
            user_id=user_identity(configurable),
            tool_call_id=tool_call_id,
            configurable=configurable,
            answers=answers,
            on_progress=on_progress,
        )

    def ids(self) -> dict[str, str]:
        """Return the ids that are set."""
        ids = {name: getattr(self, name) for name in ("thread_id", "run_id", "user_id", "correlation_id")}
        return {name: value for name, value in ids.items() if value is not None}

    def meta(self) -> dict[str, str]:
        """Return the `_meta` object of a request that is sent now.

        `idempotency_key` is set within a run only: without a run, equal calls are different calls. A call that is made
        again with answers gets another key: a server may have stored the result without answers under the first key.
        `traceparent` and `tracestate` are set within a trace.
        """
        meta = self.ids() | {"timestamp": datetime.now(UTC).isoformat()} | trace_fields()
        if self.run_id and self.tool_call_id:
            answer_count = f":{len(self.answers)}" if self.answers else ""
            meta["idempotency_key"] = f"{self.run_id}:{self.tool_call_id}{answer_count}"
        return meta


def trace_fields() -> dict[str, str]:
    """Return `traceparent` and `tracestate` of the current span; empty without a trace.

    Baggage is not propagated: it is meant for the application's own services.
    """
    if not trace.get_current_span().get_span_context().is_valid:
        return {}
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return {name: carrier[name] for name in (TRACEPARENT, TRACESTATE) if name in carrier}


def user_identity(configurable: Mapping[str, Any]) -> str | None:
    """Return the identity from the auth handler; without an auth handler, the `user_id` that the caller sent."""
    identity = configurable.get(AUTH_USER_ID) or read_member(configurable.get(AUTH_USER), "identity")
    return str(identity or configurable.get("user_id") or "") or None


def read_member(holder: Any, name: str) -> Any:
    """Return an entry of a mapping, or an item or public attribute of a user object; None if there is none."""
    if isinstance(holder, Mapping):
        return holder.get(name)
    try:
        return holder[name]
    except (KeyError, TypeError, IndexError, AttributeError):
        return None if name.startswith("_") else getattr(holder, name, None)
