"""Carry one tool call from a caller to its server and turn every failure into a result, in this one place.

`carry` is a call; `ServerConnection.call` is one attempt of it. An exception would crash the graph that called.
"""

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from loguru import logger

from toolweave.errors import ServerUnavailable, ToolError, ToolTimeout
from toolweave.servers.connections import loading
from toolweave.servers.connections.call_context import CallContext
from toolweave.servers.connections.call_record import CallObserver, CallRecord, Outcome
from toolweave.servers.connections.connection import ServerConnection
from toolweave.servers.connections.redaction import in_brief

if TYPE_CHECKING:
    from mcp.types import CallToolResult


async def carry(
    connection: ServerConnection,
    tool: str,
    arguments: dict[str, Any],
    context: CallContext,
    observers: Iterable[CallObserver] = (),
) -> "CallToolResult":
    """Call a tool and return its result, `isError` with a friendly text if the call failed; tell the observers.

    The raw reason of a failure goes to the log only; its kind is kept in the result's `_meta`.
    """
    started, clock = datetime.now(UTC), time.perf_counter()
    outcome: Outcome = "cancelled"
    reason, result = "", None
    try:
        result = await connection.call(tool, arguments, context)
        outcome = "tool_error" if result.isError else "ok"
    except ToolError as failure:
        outcome = outcome_of(failure)
        reason = connection.redaction.clean(in_brief(failure.__cause__) if failure.__cause__ else str(failure))
        result = await loading.failed_result(str(failure), outcome)
    finally:
        record = CallRecord(
            server=connection.config.name,
            tool=tool,
            arguments=arguments,
            context=context,
            redaction=connection.redaction,
            started=started,
            duration_ms=round((time.perf_counter() - clock) * 1000, 2),
            attempts=1,
            outcome=outcome,
            reason=reason,
            result=result,
        )
        for observe in (log_line, *observers):
            observe(record)
    return result


def outcome_of(failure: ToolError) -> Outcome:
    """Return the taxonomy's word for a failure."""
    match failure:
        case ServerUnavailable():
            return "transport"
        case ToolTimeout():
            return "timeout"
        case _:
            return "protocol"


def log_line(record: CallRecord) -> None:
    """Write one line into the process's log: who, what, how it ended; never arguments or answers."""
    facts = {
        "server": record.server,
        "tool": record.tool,
        "outcome": record.outcome,
        "duration_ms": record.duration_ms,
    }
    logger.bind(**facts, **record.context.ids()).log(
        "WARNING" if record.reason else "INFO",
        "MCP call {}/{} {} in {} ms{}",
        record.server,
        record.tool,
        record.outcome,
        record.duration_ms,
        f": {record.reason}" if record.reason else "",
    )
