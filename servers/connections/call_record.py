"""Keep what one tool call was and how it ended, for whoever counts, logs or shows calls (T-03)."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

from toolweave.servers.connections.call_context import CallContext
from toolweave.servers.connections.redaction import Redaction

if TYPE_CHECKING:
    from mcp.types import CallToolResult

Outcome = Literal["ok", "tool_error", "invalid_arguments", "refused", "transport", "timeout", "protocol", "cancelled"]
"""How a call ended. `tool_error`: the server answered with an error; `refused`: the breaker or a known-down server kept
it from leaving; the last four are the taxonomy's failures (mcp.md section 4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """One call that has ended; `tool` is the server's own name, `reason` the operator's text of a failure, redacted."""

    server: str
    tool: str
    arguments: dict[str, Any]
    context: CallContext
    redaction: Redaction
    started: datetime
    duration_ms: float
    attempts: int
    outcome: Outcome
    reason: str
    result: "CallToolResult | None"


class CallObserver(Protocol):
    """Something that is told of every call once it has ended; it must be quick and must not raise."""

    def __call__(self, record: CallRecord, /) -> None:
        """Take note of a call."""
        ...
