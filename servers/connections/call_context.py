"""Carry who asks for a tool call, and write it as the `_meta` the server gets (T-03)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self
from uuid import uuid4

from toolweave.servers.connections.caller_headers import identity_of
from toolweave.servers.connections.questions import Answer
from toolweave.servers.connections.tracing import trace_fields

OnProgress = Callable[[float, float | None, str | None], None]
"""Told of a call's progress: how far, of how much if that is known, and the server's words."""


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
    answers: tuple[Answer, ...] = field(default=(), repr=False)
    correlation_id: str = field(default_factory=lambda: uuid4().hex)

    @classmethod
    def from_configurable(
        cls, configurable: Mapping[str, Any], tool_call_id: str | None, answers: tuple[Answer, ...] = ()
    ) -> Self:
        """Pick the ids out of a RunnableConfig's `configurable`, which also holds live objects of LangGraph."""

        def known(key: str) -> str | None:
            return str(configurable[key]) if configurable.get(key) else None

        return cls(
            thread_id=known("thread_id"),
            run_id=known("run_id"),
            user_id=identity_of(configurable),
            tool_call_id=tool_call_id,
            configurable=configurable,
            answers=answers,
        )

    def ids(self) -> dict[str, str]:
        """Return the ids that are known."""
        known = {
            "thread_id": self.thread_id,
            "run_id": self.run_id,
            "user_id": self.user_id,
            "correlation_id": self.correlation_id,
        }
        return {key: value for key, value in known.items() if value is not None}

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
