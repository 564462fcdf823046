"""Carry who asks for a tool call, and write it as the `_meta` the server gets (T-03)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self
from uuid import uuid4


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """The ids of one call; a retry of the call is the same call and keeps them."""

    thread_id: str | None = None
    run_id: str | None = None
    user_id: str | None = None
    tool_call_id: str | None = None
    correlation_id: str = field(default_factory=lambda: uuid4().hex)

    @classmethod
    def from_configurable(cls, configurable: Mapping[str, Any], tool_call_id: str | None) -> Self:
        """Pick the ids out of a RunnableConfig's `configurable`, which also holds live objects of LangGraph."""
        ids = {key: str(configurable[key]) for key in ("thread_id", "run_id", "user_id") if configurable.get(key)}
        return cls(**ids, tool_call_id=tool_call_id)

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

        `idempotency_key` is there only within a run: without one, equal calls are not the same call.
        """
        meta = self.ids() | {"timestamp": datetime.now(UTC).isoformat()}
        if self.run_id and self.tool_call_id:
            meta["idempotency_key"] = f"{self.run_id}:{self.tool_call_id}"
        return meta
